//! Folders that are whole or absent, with errors that name them.

use anyhow::{Context, Result};
use reticent_disk::WholeFolder;
use std::path::{Path, PathBuf};

/// An output folder that appears under its name only when everything in it is there.
///
/// It is built in a temporary sibling (mode 0700) and renamed at the end; dropped before
/// that, it leaves nothing.
#[derive(Debug)]
pub struct OutputFolder {
    target: PathBuf,
    folder: WholeFolder,
}

impl OutputFolder {
    /// Opens the temporary sibling, so that an unwritable place is found before the work is done.
    ///
    /// # Errors
    /// A `target` that exists and is not an empty folder, or a parent that does not exist or
    /// cannot be written.
    pub fn create(target: &Path) -> Result<Self> {
        Ok(Self {
            target: target.to_path_buf(),
            folder: WholeFolder::create(target).with_context(|| unmade(target))?,
        })
    }
    /// Whether a folder could be created there: [`OutputFolder::create`], taken back at once.
    ///
    /// For writers that make their folder themselves, after long work.
    ///
    /// # Errors
    /// As [`OutputFolder::create`].
    pub fn probe(target: &Path) -> Result<()> {
        Self::create(target).map(drop)
    }
    /// The temporary folder, for writers that want a folder of their own.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
    /// Writes one file into the folder, mode 0600.
    ///
    /// # Errors
    /// A full disk, mostly.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = || format!("cannot write {}", self.target.join(name).display());
        self.folder.write(name, bytes).with_context(path)
    }
    /// Makes the folder appear under its name.
    ///
    /// # Errors
    /// When something took the name in the meantime; the work is then removed.
    pub fn finish(self) -> Result<PathBuf> {
        let Self { target, folder } = self;
        folder.finish().with_context(|| unmade(&target))
    }
}

fn unmade(target: &Path) -> String {
    format!("cannot create {}", target.display())
}
