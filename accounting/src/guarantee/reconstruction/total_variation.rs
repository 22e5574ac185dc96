//! The reconstruction bound from the total variation, the hockey-stick divergence at ε = 0.

use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::Result;
use crate::quantity::{Delta, Epsilon, Probability, Tolerance};

/// Returns the largest posterior r with r − p ≤ TV.
///
/// Bound: upper: p + TV, at most 1. Source: TV = sup_E P(E) − Q(E), for the event of a correct guess (Hush! Lemma 3.2
/// with this divergence). [`PrivacyLoss::blow_up`] uses the best ε instead of 0.
///
/// ```
/// use reticent_accounting::{Delta, Probability, Upper};
/// use reticent_accounting::reconstruction::total_variation::total_variation_posterior;
/// let r = total_variation_posterior(Upper::new(Delta::new(0.25)?), Probability::new(0.5)?)?;
/// assert!((r.get().get() - 0.75).abs() < 1e-12);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// None for the types' ranges.
pub fn total_variation_posterior(
    distance: Upper<Delta>,
    prior: Probability,
) -> Result<Upper<Probability>> {
    let sum = prior.get() + distance.get().get();
    let most = (sum * (1.0 + 4.0 * f64::EPSILON)).min(1.0);
    Ok(Upper::new(Probability::new(most)?))
}

impl PrivacyLoss {
    /// Returns a bound on the posterior from the total variation of the composed pair, δ(0).
    ///
    /// Bound: upper.
    ///
    /// ```
    /// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability, Query, Tolerance};
    /// let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0)? };
    /// let loss = PrivacyLoss::of(&plain, Query::single(Neighbours::ZeroOut), Direction::Remove)?;
    /// let r = loss.total_variation_bound(Probability::new(0.1)?, Tolerance::DEFAULT)?;
    /// assert!((r.get().get() - 0.29741265).abs() < 1e-6); // 0.1 + 2Φ(1/4) − 1
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`PrivacyLoss::delta`].
    pub fn total_variation_bound(
        &self,
        prior: Probability,
        tolerance: Tolerance,
    ) -> Result<Upper<Probability>> {
        let found = self.delta(Epsilon::new(0.0)?, tolerance)?;
        let distance = found.bounds.upper.unwrap_or(Upper::new(Delta::new(1.0)?));
        total_variation_posterior(distance, prior)
    }
}
