//! One part's characteristic function at equally spaced points of the contour: sums over nodes whose
//! phases are advanced by a recurrence, with a bound on the quadrature and rounding error of each.

use crate::engine::contour::cumulants::{PairNodes, Part, Source};
use crate::engine::contour::nodes::{Moment, Nodes, Tilted};
use crate::numeric::special::{LANES, ROUND, ln_add_exp};
use crate::quantity::error::Result;

/// Exact sines are recomputed after this many steps of the recurrence.
const RENEWAL: usize = 32;

/// One part along the contour.
pub(super) struct Line {
    pub(super) tilted: Tilted,
    /// A bound on |error of φ(s)/φ(c)| from the quadrature.
    pub(super) quadrature: f64,
    /// Σ ρ_j |L_j|.
    pub(super) speed: f64,
}

impl Line {
    pub(super) fn new(part: &Part, c: f64, moment: Moment, end: f64, ln_goal: f64) -> Result<Self> {
        let ln_moment = moment.ln;
        let ln_goal = ln_goal - 3.0 + ln_moment;
        let (nodes, ln_error) = match &part.source {
            Source::Pair(part) => of_pair(part, c, end, ln_goal)?,
            Source::LossDistribution(partition) => {
                let (partition, nodes) = partition.along(c, end, ln_goal - 1.0 - ln_moment)?;
                (nodes, partition.ln_error(c, ln_moment))
            }
        };
        let mut tilted = nodes.tilted(c, ln_moment);
        let speed = tilted.speed();
        // All weights have the error of the moment that they are divided by.
        tilted.first_error += speed * moment.rounding / ROUND;
        tilted.flat_error += 2.0 * moment.rounding / ROUND;
        // Counted once for φ(s), and once for the φ(c) that is subtracted.
        Ok(Self {
            tilted,
            quadrature: 2.0 * (ln_error - ln_moment).exp(),
            speed,
        })
    }

    /// Adds T ln|φ(s_n)/φ(c)|, T arg, and T ln(1 + error/modulus).
    pub(super) fn accumulate(
        &self,
        times: f64,
        step: f64,
        ln_size: &mut [f64],
        angle: &mut [f64],
        ln_excess: &mut [f64],
    ) {
        let (weight, loss) = (&self.tilted.weight, &self.tilted.loss);
        let mut spin = Spin::new(loss, step);
        // The error of blocked summation in lanes, and the growth of the recurrence's error.
        let depth = loss.len() as f64 / LANES as f64 + 24.0 + 4.0 * RENEWAL as f64;
        for n in 0..ln_size.len() {
            let y = n as f64 * step;
            if n % RENEWAL == 0 && n > 0 {
                spin.renew(loss, y);
            }
            let (re, im) = (dot(weight, &spin.re), dot(weight, &spin.im));
            // A computed zero is raised to 1e-300: the error bound is larger anyway.
            let ln_modulus = (0.5 * (2.0 * re + re * re + im * im).max(-1.0).ln_1p()).max(-690.0);
            ln_size[n] += times * ln_modulus;
            angle[n] += times * im.atan2(1.0 + re);
            let near = y * (self.tilted.first_error + depth * self.speed);
            let rounding = ROUND * near.min(self.tilted.flat_error + 2.0 * depth);
            let error = self.quadrature + rounding;
            ln_excess[n] += times * (error / ln_modulus.exp()).ln_1p();
            spin.advance();
        }
    }
}

/// Returns nodes for one order and imaginary parts up to `end`, and ln of a bound on the
/// quadrature's error.
fn of_pair(part: &PairNodes, c: f64, end: f64, ln_goal: f64) -> Result<(Nodes, f64)> {
    let partition = &part.partition;
    let span = partition.span(&[c], ln_goal - 1.0);
    let (spacing, _) = partition.spacing(c, end, ln_goal - 1.0, part.shift);
    let nodes = Nodes::new(
        &partition.pair,
        partition.boundaries[span.0].x,
        partition.boundaries[span.1].x,
        spacing,
    )?;
    let tails = ln_add_exp(
        partition.ln_tail(span.0, c, -1.0),
        partition.ln_tail(span.1, c, 1.0),
    );
    Ok((nodes, ln_add_exp(ln_goal - 1.0, tails + spacing.ln_1p())))
}

/// e^{iyL_j} − 1 for every node, with y in equal steps.
pub(super) struct Spin {
    pub(super) re: Vec<f64>,
    pub(super) im: Vec<f64>,
    /// The same values for a single step.
    turn: (Vec<f64>, Vec<f64>),
}

impl Spin {
    pub(super) fn new(loss: &[f64], step: f64) -> Self {
        let turn = loss.iter().map(|l| exp_i_minus_one(step * l)).unzip();
        Self {
            re: vec![0.0; loss.len()],
            im: vec![0.0; loss.len()],
            turn,
        }
    }

    /// Computes exact values at y.
    pub(super) fn renew(&mut self, loss: &[f64], y: f64) {
        for ((re, im), l) in self.re.iter_mut().zip(&mut self.im).zip(loss) {
            (*re, *im) = exp_i_minus_one(y * l);
        }
    }

    /// Advances by one step.
    pub(super) fn advance(&mut self) {
        turned(&mut self.re, &mut self.im, &self.turn.0, &self.turn.1);
    }
}

/// Computes (1 + re + i·im)(1 + a + ib) − 1 in place.
fn turned(re: &mut [f64], im: &mut [f64], turn_re: &[f64], turn_im: &[f64]) {
    let count = re.len();
    let im = &mut im[..count];
    let (turn_re, turn_im) = (&turn_re[..count], &turn_im[..count]);
    for j in 0..count {
        let (a, b, c, d) = (re[j], im[j], turn_re[j], turn_im[j]);
        re[j] = a + c + (a * c - b * d);
        im[j] = b + d + (a * d + b * c);
    }
}

/// Returns e^{iθ} − 1, accurate relatively.
fn exp_i_minus_one(theta: f64) -> (f64, f64) {
    let (half_sin, half_cos) = (0.5 * theta).sin_cos();
    (-2.0 * half_sin * half_sin, 2.0 * half_sin * half_cos)
}

/// Returns Σ ρ_j z_j, summed in lanes.
pub(super) fn dot(weight: &[f64], state: &[f64]) -> f64 {
    let ((weights, more), (states, other)) =
        (weight.as_chunks::<LANES>(), state.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (w, z) in weights.iter().zip(states) {
        for i in 0..LANES {
            sums[i] += w[i] * z[i];
        }
    }
    let rest: f64 = more.iter().zip(other).map(|(w, z)| w * z).sum();
    rest + sums.iter().sum::<f64>()
}
