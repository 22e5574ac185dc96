//! What a loss says about membership: ceilings of any membership attack on one record.

use crate::bound::Upper;
use crate::error::{Error, Result};
use crate::pld::PrivacyLoss;
use crate::quantity::{Probability, Tolerance};

/// A bound on the true positive rate of any membership attack at a false positive rate: B(FPR).
///
/// Ask it of the add/remove pair with the mixture first. Bound: upper. Source: Neyman–Pearson;
/// a ROC curve lies below the trade-off curve of the dominating pair.
///
/// ```
/// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability, Query, Tolerance};
/// use reticent_accounting::reconstruction::membership::true_positive_ceiling;
/// let run = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0)? };
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
/// let rate = true_positive_ceiling(&loss, Probability::new(0.01)?, Tolerance::new(1e-9)?)?;
/// // Φ(Φ⁻¹(0.01) + 1/2).
/// assert!((rate.get().get() - 0.033892).abs() < 1e-5);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`PrivacyLoss::blow_up`].
pub fn true_positive_ceiling(
    loss: &PrivacyLoss,
    false_positives: Probability,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    let upper = loss.blow_up(false_positives, tolerance)?.bounds.upper;
    Ok(upper.unwrap_or(Upper::new(Probability::ONE)))
}

/// A bound on the area under the ROC curve of any membership attack: ∫ B, by the midpoint rule
/// with `cells` cells, which is an upper bound since B is concave.
///
/// Bound: upper. Ask it of the add/remove pair with the mixture first.
///
/// # Errors
/// [`Error::OutOfRange`] for no cell; otherwise as [`PrivacyLoss::blow_up`].
pub fn area_ceiling(
    loss: &PrivacyLoss,
    cells: u32,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    if cells == 0 {
        return Err(Error::OutOfRange {
            what: "cells of the midpoint rule",
            range: "[1, 2^32)",
            value: 0.0,
        });
    }
    let mut sum = 0.0;
    for cell in 0..cells {
        let middle = Probability::new((f64::from(cell) + 0.5) / f64::from(cells))?;
        sum += true_positive_ceiling(loss, middle, tolerance)?.get().get();
    }
    let area = sum / f64::from(cells) * (1.0 + f64::EPSILON * f64::from(cells));
    Ok(Upper::new(Probability::new(area.min(1.0))?))
}
