//! Disk operations, in one crate so that tests can inject a failure into each write. Also reads regular files up to a
//! size limit and checks that the quotes of a table are closed.
//!
//! [`WholeFile`] and [`WholeFolder`] appear under their names only when they are complete; [`DiskFile`] is a file that
//! grows and can be resumed, [`ScratchFile`] one without a name. Only the owner can read the files and folders they create.
//!
//! In builds with debug assertions, the environment variable `RETICENT_FAILING_STEP=N` makes the N-th step of the
//! process and all later ones fail as on a full disk; `failing::after` does the same for a thread.
//!
//! ```
//! let place = tempfile::tempdir()?;
//! let path = place.path().join("answer.json");
//! reticent_disk::write_whole(&path, b"{}")?;
//! assert_eq!(reticent_disk::read_regular(&path, 1024)?, b"{}");
//! assert!(reticent_disk::read_regular(&path, 1).is_err(), "longer than was allowed");
//! # Ok::<(), std::io::Error>(())
//! ```

mod access;
#[cfg(debug_assertions)]
pub mod failing;
#[cfg(not(debug_assertions))]
mod failing;
mod key;
mod lock;
mod quotes;
mod scratch;
mod spelling;
mod whole;

pub use access::{Shared, shared};
pub use key::{
    OWNER_KEY, from_hexadecimal, hexadecimal, owner_key_place, read_by_others, read_key,
};
pub use lock::lock_file;
pub use quotes::{ClosedQuotes, LONGEST_ROW, MOST_FIELDS, header_advice, utf8_advice};
pub use scratch::ScratchFile;
pub use spelling::{Typed, cluster, fold, folded_word, typed};
pub use whole::{
    WholeFile, WholeFolder, beginning_of_name, drop_unfinished, forget_unfinished, note_unfinished,
    write_whole,
};

use failing::step;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that is being written and that only its owner can read.
#[derive(Debug)]
pub struct DiskFile(File);

impl DiskFile {
    /// Creates a new file with mode 0600. Never follows a link or overwrites a file.
    ///
    /// # Errors
    /// Returns an error if the name is taken or the place cannot be written to.
    pub fn create(path: &Path) -> Result<Self> {
        step()?;
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).map(Self)
    }

    /// Reopens one of our files. [`DiskFile::cut`] removes what follows a given length.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or cannot be written.
    pub fn again(path: &Path) -> Result<Self> {
        File::options().read(true).write(true).open(path).map(Self)
    }

    /// Truncates the file to a length and continues from there.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn cut(&mut self, length: u64) -> Result<()> {
        step()?;
        self.0.set_len(length)?;
        self.0.seek(SeekFrom::Start(length)).map(drop)
    }

    /// Seeks to the beginning of the file.
    ///
    /// # Errors
    /// Returns an error if the disk is gone.
    pub fn rewind(&mut self) -> Result<()> {
        self.0.rewind()
    }

    /// Syncs the content that was written to disk, but not necessarily the file's metadata.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn sync_content(&self) -> Result<()> {
        step()?;
        self.0.sync_data()
    }

    /// Syncs the content that was written and the file's metadata to disk.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn sync(&self) -> Result<()> {
        step()?;
        self.0.sync_all()
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Err(full) = step() {
            // A full disk still accepts what fits.
            let _ = self.0.write(&bytes[..bytes.len() / 2]);
            return Err(full);
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

impl Read for &DiskFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        (&self.0).read(buffer)
    }
}

/// Reads a regular file of at most `most` bytes. Anything else, and a longer file, is rejected before it is read.
///
/// # Errors
/// A file that cannot be read; [`ErrorKind::IsADirectory`] for a folder, [`ErrorKind::InvalidInput`] for what else is
/// no file, [`ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>> {
    read_limited(open_regular(path)?, most)
}

/// Opens a regular file. Anything else is rejected before it is opened, since opening a pipe could block forever.
///
/// # Errors
/// A file that cannot be read; [`ErrorKind::IsADirectory`] for a folder, [`ErrorKind::InvalidInput`] for what else is
/// no file.
pub fn open_regular(path: &Path) -> Result<File> {
    let refused = |kind, words: String| Err(Error::new(kind, words));
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return refused(
            ErrorKind::IsADirectory,
            "it is a folder, not a regular file".to_owned(),
        );
    }
    if !about.is_file() {
        let words = "it is a pipe or a device, not a regular file";
        return refused(ErrorKind::InvalidInput, words.to_owned());
    }
    File::open(path)
}

/// Opens a file or a pipe. A device is rejected before it is opened: many have no end.
///
/// # Errors
/// A file that cannot be read; [`ErrorKind::InvalidInput`] for a device.
pub fn open_file_or_pipe(path: &Path) -> Result<File> {
    if is_device(&std::fs::metadata(path)?) {
        let words = "it is a device, not a file or a pipe";
        return Err(Error::new(ErrorKind::InvalidInput, words));
    }
    File::open(path)
}

fn is_device(about: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        about.file_type().is_char_device() || about.file_type().is_block_device()
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        false
    }
}

/// Reads at most `most` bytes of text from a file or a pipe.
///
/// # Errors
/// As for [`open_file_or_pipe`]; also if the input is longer, or not valid UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    text(read_limited(open_file_or_pipe(path)?, most)?)
}

/// Reads a regular text file of at most `most` bytes.
///
/// # Errors
/// As for [`read_regular`] and [`read_text`].
pub fn read_regular_text(path: &Path, most: u64) -> Result<String> {
    text(read_regular(path, most)?)
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let (before, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let lines = before.split(|byte| *byte == b'\n');
        let (line, last) = lines.enumerate().last().unwrap_or_default();
        let byte = rest.first().copied().unwrap_or_default();
        let words = format!(
            "line {}: invalid UTF-8: byte 0x{byte:02x} at position {} of the line; {}",
            line + 1,
            last.len() + 1,
            utf8_advice(byte)
        );
        Error::new(ErrorKind::InvalidData, words)
    })
}

fn read_limited(file: File, most: u64) -> Result<Vec<u8>> {
    let too_long = |length: String| {
        let words = format!("it has {length} bytes; at most {most} are read");
        Err(Error::new(ErrorKind::FileTooLarge, words))
    };
    let length = file.metadata()?.len();
    if length > most {
        return too_long(length.to_string());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return too_long(format!("more than {most}"));
    }
    Ok(bytes)
}

/// Creates a folder that only its owner can enter, and its parent folders.
///
/// # Errors
/// Returns an error if the place cannot be written to.
pub fn private_folder(path: &Path) -> Result<()> {
    step()?;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes a file, if it exists.
///
/// # Errors
/// Returns an error if the place cannot be written to.
pub fn remove_file(path: &Path) -> Result<()> {
    step()?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes a folder and its content.
///
/// # Errors
/// Returns an error if the place cannot be written to.
pub fn remove_folder(path: &Path) -> Result<()> {
    step()?;
    std::fs::remove_dir_all(path)
}

/// Overwrites the first 1 MiB of a file where it lies, so far as the file system does that, and removes the file.
///
/// # Errors
/// Returns an error if the file does not exist or cannot be written.
pub fn shred(path: &Path) -> Result<()> {
    let mut file = File::options().write(true).open(path).map(DiskFile)?;
    let length = usize::try_from(file.0.metadata()?.len()).unwrap_or(usize::MAX);
    file.write_all(&vec![b' '; length.min(1 << 20)])?;
    file.sync()?;
    remove_file(path)
}

/// Returns the path `NAME.ending` next to a path.
#[must_use]
pub fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// Renames a finished file or folder, replaces whatever had the name before, and syncs the parent folder.
///
/// # Errors
/// Returns an error if the place cannot be written to.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    step()?;
    std::fs::rename(from, to)?;
    sync_folder(parent_of(to))
}

/// Refuses a path that a folder can't be renamed onto, not even where it leads to an empty one: a link, and a path whose
/// last component is `.` or `..`.
///
/// # Errors
/// [`ErrorKind::InvalidInput`], with words.
pub fn refuse_alias(path: &Path) -> Result<()> {
    if !ends_in_a_name(path) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it must end in a name, not in . or ..; name the folder itself",
        ));
    }
    // Behind a slash at the end the link would be followed.
    let path: PathBuf = path.components().collect();
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() => Err(Error::new(
            ErrorKind::InvalidInput,
            "it is a link; name the folder it leads to",
        )),
        _ => Ok(()),
    }
}

/// Whether the last component is a name as it is written; [`Path::file_name`] skips a `.` at the end.
fn ends_in_a_name(path: &Path) -> bool {
    let mut written = path.as_os_str().as_encoded_bytes();
    while let [rest @ .., last] = written
        && std::path::is_separator(char::from(*last))
    {
        written = rest;
    }
    let name = path.file_name();
    name.is_some_and(|name| written.ends_with(name.as_encoded_bytes()))
}

/// Renames a finished file, but never replaces an existing one.
///
/// # Errors
/// Returns [`ErrorKind::AlreadyExists`] if the name is taken, and an error if the place cannot be written to.
pub fn rename_to_free(from: &Path, to: &Path) -> Result<()> {
    step()?;
    match std::fs::hard_link(from, to) {
        Ok(()) => {
            std::fs::remove_file(from)?;
            sync_folder(parent_of(to))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // The file system has no hard links.
        Err(_) if std::fs::symlink_metadata(to).is_ok() => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => {
            std::fs::rename(from, to)?;
            sync_folder(parent_of(to))
        }
    }
}

/// Syncs a folder, so that renames in it survive a crash. Does nothing on file systems that do not support this.
///
/// # Errors
/// Returns an error if the disk is full or gone.
pub fn sync_folder(folder: &Path) -> Result<()> {
    step()?;
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    #[cfg(test)]
    failing::note_synced(folder);
    match synced {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Returns the folder that a path lies in, `.` for a bare name.
#[must_use]
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The message for an output that is one of the input files.
pub const IS_READ: &str = "it is one of the files that are read; choose another output";

/// What a path stands for when it is used as an output.
#[derive(Debug)]
pub enum OutputPlace {
    /// A name that is free, or a file that may be replaced.
    File,
    /// A pipe or a device: bytes are written to it directly.
    Stream(File),
}

impl OutputPlace {
    /// Does the same as [`OutputPlace::of`], but refuses a path that is one of the input files, even with `force`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`], with a message, if the path is one of the input files under any name;
    /// otherwise as [`OutputPlace::of`].
    pub fn apart(path: &Path, force: bool, read: &[PathBuf]) -> Result<Self> {
        if std::fs::metadata(path).is_ok_and(|about| is_one_of(&about, read)) {
            return Err(Error::new(ErrorKind::InvalidInput, IS_READ));
        }
        Self::of(path, force)
    }

    /// Checks what a path stands for. `force` allows an existing file to be replaced.
    ///
    /// # Errors
    /// Returns [`ErrorKind::AlreadyExists`] for a file without `force`; [`ErrorKind::InvalidInput`], with a message,
    /// for a link to a file, a folder, a disk, or a path without a last component.
    pub fn of(path: &Path, force: bool) -> Result<Self> {
        let refused = |words: &str| Err(Error::new(ErrorKind::InvalidInput, words));
        if path.file_name().is_none() {
            return refused("it has no name of its own");
        }
        let about = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::File),
            other => other?,
        };
        let is_link = about.is_symlink();
        // A dangling link is treated as a link.
        let about = if is_link {
            std::fs::metadata(path).unwrap_or(about)
        } else {
            about
        };
        if streams(&about) {
            return File::options().write(true).open(path).map(Self::Stream);
        }
        if is_link {
            return refused("it is a link; name the file it leads to");
        }
        if about.is_dir() {
            return refused("it is a folder; a file is needed");
        }
        if !about.is_file() {
            return refused("it is neither a file nor a pipe");
        }
        if force {
            Ok(Self::File)
        } else {
            Err(ErrorKind::AlreadyExists.into())
        }
    }
}

/// Returns whether the file is a stream: a pipe or a character device, but not a disk.
fn streams(about: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = about.file_type();
        kind.is_fifo() || kind.is_char_device()
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        false
    }
}

/// Returns the identity of a file, whatever its name; `None` for character devices, which two users may share.
#[must_use]
pub fn identity(about: &std::fs::Metadata) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        (!about.file_type().is_char_device()).then(|| (about.dev(), about.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        None
    }
}

/// Returns whether a file is one of the paths, where `-` is stdin: writing to it would overwrite an input.
#[must_use]
pub fn is_one_of(name: &std::fs::Metadata, paths: &[PathBuf]) -> bool {
    let Some(wanted) = identity(name) else {
        return false;
    };
    let about = |path: &PathBuf| match path.as_os_str() == "-" {
        true => stdin(),
        false => std::fs::metadata(path).ok(),
    };
    let of = |path: &PathBuf| about(path).as_ref().and_then(identity);
    paths.iter().filter_map(of).any(|one| one == wanted)
}

/// Returns the metadata of stdin, if it is a regular file.
fn stdin() -> Option<std::fs::Metadata> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
        let about = File::from(stdin).metadata().ok()?;
        about.is_file().then_some(about)
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_overwritten_in_place() {
        let home = tempfile::tempdir().unwrap();
        let (key, link) = (home.path().join("key.json"), home.path().join("link"));
        std::fs::write(&key, "a secret of 32 bytes").unwrap();
        // A second name of the same file keeps what became of its bytes.
        std::fs::hard_link(&key, &link).unwrap();
        shred(&key).unwrap();
        assert!(!key.exists());
        assert_eq!(std::fs::read_to_string(&link).unwrap(), " ".repeat(20));
    }

    /// A crash after any of these leaves the name, or the answer that it may be lost.
    #[cfg(debug_assertions)]
    #[test]
    fn a_new_name_is_reported_once_its_folder_is_synced() {
        type Named = fn(&Path) -> Result<()>;
        let operations: [(&str, Named); 5] = [
            ("replaced", |place| {
                write_whole(&place.join("replaced"), b"whole")
            }),
            ("created", |place| {
                WholeFile::create(&place.join("created"), false)?.finish()
            }),
            ("folder", |place| {
                WholeFolder::create(&place.join("folder"))?
                    .finish()
                    .map(drop)
            }),
            ("renamed", |place| {
                std::fs::write(place.join("old"), "whole")?;
                rename(&place.join("old"), &place.join("renamed"))
            }),
            ("free", |place| {
                std::fs::write(place.join("old"), "whole")?;
                rename_to_free(&place.join("old"), &place.join("free"))
            }),
        ];
        for (name, named) in operations {
            let place = tempfile::tempdir().unwrap();
            failing::synced();
            named(place.path()).unwrap();
            let synced = failing::synced();
            assert_eq!(synced.last().unwrap(), place.path(), "{name}");
            // Whichever step fails, the last one too, which comes after the name: an error.
            let mut steps = 0;
            loop {
                let place = tempfile::tempdir().unwrap();
                failing::after(Some(steps));
                let done = named(place.path());
                failing::after(None);
                let there = place.path().join(name).exists();
                failing::after(Some(steps + 1));
                let last = named(tempfile::tempdir().unwrap().path()).is_ok();
                failing::after(None);
                assert!(done.is_err(), "{name}: step {steps}");
                if last {
                    assert!(there, "{name}: step {steps}");
                    break;
                }
                steps += 1;
            }
        }
    }

    #[test]
    fn a_folder_is_named_by_its_own_name() {
        for (path, named) in [
            ("o", true),
            ("o/", true),
            ("a/../o//", true),
            ("a./.o.", true),
            (".", false),
            ("./", false),
            ("o/.", false),
            ("o/./", false),
            ("o..../.", false),
            ("o/..", false),
            ("/", false),
            ("", false),
        ] {
            let refused = refuse_alias(Path::new(path)).map_err(|error| error.kind());
            let expected = match named {
                true => Ok(()),
                false => Err(ErrorKind::InvalidInput),
            };
            assert_eq!(refused, expected, "{path:?}");
        }
    }

    #[test]
    fn what_is_no_regular_file_or_too_long_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_regular(&path, 5).unwrap(), b"12345");
        let kind = |path: &Path, most| read_regular(path, most).unwrap_err().kind();
        assert_eq!(kind(&path, 4), ErrorKind::FileTooLarge);
        assert_eq!(kind(home.path(), 4), ErrorKind::IsADirectory);
        #[cfg(unix)]
        assert_eq!(kind(Path::new("/dev/zero"), 4), ErrorKind::InvalidInput);
        #[cfg(unix)]
        {
            let kind = |path: &Path| read_text(path, 4).unwrap_err().kind();
            assert_eq!(kind(&path), ErrorKind::FileTooLarge);
            assert_eq!(kind(Path::new("/dev/zero")), ErrorKind::InvalidInput);
            let (read, mut write) = std::io::pipe().unwrap();
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&read);
            write.write_all(b"1234").unwrap();
            drop(write);
            let pipe = format!("/dev/fd/{descriptor}");
            assert_eq!(read_text(Path::new(&pipe), 4).unwrap(), "1234");
        }
    }

    #[test]
    fn a_text_in_another_encoding_is_refused_with_advice() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        for (bytes, place, advice) in [
            (
                &b"one\ntwo\nJ\xe9r"[..],
                "line 3: invalid UTF-8: byte 0xe9 at position 2 of",
                "LATIN1",
            ),
            (
                b"\xff\xfea\0",
                "line 1: invalid UTF-8: byte 0xff at position 1 of",
                "UTF-16",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let said = read_text(&path, 100).unwrap_err().to_string();
            assert!(said.starts_with(place) && said.contains(advice), "{said}");
        }
    }
}
