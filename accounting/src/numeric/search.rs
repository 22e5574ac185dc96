//! One-dimensional searches: bisection of a condition, and a minimiser.

use argmin::core::{CostFunction, Executor};
use argmin::solver::brent::BrentOpt;

/// Returns a bracket (last false, first true) of relative width `tolerance` for a condition that is
/// false below some point of [0, ∞) and true above it; the second end is infinite if no point up to
/// 1e300 satisfies the condition.
pub(crate) fn bisect(holds: impl Fn(f64) -> bool, tolerance: f64) -> (f64, f64) {
    if holds(0.0) {
        return (0.0, 0.0);
    }
    let (mut low, mut high) = (0.0, 1e-12);
    while !holds(high) {
        low = high;
        high *= 4.0;
        if high > 1e300 {
            return (low, f64::INFINITY);
        }
    }
    while high - low > tolerance * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    (low, high)
}

/// Returns a minimiser of a unimodal function on [low, high], to 1e-8 of the interval.
pub(crate) fn minimiser(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    minimiser_to(f, low, high, 1e-8)
}

/// As [`minimiser`], to the share `tolerance` of the interval. Use it where every point gives a
/// valid bound and the best point the tightest: if the search fails, its answer is still a point of
/// the interval.
pub(crate) fn minimiser_to(f: impl Fn(f64) -> f64, low: f64, high: f64, tolerance: f64) -> f64 {
    // Brent's method uses differences of costs, so infinite costs would turn its points into NaN.
    let finite = |x: f64| f(x).clamp(-1e300, 1e300);
    let solver = BrentOpt::new(low, high).set_tolerance(1e-15, tolerance * (high - low) / 3.0);
    let found = Executor::new(Cost(finite), solver)
        .configure(|state| state.max_iters(100))
        .timer(false)
        .ctrlc(false)
        .run();
    let best = found.ok().and_then(|found| found.state.best_param);
    // Not `clamp`, which panics if an end is no number.
    best.map_or(0.5 * (low + high), |x| x.max(low).min(high))
}

/// A function in the form that the optimiser requires; NaN counts as the worst cost.
struct Cost<F>(F);

impl<F: Fn(f64) -> f64> CostFunction for Cost<F> {
    type Param = f64;
    type Output = f64;

    fn cost(&self, x: &f64) -> Result<f64, argmin::core::Error> {
        let cost = self.0(*x);
        Ok(if cost.is_nan() { 1e300 } else { cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisect_ends_on_both_sides() {
        let (low, high) = bisect(|x| x >= 7.25, 1e-12);
        assert!(low < 7.25 && high >= 7.25 && high - low < 1e-11);
        assert!(bisect(|_| true, 1e-6) == (0.0, 0.0));
        assert!(bisect(|_| false, 1e-6).1 == f64::INFINITY);
    }

    #[test]
    fn a_minimum_is_found() {
        assert!((minimiser(|x| (x - 0.3).powi(2), -1.0, 5.0) - 0.3).abs() < 1e-7);
        // at an end, at a kink, and beside values that are infinite or no number
        assert!(minimiser(|x| x, 2.0, 3.0) - 2.0 < 1e-7);
        assert!((minimiser(|x| (x - 1.0).abs(), -2.0, 3.0) - 1.0).abs() < 1e-7);
        let walled = |x: f64| if x < 1.0 { f64::INFINITY } else { x.ln() };
        assert!((1.0..1.0 + 1e-6).contains(&minimiser(walled, 0.0, 3.0)));
        let nowhere = minimiser(|_| f64::NAN, 0.0, 1.0);
        assert!((0.0..=1.0).contains(&nowhere));
        assert!((minimiser(|x| x, 2.0, 2.0) - 2.0).abs() <= 0.0);
        assert!(minimiser(|x| x, f64::NAN, f64::NAN).is_nan());
    }
}
