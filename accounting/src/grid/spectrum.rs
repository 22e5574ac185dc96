//! The transform of the composed, tilted law: a product of powers, with a bound on its error.

use super::cells::Lattice;
use crate::contour::nodes::Sum;
use crate::error::{Error, Result};
use crate::special::ROUND;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Relative error in the 2-norm of one transform of length N, over log2 N (Higham 2002,
/// Theorem 24.2, gives less than 7 roundings for radix two; mixed radices do no worse).
const TRANSFORM_ERROR: f64 = 10.0 * ROUND;
/// Products of frequencies and masses that exact sums may cost.
const BUDGET: f64 = 2e8;

/// Relative error in the 2-norm of a transform of length `n`.
pub(crate) fn transform_error(n: usize) -> f64 {
    TRANSFORM_ERROR * (n as f64).log2().max(1.0)
}

/// ln and angle of Π_i F_i(k)^{T_i} at k = 0..=N/2, with the logarithm of one plus a bound on the
/// relative error.
pub(crate) struct Spectrum {
    n: usize,
    ln_size: Vec<f64>,
    angle: Vec<f64>,
    ln_excess: Vec<f64>,
    forward: Arc<dyn RealToComplex<f64>>,
    /// Index of the line that entry 0 of the composed law stands for.
    pub(crate) shift: i64,
    /// Σ T_i o_i: where line 0 lies.
    pub(crate) origin: f64,
    /// K(θ) of the composed measure, and a bound on its error.
    pub(crate) front: f64,
    pub(crate) front_error: f64,
    /// How far the composed losses may be from their lines.
    pub(crate) nudge: f64,
}

impl Spectrum {
    pub(crate) fn new(n: usize) -> Self {
        let bins = n / 2 + 1;
        Self {
            n,
            ln_size: vec![0.0; bins],
            angle: vec![0.0; bins],
            ln_excess: vec![0.0; bins],
            forward: RealFftPlanner::<f64>::new().plan_fft_forward(n),
            shift: 0,
            origin: 0.0,
            front: 0.0,
            front_error: 0.0,
            nudge: 0.0,
        }
    }

    /// Multiplies by the `times`-th power of a step's transform under the tilt θ; a relative
    /// accuracy of e^`ln_goal` is enough.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when indices grow beyond exact integers.
    pub(crate) fn multiply(
        &mut self,
        step: &Lattice,
        theta: f64,
        times: u64,
        ln_goal: f64,
    ) -> Result<()> {
        let (ln_moment, mean) = step.moment(theta);
        let centre = ((mean - step.lines.origin) / step.lines.spacing).round() as i64;
        let tilted = Tilted::new(step, theta, ln_moment, centre);
        let repeats = times as f64;
        self.front += repeats * ln_moment;
        // The computed moment only scales: what counts is how exactly the masses were scaled by it.
        self.front_error += repeats * tilted.relative + 4.0 * ROUND * self.front.abs();
        self.origin += repeats * step.lines.origin;
        self.nudge += repeats * step.nudge;
        let moved = i64::try_from(times)
            .ok()
            .and_then(|t| t.checked_mul(centre));
        let shift = moved.and_then(|moved| self.shift.checked_add(moved));
        self.shift = shift
            .filter(|shift| shift.unsigned_abs() < 1 << 52)
            .ok_or_else(|| Error::NotCertified {
                what: "the grid",
                why: "its indices outgrow exact integers".into(),
            })?;
        self.raise(&tilted, repeats, ln_goal);
        Ok(())
    }

    fn raise(&mut self, tilted: &Tilted, times: f64, ln_goal: f64) {
        let n = self.n;
        let mut input = vec![0.0; n];
        for (index, mass) in &tilted.masses {
            input[index.rem_euclid(n as i64) as usize] += mass;
        }
        let norm = input.iter().map(|x| x * x).sum::<f64>().sqrt();
        let worst = transform_error(n) * (n as f64).sqrt() * norm * 1.01;
        let mut output = self.forward.make_output_vec();
        let mut scratch = self.forward.make_scratch_vec();
        // The lengths agree by construction.
        let done = self
            .forward
            .process_with_scratch(&mut input, &mut output, &mut scratch);
        debug_assert!(done.is_ok(), "lengths agree");
        let mut allowed = BUDGET / tilted.masses.len().max(1) as f64;
        let circle = Circle::new(n);
        for (k, rough) in output.iter().enumerate() {
            let (mut re, mut im, mut error) = (rough.re, rough.im, worst);
            let size = re.hypot(im);
            let power = times * (size + worst).ln();
            if power > ln_goal && times * worst > ln_goal.exp() && allowed >= 1.0 {
                (re, im) = tilted.transform(k, &circle);
                error = 12.0 * ROUND;
                allowed -= 1.0;
            }
            // ln |F| near 1 from the square, whose distance from 1 keeps its digits.
            let square = re * re + im * im;
            let ln = if square > 0.25 && square < 4.0 {
                0.5 * (square - 1.0).ln_1p()
            } else {
                0.5 * square.max(1e-300).ln()
            };
            self.ln_size[k] += times * ln;
            self.angle[k] += times * im.atan2(re);
            let each = (error + 6.0 * ROUND) / ln.exp().max(1e-150);
            self.ln_excess[k] += times * each.ln_1p() + 4.0 * ROUND * self.angle[k].abs();
        }
    }

    /// The composed, tilted law, and a bound on the error of each of its entries and on that of
    /// all of them in the 2-norm.
    pub(crate) fn invert(self) -> (Vec<f64>, f64, f64) {
        let n = self.n;
        let mut bins: Vec<Complex<f64>> = Vec::with_capacity(self.ln_size.len());
        let mut error = 0.0;
        for (k, ((ln, angle), excess)) in self
            .ln_size
            .iter()
            .zip(&self.angle)
            .zip(&self.ln_excess)
            .enumerate()
        {
            let size = ln.exp();
            let (sin, cos) = angle.sin_cos();
            bins.push(Complex::new(size * cos, size * sin));
            let times = if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
            error += times
                * if *excess < 1.0 {
                    size * excess.exp_m1()
                } else {
                    (ln + excess).exp()
                };
        }
        // The transform of real numbers is real at both ends.
        if let Some(first) = bins.first_mut() {
            first.im = 0.0;
        }
        if let Some(last) = bins.last_mut() {
            last.im = 0.0;
        }
        let norm = bins.iter().map(|z| 2.0 * z.norm_sqr()).sum::<f64>().sqrt() / (n as f64).sqrt();
        let inverse = RealFftPlanner::<f64>::new().plan_fft_inverse(n);
        let mut law = inverse.make_output_vec();
        let done = inverse.process(&mut bins, &mut law);
        debug_assert!(done.is_ok(), "lengths agree");
        let scale = 1.0 / n as f64;
        for mass in &mut law {
            *mass *= scale;
        }
        (law, error * scale, 1.01 * transform_error(n) * norm)
    }
}

/// The tilted masses F_i ∝ e^{w + θv}, by index from the centre.
struct Tilted {
    masses: Vec<(i64, f64)>,
    /// Bound on the relative error of a mass, averaged.
    relative: f64,
}

impl Tilted {
    fn new(step: &Lattice, theta: f64, ln_moment: f64, centre: i64) -> Self {
        let mut masses = Vec::new();
        let mut relative = 0.0;
        for (index, w) in &step.weights {
            let tilt = theta * step.lines.at(*index);
            let mass = (w + tilt - ln_moment).exp();
            if mass > 0.0 {
                masses.push((index - centre, mass));
                relative += mass * ROUND * (8.0 + 2.0 * w.abs() + 4.0 * tilt.abs());
            }
        }
        Self { masses, relative }
    }

    /// The transform at k, each term exact to a few roundings, the sum compensated.
    fn transform(&self, k: usize, circle: &Circle) -> (f64, f64) {
        let (mut re, mut im) = (Sum::default(), Sum::default());
        for (index, mass) in &self.masses {
            let (sin, cos) = circle.at(index.wrapping_mul(k as i64));
            re.add(mass * cos);
            im.add(-mass * sin);
        }
        (re.value(), im.value())
    }
}

/// Sines and cosines of 2πm/N for any integer m, from two tables.
struct Circle {
    n: i64,
    coarse: Vec<(f64, f64)>,
    fine: Vec<(f64, f64)>,
}

/// Entries of the finer table.
const FINE: i64 = 1024;

impl Circle {
    fn new(n: usize) -> Self {
        let turn = |m: usize| (TAU * (m as f64 / n as f64)).sin_cos();
        Self {
            n: n as i64,
            coarse: (0..n.div_ceil(FINE as usize))
                .map(|m| turn(m * FINE as usize))
                .collect(),
            fine: (0..(FINE as usize).min(n)).map(turn).collect(),
        }
    }

    fn at(&self, m: i64) -> (f64, f64) {
        let m = m.rem_euclid(self.n);
        let (a, b) = (
            self.coarse[(m / FINE) as usize],
            self.fine[(m % FINE) as usize],
        );
        (a.0 * b.1 + a.1 * b.0, a.1 * b.1 - a.0 * b.0)
    }
}
