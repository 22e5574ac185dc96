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
