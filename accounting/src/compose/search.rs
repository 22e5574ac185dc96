//! Searches for ε(δ) with both ends certified.

use super::convert::Answer;
use super::found::Found;
use super::ladder::{AS_CLOSE, Ends, Question, Source};
use super::roots::{ROOM, both_ends, ends_of_step};
use super::solver::{Closed, Solver, TRIM};
use crate::compose::on_grid::MOST_COMPONENTS;
use crate::engine::Engine;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::engine::contour::inversion::Contour;
use crate::loss::Pair;
use crate::numeric::search::bisect;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Tolerance};

/// Ends decided by one step are as close as possible if they are this far apart, relatively.
const AS_DECIDED: f64 = 1e-2;

/// More than the supremum of a loss is rounded up by, relatively: 1e-13 for each law and for their sum.
const RAISED: f64 = 4e-13;

/// The question for ε(δ), at most `most`.
pub(super) struct EpsilonAt {
    delta: f64,
    tolerance: f64,
    most: f64,
}

impl EpsilonAt {
    pub(super) const fn new(delta: f64, tolerance: f64, most: f64) -> Self {
        Self {
            delta,
            tolerance,
            most,
        }
    }
}

impl Ends for Found {
    fn met(self, other: Self) -> Self {
        self.meet(other)
    }
    fn apart(&self) -> f64 {
        self.width()
    }
    fn within(&self, share: f64) -> bool {
        self.upper.is_finite() && self.width() <= share * self.upper
    }
}

impl Question for EpsilonAt {
    type Ends = Found;

    fn ask(&mut self, solver: &mut Solver, source: Source, known: Option<Found>) -> Result<Found> {
        let (delta, tolerance) = (self.delta, self.tolerance);
        let found = match source {
            Source::FarHits => solver
                .far_hits()
                .filter(|hits| hits.ln_missing <= delta.ln() + tolerance.ln())
                .map(|hits| {
                    let at = |epsilon: f64| hits.ln_delta(epsilon);
                    let (lower, upper) = ends_of_step(at, delta.ln(), tolerance);
                    Found {
                        lower: Some(lower),
                        upper,
                        engine: Engine::Closed,
                    }
                }),
            Source::Contour => Some(solver.epsilon_by_contour(delta, tolerance)?),
            Source::ContourOfCut => solver.epsilon_of_cut_by_contour(delta, tolerance),
            Source::GridOfCut => solver.epsilon_of_cut_on_grid(delta, tolerance),
            Source::Grid if !solver.grid_may_help() => None,
            Source::Grid => Some(solver.grid_epsilon(delta, tolerance)?),
            Source::OneStep => known
                .filter(|known| known.upper.is_finite() && !known.within(AS_CLOSE))
                .and_then(|known| solver.epsilon_of_one_hit(delta.ln(), &known, tolerance)),
            Source::Coarse => match solver.epsilon_coarse(delta) {
                Err(error) if !solver.needs_grid() => return Err(error),
                Err(_) if known.is_none() => {
                    let added = solver.epsilon_added_up(delta, tolerance);
                    Some(added.unwrap_or(Found::at_most(f64::INFINITY, Engine::Chernoff)))
                }
                found => Some(found?),
            },
            Source::Closed => None,
        };
        let found = found.ok_or_else(CumulantFunction::out_of_reach)?;
        Ok(Found {
            upper: found.upper.min(self.most),
            ..found
        })
    }

    fn enough(&self, source: Source, _: &Found) -> f64 {
        match source {
            Source::OneStep => self.tolerance.max(AS_DECIDED),
            _ => self.tolerance,
        }
    }
}

impl Solver {
    /// Returns [`Solver::epsilon`] in public types.
    pub(crate) fn answer(&mut self, delta: Delta, tolerance: Tolerance) -> Result<Answer<Epsilon>> {
        let found = self.epsilon(delta.get(), tolerance.get())?;
        let ends = (found.lower.unwrap_or(0.0), found.upper);
        Ok(Answer {
            looseness: self.looseness(ends, found.engine, tolerance.get()),
            ..found.answer()?
        })
    }

    pub(super) fn epsilon_of_pair(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        if delta >= 1.0 || self.loss.is_empty() {
            return Ok(Found::exactly(0.0, Engine::Closed));
        }
        if self.loss.unbounded {
            return Ok(match self.loss.is_certain() {
                true => Found::exactly(f64::INFINITY, Engine::Closed),
                false => Found::at_most(f64::INFINITY, Engine::Closed),
            });
        }
        let most = self.largest_loss_but_for(delta);
        let found = if delta <= 0.0 {
            Found {
                lower: Some(most * (1.0 - RAISED)),
                upper: most,
                engine: Engine::Closed,
            }
        } else if self.loss.is_stated() {
            let upper = match self.epsilon_of_stated(delta) {
                Err(Error::NotCertified { .. }) => f64::INFINITY,
                found => found?.0,
            };
            Found::at_most(upper, Engine::Chernoff)
        } else if let Some(closed) = self.closed.clone() {
            self.epsilon_closed(&closed, delta, tolerance)
        } else if self.needs_grid() {
            self.climb(&mut EpsilonAt::new(delta, tolerance, most))?.0
        } else {
            self.epsilon_open(delta, tolerance, most)?
        };
        // No loss exceeds its supremum, whatever the tail bounds say.
        Ok(Found {
            upper: found.upper.min(most),
            lower: found.lower.filter(|_| !self.loss.bounds_only()),
            ..found
        })
    }

    /// Returns ends for runs of several kinds of steps that no engine can compose. Each kind satisfies ε_i
    /// at its share of δ, so Σ ε_i holds; an adversary who sees one kind alone sees less. `None` if one
    /// kind has no answer.
    fn epsilon_added_up(&self, delta: f64, tolerance: f64) -> Option<Found> {
        let kinds = self.loss.kinds();
        if kinds.len() < 2 {
            return None;
        }
        let share = delta / kinds.len() as f64 * (1.0 - 1e-14);
        let mut all = Found::exactly(0.0, Engine::Chernoff);
        for kind in &kinds {
            all.upper += Self::new(kind).epsilon(share, tolerance).ok()?.upper;
            let alone = Self::new(kind).epsilon(delta, tolerance).ok()?.lower;
            all.lower = all.lower.zip(alone).map(|(a, b)| a.max(b)).or(all.lower);
        }
        all.upper *= 1.0 + 1e-14;
        Some(all)
    }

    /// Computes ε from a closed form of ln δ.
    fn epsilon_closed(&self, closed: &Closed, delta: f64, tolerance: f64) -> Found {
        if delta <= self.mass_beyond().0 {
            return Found::at_most(f64::INFINITY, Engine::Closed);
        }
        let within = |width: f64| {
            let at = |epsilon: f64| closed.ln_delta(epsilon, width);
            let (lower, upper) = ends_of_step(at, delta.ln(), tolerance);
            Found {
                lower: Some(lower),
                upper,
                engine: Engine::Closed,
            }
        };
        // The quick ends of a sum are usually close enough.
        let quick = within(f64::INFINITY);
        if matches!(closed, Closed::Pair(_)) || quick.within(tolerance) {
            quick
        } else {
            quick.meet(within(0.0))
        }
    }

    fn epsilon_open(&mut self, delta: f64, tolerance: f64, most: f64) -> Result<Found> {
        // Some losses lie almost entirely at their supremum.
        if most.is_finite() {
            let event = most * (1.0 - tolerance);
            if event > 0.0 && self.mostly_loses(most) && self.simple_event(event) >= delta.ln() {
                return Ok(Found {
                    lower: Some(event),
                    upper: most,
                    engine: Engine::Closed,
                });
            }
        }
        let mut question = EpsilonAt::new(delta, tolerance, most);
        if !self.has_groups() {
            return Ok(self.climb(&mut question)?.0);
        }
        let mut trimmed = self.derived(&self.loss.trimmed(delta * tolerance * TRIM));
        let found = trimmed.climb(&mut question);
        let enough = if trimmed.finest {
            tolerance.max(AS_CLOSE)
        } else {
            tolerance
        };
        let close = found.as_ref().is_ok_and(|(found, _)| found.within(enough));
        if close || self.components() > MOST_COMPONENTS {
            return Ok(found?.0);
        }
        // A grid keeps all components at little cost.
        match (found, self.grid_epsilon(delta, tolerance)) {
            (Ok((found, _)), Ok(whole)) => Ok(found.meet(whole)),
            (Err(error), Err(_)) => Err(error),
            (Ok((found, _)), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        }
    }

    pub(crate) fn epsilon_by_contour(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        let ln_delta = delta.ln();
        if self.free_by_composition(ln_delta) {
            return Ok(Found::exactly(0.0, Engine::Closed));
        }
        // The rest for finite losses.
        let rest = delta - self.mass_beyond().0;
        if rest <= 0.0 {
            return Ok(Found::at_most(f64::INFINITY, Engine::Closed));
        }
        let (guess, order) = self.start(rest.ln())?;
        if guess <= 0.0 || guess * (order - 1.0) < 1.0 {
            let (at_zero, engine) = self.ln_delta(0.0, tolerance)?;
            if at_zero.upper <= ln_delta - ROOM {
                return Ok(Found::exactly(0.0, engine));
            }
        }
        let mut centre = guess.max(0.0);
        let mut best: Option<Found> = None;
        for attempt in 0..6 {
            // δ falls like e^{−(c−1)ε}: this relative error moves ε by an eighth of the tolerance.
            let relative = tolerance * centre.max(1e-300) * (order - 1.0) / 8.0;
            let tighter = relative.clamp(1e-14, 1e-2) / f64::powi(3.0, attempt);
            let contour = match self.contour(centre, rest.ln() + tighter.ln()) {
                Ok(contour) => contour,
                Err(error) => return best.ok_or(error),
            };
            let found = self.certify(&contour, ln_delta, centre);
            let met = best.map_or(found, |before| before.meet(found));
            best = Some(met);
            if met.upper.is_finite() && met.width() <= tolerance * met.upper {
                return Ok(met);
            }
            let lower = met.lower.unwrap_or(0.0);
            centre = if met.upper.is_finite() {
                0.5 * (lower + met.upper)
            } else {
                0.5 * (lower + centre)
            };
        }
        best.ok_or_else(CumulantFunction::out_of_reach)
    }

    /// Returns an ε near the answer with the order of its saddle, by the saddle-point approximation.
    ///
    /// ε and ln δ are both explicit in the order, and ln δ falls with it, so the order is found by
    /// bisection.
    pub(super) fn start(&mut self, ln_delta: f64) -> Result<(f64, f64)> {
        let mut high = self.cumulants(1.0)?.highest;
        while self.approximate_at(high)?.1 > ln_delta {
            high = 1.0 + 3.0 * (high - 1.0);
            if high > super::solver::HIGHEST_ORDER {
                return Err(CumulantFunction::out_of_reach());
            }
        }
        let (mut low, mut high) = ((1e-12f64).ln(), (high - 1.0).ln());
        let mut place = high - 1.0;
        for _ in 0..60 {
            let order = 1.0 + place.exp();
            let (_, ln, fall) = self.approximate_at(order)?;
            if ln > ln_delta {
                low = place
            } else {
                high = place
            }
            // A Newton step in ln(c − 1), or half of the rest.
            let newton = place + (ln - ln_delta) / (fall * (order - 1.0));
            let next = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            let moved = (next - place).abs();
            place = next;
            if moved < 1e-4 {
                break;
            }
        }
        let order = 1.0 + place.exp();
        Ok((self.approximate_at(order)?.0, order))
    }

    /// Returns both ends of ε from one contour made near it.
    pub(super) fn certify(&self, contour: &Contour, ln_delta: f64, start: f64) -> Found {
        let at = |epsilon: f64| self.read(contour, epsilon);
        let slope = (contour.order() - 1.0).abs().max(1e-3);
        let (lower, upper) = both_ends(&at, ln_delta, start, slope);
        Found {
            lower: Some(lower),
            upper,
            engine: Engine::Contour,
        }
    }

    /// Returns both ends by the coarse path.
    fn epsilon_coarse(&mut self, delta: f64) -> Result<Found> {
        let ln_delta = delta.ln();
        let basic = self.basic_composition(ln_delta);
        let upper = match self.renyi_epsilon(delta) {
            Ok((renyi, _)) => renyi.min(basic),
            Err(error) if basic == f64::INFINITY => return Err(error),
            Err(_) => basic,
        };
        let mut low = self.epsilon_of_events(ln_delta, 1e-6);
        let mut high = upper;
        // More than a few halvings don't separate the window's bounds any better.
        for _ in 0..7 {
            if low >= high {
                break;
            }
            let middle = 0.5 * (low + high);
            let Ok(cumulants) = self.cumulants_for(middle) else {
                break;
            };
            if cumulants.window(middle) >= ln_delta + ROOM {
                low = middle
            } else {
                high = middle
            }
        }
        Ok(Found {
            lower: Some(low),
            upper,
            engine: Engine::Chernoff,
        })
    }

    /// Returns the steps, with plain Gaussians as one, and the share of ln δ for each of the T steps.
    fn shares(&self, ln_delta: f64) -> (Vec<(Pair, u64)>, f64) {
        let plain =
            (self.loss.gaussian > 0.0).then(|| (Pair::gaussian(self.loss.gaussian.sqrt()), 1));
        let steps: Vec<_> = plain
            .into_iter()
            .chain(self.loss.parts.iter().cloned())
            .collect();
        let count: u64 = steps.iter().map(|(_, times)| times).sum();
        (steps, ln_delta - (count as f64).ln() - ROOM)
    }

    /// Returns whether each of the T steps satisfies δ/T at ε = 0 already.
    fn free_by_composition(&self, ln_delta: f64) -> bool {
        if self.needs_grid() {
            // Steps of other laws aren't among the shares.
            return false;
        }
        let (steps, share) = self.shares(ln_delta);
        steps
            .iter()
            .all(|(pair, _)| pair.ln_delta_of_one_step(0.0).upper <= share)
    }

    /// Returns Σ ε_i at which each of the T steps satisfies δ/T: the guarantees simply add up.
    pub(crate) fn basic_composition(&self, ln_delta: f64) -> f64 {
        if self.needs_grid() {
            // Steps of other laws aren't among those that are added up.
            return f64::INFINITY;
        }
        let (steps, share) = self.shares(ln_delta);
        let each = |pair: &Pair| {
            bisect(
                |epsilon| pair.ln_delta_of_one_step(epsilon).upper <= share,
                1e-9,
            )
            .1
        };
        steps
            .iter()
            .map(|(pair, times)| each(pair) * *times as f64)
            .sum::<f64>()
            * (1.0 + 1e-14)
    }

    /// Returns the largest ε at which a simple event certifies δ(ε) ≥ δ.
    fn epsilon_of_events(&self, ln_delta: f64, tolerance: f64) -> f64 {
        bisect(
            |epsilon| self.simple_event(epsilon) < ln_delta,
            0.125 * tolerance,
        )
        .0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{GroupSize, NoiseMultiplier, Probability, SamplingRate, Steps};

    fn loss(run: &Mechanism, query: Query) -> PrivacyLoss {
        PrivacyLoss::of(run, query, Direction::Remove).unwrap()
    }

    fn repeat(times: u64, each: Mechanism) -> Mechanism {
        Mechanism::Repeat {
            times: Steps::new(times),
            each: Box::new(each),
        }
    }

    /// Two kinds of steps, of which no engine follows the second beside the first.
    #[test]
    fn kinds_that_no_engine_composes_add_up() {
        let noise = |sigma: f64| NoiseMultiplier::new(sigma).unwrap();
        let allocated = repeat(
            25,
            Mechanism::SubsampledGaussian {
                noise_multiplier: noise(1.388),
                sampling_rate: SamplingRate::new(0.25).unwrap(),
                sampling: Sampling::RandomAllocation {
                    selected: 1,
                    steps: 4,
                },
            },
        );
        let far = repeat(
            80,
            Mechanism::MixtureOfGaussians {
                noise_multiplier: noise(0.0444),
                sensitivities: vec![1.8, 4.2, 9.9, 16.6],
                probabilities: [0.25, 0.35, 0.1, 0.3]
                    .map(|p| Probability::new(p).unwrap())
                    .to_vec(),
            },
        );
        let query = Query::single(Neighbours::AddRemove);
        let both = Mechanism::Sequence {
            parts: vec![allocated, far],
        };
        let found = Solver::new(&loss(&both, query)).epsilon(7.6e-175, 1e-6);
        let found = found.unwrap();
        assert!(found.upper.is_finite() && found.lower.unwrap() <= found.upper);
        // Each kind has its share of δ.
        let mild = Mechanism::Sequence {
            parts: vec![
                Mechanism::Gaussian {
                    noise_multiplier: noise(1.0),
                },
                Mechanism::Laplace { scale: noise(1.0) },
            ],
        };
        let mild = loss(&mild, query);
        let kinds = mild.kinds();
        assert_eq!(kinds.len(), 2);
        let each = |delta: f64| -> f64 {
            let upper = |kind| Solver::new(kind).epsilon(delta, 1e-6).unwrap().upper;
            kinds.iter().map(upper).sum()
        };
        let (delta, own) = (1e-5, Solver::new(&mild).epsilon(1e-5, 1e-6).unwrap());
        let added = Solver::new(&mild).epsilon_added_up(delta, 1e-6).unwrap();
        assert!(added.upper >= each(0.5 * delta) * (1.0 - 1e-9), "{added:?}");
        assert!(added.upper >= own.upper && added.lower.unwrap() <= own.upper);
    }

    /// Grids see all of few steps: single steps, which took seconds, are not looked for.
    #[test]
    fn few_steps_of_rare_records_are_laid_on_a_grid_at_once() {
        for (rate, steps) in [(1e-4, 2), (1e-3, 9), (1e-5, 30)] {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(2.0).unwrap(),
                SamplingRate::new(rate).unwrap(),
                Steps::new(steps),
            );
            let run = loss(&run, Query::single(Neighbours::AddRemove));
            let mut solver = Solver::new(&run);
            let found = solver.epsilon(1e-5, 1e-6).unwrap();
            assert!(found.width() <= 1e-6 * found.upper, "{found:?}");
            // Without the far outcomes the contour may be as good.
            assert_ne!(found.engine, Engine::Chernoff);
            assert!(solver.hit.is_none());
            let (ends, engine) = solver.ln_delta(found.upper, 1e-6).unwrap();
            assert!(
                ends.width() <= 1e-3 && engine != Engine::Chernoff,
                "{ends:?}"
            );
            assert!(solver.hit.is_none());
        }
    }

    /// Few components may be dropped from the contour, and none from a grid.
    #[test]
    fn groups_of_rare_records_are_known_to_a_thousandth() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(89.883_739_632_303_82).unwrap(),
            SamplingRate::new(1.504_258_753_153_608_9e-9).unwrap(),
            Steps::new(17_098_243),
        );
        let query = Query {
            neighbours: Neighbours::AddRemove,
            group: GroupSize::new(11).unwrap(),
        };
        let found = Solver::new(&loss(&run, query))
            .epsilon(3.84e-12, 1e-3)
            .unwrap();
        assert!(found.width() <= 1e-3 * found.upper, "{found:?}");
    }

    /// Far components of the second law weigh nothing where the first law is: the contour has its digits.
    #[test]
    fn large_groups_of_rare_records_are_known_in_both_directions() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(0.397).unwrap(),
            SamplingRate::new(1e-6).unwrap(),
            Steps::new(100_000_000),
        );
        for group in [30, 200, 600] {
            let query = Query {
                neighbours: Neighbours::AddRemove,
                group: GroupSize::new(group).unwrap(),
            };
            for direction in [Direction::Remove, Direction::Add] {
                let loss = PrivacyLoss::of(&run, query, direction).unwrap();
                let found = Solver::new(&loss).epsilon(3e-7, 1e-8).unwrap();
                let close = found.width() <= 1e-8 * found.upper;
                assert!(close, "{group} {direction:?}: {found:?}");
            }
        }
    }
}
