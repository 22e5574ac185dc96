//! The ids of a corpus, no two of which are equal.

use crate::error::Result;
use crate::rows::{Rows, Scratch};
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// A file, by its number, and a place in it.
pub(super) type Place = (u32, u64);

/// A digest and a place, in whose order rows are: of equal ids, the first comes first.
const ROW: usize = 20 + 4 + 8;

/// The ids so far, by their digests.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// Where each id first occurred.
    here: HashMap<[u8; 20], Place>,
    sorted: Option<Sorted>,
}

/// Ids that do not fit in memory: sorted runs of them.
#[derive(Debug)]
struct Sorted {
    /// Keys the digests, so that nobody can test ids against what lies on the disk.
    key: [u8; 20],
    /// The number of ids of a run.
    most: usize,
    rows: Rows<ROW>,
    runs: Vec<Range<u64>>,
}

impl Ids {
    /// Keeps so many ids in memory, and sorts the others on the disk.
    pub(super) fn sorted(scratch: Scratch<'_>, key: [u8; 20]) -> Self {
        Self {
            here: HashMap::new(),
            sorted: Some(Sorted {
                key,
                most: scratch.most.max(1),
                rows: Rows::new(Some(Scratch { most: 0, ..scratch })),
                runs: Vec::new(),
            }),
        }
    }

    /// Enters an id. Returns where it first occurred, if it did among those in memory.
    pub(super) fn enter(&mut self, id: &str, place: Place) -> Result<Option<Place>> {
        let key = self.sorted.as_ref().map_or(&[][..], |sorted| &sorted.key);
        let digest = Sha1::new().chain_update(key).chain_update(id).finalize();
        match self.here.entry(digest.into()) {
            Entry::Occupied(first) => return Ok(Some(*first.get())),
            Entry::Vacant(free) => free.insert(place),
        };
        if let Some(sorted) = &mut self.sorted
            && self.here.len() >= sorted.most
        {
            sorted.put_away(&mut self.here)?;
        }
        Ok(None)
    }

    /// Says that all ids were entered. Returns the first place of an id that occurred before it, and where that was;
    /// those that [`Self::enter`] returned are left out.
    pub(super) fn close(&mut self) -> Result<Option<(Place, Place)>> {
        let Some(mut sorted) = self.sorted.take().filter(|sorted| !sorted.runs.is_empty()) else {
            return Ok(None);
        };
        sorted.put_away(&mut self.here)?;
        self.here = HashMap::new();
        let mut first: Option<([u8; 20], Place)> = None;
        let mut copy: Option<(Place, Place)> = None;
        for row in sorted.rows.merged(&sorted.runs)? {
            let (digest, place) = parts(&row?);
            match first {
                Some((before, first)) if before == digest => {
                    let other = (place, first);
                    copy = Some(copy.map_or(other, |copy| copy.min(other)));
                }
                _ => first = Some((digest, place)),
            }
        }
        Ok(copy)
    }
}

impl Sorted {
    /// Makes a run of ids.
    fn put_away(&mut self, ids: &mut HashMap<[u8; 20], Place>) -> Result<()> {
        let mut run: Vec<[u8; ROW]> = ids.drain().map(|(digest, at)| row(&digest, at)).collect();
        run.sort_unstable();
        let begin = self.rows.len();
        run.iter().try_for_each(|row| self.rows.push(row))?;
        self.runs.push(begin..self.rows.len());
        Ok(())
    }
}

/// Numbers are in the order of their bytes.
fn row(digest: &[u8; 20], (file, number): Place) -> [u8; ROW] {
    let mut out = [0; ROW];
    out[..20].copy_from_slice(digest);
    out[20..24].copy_from_slice(&file.to_be_bytes());
    out[24..].copy_from_slice(&number.to_be_bytes());
    out
}

fn parts(row: &[u8; ROW]) -> ([u8; 20], Place) {
    let (mut digest, mut file, mut number) = ([0; 20], [0; 4], [0; 8]);
    digest.copy_from_slice(&row[..20]);
    file.copy_from_slice(&row[20..24]);
    number.copy_from_slice(&row[24..]);
    (
        digest,
        (u32::from_be_bytes(file), u64::from_be_bytes(number)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the help of the commands says, without the digests of texts and what a survey keeps.
    #[test]
    fn an_id_takes_no_more_memory_than_is_said() {
        // A table has a power of two of places, of which seven in eight may be taken, with an entry and a byte each.
        let bytes = |ids: &Ids| {
            let places = (ids.here.capacity() * 8).div_ceil(7).next_power_of_two();
            places * (size_of::<([u8; 20], Place)>() + 1)
        };
        let mut ids = Ids::default();
        let mut before = 0;
        for number in 1..=20_000 {
            ids.enter(&number.to_string(), (0, number)).unwrap();
            let now = bytes(&ids);
            // A table that grows is in memory twice.
            let held = if now > before { now + before } else { now };
            before = now;
            assert!(
                number < 1000 || held as u64 <= 141 * number,
                "{held} {number}"
            );
        }
    }

    /// Whatever the number that is kept in memory, the first copy is reported, at once or at the end.
    #[test]
    fn the_first_copy_is_told_whatever_fits_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let ids = [
            "a", "b", "c", "d", "e", "f", "g", "h", "c", "i", "a", "a", "j",
        ];
        for most in [1, 2, 3, 5, 8, 9, 20] {
            let scratch = Scratch {
                folder: folder.path(),
                most,
            };
            for count in [8, ids.len()] {
                let mut entered = Ids::sorted(scratch, [5; 20]);
                let mut copies = Vec::new();
                for (at, id) in ids[..count].iter().enumerate() {
                    let place = ((at / 4) as u32, at as u64);
                    let first = entered.enter(id, place).unwrap();
                    copies.extend(first.map(|first| (place, first)));
                }
                copies.extend(entered.close().unwrap());
                let expected = (count > 8).then_some(((2, 8), (0, 2)));
                assert_eq!(copies.iter().min().copied(), expected, "{most}");
                assert_eq!(entered.close().unwrap(), None);
            }
        }
    }
}
