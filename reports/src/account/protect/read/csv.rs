//! Comma-separated files with a header.

use super::{Cell, Column, Place};
use crate::contract::{TableFile, csv_line, csv_problem, open_table};
use anyhow::{Context, Result, bail, ensure};
use csv::{Reader, ReaderBuilder, StringRecord, Trim};
use reticent_disk::header_advice;
use std::borrow::Cow;
use std::path::Path;

/// A file with its header, row by row.
struct Rows<'a> {
    path: &'a Path,
    reader: Reader<TableFile>,
    header: StringRecord,
    record: StringRecord,
}

impl<'a> Rows<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let table = open_table(path).with_context(|| format!("{}: cannot read", path.display()))?;
        // A space beside a comma is not part of a name.
        let mut reader = ReaderBuilder::new().trim(Trim::Fields).from_reader(table);
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => bail!(describe(path, &error, None)),
        };
        // A byte-order mark is not part of the first name.
        let header = header
            .iter()
            .map(|name| name.trim_start_matches('\u{feff}').trim())
            .collect();
        Ok(Self {
            path,
            reader,
            header,
            record: StringRecord::new(),
        })
    }

    /// Returns the index of a column. One that occurs twice is refused, since only one of the two would be read.
    fn column(&self, column: &Column<'_>) -> Result<Option<usize>> {
        for name in column.names {
            let mut places = (0..self.header.len()).filter(|at| &self.header[*at] == *name);
            if let Some(place) = places.next() {
                ensure!(
                    places.next().is_none(),
                    "{}, line 1: the column {name} occurs twice",
                    self.path.display()
                );
                return Ok(Some(place));
            }
        }
        ensure!(
            !column.needed,
            "{}, line 1: no column {} among its {}; {}",
            self.path.display(),
            column.names.join(" or "),
            self.header.len(),
            header_advice(self.header.iter().map(str::as_bytes))
        );
        Ok(None)
    }

    /// Returns the next row and its place.
    fn next(&mut self) -> Result<Option<(&StringRecord, Place<'a>)>> {
        match self.reader.read_record(&mut self.record) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let line = self.record.position().map_or(0, csv::Position::line);
                let path = self.path;
                Ok(Some((&self.record, Place { path, line })))
            }
            Err(error) => bail!(describe(self.path, &error, self.record.position())),
        }
    }
}

fn describe(path: &Path, error: &csv::Error, row: Option<&csv::Position>) -> String {
    let line = csv_line(error, row);
    format!("{}, line {line}: {}", path.display(), csv_problem(error))
}

/// Calls a function for each row with the cells of these columns.
pub(super) fn rows<const N: usize>(
    path: &Path,
    columns: &[Column<'_>; N],
    mut each: impl FnMut(Place<'_>, [Cell<'_>; N]) -> Result<()>,
) -> Result<()> {
    let mut rows = Rows::open(path)?;
    let mut places = [None; N];
    for (place, column) in places.iter_mut().zip(columns) {
        *place = rows.column(column)?;
    }
    while let Some((row, place)) = rows.next()? {
        let cell = |at| Cell::Name(Cow::Borrowed(&row[at]));
        each(place, places.map(|at| at.map_or(Cell::Absent, cell)))?;
    }
    Ok(())
}
