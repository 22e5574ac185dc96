//! Errors as they are shown to people.

use super::{Exit, note};
use std::process::ExitCode;

/// The work was stopped by Ctrl-C or a termination signal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupted {
    /// What to add to the same command to resume (`the same --out`), if it can be resumed.
    pub resume: Option<&'static str>,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.resume {
            Some(flag) => write!(
                f,
                "interrupted; resumable: run the same command again with {flag}"
            ),
            None => f.write_str("interrupted; nothing was written"),
        }
    }
}

impl std::error::Error for Interrupted {}

/// Formats the chain of an error on one line, outermost context first:
/// `--sigma: noise multiplier must lie in (0, inf), got 0`.
///
/// A cause that the line already quotes is not repeated.
///
/// ```
/// use anyhow::Context;
/// use reticent_accounting::NoiseMultiplier;
/// let error = NoiseMultiplier::new(0.0).context("--sigma").unwrap_err();
/// assert_eq!(
///     reticent_reports::contract::describe(&error),
///     "--sigma: noise multiplier must lie in (0, inf), got 0",
/// );
/// ```
#[must_use]
pub fn describe(error: &anyhow::Error) -> String {
    let mut line = String::new();
    let mut last = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if last.contains(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
        last = text;
    }
    line
}

/// Writes `error: …` to stderr and returns the exit code: 130 for an [`Interrupted`] anywhere in the chain, else 2.
#[must_use]
pub fn fail(error: &anyhow::Error) -> ExitCode {
    let interrupted = error.chain().find_map(|c| c.downcast_ref::<Interrupted>());
    let (line, code) = match interrupted {
        Some(stop) => (stop.to_string(), Exit::INTERRUPTED),
        None => (format!("error: {}", describe(error)), Exit::NOT_FINISHED),
    };
    note(&line);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_quoted_cause_is_not_said_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read corpus.jsonl: {0}")]
        struct Outer(#[source] std::io::Error);
        let inner = std::io::Error::other("disk on fire");
        let error = anyhow::Error::new(Outer(inner)).context("DATA");
        assert_eq!(
            describe(&error),
            "DATA: cannot read corpus.jsonl: disk on fire"
        );
    }

    #[test]
    fn an_interruption_is_found_under_its_context() {
        let stop = Interrupted {
            resume: Some("the same --out"),
        };
        let error = Err::<(), _>(stop).context("training").unwrap_err();
        assert_eq!(fail(&error), ExitCode::from(130));
        assert_eq!(fail(&anyhow::anyhow!("bad input")), ExitCode::from(2));
    }
}
