//! Errors of training and scoring.

use crate::checkpoint::description::{Difference, names};
use std::path::PathBuf;

/// An error of the backends crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A token id that the model does not know.
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
        /// The index of the sequence.
        index: usize,
        /// Its length in tokens.
        length: usize,
        /// The least length in tokens.
        least: usize,
    },
    /// A sequence longer than the model's context.
    #[error("sequence {index} has {length} tokens; the model takes at most {most}")]
    TooLong {
        /// The index of the sequence.
        index: usize,
        /// Its length in tokens.
        length: usize,
        /// The largest length in tokens.
        most: usize,
    },
    /// A state that was never created, or was released.
    #[error("state {0} is unknown or was released")]
    UnknownState(u64),
    /// A number outside its range.
    #[error("{what} must lie in {range}, got {value}")]
    OutOfRange {
        /// The quantity.
        what: &'static str,
        /// The allowed range.
        range: &'static str,
        /// The value that was given.
        value: f64,
    },
    /// A tensor of the wrong shape.
    #[error("{name} has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// The name of the tensor.
        name: String,
        /// The shape it should have.
        expected: Vec<usize>,
        /// The shape it has.
        actual: Vec<usize>,
    },
    /// Another worker of the run is gone, or is not as it must be.
    #[error("{0}")]
    Worker(String),
    /// A training set, model, plan, option, adapter or engine that doesn't suit what is asked of it.
    #[error("{0}")]
    Unsuitable(String),
    /// A checkpoint that is truncated, tampered with, or not written by this crate.
    #[error("checkpoint {}: {why}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A state folder that does not belong to this run.
    #[error("state folder {}: {why}", path.display())]
    State {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A state folder of another run.
    #[error(
        "state folder {}: belongs to another run (other {}); go on with what it began with, or remove the state folder \
         to begin a new run",
        path.display(),
        names(differ)
    )]
    OtherRun {
        /// The folder or file.
        path: PathBuf,
        /// What differs.
        differ: Vec<Difference>,
    },
    /// A file that can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A device that is not available.
    #[error("device {device}: {why}")]
    Device {
        /// The device as it was requested.
        device: String,
        /// Why it can't be used.
        why: String,
    },
    /// A precision in which the device, or its engine, does not compute.
    #[error(
        "this device computes in single precision only, got {precision}; bf16 needs a CUDA device \
         that has it"
    )]
    Precision {
        /// The requested precision.
        precision: crate::trainer::Precision,
    },
    /// Training diverged. The last snapshot stays as it is.
    #[error(
        "step {step}: {what} is not finite any more; nothing was written. Lower the learning \
         rates, and remove the state folder to begin a new run: what was spent stays spent"
    )]
    Diverged {
        /// The step, from 1; for a noised gradient the index of the private step, from 0.
        step: u64,
        /// What is not finite.
        what: String,
    },
    /// The run was interrupted; its state folder can resume it.
    #[error("interrupted after {steps} steps")]
    Interrupted {
        /// Steps finished and stored.
        steps: u64,
    },
    /// A model outside this process answered wrongly, too late, or not at all.
    #[error("{0}")]
    Outside(String),
    /// The tensor engine failed.
    #[error("engine: {0}")]
    Engine(String),
    /// A quantity refused by the accountant.
    #[error(transparent)]
    Accounting(#[from] reticent_accounting::Error),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A checkpoint's file with something wrong with it.
    pub(crate) fn checkpoint(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        let (path, why) = (path.into(), why.into());
        Self::Checkpoint { path, why }
    }

    /// A state folder, or a file in it, with something wrong with it.
    pub(crate) fn state(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        let (path, why) = (path.into(), why.into());
        Self::State { path, why }
    }

    /// An engine's error, or one that does not occur in practice.
    pub(crate) fn engine(error: impl std::fmt::Display) -> Self {
        Self::Engine(error.to_string())
    }
}

/// Refuses a number that is not `inside` its range.
pub(crate) fn ranged(
    what: &'static str,
    range: &'static str,
    value: f64,
    inside: bool,
) -> Result<()> {
    match inside {
        true => Ok(()),
        false => Err(Error::OutOfRange { what, range, value }),
    }
}

/// Refuses a number that is not positive and finite.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<()> {
    ranged(what, "(0, inf)", value, value > 0.0 && value.is_finite())
}

/// Refuses a number outside [0, 1).
pub(crate) fn below_one(what: &'static str, value: f64) -> Result<()> {
    ranged(what, "[0, 1)", value, (0.0..1.0).contains(&value))
}

/// Attaches the path to an input or output error.
pub(crate) fn at<T>(path: &std::path::Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::Io {
        path: path.to_path_buf(),
        source,
    })
}
