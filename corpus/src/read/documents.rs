//! Streams the documents of a file or folder.

use super::files::{CorpusFile, corpus_files, is_stdin, left_out, list_with_others};
use super::format::{Format, Raw, all_heeded};
use super::ids::{self, Ids};
use super::users::{User, Users};
use super::{ChatTemplate, Entry, LINE_LIMIT, Object, shape};
use crate::answers::LossOn;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::rows::Scratch;
use crate::split::restore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a corpus is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadOptions {
    /// Longest line, row, block or dialogue, in bytes; a longer one is an error. At least 1.
    pub longest: u64,
    /// The key or column that holds the text; `text` where nothing is said, and the other shapes below.
    pub text: Option<String>,
    /// What makes a text of messages; a line for each where nothing is said.
    #[serde(skip)]
    pub chat: Option<ChatTemplate>,
    /// Whose messages alone carry loss, which needs [`Self::chat`], or the answer of a pair; all text does where nothing
    /// is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_on: Option<LossOn>,
    /// What separates documents of plain text; blank lines where nothing is said.
    pub separator: Option<String>,
    /// A key or column besides text and id, whose values [`Documents::values`] gives.
    pub field: Option<String>,
    /// A key or column that says whose a document is, read in the place of `field`: all documents of one user become
    /// one, in the order in which they stand, a line break between two. They are in memory together. Spellings that
    /// [`reticent_disk::folded_word`] makes one are one user.
    pub user: Option<String>,
    /// The key or column of a document's class, read in the place of `field`, and the classes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// Whether a file that cannot be read, or not to its end, is left at that place without an
    /// error: [`Documents::skipped`] has what was wrong.
    pub skip_unreadable: bool,
    /// Whether spans masked beforehand are an error, as [`Document::unmasked`] says.
    #[serde(skip)]
    pub unmasked: bool,
    /// Whether lines of `train.jsonl` and `test.jsonl` of a prepared corpus are read as they were prepared: `<MASK>` is a
    /// span masked beforehand, and an escaped `<\MASK>` is a literal one again. Otherwise their text is text.
    #[serde(skip)]
    pub prepared: bool,
    /// Whether a class is given by its name alone, and never by its number.
    #[serde(skip)]
    pub by_name: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            longest: LINE_LIMIT,
            text: None,
            chat: None,
            loss_on: None,
            separator: None,
            field: None,
            user: None,
            labels: None,
            skip_unreadable: false,
            unmasked: false,
            prepared: false,
            by_name: false,
        }
    }
}

/// The key of the class in `train.jsonl` and `test.jsonl`.
const PREPARED_LABEL: &str = "label";

/// Where the next document of a corpus is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Place {
    /// Files before it.
    file: u64,
    /// Bytes and lines of its file before it, where reading can begin there; else zero.
    bytes: u64,
    lines: u64,
    /// Otherwise the documents of its file before it, which are read past.
    documents: u64,
}

/// Reads a whole corpus into memory by collecting [`Documents`].
///
/// # Errors
/// As for [`Documents`]; also returns an error if the corpus contains no text. For a folder, the error names every file
/// that cannot be read.
pub fn read_documents(path: &Path) -> Result<Vec<Document>> {
    let (documents, errors) = read_readable(path, &ReadOptions::default())?;
    match errors.is_empty() {
        true => Ok(documents),
        false => Err(Error::several(errors)),
    }
}

/// Reads a corpus, and returns the readable documents together with the errors of files that cannot be read. For a file
/// that fails midway, the documents before the failure are included.
///
/// # Errors
/// Returns an error if the path does not exist, a folder contains no documents, or the corpus contains no text although
/// no file failed.
pub fn read_readable(path: &Path, options: &ReadOptions) -> Result<(Vec<Document>, Vec<Error>)> {
    let mut stream = Documents::with(path, options)?;
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    for read in &mut stream {
        match read {
            Ok(document) => documents.push(document),
            Err(error) => errors.push(error),
        }
    }
    errors.append(&mut stream.skipped);
    if errors.is_empty() && documents.iter().all(|d| d.text.trim().is_empty()) {
        return Err(Error::EmptyCorpus {
            path: path.to_path_buf(),
        });
    }
    Ok((documents, errors))
}

/// Iterates over the documents of a file or of a folder's files. One document is in memory at a time, plus 36 bytes for
/// each id.
///
/// - `.jsonl`, `.ndjson`: `{"id","text"}` with optional `secrets: [{start,end,kind}]` and `masked: [{start,end}]` in
///   characters, one object per line. `null` is as if the key were missing. Other keys are ignored; a missing id becomes
///   `line-N`. Without `text`, or with a blank one, the formats of trainers are read: `messages` (`role`, `content`),
///   `conversations` (`from`, `value`), `prompt` and `completion`, `instruction`, `input` and `output`; else `abstract`
///   (arXiv's public metadata).
///   Each message becomes a line, `USR: …`, `SYS: …`, `SYSTEM: …` or `TOOL: …`, unless [`ReadOptions::chat`] is set.
///   [`ReadOptions::text`] names another key.
/// - `.json`: the same, or one list or object of dialogues: MultiWOZ to 2.1 (`goal`, `log`), MultiWOZ 2.2 and SGD
///   (`turns`), or of the objects above. Each turn becomes a line, `USR: …` or `SYS: …`. Marks there are an error.
/// - `.csv`, and `.tsv` with tabs: a column `text` (or [`ReadOptions::text`]), and optionally `id`.
/// - `.parquet` (feature `parquet`): the same; rows without a text are read like objects of JSON Lines with the columns
///   as keys.
/// - Anything else is plain text: documents are separated by blank lines and named `block-N` after the number of their
///   first line. [`ReadOptions::separator`] sets another separator, such as `<|endoftext|>`.
/// - `-` is stdin: JSON if its first byte says so, CSV if a column is named, else plain text.
///
/// In a folder, generated ids begin with the file's path in the folder, `part/a.txt/block-1`. Files are read in the
/// order of their names; files with endings other than those above and `.txt`, `.text`, `.md` are skipped.
///
/// Files compressed with gzip or Zstandard are unpacked while they are read, whatever their name; the endings `.gz` and
/// `.zst` are ignored. A byte-order mark and carriage returns at line ends are dropped.
///
/// After an error, reading continues with the next file. Errors name the file and the place: invalid UTF-8 (line and
/// byte), invalid JSON (line and column), spans that do not fit, two documents with the same id, anything longer than
/// [`ReadOptions::longest`], and compressed data that ends early, is damaged, or unpacks to more than 250 times its
/// size.
#[derive(Default)]
pub struct Documents {
    options: ReadOptions,
    files: std::vec::IntoIter<CorpusFile>,
    open: Option<(CorpusFile, Format)>,
    /// The number of files that have been opened.
    begun: u32,
    /// The total size of the files that are finished.
    done: u64,
    /// The documents of the open file so far, and the bytes read before it.
    given: u64,
    read_before: u64,
    /// The number of bytes read, counted as stored in the files.
    read: Arc<AtomicU64>,
    size: u64,
    /// The ids so far; `None` if they were checked before.
    ids: Option<Ids>,
    /// The file or folder.
    path: PathBuf,
    values: Vec<String>,
    object: Option<Object>,
    /// Columns that the object could not represent.
    left_out: Vec<String>,
    /// Whether the last document's id was generated.
    generated_id: bool,
    /// The format that stdin was read as, once it is open.
    stdin: Option<&'static str>,
    /// Whether the objects are written out again, so that their numbers must equal those in the file.
    exact: bool,
    skipped: Vec<Error>,
    /// The note that the folder contains files with other endings.
    others: Option<Error>,
    users: Option<Users>,
    joined: u32,
}

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Documents")
            .field("file", &self.open.as_ref().map(|(file, _)| &file.path))
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl Documents {
    /// Opens a file or folder.
    ///
    /// # Errors
    /// Returns an error if the path does not exist or a folder contains no documents.
    pub fn open(path: &Path) -> Result<Self> {
        Self::with(path, &ReadOptions::default())
    }

    /// Opens a file or folder with options.
    ///
    /// # Errors
    /// As for [`Documents::open`]; also returns an error if [`ReadOptions::text`] or [`ReadOptions::separator`] applies
    /// to none of the files.
    pub fn with(path: &Path, options: &ReadOptions) -> Result<Self> {
        let (files, others) = list_with_others(path)?;
        all_heeded(&files, options)?;
        let mut out = Self::of(files, options);
        out.others = left_out(path, &others);
        out.path = path.to_path_buf();
        Ok(out)
    }

    /// Keeps no more ids in memory than this; the others lie on the disk, under a key. An id that is not unique may then
    /// be an error at the end.
    pub(crate) fn sorting_ids(mut self, scratch: Scratch<'_>, key: [u8; 20]) -> Self {
        self.ids = Some(Ids::sorted(scratch, key));
        self
    }

    /// Leaves out whether ids are unique. The caller checks that the documents are those of which it is known.
    pub(crate) fn with_known_ids(mut self) -> Self {
        self.ids = None;
        self
    }

    /// Opens a corpus at a document's place, assuming the files have not changed since the place was recorded.
    pub(crate) fn from_place(path: &Path, options: &ReadOptions, place: &Place) -> Result<Self> {
        let changed = || Error::Changed {
            path: path.to_path_buf(),
        };
        let mut out = Self::with(path, options)?;
        for _ in 0..place.file {
            let before = out.files.next().ok_or_else(changed)?;
            out.begun += 1;
            out.done += before.bytes;
        }
        if *place
            == (Place {
                file: place.file,
                ..Place::default()
            })
        {
            return Ok(out);
        }
        let file = out.files.next().ok_or_else(changed)?;
        out.begun += 1;
        let mut format = if place.documents == 0 {
            let at = (place.bytes, place.lines);
            Format::open_at(&file.path, &out.options, out.read.clone(), at)?
        } else {
            Format::open(&file.path, &out.options, false, out.read.clone())?
        };
        for _ in 0..place.documents {
            format.next()?.ok_or_else(changed)?;
        }
        out.given = place.documents;
        out.open = Some((file, format));
        Ok(out)
    }

    /// Returns the place from which the next document is read.
    pub(crate) fn place(&self) -> Place {
        let Some((_, format)) = &self.open else {
            return Place {
                file: u64::from(self.begun),
                ..Place::default()
            };
        };
        let position = format.position();
        let (bytes, lines) = position.unwrap_or_default();
        Place {
            file: u64::from(self.begun.saturating_sub(1)),
            bytes,
            lines,
            documents: if position.is_some() { 0 } else { self.given },
        }
    }

    /// Returns the number of bytes of the files before the next document. This includes bytes read ahead if the format
    /// does not know its position.
    pub(crate) fn bytes_before(&self) -> u64 {
        let here = self.open.as_ref().map_or(0, |(file, format)| {
            let read = || self.bytes_read() - self.read_before;
            let here = format.position().map_or_else(read, |(bytes, _)| bytes);
            here.min(file.bytes)
        });
        self.done + here
    }

    /// Reads bytes in memory as a file with the given name.
    #[must_use]
    pub fn from_bytes(name: &Path, bytes: Vec<u8>, options: &ReadOptions) -> Self {
        let file = CorpusFile {
            path: name.to_path_buf(),
            prefix: String::new(),
            bytes: bytes.len() as u64,
        };
        let mut out = Self::of(Vec::new(), options);
        out.size = file.bytes;
        let (options, read) = (&out.options, out.read.clone());
        let format = all_heeded(std::slice::from_ref(&file), options)
            .and_then(|()| Format::begin(name, Raw::Bytes(bytes), options, false, read))
            .unwrap_or_else(|error| Format::Broken(Some(error)));
        out.stdin = is_stdin(name).then(|| format.name());
        out.open = Some((file, format));
        out
    }

    fn of(files: Vec<CorpusFile>, options: &ReadOptions) -> Self {
        let mut options = options.clone();
        let users = options.user.is_some().then(Users::default);
        if users.is_some() {
            options.field.clone_from(&options.user);
        } else if let Some(labels) = &options.labels {
            options.field = Some(labels.field.clone());
        }
        Self {
            options,
            users,
            ids: Some(Ids::default()),
            size: files.iter().map(|f| f.bytes).sum(),
            files: files.into_iter(),
            joined: 1,
            ..Self::default()
        }
    }

    /// Requires that numbers in [`Self::take_object`] can be written out again unchanged; otherwise returns an error.
    pub(crate) const fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Returns the errors of the files that were skipped under [`ReadOptions::skip_unreadable`].
    #[must_use]
    pub fn skipped(&self) -> &[Error] {
        &self.skipped
    }

    /// Returns the same errors, and a note if a folder contains files with other endings.
    pub(crate) fn into_skipped(self) -> Vec<Error> {
        self.skipped.into_iter().chain(self.others).collect()
    }

    /// Returns the number of bytes of the files that have been read, before decompression.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the total size of the files in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the values of the requested field in the last document: one value, several from a list, or none.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Takes the whole object of the last document, if its text is not under `text`.
    pub(crate) fn take_object(&mut self) -> Option<Object> {
        self.object.take()
    }

    /// Takes the columns of a table that this object could not represent.
    pub(crate) fn take_left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }

    /// Returns whether the last document's id says its place in the file and nothing else. In a folder, the file's path
    /// stands before it.
    pub(crate) const fn has_generated_id(&self) -> bool {
        self.generated_id
    }

    /// Returns the format that stdin is read as, if the corpus is stdin and its beginning has been read.
    #[must_use]
    pub const fn stdin_format(&self) -> Option<&'static str> {
        self.stdin
    }

    /// Returns how many documents of one user the last document was joined from; 1 without [`ReadOptions::user`].
    #[must_use]
    pub const fn joined(&self) -> u32 {
        self.joined
    }

    fn entry(&mut self) -> Result<Option<Entry>> {
        loop {
            if self.open.is_none() {
                let Some(file) = self.files.next() else {
                    return Ok(None);
                };
                self.begun += 1;
                self.given = 0;
                self.read_before = self.bytes_read();
                let (path, read) = (&file.path, self.read.clone());
                let format = Format::open(path, &self.options, self.exact, read)?;
                if is_stdin(path) {
                    self.stdin = Some(format.name());
                }
                self.open = Some((file, format));
            }
            if let Some((file, format)) = &mut self.open {
                if let Some(entry) = format.next()? {
                    self.given += 1;
                    return Ok(Some(entry));
                }
                self.done += file.bytes;
                self.open = None;
            }
        }
    }

    fn document(&mut self) -> Result<Option<Document>> {
        let Some(mut entry) = self.entry()? else {
            return self.close_ids().map(|()| None);
        };
        self.values = std::mem::take(&mut entry.values);
        let mut rounded = false;
        self.left_out.clear();
        self.object = entry.object.take().map(|whole| {
            rounded = whole.rounded;
            self.left_out = whole.left_out;
            whole.object
        });
        let Some((file, format)) = &self.open else {
            return Ok(Some(entry.document));
        };
        let (path, line) = (&file.path, entry.number);
        let wrong = |problem: String| Error::line(path, line, problem);
        if self.exact && rounded {
            return Err(wrong(shape::BEYOND_64_BITS.to_owned()));
        }
        // Marks cannot be moved when the object is written out again.
        if let (true, Some(object)) = (self.exact, &self.object) {
            shape::without_marks(object).map_err(wrong)?;
        }
        if self.options.loss_on.is_some() && entry.document.answers.is_none() {
            return Err(wrong(
                "no messages under --chat-template, and no pair of texts, whose answer could be learned"
                    .to_owned(),
            ));
        }
        if self.options.chat.is_some() && self.object.is_none() {
            return Err(wrong(shape::OWN_TEXT.to_owned()));
        }
        if let (Some(key), false) = (&self.options.user, whose(&self.values).is_some()) {
            return Err(wrong(format!(
                "must have one value under `{key}`, which says whose it is"
            )));
        }
        if let (Some(labels), None) = (&self.options.labels, &self.options.user) {
            let numbers = !self.options.by_name;
            let label = match entry.prepared && labels.field == PREPARED_LABEL {
                true => labels.of_prepared(&self.values, numbers),
                false => labels.of_values(&self.values, numbers),
            };
            entry.document.label = Some(label.map_err(wrong)?);
        }
        if entry.prepared && self.options.prepared {
            restore(&mut entry.document);
        }
        self.generated_id = generated_id(&entry);
        if !file.prefix.is_empty() && self.generated_id {
            entry.document.id.insert_str(0, &file.prefix);
        }
        // In a single file of plain text, all ids are generated and therefore distinct.
        if file.prefix.is_empty() && matches!(format, Format::Blocks(_)) {
            return Ok(Some(entry.document));
        }
        let place = (self.begun, entry.number);
        let first = match &mut self.ids {
            Some(ids) => ids.enter(&entry.document.id, place)?,
            None => None,
        };
        match first {
            None => Ok(Some(entry.document)),
            Some(first) => Err(repeated(path, place, first)),
        }
    }

    /// Checks the ids that were not compared when they were read.
    fn close_ids(&mut self) -> Result<()> {
        let copy = self.ids.as_mut().map(Ids::close).transpose()?.flatten();
        let Some((place, first)) = copy else {
            return Ok(());
        };
        let files = corpus_files(&self.path)?;
        let file = files.get(place.0.saturating_sub(1) as usize);
        Err(repeated(file.unwrap_or(&self.path), place, first))
    }
}

/// The error for a document whose id is that of an earlier one.
fn repeated(path: &Path, (begun, line): ids::Place, first: ids::Place) -> Error {
    let (file, number) = first;
    let place = if file == begun {
        format!("line {number}")
    } else {
        format!("line {number} of file {file} of the folder")
    };
    let problem = format!("its id is already that of {place}; ids must be unique");
    Error::line(path, line, problem)
}

/// Returns whether an id is one that is generated from the document's place in its file. Documents of two files with the
/// same generated id are different documents.
fn generated_id(entry: &Entry) -> bool {
    let id = &entry.document.id;
    let name = id.rsplit_once('/').map_or(&**id, |(_, name)| name);
    let number = name.split_once('-').and_then(|(word, number)| {
        let known = ["line", "block", "row", "dialogue"].contains(&word);
        known.then(|| number.parse::<u64>().ok())?
    });
    number == Some(entry.number)
}

/// Returns the user of a document: the only value; `None` if it is blank.
fn whose(values: &[String]) -> Option<User<'_>> {
    match values {
        [one] => User::of(one),
        _ => None,
    }
}

impl Documents {
    fn following(&mut self) -> Option<Result<Document>> {
        loop {
            match self.document() {
                Ok(document) => return document.map(Ok),
                Err(error) => {
                    self.open = None;
                    self.values.clear();
                    if !self.options.skip_unreadable {
                        return Some(Err(error));
                    }
                    self.skipped.push(error);
                }
            }
        }
    }
}

impl Iterator for Documents {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Result<Document>> {
        let Some(mut users) = self.users.take() else {
            return self.following();
        };
        // A user's documents are only known at the end.
        while !users.whole {
            match self.following() {
                Some(Ok(document)) => {
                    if let Some(user) = whose(&self.values) {
                        users.add(user, document);
                    }
                }
                Some(error) => {
                    self.users = Some(users);
                    return Some(error);
                }
                None => users.close(),
            }
        }
        self.values.clear();
        self.object = None;
        self.generated_id = false;
        let next = users.next();
        self.users = Some(users);
        let (document, joined) = next?;
        self.joined = joined;
        Some(Ok(document))
    }
}
