//! Reads lines of text as untrusted input.

use super::BYTE_ORDER_MARK;
use super::source::Source;
use crate::error::{Error, Result};
use reticent_disk::utf8_advice;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

/// Lines of bounded length, validated as UTF-8, with line numbers for error messages.
pub(super) struct Lines {
    path: PathBuf,
    reader: Source,
    limit: u64,
    /// The number of the last line read, from 1.
    pub(super) number: u64,
    /// The number of bytes in the lines so far.
    bytes: u64,
    /// Whether reading can start at any line of the file.
    seeks: bool,
}

impl Lines {
    pub(super) fn new(path: &Path, reader: Source, limit: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            reader,
            limit,
            number: 0,
            bytes: 0,
            seeks: false,
        }
    }

    /// Sets whether reading can start at any line of the file: it is not compressed.
    pub(super) const fn seeking(mut self, seeks: bool) -> Self {
        self.seeks = seeks;
        self
    }

    /// Continues counting from the line at which the file was opened.
    pub(super) const fn go_on(&mut self, bytes: u64, lines: u64) {
        self.bytes = bytes;
        self.number = lines;
    }

    /// Returns the bytes and lines so far, if the file can be opened at this position.
    pub(super) fn position(&self) -> Option<(u64, u64)> {
        self.seeks.then_some((self.bytes, self.number))
    }

    pub(super) fn problem(&self, problem: String) -> Error {
        Error::line(&self.path, self.number, problem)
    }

    /// Reads the next line in the place of the last one. Returns false if there is none.
    pub(super) fn next_line(&mut self, line: &mut String) -> Result<bool> {
        let mut bytes = std::mem::take(line).into_bytes();
        bytes.clear();
        self.reader
            .by_ref()
            .take(self.limit + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| {
                Error::line(&self.path, self.number + 1, format!("cannot read: {error}"))
            })?;
        if bytes.is_empty() {
            return Ok(false);
        }
        self.number += 1;
        self.bytes += bytes.len() as u64;
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
        if self.number == 1 && bytes.starts_with(&BYTE_ORDER_MARK) {
            bytes.drain(..3);
        }
        let read = String::from_utf8(bytes);
        *line = read.map_err(|error| self.problem(not_utf8(&error, "the line")))?;
        Ok(true)
    }
}

/// Returns what is wrong with bytes that are no UTF-8, with the place of the first one.
pub(super) fn not_utf8(error: &FromUtf8Error, whole: &str) -> String {
    let at = error.utf8_error().valid_up_to();
    let byte = error.as_bytes().get(at).copied().unwrap_or_default();
    let (position, advice) = (at + 1, utf8_advice(byte));
    format!("invalid UTF-8: byte 0x{byte:02x} at position {position} of {whole}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], limit: u64) -> Result<Vec<String>> {
        let source = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let mut reader = Lines::new(Path::new("x"), source, limit);
        let (mut out, mut line) = (Vec::new(), String::new());
        while reader.next_line(&mut line)? {
            out.push(line.clone());
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
