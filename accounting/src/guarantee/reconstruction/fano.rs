//! Closed-form reconstruction bounds from divergences, looser than the blow-up.

use crate::loss::PrivacyLoss;
use crate::numeric::special::ln_add_exp;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Order, Probability};

/// Returns KL(Bern(r)‖Bern(p)) = r ln(r/p) + (1−r) ln((1−r)/(1−p)), in nats.
///
/// ```
/// use reticent_accounting::{Probability, reconstruction::fano::bernoulli_divergence};
/// let d = bernoulli_divergence(Probability::new(2e-4)?, Probability::new(1e-10)?);
/// assert!((d / 0.0027017516490183105 - 1.0).abs() < 1e-12);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[must_use]
pub fn bernoulli_divergence(r: Probability, p: Probability) -> f64 {
    let (r, p) = (r.get(), p.get());
    let apart = p - r;
    if apart.abs() < 0.1 * r.min(1.0 - r) {
        // The first-order terms cancel exactly; the remaining terms have one sign.
        return r * below_tangent(apart / r) + (1.0 - r) * below_tangent(-apart / (1.0 - r));
    }
    let ratio = r / p;
    // The ratio keeps the digits of close numbers, but overflows for a tiny p.
    let ln_ratio = if ratio.is_finite() {
        ratio.ln()
    } else {
        r.ln() - p.ln()
    };
    let hit = if r > 0.0 { r * ln_ratio } else { 0.0 };
    let miss = if r < 1.0 {
        (1.0 - r) * ((-r).ln_1p() - (-p).ln_1p())
    } else {
        0.0
    };
    hit + miss
}

/// Returns t − ln(1 + t) ≥ 0 by its power series, for |t| ≤ 0.1.
fn below_tangent(t: f64) -> f64 {
    let (mut sum, mut power) = (0.0, -t);
    for k in 2..20 {
        power *= -t;
        sum += power / f64::from(k);
    }
    sum
}

/// Returns the largest posterior r ≥ prior with KL(Bern(r)‖Bern(prior)) ≤ `divergence`.
///
/// Bound: upper. Source: Hush! Lemma 3.2, with the common reference of the zero-out pair.
///
/// ```
/// use reticent_accounting::{Probability, Upper, reconstruction::fano::kl_posterior};
/// let r = kl_posterior(Upper::new(0.01), Probability::new(1e-10)?)?;
/// assert!((r.get().get() / 0.0006788376806164865 - 1.0).abs() < 1e-10);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a negative divergence.
pub fn kl_posterior(divergence: Upper<f64>, prior: Probability) -> Result<Upper<Probability>> {
    let mu = *divergence.get();
    if mu.is_nan() || mu < 0.0 {
        return Err(Error::out_of_range("divergence", "[0, inf]", mu));
    }
    let most = bernoulli_divergence(Probability::new(1.0)?, prior);
    if mu >= most {
        return Ok(Upper::new(Probability::new(1.0)?));
    }
    // What never occurs under the reference never occurs at a finite divergence.
    if prior.get() <= 0.0 {
        return Ok(Upper::new(prior));
    }
    let allowed = |r: f64| Probability::new(r).is_ok_and(|r| bernoulli_divergence(r, prior) <= mu);
    Ok(Upper::new(Probability::new(above_last(
        allowed,
        prior.get(),
    ))?))
}

/// Returns the largest posterior r ≥ prior with r^α p^{1−α} + (1−r)^α (1−p)^{1−α} ≤ e^{(α−1)ρ} for
/// a Rényi divergence ρ of order α.
///
/// Bound: upper. Source: data processing of the Rényi divergence (Mironov 2017, Proposition 10
/// drops the second term).
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a negative divergence.
pub fn renyi_posterior(
    order: Order,
    divergence: Upper<f64>,
    prior: Probability,
) -> Result<Upper<Probability>> {
    let (alpha, rho, p) = (order.get(), *divergence.get(), prior.get());
    if rho.is_nan() || rho < 0.0 {
        return Err(Error::out_of_range("divergence", "[0, inf]", rho));
    }
    let sum = |r: f64| {
        let hit = alpha * r.ln() + (1.0 - alpha) * p.ln();
        let miss = alpha * (-r).ln_1p() + (1.0 - alpha) * (-p).ln_1p();
        ln_add_exp(hit, miss)
    };
    let allowed = |r: f64| sum(r) <= (alpha - 1.0) * rho;
    if rho == f64::INFINITY || p >= 1.0 {
        return Ok(Upper::new(Probability::ONE));
    }
    // If the second law never reaches an event, the first law reaches it only if their divergence is infinite.
    if p <= 0.0 {
        return Ok(Upper::new(prior));
    }
    if allowed(1.0) {
        return Ok(Upper::new(Probability::ONE));
    }
    Ok(Upper::new(Probability::new(above_last(allowed, p))?))
}

/// Returns the smallest r found, between `from` and 1, beyond which the condition, true at `from`, is
/// false.
fn above_last(allowed: impl Fn(f64) -> bool, from: f64) -> f64 {
    let (mut low, mut high) = (from.ln(), 0.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if allowed(middle.exp()) {
            low = middle
        } else {
            high = middle
        }
    }
    // The conditions are evaluated with an error of a few roundings times their slope.
    (f64::exp(high) * (1.0 + 1e-13)).min(1.0)
}

impl PrivacyLoss {
    /// Returns a bound on the posterior from the Kullback–Leibler divergence of the composed pair.
    ///
    /// # Errors
    /// As [`kl_posterior`]; a divergence that can't be certified is treated as infinite.
    pub fn kl_fano(&self, prior: Probability) -> Result<Upper<Probability>> {
        let divergence = match self.divergence() {
            Err(Error::NotCertified { .. }) => Upper::new(f64::INFINITY),
            other => other?,
        };
        kl_posterior(divergence, prior)
    }

    /// Returns a bound on the posterior from Rényi divergences at the best order, together with
    /// that order.
    ///
    /// Far components of a mixture are dropped up to a total mass, which is added to the posterior:
    /// moments of the full mixture are dominated by negligible events.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if no order can be certified.
    pub fn renyi_fano(&self, prior: Probability) -> Result<(Upper<Probability>, Order)> {
        crate::guarantee::rdp::renyi_fano(self, prior)
    }
}
