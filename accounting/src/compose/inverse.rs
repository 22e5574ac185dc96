//! ε(δ) from δ itself at a few ε, where searches for ε leave ends that δ tells apart.

use super::found::Found;
use super::ladder::{AS_CLOSE, Source};
use super::roots::ROOM;
use super::solver::Solver;
use crate::engine::Engine;
use crate::numeric::interval::LnBounds;

/// How often δ is asked for.
const MOST_PLACES: usize = 24;
/// How exactly, to begin with.
const FIRST_GOAL: f64 = 1e-3;
/// Within this of ln δ a secant meets it.
const NEAR: f64 = 0.02;
/// Ends of ln δ farther apart than this tell nothing.
const UNDECIDED: f64 = 1.0;
/// No secant goes nearer to an end of the bracket than this share of it.
const INSIDE: f64 = 0.01;

/// A place with ln δ there, less the one that is looked for.
#[derive(Debug, Clone, Copy)]
struct Place {
    epsilon: f64,
    above: f64,
}

/// What is known of the ε at which ln δ passes a level.
#[derive(Debug)]
struct Bracket {
    ln_delta: f64,
    low: f64,
    high: f64,
    /// Those that are nearest to the level first.
    places: Vec<Place>,
}

impl Bracket {
    /// Takes in what ln δ is at `epsilon`.
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
        if place.above.is_finite() {
            self.places.retain(|other| other.epsilon != epsilon);
            self.places.push(place);
            (self.places).sort_by(|a, b| a.above.abs().total_cmp(&b.above.abs()));
        }
    }

    /// −d ln δ / dε between the two places that are nearest to the level.
    fn slope(&self) -> Option<f64> {
        let [a, b, ..] = self.places.as_slice() else {
            return None;
        };
        let slope = (a.above - b.above) / (b.epsilon - a.epsilon);
        (slope.is_finite() && slope > 0.0).then_some(slope)
    }

    /// Where the secant meets the level, if it is near.
    fn root(&self) -> Option<(f64, f64)> {
        let nearest = self
            .places
            .first()
            .filter(|place| place.above.abs() <= NEAR)?;
        let slope = self.slope()?;
        Some((nearest.epsilon + nearest.above / slope, slope))
    }

    /// Where to look next while no place is near.
    fn next(&self) -> f64 {
        let inside = INSIDE * (self.high - self.low);
        let secant = |place: &Place| {
            let slope = self.slope()?;
            Some((place.epsilon + place.above / slope).clamp(self.low + inside, self.high - inside))
        };
        if self.places.is_empty() && self.low <= 0.0 {
            0.0
        } else if let Some(next) = self.places.first().and_then(secant) {
            next
        } else {
            let place = self.places.first().map_or(0.0, |place| place.epsilon);
            // Beyond a place where nothing was decided.
            let from = if place < self.high {
                place.max(self.low)
            } else {
                self.low
            };
            0.5 * (from + self.high)
        }
    }

    fn within(&self, tolerance: f64) -> bool {
        self.high - self.low <= tolerance * self.high
    }
}

/// Where ln δ is asked for.
enum Asked {
    /// The sources in their order.
    Ladder(Solver),
    /// A grid of the run without far outcomes, which serves neighbouring ε.
    Cut(Solver),
}

impl Asked {
    fn ln_delta(&mut self, epsilon: f64, goal: f64) -> Option<(LnBounds, Source)> {
        match self {
            Self::Ladder(solver) => solver.ln_delta_by(None, epsilon, goal).ok(),
            Self::Cut(cut) => Some((cut.grid_ln_delta(epsilon, goal).ok()?, Source::GridOfCut)),
        }
    }
}

impl Solver {
    /// Closer ends of an ε of which only coarse ones were `found`.
    ///
    /// A search for ε lays its contours and grids by a guess of the tilt, which rare losses mislead; at a given ε
    /// each source lays its own.
    pub(super) fn inverted(&self, found: Found, delta: f64, tolerance: f64) -> Found {
        let one_sided = self.below.is_some() || self.loss.bounds_only();
        let close = found.width() <= tolerance.max(AS_CLOSE) * found.upper;
        if close || one_sided || found.upper.is_infinite() || delta <= 0.0 {
            return found;
        }
        let mut bracket = Bracket {
            ln_delta: delta.ln(),
            low: found.lower.unwrap_or(0.0),
            high: found.upper,
            places: Vec::new(),
        };
        let mut by = Engine::Closed;
        let mut asked = Asked::Ladder(Self::new(&self.loss));
        let mut goal = FIRST_GOAL;
        // How closely δ is known there.
        let mut width = 2.0 * goal;
        for _ in 0..MOST_PLACES {
            let root = bracket.root();
            let next = match root {
                None => bracket.next(),
                // A little outside what is not known of δ, on the side of which less is known.
                Some((root, slope)) => {
                    let room = 0.6 * width / slope + 0.2 * tolerance * root;
                    if bracket.high - root > root - bracket.low {
                        root + room
                    } else {
                        root - room
                    }
                }
            };
            if !(next >= bracket.low && next < bracket.high) {
                break;
            }
            let Some((ends, source)) = asked.ln_delta(next, goal) else {
                break;
            };
            by = by.coarser(source.engine());
            bracket.add(next, ends);
            if bracket.within(tolerance) || ends.width() > UNDECIDED {
                break;
            }
            let Some((root, slope)) = bracket.root() else {
                continue;
            };
            let finer = (0.1 * tolerance * root * slope).clamp(1e-12, FIRST_GOAL);
            let cut = || Self::new(&self.loss).cut_below(bracket.ln_delta, finer);
            width = match &asked {
                Asked::Ladder(_) if source == Source::GridOfCut => {
                    asked = cut().map_or(asked, |cut| Asked::Cut(cut));
                    2.0 * finer
                }
                _ if goal > 10.0 * finer => 2.0 * finer,
                _ => ends.width().max(2.0 * finer),
            };
            goal = finer;
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
            (0.4142, 6.74e-6, 72, 1.95e-6, 2e-3),
        ] {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(rate).unwrap(),
                Steps::new(steps),
            );
            let query = Query::single(Neighbours::Replace);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let rough = Solver::new(&loss).epsilon_by(None, delta, 1e-6).unwrap();
            let begun = std::time::Instant::now();
            let found = Solver::new(&loss).inverted(rough, delta, 1e-6);
            eprintln!("{found:?} {:?}", begun.elapsed());
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
}
