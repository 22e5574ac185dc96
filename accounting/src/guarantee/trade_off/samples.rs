//! The profile of a question at sampled ε, refined where a comparison with a Gaussian curve is
//! decided.
//!
//! Both profiles are convex in z = e^ε. Between two samples, the run's profile lies below the chord
//! of its upper ends, and the Gaussian's above its tangents: the chord minus a tangent is linear in
//! z, so its values at the ends bound it. ε < 0 adds nothing: δ(−ε) = 1 − e^{−ε} + e^{−ε} δ'(ε) with
//! δ' the profile of the other direction, for both curves alike.

use crate::compose::solver::Solver;
use crate::engine::Engine;
use crate::loss::{Pair, PrivacyLoss};
use crate::numeric::special::{above_zero, ln_normal_tail};
use crate::quantity::error::Result;

/// Relative rounding error of a comparison.
const SLACK: f64 = 1e-13;
/// The most evaluations of a profile in one comparison.
const MOST: usize = 600;
/// The largest μ considered.
const FARTHEST: f64 = 1e8;

/// ε with both ends of δ, the larger of the directions.
#[derive(Debug, Clone, Copy)]
struct Sample {
    epsilon: f64,
    lower: f64,
    upper: f64,
}

/// Certified samples in ascending order of ε, from 0 to where δ is at most the slack.
#[derive(Debug)]
pub(super) struct Samples {
    solvers: Vec<Solver>,
    samples: Vec<Sample>,
    engine: Engine,
    tolerance: f64,
}

impl Samples {
    pub(super) fn of(losses: &[PrivacyLoss], slack: f64, tolerance: f64) -> Result<Self> {
        let mut samples = Self {
            solvers: losses.iter().map(Solver::new).collect(),
            samples: Vec::new(),
            engine: Engine::Closed,
            tolerance,
        };
        let end = samples.end(slack)?;
        // Without slack, the far end may not exist: look as far as numbers comfortably reach.
        let far = if end.is_finite() {
            end
        } else {
            samples.end(1e-30)?
        };
        let far = if far.is_finite() { far } else { 1.0 };
        for i in 0..=8 {
            let sample = samples.ask(far * f64::from(i) / 8.0)?;
            samples.samples.push(sample);
        }
        if end.is_finite()
            && let Some(last) = samples.samples.last_mut()
        {
            // The search has certified this value.
            last.upper = last.upper.min(slack);
            last.lower = last.lower.min(last.upper);
        } else {
            samples.samples.push(Sample {
                epsilon: f64::INFINITY,
                lower: 0.0,
                upper: 1.0,
            });
        }
        Ok(samples)
    }

    pub(super) const fn engine(&self) -> Engine {
        self.engine
    }

    /// Returns an ε from which on every direction's δ is at most `delta`.
    fn end(&mut self, delta: f64) -> Result<f64> {
        let mut end = 0.0f64;
        for solver in &mut self.solvers {
            end = end.max(solver.epsilon(delta, 0.01)?.upper);
        }
        Ok(end)
    }

    fn ask(&mut self, epsilon: f64) -> Result<Sample> {
        let (mut lower, mut upper) = (0.0f64, 0.0f64);
        for solver in &mut self.solvers {
            let (ends, engine) = solver.ln_delta(epsilon, 0.05 * self.tolerance)?;
            lower = lower.max(ends.lower.exp() * (1.0 - SLACK));
            upper = upper.max((ends.upper.exp() * (1.0 + SLACK)).min(1.0));
            self.engine = self.engine.coarser(engine);
        }
        Ok(Sample {
            epsilon,
            lower,
            upper,
        })
    }

    /// Returns both ends of the least μ with δ(ε) ≤ δ_μ(ε) + slack at every ε, the upper end at most
    /// `ceiling`.
    pub(super) fn least_distance(&mut self, slack: f64, ceiling: f64) -> Result<(f64, f64)> {
        let needed = |s: &Sample| least(|mu| s.lower <= ends(mu, s.epsilon).1 + slack).0;
        // Further samples can't bring the upper end below what the upper ends of the samples require.
        let taken = |s: &Sample| {
            if s.epsilon.is_finite() {
                least(|mu| s.upper <= ends(mu, s.epsilon).0 + slack).1
            } else {
                0.0
            }
        };
        let mut lower = self.samples.iter().map(needed).fold(0.0, f64::max);
        let mut floor = self.samples.iter().map(taken).fold(0.0, f64::max);
        let safe = |a: &Sample, b: &Sample| least(|mu| holds(mu, a, b, slack)).1;
        let mut segments: Vec<f64> = self
            .samples
            .windows(2)
            .map(|w| safe(&w[0], &w[1]))
            .collect();
        loop {
            let (worst, upper) = most(&segments);
            let (a, b) = (self.samples[worst], self.samples[worst + 1]);
            let done = upper.min(ceiling) <= lower.max(floor) * (1.0 + self.tolerance);
            if done || self.samples.len() > MOST || !splits(&a, &b) {
                return Ok((lower, upper.min(ceiling)));
            }
            let middle = self.ask(0.5 * (a.epsilon + b.epsilon))?;
            lower = lower.max(needed(&middle));
            floor = floor.max(taken(&middle));
            self.samples.insert(worst + 1, middle);
            segments[worst] = safe(&a, &middle);
            segments.insert(worst + 1, safe(&middle, &b));
        }
    }

    /// Returns both ends of the regret of μ: sup over ε of (δ_μ(ε) − δ(ε))/(1 + e^ε), because moving
    /// f by (Δ, −Δ) raises its profile by Δ(1 + e^ε).
    pub(super) fn regret(&mut self, mu: f64) -> Result<(f64, f64)> {
        self.extend(mu)?;
        let attained = |s: &Sample| share(ends(mu, s.epsilon).0 - s.upper, s.epsilon);
        // The gap left by the lower ends of the samples themselves can't be closed.
        let open = |s: &Sample| share(ends(mu, s.epsilon).1 - s.lower, s.epsilon);
        let mut lower = self.samples.iter().map(attained).fold(0.0, f64::max);
        let mut floor = self.samples.iter().map(open).fold(0.0, f64::max);
        let mut segments: Vec<f64> = (0..self.samples.len() - 1)
            .map(|i| self.gap(mu, i))
            .collect();
        loop {
            let (worst, upper) = most(&segments);
            // Beyond the last sample, the difference is at most δ_μ there, and falls.
            let last = self.samples[self.samples.len() - 1].epsilon;
            let beyond = share(ends(mu, last).1, last);
            let (a, b) = (self.samples[worst], self.samples[worst + 1]);
            let fine = 1e-12 + 0.01 * lower;
            let done = upper.max(beyond) <= lower.max(floor) + fine;
            if done || self.samples.len() > 2 * MOST || !splits(&a, &b) || beyond > upper {
                let upper = upper.max(beyond) * (1.0 + SLACK) + f64::MIN_POSITIVE;
                return Ok((lower * (1.0 - SLACK), upper));
            }
            let middle = self.ask(0.5 * (a.epsilon + b.epsilon))?;
            lower = lower.max(attained(&middle));
            floor = floor.max(open(&middle));
            self.samples.insert(worst + 1, middle);
            segments.insert(worst + 1, 0.0);
            // The tangents of the neighbours move too.
            let moved = worst.saturating_sub(1)..(worst + 3).min(self.samples.len() - 1);
            let gaps: Vec<f64> = moved.clone().map(|i| self.gap(mu, i)).collect();
            segments[moved].copy_from_slice(&gaps);
        }
    }

    /// Adds samples up to where even δ_μ alone amounts to a negligible regret.
    fn extend(&mut self, mu: f64) -> Result<()> {
        let last = self.samples[self.samples.len() - 1].epsilon;
        let counts = |epsilon: f64| share(ends(mu, epsilon).1, epsilon) > 1e-12;
        if !last.is_finite() || !counts(last) {
            return Ok(());
        }
        let mut end = 2.0 * last.max(mu);
        while counts(end) {
            end *= 2.0;
        }
        for i in 1..=8 {
            let sample = self.ask(last + (end - last) * f64::from(i) / 8.0)?;
            self.samples.push(sample);
        }
        Ok(())
    }

    /// Returns a bound on (δ_μ − δ)/(1 + z) between samples i and i + 1: δ_μ lies below its chord, δ
    /// above the extended chords of its neighbours. A ratio of linear functions is monotone, so the
    /// ends and the crossing of the two lines decide.
    fn gap(&self, mu: f64, i: usize) -> f64 {
        let (a, b) = (self.samples[i], self.samples[i + 1]);
        if !b.epsilon.is_finite() {
            return share(ends(mu, a.epsilon).1, a.epsilon);
        }
        // From here on, w = z e^{−ε_a} − 1, so that no number overflows.
        let width = (b.epsilon - a.epsilon).exp_m1();
        let (left, right) = (ends(mu, a.epsilon).1, ends(mu, b.epsilon).1);
        let above = |w: f64| left + w / width * (right - left);
        // The line through the sample before and a; before the first sample, δ = 1 at z = 0.
        let before = i.checked_sub(1).map(|j| self.samples[j]);
        let (far, high) = before.map_or((f64::NEG_INFINITY, 1.0), |s| (s.epsilon, s.upper));
        let from_left = -(high - a.lower).max(0.0) / -(far - a.epsilon).exp_m1();
        // The line through b and the sample after it, or a flat one.
        let from_right = match self.samples.get(i + 2) {
            Some(far) if far.epsilon.is_finite() => {
                let step = (far.epsilon - a.epsilon).exp_m1() - width;
                -(b.lower - far.upper).max(0.0) / step
            }
            _ => 0.0,
        };
        let at = |w: f64| {
            let below = (a.lower + w * from_left).max(b.lower + (w - width) * from_right);
            share(above(w) - below, a.epsilon + w.ln_1p())
        };
        let crossing = (b.lower - width * from_right - a.lower) / (from_left - from_right);
        let worst = at(0.0).max(at(width));
        if crossing > 0.0 && crossing < width {
            worst.max(at(crossing))
        } else {
            worst
        }
    }
}

/// Returns Δ from a difference of profiles at ε.
fn share(difference: f64, epsilon: f64) -> f64 {
    above_zero(difference) / (1.0 + epsilon.exp())
}

/// Returns both ends of δ_μ(ε).
fn ends(mu: f64, epsilon: f64) -> (f64, f64) {
    if mu <= 0.0 || epsilon == f64::INFINITY {
        return (0.0, 0.0);
    }
    let ends = Pair::gaussian(mu).ln_delta_of_one_step(epsilon);
    (
        ends.lower.exp() * (1.0 - SLACK),
        ends.upper.exp() * (1.0 + SLACK),
    )
}

/// Returns whether the chord of the upper ends certainly stays below δ_μ + slack between two samples.
fn holds(mu: f64, a: &Sample, b: &Sample, slack: f64) -> bool {
    if a.upper <= slack {
        return true;
    }
    let (left, right) = (ends(mu, a.epsilon).0, ends(mu, b.epsilon).0);
    if a.upper > left + slack || b.upper > right + slack {
        return false;
    }
    if a.upper <= right + slack {
        return true;
    }
    if !b.epsilon.is_finite() {
        return false;
    }
    let width = (b.epsilon - a.epsilon).exp_m1();
    let slope = (b.upper - a.upper) / width;
    // δ_μ'(z) = −Φ(−ε/μ − μ/2): the two are closest where it equals the chord's slope.
    let wanted = (-slope).ln() - a.epsilon;
    let steeper = |epsilon: f64| ln_normal_tail(epsilon / mu + 0.5 * mu) > wanted;
    let (mut low, mut high) = (a.epsilon, b.epsilon);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if steeper(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    // The tangent there lies below δ_μ; the chord minus the tangent is linear.
    let touch = 0.5 * (low + high);
    let value = ends(mu, touch).0;
    let fall = (ln_normal_tail(touch / mu + 0.5 * mu) + a.epsilon).exp();
    let at = (touch - a.epsilon).exp_m1();
    let room = 1e-13 * (value + fall * width.min(at.max(width - at)));
    let tangent = |w: f64| value - fall * (w - at) - room;
    a.upper <= tangent(0.0) + slack && b.upper <= tangent(width) + slack
}

/// Returns the least μ at which a condition holds that holds from there on, as (last false, first
/// true).
fn least(condition: impl Fn(f64) -> bool) -> (f64, f64) {
    if condition(0.0) {
        return (0.0, 0.0);
    }
    let (mut low, mut high) = (0.0, 1e-9);
    while !condition(high) {
        low = high;
        high *= 4.0;
        if high > FARTHEST {
            return (low, f64::INFINITY);
        }
    }
    while high - low > 1e-12 * high {
        let middle = 0.5 * (low + high);
        if condition(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (low, high)
}

/// Returns the index and the value of the largest number.
fn most(values: &[f64]) -> (usize, f64) {
    let mut best = (0, 0.0);
    for (i, value) in values.iter().enumerate() {
        if *value > best.1 {
            best = (i, *value);
        }
    }
    best
}

/// Returns whether an ε between two samples is worth evaluating.
fn splits(a: &Sample, b: &Sample) -> bool {
    b.epsilon.is_finite() && b.epsilon - a.epsilon > 1e-9 * b.epsilon
}
