//! A reader that rejects comma-separated text that ends inside quotes.

use std::io::{Error, Read, Result};

/// A reader that fails if a table ends inside a quoted field. Otherwise, the missing end of a truncated file or
/// everything after an unclosed quote would silently become part of one cell.
///
/// ```
/// use std::io::Read;
/// let read = |table: &str| reticent_disk::ClosedQuotes::new(table.as_bytes(), b',').read_to_end(&mut Vec::new());
/// assert!(read("a,b\n\"1, 2\",\"said \"\"so\"\"\"\n").is_ok());
/// assert!(read("a,b\n1,\"2\n3,4\n").is_err());
/// ```
#[derive(Debug)]
pub struct ClosedQuotes<R> {
    inner: R,
    delimiter: u8,
    place: Place,
}

/// The position of a byte in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a field.
    Before,
    /// In a field without quotes, or after the closing quote.
    Plain,
    /// Inside quotes.
    Inside,
    /// After a quote that either closes the field or is the first of a doubled quote.
    Quote,
}

impl Place {
    const fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Self::Inside, b'"') => Self::Quote,
            (Self::Inside, _) | (Self::Before | Self::Quote, b'"') => Self::Inside,
            (_, b'\n' | b'\r') => Self::Before,
            (_, byte) if byte == delimiter => Self::Before,
            _ => Self::Plain,
        }
    }
}

impl<R> ClosedQuotes<R> {
    /// Reads a table whose fields are separated by `delimiter`.
    pub const fn new(inner: R, delimiter: u8) -> Self {
        Self {
            inner,
            delimiter,
            place: Place::Before,
        }
    }
}

impl<R: Read> Read for ClosedQuotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read(buffer)?;
        let read = buffer[..count].iter();
        self.place = read.fold(self.place, |place, byte| place.after(*byte, self.delimiter));
        if count == 0 && !buffer.is_empty() && self.place == Place::Inside {
            return Err(Error::other(
                "the file ends inside of a quoted field; was it cut?",
            ));
        }
        Ok(count)
    }
}
