//! What can go wrong in accounting: one enum, every variant with the value and the allowed range.

use super::decimal::shown;

/// An error of the accounting crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A named quantity lies outside its range.
    #[error("{what} must lie in {range}, got {}", shown(*value))]
    OutOfRange {
        /// The quantity, in the field's words.
        what: &'static str,
        /// The allowed range, in interval notation.
        range: &'static str,
        /// The value that was offered.
        value: f64,
    },
    /// A numerical procedure could not certify its answer to the tolerance that was asked for.
    #[error("could not certify {what} to the tolerance asked for: {why}")]
    NotCertified {
        /// The quantity that was computed.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The mechanism (or its sampler) is not covered for this question.
    #[error("{what} is not covered: {why}")]
    Unsupported {
        /// The mechanism or the combination.
        what: String,
        /// The reason.
        why: String,
    },
    /// No noise that is considered keeps the promise of a secret.
    #[error(
        "no noise multiplier up to {most:e} certifies the promise of secret number {} by {proof}",
        secret + 1
    )]
    OutOfReach {
        /// The index of the secret.
        secret: usize,
        /// How its posterior was bounded, in the field's words.
        proof: &'static str,
        /// The largest noise multiplier that is considered.
        most: f64,
    },
    /// A document describes no mechanism.
    #[error("{place}{}{why}", if place.is_empty() { "" } else { ": " })]
    Document {
        /// Keys and indices that lead there, `each.noise_multiplier` or `parts[2]`; empty for the whole.
        place: String,
        /// What is wrong, with the value and the allowed range.
        why: String,
    },
}

impl Error {
    /// The same error about a part of a document that lies at `outer`.
    pub(crate) fn within(self, outer: &str) -> Self {
        match self {
            Self::Document { place, why } => Self::Document {
                place: join(outer, &place),
                why,
            },
            other => Self::Document {
                place: outer.to_owned(),
                why: other.to_string(),
            },
        }
    }
}

/// The place of a member of what lies at `outer`.
pub(crate) fn join(outer: &str, member: &str) -> String {
    let dot = if outer.is_empty() || member.is_empty() || member.starts_with('[') {
        ""
    } else {
        "."
    };
    format!("{outer}{dot}{member}")
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
