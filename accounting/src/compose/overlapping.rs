//! Ends that hold for any noise, from the common part of both runs; lower ends come from events that
//! reveal it, in which some step, or none, looks as if the record had been drawn.

use super::found::Found;
use super::roots::ROOM;
use super::solver::Solver;
use crate::engine::Engine;
use crate::loss::Overlap;
use crate::numeric::interval::LnBounds;

/// Such events are evaluated if a single step loses all but this share of what it can.
const NEARLY: f64 = 0.05;

impl Solver {
    /// Returns ln δ(ε) of runs with a common part; the lower end is computed only where little else
    /// is left.
    pub(super) fn ln_delta_by_overlap(&self, epsilon: f64) -> Option<LnBounds> {
        let upper = self.loss.overlap?.ln_excess(epsilon);
        let lower = if self.events_may_tell(epsilon) {
            self.simple_event(epsilon)
        } else {
            f64::NEG_INFINITY
        };
        Some(LnBounds {
            lower,
            middle: upper,
            upper,
        })
    }

    /// Returns an upper end of ε(δ) in the same way; `None` if the common part allows no finite one.
    pub(super) fn epsilon_by_overlap(&self, delta: f64) -> Option<Found> {
        let upper = self.loss.overlap?.epsilon(delta);
        (upper < f64::INFINITY).then_some(Found {
            lower: (upper <= 0.0).then_some(0.0),
            upper,
            engine: Engine::Closed,
        })
    }

    /// Returns the same with a lower end a relative `tolerance` below, if an event certifies one.
    pub(super) fn with_events(&self, common: Found, delta: f64, tolerance: f64) -> Found {
        let below = common.upper * (1.0 - 0.5 * tolerance);
        let attained = common.lower.is_none()
            && self.events_may_tell(below)
            && self.simple_event(below) >= delta.ln() + ROOM;
        Found {
            lower: if attained { Some(below) } else { common.lower },
            ..common
        }
    }

    /// A quick check that avoids the events for most runs: returns whether all steps together, one
    /// deviation below the middle, lose more than half of `epsilon`.
    pub(super) fn mostly_loses(&self, epsilon: f64) -> bool {
        let common: f64 = (self.loss.parts.iter())
            .map(|(pair, times)| *times as f64 * pair.loss(-1.0))
            .sum();
        common > 0.5 * epsilon
    }

    /// Returns both ends of B(x) in the same way.
    pub(crate) fn blow_up_by_overlap(&self, x: f64) -> Option<(f64, f64)> {
        let upper = self.loss.overlap?.blow_up(x);
        let lower = if x > 0.0 && self.events_may_tell(-x.ln()) {
            self.blow_up_of_events(x).max(x)
        } else {
            x
        };
        Some((lower, upper))
    }

    /// Returns whether the events are worth evaluating: whether the noise is so small that a step
    /// reveals nearly everything at this ε.
    fn events_may_tell(&self, epsilon: f64) -> bool {
        if self.loss.parts.is_empty() || self.needs_grid() || self.loss.bounds_only() {
            return false;
        }
        self.loss.parts.iter().all(|(pair, _)| {
            let most = Overlap::of_pair(pair);
            most.is_some_and(|most| {
                let most = most.ln_excess(epsilon);
                most == f64::NEG_INFINITY
                    || pair.ln_delta_of_one_step(epsilon).lower > most - NEARLY
            })
        })
    }

    /// Returns a lower bound on B(x): B is concave, B(1) = 1, and each event is a test.
    fn blow_up_of_events(&self, x: f64) -> f64 {
        let ln_steps = (self.loss.steps() as f64).ln();
        let mut best = x;
        let levels = [0.0, 0.5, 1.0, 1.5].map(|share| -share * x.ln() + ln_steps);
        let crossings = (self.loss.parts.iter())
            .flat_map(|(pair, _)| levels.map(|level| pair.crossing(level).1));
        for threshold in crossings.chain((-16..=16).map(|half| 0.5 * f64::from(half))) {
            let (any, every) = self.ln_events(threshold);
            for (first, second) in [any, every] {
                let (p, q) = (first.exp(), second.exp());
                let chord = if q >= x {
                    p * (x / q)
                } else {
                    p + (1.0 - p) * (x - q) / (1.0 - q)
                };
                best = best.max(chord * (1.0 - 1e-14));
            }
        }
        best
    }
}
