//! `audit screen`: a sample drawn, labelled, and measured.

pub mod args;
mod ask;
mod measure;
mod page;
mod sheet;

#[cfg(test)]
mod tests;

pub use measure::{FoundRow, KindRow, MissingRate, Screening};
pub use sheet::{Draw, Drawn, Header, JFT_SAMPLES, Line, Sheet};

use super::args::Screen;
use super::owner_key::with_policy;
use super::published::published;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, to_json, write_file};
use crate::page::Output;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::Confidence;
use reticent_accounting::confidentiality::Label;
use reticent_corpus::{
    DictionaryOptions, Document, PolicyChoice, PolicyJudge, Words, read_documents,
    screening_records,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Records drawn unless asked otherwise.
const SAMPLE: u64 = 200;

/// A sheet that waits for labels.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Waiting<'a> {
    sheet: String,
    sample: &'a Header,
    open: usize,
}

/// Draws, asks, measures: as far as the sheet allows.
///
/// # Errors
/// Data or a sheet that cannot be read, a sheet that does not fit the data or the policy.
pub fn run(args: &Screen, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let documents = read_documents(&args.measured.data).context("DATA")?;
    let records = screening_records(&documents, args.measured.unit).context("DATA")?;
    interrupt.check()?;
    let mut sheet = sheet(args, &records)?;
    if args.marked {
        mark(&mut sheet, &records);
        write_file(&args.sheet, sheet.to_text()?.as_bytes()).context("--sheet")?;
    }
    if args.label {
        label(args, &mut sheet, interrupt)?;
    }
    let confidence = args.confidence.map_or_else(|| Confidence::new(0.95), Ok)?;
    let inputs = inputs(args, &sheet, confidence)?;
    if sheet.open() > 0 {
        return wait(args, &sheet, inputs, output);
    }
    let judge = PolicyJudge::new(&sheet.header.policy, sheet.header.conservative.as_ref())?;
    let seen = measure::judge(&sheet, &judge).context("--sheet")?;
    let corpus = words(&sheet, &records, &judge, interrupt)?;
    let labels = measure::labels(&seen);
    let screening = Screening::of(&sheet, &seen, &labels, confidence, corpus)?;
    write(args, &sheet, &seen, &labels)?;
    output.answer(
        &Envelope::new("screening", inputs, &screening),
        &screening.to_page(confidence, &args.sheet, args.labels.as_deref()),
    )?;
    Ok(Exit::Finished)
}

/// The sheet as it is, or a new one.
fn sheet(args: &Screen, records: &[Document]) -> Result<Sheet> {
    let policy = args.measured.choice()?;
    let conservative = args.measured.conservative()?;
    if args.sheet.exists() {
        let sheet = Sheet::read(&args.sheet).context("--sheet")?;
        sheet
            .verify(records, &policy, conservative.as_ref())
            .context("--sheet")?;
        let h = &sheet.header;
        let samples = if args.jft { JFT_SAMPLES } else { h.samples };
        ensure!(
            h.unit == args.measured.unit
                && args.sample.is_none_or(|n| n == h.sample)
                && args.seed.is_none_or(|n| n == h.seed)
                && args.near.is_none_or(|n| n == h.near)
                && samples == h.samples,
            "--sheet: {} exists and was drawn otherwise ({} of {} {}s, seed {}, {} near the threshold); leave these options away, or name another file",
            args.sheet.display(),
            h.sample,
            h.records,
            h.unit,
            h.seed,
            h.near
        );
        return Ok(sheet);
    }
    let draw = Draw {
        unit: args.measured.unit,
        sample: (!args.jft).then(|| args.sample.unwrap_or(SAMPLE)),
        seed: args.seed.unwrap_or(0),
        near: args.near.unwrap_or(0),
        policy,
        conservative,
    };
    let sheet = Sheet::draw(records, &draw)?;
    write_file(&args.sheet, sheet.to_text()?.as_bytes()).context("--sheet")?;
    Ok(sheet)
}

/// Labels from the marks of the data.
fn mark(sheet: &mut Sheet, records: &[Document]) {
    let known: std::collections::HashMap<&str, &Document> =
        records.iter().map(|r| (&*r.id, r)).collect();
    for line in sheet.lines.iter_mut().filter(|l| l.secrets.is_none()) {
        line.secrets = known.get(&*line.record).map(|r| r.secrets.clone());
    }
}

fn label(args: &Screen, sheet: &mut Sheet, interrupt: &Interrupt) -> Result<()> {
    let total = sheet.lines.len();
    let (mut input, mut out) = (std::io::stdin().lock(), std::io::stderr().lock());
    if sheet.open() > 0 {
        ask::explain(&mut out)?;
    }
    for number in 0..total {
        interrupt.check()?;
        if sheet.lines[number].secrets.is_some() {
            continue;
        }
        let place = format!("{} of {total}", number + 1);
        let answer = ask::ask(&mut sheet.lines[number], &place, &mut input, &mut out)?;
        if answer == ask::Answer::Stop {
            break;
        }
        write_file(&args.sheet, sheet.to_text()?.as_bytes()).context("--sheet")?;
    }
    Ok(())
}

fn inputs(args: &Screen, sheet: &Sheet, confidence: Confidence) -> Result<Inputs> {
    let h = &sheet.header;
    let inputs = Inputs::new()
        .given("data", args.measured.data.display().to_string())?
        .given("unit", h.unit)?
        .given("policy", published(&h.policy)?)?
        .given("conservative", published(&h.conservative)?)?
        .given("records", h.records)?
        .given("seed", h.seed)?
        .or_assumed("confidence", args.confidence, confidence)?;
    with_policy(inputs, &h.policy)
}

fn wait(args: &Screen, sheet: &Sheet, inputs: Inputs, output: Output) -> Result<Exit> {
    for (flag, path) in [
        ("--labels", &args.labels),
        ("--screened", &args.screened),
        ("--mended", &args.mended),
    ] {
        if path.is_some() && !args.label {
            bail!(
                "{flag}: {} of {} records of {} have no labels yet; a sample with gaps is no random sample",
                sheet.open(),
                sheet.lines.len(),
                args.sheet.display()
            );
        }
    }
    let waiting = Waiting {
        sheet: args.sheet.display().to_string(),
        sample: &sheet.header,
        open: sheet.open(),
    };
    output.answer(
        &Envelope::new("screening-open", inputs, &waiting),
        &page::waiting(sheet, &waiting.sheet),
    )?;
    Ok(Exit::Finished)
}

/// The words of the whole corpus, for JFT's share of redacted ones.
fn words(
    sheet: &Sheet,
    records: &[Document],
    judge: &PolicyJudge,
    interrupt: &Interrupt,
) -> Result<Words> {
    let mut words = Words::default();
    if sheet.header.samples == JFT_SAMPLES {
        for record in records {
            interrupt.check()?;
            words += judge.judge(record)?.words;
        }
    }
    Ok(words)
}

fn write(args: &Screen, sheet: &Sheet, seen: &[measure::Seen<'_>], labels: &[Label]) -> Result<()> {
    let missed: BTreeSet<String> = seen.iter().flat_map(measure::Seen::missed_texts).collect();
    if let Some(path) = &args.labels {
        let mut out = String::new();
        for label in labels {
            out.push_str(&format!("{}\n", to_json(label)?));
        }
        write_file(path, out.as_bytes()).context("--labels")?;
    }
    if let Some(path) = &args.mended {
        mended(path, &sheet.header.policy, missed.clone())?;
    }
    if let Some(path) = &args.screened {
        // Which records were screened must not depend on what is in them: all that were drawn.
        ensure!(
            missed.is_empty() || args.mended.is_some(),
            "--screened: the policy misses {} secrets of these records; give --mended too, prepare again with that policy and the same seed, and train on that",
            missed.len()
        );
        let ids = sheet
            .lines
            .iter()
            .filter(|l| l.drawn == Drawn::Random)
            .map(|l| format!("{}\n", l.record));
        write_file(path, ids.collect::<String>().as_bytes()).context("--screened")?;
    }
    Ok(())
}

/// The policy, and a dictionary of what it misses.
fn mended(path: &Path, policy: &PolicyChoice, missed: BTreeSet<String>) -> Result<()> {
    let words: Vec<String> = missed
        .into_iter()
        .filter(|word| !word.trim().is_empty())
        .collect();
    let mended = if words.is_empty() {
        policy.clone()
    } else {
        let dictionary = PolicyChoice::Dictionary(DictionaryOptions {
            kind: "screened".to_owned(),
            words,
            case_sensitive: true,
            whole_words: false,
        });
        PolicyChoice::Any {
            of: vec![policy.clone(), dictionary],
        }
    };
    let text = format!("{}\n", to_json(&mended)?);
    write_file(path, text.as_bytes()).context("--mended")
}
