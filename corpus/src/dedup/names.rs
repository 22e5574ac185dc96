//! The names of tokens, one behind the other, in the smallest sufficient width. Beyond [`MOST`] bytes they lie in a file
//! without a name.

use reticent_disk::ScratchFile;
use std::io::Result;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The number of bytes that are kept in memory before there is a file.
pub(super) const MOST: usize = 64 << 20;

/// The number of bytes that are written to the file at once.
const PIECE: usize = 1 << 20;

/// A name of some width.
pub(super) trait Name: Copy + Default + Eq + Into<u32> + Sync {
    /// Its bytes.
    const WIDTH: usize;

    /// Reads names. `room` is for those that do not lie in memory as they are.
    fn all<'a>(bytes: &'a [u8], room: &'a mut Vec<Self>) -> &'a [Self];
}

impl Name for u8 {
    const WIDTH: usize = 1;

    fn all<'a>(bytes: &'a [u8], _: &'a mut Vec<Self>) -> &'a [Self] {
        bytes
    }
}

/// Names of more than a byte.
macro_rules! wide {
    ($($name:ty)*) => {$(
        impl Name for $name {
            const WIDTH: usize = size_of::<Self>();

            fn all<'a>(bytes: &'a [u8], room: &'a mut Vec<Self>) -> &'a [Self] {
                let (names, _) = bytes.as_chunks();
                room.clear();
                room.extend(names.iter().map(|bytes| Self::from_le_bytes(*bytes)));
                room
            }
        }
    )*};
}

wide!(u16 u32);

/// Room to read names into.
#[derive(Debug, Default)]
pub(super) struct Room<N> {
    bytes: Vec<u8>,
    names: Vec<N>,
}

/// Names, to which others are appended until they are read.
#[derive(Debug)]
pub(super) struct Names {
    /// Bytes of a name: 1, 2 or 4.
    width: usize,
    /// The number of names.
    count: usize,
    /// Those behind the ones in the file.
    last: Vec<u8>,
    file: Option<ScratchFile>,
    /// The folder on whose disk the file lies; without one, all names stay in memory.
    folder: Option<PathBuf>,
    /// The number of bytes in memory from which they go to the file.
    most: usize,
}

impl Names {
    pub(super) fn new(folder: Option<&Path>, most: usize) -> Self {
        Self {
            width: 1,
            count: 0,
            last: Vec::new(),
            file: None,
            folder: folder.map(Path::to_path_buf),
            most,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the number of bytes of a name.
    pub(super) const fn width(&self) -> usize {
        self.width
    }

    /// Appends names.
    pub(super) fn extend(&mut self, names: impl Iterator<Item = u32>) -> Result<()> {
        for name in names {
            loop {
                let before = self.last.len();
                match self.width {
                    1 => self.last.extend(u8::try_from(name).ok()),
                    2 => {
                        let short = u16::try_from(name).map(u16::to_le_bytes);
                        self.last.extend(short.into_iter().flatten());
                    }
                    _ => self.last.extend(name.to_le_bytes()),
                }
                if self.last.len() > before {
                    break;
                }
                self.widen()?;
            }
            self.count += 1;
        }
        let most = if self.file.is_some() {
            PIECE
        } else {
            self.most
        };
        if self.last.len() >= most {
            self.put_away()?;
        }
        Ok(())
    }

    /// Doubles the width of all names.
    fn widen(&mut self) -> Result<()> {
        let old = self.width;
        let wider = |bytes: &[u8]| -> Vec<u8> {
            let mut out = Vec::with_capacity(2 * bytes.len());
            for name in bytes.chunks(old) {
                out.extend_from_slice(name);
                out.resize(out.len() + old, 0);
            }
            out
        };
        if let Some(file) = self.file.take() {
            let mut other = self.new_file()?;
            let filed = self.count * old - self.last.len();
            let mut piece = vec![0; PIECE];
            for from in (0..filed).step_by(PIECE) {
                let piece = &mut piece[..PIECE.min(filed - from)];
                file.read_at(piece, from as u64)?;
                other
                    .iter_mut()
                    .try_for_each(|other| other.append(&wider(piece)))?;
            }
            self.file = other;
        }
        self.last = wider(&self.last);
        self.width = 2 * old;
        Ok(())
    }

    fn new_file(&self) -> Result<Option<ScratchFile>> {
        let folder = self.folder.as_deref();
        folder.map(ScratchFile::create_in).transpose()
    }

    /// Moves what is in memory to the file, if there may be one.
    fn put_away(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = self.new_file()?;
        }
        if let Some(file) = &mut self.file {
            file.append(&std::mem::take(&mut self.last))?;
        }
        Ok(())
    }

    /// Says that all names are there.
    pub(super) fn close(&mut self) -> Result<()> {
        match self.file {
            Some(_) => self.put_away(),
            None => Ok(()),
        }
    }

    /// Reads names, after they were closed. `N` has their width.
    pub(super) fn get<'a, N: Name>(
        &'a self,
        range: Range<usize>,
        room: &'a mut Room<N>,
    ) -> Result<&'a [N]> {
        let bytes = range.start * N::WIDTH..range.end * N::WIDTH;
        let Some(file) = &self.file else {
            return Ok(N::all(&self.last[bytes], &mut room.names));
        };
        if room.bytes.len() < bytes.len() {
            room.bytes.resize(bytes.len(), 0);
        }
        let out = &mut room.bytes[..bytes.len()];
        file.read_at(out, bytes.start as u64)?;
        Ok(N::all(out, &mut room.names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that need a wider place than those before, before and after there is a file.
    #[test]
    fn they_come_back_from_memory_and_from_a_file() {
        let place = tempfile::tempdir().unwrap();
        let all: Vec<u32> = (0..600_000)
            .map(|at| match at {
                0..200_000 => at % 256,
                200_000..400_000 => at % 65_536,
                _ => at,
            })
            .collect();
        for (folder, most) in [
            (None, 0),
            (Some(place.path()), 1000),
            (Some(place.path()), MOST),
        ] {
            for (count, width) in [(200_000, 1), (400_000, 2), (600_000, 4)] {
                let mut names = Names::new(folder, most);
                for some in all[..count].chunks(777) {
                    names.extend(some.iter().copied()).unwrap();
                }
                names.close().unwrap();
                assert_eq!((names.len(), names.width()), (count, width));
                assert_eq!(names.file.is_some(), folder.is_some() && most < MOST);
                for range in [0..1, 199_990..200_000, 1000..count, count..count] {
                    let read: Vec<u32> = match width {
                        1 => wide(
                            names
                                .get(range.clone(), &mut Room::<u8>::default())
                                .unwrap(),
                        ),
                        2 => wide(
                            names
                                .get(range.clone(), &mut Room::<u16>::default())
                                .unwrap(),
                        ),
                        _ => wide(
                            names
                                .get(range.clone(), &mut Room::<u32>::default())
                                .unwrap(),
                        ),
                    };
                    assert_eq!(read, &all[range]);
                }
            }
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    fn wide<N: Name>(names: &[N]) -> Vec<u32> {
        names.iter().map(|name| (*name).into()).collect()
    }
}
