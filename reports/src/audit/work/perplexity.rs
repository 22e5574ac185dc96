//! `audit perplexity`: how well a model predicts a text.

use crate::audit::cli::Perplexity as Asked;
use crate::contract::{Envelope, Exit, Format, Inputs, Interrupt, Progress, print};
use crate::number::{grouped, nearest};
use anyhow::{Context, Result, ensure};
use reticent_attacks::perplexity;
use reticent_backends::{Checkpoint, Pretrained, Scorer, Trainer};
use reticent_corpus::{
    PolicyChoice, PolicyOptions, PrepareOptions, Preparer, Record, Tokenizer, Unit, read_documents,
};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::Path;

/// Tokens scored at once.
const BATCH_TOKENS: usize = 32_768;

/// A checkpoint with its model ready to score.
pub(super) fn open(
    folder: &Path,
    device: crate::audit::cli::DeviceArg,
) -> Result<(Checkpoint, Box<dyn Trainer>)> {
    let checkpoint = Checkpoint::load(folder).context("--model")?;
    let weights = checkpoint.weights.clone();
    let model =
        reticent_backends::open(&checkpoint.model, weights, device.into()).context("--device")?;
    Ok((checkpoint, model))
}

/// exp(mean NLL) over records, every token but the first of each; also the tokens scored.
pub(super) fn measure<S: Scorer + ?Sized>(
    scorer: &mut S,
    records: &[Record],
    interrupt: &Interrupt,
) -> Result<(f64, u64)> {
    let sequences: Vec<_> = records.iter().map(|r| r.tokens.clone()).collect();
    let progress = Progress::of(sequences.len() as u64, "scoring", "records");
    let result = perplexity(scorer, &sequences, BATCH_TOKENS, &mut |done| {
        progress.at(done as u64);
        if interrupt.raised() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    interrupt.check()?;
    let result = result?;
    Ok((result.perplexity, result.tokens))
}

#[derive(Serialize)]
struct Shown {
    perplexity: f64,
    tokens: u64,
    records: u64,
    unit: Unit,
}

pub(super) fn run(asked: &Asked, format: Format, interrupt: &Interrupt) -> Result<Exit> {
    let pretrained = Pretrained::load(&asked.model).context("--model")?;
    let mut model =
        reticent_backends::open(&pretrained.model, pretrained.weights, asked.device.into())
            .context("--device")?;
    let own = pretrained.manifest.map_or(Unit::Document, |m| m.unit);
    let unit = asked.unit.unwrap_or(own);
    let mut records = framed(&asked.data, unit, &pretrained.tokenizer).context("--data")?;
    if asked.without_end {
        for record in &mut records {
            record.tokens.pop();
        }
        records.retain(|r| r.tokens.len() > 1);
    }
    let (value, tokens) = measure(model.as_mut(), &records, interrupt)?;
    let shown = Shown {
        perplexity: value,
        tokens,
        records: records.len() as u64,
        unit,
    };
    let text = match format {
        Format::Json => {
            let inputs = Inputs::new()
                .given("model", asked.model.display().to_string())?
                .given("data", asked.data.display().to_string())?
                .or_assumed("unit", asked.unit, unit)?
                .given("without_end", asked.without_end)?;
            Envelope::new("perplexity", inputs, &shown).to_text()?
        }
        Format::Text => format!(
            "perplexity {} per token over {} tokens in {} records (unit: {unit}; the text as it stands, nothing redacted)",
            nearest(value, 4),
            grouped(tokens),
            grouped(shown.records),
        ),
    };
    print(&text)?;
    Ok(Exit::Finished)
}

/// The text cut into units and framed, nothing masked, nothing dropped.
fn framed(data: &Path, unit: Unit, tokenizer: &Tokenizer) -> Result<Vec<Record>> {
    let documents = read_documents(data)?;
    let options = PrepareOptions {
        unit,
        deduplicate: false,
        redact: false,
        policy: PolicyOptions {
            policy: PolicyChoice::Nothing,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let texts = Preparer::new(&documents, &options)?.run()?.texts;
    ensure!(
        !texts.is_empty(),
        "{} has no record to score",
        data.display()
    );
    texts
        .iter()
        .map(|text| {
            Ok(Record {
                side: reticent_corpus::Side::Public,
                tokens: tokenizer.frame(text)?,
                sensitive: Vec::new(),
            })
        })
        .collect()
}
