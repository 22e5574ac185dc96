//! Locks by which one process at a time works on a folder.

use std::fs::{File, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a lock file, owner-only, and takes its lock, which is free again when the file is closed
/// or its process gone. Where the file system has no locks it is opened without one.
///
/// # Errors
/// [`ErrorKind::ResourceBusy`] with the words `busy`, at once, where another process holds it; a
/// file that can't be opened.
pub fn lock_file(path: &Path, busy: &str) -> Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.open(path)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(lock),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => Err(Error::new(ErrorKind::ResourceBusy, busy)),
    }
}
