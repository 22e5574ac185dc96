//! A file for what does not fit in memory.

use crate::failing::step;
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// A file without a name: whatever ends the process, nothing of it stays. Several threads may read it at once.
#[derive(Debug)]
pub struct ScratchFile(File);

impl ScratchFile {
    /// Creates the file on the disk of a folder.
    ///
    /// # Errors
    /// Returns an error if the folder does not exist or cannot be written.
    pub fn create_in(folder: &Path) -> Result<Self> {
        step()?;
        tempfile::tempfile_in(folder).map(Self)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        step()?;
        self.0.write_all(bytes)
    }

    /// Makes the file this long. What was not written reads as zeros, and need not take room on the disk.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn set_length(&self, length: u64) -> Result<()> {
        step()?;
        self.0.set_len(length)
    }

    /// Writes bytes from a place on.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub fn write_at(&self, bytes: &[u8], place: u64) -> Result<()> {
        step()?;
        write_at(&self.0, bytes, place)
    }

    /// Fills `out` with the bytes from a place on.
    ///
    /// # Errors
    /// Returns an error if the disk is gone, or the file has fewer bytes.
    pub fn read_at(&self, out: &mut [u8], place: u64) -> Result<()> {
        read_at(&self.0, out, place)
    }
}

#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], place: u64) -> Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, place)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], place: u64) -> Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, place)
}

#[cfg(windows)]
fn read_at(file: &File, mut out: &mut [u8], mut place: u64) -> Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, place)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => {
                out = &mut out[count..];
                place += count as u64;
            }
        }
    }
    Ok(())
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut place: u64) -> Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, place)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            count => {
                bytes = &bytes[count..];
                place += count as u64;
            }
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(any(unix, windows)))]
fn write_at(_: &File, _: &[u8], _: u64) -> Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn it_has_no_name_and_gives_what_was_appended() {
        let place = tempfile::tempdir().unwrap();
        let mut file = ScratchFile::create_in(place.path()).unwrap();
        file.append(b"one, ").unwrap();
        file.append(b"two").unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        let mut out = [0; 3];
        file.read_at(&mut out, 5).unwrap();
        assert_eq!(&out, b"two");
        let beyond = file.read_at(&mut out, 6).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
        file.set_length(12).unwrap();
        file.write_at(b"!", 10).unwrap();
        let mut out = [7; 5];
        file.read_at(&mut out, 7).unwrap();
        assert_eq!(&out, b"o\0\0!\0");
        crate::failing::after(Some(0));
        assert!(file.append(b"!").is_err() && file.write_at(b"!", 0).is_err());
        assert!(ScratchFile::create_in(place.path()).is_err());
        crate::failing::after(None);
        assert!(ScratchFile::create_in(&place.path().join("none")).is_err());
    }
}
