//! Finds repeated stretches of a given length exactly, in less memory than the text.
//!
//! A stretch is repeated if an equal one begins earlier. The first stretch of each content is stored in a table by its
//! rolling hash. A stretch that meets it there is compared token by token, so the result is exact whatever the hash.
//! The hashes are divided into parts, and each part makes its own pass over the text, so that a table holds only one
//! part. If a stretch is repeated, so is the next one as long as the tokens agree, whichever part it belongs to. The
//! first part therefore finds most repeated stretches, and since these are not stored in a table, the later parts are
//! wider.
//!
//! The tokens lie in a file ([`Names`]): each takes one byte if there are at most 255 different ones, two up to 65 535,
//! else four. A pass reads the file from beginning to end. A stretch that meets another in a table is compared with it
//! only if a byte of their hashes agrees too, so that nearly all that is read besides is equal.
//!
//! Memory: one bit per token; 8 bytes per unit; and the tables ([`room`]).

use super::names::{MOST, Name, Names, Room};
use super::{Fate, mix};
use crate::error::{Error, Result};
use crate::record::TokenId;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The name after the last token of a unit; no stretch contains it.
const END: u32 = 0;

/// Units, concatenated, in which repeated stretches are searched for.
#[derive(Debug)]
pub(crate) struct Stretches {
    /// The number of tokens in a stretch.
    length: usize,
    /// The names of tokens: from 1, in order of appearance; 0 if none yet. Indexed by token if it is small.
    known: Vec<u32>,
    others: HashMap<TokenId, u32>,
    count_known: u32,
    names: Names,
    /// The folder on whose disk they may lie; empty without one.
    folder: PathBuf,
    /// Where each unit begins, including units that are too short for a stretch and take no room; finally, where the
    /// last unit ends.
    starts: Vec<u64>,
    /// The number of stretches.
    count: u64,
}

impl Stretches {
    /// `folder`: where a file may be that has no name. Without one, all tokens are kept in memory.
    pub(crate) fn new(length: usize, folder: Option<&Path>) -> Self {
        Self::keeping(length, folder, MOST)
    }

    /// `most`: how many bytes of tokens are kept in memory before there is a file.
    fn keeping(length: usize, folder: Option<&Path>, most: usize) -> Self {
        Self {
            length,
            known: Vec::new(),
            others: HashMap::new(),
            count_known: 0,
            names: Names::new(folder, most),
            folder: folder.map_or_else(PathBuf::new, Path::to_path_buf),
            starts: Vec::new(),
            count: 0,
        }
    }

    /// Appends a unit.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub(crate) fn push(&mut self, unit: &[TokenId]) -> Result<()> {
        self.starts.push(self.names.len() as u64);
        if unit.len() < self.length {
            return Ok(());
        }
        self.count += (unit.len() - self.length + 1) as u64;
        let (known, others, count) = (&mut self.known, &mut self.others, &mut self.count_known);
        let mut name = |token: &TokenId| {
            /// Tokens below this have their names in a list.
            const LISTED: usize = 1 << 20;
            let place = *token as usize;
            let name = if place < LISTED {
                if place >= known.len() {
                    known.resize(place + 1, 0);
                }
                &mut known[place]
            } else {
                others.entry(*token).or_insert(0)
            };
            if *name == 0 {
                *count += 1;
                *name = *count;
            }
            *name
        };
        let names = unit.iter().map(&mut name).chain([END]);
        let written = self.names.extend(names);
        written.map_err(Error::writing(&self.folder))
    }

    /// Finds the repeated stretches with this many threads. Returns `None` if `go_on`, which is called from time to
    /// time, returns false.
    ///
    /// # Errors
    /// Returns an error if the disk is full or gone.
    pub(crate) fn repeats(
        self,
        threads: usize,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Repeats>> {
        let room = room(self.count);
        self.in_room(threads, room, go_on)
    }

    fn in_room(
        mut self,
        threads: usize,
        room: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Repeats>> {
        self.starts.push(self.names.len() as u64);
        let share = Share::new(self.count, threads, room);
        let found = self.names.close().and_then(|()| match self.names.width() {
            1 => marks::<u8>(&self, share, go_on),
            2 => marks::<u16>(&self, share, go_on),
            _ => marks::<u32>(&self, share, go_on),
        });
        let marks = found.map_err(Error::reading(&self.folder))?;
        Ok(marks.map(|marks| Repeats {
            length: self.length,
            starts: self.starts,
            marks,
        }))
    }
}

/// Returns the number of bytes for the tables of all threads. In the worst case, half of it is lost by rounding to a
/// power of two.
fn room(stretches: u64) -> u64 {
    (stretches / 8 * 3).max(100 << 20)
}

/// How the work is divided.
#[derive(Debug, Clone, Copy)]
struct Share {
    threads: usize,
    /// The number of stretches.
    stretches: u64,
    /// The number of entries of a table.
    entries: u64,
}

impl Share {
    fn new(stretches: u64, threads: usize, room: u64) -> Self {
        // A place takes one byte besides the entry; seven eighths of the places are used.
        let places = room / threads as u64 / (size_of::<Stored>() as u64 + 1);
        let most = (1 << places.max(64).ilog2()) / 8 * 7;
        Self {
            threads,
            stretches,
            entries: stretches.div_ceil(threads as u64).clamp(1, most),
        }
    }

    /// Returns how many of the 2⁶⁴ hashes fit in a table if this many stretches are already marked, which are not
    /// stored. Hashes are distributed unevenly; a table that has to grow only costs memory.
    fn width(&self, marked: u64) -> u128 {
        let left = (self.stretches - marked).max(1);
        let fits = (u128::from(self.entries - self.entries / 32) << 64) / u128::from(left);
        fits.min(HASHES.div_ceil(self.threads as u128))
    }
}

/// The number of hashes.
const HASHES: u128 = 1 << 64;

/// Where a stretch begins, in 40 bits: a bit for each of so many tokens takes 128 GiB. Then a byte of its hash that the
/// table does not look at.
#[derive(Debug, Clone, Copy)]
struct Stored([u8; 6]);

impl Stored {
    fn of(at: usize, key: u64) -> Self {
        let [a, b, c, d, e, ..] = (at as u64).to_le_bytes();
        Self([a, b, c, d, e, Self::tag(key)])
    }

    /// The table goes by the seven highest bits of a hash and by the lowest.
    const fn tag(key: u64) -> u8 {
        (key >> 48) as u8
    }

    const fn has(self, key: u64) -> bool {
        self.0[5] == Self::tag(key)
    }

    fn at(self) -> usize {
        let [a, b, c, d, e, _] = self.0;
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]) as usize
    }
}

/// Returns a bit for each place: whether the stretch that begins there is repeated.
fn marks<N: Name>(
    text: &Stretches,
    share: Share,
    go_on: &dyn Fn() -> bool,
) -> std::io::Result<Option<Vec<u64>>> {
    let words = text.names.len().div_ceil(64);
    let marks = Marks((0..words).map(|_| AtomicU64::new(0)).collect());
    let search = Search {
        names: &text.names,
        starts: &text.starts,
        length: text.length,
        marks: &marks,
    };
    let table = || HashTable::with_capacity(share.entries as usize);
    let mut tables: Vec<HashTable<Stored>> = (0..share.threads).map(|_| table()).collect();
    let mut from = 0;
    while from < HASHES {
        if !go_on() {
            return Ok(None);
        }
        let width = share.width(marks.count());
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for table in &mut tables {
                let (part, search) = (from..from + width, &search);
                running.push(scope.spawn(move || search.part::<N>(&part, table)));
                from += width;
            }
            let ended = running.into_iter().map(|part| part.join());
            let mut ended = ended.map(|part| part.unwrap_or_else(|panic| resume_unwind(panic)));
            ended.try_for_each(|part| part)
        })?;
    }
    let words = marks.0.into_iter().map(AtomicU64::into_inner);
    Ok(Some(words.collect()))
}

/// Bits that several threads set. Bits are never cleared. Whether a thread sees the bits of another affects its work
/// but not the result.
#[derive(Debug)]
struct Marks(Vec<AtomicU64>);

impl Marks {
    fn set(&self, at: usize) {
        self.0[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
    }

    /// Returns the number of bits set.
    fn count(&self) -> u64 {
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed));
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    fn has(&self, at: usize) -> bool {
        is_set(self.0[at / 64].load(Ordering::Relaxed), at)
    }
}

const fn is_set(word: u64, at: usize) -> bool {
    word >> (at % 64) & 1 == 1
}

/// The search for repeated stretches in a text.
struct Search<'a> {
    names: &'a Names,
    /// Where each unit begins, and last where the text ends.
    starts: &'a [u64],
    length: usize,
    marks: &'a Marks,
}

/// The number of names that are read at once, unless a unit has more.
const WINDOW: u64 = 1 << 18;

/// The number of names that are read at once behind a stretch that is repeated.
const BEHIND: usize = 128;

/// Some units of the text, and what is read of the text before them.
struct Window<'a, N> {
    names: &'a Names,
    /// Where the units begin.
    start: usize,
    units: &'a [N],
    room: &'a RefCell<Room<N>>,
    /// Why something could not be read.
    failed: &'a Cell<Option<std::io::Error>>,
}

impl<N: Name> Window<'_, N> {
    /// Passes a piece of the text to `read`; `None` if it cannot be read.
    fn read<T>(&self, range: Range<usize>, read: impl FnOnce(&[N]) -> T) -> Option<T> {
        let here = range
            .start
            .checked_sub(self.start)
            .map(|start| start..start + range.len());
        if let Some(names) = here.and_then(|here| self.units.get(here)) {
            return Some(read(names));
        }
        match self.names.get(range, &mut self.room.borrow_mut()) {
            Ok(names) => Some(read(names)),
            Err(error) => {
                self.failed.set(Some(error));
                None
            }
        }
    }
}

impl Search<'_> {
    /// Marks the repeated stretches whose hashes are in a part, and those that follow them.
    fn part<N: Name>(
        &self,
        part: &Range<u128>,
        table: &mut HashTable<Stored>,
    ) -> std::io::Result<()> {
        table.clear();
        let roll = Roll::new(self.length);
        let (mut here, room, failed) = (Room::default(), RefCell::default(), Cell::new(None));
        let mut starts = self.starts;
        while let Some((&start, later)) = starts.split_first() {
            let count = later.partition_point(|end| end - start < WINDOW);
            // As many as fit, and one at least.
            let Some(end) = later.get(count.max(1) - 1) else {
                break;
            };
            starts = &later[count.max(1) - 1..];
            let start = start as usize;
            let units: &[N] = self.names.get(start..*end as usize, &mut here)?;
            let window = Window {
                names: self.names,
                start,
                units,
                room: &room,
                failed: &failed,
            };
            let mut start = start;
            for unit in units.split(|name| (*name).into() == END) {
                let mut hash = 0;
                for at in 0..(unit.len() + 1).saturating_sub(self.length) {
                    hash = match at.checked_sub(1) {
                        None => roll.first(&unit[..self.length]),
                        Some(before) => roll.next(hash, unit[before], unit[at + self.length - 1]),
                    };
                    let spread = mix(hash);
                    if part.contains(&u128::from(spread)) {
                        self.enter(
                            (start + at, &unit[at..]),
                            mix(spread),
                            table,
                            &roll,
                            &window,
                        );
                    }
                }
                start += unit.len() + 1;
            }
            if let Some(error) = failed.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Enters a stretch: where it begins, and the rest of its unit from there.
    fn enter<N: Name>(
        &self,
        (at, rest): (usize, &[N]),
        key: u64,
        table: &mut HashTable<Stored>,
        roll: &Roll,
        window: &Window<'_, N>,
    ) {
        if self.marks.has(at) {
            return;
        }
        let (own, behind) = rest.split_at(self.length);
        let stretch = |place: &Stored| place.at()..place.at() + self.length;
        let found = table.entry(
            key,
            |place| {
                place.has(key) && window.read(stretch(place), |other| other == own) == Some(true)
            },
            |place| {
                let hash = window.read(stretch(place), |other| mix(mix(roll.first(other))));
                hash.unwrap_or_default()
            },
        );
        match found {
            Entry::Vacant(free) => {
                free.insert(Stored::of(at, key));
            }
            Entry::Occupied(there) => self.mark(there.get().at(), (at, behind), window),
        }
    }

    /// Marks a stretch that equals an earlier one, and the following ones as long as they are equal. Stops at one that
    /// is already marked, because what follows it is found from there. `behind` follows the stretch in its unit.
    fn mark<N: Name>(&self, earlier: usize, (at, behind): (usize, &[N]), window: &Window<'_, N>) {
        self.marks.set(at);
        let mut more = 0;
        for own in behind.chunks(BEHIND) {
            // Most stretches that a later part finds stand before those that an earlier one found.
            if self.marks.has(at + more + 1) {
                return;
            }
            let from = earlier + self.length + more;
            // Both units end with the name `END`, which `own` does not contain.
            let other = from..(from + own.len()).min(self.names.len());
            let equal = window.read(other, |other| {
                let pairs = own.iter().zip(other);
                pairs.take_while(|(one, other)| one == other).count()
            });
            for _ in 0..equal.unwrap_or(0) {
                more += 1;
                if self.marks.has(at + more) {
                    return;
                }
                self.marks.set(at + more);
            }
            if equal != Some(own.len()) {
                return;
            }
        }
    }
}

/// The rolling hash Σ c(tᵢ)·Bⁿ⁻¹⁻ⁱ modulo 2⁶⁴ over a stretch of n names, where c mixes all bits. Collisions only cost
/// time.
struct Roll {
    length: usize,
    /// Bⁿ.
    out: u64,
}

const BASE: u64 = 0xd130_2f4b_82a9_5c6d;

impl Roll {
    fn new(length: usize) -> Self {
        Self {
            length,
            out: (0..length).fold(1, |power: u64, _| power.wrapping_mul(BASE)),
        }
    }

    fn first<N: Name>(&self, stretch: &[N]) -> u64 {
        debug_assert_eq!(stretch.len(), self.length);
        stretch.iter().fold(0, |hash: u64, name| {
            hash.wrapping_mul(BASE).wrapping_add(spread(*name))
        })
    }

    /// Returns the hash of the next stretch.
    fn next<N: Name>(&self, hash: u64, left: N, entered: N) -> u64 {
        let left = spread(left).wrapping_mul(self.out);
        let shifted = hash.wrapping_mul(BASE).wrapping_add(spread(entered));
        shifted.wrapping_sub(left)
    }
}

/// Mixes a name: one multiplication, since the sum is mixed again.
fn spread<N: Name>(name: N) -> u64 {
    let wide = u64::from(name.into()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ (wide >> 32)
}

/// The repeated stretches.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    length: usize,
    starts: Vec<u64>,
    marks: Vec<u64>,
}

impl Repeats {
    /// Returns what is repeated in a unit: ranges of its tokens, in order and disjoint.
    pub(crate) fn cut(&self, unit: usize) -> Vec<Range<usize>> {
        let mut cut: Vec<Range<usize>> = Vec::new();
        let (Some(start), Some(next)) = (self.starts.get(unit), self.starts.get(unit + 1)) else {
            return cut;
        };
        let (start, next) = (*start as usize, *next as usize);
        // The last place is that of its end.
        for at in 0..(next - start).saturating_sub(self.length) {
            if !is_set(self.marks[(start + at) / 64], start + at) {
                continue;
            }
            match cut.last_mut() {
                Some(last) if at <= last.end => last.end = at + self.length,
                _ => cut.push(at..at + self.length),
            }
        }
        cut
    }
}

pub(super) fn fates(units: &[Vec<TokenId>], length: usize) -> Result<Vec<Fate>> {
    let mut stretches = Stretches::new(length, None);
    units.iter().try_for_each(|unit| stretches.push(unit))?;
    // The search is never stopped.
    let repeats = stretches.repeats(1, &|| true)?.unwrap_or_default();
    let fate = |cut: Vec<Range<usize>>| match cut.is_empty() {
        true => Fate::Keep,
        false => Fate::Cut(cut),
    };
    let all = (0..units.len()).map(|unit| fate(repeats.cut(unit)));
    Ok(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// By the definition: the content of every stretch that came before.
    fn by_content(units: &[Vec<TokenId>], length: usize) -> Vec<Vec<bool>> {
        let mut seen: HashSet<&[TokenId]> = HashSet::new();
        units
            .iter()
            .map(|unit| {
                let mut cut = vec![false; unit.len()];
                for (at, stretch) in unit.windows(length).enumerate() {
                    if !seen.insert(stretch) {
                        cut[at..at + length].fill(true);
                    }
                }
                cut
            })
            .collect()
    }

    /// Units from a generator with seed 1, with pieces of earlier ones in them; alphabets that take one,
    /// two and four bytes, in memory and in a file; one to 300 parts, one to five threads. Nothing random is asserted.
    #[test]
    fn however_it_is_divided_the_result_is_the_definition() {
        let place = tempfile::tempdir().unwrap();
        let mut state = 1;
        let mut draw = move |below: usize| {
            state = mix(state);
            (state >> 16) as usize % below
        };
        for (alphabet, length) in [(2, 12), (40, 2), (40, 7), (300, 3), (80_000, 5)] {
            let mut units: Vec<Vec<TokenId>> = Vec::new();
            for _ in 0..2000 {
                let mut unit: Vec<TokenId> = (0..draw(90))
                    .map(|_| draw(alphabet) as TokenId * 3)
                    .collect();
                if !units.is_empty() && draw(2) == 0 {
                    let other = units[draw(units.len())].clone();
                    let from = draw(other.len() + 1);
                    let to = from + draw(other.len() - from + 1);
                    let at = draw(unit.len() + 1);
                    unit.splice(at..at, other[from..to].iter().copied());
                }
                units.push(unit);
            }
            let expected = by_content(&units, length);
            for (threads, room) in [(1, 1 << 30), (1, 2000), (2, 9000), (5, 100_000)] {
                let mut stretches = match threads {
                    1 => Stretches::new(length, None),
                    _ => Stretches::keeping(length, Some(place.path()), 2000),
                };
                units
                    .iter()
                    .try_for_each(|unit| stretches.push(unit))
                    .unwrap();
                let repeats = stretches.in_room(threads, room, &|| true).unwrap().unwrap();
                for (number, (unit, expected)) in units.iter().zip(&expected).enumerate() {
                    let mut cut = vec![false; unit.len()];
                    for range in repeats.cut(number) {
                        cut[range].fill(true);
                    }
                    assert_eq!(&cut, expected, "{alphabet}, {length}, {threads}, {room}");
                }
            }
        }
    }

    #[test]
    fn the_tables_stay_in_their_room() {
        for stretches in [0, 1, 70_000, 100_000_000, 1_000_000_000_u64] {
            for threads in [1, 2, 64] {
                let room = room(stretches);
                let share = Share::new(stretches, threads, room);
                let table = HashTable::<Stored>::with_capacity(share.entries as usize);
                assert!((threads * table.allocation_size()) as u64 <= room + room / 50);
            }
        }
    }

    #[test]
    fn a_search_can_be_stopped() {
        let mut stretches = Stretches::new(2, None);
        stretches.push(&[1, 2, 3, 1, 2]).unwrap();
        assert!(stretches.repeats(1, &|| false).unwrap().is_none());
    }
}
