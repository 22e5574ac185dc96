//! Files that are whole or absent, and private to their owner.

use crate::error::{Result, at};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

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

/// Writes a whole file or none: a temporary sibling, synced, then renamed. Owner-only.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = at(folder, tempfile::NamedTempFile::new_in(folder))?;
    at(path, file.write_all(bytes))?;
    at(path, file.as_file().sync_all())?;
    at(path, file.persist(path).map(|_| ()).map_err(|e| e.error))
}

/// A folder under construction: whole at its place in the end, or not there at all.
pub(crate) struct Building(tempfile::TempDir);

impl Building {
    /// A hidden folder beside the place where it will stand.
    pub(crate) fn beside(folder: &Path) -> Result<Self> {
        let parent = folder
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        at(parent, std::fs::create_dir_all(parent))?;
        let mut builder = tempfile::Builder::new();
        let building = builder.prefix(".reticent-").tempdir_in(parent);
        at(parent, building).map(Self)
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
        at(folder, std::fs::rename(self.0.keep(), folder))
    }
}
