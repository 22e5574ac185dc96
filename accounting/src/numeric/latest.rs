//! What was computed last, kept for the next question about the same thing.

use std::rc::Rc;

/// Values with the keys that they were computed from, the latest last.
#[derive(Debug)]
pub(crate) struct Latest<K, V> {
    known: Vec<(K, Rc<V>)>,
}

impl<K, V> Latest<K, V> {
    pub(crate) const fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// Returns the value whose key is the `same`, if it is kept.
    pub(crate) fn find(&mut self, same: impl Fn(&K) -> bool) -> Option<Rc<V>> {
        let place = self.known.iter().rposition(|(key, _)| same(key))?;
        let found = self.known.remove(place);
        let value = Rc::clone(&found.1);
        self.known.push(found);
        Some(value)
    }

    /// Keeps a value; drops those that were not asked for longest, as long as all are larger than `most` together.
    pub(crate) fn keep(&mut self, key: K, value: Rc<V>, most: usize, size: impl Fn(&V) -> usize) {
        self.known.push((key, value));
        let mut all: usize = self.known.iter().map(|(_, value)| size(value)).sum();
        let mut dropped = 0;
        while all > most {
            all -= size(&self.known[dropped].1);
            dropped += 1;
        }
        self.known.drain(..dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_is_dropped() {
        let mut latest = Latest::new();
        let size = |value: &usize| *value;
        for (key, value) in [('a', 3), ('b', 4)] {
            latest.keep(key, Rc::new(value), 8, size);
        }
        assert_eq!(latest.find(|key| *key == 'a').as_deref(), Some(&3));
        latest.keep('c', Rc::new(5), 8, size);
        assert!(latest.find(|key| *key == 'b').is_none());
        assert!(latest.find(|key| *key == 'a').is_some());
        // What alone is too large is not kept.
        latest.keep('d', Rc::new(9), 8, size);
        assert!(latest.find(|_| true).is_none());
    }
}
