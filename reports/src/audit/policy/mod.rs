//! `audit policy`: measures what a policy finds in a corpus, and how much of what is marked there.

pub mod args;

use super::args::Policy;
use super::owner_key::with_policy;
use super::published::published;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Table};
use crate::number::{count_of, grouped, nearest};
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result};
use reticent_corpus::policy::{Cover, EntityKind, Levels, PolicyChoice};
use reticent_corpus::screening::{PolicyJudge, ScreeningRecord, Words, screening_records};
use reticent_corpus::tagger::TaggerModel;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a policy names alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct SpanCounts {
    /// Spans.
    pub spans: u64,
    /// Records with one.
    pub records: u64,
    /// Spans that overlap a marked secret; absent if nothing is marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<u64>,
    /// right / spans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
}

/// Marked secrets of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct MarkedCounts {
    /// Places; one that extends over several records is one place, covered or caught where each of its parts is.
    pub secrets: u64,
    /// Of them found: spans of the policy cover them in full.
    pub covered: u64,
    /// covered / secrets.
    pub recall: f64,
    /// Of them caught: the redacted record has no trace of the secret, neither its length nor its effect on its
    /// neighbours, nor its text in a place without a mark.
    pub caught: u64,
    /// caught / secrets.
    pub nothing_left: f64,
    /// Different texts of the kind.
    pub distinct: u64,
    /// Of them missed in at least one place.
    pub distinct_missed: u64,
    /// γ: distinct_missed / distinct.
    pub gamma: f64,
    /// Of them missed in at least one record that the conservative policy does not flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct_missed_by_both: Option<u64>,
    /// η: distinct_missed_by_both / distinct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<f64>,
}

/// What finds a kind of named entity.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Covered {
    /// The kind.
    pub kind: EntityKind,
    /// What finds it.
    pub by: Cover,
}

/// What a policy does to a corpus. Counts of all of it, so that they need no interval: they are
/// no statement about secrets that nobody marked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PolicyReport {
    /// Records.
    pub records: u64,
    /// Records in which something is found.
    pub redacted: u64,
    /// Records that the conservative policy flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flagged: Option<u64>,
    /// Words, and how many of them the policy redacts.
    pub words: Words,
    /// By the policy's own kinds.
    pub found: BTreeMap<String, SpanCounts>,
    /// By the kinds of marked secrets; empty if nothing is marked.
    pub marked: BTreeMap<String, MarkedCounts>,
    /// For one of JFT's levels: the eighteen kinds of entities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Covered>,
}

/// Measures the policy and prints the report.
///
/// # Errors
/// Returns an error if the data can't be read or the policy can't be built.
pub fn run(args: &Policy, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let measured = &args.measured;
    let documents = measured.documents()?;
    let records = screening_records(&documents, measured.unit).context("DATA")?;
    let (policy, conservative) = (measured.choice()?, measured.conservative()?);
    let judge = PolicyJudge::new(&policy, conservative.as_ref())?;
    let mut report = PolicyReport::of(&records, &judge, interrupt)?;
    report.coverage = coverage(&policy)?;
    let inputs = Inputs::new()
        .given("data", measured.data.display().to_string())?
        .given("unit", measured.unit)?
        .given("policy", published(&policy)?)?
        .given("conservative", published(&conservative)?)?;
    let inputs = with_policy(inputs, &policy)?;
    output.answer(&Envelope::new("policy", inputs, &report), &report.to_page())
}

/// Why a secret may be covered and missed.
pub(super) const TRACES: &str = "A covered secret still counts as missed where its record would be masked differently without \
                                 it, which shows that it was there, and where its text is left in another place of the record.";

/// What finds each kind of entity, for a level.
pub(super) fn coverage(policy: &PolicyChoice) -> Result<Vec<Covered>> {
    let PolicyChoice::Level { level, .. } = policy else {
        return Ok(Vec::new());
    };
    let levels = Levels::new(*level, Some(TaggerModel::shipped()?))?;
    Ok(levels
        .coverage()
        .into_iter()
        .map(|(kind, by)| Covered { kind, by })
        .collect())
}

/// Returns the kinds of entities that are found in each way, behind its words.
pub(super) fn found_by(coverage: &[Covered]) -> Vec<(&'static str, String)> {
    let each = COVERS.into_iter().map(|(cover, how)| {
        let kinds = coverage.iter().filter(|c| c.by == cover);
        let kinds: Vec<&str> = kinds.map(|c| c.kind.name()).collect();
        (how, kinds.join(", "))
    });
    each.filter(|(_, kinds)| !kinds.is_empty()).collect()
}

/// One place of a secret, or all of them, combined.
#[derive(Default)]
struct Fate {
    covered: bool,
    missed: bool,
    missed_by_both: bool,
}

impl PolicyReport {
    /// Counts over all records.
    ///
    /// # Errors
    /// Returns an error if a record's spans are invalid or on an interruption.
    pub fn of(
        records: &[ScreeningRecord],
        judge: &PolicyJudge,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let mut report = Self {
            records: records.len() as u64,
            ..Self::default()
        };
        let any_marked = records.iter().any(|r| !r.marked.is_empty());
        let mut places: BTreeMap<(usize, usize), (&str, &str, Fate)> = BTreeMap::new();
        for record in records {
            interrupt.check()?;
            let judged = judge.judge(&record.document)?;
            report.words += judged.words;
            report.redacted += u64::from(!judged.found.is_empty());
            if let Some(flagged) = judged.flagged {
                *report.flagged.get_or_insert(0) += u64::from(flagged);
            }
            let kinds: BTreeSet<&str> = judged.found.iter().map(|(f, _)| &*f.kind).collect();
            for kind in kinds {
                report.found.entry(kind.to_owned()).or_default().records += 1;
            }
            for (span, right) in &judged.found {
                let counts = report.found.entry(span.kind.clone()).or_default();
                counts.spans += 1;
                if any_marked {
                    *counts.right.get_or_insert(0) += u64::from(*right);
                }
            }
            let secrets = record.document.secrets.iter().zip(&record.marked);
            for ((secret, marked), found) in secrets.zip(&judged.fates) {
                let whole = || {
                    let covered = Fate {
                        covered: true,
                        ..Fate::default()
                    };
                    (secret.kind.as_str(), marked.text.as_str(), covered)
                };
                let (.., fate) = places.entry(marked.place).or_insert_with(whole);
                fate.covered &= found.covered;
                fate.missed |= !found.caught;
                fate.missed_by_both |= !found.caught && judged.flagged == Some(false);
            }
        }
        report.gather(places.into_values());
        Ok(report)
    }

    /// Counts places, and the distinct secrets in them.
    fn gather<'a>(&mut self, places: impl Iterator<Item = (&'a str, &'a str, Fate)>) {
        let mut secrets: BTreeMap<(&str, &str), Fate> = BTreeMap::new();
        for (kind, text, place) in places {
            let counts = self.marked.entry(kind.to_owned()).or_default();
            counts.secrets += 1;
            counts.covered += u64::from(place.covered);
            counts.caught += u64::from(!place.missed);
            counts.distinct_missed_by_both = self.flagged.map(|_| 0);
            let secret = secrets.entry((kind, text)).or_default();
            secret.missed |= place.missed;
            secret.missed_by_both |= place.missed_by_both;
        }
        for ((kind, _), secret) in secrets {
            let counts = self.marked.entry(kind.to_owned()).or_default();
            counts.distinct += 1;
            counts.distinct_missed += u64::from(secret.missed);
            if let Some(both) = &mut counts.distinct_missed_by_both {
                *both += u64::from(secret.missed_by_both);
            }
        }
        for counts in self.marked.values_mut() {
            counts.recall = counts.covered as f64 / counts.secrets as f64;
            counts.nothing_left = counts.caught as f64 / counts.secrets as f64;
            counts.gamma = counts.distinct_missed as f64 / counts.distinct as f64;
            counts.eta = counts
                .distinct_missed_by_both
                .map(|both| both as f64 / counts.distinct as f64);
        }
        for counts in self.found.values_mut() {
            counts.precision = counts.right.map(|right| right as f64 / counts.spans as f64);
        }
    }

    /// Returns the report as a page.
    #[must_use]
    pub fn to_page(&self) -> Page {
        let share = |part: u64, all: u64| nearest(part as f64 / all.max(1) as f64 * 100.0, 3);
        let mut said = format!(
            "{}, {} with something found, {} of {} words redacted ({} %).",
            count_of(self.records, "record"),
            grouped(self.redacted),
            grouped(self.words.redacted),
            grouped(self.words.all),
            share(self.words.redacted, self.words.all)
        );
        if let Some(flagged) = self.flagged {
            said.push_str(&format!(
                " {} flagged by the conservative policy ({} %).",
                count_of(flagged, "record"),
                share(flagged, self.records)
            ));
        }
        let page = Page::new("Redaction policy", said);
        let mut page = if self.marked.is_empty() {
            let unknown = "No secret is marked in DATA: what the policy misses is not known. audit screen draws a sample to label.";
            page.answer(Section::text("", [unknown]))
        } else {
            page.answer(Section::table(
                "Marked secrets, all of them; nothing is said about others",
                self.by_kind(),
            ))
        };
        if self
            .marked
            .values()
            .any(|counts| counts.caught < counts.covered)
        {
            page = page.answer(Section::text("", [TRACES]));
        }
        let covered = found_by(&self.coverage);
        page.answer(Section::table("What it finds", self.by_span()))
            .section(Section::facts("How each kind is found", covered))
    }

    fn by_span(&self) -> Table {
        Table::of(&self.found)
            .left("found", |(kind, _)| kind)
            .right("spans", |(_, counts)| grouped(counts.spans))
            .right("records", |(_, counts)| grouped(counts.records))
            .right("right", |(_, counts)| {
                counts.right.map_or_else(String::new, grouped)
            })
            .right("precision", |(_, counts)| {
                counts.precision.map_or_else(String::new, |p| nearest(p, 4))
            })
            .without_empty(3)
            .into()
    }

    fn by_kind(&self) -> Table {
        Table::of(&self.marked)
            .left("marked", |(kind, _)| kind)
            .right("places", |(_, counts)| grouped(counts.secrets))
            .right("covered", |(_, counts)| grouped(counts.covered))
            .right("recall", |(_, counts)| nearest(counts.recall, 4))
            .right("nothing left", |(_, counts)| {
                nearest(counts.nothing_left, 4)
            })
            .right("secrets", |(_, counts)| grouped(counts.distinct))
            .right("missed", |(_, counts)| grouped(counts.distinct_missed))
            .right("gamma", |(_, counts)| nearest(counts.gamma, 4))
            .right("by both", |(_, counts)| {
                counts
                    .distinct_missed_by_both
                    .map_or_else(String::new, grouped)
            })
            .right("eta", |(_, counts)| {
                counts.eta.map_or_else(String::new, |eta| nearest(eta, 4))
            })
            .without_empty(8)
            .into()
    }
}

const COVERS: [(Cover, &str); 5] = [
    (Cover::Grammar, "by grammar"),
    (Cover::Tagger, "by a tagger and capitals inside sentences"),
    (
        Cover::ListAndCapitals,
        "by a short list and capitals inside sentences",
    ),
    (Cover::CapitalsOnly, "by capitals inside sentences only"),
    (Cover::NotSensitive, "not sensitive at this level"),
];

#[cfg(test)]
mod tests;
