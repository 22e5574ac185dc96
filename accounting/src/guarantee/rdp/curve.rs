//! The Rényi curve as a value, and the reconstruction bound that follows from it.

use super::convert::epsilon_from_renyi;
use crate::compose::solver::Solver;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::guarantee::reconstruction::fano::renyi_posterior;
use crate::loss::PrivacyLoss;
use crate::numeric::search::minimiser_to;
use crate::numeric::special::above_zero;
use crate::quantity::bound::{Bounds, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Order, Probability};

/// Rényi divergences of a composed dominating pair at given orders, in nats.
///
/// Bound: upper at each order.
///
/// ```
/// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, Order, PrivacyLoss, Query, SamplingRate, Steps};
/// use reticent_accounting::rdp::RdpCurve;
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1));
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
/// let curve = RdpCurve::of(&loss, &[Order::new(2.5)?])?;
/// // 25-digit quadrature; a widely used series gives 0.0001621521976.
/// assert!((curve.divergences()[0].get() / 0.00016207740937000374 - 1.0).abs() < 1e-9);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RdpCurve {
    orders: Vec<Order>,
    divergences: Vec<Upper<f64>>,
}

impl RdpCurve {
    /// Returns the curve of `loss` at the given orders, K(α)/(α − 1) by quadrature.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a run without protection, and [`Error::NotCertified`] if an order is out of
    /// reach.
    pub fn of(loss: &PrivacyLoss, orders: &[Order]) -> Result<Self> {
        let divergences = Self::bounds(loss, orders)?
            .iter()
            .map(|ends| ends.upper.unwrap_or(Upper::new(f64::INFINITY)))
            .collect();
        Ok(Self {
            orders: orders.to_vec(),
            divergences,
        })
    }

    /// Returns the orders.
    #[must_use]
    pub fn orders(&self) -> &[Order] {
        &self.orders
    }

    /// Returns the divergence at each order.
    #[must_use]
    pub fn divergences(&self) -> &[Upper<f64>] {
        &self.divergences
    }

    /// Returns both ends of the divergence of `loss` at each order: K(α)/(α − 1) plus or minus the certified error of
    /// the quadrature.
    ///
    /// ```
    /// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, Order, PrivacyLoss, Query, SamplingRate, Steps};
    /// use reticent_accounting::rdp::RdpCurve;
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1));
    /// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
    /// let ends = RdpCurve::bounds(&loss, &[Order::new(2.5)?])?[0];
    /// let (low, high) = (*ends.lower.unwrap().get(), *ends.upper.unwrap().get());
    /// assert!(low <= 0.00016207740937000374 && 0.00016207740937000374 <= high);
    /// assert!(high - low < 1e-12);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`RdpCurve::of`].
    pub fn bounds(loss: &PrivacyLoss, orders: &[Order]) -> Result<Vec<Bounds<f64>>> {
        let loss = loss.more_informed();
        if loss.unbounded {
            return Err(Error::Unsupported {
                what: "the Rényi curve of a run without protection".into(),
                why: "every divergence is infinite".into(),
            });
        }
        let highest = orders.iter().map(|order| order.get()).fold(2.0, f64::max);
        let cumulants = CumulantFunction::new(&loss.without_laws(), highest)?;
        let both = |order: &Order| {
            let total = cumulants.certified(order.get()).0;
            let laws = loss.ln_moment_of_laws(order.get())?;
            let over = |ln: f64| ln / (order.get() - 1.0);
            let high = above_zero(over(total.ln + total.error + laws.1)) * (1.0 + f64::EPSILON);
            let low = over(total.ln - total.error + laws.0).max(0.0) * (1.0 - f64::EPSILON);
            let low = if loss.bounds_only() { 0.0 } else { low };
            Ok(Bounds::between(low.min(high), high))
        };
        orders.iter().map(both).collect()
    }

    /// Returns the least ε at `delta` over the curve's orders, with its order.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the curve has no orders.
    pub fn epsilon(&self, delta: Delta) -> Result<(Upper<Epsilon>, Order)> {
        let mut best: Option<(Upper<Epsilon>, Order)> = None;
        for (order, divergence) in self.orders.iter().zip(&self.divergences) {
            let epsilon = epsilon_from_renyi(*order, *divergence, delta)?;
            if best.is_none_or(|(least, _)| epsilon.get() < least.get()) {
                best = Some((epsilon, *order));
            }
        }
        best.ok_or(Error::out_of_range("number of orders", "[1, inf)", 0.0))
    }
}

/// The mixture mass that is dropped, in priors: what is dropped is added to the posterior.
pub(crate) const DROPPED: [f64; 6] = [0.0, 1e-2, 1.0, 1e2, 1e4, 1e6];
/// The number of widely spaced orders at which the search for the best one starts.
const STARTS: u32 = 12;

/// Returns the least posterior over the orders and over the amount of dropped mixture mass.
pub(crate) fn renyi_fano(
    loss: &PrivacyLoss,
    prior: Probability,
) -> Result<(Upper<Probability>, Order)> {
    let (two, loss) = (Order::new(2.0)?, loss.more_informed());
    if loss.unbounded {
        return Ok((Upper::new(Probability::new(1.0)?), two));
    }
    if loss.is_empty() || prior.get() <= 0.0 && loss.is_continuous() || prior.get() >= 1.0 {
        return Ok((Upper::new(prior), two));
    }
    if prior.get() <= 0.0 {
        // Where the second law has no mass but the first one has, every divergence is infinite.
        return Ok((Upper::new(Probability::ONE), two));
    }
    let mut best: Option<(f64, f64)> = None;
    let mut failure = None;
    let mut dropped = f64::NEG_INFINITY;
    // Infinite losses belong to the posterior as well: with them no moment would be finite.
    let (finite, infinite) = loss.without_infinite();
    for mass in DROPPED {
        let trimmed = finite.trimmed((mass * prior.get()).min(0.1));
        let missing = trimmed.missing() + infinite;
        if missing <= dropped || missing >= 1.0 {
            continue;
        }
        dropped = missing;
        match posterior_by_order(&trimmed, missing, prior) {
            Ok((ln_r, order)) => {
                let r = (1.0 - missing) * ln_r.exp() + missing;
                if best.is_none_or(|(least, _)| r < least) {
                    best = Some((r, order));
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    let (r, order) = match (best, failure) {
        (Some(found), _) => found,
        // Any posterior is at most one.
        (None, Some(Error::NotCertified { .. }) | None) => (1.0, two.get()),
        (None, Some(other)) => return Err(other),
    };
    let r = (r * (1.0 + 1e-13)).clamp(prior.get(), 1.0);
    Ok((Upper::new(Probability::new(r)?), Order::new(order)?))
}

/// Returns the least logarithm of a posterior over the orders, with its order, of a first law of which `loss` lacks at
/// most the mass `missing`: the rest is taken for the whole.
///
/// What is left of a first law of mass m reaches an event of prior p with s at most, where s^c p^{1−c} + (m − s)^c (1 −
/// p)^{1−c} ≤ e^{K(c)}. Divided by m^c, this is the inequality of a whole law for s/m. It allows the more the smaller m is,
/// so a lower bound on m suffices.
fn posterior_by_order(loss: &PrivacyLoss, missing: f64, prior: Probability) -> Result<(f64, f64)> {
    let ln_kept = (-missing).ln_1p();
    let at = |c: f64, ln: f64| ln_posterior(c, ln - c * ln_kept, prior);
    let (found, two) = if loss.laws.is_empty() {
        let (cumulants, c) = charted_order(loss, at)?;
        let certified = |c: f64| {
            let (total, _) = cumulants.certified(c);
            at(c, total.ln + total.error)
        };
        let two = (cumulants.highest >= 2.0).then(|| certified(2.0));
        ((certified(c), c), two)
    } else {
        let found = Solver::new(loss).least_by_moments(at)?;
        let two = loss.ln_moment(2.0).map(|(_, upper)| at(2.0, upper));
        (found, two.ok())
    };
    // The search may stop before the best order; order 2 gives the bound by the χ²-divergence.
    let (bound, c) = match two {
        Some(two) if two < found.0 => (two, 2.0),
        _ => found,
    };
    Ok((bound.min(0.0), c))
}

/// Returns the order that minimises `at` by approximate moments, and the moments charted beyond it.
fn charted_order(
    loss: &PrivacyLoss,
    at: impl Fn(f64, f64) -> f64,
) -> Result<(CumulantFunction, f64)> {
    let mut highest = CumulantFunction::first_highest(loss);
    loop {
        let cumulants = CumulantFunction::new(loss, highest)?;
        let rough = |t: f64| at(1.0 + t.exp(), cumulants.moment(1.0 + t.exp()).ln);
        let (from, end) = (-7.0, (highest - 1.0).ln());
        let width = (end - from) / f64::from(STARTS);
        let starts = (0..=STARTS).map(|i| from + width * f64::from(i));
        let least = starts
            .map(|t| (rough(t), t))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let near = least.map_or(end, |(_, t)| t);
        let t = minimiser_to(
            rough,
            (near - width).max(from),
            (near + width).min(end),
            1e-5,
        );
        if end - t > 0.1 || highest > 1e6 {
            return Ok((cumulants, 1.0 + t.exp()));
        }
        highest = 1.0 + 4.0 * (highest - 1.0);
    }
}

/// Returns the logarithm of the posterior by Fano's inequality at order c, rounded up, from an upper end of K(c).
///
/// Bound: upper. Where any posterior is allowed, returns Hölder's bound (K + (c − 1) ln p)/c, which is positive there: a
/// search sees a slope.
fn ln_posterior(c: f64, ln_moment: f64, prior: Probability) -> f64 {
    let p = prior.get();
    let beyond = (ln_moment + (c - 1.0) * p.ln()) / c;
    if beyond.is_nan() || beyond >= 0.0 {
        return above_zero(beyond);
    }
    // The rounding errors of both terms, in logarithms.
    let logarithms = 1.0 + p.ln().abs() + (-p).ln_1p().abs();
    let rounding = 8.0 * f64::EPSILON * (c * logarithms + ln_moment.abs());
    let divergence = Upper::new(above_zero(ln_moment + rounding) / (c - 1.0));
    let posterior = Order::new(c).and_then(|order| renyi_posterior(order, divergence, prior));
    posterior.map_or(0.0, |bound| bound.get().get().ln())
}
