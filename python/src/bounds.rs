//! Both ends of a number; neither is converted to the other.

use crate::report::to_python;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use reticent_reports::defaults::Configured;

/// Both certified ends of a quantity: the truth is at least `lower` and at most `upper`.
///
/// A bound is not a plain number: `float()`, comparison and arithmetic are refused, so that the direction
/// is always stated by taking `.upper` or `.lower`.
///
/// >>> import reticent
/// >>> epsilon = reticent.Plan(sigma=1.1, sample_rate=0.01, steps=1000).epsilon(delta=1e-5)
/// >>> epsilon.lower < 1.51537 and epsilon.upper < 1.51538
/// True
/// >>> float(epsilon)
/// Traceback (most recent call last):
///   ...
/// TypeError: a bound is no plain number: take .upper (the truth is at most this) or .lower (at least this)
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
    configured: Configured,
}

impl Bounds {
    pub(crate) fn of<T: Copy + Into<f64>>(bounds: reticent_accounting::Bounds<T>) -> Self {
        Self {
            lower: bounds.lower.map(|end| (*end.get()).into()),
            upper: bounds.upper.map(|end| (*end.get()).into()),
            configured: Configured::default(),
        }
    }

    /// Records what was taken from a project's defaults.
    pub(crate) fn with(mut self, configured: Configured) -> Self {
        self.configured = configured;
        self
    }

    fn refused() -> PyErr {
        PyTypeError::new_err(
            "a bound is no plain number: take .upper (the truth is at most this) or .lower (at least this)",
        )
    }
}

#[pymethods]
impl Bounds {
    /// The truth is at most this. Raises ValueError if no upper end is known.
    #[getter]
    fn upper(&self) -> PyResult<f64> {
        let missing = "upper: no upper end is known of this quantity";
        self.upper.ok_or_else(|| PyValueError::new_err(missing))
    }

    /// The truth is at least this. Raises ValueError if no lower end is known.
    #[getter]
    fn lower(&self) -> PyResult<f64> {
        let missing = "lower: no lower end is known of this quantity";
        self.lower.ok_or_else(|| PyValueError::new_err(missing))
    }

    /// Whether an upper end is known.
    #[getter]
    const fn has_upper(&self) -> bool {
        self.upper.is_some()
    }

    /// Whether a lower end is known.
    #[getter]
    const fn has_lower(&self) -> bool {
        self.lower.is_some()
    }

    /// What was taken from a project's `reticent.toml`, by key; empty if nothing was.
    #[getter]
    fn configured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.configured.values)
    }

    fn __float__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __int__(&self) -> PyResult<i64> {
        Err(Self::refused())
    }

    /// `f"{bound}"` shows both ends; a number format would have to choose one.
    fn __format__(&self, format: &str) -> PyResult<String> {
        if format.is_empty() {
            Ok(self.__repr__())
        } else {
            Err(Self::refused())
        }
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(Self::refused())
    }

    /// Equal to other bounds with the same ends; not comparable with anything else.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<Self>() {
            Ok(other) => {
                let other = other.get();
                Ok((self.lower, self.upper) == (other.lower, other.upper))
            }
            Err(_) => Err(Self::refused()),
        }
    }

    fn __lt__(&self, _other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(Self::refused())
    }

    fn __le__(&self, _other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(Self::refused())
    }

    fn __gt__(&self, _other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(Self::refused())
    }

    fn __ge__(&self, _other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(Self::refused())
    }

    fn __add__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __radd__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __sub__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rsub__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __mul__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rmul__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __truediv__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rtruediv__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __floordiv__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rfloordiv__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __mod__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rmod__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __divmod__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rdivmod__(&self, _other: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __pow__(&self, _other: &Bound<'_, PyAny>, _modulus: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __rpow__(&self, _other: &Bound<'_, PyAny>, _modulus: &Bound<'_, PyAny>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __neg__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __pos__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __abs__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __trunc__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __floor__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __ceil__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __complex__(&self) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __index__(&self) -> PyResult<i64> {
        Err(Self::refused())
    }

    #[pyo3(signature = (_digits = None))]
    fn __round__(&self, _digits: Option<&Bound<'_, PyAny>>) -> PyResult<f64> {
        Err(Self::refused())
    }

    fn __iter__(&self) -> PyResult<Py<PyAny>> {
        Err(Self::refused())
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// Refused, since a stored number must state which end it is.
    fn __reduce__(&self) -> PyResult<Py<PyAny>> {
        Err(Self::refused())
    }

    fn __repr__(&self) -> String {
        let of = |end: Option<f64>| match end {
            Some(end) if end.is_infinite() => "inf".to_owned(),
            Some(end) => format!("{end:?}"),
            None => "unknown".to_owned(),
        };
        let from = self
            .configured
            .line()
            .map_or_else(String::new, |line| format!("; {line}"));
        format!(
            "Bounds(lower={}, upper={}{from})",
            of(self.lower),
            of(self.upper)
        )
    }
}
