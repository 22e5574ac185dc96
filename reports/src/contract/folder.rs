//! Folders that are whole or absent, with errors that name them.

use anyhow::{Context, Result};
use reticent_disk::WholeFolder;
use std::path::{Path, PathBuf};

/// An output folder that appears under its name only when it is complete.
///
/// The folder is built in a temporary sibling (mode 0700) and renamed at the end; if dropped before
/// that, it leaves nothing behind.
#[derive(Debug)]
pub struct OutputFolder {
    target: PathBuf,
    folder: WholeFolder,
}

impl OutputFolder {
    /// Opens the temporary sibling, so that an unwritable path is found before the work is done.
    ///
    /// # Errors
    /// Returns an error if `target` exists and is not an empty folder, or if its parent doesn't
    /// exist or can't be written.
    pub fn create(target: &Path) -> Result<Self> {
        Ok(Self {
            target: target.to_path_buf(),
            folder: WholeFolder::create(target).with_context(|| unmade(target))?,
        })
    }
    /// Checks whether a folder could be created at `target`: calls [`OutputFolder::create`] and
    /// drops the result.
    ///
    /// For writers that make their folder themselves, after long work.
    ///
    /// # Errors
    /// Returns an error as [`OutputFolder::create`] does.
    pub fn probe(target: &Path) -> Result<()> {
        Self::create(target).map(drop)
    }
    /// Returns the temporary folder, for writers that need a path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
    /// Writes one file into the folder, mode 0600.
    ///
    /// # Errors
    /// Returns an error if the file can't be written, for instance because the disk is full.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = || format!("cannot write {}", self.target.join(name).display());
        self.folder.write(name, bytes).with_context(path)
    }
    /// Makes the folder appear under its name.
    ///
    /// # Errors
    /// Returns an error if the name was taken in the meantime; the temporary folder is then
    /// removed.
    pub fn finish(self) -> Result<PathBuf> {
        let Self { target, folder } = self;
        folder.finish().with_context(|| unmade(&target))
    }
}

fn unmade(target: &Path) -> String {
    format!("cannot create {}", target.display())
}
