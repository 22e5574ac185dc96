//! Which documents are held out.

use super::options::PrepareOptions;
use crate::error::{Error, Result};
use crate::random::{Choices, Purpose};
use crate::rows::Scratch;
use reticent_disk::ScratchFile;

/// The numbers of held-out documents: one bit for each document.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldOut {
    /// The number of the first bit, a multiple of 64.
    first: usize,
    bits: Vec<u64>,
    count: usize,
}

impl HeldOut {
    /// Chooses the held-out documents, by number only.
    pub(super) fn drawn(
        documents: usize,
        options: &PrepareOptions,
        scratch: Option<Scratch<'_>>,
    ) -> Result<Self> {
        let count = (options.held_out * documents as f64).round() as usize;
        let mut choices = Choices::new(options.seed, Purpose::HoldOut);
        match scratch {
            Some(Scratch { folder, most }) if documents > most && count > 0 => {
                let drawn = drawn_on_disk(&mut choices, documents, count, folder);
                drawn.map_err(Error::writing(folder))
            }
            _ => Ok(choices.distinct(documents, count).into_iter().collect()),
        }
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        let place = number.checked_sub(self.first);
        let word = place.and_then(|place| self.bits.get(place / 64));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the numbers in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let words = (self.first..).step_by(64).zip(&self.bits);
        words.flat_map(|(first, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| first + bit)
        })
    }

    fn insert(&mut self, number: usize) {
        if self.bits.is_empty() {
            self.first = number / 64 * 64;
        }
        let first = number / 64 * 64;
        if let Some(before) = self.first.checked_sub(first).filter(|before| *before > 0) {
            self.bits.splice(..0, vec![0; before / 64]);
            self.first = first;
        }
        let place = (number - self.first) / 64;
        if place >= self.bits.len() {
            self.bits.resize(place + 1, 0);
        }
        self.count += usize::from(!self.contains(number));
        self.bits[place] |= 1 << (number % 64);
    }
}

impl Extend<usize> for HeldOut {
    fn extend<T: IntoIterator<Item = usize>>(&mut self, numbers: T) {
        numbers.into_iter().for_each(|number| self.insert(number));
    }
}

impl FromIterator<usize> for HeldOut {
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let mut out = Self::default();
        out.extend(numbers);
        out
    }
}

/// Draws what [`Choices::distinct`] does. The list of all numbers lies in a file, where zero stands for the number that
/// was there first.
fn drawn_on_disk(
    choices: &mut Choices,
    length: usize,
    count: usize,
    folder: &std::path::Path,
) -> std::io::Result<HeldOut> {
    const WIDTH: u64 = 8;
    let file = ScratchFile::create_in(folder)?;
    file.set_length(length as u64 * WIDTH)?;
    let at = |place: usize| -> std::io::Result<u64> {
        let mut bytes = [0; WIDTH as usize];
        file.read_at(&mut bytes, place as u64 * WIDTH)?;
        let number = u64::from_le_bytes(bytes).checked_sub(1);
        Ok(number.unwrap_or(place as u64))
    };
    let mut out = HeldOut {
        bits: vec![0; length.div_ceil(64)],
        ..HeldOut::default()
    };
    for i in 0..count.min(length) {
        let j = i + choices.index(length - i);
        out.insert(usize::try_from(at(j)?).unwrap_or(usize::MAX));
        // What stands before i is not read again.
        let moved = at(i)? + 1;
        file.write_at(&moved.to_le_bytes(), j as u64 * WIDTH)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_enter_in_any_order() {
        let numbers = [700, 64, 3, 700, 127, 128, 0, 699];
        let set: HeldOut = numbers.into_iter().collect();
        let all: Vec<usize> = set.iter().collect();
        assert_eq!(all, [0, 3, 64, 127, 128, 699, 700]);
        assert_eq!(set.len(), all.len());
        let contained = (0..1000).filter(|number| set.contains(*number));
        assert!(contained.eq(all));
        let late: HeldOut = [1_000_001, 1_000_000].into_iter().collect();
        assert!(late.contains(1_000_001) && !late.contains(1) && !late.contains(999_999));
        assert!(late.bits.len() < 3);
    }

    #[test]
    fn the_same_are_drawn_in_memory_and_on_the_disk() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        for held_out in [0.0, 0.1, 0.5, 0.97, 1.0] {
            for documents in [1, 2, 63, 64, 1000] {
                let options = PrepareOptions {
                    held_out,
                    seed: documents as u64,
                    ..PrepareOptions::default()
                };
                let drawn = |scratch| HeldOut::drawn(documents, &options, scratch).unwrap();
                let (memory, disk) = (drawn(None), drawn(Some(Scratch { folder, most: 0 })));
                assert!(disk.iter().eq(memory.iter()), "{held_out} {documents}");
                assert_eq!(disk.len(), memory.len());
            }
        }
    }
}
