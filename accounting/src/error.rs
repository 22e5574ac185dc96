//! What can go wrong in accounting: one enum, every variant with the value and the allowed range.

/// An error of the accounting crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A named quantity lies outside its range.
    #[error("{what} must lie in {range}, got {value}")]
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
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
