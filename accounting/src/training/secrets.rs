//! What a plan keeps secret, and how well its policies find it.

use super::stated::Stated;
use crate::guarantee::confidentiality::{CorpusFacts, LabelledSecrets, MeasuredRates};
use crate::guarantee::redaction::Redaction;
use crate::quantity::{GroupSize, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Planted secrets, as training meets them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Canaries {
    /// How many.
    pub count: u64,
    /// The most records of the training set that differ if the secret of one does: those that hold it, as the stages
    /// spread them.
    pub records: u64,
    /// Copies on the public side, which both policies missed.
    pub on_public_side: u64,
    /// How many contents one can have, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<f64>,
}

impl Canaries {
    /// Returns a number of candidates as a floating-point number, rounded up so that no ceiling on
    /// exposure becomes smaller.
    ///
    /// ```
    /// use reticent_accounting::training::Canaries;
    /// assert!(Canaries::candidates(1_000_000) == 1e6);
    /// assert!(Canaries::candidates((1 << 60) + 1) > (1u64 << 60) as f64);
    /// ```
    #[must_use]
    pub const fn candidates(count: u128) -> f64 {
        let near = count as f64;
        if (near as u128) < count {
            near.next_up()
        } else {
            near
        }
    }
}

/// Labelled secrets and the rates that follow from them.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRates {
    /// The labelled sample.
    pub sample: LabelledSecrets,
    /// Bounds on both rates.
    pub rates: MeasuredRates,
}

/// What is to be kept secret.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// The most records that one secret is trained on in; absent where it is not known: then
    /// statements are about single records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Stated<GroupSize>>,
    /// The same before deduplication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_before: Option<GroupSize>,
    /// How often the policies miss: γ and η.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<Stated<Redaction>>,
    /// Whether no record is trained on without noise, so that no secret is missed by both
    /// policies.
    #[serde(default)]
    pub everything_private: bool,
    /// Chance of guessing a secret beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<Probability>,
    /// Contents a secret can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u64>,
    /// Planted secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<Stated<Canaries>>,
    /// What became of the secrets of the corpus; never written.
    #[serde(skip)]
    pub facts: Option<CorpusFacts>,
    /// The sample behind measured miss rates; never written.
    #[serde(skip)]
    pub labels: Option<LabelledRates>,
}

impl Secrets {
    /// Returns whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the secrets without what was measured in the private text.
    pub(super) fn published(&self) -> Self {
        fn given<T: Clone>(value: &Option<Stated<T>>) -> Option<Stated<T>> {
            value.clone().filter(|value| !value.is_measured())
        }
        Self {
            records: given(&self.records),
            redaction: given(&self.redaction),
            canaries: None,
            facts: None,
            labels: None,
            ..self.clone()
        }
    }
}
