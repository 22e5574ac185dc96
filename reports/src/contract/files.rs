//! Files that are whole or absent, readable by their owner only.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Longest text that is read whole, in bytes: 1 GiB.
const LONGEST_TEXT: u64 = 1 << 30;

/// Reads a file or pipe of text, 1 GiB at most: what never ends is an error too.
///
/// # Errors
/// What cannot be read, is longer, or is no text in UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind};
    let mut bytes = Vec::new();
    File::open(path)?
        .take(LONGEST_TEXT + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_TEXT {
        let words = format!("it has more than {LONGEST_TEXT} bytes, the most that are read");
        return Err(Error::new(ErrorKind::FileTooLarge, words));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// What is not finished yet: removed when a command ends at once.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Notes a temporary file or folder.
pub(super) fn note_unfinished(path: &Path) {
    let mut list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    list.push(path.to_path_buf());
}

/// Removes the temporary files and folders that have no name yet.
#[cfg(feature = "findings")]
pub(super) fn drop_unfinished() {
    let list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in list.iter() {
        // What was finished is not there under its temporary name.
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_dir_all(path);
    }
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
    Beside(BufWriter<NamedTempFile>),
    Direct(BufWriter<File>),
}

impl AtomicFile {
    /// Opens the temporary file beside `target`.
    ///
    /// # Errors
    /// A folder that does not exist or cannot be written, or a `target` that is a folder.
    pub fn create(target: &Path) -> Result<Self> {
        // A symbolic link stays one: its target is what gets replaced.
        let target = target
            .canonicalize()
            .unwrap_or_else(|_| target.to_path_buf());
        if target.is_dir() {
            bail!("{} is a folder; a file is needed", target.display());
        }
        let sink = if target.exists() && !target.is_file() {
            let device = File::options().write(true).open(&target);
            let device = device.with_context(|| format!("cannot write {}", target.display()))?;
            Sink::Direct(BufWriter::new(device))
        } else {
            Sink::Beside(BufWriter::new(temporary_beside(&target)?))
        };
        Ok(Self { target, sink })
    }

    /// Makes the file appear under its name, replacing an older one.
    ///
    /// # Errors
    /// A full disk, or a folder that vanished.
    pub fn finish(self) -> Result<()> {
        let place = || format!("cannot write {}", self.target.display());
        match self.sink {
            Sink::Direct(mut device) => device.flush().with_context(place),
            Sink::Beside(buffer) => {
                let file = buffer
                    .into_inner()
                    .map_err(std::io::IntoInnerError::into_error)
                    .with_context(place)?;
                file.as_file().sync_all().with_context(place)?;
                file.persist(&self.target)
                    .map_err(|e| e.error)
                    .with_context(place)?;
                sync_folder(parent_of(&self.target)).with_context(place)
            }
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.sink {
            Sink::Beside(file) => file.write(bytes),
            Sink::Direct(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.sink {
            Sink::Beside(file) => file.flush(),
            Sink::Direct(file) => file.flush(),
        }
    }
}

/// Writes a whole file at once, mode 0600: complete under its name, or not at all.
///
/// # Errors
/// As [`AtomicFile::create`] and [`AtomicFile::finish`].
pub fn write_file(target: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes)
        .with_context(|| format!("cannot write {}", target.display()))?;
    file.finish()
}

/// The folder a path lies in, `.` for a bare name.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// What was renamed in a folder is so after a crash too; where a file system or a permission refuses, it is left.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    use std::io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => {
            Ok(())
        }
        other => other,
    }
}

fn temporary_beside(target: &Path) -> Result<NamedTempFile> {
    let parent = parent_of(target);
    if !parent.is_dir() {
        bail!(
            "cannot write {}: there is no folder {}",
            target.display(),
            parent.display()
        );
    }
    let made = tempfile::Builder::new()
        .prefix(".partial-")
        .tempfile_in(parent)
        .with_context(|| {
            format!(
                "cannot write {}: folder {} refuses new files",
                target.display(),
                parent.display()
            )
        })?;
    note_unfinished(made.path());
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_dropped_file_leaves_nothing_and_a_finished_one_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data.jsonl");
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(names(folder.path()), Vec::<String>::new());
        write_file(&target, b"whole").unwrap();
        assert_eq!(names(folder.path()), ["data.jsonl"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn an_older_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("report.json");
        write_file(&target, b"old").unwrap();
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("report.json");
        write_file(&target, b"{}").unwrap();
        let mode = target.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_and_a_link_stay_what_they_are() {
        write_file(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!Path::new("/dev/null").is_file());
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_file(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"new");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = AtomicFile::create(Path::new("no/such/folder/x.svg")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("there is no folder no/such/folder")
        );
        let error = AtomicFile::create(&std::env::temp_dir()).unwrap_err();
        assert!(error.to_string().contains("is a folder"));
    }
}
