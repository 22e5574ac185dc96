//! Canary plans for texts.

use crate::error::{of, unknown, value_error};
use crate::number::Whole;
use pyo3::prelude::*;
use reticent_corpus::canary::{CanaryOptions, CanaryTemplate, Carriers, Spec, insert};
use reticent_corpus::{self as corpus, Document, Unit};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Which canaries to plant, where, and how many copies of each: a canaries.json.
///
/// Secrets are never shown by repr(). `to_json()` and pickles contain them, so keep both private. Plans are equal
/// if they plant the same secrets in the same places.
#[pyclass(frozen, module = "reticent")]
#[derive(Debug, Clone)]
pub(crate) struct CanaryPlan {
    pub(crate) plan: corpus::canary::CanaryPlan,
    /// The SHA-256 of the texts for which it was drawn; unknown for a canaries.json.
    drawn_for: Option<[u8; 32]>,
}

fn digest(texts: &[String]) -> [u8; 32] {
    let mut all = Sha256::new();
    for text in texts {
        // The length comes first, so that no other list of texts has the same bytes.
        all.update((text.len() as u64).to_le_bytes());
        all.update(text);
    }
    all.finalize().into()
}

fn documents(texts: Vec<String>) -> Vec<Document> {
    let each = texts.into_iter().enumerate();
    each.map(|(number, text)| Document::new(number.to_string(), text))
        .collect()
}

/// The content of a pickle: a function and its arguments.
type Reduced = (Py<PyAny>, (String, Option<[u8; 32]>));

impl CanaryPlan {
    /// Returns the most texts into which one canary was planted.
    fn texts(&self) -> u64 {
        let each = self.plan.canaries.iter().map(|canary| {
            let of = canary.insertions.iter().map(|i| i.document.as_str());
            of.collect::<BTreeSet<_>>().len() as u64
        });
        each.max().unwrap_or(0)
    }

    /// Returns the most records that contain one canary: as given, but no fewer than texts, which training may cut into more
    /// records and never into fewer that contain it.
    pub(crate) fn records_at_most(&self, given: Option<u64>) -> u64 {
        given.map_or_else(|| self.records(), |given| given.max(self.texts()))
    }
}

#[pymethods]
impl CanaryPlan {
    /// Reads the text of a canaries.json and checks that it is unambiguous. One without a digest raises ValueError: whether
    /// it was cut or edited is not known.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let plan = of("text", corpus::canary::CanaryPlan::from_json(text))?;
        of("text", plan.check_digest())?;
        Ok(Self {
            plan,
            drawn_for: None,
        })
    }

    /// Returns the text of canaries.json, secrets included, for `audit exposure --canary-file`.
    fn to_json(&self) -> PyResult<String> {
        self.plan.to_json().map_err(value_error)
    }

    /// Returns the texts with the canaries inserted, each on a line of its own. They must be the texts for which
    /// the plan was drawn, in the same order; others raise ValueError. A plan from JSON doesn't know its texts, so
    /// only the numbers of texts and lines are checked. Texts in which a canary occurs already raise ValueError.
    fn insert_texts(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Vec<String>> {
        if self.drawn_for.is_some_and(|known| known != digest(&texts)) {
            return Err(value_error("data: not the texts the plan was drawn for"));
        }
        let documents = documents(texts);
        let found = py.detach(|| {
            let each = documents.iter().map(|document| document.text.as_str());
            self.plan.check_absent(each)?;
            insert(&self.plan, &documents)
        });
        let (planted, _) = of("texts", found)?;
        Ok(planted.into_iter().map(|d| d.text).collect())
    }

    /// Returns (id, secret, copies) of each canary. Never log the secrets.
    #[getter]
    fn secrets(&self) -> Vec<(String, String, usize)> {
        let each = self.plan.canaries.iter();
        each.map(|c| (c.id.clone(), c.secret.clone(), c.insertions.len()))
            .collect()
    }

    /// Returns the number of canaries.
    fn __len__(&self) -> usize {
        self.plan.canaries.len()
    }

    /// Returns the most texts that contain one canary: the group that a promise about a canary is for. Of a plan from
    /// JSON, whose texts are not known, it is the number of copies.
    #[getter]
    fn records(&self) -> u64 {
        match self.drawn_for {
            Some(_) => self.texts(),
            None => u64::from(self.plan.copies),
        }
    }

    /// Returns the most copies of one canary.
    #[getter]
    const fn copies(&self) -> u32 {
        self.plan.copies
    }

    /// Returns the number of secrets from which each canary was drawn.
    #[getter]
    const fn candidates(&self) -> u128 {
        self.plan.candidates
    }

    /// Rebuilds a plan from the content of a pickle.
    #[staticmethod]
    fn _of(text: &str, drawn_for: Option<[u8; 32]>) -> PyResult<Self> {
        let read = Self::from_json(text)?;
        Ok(Self { drawn_for, ..read })
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Reduced> {
        let this = slf.get();
        let state = (this.to_json()?, this.drawn_for);
        Ok((slf.get_type().getattr("_of")?.unbind(), state))
    }

    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        self.plan == other.plan
    }

    fn __repr__(&self) -> String {
        format!(
            "CanaryPlan({} canaries, at most {} copies, template {:?})",
            self.plan.canaries.len(),
            self.plan.copies,
            self.plan.template.to_string()
        )
    }
}

fn unit_of(word: &str) -> PyResult<Unit> {
    Ok(match word {
        "turn" => Unit::Turn,
        "sentence" => Unit::Sentence,
        "dialogue" => Unit::Dialogue,
        "document" => Unit::Document,
        "user" => Unit::User,
        other => {
            let allowed = "\"turn\", \"sentence\", \"dialogue\", \"document\", \"user\"";
            return Err(unknown("unit", other, allowed));
        }
    })
}

/// Draws canaries for these texts: `n` secrets, uniform on the template's candidates and all different, each
/// inserted `copies` times (a list gives the numbers that the canaries have in turn) at uniform places. The text
/// around copies varies, so that exact deduplication keeps them.
///
/// seed: None draws it from the operating system. Anyone who knows the seed can compute the secrets.
/// unit: what one text is, in the words of promises: "turn", "sentence", "dialogue", "document" or "user".
#[pyfunction]
#[pyo3(signature = (texts, template, *, copies, n, seed = None, own_contexts = false, unit = "document"))]
#[expect(clippy::too_many_arguments, reason = "keywords of one question")]
pub(crate) fn plan_canaries(
    py: Python<'_>,
    texts: Vec<String>,
    template: &str,
    copies: Vec<Whole>,
    n: Whole,
    seed: Option<Whole>,
    own_contexts: bool,
    unit: &str,
) -> PyResult<CanaryPlan> {
    let unit = unit_of(unit)?;
    let n: u32 = n.at_least(1, "n")?;
    let copies = copies
        .into_iter()
        .map(|copies| copies.at_least(1, "copies"));
    let copies = copies.collect::<PyResult<Vec<u32>>>()?;
    let seed: Option<u64> = seed.map(|seed| seed.at_least(0, "seed")).transpose()?;
    let template: CanaryTemplate = of("template", template.parse())?;
    let most = copies.iter().copied().max().unwrap_or(0);
    let options = CanaryOptions {
        template: template.into(),
        doses: if copies.len() > 1 { copies } else { Vec::new() },
        carriers: Carriers::Vary,
        own_contexts,
        seed: seed.unwrap_or(0),
        ..CanaryOptions::new(of("n, copies", Spec::new(n, most))?)
    };
    let options = match seed {
        Some(_) => options,
        None => options.with_system_seed().map_err(value_error)?,
    };
    let drawn_for = Some(digest(&texts));
    let documents = documents(texts);
    let plan = py
        .detach(|| {
            let plan = corpus::canary::CanaryPlan::new(&options, unit, &documents)?;
            plan.check_ranks().map(|()| plan)
        })
        .map_err(value_error)?;
    Ok(CanaryPlan { plan, drawn_for })
}
