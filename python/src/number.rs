//! Numbers from Python. A value that is not a number, or fits none of our types, is refused with its
//! argument's name.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// A float; `True` is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) f64);

/// A whole number; `True` is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole(pub(crate) i64);

/// Returns the refusal as a `TypeError`, since Python prefixes only that with the argument's name.
fn refused(what: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let bits = value
        .call_method0("bit_length")
        .and_then(|bits| bits.extract::<u64>());
    let got = match bits {
        Ok(bits) => format!("a whole number of {bits} bits"),
        Err(_) => value
            .get_type()
            .name()
            .map_or_else(|_| "something else".to_owned(), |name| name.to_string()),
    };
    PyTypeError::new_err(format!("must be {what}, got {got}"))
}

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_instance_of::<PyBool>() {
            return Err(refused("a number", &value));
        }
        match value.extract::<f64>() {
            Ok(number) => Ok(Self(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Err(refused(
                "a number of double precision, below 1.8e308",
                &value,
            )),
            Err(error) => Err(error),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_instance_of::<PyBool>() {
            return Err(refused("a whole number", &value));
        }
        match value.extract::<i64>() {
            Ok(number) => Ok(Self(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
                Err(refused("a whole number in [-2^63, 2^63)", &value))
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(feature = "audit")]
impl Whole {
    /// Converts to a count of at least `least`.
    pub(crate) fn at_least<T: TryFrom<i64>>(self, least: i64, argument: &str) -> PyResult<T> {
        let fits = (self.0 >= least)
            .then(|| T::try_from(self.0).ok())
            .flatten();
        fits.ok_or_else(|| {
            let bits = 8 * size_of::<T>() as u32;
            let most = if bits < 64 {
                format!("2^{bits})")
            } else {
                "2^63)".to_owned()
            };
            pyo3::exceptions::PyValueError::new_err(format!(
                "{argument}: must lie in [{least}, {most}, got {}",
                self.0
            ))
        })
    }
}
