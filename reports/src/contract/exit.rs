//! Exit codes.

use std::process::ExitCode;

/// How a command that finished ended.
///
/// Errors are not listed here: they end with 2, an interruption with 130.
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
    /// The worse of two endings.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Finished, Self::Finished) => Self::Finished,
            _ => Self::Exceeded,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
