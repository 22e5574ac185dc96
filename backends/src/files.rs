//! Writes files and folders that are whole or absent and private to their owner, with errors of this crate that name
//! the path.

use crate::error::{Result, at};
use reticent_disk::{WholeFolder, private_folder as make_private};
pub(crate) use reticent_disk::{parent_of, sibling};
use std::path::Path;

/// Creates a folder that only its owner can enter.
pub(crate) fn private_folder(path: &Path) -> Result<()> {
    at(path, make_private(path))
}

/// Syncs the parent folder of a path, so that renames and removals in it are durable.
pub(crate) fn sync_beside(path: &Path) -> Result<()> {
    at(path, reticent_disk::sync_folder(parent_of(path)))
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    at(path, reticent_disk::write_whole(path, bytes))
}

/// A folder under construction: it appears at its place whole, or not at all.
pub(crate) struct Building(WholeFolder);

impl Building {
    /// Creates a hidden folder next to its final place.
    pub(crate) fn beside(folder: &Path) -> Result<Self> {
        at(folder, std::fs::create_dir_all(parent_of(folder)))?;
        at(folder, WholeFolder::create(folder)).map(Self)
    }

    /// Returns the folder's path while it is being built.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        at(&self.path().join(name), self.0.write(name, bytes))
    }

    /// Moves the folder to its place, which must be free or an empty folder.
    pub(crate) fn finish(self, folder: &Path) -> Result<()> {
        at(folder, self.0.finish()).map(drop)
    }
}
