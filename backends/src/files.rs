//! Files that are whole or absent, and private to their owner.

use crate::error::{Result, at};
pub(crate) use reticent_corpus::disk::parent_of;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Owner-only permissions for a new file.
pub(crate) fn private_options(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Creates a folder that only its owner can enter.
pub(crate) fn private_folder(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    at(path, builder.create(path))
}

/// `NAME.ending` beside a path.
pub(crate) fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// Writes bytes to an open file. Every write and sync of this crate passes here or through
/// [`sync`], so that tests can let any one of them fail as on a full disk.
pub(crate) fn write_all(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    #[cfg(test)]
    if let Err(full) = full_disk::next() {
        let _ = file.write_all(&bytes[..bytes.len() / 2]);
        return Err(full);
    }
    file.write_all(bytes)
}

/// Waits until what was written to a file is on the disk.
pub(crate) fn sync(file: &File) -> std::io::Result<()> {
    #[cfg(test)]
    full_disk::next()?;
    file.sync_data()
}

/// Makes renames and removals within a folder last.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    at(folder, File::open(folder).and_then(|f| f.sync_all()))?;
    Ok(())
}

/// Writes a whole file or none: a temporary sibling, synced, then renamed. Owner-only.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = parent_of(path);
    let mut file = at(folder, tempfile::NamedTempFile::new_in(folder))?;
    at(path, write_all(file.as_file_mut(), bytes))?;
    at(path, sync(file.as_file()))?;
    at(path, file.persist(path).map(|_| ()).map_err(|e| e.error))?;
    sync_folder(folder)
}

/// Overwrites a file where it lies, so far as the file system does that, and removes it.
pub(crate) fn shred(path: &Path) -> Result<()> {
    let overwritten = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        write_all(&mut file, &vec![b' '; length.min(1 << 20)])?;
        sync(&file)?;
        std::fs::remove_file(path)
    };
    at(path, overwritten())
}

/// A folder under construction: whole at its place in the end, or not there at all.
pub(crate) struct Building(tempfile::TempDir);

impl Building {
    /// A hidden folder beside the place where it will stand.
    pub(crate) fn beside(folder: &Path) -> Result<Self> {
        let parent = parent_of(folder);
        at(parent, std::fs::create_dir_all(parent))?;
        let mut builder = tempfile::Builder::new();
        let building = builder.prefix(".reticent-").tempdir_in(parent);
        at(parent, building).map(Self)
    }

    /// Where it is being built.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file into it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_whole(&self.0.path().join(name), bytes)
    }

    /// Moves it to its place, which is free or an empty folder.
    pub(crate) fn finish(self, folder: &Path) -> Result<()> {
        if folder.exists() {
            at(folder, std::fs::remove_dir(folder))?;
        }
        at(folder, std::fs::rename(self.0.path(), folder))?;
        let _ = self.0.keep();
        sync_folder(parent_of(folder))
    }
}

/// Write failures on demand, by thread.
#[cfg(test)]
pub(crate) mod full_disk {
    use std::cell::Cell;
    use std::io::{Error, ErrorKind, Result};

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From now on so many writes and syncs of this thread succeed, and all later ones fail;
    /// `None` lets all succeed.
    pub(crate) fn after(writes: Option<u64>) {
        LEFT.set(writes);
    }

    pub(super) fn next() -> Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some(0) => Err(Error::from(ErrorKind::StorageFull)),
            Some(left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }
}
