//! Rows of one size that need not fit in memory.

use crate::error::{Error, Result};
use reticent_disk::ScratchFile;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The number of bytes that are written to a file at once.
const PIECE: usize = 1 << 20;

/// The number of bytes that are read ahead of all runs together.
const AHEAD: usize = 16 << 20;

/// Where that lies of which there may be more than fits in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scratch<'a> {
    /// The folder on whose disk it lies; nothing of it stays.
    pub(crate) folder: &'a Path,
    /// The number of documents about which something is kept in memory.
    pub(crate) most: usize,
}

/// Rows of `SIZE` bytes, in the order in which they were added. Beyond some number they lie in a file without a name.
#[derive(Debug, Default)]
pub(crate) struct Rows<const SIZE: usize> {
    /// The rows behind those in the file.
    last: Vec<u8>,
    file: Option<ScratchFile>,
    /// The number of rows in the file.
    filed: u64,
    /// The folder on whose disk the file lies; without one, all rows stay in memory.
    folder: Option<PathBuf>,
    /// The number of bytes in memory from which there is a file.
    most: usize,
}

impl<const SIZE: usize> Rows<SIZE> {
    pub(crate) fn new(scratch: Option<Scratch<'_>>) -> Self {
        Self {
            folder: scratch.map(|scratch| scratch.folder.to_path_buf()),
            most: scratch.map_or(usize::MAX, |scratch| scratch.most.saturating_mul(SIZE)),
            ..Self::default()
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.filed + (self.last.len() / SIZE) as u64
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub(crate) fn push(&mut self, row: &[u8; SIZE]) -> Result<()> {
        self.last.extend_from_slice(row);
        let most = if self.file.is_some() {
            PIECE
        } else {
            self.most
        };
        let Some(folder) = self.folder.as_ref().filter(|_| self.last.len() >= most) else {
            return Ok(());
        };
        let writing = Error::writing(folder);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ScratchFile::create_in(folder).map_err(writing)?),
        };
        file.append(&self.last).map_err(writing)?;
        self.filed += (self.last.len() / SIZE) as u64;
        self.last.clear();
        self.last.shrink_to(PIECE + SIZE);
        Ok(())
    }

    /// Returns all rows in order.
    pub(crate) fn all(&self) -> Run<'_, SIZE> {
        self.run(0..self.len(), PIECE)
    }

    /// Returns some rows in order, `room` bytes of which are read at once.
    fn run(&self, rows: Range<u64>, room: usize) -> Run<'_, SIZE> {
        Run {
            rows: self,
            left: rows,
            room: (room / SIZE).max(1) as u64,
            bytes: Vec::new(),
            at: 0,
        }
    }

    /// Returns the rows of several runs in ascending order; the rows of each are.
    ///
    /// # Errors
    /// Returns an error if the disk is gone.
    pub(crate) fn merged(&self, runs: &[Range<u64>]) -> Result<Merged<'_, SIZE>> {
        let room = (AHEAD / runs.len().max(1)).min(PIECE);
        let runs = runs.iter().map(|run| self.run(run.clone(), room));
        let mut out = Merged {
            runs: runs.collect(),
            heads: BinaryHeap::new(),
        };
        for run in 0..out.runs.len() {
            out.advance(run)?;
        }
        Ok(out)
    }
}

/// Rows that are read in order.
pub(crate) struct Run<'a, const SIZE: usize> {
    rows: &'a Rows<SIZE>,
    /// The rows that were not read yet.
    left: Range<u64>,
    /// The number of rows that are read at once.
    room: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl<const SIZE: usize> Run<'_, SIZE> {
    fn read(&mut self) -> Result<()> {
        let Rows {
            file,
            filed,
            last,
            folder,
            ..
        } = self.rows;
        let begin = self.left.start;
        let mut end = self.left.end.min(begin + self.room);
        (self.at, self.left.start) = (0, end);
        match file.as_ref().zip(folder.as_ref()) {
            Some((file, folder)) if begin < *filed => {
                end = end.min(*filed);
                self.left.start = end;
                self.bytes.resize((end - begin) as usize * SIZE, 0);
                let read = file.read_at(&mut self.bytes, begin * SIZE as u64);
                read.map_err(Error::reading(folder))
            }
            _ => {
                let [begin, end] = [begin, end].map(|row| (row - filed) as usize * SIZE);
                self.bytes.clear();
                self.bytes.extend_from_slice(&last[begin..end]);
                Ok(())
            }
        }
    }
}

impl<const SIZE: usize> Iterator for Run<'_, SIZE> {
    type Item = Result<[u8; SIZE]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            if self.left.is_empty() {
                return None;
            }
            if let Err(error) = self.read() {
                return Some(Err(error));
            }
        }
        let row = self.bytes[self.at..].first_chunk().copied();
        self.at += SIZE;
        row.map(Ok)
    }
}

/// The rows of several runs in ascending order.
pub(crate) struct Merged<'a, const SIZE: usize> {
    runs: Vec<Run<'a, SIZE>>,
    /// The next row of each run.
    heads: BinaryHeap<Reverse<([u8; SIZE], usize)>>,
}

impl<const SIZE: usize> Merged<'_, SIZE> {
    fn advance(&mut self, run: usize) -> Result<()> {
        if let Some(row) = self.runs[run].next() {
            self.heads.push(Reverse((row?, run)));
        }
        Ok(())
    }
}

impl<const SIZE: usize> Iterator for Merged<'_, SIZE> {
    type Item = Result<[u8; SIZE]>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((row, run)) = self.heads.pop()?;
        Some(self.advance(run).map(|()| row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In memory, in a file, and some in each; and runs of any length, empty ones too.
    #[test]
    fn rows_come_back_in_order_and_runs_are_merged() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let in_file = |most| Some(Scratch { folder, most });
        let mut draw = crate::draws(3);
        for scratch in [None, in_file(0), in_file(100), in_file(1 << 20)] {
            let mut rows = Rows::<3>::new(scratch);
            let (mut all, mut runs) = (Vec::new(), Vec::new());
            for length in [0, 700_000, 1, 90, 0, 50_000] {
                let begin = rows.len();
                let run = (0..length).map(|_| [0; 3].map(|_: u8| draw(256) as u8));
                let mut run: Vec<[u8; 3]> = run.collect();
                run.sort_unstable();
                run.iter().for_each(|row| rows.push(row).unwrap());
                runs.push(begin..rows.len());
                all.extend(run);
            }
            assert_eq!(rows.len(), all.len() as u64);
            let filed = scratch.is_some_and(|scratch| scratch.most < all.len());
            assert_eq!(rows.file.is_some(), filed);
            let read: Result<Vec<_>> = rows.all().collect();
            assert!(read.unwrap() == all);
            let read: Result<Vec<_>> = rows.merged(&runs).unwrap().collect();
            all.sort_unstable();
            assert!(read.unwrap() == all);
        }
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
    }
}
