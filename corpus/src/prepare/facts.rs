//! What a preparation did, in numbers. The numbers are functions of the private text, so a published report must omit
//! them or account for them.

use super::stability::{Copies, Stability, StageStability};
use crate::canary::Preflight;
use crate::tokenize::Origin;
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a preparation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// What one record is.
    pub unit: Unit,
    /// Where the vocabulary comes from.
    pub vocabulary: Origin,
    /// Its size, specials included.
    pub vocabulary_size: usize,
    /// Training documents.
    pub documents: u64,
    /// Documents held out.
    pub held_out_documents: u64,
    /// With the unit `user`, whose documents are one each: the documents that those trained on are made of, where the
    /// corpus is no pipe.
    #[serde(default, skip_serializing_if = "none")]
    pub user_documents: u64,
    /// Units cut from the training documents: public + private.
    pub units: u64,
    /// How many of them differ from each other, before redaction.
    pub distinct_units: u64,
    /// Units replaced by a single `<MASK>` because they were there before.
    pub duplicates: u64,
    /// Kept units of which a stretch that stood earlier became `<MASK>`.
    #[serde(default, skip_serializing_if = "none")]
    pub repeated: u64,
    /// |D_pub|.
    pub public: u64,
    /// |D_pri|, with the points that are only `<MASK>`.
    pub private: u64,
    /// Points that are only `<MASK>`: duplicates, and units masked from end to end.
    pub mask_only: u64,
    /// Kept records in which the policy, or the input, masked something.
    pub redacted: u64,
    /// Kept records that the conservative policy flags.
    pub flagged: u64,
    /// Kept records cut to length.
    pub truncated: u64,
    /// Kept units in which a literal special token was escaped.
    pub escaped: u64,
    /// Marked secrets of which a unit holds only a part, because a boundary runs through.
    pub cut_secrets: u64,
    /// In text that is left as it is: marked secrets, canaries included, that the policy does
    /// not find from end to end.
    #[serde(default, skip_serializing_if = "none")]
    pub uncaught: u64,
    /// Secrets that count as missed because checking them would have taken too long, once for each kept unit: after 256 MiB
    /// of text looked at again, the others of a unit are not checked.
    #[serde(default, skip_serializing_if = "none")]
    pub unchecked: u64,
    /// Tokens that carry loss in training.
    pub loss_tokens: u64,
    /// Those of them that stand for a character outside the vocabulary, `<UNK>`. 0 in folders of earlier versions.
    #[serde(default, skip_serializing_if = "none")]
    pub unknown_tokens: u64,
    /// Records held out.
    pub held_out_records: u64,
    /// Tokens of the records held out that a model is scored on.
    pub held_out_tokens: u64,
    /// The secrets and what became of them; canaries are not among them.
    pub secrets: SecretFacts,
    /// Each stage's stability.
    pub stages: Vec<StageStability>,
    /// What became of each copy of each canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<Preflight>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn none(count: &u64) -> bool {
    *count == 0
}

impl Facts {
    /// The share of the tokens that carry loss that stand for a character outside the vocabulary.
    #[must_use]
    pub fn unknown_share(&self) -> f64 {
        self.unknown_tokens as f64 / self.loss_tokens.max(1) as f64
    }

    /// Returns the stability of the whole pipeline: the product over its stages.
    #[must_use]
    pub fn stability(&self, copies: Copies) -> Stability {
        self.stages
            .iter()
            .fold(Stability::Bounded(1), |all, stage| {
                all.then(match copies {
                    Copies::All => stage.all_copies,
                    Copies::Single => stage.single_copy,
                })
            })
    }
}

/// How the secrets are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecretSource {
    /// Marked in the documents.
    Gold,
    /// Found by the redaction policy before simulated misses: real misses are not counted.
    Detected,
}

/// Distinct secret strings in the kept records, and what became of them.
///
/// A secret is **missed** when in at least one record masking it beforehand would have changed
/// the record that training sees: a secret masked in part is missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretFacts {
    /// How they are known.
    pub source: SecretSource,
    /// All kinds together.
    pub all: KindFacts,
    /// By kind.
    pub by_kind: BTreeMap<String, KindFacts>,
    /// Most kept records any one missed secret is missed in: the group size of a guarantee
    /// for all its copies, before the stability of the stages.
    pub most_records: u64,
}

/// Numbers of distinct secret strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KindFacts {
    /// Distinct strings.
    pub distinct: u64,
    /// Places in kept records.
    pub occurrences: u64,
    /// Caught in every record.
    pub masked: u64,
    /// Missed by the redaction policy in at least one record.
    pub missed: u64,
    /// Missed in at least one record that the conservative policy does not flag either.
    pub missed_by_both: u64,
    /// Missed in at least one record that ends on the public side.
    pub public: u64,
}
