//! A table from keys to numbers that takes as little memory as it can.

/// Keys of 64 bits, of which 32 are kept: who finds a number compares what it stands for, so that
/// another key with the same bits costs time and nothing else. A key may have several numbers.
///
/// Open addressing; at most four fifths of the places are taken, and it grows by a half, so that
/// an entry takes 10 to 15 bytes. hashbrown's table of the same eight would take 10 to 21, as it
/// doubles; of the number alone 6 to 12, but there the keys would have to be found again to grow.
#[derive(Debug, Default)]
pub(super) struct Band {
    /// The key's bits above, the number and one below; zero: free.
    places: Vec<u64>,
    taken: usize,
}

impl Band {
    /// Numbers of a key, and of others with the same 32 bits.
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

    /// False where [`Band::get`] gives none, true where it may give some.
    pub(super) fn may_have(&self, key: u64) -> bool {
        let first = self.places.get(self.start(key as u32));
        first.is_some_and(|place| *place != 0)
    }

    /// `number`: below 2³² − 1.
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

    /// Where the search for a key begins: all places are equally likely.
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
