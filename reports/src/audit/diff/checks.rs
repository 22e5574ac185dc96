//! Checks of a document before anything is concluded from it, since it may come from anyone.

use super::super::ends;
use crate::audit::membership::CORNERS;
use anyhow::{Context, Result, ensure};
use reticent_accounting::Confidence;
use reticent_attacks::Draw;
use reticent_attacks::exposure::ExposureSummary;
use reticent_attacks::membership::{AreaMethod, Rate, ScoreSet};
use reticent_attacks::search::RankCount;
use serde_json::Value;
use std::collections::BTreeSet;

/// The most candidates of a canary.
const MOST: u64 = 1 << 63;

/// The largest ε that ranks can prove: with 2^63 candidates it is some tens.
const MOST_EPSILON: f64 = 1000.0;

/// The rounding of exposures that were written in decimal.
const ROUNDING: f64 = 1e-6;

/// With more records, no scores are reconstructed from the curve.
const MOST_RANKED: u64 = 1 << 22;

/// The share of its width by which an interval may differ if corners of the curve were left out.
const SPREAD: f64 = 0.1;

/// Checks a part of a document, or the document itself.
///
/// # Errors
/// Returns an error with the name (after `place`) and the range of a field that is out of its range.
pub(super) fn checked(part: &str, value: &Value, inputs: &Value, place: &str) -> Result<()> {
    let confidence = &value["confidence"];
    if !confidence.is_null() || part == "membership" {
        let inside = confidence.as_f64().is_some_and(|c| c > 0.0 && c < 1.0);
        ensure!(
            inside,
            "{place}confidence must be in (0, 1), got {}",
            got(confidence)
        );
        let asked = inputs["confidence"].as_f64();
        ensure!(
            part == "exposure" || asked.is_none_or(|asked| confidence.as_f64() == Some(asked)),
            "{place}confidence must be inputs.confidence, {}, got {}",
            got(&inputs["confidence"]),
            got(confidence)
        );
    }
    let records = &value["records"];
    for key in ["hmac", "key"] {
        ensure!(
            records.is_null() || records[key].is_string(),
            "{place}records.{key} must be a text, got {}",
            got(&records[key])
        );
    }
    match part {
        "exposure" => exposure(value, place),
        "membership" => membership(value, place),
        _ => extraction(value, place),
    }
}

/// Checks that a report contains what its inputs ask for, or says why not.
///
/// # Errors
/// Returns an error with the name of an absent part.
pub(super) fn parts(report: &Value) -> Result<()> {
    let inputs = &report["inputs"];
    let given = |names: &[&str]| names.iter().any(|name| !inputs[*name].is_null());
    for (part, asked, excuse) in [
        (
            "exposure",
            given(&["canary_file", "max_exposure"]),
            "no_exposure",
        ),
        ("membership", given(&["members"]), ""),
        (
            "extraction",
            given(&["members", "secrets"]),
            "no_extraction",
        ),
    ] {
        let present = report[part].is_object() || report[excuse].is_string();
        ensure!(
            present || !asked,
            "{part} must be an object, as inputs ask for it, got {}",
            got(&report[part])
        );
    }
    Ok(())
}

fn exposure(value: &Value, place: &str) -> Result<()> {
    let digest = &value["canary_digest"];
    ensure!(
        digest.is_null() || digest.is_string(),
        "{place}canary_digest must be a text, got {}",
        got(digest)
    );
    let draw = &value["draw"];
    ensure!(
        draw.is_null() || draw == "independent" || draw == "distinct",
        "{place}draw must be independent or distinct, got {}",
        got(draw)
    );
    verdict(&value["verdict"], place)?;
    let candidates = whole(&value["candidates"], (1, MOST), || {
        format!("{place}candidates")
    })?;
    let most = (candidates as f64).log2();
    let canaries = value["canaries"].as_array();
    let canaries = canaries.with_context(|| format!("{place}canaries must be a list"))?;
    let mut ids = BTreeSet::new();
    for (i, canary) in canaries.iter().enumerate() {
        let at = format!("{place}canaries[{i}]");
        let id = canary["id"].as_str();
        let id = id.with_context(|| format!("{at}.id must be a string"))?;
        ensure!(
            ids.insert(id),
            "{at}.id must be its own, and another canary has it"
        );
        if !canary["copies"].is_null() {
            whole(&canary["copies"], (0, u64::from(u32::MAX)), || {
                format!("{at}.copies")
            })?;
        }
        let bits = &canary["exposure"];
        between(bits, ["min", "max"], most, &format!("{at}.exposure"))?;
        let rank = &canary["rank"];
        if !rank.is_null() {
            let end = |key: &str| whole(&rank[key], (1, candidates), || format!("{at}.rank.{key}"));
            let ends = [("max", end("min")?), ("min", end("max")?)];
            ensure!(
                ends[0].1 <= ends[1].1,
                "{at}.rank.min must be at most {at}.rank.max"
            );
            for (key, rank) in ends {
                let own = most - (rank as f64).log2();
                let same = bits[key].as_f64().is_some_and(|bits| agree(bits, own));
                ensure!(
                    same,
                    "{at}.exposure.{key} must be {own}, as the rank says, got {}",
                    got(&bits[key])
                );
            }
        }
    }
    against_chance(value, candidates, place)
}

/// Checks that p of maximum and mean agree with the ranks, if the document contains all of them.
fn against_chance(value: &Value, candidates: u64, place: &str) -> Result<()> {
    let canaries = value["canaries"].as_array();
    let counts = canaries.into_iter().flatten().map(|canary| {
        let rank = |key: &str| canary["rank"][key].as_u64();
        Some(RankCount::of_ranks(candidates, rank("min")?, rank("max")?))
    });
    let Some(counts) = counts.collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    let Ok(draw) = serde_json::from_value::<Draw>(value["draw"].clone()) else {
        return Ok(());
    };
    let Ok(found) = ExposureSummary::of(&counts, draw) else {
        return Ok(());
    };
    for (key, own) in [("p_max", found.max()), ("p_mean", found.mean())] {
        let p = &value["summary"][key];
        let same = p.as_f64().is_none_or(|p| agree(p, own.p_value()));
        ensure!(
            same,
            "{place}summary.{key} must be {}, as the ranks say, got {}",
            own.p_value(),
            got(p)
        );
    }
    Ok(())
}

/// Returns whether two numbers agree; they were written in decimal, perhaps by another version that rounds
/// differently.
fn agree(one: f64, two: f64) -> bool {
    (one - two).abs() <= ROUNDING.max(1e-3 * two.abs())
}

/// Checks the promise and the proof, if there is a verdict.
fn verdict(verdict: &Value, place: &str) -> Result<()> {
    if verdict.is_null() {
        return Ok(());
    }
    let at = format!("{place}verdict");
    ensure!(
        verdict.is_object(),
        "{at} must be an object, got {}",
        got(verdict)
    );
    let alarm = &verdict["false_alarm"];
    ensure!(
        alarm.as_f64().is_some_and(|a| a > 0.0 && a < 1.0),
        "{at}.false_alarm must be in (0, 1), got {}",
        got(alarm)
    );
    let at_least = number(&verdict["at_least"], MOST_EPSILON, || {
        format!("{at}.at_least")
    })?;
    for key in ["at_most", "provable"] {
        let end = &verdict[key];
        // Documents of earlier versions don't state what could have been proved.
        let absent = key == "provable" && end.is_null();
        ensure!(
            absent || end == "inf" || end.as_f64().is_some_and(|e| e >= 0.0),
            "{at}.{key} must be a number in [0, inf) or \"inf\", got {}",
            got(end)
        );
    }
    let provable = verdict["provable"].as_f64();
    ensure!(
        provable.is_none_or(|most| at_least <= most + ROUNDING),
        "{at}.at_least must be at most {at}.provable, got {} and {}",
        got(&verdict["at_least"]),
        got(&verdict["provable"])
    );
    Ok(())
}

fn membership(value: &Value, place: &str) -> Result<()> {
    for key in ["members", "non_members", "groups"] {
        if !value[key].is_null() {
            whole(&value[key], (0, MOST), || format!("{place}{key}"))?;
        }
    }
    area(&value["area"], place)?;
    from_roc(value, place)?;
    accuracy(value, place)
}

/// Checks that the area is that of the curve. Without groups, scores in the order of the curve must also give the
/// interval: approximately, if corners of the curve were left out, between which scores count as equal.
fn from_roc(value: &Value, place: &str) -> Result<()> {
    let area = &value["area"];
    let (least, most) = below(value, place)?;
    let estimate = number(&area["estimate"], 1.0, || format!("{place}area.estimate"))?;
    ensure!(
        (least - ROUNDING..=most + ROUNDING).contains(&estimate),
        "{place}area.estimate must be from {least} to {most}, as {place}roc says, got {}",
        got(&area["estimate"])
    );
    let (Some(set), Some(confidence)) = (ranked(value), confidence(value)) else {
        return Ok(());
    };
    let found = set.area(confidence, 0)?;
    // Disjoint pairs depend on the order of the records.
    if area["method"] != "delong" || found.method != AreaMethod::Delong {
        return Ok(());
    }
    let (lower, upper) = ends(&found.bounds);
    let records = set.members().len() + set.non_members().len();
    let room = match records < CORNERS {
        true => ROUNDING,
        false => most - least + SPREAD * (upper - lower),
    };
    let near = |key: &str, own: f64| {
        let end = area[key].as_f64();
        end.is_some_and(|end| (end - own).abs() <= room)
    };
    // Earlier versions did not account for skewness.
    let earlier = set.delong_without_skewness(confidence)?;
    if earlier.is_some_and(|bounds| {
        let (lower, upper) = ends(&bounds);
        near("lower", lower) && near("upper", upper) && near("estimate", found.estimate)
    }) {
        return Ok(());
    }
    for (key, own) in [
        ("estimate", found.estimate),
        ("lower", lower),
        ("upper", upper),
    ] {
        ensure!(
            near(key, own),
            "{place}area.{key} must be {own} to within {room}, as {place}roc and {place}confidence say, got {}",
            got(&area[key])
        );
    }
    Ok(())
}

/// Returns the least and the largest area under an increasing curve through these corners.
fn below(value: &Value, place: &str) -> Result<(f64, f64)> {
    let roc = value["roc"].as_array();
    let roc = roc.with_context(|| format!("{place}roc must be a list of corners"))?;
    let mut corners = Vec::with_capacity(roc.len() + 1);
    for (i, corner) in roc.iter().enumerate() {
        let at = |key: &str| number(&corner[key], 1.0, || format!("{place}roc[{i}].{key}"));
        corners.push((at("fpr")?, at("tpr")?));
    }
    corners.push((1.0, 1.0));
    let (mut least, mut most) = (0.0, 0.0);
    let mut before = (0.0, 0.0);
    for (i, (fpr, tpr)) in corners.into_iter().enumerate() {
        ensure!(
            fpr >= before.0 - ROUNDING && tpr >= before.1 - ROUNDING,
            "{place}roc[{i}] must be no less than the corner before"
        );
        least += (fpr - before.0) * before.1;
        most += (fpr - before.0) * tpr;
        before = (fpr, tpr);
    }
    Ok((least, most))
}

/// Returns scores with this curve; `None` if records are grouped or the curve is of other records.
fn ranked(value: &Value) -> Option<ScoreSet> {
    let roc = value["roc"].as_array()?;
    let (m, n) = (value["members"].as_u64()?, value["non_members"].as_u64()?);
    if !value["groups"].is_null() || m.saturating_add(n) > MOST_RANKED {
        return None;
    }
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (place, corner) in (0_u32..).zip(roc) {
        // A corner lies at whole numbers of records.
        let reach = |key: &str, records: u64, sofar: &mut Vec<f64>| {
            let count = corner[key].as_f64()? * records as f64;
            let whole = count.round();
            let inside = (count - whole).abs() <= ROUNDING * records as f64
                && (sofar.len() as f64..=records as f64).contains(&whole);
            inside.then(|| sofar.resize(whole as usize, -f64::from(place)))
        };
        reach("tpr", m, &mut inside)?;
        reach("fpr", n, &mut outside)?;
    }
    let whole = inside.len() as u64 == m && outside.len() as u64 == n;
    whole.then(|| ScoreSet::new(inside, outside).ok())?
}

/// Checks the accuracy. With as many members as non-members, it is a rate over both, with an interval at the stated
/// confidence.
fn accuracy(value: &Value, place: &str) -> Result<()> {
    let accuracy = &value["accuracy"];
    let at = format!("{place}accuracy");
    let count = |key: &str| accuracy[key].as_u64();
    let (Some(m), Some(n), Some(confidence)) =
        (count("members"), count("non_members"), confidence(value))
    else {
        return Ok(());
    };
    let estimate = number(&accuracy["estimate"], 1.0, || format!("{at}.estimate"))?;
    let hits = (estimate * m.saturating_mul(2) as f64).round() as u64;
    if m != n || m == 0 || m > u64::from(u32::MAX) {
        return Ok(());
    }
    let (lower, upper) = ends(&Rate::of(hits, 2 * m, confidence)?.bounds);
    for (key, own) in [("lower", lower), ("upper", upper)] {
        ensure!(
            accuracy[key]
                .as_f64()
                .is_some_and(|end| (end - own).abs() <= ROUNDING),
            "{at}.{key} must be {own}, as {at}.estimate and {place}confidence say, got {}",
            got(&accuracy[key])
        );
    }
    Ok(())
}

fn confidence(value: &Value) -> Option<Confidence> {
    Confidence::new(value["confidence"].as_f64()?).ok()
}

fn area(area: &Value, place: &str) -> Result<()> {
    ensure!(
        area.is_object(),
        "{place}area must be an object, got {}",
        got(area)
    );
    let at = format!("{place}area");
    let estimate = number(&area["estimate"], 1.0, || format!("{at}.estimate"))?;
    // An interval that is open at an end omits it.
    for key in ["lower", "upper"] {
        if !area[key].is_null() {
            number(&area[key], 1.0, || format!("{at}.{key}"))?;
        }
    }
    if !area["lower"].is_null() && !area["upper"].is_null() {
        between(area, ["lower", "upper"], 1.0, &at)?;
    }
    let (lower, upper) = (area["lower"].as_f64(), area["upper"].as_f64());
    let inside = lower.is_none_or(|end| estimate >= end - ROUNDING)
        && upper.is_none_or(|end| estimate <= end + ROUNDING);
    // Percentiles of a bootstrap need not contain the estimate.
    ensure!(
        inside || area["method"] == "cluster-bootstrap",
        "{at}.estimate must be from {at}.lower to {at}.upper, got {}",
        got(&area["estimate"])
    );
    Ok(())
}

fn extraction(value: &Value, place: &str) -> Result<()> {
    if !value["suffix"].is_null() {
        whole(&value["suffix"], (1, MOST), || format!("{place}suffix"))?;
    }
    let mut lengths = BTreeSet::new();
    let rows = value["prompts"].as_array();
    ensure!(
        rows.is_some_and(|rows| !rows.is_empty()) || value["passages"].as_u64().unwrap_or(0) == 0,
        "{place}prompts must be a list of rows, as passages is {}, got {}",
        got(&value["passages"]),
        rows.map_or_else(|| got(&value["prompts"]), |_| "none".to_owned())
    );
    for (i, row) in rows.into_iter().flatten().enumerate() {
        let at = format!("{place}prompts[{i}]");
        let length = whole(&row["prompt"], (1, MOST), || format!("{at}.prompt"))?;
        ensure!(
            lengths.insert(length),
            "{at}.prompt must be its own, and another row has {length} too"
        );
        let trials = &row["verbatim"]["trials"];
        let trials = whole(trials, (1, MOST), || format!("{at}.verbatim.trials"))?;
        let hits = &row["verbatim"]["hits"];
        whole(hits, (0, trials), || format!("{at}.verbatim.hits"))?;
    }
    Ok(())
}

/// Checks both ends of an interval in [0, most], in order.
fn between(value: &Value, keys: [&str; 2], most: f64, at: &str) -> Result<()> {
    let [low, high] = keys;
    let end = |key: &str| number(&value[key], most, || format!("{at}.{key}"));
    ensure!(
        end(low)? <= end(high)?,
        "{at}.{low} must be at most {at}.{high}, got {} and {}",
        got(&value[low]),
        got(&value[high])
    );
    Ok(())
}

fn number(value: &Value, most: f64, name: impl Fn() -> String) -> Result<f64> {
    let inside = value
        .as_f64()
        .filter(|v| (0.0..=most + ROUNDING).contains(v));
    inside.with_context(|| {
        format!(
            "{} must be in [0, {}], got {}",
            name(),
            crate::number::described(most),
            got(value)
        )
    })
}

fn whole(value: &Value, range: (u64, u64), name: impl Fn() -> String) -> Result<u64> {
    let inside = value.as_u64().filter(|v| (range.0..=range.1).contains(v));
    inside.with_context(|| {
        format!(
            "{} must be a whole number from {} to {}, got {}",
            name(),
            range.0,
            range.1,
            got(value)
        )
    })
}

/// Returns a number as it is written; of any other value only its kind.
fn got(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) => "a truth value".to_owned(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
