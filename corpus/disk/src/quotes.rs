//! A reader that rejects comma-separated text that ends inside quotes, or has a row without an end or with too many fields.

use std::io::{BufRead, BufReader, Error, Read, Result};

/// A reader that fails if a table ends inside a quoted field. Otherwise, the missing end of a truncated file or
/// everything after an unclosed quote would silently become part of one cell. It fails too at a row that exceeds a limit or
/// has more than [`MOST_FIELDS`] fields, as a parser holds a whole row, and eight bytes for each field.
///
/// ```
/// use std::io::Read;
/// let read = |table: &str| reticent_disk::ClosedQuotes::new(table.as_bytes(), b',', 20).read_to_end(&mut Vec::new());
/// assert!(read("a,b\n\"1, 2\",\"said \"\"so\"\"\"\n").is_ok());
/// assert!(read("a,b\n1,\"2\n3,4\n").is_err());
/// assert!(read("a,b\n1,2222222222222222222\n").is_err());
/// ```
#[derive(Debug)]
pub struct ClosedQuotes<R> {
    inner: BufReader<R>,
    delimiter: u8,
    place: Place,
    /// Whether a carriage return outside of quotes came last: it is dropped where a line feed follows.
    held: bool,
    /// Bytes read of the current row.
    row: u64,
    /// The most that are read of one.
    most: u64,
    /// Delimiters read of the current row.
    fields: u64,
}

/// The longest row of a table that is read, in bytes, where nothing else is asked for: 64 MiB.
pub const LONGEST_ROW: u64 = 64 << 20;

/// The most fields of a row of a table: 2^16.
pub const MOST_FIELDS: u64 = 1 << 16;

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

impl<R: Read> ClosedQuotes<R> {
    /// Reads a table whose fields are separated by `delimiter` and whose rows have at most `most` bytes.
    pub fn new(inner: R, delimiter: u8, most: u64) -> Self {
        Self {
            inner: BufReader::new(inner),
            delimiter,
            place: Place::Before,
            held: false,
            row: 0,
            most,
            fields: 0,
        }
    }
}

impl<R: Read> Read for ClosedQuotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut written = 0;
        while written == 0 && !buffer.is_empty() {
            if self.row > self.most {
                return Err(Error::other(format!(
                    "the row is longer than {} bytes, the most that is read; is a quote left open?",
                    self.most
                )));
            }
            if self.fields >= MOST_FIELDS {
                return Err(Error::other(format!(
                    "the row has more than {MOST_FIELDS} fields, the most that are read"
                )));
            }
            let bytes = self.inner.fill_buf()?;
            if bytes.is_empty() {
                if self.place == Place::Inside {
                    return Err(Error::other(
                        "the file ends inside of a quoted field; was it cut?",
                    ));
                }
                // A row that ends so ends all the same.
                return Ok(0);
            }
            let mut taken = 0;
            while taken < bytes.len()
                && written < buffer.len()
                && self.row <= self.most
                && self.fields < MOST_FIELDS
            {
                let byte = bytes[taken];
                if std::mem::take(&mut self.held) && byte != b'\n' {
                    buffer[written] = b'\r';
                    written += 1;
                    continue;
                }
                taken += 1;
                self.place = self.place.after(byte, self.delimiter);
                let ends = self.place == Place::Before && matches!(byte, b'\n' | b'\r');
                let parts = self.place == Place::Before && byte == self.delimiter;
                (self.row, self.fields) = match ends {
                    true => (0, 0),
                    false => (self.row + 1, self.fields + u64::from(parts)),
                };
                self.held = byte == b'\r' && self.place != Place::Inside;
                if !self.held {
                    buffer[written] = byte;
                    written += 1;
                }
            }
            self.inner.consume(taken);
        }
        Ok(written)
    }
}

/// What to do about a header that lacks a column: perhaps it is none, or other characters part its columns.
#[must_use]
pub fn header_advice<'h>(header: impl IntoIterator<Item = &'h [u8]>) -> &'static str {
    let mut cells = header.into_iter();
    let (first, second) = (cells.next().unwrap_or_default(), cells.next());
    match (first, second) {
        ([0xff, 0xfe, ..] | [0xfe, 0xff, ..], _) => utf8_advice(0xff),
        (only, None) if only.contains(&b';') => {
            "columns must be separated by commas (in .tsv by tabs), not by semicolons; convert it, for example with \
             csvformat -d ';' FILE > NEW.csv"
        }
        (only, None) if only.contains(&b'\t') => {
            "columns must be separated by commas; a corpus may also be tab-separated, named FILE.tsv; convert other \
             tables, for example with csvformat -t FILE > NEW.csv"
        }
        (only, None) if only.contains(&b',') => {
            "columns must be separated by tabs in .tsv; name a table with commas FILE.csv"
        }
        _ => "is it a header?",
    }
}

/// What to do about a text with a byte that is not UTF-8.
#[must_use]
pub const fn utf8_advice(byte: u8) -> &'static str {
    match byte {
        0xfe | 0xff => "convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8 FILE > NEW",
        _ => {
            "convert it to UTF-8 from its encoding, for example iconv -f LATIN1 -t UTF-8 FILE > NEW"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However few bytes are asked for at a time.
    #[test]
    fn rows_of_windows_end_in_a_line_feed() {
        for (table, read) in [
            ("a,b\r\n1,2\r\n", "a,b\n1,2\n"),
            ("\"x\r\ny\"\r\n\r\n", "\"x\r\ny\"\n\n"),
            ("a\rb\r\r\nc\r", "a\rb\r\nc"),
        ] {
            for size in [1, 2, 64] {
                let mut table = ClosedQuotes::new(table.as_bytes(), b',', 8);
                let (mut all, mut some) = (Vec::new(), vec![0; size]);
                loop {
                    match table.read(&mut some).unwrap() {
                        0 => break,
                        count => all.extend_from_slice(&some[..count]),
                    }
                }
                assert_eq!(String::from_utf8(all).unwrap(), read);
            }
        }
    }

    /// Quoted line breaks end no row. Nothing of the table behind the row is read.
    #[test]
    fn a_row_beyond_the_limit_is_refused() {
        let read = |table: &str, most| {
            let mut all = Vec::new();
            let read = ClosedQuotes::new(table.as_bytes(), b',', most).read_to_end(&mut all);
            read.map(|_| ())
                .map_err(|error| (all.len(), error.to_string()))
        };
        for table in [
            "a,b\n1,\"2\n3\"\n4,5\n",
            "\r\r\r1,\"2\n3\"\r\n\n\n\n\n\n\n\n\n",
        ] {
            assert_eq!(read(table, 7), Ok(()));
            assert_eq!(read(table, 6).unwrap_err().0, table.find('3').unwrap() + 2);
        }
        let endless = std::io::repeat(0).take(1 << 20);
        let error = ClosedQuotes::new(endless, b',', 1000).read_to_end(&mut Vec::new());
        let said = error.unwrap_err().to_string();
        assert!(
            said.starts_with("the row is longer than 1000 bytes"),
            "{said}"
        );
    }

    /// Of short fields, a row within the limit of bytes would take eight times as many.
    #[test]
    fn a_row_with_too_many_fields_is_refused() {
        let read = |commas: usize| {
            let row = format!("\"{}\"{}\n", ",".repeat(90_000), ",".repeat(commas));
            let table = row.repeat(2);
            let mut table = ClosedQuotes::new(table.as_bytes(), b',', LONGEST_ROW);
            let read = table.read_to_end(&mut Vec::new());
            read.map(|_| ()).map_err(|error| error.to_string())
        };
        let most = usize::try_from(MOST_FIELDS).unwrap();
        assert_eq!(read(most - 1), Ok(()));
        let said = read(most).unwrap_err();
        assert!(
            said.starts_with("the row has more than 65536 fields"),
            "{said}"
        );
    }

    #[test]
    fn a_header_with_other_separators_is_refused_with_advice() {
        for (header, said) in [
            (&["id;text"][..], "csvformat -d ';'"),
            (&["id\ttext"], "may also be tab-separated, named FILE.tsv"),
            (&["id,text"], "FILE.csv"),
            (&["id", "a;b"], "is it a header?"),
        ] {
            let cells = header.iter().map(|cell| cell.as_bytes());
            assert!(header_advice(cells).contains(said), "{said}");
        }
        assert!(header_advice([&b"\xff\xfea\0"[..]]).contains("UTF-16"));
        // No single byte tells which of many encodings it is of.
        assert!(utf8_advice(0xfc).contains("from its encoding, for example iconv -f LATIN1"));
    }
}
