//! Answers of the commands' crate: their JSON, their page and their sentences.

use crate::bounds::Bounds;
use crate::error::{value_error, words};
use crate::waiting::interruptible;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use reticent_accounting::{Delta, Epsilon, GroupSize, Neighbours, Tolerance, UnitName};
use reticent_reports::account::answer::{answer, guarantees, headline};
use reticent_reports::account::plan::{self, Source};
use reticent_reports::account::question::QuestionArgs;
use reticent_reports::defaults::Configured;
use reticent_reports::page::Section;
use serde::Serialize;

/// Converts a value to a Python object.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    value: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(value_error)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// What a plan promises, as `account` reports it: in one sentence, as a page, and as a document that
/// follows schemas/guarantees.schema.json.
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone)]
pub(crate) struct Report {
    card: String,
    json: String,
    html: String,
    epsilon: Bounds,
}

#[pymethods]
impl Report {
    /// The promise in words, for a model card: what is promised to whom, and under which terms.
    #[getter]
    fn card(&self) -> &str {
        &self.card
    }

    /// ε for the report's group, with both certified ends.
    #[getter]
    fn epsilon(&self) -> Bounds {
        self.epsilon.clone()
    }

    /// Returns the document as JSON.
    fn to_json(&self) -> &str {
        &self.json
    }

    /// Returns the page as HTML without scripts.
    fn to_html(&self) -> &str {
        &self.html
    }

    /// Shows the page in a notebook.
    fn _repr_html_(&self) -> String {
        framed(&self.html)
    }

    fn __repr__(&self) -> String {
        format!("Report({})", self.card)
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __reduce__(&self) -> PyResult<Py<PyAny>> {
        Err(not_pickled("Report"))
    }
}

/// Returns a page in a frame of its own, without scripts, so that its styles do not reach the notebook.
pub(crate) fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe sandbox srcdoc=\"{page}\" style=\"width: 100%; height: 40em; border: 0\"></iframe>"
    )
}

/// Returns the error for pickling an answer: answers are stored as documents, which every program
/// reads.
pub(crate) fn not_pickled(kind: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{kind}: can't be pickled; keep what its to_json() gives"
    ))
}

/// A question about a mechanism.
pub(crate) struct Question {
    pub(crate) delta: Delta,
    pub(crate) neighbours: Neighbours,
    pub(crate) group: GroupSize,
    pub(crate) unit: Option<UnitName>,
    pub(crate) tolerance: Tolerance,
}

/// Returns the answer of `account` about a plan, from its JSON.
pub(crate) fn report(
    plan: &str,
    question: &Question,
    configured: Configured,
) -> anyhow::Result<Report> {
    let source = Source::of_text("plan", plan, question.neighbours)?;
    let arguments = QuestionArgs {
        delta: Some(question.delta),
        neighbours: Some(question.neighbours),
        group: (question.group != GroupSize::ONE).then_some(question.group),
        unit: question.unit.clone(),
        tolerance: Some(question.tolerance),
        ..QuestionArgs::default()
    };
    let about = plan::Question::about(source, &arguments)?;
    let document = answer(&about)?;
    let mut page = guarantees(&about, &document, None);
    let mut card = page.said().to_owned();
    if let Some(line) = configured.line() {
        card.push_str(&format!(" ({line}.)"));
        page = page.answer(Section::text("", vec![line]));
    }
    let epsilon = headline(&document.body.guarantees).and_then(|row| row.epsilon);
    let epsilon = epsilon.unwrap_or(reticent_accounting::Bounds::<Epsilon> {
        lower: None,
        upper: None,
    });
    let mut said = document.saying(page.said(), page.outcome());
    said.inputs = said.inputs.configured(&configured);
    Ok(Report {
        card,
        json: said.to_text()?,
        html: page.to_html()?,
        epsilon: Bounds::of(epsilon).with(configured),
    })
}

/// Returns the answer of `account`, with errors as Python exceptions.
pub(crate) fn reported(
    py: Python<'_>,
    plan: String,
    question: Question,
    configured: Configured,
) -> PyResult<Report> {
    interruptible(py, move |_| report(&plan, &question, configured))?.map_err(words)
}
