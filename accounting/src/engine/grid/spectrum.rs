//! The transform of the composed, tilted law: a product of powers, with a bound on its error.

use super::blocks::{Blocks, Circle, IN_HALVES, transform_error};
use super::cells::Lattice;
use crate::numeric::special::ROUND;
use crate::quantity::error::{Error, Result};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex;
use std::f64::consts::PI;

/// The most products of frequencies and masses in exact sums: one unit of work.
const BUDGET: f64 = 2e8;
/// The number of values whose transforms, and the number of frequencies whose powers, take one unit of
/// work: about a quarter of a second of processor time.
const WORK: (f64, f64) = (1e7, 8e5);

/// The mass of a line from which on its part of each frequency is kept apart: the error of the others' transform is
/// relative to their mass alone.
const HEAVY: f64 = 0.95;

/// ln and angle of Π_i F_i(k)^{T_i} from k = 0 on, with the logarithm of one plus a bound on the relative
/// error.
pub(crate) struct Spectrum {
    /// The number of lines on the circle.
    pub(crate) lines: i64,
    circle: Circle,
    /// The number of frequencies kept; the arrays have this length once there is a law.
    bins: usize,
    ln_size: Vec<f64>,
    angle: Vec<f64>,
    ln_excess: Vec<f64>,
    /// A bound on the other errors of all frequencies together, in the 2-norm.
    noise: f64,
    /// The index of the line that entry 0 of the composed law represents.
    pub(crate) shift: i64,
    /// Σ T_i o_i, the position of line 0.
    pub(crate) origin: f64,
    /// K(θ) of the composed measure, and a bound on its error.
    pub(crate) front: f64,
    pub(crate) front_error: f64,
    /// The largest distance of the composed losses from their lines.
    pub(crate) nudge: f64,
    /// The same per line from the origin, relatively.
    pub(crate) stretch: f64,
    /// The work of transforms and exact sums; see [`WORK`].
    pub(crate) work: f64,
}

impl Spectrum {
    /// Creates a spectrum of all frequencies on a circle of n lines.
    pub(crate) fn new(n: usize) -> Self {
        Self::with(n as i64, n, n / 2 + 1)
    }

    /// Creates a spectrum of the `count` lowest frequencies, a power of two, on a circle of `lines`
    /// lines.
    pub(crate) fn lowest(lines: i64, count: usize) -> Self {
        let blocks = (lines as u64).min(8 * count as u64) as usize;
        Self::with(lines, blocks, count)
    }

    fn with(lines: i64, blocks: usize, bins: usize) -> Self {
        Self {
            lines,
            circle: Circle::new(blocks),
            bins,
            ln_size: Vec::new(),
            angle: Vec::new(),
            ln_excess: Vec::new(),
            noise: 0.0,
            shift: 0,
            origin: 0.0,
            front: 0.0,
            front_error: 0.0,
            nudge: 0.0,
            stretch: 0.0,
            work: 0.0,
        }
    }

    /// Multiplies by the `times`-th power of a step's transform under the tilt θ, for which a relative
    /// accuracy of e^`ln_goal` suffices.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if indices grow beyond exact integers.
    pub(crate) fn multiply(
        &mut self,
        step: &Lattice,
        mut tilted: Tilted,
        times: u64,
        ln_goal: f64,
    ) -> Result<()> {
        let repeats = times as f64;
        // Where blocks are several lines wide, frequencies aren't known more closely anyway.
        let heavy = (self.lines == self.circle.n)
            .then(|| tilted.without_heavy())
            .flatten();
        self.front += repeats * tilted.ln_moment;
        // The computed moment only scales; what counts is how exactly the masses were scaled by it.
        self.front_error += repeats * tilted.relative + 4.0 * ROUND * self.front.abs();
        self.origin += repeats * step.lines.origin;
        self.nudge += repeats * step.nudge;
        self.stretch = self.stretch.max(step.stretch);
        let moved = i64::try_from(times)
            .ok()
            .and_then(|t| t.checked_mul(tilted.centre));
        let shift = moved.and_then(|moved| self.shift.checked_add(moved));
        self.shift = shift
            .filter(|shift| shift.unsigned_abs() < 1 << 52)
            .ok_or_else(|| Error::NotCertified {
                what: "the grid",
                why: "its indices outgrow exact integers".into(),
            })?;
        self.raise(tilted, heavy, repeats, ln_goal);
        Ok(())
    }

    /// Multiplies by the `times`-th power of the transform of `tilted` and of a `heavy` line at its centre.
    fn raise(&mut self, tilted: Tilted, heavy: Option<f64>, times: f64, ln_goal: f64) {
        let rest = match heavy {
            Some(mass) => (1.0 - mass).abs() + tilted.relative,
            None => 1.0,
        };
        let blocks = Blocks::new(&tilted.masses, self.lines, self.circle.n as usize);
        drop(tilted);
        let (rough, worst) = blocks.all(self.bins);
        self.work += blocks.transformed() / WORK.0 + self.bins as f64 / WORK.1;
        for array in [&mut self.ln_size, &mut self.angle, &mut self.ln_excess] {
            array.resize(self.bins, 0.0);
        }
        let mut allowed = BUDGET / blocks.cost();
        // `worst` bounds the error of all frequencies together in the 2-norm. If powers are hardly
        // affected, this is stronger than the same bound on each.
        let together = blocks.whole_circle() && times * worst < 1e-3;
        let mut largest = f64::NEG_INFINITY;
        for (k, rough) in rough.iter().enumerate() {
            let (mut re, mut im) = (rough.re, rough.im);
            let mut error = if together { 0.0 } else { worst };
            let ln_size = ((heavy.unwrap_or(0.0) + re).hypot(im) + worst).ln();
            let matters = times * ln_size > ln_goal && times * worst > ln_goal.exp();
            if matters && allowed >= 1.0 {
                (re, im) = blocks.at(k, &self.circle);
                error = 16.0 * ROUND * rest;
                allowed -= 1.0;
                self.work += blocks.taken() / BUDGET;
            } else {
                largest = largest.max((times - 1.0) * ln_size);
            }
            let power = match heavy {
                Some(mass) => Logarithm::beside(mass, re, im),
                None => Logarithm::of(re, im),
            };
            self.ln_size[k] += times * power.ln;
            self.angle[k] += times * power.angle;
            let each = error / power.ln.exp().max(1e-150) + power.rounding;
            let once = ROUND * (8.0 + 2.0 * self.ln_size[k].abs() + 4.0 * self.angle[k].abs());
            self.ln_excess[k] += times * each.ln_1p() + once;
        }
        if together {
            // |a^T − b^T| ≤ T max(|a|, |b|)^{T−1} |a − b|; other factors are below 1.01.
            self.noise += 1.02 * times * largest.exp() * worst;
        }
    }

    /// Returns the powers, each with a bound on its error.
    pub(crate) fn powers(&self) -> impl Iterator<Item = (Complex<f64>, f64)> + '_ {
        let entries = self.ln_size.iter().zip(&self.angle).zip(&self.ln_excess);
        entries.map(|((ln, angle), excess)| {
            let size = ln.exp();
            let error = if *excess < 1.0 {
                size * excess.exp_m1()
            } else {
                (ln + excess).exp()
            };
            (Complex::from_polar(size, *angle), error)
        })
    }

    /// Returns the composed, tilted law, and bounds on the error of each of its entries and on that of
    /// all of them in the 2-norm.
    pub(crate) fn invert(self) -> (Vec<f64>, f64, f64) {
        let n = self.lines as usize;
        let mut bins: Vec<Complex<f64>> = Vec::with_capacity(self.ln_size.len());
        let mut error = 0.0;
        for (k, (power, each)) in self.powers().enumerate() {
            bins.push(power);
            error += each * if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
        }
        let noise = self.noise / (n as f64).sqrt();
        drop(self);
        // The transform of real numbers is real at both ends.
        if let Some(first) = bins.first_mut() {
            first.im = 0.0;
        }
        if let Some(last) = bins.last_mut() {
            last.im = 0.0;
        }
        let norm = bins.iter().map(|z| 2.0 * z.norm_sqr()).sum::<f64>().sqrt() / (n as f64).sqrt();
        let mut law = if n >= IN_HALVES {
            inverse_in_halves(bins)
        } else {
            inverse(bins)
        };
        let scale = 1.0 / n as f64;
        for mass in &mut law {
            *mass *= scale;
        }
        (law, error * scale, 1.01 * transform_error(n) * norm + noise)
    }
}

/// Returns n real numbers from their n/2 + 1 frequencies, times n.
fn inverse(mut bins: Vec<Complex<f64>>) -> Vec<f64> {
    let inverse = RealFftPlanner::<f64>::new().plan_fft_inverse(2 * (bins.len() - 1));
    let mut law = inverse.make_output_vec();
    let done = inverse.process(&mut bins, &mut law);
    debug_assert!(done.is_ok(), "lengths agree");
    law
}

/// Returns the same, computing numbers at even and odd places separately: the planner's tables take half
/// the memory. This is one layer of the same transform, so its bound holds.
fn inverse_in_halves(bins: Vec<Complex<f64>>) -> Vec<f64> {
    let half = bins.len() - 1;
    let of = |odd: bool| {
        let folded = (0..=half / 2).map(|k| {
            // The frequency half a circle farther is that of a real number.
            let (here, beyond) = (bins[k], bins[half - k].conj());
            if odd {
                Complex::from_polar(1.0, PI * k as f64 / half as f64) * (here - beyond)
            } else {
                here + beyond
            }
        });
        let mut folded: Vec<Complex<f64>> = folded.collect();
        // These are real in exact arithmetic: the sum of two conjugates, and i times the difference of
        // two.
        folded[0].im = 0.0;
        folded[half / 2].im = 0.0;
        inverse(folded)
    };
    let (even, odd) = (of(false), of(true));
    drop(bins);
    even.into_iter()
        .zip(odd)
        .flat_map(<[f64; 2]>::from)
        .collect()
}

/// ln |F| and the angle of a frequency F, with a bound on the rounding errors of both together.
#[derive(Debug, Clone, Copy)]
struct Logarithm {
    ln: f64,
    angle: f64,
    rounding: f64,
}

impl Logarithm {
    fn of(re: f64, im: f64) -> Self {
        // ln |F| near 1 is computed from the square, whose distance from 1 keeps its digits.
        let square = re * re + im * im;
        let ln = if square > 0.25 && square < 4.0 {
            0.5 * (square - 1.0).ln_1p()
        } else {
            0.5 * square.max(1e-300).ln()
        };
        Self {
            ln,
            angle: im.atan2(re),
            rounding: 6.0 * ROUND / ln.exp().max(1e-150),
        }
    }

    /// Returns the logarithm of m + r = m (1 + g) for m ≥ [`HEAVY`] and m + |r| ≤ 1, up to roundings.
    ///
    /// With |g| ≤ (1 − m)/m ≤ 0.053 the errors of g, of 2 Re g + |g|², of the logarithm and of the angle add up to less
    /// than 19 roundings of |g|, and those of ln m to less than 6 of itself.
    fn beside(mass: f64, re: f64, im: f64) -> Self {
        let (re, im) = (re / mass, im / mass);
        let ln_mass = mass.ln();
        Self {
            ln: ln_mass + 0.5 * (2.0 * re + (re * re + im * im)).ln_1p(),
            angle: im.atan2(1.0 + re),
            rounding: ROUND * (32.0 * re.hypot(im) + 8.0 * ln_mass.abs()),
        }
    }
}

/// The tilted masses F_i ∝ e^{w + θv}, by index relative to the centre.
pub(crate) struct Tilted {
    pub(crate) masses: Vec<(i64, f64)>,
    /// The index of the line nearest to the mean.
    centre: i64,
    /// K(θ).
    ln_moment: f64,
    /// A bound on the relative error of a mass, averaged.
    relative: f64,
}

impl Tilted {
    pub(crate) fn new(step: &Lattice, theta: f64) -> Self {
        let (ln_moment, mean) = step.moment(theta);
        let centre = ((mean - step.lines.origin) / step.lines.spacing).round() as i64;
        let mut masses = Vec::with_capacity(step.weights.len());
        let mut relative = 0.0;
        for (index, w) in &step.weights {
            let tilt = theta * step.lines.at(*index);
            let mass = (w + tilt - ln_moment).exp();
            if mass > 0.0 {
                masses.push((index - centre, mass));
                relative += mass * ROUND * (8.0 + 2.0 * w.abs() + 4.0 * tilt.abs());
            }
        }
        Self {
            masses,
            centre,
            ln_moment,
            relative,
        }
    }

    /// Makes a line with nearly all of the mass the centre, and takes its mass away.
    fn without_heavy(&mut self) -> Option<f64> {
        let heaviest = |a: &usize, b: &usize| self.masses[*a].1.total_cmp(&self.masses[*b].1);
        let most = (0..self.masses.len()).max_by(heaviest)?;
        let (index, mass) = self.masses[most];
        if mass < HEAVY {
            return None;
        }
        self.masses.remove(most);
        for (other, _) in &mut self.masses {
            *other -= index;
        }
        self.centre += index;
        Some(mass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::sum::Sum;

    /// Lines in two halves are transformed there and back as all at once, to roundings.
    #[test]
    fn halves_are_a_transform() {
        let n = 256;
        let masses: Vec<(i64, f64)> = (-90..120)
            .map(|i| (i, (f64::from(i as i32) * 0.7).sin() + 1.1))
            .collect();
        let blocks = Blocks::new(&masses, n, n as usize);
        let ((whole, worst), (halves, bound)) = (blocks.all(129), blocks.in_halves(129));
        assert!(
            worst > 0.0 && (bound / worst - 1.0).abs() < 1e-12,
            "{worst} {bound}"
        );
        for (a, b) in whole.iter().zip(&halves) {
            assert!((a - b).norm() <= worst + bound, "{a} {b}");
        }
        let (all, apart) = (inverse(whole), inverse_in_halves(halves));
        assert_eq!(all.len(), apart.len());
        for (i, (a, b)) in all.iter().zip(&apart).enumerate() {
            let mass = masses
                .iter()
                .find(|(place, _)| place.rem_euclid(n) == i as i64);
            let expected = n as f64 * mass.map_or(0.0, |(_, mass)| *mass);
            assert!(
                (a - expected).abs() < 1e-10 && (b - expected).abs() < 1e-10,
                "{a} {b} {expected}"
            );
        }
    }

    /// Against the series of ln(1 + g), of numbers whose quotient and first power are exact.
    #[test]
    fn logarithms_beside_a_heavy_line_are_exact_to_the_light_part() {
        let mut largest = 0.0f64;
        for mass in [61.0 / 64.0, 63.0 / 64.0, 1.0 - 2f64.powi(-20), 1.0] {
            for (a, b) in [
                (1, 0),
                (-1, 0),
                (0, 1),
                (13, -29),
                (-40, 17),
                (-33, -34),
                (48, 2),
            ] {
                for scale in [0, 7, 23, 60] {
                    let unit = 2f64.powi(-10 - scale);
                    let g = Complex::new(f64::from(a) * unit, f64::from(b) * unit);
                    let (mut re, mut im) = (Sum::default(), Sum::default());
                    let mut power = -g;
                    for n in 1..20 {
                        re.add(-power.re / f64::from(n));
                        im.add(-power.im / f64::from(n));
                        power *= -g;
                    }
                    let found = Logarithm::beside(mass, g.re * mass, g.im * mass);
                    let off = (found.ln - mass.ln() - re.value()).abs();
                    let off = off.max((found.angle - im.value()).abs());
                    // The sum with ln m is rounded once more.
                    let light = ROUND * 32.0 * g.norm() + 2.0 * ROUND * mass.ln().abs();
                    assert!(off <= light, "{mass} {g}: {off:e}");
                    assert!(off <= found.rounding);
                    largest = largest.max(off / (ROUND * g.norm()));
                }
            }
        }
        assert!(largest > 0.4, "{largest}");
    }
}
