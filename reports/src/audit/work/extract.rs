//! `audit extract`: prompts from the training text, and secrets among their candidates.

use super::membership::{framed, watched};
use super::model::open;
use super::perplexity::BATCH_TOKENS;
use super::records::cut;
use crate::audit::cli::Extract as Asked;
use crate::audit::extract::{ExtractReport, WithinDraws};
use crate::contract::{AtomicFile, Exit, Format, Inputs, Interrupt, print};
use crate::verdict::FALSE_ALARM;
use anyhow::{Context, Result, bail, ensure};
use reticent_accounting::Confidence;
use reticent_attacks::{
    Continuation, Passage, PromptRates, Rate, Reconstruction, SamplerSettings, SecretCase,
    continuations, contrast, count_copies, draws_needed, ln_drawn, measure_distances, reconstruct,
    strata,
};
use reticent_backends::{Pretrained, Trainer};
use reticent_corpus::{TokenId, Tokenizer, Unit};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// Lengths of prompts where none is given.
const PROMPTS: [usize; 4] = [10, 25, 50, 100];

/// Numbers of draws that are reported.
const DRAWS: [f64; 4] = [1.0, 100.0, 1e4, 1e6];

/// States that generation holds at once.
const STATES: usize = 64;

pub(super) fn run(asked: &Asked, format: Format, interrupt: &Interrupt) -> Result<Exit> {
    let html = match &asked.html {
        Some(path) => Some(AtomicFile::create(path).context("--html")?),
        None => None,
    };
    let report = measured(asked, interrupt)?;
    let released = asked.model.display().to_string();
    if let Some(mut file) = html {
        file.write_all(report.to_html(&released, asked.max_rate)?.as_bytes())
            .context("--html")?;
        file.finish().context("--html")?;
    }
    let text = match format {
        Format::Json => report.to_json(inputs(asked, report.confidence)?)?,
        Format::Text => report.to_text(),
    };
    print(&text)?;
    Ok(report.exit(asked.max_rate))
}

/// The report.
pub(super) fn measured(asked: &Asked, interrupt: &Interrupt) -> Result<ExtractReport> {
    let confidence = asked.confidence.map_or_else(|| Confidence::new(0.95), Ok)?;
    let (loaded, mut model) = open(&asked.model, asked.device)?;
    let mut report = match &asked.data {
        Some(data) => study(asked, data, &loaded, model.as_mut(), confidence, interrupt)?,
        None => ExtractReport {
            passages: 0,
            suffix: asked.suffix as usize,
            near_at_most: None,
            prompts: Vec::new(),
            draws: Vec::new(),
            baseline: false,
            secrets: None,
            confidence,
        },
    };
    if let Some(path) = &asked.secrets {
        let secrets = promised(path, &loaded.tokenizer, model.as_mut(), interrupt);
        interrupt.check()?;
        report.secrets = Some(secrets.context("--secrets")?);
    }
    Ok(report)
}

fn inputs(asked: &Asked, confidence: Confidence) -> Result<Inputs> {
    let path = |p: &Option<std::path::PathBuf>| p.as_ref().map(|p| p.display().to_string());
    Ok(Inputs::new()
        .given("model", asked.model.display().to_string())?
        .given("data", path(&asked.data))?
        .given("baseline", path(&asked.baseline))?
        .given("training", path(&asked.training))?
        .given("secrets", path(&asked.secrets))?
        .given("unit", asked.unit)?
        .given("suffix", asked.suffix)?
        .given("near", asked.near)?
        .given("temperature", asked.temperature)?
        .given("top_k", asked.top_k)?
        .given("top_p", asked.top_p)?
        .given("max_rate", asked.max_rate)?
        .or_assumed("confidence", asked.confidence, confidence)?)
}

fn records(path: &Path, unit: Unit, tokenizer: &Tokenizer) -> Result<Vec<Vec<TokenId>>> {
    let texts = cut(path, unit, false)?.texts;
    texts
        .iter()
        .map(|text| Ok(framed(tokenizer, text, true)?))
        .collect()
}

fn study(
    asked: &Asked,
    data: &Path,
    loaded: &Pretrained,
    model: &mut dyn Trainer,
    confidence: Confidence,
    interrupt: &Interrupt,
) -> Result<ExtractReport> {
    let own = loaded.manifest.as_ref().map_or(Unit::Document, |m| m.unit);
    let unit = asked.unit.unwrap_or(own);
    let records = records(data, unit, &loaded.tokenizer).context("--data")?;
    let suffix = usize::try_from(asked.suffix).unwrap_or(usize::MAX);
    let mut lengths: Vec<usize> = match asked.prompt.as_slice() {
        [] => PROMPTS.to_vec(),
        given => given.iter().map(|n| *n as usize).collect(),
    };
    lengths.sort_unstable();
    lengths.dedup();
    if let Some(context) = loaded.model.context() {
        let longest = lengths.last().copied().unwrap_or(0) + suffix + 1;
        ensure!(
            longest <= context,
            "--prompt: with the suffix {longest} tokens, and the model reads {context}"
        );
    }
    let mut baseline = match &asked.baseline {
        Some(folder) => {
            let (base, engine) = open(folder, asked.device).context("--baseline")?;
            ensure!(
                base.tokenizer.to_json()? == loaded.tokenizer.to_json()?,
                "--baseline: it has another tokenizer than --model"
            );
            Some(engine)
        }
        None => None,
    };
    let longest = lengths.last().copied().unwrap_or(1);
    let chosen = distinct(&records, lengths[0], longest, suffix);
    if chosen.is_empty() {
        let most = records.iter().map(|r| r.len() - 1).max().unwrap_or(0);
        bail!(
            "--suffix: no record of {} has {} tokens, the shortest prompt and the suffix; the longest has {most}",
            data.display(),
            lengths[0].saturating_add(suffix)
        );
    }
    let training = match &asked.training {
        Some(path) => self::records(path, unit, &loaded.tokenizer).context("--training")?,
        None => records.clone(),
    };
    let sampler = SamplerSettings {
        temperature: asked.temperature,
        top_k: asked.top_k.map(|k| k as usize),
        top_p: asked.top_p,
    };
    let mut report = ExtractReport {
        passages: chosen.len() as u64,
        suffix,
        near_at_most: asked.near,
        prompts: Vec::new(),
        draws: Vec::new(),
        baseline: baseline.is_some(),
        secrets: None,
        confidence,
    };
    for &length in &lengths {
        let passages: Vec<Passage> = chosen
            .iter()
            .filter_map(|&i| Passage::of_record(&records[i], length, longest, suffix))
            .collect();
        if passages.is_empty() {
            continue;
        }
        let found = one_length(&passages, asked.near, sampler, model, interrupt)?;
        let base = match &mut baseline {
            Some(engine) => Some(verbatim(&forced(&passages, engine.as_mut(), interrupt)?)),
            None => None,
        };
        let suffixes: Vec<Vec<TokenId>> = passages.iter().map(|p| p.suffix.clone()).collect();
        let copies = count_copies(&training, &suffixes);
        let ours = verbatim(&found);
        let trials = passages.len() as u64;
        let count = |holds: &dyn Fn(&Continuation) -> bool| {
            Rate::of(
                found.iter().filter(|f| holds(f)).count() as u64,
                trials,
                confidence,
            )
        };
        let near = asked
            .near
            .map(|most| count(&|f| f.distance.is_some_and(|d| d <= most)))
            .transpose()?;
        report.prompts.push(PromptRates {
            prompt: length,
            verbatim: count(&|f| f.verbatim)?,
            near,
            strata: strata(&ours, base.as_deref(), &copies, confidence)?,
            contrast: base
                .as_deref()
                .map(|base| contrast(&ours, base, confidence))
                .transpose()?,
        });
        for draws in DRAWS {
            let within = |f: &Continuation| draws_needed(f.ln_once, 0.5).is_ok_and(|n| n <= draws);
            report.draws.push(WithinDraws {
                prompt: length,
                draws,
                rate: count(&within)?,
            });
        }
    }
    Ok(report)
}

/// Records that are long enough, one of those that ask for the same suffix behind the same prompt.
fn distinct(
    records: &[Vec<TokenId>],
    shortest: usize,
    longest: usize,
    suffix: usize,
) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    (0..records.len())
        .filter(|&i| {
            Passage::of_record(&records[i], shortest, longest, suffix)
                .is_some_and(|p| seen.insert((p.prompt, p.suffix)))
        })
        .collect()
}

fn forced(
    passages: &[Passage],
    model: &mut dyn Trainer,
    interrupt: &Interrupt,
) -> Result<Vec<Continuation>> {
    let found = continuations(
        model,
        passages,
        BATCH_TOKENS,
        &mut watched("scoring", interrupt),
    );
    interrupt.check()?;
    Ok(found?)
}

fn one_length(
    passages: &[Passage],
    near: Option<f64>,
    sampler: SamplerSettings,
    model: &mut dyn Trainer,
    interrupt: &Interrupt,
) -> Result<Vec<Continuation>> {
    let mut found = forced(passages, model, interrupt)?;
    if near.is_some() {
        let mut watch = watched("generating", interrupt);
        let measured = measure_distances(model, passages, &mut found, STATES, &mut watch);
        interrupt.check()?;
        measured?;
    }
    if !sampler.is_plain() {
        let drawn = ln_drawn(model, passages, sampler)?;
        for (found, ln_once) in found.iter_mut().zip(drawn) {
            found.ln_once = ln_once;
        }
    }
    Ok(found)
}

fn verbatim(found: &[Continuation]) -> Vec<bool> {
    found.iter().map(|f| f.verbatim).collect()
}

/// One line of a file of secrets.
#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    context: String,
    secret: String,
    candidates: Vec<String>,
    prior: f64,
    posterior: f64,
}

fn promised(
    path: &Path,
    tokenizer: &Tokenizer,
    model: &mut dyn Trainer,
    interrupt: &Interrupt,
) -> Result<Reconstruction> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut cases = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let place = || format!("{}, line {}", path.display(), number + 1);
        let line: Line = serde_json::from_str(line).with_context(place)?;
        cases.push(case(line, tokenizer).with_context(place)?);
    }
    Ok(reconstruct(
        model,
        &cases,
        FALSE_ALARM,
        BATCH_TOKENS,
        &mut watched("ranking secrets", interrupt),
    )?)
}

/// The tokens that all readings share are the context; each candidate keeps its own, so that
/// tokens that reach over the boundary count where they differ.
fn case(line: Line, tokenizer: &Tokenizer) -> Result<SecretCase> {
    let read = |what: &str| -> Result<Vec<TokenId>> {
        Ok(framed(tokenizer, &format!("{}{what}", line.context), true)?)
    };
    let own = read(&line.secret)?;
    let all = line
        .candidates
        .iter()
        .map(|c| read(c))
        .collect::<Result<Vec<_>>>()?;
    let shortest = all.iter().chain([&own]).map(Vec::len).min().unwrap_or(0);
    let shared = (0..shortest.saturating_sub(1))
        .take_while(|&i| all.iter().all(|tokens| tokens[i] == own[i]))
        .count();
    Ok(SecretCase {
        id: line.id,
        context: own[..shared].to_vec(),
        secret: own[shared..].to_vec(),
        candidates: all.iter().map(|tokens| tokens[shared..].to_vec()).collect(),
        prior: line.prior,
        posterior: line.posterior,
    })
}
