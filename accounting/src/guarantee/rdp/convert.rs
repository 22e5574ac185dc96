//! Conversion of Rényi divergences to (ε, δ).

use crate::compose::renyi::round_up;
use crate::compose::solver::Solver;
use crate::guarantee::redaction::Redaction;
use crate::loss::{PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::bound::Upper;
use crate::quantity::error::Result;
use crate::quantity::{Delta, Divergence, Epsilon, Order};

/// Returns ε = ρ + ln((α−1)/α) − (ln δ + ln α)/(α−1), at least 0.
///
/// Bound: upper. ρ is the Rényi divergence of order α in nats. Source: Canonne, Kamath and Steinke 2020,
/// Proposition 12.
///
/// ```
/// use reticent_accounting::{Delta, Order, Upper, rdp::epsilon_from_renyi};
/// let epsilon = epsilon_from_renyi(Order::new(32.0)?, Upper::new(1.1), Delta::new(1e-5)?)?;
/// assert!((epsilon.get().get() - 1.327838061755436).abs() < 1e-12);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`crate::Error::OutOfRange`] for a negative divergence.
pub fn epsilon_from_renyi(
    order: Order,
    divergence: Upper<f64>,
    delta: Delta,
) -> Result<Upper<Epsilon>> {
    let (alpha, rho) = (order.get(), Divergence::new(*divergence.get())?.get());
    let value = rho + (-1.0 / alpha).ln_1p() - (delta.get().ln() + alpha.ln()) / (alpha - 1.0);
    Ok(Upper::new(Epsilon::new(round_up(value))?))
}

/// Returns ε = ρ − ln δ/(α−1), the conversion of older accountants.
///
/// Bound: upper, never tighter than [`epsilon_from_renyi`] where that is positive. Source: Mironov 2017, Proposition 3.
///
/// # Errors
/// Returns [`crate::Error::OutOfRange`] for a negative divergence.
pub fn epsilon_from_renyi_classic(
    order: Order,
    divergence: Upper<f64>,
    delta: Delta,
) -> Result<Upper<Epsilon>> {
    let rho = Divergence::new(*divergence.get())?.get();
    let value = rho - delta.get().ln() / (order.get() - 1.0);
    Ok(Upper::new(Epsilon::new(round_up(value))?))
}

/// Returns ε of a run at `delta` as proved by the Rényi curve, the larger of the directions; with a redaction, returns
/// ε' by Proposition 6 on this ε.
///
/// Bound: upper.
///
/// ```
/// use reticent_accounting::{Delta, Mechanism, Neighbours, NoiseMultiplier, Query, SamplingRate, Steps, rdp::epsilon_by_renyi};
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(10_000));
/// let query = Query::single(Neighbours::AddRemove);
/// let epsilon = epsilon_by_renyi(&run, query, Delta::new(1e-5)?, None)?;
/// assert!(epsilon.get().get() > 5.1926 && epsilon.get().get() < 5.6321);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`PrivacyLoss::of`].
pub fn epsilon_by_renyi(
    mechanism: &Mechanism,
    query: Query,
    delta: Delta,
    redaction: Option<Redaction>,
) -> Result<Upper<Epsilon>> {
    let base = match redaction {
        None => delta,
        Some(redaction) => match redaction.base_delta(delta) {
            Some(base) => base,
            None => return Ok(Upper::new(Epsilon::new(f64::INFINITY)?)),
        },
    };
    let mut most = Upper::new(Epsilon::new(0.0)?);
    for loss in losses(mechanism, query)? {
        let found = loss.epsilon_by_rdp(base)?.0;
        most = if found > most { found } else { most };
    }
    Ok(match redaction {
        None => most,
        Some(redaction) => Upper::new(redaction.amplified(most.into_inner())),
    })
}

impl PrivacyLoss {
    /// Returns ε at `delta` from the Rényi curve at the best real order, together with that order.
    ///
    /// Bound: upper, for this direction.
    ///
    /// ```
    /// use reticent_accounting::{Delta, Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query, SamplingRate, Steps};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(10_000));
    /// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
    /// let (epsilon, _) = loss.epsilon_by_rdp(Delta::new(1e-5)?)?;
    /// // Looser than the 5.19 of the loss itself, as tight as integer orders allow or better.
    /// assert!(epsilon.get().get() > 5.1926 && epsilon.get().get() < 5.6321);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if no order can be certified.
    pub fn epsilon_by_rdp(&self, delta: Delta) -> Result<(Upper<Epsilon>, Option<Order>)> {
        Solver::new(self).answer_by_rdp(delta)
    }
}
