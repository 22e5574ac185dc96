//! The state folder of an unfinished run: key, ledger, snapshot. It stays with its owner, and is erased once the
//! checkpoint is written.
//!
//! Key and ledger appear together, by a rename, so that a folder with only one of them is damaged and never a run that
//! has just begun. The content of the folder is compared with the run that is to be resumed from it, and only what the
//! run's key authenticates is trusted.

use crate::checkpoint::Checkpoint;
use crate::checkpoint::description::Description;
use crate::checkpoint::lock::FolderLock;
use crate::checkpoint::owner::state_folder;
use crate::checkpoint::snapshot::{
    Moment, SCHEMA, Snapshot, Stored, save, unauthenticated_position,
};
use crate::checkpoint::weights::weights_digest;
use crate::error::{Error, Result, at};
use crate::files::{parent_of, private_folder, sibling, sync_beside, write_whole};
use crate::material::Corpus;
use crate::model::{Lora, Model};
use crate::privacy::ledger::{BEGIN_AGAIN, Ledger, unauthenticated_counts};
use crate::privacy::random::RunKey;
use crate::recipe::{Schedule, TrainOptions};
use crate::run::own_key;
use crate::trainer::Trainer;
use crate::trainer::optimizer::Moments;
use reticent_disk::Shared;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

const KEY: &str = "key.json";
const LEDGER: &str = "ledger.jsonl";
const SNAPSHOT: &str = "snapshot";
/// Suffix of a state folder that is being created.
const NEW: &str = "new";
/// Suffix of a state folder that is being erased.
const ERASED: &str = "erased";

/// A state folder that is open for one run.
#[derive(Debug)]
pub(crate) struct State {
    folder: PathBuf,
    pub(crate) key: RunKey,
    pub(crate) ledger: Ledger,
    run: Description,
    /// Held while the folder is open.
    _lock: FolderLock,
}

/// The content of `key.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    key: [u8; 32],
}

/// The identity of a run: its options, its data and the weights it starts from.
#[derive(Clone, Copy)]
pub(crate) struct RunIdentity<'a> {
    pub(crate) options: &'a TrainOptions,
    pub(crate) corpus: &'a Corpus<'a>,
    pub(crate) weights: &'a str,
    pub(crate) model: &'a Model,
    /// The adapter, if one is trained while the model's own weights stay as they are.
    pub(crate) adapter: Option<&'a Lora>,
    /// The number of lanes in which the sums of a step are computed.
    pub(crate) lanes: usize,
    /// The kind of device that computes them.
    pub(crate) device: &'static str,
    /// η, by which clipping multiplies norms.
    pub(crate) margin: f64,
    pub(crate) schedule: &'a Schedule,
}

impl RunIdentity<'_> {
    pub(crate) fn description(&self, key: &RunKey) -> Result<Description> {
        Description::of(key, self)
    }
}

impl State {
    /// Opens the folder of this run, or creates it.
    ///
    /// # Errors
    /// Returns [`Error::Io`] (busy) if another run uses the folder; [`Error::OtherRun`] if the folder belongs to another
    /// run; [`Error::State`] if it is damaged, has lost its key, or another user can read or has made it.
    pub(crate) fn open(folder: &Path, identity: RunIdentity<'_>) -> Result<Self> {
        at(folder, reticent_disk::private_folder(parent_of(folder)))?;
        let lock = FolderLock::take(folder)?;
        clear_leftovers(folder)?;
        let made = is_free(folder)?
            .then(|| create(folder, identity))
            .transpose()?;
        refuse_shared(folder)?;
        let (key, ledger, run) = authenticated(folder)?;
        let run = Description::read(&folder.join(LEDGER), run)?;
        let ours = made.map_or_else(|| identity.description(&key), Ok)?;
        let differ = ours.differences(&run);
        if !differ.is_empty() {
            let path = folder.to_path_buf();
            return Err(Error::OtherRun { path, differ });
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            key,
            ledger,
            run,
            _lock: lock,
        })
    }

    /// Stores weights, optimisers, position and the results on held-out text, whole or not at all.
    pub(crate) fn save(
        &self,
        (position, held_out): (u64, &str),
        trainer: &dyn Trainer,
        optimizers: &[&dyn Moments],
    ) -> Result<()> {
        let weights = trainer.parameters().iter().zip(trainer.weights());
        let mut tensors: Vec<Stored<'_>> = weights
            .map(|(p, values)| Stored {
                name: p.name.clone(),
                shape: p.shape.clone(),
                values,
            })
            .collect();
        let mut steps = Vec::new();
        for (k, optimizer) in optimizers.iter().enumerate() {
            let (taken, first, second) = optimizer.state();
            steps.push(taken);
            for (moment, values) in [("first", first), ("second", second)] {
                tensors.extend(values.iter().enumerate().map(|(i, values)| Stored {
                    name: moment_name(k, moment, i),
                    shape: vec![values.len()],
                    values,
                }));
            }
        }
        let run = serde_json::to_value(&self.run).map_err(Error::engine)?;
        let moment = Moment {
            schema: SCHEMA,
            key: self.key.name(),
            run,
            position,
            ledger: self.ledger.standing(),
            held_out: held_out.to_owned(),
            optimizers: steps,
        };
        save(&self.folder.join(SNAPSHOT), &self.key, &moment, &tensors)
    }

    /// Restores the last snapshot. Returns the position at which it was taken and the results on held-out text, or
    /// `None` without a snapshot.
    pub(crate) fn restore(
        &self,
        trainer: &mut dyn Trainer,
        optimizers: &mut [&mut dyn Moments],
    ) -> Result<Option<(u64, String)>> {
        let counted = format!(
            "the ledger counts {} private steps",
            self.ledger.private_steps()
        );
        let path = self.folder.join(SNAPSHOT);
        let Some(snapshot) = Snapshot::open(&path, &self.key, &counted)? else {
            return Ok(None);
        };
        let moment = &snapshot.moment;
        let run = Description::read(&path, moment.run.clone())?;
        let differ = self.run.differences(&run);
        if !differ.is_empty() {
            return Err(Error::OtherRun { path, differ });
        }
        self.ledger.reaches(&moment.ledger)?;
        let names = trainer.parameters().iter().map(|p| p.name.clone());
        trainer.set_weights(snapshot.tensors(names)?)?;
        for (k, optimizer) in optimizers.iter_mut().enumerate() {
            let (_, first, second) = optimizer.state();
            let counts = [("first", first.len()), ("second", second.len())];
            let [first, second] = counts.map(|(moment, count)| {
                snapshot.tensors((0..count).map(|i| moment_name(k, moment, i)))
            });
            let steps = moment.optimizers.get(k).copied().unwrap_or_default();
            optimizer.restore(steps, first?, second?)?;
        }
        Ok(Some((moment.position, moment.held_out.clone())))
    }

    /// Erases the folder. From the rename on it is no state any more: what a killed process leaves
    /// then is erased by the next one.
    pub(crate) fn erase(self) -> Result<()> {
        erase(&self.folder)
    }
}

/// The index of the averaged weights, after both optimisers.
const AVERAGE: usize = 2;

fn moment_name(optimizer: usize, moment: &str, tensor: usize) -> String {
    format!("optimizer{optimizer}.{moment}.{tensor}")
}

/// Returns whether the folder is absent or empty.
pub(super) fn is_free(folder: &Path) -> Result<bool> {
    at(folder, reticent_disk::refuse_alias(folder))?;
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(e) => at(folder, Err(e)),
    }
}

/// Refuses a state that other users can read or have made: its key determines all noise of the run.
fn refuse_shared(folder: &Path) -> Result<()> {
    for (path, mode) in [(folder.to_path_buf(), 700), (folder.join(KEY), 600)] {
        let why = match at(&path, reticent_disk::shared(&path, folder))? {
            // A missing key is reported where it is read; where every file is open, no state could be kept.
            None | Some(Shared::FileSystem) => continue,
            Some(Shared::Owner) => {
                "it belongs to another user, who may know the key of the noise; remove the state folder and begin again"
                    .to_owned()
            }
            Some(Shared::Permissions) => format!(
                "others on this machine can use it, and so may know the key of the noise; if nobody did, restrict it with \
                 chmod {mode}, otherwise remove the state folder and begin again"
            ),
        };
        return Err(Error::state(path, why));
    }
    Ok(())
}

/// Creates the folder of a new run: whole under its name, or not at all.
fn create(folder: &Path, identity: RunIdentity<'_>) -> Result<Description> {
    let key = own_key(None, identity.options.seed)?;
    let run = identity.description(&key)?;
    let growing = sibling(folder, NEW);
    private_folder(&growing)?;
    Ledger::create(&growing.join(LEDGER), &key, &run, run.planned())?;
    let stored = KeyFile {
        schema: 1,
        kind: "run-key".into(),
        key: *key.bytes(),
    };
    let json = serde_json::to_vec(&stored).map_err(Error::engine)?;
    write_whole(&growing.join(KEY), &json)?;
    if folder.exists() {
        at(folder, std::fs::remove_dir(folder))?;
    }
    at(folder, reticent_disk::rename(&growing, folder))?;
    Ok(run)
}

/// Reads key, ledger and description, each authenticated by the key. The description is as its version wrote it.
fn authenticated(folder: &Path) -> Result<(RunKey, Ledger, Value)> {
    let key = read_key(folder)?;
    let path = folder.join(LEDGER);
    if !path.exists() {
        return Err(Error::state(
            path,
            format!(
                "is missing: how many private steps were planned and spent is not known (ε ≤ ∞); \
                 {BEGIN_AGAIN}"
            ),
        ));
    }
    let (ledger, run) = Ledger::open(&path, &key)?;
    Ok((key, ledger, run))
}

fn read_key(folder: &Path) -> Result<RunKey> {
    let path = folder.join(KEY);
    let stored = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice::<KeyFile>(&bytes).ok(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(unauthenticated(folder, &path, "is missing"));
        }
        Err(e) => return at(&path, Err(e)),
    };
    match stored {
        Some(stored) if stored.schema == 1 && stored.kind == "run-key" => {
            Ok(RunKey::from_bytes(stored.key))
        }
        _ => Err(unauthenticated(
            folder,
            &path,
            "is not the key file of a run",
        )),
    }
}

/// Returns the name of the run whose state a folder keeps; `None` if it is absent or empty.
///
/// # Errors
/// Returns [`Error::State`] if the key is lost, and [`Error::Io`] if the folder can't be read.
pub fn kept_run(folder: &Path) -> Result<Option<String>> {
    match is_free(folder)? {
        true => Ok(None),
        false => read_key(folder).map(|key| Some(key.name())),
    }
}

/// Returns the error for a record whose key is lost. Its counts are shown, but not trusted.
fn unauthenticated(folder: &Path, path: &Path, what: &str) -> Error {
    let spent = match unauthenticated_counts(&folder.join(LEDGER)) {
        Some((steps, planned)) => {
            format!("its ledger counts {steps} private steps of {planned} planned")
        }
        None => "its ledger says nothing".to_owned(),
    };
    let position = match unauthenticated_position(&folder.join(SNAPSHOT)) {
        Some(position) => format!("its snapshot was taken after step {position}"),
        None => "it has no snapshot".to_owned(),
    };
    Error::state(
        path,
        format!(
            "{what}, so the record of this run is unauthenticated: ε ≤ ∞ for whatever it \
             released. {spent}; {position}. {}",
            BEGIN_AGAIN.replacen("it", "It", 1)
        ),
    )
}

fn erase(folder: &Path) -> Result<()> {
    let doomed = sibling(folder, ERASED);
    at(folder, reticent_disk::rename(folder, &doomed))?;
    remove(&doomed)
}

/// Overwrites and removes the key of a folder, then the rest.
fn remove(folder: &Path) -> Result<()> {
    let key = folder.join(KEY);
    if key.exists() {
        at(&key, reticent_disk::shred(&key))?;
    }
    at(folder, reticent_disk::remove_folder(folder))?;
    sync_beside(folder)
}

/// Removes what killed processes left behind: partly created folders, under whose keys nothing was released, and partly
/// erased folders. Returns whether there were any.
fn clear_leftovers(folder: &Path) -> Result<bool> {
    let mut found = false;
    for ending in [NEW, ERASED] {
        let left = sibling(folder, ending);
        if left.exists() {
            remove(&left)?;
            found = true;
        }
    }
    Ok(found)
}

/// Erases the state of a finished run whose process was killed after it wrote its checkpoint: partly erased state, and
/// a state whose snapshot holds the weights of the checkpoint. Anything else stays as it is. Returns whether anything
/// was erased.
///
/// # Errors
/// Returns [`Error::Io`] (busy) if a run uses the state, or an error if the folder can't be erased.
pub fn erase_finished(checkpoint: &Path) -> Result<bool> {
    let folder = state_folder(checkpoint);
    let endings = [NEW, ERASED].map(|ending| sibling(&folder, ending).exists());
    if !folder.exists() && endings == [false, false] {
        return Ok(false);
    }
    let _lock = FolderLock::take(&folder)?;
    let found = clear_leftovers(&folder)?;
    if !folder.exists() || !belongs_to(&folder, checkpoint) {
        return Ok(found);
    }
    erase(&folder)?;
    Ok(true)
}

/// Whether the run of a state folder ended in this checkpoint, whichever version ran it.
fn belongs_to(folder: &Path, checkpoint: &Path) -> bool {
    let Ok((parameters, done)) = Checkpoint::trained(checkpoint) else {
        return false;
    };
    let last = || -> Result<Option<[String; 2]>> {
        let (key, ledger, _) = authenticated(folder)?;
        let Some(snapshot) = Snapshot::open(&folder.join(SNAPSHOT), &key, "")? else {
            return Ok(None);
        };
        ledger.reaches(&snapshot.moment.ledger)?;
        let names: Vec<String> = parameters.into_iter().map(|p| p.name).collect();
        let averaged = (0..names.len()).map(|i| moment_name(AVERAGE, "first", i));
        // A run with a moving average ends with the averaged weights.
        let averaged = snapshot.tensors(averaged).unwrap_or_default();
        let weights = snapshot.tensors(names.into_iter())?;
        Ok(Some(
            [weights, averaged].map(|values| weights_digest(&values)),
        ))
    };
    last().is_ok_and(|digests| {
        digests.is_some_and(|digests| digests.contains(&weights_digest(&done)))
    })
}

#[cfg(all(test, feature = "cpu"))]
mod tests;
