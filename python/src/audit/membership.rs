//! Membership inference from scores.

use crate::defaults::{Defaults, Taking};
use crate::error::{of, value_error};
use crate::number::{Number, Whole};
use crate::waiting::interruptible;
use pyo3::prelude::*;
use reticent_accounting::Confidence;
use reticent_attacks::membership::ScoredRecords;

/// The default confidence, as in the command.
const CONFIDENCE: f64 = 0.95;

/// A name or a text of each member and each non-member.
type OfEach = (Vec<String>, Vec<String>);

/// Returns area and operating points as JSON; `reticent.membership` is the public function.
#[pyfunction]
#[pyo3(signature = (members, non_members, *, fpr, confidence, seed, groups, texts, defaults))]
#[expect(clippy::too_many_arguments, reason = "keywords of one question")]
pub(crate) fn membership(
    py: Python<'_>,
    members: Vec<f64>,
    non_members: Vec<f64>,
    fpr: Vec<Number>,
    confidence: Option<Number>,
    seed: Whole,
    groups: Option<OfEach>,
    texts: Option<OfEach>,
    defaults: Option<PyRef<'_, Defaults>>,
) -> PyResult<String> {
    let mut taking = Taking::from(defaults.as_deref());
    let confidence = confidence
        .map(|c| of("confidence", Confidence::new(c.named("confidence")?)))
        .transpose()?;
    let confidence = taking.or("confidence", confidence, |file| file.confidence);
    let confidence =
        confidence.map_or_else(|| of("confidence", Confidence::new(CONFIDENCE)), Ok)?;
    let seed = seed.at_least(0, "seed")?;
    let fpr = fpr.into_iter().map(|fpr| fpr.named("fpr"));
    let fpr = fpr.collect::<PyResult<Vec<f64>>>()?;
    let pair = |(inside, outside): OfEach| [inside, outside];
    let records = ScoredRecords::of(
        [members, non_members],
        groups.map(pair),
        texts.map(pair),
        None,
        seed,
    );
    let records = records.map_err(value_error)?;
    let set = of("members, non_members", records.set())?;
    let found = interruptible(py, move |_| -> reticent_attacks::Result<_> {
        let points = fpr
            .iter()
            .map(|fpr| set.true_positives_at(*fpr, confidence, seed))
            .collect::<reticent_attacks::Result<Vec<_>>>()?;
        // With too few texts to fit and to judge, there is no baseline, as in the command.
        let blind = records.blind(confidence, seed).ok().flatten();
        Ok((set.area(confidence, seed)?, points, blind, records, set))
    })?;
    let (area, points, blind, records, set) = found.map_err(value_error)?;
    let document = serde_json::json!({
        "members": records.scores[0].len(),
        "non_members": records.scores[1].len(),
        "groups": set.groups(),
        "repeats": records.repeats,
        "blind": blind,
        "confidence": confidence.get(),
        "area": area,
        "at_fpr": points,
        "configured": taking.configured()?,
    });
    Ok(document.to_string())
}
