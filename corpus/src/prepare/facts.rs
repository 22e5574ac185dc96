//! What a preparation did, in numbers. The numbers are functions of the private text, so a published report must omit
//! them or account for them.

use super::options::{PrepareOptions, TokenizerChoice};
use super::stability::{Copies, Stability, StageStability};
use crate::canary::Preflight;
use crate::tokenize::Origin;
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a preparation did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// Training documents without any text, of which no unit is cut.
    #[serde(default, skip_serializing_if = "none")]
    pub blank_documents: u64,
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
    /// Places of marked secrets that extend over several units, of which kept units hold parts.
    pub cut_secrets: u64,
    /// In text that is left as it is: occurrences of marked secrets, canaries included, that the
    /// policy does not find in full.
    #[serde(default, skip_serializing_if = "none")]
    pub uncaught: u64,
    /// Secrets that count as missed because checking them would have taken too long, once for each kept unit: after 256 MiB
    /// of text looked at again, the others of a unit are not checked.
    #[serde(default, skip_serializing_if = "none")]
    pub unchecked: u64,
    /// Kept records that the policy could not examine, so that all of their text counts as found: it took more than ten
    /// seconds of processor time, or a classifier failed. The secrets in them count as missed: whether another run finds
    /// them too depends on the machine.
    #[serde(default, skip_serializing_if = "none")]
    pub not_examined: u64,
    /// Tokens that carry loss in training.
    pub loss_tokens: u64,
    /// Characters of the records' text, without masks and before truncation. 0 in folders of earlier versions.
    #[serde(default)]
    pub characters: u64,
    /// Those of them outside the vocabulary: they have no token, or one that stands for all such text (`<UNK>`). White space
    /// without a token is not counted.
    #[serde(default, skip_serializing_if = "none")]
    pub unknown_characters: u64,
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
    /// The share of the characters that are outside the vocabulary.
    #[must_use]
    pub fn unknown_share(&self) -> f64 {
        self.unknown_characters as f64 / self.characters.max(1) as f64
    }

    /// Returns the stability of the whole pipeline: the product over its stages.
    #[must_use]
    pub fn stability(&self, copies: Copies) -> Stability {
        StageStability::product(&self.stages, copies)
    }

    /// Returns whether masking all copies of a secret can change records without it: where duplicates are not exact, and
    /// where spans were masked beforehand, of which a copy may then be left. No secret counts as caught there.
    #[must_use]
    pub fn spreads(&self) -> bool {
        StageStability::spread(&self.stages)
    }

    /// Checks what the facts of a preparation with these options say of each other. The records are not needed for it.
    ///
    /// # Errors
    /// Returns the contradiction in words, with the numbers.
    pub(crate) fn check(&self, options: &PrepareOptions) -> Result<(), String> {
        if self.unit != options.unit {
            return Err(format!(
                "facts.unit: {}, expected {}",
                self.unit, options.unit
            ));
        }
        if self.public.checked_add(self.private) != Some(self.units) {
            return Err(format!(
                "public {} and private {} do not add up to {} units",
                self.public, self.private, self.units
            ));
        }
        if self.not_examined > self.units {
            return Err(format!(
                "facts.not_examined: {}, expected at most {}, the number of units",
                self.not_examined, self.units
            ));
        }
        let masked_alone = [self.duplicates, self.mask_only, self.private];
        if !masked_alone.is_sorted() {
            return Err(format!(
                "{} duplicates, {} points that are only a mask, {} private ones: each must be among the next",
                self.duplicates, self.mask_only, self.private
            ));
        }
        // The options do not say whether the input had masks.
        let expected = |masked_input| options.stages(masked_input, self.units);
        if ![false, true].map(expected).contains(&self.stages) {
            return Err("facts.stages: not those of the options".to_owned());
        }
        // Our own vocabularies are recognised in a file too.
        let [bytes, characters] = [Origin::Bytes, Origin::Characters];
        let possible = match options.tokenizer {
            TokenizerChoice::Bytes => [bytes; 3],
            TokenizerChoice::Characters => [characters; 3],
            TokenizerChoice::File { origin, .. } => [origin, bytes, characters],
        };
        if !possible.contains(&self.vocabulary) {
            return Err(format!(
                "facts.vocabulary: {:?}, which options.tokenizer does not give",
                self.vocabulary
            ));
        }
        self.secrets.check(self.spreads(), self.units)
    }

    /// Returns the stages as a checkpoint publishes them. Whether the input held masked spans is a function of the
    /// private text, so they have the stability of an input with such spans, which is never smaller.
    #[must_use]
    pub fn published_stages(&self, options: &PrepareOptions) -> Vec<StageStability> {
        options.stages(true, self.units)
    }
}

/// How the secrets are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecretSource {
    /// Marked in the documents.
    #[default]
    Gold,
    /// Found by the redaction policy before simulated misses, and where else their texts stand in the same record as whole words.
    /// Real misses are not counted, nor records that hold a secret in which the policy finds none of it.
    Detected,
}

/// Distinct secret strings in the kept records, and what became of them. Marked secrets count where they are marked, not
/// where their text stands unmarked; one that extends over several records is one secret in all of them.
///
/// A secret is **missed** when in at least one record masking it beforehand would have changed
/// the record that training sees: a secret masked in part is missed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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

impl SecretFacts {
    /// `spreads`: as [`Facts::spreads`] says. `units`: of the corpus.
    fn check(&self, spreads: bool, units: u64) -> Result<(), String> {
        let all = &self.all;
        all.check("all")?;
        let mut sum = [Some(0u64); 6];
        for (kind, facts) in &self.by_kind {
            facts.check(kind)?;
            for (sum, (_, count)) in sum.iter_mut().zip(facts.counts()) {
                *sum = sum.and_then(|sum| sum.checked_add(count));
            }
        }
        for ((name, count), sum) in all.counts().into_iter().zip(sum) {
            if sum != Some(count) {
                return Err(format!(
                    "facts.secrets.all.{name}: {count}, which is not the sum over the kinds"
                ));
            }
        }
        if (self.most_records == 0) != (all.missed == 0) || self.most_records > units {
            return Err(format!(
                "facts.secrets.most_records: {}; {} missed secrets and {units} units allow from {} to {}",
                self.most_records,
                all.missed,
                all.missed.min(1),
                if all.missed == 0 { 0 } else { units }
            ));
        }
        if spreads && all.masked > 0 {
            return Err(format!(
                "facts.secrets.all.masked: {}, expected 0: with these stages no secret counts as caught; prepare the corpus again",
                all.masked
            ));
        }
        Ok(())
    }
}

/// Numbers of distinct secret strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KindFacts {
    /// Distinct strings.
    pub distinct: u64,
    /// Places in kept records; one that extends over several records counts once.
    pub occurrences: u64,
    /// Caught in every record in which they are known to be.
    pub masked: u64,
    /// Missed by the redaction policy in at least one record.
    pub missed: u64,
    /// Missed in at least one record that the conservative policy does not flag either.
    pub missed_by_both: u64,
    /// Missed in at least one record that ends on the public side.
    pub public: u64,
}

impl KindFacts {
    fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("distinct", self.distinct),
            ("occurrences", self.occurrences),
            ("masked", self.masked),
            ("missed", self.missed),
            ("missed_by_both", self.missed_by_both),
            ("public", self.public),
        ]
    }

    /// `of`: the name of the kind.
    fn check(&self, of: &str) -> Result<(), String> {
        let ordered = [self.public, self.missed_by_both, self.missed];
        let whole = self.masked.checked_add(self.missed) == Some(self.distinct);
        if whole && self.distinct <= self.occurrences && ordered.is_sorted() {
            return Ok(());
        }
        let counts: Vec<String> = self
            .counts()
            .iter()
            .map(|(n, c)| format!("{n} {c}"))
            .collect();
        Err(format!(
            "facts.secrets, {of}: {}; masked and missed add up to distinct, and neither missed_by_both is above missed, public \
             above missed_by_both nor distinct above occurrences",
            counts.join(", ")
        ))
    }
}
