//! Steps of which no law is known, only upper ends of their Rényi divergences: stated ones, and those of
//! the best of a random number of runs.
//!
//! With K(α) = (α − 1) D_α, all that follows comes from Σ T K(α): Chernoff's bound on δ, Hölder's on
//! guesses. Such a step says nothing from below, and its divergences hold in both directions.

use super::{Atoms, Attained, LossDistribution};
use crate::contour::kernel::Kernel;
use crate::error::{Error, Result};
use crate::pld::PrivacyLoss;
use crate::pld::roots::ROOM;
use crate::pld::solver::Solver;
use crate::quantity::{Divergence, MeanRepetitions, Order, RepetitionShape};
use crate::search::minimiser_to;
use crate::special::ln_add_exp;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};

/// Rounding of the few operations of each bound.
const SLACK: f64 = 16.0 * f64::EPSILON;
/// Rounding of each link of a chain of neighbours.
const LINK: f64 = 8.0 * f64::EPSILON;
/// ln(α − 1) of the lowest and of the highest order that is looked at.
const ORDERS: (f64, f64) = (-7.0, 16.0);
/// Orders at which the search for the best one begins.
const STARTS: usize = 24;
/// Relative accuracy of δ within a bound.
const ROUGH: f64 = 1e-3;

/// Upper ends of Rényi divergences of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Stated {
    /// D_α ≤ ξ + ρα at every order.
    Line {
        /// ρ.
        rho: f64,
        /// ξ.
        xi: f64,
    },
    /// K at some orders, ascending and convex from (1, 0) on, of one of so many links of a chain of
    /// neighbours. K is convex: its chords lie above it.
    Chords {
        /// Orders and K.
        knots: Vec<(f64, f64)>,
        /// Links.
        links: u32,
    },
    /// The best of a random number of runs.
    Best(Box<Best>),
}

/// The best of a random number of runs, each as this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Best {
    /// One run in each direction, or in the only one.
    runs: Vec<PrivacyLoss>,
    mean: f64,
    /// What is added to the divergence of every order; `None` for a Poisson number of runs, where it
    /// depends on the order.
    added: Option<f64>,
}

impl LossDistribution {
    /// A step of which only this is known.
    pub(crate) fn stated(stated: Stated) -> Self {
        Self {
            // Whoever asks for a law gets none: from above every loss may be infinite.
            missing: 1.0,
            attained: Attained::Never,
            stated: Some(stated),
            ..Self::of_atoms(Atoms::default(), None)
        }
    }
}

impl Stated {
    /// (ξ, ρ)-zCDP over a chain of so many neighbours: (kξ Σ 1/i, k²ρ).
    ///
    /// Source: Bun and Steinke 2016, Proposition 27.
    pub(super) fn line(rho: Divergence, xi: Divergence, links: f64) -> Self {
        let harmonic: f64 = (1..=links as u32).map(|i| 1.0 / f64::from(i)).sum();
        let up = |value: f64| {
            let value = value * (1.0 + SLACK + links * f64::EPSILON);
            // None of none is none.
            if value.is_nan() { f64::INFINITY } else { value }
        };
        Self::Line {
            rho: up(rho.get() * links * links),
            xi: up(xi.get() * links * harmonic),
        }
    }

    /// Divergences at some orders, in ascending order.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for lists of different lengths or without a finite divergence.
    pub(super) fn at_orders(
        orders: &[Order],
        divergences: &[Divergence],
        links: f64,
    ) -> Result<Self> {
        let mut knots: Vec<(f64, f64)> = vec![(1.0, 0.0)];
        let stated = orders.iter().zip(divergences);
        for (order, divergence) in stated.filter(|(_, divergence)| divergence.get().is_finite()) {
            let less = order.get() - 1.0;
            let next = (order.get(), less * divergence.get() * (1.0 + SLACK));
            // The lower hull: a point above a chord says less than the chord.
            while let [.., before, last] = knots.as_slice()
                && (last.1 - before.1) * (next.0 - before.0)
                    >= (next.1 - before.1) * (last.0 - before.0)
            {
                knots.pop();
            }
            knots.push(next);
        }
        if orders.len() != divergences.len() || knots.len() < 2 {
            return Err(Error::Unsupported {
                what: "Rényi divergences at some orders".into(),
                why: "each order needs its divergence, and one of them must be finite".into(),
            });
        }
        Ok(Self::Chords {
            knots,
            links: links as u32,
        })
    }

    /// The best of a random number of runs with this loss, in each direction.
    ///
    /// Source: Papernot and Steinke 2022, Theorem 2 (truncated negative binomial of shape η and
    /// success γ): D'_λ = D_λ + (1 + η)(1 − 1/λ̂) D_λ̂ + (1 + η) ln(1/γ)/λ̂ + ln E[K]/(λ − 1) for any
    /// λ̂ ≥ 1; Theorem 6 (Poisson of mean μ): D'_λ = D_λ + μδ̂ + ln μ/(λ − 1), δ̂ the run's δ at
    /// ε̂ = ln(1 + 1/(λ − 1)). Both need the divergences in both directions.
    ///
    /// # Errors
    /// Whatever the accounting of a run reports.
    pub(super) fn best(
        runs: Vec<PrivacyLoss>,
        mean: MeanRepetitions,
        shape: RepetitionShape,
    ) -> Result<Self> {
        let added = if shape.get().is_finite() {
            let inverse = ln_inverse_success(mean.get(), shape.get());
            let mut least = inverse;
            for run in &runs {
                let found = Solver::new(run).least_by_moments(|order, ln| (ln + inverse) / order);
                if let Ok((_, order)) = found {
                    let mut worst = f64::NEG_INFINITY;
                    for run in &runs {
                        worst = worst.max(ln_moment(run, order)?);
                    }
                    least = least.min((worst + inverse) / order);
                }
            }
            Some((1.0 + shape.get()) * least.max(0.0) * (1.0 + SLACK))
        } else {
            None
        };
        Ok(Self::Best(Box::new(Best {
            runs,
            mean: mean.get(),
            added,
        })))
    }

    /// An upper end of K at an order above one; infinite where nothing is known.
    ///
    /// # Errors
    /// Whatever the accounting of a run reports.
    pub(crate) fn ln_moment(&self, order: f64) -> Result<f64> {
        let less = order - 1.0;
        let value = match self {
            Self::Line { rho, xi } => less * (xi + rho * order),
            Self::Chords { knots, links } => less * chained(knots, *links, order),
            Self::Best(best) => best.ln_moment(order)?,
        };
        let value = value * (1.0 + SLACK);
        Ok(if value.is_nan() { f64::INFINITY } else { value })
    }

    /// An upper end of the Kullback–Leibler divergence: Rényi's rise with the order.
    ///
    /// # Errors
    /// As [`Stated::ln_moment`].
    pub(crate) fn divergence(&self) -> Result<f64> {
        if let Self::Line { rho, xi } = self {
            return Ok((xi + rho) * (1.0 + SLACK));
        }
        let (divergence, _) = self.least_over_orders(|order, ln| ln / (order - 1.0))?;
        Ok(divergence * (1.0 + SLACK))
    }

    /// The highest order at which anything is known.
    fn highest(&self) -> f64 {
        match self {
            Self::Line { .. } | Self::Best(_) => f64::INFINITY,
            // The first link is asked for k times the order.
            Self::Chords { knots, links } => {
                knots.last().map_or(1.0, |knot| knot.0) / f64::from(*links)
            }
        }
    }

    fn least_over_orders(&self, bound: impl Fn(f64, f64) -> f64) -> Result<(f64, f64)> {
        let ln_moment = |order: f64| self.ln_moment(order);
        least_over_orders(&ln_moment, self.highest(), &self.knots(), bound)
    }

    /// Orders at which a bound may have its corner.
    fn knots(&self) -> Vec<f64> {
        match self {
            Self::Chords { knots, links } => knots
                .iter()
                .skip(1)
                .map(|(order, _)| order / f64::from(*links))
                .filter(|order| *order > 1.0)
                .collect(),
            Self::Line { .. } | Self::Best(_) => Vec::new(),
        }
    }
}

impl Best {
    fn ln_moment(&self, order: f64) -> Result<f64> {
        let less = order - 1.0;
        let mut one = 0.0f64;
        for run in &self.runs {
            one = one.max(ln_moment(run, order)?);
        }
        let added = match self.added {
            Some(added) => added,
            None => {
                // Rounded down: δ is no smaller there.
                let epsilon = (1.0 / less).ln_1p() * (1.0 - SLACK);
                let mut most = 0.0f64;
                for run in &self.runs {
                    let ends = Solver::new(run).ln_delta(epsilon, ROUGH)?.0;
                    most = most.max(ends.upper.exp().min(1.0) * (1.0 + SLACK));
                }
                self.mean * most
            }
        };
        Ok(one + less * added + self.mean.ln())
    }
}

/// An upper end of K of a run; infinite where nothing bounds its loss.
fn ln_moment(run: &PrivacyLoss, order: f64) -> Result<f64> {
    if run.unbounded {
        return Ok(f64::INFINITY);
    }
    Ok(run.ln_moment(order)?.1)
}

/// D_α over so many links, by the triangle inequality
/// D_α(P‖Q) ≤ kα/(kα − 1) D_{(kα−1)/(k−1)}(P‖R) + D_{kα}(R‖Q), k − 1 links before R and one after.
///
/// Source: Bun and Steinke 2016, Lemma 5.2 with its order chosen as there.
fn chained(knots: &[(f64, f64)], links: u32, order: f64) -> f64 {
    let (mut total, mut factor, mut order) = (0.0, 1.0, order);
    for k in (2..=links).rev() {
        let high = f64::from(k) * order;
        total += factor * divergence_at(knots, high);
        factor *= high / (high - 1.0) * (1.0 + LINK);
        // Rounded up: divergences rise with the order.
        order = (high - 1.0) / f64::from(k - 1) * (1.0 + LINK);
    }
    total + factor * divergence_at(knots, order)
}

/// D_α by the chord between the knots around it.
fn divergence_at(knots: &[(f64, f64)], order: f64) -> f64 {
    let after = knots.partition_point(|knot| knot.0 < order);
    match (after.checked_sub(1).map(|i| knots[i]), knots.get(after)) {
        (Some(left), Some(right)) => {
            let share = (order - left.0) / (right.0 - left.0);
            (left.1 + share * (right.1 - left.1)) / (order - 1.0) * (1.0 + SLACK)
        }
        // Beyond the last one.
        _ => f64::INFINITY,
    }
}

/// ln 1/γ of a truncated negative binomial of this mean and shape η, rounded up:
/// E[K] = η(1/γ − 1)/(1 − γ^η), or (1/γ − 1)/ln(1/γ) at η = 0.
fn ln_inverse_success(mean: f64, shape: f64) -> f64 {
    let mean_at = |g: f64| {
        let fall = shape * g;
        // η/(1 − e^{−ηg}), which tends to 1/g.
        let each = if fall > 1e-300 {
            shape / -(-fall).exp_m1()
        } else {
            1.0 / g
        };
        g.exp_m1() * each * (1.0 - SLACK)
    };
    if mean <= 1.0 {
        return 0.0;
    }
    // E[K] ≥ (1/γ − 1)/ln(1/γ) ≥ e^{g/2}.
    let (mut low, mut high) = (0.0, 2.0 * mean.ln() + 1.0);
    while mean_at(high) < mean {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if mean_at(middle) >= mean {
            high = middle;
        } else {
            low = middle;
        }
    }
    high * (1.0 + SLACK)
}

/// The least of `bound`, a function of an order and of an upper end of K there that holds at any order,
/// and that order: first at orders far and wide and at the `knots`, then around the best of them.
///
/// # Errors
/// The last of the failures, where no order serves.
fn least_over_orders(
    ln_moment: &dyn Fn(f64) -> Result<f64>,
    highest: f64,
    knots: &[f64],
    bound: impl Fn(f64, f64) -> f64,
) -> Result<(f64, f64)> {
    let end = (highest - 1.0).ln().min(ORDERS.1);
    let failure = RefCell::new(None);
    let best = Cell::new((f64::INFINITY, f64::NAN));
    let ask = |order: f64| -> f64 {
        if !(order > 1.0 && order <= highest) {
            return f64::INFINITY;
        }
        let value = match ln_moment(order) {
            Ok(ln) if ln.is_finite() => bound(order, ln),
            Ok(_) => f64::INFINITY,
            Err(error) => {
                failure.replace(Some(error));
                f64::INFINITY
            }
        };
        if value < best.get().0 {
            best.set((value, order));
        }
        value
    };
    let width = (end - ORDERS.0) / STARTS as f64;
    for i in 0..=STARTS {
        ask(1.0 + (ORDERS.0 + width * i as f64).exp());
    }
    for knot in knots {
        ask(*knot);
    }
    let found = best.get().1;
    if found.is_finite() {
        let centre = (found - 1.0).ln();
        let ends = (centre - width, (centre + width).min(end));
        minimiser_to(|t| ask(1.0 + t.exp()), ends.0, ends.1, 1e-4);
    }
    match (found.is_finite(), failure.into_inner()) {
        (true, _) => Ok(best.get()),
        (false, Some(error)) => Err(error),
        (false, None) => Err(Error::NotCertified {
            what: "a bound by Rényi divergences",
            why: "none is known at any order that serves".into(),
        }),
    }
}

impl PrivacyLoss {
    /// Whether only Rényi divergences are known of some step.
    pub(crate) fn is_stated(&self) -> bool {
        self.laws.iter().any(|(law, _)| law.stated.is_some())
    }

    /// The least of `bound` over orders for the whole run, some of whose steps are only stated, and that
    /// order.
    ///
    /// # Errors
    /// As [`least_over_orders`].
    pub(crate) fn least_of_stated(&self, bound: impl Fn(f64, f64) -> f64) -> Result<(f64, f64)> {
        let (mut highest, mut knots) = (f64::INFINITY, Vec::new());
        for (law, _) in &self.laws {
            if let Some(stated) = &law.stated {
                highest = highest.min(stated.highest());
                knots.extend(stated.knots());
            }
        }
        let ln_moment = |order: f64| Ok(self.ln_moment(order)?.1);
        least_over_orders(&ln_moment, highest, &knots, bound)
    }

    /// The run without outcomes of infinite loss of the laws that are known, and at most how much of its
    /// first law they are: what is left are measures, for which every moment bound holds as it does for laws.
    pub(crate) fn without_infinite(&self) -> (Self, f64) {
        let mut finite = self.clone();
        let mut ln_kept = 0.0;
        for (law, times) in &mut finite.laws {
            let unknown = if law.variance.is_some() {
                0.0
            } else {
                law.missing
            };
            if law.stated.is_none() && law.infinite + unknown > 0.0 {
                ln_kept += *times as f64 * (-(law.infinite + unknown).min(1.0)).ln_1p();
                (law.infinite, law.missing) = (0.0, law.missing - unknown);
            }
        }
        (finite, (-f64::exp_m1(ln_kept) * (1.0 + 1e-13)).min(1.0))
    }
}

impl Solver {
    /// ln of an upper end of δ(ε) of a run some of whose steps are only stated, for any real ε, and the
    /// order that gave it.
    ///
    /// # Errors
    /// As [`PrivacyLoss::least_of_stated`]; no order that serves is none.
    pub(crate) fn ln_delta_of_stated(&self, epsilon: f64) -> Result<(f64, Option<f64>)> {
        let (finite, mass) = self.loss.without_infinite();
        let bound = |order: f64, ln: f64| {
            let (constant, line) = (Kernel::Excess.ln_chernoff(order), epsilon * (order - 1.0));
            ln + constant - line + SLACK * (1.0 + ln.abs() + constant.abs() + line.abs())
        };
        match finite.least_of_stated(bound) {
            Ok((ln, order)) => {
                let whole = ln_add_exp(ln, mass.ln());
                Ok(((whole + SLACK * whole.abs()).min(0.0), Some(order)))
            }
            Err(Error::NotCertified { .. }) => Ok((0.0, None)),
            Err(other) => Err(other),
        }
    }

    /// An upper end of ε(δ) of such a run, and the order that gave it.
    ///
    /// # Errors
    /// As [`PrivacyLoss::least_of_stated`].
    pub(crate) fn epsilon_of_stated(&self, delta: f64) -> Result<(f64, f64)> {
        let (finite, mass) = self.loss.without_infinite();
        let rest = delta - mass;
        if rest <= 0.0 {
            return Ok((f64::INFINITY, Order::TWO.get()));
        }
        let ln_rest = rest.ln() - ROOM;
        let bound = |order: f64, ln: f64| {
            let constant = Kernel::Excess.ln_chernoff(order) - ln_rest;
            (ln + constant + SLACK * (1.0 + ln.abs() + constant.abs())) / (order - 1.0)
        };
        let (epsilon, order) = finite.least_of_stated(bound)?;
        Ok((epsilon.max(0.0) * (1.0 + SLACK), order))
    }

    /// An upper end of B(x), 0 < x < 1, of such a run: r ≤ (x^{α−1} e^{K(α)})^{1/α} by Hölder.
    ///
    /// # Errors
    /// As [`PrivacyLoss::least_of_stated`]; where no order serves it is one.
    pub(crate) fn blow_up_of_stated(&self, x: f64) -> Result<f64> {
        let (finite, mass) = self.loss.without_infinite();
        let ln_x = x.ln();
        let bound = |order: f64, ln: f64| {
            let line = (order - 1.0) * ln_x;
            (ln + line + SLACK * (1.0 + ln.abs() + line.abs())) / order
        };
        match finite.least_of_stated(bound) {
            Ok((ln, _)) => Ok(((ln.exp() + mass) * (1.0 + SLACK)).clamp(x, 1.0)),
            Err(Error::NotCertified { .. }) => Ok(1.0),
            Err(other) => Err(other),
        }
    }
}
