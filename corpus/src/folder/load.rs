//! Reads a prepared folder as untrusted input.

use super::{
    CANARIES, FACTS, HELD_OUT, PreparedDocument, Product, RECORDS, RecordLine, TEST, TEXTS,
    TOKENIZER, TextLine,
};
use crate::answers::LossOn;
use crate::canary::{CanaryPlan, Preflight};
use crate::error::json_problem;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::prepare::{Copies, Facts, PrepareOptions, Prepared};
use crate::random::sha256;
use crate::record::{Record, TokenId, TrainingSet, misplaced, record_id};
use crate::tokenize::Tokenizer;
use reticent_disk as disk;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

impl Prepared {
    /// Reads a folder that [`Prepared::write`] wrote, and checks that its files are consistent:
    /// counts, sides, token ids, the canary plan.
    ///
    /// # Errors
    /// Returns an error if a file is missing, the schema is another one, or the files contradict
    /// each other. The error names the file and the numbers.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(FACTS);
        let sheet: PreparedDocument = serde_json::from_str(&read_text(&path)?).map_err(|error| {
            let problem = json_problem(&error);
            wrong(
                &path,
                format!("{problem}; if an earlier version wrote the folder, prepare it again (`audit prepare`)"),
            )
        })?;
        check_sheet(&path, &sheet)?;
        let facts = &sheet.facts;
        let tokenizer = load_tokenizer(&folder.join(TOKENIZER), &sheet)?;
        let path = folder.join(RECORDS);
        let lines: Vec<RecordLine<'_>> = read_lines(&path)?;
        let frame = Frame::new(&tokenizer, &sheet.options);
        let (records, points) = check_records(&path, lines, facts, &frame)?;
        let texts = read_texts(
            &folder.join(TEXTS),
            &records,
            &points,
            sheet.options.loss_on,
        )?;
        let (held_out, held_out_texts) = load_held_out(folder, facts, &frame)?;
        let path = folder.join(CANARIES);
        let plan = load_plan(&path, facts)?;
        if let (Some(plan), Some(preflight)) = (&plan, &facts.canaries) {
            check_copies(&path, plan, preflight, &records, &texts)?;
        }
        Ok(Self {
            training: TrainingSet {
                unit: facts.unit,
                records,
                mask_only: facts.mask_only,
            },
            points,
            texts,
            held_out,
            held_out_texts,
            plan,
            tokenizer,
            options: sheet.options,
            facts: sheet.facts,
        })
    }
}

fn wrong(path: &Path, problem: impl Into<String>) -> Error {
    Error::Prepared {
        path: path.to_path_buf(),
        problem: problem.into(),
    }
}

/// Checks an equality that must hold in a folder.
fn expect<T: PartialEq + std::fmt::Display>(
    path: &Path,
    what: &str,
    found: T,
    expected: T,
) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(wrong(path, format!("{what}: {found}, expected {expected}")))
    }
}

fn check_sheet(path: &Path, sheet: &PreparedDocument) -> Result<()> {
    let facts = &sheet.facts;
    expect(path, "schema", sheet.schema, 1)?;
    expect(path, "type", sheet.kind.as_str(), "preparation")?;
    expect(path, "facts.unit", facts.unit, sheet.options.unit)?;
    sheet
        .options
        .validate()
        .map_err(|error| wrong(path, error.to_string()))?;
    let sides = facts.public.checked_add(facts.private);
    if sides != Some(facts.units) {
        return Err(wrong(
            path,
            format!(
                "public {} and private {} do not add up to {} units",
                facts.public, facts.private, facts.units
            ),
        ));
    }
    let product = Product {
        all_copies: facts.stability(Copies::All),
        single_copy: facts.stability(Copies::Single),
    };
    if product != sheet.stability {
        return Err(wrong(
            path,
            "stability is not the product of its stages'".to_owned(),
        ));
    }
    Ok(())
}

fn load_tokenizer(path: &Path, sheet: &PreparedDocument) -> Result<Tokenizer> {
    let facts = &sheet.facts;
    if sha256(read_text(path)?.as_bytes()) != sheet.tokenizer_sha256 {
        return Err(wrong(
            path,
            format!(
                "it is not the tokenizer that {FACTS} has the SHA-256 of, and the tokens would stand for other texts; prepare the folder again (`audit prepare`)"
            ),
        ));
    }
    let tokenizer = Tokenizer::load(path, facts.vocabulary)?;
    let size = tokenizer.vocabulary_size();
    expect(path, "vocabulary size", size, facts.vocabulary_size)?;
    if tokenizer.origin() != facts.vocabulary {
        return Err(wrong(
            path,
            format!(
                "the vocabulary is {:?}, {FACTS} says {:?}",
                tokenizer.origin(),
                facts.vocabulary
            ),
        ));
    }
    Ok(tokenizer)
}

/// The requirements that every record must meet.
struct Frame<'a> {
    options: &'a PrepareOptions,
    vocabulary: usize,
    bos: TokenId,
    eos: TokenId,
    /// Whether text can contain the tokens for its beginning and end.
    spelt: bool,
    longest: usize,
}

impl<'a> Frame<'a> {
    fn new(tokenizer: &Tokenizer, options: &'a PrepareOptions) -> Self {
        Self {
            options,
            vocabulary: tokenizer.vocabulary_size(),
            bos: tokenizer.bos(),
            eos: tokenizer.eos(),
            spelt: tokenizer.spells_ends(),
            longest: options.max_tokens.unwrap_or(usize::MAX),
        }
    }

    fn check(&self, line: &RecordLine<'_>) -> std::result::Result<(), String> {
        let (tokens, ignored) = (&*line.tokens, &*line.ignored);
        check_ranges("sensitive", &line.sensitive, tokens.len())?;
        self.check_tokens(tokens, &line.sensitive)?;
        check_ranges("ignored", ignored, tokens.len())?;
        if !ignored.is_empty() && self.options.loss_on.is_none() {
            return Err("tokens without loss, where nothing asks for them".to_owned());
        }
        Labels::check(self.options.labels.as_ref(), line.label)
    }

    fn check_tokens(
        &self,
        tokens: &[TokenId],
        sensitive: &[Range<usize>],
    ) -> std::result::Result<(), String> {
        let length = tokens.len();
        // Records are cut as if each run of sensitive content were one mask.
        let redacted = length - sensitive.iter().map(|run| run.len() - 1).sum::<usize>();
        if length < 2 || redacted > self.longest {
            return Err(format!("a record of {length} tokens"));
        }
        if let Some(id) = tokens.iter().find(|&&t| t as usize >= self.vocabulary) {
            return Err(format!(
                "token {id}; the vocabulary has {} tokens",
                self.vocabulary
            ));
        }
        if tokens.first() != Some(&self.bos) {
            return Err("a record that does not begin with the beginning of text".to_owned());
        }
        let ended = tokens.last() == Some(&self.eos);
        if !ended && redacted < self.longest {
            return Err("a record that does not end with the end of text".to_owned());
        }
        let inside = &tokens[1..length - usize::from(ended)];
        if !self.spelt && inside.iter().any(|t| [self.bos, self.eos].contains(t)) {
            return Err("a record with a beginning or end of text inside".to_owned());
        }
        Ok(())
    }
}

fn check_records(
    path: &Path,
    lines: Vec<RecordLine<'_>>,
    facts: &Facts,
    frame: &Frame<'_>,
) -> Result<(Vec<Record>, Vec<u64>)> {
    let mut records = Vec::with_capacity(lines.len());
    let mut points: Vec<u64> = Vec::with_capacity(lines.len());
    for (number, line) in (1u64..).zip(lines) {
        let at = |problem: String| wrong(path, format!("line {number}: {problem}"));
        frame.check(&line).map_err(at)?;
        let point = line
            .point
            .ok_or_else(|| at("a record without its point".to_owned()))?;
        let after = points.last().is_none_or(|&last| last < point);
        if !after || point >= facts.units {
            return Err(at(format!(
                "point {point}; points rise and stay below {}",
                facts.units
            )));
        }
        points.push(point);
        records.push(Record {
            side: line.side,
            tokens: line.tokens.into_owned(),
            sensitive: line.sensitive.into_owned(),
            ignored: line.ignored.into_owned(),
            label: line.label,
        });
    }
    let training = TrainingSet {
        unit: facts.unit,
        records,
        mask_only: facts.mask_only,
    };
    expect(path, "public records", training.public_size(), facts.public)?;
    expect(
        path,
        "private records and mask-only points",
        training.private_size(),
        facts.private,
    )?;
    let loss: u64 = training.records.iter().map(Record::loss_tokens).sum();
    expect(path, "tokens that carry loss", loss, facts.loss_tokens)?;
    Ok((training.records, points))
}

fn check_ranges(
    what: &str,
    ranges: &[Range<usize>],
    tokens: usize,
) -> std::result::Result<(), String> {
    match misplaced(ranges, tokens) {
        None => Ok(()),
        Some(range) => Err(format!(
            "{what} range {}..{}; ranges rise inside 1..{tokens} without touching",
            range.start, range.end
        )),
    }
}

/// Reads texts and checks that their ids match their content and `numbers`.
fn read_texts(
    path: &Path,
    records: &[Record],
    numbers: &[u64],
    loss_on: Option<LossOn>,
) -> Result<Vec<String>> {
    let lines: Vec<TextLine<'_>> = read_lines(path)?;
    expect(path, "lines", lines.len(), records.len())?;
    let each = lines.iter().zip(records).zip(numbers);
    for (number, ((line, record), own)) in (1u64..).zip(each) {
        let ignored = record.ignored_for(loss_on);
        let id = record_id(*own, &line.text, &record.tokens, ignored);
        if line.id != id {
            return Err(wrong(
                path,
                format!(
                    "line {number}: its id is not that of its text, its tokens and those that are ignored, or whose messages carry loss ({FACTS}, options.loss_on) is not what it was; the folder was edited, or \
                     prepared by an earlier version: prepare it again (`audit prepare`)"
                ),
            ));
        }
        if line.label != record.label {
            return Err(wrong(
                path,
                format!("line {number}: its class is not that of its record"),
            ));
        }
        if line.side != record.side {
            return Err(wrong(
                path,
                format!("line {number}: its side is not that of its record"),
            ));
        }
    }
    Ok(lines.into_iter().map(|l| l.text.into_owned()).collect())
}

fn load_held_out(
    folder: &Path,
    facts: &Facts,
    frame: &Frame<'_>,
) -> Result<(Vec<Record>, Vec<String>)> {
    if facts.held_out_documents == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let path = folder.join(HELD_OUT);
    let lines: Vec<RecordLine<'_>> = read_lines(&path)?;
    let mut records = Vec::with_capacity(lines.len());
    for (number, line) in (1u64..).zip(lines) {
        frame
            .check(&line)
            .map_err(|problem| wrong(&path, format!("line {number}: {problem}")))?;
        records.push(Record {
            side: line.side,
            tokens: line.tokens.into_owned(),
            sensitive: line.sensitive.into_owned(),
            ignored: line.ignored.into_owned(),
            label: line.label,
        });
    }
    let count = records.len() as u64;
    expect(&path, "records", count, facts.held_out_records)?;
    let tokens: u64 = records.iter().map(Record::loss_tokens).sum();
    expect(&path, "tokens scored", tokens, facts.held_out_tokens)?;
    let numbers: Vec<u64> = (0..count).collect();
    let loss_on = frame.options.loss_on;
    let texts = read_texts(&folder.join(TEST), &records, &numbers, loss_on)?;
    Ok((records, texts))
}

fn load_plan(path: &Path, facts: &Facts) -> Result<Option<CanaryPlan>> {
    let Some(preflight) = &facts.canaries else {
        return if path.exists() {
            Err(wrong(path, format!("{FACTS} knows of no canaries")))
        } else {
            Ok(None)
        };
    };
    let plan =
        CanaryPlan::from_json(&read_text(path)?).map_err(|error| wrong(path, error.to_string()))?;
    expect(path, "unit", plan.unit, facts.unit)?;
    let copies: usize = plan.canaries.iter().map(|c| c.insertions.len()).sum();
    expect(path, "copies", copies, preflight.copies.len())?;
    Ok(Some(plan))
}

/// Checks that every copy reported as kept is in its record.
fn check_copies(
    path: &Path,
    plan: &CanaryPlan,
    preflight: &Preflight,
    records: &[Record],
    texts: &[String],
) -> Result<()> {
    for copy in &preflight.copies {
        let Some(record) = copy.record else {
            continue;
        };
        let at = usize::try_from(record).unwrap_or(usize::MAX);
        let canary = usize::try_from(copy.canary)
            .ok()
            .and_then(|c| plan.canaries.get(c));
        let there = texts.get(at).zip(canary).is_some_and(|(text, canary)| {
            text.contains(&canary.secret) && copy.side == Some(records[at].side)
        });
        if !there {
            return Err(wrong(
                path,
                format!(
                    "copy {} of canary {} is not in record {record}",
                    copy.copy, copy.canary
                ),
            ));
        }
    }
    Ok(())
}

/// The largest file with one JSON value, in bytes: 1 GiB.
const FILE_LIMIT: u64 = 1 << 30;

/// Opens a file of lines; it must be a regular file, and is therefore finite.
fn open(path: &Path) -> Result<File> {
    let opened = match std::fs::metadata(path) {
        Ok(about) if !about.is_file() => {
            return Err(wrong(path, "it is no regular file".to_owned()));
        }
        _ => File::open(path),
    };
    opened.map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })
}

fn read_text(path: &Path) -> Result<String> {
    let failed = |source| Error::Read {
        path: path.to_path_buf(),
        source,
    };
    let bytes = disk::read_regular(path, FILE_LIMIT).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| wrong(path, "it is not UTF-8".to_owned()))
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let mut out = Vec::new();
    for (number, line) in (1u64..).zip(BufReader::new(open(path)?).lines()) {
        let line = line.map_err(|source| Error::Read {
            path: path.to_path_buf(),
            source,
        })?;
        let value = serde_json::from_str(&line)
            .map_err(|error| wrong(path, format!("line {number}: {}", json_problem(&error))))?;
        out.push(value);
    }
    Ok(out)
}
