//! `audit perplexity`: how well a model predicts a text.

use crate::audit::args::Perplexity as Args;
use crate::audit::loaded_model::LoadedModel;
use crate::audit::perplexity::PerplexityReport;
use crate::contract::{Envelope, Exit, Inputs, Interrupt, Progress};
use crate::page::Output;
use anyhow::{Context, Result, ensure};
use reticent_attacks::{Perplexity, perplexity, windows as places};
use reticent_backends::Scorer;
use reticent_corpus::{Record, Tokenizer, Unit, read_documents};
use std::path::Path;

/// Tokens scored at once.
pub(in crate::audit) const BATCH_TOKENS: usize = 32_768;

/// exp(mean NLL) over records, every token but the first of each.
pub(in crate::audit) fn measure<S: Scorer + ?Sized>(
    scorer: &mut S,
    records: &[Record],
    interrupt: &Interrupt,
) -> Result<Perplexity> {
    let sequences: Vec<_> = records.iter().map(|r| r.tokens.clone()).collect();
    let progress = Progress::of(sequences.len() as u64, "scoring", "records");
    let result = perplexity(scorer, &sequences, BATCH_TOKENS, &mut |done| {
        progress.at(done as u64);
        interrupt.flow()
    });
    interrupt.check()?;
    Ok(result?)
}

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let output = output.and_page(args.html.as_deref())?;
    let mut model = LoadedModel::audited(&args.of, interrupt)?;
    let context = model.context;
    let unit = args.unit.unwrap_or_else(|| model.unit());
    let mut records = framed(&args.data, unit, &model.tokenizer).context("--data")?;
    if args.without_end {
        for record in &mut records {
            record.tokens.pop();
        }
        records.retain(|r| r.tokens.len() > 1);
    }
    let count = records.len() as u64;
    let (records, cut) = windows(records, context);
    let measured = measure(model.scorer(), &records, interrupt)?;
    let report = PerplexityReport::new(&measured, count, cut, unit);
    let inputs = args
        .of
        .given(Inputs::new())?
        .given("data", args.data.display().to_string())?
        .or_assumed("unit", args.unit, unit)?
        .given("without_end", args.without_end)?;
    output.answer(
        &Envelope::new("perplexity", inputs, &report),
        &report.to_page(&args.of.name(), context)?,
    )?;
    Ok(Exit::Finished)
}

/// The text cut into units and framed, nothing masked, nothing dropped.
fn framed(data: &Path, unit: Unit, tokenizer: &Tokenizer) -> Result<Vec<Record>> {
    let documents = read_documents(data)?;
    let texts = crate::audit::records::texts(&documents, unit)?;
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
                label: None,
            })
        })
        .collect()
}

/// Records longer than the model reads at once, in windows. Also how many were cut.
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
