//! The certified sum along the contour.
//!
//! With F the integrand and step η, the full sum (η/2π) Σ F(c + inη) equals the true value plus
//! aliases, all of them positive (Poisson summation of a positive function). Therefore upper = Σ_{|n| ≤
//! M} + R_y + R_F and lower = the same sum − aliases − R_y − R_F, with R_y the omitted terms and R_F
//! the quadrature and rounding errors of the included terms.

use super::cumulants::{AnyDecay, CumulantFunction};
use super::kernel::Kernel;
use super::nodes::Moment;
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{ROUND, ln_add_exp};
use crate::quantity::error::Result;
use line::Line;
use std::f64::consts::{PI, TAU};

mod hits;
mod line;
#[cfg(test)]
mod tests;

/// The most terms times nodes in a single inversion (about 50 ms).
const BUDGET: f64 = 3e7;
/// The most terms in a single inversion.
const MOST_TERMS: f64 = 30_000.0;

/// The integrand along one contour, reusable for every ε near the one it was made for.
#[derive(Debug, Clone)]
pub(crate) struct Contour {
    kernel: Kernel,
    c: f64,
    step: f64,
    /// K(c) and a bound on its error.
    front: (f64, f64),
    /// φ(s_n)^T/φ(c)^T times the kernel's factor, n = 0, 1, …
    terms: Vec<(f64, f64)>,
    /// Σ |terms|, with the multiplicities of the sum.
    size: f64,
    /// A bound on Σ |error of the terms|.
    error: f64,
    /// Σ y |terms|, counting each term once; the rounding error of phases is proportional to it.
    swept: f64,
    /// A bound on the omitted terms.
    rest: f64,
    /// For the aliases above and below: (order, ln of the certified bound at ε = 0).
    alias: [(f64, f64); 2],
    /// The number of quadrature nodes of all parts.
    nodes: usize,
    /// For outcomes that aren't among the terms: an order and ln of Chernoff's bound for them at ε = 0.
    quiet: Option<(f64, f64)>,
}

/// A sum along the contour with the bounds on its errors, in units of e^`ln_front`; the error of the
/// front is that of its logarithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces {
    pub(crate) ln_front: f64,
    pub(crate) front: f64,
    pub(crate) middle: f64,
    pub(crate) rest: f64,
    pub(crate) terms: f64,
    pub(crate) summation: f64,
    pub(crate) alias: f64,
}

/// The targets of a contour.
struct Aim {
    /// ln of the requested error, relative to e^{K(c) − ε(c−1)}.
    ln_goal: f64,
    /// Approximately ln Σ|terms|, relative to the same.
    ln_size: f64,
    /// K''(c).
    variance: f64,
}

impl Contour {
    /// Prepares the inversion at `epsilon`, aiming at an absolute error of e^`ln_goal`.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if an order is out of reach, or if too many terms or
    /// nodes would be needed.
    pub(crate) fn new(
        cumulants: &CumulantFunction,
        kernel: Kernel,
        epsilon: f64,
        ln_goal: f64,
    ) -> Result<Self> {
        let saddle = cumulants
            .saddle(kernel, epsilon)
            .ok_or_else(CumulantFunction::out_of_reach)?;
        let c = temper(cumulants, kernel, epsilon, saddle);
        let (mut contour, tilts, aim) = Self::begun(cumulants, kernel, (epsilon, c), ln_goal)?;
        let end = contour.choose_end(cumulants, &tilts, aim.variance, aim.ln_goal)?;
        contour.sum_terms(cumulants, &tilts, end, aim.ln_goal - aim.ln_size)?;
        Ok(contour)
    }

    /// Creates a contour at order c with its step but without terms; also returns each part's moment,
    /// and the targets.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the losses hardly vary as numbers, or beyond all numbers.
    fn begun(
        cumulants: &CumulantFunction,
        kernel: Kernel,
        (epsilon, c): (f64, f64),
        ln_goal: f64,
    ) -> Result<(Self, Vec<Moment>, Aim)> {
        let (front, tilts) = cumulants.certified(c);
        let variance = cumulants.moment(c).second;
        let curvature = variance + Kernel::ln_factor_slopes(c).1;
        let ln_size = -(c * (c - 1.0).abs()).ln() - 0.5 * (TAU * curvature).ln();
        if !ln_size.is_finite() {
            return Err(CumulantFunction::out_of_reach());
        }
        let ln_goal =
            (ln_goal - front.ln + epsilon * (c - 1.0) - 2.0).clamp(ln_size - 60.0, ln_size - 3.0);
        let mut contour = Self {
            kernel,
            c,
            step: 0.0,
            front: (front.ln, front.error),
            terms: Vec::new(),
            size: 0.0,
            error: 0.0,
            swept: 0.0,
            rest: 0.0,
            alias: [(c, 0.0); 2],
            nodes: 0,
            quiet: None,
        };
        contour.choose_step(cumulants, epsilon, curvature.sqrt(), ln_goal);
        let aim = Aim {
            ln_goal,
            ln_size,
            variance,
        };
        Ok((contour, tilts, aim))
    }

    /// Widens the period Δ = 2π/η until the aliases weigh at most e^`ln_goal` of the front.
    fn choose_step(
        &mut self,
        cumulants: &CumulantFunction,
        epsilon: f64,
        spread: f64,
        ln_goal: f64,
    ) {
        let mut period = spread * (-2.0 * ln_goal).max(1.0).sqrt();
        for _ in 0..24 {
            self.step = TAU / period;
            for (slot, sign) in [(0, 1.0), (1, -1.0)] {
                let from = self.alias[slot].0;
                let order = cumulants.lean(self.kernel, epsilon + sign * period, Some(from));
                self.alias[slot] = (
                    order,
                    self.kernel.ln_chernoff(order) + cumulants.ceiling(order),
                );
            }
            let alias = self.ln_alias(epsilon);
            if alias <= ln_goal {
                return;
            }
            // The logarithm grows slightly faster than the period.
            let short = if alias < 0.0 { ln_goal / alias } else { 1.5 };
            period *= short.powf(0.8).clamp(1.1, 2.5);
        }
    }

    /// Returns ln of a bound on the aliases relative to e^{K(c) − ε(c−1)}.
    ///
    /// The alias at ε + jΔ is e^{(c−1)jΔ} times the average there, which Chernoff bounds at any order
    /// c': together e^{K(c') − ε(c'−1) − (c'−c)jΔ}, a geometric series in j.
    fn ln_alias(&self, epsilon: f64) -> f64 {
        let period = TAU / self.step;
        let mut total = f64::NEG_INFINITY;
        for ((order, ln_bound), sign) in self.alias.iter().zip([1.0, -1.0]) {
            let ratio = -sign * (order - self.c) * period;
            if ratio >= 0.0 {
                return f64::INFINITY;
            }
            let series = ratio - crate::numeric::special::ln_one_minus_exp(ratio);
            let front = self.front.0 - self.front.1 - epsilon * (self.c - 1.0);
            total = ln_add_exp(total, ln_bound - epsilon * (order - 1.0) - front + series);
        }
        total
    }

    /// Returns the y beyond which the terms weigh at most e^`ln_goal` of the front, and sets the bound
    /// on the omitted terms.
    ///
    /// Starting at the first y from which bending the line bounds all further terms, blocks are added
    /// backwards as long as their sum stays below the goal.
    fn choose_end(
        &mut self,
        cumulants: &CumulantFunction,
        tilts: &[Moment],
        variance: f64,
        ln_goal: f64,
    ) -> Result<f64> {
        const RATIO: f64 = 1.2;
        let step = self.step;
        let ln_factor = |y: f64| {
            // Σ η/|s(s−1)| over nodes beyond y is at most (1 + η/y)/y.
            -0.5 * cumulants.gaussian * y * y - (PI * y).ln() + (step / y).ln_1p()
        };
        let mut decays: Vec<(f64, AnyDecay<'_>)> = cumulants
            .parts
            .iter()
            .zip(tilts)
            .map(|(part, tilt)| (part.times, part.decay(self.c, tilt.ln)))
            .collect();
        let farthest = MOST_TERMS * step;
        let single = decays.len() == 1;
        let first = ((-2.0 * ln_goal).max(1.0) / variance).sqrt();
        let boundary = |block: i32| first * RATIO.powi(block);
        let mut beyond = |block: i32| {
            let y = boundary(block);
            // Only a single part knows what is enough.
            let enough = if single {
                (ln_goal - 1.0 - ln_factor(y)) / decays[0].0
            } else {
                f64::NEG_INFINITY
            };
            let bent = decays
                .iter_mut()
                .map(|(times, decay)| *times * decay.bent(y, enough.exp()).ln());
            ln_factor(y) + bent.sum::<f64>()
        };
        // Find the first block boundary beyond which bending suffices: gallop, then bisect.
        let (mut short, mut last, mut stride) = (-1, 2, 2);
        let mut rest = beyond(last);
        while rest > ln_goal - 1.0 {
            // Blocks reach far beyond the terms; only the window's bound needs them.
            if boundary(last) > 1e4 * farthest {
                return Err(CumulantFunction::out_of_reach());
            }
            short = last;
            last += stride;
            stride *= 2;
            rest = beyond(last);
        }
        while last - short > 1 {
            let middle = short + (last - short) / 2;
            let there = beyond(middle);
            if there > ln_goal - 1.0 {
                short = middle
            } else {
                (last, rest) = (middle, there)
            }
        }
        while last > 0 {
            let (low, high) = (boundary(last - 1), boundary(last));
            let window = decays
                .iter()
                .map(|(times, decay)| times * decay.window(low, high).ln());
            let longer = ln_add_exp(rest, ln_factor(low) + window.sum::<f64>());
            if longer > ln_goal {
                break;
            }
            rest = longer;
            last -= 1;
        }
        self.rest = rest.exp();
        let end = boundary(last);
        if end > farthest {
            Err(CumulantFunction::out_of_reach())
        } else {
            Ok(end)
        }
    }

    fn sum_terms(
        &mut self,
        cumulants: &CumulantFunction,
        tilts: &[Moment],
        end: f64,
        ln_goal: f64,
    ) -> Result<()> {
        let count = (end / self.step).ceil() as usize + 1;
        let end = (count - 1) as f64 * self.step;
        let mut ln_size = vec![0.0; count];
        let mut angle = vec![0.0; count];
        let mut ln_excess = vec![0.0; count];
        for (n, ln) in ln_size.iter_mut().enumerate() {
            let y = n as f64 * self.step;
            *ln = -0.5 * cumulants.gaussian * y * y;
            angle[n] = cumulants.gaussian * y * (self.c - 0.5);
        }
        let mut turning = 0.0;
        for (part, moment) in cumulants.parts.iter().zip(tilts) {
            let line = Line::new(part, self.c, *moment, end, ln_goal - part.times.ln())?;
            if line.tilted.loss.len() as f64 * count as f64 > BUDGET {
                return Err(CumulantFunction::out_of_reach());
            }
            self.nodes += line.tilted.loss.len();
            line.accumulate(
                part.times,
                self.step,
                &mut ln_size,
                &mut angle,
                &mut ln_excess,
            );
            turning += part.times * line.speed;
        }
        turning += cumulants.gaussian * self.c;
        for n in 0..count {
            let y = n as f64 * self.step;
            let (re, im) = self.kernel.factor(self.c, y);
            let (factor, size) = (re.hypot(im), ln_size[n].exp());
            let (sin, cos) = angle[n].sin_cos();
            self.terms
                .push((size * (re * cos - im * sin), size * (re * sin + im * cos)));
            self.swept += y * size * factor * (1.0 + 16.0 * ROUND);
            let times = if n == 0 { 1.0 } else { 2.0 };
            self.size += times * factor * size;
            let rounding = ROUND * (16.0 + 4.0 * y * turning + 2.0 * ln_size[n].abs());
            let excess = if ln_excess[n] < 1.0 {
                size * ln_excess[n].exp_m1()
            } else {
                (ln_size[n] + ln_excess[n]).exp()
            };
            self.error += times * factor * (excess + size * rounding);
        }
        Ok(())
    }

    /// Returns the average at `epsilon`, near the ε that the contour was made for.
    pub(crate) fn value(&self, epsilon: f64) -> LnBounds {
        let pieces = self.pieces(epsilon);
        let slack = pieces.rest + pieces.terms + pieces.summation;
        if (pieces.middle + slack + pieces.front + pieces.alias).is_nan() {
            // NaN bounds nothing; `f64::max` with 0 would turn it into 0.
            return LnBounds {
                lower: f64::NEG_INFINITY,
                middle: 0.0,
                upper: f64::INFINITY,
            };
        }
        LnBounds {
            lower: pieces.ln_front - pieces.front
                + (pieces.middle - slack - pieces.alias).max(0.0).ln(),
            middle: pieces.ln_front + pieces.middle.max(0.0).ln(),
            upper: ln_add_exp(
                pieces.ln_front + pieces.front + (pieces.middle + slack).max(0.0).ln(),
                self.ln_quiet(epsilon),
            ),
        }
    }

    /// Returns the sum at `epsilon` and everything that separates it from the true value.
    pub(crate) fn pieces(&self, epsilon: f64) -> Pieces {
        let mut sum = crate::numeric::sum::Sum::default();
        for (n, (re, im)) in self.terms.iter().enumerate() {
            let y = n as f64 * self.step;
            let (sin, cos) = (epsilon * y).sin_cos();
            let term = re * cos + im * sin;
            sum.add(if n == 0 { term } else { 2.0 * term });
        }
        let phase = 4.0 * ROUND * epsilon.abs() * self.swept;
        let scale = self.step / TAU;
        let ln_front = self.front.0 - epsilon * (self.c - 1.0);
        Pieces {
            ln_front,
            front: self.front.1 + 4.0 * ROUND * (ln_front.abs() + self.front.0.abs() + 1.0),
            middle: scale * sum.value(),
            rest: self.rest,
            terms: scale * self.error,
            summation: scale * (phase + 4.0 * ROUND * self.size),
            alias: self.ln_alias(epsilon).exp(),
        }
    }

    /// Returns ln of a bound on the contribution of outcomes that aren't among the terms.
    pub(crate) fn ln_quiet(&self, epsilon: f64) -> f64 {
        self.quiet.map_or(f64::NEG_INFINITY, |(order, ln)| {
            ln - epsilon * (order - 1.0)
        })
    }

    /// Returns the distance η of the terms.
    pub(crate) const fn step(&self) -> f64 {
        self.step
    }

    /// Returns the number of terms.
    pub(crate) const fn count(&self) -> usize {
        self.terms.len()
    }

    /// Returns the number of quadrature nodes of all parts.
    pub(crate) const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the kernel of the expectation that is inverted.
    pub(crate) const fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Returns the order of the contour.
    pub(crate) const fn order(&self) -> f64 {
        self.c
    }
}

/// Returns an order at or below the saddle that makes the terms smallest.
///
/// Where rare large losses set in, K'' jumps by orders of magnitude within a narrow range of orders,
/// and the saddle lies in it: the tilted law has two humps and the terms decay slowly. Slightly below,
/// K(c) − ε(c−1) has hardly grown and one hump is gone.
fn temper(cumulants: &CumulantFunction, kernel: Kernel, epsilon: f64, saddle: f64) -> f64 {
    let low = kernel.interval().0;
    let ln_size = |c: f64| {
        let total = cumulants.moment(c);
        let curvature = total.second + Kernel::ln_factor_slopes(c).1;
        total.ln - epsilon * (c - 1.0) - (c * (c - 1.0).abs()).ln() + 0.5 * curvature.ln()
    };
    let mut best = (ln_size(saddle), saddle);
    let mut c = saddle;
    for _ in 0..8 {
        c = low + 0.94 * (c - low);
        let size = ln_size(c);
        if size > best.0 + 1.0 {
            break;
        }
        if size < best.0 - 0.2 {
            best = (size, c);
        }
    }
    best.1
}
