//! Files that are whole or absent, readable by their owner only, with errors that name them.

use anyhow::{Context, Result};
use reticent_disk::WholeFile;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Longest text that is read whole, in bytes: 1 GiB.
const LONGEST_TEXT: u64 = 1 << 30;

/// Reads a file or pipe of text, 1 GiB at most: what never ends is an error too.
///
/// # Errors
/// What cannot be read, is longer, or is no text in UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    reticent_disk::read_text(path, LONGEST_TEXT)
}

/// The same of a regular file alone: nothing is read of what is none.
///
/// # Errors
/// As [`read_text`]; a folder, a pipe, a device.
#[cfg(feature = "findings")]
pub fn read_regular_text(path: &Path) -> std::io::Result<String> {
    reticent_disk::read_regular_text(path, LONGEST_TEXT)
}

/// A file that appears under its name only when it is finished.
///
/// Until then its bytes lie in a temporary file beside it (mode 0600), which goes away when
/// this value does: after an error, and after an interruption that ends in an error. Opening
/// it at the start of long work finds out at once whether the place can be written.
/// A device or a pipe (`/dev/stdout`) is written directly; there is nothing to rename.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File(WholeFile),
    #[cfg(feature = "findings")]
    Stdout,
}

/// Whether a path stands for stdin or stdout; a file of that name is `./-`.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl AtomicFile {
    /// Opens the temporary file beside `target`, which it replaces in the end.
    ///
    /// # Errors
    /// A folder that does not exist or cannot be written, or a `target` that is a folder.
    pub fn create(target: &Path) -> Result<Self> {
        no_stream(target)?;
        Self::of(target, WholeFile::replacing(target))
    }

    /// The same for a name that is free, unless `force` allows to replace a file; never through a link, and never
    /// one of the files that are `read`.
    ///
    /// # Errors
    /// A file that is there already or is read, and as [`AtomicFile::create`].
    #[cfg(feature = "findings")]
    pub fn create_new(target: &Path, force: bool, read: &[PathBuf]) -> Result<Self> {
        no_stream(target)?;
        let opened = WholeFile::apart(target, force, read);
        if let Err(error) = &opened
            && error.kind() == std::io::ErrorKind::AlreadyExists
        {
            anyhow::bail!(
                "{} exists; choose another name, or give --force to replace it",
                target.display()
            );
        }
        Self::of(target, opened)
    }

    /// The same, and stdout for `-`: the command's answer then goes aside
    /// ([`Output::aside_for`](crate::page::Output::aside_for)).
    ///
    /// # Errors
    /// As [`AtomicFile::create_new`].
    #[cfg(feature = "findings")]
    pub fn create_new_or_stdout(target: &Path, force: bool, read: &[PathBuf]) -> Result<Self> {
        if is_stream(target) {
            return Ok(Self {
                target: target.to_path_buf(),
                sink: Sink::Stdout,
            });
        }
        Self::create_new(target, force, read)
    }

    fn of(target: &Path, opened: std::io::Result<WholeFile>) -> Result<Self> {
        Ok(Self {
            target: target.to_path_buf(),
            sink: Sink::File(opened.with_context(|| unwritten(target))?),
        })
    }

    /// Makes the file appear under its name.
    ///
    /// # Errors
    /// A full disk, or a folder that vanished.
    pub fn finish(self) -> Result<()> {
        let Self { target, sink } = self;
        match sink {
            Sink::File(file) => file.finish(),
            #[cfg(feature = "findings")]
            Sink::Stdout => unless_closed(std::io::stdout().flush(), ()),
        }
        .with_context(|| unwritten(&target))
    }
}

/// A reader that stops early is no error.
#[cfg(feature = "findings")]
fn unless_closed<T>(done: std::io::Result<T>, otherwise: T) -> std::io::Result<T> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(otherwise),
        done => done,
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.sink {
            Sink::File(file) => file.write(bytes),
            #[cfg(feature = "findings")]
            Sink::Stdout => unless_closed(std::io::stdout().write(bytes), bytes.len()),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.sink {
            Sink::File(file) => file.flush(),
            #[cfg(feature = "findings")]
            Sink::Stdout => unless_closed(std::io::stdout().flush(), ()),
        }
    }
}

/// Writes a whole file at once, mode 0600: complete under its name, or not at all.
///
/// # Errors
/// As [`AtomicFile::create`] and [`AtomicFile::finish`].
pub fn write_file(target: &Path, bytes: &[u8]) -> Result<()> {
    no_stream(target)?;
    reticent_disk::write_whole(target, bytes).with_context(|| unwritten(target))
}

/// Refuses stdout, for what is written as a whole file.
///
/// # Errors
/// `-`.
pub fn no_stream(target: &Path) -> Result<()> {
    anyhow::ensure!(
        !is_stream(target),
        "needs a file, and `-` stands for stdout; ./- is a file of that name"
    );
    Ok(())
}

fn unwritten(target: &Path) -> String {
    format!("cannot write {}", target.display())
}
