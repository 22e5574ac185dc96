//! Checks of a mechanism's fields beyond the ranges of their types.

use super::Mechanism;
use super::json::refused;
use crate::quantity::error::Result;
use crate::quantity::{Divergence, MOST_COUNT, Order, Probability};

/// The most numbers in one list.
pub(crate) const MOST_NUMBERS: usize = 10_000;

impl Mechanism {
    /// Checks counts, sizes and mixtures at every level. Every mechanism returned by
    /// [`read`](super::read) has passed this check.
    ///
    /// # Errors
    /// Returns [`Error::Document`](crate::Error::Document) with the place, the value and its allowed
    /// range.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Gaussian { .. }
            | Self::Laplace { .. }
            | Self::ExponentialMechanism { .. }
            | Self::PureDp { .. }
            | Self::ApproxDp { .. }
            | Self::Zcdp { .. }
            | Self::NonPrivate { .. } => Ok(()),
            Self::RenyiDp {
                orders,
                divergences,
                ..
            } => renyi(orders, divergences),
            Self::RepeatAndSelect { each, .. } => each.validate().map_err(|e| e.within("each")),
            Self::SubsampledGaussian { sampling, .. }
            | Self::SubsampledLaplace { sampling, .. } => {
                sampling.validate().map_err(|e| e.within("sampling"))
            }
            Self::PoissonBinomialGaussian { rates, .. } => numbers("rates", rates.len()),
            Self::MixtureOfGaussians {
                sensitivities,
                probabilities,
                ..
            } => mixture(
                ("sensitivities", sensitivities),
                ("probabilities", probabilities),
            ),
            Self::DiscreteGaussian { sensitivity, .. }
            | Self::DiscreteLaplace { sensitivity, .. } => {
                whole("sensitivity", (*sensitivity).into(), 1, u32::MAX.into())
            }
            Self::RandomisedResponse { categories, .. } => {
                whole("categories", (*categories).into(), 2, u32::MAX.into())
            }
            Self::Repeat { times, each } => {
                whole("times", times.get(), 0, MOST_COUNT)?;
                each.validate().map_err(|e| e.within("each"))
            }
            Self::Sequence { parts } => parts.iter().enumerate().try_for_each(|(i, part)| {
                part.validate()
                    .map_err(|e| e.within(&format!("parts[{i}]")))
            }),
            Self::Estimated { inner, .. } => inner.validate().map_err(|e| e.within("inner")),
        }
    }
}

/// Checks that a number lies within a range.
pub(super) fn whole(key: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        let why = format!("must be a whole number in [{least}, {most}], got {value}");
        Err(refused(key, &why))
    }
}

fn numbers(key: &str, found: usize) -> Result<()> {
    if found <= MOST_NUMBERS {
        Ok(())
    } else {
        let why = format!("must have at most {MOST_NUMBERS} numbers, got {found}");
        Err(refused(key, &why))
    }
}

/// Checks divergences and their orders: equally many, at least one, orders ascending.
fn renyi(orders: &[Order], divergences: &[Divergence]) -> Result<()> {
    numbers("orders", orders.len())?;
    if orders.is_empty() || orders.len() != divergences.len() {
        let why = format!(
            "must be as many as orders and at least one, got {} for {}",
            divergences.len(),
            orders.len()
        );
        return Err(refused("divergences", &why));
    }
    ascending("orders", orders)
}

fn ascending<T: PartialOrd + std::fmt::Display>(key: &str, values: &[T]) -> Result<()> {
    match values.windows(2).find(|pair| pair[0] >= pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let why = format!("must ascend, got {} before {}", pair[0], pair[1]);
            Err(refused(key, &why))
        }
    }
}

/// Checks a random sensitivity: ascending values and their probabilities, which sum to one.
pub(super) fn mixture(
    (places, sensitivities): (&str, &[f64]),
    (weights, probabilities): (&str, &[Probability]),
) -> Result<()> {
    numbers(places, sensitivities.len())?;
    numbers(weights, probabilities.len())?;
    if sensitivities.is_empty() || sensitivities.len() != probabilities.len() {
        let why = format!(
            "must be as many as {places} and at least one, got {} for {}",
            probabilities.len(),
            sensitivities.len()
        );
        return Err(refused(weights, &why));
    }
    let mut values = sensitivities.iter();
    if let Some(odd) = values.find(|s| !(s.is_finite() && **s >= 0.0)) {
        return Err(refused(places, &format!("must lie in [0, inf), got {odd}")));
    }
    ascending(places, sensitivities)?;
    let sum: f64 = probabilities.iter().map(|p| p.get()).sum();
    if (sum - 1.0).abs() > 1e-9 {
        return Err(refused(weights, &format!("must add up to 1, got {sum}")));
    }
    Ok(())
}
