//! `audit perplexity`: measures how well a model predicts a text.

use crate::audit::args::Perplexity as Args;
use crate::audit::loaded_model::{LoadedModel, of_model};
use crate::audit::perplexity::PerplexityReport;
use crate::audit::reading::to_measure;
use crate::audit::records::{Part, PreparedRecords, texts};
use crate::audit::train::masking;
use crate::audit::unknown::Characters;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Progress, is_prepared};
use crate::page::Output;
use anyhow::{Context, Result, bail, ensure};
use reticent_attacks::{Perplexity, perplexity, pseudo_perplexity, windows as places};
use reticent_backends::checkpoint::Pretrained;
use reticent_backends::engine::transformer_logits;
use reticent_backends::model::{Head, Model};
use reticent_backends::{Device, Scorer};
use reticent_corpus::tokenize::Tokenizer;
use reticent_corpus::{Record, TokenId, Unit};

/// The number of tokens scored at once.
pub(in crate::audit) const BATCH_TOKENS: usize = 32_768;

/// Returns exp(mean NLL) over records, for every token but the first of each.
pub(in crate::audit) fn measure<S: Scorer + ?Sized>(
    scorer: &mut S,
    records: &[Record],
    interrupt: &Interrupt,
) -> Result<Perplexity> {
    let sequences: Vec<_> = records.iter().map(|r| r.tokens.clone()).collect();
    let progress = Progress::of(sequences.len() as u64, "scoring", "records");
    let mut progress = progress.watched(interrupt);
    let found = perplexity(scorer, &sequences, BATCH_TOKENS, &mut progress);
    interrupt.unless_raised(found)
}

/// Measures an encoder, whose records are cut without overlap, so that each token is predicted
/// once.
fn masked(
    args: &Args,
    loaded: Pretrained,
    interrupt: &Interrupt,
) -> Result<(PerplexityReport, Unit, Option<usize>)> {
    ensure!(
        args.of.device == Device::default(),
        "--device: pseudo-perplexity is measured on the processor, got {}",
        args.of.device
    );
    ensure!(
        !args.without_end,
        "--without-end: applies only to models that predict the next token; an encoder predicts no end"
    );
    let own = loaded.manifest.as_ref().map(|manifest| manifest.unit);
    let unit = args.unit.or(own).unwrap_or(Unit::Document);
    let masking = masking(&loaded.model, &loaded.tokenizer).context("--model")?;
    let context = loaded.model.context();
    let Model::Transformer(config) = &loaded.model else {
        bail!("--model: no encoder");
    };
    let mut model = transformer_logits(config, loaded.weights).context("--model")?;
    let (records, characters) = framed(args, unit, &loaded.tokenizer).context("--data")?;
    let most = context.unwrap_or(usize::MAX);
    let count = records.len() as u64;
    let cut = records.iter().filter(|r| r.tokens.len() > most).count() as u64;
    let parts = records.iter().flat_map(|r| r.tokens.chunks(most));
    let sequences: Vec<Vec<TokenId>> = parts.map(<[TokenId]>::to_vec).collect();
    let progress = Progress::of(sequences.len() as u64, "masking each token", "records");
    let mut progress = progress.watched(interrupt);
    let measured = pseudo_perplexity(&mut *model, &masking, &sequences, &mut progress);
    let measured = interrupt.unless_raised(measured)?;
    let report = PerplexityReport {
        masked: true,
        characters,
        ..PerplexityReport::new(&measured, count, cut, unit)
    };
    Ok((report, unit, context))
}

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    args.text.check(&[Some(&args.data)])?;
    let output = output.and_page(args.html.as_deref())?;
    let (report, unit, context) = match (&args.of.model, &args.of.adapter) {
        (Some(folder), None) => {
            let loaded = Pretrained::load(folder).context("--model")?;
            match loaded.model.head() {
                Head::MaskedToken => masked(args, loaded, interrupt)?,
                Head::NextToken | Head::Classes(_) => {
                    let model = LoadedModel::of(folder, loaded, args.of.device);
                    scored(args, model.map_err(of_model)?, interrupt)?
                }
            }
        }
        _ => scored(args, LoadedModel::audited(&args.of, interrupt)?, interrupt)?,
    };
    let inputs = args
        .of
        .given(Inputs::new())?
        .given("data", args.data.display().to_string())?
        .given("text_field", args.text.text_field.as_deref())?
        .or_assumed("unit", args.unit, unit)?
        .given("without_end", args.without_end)?;
    output.answer(
        &Envelope::new("perplexity", inputs, &report),
        &report.to_page(&args.of.name(), context)?,
    )
}

/// Measures a model that predicts the next token.
fn scored(
    args: &Args,
    mut model: LoadedModel,
    interrupt: &Interrupt,
) -> Result<(PerplexityReport, Unit, Option<usize>)> {
    let context = model.context;
    let unit = args.unit.unwrap_or_else(|| model.unit());
    let (mut records, characters) = framed(args, unit, &model.tokenizer).context("--data")?;
    if args.without_end {
        let end = model.tokenizer.eos();
        for record in &mut records {
            // A record that was cut has none.
            record.tokens.pop_if(|last| *last == end);
        }
        records.retain(|r| r.tokens.len() > 1);
    }
    let tokens = records.iter().map(|record| &record.tokens[..]);
    model.has_tokens_of(tokens).context("--data")?;
    let count = records.len() as u64;
    let (records, cut) = windows(records, context);
    let measured = measure(model.scorer(), &records, interrupt)?;
    model.check_steady("--scorer")?;
    let report = PerplexityReport {
        characters,
        ..PerplexityReport::new(&measured, count, cut, unit)
    };
    Ok((report, unit, context))
}

/// The held-out records of a prepared folder, or the text cut into units and framed, nothing masked, nothing dropped; with
/// their characters.
fn framed(args: &Args, unit: Unit, tokenizer: &Tokenizer) -> Result<(Vec<Record>, Characters)> {
    let data = args.data.as_path();
    if is_prepared(data) {
        let found = PreparedRecords::read(data, Part::HeldOut, unit, None)?;
        let found = found.fits(data, tokenizer)?;
        let characters = Characters::of(&found.texts, tokenizer)?;
        return Ok((found.records, characters));
    }
    let texts = texts(&to_measure(data, &args.text.options())?, unit)?;
    ensure!(
        !texts.is_empty(),
        "{} has no record to score",
        data.display()
    );
    let characters = Characters::of(&texts, tokenizer)?;
    let records = texts
        .iter()
        .map(|text| {
            Ok(Record {
                side: reticent_corpus::Side::Public,
                tokens: tokenizer.frame_prepared(text)?,
                sensitive: Vec::new(),
                label: None,
                ignored: Vec::new(),
            })
        })
        .collect::<Result<_>>()?;
    Ok((records, characters))
}

/// Cuts records that are longer than the model's context into windows; also returns how many were
/// cut.
fn windows(records: Vec<Record>, context: Option<usize>) -> (Vec<Record>, u64) {
    let mut out = Vec::with_capacity(records.len());
    let mut cut = 0;
    for record in records {
        let parts = places(record.tokens.len(), context);
        if parts.len() < 2 {
            out.push(record);
            continue;
        }
        cut += 1;
        out.extend(parts.into_iter().map(|part| Record {
            tokens: record.tokens[part].to_vec(),
            sensitive: Vec::new(),
            ignored: Vec::new(),
            ..record
        }));
    }
    (out, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_that_are_too_long_are_cut() {
        let record = |length: u32| Record {
            side: reticent_corpus::Side::Public,
            tokens: (0..length).collect(),
            sensitive: Vec::new(),
            label: None,
            ignored: Vec::new(),
        };
        let (parts, cut) = windows(vec![record(4), record(9)], Some(4));
        let parts: Vec<Vec<u32>> = parts.into_iter().map(|p| p.tokens).collect();
        let wanted = [
            vec![0, 1, 2, 3],
            vec![0, 1, 2, 3],
            vec![3, 4, 5, 6],
            vec![6, 7, 8],
        ];
        assert_eq!((parts, cut), (wanted.to_vec(), 1));
        assert_eq!(windows(vec![record(9)], None).1, 0);
    }
}
