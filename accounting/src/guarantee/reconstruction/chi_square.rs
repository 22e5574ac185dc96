//! The χ² member of the Fano family.

use crate::guarantee::rdp::{DROPPED, RdpCurve};
use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Order, Probability};

/// Returns the largest posterior r ≥ prior with (r − p)²/(p(1 − p)) ≤ χ².
///
/// Bound: upper: p + √(χ² p(1 − p)). It rises with p until it reaches 1, so an upper bound on the prior suffices.
/// Source: data processing of the χ²-divergence to the event of a correct guess.
///
/// ```
/// use reticent_accounting::{Probability, Upper, reconstruction::chi_square::chi_square_posterior};
/// let r = chi_square_posterior(Upper::new(0.01), Probability::new(0.5)?)?;
/// assert!((r.get().get() - 0.55).abs() < 1e-12);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a negative divergence.
pub fn chi_square_posterior(
    divergence: Upper<f64>,
    prior: Probability,
) -> Result<Upper<Probability>> {
    posterior(*divergence.get(), 0.0, prior)
}

/// Returns the posterior from a first law that lacks `missing` of its mass: `excess` is ∫ (dP')²/dQ − (1 − missing)²
/// for the remaining part P'.
///
/// By Cauchy and Schwarz on the event and its complement, s = P'(E) obeys s²/p + (m − s)²/(1 − p) ≤ ∫ (dP')²/dQ with m
/// the mass of P', that is (s − mp)² ≤ p(1 − p)·excess; all of the missing mass may lie in the event. Nothing is
/// renormalised.
fn posterior(excess: f64, missing: f64, prior: Probability) -> Result<Upper<Probability>> {
    if excess.is_nan() || excess < 0.0 {
        return Err(Error::out_of_range("divergence", "[0, inf]", excess));
    }
    let p = prior.get();
    // If the second law never reaches an event, the first law reaches it only if their χ² is infinite.
    if excess < f64::INFINITY && p <= 0.0 || p >= 1.0 {
        return Ok(Upper::new(prior));
    }
    let value = p + (excess * p * (1.0 - p)).sqrt() + missing;
    let value = if value.is_nan() { 1.0 } else { value };
    let most = (value * (1.0 + 8.0 * f64::EPSILON)).min(1.0);
    Ok(Upper::new(Probability::new(most)?))
}

impl PrivacyLoss {
    /// Returns ∫ (dP)²/dQ − (1 − missing)² for the first law without renormalisation, rounded up.
    fn second_moment(&self, missing: f64) -> Result<f64> {
        if self.unbounded {
            return Ok(f64::INFINITY);
        }
        let curve = RdpCurve::of(self, &[Order::TWO])?;
        let ln = curve
            .divergences()
            .first()
            .map_or(f64::INFINITY, |bound| *bound.get());
        // 1 − (1 − missing)².
        let lacking = missing * (2.0 - missing);
        Ok((ln.exp_m1() + lacking) * (1.0 + 8.0 * f64::EPSILON))
    }

    /// Returns a bound on the posterior from the χ²-divergence. The far components of mixtures are dropped up to the
    /// mass that gives the best bound; this mass is added to the posterior.
    ///
    /// Bound: upper.
    ///
    /// ```
    /// use reticent_accounting::{Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability, Query, SamplingRate, Steps, Tolerance};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(10.0)?, SamplingRate::new(20480.0 / 1.7e7)?, Steps::new(2000));
    /// let query = Query { neighbours: Neighbours::ZeroOut, group: GroupSize::new(100)? };
    /// let loss = PrivacyLoss::of(&run, query, Direction::Remove)?;
    /// let prior = Probability::new(1e-10)?;
    /// let (chi, kl) = (loss.chi_square_fano(prior)?, loss.kl_fano(prior)?);
    /// // Between the blow-up (2.98e-9) and the divergence of Kullback and Leibler (8.5e-3).
    /// assert!(chi.get().get() > 2.98e-9 && chi.get() < kl.get());
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if order 2 is out of reach.
    pub fn chi_square_fano(&self, prior: Probability) -> Result<Upper<Probability>> {
        let mut best = posterior(self.second_moment(0.0)?, 0.0, prior)?;
        for mass in DROPPED {
            let trimmed = self.trimmed((mass * prior.get()).min(0.1));
            let missing = trimmed.missing();
            if missing <= 0.0 || missing >= 1.0 {
                continue;
            }
            let bound = posterior(trimmed.second_moment(missing)?, missing, prior)?;
            if bound.get() < best.get() {
                best = bound;
            }
        }
        Ok(best)
    }
}
