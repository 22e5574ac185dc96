//! Reads scores from CSV files.

use super::super::args::MembershipArgs;
use crate::contract::{TableFile, csv_line, csv_problem, open_table};
use anyhow::{Context, Result, bail};
use csv::{Position, Reader, ReaderBuilder, StringRecord};
use reticent_disk::header_advice;
use std::collections::HashMap;
use std::path::Path;

/// The column that tells whether the texts alone distinguish the sides, and its value if they do.
pub(super) const TEXTS_ALONE: &str = "texts_alone";
pub(super) const APART: &str = "apart";

/// The contents of the files, members first in both pairs.
#[derive(Debug, Default)]
pub(in crate::audit) struct Table {
    pub(in crate::audit) scores: [Vec<f64>; 2],
    pub(in crate::audit) groups: Option<[Vec<String>; 2]>,
    pub(in crate::audit) texts: Option<[Vec<String>; 2]>,
    /// The classes of a classifier's records.
    pub(in crate::audit) classes: Option<[Vec<String>; 2]>,
    /// Whether some row states that the texts alone distinguish the sides, as `--scores-out` writes it.
    pub(in crate::audit) said_apart: bool,
}

/// The positions of the columns in one file.
struct Columns {
    id: usize,
    member: Option<usize>,
    score: usize,
    /// Those of [`EXTRAS`].
    extras: [Option<usize>; 3],
    texts_alone: Option<usize>,
}

/// The columns that all records have or none.
const EXTRAS: [&str; 3] = ["group", "text", "class"];

impl Table {
    /// Returns the values of [`EXTRAS`].
    const fn extras(&mut self) -> [&mut Option<[Vec<String>; 2]>; 3] {
        [&mut self.groups, &mut self.texts, &mut self.classes]
    }
}

/// Reads the file or the two files that were named.
pub(super) fn read(args: &MembershipArgs) -> Result<Table> {
    let mut reading = Reading::default();
    match (&args.scores, &args.members, &args.non_members) {
        (Some(path), _, _) => reading.file(path, None).context("--scores")?,
        (None, Some(members), Some(others)) => {
            reading.file(members, Some(0)).context("--members")?;
            reading.file(others, Some(1)).context("--non-members")?;
        }
        _ => bail!("--scores, or --members and --non-members, must be given"),
    }
    if args.lower_is_member {
        for scores in &mut reading.table.scores {
            scores.iter_mut().for_each(|score| *score = -*score);
        }
    }
    Ok(reading.table)
}

#[derive(Default)]
struct Reading {
    table: Table,
    /// Where each record was first seen.
    seen: HashMap<String, String>,
    files: usize,
}

impl Reading {
    fn file(&mut self, path: &Path, side: Option<usize>) -> Result<()> {
        let table = open_table(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut reader = ReaderBuilder::new().from_reader(table);
        let columns = columns(&mut reader, path, side.is_none())?;
        self.extras(&columns, path)?;
        self.files += 1;
        let mut row = StringRecord::new();
        loop {
            match reader.read_record(&mut row) {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    let place = place(path, row.position().map_or(1, Position::line));
                    self.row(&row, &columns, side, place)?;
                }
                Err(error) => bail!(problem(path, &error, row.position())),
            }
        }
    }

    /// Requires that groups, texts and classes are given for all records or for none.
    fn extras(&mut self, columns: &Columns, path: &Path) -> Result<()> {
        let first = self.files == 0;
        let extras = EXTRAS.into_iter().zip(columns.extras);
        for ((name, column), values) in extras.zip(self.table.extras()) {
            if first {
                *values = column.map(|_| Default::default());
            }
            if column.is_some() != values.is_some() {
                bail!(
                    "{}: the column {name} must be in both files or in neither",
                    path.display()
                );
            }
        }
        Ok(())
    }

    fn row(
        &mut self,
        row: &StringRecord,
        columns: &Columns,
        side: Option<usize>,
        place: String,
    ) -> Result<()> {
        let own = columns
            .member
            .map(|column| member(&row[column]).with_context(|| place.clone()))
            .transpose()?;
        let side = match (side, own) {
            (Some(side), Some(own)) if side != own => bail!(
                "{place}: the column member says that this record is one of the other file; are the files swapped?"
            ),
            (Some(side), _) | (None, Some(side)) => side,
            (None, None) => bail!("{place}: no column member"),
        };
        let score = score(&row[columns.score]).with_context(|| place.clone())?;
        let id = row[columns.id].to_owned();
        if id.is_empty() {
            bail!("{place}: the id must not be empty");
        }
        let extras = EXTRAS.into_iter().zip(columns.extras);
        for ((name, column), values) in extras.zip(self.table.extras()) {
            if let (Some(values), Some(column)) = (values, column) {
                if name == "group" && row[column].is_empty() {
                    bail!("{place}: the group must not be empty; a record of its own has its id");
                }
                values[side].push(row[column].to_owned());
            }
        }
        let said = columns.texts_alone.map(|column| row[column].trim());
        self.table.said_apart |= said == Some(APART);
        if let Some(before) = self.seen.insert(id, place.clone()) {
            bail!("{place}: its id is already that of {before}; ids must differ");
        }
        self.table.scores[side].push(score);
        Ok(())
    }
}

fn columns(reader: &mut Reader<TableFile>, path: &Path, member: bool) -> Result<Columns> {
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => bail!(problem(path, &error, None)),
    };
    // A byte-order mark is not part of the first name.
    let names: Vec<&str> = header
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}').trim())
        .collect();
    let column = |name: &str| names.iter().position(|n| n.eq_ignore_ascii_case(name));
    for name in ["id", "member", "score", "group", "text", "class"] {
        let times = names.iter().filter(|n| n.eq_ignore_ascii_case(name));
        if times.count() > 1 {
            bail!("{}, line 1: the column {name} occurs twice", path.display());
        }
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_text = ["jsonl", "ndjson", "json", "txt"]
        .map(Some)
        .contains(&ending);
    let needed = |name: &str| match column(name) {
        Some(at) => Ok(at),
        None if is_text => bail!(
            "{}: must be a CSV of scores; for texts give --members and --non-members with their --model or --scorer",
            path.display()
        ),
        None => bail!(
            "{}, line 1: no column {name} among its {}; {}",
            path.display(),
            names.len(),
            header_advice(names.iter().map(|name| name.as_bytes()))
        ),
    };
    Ok(Columns {
        id: needed("id")?,
        member: if member {
            Some(needed("member")?)
        } else {
            column("member")
        },
        score: needed("score")?,
        extras: EXTRAS.map(column),
        texts_alone: column(TEXTS_ALONE),
    })
}

fn place(path: &Path, line: u64) -> String {
    format!("{}, line {line}", path.display())
}

fn problem(path: &Path, error: &csv::Error, row: Option<&Position>) -> String {
    let place = place(path, csv_line(error, row));
    format!("{place}: {}", csv_problem(error))
}

/// Returns the index in the table: 0 for a member, 1 for a non-member.
fn member(text: &str) -> Result<usize> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(0),
        "0" | "false" | "no" => Ok(1),
        // The value may be text, because of an extra column or a missing quote.
        _ => bail!("member must be 1 or 0 (true or false, yes or no)"),
    }
}

fn score(text: &str) -> Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(score) if !score.is_nan() => Ok(score),
        _ => bail!(
            "score must be a number, inf or -inf; a record without a score is left out on purpose or not at all"
        ),
    }
}
