//! Reticent for Python: the crates' own faces, with their directions. Nothing is computed here.
#![expect(
    clippy::needless_pass_by_value,
    reason = "what Python hands over is owned"
)]

mod accounting;
#[cfg(feature = "audit")]
mod audit;
mod bounds;
mod calibration;
mod error;

use pyo3::prelude::*;

/// The compiled half of `reticent`.
#[pymodule(gil_used = true)]
fn _reticent(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<bounds::Bounds>()?;
    module.add_class::<accounting::Plan>()?;
    module.add_class::<calibration::Calibration>()?;
    module.add_function(wrap_pyfunction!(calibration::calibrate, module)?)?;
    #[cfg(feature = "audit")]
    audit::register(module)?;
    Ok(())
}
