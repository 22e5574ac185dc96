//! Canaries, exposure, membership and redaction.

mod canaries;
mod chats;
mod exposure;
mod membership;
mod redact;
mod scorer;

use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<canaries::CanaryPlan>()?;
    module.add_class::<exposure::Exposure>()?;
    module.add_class::<redact::Redactor>()?;
    module.add_function(wrap_pyfunction!(canaries::plan_canaries, module)?)?;
    module.add_function(wrap_pyfunction!(exposure::exposure, module)?)?;
    module.add_function(wrap_pyfunction!(chats::answer, module)?)?;
    module.add_function(wrap_pyfunction!(chats::with_answer, module)?)?;
    module.add_function(wrap_pyfunction!(membership::membership, module)?)?;
    Ok(())
}
