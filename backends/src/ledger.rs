//! What was spent, written down before it takes effect.
//!
//! One line per private step: the name of the key that noised it, its phase and its index. A
//! replayed step (same key, same index) repeats its batch and its noise, releases the same
//! value, and is counted once. A step replayed under a fresh key is a second release and
//! counts again.

use crate::error::{Error, Result, at};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One private step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    step: u64,
}

/// The record of private steps, kept in memory and, for real runs, in an append-only file.
#[derive(Debug)]
pub struct Ledger {
    key: String,
    entries: BTreeSet<Entry>,
    file: Option<(PathBuf, File)>,
}

impl Ledger {
    /// A ledger that lives as long as the process: for tests.
    #[must_use]
    pub fn in_memory(key_name: &str) -> Self {
        Self {
            key: key_name.to_owned(),
            entries: BTreeSet::new(),
            file: None,
        }
    }

    /// Opens or creates the ledger file, with the steps already in it.
    ///
    /// A torn last line (the process died while writing it) is dropped and cut off: its step had not
    /// taken effect, since the weights move only after the line is complete.
    ///
    /// # Errors
    /// A file that can't be read or written, or a line that is no entry.
    pub fn open(path: &Path, key_name: &str) -> Result<Self> {
        let mut entries = BTreeSet::new();
        let mut whole = 0u64;
        if path.exists() {
            let mut reader = BufReader::new(at(path, File::open(path))?);
            let mut line = String::new();
            loop {
                line.clear();
                let read = at(path, reader.read_line(&mut line))?;
                if read == 0 || !line.ends_with('\n') {
                    break;
                }
                let entry = serde_json::from_str(&line).map_err(|e| Error::State {
                    path: path.to_path_buf(),
                    why: format!("not a ledger line: {e}"),
                })?;
                entries.insert(entry);
                whole += read as u64;
            }
        }
        let file = at(
            path,
            crate::files::private_options(OpenOptions::new().append(true).create(true)).open(path),
        )?;
        at(path, file.set_len(whole))?;
        Ok(Self {
            key: key_name.to_owned(),
            entries,
            file: Some((path.to_path_buf(), file)),
        })
    }

    /// Writes a private step down. Writing the same step of the same key again changes nothing.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn record_private(&mut self, step: u64) -> Result<()> {
        let entry = Entry {
            key: self.key.clone(),
            step,
        };
        if self.entries.contains(&entry) {
            return Ok(());
        }
        if let Some((path, file)) = &mut self.file {
            let line =
                serde_json::to_string(&entry).map_err(|e| Error::Engine(e.to_string()))? + "\n";
            at(path, file.write_all(line.as_bytes()))?;
            at(path, file.sync_data())?;
        }
        self.entries.insert(entry);
        Ok(())
    }

    /// Private steps of these indices that were released, each counted once.
    #[must_use]
    pub fn private_steps_of(&self, indices: &Range<u64>) -> u64 {
        let inside = |e: &&Entry| indices.contains(&e.step);
        self.entries.iter().filter(inside).count() as u64
    }

    /// How many rounds of `steps` indices each were begun under some key: in each of them a
    /// record may have been used once.
    #[must_use]
    pub fn rounds_of(&self, indices: &Range<u64>, steps: u64) -> u64 {
        let inside = self.entries.iter().filter(|e| indices.contains(&e.step));
        let rounds = inside.map(|e| (&e.key, (e.step - indices.start) / steps.max(1)));
        rounds.collect::<BTreeSet<_>>().len() as u64
    }

    /// Private steps that were released, each counted once.
    #[must_use]
    pub fn private_steps(&self) -> u64 {
        self.entries.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_step_counts_once_and_a_fresh_key_counts_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::open(&path, "a").unwrap();
        (0..5).for_each(|s| ledger.record_private(s).unwrap());
        drop(ledger);
        let mut again = Ledger::open(&path, "a").unwrap();
        (3..8).for_each(|s| again.record_private(s).unwrap());
        assert_eq!(again.private_steps(), 8);
        drop(again);
        let mut fresh = Ledger::open(&path, "b").unwrap();
        fresh.record_private(7).unwrap();
        assert_eq!(fresh.private_steps(), 9);
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_a_foreign_line_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::open(&path, "a").unwrap();
        ledger.record_private(0).unwrap();
        drop(ledger);
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"key\":\"a\",\"st")
            .unwrap();
        let mut ledger = Ledger::open(&path, "a").unwrap();
        assert_eq!(ledger.private_steps(), 1);
        ledger.record_private(1).unwrap();
        drop(ledger);
        assert_eq!(Ledger::open(&path, "a").unwrap().private_steps(), 2);
        std::fs::write(&path, "hello\n").unwrap();
        assert!(matches!(Ledger::open(&path, "a"), Err(Error::State { .. })));
    }
}
