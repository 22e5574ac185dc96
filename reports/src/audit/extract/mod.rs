//! `audit extract`: which texts and secrets a model reproduces word for word.

pub mod args;
#[cfg(feature = "audit")]
pub(super) mod candidates;
mod page;
#[cfg(feature = "audit")]
pub(super) mod run;
mod secrets;
mod tables;

pub use secrets::{Drawn, PromisedSecrets, SecretsReport, Source};

use super::{Apart, RecordsDigest};
use crate::contract::{Envelope, Exit, Inputs, judges};
use crate::number::{count_of, grouped};
#[cfg(feature = "audit")]
use crate::number::{rounded_down, shortest};
use crate::page::{Mood, Reach};
use reticent_accounting::Confidence;
use reticent_attacks::extract::{PromptRates, Stratum};
use reticent_attacks::membership::Rate;
use reticent_attacks::sign_test;
use schemars::JsonSchema;
use serde::Serialize;

/// The false-alarm rate at which something is called a leak.
const LEVEL: f64 = 0.05;

/// Passages whose suffix a sampler draws within this many tries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WithinDraws {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Draws.
    pub draws: f64,
    /// Passages that occur in them with probability at least one half.
    pub rate: Rate,
    /// The same by number of copies in the training text.
    pub strata: Vec<Stratum>,
}

/// Records without a passage of their own: another has the same or nearly the same suffix, or it can't come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Merged {
    /// Those that repeat another record token by token.
    pub copies: u64,
    /// Those that repeat, or nearly, the suffix alone.
    pub alike: u64,
    /// Those whose suffix has characters outside the vocabulary, which the model can't distinguish.
    #[serde(skip_serializing_if = "crate::contract::is_zero")]
    pub unknown: u64,
}

impl Merged {
    const fn all(&self) -> u64 {
        self.copies + self.alike + self.unknown
    }

    const fn is_none(&self) -> bool {
        self.all() == 0
    }

    /// Returns a sentence to follow the number of passages; empty if nothing was merged.
    fn says(self) -> String {
        let parts = [
            (self.copies, count_of(self.copies, "copy")),
            (
                self.alike,
                format!(
                    "{} whose suffix another record has too, or nearly",
                    grouped(self.alike)
                ),
            ),
            (
                self.unknown,
                format!(
                    "{} whose suffix has characters outside the vocabulary (<UNK>)",
                    grouped(self.unknown)
                ),
            ),
        ];
        if self.is_none() {
            return String::new();
        }
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(_, said)| said).collect();
        format!(
            " {} long enough and not counted: {}.",
            count_of(self.all(), "more record"),
            parts.join(", ")
        )
    }
}

/// The result of `audit extract`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExtractReport {
    /// Records long enough for a passage; those with the same or nearly the same suffix count once.
    pub passages: u64,
    /// Other records that are long enough.
    #[serde(skip_serializing_if = "Merged::is_none")]
    pub merged: Merged,
    /// Tokens of a suffix.
    pub suffix: usize,
    /// Context length of the model in tokens, if the usual prompt or suffix lengths were shortened for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// The share of tokens that a near-verbatim continuation may change; absent where nothing
    /// was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_at_most: Option<f64>,
    /// One row per length of prompt.
    pub prompts: Vec<PromptRates>,
    /// (n, p)-discoverable extraction with p = 1/2.
    pub draws: Vec<WithinDraws>,
    /// Whether a model that never saw the text was compared.
    pub baseline: bool,
    /// How far it is from the model, on the suffixes; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_apart: Option<Apart>,
    /// Of which records the passages are; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsDigest>,
    /// Secrets among their candidates, against what was promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretsReport>,
    /// The probability with which each interval holds.
    pub confidence: Confidence,
}

impl ExtractReport {
    /// Returns the rate that a limit is compared with: of what the model alone extracts, unless the baseline is a near
    /// copy, from which that is little whatever the model remembers.
    fn limited(&self, row: &PromptRates) -> Rate {
        let contrast = row.contrast.filter(|_| !self.has_near_copy());
        contrast.map_or(row.verbatim, |contrast| contrast.only_model)
    }

    /// Returns whether the baseline is nearly the same model.
    fn has_near_copy(&self) -> bool {
        self.baseline_apart.is_some_and(|apart| apart.near_copy)
    }

    /// Returns 1 if a promise is contradicted, or if certainly more than `limit` is extracted with prompts of some
    /// length; the lengths share the failure probability.
    #[must_use]
    pub fn exit(&self, limit: Option<f64>) -> Exit {
        if self
            .secrets
            .as_ref()
            .is_some_and(SecretsReport::is_contradicted)
        {
            return Exit::Exceeded;
        }
        Exit::of(limit.is_some_and(|limit| self.above(limit).is_some()))
    }

    /// Returns the first length of prompt after which certainly more than the limit is extracted.
    fn above(&self, limit: f64) -> Option<&PromptRates> {
        self.prompts.iter().find(|row| {
            let shared = self.shared(self.limited(row));
            let lower = shared.and_then(|rate| rate.bounds.lower);
            lower.is_some_and(|lower| lower.get().get() > limit)
        })
    }

    /// Returns the largest rate that this many passages can prove, if all of them are extracted.
    fn largest_provable(&self) -> f64 {
        let each = self.prompts.iter().filter_map(|row| {
            let trials = row.verbatim.trials;
            let all = Rate::of(trials, trials, self.confidence).ok()?;
            Some(self.shared(all)?.bounds.lower?.get().get())
        });
        each.fold(0.0, f64::max)
    }

    /// Returns whether this many passages can decide whether more than the limit is extracted: all of them coming out would
    /// show more, or all intervals lie below it.
    fn decides(&self, limit: f64) -> bool {
        let kept = (self.prompts.iter()).all(|row| {
            let shared = self.shared(self.limited(row));
            let upper = shared.and_then(|rate| rate.bounds.upper);
            upper.is_some_and(|upper| upper.get().get() <= limit)
        });
        kept || self.largest_provable() > limit
    }

    /// Returns why this many passages can't decide whether more than the limit is extracted.
    #[cfg(feature = "audit")]
    pub(super) fn undecided(&self, limit: Option<f64>) -> Option<String> {
        let limit = limit.filter(|limit| !self.decides(*limit))?;
        Some(format!(
            "--max-rate: whether more than {} comes out is not known, since all passages coming out would show {} at least; give more of them, or a limit below that",
            shortest(limit),
            rounded_down(self.largest_provable(), 3)
        ))
    }

    /// Returns whether any passage is extracted word for word.
    fn comes_out(&self) -> bool {
        self.prompts.iter().any(|row| row.verbatim.hits > 0)
    }

    /// Returns whether with some length of prompt more passages come out of this model alone than chance explains.
    #[cfg(feature = "audit")]
    fn remembers(&self) -> bool {
        let each = self.level_of_each();
        let mut contrasts = self.prompts.iter().filter_map(|row| row.contrast);
        contrasts.any(|beside| beside.p_value <= each)
    }

    /// The false-alarm rate at which each length is held against its baseline: all of them share 5 %.
    fn level_of_each(&self) -> f64 {
        LEVEL / self.prompts.len().max(1) as f64
    }

    /// Returns the number of passages that could show memorisation if all were extracted and none by a baseline;
    /// `None` if there are enough.
    fn passages_needed(&self) -> Option<u64> {
        let trials = self.prompts.iter().map(|row| row.verbatim.trials).max()?;
        let needed = (1..).find(|all| sign_test(*all, 0) <= self.level_of_each());
        needed.filter(|needed| trials < *needed)
    }

    /// Returns the mood, that of passages or secrets, whichever asks for more. Extracted passages are for review unless a
    /// limit that they could exceed judges them. Without any the result is open if so few passages could show nothing, or
    /// if the baseline is a near copy.
    fn mood(&self, limit: Option<f64>) -> Mood {
        let reach = Reach {
            leak: self.passages_needed().is_none(),
            promise: None,
            // A limit that these passages could not exceed judges none that came out.
            limit: limit.filter(|limit| judges(*limit)).map(|limit| {
                self.largest_provable() > limit || !self.comes_out() && self.decides(limit)
            }),
        };
        let passages = Mood::of_leak(self.comes_out(), reach, self.has_near_copy());
        let secrets = self.secrets.as_ref().map(SecretsReport::mood);
        let otherwise = secrets.map_or(passages, |secrets| secrets.max(passages));
        Mood::of(self.exit(limit), otherwise)
    }

    /// Returns a rate at this length's share of the failure probability, so that all lengths hold together.
    fn shared(&self, rate: Rate) -> Option<Rate> {
        let lengths = self.prompts.len().max(1) as u64;
        let each = self.confidence.shared_by(lengths).ok()?;
        Rate::of(rate.hits, rate.trials, each).ok()
    }

    /// Returns CSV: a row for each length of prompt, or only the secrets if there are no prompts.
    #[cfg(feature = "audit")]
    fn rows(&self) -> serde_json::Result<String> {
        Ok(match self.prompts.is_empty() {
            true => crate::contract::Csv::of_facts(&self.secrets, &[])?,
            false => crate::contract::Csv::of_rows(&self.prompts)?,
        })
    }

    /// Returns the JSON document.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("extraction", inputs, self)
    }
}

#[cfg(test)]
mod tests;
