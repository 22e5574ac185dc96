//! Deduplication: finds units that occurred before.

mod bands;
mod bloom;
mod names;
mod near;
mod same;
mod seen;
mod substring;
pub(crate) mod varint;

use crate::error::{Result, range, within};
use crate::prepare::{ButFor, Stability};
use crate::record::TokenId;
pub use same::same_texts;
use schemars::JsonSchema;
pub(crate) use seen::Seen;
use serde::{Deserialize, Serialize};
use std::ops::Range;
pub(crate) use substring::{Repeats, Stretches};

/// How duplicates are found. Units are compared before redaction, in corpus order; the first one is kept.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Deduplication {
    /// By SHA-1 (Zhao et al. 2022, Algorithm 1) of the tokens. Preparation hashes instead what a record is made of: text,
    /// marked ranges of whatever kind, class, and ranges that carry loss. Stability is 1 if all copies of a unit change
    /// together, 2 for a single copy.
    #[default]
    Exact,
    /// By a Bloom filter over the same hashes: it may drop a unit that is new, and never keeps one that is not.
    /// Stability as for exact deduplication, except for collisions.
    Bloom {
        /// Memory: bits per unit, from 2 to 256.
        bits: u32,
    },
    /// Units whose sets of shingles have a Jaccard similarity of at least `similarity` with a
    /// unit that stays, among those that locality-sensitive hashing of MinHash signatures
    /// brings together. What one unit is decides for any number of others: no stability.
    Near {
        /// Tokens of one shingle, from 1.
        shingle: usize,
        /// Bands of the signature, from 1 to 256: more find more pairs.
        bands: usize,
        /// Hashes of one band, from 1 to 64: more find fewer.
        rows: usize,
        /// Least similarity, in (0, 1].
        similarity: f64,
    },
    /// Stretches of `length` tokens that stand earlier in the corpus become `<MASK>`, the rest
    /// of the unit stays (the exact substrings of Lee et al. 2022). What one unit is decides
    /// for any number of others: no stability.
    Substring {
        /// Tokens of the shortest stretch, from 2.
        length: usize,
    },
}

/// What happens to a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The unit is new.
    Keep,
    /// The unit occurred before, or is taken for one that did.
    Drop,
    /// These tokens, in order and disjoint, occurred before.
    Cut(Vec<Range<usize>>),
}

impl Deduplication {
    /// Checks every number against its range.
    ///
    /// # Errors
    /// Returns an error with the number, its value and its range.
    pub fn validate(&self) -> Result<()> {
        match *self {
            Self::Exact => {}
            Self::Bloom { bits } => {
                within("the bits per unit of a Bloom filter", bits, 2..=256)?;
            }
            Self::Near {
                shingle,
                bands,
                rows,
                similarity,
            } => {
                within("the tokens of a shingle", shingle, 1..=1 << 16)?;
                within("the bands of a signature", bands, 1..=256)?;
                within("the rows of a band", rows, 1..=64)?;
                if !(similarity > 0.0 && similarity <= 1.0) {
                    return Err(range(
                        "the similarity of near-duplicates",
                        similarity,
                        "above 0 and at most 1",
                    ));
                }
            }
            Self::Substring { length } => {
                within("the tokens of a repeated stretch", length, 2..=1 << 24)?;
            }
        }
        Ok(())
    }

    const fn shape(&self) -> Option<near::Shape> {
        match *self {
            Self::Near {
                shingle,
                bands,
                rows,
                similarity,
            } => Some(near::Shape {
                shingle,
                bands,
                rows,
                similarity,
            }),
            _ => None,
        }
    }

    /// Returns the fate of every unit, in order. `seed` keys the hashes of the Bloom filter and of the signatures.
    ///
    /// ```
    /// use reticent_corpus::dedup::{Deduplication, Fate};
    /// let units = [vec![1, 2, 3], vec![4, 5], vec![1, 2, 3]];
    /// assert_eq!(Deduplication::Exact.fates(&units, 0)?, [Fate::Keep, Fate::Keep, Fate::Drop]);
    /// let cut = Deduplication::Substring { length: 2 }.fates(&[vec![1, 2, 3], vec![9, 2, 3]], 0)?;
    /// assert_eq!(cut[1], Fate::Cut(vec![1..3]));
    /// # Ok::<(), reticent_corpus::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Deduplication::validate`].
    pub fn fates(&self, units: &[Vec<TokenId>], seed: u64) -> Result<Vec<Fate>> {
        self.validate()?;
        if let Self::Substring { length } = *self {
            return substring::fates(units, length);
        }
        let mut gate = DuplicateIndex::new(Some(self), units.len(), seed);
        let marker = Marker::new(Some(self), seed);
        let fates = units.iter().map(|unit| {
            let marks = marker.marks(unit);
            fate(gate.enter(&digest(unit), &marks))
        });
        Ok(fates.collect())
    }

    /// Returns the stability for all copies together and for a single copy, and the rare event that a bounded one
    /// excludes. `masked_input` says whether spans were masked beforehand; `units` is the number of units.
    pub(crate) fn stability(
        &self,
        masked_input: bool,
        units: usize,
    ) -> (Stability, Stability, Option<ButFor>) {
        let all = Stability::Bounded(1 + u64::from(masked_input));
        let single = Stability::Bounded(2);
        match *self {
            Self::Exact => (all, single, None),
            Self::Bloom { bits } => {
                let rare = ButFor {
                    all_copies: all,
                    single_copy: single,
                    probability_bits: bloom::collision_bits(units, bits),
                };
                (Stability::Unbounded, Stability::Unbounded, Some(rare))
            }
            Self::Near { .. } | Self::Substring { .. } => {
                (Stability::Unbounded, Stability::Unbounded, None)
            }
        }
    }
}

/// What a unit is compared by besides its digest. Empty if the digest is enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    tokens: Vec<TokenId>,
    sketch: near::Sketch,
    /// Whether a kept unit is near this one, among the first `looked_at` kept units.
    near: bool,
    looked_at: u32,
}

/// Computes the marks of units; used by workers before a unit is entered into the index.
#[derive(Debug)]
pub(crate) struct Marker {
    near: Option<near::Permutations>,
}

impl Marker {
    pub(crate) fn new(by: Option<&Deduplication>, seed: u64) -> Self {
        let shape = by.and_then(Deduplication::shape);
        Self {
            near: shape.map(|shape| near::Permutations::new(shape, seed)),
        }
    }

    /// Returns whether marks depend on the unit's tokens; otherwise they are empty.
    pub(crate) const fn reads_tokens(&self) -> bool {
        self.near.is_some()
    }

    pub(crate) fn marks(&self, unit: &[TokenId]) -> Marks {
        let Some(near) = &self.near else {
            return Marks::default();
        };
        Marks {
            sketch: near.sketch(unit),
            tokens: unit.to_vec(),
            ..Marks::default()
        }
    }
}

/// Enters units one by one, in corpus order, and determines which are duplicates.
#[derive(Debug)]
pub(crate) struct DuplicateIndex {
    /// The digests of the units entered so far.
    seen: Seen,
    method: Method,
}

/// How copies are found.
#[derive(Debug)]
enum Method {
    /// By their digests.
    Digest,
    Bloom(bloom::Filter),
    Near(near::Index),
    /// Every unit is kept, because nothing is dropped or the fates were determined beforehand.
    All,
    /// The same, without counting distinct units.
    Unused,
}

impl DuplicateIndex {
    /// Without a method, every unit is kept. `units` is the expected number of units, for the size of a Bloom filter.
    pub(crate) fn new(by: Option<&Deduplication>, units: usize, seed: u64) -> Self {
        let shape = by.and_then(Deduplication::shape);
        let method = match (by, shape) {
            (Some(Deduplication::Exact), _) => Method::Digest,
            (Some(Deduplication::Bloom { bits }), _) => {
                Method::Bloom(bloom::Filter::new(units, *bits, seed))
            }
            (_, Some(shape)) => Method::Near(near::Index::new(shape)),
            _ => Method::All,
        };
        Self {
            seen: Seen::new(),
            method,
        }
    }

    /// Creates an index that keeps everything, and counts nothing.
    pub(crate) fn unused() -> Self {
        Self {
            seen: Seen::new(),
            method: Method::Unused,
        }
    }

    /// Enters a unit, and returns whether it is kept because it is new, as far as the method can tell.
    pub(crate) fn enter(&mut self, key: &[u8; 20], marks: &Marks) -> bool {
        if let Method::Unused = self.method {
            return true;
        }
        let new = self.seen.insert(*key);
        match &mut self.method {
            Method::Digest => new,
            Method::Bloom(filter) => filter.insert(key),
            Method::Near(_) if marks.near => false,
            Method::Near(index) => index.insert(&marks.tokens, &marks.sketch, marks.looked_at),
            Method::All | Method::Unused => true,
        }
    }

    /// Returns whether a unit is near one that is already kept, and records a positive answer in its marks. Workers
    /// call this before doing more work. Units kept in the meantime are checked when the unit is entered.
    pub(crate) fn has_near(&self, marks: &mut Marks) -> bool {
        if let Method::Near(index) = &self.method {
            marks.looked_at = index.count();
            marks.near = index.has_near(&marks.tokens, &marks.sketch, 0);
            if marks.near {
                marks.tokens = Vec::new();
                marks.sketch = near::Sketch::default();
            }
        }
        marks.near
    }

    /// Returns whether an equal unit was entered before.
    pub(crate) fn knows(&self, key: &[u8; 20]) -> bool {
        self.seen.contains(key)
    }

    /// Returns the number of distinct units entered.
    pub(crate) fn distinct(&self) -> u64 {
        self.seen.count()
    }
}

/// A bijection of 64 bits that mixes every bit (the finaliser of SplitMix64).
const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(crate) fn fate(new: bool) -> Fate {
    if new { Fate::Keep } else { Fate::Drop }
}

/// Returns what exact deduplication of tokens compares: the SHA-1 over the tokens of a unit before redaction. Each
/// token is encoded in groups of seven bits, the lowest first, with a bit that says whether another group follows.
fn digest(tokens: &[TokenId]) -> [u8; 20] {
    use sha1::{Digest, Sha1};
    let mut bytes = Vec::with_capacity(tokens.len());
    varint::encode(tokens, &mut bytes);
    Sha1::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of the same, both looked at before either has had its turn.
    #[test]
    fn a_unit_is_compared_with_those_that_come_while_it_waits() {
        let by = Deduplication::Near {
            shingle: 1,
            bands: 8,
            rows: 1,
            similarity: 0.5,
        };
        let by = Some(&by);
        let (mut index, marker) = (DuplicateIndex::new(by, 0, 0), Marker::new(by, 0));
        let unit = [1, 2, 3];
        let [mut one, mut two, mut late] = [(); 3].map(|()| marker.marks(&unit));
        assert!(!index.has_near(&mut one) && !index.has_near(&mut two));
        assert!(index.enter(&digest(&unit), &one));
        assert!(!index.enter(&digest(&unit), &two));
        assert!(index.has_near(&mut late) && !index.enter(&digest(&unit), &late));
        assert_eq!(index.distinct(), 1);
    }
}
