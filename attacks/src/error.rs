//! What can go wrong in an attack: one enum, every variant with the value and the allowed range.

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
        /// The value that was offered.
        value: String,
    },
    /// An argument is not what it must be.
    #[error("{what} must be {needed}, got {got}")]
    Unsuitable {
        /// The argument.
        what: &'static str,
        /// What it must be.
        needed: &'static str,
        /// What it is.
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
    /// A canary whose secret is not among its candidates: it has no rank.
    #[error("canary {index}: its secret is not one of the {candidates} candidates")]
    NotACandidate {
        /// Which canary, from 0.
        index: usize,
        /// The size of the candidate space.
        candidates: u64,
    },
    /// A model said something that is no log-probability.
    #[error(
        "the model gave {value} as log-probability of token {token}; it must lie in [-inf, 0] and must not be NaN"
    )]
    BadScore {
        /// What the model said.
        value: f64,
        /// The token.
        token: u32,
    },
    /// A model answered with another number of values than it was asked for.
    #[error("the model answered with {got} {what}, {wanted} were asked for")]
    WrongCount {
        /// What was counted.
        what: &'static str,
        /// How many came.
        got: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// A model that says nothing of most texts: its losses are not finite.
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
    /// Nothing in the data carries a score.
    #[error("nothing to score: {0}")]
    Empty(&'static str),
    /// All texts of one side stand on the other side, too.
    #[error(
        "every text of the {records} {side} stands among the {other}, too, in the same or nearly the same words; non-members must be texts that were never trained on"
    )]
    SameTexts {
        /// `members` or `non-members`.
        side: &'static str,
        /// The other of the two.
        other: &'static str,
        /// The side's records.
        records: usize,
    },
    /// The caller's progress callback asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The search's own books do not balance: a defect of this crate.
    #[error("the search accounted for {counted} of {candidates} candidates; please report this")]
    LostCandidates {
        /// How many were seen, pruned or left.
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
    /// A quantity was refused by the accounting crate.
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

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
