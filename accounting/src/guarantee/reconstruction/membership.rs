//! The area under the ROC curve of a membership attack. True-positive rates, accuracy and advantage, with both
//! ends, are in [`trade_off`](crate::guarantee::trade_off).

use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Probability, Tolerance};

/// Returns a bound on the area under the ROC curve of any membership attack: ∫ B, by the midpoint rule with
/// `cells` cells, which is an upper bound because B is concave.
///
/// Bound: upper. Use it with the add/remove pair with the mixture first. Source: Neyman–Pearson; a ROC curve
/// lies below the trade-off curve of the dominating pair.
///
/// ```
/// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query, Tolerance};
/// use reticent_accounting::reconstruction::membership::area_ceiling;
/// let run = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0)? };
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
/// let area = area_ceiling(&loss, 200, Tolerance::new(1e-9)?)?;
/// // Φ(1/2/√2) = 0.63816.
/// assert!(area.get().get() >= 0.63816 && area.get().get() < 0.6390);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for zero cells; otherwise as [`PrivacyLoss::blow_up`].
pub fn area_ceiling(
    loss: &PrivacyLoss,
    cells: u32,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    if cells == 0 {
        return Err(Error::out_of_range(
            "cells of the midpoint rule",
            "[1, 2^32)",
            0.0,
        ));
    }
    let mut sum = 0.0;
    for cell in 0..cells {
        let middle = (f64::from(cell) + 0.5) / f64::from(cells);
        let rate = loss.true_positive_rate(Probability::new(middle)?, tolerance)?;
        sum += rate.bounds.upper.map_or(1.0, |end| end.get().get());
    }
    let area = sum / f64::from(cells) * (1.0 + f64::EPSILON * f64::from(cells));
    Ok(Upper::new(Probability::new(area.min(1.0))?))
}
