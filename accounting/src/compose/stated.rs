//! Runs in which some steps are only stated by Rényi divergences: their moments, and the least bound over
//! orders.

use super::roots::ROOM;
use super::solver::Solver;
use crate::engine::contour::kernel::Kernel;
use crate::loss::PrivacyLoss;
use crate::loss::stated::{Best, SLACK, Stated, chained};
use crate::numeric::search::minimiser_to;
use crate::numeric::special::ln_add_exp;
use crate::quantity::Order;
use crate::quantity::error::{Error, Result};
use std::cell::{Cell, RefCell};

/// ln(α − 1) of the lowest and of the highest order considered, unless all that is known lies at lower ones.
const ORDERS: (f64, f64) = (-7.0, 16.0);
/// The number of orders at which the search for the best one begins.
const STARTS: usize = 24;
/// The relative accuracy of δ within a bound.
const ROUGH: f64 = 1e-3;

impl Stated {
    /// Returns an upper end of K at an order above one; infinite if nothing is known.
    ///
    /// # Errors
    /// Returns any error of accounting for a run.
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

    /// Returns an upper end of the Kullback–Leibler divergence: Rényi divergences rise with the order.
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

    /// Returns an upper end of the largest loss, that is, of the divergence of infinite order.
    pub(crate) fn largest_loss(&self) -> f64 {
        match self {
            Self::Best(best) => *best.largest.0.get_or_init(|| best.largest_loss()),
            // Of a line without slope, the law is known.
            Self::Line { .. } | Self::Chords { .. } => f64::INFINITY,
        }
    }

    fn least_over_orders(&self, bound: impl Fn(f64, f64) -> f64) -> Result<(f64, f64)> {
        let ln_moment = |order: f64| self.ln_moment(order);
        least_over_orders(&ln_moment, self.highest(), &self.knots(), bound)
    }
}

impl Best {
    fn ln_moment(&self, order: f64) -> Result<f64> {
        let less = order - 1.0;
        let mut one = 0.0f64;
        for run in &self.runs {
            one = one.max(ln_moment(run, order)?);
        }
        let added = match self.shape.is_finite() {
            true => self.added()?,
            // Rounded down: δ is no smaller there.
            false => self.mean * self.delta_of_one((1.0 / less).ln_1p() * (1.0 - SLACK))?,
        };
        Ok(one + less * added + self.mean.ln())
    }

    /// Returns an upper end of δ(ε) of one run, the worst over the directions.
    fn delta_of_one(&self, epsilon: f64) -> Result<f64> {
        let mut most = 0.0f64;
        for run in &self.runs {
            let ends = Solver::new(run).ln_delta(epsilon, ROUGH)?.0;
            most = most.max(ends.upper.exp().min(1.0) * (1.0 + SLACK));
        }
        Ok(most)
    }

    /// Returns the limit of the divergences at high orders, for runs of bounded loss D: what depends on the number of runs
    /// vanishes. Of D_λ̂ (1 − 1/λ̂) + ln(1/γ)/λ̂, the limit is D, which makes (2 + η) D, or less if another λ̂ is better; of a
    /// Poisson number, ε̂ tends to zero.
    fn largest_loss(&self) -> f64 {
        let of_run = |run: &PrivacyLoss| match run.unbounded {
            true => f64::INFINITY,
            false => Solver::new(run).largest_loss(),
        };
        let one = self.runs.iter().map(of_run).fold(0.0, f64::max);
        if one == f64::INFINITY {
            return one;
        }
        let added = match self.shape.is_finite() {
            true => (self.added().unwrap_or(f64::INFINITY)).min((1.0 + self.shape) * one),
            false => self.mean * self.delta_of_one(0.0).unwrap_or(1.0),
        };
        (one + added) * (1.0 + SLACK)
    }

    /// Returns (1 + η) times the least of D_λ̂ (1 − 1/λ̂) + ln(1/γ)/λ̂ over λ̂, the worst over the
    /// directions.
    fn added(&self) -> Result<f64> {
        if let Some(known) = self.added.0.get() {
            return Ok(*known);
        }
        let inverse = ln_inverse_success(self.mean, self.shape);
        let mut least = inverse;
        for run in &self.runs {
            let found = Solver::new(run).least_by_moments(|order, ln| (ln + inverse) / order);
            if let Ok((_, order)) = found {
                let mut worst = f64::NEG_INFINITY;
                for run in &self.runs {
                    worst = worst.max(ln_moment(run, order)?);
                }
                least = least.min((worst + inverse) / order);
            }
        }
        let added = (1.0 + self.shape) * least.max(0.0) * (1.0 + SLACK);
        Ok(*self.added.0.get_or_init(|| added))
    }
}

/// Returns an upper end of K of a run; infinite if nothing bounds its loss.
fn ln_moment(run: &PrivacyLoss, order: f64) -> Result<f64> {
    if run.unbounded {
        return Ok(f64::INFINITY);
    }
    Ok(run.ln_moment(order)?.1)
}

/// Returns ln 1/γ of a truncated negative binomial of this mean and shape η, rounded up: E[K] = η(1/γ − 1)/(1
/// − γ^η), or (1/γ − 1)/ln(1/γ) at η = 0.
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

/// Returns the least value of `bound`, a function of an order and of an upper end of K there that holds at
/// any order, and that order: first at widely spaced orders and at the `knots`, then around the best of them.
///
/// # Errors
/// Returns the last failure if no order works.
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
    let start = ORDERS.0.min(end - 1.0);
    let width = (end - start) / STARTS as f64;
    for i in 0..=STARTS {
        ask(1.0 + (start + width * i as f64).exp());
    }
    for knot in knots {
        ask(*knot);
    }
    let found = best.get().1;
    if found.is_finite() {
        // A knot may lie beyond the last of the spaced orders.
        let (centre, last) = ((found - 1.0).ln(), (highest - 1.0).ln());
        let ends = (centre - width, (centre + width).min(last.max(centre)));
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
    /// Returns whether only Rényi divergences are known for some step.
    pub(crate) fn is_stated(&self) -> bool {
        self.laws.iter().any(|(law, _)| law.stated.is_some())
    }

    /// Returns the least value of `bound` over orders for the whole run, some of whose steps are only stated,
    /// and that order.
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

    /// Returns the run without outcomes of infinite loss of the known laws, and an upper bound on their share
    /// of its first law. What remains are measures, for which every moment bound holds as it does for laws.
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
    /// Returns ln of an upper end of δ(ε) of a run in which some steps are only stated, for any real ε, and
    /// the order that gave it.
    ///
    /// # Errors
    /// As [`PrivacyLoss::least_of_stated`]; it isn't an error if no order works.
    pub(crate) fn ln_delta_of_stated(&self, epsilon: f64) -> Result<(f64, Option<f64>)> {
        let (finite, mass) = self.loss.without_infinite();
        let bound = |order: f64, ln: f64| {
            if epsilon == f64::INFINITY {
                return ln;
            }
            let (constant, line) = (Kernel::Excess.ln_chernoff(order), epsilon * (order - 1.0));
            ln + constant - line + SLACK * (1.0 + ln.abs() + constant.abs() + line.abs())
        };
        match finite.least_of_stated(bound) {
            // If any divergence is finite, the rest has no infinite losses.
            Ok((_, order)) if epsilon == f64::INFINITY => Ok((mass.ln(), Some(order))),
            Ok((ln, order)) => {
                let whole = ln_add_exp(ln, mass.ln());
                Ok(((whole + SLACK * whole.abs()).min(0.0), Some(order)))
            }
            Err(Error::NotCertified { .. }) => Ok((0.0, None)),
            Err(other) => Err(other),
        }
    }

    /// Returns an upper end of ε(δ) of such a run, and the order that gave it.
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

    /// Returns an upper end of B(x), 0 < x < 1, of such a run: r ≤ (x^{α−1} e^{K(α)})^{1/α} by Hölder.
    ///
    /// # Errors
    /// As [`PrivacyLoss::least_of_stated`]; if no order works, the result is one.
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
