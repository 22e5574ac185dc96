//! Reads a prepared folder as untrusted input.

use super::seal::FolderFiles;
use super::{
    CANARIES, FACTS, HELD_OUT, PreparedDocument, Product, RECORDS, RecordLine, SETTINGS, TEST,
    TEXTS, TOKENIZER, TextLine,
};
use crate::answers::LossOn;
use crate::canary::{CanaryPlan, CopyFate, CopyReport, Preflight};
use crate::error::json_problem;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::prepare::{Copies, Facts, Key, Preparation, PrepareOptions, Prepared};
use crate::random::sha256;
use crate::record::{Record, Side, TokenId, TrainingSet, misplaced, record_id};
use crate::tokenize::Tokenizer;
use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

impl Prepared {
    /// Reads a folder that [`Prepared::write`] wrote, and checks that its files are consistent: counts, sides, token ids,
    /// stages, the canary plan and its copies.
    ///
    /// `owner` is the owner's key. With it, the folder must be the one that was prepared under this key, byte for byte.
    /// Without it, whoever could write the folder may have changed it consistently: [`Prepared::authenticated`] is false.
    ///
    /// # Errors
    /// Returns an error if the folder is not authenticated by the key, a file is missing or no preparation writes one of
    /// its name, the schema is another one, or the files contradict each other. The error names the file and the numbers.
    pub fn load(folder: &Path, owner: Option<[u8; 32]>) -> Result<Self> {
        let mut files = FolderFiles::read(folder, owner.map(Key::new).as_ref(), true)?;
        let sheet = load_sheet(folder, &mut files)?;
        let facts = &sheet.facts;
        let tokenizer = load_tokenizer(folder, &mut files, &sheet)?;
        let path = folder.join(RECORDS);
        let text = files.take(RECORDS)?;
        let frame = Frame::new(&tokenizer, &sheet.options);
        let lines: Vec<RecordLine<'_>> = read_lines(&path, &text)?;
        let documents = documents_of(&path, &lines, facts.documents)?;
        let (records, points) = check_records(&path, lines, facts, &frame)?;
        drop(text);
        let texts = read_texts(
            &folder.join(TEXTS),
            &files.take(TEXTS)?,
            &records,
            &points,
            sheet.options.loss_on,
        )?;
        let HeldOut {
            records: held_out,
            documents: held_out_documents,
            texts: held_out_texts,
        } = load_held_out(folder, &mut files, facts, &frame)?;
        let path = folder.join(CANARIES);
        let plan = load_plan(&path, &mut files, facts)?;
        if let (Some(plan), Some(preflight)) = (&plan, &facts.canaries) {
            let training = TrainingTexts {
                records: &records,
                texts: &texts,
                tokenizer: &tokenizer,
                longest: frame.longest,
            };
            let in_sight = check_copies(&path, plan, preflight, &training)?;
            if !sheet.options.redact && facts.uncaught < in_sight {
                return Err(Error::prepared(
                    &folder.join(FACTS),
                    format!(
                        "facts.uncaught: {}; {in_sight} copies of canaries stand in {RECORDS} outside what the policy found",
                        facts.uncaught
                    ),
                ));
            }
        }
        Ok(Self {
            training: TrainingSet {
                unit: facts.unit,
                records,
                mask_only: facts.mask_only,
            },
            points,
            documents,
            texts,
            held_out,
            held_out_documents,
            held_out_texts,
            plan,
            tokenizer,
            authenticated: owner.is_some(),
            options: sheet.options,
            facts: sheet.facts,
        })
    }
}

/// Returns what a folder under the owner's key says of its preparation. Its records are not parsed.
pub(crate) fn preparation_of(folder: &Path, owner: &Key) -> Result<Preparation> {
    let mut files = FolderFiles::read(folder, Some(owner), false)?;
    let sheet = load_sheet(folder, &mut files)?;
    Ok(Preparation {
        tokenizer: load_tokenizer(folder, &mut files, &sheet)?,
        plan: load_plan(&folder.join(CANARIES), &mut files, &sheet.facts)?,
        facts: sheet.facts,
        options: sheet.options,
        taken_up: None,
    })
}

fn load_sheet(folder: &Path, files: &mut FolderFiles) -> Result<PreparedDocument> {
    let path = folder.join(FACTS);
    let text = files.take(FACTS)?;
    let stated = serde_json::from_str(&text).map(|Stated { .. }| ());
    let sheet = stated.and_then(|()| serde_json::from_str(&text));
    let sheet: PreparedDocument = sheet.map_err(|error| {
        let problem = json_problem(&error);
        Error::prepared(
            &path,
            format!("{problem}; if an earlier version wrote the folder, prepare it again (`audit prepare`)"),
        )
    })?;
    check_sheet(&path, &sheet)?;
    Ok(sheet)
}

/// What a folder must say: where a key is absent, the options' defaults would speak for it.
#[derive(Deserialize)]
struct Stated {
    #[expect(dead_code, reason = "must be there")]
    options: StatedOptions,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they must be there")]
struct StatedOptions {
    conservative: IgnoredAny,
    deduplicate: IgnoredAny,
    duplicates: IgnoredAny,
    redact: IgnoredAny,
    policy: IgnoredAny,
    tokenizer: IgnoredAny,
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
        Err(Error::prepared(
            path,
            format!("{what}: {found}, expected {expected}"),
        ))
    }
}

fn check_sheet(path: &Path, sheet: &PreparedDocument) -> Result<()> {
    let facts = &sheet.facts;
    let wrong = |problem: String| Error::prepared(path, problem);
    expect(path, "schema", sheet.schema, 1)?;
    expect(path, "type", sheet.kind.as_str(), "preparation")?;
    sheet
        .options
        .validate()
        .map_err(|error| wrong(error.to_string()))?;
    facts.check(&sheet.options).map_err(wrong)?;
    let product = Product {
        all_copies: facts.stability(Copies::All),
        single_copy: facts.stability(Copies::Single),
    };
    if product != sheet.stability {
        return Err(wrong(
            "stability is not the product of its stages'".to_owned(),
        ));
    }
    Ok(())
}

fn load_tokenizer(
    folder: &Path,
    files: &mut FolderFiles,
    sheet: &PreparedDocument,
) -> Result<Tokenizer> {
    let path = &folder.join(TOKENIZER);
    let facts = &sheet.facts;
    let wrong = |problem: String| Error::prepared(path, problem);
    let text = files.take(TOKENIZER)?;
    if sha256(text.as_bytes()) != sheet.tokenizer_sha256 {
        return Err(wrong(format!(
            "it is not the tokenizer that {FACTS} has the SHA-256 of, and the tokens would stand for other texts; prepare the folder again (`audit prepare`)"
        )));
    }
    let settings = match files.has(SETTINGS) {
        true => Some(files.take(SETTINGS)?),
        false => None,
    };
    let tokenizer = Tokenizer::of_files(&text, settings.as_deref(), facts.vocabulary);
    let tokenizer = tokenizer.map_err(|error| wrong(error.to_string()))?;
    let size = tokenizer.vocabulary_size();
    expect(path, "vocabulary size", size, facts.vocabulary_size)?;
    if tokenizer.origin() != facts.vocabulary {
        return Err(wrong(format!(
            "the vocabulary is {:?}, {FACTS} says {:?}",
            tokenizer.origin(),
            facts.vocabulary
        )));
    }
    Ok(tokenizer)
}

/// The requirements that every record must meet.
struct Frame<'a> {
    options: &'a PrepareOptions,
    vocabulary: usize,
    bos: TokenId,
    eos: TokenId,
    mask: TokenId,
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
            mask: tokenizer.mask(),
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
        if line.side == Side::Public && tokens.contains(&self.mask) {
            return Err("a record with a mask on the public side".to_owned());
        }
        if !line.sensitive.is_empty() && self.options.redact {
            return Err("sensitive tokens in redacted text".to_owned());
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
        let at = |problem: String| Error::prepared(path, format!("line {number}: {problem}"));
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
        records.push(line.into_record());
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

/// Returns the number of each record's document, which rise and stay below `count`; `None` if some record doesn't say it.
fn documents_of(path: &Path, lines: &[RecordLine<'_>], count: u64) -> Result<Option<Vec<u64>>> {
    let mut least = 0;
    let each = (1u64..).zip(lines).map(|(number, line)| {
        let Some(document) = line.document else {
            return Ok(None);
        };
        if !(least..count).contains(&document) {
            return Err(Error::prepared(
                path,
                format!(
                    "line {number}: document {document}; they do not fall and stay below {count}"
                ),
            ));
        }
        least = document;
        Ok(Some(document))
    });
    let each: Vec<Option<u64>> = each.collect::<Result<_>>()?;
    Ok(each.into_iter().collect())
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

/// Reads texts and checks that their ids match their records and `numbers`.
fn read_texts(
    path: &Path,
    text: &str,
    records: &[Record],
    numbers: &[u64],
    loss_on: Option<LossOn>,
) -> Result<Vec<String>> {
    let wrong = |problem: String| Error::prepared(path, problem);
    let lines: Vec<TextLine<'_>> = read_lines(path, text)?;
    expect(path, "lines", lines.len(), records.len())?;
    let each = lines.iter().zip(records).zip(numbers);
    for (number, ((line, record), own)) in (1u64..).zip(each) {
        if line.id != record_id(*own, &line.text, record, loss_on) {
            return Err(wrong(format!(
                "line {number}: its id is not that of its text and its record (tokens, side, class, sensitive and ignored ranges), or \
                 whose messages carry loss ({FACTS}, options.loss_on) is not what it was; the folder was edited, or prepared by an \
                 earlier version: prepare it again (`audit prepare`)"
            )));
        }
        if line.label != record.label {
            return Err(wrong(format!(
                "line {number}: its class is not that of its record"
            )));
        }
        if line.side != record.side {
            return Err(wrong(format!(
                "line {number}: its side is not that of its record"
            )));
        }
    }
    Ok(lines.into_iter().map(|l| l.text.into_owned()).collect())
}

/// The held-out part of a folder.
struct HeldOut {
    records: Vec<Record>,
    documents: Option<Vec<u64>>,
    texts: Vec<String>,
}

fn load_held_out(
    folder: &Path,
    files: &mut FolderFiles,
    facts: &Facts,
    frame: &Frame<'_>,
) -> Result<HeldOut> {
    let path = folder.join(HELD_OUT);
    if facts.held_out_documents == 0 {
        return match files.has(HELD_OUT) || files.has(TEST) {
            true => Err(Error::prepared(
                &path,
                format!("{FACTS} knows of no documents held out"),
            )),
            false => Ok(HeldOut {
                records: Vec::new(),
                documents: Some(Vec::new()),
                texts: Vec::new(),
            }),
        };
    }
    let text = files.take(HELD_OUT)?;
    let lines: Vec<RecordLine<'_>> = read_lines(&path, &text)?;
    let documents = documents_of(&path, &lines, facts.held_out_documents)?;
    let mut records = Vec::with_capacity(lines.len());
    for (number, line) in (1u64..).zip(lines) {
        frame
            .check(&line)
            .map_err(|problem| Error::prepared(&path, format!("line {number}: {problem}")))?;
        records.push(line.into_record());
    }
    let count = records.len() as u64;
    expect(&path, "records", count, facts.held_out_records)?;
    let tokens: u64 = records.iter().map(Record::loss_tokens).sum();
    expect(&path, "tokens scored", tokens, facts.held_out_tokens)?;
    let numbers: Vec<u64> = (0..count).collect();
    let loss_on = frame.options.loss_on;
    let path = folder.join(TEST);
    let texts = read_texts(&path, &files.take(TEST)?, &records, &numbers, loss_on)?;
    Ok(HeldOut {
        records,
        documents,
        texts,
    })
}

fn load_plan(path: &Path, files: &mut FolderFiles, facts: &Facts) -> Result<Option<CanaryPlan>> {
    let wrong = |problem: String| Error::prepared(path, problem);
    if facts.canaries.is_none() {
        return match files.has(CANARIES) {
            true => Err(wrong(format!("{FACTS} knows of no canaries"))),
            false => Ok(None),
        };
    }
    let plan =
        CanaryPlan::from_json(&files.take(CANARIES)?).map_err(|error| wrong(error.to_string()))?;
    expect(path, "unit", plan.unit, facts.unit)?;
    Ok(Some(plan))
}

/// The records that training sees, with their texts.
struct TrainingTexts<'a> {
    records: &'a [Record],
    texts: &'a [String],
    tokenizer: &'a Tokenizer,
    /// The tokens that a record was cut to.
    longest: usize,
}

/// Checks that the records of a copy are those of its fate, and on its side.
fn check_copy(path: &Path, copy: &CopyReport, records: &[Record]) -> Result<()> {
    let wrong = |problem: String| Error::prepared(path, problem);
    let is_kept = copy.fate == CopyFate::Kept;
    let in_parts = matches!(
        copy.fate,
        CopyFate::Masked | CopyFate::Truncated | CopyFate::Lost
    );
    if is_kept != copy.record.is_some()
        || !(in_parts || copy.parts.is_empty())
        || copy.side.is_some() != copy.records().next().is_some()
    {
        return Err(wrong(format!(
            "copy {} of canary {}: {FACTS} must give a record and its side for a copy that is kept, and those of its \
             parts only for one that is masked, truncated or lost",
            copy.copy, copy.canary
        )));
    }
    // A copy is on the public side if any of its parts is.
    let fits = |part: u64| {
        let at = usize::try_from(part).unwrap_or(usize::MAX);
        let record = records.get(at);
        record.is_some_and(|r| r.side == Side::Private || copy.side == Some(Side::Public))
    };
    match copy.parts.iter().find(|part| !fits(**part)) {
        Some(part) => Err(wrong(format!(
            "copy {} of canary {}: no part of it can be in record {part}",
            copy.copy, copy.canary
        ))),
        None => Ok(()),
    }
}

/// Checks that each copy reported as kept is in its record, and that no record holds a canary more often than that.
/// Returns how many of the copies stand outside what the policy found, so that it did not catch them.
fn check_copies(
    path: &Path,
    plan: &CanaryPlan,
    preflight: &Preflight,
    training: &TrainingTexts<'_>,
) -> Result<u64> {
    let wrong = |problem: String| Error::prepared(path, problem);
    let planned = (0u64..).zip(&plan.canaries).flat_map(|(number, canary)| {
        (0..canary.insertions.len() as u64).map(move |copy| (number, copy))
    });
    let reported = preflight.copies.iter().map(|c| (c.canary, c.copy));
    if !planned.eq(reported) {
        return Err(wrong(format!(
            "facts.canaries.copies of {FACTS} are not the copies of the plan, one by one"
        )));
    }
    let marks = CanaryMarks::new(path, plan)?;
    // By record and mark.
    let mut kept: HashMap<(usize, usize), u64> = HashMap::new();
    for copy in &preflight.copies {
        check_copy(path, copy, training.records)?;
        let Some(record) = copy.record else {
            continue;
        };
        let at = usize::try_from(record).unwrap_or(usize::MAX);
        let number = usize::try_from(copy.canary).unwrap_or(usize::MAX);
        let text = training.texts.get(at).zip(plan.canaries.get(number));
        let there = text.is_some_and(|(text, canary)| {
            text.contains(&canary.secret) && copy.side == Some(training.records[at].side)
        });
        if !there {
            return Err(wrong(format!(
                "copy {} of canary {} is not in record {record}",
                copy.copy, copy.canary
            )));
        }
        *kept.entry((at, marks.of[number])).or_default() += 1;
    }
    let mut in_sight = 0;
    let each = training.records.iter().zip(training.texts).enumerate();
    for (at, (record, text)) in each {
        let mut found = marks.count(text);
        let accounted = |mark: &usize| kept.get(&(at, *mark)).copied().unwrap_or(0);
        if record.tokens.len() >= training.longest
            && found.iter().any(|(mark, count)| *count > accounted(mark))
        {
            // The text goes on behind the end of the tokens.
            found = marks.count(&training.tokenizer.decode(&record.tokens)?);
        }
        for (mark, count) in &found {
            let accounted = accounted(mark);
            if *count > accounted {
                return Err(wrong(format!(
                    "record {at} holds {} {count} times; {FACTS} accounts for {accounted}. The folder was edited, or the corpus has \
                     this canary in its own text: prepare it again, with another --seed",
                    plan.canaries[marks.canary[*mark]].id
                )));
            }
        }
        if !found.is_empty() {
            for plain in outside(record) {
                let found = marks.count(&training.tokenizer.decode(plain)?);
                in_sight += found.values().sum::<u64>();
            }
        }
    }
    Ok(in_sight)
}

/// The tokens of a record outside what the policy found, in stretches.
fn outside(record: &Record) -> impl Iterator<Item = &[TokenId]> {
    let starts = std::iter::once(0).chain(record.sensitive.iter().map(|range| range.end));
    let ends = record.sensitive.iter().map(|range| range.start);
    let ends = ends.chain(std::iter::once(record.tokens.len()));
    starts
        .zip(ends)
        .filter_map(|(start, end)| record.tokens.get(start..end))
}

/// What the copies of each canary have in common: its context and its secret. Canaries whose secrets were drawn
/// independently may share a mark.
struct CanaryMarks {
    search: AhoCorasick,
    /// The mark of each canary.
    of: Vec<usize>,
    /// The first canary of each mark.
    canary: Vec<usize>,
}

impl CanaryMarks {
    fn new(path: &Path, plan: &CanaryPlan) -> Result<Self> {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let (mut marks, mut of, mut canary) = (Vec::new(), Vec::new(), Vec::new());
        for (at, planted) in plan.canaries.iter().enumerate() {
            // A secret without a context may stand in any text; what follows it in the line distinguishes it.
            let mark = match planted.context.as_str() {
                "" => format!("{}{}", planted.secret, planted.after),
                context => format!("{context}{}", planted.secret),
            };
            let number = *numbers.entry(mark.clone()).or_insert(marks.len());
            if number == marks.len() {
                marks.push(mark);
                canary.push(at);
            }
            of.push(number);
        }
        // Of two marks that begin alike, the longer one stands there.
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&marks)
            .map_err(|error| Error::prepared(path, error.to_string()))?;
        Ok(Self { search, of, canary })
    }

    /// How often each mark occurs in a text, for those that do.
    fn count(&self, text: &str) -> HashMap<usize, u64> {
        let mut found = HashMap::new();
        for there in self.search.find_iter(text) {
            *found.entry(there.pattern().as_usize()).or_default() += 1;
        }
        found
    }
}

fn read_lines<'a, T: Deserialize<'a>>(path: &Path, text: &'a str) -> Result<Vec<T>> {
    let each = (1u64..).zip(text.lines()).map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            Error::prepared(path, format!("line {number}: {}", json_problem(&error)))
        })
    });
    each.collect()
}
