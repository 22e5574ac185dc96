//! The hidden folder in which a preparation grows, beside the one that it will be.

use super::{FACTS, stopped};
use crate::error::{Error, Result};
use crate::lock::lock_file;
use std::fs::File;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

/// Whose lock says that somebody is at work.
const LOCK: &str = "lock";

/// `.preparing-NAME`, mode 0700. Dropped before it is finished, it is removed, unless it is to be
/// taken up again; what a killed process left of it is for the next one that prepares the same
/// folder to take up or to remove.
#[derive(Debug)]
pub(super) struct Beside {
    target: PathBuf,
    path: PathBuf,
    /// Held as long as this value lives.
    lock: File,
    /// Whether it stays as it is when this value goes.
    stays: bool,
}

/// Where the folder grows.
pub(super) fn hidden(target: &Path) -> Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| Error::Write {
        path: target.to_path_buf(),
        source: IoError::new(ErrorKind::InvalidInput, "it has no name of its own"),
    })?;
    let mut hidden = std::ffi::OsString::from(".preparing-");
    hidden.push(name);
    Ok(parent_of(target).join(hidden))
}

impl Beside {
    /// Opens it, with what an earlier process left in it.
    pub(super) fn begin(target: &Path, force: bool) -> Result<Self> {
        check_target(target, force)?;
        let path = hidden(target)?;
        let lock = locked(&path).map_err(|source| Error::Write {
            path: target.to_path_buf(),
            source,
        })?;
        // From here on it is ours, and goes away with this value.
        Ok(Self {
            target: target.to_path_buf(),
            path,
            lock,
            stays: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it stays as it is, to be taken up again, when this value goes.
    pub(super) const fn stay(&mut self, stays: bool) {
        self.stays = stays;
    }

    /// The same, if a stopped preparation lies in it.
    pub(super) fn stay_if_stopped(&mut self) {
        self.stays = stopped::lies_in(&self.path);
    }

    /// Removes what an earlier process left, but for these files.
    pub(super) fn clear(&self, but: &[&str]) -> Result<()> {
        self.cleared(but).map_err(|source| Error::Write {
            path: self.target.clone(),
            source,
        })
    }

    /// Removes a file, if it is there.
    pub(super) fn forget(&self, name: &str) -> Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Write {
                path: self.target.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }

    fn cleared(&self, but: &[&str]) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != LOCK && but.iter().all(|kept| name != *kept) {
                if entry.file_type()?.is_dir() {
                    std::fs::remove_dir_all(entry.path())?;
                } else {
                    std::fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Gives the finished folder its name. What it replaces is kept until that has worked.
    pub(super) fn finish(mut self) -> Result<()> {
        self.replace().map_err(|source| Error::Write {
            path: self.target.clone(),
            source,
        })?;
        self.stays = true;
        Ok(())
    }

    fn replace(&self) -> std::io::Result<()> {
        let replaced = self.target.exists();
        let mut old = tempfile::Builder::new();
        let old = old
            .prefix(".preparing-old-")
            .tempdir_in(parent_of(&self.target))?;
        if replaced {
            std::fs::rename(&self.target, old.path().join("old"))?;
        }
        std::fs::remove_file(self.path.join(LOCK))?;
        if let Err(error) = std::fs::rename(&self.path, &self.target) {
            if replaced {
                std::fs::rename(old.path().join("old"), &self.target)?;
            }
            return Err(error);
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.stays {
            let _ = std::fs::remove_dir_all(&self.path);
        }
        let _ = self.lock.unlock();
    }
}

/// Makes the hidden folder, or takes over the one of a process that is gone.
fn locked(path: &Path) -> std::io::Result<File> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    match folder.create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !std::fs::symlink_metadata(path)?.is_dir() {
                return Err(error);
            }
            // Refused where it is somebody else's: what lies in it may be taken up.
            #[cfg(unix)]
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        }
        made => made?,
    }
    let busy = format!("another preparation is at work in {}", path.display());
    lock_file(&path.join(LOCK), &busy)
}

fn parent_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether the target may be taken.
fn check_target(folder: &Path, force: bool) -> Result<()> {
    let failed = |source| Error::Write {
        path: folder.to_path_buf(),
        source,
    };
    let occupied = || Error::Occupied {
        path: folder.to_path_buf(),
    };
    match std::fs::symlink_metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(meta) if !meta.is_dir() => Err(occupied()),
        Ok(_) => {
            let mut entries = std::fs::read_dir(folder).map_err(failed)?;
            let ours = force && folder.join(FACTS).is_file();
            if entries.next().is_none() || ours {
                Ok(())
            } else {
                Err(occupied())
            }
        }
    }
}
