//! Files that pass from one stage to another. A file consists of sections of bytes, a table with the end and the MAC of
//! each, and the number of sections with a MAC of the file's size, all under a key that only the owner has. A stage reads
//! the entries of its own sections: the whole table has as many as there are shards. A file of another size, plan or name
//! is rejected when it is opened, a damaged section before its content is used; a section that is read as a stream is
//! rejected before what was made from it gets its name.

use crate::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use reticent_disk::{WholeFile, hexadecimal};
use sha2::Sha256;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// The size of what follows the table of sections: their number, and a MAC.
const TRAILER: u64 = 8 + 32;
/// The size of an entry of the table: where a section ends, and its MAC.
const ENTRY: u64 = 8 + 32;
/// The most bytes of a section that are read at once.
const BUFFER: u64 = 1 << 18;

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
            end: 0,
            table: Vec::new(),
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
            content: 0,
            sections: 0,
        };
        let whole = out.trailer().map_err(Error::reading(&out.path))?;
        if whole { Ok(out) } else { Err(out.damaged()) }
    }

    /// Returns whether a file exists and every section of it is whole.
    pub(super) fn is_whole(&self, name: &str) -> bool {
        let whole = || -> Result<()> {
            let mut file = self.open(name, "")?;
            let mut bytes = Vec::new();
            for number in 0..usize::try_from(file.sections).unwrap_or(usize::MAX) {
                let mut section = file.stream(number)?;
                while section.left() > 0 {
                    bytes.clear();
                    section.take(section.left().min(BUFFER), &mut bytes)?;
                }
                section.end()?;
            }
            Ok(())
        };
        whole().is_ok()
    }
}

/// Returns the MAC of a section before its content.
fn section_mac(key: &Key, number: usize) -> Hmac<Sha256> {
    key.derived("section", &(number as u64).to_le_bytes()).mac()
}

/// Returns the MAC of the size of a file: `content` bytes in so many sections.
fn size_code(key: &Key, content: u64, sections: u64) -> [u8; 32] {
    key.digest(&[b"size", &content.to_le_bytes(), &sections.to_le_bytes()])
}

/// A sealed file that is being written.
pub(super) struct SealedWriter {
    file: WholeFile,
    path: PathBuf,
    key: Key,
    /// Where the last section ends.
    end: u64,
    table: Vec<u8>,
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
            mac: section_mac(&self.key, self.sections()),
            writer: self,
        }
    }

    const fn sections(&self) -> usize {
        self.table.len() / ENTRY as usize
    }

    pub(super) fn finish(mut self) -> Result<()> {
        let sections = self.sections() as u64;
        let code = size_code(&self.key, self.end, sections);
        let mut write = || -> std::io::Result<()> {
            self.file.write_all(&self.table)?;
            self.file.write_all(&sections.to_le_bytes())?;
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
}

impl OpenSection<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.mac.update(bytes);
        self.writer.end += bytes.len() as u64;
        let written_all = self.writer.file.write_all(bytes);
        written_all.map_err(Error::writing(&self.writer.path))
    }

    pub(super) fn end(self) {
        let table = &mut self.writer.table;
        table.extend_from_slice(&self.writer.end.to_le_bytes());
        table.extend_from_slice(&self.mac.finalize().into_bytes());
    }
}

/// A sealed file of the right size.
pub(super) struct SealedReader {
    file: File,
    path: PathBuf,
    key: Key,
    again: String,
    /// The bytes of all sections.
    content: u64,
    /// The number of sections.
    sections: u64,
}

impl SealedReader {
    /// Reads the number of sections; returns false if the file is damaged.
    fn trailer(&mut self) -> std::io::Result<bool> {
        let length = self.file.metadata()?.len();
        let Some(before) = length.checked_sub(TRAILER) else {
            return Ok(false);
        };
        self.file.seek(SeekFrom::Start(before))?;
        let (mut sections, mut code) = ([0; 8], [0; 32]);
        self.file.read_exact(&mut sections)?;
        self.file.read_exact(&mut code)?;
        self.sections = u64::from_le_bytes(sections);
        let table = self.sections.checked_mul(ENTRY);
        let Some(content) = table.and_then(|table| before.checked_sub(table)) else {
            return Ok(false);
        };
        self.content = content;
        Ok(size_code(&self.key, content, self.sections) == code)
    }

    /// Returns where a section begins and ends, and its MAC; `None` if it does not lie in the file. Only the section's
    /// content shows whether they are as they were written.
    fn entry(&mut self, number: u64) -> std::io::Result<Option<(u64, u64, [u8; 32])>> {
        if number >= self.sections {
            return Ok(None);
        }
        // A section begins where the one before ends.
        let (mut begin, mut end, mut code) = ([0; 8], [0; 8], [0; 32]);
        let at = self.content + number * ENTRY;
        if number > 0 {
            self.file.seek(SeekFrom::Start(at - ENTRY))?;
            self.file.read_exact(&mut begin)?;
        }
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut end)?;
        self.file.read_exact(&mut code)?;
        let (begin, end) = (u64::from_le_bytes(begin), u64::from_le_bytes(end));
        Ok((begin <= end && end <= self.content).then_some((begin, end, code)))
    }

    pub(super) fn damaged(&self) -> Error {
        let problem = format!("it is damaged, or of another plan or stage; {}", self.again);
        Error::prepared(&self.path, problem)
    }

    /// Starts reading a section.
    pub(super) fn stream(&mut self, number: usize) -> Result<SectionReader<'_>> {
        let entry = self
            .entry(number as u64)
            .map_err(Error::reading(&self.path))?;
        let (begin, end, code) = entry.ok_or_else(|| self.damaged())?;
        let there = self.file.seek(SeekFrom::Start(begin));
        there.map_err(Error::reading(&self.path))?;
        let left = end - begin;
        // Of a short section no more is read than there is.
        let buffer = usize::try_from(left.min(BUFFER)).unwrap_or_default();
        Ok(SectionReader {
            mac: section_mac(&self.key, number),
            left,
            code,
            input: BufReader::with_capacity(buffer, &self.file),
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
    code: [u8; 32],
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
        // The file contains the bytes that are left.
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
        let code: [u8; 32] = self.mac.finalize().into_bytes().into();
        if self.left == 0 && code == self.code {
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

    /// A stage reads what it needs of the table, which has an entry for each shard: another one's entry may be damaged.
    #[test]
    fn a_section_is_read_by_its_own_entry() {
        let place = tempfile::tempdir().unwrap();
        let own = folder(place.path(), 1);
        let mut file = own.create("a").unwrap();
        for number in 0..9u8 {
            file.section(&[number; 3]).unwrap();
        }
        file.finish().unwrap();
        assert!(own.is_whole("a") && !own.is_whole("b"));
        let path = place.path().join("a");
        let mut changed = std::fs::read(&path).unwrap();
        let entry = changed.len() - (TRAILER + 5 * ENTRY) as usize;
        changed[entry + 8] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        assert!(!own.is_whole("a"));
        let mut file = own.open("a", "").unwrap();
        let refused: Vec<usize> = (0..10).filter(|at| file.bytes(*at).is_err()).collect();
        assert_eq!(refused, [4, 9]);
    }
}
