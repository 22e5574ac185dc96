//! A convex decreasing curve that is known at certified points.

use super::profile::ProfilePoint;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::Result;
use crate::quantity::{Delta, Epsilon};

/// A point: ε and both ends of δ there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurvePoint {
    pub(crate) epsilon: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// δ as a function of ε, decreasing and convex in e^ε, known at points in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    points: Vec<CurvePoint>,
}

impl Curve {
    pub(crate) fn of(points: &[ProfilePoint]) -> Self {
        Self {
            points: points
                .iter()
                .map(|p| CurvePoint {
                    epsilon: p.epsilon.get(),
                    lower: p.delta_lower.get().get(),
                    upper: p.delta_upper.get().get(),
                })
                .collect(),
        }
    }

    /// Returns an upper end: never above 1, an earlier upper end, or the chord of the neighbours.
    pub(crate) fn upper(&self, epsilon: f64) -> f64 {
        let after = self.points.partition_point(|p| p.epsilon <= epsilon);
        let before = self.points[..after]
            .iter()
            .map(|p| p.upper)
            .fold(1.0, f64::min);
        match (
            after.checked_sub(1).map(|i| self.points[i]),
            self.points.get(after),
        ) {
            (Some(left), Some(right)) => {
                // The share of the interval in e^ε.
                let share =
                    (epsilon - left.epsilon).exp_m1() / (right.epsilon - left.epsilon).exp_m1();
                before.min(left.upper + share * (right.upper - left.upper))
            }
            _ => before,
        }
    }

    /// Returns a lower end: never below a later lower end, or below the extended chord of two
    /// neighbours on one side.
    pub(crate) fn lower(&self, epsilon: f64) -> f64 {
        let after = self.points.partition_point(|p| p.epsilon < epsilon);
        let later = self.points[after..]
            .iter()
            .map(|p| p.lower)
            .fold(0.0, f64::max);
        let from_left = after.checked_sub(2).map_or(0.0, |i| {
            let (far, near) = (self.points[i], self.points[i + 1]);
            let share = (epsilon - near.epsilon).exp_m1() / -(far.epsilon - near.epsilon).exp_m1();
            near.lower - share * (far.upper - near.lower).max(0.0)
        });
        let from_right = match (self.points.get(after), self.points.get(after + 1)) {
            (Some(near), Some(far)) => {
                let share =
                    -(epsilon - near.epsilon).exp_m1() / (far.epsilon - near.epsilon).exp_m1();
                near.lower + share * (near.lower - far.upper).max(0.0)
            }
            _ => 0.0,
        };
        let best = later.max(from_left).max(from_right);
        if best.is_finite() {
            best.clamp(0.0, 1.0)
        } else {
            later
        }
    }

    /// Returns both ends of the smallest ε with δ(ε) ≤ `delta`.
    pub(crate) fn epsilon(&self, delta: Delta) -> Result<Bounds<Epsilon>> {
        let target = delta.get();
        let last = self.points.last().map_or(0.0, |p| p.epsilon);
        let upper =
            (self.upper(last) <= target).then(|| last_true(|e| self.upper(e) > target, last).1);
        let lower = if target > 0.0 {
            last_true(|e| self.lower(e) >= target, last).0
        } else {
            0.0
        };
        Ok(Bounds {
            lower: Some(Lower::new(Epsilon::new(lower)?)),
            upper: upper.map(Epsilon::new).transpose()?.map(Upper::new),
        })
    }
}

/// Returns a bracket, within [0, last], of the point where a condition turns from true to false.
fn last_true(holds: impl Fn(f64) -> bool, last: f64) -> (f64, f64) {
    if !holds(0.0) {
        return (0.0, 0.0);
    }
    if holds(last) {
        return (last, last);
    }
    let (mut low, mut high) = (0.0, last);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return (low, high);
        }
        if holds(middle) {
            low = middle
        } else {
            high = middle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// δ(ε) = max(0, 1 − e^{ε−1}), a straight line in e^ε.
    fn line(epsilons: &[f64], slack: f64) -> Curve {
        let delta = |e: f64| (1.0 - (e - 1.0).exp()).max(0.0);
        Curve {
            points: epsilons
                .iter()
                .map(|e| CurvePoint {
                    epsilon: *e,
                    lower: (delta(*e) - slack).max(0.0),
                    upper: delta(*e) + slack,
                })
                .collect(),
        }
    }

    #[test]
    fn chords_and_tangents_are_exact_on_a_straight_line() {
        let curve = line(&[0.0, 0.3, 0.5, 0.9], 0.0);
        for epsilon in [0.1, 0.4, 0.6, 0.7, 0.8] {
            let delta = 1.0 - (epsilon - 1.0f64).exp();
            assert!((curve.upper(epsilon) - delta).abs() < 1e-14);
            assert!((curve.lower(epsilon) - delta).abs() < 1e-14);
        }
    }

    #[test]
    fn both_ends_stay_on_their_side_with_uncertain_points() {
        let curve = line(&[0.0, 0.2, 0.5, 0.8, 1.2], 1e-3);
        for i in 0..=120 {
            let epsilon = f64::from(i) / 100.0;
            let delta = (1.0 - (epsilon - 1.0).exp()).max(0.0);
            assert!(
                curve.lower(epsilon) <= delta && delta <= curve.upper(epsilon),
                "at {epsilon}"
            );
        }
        let found = curve.epsilon(Delta::new(0.3).unwrap()).unwrap();
        let truth = 1.0 + 0.7f64.ln();
        assert!(found.lower.unwrap().get().get() <= truth);
        assert!(truth <= found.upper.unwrap().get().get());
    }
}
