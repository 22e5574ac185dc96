//! The unit of data: what one record is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of data: it stands in the manifest, in every guarantee and in the verdict.
///
/// The choice decides what deduplication does, how many private records there are, the
/// sampling rate, and whether canary copies survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One line of a document (the papers' "sentence" in dialogue data).
    #[default]
    Turn,
    /// One sentence, split by punctuation inside each line.
    Sentence,
    /// A whole document of dialogue turns.
    Dialogue,
    /// A whole document of plain text.
    Document,
    /// All documents of one user, which are read as one.
    User,
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Turn => "turn",
            Self::Sentence => "sentence",
            Self::Dialogue => "dialogue",
            Self::Document => "document",
            Self::User => "user",
        })
    }
}
