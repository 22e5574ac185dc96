//! The command line: takes clap's definition and returns an exit code.

use super::{Exit, describe, fail, note};
use crate::defaults::{Configured, TakesDefaults, with_defaults};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs a command from start to end: parses the process arguments with the project's defaults, runs the command,
/// reports errors, and returns the exit code.
///
/// Help and version are data (stdout, 0). A usage error is printed to stderr (2); without arguments the greeting,
/// which says what to do next, is printed instead.
pub fn main<A: TakesDefaults>(
    greeting: &str,
    run: impl FnOnce(A) -> anyhow::Result<Exit>,
) -> ExitCode {
    if std::env::args_os().count() < 2 {
        note(greeting.trim_end());
        return ExitCode::from(Exit::NOT_FINISHED);
    }
    let (whole, configured) = match with_defaults::<A>(std::env::args_os().collect()) {
        Ok(found) => found,
        Err(error) => return fail(&error),
    };
    match parse_from::<A>(whole.clone()) {
        Ok(_) if !super::stdout::is_open() => fail(&closed()),
        Ok(mut arguments) => {
            arguments.take(configured.clone());
            match super::outputs::check::<A>(whole).and_then(|()| run(arguments)) {
                Ok(exit) => exit.into(),
                Err(error) => fail(&blamed(error, &configured)),
            }
        }
        Err(code) => code,
    }
}

/// Returns the error of a stdout that was closed before the process began.
fn closed() -> anyhow::Error {
    anyhow::anyhow!(
        "stdout is closed, so there is nowhere to write the answer (redirect it to /dev/null to discard it)"
    )
}

/// Writes help or the version to stdout. A reader that closed the pipe early has seen enough of it.
fn print_help(help: &clap::Error) -> anyhow::Result<()> {
    if !super::stdout::is_open() {
        return Err(closed());
    }
    match help.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Adds to an error about a flag that nobody gave the file that the value came from.
fn blamed(error: anyhow::Error, configured: &Configured) -> anyhow::Error {
    let said = describe(&error);
    let named = |key: &&String| said.contains(&format!("--{}", key.replace('_', "-")));
    match configured.values.keys().find(named) {
        Some(key) => error.context(format!("{}, {key}", configured.file)),
        None => error,
    }
}

/// Parses arguments. The only side effect is the message of a usage error.
///
/// # Errors
/// Returns the exit code to end with: 0 after help or version, 2 after a usage error or if stdout can't be written.
pub fn parse_from<A: clap::Parser>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<A, ExitCode> {
    A::try_parse_from(arguments).map_err(|error| {
        if !error.use_stderr() {
            return match print_help(&error) {
                Ok(()) => ExitCode::from(Exit::Finished),
                Err(error) => fail(&error),
            };
        }
        match refused_value(&error) {
            Some(line) => note(&format!("error: {line}")),
            // The value given may be a file's name.
            None => note(error.to_string().trim_end()),
        }
        ExitCode::from(Exit::NOT_FINISHED)
    })
}

/// Formats a usage error on one line.
#[cfg(feature = "findings")]
pub(crate) fn usage_error(error: &clap::Error) -> String {
    refused_value(error).unwrap_or_else(|| {
        let said = error.to_string();
        let first = said.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })
}

/// Formats the refusal of a value by our own types in our own words: argument, value and allowed range.
fn refused_value(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let why = error.source()?.to_string();
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(s)) => Some(s.clone()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    // `--sigma <SIGMA>` names the flag twice; a positional is `<FILE>`.
    let name = argument.split_whitespace().next().unwrap_or(&argument);
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let got = if why.contains(&value) || why.contains(", got ") {
        String::new()
    } else {
        format!(", got {value:?}")
    };
    Some(format!("{name}: {why}{got}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use reticent_accounting::NoiseMultiplier;

    fn sigma(text: &str) -> Result<NoiseMultiplier, String> {
        let value: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
        NoiseMultiplier::new(value).map_err(|e| e.to_string())
    }

    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long, value_parser = sigma, allow_negative_numbers = true)]
        sigma: NoiseMultiplier,
    }

    fn line(value: &str) -> Option<String> {
        let error = Arguments::try_parse_from(["account", "--sigma", value]).unwrap_err();
        refused_value(&error)
    }

    #[test]
    fn a_refused_value_names_argument_value_and_range() {
        assert_eq!(
            line("0").as_deref(),
            Some("--sigma: noise multiplier must lie in (0, inf), got 0")
        );
        assert_eq!(
            line("-1").as_deref(),
            Some("--sigma: noise multiplier must lie in (0, inf), got -1")
        );
        assert_eq!(
            line("much").as_deref(),
            Some("--sigma: must be a number, got \"much\"")
        );
    }

    #[test]
    fn an_error_about_a_default_names_its_file() {
        let value = ("unit".to_owned(), "word".into());
        let configured = Configured {
            file: "reticent.toml".to_owned(),
            values: [value].into_iter().collect(),
        };
        let described = |line: &'static str| describe(&blamed(anyhow::anyhow!(line), &configured));
        let refused = "--unit: must be turn, got word";
        assert_eq!(
            described(refused),
            format!("reticent.toml, unit: {refused}")
        );
        assert_eq!(described("--sigma: got 0"), "--sigma: got 0");
    }

    #[test]
    fn good_arguments_pass() {
        let parsed: Arguments = parse_from(["account", "--sigma", "1.5"]).unwrap();
        assert!((parsed.sigma.get() - 1.5).abs() < f64::EPSILON);
    }
}
