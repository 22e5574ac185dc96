//! Files that pass from one stage to another. A file consists of sections of bytes, each with a MAC under a key that
//! only the owner has, followed by a table of the sections with its own MAC. A file that is damaged, belongs to another
//! plan, or has another name is rejected before its content is used; a section that is read as a stream is rejected
//! before what was made from it gets its name.

use crate::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use reticent_disk::{WholeFile, hexadecimal};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// The size of what follows the table of sections: its length and its MAC.
const TRAILER: u64 = 8 + 32;

/// A key for MACs and keyed digests.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        // HMAC pads a key that is shorter than a block with zeros.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        Hmac::new(&block.into())
    }

    pub(crate) fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.mac();
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Derives a separate key for a purpose.
    pub(crate) fn derived(&self, purpose: &str, of: &[u8]) -> Self {
        Self(self.digest(&[purpose.as_bytes(), of]))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A section of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Section {
    length: u64,
    hmac: String,
}

/// The folder that contains sealed files, and their key.
#[derive(Debug, Clone)]
pub(super) struct SealedFolder {
    pub(super) path: PathBuf,
    key: Key,
}

impl SealedFolder {
    pub(super) const fn new(path: PathBuf, key: Key) -> Self {
        Self { path, key }
    }

    /// Returns the MAC of a section with these bytes.
    pub(super) fn code(&self, name: &str, section: usize, bytes: &[u8]) -> String {
        let key = self.key.derived("file", name.as_bytes());
        let mac = section_mac(&key, section).chain_update(bytes);
        hexadecimal(&mac.finalize().into_bytes())
    }

    /// Creates a file. It appears under its name, and replaces any existing file of that name, only when it is
    /// finished.
    pub(super) fn create(&self, name: &str) -> Result<SealedWriter> {
        let path = self.path.join(name);
        let file = WholeFile::replacing(&path).map_err(Error::writing(&path))?;
        Ok(SealedWriter {
            key: self.key.derived("file", name.as_bytes()),
            file,
            path,
            sections: Vec::new(),
        })
    }

    /// Opens a file. `again` tells the user how to write it again.
    pub(super) fn open(&self, name: &str, again: &str) -> Result<SealedReader> {
        let path = self.path.join(name);
        let file = match reticent_disk::open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let problem = format!("it is not there yet; {again}");
                return Err(Error::Prepared { path, problem });
            }
            Err(source) => return Err(Error::Read { path, source }),
        };
        let mut out = SealedReader {
            key: self.key.derived("file", name.as_bytes()),
            file,
            path,
            again: again.to_owned(),
            sections: Vec::new(),
        };
        let sections = out.table().map_err(Error::reading(&out.path))?;
        out.sections = sections.ok_or_else(|| out.damaged())?;
        Ok(out)
    }
}

/// Returns the MAC of a section before its content.
fn section_mac(key: &Key, number: usize) -> Hmac<Sha256> {
    key.derived("section", &(number as u64).to_le_bytes()).mac()
}

/// A sealed file that is being written.
pub(super) struct SealedWriter {
    file: WholeFile,
    path: PathBuf,
    key: Key,
    sections: Vec<Section>,
}

impl SealedWriter {
    /// Writes the next section.
    pub(super) fn section(&mut self, bytes: &[u8]) -> Result<()> {
        let mut section = self.begin();
        section.put(bytes)?;
        section.end();
        Ok(())
    }

    /// Begins the next section.
    pub(super) fn begin(&mut self) -> OpenSection<'_> {
        OpenSection {
            mac: section_mac(&self.key, self.sections.len()),
            length: 0,
            writer: self,
        }
    }

    pub(super) fn finish(mut self) -> Result<()> {
        // Such data can always be serialised as JSON.
        let table = serde_json::to_vec(&self.sections).unwrap_or_default();
        let code = self.key.digest(&[b"table", &table]);
        let mut write = || -> std::io::Result<()> {
            self.file.write_all(&table)?;
            self.file.write_all(&(table.len() as u64).to_le_bytes())?;
            self.file.write_all(&code)
        };
        write()
            .and_then(|()| self.file.finish())
            .map_err(Error::writing(&self.path))
    }
}

/// A section that is being written.
pub(super) struct OpenSection<'a> {
    writer: &'a mut SealedWriter,
    mac: Hmac<Sha256>,
    length: u64,
}

impl OpenSection<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.mac.update(bytes);
        self.length += bytes.len() as u64;
        let written_all = self.writer.file.write_all(bytes);
        written_all.map_err(Error::writing(&self.writer.path))
    }

    pub(super) fn end(self) {
        self.writer.sections.push(Section {
            length: self.length,
            hmac: hexadecimal(&self.mac.finalize().into_bytes()),
        });
    }
}

/// A sealed file whose table has been verified.
pub(super) struct SealedReader {
    file: File,
    path: PathBuf,
    key: Key,
    again: String,
    sections: Vec<Section>,
}

impl SealedReader {
    /// Returns `None` if the file is damaged.
    fn table(&mut self) -> std::io::Result<Option<Vec<Section>>> {
        let length = self.file.metadata()?.len();
        let Some(before) = length.checked_sub(TRAILER) else {
            return Ok(None);
        };
        self.file.seek(SeekFrom::Start(before))?;
        let (mut size, mut code) = ([0; 8], [0; 32]);
        self.file.read_exact(&mut size)?;
        self.file.read_exact(&mut code)?;
        let size = u64::from_le_bytes(size);
        let Some(content) = before.checked_sub(size) else {
            return Ok(None);
        };
        self.file.seek(SeekFrom::Start(content))?;
        let mut table = Vec::new();
        (&self.file).take(size).read_to_end(&mut table)?;
        if self.key.digest(&[b"table", &table]) != code {
            return Ok(None);
        }
        let sections: Option<Vec<Section>> = serde_json::from_slice(&table).ok();
        let whole = |sections: &Vec<Section>| {
            let mut lengths = sections.iter().map(|section| section.length);
            lengths.try_fold(0u64, u64::checked_add) == Some(content)
        };
        Ok(sections.filter(whole))
    }

    pub(super) fn damaged(&self) -> Error {
        let problem = format!("it is damaged, or of another plan or stage; {}", self.again);
        Error::prepared(&self.path, problem)
    }

    /// Returns the MAC of a section as given in the table; empty if there is no such section.
    pub(super) fn code(&self, number: usize) -> &str {
        self.sections
            .get(number)
            .map_or("", |section| &section.hmac)
    }

    /// Starts reading a section.
    pub(super) fn stream(&mut self, number: usize) -> Result<SectionReader<'_>> {
        let Some(section) = self.sections.get(number).cloned() else {
            return Err(self.damaged());
        };
        let before = self.sections[..number].iter().map(|s| s.length).sum();
        let begin = self.file.seek(SeekFrom::Start(before));
        begin.map_err(Error::reading(&self.path))?;
        Ok(SectionReader {
            mac: section_mac(&self.key, number),
            left: section.length,
            hmac: section.hmac,
            input: BufReader::with_capacity(1 << 18, &self.file),
            reader: self,
        })
    }

    /// Reads a whole section.
    pub(super) fn bytes(&mut self, number: usize) -> Result<Vec<u8>> {
        let mut section = self.stream(number)?;
        let mut out = Vec::new();
        section.take(section.left, &mut out)?;
        section.end()?;
        Ok(out)
    }

    /// Reads a section as JSON.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&mut self, number: usize) -> Result<T> {
        let bytes = self.bytes(number)?;
        serde_json::from_slice(&bytes).map_err(|_| self.damaged())
    }
}

/// A section that is being read. Its content is verified only by [`SectionReader::end`].
pub(super) struct SectionReader<'a> {
    reader: &'a SealedReader,
    input: BufReader<&'a File>,
    mac: Hmac<Sha256>,
    left: u64,
    hmac: String,
}

impl SectionReader<'_> {
    pub(super) fn damaged(&self) -> Error {
        self.reader.damaged()
    }

    /// Returns the number of bytes left.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }

    /// Appends the next `count` bytes to `out`.
    pub(super) fn take(&mut self, count: u64, out: &mut Vec<u8>) -> Result<()> {
        // The table has been verified, so the file contains the bytes that are left.
        let room = usize::try_from(count).ok().filter(|_| count <= self.left);
        out.reserve(room.ok_or_else(|| self.damaged())?);
        let before = out.len();
        let read = self.input.by_ref().take(count).read_to_end(out);
        if read.map_err(Error::reading(&self.reader.path))? as u64 != count {
            return Err(self.damaged());
        }
        self.mac.update(&out[before..]);
        self.left -= count;
        Ok(())
    }

    pub(super) fn end(self) -> Result<()> {
        if self.left == 0 && hexadecimal(&self.mac.finalize().into_bytes()) == self.hmac {
            Ok(())
        } else {
            Err(self.reader.damaged())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn folder(place: &Path, key: u8) -> SealedFolder {
        SealedFolder::new(place.to_path_buf(), Key::new([key; 32]))
    }

    fn sections(folder: &SealedFolder, name: &str) -> Result<Vec<Vec<u8>>> {
        let mut file = folder.open(name, "write it again")?;
        (0..2).map(|number| file.bytes(number)).collect()
    }

    /// Every byte that is changed, left out or moved is noticed, and so is another name or key.
    #[test]
    fn what_is_not_just_what_was_written_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let own = folder(place.path(), 1);
        let mut file = own.create("a").unwrap();
        file.section(b"first").unwrap();
        file.section(b"").unwrap();
        assert!(!place.path().join("a").exists());
        file.finish().unwrap();
        let whole = std::fs::read(place.path().join("a")).unwrap();
        assert_eq!(sections(&own, "a").unwrap(), [b"first".to_vec(), vec![]]);
        let refused = |name: &str, folder: &SealedFolder| {
            let said = sections(folder, name).unwrap_err().to_string();
            assert!(said.contains("it is damaged, or of another plan"), "{said}");
            assert!(said.ends_with("write it again"), "{said}");
        };
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(place.path().join("a"), &changed).unwrap();
            refused("a", &own);
            std::fs::write(place.path().join("a"), &whole[..at]).unwrap();
            refused("a", &own);
        }
        std::fs::write(place.path().join("a"), &whole).unwrap();
        std::fs::write(place.path().join("b"), &whole).unwrap();
        refused("b", &own);
        refused("a", &folder(place.path(), 2));
        let missing = sections(&own, "c").unwrap_err().to_string();
        assert!(missing.contains("not there yet"), "{missing}");
    }
}
