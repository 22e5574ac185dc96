//! Errors of the crates as Python's `ValueError`, prefixed with the argument's name.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

/// Returns an error that is not about a particular argument.
pub(crate) fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Converts an error of the commands' crate, with its causes on one line. Their flags are arguments
/// here.
pub(crate) fn words(error: anyhow::Error) -> PyErr {
    let said = reticent_reports::contract::describe(&error);
    let mut out = String::with_capacity(said.len());
    for part in said.split_inclusive("--") {
        match part.strip_suffix("--") {
            // Within a name they begin no flag.
            Some(before)
                if !before.ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c)) =>
            {
                out.push_str(before);
            }
            _ => out.push_str(part),
        }
    }
    PyValueError::new_err(out)
}

/// Reads an argument's JSON. An error quotes nothing of it.
pub(crate) fn read<T: serde::de::DeserializeOwned>(argument: &str, text: &str) -> Result<T, PyErr> {
    of(argument, reticent_reports::contract::read_json(text))
}

/// Prefixes an error with the argument's name.
pub(crate) fn of<T, E: std::fmt::Display>(
    argument: &str,
    found: std::result::Result<T, E>,
) -> Result<T, PyErr> {
    found.map_err(|error| PyValueError::new_err(format!("{argument}: {error}")))
}

/// Returns the error for a word that is not one of the allowed ones. A longer text than any of them isn't quoted: it may be
/// a document.
pub(crate) fn unknown(argument: &str, given: &str, allowed: &str) -> PyErr {
    let got = match given.chars().count() {
        length if length > 64 => format!("a text of {length} characters"),
        _ => format!("{given:?}"),
    };
    PyValueError::new_err(format!("{argument}: must be one of {allowed}, got {got}"))
}
