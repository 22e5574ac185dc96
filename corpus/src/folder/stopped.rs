//! What a stopped preparation leaves in the hidden folder: how far it was, and how long its files
//! were then.
//!
//! The file is written beside and renamed, so that it is whole or absent; its last line is the
//! checksum of the others. A file of records may be longer than it says: what came after is cut
//! off. That of what it says nothing is changed, checksums of the files tell. They guard against
//! accidents; the folder is its owner's alone.

use crate::error::{Error, Result};
use crate::prepare::Identity;
use reticent_disk::{self as disk, DiskFile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash64;

/// Name of the file.
pub(super) const PROGRESS: &str = "progress.json";
/// The seed of canaries, where nobody gave one.
pub(super) const SEED: &str = "canary-seed";
/// While it is written.
const NEW: &str = "progress.new";

/// How long a file of records was, and the checksum of so much of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    name: String,
    length: u64,
    checksum: u64,
}

#[derive(Serialize)]
struct Page<'a, D> {
    identity: &'a Identity,
    files: &'a [Mark],
    done: &'a D,
}

/// What was left.
#[derive(Debug, Deserialize)]
pub(crate) struct Stopped<D> {
    pub(crate) identity: Identity,
    pub(super) files: Vec<Mark>,
    pub(crate) done: D,
}

impl<D: DeserializeOwned> Stopped<D> {
    /// None of a file that is not whole.
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

/// The seed that lies in a folder, or this one from now on.
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
    write().map_err(|source| failed(&path, source))?;
    Ok(drawn)
}

/// Whether a stopped preparation lies in a folder, whole or not.
pub(super) fn lies_in(folder: &Path) -> bool {
    folder.join(PROGRESS).is_file()
}

fn last_line(checksum: u64) -> String {
    format!("\n{checksum:016x}\n")
}

/// Says how far a preparation is.
pub(super) fn write<D: Serialize>(
    folder: &Path,
    identity: &Identity,
    files: &[Mark],
    done: &D,
) -> Result<()> {
    let path = folder.join(NEW);
    let page = Page {
        identity,
        files,
        done,
    };
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, Checked::new(DiskFile::create(&path)?));
        serde_json::to_writer(&mut out, &page)?;
        let mut file = out.into_inner().map_err(|e| e.into_error())?;
        file.write_all(last_line(file.checksum.finish()).as_bytes())?;
        file.inner.sync()?;
        disk::rename(&path, &folder.join(PROGRESS))
    };
    write().map_err(|source| Error::Write { path, source })
}

/// A file whose bytes are counted and checked on the way.
struct Checked<W> {
    inner: W,
    length: u64,
    checksum: XxHash64,
}

impl<W: Write> Checked<W> {
    fn new(inner: W) -> Self {
        Self {
            inner,
            length: 0,
            checksum: XxHash64::with_seed(0),
        }
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.length += count as u64;
        Hasher::write(&mut self.checksum, &bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// A file of records while it grows.
pub(super) struct Growing {
    name: String,
    path: PathBuf,
    file: BufWriter<Checked<DiskFile>>,
}

impl Growing {
    pub(super) fn create(folder: &Path, name: &str) -> Result<Self> {
        let path = folder.join(name);
        let file = DiskFile::create(&path).map_err(|source| failed(&path, source))?;
        Ok(Self::of(name, path, Checked::new(file)))
    }

    fn of(name: &str, path: PathBuf, file: Checked<DiskFile>) -> Self {
        Self {
            name: name.to_owned(),
            path,
            file: BufWriter::with_capacity(1 << 18, file),
        }
    }

    /// The file as it was at its mark; none when it is not that one any more.
    pub(super) fn again(folder: &Path, name: &str, marks: &[Mark]) -> Result<Option<Self>> {
        let Some(mark) = marks.iter().find(|mark| mark.name == name) else {
            return Ok(None);
        };
        let path = folder.join(name);
        let mut file = match DiskFile::again(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(&path, source)),
        };
        let (length, checksum) =
            checked(&mut file, mark.length).map_err(|source| failed(&path, source))?;
        if (length, checksum.finish()) != (mark.length, mark.checksum) {
            return Ok(None);
        }
        let mut file = Checked {
            inner: file,
            length,
            checksum,
        };
        let cut = file.inner.cut(length);
        cut.map_err(|source| failed(&path, source))?;
        Ok(Some(Self::of(name, path, file)))
    }

    /// A line of several parts.
    pub(super) fn line<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<()> {
        for part in parts {
            let written = self.file.write_all(part);
            written.map_err(|source| failed(&self.path, source))?;
        }
        Ok(())
    }

    /// Where it is, with everything before that on the disk.
    pub(super) fn mark(&mut self) -> Result<Mark> {
        let flushed = self.file.flush();
        let file = self.file.get_ref();
        let synced = flushed.and_then(|()| file.inner.sync());
        synced.map_err(|source| failed(&self.path, source))?;
        Ok(Mark {
            name: self.name.clone(),
            length: file.length,
            checksum: file.checksum.finish(),
        })
    }

    pub(super) fn close(self) -> Result<()> {
        let done = self.file.into_inner().map_err(|e| e.into_error());
        done.and_then(|file| file.inner.sync())
            .map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Write {
        path: path.to_path_buf(),
        source,
    }
}

/// The first bytes of a file, at most so many: how many there are, and their checksum.
fn checked(file: &mut DiskFile, most: u64) -> std::io::Result<(u64, XxHash64)> {
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
    Ok((sink.length, sink.checksum))
}
