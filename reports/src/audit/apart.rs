//! How far the model that scores are held against is from the audited one.
#![cfg_attr(
    not(feature = "audit"),
    allow(
        dead_code,
        reason = "without an engine nothing is scored; the tests still ask"
    )
)]

use crate::number::nearest;
use schemars::JsonSchema;
use serde::Serialize;

/// Nats a token: one in a hundred of a token's probability. A judgement, above what rounding of weights moves and below what
/// training is for.
const NEAR: f64 = 0.01;

/// How far two models are apart on the texts that both scored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Apart {
    /// The largest difference of a text's mean log-likelihoods, nats a token; absent where one of the models gives a text
    /// no likelihood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_difference: Option<f64>,
    /// Whether that is at most 0.01 nats a token: a copy of the audited model, or training changed hardly anything.
    pub near_copy: bool,
}

impl Apart {
    /// Of the mean log-likelihoods of each text under both, nats a token.
    pub(in crate::audit) fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let both =
            pairs
                .into_iter()
                .map(|(own, other)| match own.is_finite() || other.is_finite() {
                    true => (own - other).abs(),
                    // Neither gives it a likelihood.
                    false => 0.0,
                });
        let largest = both.fold(
            0.0,
            |most: f64, next| if next <= most { most } else { next },
        );
        Self {
            largest_difference: largest.is_finite().then_some(largest),
            near_copy: largest <= NEAR,
        }
    }

    /// What is to be said of a near copy, behind a sentence.
    pub(in crate::audit) fn warning(self, what: &str) -> Option<String> {
        let largest = self.largest_difference.filter(|_| self.near_copy)?;
        Some(format!(
            " {what} is hardly another model: no text's likelihood differs by more than {} nats a token. It is a copy of the audited model, or training changed hardly anything, and what is held against it shows nothing.",
            nearest(largest, 2)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_differ_in_a_bit_or_a_scale_are_told() {
        for (by, near) in [(0.0, true), (1e-7, true), (0.0099, true), (0.011, false)] {
            let apart = Apart::of([(-3.0, -3.0), (-2.0 - by, -2.0)]);
            assert_eq!(apart.near_copy, near, "{by}");
            assert_eq!(apart.warning("The reference").is_some(), near);
        }
        let none = f64::NEG_INFINITY;
        assert!(Apart::of([(none, none)]).near_copy);
        for pair in [(none, -1.0), (-1.0, none), (f64::NAN, -1.0)] {
            let apart = Apart::of([pair]);
            assert_eq!((apart.near_copy, apart.largest_difference), (false, None));
        }
    }
}
