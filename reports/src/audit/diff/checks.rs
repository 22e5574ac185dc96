//! Checks of a document before anything is concluded from it, since it may come from anyone.

use super::super::ends;
use super::exposures::planted;
use crate::audit::exposure::Planting;
use crate::audit::membership::CORNERS;
use crate::number::described;
use anyhow::{Context, Result, ensure};
use reticent_accounting::Confidence;
use reticent_attacks::Draw;
use reticent_attacks::exposure::ExposureSummary;
use reticent_attacks::membership::{AreaMethod, Rate, ScoreSet};
use reticent_attacks::search::RankCount;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Deref;

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

/// A value of a document, with its name there.
struct Field<'a> {
    value: &'a Value,
    name: String,
}

impl<'a> Field<'a> {
    fn at(&self, key: &str) -> Self {
        Self {
            value: &self.value[key],
            name: match self.name.as_str() {
                "" => key.to_owned(),
                name => format!("{name}.{key}"),
            },
        }
    }
    /// Returns the items of a list; nothing has none.
    fn items(&self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().into_iter().flatten();
        items.enumerate().map(move |(i, value)| Self {
            value,
            name: format!("{}[{i}]", self.name),
        })
    }
    /// # Errors
    /// Returns an error that names the value and says what it must be, unless that `holds`.
    fn must(&self, holds: bool, what: impl Display) -> Result<()> {
        ensure!(holds, self.must_be(what));
        Ok(())
    }
    fn must_be(&self, what: impl Display) -> String {
        format!("{} must be {what}, got {}", self.name, got(self.value))
    }
    fn number(&self, most: f64) -> Result<f64> {
        let inside = self
            .as_f64()
            .filter(|v| (0.0..=most + ROUNDING).contains(v));
        inside.with_context(|| self.must_be(format_args!("in [0, {}]", described(most))))
    }
    fn whole(&self, (least, most): (u64, u64)) -> Result<u64> {
        let inside = self.as_u64().filter(|v| (least..=most).contains(v));
        inside.with_context(|| self.must_be(format_args!("a whole number from {least} to {most}")))
    }
    /// Checks both ends of an interval in [0, most], in order.
    fn between(&self, keys: [&str; 2], most: f64) -> Result<()> {
        let [low, high] = keys.map(|key| self.at(key));
        ensure!(
            low.number(most)? <= high.number(most)?,
            "{} must be at most {}, got {} and {}",
            low.name,
            high.name,
            got(low.value),
            got(high.value)
        );
        Ok(())
    }
}

impl Deref for Field<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value
    }
}

/// Checks a part of a document, or the document itself.
///
/// # Errors
/// Returns an error with the name (after `place`) and the range of a field that is out of its range.
pub(super) fn checked(part: &str, value: &Value, inputs: &Value, place: &str) -> Result<()> {
    let name = place.trim_end_matches('.').to_owned();
    let value = &Field { value, name };
    let confidence = value.at("confidence");
    if !confidence.is_null() || part == "membership" {
        confidence.must(is_inside(&confidence), "in (0, 1)")?;
        let given = &inputs["confidence"];
        let as_given = given
            .as_f64()
            .is_none_or(|c| confidence.as_f64() == Some(c));
        confidence.must(
            part == "exposure" || as_given,
            format_args!("inputs.confidence, {given}"),
        )?;
    }
    let records = value.at("records");
    for key in ["hmac", "key"] {
        let digest = records.at(key);
        digest.must(records.is_null() || digest.is_string(), "a text")?;
    }
    match part {
        "exposure" => exposure(value),
        "membership" => membership(value),
        _ => extraction(value),
    }
}

/// Checks that a report contains what its inputs ask for, or says why not.
///
/// # Errors
/// Returns an error with the name of an absent part.
pub(super) fn parts(report: &Value) -> Result<()> {
    let inputs = &report["inputs"];
    let given = |names: &[&str]| names.iter().any(|name| !inputs[*name].is_null());
    for (part, is_wanted, excuse) in [
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
        let field = Field {
            value: &report[part],
            name: part.to_owned(),
        };
        field.must(present || !is_wanted, "an object, as inputs ask for it")?;
    }
    Ok(())
}

fn is_inside(share: &Value) -> bool {
    share
        .as_f64()
        .is_some_and(|share| share > 0.0 && share < 1.0)
}

fn exposure(value: &Field<'_>) -> Result<()> {
    let digest = value.at("canary_digest");
    digest.must(digest.is_null() || digest.is_string(), "a text")?;
    let draw = value.at("draw");
    let known = draw.is_null() || *draw == "independent" || *draw == "distinct";
    draw.must(known, "independent or distinct")?;
    let planting = value.at("planting");
    let known = planting.is_null() || Planting::deserialize(planting.value).is_ok();
    planting.must(known, "one of those that its schema lists")?;
    verdict(&value.at("verdict"))?;
    let candidates = value.at("candidates").whole((1, MOST))?;
    let most = (candidates as f64).log2();
    let canaries = value.at("canaries");
    ensure!(canaries.is_array(), "{} must be a list", canaries.name);
    let reached = value.at("reached");
    if !reached.is_null() {
        reached.whole((0, planted(value)))?;
    }
    let proves = value.at("proves_leak");
    proves.must(proves.is_null() || proves.is_boolean(), "true or false")?;
    let mut ids = BTreeSet::new();
    for canary in canaries.items() {
        let Field { value: id, name } = canary.at("id");
        let id = id.as_str();
        let id = id.with_context(|| format!("{name} must be a string"))?;
        ensure!(
            ids.insert(id),
            "{name} must be its own, and another canary has it"
        );
        let copies = canary.at("copies");
        if !copies.is_null() {
            copies.whole((0, u64::from(u32::MAX)))?;
        }
        let bits = canary.at("exposure");
        bits.between(["min", "max"], most)?;
        let rank = canary.at("rank");
        if !rank.is_null() {
            let [low, high] = ["min", "max"].map(|key| rank.at(key));
            let [least, largest] = [&low, &high].map(|end| end.whole((1, candidates)));
            let ends = [("max", least?), ("min", largest?)];
            ensure!(
                ends[0].1 <= ends[1].1,
                "{} must be at most {}",
                low.name,
                high.name
            );
            for (key, rank) in ends {
                let own = most - (rank as f64).log2();
                let end = bits.at(key);
                let same = end.as_f64().is_some_and(|bits| agree(bits, own));
                end.must(same, format_args!("{own}, as the rank says"))?;
            }
        }
    }
    against_chance(value, candidates)
}

/// Checks that p of maximum and mean agree with the ranks, if the document contains all of them.
fn against_chance(value: &Field<'_>, candidates: u64) -> Result<()> {
    let (Some(counts), Ok(draw)) = (ranks(value, candidates), drawn(value)) else {
        return Ok(());
    };
    let Ok(found) = ExposureSummary::of(&counts, draw) else {
        return Ok(());
    };
    for (key, own) in [("p_max", found.max()), ("p_mean", found.mean())] {
        let (p, own) = (value.at("summary").at(key), own.p_value());
        let same = p.as_f64().is_none_or(|p| agree(p, own));
        p.must(same, format_args!("{own}, as the ranks say"))?;
    }
    Ok(())
}

/// Returns the ranks of all canaries, if a document has them.
pub(super) fn ranks(document: &Value, candidates: u64) -> Option<Vec<RankCount>> {
    let canaries = document["canaries"].as_array();
    let counts = canaries.into_iter().flatten().map(|canary| {
        let rank = |key: &str| canary["rank"][key].as_u64();
        Some(RankCount::of_ranks(candidates, rank("min")?, rank("max")?))
    });
    counts.collect()
}

/// Returns how a document's canaries were drawn.
pub(super) fn drawn(document: &Value) -> serde_json::Result<Draw> {
    Draw::deserialize(&document["draw"])
}

/// Returns whether two numbers agree; they were written in decimal, perhaps by another version that rounds
/// differently.
fn agree(one: f64, two: f64) -> bool {
    (one - two).abs() <= ROUNDING.max(1e-3 * two.abs())
}

/// Checks the promise and the proof, if there is a verdict.
fn verdict(verdict: &Field<'_>) -> Result<()> {
    if verdict.is_null() {
        return Ok(());
    }
    verdict.must(verdict.is_object(), "an object")?;
    let alarm = verdict.at("false_alarm");
    alarm.must(is_inside(&alarm), "in (0, 1)")?;
    let at_least = verdict.at("at_least");
    let proved = at_least.number(MOST_EPSILON)?;
    let [at_most, provable] = ["at_most", "provable"].map(|key| verdict.at(key));
    for end in [&at_most, &provable] {
        // Documents of earlier versions don't state what could have been proved.
        let absent = end.name == provable.name && end.is_null();
        let inside = absent || **end == "inf" || end.as_f64().is_some_and(|e| e >= 0.0);
        end.must(inside, "a number in [0, inf) or \"inf\"")?;
    }
    ensure!(
        provable
            .as_f64()
            .is_none_or(|most| proved <= most + ROUNDING),
        "{} must be at most {}, got {} and {}",
        at_least.name,
        provable.name,
        got(&at_least),
        got(&provable)
    );
    Ok(())
}

fn membership(value: &Field<'_>) -> Result<()> {
    for key in ["members", "non_members", "groups"] {
        let count = value.at(key);
        if !count.is_null() {
            count.whole((0, MOST))?;
        }
    }
    area(&value.at("area"))?;
    from_roc(value)?;
    accuracy(value)
}

/// Checks that the area is that of the curve. Without groups, scores in the order of the curve must also give the
/// interval: approximately, if corners of the curve were left out, between which scores count as equal.
fn from_roc(value: &Field<'_>) -> Result<()> {
    let (area, roc) = (value.at("area"), value.at("roc"));
    let (least, most) = below(&roc)?;
    let estimate = area.at("estimate");
    let inside = (least - ROUNDING..=most + ROUNDING).contains(&estimate.number(1.0)?);
    estimate.must(
        inside,
        format_args!("from {least} to {most}, as {} says", roc.name),
    )?;
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
    let (roc, confidence) = (roc.name, value.at("confidence").name);
    for (key, own) in [
        ("estimate", found.estimate),
        ("lower", lower),
        ("upper", upper),
    ] {
        area.at(key).must(
            near(key, own),
            format_args!("{own} to within {room}, as {roc} and {confidence} say"),
        )?;
    }
    Ok(())
}

/// Returns the least and the largest area under an increasing curve through these corners.
fn below(roc: &Field<'_>) -> Result<(f64, f64)> {
    let name = &roc.name;
    ensure!(roc.is_array(), "{name} must be a list of corners");
    let mut corners = Vec::new();
    for corner in roc.items() {
        let at = |key: &str| corner.at(key).number(1.0);
        corners.push((at("fpr")?, at("tpr")?));
    }
    corners.push((1.0, 1.0));
    let (mut least, mut most) = (0.0, 0.0);
    let mut before = (0.0, 0.0);
    for (i, (fpr, tpr)) in corners.into_iter().enumerate() {
        ensure!(
            fpr >= before.0 - ROUNDING && tpr >= before.1 - ROUNDING,
            "{name}[{i}] must be no less than the corner before"
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
fn accuracy(value: &Field<'_>) -> Result<()> {
    let accuracy = value.at("accuracy");
    let count = |key: &str| accuracy[key].as_u64();
    let (Some(m), Some(n), Some(confidence)) =
        (count("members"), count("non_members"), confidence(value))
    else {
        return Ok(());
    };
    let estimate = accuracy.at("estimate");
    let hits = (estimate.number(1.0)? * m.saturating_mul(2) as f64).round() as u64;
    if m != n || m == 0 || m > u64::from(u32::MAX) {
        return Ok(());
    }
    let (lower, upper) = ends(&Rate::of(hits, 2 * m, confidence)?.bounds);
    let (estimate, confidence) = (estimate.name, value.at("confidence").name);
    for (key, own) in [("lower", lower), ("upper", upper)] {
        let end = accuracy.at(key);
        let near = end.as_f64().is_some_and(|e| (e - own).abs() <= ROUNDING);
        end.must(
            near,
            format_args!("{own}, as {estimate} and {confidence} say"),
        )?;
    }
    Ok(())
}

fn confidence(value: &Value) -> Option<Confidence> {
    Confidence::new(value["confidence"].as_f64()?).ok()
}

fn area(area: &Field<'_>) -> Result<()> {
    area.must(area.is_object(), "an object")?;
    let [estimate, lower, upper] = ["estimate", "lower", "upper"].map(|key| area.at(key));
    let middle = estimate.number(1.0)?;
    // An interval that is open at an end omits it.
    for end in [&lower, &upper] {
        if !end.is_null() {
            end.number(1.0)?;
        }
    }
    if !lower.is_null() && !upper.is_null() {
        area.between(["lower", "upper"], 1.0)?;
    }
    let inside = lower.as_f64().is_none_or(|end| middle >= end - ROUNDING)
        && upper.as_f64().is_none_or(|end| middle <= end + ROUNDING);
    // Percentiles of a bootstrap need not contain the estimate.
    estimate.must(
        inside || area["method"] == "cluster-bootstrap",
        format_args!("from {} to {}", lower.name, upper.name),
    )
}

fn extraction(value: &Field<'_>) -> Result<()> {
    let suffix = value.at("suffix");
    if !suffix.is_null() {
        suffix.whole((1, MOST))?;
    }
    let mut lengths = BTreeSet::new();
    let prompts = value.at("prompts");
    let rows = prompts.as_array();
    ensure!(
        rows.is_some_and(|rows| !rows.is_empty()) || value["passages"].as_u64().unwrap_or(0) == 0,
        "{} must be a list of rows, as passages is {}, got {}",
        prompts.name,
        got(&value["passages"]),
        rows.map_or_else(|| got(&prompts), |_| "none".to_owned())
    );
    for row in prompts.items() {
        let prompt = row.at("prompt");
        let length = prompt.whole((1, MOST))?;
        ensure!(
            lengths.insert(length),
            "{} must be its own, and another row has {length} too",
            prompt.name
        );
        let verbatim = row.at("verbatim");
        let trials = verbatim.at("trials").whole((1, MOST))?;
        verbatim.at("hits").whole((0, trials))?;
    }
    Ok(())
}

/// Returns a number as it is written; of any other value only its kind.
pub(in crate::audit) fn got(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) => "a truth value".to_owned(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
