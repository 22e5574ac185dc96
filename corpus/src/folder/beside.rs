//! The hidden folder in which a preparation grows, beside the one that it will be.

use super::FACTS;
use crate::error::{Error, Result};
use std::fs::{File, TryLockError};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

/// Whose lock says that somebody is at work.
const LOCK: &str = "lock";

/// `.preparing-NAME`, mode 0700. Dropped before it is finished, it is removed; what a killed
/// process left of it is removed by the next one that prepares the same folder.
#[derive(Debug)]
pub(super) struct Beside {
    target: PathBuf,
    path: PathBuf,
    /// Held as long as this value lives.
    lock: File,
    finished: bool,
}

impl Beside {
    /// Opens it, empty.
    pub(super) fn begin(target: &Path, force: bool) -> Result<Self> {
        check_target(target, force)?;
        let failed = |source| Error::Write {
            path: target.to_path_buf(),
            source,
        };
        let name = target.file_name().ok_or_else(|| {
            failed(IoError::new(
                ErrorKind::InvalidInput,
                "it has no name of its own",
            ))
        })?;
        let mut hidden = std::ffi::OsString::from(".preparing-");
        hidden.push(name);
        let path = parent_of(target).join(hidden);
        let lock = locked(&path).map_err(failed)?;
        // From here on it is ours, and goes away with this value.
        let out = Self {
            target: target.to_path_buf(),
            path,
            lock,
            finished: false,
        };
        out.clear().map_err(failed)?;
        Ok(out)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what an earlier process left.
    fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() != LOCK {
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
        self.finished = true;
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
        if !self.finished {
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
        }
        made => made?,
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.open(path.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        // A file system without locks.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(lock),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => Err(IoError::new(
            ErrorKind::ResourceBusy,
            format!("another preparation is at work in {}", path.display()),
        )),
    }
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
