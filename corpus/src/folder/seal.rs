//! The files of a prepared folder, and the code under the owner's key that authenticates them.
//!
//! `prepared.code` is the HMAC-SHA-256, in hexadecimal, of a list with one line for each file: name, length and
//! SHA-256, in the order of [`FILES`]. Its key is derived from the owner's for this purpose alone. A consistent edit of
//! the folder needs that key; without it, only contradictions between the files can be found.

use super::{CANARIES, CODE, FACTS, HELD_OUT, RECORDS, SETTINGS, TEST, TEXTS, TOKENIZER};
use crate::error::{Error, Result};
use crate::prepare::Key;
use reticent_disk::{self as disk, hexadecimal};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Every file that a prepared folder may have besides the code, in the order of the list.
const FILES: [&str; 8] = [
    FACTS, RECORDS, TEXTS, HELD_OUT, TEST, CANARIES, TOKENIZER, SETTINGS,
];

/// The purpose of the key of the code.
const PURPOSE: &str = "prepared folder";

/// The largest code that is read, in bytes.
const LONGEST_CODE: u64 = 1024;

/// Writes `prepared.code`: from now on, the owner of the key vouches for the files of a prepared folder as they are.
/// Each preparation does so for the folder that it writes.
///
/// # Errors
/// Returns an error if a file cannot be read, or the code cannot be written.
pub fn seal_folder(folder: &Path, owner: [u8; 32]) -> Result<()> {
    seal(folder, &Key::new(owner), &[])
}

/// The same with a key at hand, and the files whose lengths and digests are `known` from writing them: the code is that of
/// what was written, whatever happened to it on the disk since.
pub(super) fn seal(folder: &Path, owner: &Key, known: &[(&str, Listed)]) -> Result<()> {
    let listed = on_two_threads(|name| {
        let known = known.iter().find(|(known, _)| *known == name);
        known.map_or_else(|| listed(&folder.join(name)), |(_, known)| Ok(Some(*known)))
    })?;
    let listed = listed.iter().map(|(name, listed)| (*name, *listed));
    let path = folder.join(CODE);
    let written = disk::write_whole(&path, format!("{}\n", code(owner, listed)).as_bytes());
    written.map_err(|source| Error::Write { path, source })
}

/// What the list says of a file: length and SHA-256.
pub(super) type Listed = (u64, [u8; 32]);

fn code<'a>(owner: &Key, files: impl Iterator<Item = (&'a str, Listed)>) -> String {
    let list = files.fold(String::new(), |mut list, (name, (length, digest))| {
        // Writing to a string does not fail.
        let _ = writeln!(list, "{name} {length} {}", hexadecimal(&digest));
        list
    });
    let key = owner.derived(PURPOSE, &[]);
    hexadecimal(&key.digest(&[list.as_bytes()]))
}

/// Returns what the list says of a file on the disk; none if there is no such file.
fn listed(path: &Path) -> Result<Option<Listed>> {
    let read = || -> std::io::Result<Listed> {
        let mut file = disk::open_regular(path)?;
        let (mut hash, mut length) = (Sha256::new(), 0);
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok((length, hash.finalize().into())),
                count => {
                    hash.update(&buffer[..count]);
                    length += count as u64;
                }
            }
        }
    };
    if_there(path, read())
}

/// Turns the error for a file that does not exist into none.
fn if_there<T>(path: &Path, read: std::io::Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(Error::reading(path)),
    }
}

/// Applies `of` to the name of each file, the two files of tokens on a thread of their own, since they are about as long
/// as all others. Returns what it found, in the order of the list.
fn on_two_threads<T: Send>(
    of: impl Fn(&'static str) -> Result<Option<T>> + Sync,
) -> Result<Vec<(&'static str, T)>> {
    let some = |tokens: bool| -> Result<Vec<(&'static str, T)>> {
        let names = FILES.into_iter();
        let names = names.filter(|name| [RECORDS, HELD_OUT].contains(name) == tokens);
        let each = names.filter_map(|name| Some(of(name).transpose()?.map(|found| (name, found))));
        each.collect()
    };
    let (tokens, others) = std::thread::scope(|scope| {
        let tokens = scope.spawn(|| some(true));
        let others = some(false);
        let tokens = tokens.join();
        (
            tokens.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            others,
        )
    });
    let mut found = others?;
    found.extend(tokens?);
    found.sort_by_key(|(name, _)| FILES.iter().position(|file| file == name));
    Ok(found)
}

/// The files of a prepared folder in memory. Each is read once: what the code was checked against is what is parsed.
pub(super) struct FolderFiles {
    folder: PathBuf,
    files: BTreeMap<&'static str, Vec<u8>>,
}

impl FolderFiles {
    /// Reads a folder. With the owner's key, its code is checked before anything in it is parsed. Without `records`, those
    /// and their texts are read for the code alone.
    ///
    /// # Errors
    /// Returns an error if it is no prepared folder, has a file that no preparation writes, or lacks the code of these
    /// files.
    pub(super) fn read(folder: &Path, owner: Option<&Key>, records: bool) -> Result<Self> {
        refuse_others(folder)?;
        let read = on_two_threads(|name| {
            let path = folder.join(name);
            if !records && [RECORDS, TEXTS, HELD_OUT, TEST].contains(&name) {
                return Ok(listed(&path)?.map(|listed| (Vec::new(), Some(listed))));
            }
            let bytes = if_there(&path, disk::read_regular(&path, u64::MAX))?;
            Ok(bytes.map(|bytes| {
                let listed: Option<Listed> =
                    owner.map(|_| (bytes.len() as u64, Sha256::digest(&bytes).into()));
                (bytes, listed)
            }))
        })?;
        if let Some(owner) = owner {
            let listed = read.iter();
            let listed = listed.filter_map(|(name, (_, listed))| Some((*name, (*listed)?)));
            check_code(folder, &code(owner, listed))?;
        }
        let files = read.into_iter().map(|(name, (bytes, _))| (name, bytes));
        Ok(Self {
            folder: folder.to_path_buf(),
            files: files.collect(),
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Takes the text of a file out of memory.
    pub(super) fn take(&mut self, name: &str) -> Result<String> {
        let path = || self.folder.join(name);
        let bytes = self.files.remove(name).ok_or_else(|| Error::Read {
            path: path(),
            source: ErrorKind::NotFound.into(),
        })?;
        String::from_utf8(bytes).map_err(|_| Error::prepared(&path(), "it is not UTF-8"))
    }
}

/// Refuses a folder that is none of ours, and one with files that no preparation writes: no check would cover them.
fn refuse_others(folder: &Path) -> Result<()> {
    let facts = folder.join(FACTS);
    std::fs::metadata(&facts).map_err(Error::reading(&facts))?;
    let failed = Error::reading(folder);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        // What file managers and file systems leave there; nothing reads it.
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && name != CODE && FILES.iter().all(|file| name != *file) {
            return Err(Error::prepared(
                &entry.path(),
                "no preparation writes a file of this name into its folder; move it elsewhere",
            ));
        }
    }
    Ok(())
}

/// Returns the code of a folder as it stands there; none if there is no such file.
pub(crate) fn code_of(folder: &Path) -> Result<Option<Vec<u8>>> {
    let path = folder.join(CODE);
    if_there(&path, disk::read_regular(&path, LONGEST_CODE))
}

fn check_code(folder: &Path, expected: &str) -> Result<()> {
    let path = folder.join(CODE);
    let problem = match code_of(folder)? {
        Some(kept) if kept.trim_ascii() == expected.as_bytes() => return Ok(()),
        Some(_) => {
            "the folder was edited after it was prepared, or prepared under another owner's key"
        }
        None => {
            "it is not there, so nothing authenticates the folder: an earlier version prepared it, or a process without the owner's key"
        }
    };
    Err(Error::Prepared {
        path,
        problem: format!(
            "{problem}; prepare it again (`audit prepare`), or name the key that it was prepared under ({})",
            disk::OWNER_KEY
        ),
    })
}
