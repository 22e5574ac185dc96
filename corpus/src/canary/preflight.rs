//! The preflight: proof that every copy of every canary reaches training.

use super::plan::CanaryPlan;
use super::words::WordFacts;
use crate::record::Side;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The records that hold only a part of its secret, if it isn't kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u64>,
    /// The side of these records: the public one if any of them is on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Whether the record begins with the very context the canary is scored in. Not so in
    /// dialogues and documents, where other text comes before, nor where a sentence begins
    /// inside the canary's line.
    #[serde(default)]
    pub in_context: bool,
}

impl CopyReport {
    /// Returns the records that hold the secret or a part of it.
    pub(crate) fn records(&self) -> impl Iterator<Item = u64> {
        self.record.into_iter().chain(self.parts.iter().copied())
    }

    /// Adds what became of the part of the copy that is in another unit.
    fn join(&mut self, part: &mut Self) {
        self.parts.append(&mut part.parts);
        if self.side != Some(Side::Public) {
            self.side = part.side.or(self.side);
        }
    }
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
    /// Completes the reports of a run: a copy without a report is lost, and one that a boundary cuts apart has a report
    /// of each part.
    pub(crate) fn new(plan: &CanaryPlan, mut reports: Vec<CopyReport>) -> Self {
        let seen = |r: &CopyReport| (r.canary, r.copy);
        reports.sort_by_key(seen);
        reports.dedup_by(|part, first| {
            let is_same = seen(part) == seen(first);
            if is_same {
                first.join(part);
            }
            is_same
        });
        for (canary, planned) in (0..).zip(&plan.canaries) {
            for copy in 0..planned.insertions.len() as u64 {
                if let Err(at) = reports.binary_search_by_key(&(canary, copy), seen) {
                    let lost = CopyReport {
                        canary,
                        copy,
                        fate: CopyFate::Lost,
                        record: None,
                        parts: Vec::new(),
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

    /// Returns the number of records that hold any token of a canary's secret: the group size of its
    /// guarantee, before the stability of the stages. Copies in the same record count once.
    #[must_use]
    pub fn survivors(&self, canary: u64) -> u64 {
        let copies = self.copies.iter().filter(|c| c.canary == canary);
        let records: BTreeSet<u64> = copies.flat_map(CopyReport::records).collect();
        records.len() as u64
    }

    /// Returns the number of canaries of which some record holds a token of the secret: of the others, training learns
    /// nothing.
    #[must_use]
    pub fn reached(&self) -> u64 {
        let held = self.copies.iter().filter(|c| c.records().next().is_some());
        let canaries: BTreeSet<u64> = held.map(|c| c.canary).collect();
        canaries.len() as u64
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
