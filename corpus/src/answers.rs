//! Which text of a conversation is learned, and which is only context.

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

/// The part of a document's text that is learned: character ranges, in order and without overlap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answers {
    /// The character ranges; offsets are counted as for secrets.
    pub spans: Vec<Range<usize>>,
    /// Whether the record's end-of-text token is learned too: true if the template wrote it as part of the last answer.
    pub end: bool,
}

/// Returns the number of a record's predictions that are not in `ignored`.
pub(crate) fn learned(tokens: usize, ignored: &[Range<usize>]) -> u64 {
    let ignored: usize = ignored.iter().map(Range::len).sum();
    (tokens - 1).saturating_sub(ignored) as u64
}
