//! The state folder of a run under way: key, ledger, snapshot. It stays with its owner, and is
//! erased when the checkpoint is written.

use crate::error::{Error, Result, at};
use crate::files::{private_folder, write_whole};
use crate::ledger::Ledger;
use crate::material::Corpus;
use crate::optimizer::Optimizer;
use crate::random::{RunKey, keyed_digest};
use crate::recipe::TrainOptions;
use crate::trainer::Trainer;
use crate::weights::{Named, from_bytes, read, to_bytes};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A state folder that is open for one run.
#[derive(Debug)]
pub(crate) struct State {
    folder: PathBuf,
    pub(crate) key: RunKey,
    pub(crate) ledger: Ledger,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    key: [u8; 32],
    secret: bool,
    run: String,
}

/// Options, data and starting weights in one keyed digest: resuming something else is refused.
fn run_digest(
    key: &RunKey,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    weights: &str,
) -> Result<String> {
    let description = serde_json::to_vec(&(options, corpus, weights))
        .map_err(|e| Error::Engine(e.to_string()))?;
    Ok(crate::manifest::hexadecimal(&keyed_digest(
        key.bytes(),
        &description,
    )))
}

impl State {
    /// Opens the folder of this run or creates it. Where the key was lost, a fresh one is
    /// drawn, and the ledger counts the replayed steps again.
    pub(crate) fn open(
        folder: &Path,
        options: &TrainOptions,
        corpus: &Corpus<'_>,
        weights: &str,
    ) -> Result<Self> {
        private_folder(folder)?;
        let path = folder.join("key.json");
        let key = if path.exists() {
            let text = at(&path, std::fs::read_to_string(&path))?;
            let bad = |why: String| Error::State {
                path: path.clone(),
                why,
            };
            let stored: Stored = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
            let key = RunKey::from_bytes(stored.key, stored.secret);
            if run_digest(&key, options, corpus, weights)? != stored.run {
                return Err(Error::State {
                    path: folder.to_path_buf(),
                    why:
                        "belongs to a run with other options, other data or other starting weights; remove it to start over"
                            .into(),
                });
            }
            key
        } else {
            let key = options
                .seed
                .map_or_else(RunKey::from_system, |seed| Ok(RunKey::from_seed(seed)))?;
            let stored = Stored {
                key: *key.bytes(),
                secret: key.is_secret(),
                run: run_digest(&key, options, corpus, weights)?,
            };
            let json = serde_json::to_vec(&stored).map_err(|e| Error::Engine(e.to_string()))?;
            write_whole(&path, &json)?;
            key
        };
        let ledger = Ledger::open(&folder.join("ledger.jsonl"), &key.name())?;
        Ok(Self {
            folder: folder.to_path_buf(),
            key,
            ledger,
        })
    }

    fn snapshot_path(&self) -> PathBuf {
        self.folder.join("snapshot.safetensors")
    }

    /// Stores weights, optimisers, position and what the held-out text said, whole or not at all.
    pub(crate) fn save(
        &self,
        (position, held_out): (u64, &str),
        trainer: &dyn Trainer,
        optimizers: &[&Optimizer],
    ) -> Result<()> {
        let mut tensors: Vec<Named> = trainer
            .parameters()
            .iter()
            .zip(trainer.weights())
            .map(|(p, w)| Named {
                name: p.name.clone(),
                shape: p.shape.clone(),
                values: w.clone(),
            })
            .collect();
        let mut notes = HashMap::from([
            ("position".to_owned(), position.to_string()),
            ("key".to_owned(), self.key.name()),
            ("held-out".to_owned(), held_out.to_owned()),
        ]);
        for (k, optimizer) in optimizers.iter().enumerate() {
            let (steps, first, second) = optimizer.state();
            notes.insert(format!("optimizer{k}.steps"), steps.to_string());
            for (moment, values) in [("first", first), ("second", second)] {
                tensors.extend(values.iter().enumerate().map(|(i, v)| Named {
                    name: format!("optimizer{k}.{moment}.{i}"),
                    shape: vec![v.len()],
                    values: v.clone(),
                }));
            }
        }
        write_whole(&self.snapshot_path(), &to_bytes(&tensors, notes)?)
    }

    /// Restores the last snapshot; returns the position it was taken at and what the held-out
    /// text had said (nothing without one).
    ///
    /// A snapshot taken under another key is as good: its steps stay in the ledger, and those
    /// that follow draw from the fresh key.
    pub(crate) fn restore(
        &self,
        trainer: &mut dyn Trainer,
        optimizers: &mut [&mut Optimizer],
    ) -> Result<Option<(u64, String)>> {
        let path = self.snapshot_path();
        if !path.exists() {
            return Ok(None);
        }
        let (mut tensors, notes) = from_bytes(&path, &read(&path)?)?;
        let bad = |why: &str| Error::State {
            path: path.clone(),
            why: why.to_owned(),
        };
        let number = |name: &str| -> Result<u64> {
            notes
                .get(name)
                .and_then(|v| v.parse().ok())
                .ok_or_else(|| bad("the snapshot's header is incomplete"))
        };
        let mut take = |name: &str| {
            tensors
                .remove(name)
                .map(|t| t.values)
                .ok_or_else(|| bad(&format!("the snapshot lacks {name}")))
        };
        let names: Vec<&str> = trainer
            .parameters()
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        let weights = names
            .into_iter()
            .map(&mut take)
            .collect::<Result<Vec<_>>>()?;
        trainer.set_weights(weights)?;
        for (k, optimizer) in optimizers.iter_mut().enumerate() {
            let (_, first, second) = optimizer.state();
            let counts = [("first", first.len()), ("second", second.len())];
            let [first, second] = counts.map(|(moment, count)| {
                (0..count)
                    .map(|i| take(&format!("optimizer{k}.{moment}.{i}")))
                    .collect::<Result<Vec<_>>>()
            });
            optimizer.restore(number(&format!("optimizer{k}.steps"))?, first?, second?)?;
        }
        let held_out = notes.get("held-out").cloned().unwrap_or_default();
        Ok(Some((number("position")?, held_out)))
    }

    /// Erases the folder: keys are overwritten before they are unlinked.
    pub(crate) fn erase(self) -> Result<()> {
        let key = self.folder.join("key.json");
        let length = at(&key, std::fs::metadata(&key))?.len() as usize;
        at(&key, std::fs::write(&key, vec![b' '; length]))?;
        at(&self.folder, std::fs::remove_dir_all(&self.folder))
    }
}
