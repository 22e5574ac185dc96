//! The state that a stopped preparation leaves besides its files, and the checks for whether
//! another preparation may resume from it.

use super::context::PreparationContext;
use super::facts::Facts;
use super::secrets::{SecretBook, SecretLine};
use crate::canary::CopyReport;
use crate::error::Result;
use crate::random::sha256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a preparation starts over instead of resuming from the state that an earlier one left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartCause {
    /// The state is from another version or build.
    Version,
    /// It was made with other options, among which are the policy and, of a preparation, the tokenizer.
    Options,
    /// It was made from another corpus, or the corpus has changed.
    Corpus,
    /// Other documents were held out, or other canaries planted.
    Choices,
    /// It is damaged (truncated or changed), or was written in the format of another version.
    Damaged,
    /// As [`Self::Damaged`], or it was written under another owner's key.
    NotAuthenticated,
}

impl std::fmt::Display for RestartCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Version => "what an interrupted run left is of another version",
            Self::Options => "what an interrupted run left was made with other options",
            Self::Corpus => "what an interrupted run left was made of another corpus",
            Self::Choices => {
                "what an interrupted run left has other documents held out or other canaries"
            }
            Self::Damaged => "what an interrupted run left is damaged or of another version",
            Self::NotAuthenticated => {
                "what an interrupted run left is damaged, or of another version or another owner's key"
            }
        })
    }
}

/// What two preparations have in common that write the same bytes. Digests, of which none can be
/// tried out without the whole corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Identity {
    version: String,
    options: String,
    corpus: String,
    choices: String,
}

impl Identity {
    /// Returns `None` for a corpus that cannot be read twice: nothing shows that it is the same.
    pub(super) fn of(context: &PreparationContext) -> Result<Option<Self>> {
        let Some(seal) = context.division.seal else {
            return Ok(None);
        };
        let held_out = context.division.held_out.iter();
        let mut choices: Vec<u8> = held_out.flat_map(usize::to_le_bytes).collect();
        if let Some(plan) = &context.plan {
            choices.extend(plan.to_json()?.into_bytes());
        }
        Ok(Some(Self::of_parts(&seal, &requested(context)?, &choices)))
    }

    /// Creates the identity of a corpus from its seal, which keys the other digests.
    pub(crate) fn of_parts(seal: &[u8], options: &[u8], choices: &[u8]) -> Self {
        Self {
            version: version(),
            options: keyed(seal, "options", options),
            corpus: keyed(seal, "corpus", &[]),
            choices: keyed(seal, "choices", choices),
        }
    }

    /// Returns whether this code created the identity.
    pub(crate) fn is_current(&self) -> bool {
        self.version == version()
    }

    /// Returns what prevents this preparation from resuming where `earlier` stopped. The corpus is
    /// compared before the digests that are keyed by it.
    pub(crate) fn against(&self, earlier: &Self) -> Option<RestartCause> {
        let differs = [
            (self.version != earlier.version, RestartCause::Version),
            (self.corpus != earlier.corpus, RestartCause::Corpus),
            (self.options != earlier.options, RestartCause::Options),
            (self.choices != earlier.choices, RestartCause::Choices),
        ];
        let first = differs.into_iter().find(|(differs, _)| *differs);
        first.map(|(_, cause)| cause)
    }
}

/// Returns the options, with the digests of the files that they name.
pub(super) fn requested(context: &PreparationContext) -> Result<Vec<u8>> {
    let mut options = context.options.clone();
    options.policy.policy = options.policy.policy.pinned()?;
    if let Some(conservative) = &mut options.conservative {
        conservative.onnx = conservative.onnx.take().map(|o| o.pinned()).transpose()?;
    }
    // Such data can always be serialised as JSON.
    let mut data = serde_json::to_vec(&options).unwrap_or_default();
    data.extend(context.tokenizer.to_json()?.into_bytes());
    Ok(data)
}

fn version() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), crate::CODE)
}

fn keyed(seal: &[u8], what: &str, data: &[u8]) -> String {
    sha256(&[seal, what.as_bytes(), data].concat())
}

/// How far a preparation has come.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done<F = Facts, R = Vec<CopyReport>, S = Vec<SecretLine<'static>>> {
    /// Documents of the corpus that are done.
    pub(super) documents: u64,
    /// Distinct units among them.
    pub(super) distinct: u64,
    pub(super) facts: F,
    /// Records written to the training set.
    pub(super) records: u64,
    pub(super) reports: R,
    pub(super) secrets: S,
}

/// The same state, borrowed from a running preparation.
pub(crate) type DoneNow<'a> = Done<&'a Facts, &'a [CopyReport], &'a SecretBook>;

impl Done {
    /// Returns the number of held-out records so far.
    pub(crate) const fn held_out(&self) -> u64 {
        self.facts.held_out_records
    }
}
