//! The state that a stopped preparation leaves in the hidden folder: how far it had come, and the
//! length of its files at that point.
//!
//! The state is written to a temporary file and renamed, so it is whole or absent. Its last line is
//! the checksum of the other lines. A file of records may be longer than the state says; the excess
//! is cut off. Checksums of the files show that the rest has not changed. Under the owner's key they
//! are codes (HMAC-SHA-256 of the SHA-256): the finished folder is authenticated under that key, so nobody without it
//! may have edited what it is finished from. Without the key they guard against accidents only.

use super::seal::Listed;
use crate::error::{Error, Result};
use crate::prepare::{Identity, Key};
use reticent_disk::{self as disk, DiskFile, hexadecimal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
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
    checksum: String,
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
    pub(super) fn write(&self, folder: &Path, owner: Option<&Key>) -> Result<()> {
        let path = folder.join(NEW);
        let write = || -> std::io::Result<()> {
            let checksum = Checksum::of(PROGRESS, owner);
            let file = Checked::new(DiskFile::create(&path)?, Some(checksum));
            let mut out = BufWriter::with_capacity(1 << 16, file);
            serde_json::to_writer(&mut out, self)?;
            let mut file = out.into_inner().map_err(|e| e.into_error())?;
            file.write_all(format!("\n{}\n", file.checksum()).as_bytes())?;
            file.inner.sync()?;
            disk::rename(&path, &folder.join(PROGRESS))
        };
        write().map_err(Error::writing(&path))
    }
}

impl<D: DeserializeOwned> Stopped<D> {
    /// Reads the state; returns `None` if the file is incomplete or damaged, or was written under another key or none.
    pub(super) fn read(folder: &Path, owner: Option<&Key>) -> Option<Self> {
        let bytes = std::fs::read(folder.join(PROGRESS)).ok()?;
        let lines = bytes.strip_suffix(b"\n")?;
        let end = lines.iter().rposition(|byte| *byte == b'\n')?;
        let (page, last) = (&lines[..end], &lines[end + 1..]);
        let mut checksum = Checksum::of(PROGRESS, owner);
        checksum.update(page);
        if last != checksum.value().as_bytes() {
            return None;
        }
        serde_json::from_slice(page).ok()
    }
}

/// Returns the seed stored in a folder, under the same key if there is one; otherwise stores `drawn` and returns it.
pub(super) fn seed(folder: &Path, drawn: u64, owner: Option<&Key>) -> Result<u64> {
    let path = folder.join(SEED);
    let line = |seed: u64| {
        let mut checksum = Checksum::of(SEED, owner);
        checksum.update(&seed.to_le_bytes());
        format!("{seed} {}", checksum.value())
    };
    let kept = std::fs::read_to_string(&path).ok().and_then(|text| {
        let (seed, _) = text.split_once(' ')?;
        let seed = seed.parse().ok()?;
        (text.trim_end() == line(seed)).then_some(seed)
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let write = || -> std::io::Result<()> {
        disk::remove_file(&path)?;
        let mut file = DiskFile::create(&path)?;
        file.write_all(format!("{}\n", line(drawn)).as_bytes())?;
        file.sync()
    };
    write().map_err(Error::writing(&path))?;
    Ok(drawn)
}

/// Returns whether a folder contains a stopped preparation, whole or not.
pub(super) fn lies_in(folder: &Path) -> bool {
    folder.join(PROGRESS).is_file()
}

/// What shows that a file has not changed.
pub(super) enum Checksum {
    /// A checksum that anybody can compute.
    Plain(Box<XxHash64>),
    /// A code that nobody can compute without the owner's key: that of the digest of the bytes.
    Keyed(Key, Box<Sha256>),
}

impl Checksum {
    /// Begins the checksum of the file with this name.
    pub(super) fn of(name: &str, owner: Option<&Key>) -> Self {
        match owner {
            None => Self::Plain(Box::new(XxHash64::with_seed(0))),
            Some(owner) => {
                let key = owner.derived("stopped preparation", name.as_bytes());
                Self::Keyed(key, Box::default())
            }
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(hash) => hash.write(bytes),
            Self::Keyed(_, hash) => hash.update(bytes),
        }
    }

    /// Returns the checksum of the bytes so far, in hexadecimal.
    fn value(&self) -> String {
        match self {
            Self::Plain(hash) => format!("{:016x}", hash.finish()),
            Self::Keyed(key, hash) => {
                hexadecimal(&key.digest(&[hash.clone().finalize().as_slice()]))
            }
        }
    }

    /// Returns the digest of the bytes, if it is one.
    fn digest(self) -> Option<[u8; 32]> {
        match self {
            Self::Plain(_) => None,
            Self::Keyed(_, hash) => Some(hash.finalize().into()),
        }
    }
}

/// A writer that counts and checksums the bytes written.
struct Checked<W> {
    inner: W,
    length: u64,
    /// `None` if nobody asks for it.
    checksum: Option<Checksum>,
}

impl<W: Write> Checked<W> {
    const fn new(inner: W, checksum: Option<Checksum>) -> Self {
        Self {
            inner,
            length: 0,
            checksum,
        }
    }

    fn checksum(&self) -> String {
        let checksum = self.checksum.as_ref();
        checksum.map_or_else(String::new, Checksum::value)
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.length += count as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&bytes[..count]);
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
    /// Creates the file. `checksum`: that of no bytes, or `None` if no mark of the file is ever taken.
    pub(super) fn create(folder: &Path, name: &str, checksum: Option<Checksum>) -> Result<Self> {
        let path = folder.join(name);
        let file = DiskFile::create(&path).map_err(Error::writing(&path))?;
        Ok(Self::of(name, path, Checked::new(file, checksum)))
    }

    fn of(name: &str, path: PathBuf, file: Checked<DiskFile>) -> Self {
        Self {
            name: name.to_owned(),
            path,
            file: BufWriter::with_capacity(1 << 18, file),
        }
    }

    /// Reopens the file as it was at its mark; returns `None` if it has changed.
    pub(super) fn again(
        folder: &Path,
        name: &str,
        marks: &[Mark],
        owner: Option<&Key>,
    ) -> Result<Option<Self>> {
        let Some(mark) = marks.iter().find(|mark| mark.name == name) else {
            return Ok(None);
        };
        let path = folder.join(name);
        let mut file = match DiskFile::again(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            again => again.map_err(Error::writing(&path))?,
        };
        let checksum = Checksum::of(name, owner);
        let before = checked(&mut file, mark.length, checksum).map_err(Error::writing(&path))?;
        if before.length != mark.length || before.checksum() != mark.checksum {
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

    /// Syncs the file, and returns its length and SHA-256 if they were counted under the owner's key.
    pub(super) fn close(self) -> Result<Option<Listed>> {
        let done = self.file.into_inner().map_err(|e| e.into_error());
        let synced = done.and_then(|file| file.inner.sync().map(|()| file));
        let file = synced.map_err(Error::writing(&self.path))?;
        let digest = file.checksum.and_then(Checksum::digest);
        Ok(digest.map(|digest| (file.length, digest)))
    }
}

/// Counts and checksums the beginning of a file, at most `most` bytes of it.
fn checked(
    file: &mut DiskFile,
    most: u64,
    checksum: Checksum,
) -> std::io::Result<Checked<std::io::Sink>> {
    let mut sink = Checked::new(std::io::sink(), Some(checksum));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_kept_under_its_key() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = [7, 8].map(|byte| Key::new([byte; 32]));
        for (drawn, key, kept) in [
            (1, Some(&one), 1),
            (2, Some(&one), 1),
            (3, Some(&other), 3),
            (4, None, 4),
            (5, None, 4),
            (6, Some(&one), 6),
        ] {
            assert_eq!(seed(place.path(), drawn, key).unwrap(), kept);
        }
        let path = place.path().join(SEED);
        let edited = std::fs::read_to_string(&path)
            .unwrap()
            .replacen('6', "9", 1);
        std::fs::write(&path, edited).unwrap();
        assert_eq!(seed(place.path(), 7, Some(&one)).unwrap(), 7);
        std::fs::write(&path, "8\n").unwrap();
        assert_eq!(seed(place.path(), 5, Some(&one)).unwrap(), 5);
    }
}
