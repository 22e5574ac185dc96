//! A single bound from several dominating pairs.

use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::Result;
use crate::quantity::{Epsilon, Probability, Tolerance};

/// Returns a bound on guessing a secret whose contents are dominated by different pairs (for example, contents that
/// occur in different numbers of records): inf over α ≥ 1 of max_i H_α(P_i‖Q) + α·prior.
///
/// Bound: upper. The maximum of the single blow-ups isn't a bound: an adversary spends the prior where it helps most.
/// Every α is safe; α below one would only help where the answer is close to one.
///
/// ```
/// use reticent_accounting::{Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability, Query, Tolerance};
/// use reticent_accounting::reconstruction::several::blow_up_of_several;
/// let run = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0)? };
/// let pair = |records| {
///     let query = Query { neighbours: Neighbours::ZeroOut, group: GroupSize::new(records)? };
///     PrivacyLoss::of(&run, query, Direction::Remove)
/// };
/// let (prior, tolerance) = (Probability::new(1e-6)?, Tolerance::new(1e-6)?);
/// let both = blow_up_of_several(&[pair(1)?, pair(3)?], prior, tolerance)?;
/// let larger = pair(3)?.blow_up(prior, tolerance)?.bounds.upper.unwrap();
/// // The larger group dominates the smaller one: nothing is lost here.
/// assert!((both.get().get() / larger.get().get() - 1.0).abs() < 1e-4);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`PrivacyLoss::delta`].
pub fn blow_up_of_several(
    losses: &[PrivacyLoss],
    prior: Probability,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    let x = prior.get();
    if x <= 0.0 && losses.iter().all(PrivacyLoss::is_continuous) || x >= 1.0 {
        return Ok(Upper::new(prior));
    }
    let line = |s: f64| s.exp() * x;
    let least = least_sum(losses, x, line, tolerance)? * (1.0 + 4.0 * f64::EPSILON);
    Ok(Upper::new(Probability::new(least.clamp(x, 1.0))?))
}

/// Returns the least of max_i H_{e^s}(P_i‖Q) + `line`(s) over the s ≥ 0 that a search visits: because Q(L > s) ≤
/// e^{−s}, the root of Q(L > s) = `mass` lies below ln(1/`mass`).
pub(super) fn least_sum(
    losses: &[PrivacyLoss],
    mass: f64,
    line: impl Fn(f64) -> f64,
    tolerance: Tolerance,
) -> Result<f64> {
    let sum = |s: f64| -> Result<f64> {
        let mut most = 0.0f64;
        for loss in losses {
            let excess = loss.delta(Epsilon::new(s)?, tolerance)?.bounds.upper;
            most = most.max(excess.map_or(1.0, |end| end.get().get()));
        }
        Ok(most + line(s))
    };
    let (mut low, mut high) = (0.0, -mass.max(f64::MIN_POSITIVE).ln());
    let mut least = sum(0.0)?;
    // Ternary search: the sum is convex in e^s.
    while high - low > 1e-7 * (1.0 + high) {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        let (at_a, at_b) = (sum(a)?, sum(b)?);
        least = least.min(at_a).min(at_b);
        if at_a < at_b { high = b } else { low = a }
    }
    Ok(least)
}
