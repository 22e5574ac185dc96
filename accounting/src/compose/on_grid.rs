//! Answers the questions on a grid that is refined until its two ends are close enough.

use crate::compose::blow_up::{at, is_clear, least};
use crate::compose::found::Found;
use crate::compose::minimum::Minimum;
use crate::compose::roots::{ROOM, both_ends, ends_of_step};
use crate::compose::solver::Solver;
use crate::engine::Engine;
use crate::engine::grid::convolution::{Convolution, Effort, Wanted};
use crate::engine::grid::moments::{LN_NOTHING, Moments, steps};
use crate::numeric::interval::LnBounds;
use crate::numeric::search::minimiser_to;
use crate::quantity::error::{Error, Result};

/// The number of grids that are tried before the best is used.
const ATTEMPTS: usize = 5;
/// The same for a run that another one dominates: greater precision than the distance of the two gains
/// little.
const ROUGH_ATTEMPTS: usize = 3;
/// With more steps of Gaussian mixtures than this, the contour is the engine.
const MOST_STEPS: u64 = 100;
/// With more components than this, a grid takes too long compared with a contour.
pub(crate) const MOST_COMPONENTS: usize = 64;
/// Longer grids aren't kept for the next question.
const KEPT: usize = 1 << 15;
/// The work of a grid that fails; like all others, in units of about a quarter of a second of processor
/// time.
const WORK_IN_VAIN: f64 = 2.0;
/// After the first amount of work, grids aren't refined any more; after the second, no new one is made, for
/// a run and everything derived from it together.
const MUCH_WORK: f64 = 5.0;
pub(super) const MOST_WORK: f64 = 10.0;
/// The share of both amounts for a run that another one dominates, and for laws that only grids can handle.
const ROUGH_SHARE: f64 = 0.3;
const SHARE_OF_LAWS: f64 = 2.0;
/// An answer this far, relatively, from the place that the grid was made for requires another grid.
const ELSEWHERE: f64 = 0.1;
/// If δ is so flat that the digits of ε would require more precision of δ than this share of the tolerance,
/// that precision suffices.
const FLAT: f64 = 0.02;
/// The least of H + e^t x is searched for by chords this far below a single step's largest loss, or on either side of a
/// grid's minimum, at this many places.
const STEP_BELOW: f64 = 0.1;
const MOST_PLACES: usize = 24;
/// The ratio of the spacings of successive attempts.
const FINER: f64 = 0.4;
/// The ratio of the distances of ends of successive attempts above which another one is in vain.
const WORTH_IT: f64 = 0.5;

impl Solver {
    /// Returns whether only the grid can handle the laws of this loss.
    pub(crate) fn needs_grid(&self) -> bool {
        !self.loss.laws.is_empty()
    }

    /// Returns whether a grid is worth trying if the contour couldn't be certified: mixtures of very many
    /// components take too long for a second engine.
    pub(crate) fn grid_may_help(&self) -> bool {
        self.loss.steps() <= MOST_STEPS || self.components() <= MOST_COMPONENTS
    }

    /// Returns the largest number of components of a step's first law.
    pub(crate) fn components(&self) -> usize {
        let parts = self.loss.parts.iter();
        let components = parts.map(|(pair, _)| pair.first.components().count());
        components.max().unwrap_or(0)
    }

    /// Returns the number of grids that are tried before the best is used.
    fn attempts(&self) -> usize {
        match self.effort() {
            Effort::Full if self.grid_work.get() >= self.share() * MUCH_WORK => 1,
            Effort::Full if self.rough => ROUGH_ATTEMPTS,
            Effort::Full => ATTEMPTS,
            Effort::Modest => 1,
        }
    }

    /// Returns this run's share of both amounts of work.
    fn share(&self) -> f64 {
        // A run derived from a pair of mixtures has other engines too, and if only an upper end counts,
        // little depends on the last grid.
        let own = self.loss.laws.iter().any(|(law, _)| law.cut.is_none());
        if self.rough {
            ROUGH_SHARE
        } else if own && !self.loss.bounds_only() {
            SHARE_OF_LAWS
        } else {
            1.0
        }
    }

    /// Begins a modest run with so much work that the next grid that fails is the last.
    pub(crate) fn begin_work(&self) {
        if self.loss.modest {
            let most = self.share() * MOST_WORK;
            self.grid_work.set(most - WORK_IN_VAIN);
        }
    }

    /// Returns the effort for grids. The more steps of Gaussian mixtures, the better the contour: grids are
    /// for the few runs that it can't handle, and most of those need nothing that matters.
    fn effort(&self) -> Effort {
        let few = self.components() <= MOST_COMPONENTS;
        if self.needs_grid() || few {
            Effort::Full
        } else {
            Effort::Modest
        }
    }

    /// Returns the P-mass of infinite loss of the whole run.
    fn infinite(&self) -> f64 {
        let whole: f64 = self
            .loss
            .laws
            .iter()
            .map(|(law, times)| *times as f64 * (-law.infinite - law.missing).ln_1p())
            .sum();
        -whole.exp_m1()
    }

    /// Returns ln δ(∞), the mass of infinite loss, which may include mass missing from a law.
    pub(super) fn ln_infinite(&self) -> LnBounds {
        let upper = (self.infinite() * (1.0 + 1e-13)).ln();
        LnBounds {
            lower: f64::NEG_INFINITY,
            middle: upper,
            upper,
        }
    }

    /// Returns the single step that determines everything, if there is just one.
    pub(crate) fn single_law(&self) -> Option<&crate::loss::LossDistribution> {
        match (self.loss.laws.as_slice(), self.loss.parts.is_empty()) {
            ([(law, 1)], true) if self.loss.gaussian <= 0.0 => Some(law),
            _ => None,
        }
    }

    pub(crate) fn moments(&mut self) -> Result<&Moments> {
        if self.moments.is_none() {
            self.moments = Some(Moments::new(steps(&self.loss), LN_NOTHING)?);
        }
        self.moments.as_ref().ok_or_else(no_moments)
    }

    /// Returns ln δ(ε) on a grid, aiming at relative error `goal`.
    pub(crate) fn grid_ln_delta(&mut self, epsilon: f64, goal: f64) -> Result<LnBounds> {
        match self.kept_ln_delta(epsilon, goal) {
            Some(ends) => Ok(ends),
            None => self.new_grid_ln_delta(epsilon, goal),
        }
    }

    /// Returns the same on a new grid, which is kept for nearby questions.
    pub(crate) fn new_grid_ln_delta(&mut self, epsilon: f64, goal: f64) -> Result<LnBounds> {
        self.kept = None;
        let (ends, grid) = self.grid_at(epsilon, goal)?;
        let keeps_long = self.keeps_long;
        self.kept = grid.filter(|grid| keeps_long || grid.length <= KEPT);
        Ok(ends)
    }

    /// Returns the same on the grid of an earlier question, which nearby ones share, if it is good enough.
    pub(crate) fn kept_ln_delta(&self, epsilon: f64, goal: f64) -> Option<LnBounds> {
        let ends = self.kept.as_ref()?.value(epsilon);
        (ends.width() <= 2.0 * goal).then_some(ends)
    }

    /// Keeps long grids from now on, or drops them.
    pub(crate) fn keep_long(&mut self, keep: bool) {
        self.keeps_long = keep;
        if !keep {
            self.kept.take_if(|grid| grid.length > KEPT);
        }
    }

    /// Returns the result of a search with the usual tilts and, if these end it too soon with ends that are
    /// too wide, with higher ones. Losses may be so small that this is necessary, but a grid around higher
    /// tilts may fail.
    fn near_then_far<T>(
        &mut self,
        search: impl Fn(&mut Self) -> Result<T>,
        narrow: impl Fn(&T) -> bool,
        meet: impl Fn(T, T) -> T,
    ) -> Result<T> {
        // A search within another one must not answer for it.
        let around = self.take_stopped();
        let near = search(self);
        let stopped = self.take_stopped();
        if let Some(moments) = self.moments.as_ref().filter(|_| around) {
            moments.stop_near();
        }
        // For laws that only bound from above, the two ends never come together.
        let enough = |found: &T| self.loss.bounds_only() || narrow(found);
        if !stopped || near.as_ref().is_ok_and(enough) {
            return near;
        }
        self.look_far(true);
        let far = search(self);
        self.look_far(false);
        match (near, far) {
            (Ok(near), Ok(far)) => Ok(meet(near, far)),
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Returns whether a search ended at the highest usual tilt since the last call.
    fn take_stopped(&self) -> bool {
        self.moments.as_ref().is_some_and(Moments::stopped_near)
    }

    const fn look_far(&mut self, far: bool) {
        if let Some(moments) = &mut self.moments {
            moments.look_far(far);
        }
    }

    /// Returns ln δ(ε) with the finest grid that was needed; a single step needs none.
    pub(crate) fn grid_at(
        &mut self,
        epsilon: f64,
        goal: f64,
    ) -> Result<(LnBounds, Option<Convolution>)> {
        self.near_then_far(
            |solver| solver.grid_at_tilt(epsilon, goal),
            |(ends, _)| ends.width() <= 2.0 * goal,
            |(near, grid), (far, _)| (near.meet(far), grid),
        )
    }

    fn grid_at_tilt(&mut self, epsilon: f64, goal: f64) -> Result<(LnBounds, Option<Convolution>)> {
        if let Some(law) = self.single_law() {
            return Ok((law.ln_delta(epsilon, LN_NOTHING)?, None));
        }
        let theta = self.tilt(epsilon)?;
        let ln_delta = self.moments()?.ln_delta_at(theta, epsilon);
        let mut best: Option<LnBounds> = None;
        let mut finest = None;
        let mut before = f64::INFINITY;
        for attempt in 0..self.attempts() {
            // Two grids at once wouldn't fit into memory.
            drop(finest.take());
            let convolution = self.convolution(theta, ln_delta, goal, attempt)?;
            let ends = convolution.value(epsilon);
            best = Some(best.map_or(ends, |before| before.meet(ends)));
            let refinable = convolution.refinable;
            finest = Some(convolution);
            let converged = self.loss.bounds_only() && before - ends.upper <= goal;
            if !refinable || converged || best.is_some_and(|ends| ends.width() <= 2.0 * goal) {
                break;
            }
            before = ends.upper;
        }
        Ok((best.ok_or_else(no_moments)?, finest))
    }

    /// Returns the tilt for ε, but no farther out than where the finite losses' share of δ is small
    /// compared with that of the infinite ones.
    pub(crate) fn tilt(&mut self, epsilon: f64) -> Result<f64> {
        let infinite = self.infinite();
        let moments = self.moments()?;
        let theta = moments.tilt(epsilon);
        Ok(if infinite > f64::MIN_POSITIVE {
            theta.min(moments.tilt_for_delta(infinite.ln() - 3.0).0)
        } else {
            theta
        })
    }

    fn convolution(
        &mut self,
        theta: f64,
        ln_delta: f64,
        goal: f64,
        attempt: usize,
    ) -> Result<Convolution> {
        self.moments()?;
        if self.grid_work.get() >= self.share() * MOST_WORK {
            return Err(Error::NotCertified {
                what: "the grid",
                why: "it would take too many fine ones".into(),
            });
        }
        let moments = self.moments.as_ref().ok_or_else(no_moments)?;
        let wanted = Wanted {
            theta,
            relative: goal.clamp(1e-14, 1e-2),
            ln_delta,
            finer: FINER.powi(i32::try_from(attempt).unwrap_or(i32::MAX)),
            effort: self.effort(),
        };
        let found = Convolution::new(moments, wanted);
        let finest = found.as_ref().is_ok_and(|found| !found.refinable);
        self.finest |= finest;
        // A failed grid has taken its time too.
        let work = found.as_ref().map_or(WORK_IN_VAIN, |found| found.work);
        self.grid_work.set(self.grid_work.get() + work);
        found
    }

    /// Returns both ends of ε(δ) on a grid, a relative `tolerance` apart if the grid allows.
    pub(crate) fn grid_epsilon(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        self.near_then_far(
            |solver| solver.grid_epsilon_at_tilt(delta, tolerance),
            |found| found.width() <= tolerance * found.upper,
            Found::meet,
        )
    }

    fn grid_epsilon_at_tilt(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        let ln_delta = delta.ln();
        let found = |lower: f64, upper: f64| Found {
            lower: Some(lower),
            upper,
            engine: Engine::Grid,
        };
        let rest = delta - self.infinite();
        if rest <= 0.0 {
            // No ε bounds outcomes of infinite loss with probability δ or more.
            return Ok(Found {
                lower: None,
                upper: f64::INFINITY,
                engine: Engine::Grid,
            });
        }
        if let Some(law) = self.single_law() {
            // A law that is too wide for the quadrature is too wide at every ε.
            law.ln_delta(0.0, LN_NOTHING)?;
            // What can't be computed counts as unknown at both ends.
            let at = |epsilon: f64| law.ln_delta(epsilon, LN_NOTHING).unwrap_or(UNKNOWN);
            let (lower, upper) = ends_of_step(at, ln_delta, tolerance);
            return Ok(found(lower, upper));
        }
        let (mut theta, mut guess) = self.moments()?.tilt_for_delta(rest.ln());
        if guess * (theta - 1.0) < 1.0 {
            let at_zero = self.grid_ln_delta(0.0, tolerance.max(1e-9))?;
            if at_zero.upper <= ln_delta - ROOM {
                return Ok(found(0.0, 0.0));
            }
        }
        let mut before = f64::INFINITY;
        let mut best = self
            .epsilon_of_every_step(ln_delta)
            .map(|lower| found(lower, f64::INFINITY));
        let (mut finer, mut slope) = (0, theta - 1.0);
        for _ in 0..self.attempts() {
            let goal = tolerance * (guess.max(1e-9) * slope / 4.0).max(FLAT);
            let convolution = self.convolution(theta, rest.ln(), goal, finer)?;
            let at = |epsilon: f64| convolution.value(epsilon);
            let fall = convolution.order() - 1.0;
            let (lower, upper) = both_ends(&at, ln_delta, guess.max(0.0), fall);
            let now = found(lower, upper);
            let met = best.map_or(now, |before: Found| before.meet(now));
            best = Some(met);
            let most = self.largest_loss();
            let met = Found {
                upper: met.upper.min(most),
                ..met
            };
            // If only the upper end counts, continue until it no longer moves.
            let converged =
                self.loss.bounds_only() && before - met.upper <= 0.5 * tolerance * met.upper;
            if met.width() <= tolerance * met.upper {
                break;
            }
            let low = met.lower.unwrap_or(0.0);
            let middle = 0.5 * (low + met.upper);
            if middle.is_finite() {
                let fallen = at(low).middle - at(met.upper).middle;
                if fallen <= 8.0 * FLAT * tolerance {
                    break;
                }
                // Where hardly any loss lies, δ is flat and the saddle point is far from the answer; a grid
                // is accurate around its own tilt.
                if (guess - middle).abs() > ELSEWHERE * middle {
                    let there = self.tilt(middle)?;
                    // Half of an upper end alone is no guess if no tilt leads there.
                    if low > 0.0 || !Moments::is_least(there) {
                        slope = slope.min(fallen / met.width());
                        (theta, guess) = (there, middle);
                        before = f64::INFINITY;
                        continue;
                    }
                }
            }
            if !convolution.refinable || converged {
                break;
            }
            before = met.upper;
            finer += 1;
        }
        best.ok_or_else(no_moments)
    }

    /// Returns ln B(x) on a grid.
    pub(crate) fn grid_ln_blow_up(&mut self, ln_x: f64, goal: f64) -> Result<LnBounds> {
        self.near_then_far(
            |solver| solver.grid_ln_blow_up_at_tilt(ln_x, goal),
            |ends| ends.width() <= 4.0 * goal,
            LnBounds::meet,
        )
    }

    fn grid_ln_blow_up_at_tilt(&mut self, ln_x: f64, goal: f64) -> Result<LnBounds> {
        if let Some(law) = self.single_law() {
            if let Some(ends) = law.ln_blow_up_of_atoms(ln_x, LN_NOTHING) {
                return Ok(ends);
            }
            let sum = |t: f64| {
                let ends = law.ln_delta(t, LN_NOTHING).unwrap_or(UNKNOWN);
                at(ends, t, ln_x)
            };
            let t = crate::compose::blow_up::start_closed(&sum);
            let ends = least(&sum, t, 1.0);
            let most = law.largest_loss();
            if ends.width() <= 4.0 * goal || most.is_infinite() {
                return Ok(ends);
            }
            // A guess this rare gains nearly the largest loss, past which the sum has a kink.
            let near = most - goal.min(STEP_BELOW);
            let excess = |t: f64| law.ln_delta(t, LN_NOTHING).unwrap_or(UNKNOWN);
            return Ok(ends.meet(least_by_chords(excess, ln_x, &[t, near, most], goal)));
        }
        let (_, t) = self.moments()?.order_for_tail(ln_x);
        let theta = self.tilt(t)?;
        let ln_delta = self.moments()?.ln_delta_at(theta, t);
        let mut best: Option<LnBounds> = None;
        let mut before = f64::MAX;
        for attempt in 0..self.attempts() {
            let convolution = self.convolution(theta, ln_delta, goal, attempt)?;
            let sum = |t: f64| at(convolution.value(t), t, ln_x);
            let reach = 2.0 * self.moments()?.at(theta).second.sqrt();
            // The sum is flat at its minimum, so a rough place suffices, unless atoms make a kink there.
            let precise = if self.needs_grid() { 1e-8 } else { 1e-4 };
            let place = minimiser_to(|t| sum(t).middle, t - reach, t + reach, precise);
            let mut ends = least(&sum, place, 0.5 * reach);
            if ends.width() > 4.0 * goal {
                let excess = |t: f64| convolution.value(t);
                ends = ends.meet(least_by_chords(excess, ln_x, &[place], goal));
            }
            best = Some(best.map_or(ends, |before: LnBounds| before.meet(ends)));
            let close = best
                .is_some_and(|ends| ends.width() <= 4.0 * goal || is_clear(&ends, self.ln_level));
            // Pairs have other engines, which share the work.
            let in_vain = !self.needs_grid() && ends.width() > WORTH_IT * before;
            if !convolution.refinable || close || in_vain {
                break;
            }
            before = ends.width();
        }
        best.ok_or_else(no_moments)
    }
}

/// Returns the least of H + e^t x from values at a few places, which finds kinks: from `starts` on, until the ends are
/// close enough for `goal`.
fn least_by_chords(
    excess: impl Fn(f64) -> LnBounds,
    ln_x: f64,
    starts: &[f64],
    goal: f64,
) -> LnBounds {
    let mut minimum = Minimum::new(ln_x, STEP_BELOW);
    for t in starts {
        minimum.add(*t, excess(*t));
    }
    for _ in 0..MOST_PLACES {
        let wide = minimum.ends().width() > 2.0 * goal;
        let Some(next) = minimum.next().filter(|_| wide) else {
            break;
        };
        minimum.add(next, excess(next));
    }
    minimum.ends()
}

/// Bounds that only state δ ≤ 1.
pub(super) const UNKNOWN: LnBounds = LnBounds {
    lower: f64::NEG_INFINITY,
    middle: 0.0,
    upper: 0.0,
};

fn no_moments() -> Error {
    Error::NotCertified {
        what: "the grid",
        why: "no grid could be laid".into(),
    }
}
