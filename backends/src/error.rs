//! What can go wrong in training and scoring.

/// An error of the backends crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A token id the model does not know.
    #[error("token {token} is outside the vocabulary of {size} tokens")]
    UnknownToken {
        /// The id.
        token: u32,
        /// The vocabulary size.
        size: usize,
    },
    /// A prefix without a token, or a sequence too short to score.
    #[error("sequence {index} has {length} tokens; at least {least} needed")]
    TooShort {
        /// Which one.
        index: usize,
        /// How long it is.
        length: usize,
        /// The least length.
        least: usize,
    },
    /// A state that was never made, or was released.
    #[error("state {0} is unknown or was released")]
    UnknownState(u64),
    /// The tensor engine failed.
    #[error("engine: {0}")]
    Engine(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
