//! Errors of the crates as Python's `ValueError`, with the argument's name in front.

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

/// An error about no argument in particular.
pub(crate) fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An error of the commands' crate, its causes in one line. What is a flag there is an argument here.
pub(crate) fn words(error: anyhow::Error) -> PyErr {
    let said = reticent_reports::contract::describe(&error);
    PyValueError::new_err(said.replace("--", ""))
}

/// Blames an argument.
pub(crate) fn of<T, E: std::fmt::Display>(
    argument: &str,
    found: std::result::Result<T, E>,
) -> Result<T, PyErr> {
    found.map_err(|error| PyValueError::new_err(format!("{argument}: {error}")))
}

/// One of these words.
pub(crate) fn unknown(argument: &str, given: &str, allowed: &str) -> PyErr {
    PyValueError::new_err(format!(
        "{argument}: must be one of {allowed}, got {given:?}"
    ))
}
