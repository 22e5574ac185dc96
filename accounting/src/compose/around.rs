//! Combines a run's own ends with those of related runs: the same run with more information given to the adversary, and
//! a run that it dominates.

use super::found::Found;
use super::ladder::Source;
use super::solver::Solver;
use crate::engine::Engine;
use crate::numeric::interval::LnBounds;
use crate::quantity::error::Result;

/// See [`Solver::rough_goal`].
const ROUGH_GOAL: f64 = 1e-4;
/// ln of a δ above which a partition of the outcomes may give a lower end.
const NEARLY_ONE: f64 = -5.0;

impl Solver {
    /// Returns ln δ(ε) for any real ε, aiming at relative error `goal`.
    pub(crate) fn ln_delta(&mut self, epsilon: f64, goal: f64) -> Result<(LnBounds, Engine)> {
        let (ends, source) = self.ln_delta_by(None, epsilon, goal)?;
        Ok((ends, source.engine()))
    }

    /// Returns the same from one source alone, or from whichever source can certify it, combined with what is known
    /// from related runs.
    pub(super) fn ln_delta_by(
        &mut self,
        alone: Option<Source>,
        epsilon: f64,
        goal: f64,
    ) -> Result<(LnBounds, Source)> {
        let common = match alone {
            None => self.ln_delta_by_overlap(epsilon),
            Some(_) => None,
        };
        if let Some(common) = common.filter(|common| common.width() <= 2.0 * goal) {
            return Ok((common.consistent()?, Source::Closed));
        }
        let below = match &mut self.below {
            Some(below) => {
                let goal = below.rough_goal(goal);
                let below = known_around(below.ln_delta_by(alone, epsilon, goal), alone)?;
                Some(below.map_or(f64::NEG_INFINITY, |(below, _)| below.lower))
            }
            None => None,
        };
        // If the lower end is almost one, no engine is needed for the upper end.
        if let Some(below) = below.filter(|below| alone.is_none() && -below <= goal) {
            let ends = LnBounds {
                lower: below,
                middle: below,
                upper: 0.0,
            };
            return Ok((ends, Source::Closed));
        }
        let (mut ends, source) = match alone {
            None => self.ln_delta_of_pair(epsilon, goal)?,
            Some(source) => (self.ln_delta_alone(source, epsilon, goal)?, source),
        };
        if self.below.is_some() || self.loss.bounds_only() {
            // The pair's lower end isn't attained by the run.
            ends.lower = f64::NEG_INFINITY;
        }
        let mut ends = common.map_or(ends, |common| ends.meet(common));
        if alone.is_none() && ends.width() > 2.0 * goal {
            self.moderate_delta(&mut ends, epsilon);
        }
        let upper = match &mut self.more_informed {
            Some(informed) => {
                let informed = known_around(informed.ln_delta_by(alone, epsilon, goal), alone)?;
                informed.map_or(ends.upper, |(informed, _)| ends.upper.min(informed.upper))
            }
            None => ends.upper,
        };
        let lower = below.unwrap_or(ends.lower);
        let met = LnBounds {
            lower,
            middle: ends.middle,
            upper,
        };
        Ok((met.consistent()?, source))
    }

    /// Returns the precision that a dominated run is worth: on a grid, less than the distance of the two runs.
    pub(crate) fn rough_goal(&self, tolerance: f64) -> f64 {
        if self.needs_grid() {
            tolerance.max(ROUGH_GOAL)
        } else {
            tolerance
        }
    }

    /// Returns the smallest ε ≥ 0 with δ(ε) ≤ `delta`, both ends within a relative `tolerance` if the contour can
    /// certify that.
    pub(crate) fn epsilon(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        let found = self.epsilon_by(None, delta, tolerance)?;
        Ok(self.inverted(found, delta, tolerance))
    }

    /// Tightens the ends of δ(ε), without an engine, for runs that lose far more than their losses vary.
    fn moderate_delta(&mut self, ends: &mut LnBounds, epsilon: f64) {
        let moments = self.ln_delta_by_concentration(epsilon);
        let (by_moments, most) = moments.unwrap_or((f64::NEG_INFINITY, 0.0));
        ends.upper = ends.upper.min(most);
        if self.below.is_none() && !self.loss.bounds_only() {
            ends.lower = ends.lower.max(by_moments);
            if ends.upper > NEARLY_ONE {
                ends.lower = ends.lower.max(self.ln_delta_nearly_one(epsilon));
            }
        }
    }

    /// Does the same for ε(δ).
    fn moderate_epsilon(&mut self, found: &mut Found, delta: f64) {
        let (by_moments, most) =
            (self.epsilon_by_concentration(delta)).unwrap_or((0.0, f64::INFINITY));
        found.upper = found.upper.min(most);
        if self.below.is_none() && !self.loss.bounds_only() {
            let events = self.epsilon_of_every_step(delta.ln()).unwrap_or(0.0);
            let least = events.max(by_moments).max(self.epsilon_nearly_one(delta));
            found.lower = Some(found.lower.map_or(least, |lower| lower.max(least)));
        }
    }

    /// Returns the same from one source alone, or from whichever source can certify it.
    pub(super) fn epsilon_by(
        &mut self,
        alone: Option<Source>,
        delta: f64,
        tolerance: f64,
    ) -> Result<Found> {
        let close = |found: &Found| found.width() <= tolerance * found.upper;
        let mut common = match alone {
            None => self.epsilon_by_overlap(delta),
            Some(_) => None,
        };
        // Events help for runs that lose nearly all they can: they are evaluated immediately if the run looks like
        // that, otherwise only if nothing else is close.
        let looked = common.is_some_and(|common| self.mostly_loses(common.upper));
        if looked {
            common = common.map(|common| self.with_events(common, delta, tolerance));
        }
        if let Some(common) = common.filter(close) {
            return Ok(common);
        }
        let mut found = match alone {
            None => self.epsilon_of_pair(delta, tolerance)?,
            Some(source) => self.epsilon_alone(source, delta, tolerance)?,
        };
        if alone.is_none() && !close(&found) {
            self.moderate_epsilon(&mut found, delta);
        }
        if !looked && !close(&found) {
            common = common.map(|common| self.with_events(common, delta, tolerance));
        }
        let found = Found {
            engine: found.engine,
            ..common.map_or(found, |common| found.meet(common))
        };
        let upper = match &mut self.more_informed {
            Some(informed) => {
                let informed = known_around(informed.epsilon_by(alone, delta, tolerance), alone)?;
                informed.map_or(found.upper, |informed| found.upper.min(informed.upper))
            }
            None => found.upper,
        };
        let lower = match &mut self.below {
            Some(below) => {
                let tolerance = below.rough_goal(tolerance);
                let below = known_around(below.epsilon_by(alone, delta, tolerance), alone)?;
                below.and_then(|below| below.lower)
            }
            None => found.lower,
        };
        Ok(Found {
            lower,
            upper,
            ..found
        })
    }
}

/// Returns what is known from a related run; a single source may have no answer for it.
fn known_around<T>(found: Result<T>, alone: Option<Source>) -> Result<Option<T>> {
    match (found, alone) {
        (Err(_), Some(_)) => Ok(None),
        (found, _) => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{Epsilon, NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance};

    /// The loss of one record, present or absent, in steps of a mechanism.
    fn loss_of(times: u64, each: Mechanism) -> PrivacyLoss {
        let query = Query::single(Neighbours::AddRemove);
        PrivacyLoss::of(&each.times(Steps::new(times)), query, Direction::Remove).unwrap()
    }

    /// A run that another one dominates has a smaller share of work, which a modest one had spent before its first grid.
    #[test]
    fn a_modest_run_has_a_grid_below() {
        let step = Mechanism::SubsampledLaplace {
            scale: NoiseMultiplier::new(1.0).unwrap(),
            sampling_rate: SamplingRate::new(0.1).unwrap(),
            sampling: Sampling::TruncatedPoisson {
                max_batch: 3,
                records: 20,
            },
        };
        let loss = loss_of(25, step);
        let mut below = Solver::new(&loss.modestly()).below.unwrap();
        assert!(below.rough && below.needs_grid());
        assert!(below.grid_at(1.0, 1e-4).is_ok());
    }

    /// Some 320 of twelve million batches use the record, and each of them shows it: grids of the law from above took seconds.
    #[test]
    fn what_is_certain_from_below_takes_no_engine_from_above() {
        let step = Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(0.015_713).unwrap(),
            sampling_rate: SamplingRate::new(1.0).unwrap(),
            sampling: Sampling::TruncatedPoisson {
                max_batch: 21,
                records: 802_484,
            },
        };
        let loss = loss_of(12_296_416, step);
        let prior = Probability::new(7.8e-76).unwrap();
        let posterior = loss.blow_up(prior, Tolerance::DEFAULT).unwrap();
        assert!(posterior.bounds.lower.unwrap().get().get() >= 1.0 - 1e-6);
        let delta = loss
            .delta(Epsilon::new(100.0).unwrap(), Tolerance::DEFAULT)
            .unwrap();
        assert!(delta.bounds.lower.unwrap().get().get() >= 1.0 - 1e-6);
        assert!(delta.bounds.upper.unwrap().get().get() >= 1.0);
        for engine in [posterior.engine, delta.engine] {
            assert_eq!(engine, Engine::Closed);
        }
    }
}
