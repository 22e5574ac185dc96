//! `audit extract`: takes prompts from the training text, and ranks secrets among their candidates.

use crate::audit::args::{Extract as Args, GroupBy};
use crate::audit::extract::candidates as secrets;
use crate::audit::extract::{ExtractReport, Merged, WithinDraws};
use crate::audit::loaded_model::LoadedModel;
use crate::audit::membership::run::watched;
use crate::audit::perplexity::run::BATCH_TOKENS;
use crate::audit::records::{Part, Reader, cut};
use crate::audit::training_text::training_records;
use crate::audit::{Apart, RecordsDigest};
use crate::contract::{Exit, Inputs, Interrupt, open_limit};
use crate::number::count_of;
use crate::page::Output;
use anyhow::{Context, Result, ensure};
use reticent_attacks::extract::{
    Continuation, Passage, PromptRates, SamplerSettings, continuations, contrast, count_copies,
    draws_needed, ln_drawn, measure_distances, strata,
};
use reticent_attacks::membership::{DistinctTexts, Rate};
use reticent_backends::PrefixScorer;
use reticent_corpus::TokenId;
use reticent_corpus::tokenize::Tokenizer;
use std::collections::BTreeSet;
use std::path::Path;

/// The default lengths of prompts.
const PROMPTS: [usize; 4] = [10, 25, 50, 100];
/// The default number of tokens of a suffix.
const SUFFIX: usize = 50;

/// The numbers of draws that are reported.
const DRAWS: [f64; 4] = [1.0, 100.0, 1e4, 1e6];

/// The seed of the draw of one record among those with the same suffix.
const SEED: u64 = 0;

/// The number of states that generation holds at once.
const STATES: usize = 64;

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let texts = [args.data.as_deref(), args.training.as_deref()];
    args.text.check(&texts)?;
    let output = output.and_page(args.html.as_deref())?;
    let mut model = LoadedModel::audited(&args.of, interrupt)?;
    let baseline = args.baseline.as_ref();
    let mut baseline = model.against(baseline, &args.of, "--baseline", interrupt)?;
    let report = measured(args, 0, &mut model, baseline.as_mut(), interrupt);
    let report = report.map_err(|error| match error.downcast_ref().map(NoPassage::flag) {
        Some(flag) => error.context(flag),
        None => error,
    })?;
    let released = model.name;
    output.answer_with_rows(
        &report.document(inputs(args, &report)?),
        &report.to_page(&released, args.max_rate)?,
        || Ok(report.rows()?),
    )?;
    open_limit(report.exit(args.max_rate), report.undecided(args.max_rate))
}

/// Why there is no prompt with its suffix to ask for.
#[derive(Debug)]
pub(in crate::audit) enum NoPassage {
    /// The records are too short.
    Records {
        data: String,
        needed: usize,
        longest: usize,
    },
    /// The model reads too few tokens at once.
    Context(usize),
    /// All that are long enough have a suffix with characters outside the vocabulary.
    Unknown { data: String, records: u64 },
}

impl NoPassage {
    const fn flag(&self) -> &'static str {
        match self {
            Self::Records { .. } => "--suffix",
            Self::Context(_) => "--model",
            Self::Unknown { .. } => "--data",
        }
    }
}

impl std::error::Error for NoPassage {}

impl std::fmt::Display for NoPassage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Records {
                data,
                needed,
                longest,
            } => {
                write!(
                    f,
                    "no record of {data} has {needed} tokens, the shortest prompt and the suffix; the longest has {longest}"
                )?;
                match *longest >= 15 {
                    true => {
                        f.write_str("; shorter passages: `audit extract --prompt 5 --suffix 10`")
                    }
                    false => Ok(()),
                }
            }
            Self::Unknown { data, records } => write!(
                f,
                "{} long enough in {data}, and the suffix of each has characters outside the vocabulary, which the model can't distinguish (<UNK>)",
                count_of(*records, "record")
            ),
            Self::Context(context) => write!(
                f,
                "the model reads {context} tokens at once, too few for a prompt and a suffix of one token each behind the beginning of text"
            ),
        }
    }
}

/// The lengths of prompts, ascending, and of the suffix after them.
#[derive(Debug, PartialEq)]
struct Lengths {
    prompts: Vec<usize>,
    suffix: usize,
    /// The context of the model, if the usual lengths are too long for it.
    shortened: Option<usize>,
}

impl Lengths {
    /// Returns the given lengths, or the usual lengths as far as they fit into the model's context together with the
    /// beginning of text.
    ///
    /// # Errors
    /// Returns an error if a given length doesn't fit.
    fn of(prompts: &[u64], suffix: Option<u64>, context: Option<usize>) -> Result<Self> {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut given: Vec<usize> = prompts.iter().map(|n| size(*n)).collect();
        given.sort_unstable();
        given.dedup();
        let given_suffix = suffix.map(size);
        let context = context.unwrap_or(usize::MAX);
        if context < 3 {
            return Err(NoPassage::Context(context).into());
        }
        let suffix = given_suffix.unwrap_or_else(|| SUFFIX.min(context / 2));
        // After the beginning of text.
        let room = context.saturating_sub(suffix.saturating_add(1));
        if let Some(longest) = given.last() {
            ensure!(
                *longest <= room,
                "--prompt: {longest} tokens with a suffix of {suffix} after the beginning of text, and the model reads {context}"
            );
        }
        ensure!(
            room > 0,
            "--suffix: {suffix} tokens after a prompt and the beginning of text, and the model reads {context}"
        );
        let mut usual: Vec<usize> = PROMPTS.into_iter().filter(|n| *n <= room).collect();
        if usual.is_empty() {
            usual.push(room);
        }
        let shorter =
            given_suffix.is_none() && suffix < SUFFIX || given.is_empty() && usual != PROMPTS;
        Ok(Self {
            prompts: if given.is_empty() { usual } else { given },
            suffix,
            shortened: shorter.then_some(context),
        })
    }
}

/// Returns the report, or why nothing is long enough for one. `others`: the number of verdicts of the same document that are
/// about something else.
pub(in crate::audit) fn measured(
    args: &Args,
    others: usize,
    model: &mut LoadedModel,
    baseline: Option<&mut LoadedModel>,
    interrupt: &Interrupt,
) -> Result<ExtractReport> {
    let confidence = crate::audit::confidence(args.confidence)?;
    let nothing = ExtractReport {
        passages: 0,
        merged: Merged::default(),
        suffix: SUFFIX,
        context: None,
        near_at_most: None,
        prompts: Vec::new(),
        draws: Vec::new(),
        baseline: false,
        baseline_apart: None,
        records: None,
        secrets: None,
        confidence,
    };
    let mut report = match &args.data {
        Some(data) => study(args, data, model, baseline, nothing, interrupt)?,
        None => nothing,
    };
    report.secrets = secrets::measured(args, others, model, interrupt)?;
    model.check_steady("--scorer")?;
    Ok(report)
}

fn inputs(args: &Args, report: &ExtractReport) -> Result<Inputs> {
    let mut inputs = Inputs::new();
    if report.secrets.as_ref().is_some_and(|s| s.drawn.is_some()) {
        inputs = inputs
            .or_assumed("candidates", args.candidates, secrets::CANDIDATES)?
            .given("candidate_seed", args.candidate_seed)?;
    }
    Ok(args
        .of
        .given(inputs)?
        .given_path("data", args.data.as_deref())?
        .given_shown("baseline", args.baseline.as_ref())?
        .given_path("training", args.training.as_deref())?
        .given("text_field", args.text.text_field.as_deref())?
        .given_path("secrets", args.secrets.as_deref())?
        .given_path("weights", args.weights.as_deref())?
        .given("unit", args.unit)?
        .or_assumed("suffix", args.suffix, report.suffix as u64)?
        .given("near", args.near)?
        .given("temperature", args.temperature)?
        .given("top_k", args.top_k)?
        .given("top_p", args.top_p)?
        .given("max_rate", args.max_rate)?
        .or_assumed("confidence", args.confidence, report.confidence)?)
}

fn records(texts: &[String], reader: &Reader<'_>) -> Result<Vec<Vec<TokenId>>> {
    texts.iter().map(|text| Ok(reader.tokens(text)?)).collect()
}

fn study(
    args: &Args,
    data: &Path,
    model: &mut LoadedModel,
    mut baseline: Option<&mut LoadedModel>,
    nothing: ExtractReport,
    interrupt: &Interrupt,
) -> Result<ExtractReport> {
    let confidence = nothing.confidence;
    for (flag, model) in [
        ("--scorer", Some(&*model)),
        ("--baseline", baseline.as_deref()),
    ] {
        ensure!(
            model.is_none_or(LoadedModel::has_statistics),
            "{flag}: it gives no `statistics`, and extraction needs the model's first choice at each place"
        );
    }
    let unit = args.unit.unwrap_or_else(|| model.unit());
    let tokenizer = model.tokenizer.clone();
    let mut reader = Reader::new(&tokenizer, model.longest(), true).with_field(&args.text);
    let of_data = cut(data, Part::Training, unit, GroupBy::Nothing, &reader).context("--data")?;
    reader.learn(&of_data);
    let digest = RecordsDigest::of(&[&of_data.texts])?;
    let records = records(&of_data.texts, &reader).context("--data")?;
    let Lengths {
        prompts: lengths,
        suffix,
        shortened,
    } = Lengths::of(&args.prompt, args.suffix, model.context)?;
    let known = records.iter().map(Vec::as_slice);
    model.has_tokens_of(known).context("--data")?;
    let (chosen, merged) = distinct(
        (&of_data.texts, &records),
        &lengths,
        suffix,
        &model.tokenizer,
    )?;
    if chosen.is_empty() && merged.unknown > 0 {
        let (data, records) = (data.display().to_string(), merged.unknown);
        return Err(NoPassage::Unknown { data, records }.into());
    }
    if chosen.is_empty() {
        let short = NoPassage::Records {
            data: data.display().to_string(),
            needed: lengths[0].saturating_add(suffix),
            longest: records.iter().map(|r| r.len() - 1).max().unwrap_or(0),
        };
        return Err(short.into());
    }
    // The suffix of a record is the same after every prompt, so its copies are counted once.
    let cut = |i: usize, length: usize| Passage::of_record(&records[i], length, &lengths, suffix);
    let suffixes: Vec<Vec<TokenId>> = chosen
        .iter()
        .map(|&i| cut(i, lengths[0]).map_or_else(Vec::new, |p| p.suffix))
        .collect();
    let copies = match &args.training {
        Some(path) => {
            let training = training_records(path, unit, &reader)
                .and_then(|texts| self::records(&texts, &reader));
            let training = training.context("--training")?;
            count_copies(&training, &suffixes)
        }
        None => count_copies(&records, &suffixes),
    };
    let sampler = SamplerSettings {
        temperature: args.temperature,
        top_k: args.top_k.map(|k| k as usize),
        top_p: args.top_p,
    };
    let mut report = ExtractReport {
        passages: chosen.len() as u64,
        merged,
        suffix,
        context: shortened,
        near_at_most: args.near,
        baseline: baseline.is_some(),
        records: digest,
        ..nothing
    };
    let mut both = Vec::new();
    for &length in &lengths {
        let (passages, copies): (Vec<Passage>, Vec<u64>) = chosen
            .iter()
            .zip(&copies)
            .filter_map(|(&i, &copies)| Some((cut(i, length)?, copies)))
            .unzip();
        if passages.is_empty() {
            continue;
        }
        let (found, own) = one_length(&passages, args.near, sampler, model.scorer(), interrupt)?;
        let base = match &mut baseline {
            Some(base) => {
                let found = one_length(&passages, None, sampler, base.scorer(), interrupt);
                let (found, its) = found.context("--baseline")?;
                let a_token = |ln: &f64| ln / suffix as f64;
                both.extend(own.iter().map(a_token).zip(its.iter().map(a_token)));
                Some(found)
            }
            None => None,
        };
        let rate = |hits: &[bool]| {
            let count = hits.iter().filter(|hit| **hit).count();
            Rate::of(count as u64, hits.len() as u64, confidence)
        };
        let by_copies = |holds: &dyn Fn(&Continuation) -> bool| {
            let (ours, base) = (that(&found, holds), base.as_ref().map(|b| that(b, holds)));
            strata(&ours, base.as_deref(), &copies, confidence)
        };
        let verbatim = |f: &Continuation| f.verbatim;
        let ours = that(&found, &verbatim);
        let near = |most| rate(&that(&found, &|f| f.distance.is_some_and(|d| d <= most)));
        report.prompts.push(PromptRates {
            prompt: length,
            verbatim: rate(&ours)?,
            near: args.near.map(near).transpose()?,
            strata: by_copies(&verbatim)?,
            contrast: base
                .as_ref()
                .map(|base| contrast(&ours, &that(base, &verbatim), confidence))
                .transpose()?,
        });
        for draws in DRAWS {
            let within = |f: &Continuation| draws_needed(f.ln_once, 0.5).is_ok_and(|n| n <= draws);
            report.draws.push(WithinDraws {
                prompt: length,
                draws,
                rate: rate(&that(&found, &within))?,
                strata: by_copies(&within)?,
            });
        }
    }
    let remembers = report.remembers();
    report.baseline_apart =
        (report.baseline).then(|| Apart::of(both).unless_distinguished(remembers));
    if let Some(base) = baseline {
        base.check_steady("--baseline")?;
    }
    Ok(report)
}

/// Returns records that are long enough, one of those with the same or nearly the same suffix, drawn at random, and how
/// many more there are: a phrase that many records share is remembered once. A suffix with characters outside the
/// vocabulary can't be reproduced verbatim.
fn distinct(
    (texts_of, records): (&[String], &[Vec<TokenId>]),
    prompts: &[usize],
    suffix: usize,
    tokenizer: &Tokenizer,
) -> Result<(Vec<usize>, Merged)> {
    let mut texts = BTreeSet::new();
    let (mut long, mut suffixes, mut merged) = (Vec::new(), Vec::new(), Merged::default());
    for (i, record) in records.iter().enumerate() {
        let Some(passage) = Passage::of_record(record, prompts[0], prompts, suffix) else {
            continue;
        };
        let start = Passage::suffix_start(record, prompts, suffix).unwrap_or(0);
        let of_suffix = start..start + suffix;
        let unknown = tokenizer.unknown(&texts_of[i])?.tokens;
        if unknown.iter().any(|token| of_suffix.contains(token)) {
            merged.unknown += 1;
            continue;
        }
        merged.copies += u64::from(!texts.insert(record));
        long.push(i);
        suffixes.push(tokenizer.decode(&passage.suffix)?);
    }
    let distinct = DistinctTexts::of(&suffixes, &[], SEED)?;
    let kept: Vec<usize> = distinct.kept()[0].iter().map(|&at| long[at]).collect();
    merged.alike = (texts.len() - kept.len()) as u64;
    Ok((kept, merged))
}

/// Returns how the model continues the passages, and how likely each suffix is to the model itself, whatever the
/// sampler.
fn one_length(
    passages: &[Passage],
    near: Option<f64>,
    sampler: SamplerSettings,
    model: &mut dyn PrefixScorer,
    interrupt: &Interrupt,
) -> Result<(Vec<Continuation>, Vec<f64>)> {
    let found = continuations(
        model,
        passages,
        BATCH_TOKENS,
        &mut watched("scoring", interrupt),
    );
    let mut found = interrupt.unless_raised(found)?;
    let own = found.iter().map(|found| found.ln_once).collect();
    if near.is_some() {
        let mut watch = watched("generating", interrupt);
        let measured = measure_distances(model, passages, &mut found, STATES, &mut watch);
        interrupt.unless_raised(measured)?;
    }
    if !sampler.is_plain() {
        let drawn = ln_drawn(model, passages, sampler);
        let drawn = interrupt.unless_raised(drawn)?;
        for (found, ln_once) in found.iter_mut().zip(drawn) {
            found.ln_once = ln_once;
        }
    }
    Ok((found, own))
}

fn that(found: &[Continuation], holds: &dyn Fn(&Continuation) -> bool) -> Vec<bool> {
    found.iter().map(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::tokenize::Origin;

    #[test]
    fn records_too_short_for_the_usual_passages_get_shorter_ones() {
        let said = |longest| {
            let data = "d.jsonl".to_owned();
            let short = NoPassage::Records {
                data,
                needed: 60,
                longest,
            };
            short.to_string()
        };
        assert!(
            said(15).ends_with("has 15; shorter passages: `audit extract --prompt 5 --suffix 10`")
        );
        assert!(said(14).ends_with("the longest has 14"));
    }

    /// Behind prompts of two characters and suffixes of 36: copies, records that differ elsewhere alone, and a suffix that
    /// differs in one letter.
    #[test]
    fn records_that_share_a_suffix_count_once() {
        let tokenizer = Tokenizer::bytes();
        let phrase = "please do not reply to this message.";
        let near = "please do not reply to this massage.";
        let other = "the invoice of May will follow soon.";
        let texts = [
            format!("ab{phrase}"),
            format!("ab{phrase}"),
            format!("ab{phrase}!"),
            format!("ab{phrase}!"),
            format!("cd{phrase}"),
            format!("ef{near}"),
            format!("ab{other}"),
            "abplease".to_owned(),
        ];
        let reader = Reader::new(&tokenizer, None, true);
        let records = records(&texts, &reader).unwrap();
        let (kept, merged) = distinct((&texts, &records), &[2], 36, &tokenizer).unwrap();
        assert!(kept.len() == 2 && kept[0] < 6 && kept[1] == 6, "{kept:?}");
        let expected = Merged {
            copies: 2,
            alike: 3,
            unknown: 0,
        };
        assert_eq!(merged, expected);
        assert_eq!(
            merged.says(),
            " 5 more records long enough and not counted: 2 copies, 3 whose suffix another record has too, or nearly."
        );
        assert_eq!(Merged::default().says(), "");
        let mails: Vec<String> = (0..40).map(|i| format!("order {i}: {phrase}")).collect();
        let of_mails = super::records(&mails, &reader).unwrap();
        let (kept, merged) = distinct((&mails, &of_mails), &[5], 36, &tokenizer).unwrap();
        assert_eq!((kept.len(), merged.alike), (1, 39));
        // Whichever stands first, each may be the one.
        let drawn: BTreeSet<String> = (0..6)
            .map(|by| {
                let mut turned = texts[..6].to_vec();
                turned.rotate_left(by);
                let (kept, _) = distinct(
                    (&turned, &super::records(&turned, &reader).unwrap()),
                    &[2],
                    36,
                    &tokenizer,
                )
                .unwrap();
                turned[kept[0]].clone()
            })
            .collect();
        assert!(drawn.len() > 1, "{drawn:?}");
    }

    /// A suffix with characters outside the vocabulary is left out; a prompt with such characters can be typed all the same.
    #[test]
    fn suffixes_outside_the_vocabulary_are_left_out() {
        let characters = Tokenizer::characters();
        // Byte pairs without an unknown token: digits have no token.
        let pairs = r#"{"version":"1.0","pre_tokenizer":{"type":"Whitespace"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3},"merges":[]}}"#;
        let pairs = Tokenizer::from_json(pairs, Origin::Pretrained).unwrap();
        let left = |tokenizer: &Tokenizer, texts: [&str; 2]| {
            let texts = texts.map(str::to_owned);
            let reader = Reader::new(tokenizer, None, true);
            let records = super::records(&texts, &reader).unwrap();
            let (kept, left) = distinct((&texts, &records), &[2], 2, tokenizer).unwrap();
            assert_eq!((kept, left.unknown), (vec![1], 1), "{texts:?}");
            left
        };
        left(&pairs, ["ab c1 d", "a1 b cd"]);
        let left = left(&characters, ["abcé", "ébcd"]);
        assert_eq!(
            left.says(),
            " 1 more record long enough and not counted: 1 whose suffix has characters outside the vocabulary (<UNK>)."
        );
    }

    /// The usual lengths shrink with the context, and what is asked for doesn't.
    #[test]
    fn usual_lengths_fit_what_the_model_reads() {
        let of = |prompts: &[u64], suffix, context| Lengths::of(prompts, suffix, context);
        let found = |prompts: &[u64], suffix, context| {
            let lengths = of(prompts, suffix, context).unwrap();
            (lengths.prompts, lengths.suffix, lengths.shortened)
        };
        assert_eq!(found(&[], None, None), (PROMPTS.to_vec(), 50, None));
        assert_eq!(found(&[], None, Some(151)), (PROMPTS.to_vec(), 50, None));
        assert_eq!(
            found(&[], None, Some(150)),
            (vec![10, 25, 50], 50, Some(150))
        );
        assert_eq!(found(&[], None, Some(64)), (vec![10, 25], 32, Some(64)));
        assert_eq!(found(&[], None, Some(16)), (vec![7], 8, Some(16)));
        assert_eq!(found(&[], None, Some(3)), (vec![1], 1, Some(3)));
        assert_eq!(found(&[], Some(20), Some(64)), (vec![10, 25], 20, Some(64)));
        assert_eq!(
            found(&[9, 3, 9], Some(20), Some(30)),
            (vec![3, 9], 20, None)
        );
        assert_eq!(found(&[5], None, Some(30)), (vec![5], 15, Some(30)));
        let none = of(&[], None, Some(2)).unwrap_err();
        assert!(matches!(none.downcast_ref(), Some(NoPassage::Context(2))));
        let said = of(&[10], Some(20), Some(30)).unwrap_err().to_string();
        assert!(said.starts_with("--prompt: 10 tokens"), "{said}");
        for suffix in [29, u64::MAX] {
            let said = of(&[], Some(suffix), Some(30)).unwrap_err().to_string();
            assert!(said.starts_with("--suffix: "), "{said}");
        }
    }
}
