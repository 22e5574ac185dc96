//! Exposure of planted canaries by a Python scorer.

use super::canaries::CanaryPlan;
use super::scorer::CallableScorer;
use crate::error::{of, value_error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use reticent_accounting::{Confidence, Delta};
use reticent_attacks::{ExposureFinding, RankAudit, SearchOptions, plan_search, search_ranks};
use reticent_corpus::{Origin, Tokenizer};
use std::ops::ControlFlow;

/// Candidates whose summed log-likelihoods differ by less than this many nats count as ties, as
/// in `audit exposure`.
const TIE_TOLERANCE: f64 = 1e-5;

/// The exposure document as JSON; `reticent.exposure` is its face.
#[pyfunction]
#[pyo3(signature = (plan, tokenizer, scorer, *, vocabulary, delta, confidence, batch, budget, records))]
#[expect(clippy::too_many_arguments, reason = "keywords of one question")]
pub(crate) fn exposure(
    py: Python<'_>,
    plan: PyRef<'_, CanaryPlan>,
    tokenizer: &str,
    scorer: Py<PyAny>,
    vocabulary: usize,
    delta: f64,
    confidence: f64,
    batch: usize,
    budget: Option<u64>,
    records: Option<u64>,
) -> PyResult<String> {
    let tokenizer = match tokenizer {
        "characters" => Tokenizer::characters(),
        "bytes" => Tokenizer::bytes(),
        json => of("tokenizer", Tokenizer::from_json(json, Origin::Pretrained))?,
    };
    let delta = of("delta", Delta::new(delta))?;
    let confidence = of("confidence", Confidence::new(confidence))?;
    if batch == 0 {
        return Err(PyValueError::new_err("batch: must lie in [1, inf), got 0"));
    }
    // Training may have cut the plan's texts into more records, never into fewer that hold a canary.
    let records = plan.records().max(records.unwrap_or(0));
    let plan = plan.plan.clone();
    let mut scorer = CallableScorer::new(scorer, vocabulary, batch);
    let found = py.detach(|| -> Result<ExposureFinding, String> {
        let words = |error: reticent_attacks::Error| error.to_string();
        let (tree, targets) = plan_search(&plan, &tokenizer).map_err(words)?;
        let options = SearchOptions {
            tie_tolerance: TIE_TOLERANCE,
            budget,
            batch,
        };
        let ranking = search_ranks(&mut scorer, &tree, &targets, &options, &mut |_| {
            ControlFlow::Continue(())
        });
        let ranking = ranking.map_err(words)?;
        // As the command: a model that rules its canaries out says nothing about leaks.
        let silent = |nll: f64, secret: &str| {
            !(nll / secret.chars().count().max(1) as f64)
                .exp()
                .is_finite()
        };
        let mut each = plan.canaries.iter().zip(&ranking.counts);
        if each.any(|(canary, count)| silent(count.nll, &canary.secret)) {
            return Err(
                "nothing can be concluded: the model gives its canaries no finite perplexity"
                    .into(),
            );
        }
        let audit = RankAudit::of_plan(&plan, records.max(1), confidence, delta);
        let names: Vec<(String, u64)> = plan
            .canaries
            .iter()
            .map(|c| (c.id.clone(), c.insertions.len() as u64))
            .collect();
        ExposureFinding::new(&ranking, &names, &audit, TIE_TOLERANCE).map_err(words)
    });
    match (found, scorer.raised.take()) {
        (_, Some(raised)) => Err(raised),
        (Err(words), None) => Err(PyValueError::new_err(words)),
        (Ok(finding), None) => serde_json::to_string(&finding).map_err(value_error),
    }
}
