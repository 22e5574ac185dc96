//! δ(ε) by whichever engine can certify it.

use super::coarse::with_coarse;
use super::nearly_one::Partition;
use super::single_hit::OneHit;
use crate::engine::Engine;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::engine::contour::inversion::Contour;
use crate::engine::contour::kernel::Kernel;
use crate::engine::grid::convolution::Convolution;
use crate::engine::grid::moments::Moments;
use crate::loss::{CountedLoss, Pair, PrivacyLoss};
use crate::numeric::interval::LnBounds;
use crate::numeric::special::ln_add_exp;
use crate::quantity::error::Result;
use std::cell::Cell;
use std::rc::Rc;

/// Orders beyond this are not charted.
pub(crate) const HIGHEST_ORDER: f64 = 1e16;
/// ln of a δ that is zero as a number.
const LEAST_LN_DELTA: f64 = -750.0;
/// Dropped mixture mass as a share of δ times the relative accuracy wanted.
pub(crate) const TRIM: f64 = 1e-3;
/// No δ is so small that less mass than this matters.
pub(super) const LEAST_MASS: f64 = 1e-300;
/// From so many steps of laws on, roundings of a grid add up to more than the contour's.
const MANY: u64 = 1000;
/// Contours of few steps that matter are not tried again after so many failures.
const MOST_FAILURES: u32 = 3;
/// With more atoms than this a contour is not tried.
const MOST_ATOMS: usize = 1 << 14;
/// Up to so many steps grids go before single steps that may decide.
pub(super) const FEW_STEPS: u64 = 1000;
/// Ends as close as those of runs that one step decides are as good as it gets.
const HIT: f64 = 1e-3;
/// Ends as close as this on the finest grid there is are as good as those of any other grid.
pub(crate) const AS_CLOSE: f64 = 1e-3;
/// Where δ is below e^`FAR` and the contour's ends are as close as this, nothing else is tried: it takes seconds and
/// hardly ever sees more so far out.
const CLOSE_FAR_OUT: f64 = 1e-4;
const FAR: f64 = -40.0;
/// With fewer steps than this no characteristic function of a law decays enough for the contour.
const SEVERAL: u64 = 20;

/// A privacy loss with what has been computed about it so far.
#[derive(Debug)]
pub(crate) struct Solver {
    pub(crate) loss: PrivacyLoss,
    /// A single pair that says everything, if there is one.
    pub(crate) closed: Option<Pair>,
    /// The run as a sum over one whole number, if it is one.
    pub(crate) counted: Option<CountedLoss>,
    pub(crate) cumulants: Option<CumulantFunction>,
    /// What the grid is laid by.
    pub(crate) moments: Option<Moments>,
    /// Charts up to here were tried in vain.
    out_of_reach: f64,
    /// How often contours of few steps that matter were tried in vain.
    pub(crate) without_hits: u32,
    /// The run as one of whose steps one may decide, with what is known of the others.
    pub(crate) hit: Option<Box<OneHit>>,
    /// The grid of the latest question, for the next one.
    pub(crate) kept: Option<Convolution>,
    /// What grids have taken so far, of this run and of all that it was cut down to.
    pub(crate) grid_work: Rc<Cell<f64>>,
    /// Whether the latest grids were as fine as there are, of this run or of one that differs from it by
    /// nothing that matters; or one step decided, as closely as that is known.
    pub(crate) finest: bool,
    /// Whether long grids are kept as well, for several questions of one search.
    pub(crate) keeps_long: bool,
    /// The run's outcomes in cells.
    pub(crate) partition: Option<Partition>,
    /// Whether this is only what another run dominates: closer than the two are, nothing is gained.
    pub(crate) rough: bool,
    /// The same run with more told to the adversary.
    pub(crate) more_informed: Option<Box<Self>>,
    /// What the run dominates.
    pub(crate) below: Option<Box<Self>>,
}

impl Solver {
    pub(crate) fn new(loss: &PrivacyLoss) -> Self {
        let loss = loss.listed().unwrap_or_else(|| loss.clone());
        let closed = match loss.parts.as_slice() {
            _ if !loss.laws.is_empty() => None,
            [] => Some(Pair::gaussian(loss.gaussian.sqrt())),
            [(pair, 1)] if loss.gaussian <= 0.0 => Some(pair.clone()),
            _ => None,
        };
        let around = |other: Option<&PrivacyLoss>| other.map(|other| Box::new(Self::new(other)));
        Self {
            closed,
            counted: CountedLoss::of(&loss),
            cumulants: None,
            moments: None,
            out_of_reach: f64::INFINITY,
            without_hits: 0,
            hit: None,
            kept: None,
            grid_work: Rc::default(),
            finest: false,
            keeps_long: false,
            partition: None,
            rough: false,
            more_informed: around(loss.more_informed.as_deref()),
            below: around(loss.below.as_deref()).map(|mut below| {
                below.rough = true;
                below
            }),
            loss,
        }
    }

    /// Of what is left of the run, or of a part of it: its grids count among this one's.
    pub(crate) fn derived(&self, loss: &PrivacyLoss) -> Self {
        Self {
            grid_work: Rc::clone(&self.grid_work),
            rough: self.rough,
            ..Self::new(loss)
        }
    }

    /// The cumulants, charted at least up to `order`.
    pub(crate) fn cumulants(&mut self, order: f64) -> Result<&CumulantFunction> {
        let ready = self
            .cumulants
            .as_ref()
            .is_some_and(|cumulants| cumulants.highest >= order);
        if !ready {
            let order = order.max(CumulantFunction::first_highest(&self.loss));
            if order >= self.out_of_reach {
                return Err(CumulantFunction::out_of_reach());
            }
            match CumulantFunction::new(&self.loss, order) {
                Ok(cumulants) => self.cumulants = Some(cumulants),
                Err(error) => {
                    self.out_of_reach = order;
                    return Err(error);
                }
            }
        }
        self.cumulants
            .as_ref()
            .ok_or_else(CumulantFunction::out_of_reach)
    }

    /// The cumulants, charted far enough for the saddle at `epsilon`.
    pub(crate) fn cumulants_for(&mut self, epsilon: f64) -> Result<&CumulantFunction> {
        let mut order = 1.0;
        let saddle = loop {
            let cumulants = self.cumulants(order)?;
            if let Some(saddle) = cumulants.saddle(Kernel::Excess, epsilon) {
                break saddle;
            }
            order = 1.0 + 3.0 * (cumulants.highest - 1.0);
            if order > HIGHEST_ORDER {
                return Err(CumulantFunction::out_of_reach());
            }
        };
        // Room above for the aliases and for the window.
        self.cumulants(1.0 + 1.3 * (saddle - 1.0))
    }

    /// The kernel that keeps relative accuracy at `epsilon`: the excess, except so far below the
    /// mean loss that δ is nearly one and the excess would need many terms.
    fn kernel(&mut self, epsilon: f64) -> Result<Kernel> {
        let law = self.cumulants(1.0)?.moment(1.0);
        let below = law.first - epsilon > 4.0 * law.second.sqrt();
        Ok(if below {
            Kernel::Shared
        } else {
            Kernel::Excess
        })
    }

    pub(crate) fn ln_delta_of_pair(
        &mut self,
        epsilon: f64,
        goal: f64,
    ) -> Result<(LnBounds, Engine)> {
        if self.loss.unbounded {
            return Ok((
                LnBounds {
                    lower: f64::NEG_INFINITY,
                    middle: 0.0,
                    upper: 0.0,
                },
                Engine::Closed,
            ));
        }
        if self.loss.is_stated() {
            let upper = self.ln_delta_of_stated(epsilon)?.0;
            return Ok((
                LnBounds {
                    lower: f64::NEG_INFINITY,
                    middle: upper,
                    upper,
                },
                Engine::Chernoff,
            ));
        }
        if let Some(pair) = &self.closed {
            return Ok((pair.ln_delta_of_one_step(epsilon), Engine::Closed));
        }
        if epsilon >= self.largest_loss() {
            return Ok((LnBounds::exactly(f64::NEG_INFINITY), Engine::Closed));
        }
        if let Some(counted) = &self.counted {
            return Ok((counted.ln_delta(epsilon, goal), Engine::Closed));
        }
        if self.needs_grid() {
            return self.ln_delta_of_laws(epsilon, goal);
        }
        if let Some(ends) = self.kept_ln_delta(epsilon, goal) {
            return Ok((ends, Engine::Grid));
        }
        // Where not even a rough size is known, everything is kept.
        let mut trimmed = self.trimmed_for(epsilon, goal).unwrap_or(None);
        let Some(trimmed) = &mut trimmed else {
            return self.ln_delta_open(epsilon, goal);
        };
        trimmed.keeps_long = self.keeps_long;
        let found = trimmed.ln_delta_open(epsilon, goal);
        self.without_hits = trimmed.without_hits;
        self.kept = trimmed.kept.take();
        found
    }

    /// Of steps that are no Gaussian mixtures: many go along the contour, few on a grid, and what
    /// neither of them can certify has the coarse path's ends.
    fn ln_delta_of_laws(&mut self, epsilon: f64, goal: f64) -> Result<(LnBounds, Engine)> {
        let mut best = None;
        let mut engine = Engine::Contour;
        for by_contour in self.engines().iter().copied() {
            let found = if by_contour {
                self.ln_delta_by_contour(epsilon, goal)
            } else {
                self.grid_ln_delta(epsilon, goal).ok()
            };
            let Some(ends) = found else { continue };
            if best.is_none_or(|best: LnBounds| ends.width() < best.width()) && !by_contour {
                engine = Engine::Grid;
            }
            let met = best.map_or(ends, |best| best.meet(ends));
            if met.width() <= 2.0 * goal || self.loss.bounds_only() && !by_contour {
                return Ok((met, engine));
            }
            best = Some(met);
        }
        let mut coarse = self.coarse(epsilon);
        let event = self.ln_delta_of_every_step(epsilon);
        coarse.lower = coarse.lower.max(event);
        Ok(with_coarse(best, engine, coarse))
    }

    /// Which engines are asked about laws, one after the other: whether it is the contour.
    pub(crate) fn engines(&self) -> &'static [bool] {
        let laws = || self.loss.laws.iter().map(|(law, _)| law);
        // Atoms alone never decay, and very many take their time.
        let decays = self.loss.gaussian > 0.0
            || !self.loss.parts.is_empty()
            || laws().any(|law| !law.pieces.is_empty());
        let atoms: usize = laws().map(|law| law.atoms.len()).sum();
        if !decays || atoms > MOST_ATOMS {
            &[false]
        } else if self.loss.steps() >= MANY {
            &[true, false]
        } else if self.loss.steps() >= SEVERAL {
            &[false, true]
        } else {
            &[false]
        }
    }

    /// ln δ(ε) along a contour, or as much of it as there is.
    pub(crate) fn ln_delta_by_contour(&mut self, epsilon: f64, goal: f64) -> Option<LnBounds> {
        Some(self.along_a_contour(epsilon, goal)?.0)
    }

    /// The same with the contour, which serves neighbouring ε too.
    pub(super) fn along_a_contour(
        &mut self,
        epsilon: f64,
        goal: f64,
    ) -> Option<(LnBounds, Contour)> {
        let kernel = self.kernel(epsilon).ok()?;
        let mut expected = match kernel {
            Kernel::Excess => self.approximate(epsilon).unwrap_or(0.0),
            Kernel::Shared => -2.0,
        };
        let mut best: Option<(LnBounds, Contour)> = None;
        // The second attempt knows the size of the answer.
        for _ in 0..3 {
            let Ok(contour) = self.contour(epsilon, expected + goal.ln()) else {
                break;
            };
            let ends = self.read(&contour, epsilon);
            let met = best.map_or(ends, |(before, _)| before.meet(ends));
            best = Some((met, contour));
            if met.width() <= 2.0 * goal {
                break;
            }
            expected = if ends.lower.is_finite() {
                ends.lower
            } else {
                expected - 12.0
            };
        }
        best
    }

    fn ln_delta_open(&mut self, epsilon: f64, goal: f64) -> Result<(LnBounds, Engine)> {
        if self.kernel(epsilon).is_err() {
            return Ok((self.coarse(epsilon), Engine::Chernoff));
        }
        let mut best = self.ln_delta_by_contour(epsilon, goal);
        if let Some(ends) = best.filter(|ends| ends.width() <= 2.0 * goal) {
            return Ok((ends, Engine::Contour));
        }
        let mut cut = self.cut_for(epsilon, goal);
        if let Some(cut) = &mut cut
            && let Some(ends) = cut.ln_delta_by_contour(epsilon, goal)
        {
            let met = best.map_or(ends, |best| best.meet(ends));
            if met.width() <= 2.0 * goal {
                return Ok((met, Engine::Contour));
            }
            best = Some(met);
        }
        let mut coarse = self.coarse(epsilon);
        if let Some(cut) = &mut cut {
            // Chernoff's bound at orders that far outcomes rule tells nothing.
            coarse.upper = coarse.upper.min(cut.coarse(epsilon).upper);
            coarse.middle = coarse.middle.min(coarse.upper);
        }
        let far_out = |best: &LnBounds| best.upper < FAR && best.width() <= CLOSE_FAR_OUT;
        if let Some(ends) = best.filter(far_out) {
            return Ok((ends.meet(coarse), Engine::Contour));
        }
        let mut engine = Engine::Contour;
        self.finest = false;
        // Of few steps grids see all, and take less than one step that decides; of many that one spares the
        // grids, which see no farther.
        let few = self.loss.steps() <= FEW_STEPS;
        if few {
            (best, engine) = self.ln_delta_on_grids((epsilon, goal), coarse, best, cut.take());
            if let Some(ends) = best.filter(|ends| ends.width() <= HIT) {
                return Ok(with_coarse(Some(ends), engine, coarse));
            }
        }
        if let Some(ends) = self.ln_delta_of_one_hit(epsilon) {
            let met = best.map_or(ends, |best| best.meet(ends)).meet(coarse);
            let enough = if self.loss.steps() > MANY {
                4.0 * HIT
            } else {
                HIT
            };
            if met.width() <= enough {
                return Ok((met, Engine::Contour));
            }
            best = Some(met);
        }
        if !few {
            (best, engine) = self.ln_delta_on_grids((epsilon, goal), coarse, best, cut);
        }
        Ok(with_coarse(best, engine, coarse))
    }

    /// What is known with a grid of the run `cut` off its far outcomes, and where that is not close with one of the whole
    /// run; the engine that says more. Far losses of records that are hardly ever drawn tilt a grid of the whole run to
    /// where they are, and it is refined in vain.
    fn ln_delta_on_grids(
        &mut self,
        (epsilon, goal): (f64, f64),
        coarse: LnBounds,
        mut best: Option<LnBounds>,
        cut: Option<Self>,
    ) -> (Option<LnBounds>, Engine) {
        let mut engine = Engine::Contour;
        let mut add = |best: Option<LnBounds>, ends: LnBounds| {
            if best.is_none_or(|best| ends.width() < best.width()) {
                engine = Engine::Grid;
            }
            Some(best.map_or(ends, |best| best.meet(ends)))
        };
        let close = |best: Option<LnBounds>, finest: bool| {
            best.is_some_and(|best| {
                best.width() <= 2.0 * goal || finest && best.width() <= AS_CLOSE
            })
        };
        let least = best.map_or(coarse.lower, |best| best.lower.max(coarse.lower));
        if let Some(mut cut) = cut.or_else(|| self.cut_below(least, goal)) {
            if let Ok(ends) = cut.grid_ln_delta(epsilon, goal) {
                best = add(best, ends);
            }
            self.finest = cut.finest;
        }
        // Below the smallest numbers nobody looks.
        if !close(best, self.finest)
            && coarse.upper > LEAST_LN_DELTA
            && self.grid_may_help()
            && let Ok(ends) = self.new_grid_ln_delta(epsilon, goal)
        {
            best = add(best, ends);
        }
        (best, engine)
    }

    /// Whether a first law has far components that may be worth dropping.
    pub(crate) fn has_groups(&self) -> bool {
        self.loss
            .parts
            .iter()
            .any(|(pair, _)| pair.first.components().count() > 2)
    }

    /// The supremum of the composed loss, rounded up.
    pub(crate) fn largest_loss(&self) -> f64 {
        if self.loss.gaussian > 0.0 {
            return f64::INFINITY;
        }
        let parts = self.loss.parts.iter();
        let sum: f64 = parts
            .map(|(pair, times)| pair.loss_range().0 * *times as f64)
            .sum();
        let laws = self.loss.laws.iter();
        let laws: f64 = laws
            .map(|(law, times)| law.largest_loss() * *times as f64)
            .sum();
        if laws == f64::INFINITY {
            return laws;
        }
        let sum = sum + laws;
        sum + 1e-13 * sum.abs()
    }

    /// The solver without far mixture components of mass `mass` in all; what was tried in vain stays known.
    pub(crate) fn without_components(&self, mass: f64) -> Self {
        Self {
            without_hits: self.without_hits,
            ..self.derived(&self.loss.trimmed(mass))
        }
    }

    /// The solver without far mixture components whose mass does not matter at this ε.
    pub(super) fn trimmed_for(&mut self, epsilon: f64, goal: f64) -> Result<Option<Self>> {
        if !self.has_groups() {
            return Ok(None);
        }
        let mut mass = 1e-12;
        for _ in 0..8 {
            let mut trimmed = self.without_components(mass);
            let ln_delta = trimmed.approximate(epsilon)?;
            let wanted = (ln_delta + (TRIM * goal).ln()).exp().max(LEAST_MASS);
            if trimmed.loss.missing() <= wanted {
                return Ok(Some(trimmed));
            }
            mass = wanted;
        }
        Ok(None)
    }

    /// (ε, ln δ(ε)) at the ε whose saddle is at order c, by the saddle-point approximation, and
    /// about how fast ln δ falls with c: no bound, a start for searches.
    pub(crate) fn approximate_at(&mut self, c: f64) -> Result<(f64, f64, f64)> {
        let total = self.cumulants(c)?.moment(c);
        let (slope, curvature) = Kernel::ln_factor_slopes(c);
        let epsilon = total.first + slope;
        let exponent = total.ln - epsilon * (c - 1.0) - (c * (c - 1.0)).ln();
        let variance = total.second + curvature;
        let spread = std::f64::consts::TAU * variance;
        Ok((epsilon, exponent - 0.5 * spread.ln(), (c - 1.0) * variance))
    }

    pub(super) fn approximate(&mut self, epsilon: f64) -> Result<f64> {
        let cumulants = self.cumulants_for(epsilon)?;
        let c = cumulants
            .saddle(Kernel::Excess, epsilon)
            .ok_or_else(CumulantFunction::out_of_reach)?;
        Ok(self.approximate_at(c)?.1.min(0.0))
    }

    /// A contour made for `epsilon`, aiming at an absolute error of e^`ln_goal`.
    pub(crate) fn contour(&mut self, epsilon: f64, ln_goal: f64) -> Result<Contour> {
        let kernel = self.kernel(epsilon)?;
        let hopeless = self.without_hits >= MOST_FAILURES;
        let cumulants = match kernel {
            Kernel::Excess => self.cumulants_for(epsilon)?,
            Kernel::Shared => self.cumulants(1.0)?,
        };
        match Contour::new(cumulants, kernel, epsilon, ln_goal) {
            Err(error) if kernel == Kernel::Excess && !hopeless => {
                let found = Contour::of_hits(cumulants, epsilon, ln_goal);
                self.without_hits += u32::from(found.is_err());
                found.map_err(|_| error)
            }
            found => found,
        }
    }

    /// δ(ε) from a contour of either kernel.
    pub(crate) fn read(&self, contour: &Contour, epsilon: f64) -> LnBounds {
        let ends = contour.value(epsilon);
        let (least, most) = self.mass_beyond();
        match contour.kernel() {
            Kernel::Excess => LnBounds {
                lower: ln_add_exp(ends.lower, least.ln()),
                middle: ln_add_exp(ends.middle, least.ln()),
                upper: ends.upper,
            }
            .raised(most),
            // What P has left beside min(P, e^ε Q).
            Kernel::Shared => ends.complement(most - least),
        }
    }

    /// P-mass that is not in the moments: at least, of infinite loss, and at most.
    pub(crate) fn mass_beyond(&self) -> (f64, f64) {
        let all = |each: fn(&crate::loss::LossDistribution) -> f64| {
            let laws = self.loss.laws.iter();
            let whole: f64 = laws.map(|(law, n)| *n as f64 * (-each(law)).ln_1p()).sum();
            -whole.exp_m1()
        };
        let least = all(crate::loss::LossDistribution::infinite_at_least);
        let most = all(|law| law.infinite + law.missing) + self.loss.missing();
        (least * (1.0 - 1e-14), most * (1.0 + 1e-14))
    }
}
