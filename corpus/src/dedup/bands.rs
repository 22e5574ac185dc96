//! A memory-efficient table from keys to numbers.

/// A table with keys of 64 bits, of which 32 are stored. The caller compares what a number stands
/// for, so another key with the same bits only costs time. A key may have several numbers.
///
/// The table uses open addressing. At most four fifths of the places are taken, and it grows by a
/// half, so that an entry takes 10 to 15 bytes. hashbrown's table of the same eight bytes would
/// take 10 to 21, since it doubles, and of the number alone 6 to 12, but then the keys would have
/// to be computed again to grow.
#[derive(Debug, Default)]
pub(super) struct Band {
    /// The key's stored bits in the upper half, the number plus one in the lower half; zero if
    /// free.
    places: Vec<u64>,
    taken: usize,
}

impl Band {
    /// Returns the numbers of a key, and of other keys with the same 32 bits.
    pub(super) fn get(&self, key: u64) -> impl Iterator<Item = u32> {
        let tag = key as u32;
        let mut at = self.start(tag);
        std::iter::from_fn(move || {
            loop {
                let place = *self.places.get(at)?;
                if place == 0 {
                    return None;
                }
                at = self.after(at);
                if (place >> 32) as u32 == tag {
                    return Some(place as u32 - 1);
                }
            }
        })
    }

    /// Returns false if [`Band::get`] returns nothing, and true if it may return something.
    pub(super) fn may_have(&self, key: u64) -> bool {
        let first = self.places.get(self.start(key as u32));
        first.is_some_and(|place| *place != 0)
    }

    /// `number` must be below 2³² − 1.
    pub(super) fn insert(&mut self, key: u64, number: u32) {
        if (self.taken + 1) * 5 > self.places.len() * 4 {
            let wider = (self.places.len() + self.places.len() / 2).max(16);
            let old = std::mem::replace(&mut self.places, vec![0; wider]);
            for place in old.into_iter().filter(|place| *place != 0) {
                self.put(place);
            }
        }
        self.taken += 1;
        self.put((key << 32) | (u64::from(number) + 1));
    }

    fn put(&mut self, place: u64) {
        let mut at = self.start((place >> 32) as u32);
        while self.places[at] != 0 {
            at = self.after(at);
        }
        self.places[at] = place;
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
        assert!(!band.may_have(3) && band.get(3).count() == 0);
        for number in 0..10_000 {
            band.insert(key(number), number);
        }
        for number in 0..10_000 {
            assert!(band.may_have(key(number)));
            let mut found: Vec<u32> = band.get(key(number)).collect();
            found.sort_unstable();
            let first = number / 3 * 3;
            let expected: Vec<u32> = (first..first + 3).filter(|n| *n < 10_000).collect();
            assert_eq!(found, expected);
        }
        assert!(band.places.len() * 8 <= 15 * band.taken + 200);
    }
}
