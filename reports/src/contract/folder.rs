//! Folders that are whole or absent.

use super::files::{note_unfinished, parent_of, write_file};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An output folder that appears under its name only when everything in it is there.
///
/// It is built in a temporary sibling (mode 0700) and renamed at the end; dropped before
/// that, it leaves nothing.
#[derive(Debug)]
pub struct OutputFolder {
    target: PathBuf,
    work: TempDir,
}

impl OutputFolder {
    /// Opens the temporary sibling, so that an unwritable place is found before the work is done.
    ///
    /// # Errors
    /// A `target` that exists and is not an empty folder, or a parent that does not exist or
    /// cannot be written.
    pub fn create(target: &Path) -> Result<Self> {
        refuse_occupied(target)?;
        let parent = parent_of(target);
        if !parent.is_dir() {
            bail!(
                "cannot create {}: there is no folder {}",
                target.display(),
                parent.display()
            );
        }
        let work = tempfile::Builder::new()
            .prefix(".partial-")
            .tempdir_in(parent)
            .with_context(|| {
                format!(
                    "cannot create {}: folder {} refuses new files",
                    target.display(),
                    parent.display()
                )
            })?;
        note_unfinished(work.path());
        Ok(Self {
            target: target.to_path_buf(),
            work,
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
        self.work.path()
    }
    /// Writes one file into the folder, mode 0600.
    ///
    /// # Errors
    /// A full disk, mostly.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_file(&self.work.path().join(name), bytes)
    }
    /// Makes the folder appear under its name.
    ///
    /// # Errors
    /// When something took the name in the meantime; the work is then removed.
    pub fn finish(self) -> Result<PathBuf> {
        // Renaming onto an empty folder replaces it; onto anything else it fails.
        std::fs::rename(self.work.path(), &self.target)
            .with_context(|| format!("cannot create {}", self.target.display()))?;
        // Nothing is left under the temporary name to clean up.
        let _ = self.work.keep();
        Ok(self.target)
    }
}

fn refuse_occupied(target: &Path) -> Result<()> {
    if !target.exists() {
        return Ok(());
    }
    if !target.is_dir() {
        bail!(
            "{} exists and is no folder; choose another name",
            target.display()
        );
    }
    let mut entries = std::fs::read_dir(target)
        .with_context(|| format!("cannot look into {}", target.display()))?;
    if entries.next().is_some() {
        bail!(
            "{} exists and is not empty; choose another name or remove it",
            target.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_dropped_folder_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let folder = OutputFolder::create(&place.path().join("out")).unwrap();
        folder.write("a.json", b"{}").unwrap();
        drop(folder);
        assert_eq!(count(place.path()), 0);
    }

    #[test]
    fn a_finished_folder_is_complete_and_alone() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        std::fs::create_dir(&target).unwrap();
        let folder = OutputFolder::create(&target).unwrap();
        folder.write("a.json", b"{}").unwrap();
        assert_eq!(count(&target), 0, "nothing shows before the end");
        folder.finish().unwrap();
        assert_eq!((count(place.path()), count(&target)), (1, 1));
    }

    #[test]
    fn occupied_and_missing_places_are_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for (target, why) in [
            (place.path().to_path_buf(), "is not empty"),
            (file, "is no folder"),
            (place.path().join("no/out"), "there is no folder"),
        ] {
            let error = OutputFolder::create(&target).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
