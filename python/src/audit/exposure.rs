//! The exposure of planted canaries with a Python scorer: the attack of `audit exposure`.

use super::canaries::CanaryPlan;
use super::scorer::CallableScorer;
use crate::accounting::Plan;
use crate::defaults::{Defaults, Taking};
use crate::error::{of, read, value_error, words};
use crate::number::{Number, Whole};
use crate::report::{framed, not_pickled, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use reticent_accounting::training::Stated;
use reticent_accounting::{Confidence, Delta};
use reticent_corpus::tokenize::{Origin, Tokenizer};
use reticent_reports::audit::exposure::{Attack, Checkpoint, ExposureReport, Planting, PromisedBy};
use reticent_reports::contract::{Exit, Inputs, Interrupt, exposure_limit};
use reticent_reports::defaults::Configured;
use reticent_reports::page::Section;
use std::path::PathBuf;

/// What a model reveals about planted canaries, compared with what was promised.
///
/// `document` follows schemas/exposure.schema.json and is what `audit exposure --format json` writes; it contains
/// no secrets. `audit diff` compares two of them.
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone)]
pub(crate) struct Exposure {
    report: ExposureReport,
    inputs: Inputs,
    configured: Configured,
    name: String,
}

#[pymethods]
impl Exposure {
    /// A lower bound on ε of what ran, at `document["epsilon"]["delta"]`, with the stated confidence, for
    /// `document["epsilon"]["copies"]` records replaced at once.
    #[getter]
    fn epsilon_lower(&self) -> f64 {
        self.report.finding.epsilon.lower.get().get()
    }

    /// A lower bound on the largest exposure in bits, with ties counted against a leak.
    #[getter]
    fn largest_lower(&self) -> f64 {
        self.report.finding.summary.max().lower()
    }

    /// An upper bound on the largest exposure in bits, with ties counted for a leak.
    #[getter]
    fn largest_upper(&self) -> f64 {
        self.report.finding.summary.max().upper()
    }

    /// An upper bound on the probability of a largest exposure this high without any leak.
    #[getter]
    fn p_value(&self) -> f64 {
        self.report.finding.summary.max().p_value()
    }

    /// Whether the promise is contradicted, or `max_exposure` is certainly exceeded: the cases in which
    /// `audit exposure` exits with 1. False does not mean that the promise is kept if `budget` cut the search off, nor that
    /// `max_exposure` is if training is not known to have met the canaries; `says` then states that it is unknown.
    #[getter]
    fn exceeded(&self) -> bool {
        self.report.exit() == Exit::Exceeded
    }

    /// The result in a sentence.
    #[getter]
    fn says(&self) -> String {
        self.report.says()
    }

    /// A paragraph for a model card.
    #[getter]
    fn card(&self) -> String {
        match self.configured.line() {
            Some(line) => format!("{} ({line}.)", self.report.card()),
            None => self.report.card(),
        }
    }

    /// What was taken from a project's `reticent.toml`, by key; empty if nothing was.
    #[getter]
    fn configured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.configured.values)
    }

    /// The document.
    #[getter]
    fn document<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.to_json()?,))
    }

    /// Returns the document as JSON.
    fn to_json(&self) -> PyResult<String> {
        let inputs = self.inputs.clone().configured(&self.configured);
        let document = self.report.document(inputs);
        let said = document.saying(&self.report.says(), Some(self.report.mood()));
        said.to_text().map_err(value_error)
    }

    /// Returns the page as HTML without scripts.
    fn to_html(&self) -> PyResult<String> {
        let mut page = self.report.to_page(&self.name).map_err(words)?;
        if let Some(line) = self.configured.line() {
            page = page.answer(Section::text("", vec![line]));
        }
        page.to_html().map_err(value_error)
    }

    /// Shows the page in a notebook.
    fn _repr_html_(&self) -> PyResult<String> {
        Ok(framed(&self.to_html()?))
    }

    fn __repr__(&self) -> String {
        format!("Exposure({})", self.card())
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __reduce__(&self) -> PyResult<Py<PyAny>> {
        Err(not_pickled("Exposure"))
    }
}

/// The exposure of an earlier checkpoint: the object itself, or the summary of its document as JSON.
#[derive(FromPyObject)]
pub(crate) enum Earlier {
    Found(Py<Exposure>),
    Summary(String),
}

/// A tokenizer: the text of a tokenizer.json or the name of one of ours, or a file or folder.
#[derive(FromPyObject)]
pub(crate) enum Splits {
    Text(String),
    Path(PathBuf),
}

impl Splits {
    /// Returns the tokenizer; `settings` is the tokenizer_config.json that belongs to a text, if any.
    fn tokenizer(&self, settings: Option<&str>) -> PyResult<Tokenizer> {
        let origin = Origin::Pretrained;
        let made = match self {
            Self::Text(name) if name == "characters" => Ok(Tokenizer::characters()),
            Self::Text(name) if name == "bytes" => Ok(Tokenizer::bytes()),
            Self::Text(json) => Tokenizer::of_files(json, settings, origin),
            Self::Path(path) if path.is_dir() => Tokenizer::load_folder(path, origin),
            Self::Path(path) => Tokenizer::load(path, origin),
        };
        let made = of("tokenizer", made)?;
        if !made.has_own_bos() {
            return Err(value_error(
                "tokenizer: nothing says which token begins a text, behind which the model was trained: set bos_token of the \
                 tokenizer of transformers, or give the path of a tokenizer.json with its tokenizer_config.json beside it",
            ));
        }
        Ok(made)
    }
}

/// Measures the exposure; `reticent.exposure` is the public function.
#[pyfunction]
#[pyo3(signature = (plan, tokenizer, settings, scorer, *, vocabulary, name, delta, confidence, max_exposure, batch, budget, records,
    met, promise, earlier, defaults))]
#[expect(clippy::too_many_arguments, reason = "keywords of one question")]
pub(crate) fn exposure(
    py: Python<'_>,
    plan: PyRef<'_, CanaryPlan>,
    tokenizer: Splits,
    settings: Option<String>,
    scorer: Py<PyAny>,
    vocabulary: Whole,
    name: String,
    delta: Option<Number>,
    confidence: Option<Number>,
    max_exposure: Option<Number>,
    batch: Whole,
    budget: Option<Whole>,
    records: Option<Whole>,
    met: bool,
    promise: Option<PyRef<'_, Plan>>,
    earlier: Vec<(String, Earlier)>,
    defaults: Option<PyRef<'_, Defaults>>,
) -> PyResult<Exposure> {
    let tokenizer = tokenizer.tokenizer(settings.as_deref())?;
    let mut taking = Taking::from(defaults.as_deref());
    let delta = delta
        .map(|delta| of("delta", Delta::new(delta.named("delta")?)))
        .transpose()?;
    let delta = taking.or("delta", delta, |file| file.delta);
    let confidence = confidence
        .map(|c| of("confidence", Confidence::new(c.named("confidence")?)))
        .transpose()?;
    let confidence = taking.or("confidence", confidence, |file| file.confidence);
    let limit = max_exposure
        .map(|bits| of("max_exposure", exposure_limit(bits.named("max_exposure")?)))
        .transpose()?;
    let limit = taking.or("max_exposure", limit, |file| file.max_exposure);
    let configured = taking.configured()?;
    let batch = batch.at_least(1, "batch")?;
    let vocabulary = vocabulary.at_least(1, "vocabulary")?;
    let budget = budget
        .map(|budget| budget.at_least(1, "budget"))
        .transpose()?;
    let records: Option<u64> = records
        .map(|records| records.at_least(1, "records"))
        .transpose()?;
    let canaries = Attack::unsealed(&plan.plan, plan.records_at_most(records));
    let plan = plan.plan.clone();
    let promise = promise.map(|promise| (*promise).clone());
    let stated = promise
        .as_ref()
        .and_then(|promise| promise.beside.unit.as_ref());
    if let Some(other) = stated.filter(|other| other.as_str() != plan.unit.to_string()) {
        return Err(PyValueError::new_err(format!(
            "promise: one record is a {other} in it and a {} in the canary plan: no promise about one bounds the other",
            plan.unit
        )));
    }
    let earlier: Vec<Checkpoint> = earlier
        .into_iter()
        .map(|(model, found)| {
            let summary = match found {
                Earlier::Found(found) => found.get().report.finding.summary,
                Earlier::Summary(json) => read("earlier", &json)?,
            };
            Ok(Checkpoint {
                model,
                note: None,
                summary,
            })
        })
        .collect::<PyResult<_>>()?;
    let mut scorer = CallableScorer::new(scorer, vocabulary, batch).map_err(words)?;
    let found = py.detach(|| -> anyhow::Result<ExposureReport> {
        let mut attack = Attack::new(&plan, &tokenizer, &name, canaries)?;
        let unknown = promise
            .is_none()
            .then_some("what ran is not known: no promise was given");
        if let Some(promise) = promise {
            let beside = &promise.beside;
            let mut run = Attack::run_of(&plan, promise.mechanism)?;
            if beside.unit.is_some() {
                run.unit = Stated::given(run.unit.value, "promise");
            }
            if let Some(delta) = beside.delta {
                run.delta = Stated::given(delta, "promise");
            }
            let records = &mut attack.canaries.records;
            *records = beside.canary_records.max(*records);
            attack.manifest = beside.caveat();
            attack.promised_by = Some(PromisedBy {
                file: "the given plan".to_owned(),
                unit: run.unit.value.clone(),
                unit_assumed: run.unit.is_assumed(),
                neighbours_assumed: false,
            });
            attack.earlier_unknown = beside.canary_records_unknown;
            attack.against(run);
        }
        if let Some(delta) = delta {
            attack.delta = Stated::given(delta, "delta");
        }
        if met {
            attack.planting = Planting::Supervised;
        }
        attack.confidence = confidence;
        attack.budget = budget;
        let (mut report, _) = attack.run(&mut scorer, &Interrupt::default())?;
        scorer.check_steady()?;
        if let Some(why) = unknown {
            report.no_verdict = Some(why.into());
        }
        report.limit = limit;
        report.earlier = earlier;
        Ok(report)
    });
    let report = match (found, scorer.raised.take()) {
        (_, Some(raised)) => return Err(raised),
        (Err(error), None) => return Err(words(error)),
        (Ok(report), None) => report,
    };
    // As in the command, a model that excludes its canaries says nothing about leaks, unless the others exceed the limit.
    if report.inconclusive && report.exit() == Exit::Finished {
        return Err(PyValueError::new_err(report.says()));
    }
    let inputs = Inputs::new()
        .given("model", &name)
        .and_then(|inputs| inputs.given("max_exposure", limit))
        .and_then(|inputs| PromisedBy::inputs(report.promised_by.as_ref(), inputs))
        .map_err(value_error)?;
    Ok(Exposure {
        report,
        inputs,
        configured,
        name,
    })
}
