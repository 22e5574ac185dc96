//! The error type of the accounting crate; each variant carries the value and the allowed range.

use super::decimal::shown;

/// An error of the accounting crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A named quantity lies outside its range.
    #[error("{what} must lie in {range}, got {}", shown(*value))]
    OutOfRange {
        /// The quantity, in the field's terms.
        what: &'static str,
        /// The allowed range, in interval notation.
        range: &'static str,
        /// The rejected value.
        value: f64,
    },
    /// A numerical procedure couldn't certify its answer to the requested tolerance.
    #[error("could not certify {what} to the tolerance asked for: {why}")]
    NotCertified {
        /// The quantity that was computed.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The mechanism (or its sampler) isn't covered for this question.
    #[error("{what} is not covered: {why}")]
    Unsupported {
        /// The mechanism or the combination.
        what: String,
        /// The reason.
        why: String,
    },
    /// No value of a parameter within its range keeps the promise that was asked for.
    #[error("no {what} meets this target")]
    NotMet {
        /// The parameter, and where its range ends.
        what: String,
    },
    /// No noise multiplier under consideration keeps the promise of a secret.
    #[error(
        "no noise multiplier up to {most:e} certifies the promise of secret number {} by {proof}",
        secret + 1
    )]
    OutOfReach {
        /// The index of the secret.
        secret: usize,
        /// How the secret's posterior was bounded, in the field's terms.
        proof: &'static str,
        /// The largest noise multiplier under consideration.
        most: f64,
    },
    /// A document doesn't describe a mechanism.
    #[error("{place}{}{why}", if place.is_empty() { "" } else { ": " })]
    Document {
        /// Keys and indices that lead to the error, such as `each.noise_multiplier` or `parts[2]`; empty
        /// for the whole document.
        place: String,
        /// What is wrong, with the value and the allowed range.
        why: String,
    },
}

impl Error {
    /// Creates the refusal of a value outside its range.
    pub(crate) const fn out_of_range(what: &'static str, range: &'static str, value: f64) -> Self {
        Self::OutOfRange { what, range, value }
    }

    /// Returns the same error for a document in which the erroneous part lies at `outer`.
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

/// Returns the place of a member of the value at `outer`.
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
