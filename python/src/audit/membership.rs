//! Membership from scores.

use crate::error::{of, value_error};
use pyo3::prelude::*;
use reticent_accounting::Confidence;
use reticent_attacks::ScoreSet;

/// Area and operating points as JSON; `reticent.membership` is its face.
#[pyfunction]
#[pyo3(signature = (members, non_members, *, fpr, confidence, seed, groups))]
pub(crate) fn membership(
    py: Python<'_>,
    members: Vec<f64>,
    non_members: Vec<f64>,
    fpr: Vec<f64>,
    confidence: f64,
    seed: u64,
    groups: Option<(Vec<String>, Vec<String>)>,
) -> PyResult<String> {
    let confidence = of("confidence", Confidence::new(confidence))?;
    let mut set = of("members, non_members", ScoreSet::new(members, non_members))?;
    if let Some((inside, outside)) = groups {
        set = of("groups", set.with_groups(&inside, &outside))?;
    }
    let found = py.detach(|| -> reticent_attacks::Result<_> {
        let points = fpr
            .iter()
            .map(|fpr| set.true_positives_at(*fpr, confidence, seed))
            .collect::<reticent_attacks::Result<Vec<_>>>()?;
        Ok((set.area(confidence, seed)?, points))
    });
    let (area, points) = found.map_err(value_error)?;
    let document = serde_json::json!({
        "confidence": confidence.get(),
        "area": area,
        "at_fpr": points,
    });
    Ok(document.to_string())
}
