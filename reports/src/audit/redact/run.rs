//! `audit redact`: deduplicates and redacts a corpus of any size as a stream.

use crate::audit::args::Redact;
use crate::audit::by_kind;
use crate::audit::owner_key::with_policy;
use crate::audit::reading::{hint_separator, warn, watched};
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Interrupted, JsonStream};
use crate::number::{count_of, grouped};
use crate::page::{Output, Page, Section};
use anyhow::{Context, Result, ensure};
use reticent_corpus::policy::PolicyChoice;
use reticent_corpus::read::ReadOptions;
use reticent_corpus::redaction::{
    RedactFiles, RedactTo, Redaction, RedactionOptions, RedactionState,
};
use reticent_corpus::{Error, Unit};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body<'a> {
    out: String,
    #[serde(flatten)]
    state: &'a RedactionState,
    skipped: Vec<String>,
    /// Format that stdin was read as.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin_format: Option<&'static str>,
    /// Documents that an interrupted run had done.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_up_documents: Option<u64>,
    seconds: f64,
    megabytes_per_second: f64,
}

pub(in crate::audit) fn run(args: &Redact, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    names_json_lines(&args.out).context("--out")?;
    let options = RedactionOptions {
        unit: args.unit,
        policy: args.policy.choice().context("--policy")?,
        deduplicate: !args.no_deduplication,
    };
    // Masks of a prepared corpus stay masks.
    let reading = ReadOptions {
        prepared: true,
        ..args.reading.options(None)?
    };
    hint_separator(&args.data, &reading);
    let files = RedactFiles {
        data: &args.data,
        reading: &reading,
        options: &options,
        threads: usize::try_from(args.threads).unwrap_or(usize::MAX),
        pause: crate::audit::reading::PAUSE,
    };
    let size = files.size().context("DATA")?;
    let began = Instant::now();
    let mut stream = JsonStream::open(&args.out);
    let to = match &mut stream {
        Some(stream) => {
            let about = stream.about();
            RedactTo::Stream(stream, about)
        }
        None => RedactTo::Path {
            path: &args.out,
            force: args.force,
        },
    };
    let (made, _) = watched(size, "redacting", interrupt, |watch| files.write(to, watch));
    let Some(made) = made.map_err(|error| of_argument(error, &options))? else {
        let resume = RedactFiles::stopped(&args.out).then_some("the same --out");
        return Err(Interrupted { resume }.into());
    };
    made.skipped.iter().for_each(warn);
    let seconds = began.elapsed().as_secs_f64();
    let before = made.taken_up.as_ref().map_or(0, |state| state.bytes);
    let shown = Body {
        out: args.out.display().to_string(),
        state: &made.state,
        skipped: made.skipped.iter().map(ToString::to_string).collect(),
        stdin_format: made.stdin_format,
        taken_up_documents: made.taken_up.as_ref().map(|state| state.documents),
        seconds,
        megabytes_per_second: (made.state.bytes - before) as f64 / 1e6 / seconds.max(1e-9),
    };
    let inputs = Inputs::new()
        .given("data", args.data.display().to_string())?
        .given("unit", args.unit)?
        .given("policy", args.policy.to_string())?
        .given("deduplicate", !args.no_deduplication)?
        .given("threads", args.threads)?;
    let inputs = with_policy(inputs, &options.policy)?;
    output.aside_for(&args.out).answer(
        &Envelope::new("redaction", inputs, &shown),
        &page(&shown, &made, args.unit, &options.policy),
    )
}

/// Whatever is read, JSON Lines are written: under the name of another format nothing would read them.
fn names_json_lines(out: &Path) -> Result<()> {
    const OTHERS: [&str; 8] = ["csv", "tsv", "parquet", "txt", "gz", "zst", "zip", "xz"];
    let ending = out.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    ensure!(
        !OTHERS.contains(&&*ending),
        "what is written is JSON Lines, one record per line; name it FILE.jsonl, got {}",
        out.display()
    );
    Ok(())
}

/// Adds to an error the argument that it is about.
fn of_argument(error: Error, options: &RedactionOptions) -> anyhow::Error {
    let about = match &error {
        Error::Exists { path } => {
            let shown = path.display();
            return anyhow::anyhow!("--out: {shown} exists; --force replaces it");
        }
        Error::Write { .. } | Error::Output { .. } => "--out",
        // A policy that can't be built reports its error before anything is read.
        Error::Pattern { .. } | Error::Classifier { .. } if options.policy.build().is_err() => {
            "--policy"
        }
        _ => "DATA",
    };
    anyhow::Error::new(error).context(about)
}

fn page(shown: &Body<'_>, made: &Redaction, unit: Unit, policy: &PolicyChoice) -> Page {
    let state = shown.state;
    // Chats and pairs are written whole, whatever the unit.
    let unit = match made.own_shape {
        true => "record".to_owned(),
        false => unit.to_string(),
    };
    let said = format!(
        "{}: {} of {} written, {} removed.",
        shown.out,
        grouped(state.units - state.duplicates),
        count_of(state.units, &unit),
        count_of(state.duplicates, "duplicate")
    );
    let none = match *policy == PolicyChoice::Gold {
        true => "nothing found: gold finds what is marked, and nothing is",
        false => "nothing found",
    };
    let kinds = by_kind(&state.spans, none);
    let redacted = format!("{} with a mask: {kinds}", count_of(state.redacted, &unit));
    let throughput = format!(
        "{:.1} MB in {:.1} s, {:.1} MB/s",
        state.bytes as f64 / 1e6,
        shown.seconds,
        shown.megabytes_per_second
    );
    let mut facts = vec![("redaction", redacted), ("throughput", throughput)];
    if state.named > 0 {
        let verb = if state.named == 1 { "has" } else { "have" };
        let as_they_are = format!(
            "{} {verb} an id, key or role in which the policy finds something; these are written as they are",
            count_of(state.named, "record")
        );
        facts.push(("ids and keys", as_they_are));
    }
    if state.blank > 0 {
        let documents = count_of(state.blank, "document");
        facts.push(("without text", format!("{documents}, not written")));
    }
    if !state.left_out_columns.is_empty() {
        let names: Vec<&str> = state.left_out_columns.iter().map(String::as_str).collect();
        let why = "values that JSON does not hold as they are: dates, times, decimals, bytes, numbers that are not finite, keys that stand twice";
        facts.push((
            "left out",
            format!("of columns {}: {why}", names.join(", ")),
        ));
    }
    if let Some(format) = shown.stdin_format {
        facts.push(("input", format!("stdin, read as {format}")));
    }
    if let Some(documents) = shown.taken_up_documents {
        let documents = count_of(documents, "document");
        let resumed = format!("after {documents} of an interrupted run");
        facts.push(("resumed", resumed));
    }
    if made.closed_early {
        let words = "the reader closed the output before its end";
        facts.push(("note", words.to_owned()));
    }
    Page::new("Redaction", said).answer(Section::facts("", facts))
}
