//! The error type of the crate. Every variant carries the offending value and the allowed range.

/// An error of the attacks crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument lies outside its range.
    #[error("{what} must lie in {range}, got {value}")]
    OutOfRange {
        /// The argument.
        what: &'static str,
        /// The allowed range.
        range: &'static str,
        /// The value that was given.
        value: String,
    },
    /// An argument is not of the required kind.
    #[error("{what} must be {needed}, got {got}")]
    Unsuitable {
        /// The argument.
        what: &'static str,
        /// What is required.
        needed: &'static str,
        /// What was given.
        got: String,
    },
    /// A candidate space that cannot be searched.
    #[error("candidate space, position {position}: {why}")]
    CandidateSpace {
        /// The position, from 0.
        position: usize,
        /// The reason.
        why: String,
    },
    /// A canary has no rank, because its secret is not among its candidates.
    #[error("canary {index}: its secret is not one of the {candidates} candidates")]
    NotACandidate {
        /// The index of the canary, from 0.
        index: usize,
        /// The size of the candidate space.
        candidates: u64,
    },
    /// A model returned a value that is not a log-probability.
    #[error(
        "the model gave {value} as log-probability of token {token}; it must lie in [-inf, 0] and must not be NaN"
    )]
    BadScore {
        /// The value that the model returned.
        value: f64,
        /// The token.
        token: u32,
    },
    /// A model returned a different number of values than requested.
    #[error("the model answered with {got} {what}, {wanted} were asked for")]
    WrongCount {
        /// What was counted.
        what: &'static str,
        /// How many were returned.
        got: usize,
        /// How many were requested.
        wanted: usize,
    },
    /// The model has no finite perplexity on most texts.
    #[error(
        "nothing can be concluded: the model gives {silent} of {all} texts (each {what}) no finite perplexity"
    )]
    Silent {
        /// What a text is.
        what: &'static str,
        /// Texts without a finite perplexity.
        silent: u64,
        /// All texts.
        all: u64,
    },
    /// The data contain nothing that can be scored.
    #[error("nothing to score: {0}")]
    Empty(&'static str),
    /// Every text of one side also occurs on the other side.
    #[error(
        "every text of the {records} {side} stands among the {other}, too, in the same or nearly the same words; non-members must be texts that were never trained on"
    )]
    SameTexts {
        /// The side: `members` or `non-members`.
        side: &'static str,
        /// The other side.
        other: &'static str,
        /// The number of records on the side.
        records: usize,
    },
    /// The caller's progress callback asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The search lost or double-counted candidates: a defect of this crate.
    #[error("the search accounted for {counted} of {candidates} candidates; please report this")]
    LostCandidates {
        /// How many candidates were seen, pruned or left.
        counted: u64,
        /// The size of the candidate space.
        candidates: u64,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] reticent_backends::Error),
    /// The corpus crate refused a plan or its candidates.
    #[error(transparent)]
    Corpus(#[from] reticent_corpus::Error),
    /// The accounting crate refused a quantity.
    #[error(transparent)]
    Accounting(#[from] reticent_accounting::Error),
}

impl Error {
    pub(crate) fn out_of_range(
        what: &'static str,
        range: &'static str,
        value: impl std::fmt::Display,
    ) -> Self {
        Self::OutOfRange {
            what,
            range,
            value: value.to_string(),
        }
    }
}

/// Returns the error of an interrupted run where its caller stops it.
pub(crate) fn going_on(flow: std::ops::ControlFlow<()>) -> Result<()> {
    match flow.is_continue() {
        true => Ok(()),
        false => Err(Error::Interrupted),
    }
}

/// Refuses a value that is not `inside` its range.
pub(crate) fn ranged(
    what: &'static str,
    range: &'static str,
    value: impl std::fmt::Display,
    inside: bool,
) -> Result<()> {
    match inside {
        true => Ok(()),
        false => Err(Error::out_of_range(what, range, value)),
    }
}

/// Refuses a number that is not positive and finite.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<()> {
    ranged(what, "(0, inf)", value, value > 0.0 && value.is_finite())
}

/// Refuses numbers of which one is NaN.
pub(crate) fn numbers<'a>(
    what: &'static str,
    range: &'static str,
    values: impl IntoIterator<Item = &'a f64>,
) -> Result<()> {
    let mut values = values.into_iter();
    values.try_for_each(|value| ranged(what, range, value, !value.is_nan()))
}

/// Refuses a number of things other than the wanted one.
pub(crate) fn counted(what: &'static str, got: usize, wanted: usize) -> Result<()> {
    match got == wanted {
        true => Ok(()),
        false => Err(Error::WrongCount { what, got, wanted }),
    }
}

/// Refuses data of which nothing `is_there` to score.
pub(crate) fn given(is_there: bool, why: &'static str) -> Result<()> {
    match is_there {
        true => Ok(()),
        false => Err(Error::Empty(why)),
    }
}

/// Refuses an argument that is not of the required kind.
pub(crate) fn suited(
    what: &'static str,
    needed: &'static str,
    got: impl std::fmt::Display,
    is_suited: bool,
) -> Result<()> {
    match is_suited {
        true => Ok(()),
        false => Err(Error::Unsuitable {
            what,
            needed,
            got: got.to_string(),
        }),
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
