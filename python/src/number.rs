//! Numbers from Python. A value that is not a number, or fits none of our types, is refused with its
//! argument's name.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// A float, or why a value is none; `True` is none. It is refused where its argument's name is known: Python 3.10 does not add
/// the name by itself.
#[derive(Debug, Clone)]
pub(crate) struct Number(Result<f64, String>);

/// A whole number, or why a value is none; `True` is none.
#[derive(Debug, Clone)]
pub(crate) struct Whole(Result<i64, String>);

impl Number {
    /// Returns the number. Raises `TypeError` if it is none.
    pub(crate) fn named(self, argument: &str) -> PyResult<f64> {
        named(self.0, argument)
    }
}

impl Whole {
    /// Returns the number. Raises `TypeError` if it is none.
    pub(crate) fn named(self, argument: &str) -> PyResult<i64> {
        named(self.0, argument)
    }
}

fn named<T>(found: Result<T, String>, argument: &str) -> PyResult<T> {
    found.map_err(|said| PyTypeError::new_err(format!("{argument}: {said}")))
}

/// Returns whether a value is a bool, also of NumPy or a tensor library, where it converts to a float.
fn is_bool(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBool>()
        || value
            .getattr("dtype")
            .is_ok_and(|dtype| matches!(dtype.to_string().as_str(), "bool" | "torch.bool"))
}

/// Extracts a number. What is none is a text that says so; what its conversion raises but for `TypeError` is raised.
fn extracted<'py, T>(
    value: Borrowed<'_, 'py, PyAny>,
    what: &str,
    fits: &str,
) -> PyResult<Result<T, String>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    if is_bool(&value) {
        return Ok(Err(format!("must be {what}, got bool")));
    }
    let py = value.py();
    match value.extract::<T>() {
        Ok(number) => Ok(Ok(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            let bits = value.call_method0("bit_length");
            let got = match bits.and_then(|bits| bits.extract::<u64>()) {
                Ok(bits) => format!("a whole number of {bits} bits"),
                Err(_) => value.get_type().name()?.to_string(),
            };
            Ok(Err(format!("must be {fits}, got {got}")))
        }
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            Ok(Err(error.value(py).to_string()))
        }
        Err(error) => Err(error),
    }
}

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let fits = "a number of double precision, below 1.8e308";
        extracted(value, "a number", fits).map(Self)
    }
}

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;
    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let fits = "a whole number in [-2^63, 2^63)";
        extracted(value, "a whole number", fits).map(Self)
    }
}

#[cfg(feature = "audit")]
impl Whole {
    /// Converts to a count of at least `least`.
    pub(crate) fn at_least<T: TryFrom<i64>>(self, least: i64, argument: &str) -> PyResult<T> {
        let given = self.named(argument)?;
        let fits = (given >= least).then(|| T::try_from(given).ok()).flatten();
        fits.ok_or_else(|| {
            let bits = 8 * size_of::<T>() as u32;
            let most = if bits < 64 {
                format!("2^{bits})")
            } else {
                "2^63)".to_owned()
            };
            pyo3::exceptions::PyValueError::new_err(format!(
                "{argument}: must lie in [{least}, {most}, got {given}"
            ))
        })
    }
}
