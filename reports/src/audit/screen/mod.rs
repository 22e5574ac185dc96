//! `audit screen`: draws a sample, collects its labels, and measures a policy on it.

pub mod args;
mod ask;
mod measure;
mod outputs;
mod page;
mod sheet;

#[cfg(test)]
mod tests;

pub use measure::{FoundRow, KindRow, MissingRate, Screening};
pub use sheet::{Draw, Drawn, Header, JFT_SAMPLES, Line, Sheet};

use super::args::Screen;
use super::owner_key::{measured_for, with_policy};
use super::published::published;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, is_prepared};
use crate::number::count_of;
use crate::page::Output;
use crate::plan::PreparedFacts;
use anyhow::{Context, Result, bail, ensure};
use outputs::Outputs;
use reticent_accounting::confidentiality::MeasuredFor;
use reticent_accounting::statistics::check_sample_confidence;
use reticent_accounting::{Confidence, UnitName};
use reticent_corpus::canary::SeedOrigin;
use reticent_corpus::screening::{
    PolicyJudge, ScreeningRecord, Words, distinct_records, screening_records,
};
use reticent_corpus::{Document, Unit, system_seed};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The default number of records to draw.
const SAMPLE: u64 = 200;

/// A sheet that waits for labels. Its policies stand in the inputs, without their words.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Waiting {
    sheet: String,
    sample: Drawing,
    open: usize,
}

/// How a sheet was drawn.
#[derive(Serialize, JsonSchema)]
struct Drawing {
    unit: Unit,
    records: u64,
    sample: u64,
    samples: u64,
    seed: u64,
    near: u64,
}

/// Draws, asks for labels and measures, as far as the sheet allows.
///
/// # Errors
/// Returns an error if data or a sheet can't be read, or if a sheet doesn't belong to the data or
/// the policy.
pub fn run(args: &Screen, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    whole_records(args)?;
    let confidence = crate::audit::confidence(args.confidence)?;
    check_sample_confidence(confidence).context("--confidence")?;
    let outputs = Outputs::open(args)?;
    let documents = args.measured.documents()?;
    let records = screening_records(&documents, args.measured.unit).context("DATA")?;
    interrupt.check()?;
    if args.marked {
        labelled(&records, args.measured.unit)?;
    }
    let kept = (args.sheet.exists().then(|| Sheet::read(&args.sheet)))
        .transpose()
        .context("--sheet")?;
    let (records, duplicates) = distinct_records(records);
    let records: Vec<Document> = records.into_iter().map(|r| r.document).collect();
    let mut sheet = sheet(args, kept, &records, duplicates)?;
    if args.marked {
        mark(&mut sheet, &records);
        outputs::keep(args, &sheet)?;
    }
    if args.label {
        label(args, &mut sheet, interrupt)?;
    }
    let inputs = inputs(args, &sheet, confidence)?;
    if sheet.open() > 0 {
        return wait(args, &sheet, inputs, output);
    }
    let judge = PolicyJudge::new(&sheet.header.policy, sheet.header.conservative.as_ref())?;
    let seen = measure::judge(&sheet, &judge, &records).context("--sheet")?;
    let corpus = words(&sheet, &records, &judge, interrupt)?;
    let measured_for = match args.labels {
        Some(_) => Some(measured(args, &sheet.header)?),
        None => None,
    };
    let labels = measure::labels(&seen, measured_for.as_ref());
    let screening = Screening::of(&sheet, &seen, &labels, confidence, corpus)?;
    outputs.write(&sheet, &seen, &labels)?;
    output.answer(
        &Envelope::new("screening", inputs, &screening),
        &screening.to_page(
            &sheet.header,
            confidence,
            &args.sheet,
            args.labels.as_deref(),
        ),
    )
}

/// Returns the prepared folder that the data is in, if it is in one.
fn prepared_folder(args: &Screen) -> Option<&Path> {
    let data = &args.measured.data;
    let folder = match data.is_dir() {
        true => data.as_path(),
        false => reticent_disk::parent_of(data),
    };
    is_prepared(folder).then_some(folder)
}

/// Refuses to cut the records of a prepared folder: a part of one shows less than the record that is trained on.
fn whole_records(args: &Screen) -> Result<()> {
    let unit = args.measured.unit;
    let cut = matches!(unit, Unit::Turn | Unit::Sentence);
    match prepared_folder(args).filter(|_| cut) {
        Some(folder) => bail!(
            "--unit: must be document with DATA in a prepared folder ({}), where each line is one record, got {unit}",
            folder.display()
        ),
        None => Ok(()),
    }
}

/// Checks that the marks in the data can be labels of its records.
fn labelled(records: &[ScreeningRecord], unit: Unit) -> Result<()> {
    let marked = records.iter().flat_map(|record| &record.marked);
    ensure!(
        marked.clone().next().is_some(),
        "--marked: no secret is marked in DATA; a prepared corpus carries no marks: give the text that it was prepared from"
    );
    let cut: BTreeSet<_> = marked.filter(|m| m.cut).map(|m| m.place).collect();
    ensure!(
        cut.is_empty(),
        "--marked: of {} marked in DATA a {unit} contains only part; give a larger --unit",
        count_of(cut.len() as u64, "secret")
    );
    Ok(())
}

/// Returns the existing sheet or a new one.
fn sheet(
    args: &Screen,
    kept: Option<Sheet>,
    records: &[Document],
    duplicates: u64,
) -> Result<Sheet> {
    let policy = args.measured.choice()?;
    let conservative = args.measured.conservative()?;
    if let Some(sheet) = kept {
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
            "--sheet: {} exists and was drawn with other options ({} of {}, seed {}, {} near the threshold); omit these options, or name another file",
            args.sheet.display(),
            h.sample,
            count_of(h.records, &h.unit.to_string()),
            h.seed,
            h.near
        );
        return Ok(sheet);
    }
    let (seed, seed_origin) = match args.seed {
        Some(seed) => (seed, SeedOrigin::Given),
        None => (system_seed()?, SeedOrigin::System),
    };
    let draw = Draw {
        unit: args.measured.unit,
        sample: (!args.jft).then(|| args.sample.unwrap_or(SAMPLE)),
        duplicates,
        seed,
        seed_origin,
        near: args.near.unwrap_or(0),
        policy,
        conservative,
    };
    let sheet = Sheet::draw(records, &draw)?;
    outputs::keep(args, &sheet)?;
    Ok(sheet)
}

/// Takes labels from the marks in the data.
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
        outputs::keep(args, sheet)?;
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
        .given("duplicates", h.duplicates)?
        .given("seed", h.seed)?
        .given("seed_origin", h.seed_origin)?
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
                "{flag}: labels are missing for {} of {} of {}, and a sample with gaps is no random sample; the sheet is kept: --label asks for them in the \
                 terminal, or write \"secrets\" into it",
                sheet.open(),
                count_of(sheet.lines.len() as u64, "record"),
                args.sheet.display()
            );
        }
    }
    let h = &sheet.header;
    let waiting = Waiting {
        sheet: args.sheet.display().to_string(),
        sample: Drawing {
            unit: h.unit,
            records: h.records,
            sample: h.sample,
            samples: h.samples,
            seed: h.seed,
            near: h.near,
        },
        open: sheet.open(),
    };
    output.answer(
        &Envelope::new("screening-open", inputs, &waiting),
        &page::waiting(sheet, &waiting.sheet),
    )
}

/// What the labels are of. The records of a prepared corpus are what they were prepared as: its lines are not cut.
fn measured(args: &Screen, h: &Header) -> Result<MeasuredFor> {
    let unit = match prepared_folder(args) {
        Some(folder) => PreparedFacts::read(folder).context("DATA")?.unit,
        None => UnitName::new(h.unit.to_string())?,
    };
    Ok(MeasuredFor {
        seed: (h.seed_origin == SeedOrigin::Given).then_some(h.seed),
        ..measured_for(&h.policy, h.conservative.as_ref(), unit)?
    })
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
