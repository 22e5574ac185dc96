//! The state that a stopped preparation leaves in the hidden folder: how far it had come, and the
//! length of its files at that point.
//!
//! The state is written to a temporary file and renamed, so it is whole or absent. Its last line is
//! the checksum of the other lines. A file of records may be longer than the state says; the excess
//! is cut off. Checksums of the files show that the rest has not changed. They guard against
//! accidents only; the folder is accessible only to its owner.

use crate::error::{Error, Result};
use crate::prepare::Identity;
use reticent_disk::{self as disk, DiskFile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash64;

/// The name of the state file.
pub(super) const PROGRESS: &str = "progress.json";
/// The file with the seed of the canaries, if none was given.
pub(super) const SEED: &str = "canary-seed";
/// The name of the state file while it is being written.
const NEW: &str = "progress.new";

/// The length of a file of records at a checkpoint, and the checksum of that part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    name: String,
    length: u64,
    checksum: u64,
}

/// The state of a stopped preparation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stopped<D> {
    pub(crate) identity: Identity,
    pub(super) files: Vec<Mark>,
    pub(crate) done: D,
}

impl<D: Serialize> Stopped<D> {
    /// Writes how far a preparation has come.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NEW);
        let write = || -> std::io::Result<()> {
            let mut out = BufWriter::with_capacity(1 << 16, Checked::new(DiskFile::create(&path)?));
            serde_json::to_writer(&mut out, self)?;
            let mut file = out.into_inner().map_err(|e| e.into_error())?;
            file.write_all(last_line(file.checksum()).as_bytes())?;
            file.inner.sync()?;
            disk::rename(&path, &folder.join(PROGRESS))
        };
        write().map_err(Error::writing(&path))
    }
}

impl<D: DeserializeOwned> Stopped<D> {
    /// Reads the state; returns `None` if the file is incomplete or damaged.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let bytes = std::fs::read(folder.join(PROGRESS)).ok()?;
        let end = bytes.len().checked_sub(last_line(0).len())?;
        let (page, last) = bytes.split_at(end);
        if last != last_line(XxHash64::oneshot(0, page)).as_bytes() {
            return None;
        }
        serde_json::from_slice(page).ok()
    }
}

/// Returns the seed stored in a folder; if there is none, stores `drawn` and returns it.
pub(super) fn seed(folder: &Path, drawn: u64) -> Result<u64> {
    let path = folder.join(SEED);
    let kept = std::fs::read_to_string(&path).ok();
    if let Some(kept) = kept.and_then(|text| text.trim().parse().ok()) {
        return Ok(kept);
    }
    let write = || -> std::io::Result<()> {
        disk::remove_file(&path)?;
        let mut file = DiskFile::create(&path)?;
        file.write_all(format!("{drawn}\n").as_bytes())?;
        file.sync()
    };
    write().map_err(Error::writing(&path))?;
    Ok(drawn)
}

/// Returns whether a folder contains a stopped preparation, whole or not.
pub(super) fn lies_in(folder: &Path) -> bool {
    folder.join(PROGRESS).is_file()
}

fn last_line(checksum: u64) -> String {
    format!("\n{checksum:016x}\n")
}

/// A writer that counts and checksums the bytes written.
struct Checked<W> {
    inner: W,
    length: u64,
    /// `None` if nobody asks for it.
    checksum: Option<Box<XxHash64>>,
}

impl<W: Write> Checked<W> {
    fn new(inner: W) -> Self {
        Self {
            checksum: Some(Box::new(XxHash64::with_seed(0))),
            ..Self::unchecked(inner)
        }
    }

    const fn unchecked(inner: W) -> Self {
        Self {
            inner,
            length: 0,
            checksum: None,
        }
    }

    fn checksum(&self) -> u64 {
        self.checksum
            .as_ref()
            .map_or(0, |checksum| checksum.finish())
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.length += count as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.write(&bytes[..count]);
        }
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// A file of records that is being written.
pub(super) struct Growing {
    name: String,
    path: PathBuf,
    file: BufWriter<Checked<DiskFile>>,
}

impl Growing {
    /// Creates the file. `marked`: whether a mark of it is ever taken, which needs its checksum.
    pub(super) fn create(folder: &Path, name: &str, marked: bool) -> Result<Self> {
        let path = folder.join(name);
        let file = DiskFile::create(&path).map_err(Error::writing(&path))?;
        let file = match marked {
            true => Checked::new(file),
            false => Checked::unchecked(file),
        };
        Ok(Self::of(name, path, file))
    }

    fn of(name: &str, path: PathBuf, file: Checked<DiskFile>) -> Self {
        Self {
            name: name.to_owned(),
            path,
            file: BufWriter::with_capacity(1 << 18, file),
        }
    }

    /// Reopens the file as it was at its mark; returns `None` if it has changed.
    pub(super) fn again(folder: &Path, name: &str, marks: &[Mark]) -> Result<Option<Self>> {
        let Some(mark) = marks.iter().find(|mark| mark.name == name) else {
            return Ok(None);
        };
        let path = folder.join(name);
        let mut file = match DiskFile::again(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            again => again.map_err(Error::writing(&path))?,
        };
        let before = checked(&mut file, mark.length).map_err(Error::writing(&path))?;
        if (before.length, before.checksum()) != (mark.length, mark.checksum) {
            return Ok(None);
        }
        let mut file = Checked {
            inner: file,
            length: before.length,
            checksum: before.checksum,
        };
        let cut = file.inner.cut(file.length);
        cut.map_err(Error::writing(&path))?;
        Ok(Some(Self::of(name, path, file)))
    }

    /// Writes a line made of several parts.
    pub(super) fn line<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<()> {
        for part in parts {
            let written = self.file.write_all(part);
            written.map_err(Error::writing(&self.path))?;
        }
        Ok(())
    }

    /// Syncs the file and returns its current mark.
    pub(super) fn mark(&mut self) -> Result<Mark> {
        let flushed = self.file.flush();
        let file = self.file.get_ref();
        let synced = flushed.and_then(|()| file.inner.sync());
        synced.map_err(Error::writing(&self.path))?;
        Ok(Mark {
            name: self.name.clone(),
            length: file.length,
            checksum: file.checksum(),
        })
    }

    pub(super) fn close(self) -> Result<()> {
        let done = self.file.into_inner().map_err(|e| e.into_error());
        done.and_then(|file| file.inner.sync())
            .map_err(Error::writing(&self.path))
    }
}

/// Counts and checksums the beginning of a file, at most `most` bytes of it.
fn checked(file: &mut DiskFile, most: u64) -> std::io::Result<Checked<std::io::Sink>> {
    let mut sink = Checked::new(std::io::sink());
    let mut buffer = vec![0; 1 << 18];
    let mut left = (&*file).take(most);
    loop {
        match left.read(&mut buffer)? {
            0 => break,
            count => sink.write_all(&buffer[..count])?,
        }
    }
    file.rewind()?;
    Ok(sink)
}
