//! `audit prepare`: turns text into a training set in a folder.

use super::shards;
use crate::audit::args::Prepare;
use crate::audit::owner_key::{self, with_policy};
use crate::audit::plant::seed_words;
use crate::audit::plant::words::{self, SampledFacts, sampled};
use crate::audit::policy::{coverage, found_by};
use crate::audit::published::published;
use crate::audit::reading::{PAUSE, hint_separator, warn, watched};
use crate::audit::unknown;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Interrupted, is_prepared, note};
use crate::number::{count_of, grouped};
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::training::CHOICE_OF_RECORDS;
use reticent_corpus::canary::CopyFate;
use reticent_corpus::policy::{Level, PolicyChoice};
use reticent_corpus::prepare::{Facts, Preparation, PrepareFiles, PrepareOptions, SecretSource};
use reticent_corpus::read::ReadOptions;
use reticent_corpus::{LossOn, Unit};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body<'a> {
    out: String,
    facts: &'a Facts,
    /// Of canaries that were sampled from a public model.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<SampledFacts>,
    skipped: Vec<String>,
    /// Documents that a stopped preparation had done.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_up_documents: Option<u64>,
    /// Of this command.
    seconds: f64,
    /// Absent where other processes may have done part of the work, by a plan of shards.
    #[serde(skip_serializing_if = "Option::is_none")]
    megabytes_per_second: Option<f64>,
}

pub(in crate::audit) fn run(args: &Prepare, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    if let Some(shards) = shards::Request::of(args)? {
        return shards.run(args, output, interrupt);
    }
    let request = Request::of(args, interrupt)?;
    if request.owner.is_none() {
        note(
            "there is no place for the owner's key, so nothing authenticates the folder (RETICENT_OWNER_KEY names a file for it)",
        );
    }
    let (data, out, files) = (request.data, request.out, request.files());
    let size = files.size().context("DATA")?;
    let began = Instant::now();
    let (made, before) = watched(size, "preparing", interrupt, |watch| {
        files.write(out, false, watch)
    });
    let Some((prepared, skipped)) = made.map_err(|error| of_argument(error, data, out))? else {
        let resume = PrepareFiles::stopped(out).then_some("the same --out");
        return Err(Interrupted { resume }.into());
    };
    skipped.iter().for_each(warn);
    let made = Made {
        data,
        out,
        threads: args.threads,
        bytes: Some(size.saturating_sub(before)),
        seconds: began.elapsed().as_secs_f64(),
        sampled: request.sampled,
        skipped: &skipped,
    };
    made.answer(&prepared, output)
}

/// What to prepare, and how; the same for a whole corpus and for a plan of its shards.
pub(super) struct Request<'a> {
    pub(super) data: &'a Path,
    pub(super) out: &'a Path,
    reading: ReadOptions,
    options: PrepareOptions,
    sampled: Option<SampledFacts>,
    threads: u64,
    owner: Option<[u8; 32]>,
}

impl<'a> Request<'a> {
    pub(super) fn of(args: &'a Prepare, interrupt: &Interrupt) -> Result<Self> {
        // Clap requires both.
        let (Some(data), Some(out)) = (&args.data, &args.out) else {
            bail!("DATA and --out: both are needed");
        };
        ensure!(
            !is_prepared(data),
            "DATA: {}: a prepared corpus, which audit train takes as it is; to prepare it anew, name the text that it was made from",
            data.display()
        );
        let (texts, sampled) = sampled(&args.how.shape, args.how.canaries, interrupt)?;
        let options = args.how.options(texts)?;
        let mut reading = args.reading.options(None)?;
        reading.user.clone_from(&args.how.user_field);
        reading.labels.clone_from(&options.labels);
        reading.loss_on = options.loss_on;
        hint_separator(data, &reading);
        Ok(Self {
            data,
            out,
            reading,
            options,
            sampled,
            threads: args.threads,
            owner: owner_key::made()?,
        })
    }

    pub(super) fn files(&self) -> PrepareFiles<'_> {
        PrepareFiles {
            data: self.data,
            reading: &self.reading,
            options: &self.options,
            threads: usize::try_from(self.threads).unwrap_or(usize::MAX),
            pause: PAUSE,
            owner: self.owner,
        }
    }
}

/// What a report states about a preparation besides the prepared corpus.
pub(super) struct Made<'a> {
    pub(super) data: &'a Path,
    pub(super) out: &'a Path,
    pub(super) threads: u64,
    /// The bytes that were prepared in these seconds, if that is known.
    pub(super) bytes: Option<u64>,
    pub(super) seconds: f64,
    pub(super) sampled: Option<SampledFacts>,
    pub(super) skipped: &'a [reticent_corpus::Error],
}

impl Made<'_> {
    pub(super) fn answer(self, prepared: &Preparation, output: Output) -> Result<Exit> {
        let shown = Body {
            out: self.out.display().to_string(),
            facts: &prepared.facts,
            sampled: self.sampled,
            skipped: self.skipped.iter().map(ToString::to_string).collect(),
            seconds: self.seconds,
            taken_up_documents: prepared.taken_up,
            megabytes_per_second: self
                .bytes
                .map(|bytes| bytes as f64 / 1e6 / self.seconds.max(1e-9)),
        };
        let inputs = Inputs::new()
            .given("data", self.data.display().to_string())?
            .given("options", published(&prepared.options)?)?
            .given("threads", self.threads)?;
        let inputs = with_policy(inputs, &prepared.options.policy.policy)?;
        output.answer(
            &Envelope::new("preparation", inputs, &shown),
            &page(prepared, &shown),
        )
    }
}

/// Adds to an error the argument that it is about.
pub(super) fn of_argument(error: reticent_corpus::Error, data: &Path, out: &Path) -> anyhow::Error {
    use reticent_corpus::Error as E;
    let about = match &error {
        E::Write { .. } if PrepareFiles::stopped(out) => {
            "--out (what was done stays; the same command goes on there)"
        }
        E::Write { .. } | E::Occupied { .. } | E::Output { .. } => "--out",
        E::Read { path, .. } | E::Place { path, .. } | E::Line { path, .. }
            if path.starts_with(data) =>
        {
            "DATA"
        }
        E::Several(_) | E::EmptyCorpus { .. } | E::Changed { .. } | E::Span { .. } => "DATA",
        E::Labels(_) => "--label",
        E::Answers(_) => "--loss-on",
        E::Plan(_) | E::NotCompositional(_) => "--canaries",
        _ => return error.into(),
    };
    anyhow::Error::from(error).context(about)
}

/// Returns a page on what was deduplicated, redacted and flagged, and on what happened to the
/// canaries.
fn page(prepared: &Preparation, shown: &Body<'_>) -> Page {
    let (f, out) = (&prepared.facts, &shown.out);
    let units = count_of(f.units, &f.unit.to_string());
    let held_out = f.held_out_documents;
    let said = match (f.unit, f.user_documents) {
        // All documents of a user are one; their number is unknown for a pipe.
        (Unit::User, 0) => format!("{out}: {units}, {} held out.", count_of(held_out, "user")),
        (Unit::User, documents) => format!(
            "{out}: {units} from {}, {} held out.",
            count_of(documents, "document"),
            count_of(held_out, "user")
        ),
        _ => format!(
            "{out}: {units} from {}, {} held out.",
            count_of(f.documents, "document"),
            count_of(held_out, "document")
        ),
    };
    let mut facts = vec![
        (
            "duplicates",
            format!(
                "{} replaced by <MASK> ({} distinct before)",
                grouped(f.duplicates),
                grouped(f.distinct_units)
            ),
        ),
        (
            "redaction",
            match f.secrets.source {
                SecretSource::Gold if !prepared.options.redact => format!(
                    "none (--no-redaction); {} of {}{} are not found in full",
                    count_of(f.uncaught, "occurrence"),
                    count_of(f.secrets.all.distinct, "marked secret"),
                    match f.canaries {
                        Some(_) => " and of planted canaries",
                        None => "",
                    }
                ),
                SecretSource::Gold => format!(
                    "{} with a mask; {} of {} missed by the policy, {} by both policies{}",
                    count_of(f.redacted, "record"),
                    grouped(f.secrets.all.missed),
                    count_of(f.secrets.all.distinct, "marked secret"),
                    grouped(f.secrets.all.missed_by_both),
                    match f.spreads() {
                        true =>
                            "; all count as missed: what one record holds decides about others where duplicates are not exact or DATA has masked spans",
                        false => "",
                    }
                ),
                SecretSource::Detected if !prepared.options.redact => format!(
                    "none (--no-redaction); {} found; {UNMARKED}",
                    count_of(f.secrets.all.distinct, "distinct secret"),
                ),
                SecretSource::Detected if f.secrets.all.distinct == 0 => format!(
                    "{} with a mask; no secret found; {UNMARKED}",
                    count_of(f.redacted, "record"),
                ),
                SecretSource::Detected => format!(
                    "{} with a mask; {} found; {}; {UNMARKED}",
                    count_of(f.redacted, "record"),
                    count_of(f.secrets.all.distinct, "distinct secret"),
                    match f.secrets.all.missed {
                        0 => "none of them leaves a trace in the records where it was found (audit neighbours looks for it in others)"
                            .to_owned(),
                        missed => format!(
                            "for {} of them, a record still differs after masking, or the policy misses them on purpose ({} of \
                             these on the public side)",
                            grouped(missed),
                            grouped(f.secrets.all.missed_by_both)
                        ),
                    }
                ),
            },
        ),
        (
            "sides",
            format!(
                "{} public, {} private (of which {} are only <MASK>){}",
                grouped(f.public),
                grouped(f.private),
                grouped(f.mask_only),
                match (f.public, &prepared.options.conservative) {
                    (0, None) =>
                        "; without --conservative (such as digits,capitals,names) every record is private",
                    _ => "",
                }
            ),
        ),
        (
            "tokens",
            format!(
                "{} with loss{}, vocabulary of {} ({})",
                grouped(f.loss_tokens),
                match prepared.options.loss_on {
                    Some(LossOn::Assistant) => ", those of the assistant",
                    None => "",
                },
                f.vocabulary_size,
                origin(prepared)
            ),
        ),
    ];
    facts.extend(unknown::fact(f).map(|said| ("unknown", said)));
    facts.extend(prepared.options.labels.as_ref().map(|labels| {
        let classes = count_of(labels.classes.len() as u64, "class");
        let (field, names) = (&labels.field, labels.classes.join(", "));
        let said =
            format!("{classes} by {field}, as declared: {names}; kept in redacted records too");
        ("classes", said)
    }));
    if f.blank_documents > 0 {
        let documents = count_of(f.blank_documents, "document");
        facts.push(("without text", format!("{documents}, not trained on")));
    }
    if f.unchecked > 0 {
        let verb = if f.unchecked == 1 { "counts" } else { "count" };
        facts.push((
            "not checked",
            format!(
                "{} {verb} as missed unchecked: of the secrets of one {} those are checked that 256 MiB of text looked at again suffice for",
                count_of(f.unchecked, "secret"),
                f.unit
            ),
        ));
    }
    if f.not_examined > 0 {
        let verb = if f.not_examined == 1 { "was" } else { "were" };
        let what = match prepared.options.redact {
            true => "masked whole",
            false => "taken for secret as a whole",
        };
        facts.push((
            "not examined",
            format!(
                "{} {verb} {what}, since the policy took more than ten seconds of processor time or failed; the secrets there count as missed, and another run may examine them",
                count_of(f.not_examined, "record")
            ),
        ));
    }
    if f.escaped > 0 {
        let verb = if f.escaped == 1 { "has" } else { "have" };
        facts.push((
            "masks in the text",
            format!(
                "{} {verb} <MASK> or another special token in the text that was read: it stands as <\\MASK>, ordinary characters; prepare the text as it was before it was redacted",
                count_of(f.escaped, "record")
            ),
        ));
    }
    facts.extend(cut(prepared).map(|cut| ("cut", cut)));
    if let Some(documents) = prepared.taken_up {
        facts.push((
            "resumed",
            format!(
                "after {} documents of a preparation that was stopped",
                grouped(documents)
            ),
        ));
    }
    if let (Some(preflight), Some(plan)) = (&f.canaries, &prepared.plan) {
        // Shows the requested format, since a filled template has many words.
        let requested = prepared.options.canaries.as_ref();
        let format =
            requested.map_or_else(|| plan.template.to_string(), |c| c.template.to_string());
        facts.push((
            "canaries",
            format!(
                "{}x{}{} of `{}`: {} of {} copies reach training{}; {}",
                plan.canaries.len(),
                plan.copies,
                in_turn(&plan.doses),
                format,
                grouped(preflight.count(CopyFate::Kept)),
                grouped(preflight.copies.len() as u64),
                lost(preflight),
                seed_words(plan.seed_origin)
            ),
        ));
        facts.extend(words::said(
            preflight.words.as_ref(),
            shown.sampled.as_ref(),
            plan.copies,
        ));
    }
    if prepared.options.draws() {
        facts.push(("not covered", CHOICE_OF_RECORDS.to_owned()));
    }
    facts.extend(covered(prepared).map(|entities| ("entities", entities)));
    let said = said + &unknown::warning(f);
    Page::new("Prepared corpus", said)
        .answer(Section::facts("", facts).called("further counts; what is not covered"))
}

/// What is not known of a corpus without marks.
const UNMARKED: &str = "what the policy does not find is not known (no secret is marked: audit screen draws a sample to label)";

/// Describes how many records were longer than `--max-tokens`.
fn cut(prepared: &Preparation) -> Option<String> {
    let (f, longest) = (&prepared.facts, prepared.options.max_tokens?);
    let verb = if f.truncated == 1 { "is" } else { "are" };
    (f.truncated > 0).then(|| {
        format!(
            "{} of {} {verb} longer than {} tokens and {verb} cut",
            grouped(f.truncated),
            count_of(f.units, &f.unit.to_string()),
            grouped(longest as u64)
        )
    })
}

/// Describes the numbers of copies that canaries have in turn.
fn in_turn(doses: &[u32]) -> String {
    let doses: Vec<String> = doses.iter().map(u32::to_string).collect();
    match doses.len() {
        0 => String::new(),
        _ => format!(" (copies in turn: {})", doses.join(", ")),
    }
}

/// Describes, for one of JFT's levels, what finds each of the eighteen kinds of entities.
fn covered(prepared: &Preparation) -> Option<String> {
    let policy = &prepared.options.policy.policy;
    let PolicyChoice::Level { level, .. } = policy else {
        return None;
    };
    let found = found_by(&coverage(policy).ok()?).into_iter();
    let said: Vec<String> = found
        .map(|(how, kinds)| format!("{how}: {kinds}"))
        .collect();
    let parser = if *level >= Level::LowContextual {
        "; proper nouns, pronouns, subjects, objects and verbs by a tagger"
    } else {
        ""
    };
    Some(format!("{}{parser}", said.join("; ")))
}

fn origin(prepared: &Preparation) -> String {
    match serde_json::to_value(prepared.tokenizer.origin()) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn lost(preflight: &reticent_corpus::canary::Preflight) -> String {
    let fates = [
        (CopyFate::Deduplicated, "removed as duplicates"),
        (
            CopyFate::Masked,
            "masked by the policy, or as text that repeats",
        ),
        (CopyFate::Caught, "caught by the policy, as planned"),
        (CopyFate::Truncated, "truncated"),
        (CopyFate::Lost, "in no unit"),
    ];
    let said: Vec<String> = fates
        .iter()
        .map(|(fate, words)| (preflight.count(*fate), words))
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| format!("{} {words}", grouped(n)))
        .collect();
    if said.is_empty() {
        String::new()
    } else {
        format!(" ({})", said.join(", "))
    }
}
