//! Computes ε(δ) from δ itself at a few ε, if a search for ε leaves ends that δ can distinguish.

use super::cut::MOST_COMPONENTS;
use super::found::Found;
use super::ladder::{Ends, Source};
use super::roots::ROOM;
use super::solver::Solver;
use crate::engine::Engine;
use crate::numeric::interval::LnBounds;

/// The most evaluations of δ.
const MOST_PLACES: usize = 24;
/// The precision of the first evaluations.
const FIRST_GOAL: f64 = 1e-3;
/// The distance from ln δ within which a secant is trusted to meet it.
const NEAR: f64 = 0.02;
/// Ends of ln δ farther apart than this decide nothing.
const UNDECIDED: f64 = 1.0;
/// The number of such places that are skipped, each replaced by one that is closer to the lower end by this share.
const MOST_BLIND: u32 = 3;
const NEARER: f64 = 0.25;
/// The share of the bracket that a secant keeps from its ends.
const INSIDE: f64 = 0.01;
/// If the ends come closer by less than this share, the search stops.
const LITTLE: f64 = 0.02;
/// Below this δ, its own sources take seconds at each place and hardly ever improve the ends; the same holds for laws
/// of so many components that they aren't cut.
const LEAST_DELTA: f64 = 1e-30;
/// Ends as close as this, relatively, aren't searched for again.
const CLOSE: f64 = 1e-6;

/// A place with ln δ there, minus the level that is searched for.
#[derive(Debug, Clone, Copy)]
struct Place {
    epsilon: f64,
    above: f64,
}

/// What is known about the ε at which ln δ passes a level.
#[derive(Debug)]
struct Bracket {
    ln_delta: f64,
    low: f64,
    high: f64,
    /// The evaluated places, the nearest to the level first.
    places: Vec<Place>,
}

impl Bracket {
    /// Records ln δ at `epsilon`.
    fn add(&mut self, epsilon: f64, ends: LnBounds) {
        if ends.upper <= self.ln_delta - ROOM {
            self.high = self.high.min(epsilon);
        } else if ends.lower >= self.ln_delta + ROOM {
            self.low = self.low.max(epsilon);
        }
        let place = Place {
            epsilon,
            above: ends.middle - self.ln_delta,
        };
        if place.above.is_finite() && ends.width() <= UNDECIDED {
            (self.places).retain(|other| other.epsilon.to_bits() != epsilon.to_bits());
            self.places.push(place);
            (self.places).sort_by(|a, b| a.above.abs().total_cmp(&b.above.abs()));
        }
    }

    /// Returns −d ln δ / dε between the two places that are nearest to the level.
    fn slope(&self) -> Option<f64> {
        let [a, b, ..] = self.places.as_slice() else {
            return None;
        };
        let slope = (a.above - b.above) / (b.epsilon - a.epsilon);
        (slope.is_finite() && slope > 0.0).then_some(slope)
    }

    /// Returns the point where the secant meets the level, if a place is near.
    fn root(&self) -> Option<(f64, f64)> {
        let nearest = self
            .places
            .first()
            .filter(|place| place.above.abs() <= NEAR)?;
        let slope = self.slope()?;
        Some((nearest.epsilon + nearest.above / slope, slope))
    }

    /// Returns the next place, if ln δ is `known` this closely below and above its middle; `None` if another place
    /// could tell no more.
    fn next(&self, (below, above): (f64, f64), tolerance: f64) -> Option<f64> {
        let Some((root, slope)) = self.root() else {
            return Some(self.next_far());
        };
        // Slightly outside the uncertainty of δ, on the side where that gains more.
        let room = |unknown: f64| 1.1 * unknown / slope + 0.2 * tolerance * root;
        let (low, high) = (root - room(below), root + room(above));
        let (next, gained) = if self.high - high > low - self.low {
            (high, self.high - high)
        } else {
            (low, low - self.low)
        };
        (gained > LITTLE * (self.high - self.low)).then_some(next)
    }

    /// Returns the next place while none is near.
    fn next_far(&self) -> f64 {
        let inside = INSIDE * (self.high - self.low);
        let secant = |place: &Place| {
            let slope = self.slope()?;
            let next = place.epsilon + place.above / slope;
            Some(next.clamp(self.low + inside, self.high - inside))
        };
        let nearest = self.places.first();
        match nearest.and_then(secant) {
            Some(next) => next,
            None if nearest.is_none() && self.low <= 0.0 => 0.0,
            None => {
                // Beyond a place where nothing was decided.
                let place = nearest.map_or(0.0, |place| place.epsilon);
                let from = if place < self.high { place } else { 0.0 };
                let from = from.max(self.low);
                if from > 0.0 && self.high > 4.0 * from {
                    (from * self.high).sqrt()
                } else {
                    0.5 * (from + self.high)
                }
            }
        }
    }

    fn within(&self, tolerance: f64) -> bool {
        self.high - self.low <= tolerance * self.high
    }
}

/// The evaluator of ln δ.
enum Evaluator {
    /// All sources in their order.
    Ladder(Solver),
    /// A grid of the run without far outcomes, which serves neighbouring ε.
    Cut(Solver),
}

impl Evaluator {
    fn ln_delta(&mut self, epsilon: f64, goal: f64) -> Option<(LnBounds, Source)> {
        match self {
            Self::Ladder(solver) => solver.ln_delta_by(None, epsilon, goal).ok(),
            Self::Cut(cut) => Some((cut.grid_ln_delta(epsilon, goal).ok()?, Source::GridOfCut)),
        }
    }
}

impl Solver {
    /// Returns closer ends of an ε for which only coarse ones were `found`.
    ///
    /// A search for ε places its contours and grids by a guess of the tilt, which rare losses can mislead; at a given
    /// ε, each source chooses its own tilt.
    pub(super) fn inverted(&self, found: Found, delta: f64, tolerance: f64) -> Found {
        let tolerance = tolerance.max(CLOSE);
        let close = found.within(tolerance) || found.upper.is_infinite();
        let one_sided = self.below.is_some() || self.loss.bounds_only();
        let slow = delta < LEAST_DELTA || self.components() > MOST_COMPONENTS;
        if close || one_sided || slow {
            return found;
        }
        let mut bracket = Bracket {
            ln_delta: delta.ln(),
            low: found.lower.unwrap_or(0.0),
            high: found.upper,
            places: Vec::new(),
        };
        let mut by = Engine::Closed;
        let mut evaluator = Evaluator::Ladder(Self::new(&self.loss));
        let mut goal = FIRST_GOAL;
        // How closely δ is known, below and above its middle.
        let mut known = (goal, goal);
        let (mut blind, mut elsewhere) = (0, None);
        for _ in 0..MOST_PLACES {
            let next = elsewhere.take();
            let Some(next) = next.or_else(|| bracket.next(known, tolerance)) else {
                break;
            };
            let Some((ends, source)) = evaluator.ln_delta(next, goal) else {
                break;
            };
            by = by.coarser(source.engine());
            let before = bracket.high - bracket.low;
            bracket.add(next, ends);
            if bracket.within(tolerance) {
                break;
            }
            let informative = ends.width() <= UNDECIDED || bracket.high - bracket.low < before;
            if !informative {
                if blind == MOST_BLIND {
                    break;
                }
                blind += 1;
                // Closer to where most losses lie, more is known.
                elsewhere = Some(bracket.low + NEARER * (next - bracket.low));
                continue;
            }
            let Some((root, slope)) = bracket.root() else {
                continue;
            };
            let finer = (0.1 * tolerance * root * slope).clamp(1e-12, FIRST_GOAL);
            // The finer goal is assumed to be met until it is missed.
            known = match goal > 10.0 * finer {
                true => (finer, finer),
                false => (ends.middle - ends.lower, ends.upper - ends.middle),
            };
            goal = finer;
            if source == Source::GridOfCut
                && matches!(evaluator, Evaluator::Ladder(_))
                && let Some(mut cut) = Self::new(&self.loss).cut_below(bracket.ln_delta, finer)
            {
                cut.keep_long(true);
                evaluator = Evaluator::Cut(cut);
            }
        }
        Found {
            lower: Some(bracket.low),
            upper: bracket.high,
            engine: if bracket.high - bracket.low < found.width() {
                by
            } else {
                found.engine
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

    /// Rare records whose grid for a δ was laid by a tilt far from the answer's.
    #[test]
    fn rare_records_have_the_epsilon_that_delta_has() {
        for (sigma, rate, steps, delta, tolerance) in [
            (0.879, 1.13e-7, 96_500, 1.93e-5, 1e-6),
            (0.393, 1.21e-5, 35_000, 4.45e-5, 1e-6),
            (0.45979, 2.53e-9, 5_220_113, 7.33e-7, 0.8),
            (0.41422855, 6.74e-6, 72, 1.95e-6, 2e-3),
        ] {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(rate).unwrap(),
                Steps::new(steps),
            );
            let query = Query::single(Neighbours::Replace);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let rough = Solver::new(&loss).epsilon_by(None, delta, 1e-6).unwrap();
            let found = Solver::new(&loss).inverted(rough, delta, 1e-6);
            assert!(found.width() <= tolerance * found.upper, "{found:?}");
            // What δ says there.
            for (epsilon, sign) in [(found.lower.unwrap(), 1.0), (found.upper, -1.0)] {
                let ln_delta = Solver::new(&loss).ln_delta(epsilon, 1e-7).unwrap().0;
                assert!(
                    sign * (ln_delta.middle - delta.ln()) >= -1e-3 * tolerance,
                    "{ln_delta:?}"
                );
            }
        }
    }

    /// Only what δ is certified to be moves an end.
    #[test]
    fn undecided_places_move_no_end() {
        let mut bracket = Bracket {
            ln_delta: -10.0,
            low: 1.0,
            high: 2.0,
            places: Vec::new(),
        };
        let ends = |lower: f64, upper: f64| LnBounds {
            lower,
            middle: 0.5 * (lower + upper),
            upper,
        };
        bracket.add(1.4, ends(-10.1, -9.5));
        bracket.add(1.6, ends(-10.5, -9.9));
        assert_eq!((bracket.low, bracket.high), (1.0, 2.0));
        // The secant through both middles, and the nearer ends that are decided.
        bracket.add(1.45, ends(-9.999, -9.989));
        bracket.add(1.55, ends(-10.011, -10.001));
        assert_eq!((bracket.low, bracket.high), (1.45, 1.55));
        let (root, _) = bracket.root().unwrap();
        assert!((root - 1.5).abs() < 1e-12, "{root}");
        // The farther side is looked at first, outside what is not known.
        let next = bracket.next((5e-3, 1e-4), 1e-6).unwrap();
        assert!(next > root && next < 1.51, "{next}");
        assert!(bracket.next((1e-2, 1e-2), 1e-6).is_none());
    }
}
