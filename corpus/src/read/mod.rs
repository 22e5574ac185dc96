//! Readers of corpora, as streams and as untrusted input: JSON Lines, plain text, CSV,
//! Parquet, dialogues; compressed with gzip or Zstandard.

mod dialogues;
mod lines;
#[cfg(feature = "parquet")]
mod parquet;
mod source;
mod table;
mod text;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::random::digest;
use dialogues::Dialogues;
use lines::Lines;
use source::Source;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use table::Rows;
use text::{Blocks, JsonLines};

/// Longest line, row, block or dialogue read, in bytes: 64 MiB. A longer one is an error, not
/// a memory problem.
pub const LINE_LIMIT: u64 = 64 << 20;

/// Reads a whole corpus into memory: [`Documents`], collected.
///
/// # Errors
/// As [`Documents`], and a corpus without any text.
pub fn read_documents(path: &Path) -> Result<Vec<Document>> {
    let documents: Vec<Document> = Documents::open(path)?.collect::<Result<_>>()?;
    if documents.iter().all(|d| d.text.trim().is_empty()) {
        return Err(Error::EmptyCorpus {
            path: path.to_path_buf(),
        });
    }
    Ok(documents)
}

/// The documents of a file, one in memory at a time, with 28 bytes for the id of each.
///
/// - `.jsonl`, `.ndjson`: `{"id","text"}` with optional `secrets: [{start,end,kind}]` and
///   `masked: [{start,end}]` in characters, one object to a line; other keys are ignored; a
///   missing id becomes `line-N`.
/// - `.json`: the same, or one list or object of dialogues: MultiWOZ to 2.1 (`goal`, `log`),
///   MultiWOZ 2.2 and SGD (`turns`). Each turn is a line, `USR: …` or `SYS: …`.
/// - `.csv`: a column `text`, perhaps `id`.
/// - `.parquet` (feature `parquet`): the same.
/// - Anything else is plain text: documents are separated by blank lines and called `block-N`
///   after their first line's number.
///
/// Files compressed with gzip or Zstandard are unpacked on the way, whatever they are called;
/// `.gz` and `.zst` are dropped before the name is looked at. A byte-order mark, and carriage
/// returns at line ends, are dropped.
///
/// After an error there is nothing more. Errors name the file and the place: invalid UTF-8
/// (line and byte), invalid JSON (line and column), spans that do not fit, two documents of one
/// id, anything longer than [`LINE_LIMIT`], and compressed data that ends early, is damaged,
/// or unpacks to more than 250 times its size.
pub struct Documents {
    path: PathBuf,
    format: Format,
    /// Where each id was first, by its digest.
    seen: HashMap<[u8; 20], u64>,
    done: bool,
}

enum Format {
    JsonLines(JsonLines),
    Blocks(Blocks),
    Rows(Rows),
    Dialogues(Dialogues),
    #[cfg(feature = "parquet")]
    Parquet(parquet::Rows),
}

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Documents")
            .field("path", &self.path)
            .field("read", &self.seen.len())
            .finish_non_exhaustive()
    }
}

impl Documents {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that is missing, unreadable, or not what its name says.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            format: format(path)?,
            seen: HashMap::new(),
            done: false,
        })
    }

    fn next_document(&mut self) -> Result<Option<Document>> {
        let read = match &mut self.format {
            Format::JsonLines(lines) => lines.next(),
            Format::Blocks(blocks) => blocks.next(),
            Format::Rows(rows) => rows.next(),
            Format::Dialogues(dialogues) => dialogues.next(),
            #[cfg(feature = "parquet")]
            Format::Parquet(rows) => rows.next(),
        }?;
        let Some((number, document)) = read else {
            return Ok(None);
        };
        match self.seen.entry(digest(document.id.as_bytes())) {
            Entry::Vacant(free) => {
                free.insert(number);
                Ok(Some(document))
            }
            Entry::Occupied(first) => Err(Error::Line {
                path: self.path.clone(),
                line: number,
                problem: format!(
                    "id {:?} is already that of line {}; ids must be unique",
                    document.id,
                    first.get()
                ),
            }),
        }
    }
}

impl Iterator for Documents {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Result<Document>> {
        if self.done {
            return None;
        }
        let next = self.next_document().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// What the name says, without the ending of a compressed file.
fn ending(path: &Path) -> String {
    let lower = |p: &Path| {
        let ending = p.extension().and_then(|e| e.to_str());
        ending.unwrap_or("").to_ascii_lowercase()
    };
    match lower(path).as_str() {
        "gz" | "zst" => path
            .file_stem()
            .map_or_else(String::new, |stem| lower(stem.as_ref())),
        other => other.to_owned(),
    }
}

fn format(path: &Path) -> Result<Format> {
    let lines = |source| Lines::new(path, source, LINE_LIMIT);
    let ending = ending(path);
    if ending == "parquet" {
        return parquet_rows(path);
    }
    let source = source::open(path)?;
    Ok(match ending.as_str() {
        "jsonl" | "ndjson" => Format::JsonLines(JsonLines(lines(source))),
        "csv" => Format::Rows(Rows::open(path, source, LINE_LIMIT)?),
        "json" => {
            let (head, whole) = peeked(path, source)?;
            if dialogues::sniff(&head) {
                Format::Dialogues(Dialogues::open(path, whole, LINE_LIMIT)?)
            } else {
                Format::JsonLines(JsonLines(lines(whole)))
            }
        }
        _ => Format::Blocks(Blocks::new(lines(source), LINE_LIMIT)),
    })
}

#[cfg(feature = "parquet")]
fn parquet_rows(path: &Path) -> Result<Format> {
    parquet::Rows::open(path).map(Format::Parquet)
}

#[cfg(not(feature = "parquet"))]
fn parquet_rows(path: &Path) -> Result<Format> {
    Err(Error::Place {
        path: path.to_path_buf(),
        place: "format".to_owned(),
        problem: "this build reads no Parquet; build with the feature parquet".to_owned(),
    })
}

/// The first bytes, and the source with them in front again.
fn peeked(path: &Path, mut source: Source) -> Result<(Vec<u8>, Source)> {
    let mut head = Vec::new();
    source
        .by_ref()
        .take(1 << 16)
        .read_to_end(&mut head)
        .map_err(|error| Error::Line {
            path: path.to_path_buf(),
            line: 1,
            problem: format!("cannot read: {error}"),
        })?;
    let whole: Chain<Cursor<Vec<u8>>, Source> = Cursor::new(head.clone()).chain(source);
    Ok((head, Box::new(whole)))
}
