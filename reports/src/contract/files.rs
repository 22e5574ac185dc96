//! Files that are whole or absent and readable by their owner only, with errors that name them.

#[cfg(feature = "findings")]
use super::stdout::JsonStream;
use anyhow::{Context, Result};
use reticent_disk::WholeFile;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The longest text that is read into memory, in bytes: 64 MiB. Policies, plans, reports and lists are shorter; corpora, logs
/// and tables are read line by line.
const LONGEST_TEXT: u64 = 64 << 20;

/// Reads a file or pipe of text of at most 64 MiB, so that an endless pipe is an error too. A byte-order mark at its
/// beginning is dropped.
///
/// # Errors
/// Returns an error if the file can't be read, is a device, is longer, or is not UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    reticent_disk::read_text(path, LONGEST_TEXT).map(unmarked)
}

/// Returns a text without a byte-order mark at its beginning.
#[must_use]
pub(crate) fn unmarked(mut text: String) -> String {
    const MARK: char = '\u{feff}';
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    text
}

/// Like [`read_text`], with an error that names the file.
///
/// # Errors
/// Returns an error as [`read_text`] does.
pub fn read_named_text(path: &Path) -> Result<String> {
    read_text(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Like [`read_text`], but with any byte-order mark, and only for regular files: nothing is read from any other kind.
///
/// # Errors
/// Returns an error as [`read_text`] does, and for a folder, a pipe or a device.
#[cfg(feature = "findings")]
pub fn read_regular_text(path: &Path) -> std::io::Result<String> {
    reticent_disk::read_regular_text(path, LONGEST_TEXT)
}

/// A file that appears under its name only when it is finished.
///
/// Until then its bytes lie in a temporary file beside it (mode 0600), which is removed when this value is
/// dropped: after an error, and after an interruption that ends in an error. Opening it at the start of long
/// work shows at once whether the path can be written. A device or a pipe (`/dev/stdout`) is written directly;
/// there is nothing to rename.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File(WholeFile),
    #[cfg(feature = "findings")]
    Stream(JsonStream),
}

/// Returns whether a path stands for stdin or stdout; a file of that name is `./-`.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns whether a path stands for stdout: `-`, or a name that the system gives it.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    const NAMES: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    is_stream(path) || cfg!(unix) && NAMES.iter().any(|name| path == Path::new(name))
}

/// Returns whether a path is a folder that `audit prepare` made.
pub(crate) fn is_prepared(path: &Path) -> bool {
    path.join("prepared.json").is_file()
}

impl AtomicFile {
    /// Opens the temporary file beside `target`, which it replaces in the end.
    ///
    /// # Errors
    /// Returns an error if the folder doesn't exist or can't be written, or if `target` is a folder.
    pub fn create(target: &Path) -> Result<Self> {
        no_stream(target)?;
        Self::of(target, WholeFile::replacing(target))
    }

    /// Like [`AtomicFile::create`], but only for an unused name unless `force` allows an existing file to be
    /// replaced. Never writes through a link or to one of the files in `read`.
    ///
    /// # Errors
    /// Returns an error if the file exists already or is one of those in `read`, and as [`AtomicFile::create`]
    /// does.
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

    /// Like [`AtomicFile::create_new`], but for JSON, which a terminal gets escaped, and `-` means stdout; the command's answer
    /// then goes elsewhere ([`Output::aside_for`](crate::page::Output::aside_for)).
    ///
    /// # Errors
    /// Returns an error as [`AtomicFile::create_new`] does.
    #[cfg(feature = "findings")]
    pub fn create_new_or_stdout(target: &Path, force: bool, read: &[PathBuf]) -> Result<Self> {
        if let Some(stream) = JsonStream::open(target) {
            return Ok(Self {
                target: target.to_path_buf(),
                sink: Sink::Stream(stream),
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

    /// Writes the whole content and makes the file appear under its name.
    ///
    /// # Errors
    /// Returns an error as [`AtomicFile::finish`] does.
    pub fn finish_with(mut self, content: impl AsRef<[u8]>) -> Result<()> {
        self.write_all(content.as_ref())?;
        self.finish()
    }

    /// Makes the file appear under its name.
    ///
    /// # Errors
    /// Returns an error if the disk is full or the folder has vanished.
    pub fn finish(self) -> Result<()> {
        let Self { target, sink } = self;
        match sink {
            Sink::File(file) => file.finish(),
            #[cfg(feature = "findings")]
            Sink::Stream(mut stream) => unless_closed(stream.flush(), ()),
        }
        .with_context(|| unwritten(&target))
    }
}

/// Treats a reader that closed the pipe early as success.
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
            Sink::Stream(stream) => unless_closed(stream.write(bytes), bytes.len()),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.sink {
            Sink::File(file) => file.flush(),
            #[cfg(feature = "findings")]
            Sink::Stream(stream) => unless_closed(stream.flush(), ()),
        }
    }
}

/// Writes a whole file at once, mode 0600: complete under its name, or not at all.
///
/// # Errors
/// Returns an error as [`AtomicFile::create`] and [`AtomicFile::finish`] do.
pub fn write_file(target: &Path, bytes: &[u8]) -> Result<()> {
    no_stream(target)?;
    reticent_disk::write_whole(target, bytes).with_context(|| unwritten(target))
}

/// Refuses stdout for output that is written as a whole file.
///
/// # Errors
/// Returns an error if `target` is `-`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::numbered_lines;

    /// Windows' editors write one before a plan, a policy, a sheet or a list.
    #[test]
    fn a_byte_order_mark_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        for mark in ["", "\u{feff}"] {
            std::fs::write(&path, format!("{mark}a = 1\nb = 2\n")).unwrap();
            assert_eq!(read_named_text(&path).unwrap(), "a = 1\nb = 2\n");
            let lines: Vec<_> = numbered_lines(&path, 100)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let expected = [(1, "a = 1\n".to_owned()), (2, "b = 2\n".to_owned())];
            assert_eq!(lines, expected);
        }
    }
}
