//! The ledger of private steps, written before each step takes effect.
//!
//! `ledger.jsonl` begins with a line that describes the run, including the private steps it plans. One line follows for
//! each private step, in the order of the step indices: the index, what was released, the name of the key and, where
//! workers share the step, how many records each of them added. The key, which lies beside the ledger, gives these
//! numbers too. Every line ends in a digest under the run's key of the line and the preceding digest, so that an edited,
//! missing or moved line is detected. Lines missing at the end are detected through the snapshot, which stores the
//! ledger's length and last digest.
//!
//! A replayed step repeats its batch and its noise, releases the same value, and is counted once. Within one process an
//! index can be used only once, whatever the file says.

use crate::error::{Error, Result, at};
use crate::privacy::random::{RunKey, keyed_digest};
use reticent_disk::DiskFile;
use reticent_disk::hexadecimal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A range of private steps that a run plans to release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Planned {
    /// The stage of the recipe, from 0.
    pub(crate) stage: u64,
    /// What each step releases.
    pub(crate) released: String,
    /// The first index.
    pub(crate) first: u64,
    /// The index after the last.
    pub(crate) end: u64,
}

/// A line of the file with its digest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<T> {
    entry: T,
    digest: String,
}

/// The schema of the file.
const SCHEMA: u32 = 1;
/// Its type.
const KIND: &str = "ledger";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    key: String,
    run: serde_json::Value,
    planned: Vec<Planned>,
}

/// The entry of one private step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    index: u64,
    released: String,
    key: String,
    /// By rank; empty for a step that is not shared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    records: Vec<u64>,
}

/// The state of a ledger: its number of private steps, and the digest of its last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Standing {
    pub(crate) steps: u64,
    pub(crate) digest: String,
}

type Digest = [u8; 32];

/// The record of private steps: in memory, or in a file for runs that can be resumed.
#[derive(Debug)]
pub struct Ledger {
    /// The last index that this process recorded.
    last: Option<u64>,
    kept: CountedSteps,
}

#[derive(Debug)]
enum CountedSteps {
    Memory(std::collections::BTreeSet<u64>),
    File(Box<Written>),
}

#[derive(Debug)]
struct Written {
    path: PathBuf,
    file: DiskFile,
    /// Where its whole lines end, until it is cut there.
    torn: Option<u64>,
    /// The key of the digests.
    chain: Digest,
    name: String,
    planned: Vec<Planned>,
    /// The digest of the first line, then those of the entries by index.
    digests: Vec<Digest>,
}

fn chain_key(key: &RunKey) -> Digest {
    keyed_digest(key.bytes(), b"ledger")
}

/// Returns a line of the file and its digest.
fn line<T: Serialize>(chain: &Digest, before: &Digest, entry: &T) -> Result<(String, Digest)> {
    let mut message = before.to_vec();
    serde_json::to_writer(&mut message, entry).map_err(Error::engine)?;
    let digest = keyed_digest(chain, &message);
    let line = Line {
        entry,
        digest: hexadecimal(&digest),
    };
    let text = serde_json::to_string(&line).map_err(Error::engine)? + "\n";
    Ok((text, digest))
}

/// Parses an entry, and checks that its line is byte for byte what this key writes after the preceding line.
fn checked<T: Serialize + DeserializeOwned>(
    chain: &Digest,
    before: &Digest,
    text: &str,
) -> std::result::Result<(T, Digest), String> {
    let read: Line<T> =
        serde_json::from_str(text).map_err(|_| "is not a line of a ledger".to_owned())?;
    match line(chain, before, &read.entry) {
        Ok((written, digest)) if written == text => Ok((read.entry, digest)),
        _ => Err("was edited, or lines before it are missing or moved".to_owned()),
    }
}

impl Ledger {
    /// Creates a ledger that is kept in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            last: None,
            kept: CountedSteps::Memory(std::collections::BTreeSet::new()),
        }
    }

    /// Creates the file of a new run and syncs it.
    pub(crate) fn create(
        path: &Path,
        key: &RunKey,
        run: &impl Serialize,
        planned: &[Planned],
    ) -> Result<()> {
        let run = serde_json::to_value(run).map_err(Error::engine)?;
        let head = Head {
            schema: SCHEMA,
            kind: KIND.into(),
            key: key.name(),
            run,
            planned: planned.to_vec(),
        };
        let (text, _) = line(&chain_key(key), &[0; 32], &head)?;
        crate::files::write_whole(path, text.as_bytes())
    }

    /// Opens the file of a run, and returns the ledger with the description in its first line.
    ///
    /// A torn last line (the process died while writing it) does not count: its step had not taken effect, since the
    /// weights change only after the line is complete. It is cut off by the next step that is recorded, so that opening a
    /// ledger that is then refused changes nothing.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or written; [`Error::State`] for a line that this key did not write
    /// at its place, with how many steps may have been spent.
    pub(crate) fn open(path: &Path, key: &RunKey) -> Result<(Self, serde_json::Value)> {
        let chain = chain_key(key);
        let mut reader = BufReader::new(at(path, File::open(path))?);
        let mut whole = 0u64;
        let mut digests = Vec::new();
        let mut head: Option<Head> = None;
        let mut text = String::new();
        loop {
            text.clear();
            let number = digests.len() as u64 + 1;
            let damaged = |why: &str| Error::State {
                path: path.to_path_buf(),
                why: match &head {
                    None => format!(
                        "line 1 {why}: how many private steps were planned and spent is not \
                         known (ε ≤ ∞); {BEGIN_AGAIN}"
                    ),
                    Some(head) => format!(
                        "line {number} {why}: at least {} and at most {} private steps were \
                         spent; {BEGIN_AGAIN}",
                        number - 2,
                        total(&head.planned)
                    ),
                },
            };
            // text that is not UTF-8 is damage, not a read error
            let read = match reader.read_line(&mut text) {
                Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                    return Err(damaged("is not text"));
                }
                read => at(path, read)?,
            };
            if read == 0 || !text.ends_with('\n') {
                break;
            }
            let before = digests.last().copied().unwrap_or([0; 32]);
            let digest = match &head {
                None => {
                    let (first, digest) =
                        checked::<Head>(&chain, &before, &text).map_err(|why| damaged(&why))?;
                    if first.schema != SCHEMA || first.kind != KIND {
                        return Err(damaged("is not that of a ledger of schema 1"));
                    }
                    head = Some(first);
                    digest
                }
                Some(first) => {
                    let (entry, digest) =
                        checked::<Entry>(&chain, &before, &text).map_err(|why| damaged(&why))?;
                    let index = number - 2;
                    if entry.index != index || entry.key != first.key {
                        return Err(damaged("has another index or key than its place says"));
                    }
                    digest
                }
            };
            digests.push(digest);
            whole += read as u64;
        }
        let Some(head) = head else {
            return Err(Error::State {
                path: path.to_path_buf(),
                why: format!(
                    "its first line is missing or torn: how many private steps were planned and \
                     spent is not known (ε ≤ ∞); {BEGIN_AGAIN}"
                ),
            });
        };
        let file = at(path, DiskFile::again(path))?;
        let written = Written {
            path: path.to_path_buf(),
            file,
            torn: Some(whole),
            chain,
            name: head.key,
            planned: head.planned,
            digests,
        };
        let ledger = Self {
            last: None,
            kept: CountedSteps::File(Box::new(written)),
        };
        Ok((ledger, head.run))
    }

    /// Records a private step. A step that an earlier process recorded is a replay and changes nothing.
    ///
    /// # Errors
    /// Returns an error if the file can't be written; [`Error::State`] for an index that this process has already used,
    /// because its noise would be used twice, or one that leaves a gap.
    pub fn record_private(&mut self, index: u64) -> Result<()> {
        self.record_shared(index, &[])
    }

    /// Like [`Self::record_private`], for a step to which each rank adds so many records.
    pub(crate) fn record_shared(&mut self, index: u64, records: &[u64]) -> Result<()> {
        if self.last.is_some_and(|last| index <= last) {
            return Err(Error::State {
                path: self.path(),
                why: format!("private step {index} was taken before: its noise is used up"),
            });
        }
        match &mut self.kept {
            CountedSteps::Memory(taken) => {
                taken.insert(index);
            }
            CountedSteps::File(written) => written.record(index, records)?,
        }
        self.last = Some(index);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        match &self.kept {
            CountedSteps::Memory(_) => PathBuf::from("ledger"),
            CountedSteps::File(written) => written.path.clone(),
        }
    }

    /// Returns the number of released private steps with these indices, each counted once.
    #[must_use]
    pub fn private_steps_of(&self, indices: &Range<u64>) -> u64 {
        match &self.kept {
            CountedSteps::Memory(taken) => taken.range(indices.clone()).count() as u64,
            CountedSteps::File(written) => {
                let end = indices.end.min(written.steps());
                end.saturating_sub(indices.start)
            }
        }
    }

    /// Returns the number of released private steps, each counted once.
    #[must_use]
    pub fn private_steps(&self) -> u64 {
        self.private_steps_of(&(0..u64::MAX))
    }

    /// Returns the ledger's state, for a snapshot. A ledger in memory can't be resumed and has no digest.
    pub(crate) fn standing(&self) -> Standing {
        match &self.kept {
            CountedSteps::Memory(taken) => Standing {
                steps: taken.len() as u64,
                digest: String::new(),
            },
            CountedSteps::File(written) => Standing {
                steps: written.steps(),
                digest: written
                    .digests
                    .last()
                    .map_or_else(String::new, |d| hexadecimal(d)),
            },
        }
    }

    /// Checks that the ledger still holds everything that it held in an earlier state.
    ///
    /// # Errors
    /// Returns [`Error::State`] with how many steps may have been spent.
    pub(crate) fn reaches(&self, there: &Standing) -> Result<()> {
        let CountedSteps::File(written) = &self.kept else {
            return Ok(());
        };
        let place = usize::try_from(there.steps).unwrap_or(usize::MAX);
        match written.digests.get(place) {
            Some(digest) if hexadecimal(digest) == there.digest => Ok(()),
            _ => Err(Error::State {
                path: written.path.clone(),
                why: format!(
                    "it holds {} private steps, and the snapshot was taken after {}: lines are \
                     missing, and up to {} private steps may have been spent; {BEGIN_AGAIN}",
                    written.steps(),
                    there.steps,
                    total(&written.planned).max(there.steps)
                ),
            }),
        }
    }
}

/// What to do about a damaged record.
pub(crate) const BEGIN_AGAIN: &str =
    "it is not resumed; to begin a new run, remove the state folder (its checkpoints still count)";

fn total(planned: &[Planned]) -> u64 {
    planned.iter().map(|p| p.end - p.first.min(p.end)).sum()
}

impl Written {
    fn steps(&self) -> u64 {
        (self.digests.len() as u64).saturating_sub(1)
    }

    fn record(&mut self, index: u64, records: &[u64]) -> Result<()> {
        let steps = self.steps();
        if index < steps {
            return Ok(());
        }
        let planned = self
            .planned
            .iter()
            .find(|p| (p.first..p.end).contains(&index));
        let (Some(planned), true) = (planned, index == steps) else {
            return Err(Error::State {
                path: self.path.clone(),
                why: format!("private step {index} does not follow the {steps} that it holds"),
            });
        };
        let entry = Entry {
            index,
            released: planned.released.clone(),
            key: self.name.clone(),
            records: records.to_vec(),
        };
        let before = self.digests.last().copied().unwrap_or([0; 32]);
        let (text, digest) = line(&self.chain, &before, &entry)?;
        if let Some(whole) = self.torn {
            at(&self.path, self.file.cut(whole))?;
            self.torn = None;
        }
        at(&self.path, self.file.write_all(text.as_bytes()))?;
        at(&self.path, self.file.sync_content())?;
        self.digests.push(digest);
        Ok(())
    }
}

/// Reads the counts of private steps recorded and planned from a file whose key is lost, without verifying them.
pub(crate) fn unauthenticated_counts(path: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let head: Line<Head> = serde_json::from_str(lines.next()?).ok()?;
    Some((lines.count() as u64, total(&head.entry.planned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Vec<Planned> {
        vec![Planned {
            stage: 0,
            released: "gradient".into(),
            first: 0,
            end: 9,
        }]
    }

    fn home() -> (tempfile::TempDir, PathBuf, RunKey) {
        let home = tempfile::tempdir().unwrap();
        let (path, key) = (home.path().join("ledger.jsonl"), RunKey::from_seed(1));
        Ledger::create(&path, &key, &"a run", &plan()).unwrap();
        (home, path, key)
    }

    fn filled(path: &Path, key: &RunKey, steps: Range<u64>) -> Ledger {
        let (mut ledger, run) = Ledger::open(path, key).unwrap();
        assert_eq!(run, serde_json::json!("a run"));
        steps.for_each(|s| ledger.record_private(s).unwrap());
        ledger
    }

    #[test]
    fn a_replayed_step_counts_once_and_none_is_skipped_or_taken_twice() {
        let (_home, path, key) = home();
        assert_eq!(filled(&path, &key, 0..5).private_steps(), 5);
        let mut again = filled(&path, &key, 3..8);
        assert_eq!(again.private_steps(), 8);
        assert_eq!(again.private_steps_of(&(2..100)), 6);
        let twice = again.record_private(7).unwrap_err().to_string();
        assert!(
            twice.contains("ledger.jsonl") && twice.contains("used up"),
            "{twice}"
        );
        assert!(
            filled(&path, &key, 0..0).record_private(9).is_err(),
            "a hole"
        );
        assert!(again.record_private(8).is_ok());
        let beyond = again.record_private(9);
        assert!(beyond.is_err(), "more than was planned");
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_nothing_else() {
        let (_home, path, key) = home();
        let seen = filled(&path, &key, 0..3).standing();
        let whole = std::fs::read_to_string(&path).unwrap();
        for cut in 1..whole.lines().last().unwrap().len() {
            let torn = &whole[..whole.len() - cut];
            std::fs::write(&path, torn).unwrap();
            let mut ledger = filled(&path, &key, 0..0);
            assert_eq!(ledger.private_steps(), 2, "{cut}");
            // What is refused stays as it was found.
            assert!(ledger.reaches(&seen).is_err(), "{cut}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), torn, "{cut}");
            ledger.record_private(2).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "{cut}");
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(filled(&path, &key, 0..0).private_steps(), 3);
    }

    /// Every line edited, left out, doubled or moved; every other key.
    #[test]
    fn an_edited_missing_or_moved_line_is_named() {
        let (_home, path, key) = home();
        filled(&path, &key, 0..6);
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let refused = |lines: &[&str], what: &str| {
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            let error = Ledger::open(&path, &key).unwrap_err().to_string();
            assert!(error.contains("ledger.jsonl"), "{what}: {error}");
            assert!(error.contains("private steps"), "{what}: {error}");
        };
        for at in 0..lines.len() {
            let mut edited = lines.clone();
            let changed = edited[at].replace(['0', '1'], "2");
            edited[at] = &changed;
            refused(&edited, "edited");
            let mut doubled = lines.clone();
            doubled.insert(at, lines[at]);
            refused(&doubled, "doubled");
            if at + 1 < lines.len() {
                let mut shorter = lines.clone();
                shorter.remove(at);
                refused(&shorter, "left out");
                let mut moved = lines.clone();
                moved.swap(at, at + 1);
                refused(&moved, "moved");
            }
        }
        std::fs::write(&path, &whole).unwrap();
        assert!(Ledger::open(&path, &RunKey::from_seed(2)).is_err());
        assert_eq!(unauthenticated_counts(&path), Some((6, 9)));
    }

    #[test]
    fn a_ledger_of_another_schema_is_refused() {
        let (_home, path, key) = home();
        for (schema, kind) in [(2, "ledger"), (1, "snapshot")] {
            let head = Head {
                schema,
                kind: kind.into(),
                key: key.name(),
                run: serde_json::json!("a run"),
                planned: plan(),
            };
            let (text, _) = line(&chain_key(&key), &[0; 32], &head).unwrap();
            std::fs::write(&path, text).unwrap();
            let error = Ledger::open(&path, &key).unwrap_err().to_string();
            assert!(error.contains("schema 1"), "{schema}, {kind}: {error}");
        }
    }

    /// What is missing at the end is missed by whoever saw the ledger longer.
    #[test]
    fn a_ledger_that_became_shorter_does_not_reach() {
        let (_home, path, key) = home();
        let ledger = filled(&path, &key, 0..6);
        let seen = ledger.standing();
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        for kept in 1..lines.len() {
            std::fs::write(&path, lines[..kept].join("\n") + "\n").unwrap();
            let error = filled(&path, &key, 0..0)
                .reaches(&seen)
                .unwrap_err()
                .to_string();
            assert!(error.contains("up to 9 private steps"), "{kept}: {error}");
        }
        std::fs::write(&path, &whole).unwrap();
        let mut longer = filled(&path, &key, 0..0);
        longer.record_private(6).unwrap();
        assert!(longer.reaches(&seen).is_ok());
    }
}
