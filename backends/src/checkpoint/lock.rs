//! A lock that allows one process at a time to use a folder.

use crate::error::{Result, at};
use crate::files::sibling;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The lock of a folder: a file `NAME.lock` beside it, removed when this value is dropped or the process ends at once.
///
/// The lock file lies beside the folder rather than in it, so that the lock stays held while the folder is created,
/// renamed or erased.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    _file: File,
}

impl FolderLock {
    /// Takes the lock, or fails immediately.
    ///
    /// # Errors
    /// [`crate::Error::Io`] naming the folder: busy, where another process holds it; or the folder that
    /// it lies in is missing or can't be written.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = sibling(folder, "lock");
        loop {
            let busy = "another process is at work on this folder";
            let file = at(folder, reticent_disk::lock_file(&path, busy))?;
            // the previous holder may have removed the file between our opening and locking it
            if same_file(&file, &path) {
                reticent_disk::note_unfinished(&path);
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for FolderLock {
    #[expect(
        clippy::disallowed_methods,
        reason = "unlocks after a failure, which no further one may stop"
    )]
    fn drop(&mut self) {
        reticent_disk::forget_unfinished(&self.path);
        // removed while the lock is held: from now on, opening the path creates a new file
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |m: std::fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(path)) => place(file) == place(path),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same_file(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_folder_is_locked_for_one_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("out");
        let held = FolderLock::take(&folder).unwrap();
        let error = FolderLock::take(&folder).unwrap_err();
        assert!(
            matches!(&error, Error::Io { path, .. } if *path == folder),
            "{error}"
        );
        assert!(error.to_string().contains("another process"));
        drop(held);
        assert!(FolderLock::take(&folder).is_ok());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
