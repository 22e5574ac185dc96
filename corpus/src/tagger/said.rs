//! The evidence of features for names, laid out for many simultaneous lookups.

use super::between::{Evidence, INSIDE};
use super::chain::{Chain, Index};

/// The evidence of one feature for each label of a name, relative to that for none. If it needs more than eight bits,
/// the rest is in further entries.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    feature: u32,
    of: [i8; INSIDE],
}

/// All features of a chain of names, ordered by hash and indexed by their first bits.
#[derive(Debug)]
pub(super) struct Said {
    /// Ascending by feature.
    entries: Vec<Entry>,
    index: Index,
}

/// The number of features looked up together: more than a word has on its own or together with another.
const AT_ONCE: usize = 32;

/// Features that are looked up together, so that their memory accesses overlap.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    said: &'a Said,
    features: [u32; AT_ONCE],
    count: usize,
    sum: Evidence,
}

impl Said {
    pub(super) fn new(chain: &Chain) -> Self {
        let weights: Vec<i8> = chain.weights().collect();
        let mut entries = Vec::with_capacity(chain.hashes.len());
        for (feature, of) in chain.hashes.iter().zip(weights.chunks(chain.labels)) {
            let mut rest: Evidence = [0; INSIDE];
            for (rest, weight) in rest.iter_mut().zip(&of[1..]) {
                *rest = i16::from(*weight) - i16::from(of[0]);
            }
            while rest != [0; INSIDE] {
                let part = rest.map(|of| of.clamp(-127, 127) as i8);
                for (rest, part) in rest.iter_mut().zip(part) {
                    *rest -= i16::from(part);
                }
                entries.push(Entry {
                    feature: *feature,
                    of: part,
                });
            }
        }
        let index = Index::new(entries.iter().map(|entry| entry.feature));
        // A sentinel after the last entry, so that every bucket has a first entry.
        entries.push(Entry {
            feature: u32::MAX,
            of: [0; INSIDE],
        });
        Self { entries, index }
    }

    pub(super) fn lookup(&self) -> Lookup<'_> {
        Lookup {
            said: self,
            features: [0; AT_ONCE],
            count: 0,
            sum: [0; INSIDE],
        }
    }

    /// Returns the total evidence of the features that `features` pushes.
    pub(super) fn of(&self, features: impl FnOnce(&mut Lookup<'_>)) -> Evidence {
        let mut lookup = self.lookup();
        features(&mut lookup);
        lookup.end()
    }
}

impl Lookup<'_> {
    /// Adds a feature, unless it has no evidence.
    #[inline]
    pub(super) fn push(&mut self, feature: u32) {
        if self.count == AT_ONCE {
            self.sum_up();
        }
        self.features[self.count % AT_ONCE] = feature;
        self.count += usize::from(self.said.index.may_have(feature));
    }

    fn sum_up(&mut self) {
        let Said { entries, index } = self.said;
        let count = self.count.min(AT_ONCE);
        // Load the first entry of each bucket, which is usually the right one; these loads are independent.
        let mut first = [Entry::default(); AT_ONCE];
        let mut from = [0u32; AT_ONCE];
        for ((feature, from), first) in self.features[..count].iter().zip(&mut from).zip(&mut first)
        {
            *from = index.start(*feature);
            *first = entries[*from as usize];
        }
        let mut sum = self.sum;
        for ((feature, from), first) in self.features[..count].iter().zip(from).zip(first) {
            let mut entry = first;
            let mut at = from as usize;
            while entry.feature <= *feature {
                if entry.feature == *feature {
                    for (sum, of) in sum.iter_mut().zip(&entry.of) {
                        *sum = sum.wrapping_add(i16::from(*of));
                    }
                }
                at += 1;
                let Some(next) = entries.get(at) else {
                    break;
                };
                entry = *next;
            }
        }
        self.sum = sum;
        self.count = 0;
    }

    pub(super) fn end(mut self) -> Evidence {
        self.sum_up();
        self.sum
    }
}
