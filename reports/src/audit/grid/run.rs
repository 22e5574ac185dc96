//! `audit grid`: runs the cells of a grid file.

use super::args::{Grid, Running};
use super::cell::{CellDocument, GridReport, Row};
use super::file::GridFile;
use super::plan::Plan;
use super::pool::{self, Limits, Outcome};
use crate::audit::diff::document;
use crate::contract::{Csv, Envelope, Exit, Inputs, Interrupt, write_file};
use crate::page::Output;
use anyhow::{Context, Result};
use reticent_backends::checkpoint::FolderLock;
use std::path::{Path, PathBuf};

/// The folder of a grid, locked against other processes.
#[derive(Debug)]
pub(in crate::audit) struct GridFolder {
    folder: PathBuf,
    limits: Limits,
    _lock: FolderLock,
}

impl GridFolder {
    /// Creates the folder, or resumes in it.
    ///
    /// # Errors
    /// Returns an error if the folder can't be created, if another grid works in it, or if the limits can't be kept.
    pub(in crate::audit) fn open(running: &Running) -> Result<Self> {
        let limits = Limits::of(running.jobs, running.memory)?;
        let folder = running.out.clone();
        let made = ["stages", "cells"].map(|part| folder.join(part));
        reticent_disk::private_folder(&folder)
            .and_then(|()| {
                made.iter()
                    .try_for_each(|part| reticent_disk::private_folder(part))
            })
            .with_context(|| format!("--out: cannot make {}", folder.display()))?;
        let lock = FolderLock::take(&folder).context("--out")?;
        Ok(Self {
            folder,
            limits,
            _lock: lock,
        })
    }

    /// Returns the folder of the stages.
    pub(in crate::audit) fn stages(&self) -> PathBuf {
        self.folder.join("stages")
    }

    /// Returns the folder of the cells' documents.
    pub(in crate::audit) fn cells(&self) -> PathBuf {
        self.folder.join("cells")
    }

    /// Removes the documents of cells that an earlier run wrote.
    fn clear(&self) -> Result<()> {
        let cells = self.cells();
        let place = || format!("--out: cannot clear {}", cells.display());
        for entry in cells.read_dir().with_context(place)? {
            let path = entry.with_context(place)?.path();
            let named = path.extension().is_some_and(|ending| ending == "json");
            if named && document(&path).is_ok_and(|found| found["type"] == CELL) {
                reticent_disk::remove_file(&path).with_context(place)?;
            }
        }
        Ok(())
    }
}

/// The type of a cell's document.
const CELL: &str = "grid-cell";

/// Runs what is not finished, writes the document of each cell as it finishes, and returns all of them with the grid's
/// table and the outcome of every stage. The folder then has the documents of these cells alone.
///
/// # Errors
/// Returns an error on an interruption or if the folder can't be written.
pub(in crate::audit) fn cells(
    plan: &Plan,
    place: &GridFolder,
    interrupt: &Interrupt,
) -> Result<(Vec<CellDocument>, GridReport, Vec<Outcome>)> {
    let mut documents: Vec<Option<CellDocument>> = vec![None; plan.cells.len()];
    let mut before = 0;
    // Cells of another plan, or that this one has yet to run, would be drawn together with those that follow.
    place.clear()?;
    let outcomes = pool::run(
        plan,
        &place.stages(),
        place.limits,
        interrupt,
        |earlier, at, outcomes| {
            before += usize::from(earlier);
            for (cell, document) in plan.cells.iter().zip(&mut documents) {
                if document.is_none() && cell.stages.contains(&at) {
                    *document = CellDocument::of(plan, cell, outcomes);
                    if let Some(document) = document {
                        write(&place.cells(), document)?;
                    }
                }
            }
            Ok(())
        },
    )?;
    let documents: Vec<CellDocument> = documents.into_iter().flatten().collect();
    let failed = documents
        .iter()
        .filter(|cell| cell.failed.is_some())
        .count();
    let seconds = outcomes.iter().flatten().map(|finished| finished.seconds);
    let report = GridReport {
        finished: documents.len() - failed,
        failed,
        stages: plan.stages.len(),
        stages_before: before,
        texts: plan.test_texts(),
        seconds: seconds.sum(),
        rows: documents.iter().map(CellDocument::row).collect(),
    };
    Ok((documents, report, outcomes))
}

fn write(folder: &Path, cell: &CellDocument) -> Result<()> {
    let path = folder.join(format!("{}.json", cell.place.name()));
    let mut document = Envelope::new(CELL, Inputs::new(), cell);
    document.says = match &cell.failed {
        Some(why) => format!("{} failed: {why}", cell.place.name()),
        None => format!("{} finished", cell.place.name()),
    };
    write_file(&path, document.to_text()?.as_bytes())
}

/// Reads the file, runs the grid and prints the report.
///
/// # Errors
/// Returns an error if the file can't be used, on an interruption, if the folder can't be written, and, once everything
/// is printed, if cells failed or leave a limit undecided.
pub fn run(args: &Grid, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let output = output.and_page(args.html.as_deref())?;
    let file = GridFile::read(&args.file).context("FILE")?;
    let place = GridFolder::open(&args.running)?;
    let plan = Plan::of(&file, &place.stages())
        .with_context(|| format!("FILE: {}", args.file.display()))?;
    let (_, report, _) = cells(&plan, &place, interrupt)?;
    let inputs = Inputs::new()
        .given_path("grid", Some(&args.file))?
        .given_path("out", Some(&args.running.out))?;
    output.answer_with_rows(
        &Envelope::new("grid", inputs, &report),
        &report.to_page(),
        || Ok(Csv::of_columns(&Row::COLUMNS, &report.rows)?),
    )?;
    report.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A figure over the folder joined cells of the file as it was with those of the file as it is.
    #[test]
    fn the_cells_of_an_earlier_file_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let running = Running {
            out: home.path().join("runs"),
            jobs: None,
            memory: None,
        };
        let place = GridFolder::open(&running).unwrap();
        let cell = json!({"arm": "crt", "recipe": "crt", "model": "lstm", "seed": 0, "miss_rate": 0.5,
            "canary_recall": 0.5, "stages": []});
        write(&place.cells(), &serde_json::from_value(cell).unwrap()).unwrap();
        std::fs::write(place.cells().join("notes.json"), "{\"schema\": 1}").unwrap();
        let names = || {
            let entries = place.cells().read_dir().unwrap();
            let mut names: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["crt-0.5-0.5-plain-lstm-seed0.json", "notes.json"]);
        let plan = Plan::new(&place.stages());
        cells(&plan, &place, &Interrupt::default()).unwrap();
        // What is no cell is not ours to remove.
        assert_eq!(names(), ["notes.json"]);
    }
}
