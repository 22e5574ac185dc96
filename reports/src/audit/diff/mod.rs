//! `audit diff`: tests whether the new model leaks more than the old one, beyond noise.
//!
//! Exposures are compared canary by canary, by a paired e-value over those that rose above a line and those that fell
//! below it ([`reticent_attacks::exposure::PairedEValue`] states the hypothesis and proves the test). The new model is
//! also compared with chance alone, which counts if the old one was not seen to leak. What the new model proves about ε
//! is compared with what the old one promised. Rates and areas are compared by their intervals: "more" is said if the
//! lower end of the new one is above the upper end of the old one, which needs no independence. All rows share the
//! level; an area's interval and a verdict's bound are the document's own, so their error probabilities are subtracted,
//! and the other rows share the rest.

pub mod args;
mod checks;
mod exposures;
mod page;

use super::USUAL;
use super::args::Diff as Args;
use super::exposure::{Leak, Planting, PromisedBy, of_reached};
use crate::contract::{Csv, Envelope, Exit, Inputs, Table};
use crate::number::{count_of, nearest, rounded_down, rounded_up, shortest};
use crate::page::{Mood, Output};
use anyhow::{Context, Result, bail, ensure};
pub(super) use checks::got;
use exposures::{Against, AgainstChance, Exposures, contradicts_itself, met, planted};
use reticent_accounting::Confidence;
use reticent_attacks::membership::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The quantities of rows; the first consists of two bounds.
const PROMISE_AND_PROOF: &str = "ε, the old promise and the new proof";
const P_WITHOUT_A_LEAK: &str = "exposure, p without a leak";

/// The result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The new model leaks more.
    More,
    /// The new model leaks less.
    Less,
    /// The new model leaks, and no leak of the old one was seen.
    Appeared,
    /// No more difference than noise makes.
    Unseen,
}

/// One quantity in both documents.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// What it is.
    pub quantity: String,
    /// In the old document.
    pub old: f64,
    /// In the new one.
    pub new: f64,
    /// The result at the row's share of the level.
    pub says: Change,
    /// Whether some new model could have made it say that it leaks more, or leaks. If none could, "unseen" means
    /// nothing; `how` says why.
    pub could_say: bool,
    /// How it was decided.
    pub how: String,
}

impl Row {
    /// Formats both numbers to four digits; a bound or a p is rounded to the side on which it holds.
    fn shown(&self) -> [String; 2] {
        let rounded: [fn(f64, usize) -> String; 2] = match self.quantity.as_str() {
            PROMISE_AND_PROOF => [rounded_up, rounded_down],
            P_WITHOUT_A_LEAK => [rounded_up, rounded_up],
            _ => [nearest, nearest],
        };
        [rounded[0](self.old, 4), rounded[1](self.new, 4)]
    }
}

/// The result of `audit diff`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DiffReport {
    /// Every quantity in both documents.
    pub rows: Vec<Row>,
    /// What could not be compared, and what is unknown about the comparison; one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Parts of the old report of which nothing could be compared, rates that only it has, and canaries that the new training did
    /// not meet, if the old one met more: whether the new model leaks more there is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<String>,
    /// Parts in which the new report finds a leak and the old one none, and no row says so.
    #[serde(skip)]
    appeared: Vec<&'static str>,
    /// The level that they share.
    pub level: f64,
}

/// Two documents of one type, or the same part of both.
struct Pair<'a> {
    old: &'a Value,
    new: &'a Value,
    /// The inputs of both documents.
    inputs: [&'a Value; 2],
}

impl Pair<'_> {
    /// Returns how one of these inputs differs, if both documents name a file or model under it and not the same one.
    /// Folders differ between machines, so names are compared without them.
    fn differ(&self, inputs: &[&str]) -> Option<String> {
        inputs.iter().find_map(|input| {
            let name = |inputs: &Value| {
                if let Some(flag) = inputs[*input].as_bool() {
                    return Some(flag.to_string());
                }
                let text = inputs[*input].as_str()?.trim_end_matches('/');
                Some(text.rsplit('/').next().unwrap_or(text).to_owned())
            };
            let [old, new] = [name(self.inputs[0])?, name(self.inputs[1])?];
            (old != new).then(|| format!("{}: {old} in OLD, {new} in NEW", input.replace('_', "-")))
        })
    }

    /// Returns how the records of the documents differ, by their digests under one owner's key, otherwise by names of
    /// files and units, which is noted.
    fn other_records(&self, what: &str, names: &[&str], notes: &mut Vec<String>) -> Option<String> {
        let part = |document: &Value, part: &str| {
            let text = document["records"][part].as_str();
            text.map(str::to_owned)
        };
        let [old, new] = [self.old, self.new].map(|d| (part(d, "hmac"), part(d, "key")));
        let why = match (old, new) {
            ((Some(old), Some(under)), (Some(new), Some(other))) if under == other => {
                return (old != new).then(|| "records: their digests differ".to_owned());
            }
            ((Some(_), Some(_)), (Some(_), Some(_))) => {
                "their digests are under the keys of two owners, which tell nothing of each other"
            }
            _ => {
                "a document without a digest of them (records), of an earlier version or of scores alone, does not say it"
            }
        };
        let differ = self.differ(names);
        if differ.is_none() {
            notes.push(format!(
                "not known: whether {what} is of the same records, as {why}; names and numbers agree"
            ));
        }
        differ
    }

    /// Returns how the documents differ in one of these numbers.
    fn counts_differ(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| {
            let [old, new] = [&self.old[*name], &self.new[*name]].map(Value::as_u64);
            let (old, new) = (old?, new?);
            (old != new).then(|| format!("{}: {old} in OLD, {new} in NEW", name.replace('_', "-")))
        })
    }
}

/// Reads two documents, compares them and prints the result.
///
/// # Errors
/// Returns an error if files can't be read or are not our documents, if the documents are of different kinds, or if the
/// canaries are not the same.
pub fn run(args: &Args, output: Output) -> Result<Exit> {
    let output = output.and_page(args.html.as_deref())?;
    let report = compared(args)?;
    let [before, after] = [&args.old, &args.new].map(|path| path.display().to_string());
    let inputs = Inputs::new()
        .given("old", before.clone())?
        .given("new", after.clone())?
        .given("level", args.level)?;
    output.answer_with_rows(
        &Envelope::new("diff", inputs, &report),
        &page::page(&report, &before, &after)?,
        || Ok(Csv::of_rows(&report.rows)?),
    )?;
    Ok(report.exit())
}

/// Why one document compared with itself shows nothing.
const SAME: &str = "OLD and NEW are the same document";

/// Reads two documents and compares them. One document compared with itself shows nothing of a new model.
fn compared(args: &Args) -> Result<DiffReport> {
    ensure!(
        args.level.get() > 0.0 && args.level.get() < 1.0,
        "--level: must lie in (0, 1), got {}",
        shortest(args.level.get())
    );
    let old = document(&args.old).context("OLD")?;
    let new = document(&args.new).context("NEW")?;
    let mut report = DiffReport::of(&old, &new, args.level.get())?;
    if old == new {
        report.not_compared.push(SAME.to_owned());
    }
    Ok(report)
}

/// Reads one of our documents.
pub(super) fn document(path: &Path) -> Result<Value> {
    let text = crate::contract::read_named_text(path)?;
    let value = reticent_accounting::mechanism::json_value(&text)
        .with_context(|| format!("{} is no JSON document", path.display()))?;
    ensure!(
        value["schema"] == 1 && value["type"].is_string(),
        "{} is no document that audit wrote (no schema 1 and type in it)",
        path.display()
    );
    Ok(value)
}

/// A comparison that waits for its share of the level.
enum Waiting {
    Exposures(Exposures),
    AgainstChance(AgainstChance),
    /// What the new model proves against the old one's promise, and vice versa.
    Promised(Against, Option<Against>),
    /// The documents' own intervals decide.
    Area {
        row: Row,
        costs: f64,
    },
    /// Hits in both documents.
    Rate {
        quantity: String,
        hits: [u64; 2],
        trials: u64,
    },
}

impl DiffReport {
    /// Compares two documents of one type.
    ///
    /// # Errors
    /// Returns an error if the documents have different or unknown types, or if the canaries are not the same.
    pub fn of(old: &Value, new: &Value, level: f64) -> Result<Self> {
        ensure!(
            old["type"] == new["type"],
            "OLD is of type {} and NEW of type {}; they must be of one type",
            old["type"],
            new["type"]
        );
        let (mut waiting, mut notes) = (Vec::new(), Vec::new());
        let inputs = [&old["inputs"], &new["inputs"]];
        let (mut lacking, mut not_compared) = (Vec::new(), Vec::new());
        let (mut lost, mut appeared) = (Vec::new(), Vec::new());
        // Returns whether a part has a row, or nothing that could have had one.
        let mut compare = |part: &str, old, new, place: &str| -> Result<bool> {
            checks::checked(part, old, inputs[0], place).context("OLD")?;
            checks::checked(part, new, inputs[1], place).context("NEW")?;
            let pair = Pair { old, new, inputs };
            let before = (waiting.len(), notes.len());
            match part {
                "exposure" => waiting.extend(exposures(&pair, level, &mut notes, &mut lost)?),
                "membership" => waiting.extend(areas(&pair, &mut notes)),
                _ => waiting.extend(rates(&pair, &mut notes, &mut lost)),
            }
            Ok(waiting.len() > before.0 || notes.len() == before.1)
        };
        match old["type"].as_str().unwrap_or_default() {
            part @ ("exposure" | "membership" | "extraction") => {
                let compared = compare(part, old, new, "")?;
                appeared.extend(appears(part, old, new, compared));
            }
            "report" => {
                checks::parts(old).context("OLD")?;
                checks::parts(new).context("NEW")?;
                for part in ["exposure", "membership", "extraction"] {
                    let compared = match (old[part].is_object(), new[part].is_object()) {
                        (true, true) => compare(part, &old[part], &new[part], &format!("{part}."))?,
                        (true, false) => {
                            lacking.push(lacks(part, "NEW"));
                            false
                        }
                        (false, true) => {
                            lacking.push(lacks(part, "OLD"));
                            true
                        }
                        (false, false) => true,
                    };
                    if !compared {
                        not_compared.push(part.to_owned());
                    }
                    let both = compared && old[part].is_object();
                    appeared.extend(appears(part, &old[part], &new[part], both));
                }
            }
            other => {
                bail!("type must be exposure, membership, extraction or report, got {other:?}")
            }
        }
        not_compared.extend(lost);
        notes.extend(lacking);
        ensure!(
            !waiting.is_empty(),
            "the documents hold nothing in common{}",
            notes
                .iter()
                .map(|note| format!("; {note}"))
                .collect::<String>()
        );
        let costs: f64 = waiting.iter().map(Waiting::costs).sum();
        let areas = waiting.iter().any(|w| matches!(w, Waiting::Area { .. }));
        let sharing = waiting.iter().filter(|w| w.costs() <= 0.0).count();
        let left = level - costs;
        let enough = left > -1e-9 && (sharing == 0 || left > 1e-9);
        ensure!(
            enough || !areas,
            "--level: the AUC's intervals take {} of {}; run audit membership with a larger --confidence, or give a larger level",
            nearest(costs, 3),
            nearest(level, 3)
        );
        ensure!(
            enough,
            "--level: must be above {} for these documents, got {}",
            nearest(costs + 1e-9, 3),
            shortest(level)
        );
        let each = left.max(0.0) / sharing.max(1) as f64;
        let rows = waiting.into_iter().map(|w| w.decided(each));
        let report = Self {
            rows: rows.collect::<Result<_>>()?,
            notes,
            not_compared,
            appeared,
            level,
        };
        // A leak stands, whatever the rest shows.
        if report.exit() == Exit::Finished {
            let [before, canaries] =
                [old, new].map(|document| match document["type"] == "report" {
                    true => &document["exposure"],
                    false => document,
                });
            let cut_off = is_cut_off(canaries).then_some(CUT_OFF);
            let unstated = lacks_planting(before, canaries).then_some(UNSTATED);
            // Nor does a leak show that training met all canaries, and one in twenty is seen by chance.
            if let Some(why) = unmet(canaries).or(unstated).or(cut_off) {
                bail!("NEW: that it leaks no more cannot be concluded, since {why}");
            }
        }
        Ok(report)
    }

    /// Returns 1 if the new model leaks more, or leaks where the old one was not seen to.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::of(self.has(Change::More) || self.has(Change::Appeared))
    }

    fn has(&self, change: Change) -> bool {
        self.rows.iter().any(|row| row.says == change)
    }

    fn table(&self) -> Table {
        Table::of(&self.rows)
            .left("quantity", |row| &row.quantity)
            .right("old", |row| row.shown()[0].clone())
            .right("new", |row| row.shown()[1].clone())
            .left("leaks", |row| match row.says {
                Change::More => "more",
                Change::Less => "less",
                Change::Appeared => "yes, the old one unseen",
                Change::Unseen if !row.could_say => "not known",
                Change::Unseen => "no more than noise",
            })
            .left("how", |row| &row.how)
            .into()
    }

    /// Returns the mood if nothing leaks more.
    fn otherwise(&self) -> Mood {
        let unknown = !self.not_compared.is_empty() || !self.appeared.is_empty();
        match self.is_silent() || unknown {
            true => Mood::Open,
            false => Mood::Plain,
        }
    }

    /// Returns whether no row shows a difference and none could have shown that the new model leaks more.
    fn is_silent(&self) -> bool {
        let silent = |row: &Row| row.says == Change::Unseen && !row.could_say;
        self.rows.iter().all(silent)
    }

    fn said(&self) -> String {
        let said = self.of_rows();
        match self.not_compared.as_slice() {
            [] => said,
            [.., last] if last == SAME => format!("{SAME}."),
            parts => format!("{said} Not compared: {}.", parts.join(", ")),
        }
    }

    /// Describes what the rows show.
    fn of_rows(&self) -> String {
        let silent = self.rows.iter().filter(|row| !row.could_say).count();
        let rows = self.rows.len();
        if self.has(Change::More) {
            "The new model leaks more than the old one.".to_owned()
        } else if self.has(Change::Appeared) {
            "The new model leaks, and the old one was not seen to.".to_owned()
        } else if !self.appeared.is_empty() {
            format!(
                "NEW finds a leak where OLD finds none ({}): whether the new model leaks more is not known.",
                self.appeared.join(", ")
            )
        } else if self.has(Change::Less) {
            self.less_said(silent)
        } else if self.is_silent() {
            "Nothing can be concluded: whatever the new model leaks, no row could have said so."
                .to_owned()
        } else if silent > 0 {
            format!(
                "No sign that the new model leaks more than the old one; {silent} of {} could not have said so whatever it leaks.",
                count_of(rows as u64, "row")
            )
        } else {
            "No sign that the new model leaks more than the old one. Small samples see small differences badly.".to_owned()
        }
    }

    /// Describes that the new model leaks less, if no row shows more.
    fn less_said(&self, silent: usize) -> String {
        let rows = self.rows.len();
        let less = self.rows.iter().filter(|row| row.says == Change::Less);
        let by = match less.count() {
            all if all == rows => String::new(),
            less => format!(
                " by {less} of {}, and by none more",
                count_of(rows as u64, "row")
            ),
        };
        let unheard = match silent {
            0 => String::new(),
            _ => format!(
                "; {silent} of {} could not have said more whatever it leaks",
                count_of(rows as u64, "row")
            ),
        };
        format!("The new model leaks less than the old one{by}{unheard}.")
    }

    fn level_said(&self) -> String {
        format!(
            "All rows together say \"more\" of a model that leaks no more, or \"yes\" of one that does not leak, with probability {} at most.",
            nearest(self.level, 3)
        )
    }
}

impl Waiting {
    /// Returns the part of the level that this comparison uses, whatever the others do.
    const fn costs(&self) -> f64 {
        match self {
            Self::Area { costs, .. } => *costs,
            Self::Promised(against, _) => against.costs(),
            Self::Exposures(_) | Self::AgainstChance(_) | Self::Rate { .. } => 0.0,
        }
    }

    fn decided(self, level: f64) -> Result<Row> {
        Ok(match self {
            Self::Exposures(both) => Row {
                quantity: "exposure, mean bits".to_owned(),
                old: both.means.0,
                new: both.means.1,
                says: both.says(level),
                could_say: both.could_say(level)?,
                how: both.how(level)?,
            },
            Self::AgainstChance(both) => Row {
                quantity: P_WITHOUT_A_LEAK.to_owned(),
                old: both.p_values.0,
                new: both.p_values.1,
                says: if both.appeared(level) {
                    Change::Appeared
                } else {
                    Change::Unseen
                },
                could_say: both.silence(level).is_none(),
                how: both.how(level),
            },
            Self::Promised(more, less) => {
                let beyond = |against: &Against| {
                    Ok::<_, anyhow::Error>(against.proved(level)?.0 > against.promised)
                };
                Row {
                    quantity: PROMISE_AND_PROOF.to_owned(),
                    old: more.promised,
                    new: more.proved(level)?.0,
                    says: if beyond(&more)? {
                        Change::More
                    } else if less.as_ref().map_or(Ok(false), beyond)? {
                        Change::Less
                    } else {
                        Change::Unseen
                    },
                    could_say: more.could_say(level)?,
                    how: more.how(level)?,
                }
            }
            Self::Area { row, .. } => row,
            Self::Rate {
                quantity,
                hits,
                trials,
            } => {
                let confidence = Confidence::new(1.0 - level)?;
                let rate = |hits| Rate::of(hits, trials, confidence);
                let (before, after, all) = (rate(hits[0])?, rate(hits[1])?, rate(trials)?);
                let (line, highest) = (super::ends(&before.bounds).1, super::ends(&all.bounds).0);
                Row {
                    quantity,
                    old: before.estimate,
                    new: after.estimate,
                    says: apart(super::ends(&before.bounds), super::ends(&after.bounds)),
                    could_say: highest > line,
                    how: how("Clopper–Pearson intervals", line, highest),
                }
            }
        })
    }
}

/// Returns the name of a part in which the new document finds a leak and the old one none, if no row says so: it is not compared,
/// or is membership, whose row is about the deciding attack alone.
fn appears(part: &str, old: &Value, new: &Value, compared: bool) -> Option<&'static str> {
    let (name, found): (_, fn(&Value) -> bool) = match part {
        "exposure" if !compared => ("exposure", leaks),
        "membership" => ("membership", |document| document["signal"] == "leak"),
        "extraction" if !compared => ("extraction", comes_out),
        _ => return None,
    };
    (found(new) && !found(old)).then_some(name)
}

/// Returns whether a passage comes out word for word.
fn comes_out(document: &Value) -> bool {
    let mut rows = document["prompts"].as_array().into_iter().flatten();
    rows.any(|row| row["verbatim"]["hits"].as_u64() > Some(0))
}

/// Why canaries that don't stand out say nothing.
const NOT_PLANNED: &str = "the plan of its training did not include its canaries";

/// Why canaries that don't stand out say nothing, if nobody checked what training met.
const NOT_CHECKED: &str =
    "that training met its canaries was not checked; give audit exposure --training";

/// Why canaries that don't stand out say nothing, if the document does not say what training met.
const UNSTATED: &str =
    "it lacks planting, which OLD has: whether training met its canaries is not known";

/// Returns whether the new document lacks what the old one says of whether training met its canaries.
fn lacks_planting(old: &Value, new: &Value) -> bool {
    new["canaries"].is_array() && new["planting"].is_null() && !old["planting"].is_null()
}

/// Returns why canaries that don't stand out say nothing: training is not known to have met them.
fn unmet(document: &Value) -> Option<&'static str> {
    match Planting::deserialize(&document["planting"]).ok()? {
        Planting::NotPlanned | Planting::UnplannedText => Some(NOT_PLANNED),
        Planting::NotChecked => Some(NOT_CHECKED),
        Planting::Planted
        | Planting::NoCopy
        | Planting::TrainedRecords
        | Planting::GivenText
        | Planting::Supervised => None,
    }
}

/// Returns whether canaries leak.
fn leaks(document: &Value) -> bool {
    let summary = &document["summary"];
    let seen = |key: &str| summary[key].as_f64().is_some_and(|p| p < Leak::EACH);
    seen("p_max") || seen("p_mean") || proves_leak(document)
}

/// Returns whether the bound on ε shows a leak; documents of earlier versions don't state it, and it is that of the bound
/// that decides.
fn proves_leak(document: &Value) -> bool {
    let by_evalues = &document["e_value"];
    let bound = match by_evalues["decides"] == "e-value" {
        true => &by_evalues["epsilon"],
        false => &document["epsilon"],
    };
    let is = |key: &str, holds: fn(f64) -> bool| bound[key].as_f64().is_some_and(holds);
    document["proves_leak"].as_bool().unwrap_or_else(|| {
        is("confidence", |level| level >= USUAL) && is("lower", |lower| lower > 0.0)
    })
}

/// Why ranks that are only known as lower bounds say nothing.
pub(super) const CUT_OFF: &str = "its search was cut off before every rank was found";

/// Returns whether some candidates were not resolved, so that it is unknown whether they are likelier than a canary.
pub(super) fn is_cut_off(document: &Value) -> bool {
    let canaries = document["canaries"].as_array().into_iter().flatten();
    canaries
        .into_iter()
        .any(|canary| canary["unresolved"].as_u64() > Some(0))
}

/// That one document has not what the other has.
fn lacks(what: &str, which: &str) -> String {
    format!("not compared: {what}, which {which} lacks")
}

/// Returns whether every canary ties with all its candidates, which documents of earlier versions don't state.
fn is_mute(document: &Value) -> bool {
    let all = |canary: &Value| {
        let rank = &canary["rank"];
        rank["min"] == 1 && rank["max"] == document["candidates"] && canary["unresolved"] == 0
    };
    document["candidates"] != 1
        && document["canaries"]
            .as_array()
            .is_some_and(|canaries| !canaries.is_empty() && canaries.iter().all(all))
}

/// Returns the comparisons that two exposure documents allow. If the new training met fewer canaries than the old one, this is
/// added to `lost`.
fn exposures(
    pair: &Pair,
    level: f64,
    notes: &mut Vec<String>,
    lost: &mut Vec<String>,
) -> Result<Vec<Waiting>> {
    let (old, new) = (pair.old, pair.new);
    for (document, which) in [(old, "OLD"), (new, "NEW")] {
        let (met, planted) = (met(document), planted(document));
        if met < planted {
            notes.push(format!("{which}: {}", of_reached(met, planted)));
        }
        if document["planting"].is_null() && (which == "NEW" || !leaks(document)) {
            let unsaid = format!(
                "what the silence of {which}'s canaries means, as a document without planting, of an earlier version, does not say whether its training met them"
            );
            match which {
                "NEW" => lost.push(unsaid),
                _ => notes.push(format!("not known: {unsaid}")),
            }
        }
        let why = match document["planting"].as_str() {
            _ if document["inconclusive"] == true || is_mute(document) => {
                "the model gives its canaries no finite perplexity, all their candidates the same one, or ranks them lower than chance explains"
            }
            Some("no-copy") => "no copy of its canaries reached training",
            // For the new model, what it shows still stands.
            _ if which == "OLD" && is_cut_off(document) => CUT_OFF,
            // What the new model leaks beyond the old one still stands, and so does what the old one leaked.
            _ => match unmet(document).filter(|_| which == "OLD" && !leaks(old)) {
                // Beside a new model whose training met them, or which leaks, silence nobody checked is a reading.
                Some(NOT_CHECKED) if unmet(new).is_none() || leaks(new) => {
                    notes.push(format!("OLD: {NOT_CHECKED}"));
                    continue;
                }
                Some(why) => why,
                None => continue,
            },
        };
        bail!("{which}: nothing can be concluded from it, since {why}");
    }
    match [old, new].map(|d| d["canary_digest"].as_str()) {
        [Some(before), Some(after)] => ensure!(
            before == after,
            "OLD and NEW must be of the same canaries: their canary_digest differs, so secrets or the words around them differ"
        ),
        _ => notes.push(
            "not known: whether the canaries are the same, as a document without canary_digest, of an earlier version, does not say it; their names and candidates agree".to_owned(),
        ),
    }
    if met(new) < met(old) {
        let unmet = count_of(planted(new) - met(new), "canary");
        lost.push(format!(
            "the exposure of {unmet} that NEW's training did not meet"
        ));
    }
    let mut both = vec![Waiting::Exposures(Exposures::of(old, new)?)];
    both.extend(AgainstChance::of(old, new, notes).map(Waiting::AgainstChance));
    let (first, second) = ((old, "OLD"), (new, "NEW"));
    match Against::of(first, second, level) {
        Ok(more) => {
            let less = Against::of(second, first, level).ok();
            // Such a promise does not show that the new model leaks less.
            if contradicts_itself(new) {
                notes.push(
                    "not compared: the new promise and the old proof (NEW contradicts its own promise)"
                        .to_owned(),
                );
            }
            notes.extend(about_the_promise(old, "OLD"));
            notes.extend(less.as_ref().and_then(|_| about_the_promise(new, "NEW")));
            both.push(Waiting::Promised(more, less));
        }
        // If neither has a verdict, neither promised anything.
        Err(why) if !old["verdict"].is_null() || !new["verdict"].is_null() => notes.push(format!(
            "not compared: ε, the old promise and the new proof ({why})"
        )),
        Err(_) => {}
    }
    Ok(both)
}

/// Returns what is to be said of the promise of a document: that a file states it, and what its audit said of the manifest.
fn about_the_promise(document: &Value, which: &str) -> Option<String> {
    let by = PromisedBy::deserialize(&document["promised_by"]).ok();
    let by = by.map(|by| format!("promised by {by}"));
    let manifest = document["manifest"].as_str().map(str::to_owned);
    let said: Vec<String> = by.into_iter().chain(manifest).collect();
    (!said.is_empty()).then(|| format!("the promise of {which}: {}", said.join("; ")))
}

/// Describes how intervals were compared, and says so if the new one could not have been above the old one.
fn how(intervals: &str, line: f64, highest: f64) -> String {
    if highest > line {
        return intervals.to_owned();
    }
    format!(
        "{intervals}; it cannot say more: at best the new one's would begin at {}, and the old one's ends at {}",
        rounded_up(highest, 4),
        rounded_down(line, 4)
    )
}

/// Returns `More` if the new interval is above the old one. If the new model doesn't leak more, one of the two
/// intervals then misses its quantity on the side that matters; the probabilities of this add up, whatever the
/// dependence of the two.
fn apart(old: (f64, f64), new: (f64, f64)) -> Change {
    if new.0 > old.1 {
        Change::More
    } else if new.1 < old.0 {
        Change::Less
    } else {
        Change::Unseen
    }
}

/// Compares the area of the deciding attack, if both documents name the same attack on the same records.
fn areas(pair: &Pair, notes: &mut Vec<String>) -> Option<Waiting> {
    let (old, new) = (pair.old, pair.new);
    let decides = |document: &Value| {
        let name = document["attacks"]["decides"].as_str();
        name.unwrap_or("the scores").to_owned()
    };
    let names = |document: &Value| -> BTreeSet<String> {
        let rows = document["attacks"]["rows"].as_array();
        let names = rows.into_iter().flatten();
        names
            .filter_map(|row| Some(row["attack"].as_str()?.to_owned()))
            .collect()
    };
    let (before, after) = (names(old), names(new));
    let alone = before.difference(&after).map(|name| (name, "NEW"));
    let alone = alone.chain(after.difference(&before).map(|name| (name, "OLD")));
    notes.extend(alone.map(|(name, which)| lacks(&format!("the attack {name}"), which)));
    let attack = decides(old);
    let differ = (attack != decides(new))
        .then(|| format!("deciding attack: {attack} in OLD, {} in NEW", decides(new)))
        .or_else(|| pair.counts_differ(&["members", "non_members"]))
        .or_else(|| pair.differ(&["reference", "lower_is_member"]))
        .or_else(|| pair.other_records("the AUC", &["members", "non_members"], notes));
    let both = before.intersection(&after).filter(|name| **name != attack);
    let others: Vec<&str> = both.map(String::as_str).collect();
    if !others.is_empty() {
        notes.push(format!("not compared: the AUC of {}", others.join(", ")));
    }
    if new["signal"] == "leak" && old["signal"] != "leak" {
        notes.push("the attacks together find a leak in NEW, and found none in OLD".to_owned());
    }
    if let Some(differ) = differ {
        notes.push(format!("not compared: the AUC ({differ})"));
        return None;
    }
    let costs = [old, new].map(|d| 1.0 - d["confidence"].as_f64().unwrap_or(0.0));
    let silent = says_nothing(new).or_else(|| {
        let reversed = old["area"]["upper"].as_f64()? < 0.5;
        reversed.then_some("members score lower than non-members in OLD")
    });
    let end =
        |document: &Value, key: &str, open: f64| document["area"][key].as_f64().unwrap_or(open);
    let ends = |document: &Value| (end(document, "lower", 0.0), end(document, "upper", 1.0));
    let (before, highest) = (ends(old), highest_area(new));
    let row = Row {
        quantity: format!("membership, AUC of {attack}"),
        old: end(old, "estimate", f64::NAN),
        new: end(new, "estimate", f64::NAN),
        says: match silent {
            Some(_) => Change::Unseen,
            None => apart(before, ends(new)),
        },
        could_say: silent.is_none() && highest > before.1,
        how: silent.map_or_else(
            || how("the documents' intervals", before.1, highest),
            str::to_owned,
        ),
    };
    Some(Waiting::Area {
        row,
        // Half of each interval's failure probability is on the side that matters.
        costs: f64::midpoint(costs[0], costs[1]),
    })
}

/// Returns why scores say nothing about leaks: they have the opposite sign, or are all equal.
fn says_nothing(document: &Value) -> Option<&'static str> {
    let upper = document["area"]["upper"].as_f64();
    let corners = document["roc"].as_array().map_or(0, Vec::len);
    if upper.is_some_and(|upper| upper < 0.5) {
        Some("members score lower than non-members in NEW, as losses do without --lower-is-member")
    } else if corners == 2 && document["area"]["estimate"] == 0.5 {
        Some("all scores are equal in NEW")
    } else {
        None
    }
}

/// Returns the largest lower end that an area can have with so many independent records of a kind, at the document's
/// confidence: a share u of them goes unseen with probability (1 − u)^n, which is half of the failure probability. An
/// unknown number limits nothing.
fn highest_area(document: &Value) -> f64 {
    let counts = ["members", "non_members", "groups"].map(|name| document[name].as_u64());
    let confidence = document["confidence"].as_f64().unwrap_or(0.0);
    counts.into_iter().flatten().min().map_or(1.0, |fewest| {
        (0.5 * (1.0 - confidence)).powf(1.0 / fewest as f64)
    })
}

/// Compares rates of extraction with the prompts that both documents have, for the same suffixes of the same records.
/// Those of the old document that can't be compared are added to `lost`, unless nothing can.
fn rates(pair: &Pair, notes: &mut Vec<String>, lost: &mut Vec<String>) -> Vec<Waiting> {
    let by_prompt = |document: &Value| -> BTreeMap<u64, (u64, u64)> {
        let prompts = document["prompts"].as_array();
        let rows = prompts.into_iter().flatten();
        rows.filter_map(|row| {
            let count = |key: &str| row["verbatim"][key].as_u64();
            Some((row["prompt"].as_u64()?, (count("hits")?, count("trials")?)))
        })
        .collect()
    };
    let (before, mut after) = (by_prompt(pair.old), by_prompt(pair.new));
    // A report names its records as members.
    if before.is_empty() && after.is_empty() {
        return Vec::new();
    }
    let names = ["data", "members", "unit"];
    let differ = pair
        .counts_differ(&["suffix", "passages"])
        .or_else(|| pair.other_records("extraction", &names, notes));
    if let Some(differ) = differ {
        notes.push(format!("not compared: rates of extraction ({differ})"));
        return Vec::new();
    }
    let (mut both, mut missing) = (Vec::new(), Vec::new());
    for (prompt, (hits, trials)) in before {
        let behind = format!("behind {prompt} tokens");
        match after.remove(&prompt) {
            None => {
                notes.push(lacks(&format!("verbatim {behind}"), "NEW"));
                missing.push(format!("verbatim {behind}"));
            }
            Some((_, other)) if other != trials => {
                notes.push(format!(
                    "not compared: verbatim {behind} (passages: {trials} in OLD, {other} in NEW)"
                ));
                missing.push(format!("verbatim {behind}"));
            }
            Some((new, _)) => both.push(Waiting::Rate {
                quantity: format!("verbatim {behind}"),
                hits: [hits, new],
                trials,
            }),
        }
    }
    let alone = after.keys();
    notes.extend(alone.map(|prompt| lacks(&format!("verbatim behind {prompt} tokens"), "OLD")));
    if !both.is_empty() {
        lost.extend(missing);
    }
    both
}

#[cfg(test)]
mod simulations;
#[cfg(test)]
mod tests;
