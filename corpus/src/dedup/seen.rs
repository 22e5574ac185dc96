//! The digests entered so far.

use std::collections::HashSet;

/// Digests in 256 tables by their first byte. A table that grows is briefly in memory twice; with 256 tables, this
/// affects only one part in 256 of the digests.
#[derive(Debug)]
pub(crate) struct Seen {
    tables: Vec<HashSet<[u8; 20]>>,
    count: u64,
}

impl Seen {
    pub(crate) fn new() -> Self {
        Self {
            tables: vec![HashSet::new(); 256],
            count: 0,
        }
    }

    /// Enters a digest, and returns whether it is new.
    pub(crate) fn insert(&mut self, digest: [u8; 20]) -> bool {
        let new = self.tables[usize::from(digest[0])].insert(digest);
        self.count += u64::from(new);
        new
    }

    pub(crate) fn contains(&self, digest: &[u8; 20]) -> bool {
        self.tables[usize::from(digest[0])].contains(digest)
    }

    /// Returns the number of digests.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::digest;

    #[test]
    fn each_is_new_once_and_no_two_tables_grow_at_a_time() {
        let mut seen = Seen::new();
        let key = |number: u32| digest(&number.to_le_bytes());
        let room = |seen: &Seen| seen.tables.iter().map(HashSet::capacity).sum::<usize>();
        // A table has a power of two of places, of which seven in eight may be taken, with an entry and a byte each.
        let bytes = |table: &HashSet<[u8; 20]>| {
            let places = (table.capacity() * 8).div_ceil(7).next_power_of_two();
            places * (size_of::<[u8; 20]>() + 1)
        };
        let mut most = 0;
        for number in 0..50_000 {
            let before = room(&seen);
            assert!(!seen.contains(&key(number)));
            assert!(seen.insert(key(number)) && !seen.insert(key(number)));
            most = most.max(room(&seen) - before);
        }
        assert_eq!(seen.count(), 50_000);
        assert!(most * 100 < room(&seen), "{most}");
        // As the help of the commands says.
        let held: usize = seen.tables.iter().map(bytes).sum();
        assert!(held <= 50 * 50_000, "{held}");
    }
}
