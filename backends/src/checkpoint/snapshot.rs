//! Snapshots of a run: weights, optimisers and position in one file, authenticated by the run's key.
//!
//! The file is a safetensors file followed by 32 bytes: the HMAC-SHA256 of all preceding bytes. It is written and
//! authenticated tensor by tensor, without a second copy of any.

use crate::checkpoint::weights::{header, read};
use crate::error::{Error, Result, at};
use crate::files::sibling;
use crate::privacy::ledger::{BEGIN_AGAIN, Standing};
use crate::privacy::random::{KeyedWriter, RunKey, keyed_writer};
use reticent_disk::DiskFile;
use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The schema of the metadata.
pub(crate) const SCHEMA: u32 = 1;
/// Length of the authentication code in bytes.
const CODE: usize = 32;
/// The purpose of the key that makes the code.
const PURPOSE: &str = "snapshot";
/// Values converted to bytes at a time.
const BLOCK: usize = 1 << 16;

/// The metadata of a snapshot, stored beside its tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moment {
    pub(crate) schema: u32,
    /// The name of the key.
    pub(crate) key: String,
    /// The description of the run that took the snapshot, as the version that took it writes it.
    pub(crate) run: Value,
    /// Steps finished.
    pub(crate) position: u64,
    /// The state of the ledger.
    pub(crate) ledger: Standing,
    /// The results on held-out text.
    pub(crate) held_out: String,
    /// Steps of each optimiser.
    pub(crate) optimizers: Vec<u64>,
}

/// A tensor to store.
pub(crate) struct Stored<'a> {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: &'a [f32],
}

/// A writer to both the file and the authentication code.
struct Authenticated {
    file: DiskFile,
    code: KeyedWriter,
}

impl Authenticated {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.code.write_all(bytes)?;
        self.file.write_all(bytes)
    }
}

/// Stores a snapshot, whole or not at all.
pub(crate) fn save(
    path: &Path,
    key: &RunKey,
    moment: &Moment,
    tensors: &[Stored<'_>],
) -> Result<()> {
    let said = serde_json::to_string(moment).map_err(Error::engine)?;
    let notes = BTreeMap::from([("moment".to_owned(), said)]);
    let entries = tensors
        .iter()
        .map(|t| (&*t.name, &*t.shape, t.values.len()));
    let header = header(&notes, entries)?;
    // always the same name: what a killed process left goes first
    let part = sibling(path, "part");
    at(&part, reticent_disk::remove_file(&part))?;
    let mut out = Authenticated {
        file: at(&part, DiskFile::create(&part))?,
        code: keyed_writer(key.bytes(), PURPOSE),
    };
    at(&part, out.write(&header))?;
    let mut bytes = Vec::with_capacity(4 * BLOCK);
    for tensor in tensors {
        for block in tensor.values.chunks(BLOCK) {
            bytes.clear();
            bytes.extend(block.iter().flat_map(|v| v.to_le_bytes()));
            at(&part, out.write(&bytes))?;
        }
    }
    let Authenticated { mut file, code } = out;
    at(&part, file.write_all(&code.finish()))?;
    at(&part, file.sync_content())?;
    at(path, reticent_disk::rename(&part, path))
}

/// A snapshot authenticated as a whole by the run's key.
pub(crate) struct Snapshot {
    path: PathBuf,
    bytes: Vec<u8>,
    pub(crate) moment: Moment,
}

/// Splits a file into its content and its authentication code.
fn content(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().saturating_sub(CODE))
}

/// Parses the metadata, without authenticating it.
fn moment(bytes: &[u8]) -> std::result::Result<Moment, String> {
    let (_, header) =
        SafeTensors::read_metadata(content(bytes).0).map_err(|e| format!("its header: {e}"))?;
    let notes = header.metadata().clone().unwrap_or_default();
    let text = notes.get("moment").ok_or("its header is incomplete")?;
    serde_json::from_str(text).map_err(|e| format!("its header: {e}"))
}

impl Snapshot {
    /// Reads the snapshot, if there is one.
    ///
    /// # Errors
    /// Returns [`Error::State`] unless this key wrote exactly these bytes, in the schema of this version; the message
    /// includes `counted`, the ledger's counts.
    pub(crate) fn open(path: &Path, key: &RunKey, counted: &str) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let bad = |why: String| Error::state(path, why);
        let bytes = read(path)?;
        let (whole, code) = content(&bytes);
        let mut expected = keyed_writer(key.bytes(), PURPOSE);
        at(path, expected.write_all(whole))?;
        if !expected.verify(code) {
            return Err(bad(format!(
                "not what this run stored: damaged, or of another run ({counted}); {BEGIN_AGAIN}"
            )));
        }
        let moment = moment(&bytes).map_err(bad)?;
        if moment.schema != SCHEMA {
            let found = moment.schema;
            return Err(bad(format!(
                "a snapshot of schema {found}, and this version reads schema {SCHEMA} ({counted}); {BEGIN_AGAIN}"
            )));
        }
        Ok(Some(Self {
            path: path.to_path_buf(),
            bytes,
            moment,
        }))
    }

    /// Returns the values of these tensors, in this order.
    pub(crate) fn tensors(&self, names: impl Iterator<Item = String>) -> Result<Vec<Vec<f32>>> {
        let bad = |why: String| Error::state(self.path.clone(), why);
        let file =
            SafeTensors::deserialize(content(&self.bytes).0).map_err(|e| bad(e.to_string()))?;
        names
            .map(|name| {
                let view = file
                    .tensor(&name)
                    .map_err(|_| bad(format!("the snapshot lacks {name}")))?;
                crate::checkpoint::weights::values(&self.path, &name, &view)
            })
            .collect()
    }
}

/// Returns the position recorded in a snapshot whose key is lost.
pub(crate) fn unauthenticated_position(path: &Path) -> Option<u64> {
    let moment = moment(&read(path).ok()?).ok()?;
    Some(moment.position)
}
