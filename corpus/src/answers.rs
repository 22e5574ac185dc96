//! Which text of a conversation is learned, and which is only read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Whose messages carry loss; the others are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossOn {
    /// The assistant's, as with `return_assistant_tokens_mask` of transformers and `assistant_only_loss` of TRL.
    Assistant,
}

/// What of a document's text is learned: characters, in order and without overlap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answers {
    /// The characters, as those of secrets are counted.
    pub spans: Vec<Range<usize>>,
    /// Whether the end of text that a record gets is learned too: where the template wrote it as part of the last answer.
    pub end: bool,
}

/// Number of tokens that `ignored` leaves of a record's predictions.
pub(crate) fn learned(tokens: usize, ignored: &[Range<usize>]) -> u64 {
    let ignored: usize = ignored.iter().map(Range::len).sum();
    (tokens - 1).saturating_sub(ignored) as u64
}
