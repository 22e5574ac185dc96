//! Comma-separated files with a header.

use super::{Gathered, Place};
use crate::contract::csv_problem;
use anyhow::{Context, Result, bail, ensure};
use csv::{Reader, ReaderBuilder, StringRecord, Trim};
use reticent_disk::{ClosedQuotes, header_advice};
use std::fs::File;
use std::path::Path;

/// A file with its header, row by row.
pub(super) struct Rows<'a> {
    path: &'a Path,
    reader: Reader<ClosedQuotes<File>>,
    header: StringRecord,
    record: StringRecord,
}

impl<'a> Rows<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("{}: cannot read", path.display()))?;
        // A space beside a comma is not part of a name.
        let mut reader = ReaderBuilder::new()
            .trim(Trim::Fields)
            .from_reader(ClosedQuotes::new(file, b','));
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => bail!(describe(path, &error)),
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

    /// Returns the index of the first of these columns that the header has. A column that occurs twice is refused,
    /// since only one of the two would be read.
    pub(super) fn column(&self, names: &[&str]) -> Result<Option<usize>> {
        for name in names {
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
        Ok(None)
    }

    /// Like `Self::column`, with an error that names the columns if none is found.
    pub(super) fn needed(&self, names: &[&str]) -> Result<usize> {
        match self.column(names)? {
            Some(column) => Ok(column),
            None => bail!(
                "{}, line 1: no column {} among its {}; {}",
                self.path.display(),
                names.join(" or "),
                self.header.len(),
                header_advice(self.header.iter().map(str::as_bytes))
            ),
        }
    }

    /// Returns the next row and its place.
    pub(super) fn next(&mut self) -> Result<Option<(&StringRecord, Place<'a>)>> {
        match self.reader.read_record(&mut self.record) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let line = self.record.position().map_or(0, csv::Position::line);
                let path = self.path;
                Ok(Some((&self.record, Place { path, line })))
            }
            Err(error) => bail!(describe(self.path, &error)),
        }
    }
}

fn describe(path: &Path, error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    format!("{}, line {line}: {}", path.display(), csv_problem(error))
}

/// Reads rows (example, secret); with `field`, each row is an example and the field its secret.
pub(super) fn read(path: &Path, field: Option<&str>, into: &mut Gathered) -> Result<()> {
    let mut rows = Rows::open(path)?;
    let secret = rows.needed(&[field.unwrap_or("secret")])?;
    let example = match field {
        None => Some(rows.needed(&["example"])?),
        Some(_) => rows.column(&["example", "id"])?,
    };
    while let Some((row, place)) = rows.next()? {
        let given = example.map(|column| &row[column]);
        if given == Some("") {
            bail!("{place}: the example has no name; it must not be empty");
        }
        let name = into.name(given, field.is_some(), place)?;
        into.enter(&name, Some(&row[secret]), place)?;
    }
    Ok(())
}
