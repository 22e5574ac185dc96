//! Chooses the reader of a file by the ending of its name, and for `.json` by its content.

use super::dialogues::{Dialogues, sniff};
use super::files::{CorpusFile, ending, is_stdin};
use super::lines::Lines;
use super::source::{self, Source};
use super::table::Rows;
use super::text::{Blocks, JsonLines};
use super::{BYTE_ORDER_MARK, Entry, ReadOptions};
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
    /// A file that failed to open.
    Broken(Option<Error>),
}

impl Format {
    /// Opens a file. `whole` says whether objects are written out again with all their content.
    pub(super) fn open(
        path: &Path,
        options: &ReadOptions,
        whole: bool,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let raw = match is_stdin(path) {
            true => Raw::Stream(Box::new(std::io::stdin())),
            false => Raw::File(file_at(path, 0)?),
        };
        Self::begin(path, raw, options, whole, read)
    }

    /// Opens a file at a position that [`Format::position`] returned.
    pub(super) fn open_at(
        path: &Path,
        options: &ReadOptions,
        read: Arc<AtomicU64>,
        (bytes, lines): (u64, u64),
    ) -> Result<Self> {
        let file = file_at(path, bytes)?;
        let mut format = Self::begin(path, Raw::File(file), options, false, read)?;
        match &mut format {
            Self::JsonLines(reader) => reader.lines.go_on(bytes, lines),
            Self::Blocks(reader) => {
                reader.begins = false;
                reader.lines.go_on(bytes, lines);
            }
            _ => {}
        }
        Ok(format)
    }

    /// Returns the bytes and lines before the next document, if the file can be opened there.
    pub(super) fn position(&self) -> Option<(u64, u64)> {
        match self {
            Self::JsonLines(reader) => reader.lines.position(),
            Self::Blocks(reader) => reader.lines.position(),
            _ => None,
        }
    }

    /// Chooses the reader of an input that is already open, by its name.
    pub(super) fn begin(
        path: &Path,
        raw: Raw,
        options: &ReadOptions,
        whole: bool,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let ending = ending(path);
        if ending == "parquet" {
            return parquet(path, raw, options, whole, read);
        }
        let raw: Box<dyn Read + Send> = match raw {
            Raw::File(file) => Box::new(file),
            Raw::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Raw::Stream(stream) => stream,
        };
        let (source, packed) = source::unpacked(path, raw, read)?;
        // The type of a `.json` file, and separators within a line, can only be determined from the beginning.
        let seeks = !packed && ending != "json" && !is_stdin(path) && options.separator.is_none();
        let lines = |source| Lines::new(path, source, options.longest).seeking(seeks);
        let json = |source| Self::JsonLines(JsonLines::new(lines(source), options));
        let blocks = |source| Self::Blocks(Blocks::new(lines(source), options));
        let rows = |source, delimiter| Rows::open(path, source, delimiter, options).map(Self::Rows);
        let dialogues = |source| Dialogues::open(path, source, options).map(Self::Dialogues);
        if is_stdin(path) {
            // Only its beginning, and whether a column is named, show the format.
            let (head, whole) = peeked(path, source)?;
            let begins = head.trim_ascii_start().first();
            let format = match begins {
                Some(b'[' | b'{') if sniff(&head) && !is_text(&head) => dialogues(whole)?,
                Some(b'{') if !is_text(&head) => json(whole),
                _ if options.text.is_some() || options.field.is_some() => rows(whole, b',')?,
                _ => blocks(whole),
            };
            return match unheeded(format.name(), options) {
                Some(problem) => Err(Error::place(path, "format", problem)),
                None => Ok(format),
            };
        }
        Ok(match ending.as_str() {
            "jsonl" | "ndjson" => json(source),
            "csv" => rows(source, b',')?,
            "tsv" => rows(source, b'\t')?,
            "json" => {
                let (head, whole) = peeked(path, source)?;
                if sniff(&head) {
                    dialogues(whole)?
                } else {
                    json(whole)
                }
            }
            _ => blocks(source),
        })
    }

    /// Returns the name of the format.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::JsonLines(_) => "JSON Lines",
            Self::Blocks(_) => PLAIN,
            Self::Rows(_) => "CSV",
            Self::Dialogues(_) => "JSON",
            #[cfg(feature = "parquet")]
            Self::Parquet(_) => "Parquet",
            Self::Broken(_) => "unreadable",
        }
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

/// Rejects an option that applies to none of the files, since it would have no effect, and the id as the text: ids are
/// written as they are. The format of stdin is only known from its beginning.
pub(super) fn all_heeded(files: &[CorpusFile], options: &ReadOptions) -> Result<()> {
    if let (Some("id"), Some(first)) = (options.text.as_deref(), files.first()) {
        let problem = "--text-field id: ids are written as they are, and nothing in them is masked; name the key or column of the text";
        return Err(Error::place(&first.path, "format", problem));
    }
    if let (Some(separator), Some(first)) = (&options.separator, files.first())
        && separator.contains(['\n', '\r'])
    {
        let problem = "--separator: it is looked for within lines and must have no line break; a line of its own, such as ---, is named without them";
        return Err(Error::place(&first.path, "format", problem));
    }
    let format = |file: &CorpusFile| match ending(&file.path).as_str() {
        "jsonl" | "ndjson" => "JSON Lines",
        "json" => "JSON",
        "csv" | "tsv" => "CSV",
        "parquet" => "Parquet",
        _ => PLAIN,
    };
    let Some(first) = files.first().filter(|file| !is_stdin(&file.path)) else {
        return Ok(());
    };
    let plain = files.iter().filter(|file| format(file) == PLAIN).count();
    let problem = match plain == 0 || plain == files.len() {
        true => unheeded(format(first), options),
        false => None,
    };
    problem.map_or(Ok(()), |problem| {
        Err(Error::place(&first.path, "format", problem))
    })
}

/// The format used if nothing indicates another one.
const PLAIN: &str = "plain text";

fn unheeded(format: &str, options: &ReadOptions) -> Option<String> {
    match &options.text {
        Some(key) if format == PLAIN => Some(format!(
            "read as {format}, which has no key or column for --text-field {key} to name"
        )),
        _ if format != PLAIN && options.separator.is_some() => Some(format!(
            "read as {format}, in which --separator separates nothing; it is for {PLAIN}"
        )),
        _ => None,
    }
}

fn file_at(path: &Path, bytes: u64) -> Result<File> {
    let open = || -> std::io::Result<File> {
        let mut file = File::open(path)?;
        // A pipe can only be read from its beginning.
        if bytes > 0 {
            file.seek(SeekFrom::Start(bytes))?;
        }
        Ok(file)
    };
    open().map_err(Error::reading(path))
}

/// An input before its format is known. Tables are not read in order.
pub(super) enum Raw {
    /// Can be read only once, from its beginning.
    Stream(Box<dyn Read + Send>),
    File(File),
    Bytes(Vec<u8>),
}

#[cfg(feature = "parquet")]
fn parquet(
    path: &Path,
    raw: Raw,
    options: &ReadOptions,
    whole: bool,
    read: Arc<AtomicU64>,
) -> Result<Format> {
    let rows = super::parquet::Rows::open(path, raw, options, whole, read)?;
    Ok(Format::Parquet(Box::new(rows)))
}

#[cfg(not(feature = "parquet"))]
fn parquet(path: &Path, _: Raw, _: &ReadOptions, _: bool, _: Arc<AtomicU64>) -> Result<Format> {
    let problem = "this build reads no Parquet; build with the feature parquet";
    Err(Error::place(path, "format", problem))
}

/// Returns whether input that begins with a bracket or brace, as log lines may, does not continue as a list of objects
/// or an object.
fn is_text(head: &[u8]) -> bool {
    let (begin, behind) = match head.trim_ascii_start() {
        [begin, behind @ ..] => (*begin, behind.trim_ascii_start()),
        [] => return true,
    };
    let inside: &[u8] = if begin == b'[' { b"{[]\"" } else { b"\"}" };
    behind.first().is_some_and(|first| !inside.contains(first))
}

/// Returns the first bytes after a byte-order mark, and the source with these bytes put back.
fn peeked(path: &Path, mut source: Source) -> Result<(Vec<u8>, Source)> {
    let mut head = Vec::new();
    source
        .by_ref()
        .take(1 << 16)
        .read_to_end(&mut head)
        .map_err(|error| Error::line(path, 1, format!("cannot read: {error}")))?;
    if head.starts_with(&BYTE_ORDER_MARK) {
        head.drain(..BYTE_ORDER_MARK.len());
    }
    let whole: Chain<Cursor<Vec<u8>>, Source> = Cursor::new(head.clone()).chain(source);
    Ok((head, Box::new(whole)))
}
