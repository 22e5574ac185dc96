//! Readers: JSON Lines and plain text, as untrusted input.

use crate::document::{Document, Masked, Secret};
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line read, in bytes: 64 MiB. A longer one is an error, not a memory problem.
pub const LINE_LIMIT: u64 = 64 << 20;

/// Reads a corpus: `.jsonl`, `.ndjson` and `.json` as JSON Lines, anything else as plain text.
///
/// JSON Lines: `{"id","text"}` with optional `secrets: [{start,end,kind}]` and
/// `masked: [{start,end}]` in characters; other keys are ignored; a missing id becomes
/// `line-N`. Plain text: documents are separated by blank lines and called `block-N` after
/// their first line's number. A byte-order mark and carriage returns at line ends are dropped.
///
/// # Errors
/// A missing or unreadable file, invalid UTF-8 (line and byte), invalid JSON (line and
/// column), spans that do not fit, two documents of one id, a line over [`LINE_LIMIT`], a
/// compressed file, and a corpus without any text.
pub fn read_documents(path: &Path) -> Result<Vec<Document>> {
    let jsonl = path
        .extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| ["jsonl", "ndjson", "json"].contains(&e.to_ascii_lowercase().as_str()));
    let file = File::open(path).map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let lines = Lines::new(path, BufReader::new(file), LINE_LIMIT);
    let documents = if jsonl {
        read_json_lines(lines)?
    } else {
        read_blocks(lines)?
    };
    if documents.iter().all(|d| d.text.trim().is_empty()) {
        return Err(Error::EmptyCorpus {
            path: path.to_path_buf(),
        });
    }
    Ok(documents)
}

/// One line of JSON, with an id of any scalar type.
#[derive(Deserialize)]
struct Line {
    id: Option<Id>,
    text: String,
    #[serde(default)]
    secrets: Vec<Secret>,
    #[serde(default)]
    masked: Vec<Masked>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(i64),
}

fn read_json_lines<R: BufRead>(mut lines: Lines<'_, R>) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    let mut seen: HashMap<String, u64> = HashMap::new();
    while let Some(line) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        if line.trim_start().starts_with('[') {
            return Err(
                lines.problem("a list; each line must be an object {\"id\",\"text\"}".to_owned())
            );
        }
        let parsed: Line = serde_json::from_str(&line)
            .map_err(|error| lines.problem(format!("invalid JSON: {}", describe(&error))))?;
        let id = match parsed.id {
            Some(Id::Text(id)) => id,
            Some(Id::Number(id)) => id.to_string(),
            None => format!("line-{}", lines.number),
        };
        if let Some(first) = seen.insert(id.clone(), lines.number) {
            return Err(lines.problem(format!(
                "id {id:?} is already that of line {first}; ids must be unique"
            )));
        }
        let document = Document {
            id,
            text: parsed.text,
            secrets: parsed.secrets,
            masked: parsed.masked,
        };
        document
            .validate()
            .map_err(|error| lines.problem(error.to_string()))?;
        documents.push(document);
    }
    Ok(documents)
}

/// The parser's message with the column, without its line number (always 1 here).
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.find(" at line 1 column ") {
        Some(at) => format!("{} at column {}", &text[..at], error.column()),
        None => text,
    }
}

fn read_blocks<R: BufRead>(mut lines: Lines<'_, R>) -> Result<Vec<Document>> {
    let mut documents: Vec<Document> = Vec::new();
    let mut open = false;
    while let Some(line) = lines.next_line()? {
        if line.trim().is_empty() {
            open = false;
        } else if let (true, Some(last)) = (open, documents.last_mut()) {
            last.text.push('\n');
            last.text.push_str(&line);
        } else {
            documents.push(Document::new(format!("block-{}", lines.number), line));
            open = true;
        }
    }
    Ok(documents)
}

/// Lines of bounded length, checked for UTF-8, with their number for messages.
struct Lines<'a, R> {
    path: &'a Path,
    reader: R,
    limit: u64,
    number: u64,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(path: &'a Path, reader: R, limit: u64) -> Self {
        Self {
            path,
            reader,
            limit,
            number: 0,
        }
    }

    fn problem(&self, problem: String) -> Error {
        Error::Line {
            path: self.path.to_path_buf(),
            line: self.number,
            problem,
        }
    }

    fn next_line(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        self.reader
            .by_ref()
            .take(self.limit + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| Error::Read {
                path: self.path.to_path_buf(),
                source,
            })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if bytes.len() as u64 > self.limit {
            return Err(self.problem(format!(
                "the line is longer than {} bytes, the most that is read",
                self.limit
            )));
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        if self.number == 1 {
            self.open_head(&mut bytes)?;
        }
        match String::from_utf8(bytes) {
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let byte = error.as_bytes().get(at).copied().unwrap_or_default();
                Err(self.problem(format!(
                    "invalid UTF-8: byte 0x{byte:02x} at position {} of the line",
                    at + 1
                )))
            }
        }
    }

    /// The first line may begin with a byte-order mark, or show that the file is compressed.
    fn open_head(&self, bytes: &mut Vec<u8>) -> Result<()> {
        if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
            bytes.drain(..3);
        }
        let compressed = [
            (&[0x1f, 0x8b][..], "gzip"),
            (&[0x28, 0xb5, 0x2f, 0xfd][..], "zstd"),
            (b"PK\x03\x04", "zip"),
        ];
        for (magic, name) in compressed {
            if bytes.starts_with(magic) {
                return Err(self.problem(format!(
                    "the file is compressed ({name}); decompress it first"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], limit: u64) -> Result<Vec<String>> {
        let mut reader = Lines::new(Path::new("x"), bytes, limit);
        let mut out = Vec::new();
        while let Some(line) = reader.next_line()? {
            out.push(line);
        }
        Ok(out)
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_byte_more_does_not() {
        assert_eq!(lines(b"abcd\nef", 4).unwrap(), ["abcd", "ef"]);
        assert_eq!(lines(b"abcd", 4).unwrap(), ["abcd"]);
        let error = lines(b"ab\nabcde\n", 4).unwrap_err().to_string();
        assert_eq!(
            error,
            "x, line 2: the line is longer than 4 bytes, the most that is read"
        );
    }

    #[test]
    fn marks_and_carriage_returns_are_dropped() {
        assert_eq!(lines(b"\xef\xbb\xbfa\r\nb\r\n", 9).unwrap(), ["a", "b"]);
    }
}
