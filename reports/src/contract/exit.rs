//! Exit codes.

use std::process::ExitCode;

/// How a command that finished ended.
///
/// Errors are not listed here: they exit with 2, an interruption with 130. A limit that a run leaves open is reported
/// as an error after the answer, since neither 0 nor 1 is true ([`open_limit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: finished.
    Finished,
    /// 1: finished, and an audited lower bound exceeds the accounted upper bound, or a limit the user set is passed.
    Exceeded,
}

impl Exit {
    /// The code of a command that could not finish: bad input or bad usage.
    pub const NOT_FINISHED: u8 = 2;
    /// The code of a command stopped by Ctrl-C or a termination signal.
    pub const INTERRUPTED: u8 = 130;

    /// Returns the ending of a run that exceeds something, or nothing.
    #[must_use]
    pub const fn of(exceeds: bool) -> Self {
        match exceeds {
            true => Self::Exceeded,
            false => Self::Finished,
        }
    }
    /// The process exit code.
    ///
    /// ```
    /// use reticent_reports::contract::Exit;
    /// assert_eq!((Exit::Finished.code(), Exit::Exceeded.code()), (0, 1));
    /// ```
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Exceeded => 1,
        }
    }
    /// Returns the worse of two endings.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Finished, Self::Finished) => Self::Finished,
            _ => Self::Exceeded,
        }
    }
}

/// Refuses an ending that leaves a limit open. If the run exceeds another limit or contradicts a promise, that ending
/// stands instead.
///
/// # Errors
/// Returns an error if `why` is given and nothing is exceeded.
pub(crate) fn open_limit(exit: Exit, why: Option<String>) -> anyhow::Result<Exit> {
    match (exit, why) {
        (Exit::Finished, Some(why)) => Err(anyhow::anyhow!(why)),
        _ => Ok(exit),
    }
}

/// Returns whether a limit on a share judges anything: none exceeds 1.
#[cfg(feature = "findings")]
pub(crate) const fn judges(limit: f64) -> bool {
    limit < 1.0
}

/// Says, after an answer, that a run that could have exceeded a limit does not.
#[cfg(feature = "findings")]
pub(crate) fn kept(flag: &str, what: &str, limit: f64) -> String {
    match judges(limit) {
        true => format!(" The {what} is not certainly above the limit of {limit} ({flag})."),
        false => {
            format!(" No {what} is above the limit of {limit} ({flag}), which judges nothing.")
        }
    }
}

/// Says that a run leaves a limit open, for [`open_limit`].
pub(crate) fn not_known(flag: &str, what: &str, limit: &str, why: &str) -> String {
    format!("{flag}: whether {what} is above {limit} is not known, since {why}")
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
