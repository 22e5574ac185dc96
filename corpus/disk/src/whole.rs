//! Files and folders that appear under their names when they are finished.

use crate::failing::step;
use crate::{
    DiskFile, OutputPlace, identity, parent_of, refuse_alias, remove_file, remove_folder, rename,
    rename_to_free, sync_folder,
};
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::{Builder, NamedTempFile, TempDir, TempPath};

/// What a temporary name begins with, before the name of the target.
const PREFIX: &str = ".partial-";
/// Random letters and digits at the end of a temporary name.
const RANDOM: usize = 6;
/// Most bytes of the target's name in a temporary one: file systems allow 255 for all of it.
const NAME: usize = 200;
/// How often something is made again that another process took for a leftover, between its making and its locking.
const ATTEMPTS: usize = 8;
/// Bytes that are written at once.
const BUFFER: usize = 1 << 16;

/// What is not finished yet: removed when a command ends at once.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Has a file or folder removed when the process ends at once ([`drop_unfinished`]).
pub fn note_unfinished(path: &Path) {
    let mut list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    list.push(path.to_path_buf());
}

/// Takes [`note_unfinished`] back, before another process may have something of this name.
pub fn forget_unfinished(path: &Path) {
    let mut list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    list.retain(|noted| noted != path);
}

/// Removes the temporary files and folders that have no name yet, and locks: for a process that ends without dropping
/// them.
pub fn drop_unfinished() {
    let list = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in list.iter() {
        // What was finished is not there under its temporary name.
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_dir_all(path);
    }
}

/// What a temporary name for this target begins with.
fn beginning(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default();
    format!("{PREFIX}{}-", beginning_of_name(name))
}

/// Returns what of a name fits into a longer one, which file systems allow up to a length: its first 200 bytes.
#[must_use]
pub fn beginning_of_name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    name[..name.floor_char_boundary(NAME)].to_owned()
}

/// Makes a file or a folder beside a target under a temporary name, locked as long as the lock is kept, and removes what
/// killed processes left there for the same target.
fn locked<T>(
    target: &Path,
    place: impl Fn(&T) -> &Path,
    make: impl Fn(&mut Builder<'_, '_>, &Path) -> Result<T>,
) -> Result<(T, Option<File>)> {
    let parent = existing_parent(target)?;
    let beginning = beginning(target);
    clear(parent, &beginning);
    let mut attempts = 0;
    loop {
        let mut builder = Builder::new();
        builder.prefix(&beginning).rand_bytes(RANDOM);
        let made = make(&mut builder, parent)?;
        attempts += 1;
        match lock(place(&made)) {
            Err(_) if attempts < ATTEMPTS => {}
            lock => return Ok((made, lock?)),
        }
    }
}

/// Removes what has such a temporary name and is locked by no process. What cannot be removed stays: it is in nobody's way.
fn clear(parent: &Path, beginning: &str) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let end = name.to_str().and_then(|name| name.strip_prefix(beginning));
        let is_ours =
            |end: &str| end.len() == RANDOM && end.bytes().all(|b| b.is_ascii_alphanumeric());
        // Of a link this is the kind of the link.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if !end.is_some_and(is_ours) || !(kind.is_file() || kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        // Removed while it is locked: its maker, if it has only just made it, then finds it gone and makes another.
        if let Ok(Some(_held)) = lock(&path) {
            let _ = match kind.is_dir() {
                true => remove_folder(&path),
                false => remove_file(&path),
            };
        }
    }
}

/// Locks what has a temporary name; nothing where the system has no such locks.
///
/// # Errors
/// [`ErrorKind::ResourceBusy`] where another has the lock, or the name is gone or that of something else by now.
fn lock(path: &Path) -> Result<Option<File>> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let busy = || Error::from(ErrorKind::ResourceBusy);
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(busy()),
        other => other?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy()),
        Err(TryLockError::Error(_)) => return Ok(None),
    }
    let there = std::fs::symlink_metadata(path).map_err(|_| busy())?;
    match identity(&there) == identity(&file.metadata()?) {
        true => Ok(Some(file)),
        false => Err(busy()),
    }
}

/// A file that appears under its name only when it is finished.
///
/// Until then its bytes lie in a temporary file beside it (mode 0600), which goes away when
/// this value does: after an error, and after an interruption that ends in an error. What a
/// killed process left, the next one for the same name removes. Opening
/// it at the start of long work finds out at once whether the place can be written.
/// A device or a pipe (`/dev/stdout`) is written directly; there is nothing to rename.
#[derive(Debug)]
pub struct WholeFile {
    target: PathBuf,
    /// Whether a file that has the name by then is replaced.
    force: bool,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Beside {
        file: BufWriter<DiskFile>,
        path: TempPath,
        _lock: Option<File>,
    },
    Direct(BufWriter<File>),
}

impl WholeFile {
    /// Opens the temporary file beside `target`, which it replaces in the end. A symbolic link stays one: what it
    /// leads to is replaced.
    ///
    /// # Errors
    /// A folder that does not exist or cannot be written, or a `target` that is a folder.
    pub fn replacing(target: &Path) -> Result<Self> {
        let target = target
            .canonicalize()
            .unwrap_or_else(|_| target.to_path_buf());
        let place = OutputPlace::of(&target, true)?;
        Self::at(target, place, true)
    }

    /// The same for a name that is free, or, by `force`, that of a file; never through a link.
    ///
    /// # Errors
    /// As [`WholeFile::apart`].
    pub fn create(target: &Path, force: bool) -> Result<Self> {
        Self::apart(target, force, &[])
    }

    /// The same for a name that is none of the files that are read.
    ///
    /// # Errors
    /// As [`OutputPlace::apart`]; a folder that does not exist or cannot be written.
    pub fn apart(target: &Path, force: bool, read: &[PathBuf]) -> Result<Self> {
        let place = OutputPlace::apart(target, force, read)?;
        Self::at(target.to_path_buf(), place, force)
    }

    fn at(target: PathBuf, place: OutputPlace, force: bool) -> Result<Self> {
        let sink = match place {
            OutputPlace::Stream(device) => Sink::Direct(BufWriter::new(device)),
            OutputPlace::File => {
                let (made, lock) = locked(&target, NamedTempFile::path, |builder, parent| {
                    builder.make_in(parent, DiskFile::create)
                })?;
                note_unfinished(made.path());
                let (file, path) = made.into_parts();
                Sink::Beside {
                    file: BufWriter::with_capacity(BUFFER, file),
                    path,
                    _lock: lock,
                }
            }
        };
        Ok(Self {
            target,
            force,
            sink,
        })
    }

    /// Makes the file appear under its name.
    ///
    /// # Errors
    /// A full disk, a folder that vanished, a name that was taken meanwhile.
    pub fn finish(self) -> Result<()> {
        match self.sink {
            Sink::Direct(mut device) => device.flush(),
            Sink::Beside { file, path, _lock } => {
                let file = file.into_inner().map_err(|error| error.into_error())?;
                file.sync()?;
                if self.force {
                    rename(&path, &self.target)?;
                } else {
                    rename_to_free(&path, &self.target)?;
                }
                // Nothing has the temporary name any more.
                let _ = path.keep();
                Ok(())
            }
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.sink {
            Sink::Beside { file, .. } => file.write(bytes),
            Sink::Direct(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> Result<()> {
        match &mut self.sink {
            Sink::Beside { file, .. } => file.flush(),
            Sink::Direct(file) => file.flush(),
        }
    }
}

/// Writes a whole file at once, in place of what has the name: complete, or not at all.
///
/// # Errors
/// As [`WholeFile::replacing`] and [`WholeFile::finish`].
pub fn write_whole(target: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = WholeFile::replacing(target)?;
    file.write_all(bytes)?;
    file.finish()
}

/// A folder that appears under its name only when everything in it is there.
///
/// It is built in a temporary sibling (mode 0700) and renamed at the end; dropped before that, it leaves nothing. What a
/// killed process left, the next one for the same name removes.
#[derive(Debug)]
pub struct WholeFolder {
    target: PathBuf,
    work: TempDir,
    _lock: Option<File>,
}

impl WholeFolder {
    /// Opens the temporary sibling, so that an unwritable place is found before the work is done.
    ///
    /// # Errors
    /// A `target` that exists and is not an empty folder, or a parent that does not exist or cannot be written.
    pub fn create(target: &Path) -> Result<Self> {
        refuse_occupied(target)?;
        let (work, lock) = locked(target, TempDir::path, |builder, parent| {
            step()?;
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            builder.tempdir_in(parent)
        })?;
        note_unfinished(work.path());
        Ok(Self {
            target: target.to_path_buf(),
            work,
            _lock: lock,
        })
    }

    /// The temporary folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.work.path()
    }

    /// Writes one file into it.
    ///
    /// # Errors
    /// A full disk, mostly.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_whole(&self.work.path().join(name), bytes)
    }

    /// Makes the folder appear under its name.
    ///
    /// # Errors
    /// When something took the name meanwhile; the work is then removed.
    pub fn finish(self) -> Result<PathBuf> {
        sync_folder(self.work.path())?;
        step()?;
        // Onto an empty folder it is renamed; onto anything else that fails.
        std::fs::rename(self.work.path(), &self.target)?;
        // Nothing has the temporary name any more.
        let _ = self.work.keep();
        sync_folder(parent_of(&self.target))?;
        Ok(self.target)
    }
}

fn refuse_occupied(target: &Path) -> Result<()> {
    let refused = |kind, words: &str| Err(Error::new(kind, words));
    refuse_alias(target)?;
    match std::fs::symlink_metadata(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => {
            other?;
        }
    }
    if !target.is_dir() {
        return refused(
            ErrorKind::AlreadyExists,
            "it exists and is no folder; choose another name",
        );
    }
    if std::fs::read_dir(target)?.next().is_some() {
        return refused(
            ErrorKind::DirectoryNotEmpty,
            "the folder exists and is not empty; choose another name or remove it",
        );
    }
    Ok(())
}

fn existing_parent(target: &Path) -> Result<&Path> {
    let parent = parent_of(target);
    if parent.is_dir() {
        Ok(parent)
    } else {
        let words = format!("there is no folder {}", parent.display());
        Err(Error::new(ErrorKind::NotFound, words))
    }
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
        let mut file = WholeFile::replacing(&target).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(names(folder.path()), Vec::<String>::new());
        write_whole(&target, b"whole").unwrap();
        assert_eq!(names(folder.path()), ["data.jsonl"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn what_is_forgotten_is_not_removed_at_the_end() {
        let noted = |path: &Path| UNFINISHED.lock().unwrap().iter().any(|p| p == path);
        let lock = tempfile::tempdir().unwrap().path().join("out.lock");
        note_unfinished(&lock);
        assert!(noted(&lock));
        forget_unfinished(&lock);
        assert!(!noted(&lock));
    }

    #[test]
    fn an_older_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("report.json");
        write_whole(&target, b"old").unwrap();
        let mut file = WholeFile::replacing(&target).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_name_that_is_taken_needs_force_and_may_be_taken_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("data.jsonl");
        let mut file = WholeFile::create(&target, false).unwrap();
        file.write_all(b"ours").unwrap();
        std::fs::write(&target, "theirs").unwrap();
        let error = file.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let error = WholeFile::create(&target, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
        WholeFile::create(&target, true).unwrap().finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
        assert_eq!(names(folder.path()), ["data.jsonl"]);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("report.json");
        write_whole(&target, b"{}").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&target), 0o600);
        let made = WholeFolder::create(&folder.path().join("out")).unwrap();
        assert_eq!(mode(&made.finish().unwrap()), 0o700);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_and_a_link_stay_what_they_are() {
        write_whole(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!Path::new("/dev/null").is_file());
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"new");
        assert!(WholeFile::create(&link, true).is_err());
    }

    #[test]
    fn a_folder_is_complete_and_alone_or_not_there() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out");
        let folder = WholeFolder::create(&target).unwrap();
        folder.write("a.json", b"{}").unwrap();
        drop(folder);
        assert_eq!(names(place.path()), Vec::<String>::new());
        std::fs::create_dir(&target).unwrap();
        let folder = WholeFolder::create(&target).unwrap();
        folder.write("a.json", b"{}").unwrap();
        assert_eq!(names(&target), Vec::<String>::new());
        folder.finish().unwrap();
        assert_eq!((names(place.path()).len(), names(&target).len()), (1, 1));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_never_built_for_a_link() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("empty")).unwrap();
        for (name, leads_to) in [("link", "empty"), ("lost", "nowhere")] {
            std::os::unix::fs::symlink(leads_to, place.path().join(name)).unwrap();
            for target in [name.to_owned(), format!("{name}/")] {
                let error = WholeFolder::create(&place.path().join(target)).unwrap_err();
                assert!(error.to_string().contains("it is a link"), "{error}");
            }
        }
        assert_eq!(names(place.path()), ["empty", "link", "lost"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_being_written_is_not() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at(".partial-data.jsonl-aB3dE6"), "half").unwrap();
        std::fs::create_dir(at(".partial-out-aB3dE6")).unwrap();
        std::fs::write(at(".partial-out-aB3dE6/text"), "half").unwrap();
        std::fs::write(at("real"), "theirs").unwrap();
        for others in [".partial-data.jsonl-short", ".partial-data.jsonl-x-aB3dE6"] {
            std::fs::write(at(others), "theirs").unwrap();
        }
        std::os::unix::fs::symlink(at("real"), at(".partial-out-aaaaaa")).unwrap();

        let file = WholeFile::replacing(&at("data.jsonl")).unwrap();
        let folder = WholeFolder::create(&at("out")).unwrap();
        // A second one for the same names leaves those of the first.
        write_whole(&at("data.jsonl"), b"second").unwrap();
        drop(WholeFolder::create(&at("out")).unwrap());
        assert!(folder.path().is_dir());
        file.finish().unwrap();
        folder.finish().unwrap();
        assert_eq!(std::fs::read(at("data.jsonl")).unwrap(), b"");
        assert_eq!(
            names(place.path()),
            [
                ".partial-data.jsonl-short",
                ".partial-data.jsonl-x-aB3dE6",
                ".partial-out-aaaaaa",
                "data.jsonl",
                "out",
                "real"
            ]
        );
        let long = at(&"é".repeat(127));
        write_whole(&long, b"whole").unwrap();
        assert!(long.exists());
    }

    #[test]
    fn occupied_and_missing_places_are_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for (target, why) in [
            (place.path().to_path_buf(), "is not empty"),
            (file, "is no folder"),
            (place.path().join("no/out"), "there is no folder"),
        ] {
            let error = WholeFolder::create(&target).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let error = WholeFile::replacing(Path::new("no/such/x.svg")).unwrap_err();
        assert!(error.to_string().contains("there is no folder no/such"));
        let error = WholeFile::replacing(&std::env::temp_dir()).unwrap_err();
        assert!(error.to_string().contains("is a folder"), "{error}");
    }

    #[cfg(debug_assertions)]
    #[test]
    fn whichever_step_fails_nothing_half_stays() {
        let place = tempfile::tempdir().unwrap();
        let (file, folder) = (place.path().join("file"), place.path().join("folder"));
        let write = || -> Result<()> {
            write_whole(&file, b"whole")?;
            let made = WholeFolder::create(&folder)?;
            made.write("a", b"1")?;
            made.write("b", b"2")?;
            made.finish().map(drop)
        };
        let mut steps = 0;
        while {
            crate::failing::after(Some(steps));
            let failed = write().is_err();
            crate::failing::after(None);
            failed
        } {
            steps += 1;
            if file.exists() {
                assert_eq!(std::fs::read(&file).unwrap(), b"whole");
                std::fs::remove_file(&file).unwrap();
            }
            if folder.exists() {
                assert_eq!(names(&folder), ["a", "b"]);
                std::fs::remove_dir_all(&folder).unwrap();
            }
            assert_eq!(names(place.path()), Vec::<String>::new(), "step {steps}");
        }
        assert!(steps > 15, "{steps}");
    }
}
