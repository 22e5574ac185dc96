//! Writes one file of any size, whole or not at all. A stopped file can be resumed.

use super::beside::{Beside, Left, OUTPUT, Shape, hidden};
use super::stopped::{self, Checksum, Growing, PROGRESS, Stopped};
use crate::error::Result;
use crate::prepare::Identity;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// An output path that is taken for a file, with what an earlier process left for it.
pub(crate) struct OutputFile(Beside);

/// A file that is being written.
pub(crate) struct FileWriter {
    beside: Beside,
    growing: Growing,
}

impl OutputFile {
    /// Takes the path. `force` allows replacing an existing file.
    pub(crate) fn take(path: &Path, force: bool) -> Result<Self> {
        Beside::begin(path, Shape::File, force).map(Self)
    }

    /// Returns whether a stopped output lies beside a path.
    pub(crate) fn stopped(path: &Path) -> bool {
        hidden(path, Shape::File).is_ok_and(|hidden| stopped::lies_in(&hidden))
    }

    /// Reads what an earlier process left.
    pub(crate) fn left<D: DeserializeOwned>(&self) -> Left<D> {
        self.0.left(None)
    }

    /// Starts an empty file.
    pub(crate) fn begin(mut self) -> Result<FileWriter> {
        self.0.clear(&[])?;
        let growing = Growing::create(self.0.path(), OUTPUT, Some(Checksum::of(OUTPUT, None)))?;
        Ok(FileWriter {
            beside: self.0,
            growing,
        })
    }

    /// Resumes a stopped file; returns `self` if that file has changed.
    pub(crate) fn go_on<D>(
        mut self,
        stopped: &Stopped<D>,
    ) -> Result<std::result::Result<FileWriter, Self>> {
        let Some(growing) = Growing::again(self.0.path(), OUTPUT, &stopped.files, None)? else {
            return Ok(Err(self));
        };
        self.0.clear(&[PROGRESS, OUTPUT])?;
        Ok(Ok(FileWriter {
            beside: self.0,
            growing,
        }))
    }
}

impl FileWriter {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.growing.line([bytes])
    }

    /// Writes a checkpoint to disk.
    pub(crate) fn checkpoint<D: Serialize>(&mut self, identity: &Identity, done: &D) -> Result<()> {
        let stopped = Stopped {
            identity: identity.clone(),
            files: vec![self.growing.mark()?],
            done,
        };
        stopped.write(self.beside.path(), None)
    }

    /// Stops and keeps the work up to the last checkpoint, if there was one.
    pub(crate) fn stop(mut self) {
        self.beside.stay_if_stopped();
    }

    /// Renames the file to its final name.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.beside.stay_if_stopped();
        self.growing.close()?;
        self.beside.finish()
    }
}
