//! Comma- and tab-separated files with a header: a column `text`, and optionally `id`.

use super::lines::not_utf8;
use super::source::Source;
use super::{BYTE_ORDER_MARK, Entry, ReadOptions, marks_in_a_table};
use crate::document::Document;
use crate::error::{Error, Result};
use csv::{ByteRecord, Reader, ReaderBuilder};
use reticent_disk::{ClosedQuotes, header_advice};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Rows of a table.
pub(super) struct Rows {
    path: PathBuf,
    reader: Reader<ClosedQuotes<Source>>,
    text: usize,
    id: Option<usize>,
    field: Option<usize>,
    record: ByteRecord,
}

impl Rows {
    pub(super) fn open(
        path: &Path,
        mut source: Source,
        delimiter: u8,
        options: &ReadOptions,
    ) -> Result<Self> {
        let (field, text) = (options.field.as_deref(), options.text.as_deref());
        let mark = source
            .fill_buf()
            .is_ok_and(|head| head.starts_with(&BYTE_ORDER_MARK));
        if mark {
            source.consume(3);
        }
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .from_reader(ClosedQuotes::new(source, delimiter, options.longest));
        let header = reader
            .byte_headers()
            .map_err(|error| problem(path, 1, &error))?
            .clone();
        let column = |name: &str| {
            header
                .iter()
                .position(|cell| cell.trim_ascii() == name.as_bytes())
        };
        let wrong = |problem: String| Error::line(path, 1, problem);
        let needed = |name: &str, advice: &str| {
            let named = |cell: &&[u8]| cell.trim_ascii() == name.as_bytes();
            if header.iter().filter(named).count() > 1 {
                return Err(wrong(format!("the column {name} is there twice")));
            }
            column(name).ok_or_else(|| {
                // Without a header, the first line is text and must not be quoted.
                let columns = header.len();
                wrong(format!(
                    "no column {name} among its {columns}; {}{advice}",
                    header_advice(&header)
                ))
            })
        };
        let names = header.iter().map(|cell| cell.trim_ascii());
        let names: Vec<&str> = names.filter_map(|cell| str::from_utf8(cell).ok()).collect();
        if let Some(problem) = marks_in_a_table(&names, &[text, field]) {
            return Err(wrong(problem));
        }
        let advice = " (--text-field names the column of the text)";
        let text = needed(text.unwrap_or("text"), advice)?;
        let field = field.map(|name| needed(name, "")).transpose()?;
        Ok(Self {
            path: path.to_path_buf(),
            reader,
            text,
            id: column("id"),
            field,
            record: ByteRecord::new(),
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let read = self.reader.read_byte_record(&mut self.record);
        let line = self.record.position().map_or(0, csv::Position::line);
        if !read.map_err(|error| problem(&self.path, line, &error))? {
            return Ok(None);
        }
        let cell = |column: usize| -> Result<String> {
            let bytes = self.record.get(column).unwrap_or_default();
            String::from_utf8(bytes.to_vec()).map_err(|error| {
                let place = format!("field {}", column + 1);
                Error::line(&self.path, line, not_utf8(&error, &place))
            })
        };
        let text = cell(self.text)?.replace("\r\n", "\n");
        let id = match self.id {
            Some(column) => cell(column)?,
            None => format!("line-{line}"),
        };
        let values = match self.field {
            Some(column) => vec![cell(column)?],
            None => Vec::new(),
        };
        Ok(Some(Entry {
            values: values.into_iter().filter(|v| !v.is_empty()).collect(),
            ..Entry::plain(line, Document::new(id, text))
        }))
    }
}

/// Returns an error with its line; one of the file itself names none, and is in the row that begins at `row`.
fn problem(path: &Path, row: u64, error: &csv::Error) -> Error {
    let line = error.position().map_or(row, csv::Position::line);
    Error::line(path, line, format!("cannot read as CSV: {error}"))
}
