//! Which reader a file gets: by its name's ending, and for `.json` by what is in it.

use super::dialogues::{Dialogues, sniff};
use super::files::{ending, is_stdin};
use super::lines::Lines;
use super::source::{self, Source};
use super::table::Rows;
use super::text::{Blocks, JsonLines};
use super::{Entry, ReadOptions};
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{Chain, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The reader of a file.
pub(super) enum Format {
    JsonLines(JsonLines),
    Blocks(Blocks),
    Rows(Rows),
    Dialogues(Dialogues),
    #[cfg(feature = "parquet")]
    Parquet(Box<super::parquet::Rows>),
    /// A file that failed at its beginning.
    Broken(Option<Error>),
}

impl Format {
    pub(super) fn open(path: &Path, options: &ReadOptions, read: Arc<AtomicU64>) -> Result<Self> {
        if is_stdin(path) {
            return Self::begin(path, Raw::Stream(Box::new(std::io::stdin())), options, read);
        }
        Self::begin(path, Raw::File(file_at(path, 0)?), options, read)
    }

    /// The same from a line on that [`Format::position`] gave.
    pub(super) fn open_at(
        path: &Path,
        options: &ReadOptions,
        read: Arc<AtomicU64>,
        (bytes, lines): (u64, u64),
    ) -> Result<Self> {
        let file = file_at(path, bytes)?;
        let mut format = Self::begin(path, Raw::File(file), options, read)?;
        match &mut format {
            Self::JsonLines(reader) => reader.lines.go_on(bytes, lines),
            Self::Blocks(reader) => reader.lines.go_on(bytes, lines),
            _ => {}
        }
        Ok(format)
    }

    /// Bytes and lines before the next document, where the file can be opened there.
    pub(super) fn position(&self) -> Option<(u64, u64)> {
        match self {
            Self::JsonLines(reader) => reader.lines.position(),
            Self::Blocks(reader) => reader.lines.position(),
            _ => None,
        }
    }

    /// The reader of what is open already, told by the name.
    pub(super) fn begin(
        path: &Path,
        raw: Raw,
        options: &ReadOptions,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let ending = ending(path);
        if ending == "parquet" {
            return parquet(path, raw, options, read);
        }
        let raw: Box<dyn Read + Send> = match raw {
            Raw::File(file) => Box::new(file),
            Raw::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Raw::Stream(stream) => stream,
        };
        let (source, packed) = source::unpacked(path, raw, read)?;
        // What a `.json` is, and where text ends within a line, only reading from the beginning says.
        let seeks = !packed && ending != "json" && !is_stdin(path) && options.separator.is_none();
        let (limit, field) = (options.longest, options.field.clone());
        let lines = |source| Lines::new(path, source, limit).seeking(seeks);
        let json = |source, field| Self::JsonLines(JsonLines::new(lines(source), field, options));
        let blocks =
            |source| Self::Blocks(Blocks::new(lines(source), limit, options.separator.clone()));
        if is_stdin(path) {
            // Nothing says what it is but its beginning.
            let (head, whole) = peeked(path, source)?;
            let begins = head.trim_ascii_start().first();
            return Ok(match begins {
                Some(b'[' | b'{') if sniff(&head) => {
                    Self::Dialogues(Dialogues::open(path, whole, options)?)
                }
                Some(b'{') => json(whole, field),
                _ => blocks(whole),
            });
        }
        Ok(match ending.as_str() {
            "jsonl" | "ndjson" => json(source, field),
            "csv" => Self::Rows(Rows::open(
                path,
                source,
                limit,
                field,
                options.text.as_deref(),
            )?),
            "json" => {
                let (head, whole) = peeked(path, source)?;
                if sniff(&head) {
                    Self::Dialogues(Dialogues::open(path, whole, options)?)
                } else {
                    json(whole, field)
                }
            }
            _ => blocks(source),
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        match self {
            Self::JsonLines(lines) => lines.next(),
            Self::Blocks(blocks) => blocks.next(),
            Self::Rows(rows) => rows.next(),
            Self::Dialogues(dialogues) => dialogues.next(),
            #[cfg(feature = "parquet")]
            Self::Parquet(rows) => rows.next(),
            Self::Broken(error) => error.take().map_or(Ok(None), Err),
        }
    }
}

fn file_at(path: &Path, bytes: u64) -> Result<File> {
    let open = || -> std::io::Result<File> {
        let mut file = File::open(path)?;
        // A pipe has a beginning only.
        if bytes > 0 {
            file.seek(SeekFrom::Start(bytes))?;
        }
        Ok(file)
    };
    open().map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })
}

/// Where a file's bytes lie: tables are read out of order.
pub(super) enum Raw {
    /// Read once, from its beginning.
    Stream(Box<dyn Read + Send>),
    File(File),
    Bytes(Vec<u8>),
}

#[cfg(feature = "parquet")]
fn parquet(path: &Path, raw: Raw, options: &ReadOptions, read: Arc<AtomicU64>) -> Result<Format> {
    let rows = super::parquet::Rows::open(path, raw, options, read)?;
    Ok(Format::Parquet(Box::new(rows)))
}

#[cfg(not(feature = "parquet"))]
fn parquet(path: &Path, _: Raw, _: &ReadOptions, _: Arc<AtomicU64>) -> Result<Format> {
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
