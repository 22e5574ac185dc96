//! An oracle that shares no code with the accountant: laws read from the papers, cells with masses
//! from differences of distribution functions, losses moved to equidistant lines so that δ can only
//! rise (or only fall), a textbook transform, and everything left out added outwards. What comes out is
//! an interval that contains the truth.

mod batches;
mod composed;
mod fourier;
mod pairs;
mod step;
mod truth;

use composed::{Composed, View};
use reticent_accounting::{Direction, Mechanism, Query};
use step::{Side, Step};
use truth::{Parts, Question, Truth};

/// What is known of one run near one ε.
pub(crate) struct Oracle {
    below: Vec<Composed>,
    above: Vec<Composed>,
    gaussian: Option<f64>,
    /// The ε that it was laid for.
    pub(crate) epsilon: f64,
    parts: (Vec<Parts>, Vec<Parts>),
}

impl Oracle {
    /// For losses about `spot` deviations above their mean; `None` where nothing is known.
    pub(crate) fn of(
        run: &Mechanism,
        query: Query,
        direction: Direction,
        steps: u64,
        spot: f64,
    ) -> Option<Self> {
        // Roundings of the losses add up with the steps.
        let length = match steps {
            0..=3 => 1 << 12,
            4..=12 => 1 << 13,
            13..=50 => 1 << 14,
            _ => 1 << 15,
        };
        let question = Question {
            query,
            direction,
            cells: (length / 2).min(1 << 13),
        };
        let Truth {
            below,
            above,
            gaussian,
        } = Truth::of(run, question)?;
        if let Some(distance) = gaussian {
            return Some(Self {
                below: Vec::new(),
                above: Vec::new(),
                gaussian,
                epsilon: (0.5 * distance * distance + spot * distance).max(0.0),
                parts: (Vec::new(), Vec::new()),
            });
        }
        let reference = below.first().or(above.first())?;
        let epsilon = place(reference, spot);
        let composed = |all: &[Parts], side: Side| -> Vec<Composed> {
            all.iter()
                .map(|parts| Composed::of(parts, View::at(parts, epsilon, length), side))
                .collect()
        };
        Some(Self {
            below: composed(&below, Side::Low),
            above: composed(&above, Side::High),
            gaussian: None,
            epsilon,
            parts: (below, above),
        })
    }

    /// An interval that contains δ(ε).
    pub(crate) fn delta(&self, epsilon: f64) -> (f64, f64) {
        if let Some(distance) = self.gaussian {
            return of_gaussian(distance, epsilon);
        }
        // Guessing is free.
        let low = self.below.iter().map(|law| law.delta(epsilon));
        let high = self.above.iter().map(|law| law.delta(epsilon));
        (low.fold(0.0, f64::max), high.fold(1.0, f64::min))
    }

    /// An interval that contains max {P(E): Q(E) ≤ x}, sharp if the loss there is about `epsilon`.
    pub(crate) fn blow_up(&self, x: f64, epsilon: f64) -> (f64, f64) {
        let low = self.below.iter().map(|law| law.best_event(x));
        let high = self.above.iter().map(|law| law.blow_up(x, epsilon));
        (low.fold(x, f64::max), high.fold(1.0, f64::min))
    }

    /// An interval that contains the Rényi divergence of an order above 1; the upper end may be
    /// infinite.
    pub(crate) fn renyi(&self, order: f64) -> (f64, f64) {
        if let Some(distance) = self.gaussian {
            let exact = 0.5 * order * distance * distance;
            return (exact * (1.0 - 1e-12), exact * (1.0 + 1e-12));
        }
        let sum = |parts: &Parts, side: Side| -> f64 {
            let each = parts
                .iter()
                .map(|(step, times)| step.ln_moment(order, side) * *times as f64);
            each.sum::<f64>() / (order - 1.0)
        };
        let low = self.parts.0.iter().map(|parts| sum(parts, Side::Low));
        let high = self.parts.1.iter().map(|parts| sum(parts, Side::High));
        let (low, high) = (low.fold(0.0, f64::max), high.fold(f64::INFINITY, f64::min));
        (low * (1.0 - 1e-9) - 1e-11, high * (1.0 + 1e-9) + 1e-11)
    }
}

/// `spot` deviations above the mean loss, and not beyond what can happen.
fn place(parts: &[(Step, u64)], spot: f64) -> f64 {
    let (mut mean, mut variance, mut most) = (0.0, 0.0, 0.0);
    for (step, times) in parts {
        let times = *times as f64;
        let (_, first, second) = step.thinned().moments(0.0);
        mean += times * first;
        variance += times * second;
        most += times * step.outcomes.last().map_or(0.0, |o| o.loss());
    }
    (mean + spot * variance.sqrt()).min(0.98 * most).max(0.0)
}

/// Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), both terms to some roundings (Balle and Wang 2018).
fn of_gaussian(distance: f64, epsilon: f64) -> (f64, f64) {
    let above = |x: f64| 0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2);
    let first = above(epsilon / distance - 0.5 * distance);
    let second = epsilon.exp() * above(epsilon / distance + 0.5 * distance);
    // The argument of erfc is rounded, and its slope grows with it.
    let reach = 1.0 + epsilon / distance + distance;
    let error = 4.0 * f64::EPSILON * (first + second) * reach * reach;
    let value = first - second;
    ((value - error).max(0.0), (value + error).min(1.0))
}
