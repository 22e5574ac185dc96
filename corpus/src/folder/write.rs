//! Writing a prepared folder: all of it, or nothing.

use super::beside::{Beside, Left, Shape, hidden};
use super::seal::seal;
use super::stopped::{self, Checksum, Growing, Mark, PROGRESS, SEED, Stopped};
use super::{
    CANARIES, FACTS, HELD_OUT, PreparedDocument, Product, RECORDS, RecordLine, SETTINGS, TEST,
    TEXTS, TOKENIZER,
};
use crate::answers::LossOn;
use crate::canary::CanaryPlan;
use crate::dedup::varint;
use crate::error::{Error, Result};
use crate::prepare::{
    Copies, Done, DoneNow, Facts, Identity, Key, Preparation, PrepareOptions, Prepared, Put,
    RestartCause,
};
use crate::random::sha256;
use crate::record::{Record, Side, TokenId, content_digest, put_id, put_number};
use crate::tokenize::Tokenizer;
use reticent_disk::DiskFile;
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
    /// A folder that exists and is not empty, or a place that cannot be written; what was read from a folder of an earlier
    /// version, which doesn't say the document of each record.
    pub fn write(&self, folder: &Path, force: bool, owner: Option<[u8; 32]>) -> Result<()> {
        let (Some(documents), Some(held_out_documents)) =
            (&self.documents, &self.held_out_documents)
        else {
            return Err(Error::prepared(
                Path::new(RECORDS),
                "a record without its document; prepare the folder again (`audit prepare`)"
                    .to_owned(),
            ));
        };
        let place = OutputFolder::take(folder, force)?;
        let owner = owner.map(Key::new);
        let mut out = place.begin(self.facts.held_out_documents > 0, owner.as_ref())?;
        let loss_on = self.options.loss_on;
        let training = self.training.records.iter().zip(&self.texts);
        let numbers = self.points.iter().zip(documents);
        for ((record, text), (&point, &document)) in training.zip(numbers) {
            let put = Put::Training { point, document };
            out.put(put, lines(record, text, loss_on)?.parts())?;
        }
        let held_out = self.held_out.iter().zip(&self.held_out_texts);
        for ((record, text), &document) in held_out.zip(held_out_documents) {
            let put = Put::HeldOut { document };
            out.put(put, lines(record, text, loss_on)?.parts())?;
        }
        out.close(
            &self.facts,
            &self.options,
            self.plan.as_ref(),
            &self.tokenizer,
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
    /// What the lines of the last record began with.
    begins: [Vec<u8>; 2],
    /// Whose folder it is; none: it is not taken up when it is stopped.
    identity: Option<Identity>,
    /// The owner's key, under which it is taken up when it is stopped, and authenticated when it is finished.
    owner: Option<Key>,
}

/// The lines of a record, without the numbers that only its place gives it.
pub(crate) struct Lines {
    /// That of its tokens, that of its text, and the digest of its content, one behind the other.
    bytes: Vec<u8>,
    /// Where the second and the third begin.
    cuts: [usize; 2],
}

impl Lines {
    pub(crate) fn parts(&self) -> LineParts<'_> {
        let (record, rest) = self.bytes.split_at(self.cuts[0]);
        let (text, digest) = rest.split_at(self.cuts[1] - self.cuts[0]);
        LineParts([record, text, digest])
    }
}

/// The lines of a record in bytes that hold more than these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineParts<'a>([&'a [u8]; 3]);

/// The lines of a record, with tokens as bytes: a third as long.
pub(crate) struct PackedLines {
    bytes: Vec<u8>,
    lengths: [usize; PackedLines::PARTS],
}

/// The lines of several records.
#[derive(Default)]
pub(crate) struct ManyLines {
    bytes: Vec<u8>,
    /// Where the parts of each begin, and the last one ends.
    places: Vec<[usize; 4]>,
    /// The tokens of the last record.
    tokens: Vec<TokenId>,
}

impl PackedLines {
    /// The parts: the line of the tokens before and behind them, the tokens, the line of the text, and the digest.
    pub(crate) const PARTS: usize = 5;

    pub(crate) fn of(record: &Record, text: &str, loss_on: Option<LossOn>) -> Result<Self> {
        let room = 192 + 2 * record.tokens.len() + text.len() + text.len() / 16;
        let mut bytes = Vec::with_capacity(room);
        let mut ends = [0; Self::PARTS];
        ends[0] = record_frame(record, &mut bytes)?;
        ends[1] = bytes.len();
        varint::encode(&record.tokens, &mut bytes);
        ends[2] = bytes.len();
        json(&TextRest::of(record, text), &mut bytes)?;
        ends[3] = bytes.len();
        let digest = content_digest(text, record, loss_on);
        bytes.extend_from_slice(&digest);
        ends[4] = bytes.len();
        let mut lengths = ends;
        for at in (1..ends.len()).rev() {
            lengths[at] -= ends[at - 1];
        }
        Ok(Self { bytes, lengths })
    }

    /// Its parts, one behind the other, and how long each is.
    pub(crate) fn parts(&self) -> (&[u8], [usize; Self::PARTS]) {
        (&self.bytes, self.lengths)
    }
}

impl ManyLines {
    /// Adds the lines of a record that was packed: its parts, one behind the other, and how long each is. `None` where
    /// the lines are no objects, or the digest is no text.
    pub(crate) fn unpack(
        &mut self,
        packed: &[u8],
        lengths: [usize; PackedLines::PARTS],
    ) -> Option<()> {
        let mut rest = packed;
        let mut parts = [&[][..]; PackedLines::PARTS];
        for (part, length) in parts.iter_mut().zip(lengths) {
            (*part, rest) = rest.split_at_checked(length)?;
        }
        let [before, behind, tokens, text, digest] = parts;
        let object = |line: &[u8]| line.first() == Some(&b'{');
        if !(object(before) && object(text) && digest.is_ascii()) {
            return None;
        }
        self.tokens.clear();
        varint::decode(tokens, &mut self.tokens);
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(before);
        numbers(&self.tokens, &mut self.bytes);
        self.bytes.extend_from_slice(behind);
        let text_begin = self.bytes.len();
        self.bytes.extend_from_slice(text);
        let digest_begin = self.bytes.len();
        self.bytes.extend_from_slice(digest);
        let places = [begin, text_begin, digest_begin, self.bytes.len()];
        self.places.push(places);
        Some(())
    }

    /// The lines of each record, in the order in which they were added.
    pub(crate) fn each(&self) -> impl Iterator<Item = LineParts<'_>> {
        let part = |from: usize, to: usize| &self.bytes[from..to];
        let each = self.places.iter();
        each.map(move |[a, b, c, d]| LineParts([part(*a, *b), part(*b, *c), part(*c, *d)]))
    }
}

/// The rest of a line of `train.jsonl`, behind its id.
#[derive(Serialize)]
struct TextRest<'a> {
    side: Side,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<u32>,
}

impl<'a> TextRest<'a> {
    const fn of(record: &Record, text: &'a str) -> Self {
        Self {
            side: record.side,
            text,
            label: record.label,
        }
    }
}

/// The lines of a record: workers make them, because that takes longer than writing them.
pub(crate) fn lines(record: &Record, text: &str, loss_on: Option<LossOn>) -> Result<Lines> {
    let room = 192 + 4 * record.tokens.len() + text.len() + text.len() / 16;
    let mut bytes = Vec::with_capacity(room);
    record_line(record, &mut bytes)?;
    let to_text = bytes.len();
    json(&TextRest::of(record, text), &mut bytes)?;
    let cuts = [to_text, bytes.len()];
    let digest = content_digest(text, record, loss_on);
    bytes.extend_from_slice(&digest);
    Ok(Lines { bytes, cuts })
}

fn json<T: Serialize>(line: &T, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, line)
        .map_err(|error| Error::prepared(Path::new(RECORDS), error.to_string()))
}

/// The line of a [`RecordLine`]: its tokens are most of what there is to write, and take a fifth of the time
/// that they take one by one.
fn record_line(record: &Record, out: &mut Vec<u8>) -> Result<()> {
    let mut frame = Vec::with_capacity(64);
    let place = record_frame(record, &mut frame)?;
    let (before, behind) = frame.split_at(place);
    out.extend_from_slice(before);
    numbers(&record.tokens, out);
    out.extend_from_slice(behind);
    Ok(())
}

/// Appends the line without its tokens to `out`, and returns where these belong in what was appended.
fn record_frame(record: &Record, out: &mut Vec<u8>) -> Result<usize> {
    let line = RecordLine {
        point: None,
        document: None,
        side: record.side,
        tokens: Cow::Borrowed(&[]),
        sensitive: Cow::Borrowed(&record.sensitive),
        ignored: Cow::Borrowed(&record.ignored),
        label: record.label,
    };
    const EMPTY: &[u8] = b"\"tokens\":[]";
    let begin = out.len();
    json(&line, out)?;
    let mut places = out[begin..].windows(EMPTY.len());
    let place = places.position(|part| part == EMPTY);
    Ok(place.map_or(0, |place| place + EMPTY.len() - 1))
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
        Ok(Self {
            beside: Beside::begin(folder, Shape::Folder, force)?,
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
    pub(crate) fn seed(&self, drawn: u64, owner: Option<&Key>) -> Result<u64> {
        stopped::seed(self.beside.path(), drawn, owner)
    }

    /// Begins an empty folder. `held_out`: whether there is such a part, empty though it may be.
    pub(crate) fn begin(self, held_out: bool, owner: Option<&Key>) -> Result<FolderWriter> {
        self.empty(held_out, None, owner)
    }

    /// Goes on where the same preparation stopped, under the same owner's key or without any, or begins an empty folder.
    pub(crate) fn take_up(
        self,
        identity: Identity,
        held_out: bool,
        owner: Option<&Key>,
    ) -> Result<(FolderWriter, Start)> {
        let start = match self.beside.left::<Done>(owner) {
            Left::Nothing => Start::Fresh,
            Left::Damaged => Start::Restart(RestartCause::NotAuthenticated),
            Left::Stopped(stopped) => {
                if let Some(cause) = identity.against(&stopped.identity) {
                    Start::Restart(cause)
                } else if let Some(files) =
                    Files::again(self.beside.path(), &stopped.files, held_out, owner)?
                {
                    return self.on(identity, files, stopped.done, owner);
                } else {
                    Start::Restart(RestartCause::NotAuthenticated)
                }
            }
        };
        Ok((self.empty(held_out, Some(identity), owner)?, start))
    }

    fn empty(
        mut self,
        held_out: bool,
        identity: Option<Identity>,
        owner: Option<&Key>,
    ) -> Result<FolderWriter> {
        self.beside.clear(&[SEED])?;
        let files = Files::create(self.beside.path(), held_out, identity.is_some(), owner)?;
        Ok(self.writer(files, 0, identity, owner))
    }

    fn on(
        mut self,
        identity: Identity,
        files: Files,
        done: Done,
        owner: Option<&Key>,
    ) -> Result<(FolderWriter, Start)> {
        self.beside
            .clear(&[PROGRESS, SEED, RECORDS, TEXTS, HELD_OUT, TEST])?;
        let out = self.writer(files, done.held_out(), Some(identity), owner);
        Ok((out, Start::On(Box::new(done))))
    }

    fn writer(
        self,
        files: Files,
        tests: u64,
        identity: Option<Identity>,
        owner: Option<&Key>,
    ) -> FolderWriter {
        FolderWriter {
            beside: self.beside,
            training: files.training,
            held_out: files.held_out,
            compared: self.compared,
            tests,
            begins: [Vec::new(), Vec::new()],
            identity,
            owner: owner.cloned(),
        }
    }
}

impl FolderWriter {
    /// The hidden folder.
    pub(crate) fn path(&self) -> &Path {
        self.beside.path()
    }

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
        let stopped = Stopped {
            identity: identity.clone(),
            files: files.map(Growing::mark).collect::<Result<_>>()?,
            done,
        };
        stopped.write(self.beside.path(), self.owner.as_ref())
    }

    /// Leaves what was done until the last checkpoint, if there was one.
    pub(crate) fn stop(mut self) {
        self.beside.stay_if_stopped();
    }

    /// The next record.
    pub(crate) fn put(&mut self, put: Put, lines: LineParts<'_>) -> Result<()> {
        let LineParts([record, text, digest]) = lines;
        let [begins, text_begins] = &mut self.begins;
        begins.clear();
        begins.push(b'{');
        let mut say = |key: &[u8], number| {
            begins.extend_from_slice(key);
            put_number(begins, number);
            begins.push(b',');
        };
        let (pair, number) = match (put, &mut self.held_out) {
            (Put::Training { point, document }, _) => {
                say(b"\"point\":", point);
                say(b"\"document\":", document);
                (&mut self.training, point)
            }
            (Put::HeldOut { document }, Some(pair)) => {
                say(b"\"document\":", document);
                self.tests += 1;
                (pair, self.tests - 1)
            }
            (Put::HeldOut { .. }, None) => return Ok(()),
        };
        text_begins.clear();
        text_begins.extend_from_slice(b"{\"id\":\"");
        put_id(text_begins, number, digest);
        text_begins.extend_from_slice(b"\",");
        pair.write([begins, text_begins], [record, text])
    }

    /// Writes the other files, authenticates all of them under the owner's key, and gives the folder its name.
    pub(crate) fn finish(self, made: &Preparation) -> Result<()> {
        self.close(
            &made.facts,
            &made.options,
            made.plan.as_ref(),
            &made.tokenizer,
        )
    }

    fn close(
        mut self,
        facts: &Facts,
        options: &PrepareOptions,
        plan: Option<&CanaryPlan>,
        tokenizer: &Tokenizer,
    ) -> Result<()> {
        self.beside.stay_if_stopped();
        let pairs = [
            (Some(self.training), [RECORDS, TEXTS]),
            (self.held_out, [HELD_OUT, TEST]),
        ];
        let mut known = Vec::new();
        for (pair, names) in pairs {
            let Some(Pair { records, texts }) = pair else {
                continue;
            };
            for (file, name) in [records, texts].into_iter().zip(names) {
                known.extend(file.close()?.map(|listed| (name, listed)));
            }
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
        let sheet = serde_json::to_string_pretty(&sheet)
            .map_err(|error| Error::prepared(&path, error.to_string()))?;
        write_text(&path, &sheet)?;
        if let Some(owner) = &self.owner {
            seal(folder, owner, &known)?;
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
    /// `marked`: whether it is said on the disk how far they are.
    fn create(folder: &Path, held_out: bool, marked: bool, owner: Option<&Key>) -> Result<Self> {
        let create = |name| {
            let counted = marked || owner.is_some();
            let checksum = counted.then(|| Checksum::of(name, owner));
            Growing::create(folder, name, checksum)
        };
        let pair = |records, texts| -> Result<Pair> {
            Ok(Pair {
                records: create(records)?,
                texts: create(texts)?,
            })
        };
        Ok(Self {
            training: pair(RECORDS, TEXTS)?,
            held_out: held_out.then(|| pair(HELD_OUT, TEST)).transpose()?,
        })
    }

    /// As they were at their marks; none when one of them is not that one any more.
    fn again(
        folder: &Path,
        marks: &[Mark],
        held_out: bool,
        owner: Option<&Key>,
    ) -> Result<Option<Self>> {
        let pair = |records, texts| -> Result<Option<Pair>> {
            let records = Growing::again(folder, records, marks, owner)?;
            let texts = Growing::again(folder, texts, marks, owner)?;
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
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(DiskFile::create(path)?);
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.into_inner().map_err(|e| e.into_error())?.sync()
    };
    write().map_err(Error::writing(path))
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
                    document: None,
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
                let whole = lines(&record, "é\n", None).unwrap();
                let packed = PackedLines::of(&record, "é\n", None).unwrap();
                let (bytes, lengths) = packed.parts();
                let mut many = ManyLines::default();
                many.unpack(bytes, lengths).unwrap();
                many.unpack(bytes, lengths).unwrap();
                let LineParts(expected) = whole.parts();
                assert!(many.each().all(|LineParts(parts)| parts == expected));
                assert_eq!(many.each().count(), 2);
                let (cut, text) = (
                    &bytes[..bytes.len() - 1],
                    lengths[..3].iter().sum::<usize>(),
                );
                assert!(many.unpack(cut, lengths).is_none());
                let mut changed = bytes.to_vec();
                changed[text] = b'[';
                assert!(many.unpack(&changed, lengths).is_none());
            }
        }
    }
}
