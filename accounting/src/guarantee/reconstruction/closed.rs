//! Closed-form reconstruction bounds from a single number about the mechanism.

use crate::numeric::special::ln_add_exp;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Order, Probability};

/// Rounding error of a handful of operations.
const SLACK: f64 = 8.0 * f64::EPSILON;

/// Returns the bound r ≤ (p e^ρ)^{(α−1)/α} for a Rényi divergence ρ of order α.
///
/// Bound: upper, never tighter than [`super::fano::renyi_posterior`], which keeps the term of the wrong
/// guesses. Source: Balle, Cherubin and Hayes 2022; Mironov 2017, Proposition 10.
///
/// ```
/// use reticent_accounting::{Order, Probability, Upper, reconstruction::closed::balle_cherubin_hayes};
/// let r = balle_cherubin_hayes(Order::new(2.0)?, Upper::new(1.0), Probability::new(1e-4)?)?;
/// assert!((r.get().get() / 0.01648721270700128 - 1.0).abs() < 1e-13);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a negative divergence.
pub fn balle_cherubin_hayes(
    order: Order,
    divergence: Upper<f64>,
    prior: Probability,
) -> Result<Upper<Probability>> {
    let (alpha, rho) = (order.get(), *divergence.get());
    if rho.is_nan() || rho < 0.0 {
        return Err(Error::out_of_range("divergence", "[0, inf]", rho));
    }
    // If the second law never reaches an event, the first law reaches it only if their divergence is infinite.
    if prior.get() <= 0.0 && rho < f64::INFINITY {
        return Ok(Upper::new(prior));
    }
    let ln = if rho == f64::INFINITY {
        rho
    } else {
        (alpha - 1.0) / alpha * (prior.get().ln() + rho)
    };
    let rounding = SLACK * (ln.abs() + rho.min(1e300) + 1.0);
    let value = (ln + rounding).exp();
    let value = if value.is_nan() { 1.0 } else { value };
    Ok(Upper::new(Probability::new(value.clamp(0.0, 1.0))?))
}

/// Returns the blow-up of anything (ε, δ)-indistinguishable in both directions: B(p) ≤ min(e^ε p + δ, 1
/// − e^{−ε}(1 − p − δ), 1).
///
/// Bound: upper, attained by randomised response that fails with probability δ. Source: Kairouz, Oh and
/// Viswanath 2015.
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, Probability, reconstruction::closed::approximate_blow_up};
/// let r = approximate_blow_up(Epsilon::new(1.0)?, Delta::new(0.0)?, Probability::new(0.01)?);
/// assert!((r.get().get() / 0.027182818284590453 - 1.0).abs() < 1e-14);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[must_use]
pub fn approximate_blow_up(
    epsilon: Epsilon,
    delta: Delta,
    prior: Probability,
) -> Upper<Probability> {
    let (e, d, p) = (epsilon.get(), delta.get(), prior.get());
    // An infinite ε bounds nothing, not even events that the second law never reaches.
    let few = if e == f64::INFINITY {
        1.0
    } else if p > 0.0 {
        ln_add_exp(p.ln() + e, d.ln()).exp()
    } else {
        d
    };
    // The same bound for the complementary event under the other law.
    let many = 1.0 - (-e).exp() * (1.0 - p - d).max(0.0);
    // The few rounding errors of the exponent count relatively, those of 1 − … absolutely.
    let few = few * (1.0 + SLACK * (2.0 + e.min(1e4)));
    let most = few.min(many + SLACK).clamp(p, 1.0);
    Upper::new(Probability::new(most).unwrap_or(Probability::ONE))
}
