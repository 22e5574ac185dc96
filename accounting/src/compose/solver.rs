//! Computes δ(ε) by whichever engine can certify it.

use super::concentration::Concentration;
use super::ladder::{Ends, Question, Source};
use super::nearly_one::Partition;
use super::single_hit::OneHit;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::engine::contour::inversion::Contour;
use crate::engine::contour::kernel::Kernel;
use crate::engine::grid::convolution::Convolution;
use crate::engine::grid::moments::Moments;
use crate::loss::{CountedLoss, LossDistribution, Pair, PrivacyLoss};
use crate::numeric::interval::LnBounds;
use crate::numeric::special::ln_add_exp;
use crate::quantity::error::Result;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// Orders beyond this aren't charted.
pub(crate) const HIGHEST_ORDER: f64 = 1e16;
/// ln of a δ that underflows to zero.
const LEAST_LN_DELTA: f64 = -750.0;
/// The mixture mass that may be dropped, as a share of δ times the requested relative accuracy.
pub(crate) const TRIM: f64 = 1e-3;
/// No δ is so small that a mass below this matters.
pub(super) const LEAST_MASS: f64 = 1e-300;
/// The number of failures after which contours for few steps that matter aren't tried again.
const MOST_FAILURES: u32 = 3;
/// Ends of many steps as close as this are as good as possible if one of the steps decides.
const HIT: f64 = 4e-3;
/// If δ is below e^`FAR` and the contour's ends are as close as this, nothing else is tried: it takes seconds and
/// hardly ever improves the ends that far out.
const CLOSE_FAR_OUT: f64 = 1e-4;
const FAR: f64 = -40.0;

/// A privacy loss with what has been computed about it so far.
#[derive(Debug)]
pub(crate) struct Solver {
    pub(crate) loss: PrivacyLoss,
    /// The closed form that determines everything, if there is one.
    pub(crate) closed: Option<Closed>,
    pub(crate) cumulants: Option<CumulantFunction>,
    /// The moments from which the grid is placed.
    pub(crate) moments: Option<Moments>,
    /// The order up to which charts were tried in vain.
    out_of_reach: f64,
    /// The number of failed contours for few steps that matter.
    pub(crate) without_hits: u32,
    /// The run as one in which a single step may decide, with what is known about the others.
    pub(crate) hit: Option<Box<OneHit>>,
    /// The grid of the latest question, kept for the next one.
    pub(crate) kept: Option<Convolution>,
    /// The work of grids so far, for this run and all runs derived from it.
    pub(crate) grid_work: Rc<Cell<f64>>,
    /// Whether the latest grids were as fine as possible, for this run or for one that differs from it negligibly;
    /// or whether one step decided, as closely as that is known.
    pub(crate) finest: bool,
    /// Whether long grids are kept as well, for several questions of one search.
    pub(crate) keeps_long: bool,
    /// The run's outcomes in cells.
    pub(crate) partition: Option<Partition>,
    /// Moments of small order, if they were requested; the inner value is `None` for steps that they don't cover.
    pub(crate) concentration: Option<Option<Concentration>>,
    /// ln P(A)^T and ln Q(A)^T for A = {x > threshold} at every step, at several thresholds.
    pub(super) every_step: OnceCell<Vec<(f64, f64)>>,
    /// The latest ln δ of which ε was found by moments alone, with that ε and its order.
    pub(crate) by_moments: Option<(f64, (f64, f64))>,
    /// Whether this is only a run that another one dominates: greater precision than the distance of the two gains
    /// nothing.
    pub(crate) rough: bool,
    /// A level beside which alone a blow-up is asked for, as a logarithm.
    pub(super) ln_level: Option<f64>,
    /// The same run with more information given to the adversary.
    pub(crate) more_informed: Option<Box<Self>>,
    /// A run that this one dominates.
    pub(crate) below: Option<Box<Self>>,
}

/// A closed form that determines everything about a run.
#[derive(Debug, Clone)]
pub(crate) enum Closed {
    /// One step of a pair.
    Pair(Pair),
    /// A sum over one whole number.
    Counted(CountedLoss),
}

impl Closed {
    /// Returns ln δ(ε); a sum is computed quickly if a relative error of `goal` suffices.
    pub(super) fn ln_delta(&self, epsilon: f64, goal: f64) -> LnBounds {
        match self {
            Self::Pair(pair) => pair.ln_delta_of_one_step(epsilon),
            Self::Counted(counted) => counted.ln_delta(epsilon, goal),
        }
    }
}

/// The question for ln δ(ε), to a relative error of δ.
pub(super) struct DeltaAt {
    epsilon: f64,
    goal: f64,
    /// The run without far outcomes that don't matter there.
    cut: Option<Solver>,
}

impl DeltaAt {
    pub(super) const fn new(epsilon: f64, goal: f64) -> Self {
        Self {
            epsilon,
            goal,
            cut: None,
        }
    }
}

impl Ends for LnBounds {
    fn met(self, other: Self) -> Self {
        self.meet(other)
    }
    fn apart(&self) -> f64 {
        self.width()
    }
    fn within(&self, share: f64) -> bool {
        self.width() <= share
    }
}

impl Question for DeltaAt {
    type Ends = LnBounds;

    fn ask(
        &mut self,
        solver: &mut Solver,
        source: Source,
        known: Option<LnBounds>,
    ) -> Result<LnBounds> {
        let (epsilon, goal) = (self.epsilon, self.goal);
        let found = match source {
            Source::FarHits => solver.far_hits().map(|hits| hits.ln_delta(epsilon)),
            Source::Contour => solver.ln_delta_by_contour(epsilon, goal),
            Source::ContourOfCut => {
                self.cut = solver.cut_for(epsilon, goal);
                (self.cut.as_mut()).and_then(|cut| cut.ln_delta_by_contour(epsilon, goal))
            }
            Source::GridOfCut => {
                let least = known.map_or(f64::NEG_INFINITY, |known| known.lower);
                let cut = self.cut.take().or_else(|| solver.cut_below(least, goal));
                cut.and_then(|mut cut| {
                    let ends = cut.grid_ln_delta(epsilon, goal).ok();
                    solver.finest |= cut.finest;
                    ends
                })
            }
            Source::Grid => {
                // Below the smallest numbers, precision doesn't matter.
                let vanishes = known.is_some_and(|known| known.upper <= LEAST_LN_DELTA);
                if vanishes && !solver.needs_grid() || !solver.grid_may_help() {
                    None
                } else {
                    solver.grid_ln_delta(epsilon, goal).ok()
                }
            }
            Source::OneStep => solver.ln_delta_of_one_hit(epsilon),
            Source::Coarse => {
                let mut ends = solver.coarse(epsilon);
                ends.lower = ends.lower.max(solver.ln_delta_of_every_step(epsilon));
                if let Some(cut) = &mut self.cut {
                    // Chernoff's bound at orders dominated by far outcomes is useless.
                    ends.upper = ends.upper.min(cut.coarse(epsilon).upper);
                    ends.middle = ends.middle.min(ends.upper);
                }
                Some(ends)
            }
            Source::Closed => None,
        };
        found.ok_or_else(CumulantFunction::out_of_reach)
    }

    fn enough(&self, source: Source, ends: &LnBounds) -> f64 {
        let width = 2.0 * self.goal;
        match source {
            Source::OneStep => width.max(HIT),
            Source::Coarse if ends.upper < FAR => width.max(CLOSE_FAR_OUT),
            _ => width,
        }
    }
}

impl Solver {
    pub(crate) fn new(loss: &PrivacyLoss) -> Self {
        Self::of_run(loss, false)
    }

    fn of_run(loss: &PrivacyLoss, rough: bool) -> Self {
        let loss = loss.listed().unwrap_or_else(|| loss.clone());
        let pair = match loss.parts.as_slice() {
            _ if !loss.laws.is_empty() => None,
            [] => Some(Pair::gaussian(loss.gaussian.sqrt())),
            [(pair, 1)] if loss.gaussian <= 0.0 => Some(pair.clone()),
            _ => None,
        };
        let counted = || CountedLoss::of(&loss).map(Closed::Counted);
        let around = |other: Option<&PrivacyLoss>, rough: bool| {
            other.map(|other| Box::new(Self::of_run(other, rough)))
        };
        let solver = Self {
            closed: pair.map(Closed::Pair).or_else(counted),
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
            concentration: None,
            every_step: OnceCell::new(),
            by_moments: None,
            rough,
            ln_level: None,
            more_informed: around(loss.more_informed.as_deref(), false),
            below: around(loss.below.as_deref(), true),
            loss,
        };
        solver.begin_work();
        solver
    }

    /// Creates a solver for what is left of the run, or for a part of it; its grids count among this one's.
    pub(crate) fn derived(&self, loss: &PrivacyLoss) -> Self {
        Self {
            grid_work: Rc::clone(&self.grid_work),
            rough: self.rough,
            ln_level: self.ln_level,
            ..Self::new(loss)
        }
    }

    /// Returns the cumulants, charted at least up to `order`.
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

    /// Returns the cumulants, charted far enough for the saddle at `epsilon`.
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
        // Leaves room above for the aliases and for the window.
        self.cumulants(1.0 + 1.3 * (saddle - 1.0))
    }

    /// Returns the kernel that keeps relative accuracy at `epsilon`: the excess, unless ε is so far below the mean
    /// loss that δ is nearly one and the excess would need many terms.
    fn kernel(&mut self, epsilon: f64) -> Result<Kernel> {
        let cumulants = self.cumulants(1.0)?;
        let law = cumulants.moment(1.0);
        let below = law.first - epsilon > 4.0 * law.second.sqrt() && cumulants.serves_below_one();
        Ok(if below {
            Kernel::Shared
        } else {
            Kernel::Excess
        })
    }

    /// Returns ln δ(ε) of the pair itself.
    pub(crate) fn ln_delta_of_pair(
        &mut self,
        epsilon: f64,
        goal: f64,
    ) -> Result<(LnBounds, Source)> {
        if self.loss.is_certain() {
            return Ok((LnBounds::exactly(0.0), Source::Closed));
        }
        if self.loss.is_stated() && !self.loss.unbounded {
            let most = self.largest_loss();
            if most.is_finite() && epsilon >= most {
                return Ok((LnBounds::exactly(f64::NEG_INFINITY), Source::Closed));
            }
        }
        if self.loss.unbounded || self.loss.is_stated() {
            let (upper, source) = if self.loss.unbounded {
                (0.0, Source::Closed)
            } else {
                (self.ln_delta_of_stated(epsilon)?.0, Source::Coarse)
            };
            let ends = LnBounds {
                lower: f64::NEG_INFINITY,
                middle: upper,
                upper,
            };
            return Ok((ends, source));
        }
        if epsilon == f64::INFINITY {
            return Ok((self.ln_infinite(), Source::Closed));
        }
        if epsilon >= self.largest_loss() {
            return Ok((LnBounds::exactly(f64::NEG_INFINITY), Source::Closed));
        }
        let (mut ends, source) = self.ln_delta_of_less_than_the_largest(epsilon, goal)?;
        // Some loss is larger, so this is an exponent that overflowed.
        ends.upper = ends.upper.max(f64::MIN);
        Ok((ends, source))
    }

    /// Returns the same if some loss exceeds ε.
    fn ln_delta_of_less_than_the_largest(
        &mut self,
        epsilon: f64,
        goal: f64,
    ) -> Result<(LnBounds, Source)> {
        if let Some(closed) = &self.closed {
            return Ok((closed.ln_delta(epsilon, goal), Source::Closed));
        }
        let mut question = DeltaAt::new(epsilon, goal);
        if self.needs_grid() {
            return self.climb(&mut question);
        }
        if let Some(ends) = self.kept_ln_delta(epsilon, goal) {
            return Ok((ends, Source::Grid));
        }
        // If not even a rough size is known, everything is kept.
        let mut trimmed = self.trimmed_for(epsilon, goal).unwrap_or(None);
        let Some(trimmed) = &mut trimmed else {
            return self.climb(&mut question);
        };
        trimmed.keeps_long = self.keeps_long;
        let found = trimmed.climb(&mut question);
        self.without_hits = trimmed.without_hits;
        self.kept = trimmed.kept.take();
        found
    }

    /// Returns ln δ(ε) along a contour, as tight as the contour allows.
    pub(crate) fn ln_delta_by_contour(&mut self, epsilon: f64, goal: f64) -> Option<LnBounds> {
        Some(self.along_a_contour(epsilon, goal)?.0)
    }

    /// Returns the same with the contour, which serves neighbouring ε too.
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
        if self.needs_grid() && expected < LEAST_LN_DELTA {
            // Contours of laws take seconds there, and the result doesn't matter.
            return None;
        }
        let mut best: Option<(LnBounds, Contour)> = None;
        // Up to three attempts; the later ones know the size of the answer.
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

    /// Returns whether a first law has far components that may be worth dropping.
    pub(crate) fn has_groups(&self) -> bool {
        self.loss
            .parts
            .iter()
            .any(|(pair, _)| pair.first.components().count() > 2)
    }

    /// Returns the supremum of the composed loss, rounded up.
    pub(crate) fn largest_loss(&self) -> f64 {
        self.largest_by(|law| match &law.stated {
            Some(stated) => stated.largest_loss(),
            None => law.largest_loss(),
        })
    }

    /// Returns the least loss known to be exceeded with probability at most `delta`, whatever the engines say: the
    /// supremum, or that of the finite losses if the others are no more likely.
    pub(crate) fn largest_loss_but_for(&self, delta: f64) -> f64 {
        let laws = self.loss.laws.iter();
        let beyond: f64 = laws
            .map(|(law, times)| (law.infinite + law.missing) * *times as f64)
            .sum();
        // A single law is added to nothing, so its mass is exactly as stated.
        let room = match self.single_law() {
            Some(_) => 0.0,
            None => f64::EPSILON * (2.0 + self.loss.laws.len() as f64),
        };
        let beyond = (beyond + self.loss.missing()) * (1.0 + room);
        if beyond <= delta {
            self.largest_by(LossDistribution::largest_finite_loss)
        } else {
            self.largest_loss()
        }
    }

    fn largest_by(&self, largest: fn(&LossDistribution) -> f64) -> f64 {
        if self.loss.gaussian > 0.0 {
            return f64::INFINITY;
        }
        // A single statement is added to nothing.
        if let Some(law) = self.single_law()
            && law.stated_loss.is_some()
        {
            return largest(law);
        }
        let parts = self.loss.parts.iter();
        let sum: f64 = parts
            .map(|(pair, times)| pair.loss_range().0 * *times as f64)
            .sum();
        let laws = self.loss.laws.iter();
        let laws: f64 = laws.map(|(law, times)| largest(law) * *times as f64).sum();
        if laws == f64::INFINITY {
            return laws;
        }
        let sum = sum + laws;
        sum + 1e-13 * sum.abs()
    }

    /// Returns the solver without far mixture components of total mass `mass`; failed attempts stay known.
    pub(crate) fn without_components(&self, mass: f64) -> Self {
        Self {
            without_hits: self.without_hits,
            ..self.derived(&self.loss.trimmed(mass))
        }
    }

    /// Returns the solver without far mixture components whose mass doesn't matter at this ε.
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

    /// Returns (ε, ln δ(ε)) at the ε whose saddle is at order c, by the saddle-point approximation, and
    /// approximately how fast ln δ falls with c. Not a bound, but a start for searches.
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

    /// Returns a contour made for `epsilon`, aiming at an absolute error of e^`ln_goal`.
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

    /// Returns δ(ε) from a contour of either kernel.
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
            // The P-mass beyond min(P, e^ε Q).
            Kernel::Shared => ends.complement(most - least),
        }
    }

    /// Returns bounds on the P-mass that isn't in the moments: a lower bound, of infinite loss, and an upper bound.
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
