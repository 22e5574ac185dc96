//! A memory-efficient table from keys to numbers.

use std::collections::HashMap;

/// The most numbers of one key in the table of all keys.
const FEW: usize = 8;

/// A table with keys of 64 bits, of which 32 are stored. The caller compares what a number stands
/// for, so another key with the same bits only costs time. A key may have several numbers.
///
/// The table uses open addressing. At most four fifths of the places are taken, and it grows by a
/// half, so that an entry takes 10 to 15 bytes. hashbrown's table of the same eight bytes would
/// take 10 to 21, since it doubles, and of the number alone 6 to 12, but then the keys would have
/// to be computed again to grow. Beyond the first few, the numbers of a key are a list of their own:
/// the search for any key near them would pass all of them.
#[derive(Debug, Default)]
pub(super) struct Band {
    /// The key's stored bits in the upper half, the number plus one in the lower half; zero if
    /// free.
    places: Vec<u64>,
    taken: usize,
    /// The further numbers of the stored bits of a key, in ascending order.
    more: HashMap<u32, Vec<u32>>,
}

impl Band {
    /// Returns the numbers of a key, and of other keys with the same 32 bits, that are at least `least`.
    pub(super) fn get(&self, key: u64, least: u32) -> impl Iterator<Item = u32> {
        let tag = key as u32;
        let mut at = self.start(tag);
        let (mut count, mut more) = (0, [].iter());
        std::iter::from_fn(move || {
            while count < FEW {
                let place = *self.places.get(at)?;
                if place == 0 {
                    return None;
                }
                at = self.after(at);
                if (place >> 32) as u32 == tag {
                    count += 1;
                    if count == FEW {
                        more = self.more(tag, least).iter();
                    }
                    let number = place as u32 - 1;
                    if number >= least {
                        return Some(number);
                    }
                }
            }
            more.next().copied()
        })
    }

    /// Returns the numbers in the list of a key that are at least `least`.
    fn more(&self, tag: u32, least: u32) -> &[u32] {
        let all = self.more.get(&tag).map_or(&[][..], Vec::as_slice);
        &all[all.partition_point(|number| *number < least)..]
    }

    /// Returns false if [`Band::get`] returns nothing, and true if it may return something.
    pub(super) fn may_have(&self, key: u64) -> bool {
        let first = self.places.get(self.start(key as u32));
        first.is_some_and(|place| *place != 0)
    }

    /// `number` must be below 2³² − 1, and above those that were inserted before.
    pub(super) fn insert(&mut self, key: u64, number: u32) {
        if (self.taken + 1) * 5 > self.places.len() * 4 {
            let wider = (self.places.len() + self.places.len() / 2).max(16);
            let old = std::mem::replace(&mut self.places, vec![0; wider]);
            for place in old.into_iter().filter(|place| *place != 0) {
                self.put(place);
            }
        }
        if self.put((key << 32) | (u64::from(number) + 1)) {
            self.taken += 1;
        } else {
            self.more.entry(key as u32).or_default().push(number);
        }
    }

    /// Returns false if the key has its share of the table already.
    fn put(&mut self, place: u64) -> bool {
        let tag = (place >> 32) as u32;
        let mut at = self.start(tag);
        let mut count = 0;
        while self.places[at] != 0 {
            count += usize::from((self.places[at] >> 32) as u32 == tag);
            if count == FEW {
                return false;
            }
            at = self.after(at);
        }
        self.places[at] = place;
        true
    }

    /// Returns where the search for a key begins; all places are equally likely.
    fn start(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.places.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.places.len() {
            0
        } else {
            at + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys 0, 7, 14, … at both ends of the 32 bits, some with several numbers.
    #[test]
    fn every_number_is_found_under_its_key() {
        let mut band = Band::default();
        let key = |number: u32| u64::from((number / 3).wrapping_mul(0x9e37_79b1));
        assert!(!band.may_have(3) && band.get(3, 0).count() == 0);
        for number in 0..10_000 {
            band.insert(key(number), number);
        }
        for number in 0..10_000 {
            assert!(band.may_have(key(number)));
            let mut found: Vec<u32> = band.get(key(number), 0).collect();
            found.sort_unstable();
            let first = number / 3 * 3;
            let expected: Vec<u32> = (first..first + 3).filter(|n| *n < 10_000).collect();
            assert_eq!(found, expected);
        }
        assert!(band.places.len() * 8 <= 15 * band.taken + 200);
    }

    /// Every third number is that of one key, most of them in its list; the others take the table's places beside it.
    #[test]
    fn a_key_with_many_numbers_fills_no_table() {
        let mut band = Band::default();
        let key = |number: u32| u64::from(number % 3) * u64::from(number);
        for number in 0..3000 {
            band.insert(key(number), number);
        }
        assert_eq!(band.taken, 2000 + FEW);
        for least in [0, 1, 3 * FEW as u32 - 3, 3 * FEW as u32, 1500, 2997, 2998] {
            let mut found: Vec<u32> = band.get(0, least).collect();
            found.sort_unstable();
            let all = (0..3000).step_by(3);
            let expected: Vec<u32> = all.filter(|number| *number >= least).collect();
            assert_eq!(found, expected, "{least}");
        }
        assert!(
            (1..3000)
                .filter(|n| n % 3 == 1)
                .all(|n| band.get(key(n), n).eq([n]))
        );
    }
}
