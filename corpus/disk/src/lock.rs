//! Lock files, with which only one process at a time works on a folder.

use std::fs::{File, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a lock file, readable only by its owner, and takes its lock. The lock is released when the
/// file is closed or the process ends. On a file system without locks, the file is opened without
/// one.
///
/// # Errors
/// Returns [`ErrorKind::ResourceBusy`] with the message `busy`, without waiting, if another process
/// holds the lock, and an error if the file can't be opened.
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
