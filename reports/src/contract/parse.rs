//! The command line: clap's definition in, one exit code out.

use super::{Exit, fail, printable};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The whole life of a command: parses the process arguments, runs, reports, and gives the exit code.
///
/// Help and version are data (stdout, 0); a usage error is told on stderr (2), and without arguments
/// the greeting is, which says what to do next.
pub fn main<A: clap::Parser>(
    greeting: &str,
    run: impl FnOnce(A) -> anyhow::Result<Exit>,
) -> ExitCode {
    if std::env::args_os().count() < 2 {
        let _ = write!(std::io::stderr(), "{greeting}");
        return ExitCode::from(Exit::NOT_FINISHED);
    }
    match parse_from(std::env::args_os()) {
        Ok(_) if !super::stdout::is_open() => fail(&anyhow::anyhow!(
            "stdout is closed: there is nowhere to answer (send it to /dev/null if it is not wanted)"
        )),
        Ok(arguments) => match run(arguments) {
            Ok(exit) => exit.into(),
            Err(error) => fail(&error),
        },
        Err(code) => code,
    }
}

/// Parses arguments without any side effect but the message of a usage error.
///
/// # Errors
/// The exit code to end with: 0 after help or version, 2 after a usage error.
pub fn parse_from<A: clap::Parser>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<A, ExitCode> {
    A::try_parse_from(arguments).map_err(|error| {
        if !error.use_stderr() {
            // A reader that closed the pipe early has seen enough of the help.
            let _ = error.print();
            return ExitCode::from(Exit::Finished);
        }
        match refused_value(&error) {
            Some(line) => {
                let _ = writeln!(std::io::stderr(), "error: {}", printable(&line));
            }
            None => {
                let _ = error.print();
            }
        }
        ExitCode::from(Exit::NOT_FINISHED)
    })
}

/// A value our own types refused, in our own words: argument, value and allowed range.
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
    fn good_arguments_pass() {
        let parsed: Arguments = parse_from(["account", "--sigma", "1.5"]).unwrap();
        assert!((parsed.sigma.get() - 1.5).abs() < f64::EPSILON);
    }
}
