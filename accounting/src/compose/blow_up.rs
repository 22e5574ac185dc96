//! The blow-up B(x) = max{P(E) : Q(E) ≤ x} over randomised tests.

use super::minimum::Minimum;
use crate::compose::Answer;
use crate::compose::ladder::{AS_CLOSE, Question, Source};
use crate::compose::solver::{Closed, Solver, TRIM};
use crate::engine::Engine;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::engine::contour::inversion::Contour;
use crate::loss::{LossDistribution, PrivacyLoss, ln_blow_up_of_gaussian};
use crate::numeric::interval::{LnBounds, in_order};
use crate::numeric::search::{minimiser, minimiser_to};
use crate::numeric::special::ln_add_exp;
use crate::quantity::bound::{Bounds, Upper};
use crate::quantity::error::Result;
use crate::quantity::{Probability, Tolerance};

/// Callers that need a posterior to no more than this precision, such as searches, don't wait for a second engine if
/// the first one knows roughly.
const ROUGH: f64 = 1e-4;
/// The loosest precision, approximately, at which contours are evaluated.
const LOOSEST: f64 = 1e-3;
/// Relative room for a few rounding errors.
const ROOM: f64 = 1e-14;
/// The limit on evaluations of the profile if nothing else is close; on grids, fewer are made.
const MOST_EFFORT: u32 = 40;
/// The distance before the last possible place of the minimum at which the search for it starts.
const BEFORE: f64 = 0.3;
/// The probability above which a guess may be almost certain.
const NEARLY_ONE: f64 = 0.9;
/// The distance of ends, as a share of their distance from a level, at which it is clear on which side they lie.
const CLEAR: f64 = 0.03;
/// The total mass of far components that are left out of the first evaluation of B.
const MASS: f64 = 1e-9;

impl PrivacyLoss {
    /// Returns the blow-up B(x) = max{P(E) : Q(E) ≤ x} of the composed dominating pair.
    ///
    /// For every real t, B(x) ≤ H_{e^t}(P‖Q) + e^t x, with equality where Q(L > t) = x; the upper end is that sum at a
    /// t near the root, which is safe whatever the error in t. The lower end follows from the convexity of the sum in
    /// e^t.
    ///
    /// Use it with the zero-out pair with the mixture first ([`crate::loss::Direction::Remove`]): for a secret guessed
    /// beforehand with probability at most x, B(x) bounds the probability of guessing it after training.
    ///
    /// ```
    /// use reticent_accounting::{GroupSize, Mechanism, Neighbours, NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance};
    /// use reticent_accounting::{Direction, PrivacyLoss, Query};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(10.0)?, SamplingRate::new(20480.0 / 1.7e7)?, Steps::new(2000));
    /// let query = Query { neighbours: Neighbours::ZeroOut, group: GroupSize::new(100)? };
    /// let loss = PrivacyLoss::of(&run, query, Direction::Remove)?;
    /// let posterior = loss.blow_up(Probability::new(1e-10)?, Tolerance::new(1e-6)?)?.bounds;
    /// assert!((posterior.upper.unwrap().get().get() / 2.9832837e-9 - 1.0).abs() < 1e-6);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if not even the coarse path can be certified.
    pub fn blow_up(&self, prior: Probability, tolerance: Tolerance) -> Result<Answer<Probability>> {
        self.blow_up_beside(prior, tolerance, None)
    }

    /// Returns the same; if only its place relative to a `level` is asked for, ends on one side of it may be farther
    /// apart, in proportion to their distance from it.
    pub(crate) fn blow_up_beside(
        &self,
        prior: Probability,
        tolerance: Tolerance,
        level: Option<Probability>,
    ) -> Result<Answer<Probability>> {
        let mut solver = Solver::new(self);
        solver.ln_level = level.map(|level| level.get().ln());
        let (lower, upper, engine) = solver.blow_up(prior.get(), tolerance.get())?;
        let bounds = Bounds::between(Probability::new(lower)?, Probability::new(upper)?);
        let looseness = solver.looseness((lower, upper), engine, tolerance.get());
        Ok(Answer {
            bounds,
            engine,
            looseness,
        })
    }

    /// Returns a bound on the blow-up that holds whatever the noise, even without any: a record that no step draws
    /// can't be seen.
    ///
    /// Bound: upper; attained as the noise vanishes. It is 1 where some step is certain to draw the records, and where
    /// the sampler's chance of drawing none of them is not known.
    ///
    /// ```
    /// use reticent_accounting::{GroupSize, Mechanism, NoiseMultiplier, PrivacyLoss, Probability, SamplingRate, Steps, Tolerance};
    /// let run = |sigma| Mechanism::dp_sgd(NoiseMultiplier::new(sigma).unwrap(), SamplingRate::new(0.001).unwrap(), Steps::new(10));
    /// let prior = Probability::new(0.1)?;
    /// // One record in a hundred is drawn at all; a secret that was not is guessed as before.
    /// let (loss, _) = PrivacyLoss::of_guesses(&run(1.0), GroupSize::ONE)?;
    /// let most = loss.blow_up_without_noise(prior).get().get();
    /// assert!((most - (1.0 - 0.999_f64.powi(10) * 0.9)).abs() < 1e-12);
    /// let (little, _) = PrivacyLoss::of_guesses(&run(0.05), GroupSize::ONE)?;
    /// let found = little.blow_up(prior, Tolerance::new(1e-4)?)?.bounds.upper.unwrap();
    /// assert!(found.get().get() <= most && found.get().get() > most * (1.0 - 1e-3));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn blow_up_without_noise(&self, prior: Probability) -> Upper<Probability> {
        let most = self
            .overlap
            .map_or(1.0, |overlap| overlap.blow_up(prior.get()));
        Upper::new(Probability::new(most).unwrap_or(Probability::ONE))
    }
}

/// The question for ln B(x), to a relative error of B.
struct BlowUpAt {
    ln_x: f64,
    goal: f64,
    /// See [`Solver::ln_level`].
    ln_level: Option<f64>,
}

impl Question for BlowUpAt {
    type Ends = LnBounds;

    fn ask(
        &mut self,
        solver: &mut Solver,
        source: Source,
        known: Option<LnBounds>,
    ) -> Result<LnBounds> {
        let (ln_x, goal) = (self.ln_x, self.goal);
        let laws = solver.needs_grid();
        // If nothing says even roughly how large B is, one grid replaces several of δ.
        let worth_it = goal < ROUGH || known.is_none_or(|known| known.width() > AS_CLOSE);
        let found = match source {
            Source::FarHits => solver
                .far_hits()
                .filter(|hits| hits.ln_missing <= ln_x + goal.ln())
                .map(|hits| {
                    let sum = |t: f64| at(hits.ln_delta(t), t, ln_x);
                    least(&sum, start_closed(&sum), 1.0)
                }),
            Source::Contour if laws => Some(solver.blow_up_by_contour(ln_x, goal)?.0),
            Source::Contour => Some(solver.blow_up_by_contours(ln_x, goal)?),
            Source::ContourOfCut => solver.ln_blow_up_of_cut(ln_x, (goal, TRIM * goal), |cut| {
                Ok(cut.blow_up_by_contour(ln_x, goal)?.0)
            }),
            Source::GridOfCut => {
                solver.ln_blow_up_of_cut(ln_x, (goal, goal), |cut| cut.grid_ln_blow_up(ln_x, goal))
            }
            Source::Grid if laws || worth_it && solver.grid_may_help() => {
                Some(solver.grid_ln_blow_up(ln_x, goal)?)
            }
            Source::OneStep => {
                let ends = solver.ln_blow_up_of_one_hit(ln_x, goal);
                let met = ends.map(|ends| known.map_or(ends, |known| known.meet(ends)));
                solver.finest = met.is_some_and(|met| met.width() <= AS_CLOSE);
                ends
            }
            Source::Coarse => {
                let mut trimmed = match laws {
                    true => None,
                    false => solver.trimmed(1e-3 * ln_x.exp()),
                };
                Some(trimmed.as_mut().unwrap_or(solver).coarse_blow_up(ln_x))
            }
            Source::Grid | Source::Closed => None,
        };
        found.ok_or_else(CumulantFunction::out_of_reach)
    }

    fn enough(&self, source: Source, ends: &LnBounds) -> f64 {
        let width = 4.0 * self.goal;
        match source {
            _ if is_clear(ends, self.ln_level) => f64::INFINITY,
            Source::OneStep => width.max(AS_CLOSE),
            _ => width,
        }
    }
}

impl Closed {
    /// Returns ln B(x).
    fn ln_blow_up(&self, ln_x: f64, goal: f64) -> LnBounds {
        match self {
            Self::Counted(counted) => counted.ln_blow_up(ln_x, goal),
            Self::Pair(pair) => match pair.gaussian_distance() {
                Some(distance) => ln_blow_up_of_gaussian(ln_x, distance),
                None => {
                    let sum = |t: f64| at(pair.ln_delta_of_one_step(t), t, ln_x);
                    least(&sum, start_closed(&sum), 1.0)
                }
            },
        }
    }
}

impl Solver {
    /// Returns both ends of B(x), aiming at relative error `tolerance`.
    fn blow_up(&mut self, x: f64, tolerance: f64) -> Result<(f64, f64, Engine)> {
        if self.loss.is_empty() {
            return Ok((x, x, Engine::Closed));
        }
        let common = self.blow_up_by_overlap(x);
        if let Some((lower, upper)) = common.filter(|(low, high)| high - low <= tolerance * low) {
            let (lower, upper) = in_order(lower, upper)?;
            return Ok((lower, upper, Engine::Closed));
        }
        let below = match &mut self.below {
            Some(below) => Some(below.blow_up(x, below.rough_goal(tolerance))?.0),
            None => None,
        };
        // If the lower end is almost one, no engine is needed for the upper end.
        if let Some(below) = below.filter(|below| 1.0 - below <= tolerance) {
            return Ok((below, 1.0, Engine::Closed));
        }
        let (lower, upper, engine) = self.blow_up_of_pair(x, tolerance)?;
        let (lower, upper) = common.map_or((lower, upper), |common| {
            (lower.max(common.0), upper.min(common.1))
        });
        let upper = match &mut self.more_informed {
            Some(informed) => upper.min(informed.blow_up(x, tolerance)?.1),
            None => upper,
        };
        let lower = below.unwrap_or(lower);
        let (lower, upper) = in_order(lower, upper)?;
        Ok((lower, upper, engine))
    }

    fn blow_up_of_pair(&mut self, x: f64, tolerance: f64) -> Result<(f64, f64, Engine)> {
        if self.loss.unbounded {
            let lower = if self.loss.is_certain() { 1.0 } else { x };
            return Ok((lower, 1.0, Engine::Closed));
        }
        let known = self.below.is_none() && !self.loss.bounds_only();
        // Mass where Q has none can be detected whatever x is.
        let certain = if known { self.mass_beyond().0 } else { 0.0 };
        // For absolutely continuous laws, the blow-up at zero is zero.
        if x <= 0.0 && !self.loss.is_continuous() {
            // All of its P-mass.
            let (ends, engine) = self.ln_delta(f64::MAX.ln(), tolerance)?;
            let upper = (ends.upper.exp() * (1.0 + 1e-14)).min(1.0);
            return Ok((certain.clamp(x, upper), upper, engine));
        }
        if x <= 0.0 || x >= 1.0 {
            return Ok((x, x, Engine::Closed));
        }
        if self.loss.is_stated() {
            return Ok((x, self.blow_up_of_stated(x)?, Engine::Chernoff));
        }
        let near = |lower: f64, upper: f64| known && upper - lower <= tolerance * upper;
        let (least, most) = self.blow_up_of_the_top(x);
        // A single step is known to full precision.
        if near(least, most) && self.single_law().is_none() {
            return Ok((least, most, Engine::Closed));
        }
        let goal = 0.25 * tolerance;
        let (ends, source) = self.ln_blow_up(x.ln(), goal)?;
        let mut engine = source.engine();
        let mut upper = (ends.upper.exp() * (1.0 + 4.0 * f64::EPSILON)).clamp(x, most);
        let mut lower = ends.lower.exp().clamp(x, 1.0).max(least).max(certain);
        if upper > NEARLY_ONE && !near(lower, upper) {
            lower = lower.max(self.blow_up_nearly_one(x.ln()));
        }
        let as_good = self.finest && upper - lower <= AS_CLOSE * upper;
        let clear = is_clear(&ends, self.ln_level);
        if !self.rough && !as_good && !clear && upper - lower > tolerance * upper {
            let (ends, by) = self.blow_up_by_profile((x.ln(), upper.ln()), goal)?;
            let (below, above) = (ends.lower.exp(), ends.upper.exp() * (1.0 + ROOM));
            if below > lower || above < upper {
                engine = by;
            }
            (lower, upper) = (lower.max(below * (1.0 - ROOM)), upper.min(above));
        }
        if !known {
            return Ok((x, upper, engine));
        }
        // B rises: where it has almost reached one, its value at a smaller x is more informative.
        for share in [0.3, 0.1, 0.01] {
            // B is concave and B(1) = 1, so at a smaller x it is no more than this.
            let most = upper - (1.0 - upper) * x * (1.0 - share) / (1.0 - x);
            if most <= lower || upper - lower < 1e-8 || upper < 0.5 {
                break;
            }
            let earlier = self.ln_blow_up((x * share).ln(), goal)?.0;
            lower = lower.max(earlier.lower.exp().min(1.0));
        }
        Ok((lower, upper, engine))
    }

    /// Returns both ends of B(x) from the largest loss: no event's probability grows by more, and the probability of an
    /// event of large losses grows by nearly that much.
    fn blow_up_of_the_top(&self, x: f64) -> (f64, f64) {
        let most = self.largest_loss();
        let upper = (x.ln() + most + ROOM * (1.0 + most.abs() + x.ln().abs()))
            .exp()
            .min(1.0);
        let lower = self.ln_blow_up_of_every_step(x.ln()).exp();
        (lower.clamp(x, upper.max(x)), upper.max(x))
    }

    /// Returns both ends of ln B(x) from δ at several ε: see [`Minimum`]. If B(x) ≤ e^`ln_most`, the minimum lies at
    /// e^t x ≤ e^`ln_most`.
    fn blow_up_by_profile(
        &mut self,
        (ln_x, ln_most): (f64, f64),
        goal: f64,
    ) -> Result<(LnBounds, Engine)> {
        let mut engine = Engine::Closed;
        let (start, step) = self.start_by_moments(ln_x);
        let last = ln_most.min(0.0) - ln_x;
        // A place beyond the last one that moments suggest is of no use.
        let (mut t, step) = if start < last {
            (start, step)
        } else {
            (last - BEFORE, BEFORE)
        };
        let mut minimum = Minimum::new(ln_x, step);
        let mut effort = 0;
        self.keep_long(true);
        while effort < MOST_EFFORT {
            let (excess, by) = self.ln_delta_of_pair(t, 0.3 * goal)?;
            engine = engine.coarser(by.engine());
            effort += match by.engine() {
                Engine::Closed => 1,
                Engine::Contour => 6,
                Engine::Grid => 4,
                Engine::Chernoff => 12,
            };
            minimum.add(t, excess);
            let ends = minimum.ends();
            if ends.width() <= 2.0 * goal || is_clear(&ends, self.ln_level) {
                break;
            }
            let Some(next) = minimum.next() else { break };
            t = next;
        }
        self.keep_long(false);
        Ok((minimum.ends(), engine))
    }

    /// Returns a t near the minimum from what is known about the moments, and approximately how far off it may be.
    fn start_by_moments(&mut self, ln_x: f64) -> (f64, f64) {
        let scale = |second: f64| (0.1 * second.sqrt()).clamp(1e-9, 0.5);
        if let Ok((t, _)) = self.start_blow_up(ln_x)
            && let Ok(cumulants) = self.cumulants(1.0)
        {
            return (t, scale(cumulants.moment(1.0).second));
        }
        self.moments().map_or((-ln_x, 0.5), |moments| {
            let (order, t) = moments.order_for_tail(ln_x);
            (t, scale(moments.at(order).second))
        })
    }

    /// Returns the solver without far mixture components of total mass `mass`, if it has any.
    fn trimmed(&self, mass: f64) -> Option<Self> {
        self.has_groups().then(|| self.without_components(mass))
    }

    /// Returns ln B(x), aiming at relative error `goal`.
    fn ln_blow_up(&mut self, ln_x: f64, goal: f64) -> Result<(LnBounds, Source)> {
        match &self.closed {
            Some(closed) => Ok((closed.ln_blow_up(ln_x, goal), Source::Closed)),
            None => {
                let ln_level = self.ln_level;
                self.climb(&mut BlowUpAt {
                    ln_x,
                    goal,
                    ln_level,
                })
            }
        }
    }

    /// Returns ln B(x) of pairs from contours, without far components that don't matter.
    fn blow_up_by_contours(&mut self, ln_x: f64, goal: f64) -> Result<LnBounds> {
        let (mut mass, mut aim) = (1e-12 * ln_x.exp(), goal);
        // With fewer components, or with ends farther apart, it may be within reach.
        let shares = [TRIM * goal, TRIM];
        let mut fewer = shares.iter().take(if self.has_groups() { 2 } else { 0 });
        let mut best: Option<LnBounds> = None;
        let mut refused = None;
        for _ in 0..8 {
            let mut trimmed = self.trimmed(mass);
            let solver = trimmed.as_mut().unwrap_or(self);
            let found = solver.blow_up_by_contour(ln_x, aim);
            let (failures, missing) = (solver.without_hits, solver.loss.missing());
            self.without_hits = failures;
            let (ends, expected) = match found {
                Ok(found) => found,
                Err(error) => {
                    refused = Some(error);
                    match fewer.next() {
                        _ if best.is_some() => break,
                        Some(share) => mass = self.negligible(ln_x, *share),
                        None if aim > LOOSEST => break,
                        None => aim *= 10.0,
                    }
                    continue;
                }
            };
            best = Some(best.map_or(ends, |before: LnBounds| before.meet(ends)));
            // No more components can be kept.
            if ends.width() <= 4.0 * goal || aim > goal || missing <= 0.0 {
                break;
            }
            mass = (mass * 0.1).min((expected + (TRIM * goal).ln()).exp());
        }
        best.ok_or_else(|| refused.unwrap_or_else(CumulantFunction::out_of_reach))
    }

    /// Returns a mass of far components that is at most about this share of B(x).
    fn negligible(&self, ln_x: f64, share: f64) -> f64 {
        // B(x) ≥ x.
        let least = share * ln_x.exp();
        let mut mass = MASS;
        for _ in 0..8 {
            let Some(Ok((_, expected))) = self
                .trimmed(mass)
                .map(|mut trimmed| trimmed.start_blow_up(ln_x))
            else {
                break;
            };
            let wanted = (share * expected.exp()).max(least);
            if mass <= wanted {
                return wanted;
            }
            mass = wanted;
        }
        least
    }

    /// Returns ln B(x) from a contour, with the rough size of the answer.
    pub(crate) fn blow_up_by_contour(&mut self, ln_x: f64, goal: f64) -> Result<(LnBounds, f64)> {
        let (mut t, expected) = self.start_blow_up(ln_x)?;
        let mut result = None;
        for _ in 0..3 {
            let contour = self.contour(t, expected + goal.ln() - 1.0)?;
            let reach = 2.0 * self.spread(&contour)?;
            let sum = |t: f64| at(self.read(&contour, t), t, ln_x);
            // The error of the place enters the minimum squared.
            let found = minimiser_to(|t| sum(t).middle, t - reach, t + reach, 0.05 * goal.sqrt());
            result = Some(least(&sum, found, 0.5 * reach));
            // A contour is accurate within a few units of its own order around its centre.
            if (found - t).abs() < 0.3 * reach {
                break;
            }
            t = found;
        }
        result
            .map(|ends| (ends, expected))
            .ok_or_else(CumulantFunction::out_of_reach)
    }

    fn spread(&mut self, contour: &Contour) -> Result<f64> {
        let order = contour.order();
        Ok(self
            .cumulants(order)?
            .moment(order)
            .second
            .sqrt()
            .max(1e-300))
    }

    /// Returns t near the root of Q(L > t) = x and a rough ln B(x), by the saddle-point approximation Q(L > t) ≈
    /// e^{K(c) − ct}/(c √(2πK'')), t = K'(c) − 1/c, bisecting the order.
    fn start_blow_up(&mut self, ln_x: f64) -> Result<(f64, f64)> {
        let tail = |solver: &mut Self, c: f64| -> Result<(f64, f64, f64)> {
            let total = solver.cumulants(c)?.moment(c);
            let t = total.first - 1.0 / c;
            let spread = std::f64::consts::TAU * (total.second + 1.0 / (c * c));
            Ok((
                t,
                total.ln - c * t - c.ln() - 0.5 * spread.ln(),
                total.second,
            ))
        };
        let mut high = self.cumulants(1.0)?.highest;
        while tail(self, high)?.1 > ln_x {
            high *= 3.0;
            if high > crate::compose::solver::HIGHEST_ORDER {
                return Err(CumulantFunction::out_of_reach());
            }
        }
        let (mut low, mut high) = ((1e-9f64).ln(), high.ln());
        while high - low > 1e-4 {
            let middle = 0.5 * (low + high);
            if tail(self, middle.exp())?.1 > ln_x {
                low = middle
            } else {
                high = middle
            }
        }
        let c = high.exp();
        let (t, ..) = tail(self, c)?;
        // P(L > t) is Q(L > t) times about e^t c/(c − 1); the exact factor matters little.
        let factor = if c > 1.5 { (c / (c - 1.0)).ln() } else { 1.0 };
        Ok((t, (ln_x + t + factor).min(0.0)))
    }

    /// Returns coarse bounds: Chernoff and plain addition for the upper end; a single step or the prior itself for the
    /// lower end.
    fn coarse_blow_up(&mut self, ln_x: f64) -> LnBounds {
        let (t, _) = self.start_blow_up(ln_x).unwrap_or((0.0, 0.0));
        let ln_missing = self.mass_beyond().1.ln();
        let ready = self.cumulants(1.0).is_ok();
        let bound = |t: f64| {
            let excess = match (&self.cumulants, ready) {
                (Some(cumulants), true) => ln_add_exp(cumulants.chernoff(t).0, ln_missing),
                _ => self.added_up(t),
            };
            ln_add_exp(excess, t + ln_x)
        };
        let best = minimiser_to(bound, t - 3.0, t + 3.0, 1e-4);
        let mut upper = bound(best).min(0.0);
        if self.needs_grid() {
            // Hölder's inequality: P(A) is at most e^{K(c)/c} Q(A)^{1 − 1/c}.
            let by_moments = self.least_by_moments(|c, ln| ln / c + (1.0 - 1.0 / c) * ln_x);
            if let Ok((ln, _)) = by_moments {
                upper = upper.min(ln_add_exp(ln + ROOM, ln_missing));
            }
        }
        let single = self.loss.parts.iter().map(|(pair, _)| {
            let sum = |t: f64| at(pair.ln_delta_of_one_step(t), t, ln_x);
            least(&sum, start_closed(&sum), 1.0).lower
        });
        let lower = single.fold(ln_x, f64::max);
        LnBounds {
            lower,
            middle: 0.5 * (lower + upper),
            upper,
        }
    }
}

impl LossDistribution {
    /// Returns ln B(x) = ln min over z of H_z + zx, which is convex, and linear between the atoms, so its minimum lies
    /// at an atom.
    pub(crate) fn ln_blow_up_of_atoms(&self, ln_x: f64, ln_cut: f64) -> Option<LnBounds> {
        if !self.is_listed() {
            return None;
        }
        // At z = 0 the sum is the whole of P.
        let mut least = LnBounds::exactly(0.0);
        for atom in self.atoms.iter() {
            let here = at(self.ln_delta(atom.loss, ln_cut).ok()?, atom.loss, ln_x);
            // The true position is off by as much as the loss.
            let lower = here.lower - 2.0 * atom.loss_error;
            least.lower = least.lower.min(lower);
            // Just past the atom, where its own rounding errors no longer count.
            let past = atom.loss + 2.0 * atom.loss_error + 8.0 * f64::EPSILON * atom.loss.abs();
            let past = at(self.ln_delta(past, ln_cut).ok()?, past, ln_x);
            for ends in [here, past] {
                if ends.upper < least.upper {
                    (least.middle, least.upper) = (ends.middle, ends.upper);
                }
            }
        }
        Some(least)
    }
}

/// Returns whether both ends lie on one side of a level, if there is one, and far closer to each other than to it.
pub(super) fn is_clear(ends: &LnBounds, ln_level: Option<f64>) -> bool {
    ln_level.is_some_and(|level| {
        let distance = (ends.lower - level).max(level - ends.upper);
        ends.width() <= CLEAR * distance
    })
}

/// Returns ln(H_{e^t} + e^t x).
pub(crate) fn at(excess: LnBounds, t: f64, ln_x: f64) -> LnBounds {
    let line = t + ln_x;
    let error = 4.0 * f64::EPSILON * (1.0 + line.abs());
    LnBounds {
        lower: ln_add_exp(excess.lower, line),
        middle: ln_add_exp(excess.middle, line),
        upper: ln_add_exp(excess.upper, line),
    }
    .widened(error)
}

/// Returns a t near the minimum of the sum, for cheap evaluations.
pub(crate) fn start_closed(sum: &impl Fn(f64) -> LnBounds) -> f64 {
    // ln(H + e^t x) falls until the root and rises after it.
    let mut high = 1.0;
    while sum(2.0 * high).middle < sum(high).middle && high < 1e9 {
        high *= 2.0;
    }
    let mut low = -1.0;
    while sum(2.0 * low).middle < sum(low).middle && low > -1e9 {
        low *= 2.0;
    }
    minimiser(|t| sum(t).middle, 2.0 * low, 2.0 * high)
}

/// Returns both ends of the minimum of the sum over t, given a t near it, for losses that differ by about `spread`.
///
/// g(z) = H + zx is convex in z = e^t. The upper end is g at t. For the lower end: once g certainly rises on both
/// sides, at z₋ < z < z₊, the minimum lies between them, and each chord, extended to the other side, stays below g.
pub(crate) fn least(sum: &impl Fn(f64) -> LnBounds, t: f64, spread: f64) -> LnBounds {
    let centre = sum(t);
    // A rise below the width of the ends wouldn't be visible.
    let mut step = (0.1 * centre.width().max(0.0).sqrt()).clamp(1e-7, 0.1) * spread.min(1.0);
    // For tiny losses, one rounding of t may be as large.
    step = step.max(64.0 * f64::EPSILON * t.abs());
    while step < 2.0 {
        let (left, right) = (sum(t - step), sum(t + step));
        if left.lower >= centre.upper && right.lower >= centre.upper {
            // z₊ − z = z(e^h − 1) and z − z₋ = z(1 − e^{−h}), so their ratio is e^h.
            let rise_left = (left.upper - centre.lower).exp_m1() * step.exp();
            let rise_right = (right.upper - centre.lower).exp_m1() * (-step).exp();
            let drop = rise_left.max(rise_right);
            return LnBounds {
                lower: centre.lower + (1.0 - drop).max(0.0).ln(),
                ..centre
            };
        }
        step *= 2.0;
    }
    LnBounds {
        lower: f64::NEG_INFINITY,
        ..centre
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::ladder::Source;
    use crate::mechanism::Mechanism;
    use crate::quantity::{GroupSize, NoiseMultiplier, SamplingRate, Steps};

    /// A search for noise: no contour reaches several draws of ten, and for guesses among 2^1074 no outcome is too rare
    /// to matter. What was known roughly was so by a grid at each of several ε.
    #[test]
    fn a_search_takes_one_grid_for_a_far_guess() {
        let run = |sigma: f64| {
            Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(0.01).unwrap(),
                Steps::new(10),
            )
        };
        let solver = |sigma: f64, level: Option<f64>| {
            let loss = PrivacyLoss::of_guesses(&run(sigma), GroupSize::ONE)
                .unwrap()
                .0;
            let mut solver = Solver::new(&loss);
            solver.ln_level = level;
            solver
        };
        let ln_x = -1074.0 * std::f64::consts::LN_2;
        let mut rough = solver(0.0667, None);
        let (ends, source) = rough.ln_blow_up(ln_x, 2.5e-4).unwrap();
        assert_eq!(source, Source::Grid);
        assert!(ends.width() < 1e-2, "{ends:?}");
        let truth = solver(0.0667, None).ln_blow_up(ln_x, 2.5e-7).unwrap().0;
        assert!(ends.lower <= truth.upper && truth.lower <= ends.upper && truth.width() < 1e-5);
        // Beside a level far below, ends that are farther apart suffice.
        let mut fine = solver(0.0477, None);
        fine.ln_blow_up(ln_x, 2.5e-4).unwrap();
        let level = 1e-10f64.ln();
        let mut beside = solver(0.0477, Some(level));
        let ends = beside.ln_blow_up(ln_x, 2.5e-4).unwrap().0;
        assert!(
            is_clear(&ends, Some(level)) && ends.lower > level,
            "{ends:?}"
        );
        assert!(beside.grid_work.get() < 0.5 * fine.grid_work.get());
        let near = Some(0.5 * (ends.lower + ends.upper));
        assert!(!is_clear(&ends, near) && !is_clear(&ends, None));
    }
}
