//! Python bindings to the crates of Reticent. Upper and lower bounds stay distinct; nothing is computed here.
#![expect(
    clippy::needless_pass_by_value,
    reason = "what Python hands over is owned"
)]

mod accounting;
#[cfg(feature = "audit")]
mod audit;
mod bounds;
mod calibration;
mod defaults;
mod error;
mod number;
mod report;
mod waiting;

use pyo3::prelude::*;

/// The compiled part of `reticent`.
#[pymodule(gil_used = true)]
fn _reticent(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<bounds::Bounds>()?;
    module.add_class::<accounting::Plan>()?;
    module.add_class::<calibration::Calibration>()?;
    module.add_class::<defaults::Defaults>()?;
    module.add_class::<report::Report>()?;
    module.add_function(wrap_pyfunction!(defaults::defaults, module)?)?;
    module.add_function(wrap_pyfunction!(calibration::calibrate, module)?)?;
    #[cfg(feature = "audit")]
    audit::register(module)?;
    Ok(())
}
