//! The documents of a file or folder as one stream.

use super::files::{CorpusFile, is_stdin, left_out, list_with_others};
use super::format::{Format, Raw, all_heeded};
use super::users::Users;
use super::{ChatTemplate, Entry, LINE_LIMIT, Object, shape};
use crate::answers::LossOn;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::random::digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::collections::hash_map;
use std::path::Path;
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
    /// Whose messages alone carry loss, which needs [`Self::chat`]; all text does where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_on: Option<LossOn>,
    /// What separates documents of plain text; blank lines where nothing is said.
    pub separator: Option<String>,
    /// A key or column besides text and id, whose values [`Documents::values`] gives.
    pub field: Option<String>,
    /// A key or column that says whose a document is, read in the place of `field`: all documents of one user become
    /// one, in the order in which they stand, a line break between two. They are in memory together.
    pub user: Option<String>,
    /// The key or column of a document's class, read in the place of `field`, and the classes there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// Whether a file that cannot be read, or not to its end, is left at that place without an
    /// error: [`Documents::skipped`] has what was wrong.
    pub skip_unreadable: bool,
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
        }
    }
}

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

/// Reads a whole corpus into memory: [`Documents`], collected.
///
/// # Errors
/// As [`Documents`], and a corpus without any text. Of a folder, every file that cannot be
/// read is named.
pub fn read_documents(path: &Path) -> Result<Vec<Document>> {
    let (documents, mut errors) = read_readable(path, &ReadOptions::default())?;
    if errors.len() > 1 {
        return Err(Error::Several(errors));
    }
    match errors.pop() {
        Some(error) => Err(error),
        None => Ok(documents),
    }
}

/// The same without the files that cannot be read: the documents of the others, and what was
/// wrong. Of a file that breaks off, the documents before that place are there.
///
/// # Errors
/// A path that is not there, a folder without documents, and a corpus without any text where
/// no file was at fault.
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

/// The documents of a file or of a folder's files, one in memory at a time, with 36 bytes for
/// the id of each.
///
/// - `.jsonl`, `.ndjson`: `{"id","text"}` with optional `secrets: [{start,end,kind}]` and
///   `masked: [{start,end}]` in characters, one object to a line; other keys are ignored,
///   but for `abstract` where there is no `text` (arXiv's public metadata); a missing id becomes
///   `line-N`.
///   Where there is no `text`, what trainers read: `messages` (`role`, `content`), `conversations` (`from`,
///   `value`), `prompt` and `completion`, `instruction`, `input` and `output`. Each message is a line, `USR: …`,
///   `SYS: …`, `SYSTEM: …` or `TOOL: …`, unless [`ReadOptions::chat`] says otherwise. [`ReadOptions::text`] names another key.
/// - `.json`: the same, or one list or object of dialogues: MultiWOZ to 2.1 (`goal`, `log`),
///   MultiWOZ 2.2 and SGD (`turns`), or of the objects above. Each turn is a line, `USR: …` or `SYS: …`.
/// - `.csv`, and `.tsv` with tabs: a column `text` (or [`ReadOptions::text`]), perhaps `id`.
/// - `.parquet` (feature `parquet`): the same; without a column `text` its columns are read as the keys of JSON Lines are.
/// - Anything else is plain text: documents are separated by blank lines and called `block-N`
///   after their first line's number. [`ReadOptions::separator`] is another separator, such as `<|endoftext|>`.
/// - `-` is stdin: JSON by its first byte, CSV where a column is named, else plain text.
///
/// In a folder the ids made up here begin with the file's place in it, `part/a.txt/block-1`;
/// files come in the order of their names, and those of other endings than the above and
/// `.txt`, `.text`, `.md` are left out.
///
/// Files compressed with gzip or Zstandard are unpacked on the way, whatever they are called;
/// `.gz` and `.zst` are dropped before the name is looked at. A byte-order mark, and carriage
/// returns at line ends, are dropped.
///
/// After an error the next file follows. Errors name the file and the place: invalid UTF-8
/// (line and byte), invalid JSON (line and column), spans that do not fit, two documents of one
/// id, anything longer than [`ReadOptions::longest`], and compressed data that ends early, is
/// damaged, or unpacks to more than 250 times its size.
pub struct Documents {
    options: ReadOptions,
    files: std::vec::IntoIter<CorpusFile>,
    open: Option<(CorpusFile, Format)>,
    /// How many files were begun.
    begun: u32,
    /// Bytes of those that are done.
    done: u64,
    /// Documents of the open file so far, and bytes read before it.
    given: u64,
    read_before: u64,
    /// Bytes read, as they lie in the files.
    read: Arc<AtomicU64>,
    size: u64,
    /// Where each id was first, by its digest: file and number.
    seen: HashMap<[u8; 20], (u32, u64)>,
    values: Vec<String>,
    object: Option<Object>,
    /// Columns that it could not take in.
    left_out: Vec<String>,
    /// What stdin was read as, once it is open.
    stdin: Option<&'static str>,
    /// Whether the objects are written again, so that their numbers have to be those of the file.
    exact: bool,
    skipped: Vec<Error>,
    /// That the folder has files of other endings.
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
    /// A path that is not there, a folder without documents.
    pub fn open(path: &Path) -> Result<Self> {
        Self::with(path, &ReadOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Documents::open`]; [`ReadOptions::text`] or [`ReadOptions::separator`] where no file has such a thing.
    pub fn with(path: &Path, options: &ReadOptions) -> Result<Self> {
        let (files, others) = list_with_others(path)?;
        all_heeded(&files, options)?;
        let mut out = Self::of(files, options);
        out.others = left_out(path, &others);
        Ok(out)
    }

    /// The same from a document on, in files that are as they were when its place was noted.
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

    /// Where the next document is looked for.
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

    /// How many bytes of the files lie before the next document: what was read ahead of it counts where the format
    /// does not say.
    pub(crate) fn bytes_before(&self) -> u64 {
        let here = self.open.as_ref().map_or(0, |(file, format)| {
            let read = || self.bytes_read() - self.read_before;
            let here = format.position().map_or_else(read, |(bytes, _)| bytes);
            here.min(file.bytes)
        });
        self.done + here
    }

    /// Reads bytes in memory as a file of that name.
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
            size: files.iter().map(|f| f.bytes).sum(),
            files: files.into_iter(),
            open: None,
            begun: 0,
            done: 0,
            given: 0,
            read_before: 0,
            read: Arc::default(),
            seen: HashMap::new(),
            values: Vec::new(),
            object: None,
            left_out: Vec::new(),
            stdin: None,
            exact: false,
            skipped: Vec::new(),
            others: None,
            joined: 1,
        }
    }

    /// The same where [`Self::take_object`] is written again: a number that would be another one is an error.
    pub(crate) const fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// What was wrong with the files that were left, where [`ReadOptions::skip_unreadable`]
    /// asks for that.
    #[must_use]
    pub fn skipped(&self) -> &[Error] {
        &self.skipped
    }

    /// The same, and that a folder has files of other endings.
    pub(crate) fn into_skipped(self) -> Vec<Error> {
        self.skipped.into_iter().chain(self.others).collect()
    }

    /// How many bytes of the files have been read, compressed where they are.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How many bytes the files have.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// What the field asked for holds in the document that came last: one value, several from
    /// a list, or none.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The whole object of the document that came last, where it is not `text` that holds its text.
    pub(crate) fn take_object(&mut self) -> Option<Object> {
        self.object.take()
    }

    /// The columns of a table that this object could not take in.
    pub(crate) fn take_left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }

    /// As which format stdin is read, where the corpus is stdin and its beginning was read.
    #[must_use]
    pub const fn stdin_format(&self) -> Option<&'static str> {
        self.stdin
    }

    /// Of how many documents of one user the document that came last is made; 1 without [`ReadOptions::user`].
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
            return Ok(None);
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
        let wrong = |problem: &str| Error::Line {
            path: file.path.clone(),
            line: entry.number,
            problem: problem.to_owned(),
        };
        if self.exact && rounded {
            return Err(wrong(shape::BEYOND_64_BITS));
        }
        // Marks count the characters of one text, which a record of several has not, and which is not followed through them
        // where the record is written again.
        if self.exact || self.options.text.is_none() {
            let marked = |key: &&str| {
                let list = self.object.as_ref().and_then(|object| object.get(*key));
                list.and_then(|list| list.as_array())
                    .is_some_and(|list| !list.is_empty())
            };
            if let Some(key) = super::MARKS.iter().find(|key| marked(key)) {
                return Err(Error::Line {
                    path: file.path.clone(),
                    line: entry.number,
                    problem: format!(
                        "{key} counts the characters of `text`, and the text of this record is elsewhere; write it as {{\"id\", \"text\", \"{key}\"}}"
                    ),
                });
            }
        }
        if self.options.loss_on.is_some() && entry.document.answers.is_none() {
            return Err(wrong("no messages whose answers could be learned"));
        }
        if self.options.chat.is_some() && self.object.is_none() {
            return Err(wrong(shape::OWN_TEXT));
        }
        if let (Some(key), false) = (&self.options.user, whose(&self.values).is_some()) {
            return Err(Error::Line {
                path: file.path.clone(),
                line: entry.number,
                problem: format!("must have one value under `{key}`, which says whose it is"),
            });
        }
        if let (Some(labels), None) = (&self.options.labels, &self.options.user) {
            let label = labels.of_values(&self.values);
            entry.document.label = Some(label.map_err(|problem| Error::Line {
                path: file.path.clone(),
                line: entry.number,
                problem,
            })?);
        }
        if !file.prefix.is_empty() && made_up(&entry) {
            entry.document.id.insert_str(0, &file.prefix);
        }
        // In one file of plain text all ids are made up, and so no two are one.
        if file.prefix.is_empty() && matches!(format, Format::Blocks(_)) {
            return Ok(Some(entry.document));
        }
        match self.seen.entry(digest(entry.document.id.as_bytes())) {
            hash_map::Entry::Vacant(free) => {
                free.insert((self.begun, entry.number));
                Ok(Some(entry.document))
            }
            hash_map::Entry::Occupied(first) => {
                let (begun, number) = *first.get();
                let place = if begun == self.begun {
                    format!("line {number}")
                } else {
                    format!("line {number} of file {begun} of the folder")
                };
                Err(Error::Line {
                    path: file.path.clone(),
                    line: entry.number,
                    problem: format!("its id is already that of {place}; ids must be unique"),
                })
            }
        }
    }
}

/// Whether an id was made from the number.
fn made_up(entry: &Entry) -> bool {
    made_up_number(&entry.document.id) == Some(entry.number)
}

/// The number that a document without an id was named after, where its id looks like such a name:
/// documents of two files with one such id are not the same.
///
/// ```
/// assert_eq!(reticent_corpus::read::made_up_number("a.jsonl/line-7"), Some(7));
/// assert_eq!(reticent_corpus::read::made_up_number("customer-7"), None);
/// ```
#[must_use]
pub fn made_up_number(id: &str) -> Option<u64> {
    let name = id.rsplit_once('/').map_or(id, |(_, name)| name);
    let (word, number) = name.split_once('-')?;
    let known = ["line", "block", "row", "dialogue"].contains(&word);
    known.then(|| number.parse().ok())?
}

/// Whose a document is: the one value without space around it, which would make two users of one, unless it is blank.
fn whose(values: &[String]) -> Option<&str> {
    match values {
        [one] => Some(one.trim()).filter(|user| !user.is_empty()),
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
        // Whose documents stand where is known at the end.
        while !users.whole {
            match self.following() {
                Some(Ok(document)) => {
                    let user = whose(&self.values).unwrap_or_default().to_owned();
                    users.add(user, document);
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
        let next = users.next();
        self.users = Some(users);
        let (document, joined) = next?;
        self.joined = joined;
        Some(Ok(document))
    }
}
