//! Encodes the places of units in a shard as bytes.

use super::super::first_pass::UnitPlace;
use crate::dedup::Fate;
use crate::error::{Error, Result};

/// The keyed digest of a unit, and its place.
pub(super) type Row = ([u8; 20], UnitPlace);

/// The size of a [`Row`] in bytes.
pub(super) const ROW: usize = 28;

/// Returns a place in a shard whose first document has the number `first` among the training
/// documents.
pub(super) fn place(document: usize, first: usize, unit: usize) -> Result<UnitPlace> {
    let short = |number: Option<usize>| number.and_then(|number| u32::try_from(number).ok());
    let pair = short(document.checked_sub(first)).zip(short(Some(unit)));
    pair.ok_or_else(|| {
        Error::Sharding(format!(
            "a shard has at most {} documents, and a document as many units; take more shards",
            u32::MAX
        ))
    })
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn put_row(out: &mut Vec<u8>, (key, place): &Row) {
    out.extend_from_slice(key);
    put(out, place.0);
    put(out, place.1);
}

pub(super) fn rows(bytes: &[u8]) -> impl Iterator<Item = Row> {
    let (rows, _) = bytes.as_chunks::<ROW>();
    rows.iter().map(|row| {
        let mut key = [0; 20];
        key.copy_from_slice(&row[..20]);
        let mut place = numbers(&row[20..]);
        (key, (place.next().unwrap_or(0), place.next().unwrap_or(0)))
    })
}

/// Encodes the fate of a unit; a kept unit is not written.
pub(super) fn put_fate(out: &mut Vec<u8>, place: UnitPlace, fate: &Fate) -> Result<()> {
    let ranges = match fate {
        Fate::Keep => return Ok(()),
        Fate::Drop => &[][..],
        Fate::Cut(ranges) => ranges,
    };
    put(out, place.0);
    put(out, place.1);
    put(out, u32::try_from(ranges.len()).unwrap_or(u32::MAX));
    for end in ranges.iter().flat_map(|range| [range.start, range.end]) {
        let short = u32::try_from(end).map_err(|_| {
            Error::Sharding(format!(
                "a unit has at most {} tokens, got one with more",
                u32::MAX
            ))
        })?;
        put(out, short);
    }
    Ok(())
}

/// Decodes fates and passes each one to `visit`. Returns false if the bytes are incomplete.
pub(super) fn each_fate(bytes: &[u8], mut visit: impl FnMut(UnitPlace, Fate)) -> bool {
    let mut numbers = numbers(bytes);
    while let Some(document) = numbers.next() {
        let Some((unit, count)) = numbers.next().zip(numbers.next()) else {
            return false;
        };
        let ranges: Option<Vec<_>> = (0..count)
            .map(|_| {
                let (start, end) = numbers.next().zip(numbers.next())?;
                Some(start as usize..end as usize)
            })
            .collect();
        let Some(ranges) = ranges else {
            return false;
        };
        let fate = if ranges.is_empty() {
            Fate::Drop
        } else {
            Fate::Cut(ranges)
        };
        visit((document, unit), fate);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_and_rows_come_back() {
        let mut bytes = Vec::new();
        put_fate(&mut bytes, (0, 7), &Fate::Drop).unwrap();
        put_fate(&mut bytes, (1, 0), &Fate::Keep).unwrap();
        put_fate(&mut bytes, (2, 3), &Fate::Cut(vec![1..4, 9..11])).unwrap();
        let mut visited = Vec::new();
        assert!(each_fate(&bytes, |place, fate| visited.push((place, fate))));
        let expected = [((0, 7), Fate::Drop), ((2, 3), Fate::Cut(vec![1..4, 9..11]))];
        assert_eq!(visited, expected);
        assert!(!each_fate(&bytes[..bytes.len() - 4], |_, _| ()));
        let all: [Row; 2] = [([1; 20], (2, 3)), ([4; 20], (u32::MAX, 0))];
        let mut bytes = Vec::new();
        all.iter().for_each(|row| put_row(&mut bytes, row));
        assert_eq!(rows(&bytes).collect::<Vec<_>>(), all);
        assert_eq!(place(9, 4, 2).unwrap(), (5, 2));
        assert!(place(3, 4, 2).is_err());
    }
}
