//! Passes a project's defaults to a command as the flags they stand for.

use super::file::{Configured, Wanted};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};

/// A command that records which values it took from a project's defaults.
pub trait TakesDefaults: Parser {
    /// Records the values taken.
    fn take(&mut self, configured: Configured);
    /// Returns the recorded values.
    fn configured(&self) -> &Configured;
    /// Returns the keys that are not taken, beyond what the clap definition excludes: the command can't use them, or its
    /// flag of that name means something else.
    fn excluded(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Returns the arguments with each default added as the flag of its name, if that flag is allowed and wasn't
/// given. Flags take precedence; a default that the command doesn't have, or that another flag excludes, is
/// left out.
///
/// # Errors
/// Returns an error if the file can't be used, or if this command refuses a value; it names the file and the
/// key.
pub fn with_defaults<A: TakesDefaults>(
    arguments: Vec<OsString>,
) -> anyhow::Result<(Vec<OsString>, Configured)> {
    // A wrong command line is reported as such. A missing argument may have a default.
    if let Err(error) = A::try_parse_from(&arguments)
        && error.kind() != ErrorKind::MissingRequiredArgument
    {
        return Ok((arguments, Configured::default()));
    }
    let Some(project) = wanted(&arguments).project()? else {
        return Ok((arguments, Configured::default()));
    };
    let mut whole = arguments.clone();
    let mut took = Vec::new();
    let values = project.values()?;
    for (key, value) in &values {
        let more = inserted(&whole, key, value);
        let Err(error) = A::try_parse_from(&more) else {
            took.push(key.as_str());
            whole = more;
            continue;
        };
        match error.kind() {
            // Given already, excluded by a given flag, or not a flag of this command.
            ErrorKind::ArgumentConflict | ErrorKind::UnknownArgument => {}
            ErrorKind::MissingRequiredArgument => {
                // The default must not require further arguments.
                if A::try_parse_from(&whole).is_err() {
                    took.push(key.as_str());
                    whole = more;
                }
            }
            _ => {
                let why =
                    refusal(&error).unwrap_or_else(|| "is refused by this command".to_owned());
                anyhow::bail!("{}, {key}: {why}", project.name());
            }
        }
    }
    // Known only once no argument is missing.
    let excluded =
        A::try_parse_from(&whole).map_or_else(|_| Vec::new(), |parsed| parsed.excluded());
    took.retain(|key| !excluded.contains(key));
    let kept = values
        .iter()
        .filter(|(key, _)| took.contains(&key.as_str()));
    let whole = kept.fold(arguments, |line, (key, value)| inserted(&line, key, value));
    Ok((whole, project.took(&took)?))
}

/// Returns where `--config` says that defaults come from.
fn wanted(arguments: &[OsString]) -> Wanted {
    let before = arguments.iter().take_while(|word| *word != "--");
    let mut words = before.skip(1);
    while let Some(word) = words.next() {
        let value = match word.to_str() {
            Some("--config") => words.next().map(OsString::as_os_str),
            Some(word) => word.strip_prefix("--config=").map(OsStr::new),
            None => None,
        };
        if let Some(value) = value {
            return match value == "none" {
                true => Wanted::Nothing,
                false => Wanted::File(value.into()),
            };
        }
    }
    Wanted::Found
}

/// Appends a flag after all others.
fn inserted(arguments: &[OsString], key: &str, value: &Value) -> Vec<OsString> {
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let flag = format!("--{}={value}", key.replace('_', "-"));
    let end = arguments.iter().position(|word| word == "--");
    let (before, behind) = arguments.split_at(end.unwrap_or(arguments.len()));
    [before, &[flag.into()], behind].concat()
}

/// Returns why a value was refused: our own message, or the allowed values.
fn refusal(error: &clap::Error) -> Option<String> {
    if let Some(why) = error.source() {
        return Some(why.to_string());
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(allowed)) => {
            Some(format!("must be one of {}", allowed.join(", ")))
        }
        _ => None,
    }
}
