//! The comparison of the demo's arms as JSON, text and page.

pub mod args;
mod page;
#[cfg(feature = "audit")]
pub(super) mod run;
mod tables;

use super::exposure::ExposureReport;
use crate::contract::{Envelope, Exit, Inputs};
use reticent_accounting::{Bounds, Convention, Epsilon, Guarantee, Mechanism, Notion, Upper};
use reticent_corpus::prepare::Facts;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where the text comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Source {
    /// Synthetic.
    Simulated {
        /// How many dialogues.
        dialogues: u64,
        /// The seed.
        seed: u64,
    },
    /// A file from the user.
    File {
        /// Its name.
        path: String,
    },
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simulated { dialogues, seed } => {
                write!(f, "{dialogues} made-up dialogues, seed {seed}")
            }
            Self::File { path } => f.write_str(path),
        }
    }
}

/// What was planted, the same in every arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Planted {
    /// How many canaries.
    pub canaries: u64,
    /// How often each was inserted.
    pub copies: u64,
    /// Their shape.
    pub template: String,
    /// The seed of their secrets and places.
    pub seed: u64,
}

/// Noise and sampling of a private phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PrivatePhase {
    /// σ.
    pub noise_multiplier: f64,
    /// q.
    pub sampling_rate: f64,
    /// T, the private steps actually taken.
    pub steps: u64,
}

/// One way of training.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Arm {
    /// Short, for tables: `SGD`, `CRT`.
    pub name: String,
    /// What was done, in a sentence.
    pub describes: String,
    /// The recipe: `sgd`, `dpsgd`, `crt`.
    pub recipe: String,
    /// What ran, for the accountant.
    pub mechanism: Mechanism,
    /// Noise and sampling; absent without a private phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_phase: Option<PrivatePhase>,
    /// What is promised: one record in the definition's and in the papers' convention, all copies of a canary
    /// together; ε infinite if nothing is.
    pub guarantees: Vec<Guarantee>,
    /// What the same plan would promise with the omitted noise, which the audit of this arm is compared with. Absent
    /// if the noise was added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claimed: Vec<Guarantee>,
    /// Maximum records with one canary's secret: the group of its promise.
    pub records_of_a_canary: u64,
    /// Perplexity per token on the redacted test text.
    pub perplexity: f64,
    /// What leaked, and how it compares with the promise.
    pub exposure: ExposureReport,
    /// Seconds of training.
    pub seconds: f64,
}

impl Arm {
    /// Returns the guarantee for one record (`grouped` false) or for all copies of a canary, by convention.
    ///
    /// With one copy the two are the same.
    #[must_use]
    pub fn guarantee(&self, convention: Convention, grouped: bool) -> Option<&Guarantee> {
        self.row(&self.guarantees, convention, grouped)
    }
    fn row<'a>(
        &self,
        rows: &'a [Guarantee],
        convention: Convention,
        grouped: bool,
    ) -> Option<&'a Guarantee> {
        let grouped = grouped && self.records_of_a_canary > 1;
        rows.iter().find(|g| {
            let group = matches!(g.notion, Notion::GroupDp | Notion::GroupConfidentiality);
            g.convention == convention && group == grouped
        })
    }
    /// Returns the guarantees with which the audit is compared: those claimed, if the noise was left out, otherwise
    /// those promised.
    fn held_against(&self) -> &[Guarantee] {
        match self.claimed.as_slice() {
            [] => &self.guarantees,
            claimed => claimed,
        }
    }
    /// Returns whether the noise of the plan was left out.
    #[must_use]
    pub fn is_noiseless(&self) -> bool {
        !self.claimed.is_empty()
    }
    /// ε of one record, where something is promised for it and for all copies of a canary.
    pub(super) fn promise(&self) -> Option<f64> {
        self.finite(&self.guarantees)
    }
    /// The same of what the audit is held against.
    pub(super) fn claim(&self) -> Option<f64> {
        self.finite(self.held_against())
    }
    fn finite(&self, rows: &[Guarantee]) -> Option<f64> {
        let upper = |grouped| {
            let row = self.row(rows, Convention::Definition, grouped)?;
            Some(*row.epsilon?.upper?.get())
        };
        let (one, all) = (upper(false)?.get(), upper(true)?.get());
        (one.is_finite() && all.is_finite()).then_some(one)
    }
    /// Returns ε of [`Arm::guarantee`].
    pub(super) fn epsilon(&self, convention: Convention, grouped: bool) -> Option<Bounds<Epsilon>> {
        self.guarantee(convention, grouped)?.epsilon
    }
    /// Returns the upper end of ε for all copies of a canary with which the audit is compared.
    pub(super) fn claimed_epsilon(&self) -> Option<Upper<Epsilon>> {
        let row = self.row(self.held_against(), Convention::Definition, true)?;
        row.epsilon?.upper
    }
}

/// The whole demo.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DemoReport {
    /// Where the text comes from.
    pub source: Source,
    /// What was trained, in words.
    pub model: String,
    /// What the preparation with deduplication and redaction did.
    pub preparation: Facts,
    /// The canaries.
    pub planted: Planted,
    /// Perplexity of a trigram model on the same test text: a model above it has learnt little.
    pub trigram_perplexity: f64,
    /// The arms, the least protected first.
    pub arms: Vec<Arm>,
    /// Total seconds.
    pub seconds: f64,
    /// The canaries' secrets; only with `--show-secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, String>>,
}

impl DemoReport {
    /// Returns the exit code: 1 if a promise of any arm is contradicted. The claim of an arm without its noise is
    /// not a promise; the demo is meant to show that it is contradicted.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let promising = self.arms.iter().filter(|arm| !arm.is_noiseless());
        promising
            .map(|arm| arm.exposure.exit())
            .fold(Exit::Finished, Exit::or)
    }
    /// Returns `report.json`.
    #[must_use]
    pub fn document(&self, inputs: Inputs) -> Envelope<&Self> {
        Envelope::new("demo", inputs, self)
    }
}

/// What each number does not say, the most common misreadings first.
const CAVEATS: [&str; 6] = [
    "\"Not contradicted\" is not \"safe\": the attack found nothing that exceeds the promise.",
    "An infinite ε means that nothing is promised. Whether something leaks is what the attack shows, for these canaries only.",
    "ε bounds what the released weights say about one record (or about all copies of one canary), whatever the adversary knows. It does not cover the choice of recipe, size and noise, nor the metrics on this page.",
    "ε in the papers' convention is computed for a record added or removed, as the papers do. Two contents of one record are compared by the definition's, and only that one enters a verdict.",
    "Perplexity is measured on redacted text; lower is better, and a trigram model marks what is easy.",
    "The numbers of the preparation are functions of the private text: publish them only if you account for them.",
];

#[cfg(test)]
pub(crate) mod tests;
