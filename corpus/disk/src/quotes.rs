//! Comma-separated text that ends inside of quotes.

use std::io::{Error, Read, Result};

/// Fails where a table ends inside of a quoted field: what a cut file lost, or what stands behind a quote that was left
/// open, would otherwise be part of one cell.
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

/// Where a byte of a table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a field.
    Before,
    /// In one without quotes, or behind the closing one.
    Plain,
    /// Inside of quotes.
    Inside,
    /// Behind a quote, which closes or is doubled.
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
    /// Reads a table whose fields have this between them.
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
