//! Writing a prepared folder: all of it, or nothing.

use super::beside::{Beside, Shape, hidden};
use super::seal::seal;
use super::stopped::{self, Growing, Mark, PROGRESS, SEED, Stopped};
use super::{
    CANARIES, FACTS, HELD_OUT, PreparedDocument, Product, RECORDS, RecordLine, SETTINGS, TEST,
    TEXTS, TOKENIZER,
};
use crate::answers::LossOn;
use crate::canary::CanaryPlan;
use crate::error::{Error, Result};
use crate::prepare::{
    Copies, Done, DoneNow, Facts, Identity, Key, Preparation, PrepareOptions, Prepared, Put,
    RestartCause,
};
use crate::random::sha256;
use crate::record::{Record, Side, TokenId, content_digest, numbered};
use crate::tokenize::Tokenizer;
use reticent_disk::DiskFile;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::path::Path;

impl Prepared {
    /// Writes the folder. It appears under its name when it is complete: until then it is a
    /// hidden folder beside it, which an error removes. Files can be read by the owner only.
    ///
    /// `force` allows replacing a folder that holds a prepared corpus, and nothing else. `owner` is the owner's key, under
    /// which the folder is authenticated; without it, it is not.
    ///
    /// # Errors
    /// A folder that exists and is not empty, or a place that cannot be written.
    pub fn write(&self, folder: &Path, force: bool, owner: Option<[u8; 32]>) -> Result<()> {
        let mut out =
            OutputFolder::take(folder, force)?.begin(self.facts.held_out_documents > 0)?;
        let loss_on = self.options.loss_on;
        let training = self.training.records.iter().zip(&self.texts);
        for ((record, text), point) in training.zip(&self.points) {
            out.put(Put::Training(*point), &lines(record, text, loss_on)?)?;
        }
        for (record, text) in self.held_out.iter().zip(&self.held_out_texts) {
            out.put(Put::HeldOut, &lines(record, text, loss_on)?)?;
        }
        out.close(
            &self.facts,
            &self.options,
            self.plan.as_ref(),
            &self.tokenizer,
            owner.map(Key::new).as_ref(),
        )
    }
}

/// A place that is taken for a prepared folder, with what an earlier process left in it.
pub(crate) struct OutputFolder {
    beside: Beside,
    /// Whether a finished folder has the name: what is written has to be the same.
    compared: bool,
}

/// How a folder begins.
pub(crate) enum Start {
    /// Empty.
    Fresh,
    /// Empty, though an earlier preparation left something.
    Restart(RestartCause),
    /// Where an earlier preparation stopped.
    On(Box<Done>),
}

/// A prepared folder while it is written.
pub(crate) struct FolderWriter {
    beside: Beside,
    training: Pair,
    held_out: Option<Pair>,
    compared: bool,
    /// Records held out so far.
    tests: u64,
    /// Whose folder it is; none: it is not taken up when it is stopped.
    identity: Option<Identity>,
}

/// The lines of a record, without the numbers that only its place gives it.
pub(crate) struct Lines {
    /// That of its tokens, that of its text, and the digest of its content, one behind the other.
    bytes: Vec<u8>,
    /// Where the second and the third begin.
    cuts: [usize; 2],
}

impl Lines {
    /// The three parts, with which they are made again.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        let (record, rest) = self.bytes.split_at(self.cuts[0]);
        let (text, digest) = rest.split_at(self.cuts[1] - self.cuts[0]);
        [record, text, digest]
    }

    /// Of three parts one behind the other, and how long the first two are. None of a digest that is no text, and of
    /// lines that are no objects.
    pub(crate) fn of_parts(bytes: Vec<u8>, [record, text]: [usize; 2]) -> Option<Self> {
        let digest = record.checked_add(text)?;
        let object = |at: usize| bytes.get(at) == Some(&b'{');
        let whole = object(0) && object(record) && bytes.get(digest..)?.is_ascii();
        let cuts = [record, digest];
        (whole && record > 0 && text > 0).then_some(Self { bytes, cuts })
    }
}

/// The rest of a line of `train.jsonl`, behind its id.
#[derive(Serialize, JsonSchema)]
struct TextRest<'a> {
    side: Side,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<u32>,
}

/// The lines of a record: workers make them, because that takes longer than writing them.
pub(crate) fn lines(record: &Record, text: &str, loss_on: Option<LossOn>) -> Result<Lines> {
    let rest = TextRest {
        side: record.side,
        text,
        label: record.label,
    };
    let room = 192 + 4 * record.tokens.len() + text.len() + text.len() / 16;
    let mut bytes = Vec::with_capacity(room);
    record_line(record, &mut bytes)?;
    let to_text = bytes.len();
    json(&rest, &mut bytes)?;
    let cuts = [to_text, bytes.len()];
    let digest = content_digest(text, record, loss_on);
    bytes.extend_from_slice(digest.as_bytes());
    Ok(Lines { bytes, cuts })
}

/// What a line of text begins with.
fn text_begins(number: u64, digest: &[u8]) -> String {
    let id = numbered(number, &String::from_utf8_lossy(digest));
    format!("{{\"id\":\"{id}\",")
}

fn json<T: Serialize>(line: &T, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, line).map_err(|error| Error::Prepared {
        path: RECORDS.into(),
        problem: error.to_string(),
    })
}

/// The line of a [`RecordLine`]: its tokens are most of what there is to write, and take a fifth of the time
/// that they take one by one.
fn record_line(record: &Record, out: &mut Vec<u8>) -> Result<()> {
    let line = RecordLine {
        point: None,
        side: record.side,
        tokens: Cow::Borrowed(&[]),
        sensitive: Cow::Borrowed(&record.sensitive),
        ignored: Cow::Borrowed(&record.ignored),
        label: record.label,
    };
    const EMPTY: &[u8] = b"\"tokens\":[]";
    let mut frame = Vec::with_capacity(64);
    json(&line, &mut frame)?;
    let place = frame.windows(EMPTY.len()).position(|part| part == EMPTY);
    let (before, behind) = frame.split_at(place.map_or(0, |place| place + EMPTY.len() - 1));
    out.extend_from_slice(before);
    numbers(&record.tokens, out);
    out.extend_from_slice(behind);
    Ok(())
}

/// Puts numbers behind `out`, a comma between two.
fn numbers(numbers: &[TokenId], out: &mut Vec<u8>) {
    let mut buffer = [0; 4 * 256];
    for numbers in numbers.chunks(buffer.len() / 4) {
        let mut end = 0;
        for number in numbers {
            match SHORT.get(*number as usize) {
                Some((text, length)) => {
                    // Four bytes at once, of which the next ones take the last.
                    buffer[end..end + 4].copy_from_slice(text);
                    end += usize::from(*length);
                }
                None => {
                    out.extend_from_slice(&buffer[..end]);
                    out.extend_from_slice(format!("{number},").as_bytes());
                    end = 0;
                }
            }
        }
        out.extend_from_slice(&buffer[..end]);
    }
    if !numbers.is_empty() {
        out.pop();
    }
}

/// Numbers below a thousand with a comma behind them, and how long that is.
static SHORT: [([u8; 4], u8); 1000] = {
    let mut out = [([0; 4], 0u8); 1000];
    let mut number = 0;
    while number < out.len() {
        let length = 1 + (number > 9) as usize + (number > 99) as usize;
        let (mut rest, mut at) = (number, length);
        while at > 0 {
            at -= 1;
            out[number].0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out[number].0[length] = b',';
        out[number].1 = length as u8 + 1;
        number += 1;
    }
    out
};

impl OutputFolder {
    /// Opens the hidden folder.
    pub(crate) fn take(folder: &Path, force: bool) -> Result<Self> {
        let mut beside = Beside::begin(folder, Shape::Folder, force)?;
        // An error before it is known what it is does not remove it.
        beside.stay_if_stopped();
        Ok(Self {
            beside,
            compared: false,
        })
    }

    /// The same where an earlier process may have finished the folder: then it is written once more, and has to be what is
    /// there.
    pub(crate) fn take_or_compare(folder: &Path) -> Result<Self> {
        match Self::take(folder, false) {
            Err(Error::Occupied { .. }) if folder.join(FACTS).is_file() => Ok(Self {
                compared: true,
                ..Self::take(folder, true)?
            }),
            taken => taken,
        }
    }

    /// Whether a stopped preparation of a folder can be taken up.
    pub(crate) fn stopped(folder: &Path) -> bool {
        hidden(folder, Shape::Folder).is_ok_and(|hidden| stopped::lies_in(&hidden))
    }

    /// The seed of canaries that an earlier preparation drew for this folder, or this one, kept for later ones.
    pub(crate) fn seed(&self, drawn: u64) -> Result<u64> {
        stopped::seed(self.beside.path(), drawn)
    }

    /// Begins an empty folder. `held_out`: whether there is such a part, empty though it may be.
    pub(crate) fn begin(self, held_out: bool) -> Result<FolderWriter> {
        self.empty(held_out, None)
    }

    /// Goes on where the same preparation stopped, or begins an empty folder.
    pub(crate) fn take_up(
        self,
        identity: Identity,
        held_out: bool,
    ) -> Result<(FolderWriter, Start)> {
        let folder = self.beside.path();
        let anew = if !stopped::lies_in(folder) {
            None
        } else if let Some(stopped) = Stopped::<Done>::read(folder) {
            if let Some(cause) = identity.against(&stopped.identity) {
                Some(cause)
            } else if let Some(files) = Files::again(folder, &stopped.files, held_out)? {
                return self.on(identity, files, stopped.done);
            } else {
                Some(RestartCause::Damaged)
            }
        } else {
            Some(RestartCause::Damaged)
        };
        let out = self.empty(held_out, Some(identity))?;
        Ok((out, anew.map_or(Start::Fresh, Start::Restart)))
    }

    fn empty(mut self, held_out: bool, identity: Option<Identity>) -> Result<FolderWriter> {
        self.beside.stay(false);
        self.beside.clear(&[SEED])?;
        let files = Files::create(self.beside.path(), held_out)?;
        Ok(self.writer(files, 0, identity))
    }

    fn on(mut self, identity: Identity, files: Files, done: Done) -> Result<(FolderWriter, Start)> {
        self.beside.stay(false);
        self.beside
            .clear(&[PROGRESS, SEED, RECORDS, TEXTS, HELD_OUT, TEST])?;
        let out = self.writer(files, done.held_out(), Some(identity));
        Ok((out, Start::On(Box::new(done))))
    }

    fn writer(self, files: Files, tests: u64, identity: Option<Identity>) -> FolderWriter {
        FolderWriter {
            beside: self.beside,
            training: files.training,
            held_out: files.held_out,
            compared: self.compared,
            tests,
            identity,
        }
    }
}

impl FolderWriter {
    /// Whether a stopped preparation can be taken up.
    pub(crate) const fn lasts(&self) -> bool {
        self.identity.is_some()
    }

    /// Says on the disk how far the preparation is.
    pub(crate) fn checkpoint(&mut self, done: &DoneNow<'_>) -> Result<()> {
        let Some(identity) = &self.identity else {
            return Ok(());
        };
        let pairs = std::iter::once(&mut self.training).chain(&mut self.held_out);
        let files = pairs.flat_map(|pair| [&mut pair.records, &mut pair.texts]);
        let marks: Vec<Mark> = files.map(Growing::mark).collect::<Result<_>>()?;
        stopped::write(self.beside.path(), identity, &marks, done)
    }

    /// Leaves what was done until the last checkpoint, if there was one.
    pub(crate) fn stop(mut self) {
        self.beside.stay_if_stopped();
    }

    /// The next record.
    pub(crate) fn put(&mut self, put: Put, lines: &Lines) -> Result<()> {
        let [record, text, digest] = lines.parts();
        match (put, &mut self.held_out) {
            (Put::Training(point), _) => {
                let begins = [format!("{{\"point\":{point},"), text_begins(point, digest)];
                let begins = [begins[0].as_bytes(), begins[1].as_bytes()];
                self.training.write(begins, [record, text])
            }
            (Put::HeldOut, Some(pair)) => {
                let begins = text_begins(self.tests, digest);
                self.tests += 1;
                pair.write([b"{", begins.as_bytes()], [record, text])
            }
            (Put::HeldOut, None) => Ok(()),
        }
    }

    /// Writes the other files, authenticates all of them under the owner's key, and gives the folder its name.
    pub(crate) fn finish(self, made: &Preparation, owner: Option<&Key>) -> Result<()> {
        self.close(
            &made.facts,
            &made.options,
            made.plan.as_ref(),
            &made.tokenizer,
            owner,
        )
    }

    fn close(
        mut self,
        facts: &Facts,
        options: &PrepareOptions,
        plan: Option<&CanaryPlan>,
        tokenizer: &Tokenizer,
        owner: Option<&Key>,
    ) -> Result<()> {
        self.beside.stay_if_stopped();
        self.training.close()?;
        if let Some(pair) = self.held_out {
            pair.close()?;
        }
        let folder = self.beside.path();
        if let Some(plan) = plan {
            write_text(&folder.join(CANARIES), &plan.to_json()?)?;
        }
        let tokens = tokenizer.to_json()?;
        write_text(&folder.join(TOKENIZER), &tokens)?;
        if let Some(settings) = tokenizer.settings() {
            write_text(&folder.join(SETTINGS), &settings)?;
        }
        let sheet = PreparedDocument {
            schema: 1,
            kind: "preparation".to_owned(),
            options: options.clone(),
            facts: facts.clone(),
            stability: Product {
                all_copies: facts.stability(Copies::All),
                single_copy: facts.stability(Copies::Single),
            },
            // As it stands in the file, with the line's end.
            tokenizer_sha256: sha256(format!("{tokens}\n").as_bytes()),
        };
        let path = folder.join(FACTS);
        let sheet = serde_json::to_string_pretty(&sheet).map_err(|error| Error::Prepared {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        write_text(&path, &sheet)?;
        if let Some(owner) = owner {
            seal(folder, owner)?;
        }
        self.beside.forget(PROGRESS)?;
        self.beside.forget(SEED)?;
        if self.compared {
            self.beside.compare()
        } else {
            self.beside.finish()
        }
    }
}

/// The files that grow.
struct Files {
    training: Pair,
    held_out: Option<Pair>,
}

impl Files {
    fn create(folder: &Path, held_out: bool) -> Result<Self> {
        let pair = |records, texts| -> Result<Pair> {
            Ok(Pair {
                records: Growing::create(folder, records)?,
                texts: Growing::create(folder, texts)?,
            })
        };
        Ok(Self {
            training: pair(RECORDS, TEXTS)?,
            held_out: held_out.then(|| pair(HELD_OUT, TEST)).transpose()?,
        })
    }

    /// As they were at their marks; none when one of them is not that one any more.
    fn again(folder: &Path, marks: &[Mark], held_out: bool) -> Result<Option<Self>> {
        let pair = |records, texts| -> Result<Option<Pair>> {
            let records = Growing::again(folder, records, marks)?;
            let texts = Growing::again(folder, texts, marks)?;
            Ok(records
                .zip(texts)
                .map(|(records, texts)| Pair { records, texts }))
        };
        let Some(training) = pair(RECORDS, TEXTS)? else {
            return Ok(None);
        };
        let held_out = match held_out {
            false => None,
            true => match pair(HELD_OUT, TEST)? {
                None => return Ok(None),
                there => there,
            },
        };
        Ok(Some(Self { training, held_out }))
    }
}

/// A file of records and one of their texts.
struct Pair {
    records: Growing,
    texts: Growing,
}

impl Pair {
    /// Writes a line to each, with what it begins with in the place of its first brace.
    fn write(&mut self, begins: [&[u8]; 2], lines: [&[u8]; 2]) -> Result<()> {
        self.records.line([begins[0], &lines[0][1..], b"\n"])?;
        self.texts.line([begins[1], &lines[1][1..], b"\n"])
    }

    fn close(self) -> Result<()> {
        self.records.close()?;
        self.texts.close()
    }
}

fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<DiskFile>) -> std::io::Result<()>,
) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(DiskFile::create(path)?);
        fill(&mut out)?;
        out.into_inner().map_err(|e| e.into_error())?.sync()
    };
    write().map_err(|source| Error::Write {
        path: path.to_path_buf(),
        source,
    })
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    write_with(path, |out| {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every length, with and without ranges.
    #[test]
    fn a_line_is_what_its_type_says() {
        let lengths = [0, 9, 10, 99, 100, 255, 999, 1000, 65_536, TokenId::MAX];
        for count in 0..=lengths.len() {
            for sensitive in [vec![], vec![1..2, 4..9]] {
                let record = Record {
                    side: Side::Private,
                    tokens: lengths[..count].to_vec(),
                    ignored: sensitive.clone(),
                    sensitive,
                    label: (count % 2 == 0).then_some(7),
                };
                let line = RecordLine {
                    point: None,
                    side: record.side,
                    tokens: Cow::Borrowed(&record.tokens),
                    sensitive: Cow::Borrowed(&record.sensitive),
                    ignored: Cow::Borrowed(&record.ignored),
                    label: record.label,
                };
                let expected = serde_json::to_string(&line).unwrap();
                let mut written = Vec::new();
                record_line(&record, &mut written).unwrap();
                let written = String::from_utf8(written).unwrap();
                assert_eq!(written, expected);
            }
        }
    }
}
