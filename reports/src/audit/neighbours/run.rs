//! `audit neighbours`: compares prepare(D) with prepare(D′), secret by secret.

use crate::audit::args::NeighboursArgs;
use crate::audit::owner_key::with_policy;
use crate::audit::plant::words::sampled;
use crate::audit::published::published;
use crate::audit::reading::{documents, list};
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Progress, Table, note};
use crate::number::{count_of, grouped, rounded_up};
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result, ensure};
use reticent_accounting::Confidence;
use reticent_accounting::statistics::share_of_sampled;
use reticent_corpus::Document;
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::prepare::{
    NeighbourCounts, NeighbourDiff, Neighbours, PrepareOptions, Preparer, Selection,
};
use reticent_corpus::read::ReadOptions;
use reticent_corpus::redaction::{SecretList, mark_found};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Who marked the secrets where the policy did: what it overlooks is not among them, and bounds no miss rate.
const BY_POLICY: &str = "found by the policy";

/// The confidence with which the share of misses in the corpus is below its bound.
const CONFIDENCE: f64 = 0.95;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body<'a> {
    distinct: u64,
    marked: &'static str,
    /// Secrets of --list that are nowhere in the corpus, not even inside a longer word.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_found: Option<u64>,
    #[serde(flatten)]
    all: NeighbourCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_share: Option<Share>,
    by_kind: &'a BTreeMap<String, NeighbourCounts>,
    by_records: &'a BTreeMap<u64, u64>,
    missed_secrets: Vec<Missed<'a>>,
}

/// Of all secrets that are marked or listed, from a sample of them.
#[derive(Serialize, JsonSchema)]
struct Share {
    upper: f64,
    confidence: f64,
}

#[derive(Serialize, JsonSchema)]
struct Missed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    kind: &'a str,
    documents: u64,
    #[serde(flatten)]
    diff: NeighbourDiff,
}

pub(in crate::audit) fn run(
    args: &NeighboursArgs,
    output: Output,
    interrupt: &Interrupt,
) -> Result<Exit> {
    let (texts, _) = sampled(&args.prepare.shape, args.prepare.canaries, interrupt)?;
    let options = args.prepare.options(texts)?;
    let reading = ReadOptions {
        user: args.prepare.user_field.clone(),
        labels: options.labels.clone(),
        loss_on: options.loss_on,
        ..args.reading.options(None)?
    };
    let read = documents(&args.data, &reading).context("DATA")?;
    interrupt.check()?;
    let marked = marked(read, args, &options)?;
    let preparer = Preparer::new(&marked.documents, &options)?;
    let selection = if args.all {
        Selection::All
    } else {
        Selection::Sample {
            count: usize::try_from(args.sample).unwrap_or(usize::MAX),
            seed: options.seed,
        }
    };
    let progress = Progress::of(0, "neighbours", "secrets");
    let found = preparer.neighbours(selection, &|done, all| {
        progress.length(all);
        progress.at(done);
        !interrupt.raised()
    })?;
    drop(progress);
    interrupt.check()?;
    ensure!(
        found.distinct > 0,
        "DATA: {}",
        match args.list {
            Some(_) => "no secret of --list is in it as it is spelled there",
            None => "no secret is marked in it or found by the policy; name some with --list",
        }
    );
    if args.prepare.seed.is_some() && !seeded(&options) && found.all.examined == found.distinct {
        note("--seed: has no effect where nothing is held out, missed, planted or sampled");
    }
    let shown = shown(&found, &marked, args.show_secrets)?;
    let inputs = Inputs::new()
        .given("data", args.data.display().to_string())?
        .given("options", published(&options)?)?
        .given_path("list", args.list.as_deref())?
        .given("selection", selection)?;
    let inputs = with_policy(inputs, &options.policy.policy)?;
    output.answer(&Envelope::new("neighbours", inputs, &shown), &page(&shown))
}

/// Returns whether the seed decides anything of a preparation.
fn seeded(options: &PrepareOptions) -> bool {
    let policy = &options.policy;
    options.draws()
        || policy.miss_rate > 0.0
        || policy.false_positive_rate > 0.0
        || options.deduplicate && options.duplicates != Deduplication::Exact
}

/// A corpus with marked secrets.
struct Marked {
    documents: Vec<Document>,
    /// Who marked them.
    by: &'static str,
    /// How many secrets of the list stand nowhere in the corpus, if there is a list.
    not_found: Option<u64>,
}

/// Returns the corpus with its secrets marked.
fn marked(
    documents: Vec<Document>,
    args: &NeighboursArgs,
    options: &PrepareOptions,
) -> Result<Marked> {
    let in_corpus = documents.iter().any(|d| !d.secrets.is_empty());
    if let Some(path) = &args.list {
        let secrets = list(path).context("--list")?;
        let secrets = secrets.into_iter().map(|(_, secret)| secret).collect();
        let secrets = SecretList::new(secrets).context("--list")?;
        let mut missing: BTreeSet<&str> = secrets.secrets().iter().map(String::as_str).collect();
        let marked = documents.iter().map(|document| {
            let (marked, occurring) = secrets.mark(document, "listed");
            for secret in occurring {
                missing.remove(secret);
            }
            marked
        });
        return Ok(Marked {
            documents: marked.collect(),
            by: match in_corpus {
                true => "in the corpus and listed",
                false => "listed",
            },
            not_found: Some(missing.len() as u64),
        });
    }
    if in_corpus {
        return Ok(Marked {
            documents,
            by: "in the corpus",
            not_found: None,
        });
    }
    let policy = options.policy.policy.build()?;
    Ok(Marked {
        documents: mark_found(&documents, options.unit, policy.as_ref())?,
        by: BY_POLICY,
        not_found: None,
    })
}

fn shown<'a>(found: &'a Neighbours, marked: &Marked, show: bool) -> Result<Body<'a>> {
    let missed = found.secrets.iter().filter(|one| !one.diff.identical());
    let sampled = found.all.examined < found.distinct;
    let confidence = Confidence::new(CONFIDENCE)?;
    let upper = share_of_sampled(found.all.missed, found.all.examined, confidence)?;
    Ok(Body {
        distinct: found.distinct,
        marked: marked.by,
        not_found: marked.not_found,
        all: found.all,
        missed_share: (sampled && marked.by != BY_POLICY).then_some(Share {
            upper: upper.get().get(),
            confidence: CONFIDENCE,
        }),
        by_kind: &found.by_kind,
        by_records: &found.by_records,
        missed_secrets: missed
            .map(|one| Missed {
                secret: show.then_some(one.secret.as_str()),
                kind: &one.kind,
                documents: one.documents,
                diff: one.diff,
            })
            .collect(),
    })
}

fn page(shown: &Body<'_>) -> Page {
    let all = &shown.all;
    let taken = match all.examined < shown.distinct {
        true => format!("a simple random sample of {}", grouped(all.examined)),
        false => "all".to_owned(),
    };
    let (of, unknown) = match shown.marked == BY_POLICY {
        true => (
            " that the policy finds",
            " What it overlooks is not known: see audit screen.",
        ),
        false => ("", ""),
    };
    let said = format!(
        "{} of {}{of} missed; masking one of them beforehand changes at most {}.{unknown}",
        grouped(all.missed),
        count_of(all.examined, "secret"),
        count_of(all.most_records, "record")
    );
    let mut facts = vec![
        (
            "secrets",
            format!(
                "{} distinct, marked {}; {taken} examined",
                grouped(shown.distinct),
                shown.marked
            ),
        ),
        (
            "caught",
            format!(
                "{}: masking them beforehand changes no record",
                grouped(all.caught)
            ),
        ),
        (
            "missed",
            format!(
                "{}; after {} of them a record is on the other side",
                grouped(all.missed),
                grouped(all.other_side)
            ),
        ),
        (
            "k",
            format!(
                "at most {} (records that differ for one secret)",
                grouped(all.most_records)
            ),
        ),
    ];
    if let Some(share) = &shown.missed_share {
        facts.push((
            "miss rate",
            format!(
                "below {} of all secrets, with confidence {}",
                rounded_up(share.upper, 4),
                share.confidence
            ),
        ));
    }
    if let Some(missing) = shown.not_found.filter(|missing| *missing > 0) {
        let said = format!(
            "{} of --list are not in the corpus, not even inside a longer word, and were not examined",
            grouped(missing)
        );
        facts.push(("not found", said));
    }
    let table = Table::of(shown.by_kind)
        .left("kind", |(kind, _)| kind)
        .right("examined", |(_, counts)| grouped(counts.examined))
        .right("caught", |(_, counts)| grouped(counts.caught))
        .right("missed", |(_, counts)| grouped(counts.missed))
        .right("other side", |(_, counts)| grouped(counts.other_side))
        .right("largest k", |(_, counts)| grouped(counts.most_records));
    let named = shown.missed_secrets.iter().filter_map(|one| {
        let secret = one.secret?;
        Some(format!(
            "missed {secret:?} ({}): k = {}",
            one.kind, one.diff.records
        ))
    });
    Page::new("Neighbouring corpora", said)
        .answer(Section::facts("", facts))
        .answer(Section::table("By kind", table))
        .answer(Section::text("", named))
}
