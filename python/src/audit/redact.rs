//! Redaction of texts.

use super::chats;
use crate::error::{of, read, unknown, value_error};
use pyo3::prelude::*;
use reticent_corpus::policy::{Policy, PolicyChoice};
use reticent_corpus::redaction::{redacted_object, redacted_text};
use std::sync::Arc;

/// A redaction policy, built once: "general", "detectors", "customers", "names", or a policy document
/// (docs: redaction-policy.schema.json) as JSON.
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone)]
pub(crate) struct Redactor {
    policy: Arc<dyn Policy>,
    json: String,
}

#[pymethods]
impl Redactor {
    #[new]
    #[pyo3(signature = (policy = "general"))]
    fn new(policy: &str) -> PyResult<Self> {
        let json = match policy {
            "general" | "detectors" | "customers" | "names" => {
                format!("{{\"type\": \"{policy}\"}}")
            }
            json if json.trim_start().starts_with('{') => json.to_owned(),
            other => {
                let allowed = "\"general\", \"detectors\", \"customers\", \"names\", or a policy document in JSON";
                return Err(unknown("policy", other, allowed));
            }
        };
        let choice: PolicyChoice = read("policy", &json)?;
        let policy = of("policy", choice.build())?;
        Ok(Self { policy, json })
    }

    /// Returns the text with `<MASK>` in place of what the policy finds.
    ///
    /// >>> import reticent
    /// >>> reticent.Redactor("detectors")("write to ada@example.org")
    /// 'write to <MASK>'
    fn __call__(&self, py: Python<'_>, text: String) -> String {
        py.detach(|| redacted_text(self.policy.as_ref(), &text))
    }

    /// Returns the messages of a chat, as JSON, with `<MASK>` in their texts and numbers; names (roles, types, ids) stay.
    fn chat(&self, py: Python<'_>, messages: &str) -> PyResult<String> {
        let object = chats::object(messages)?;
        let found = py.detach(|| redacted_object(self.policy.as_ref(), &object));
        Ok(chats::messages(&found.map_err(value_error)?))
    }

    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (String,)) {
        (
            py.get_type::<Self>().into_any().unbind(),
            (self.json.clone(),),
        )
    }
}
