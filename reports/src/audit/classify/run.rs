//! `audit classify`: measures how well a classifier predicts the classes of texts.

use crate::audit::args::Classify as Args;
use crate::audit::classify::{ClassifyReport, numbered};
use crate::audit::reading::to_measure;
use crate::audit::records::{Part, PreparedRecords, document_name, one_text};
use crate::contract::{AtomicFile, Envelope, Exit, Inputs, Interrupt, Progress, is_prepared};
use crate::page::Output;
use anyhow::{Context, Result, bail, ensure};
use reticent_backends::checkpoint::Pretrained;
use reticent_backends::engine::open;
use reticent_backends::model::{Head, Model};
use reticent_backends::trainer::shorten;
use reticent_corpus::read::ReadOptions;
use reticent_corpus::screening::screening_records;
use reticent_corpus::{Labels, TokenId, Unit};
use std::path::Path;

/// The number of records classified at once.
const AT_ONCE: usize = 32;

pub(in crate::audit) fn run(args: &Args, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let scores = args.scores_out.as_deref();
    let scores = scores.map(|path| AtomicFile::create_new(path, args.force, &[]));
    let scores = scores.transpose().context("--scores-out")?;
    let output = output.and_page(args.html.as_deref())?;
    let loaded = Pretrained::load(&args.model).context("--model")?;
    let names = names(&loaded.model).context("--model")?;
    let own = loaded.manifest.as_ref().map(|manifest| manifest.unit);
    let unit = args.unit.or(own).unwrap_or(Unit::Document);
    ensure!(
        unit != Unit::User,
        "--unit: must be turn, sentence, dialogue or document; the documents of a user have no one class"
    );
    args.reading.text.check(&[Some(&args.data)])?;
    let found = match is_prepared(&args.data) {
        true => of_folder(args, &loaded, &names, unit)?,
        false => of_file(args, &loaded, &names, unit)?,
    };
    let mut cut = 0;
    let mut texts: Vec<(Vec<TokenId>, usize)> = Vec::with_capacity(found.len());
    let mut sources = Vec::new();
    for (number, record) in (1..).zip(found) {
        let (tokens, longer) = match record.tokens {
            Some(mut tokens) => {
                let longer = shorten(&mut tokens, loaded.model.context());
                (tokens, longer)
            }
            None => read(&loaded, &record.text, number)?,
        };
        cut += u64::from(longer);
        texts.push((tokens, record.class));
        if scores.is_some() {
            sources.push([record.document, record.text, names[record.class].clone()]);
        }
    }
    ensure!(
        !texts.is_empty(),
        "--data: {} has no record",
        args.data.display()
    );
    let mut model = open(&loaded.model, loaded.weights, args.device).context("--device")?;
    let progress = Progress::of(texts.len() as u64, "telling classes", "records");
    let (mut pairs, mut losses) = (Vec::with_capacity(texts.len()), Vec::new());
    for part in texts.chunks(AT_ONCE) {
        interrupt.check()?;
        let sequences: Vec<&[TokenId]> = part.iter().map(|(t, _)| t.as_slice()).collect();
        for (log_p, (_, class)) in model.classify(&sequences)?.iter().zip(part) {
            losses.push(-log_p[*class]);
            pairs.push((*class, most_probable(log_p)));
        }
        progress.at(pairs.len() as u64);
    }
    let report = ClassifyReport::new(&pairs, losses.iter().sum(), cut, unit, &names)?;
    if let Some(file) = scores {
        by_record(args, &losses, &sources)
            .and_then(|rows| file.finish_with(rows))
            .context("--scores-out")?;
    }
    let inputs = Inputs::new()
        .given("model", args.model.display().to_string())?
        .given("data", args.data.display().to_string())?
        .given("label", args.label.as_ref())?
        .or_assumed("unit", args.unit, unit)?;
    output.answer(
        &Envelope::new("classification", inputs, &report),
        &report.to_page(&args.model.display().to_string()),
    )
}

/// A record to classify.
struct Labelled {
    document: String,
    text: String,
    /// Its tokens, where the text alone does not tell them.
    tokens: Option<Vec<TokenId>>,
    class: usize,
}

/// Returns the held-out records of a prepared folder. A model of ours reads their tokens.
fn of_folder(
    args: &Args,
    loaded: &Pretrained,
    names: &[String],
    unit: Unit,
) -> Result<Vec<Labelled>> {
    ensure!(
        args.label.is_none(),
        "--label: a prepared folder has its own classes; leave it out"
    );
    let (path, most) = (&args.data, most(loaded));
    let read = || {
        let found = PreparedRecords::read(path, Part::HeldOut, unit, most)?;
        match loaded.manifest {
            Some(_) => found.fits(path, &loaded.tokenizer),
            None => Ok(found),
        }
    };
    let found: PreparedRecords = read().context("--data")?;
    let classes = found.labels.as_ref().map(|labels| &labels.classes);
    let classes = classes.with_context(|| {
        format!(
            "--data: {} declares no classes, as `audit prepare --label` does",
            path.display()
        )
    })?;
    fits(classes, names, loaded, path)?;
    // Only --scores-out says which records are of one document.
    let documents = match args.scores_out {
        Some(_) => found.documents(path, Part::HeldOut).context("--data")?,
        None => vec![String::new(); found.texts.len()],
    };
    let records = found.records.into_iter().zip(found.texts);
    let records = documents.into_iter().zip(records);
    records
        .map(|(document, (record, text))| {
            let label = record.label.context("--data: a record without a class")?;
            Ok(Labelled {
                document,
                text,
                tokens: loaded.manifest.as_ref().map(|_| record.tokens),
                class: label as usize,
            })
        })
        .collect()
}

/// Refuses the classes of a preparation that are not those of the model.
fn fits(classes: &[String], names: &[String], loaded: &Pretrained, path: &Path) -> Result<()> {
    ensure!(
        classes == names || nameless(&loaded.model) && classes.len() == names.len(),
        "--data: {} has other classes than the model, or the same in another order",
        path.display()
    );
    Ok(())
}

/// Returns the classes of the preparation that wrote a file, if its folder still holds both.
fn classes_beside(path: &Path) -> Option<Vec<String>> {
    let written = path.ends_with("train.jsonl") || path.ends_with("test.jsonl");
    let beside = written.then(|| path.with_file_name("prepared.json"))?;
    let mut prepared: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(beside).ok()?).ok()?;
    serde_json::from_value(prepared.pointer_mut("/options/labels/classes")?.take()).ok()
}

/// Returns the records of a file.
fn of_file(
    args: &Args,
    loaded: &Pretrained,
    names: &[String],
    unit: Unit,
) -> Result<Vec<Labelled>> {
    let label = args.label.as_ref();
    let label = label.context("--label: must be given, unless --data is a prepared folder")?;
    // The lines of a preparation have its numbers.
    let beside = classes_beside(&args.data).filter(|_| label == "label");
    if let Some(classes) = &beside {
        fits(classes, names, loaded, &args.data)?;
    }
    let reading = ReadOptions {
        labels: Some(Labels::new(label, names.to_vec()).context("--model")?),
        // A data set may count its classes in another order than a model from elsewhere.
        by_name: beside.is_none() && loaded.manifest.is_none() && !nameless(&loaded.model),
        ..args.reading.options(None)?
    };
    let mut out = Vec::new();
    for document in to_measure(&args.data, &reading).context("--data")? {
        let records = screening_records(std::slice::from_ref(&document), unit).context("--data")?;
        for record in records {
            let label = record.document.label;
            out.push(Labelled {
                document: document_name(&args.data, &document.id),
                text: record.prepared_text(),
                tokens: None,
                class: label.context("--data: a record without a class")? as usize,
            });
        }
    }
    Ok(out)
}

/// Returns the most tokens of a record that a model of ours was trained on, if it had a limit.
fn most(loaded: &Pretrained) -> Option<usize> {
    loaded.manifest.as_ref().and_then(|m| m.max_tokens)
}

/// Returns the tokens that the model reads of a text, and whether the text is longer than its context. A model of ours
/// reads what it was trained on; any other reads what transformers gives it with `truncation=True`.
fn read(loaded: &Pretrained, text: &str, number: usize) -> Result<(Vec<TokenId>, bool)> {
    let (tokenizer, context) = (&loaded.tokenizer, loaded.model.context());
    if loaded.manifest.is_some() {
        let mut tokens = tokenizer.frame_prepared(text)?;
        tokens.truncate(most(loaded).unwrap_or(usize::MAX));
        let longer = shorten(&mut tokens, context);
        return Ok((tokens, longer));
    }
    let mut tokens = tokenizer.encode_with_special_tokens(text)?;
    one_text(&loaded.model, tokenizer, &tokens, number).context("--data")?;
    let longer = context.is_some_and(|context| tokens.len() > context);
    if tokens.ends_with(&tokenizer.encode(text)?) {
        tokens.truncate(context.unwrap_or(usize::MAX));
    } else {
        shorten(&mut tokens, context);
    }
    Ok((tokens, longer))
}

/// Returns the loss of each record in the format of scores for `audit membership`.
fn by_record(args: &Args, losses: &[f64], sources: &[[String; 3]]) -> Result<Vec<u8>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(["id", "score", "group", "text", "class"])?;
    for (number, (loss, [group, text, class])) in (1..).zip(losses.iter().zip(sources)) {
        let id = format!("{}, record {number}", args.data.display());
        out.write_record([id.as_str(), &loss.to_string(), group, text, class])?;
    }
    Ok(out.into_inner().map_err(csv::IntoInnerError::into_error)?)
}

/// Returns whether the model's classes have no names.
fn nameless(model: &Model) -> bool {
    !matches!(model, Model::Transformer(config) if !config.class_names.is_empty())
}

/// Returns the names of the classes; LABEL_0, LABEL_1, … if they have none.
fn names(model: &Model) -> Result<Vec<String>> {
    match (model, model.head()) {
        (Model::Transformer(config), Head::Classes(_)) if !config.class_names.is_empty() => {
            Ok(config.class_names.clone())
        }
        (_, Head::Classes(classes)) => Ok((0..classes).map(numbered).collect()),
        _ => bail!("it predicts no classes; `audit perplexity` measures a language model"),
    }
}

/// Returns the first of the most probable classes.
fn most_probable(log_p: &[f64]) -> usize {
    let better = |best: usize, i: usize| if log_p[i] > log_p[best] { i } else { best };
    (0..log_p.len()).fold(0, better)
}
