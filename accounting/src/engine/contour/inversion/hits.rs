//! The contour for runs in which few steps matter: their characteristic function hardly decays, because
//! most likely no step has a noticeable loss.
//!
//! Each outcome of a step is loud with probability Φ((x − x₀)/w), and quiet otherwise. Runs whose steps
//! are all quiet add to δ(ε) between nothing and Chernoff's bound for quiet steps alone, which is
//! negligible if ε is far above what they add up to. The rest has the transform Π (A_i + B_i)^{T_i} − Π
//! A_i^{T_i}, again of a positive measure, so that aliases keep their sign. Its modulus is at most Σ
//! T_i |B_i|: it decays as loud losses spread, however quiet all others are. The probability is an entire
//! function of x, so that shifting the line of integration bounds |B_i|.

use super::line::{Spin, dot};
use super::{Contour, MOST_TERMS, temper};
use crate::engine::contour::cumulants::{CumulantFunction, Source};
use crate::engine::contour::kernel::Kernel;
use crate::engine::contour::laws::{LossPartition, Shifted, reach};
use crate::engine::contour::nodes::{Moment, Nodes, Tilted};
use crate::loss::{LossDistribution, Mask};
use crate::numeric::special::{LANES, ROUND};
use crate::quantity::error::Result;
use std::f64::consts::PI;

/// The most terms times nodes.
const BUDGET: f64 = 1e8;
/// Ratios of loss to ε at which outcomes begin to be loud.
const CUTS: [f64; 7] = [0.25, 0.15, 0.1, 0.06, 0.03, 0.015, 0.005];
/// The width of the smooth step times the distance of positions.
const WIDTH: f64 = 0.35;
/// (Order − 1) times ε at which quiet outcomes are bounded.
const ORDERS: [f64; 5] = [20.0, 30.0, 45.0, 70.0, 140.0];
/// With more components than this in total, the bound on the turn is too loose.
const MOST_COMPONENTS: usize = 8;
/// ln of the relative error of the moments that bound quiet outcomes.
const LN_ROUGH: f64 = -30.0;
/// ln of the relative error of the masses that bound the decay.
const LN_MASS: f64 = -25.0;
/// Exact sines are recomputed after this many steps of the recurrence.
const RENEWAL: usize = 32;
/// The number of widths beyond which nothing is kept, in addition to what the order requires.
const REACH: f64 = 14.0;

/// One kind of step, divided into a quiet and a loud half.
struct Halves {
    law: LossDistribution,
    centre: f64,
    width: f64,
    times: f64,
    moment: Moment,
}

/// An order and ln of the bound on what quiet outcomes add to δ at ε = 0.
type Quiet = (f64, f64);

impl Halves {
    /// Returns the nodes of one half for an order and imaginary parts up to a largest one.
    fn half(
        &self,
        upper: bool,
        (order, turn): (f64, f64),
        ln_error: f64,
    ) -> Result<(LossPartition, Nodes)> {
        // Where Φ is e^{−u²/2}, ∫ f_c ≤ e^{c²R²/2} doesn't matter.
        let mask = Mask {
            centre: self.centre,
            width: self.width,
            upper,
            reach: order * reach(&self.law) + (-2.0 * ln_error).sqrt() + REACH,
        };
        LossPartition::masked(&self.law, (order, turn), ln_error, Some(mask))
    }
}

impl Contour {
    /// As [`Contour::new`], for runs in which few steps matter.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if no cut leaves little enough to quiet outcomes, or if too
    /// many terms or nodes would be needed.
    pub(crate) fn of_hits(
        cumulants: &CumulantFunction,
        epsilon: f64,
        ln_goal: f64,
    ) -> Result<Self> {
        let kernel = Kernel::Excess;
        let saddle = cumulants
            .saddle(kernel, epsilon)
            .ok_or_else(CumulantFunction::out_of_reach)?;
        let c = temper(cumulants, kernel, epsilon, saddle);
        let (mut contour, tilts, aim) = Self::begun(cumulants, kernel, (epsilon, c), ln_goal)?;
        let allowed = aim.ln_goal + contour.front.0 - epsilon * (c - 1.0);
        let (halves, quiet) = cut(cumulants, &tilts, epsilon, allowed)?;
        contour.quiet = Some(quiet);
        let end = contour.end_of_hits(&halves, aim.ln_goal)?;
        contour.sum_hits(&halves, cumulants.gaussian, end, aim.ln_goal - aim.ln_size)?;
        Ok(contour)
    }

    /// Returns the y beyond which the terms weigh at most e^`ln_goal` of the front, and sets the bound on
    /// the omitted terms.
    fn end_of_hits(&mut self, halves: &[Halves], ln_goal: f64) -> Result<f64> {
        let shifted: Result<Vec<(f64, Shifted)>> = (halves.iter())
            .map(|half| {
                let (partition, nodes) = half.half(true, (self.c, 0.0), LN_MASS)?;
                let shifted = Shifted::new(&partition, &nodes, self.c, half.moment.ln);
                Ok((
                    half.times,
                    shifted.ok_or_else(CumulantFunction::out_of_reach)?,
                ))
            })
            .collect();
        let shifted = shifted?;
        // Σ η/π|s(s−1)| over nodes beyond y is at most (1 + η/y)/πy.
        let rest = |y: f64| {
            let loud = shifted.iter().map(|(times, part)| times * part.beyond(y));
            loud.sum::<f64>() * (1.0 + self.step / y) / (PI * y)
        };
        let (goal, farthest) = (ln_goal.exp(), MOST_TERMS * self.step);
        let mut y = 16.0 * self.step;
        while rest(y) > goal {
            y *= 1.25;
            if y.is_nan() || y >= farthest {
                return Err(CumulantFunction::out_of_reach());
            }
        }
        let y = (y / self.step).ceil() * self.step;
        self.rest = rest(y) * (1.0 + 1e-9);
        Ok(y)
    }

    fn sum_hits(&mut self, halves: &[Halves], gaussian: f64, end: f64, ln_goal: f64) -> Result<()> {
        let count = (end / self.step).round() as usize + 1;
        let mut all = Powers::new(count);
        let mut quiet = Powers::new(count);
        let mut turning = gaussian * self.c;
        for n in 0..count {
            let y = n as f64 * self.step;
            for powers in [&mut all, &mut quiet] {
                powers.ln_size[n] = -0.5 * gaussian * y * y;
                powers.angle[n] = gaussian * y * (self.c - 0.5);
            }
        }
        for half in halves {
            let both = Both::new(half, self.c, end, ln_goal - half.times.ln() - 4.0)?;
            let nodes = both.quiet.loss.len() + both.loud.loss.len();
            if nodes as f64 * count as f64 > BUDGET {
                return Err(CumulantFunction::out_of_reach());
            }
            self.nodes += nodes;
            turning += half.times * both.speed;
            both.accumulate(half.times, self.step, &mut all, &mut quiet);
        }
        for n in 0..count {
            let y = n as f64 * self.step;
            let (re, im) = self.kernel.factor(self.c, y);
            let factor = re.hypot(im);
            let ((a, b), (with, off)) = (all.value(n), all.size(n));
            let ((d, e), (without, more)) = (quiet.value(n), quiet.size(n));
            let (sum_re, sum_im) = (a - d, b - e);
            self.terms
                .push((sum_re * re - sum_im * im, sum_re * im + sum_im * re));
            let size = with + without;
            self.swept += y * size * factor * (1.0 + 16.0 * ROUND);
            let times = if n == 0 { 1.0 } else { 2.0 };
            self.size += times * factor * size;
            let logs = 2.0 * (all.ln_size[n].abs() + quiet.ln_size[n].abs());
            let rounding = ROUND * (24.0 + 4.0 * y * turning + logs);
            self.error += times * factor * (off + more + size * rounding);
        }
        Ok(())
    }
}

/// Returns the highest cut that leaves quiet outcomes at most e^`allowed` of δ(ε).
fn cut(
    cumulants: &CumulantFunction,
    tilts: &[Moment],
    epsilon: f64,
    allowed: f64,
) -> Result<(Vec<Halves>, Quiet)> {
    for share in CUTS {
        let halves = cumulants.parts.iter().zip(tilts).map(|(part, moment)| {
            let Source::Pair(pair) = &part.source else {
                return None;
            };
            let law = LossDistribution::of_pair(&pair.partition.pair);
            if law.components() > MOST_COMPONENTS {
                return None;
            }
            let centre = law.place_of(share * epsilon)?;
            Some(Halves {
                centre,
                width: WIDTH / reach(&law),
                law,
                times: part.times,
                moment: *moment,
            })
        });
        let Some(halves) = halves.collect::<Option<Vec<Halves>>>() else {
            continue;
        };
        let Some(quiet) = quiet_outcomes(&halves, cumulants.gaussian, epsilon) else {
            continue;
        };
        if quiet.1 - epsilon * (quiet.0 - 1.0) <= allowed {
            return Ok((halves, quiet));
        }
    }
    Err(CumulantFunction::out_of_reach())
}

/// Returns Chernoff's bound for outcomes of quiet steps only, at the best of several orders.
fn quiet_outcomes(halves: &[Halves], gaussian: f64, epsilon: f64) -> Option<Quiet> {
    let at = |scale: &f64| -> Option<Quiet> {
        let order = 1.0 + scale / epsilon;
        let mut total = 0.5 * gaussian * order * (order - 1.0);
        for half in halves {
            let (partition, nodes) = half.half(false, (order, 0.0), LN_ROUGH).ok()?;
            let ln = nodes.ceiling(order);
            total +=
                half.times * crate::numeric::special::ln_add_exp(ln, partition.ln_error(order, ln));
        }
        let total = total + 1e-13 * (total.abs() + 1.0) + Kernel::Excess.ln_chernoff(order);
        total.is_finite().then_some((order, total))
    };
    let value = |bound: &Quiet| bound.1 - epsilon * (bound.0 - 1.0);
    // A higher order is steeper: if one order needs too many nodes, so do those above it.
    let bounds = ORDERS.iter().map_while(at);
    bounds.min_by(|a, b| value(a).total_cmp(&value(b)))
}

/// T-th powers along the contour.
struct Powers {
    ln_size: Vec<f64>,
    angle: Vec<f64>,
    ln_excess: Vec<f64>,
}

impl Powers {
    fn new(count: usize) -> Self {
        let zeros = || vec![0.0; count];
        Self {
            ln_size: zeros(),
            angle: zeros(),
            ln_excess: zeros(),
        }
    }

    fn value(&self, n: usize) -> (f64, f64) {
        let (size, (sin, cos)) = (self.ln_size[n].exp(), self.angle[n].sin_cos());
        (size * cos, size * sin)
    }

    /// Returns the modulus and the bound on its error.
    fn size(&self, n: usize) -> (f64, f64) {
        let size = self.ln_size[n].exp();
        let error = if self.ln_excess[n] < 1.0 {
            size * self.ln_excess[n].exp_m1()
        } else {
            (self.ln_size[n] + self.ln_excess[n]).exp()
        };
        (size, error)
    }

    /// Multiplies by the `times`-th power of 1 + re + i·im, which is off by at most `error`.
    fn multiply(&mut self, n: usize, times: f64, (re, im): (f64, f64), error: f64) {
        let ln_modulus = (0.5 * (2.0 * re + re * re + im * im).max(-1.0).ln_1p()).max(-690.0);
        self.ln_size[n] += times * ln_modulus;
        self.angle[n] += times * im.atan2(1.0 + re);
        self.ln_excess[n] += times * (error / ln_modulus.exp()).ln_1p();
    }
}

/// The tilted nodes of both halves of a step.
struct Both {
    quiet: Tilted,
    loud: Tilted,
    /// A bound on the error of either transform from the quadrature.
    quadrature: f64,
    /// Σ ρ_j |L_j|.
    speed: f64,
}

impl Both {
    fn new(half: &Halves, c: f64, end: f64, ln_error: f64) -> Result<Self> {
        let ln_moment = half.moment.ln;
        let of = |upper: bool| -> Result<(Nodes, f64)> {
            let (partition, nodes) = half.half(upper, (c, end), ln_error)?;
            // Relative to the whole, which is no less than either half.
            Ok((nodes, (partition.ln_error(c, ln_moment) - ln_moment).exp()))
        };
        let ((quiet, off), (loud, more)) = (of(false)?, of(true)?);
        let tilted = |nodes: Nodes| {
            let mut tilted = nodes.tilted(c, ln_moment);
            let speed = tilted.speed();
            let common = half.moment.rounding / ROUND;
            tilted.first_error += speed * common;
            tilted.flat_error += 2.0 * tilted.weight.iter().sum::<f64>() * common;
            (tilted, speed)
        };
        let ((quiet, slow), (loud, fast)) = (tilted(quiet), tilted(loud));
        Ok(Self {
            quiet,
            loud,
            quadrature: 2.0 * (off + more),
            speed: slow + fast,
        })
    }

    fn accumulate(&self, times: f64, step: f64, all: &mut Powers, quiet: &mut Powers) {
        let mut spins = [&self.quiet, &self.loud].map(|part| Spin::new(&part.loss, step));
        let nodes = self.quiet.loss.len() + self.loud.loss.len();
        let depth = nodes as f64 / LANES as f64 + 24.0 + 4.0 * RENEWAL as f64;
        // The transform of quiet steps at zero is that of all steps minus the loud ones' mass.
        let loud: f64 = self.loud.weight.iter().sum();
        let loud_error = ROUND * (self.loud.flat_error + depth * loud);
        for n in 0..all.ln_size.len() {
            let y = n as f64 * step;
            if n % RENEWAL == 0 && n > 0 {
                spins[0].renew(&self.quiet.loss, y);
                spins[1].renew(&self.loud.loss, y);
            }
            let sum = |part: &Tilted, spin: &Spin| {
                (dot(&part.weight, &spin.re), dot(&part.weight, &spin.im))
            };
            let (a, b) = (sum(&self.quiet, &spins[0]), sum(&self.loud, &spins[1]));
            let first = self.quiet.first_error + self.loud.first_error;
            let flat = self.quiet.flat_error + self.loud.flat_error;
            let near = y * (first + depth * self.speed);
            let rounding = ROUND * near.min(flat + 2.0 * depth);
            let error = self.quadrature + rounding;
            all.multiply(n, times, (a.0 + b.0, a.1 + b.1), error);
            quiet.multiply(n, times, (a.0 - loud, a.1), error + loud_error);
            for spin in &mut spins {
                spin.advance();
            }
        }
    }
}
