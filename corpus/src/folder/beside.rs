//! The hidden folder in which an output is written, beside its final path.

use super::FACTS;
use super::stopped::{self, Stopped};
use crate::error::{Error, Result};
use crate::prepare::Key;
use reticent_disk::{self as disk, OutputPlace, Shared, lock_file, parent_of};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

/// The lock file: while it is locked, a process is writing the output.
const LOCK: &str = "lock";

/// The kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The whole folder.
    Folder,
    /// The file [`OUTPUT`] in the folder.
    File,
}

/// The prefix of the name that a folder has while another one takes its place.
const REPLACED: &str = ".replaced-";

/// The name of the output file within the hidden folder.
pub(super) const OUTPUT: &str = "output";

/// What an earlier process left for an output path.
pub(crate) enum Left<D> {
    Nothing,
    Damaged,
    Stopped(Box<Stopped<D>>),
}

/// The hidden folder of an output: `.preparing-NAME` for a folder, `.writing-NAME` for a file; mode 0700. If it is
/// dropped before it is finished, it is removed, unless it is kept for resuming. What a killed process left in it is
/// resumed or removed by the next process with the same output.
#[derive(Debug)]
pub(super) struct Beside {
    target: PathBuf,
    shape: Shape,
    /// Whether an existing file of the name is replaced.
    force: bool,
    path: PathBuf,
    /// Held as long as this value lives.
    lock: File,
    /// Whether the folder is kept when this value is dropped.
    stays: bool,
}

/// The longest name that file systems allow, in bytes.
const LONGEST_NAME: usize = 255;

/// Returns the path of the hidden folder of an output.
pub(super) fn hidden(target: &Path, shape: Shape) -> Result<PathBuf> {
    let prefix = match shape {
        Shape::Folder => ".preparing-",
        Shape::File => ".writing-",
    };
    prefixed(target, prefix).map_err(Error::writing(target))
}

/// Returns the path beside an output whose name begins with a prefix. Of a name that would become too long only the beginning
/// is in it, with a digest of all of it.
fn prefixed(target: &Path, prefix: &str) -> std::io::Result<PathBuf> {
    let name = target
        .file_name()
        .ok_or_else(|| IoError::new(ErrorKind::InvalidInput, "it has no name of its own"))?;
    let mut hidden = OsString::from(prefix);
    match hidden.len() + name.len() > LONGEST_NAME {
        true => {
            let digest = Sha256::digest(name.as_encoded_bytes());
            hidden.push(disk::beginning_of_name(name));
            hidden.push(format!("-{}", disk::hexadecimal(&digest[..8])));
        }
        false => hidden.push(name),
    }
    Ok(parent_of(target).join(hidden))
}

impl Beside {
    /// Opens the folder, with whatever an earlier process left in it.
    pub(super) fn begin(target: &Path, shape: Shape, force: bool) -> Result<Self> {
        check_target(target, shape, force)?;
        let path = hidden(target, shape)?;
        let lock = locked(&path).map_err(|error| match error.kind() {
            // A link, a file or another user's folder has the hidden name.
            ErrorKind::AlreadyExists => Error::writing(&path)(error),
            _ => Error::writing(target)(error),
        })?;
        // From here on the folder is ours, and is removed when this value is dropped; what can be resumed is not, before it
        // has been read.
        Ok(Self {
            target: target.to_path_buf(),
            shape,
            force,
            stays: stopped::lies_in(&path),
            path,
            lock,
        })
    }

    /// Reads what an earlier process left. `owner`: the key under which it must have been written.
    pub(super) fn left<D: DeserializeOwned>(&self, owner: Option<&Key>) -> Left<D> {
        if !stopped::lies_in(&self.path) {
            return Left::Nothing;
        }
        match Stopped::read(&self.path, owner) {
            Some(stopped) => Left::Stopped(Box::new(stopped)),
            None => Left::Damaged,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder if it contains a stopped preparation.
    pub(super) fn stay_if_stopped(&mut self) {
        self.stays = stopped::lies_in(&self.path);
    }

    /// Removes what an earlier process left, except these files. From here on nothing is kept for resuming.
    pub(super) fn clear(&mut self, but: &[&str]) -> Result<()> {
        self.stays = false;
        cleared(&self.path, but).map_err(Error::writing(&self.target))
    }

    /// Removes a file, if it exists.
    pub(super) fn forget(&self, name: &str) -> Result<()> {
        disk::remove_file(&self.path.join(name)).map_err(Error::writing(&self.target))
    }

    /// Succeeds if the existing target folder contains the same files, byte for byte; returns an error otherwise.
    pub(super) fn compare(mut self) -> Result<()> {
        self.stays = false;
        let same = same_files(&self.path, &self.target);
        if same.map_err(Error::reading(&self.target))? {
            // What is not ours stays, and is in nobody's way here.
            let _ = prefixed(&self.target, REPLACED).and_then(|old| remove_replaced(&old));
            return Ok(());
        }
        Err(Error::Occupied {
            path: self.target.clone(),
        })
    }

    /// Renames the finished output to its final name. What it replaces is kept until this has succeeded.
    pub(super) fn finish(mut self) -> Result<()> {
        let named = match self.shape {
            Shape::Folder => self.replace(),
            Shape::File => self.name(),
        };
        named.map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists if self.shape == Shape::File => Error::Exists {
                path: self.target.clone(),
            },
            _ => Error::Write {
                path: self.target.clone(),
                source,
            },
        })?;
        // For a file, the rest of the folder is removed when this value is dropped.
        self.stays = self.shape == Shape::Folder;
        Ok(())
    }

    fn name(&self) -> std::io::Result<()> {
        let from = self.path.join(OUTPUT);
        if self.force {
            disk::rename(&from, &self.target)
        } else {
            disk::rename_to_free(&from, &self.target)
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "takes back what failed, even where every further step fails"
    )]
    fn replace(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.path.join(LOCK))?;
        disk::sync_folder(&self.path)?;
        let old = prefixed(&self.target, REPLACED)?;
        // If not, what a killed process left there is the only copy until the target exists.
        let replaces = self.target.exists();
        let rename = || {
            if replaces {
                remove_replaced(&old)?;
                disk::rename(&self.target, &old)?;
            }
            disk::rename(&self.path, &self.target)
        };
        let renamed = rename();
        // A rename may have succeeded if only syncing it failed.
        if self.target.exists() {
            // The output is complete whether or not this succeeds; the next process with the same target tries again.
            let _ = remove_replaced(&old);
        } else if replaces {
            std::fs::rename(&old, &self.target)?;
        }
        renamed
    }
}

impl Drop for Beside {
    #[expect(
        clippy::disallowed_methods,
        reason = "cleans up after a failure, which no further one may stop"
    )]
    fn drop(&mut self) {
        if !self.stays {
            // Remove the lock file last: a process that finds none may begin.
            let _ = cleared(&self.path, &[]);
            let _ = std::fs::remove_file(self.path.join(LOCK));
            let _ = std::fs::remove_dir(&self.path);
        }
        let _ = self.lock.unlock();
    }
}

/// Removes the content of a folder, except its lock file and these files.
#[expect(
    clippy::disallowed_methods,
    reason = "cleans up after a failure, which no further one may stop"
)]
pub(crate) fn cleared(folder: &Path, but: &[&str]) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
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

/// Removes a folder that was replaced: one that was prepared, or an empty one.
///
/// # Errors
/// Returns [`ErrorKind::AlreadyExists`] if something else has its name.
#[expect(
    clippy::disallowed_methods,
    reason = "cleans up after a failure, which no further one may stop"
)]
fn remove_replaced(path: &Path) -> std::io::Result<()> {
    let is_folder = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        about => about?.is_dir(),
    };
    if !is_folder || !(path.join(FACTS).is_file() || std::fs::read_dir(path)?.next().is_none()) {
        let problem = format!("{} exists and is no prepared folder", path.display());
        return Err(IoError::new(ErrorKind::AlreadyExists, problem));
    }
    // Remove the facts last: they identify it if this is interrupted.
    cleared(path, &[FACTS])?;
    std::fs::remove_dir_all(path)
}

/// Returns whether two folders contain files of the same names and bytes, apart from lock files.
fn same_files(one: &Path, other: &Path) -> std::io::Result<bool> {
    let names = |folder: &Path| -> std::io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
        let mut names = entries.collect::<std::io::Result<Vec<_>>>()?;
        names.retain(|name| name != LOCK);
        names.sort_unstable();
        Ok(names)
    };
    let all = names(one)?;
    if names(other)? != all {
        return Ok(false);
    }
    for name in all {
        let open = |folder: &Path| disk::open_regular(&folder.join(&name)).map(BufReader::new);
        if !same_bytes(&mut open(one)?, &mut open(other)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_bytes(one: &mut impl BufRead, other: &mut impl BufRead) -> std::io::Result<bool> {
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let length = left.len().min(right.len());
        if left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(left.len() == right.len());
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Creates a folder that only its owner may read, or takes over the folder of a process that has ended, and holds its
/// lock.
pub(crate) fn locked(path: &Path) -> std::io::Result<File> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    match folder.create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let about = std::fs::symlink_metadata(path)?;
            // Its content may be resumed, so it must not belong to another user.
            if !about.is_dir() || disk::shared(path, parent_of(path))? == Some(Shared::Owner) {
                return Err(error);
            }
            #[cfg(unix)]
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        }
        made => made?,
    }
    let busy = format!("another process is at work in {}", path.display());
    let lock = lock_file(&path.join(LOCK), &busy)?;
    // Between opening and locking, the previous holder may have finished and removed the lock file.
    match std::fs::symlink_metadata(path.join(LOCK)) {
        Ok(named) if disk::identity(&named) == disk::identity(&lock.metadata()?) => Ok(lock),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Err(IoError::new(ErrorKind::ResourceBusy, busy)),
    }
}

/// Releases the lock of a folder that is kept.
#[expect(
    clippy::disallowed_methods,
    reason = "cleans up after a failure, which no further one may stop"
)]
pub(crate) fn unlock(folder: &Path) {
    // A lock file that nobody holds does not lock anything.
    let _ = std::fs::remove_file(folder.join(LOCK));
}

/// Checks whether the target may be written.
fn check_target(target: &Path, shape: Shape, force: bool) -> Result<()> {
    match shape {
        Shape::Folder => check_folder(target, force),
        Shape::File => match OutputPlace::of(target, force) {
            Ok(OutputPlace::File) => Ok(()),
            Ok(OutputPlace::Stream(_)) => Err(Error::Output {
                path: target.to_path_buf(),
                problem: "it is no file".to_owned(),
            }),
            Err(error) => Err(Error::of_place(target, error)),
        },
    }
}

fn check_folder(folder: &Path, force: bool) -> Result<()> {
    let failed = Error::writing(folder);
    disk::refuse_alias(folder).map_err(|error| Error::of_place(folder, error))?;
    match std::fs::symlink_metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(meta) if !meta.is_dir() => Err(Error::Output {
            path: folder.to_path_buf(),
            problem: "it exists and is no folder; choose another name".to_owned(),
        }),
        Ok(_) => {
            let mut entries = std::fs::read_dir(folder).map_err(failed)?;
            let ours = force && folder.join(FACTS).is_file();
            if entries.next().is_none() || ours {
                Ok(())
            } else {
                Err(Error::Occupied {
                    path: folder.to_path_buf(),
                })
            }
        }
    }
}
