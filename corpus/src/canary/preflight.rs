//! The preflight: proof that every copy of every canary reaches training.

use super::plan::CanaryPlan;
use super::words::WordFacts;
use crate::record::Side;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyFate {
    /// Every token of the secret is in a record and carries loss.
    Kept,
    /// Its unit was there before, and became a single `<MASK>`.
    Deduplicated,
    /// The redaction policy masked at least a part of the secret.
    Masked,
    /// The redaction policy masked it, as the plan says.
    Caught,
    /// The record was cut off before the end of the secret.
    Truncated,
    /// No unit holds it whole.
    Lost,
}

/// One copy after the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyReport {
    /// Number of the canary.
    pub canary: u64,
    /// Number of the copy.
    pub copy: u64,
    /// What became of it.
    pub fate: CopyFate,
    /// Its record in the training set, if kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// The side that record is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Whether the record begins with the very context the canary is scored in. Not so in
    /// dialogues and documents, where other text comes before, nor where a sentence begins
    /// inside the canary's line.
    #[serde(default)]
    pub in_context: bool,
}

/// What became of every copy of every canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preflight {
    /// By canary, then by copy.
    pub copies: Vec<CopyReport>,
    /// What the canaries' words were chosen from, where their format waited for words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<WordFacts>,
}

impl Preflight {
    /// Completes the reports of a run: a copy without a report is lost.
    pub(crate) fn new(plan: &CanaryPlan, mut reports: Vec<CopyReport>) -> Self {
        reports.sort_by_key(|r| (r.canary, r.copy));
        let seen = |r: &CopyReport| (r.canary, r.copy);
        for (canary, planned) in (0..).zip(&plan.canaries) {
            for copy in 0..planned.insertions.len() as u64 {
                if let Err(at) = reports.binary_search_by_key(&(canary, copy), seen) {
                    let lost = CopyReport {
                        canary,
                        copy,
                        fate: CopyFate::Lost,
                        record: None,
                        side: None,
                        in_context: false,
                    };
                    reports.insert(at, lost);
                }
            }
        }
        Self {
            copies: reports,
            words: None,
        }
    }

    /// Returns whether every copy is kept, except those that the plan says are caught.
    #[must_use]
    pub fn passes(&self) -> bool {
        let as_planned = [CopyFate::Kept, CopyFate::Caught];
        self.copies.iter().all(|c| as_planned.contains(&c.fate))
    }

    /// Returns the number of records that contain a canary's secret: the group size of its
    /// guarantee, before the stability of the stages. Copies in the same record count once.
    #[must_use]
    pub fn survivors(&self, canary: u64) -> u64 {
        let mut records: Vec<u64> = self
            .copies
            .iter()
            .filter(|c| c.canary == canary)
            .filter_map(|c| c.record)
            .collect();
        records.sort_unstable();
        records.dedup();
        records.len() as u64
    }

    /// Returns the number of copies with a given fate.
    #[must_use]
    pub fn count(&self, fate: CopyFate) -> u64 {
        self.copies.iter().filter(|c| c.fate == fate).count() as u64
    }
}

impl std::fmt::Display for Preflight {
    /// Writes one line: `200 of 200 copies survive`, or with the reasons why the others do not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kept = self.count(CopyFate::Kept);
        write!(f, "{kept} of {} copies survive", self.copies.len())?;
        let elsewhere = self.copies.iter().filter(|c| !c.in_context);
        let elsewhere = elsewhere.filter(|c| c.fate == CopyFate::Kept).count();
        if elsewhere > 0 {
            write!(
                f,
                ", {elsewhere} of them behind other text than they are scored behind"
            )?;
        }
        let reasons = [
            (CopyFate::Deduplicated, "removed by deduplication"),
            (CopyFate::Masked, "masked by the redaction policy"),
            (CopyFate::Caught, "caught, as planned"),
            (CopyFate::Truncated, "cut off with their record's end"),
            (CopyFate::Lost, "cut apart by a unit's boundary"),
        ];
        for (fate, words) in reasons {
            let count = self.count(fate);
            if count > 0 {
                write!(f, "; {count} {words}")?;
            }
        }
        Ok(())
    }
}
