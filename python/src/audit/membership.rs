//! Membership from scores.

use crate::defaults::{Defaults, Taking};
use crate::error::{of, value_error};
use crate::number::{Number, Whole};
use pyo3::prelude::*;
use reticent_accounting::Confidence;
use reticent_attacks::ScoreSet;

/// Where nobody says one, as in the command.
const CONFIDENCE: f64 = 0.95;

/// Area and operating points as JSON; `reticent.membership` is its face.
#[pyfunction]
#[pyo3(signature = (members, non_members, *, fpr, confidence, seed, groups, defaults))]
#[expect(clippy::too_many_arguments, reason = "keywords of one question")]
pub(crate) fn membership(
    py: Python<'_>,
    members: Vec<f64>,
    non_members: Vec<f64>,
    fpr: Vec<Number>,
    confidence: Option<Number>,
    seed: Whole,
    groups: Option<(Vec<String>, Vec<String>)>,
    defaults: Option<PyRef<'_, Defaults>>,
) -> PyResult<String> {
    let mut taking = Taking::from(defaults.as_deref());
    let confidence = confidence
        .map(|c| of("confidence", Confidence::new(c.0)))
        .transpose()?;
    let confidence = taking.or("confidence", confidence, |file| file.confidence);
    let confidence =
        confidence.map_or_else(|| of("confidence", Confidence::new(CONFIDENCE)), Ok)?;
    let seed = seed.at_least(0, "seed")?;
    let mut set = of("members, non_members", ScoreSet::new(members, non_members))?;
    if let Some((inside, outside)) = groups {
        set = of("groups", set.with_groups(&inside, &outside))?;
    }
    let found = py.detach(|| -> reticent_attacks::Result<_> {
        let points = fpr
            .iter()
            .map(|fpr| set.true_positives_at(fpr.0, confidence, seed))
            .collect::<reticent_attacks::Result<Vec<_>>>()?;
        Ok((set.area(confidence, seed)?, points))
    });
    let (area, points) = found.map_err(value_error)?;
    let document = serde_json::json!({
        "confidence": confidence.get(),
        "area": area,
        "at_fpr": points,
        "configured": taking.configured()?,
    });
    Ok(document.to_string())
}
