//! Near-duplicates: MinHash signatures, banded into buckets, and the exact similarity of what
//! meets in one.
//!
//! Memory for each unit that stays: 10 to 15 bytes for each band, its tokens at one to five bytes
//! each, and 12 bytes. Signatures are not kept.

use super::bands::Band;
use crate::record::TokenId;

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) shingle: usize,
    pub(super) bands: usize,
    pub(super) rows: usize,
    pub(super) similarity: f64,
}

/// What is known of a unit without any other: workers make it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sketch {
    /// Hashes of its different shingles, in order.
    shingles: Vec<u64>,
    /// One key for each band of the signature.
    bands: Vec<u64>,
}

/// The units that stay, by the bands of their signatures.
#[derive(Debug)]
pub(super) struct Index {
    shape: Shape,
    bands: Vec<Band>,
    kept: StoredTokens,
}

impl Index {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            bands: (0..shape.bands).map(|_| Band::default()).collect(),
            kept: StoredTokens::default(),
        }
    }

    /// Enters a unit unless it is near one that stays; whether it stays.
    pub(super) fn insert(&mut self, unit: &[TokenId], sketch: &Sketch) -> bool {
        let mut met: Vec<u32> = Vec::new();
        for (band, key) in self.bands.iter().zip(&sketch.bands) {
            met.extend(band.get(*key));
        }
        met.sort_unstable();
        met.dedup();
        if met.iter().any(|&other| self.near(&sketch.shingles, other)) {
            return false;
        }
        if let Ok(number) = u32::try_from(self.kept.ends.len()) {
            for (band, key) in self.bands.iter_mut().zip(&sketch.bands) {
                band.insert(*key, number);
            }
            self.kept.push(unit, sketch.shingles.len());
        }
        true
    }

    /// Whether a unit that stays is as similar as that.
    fn near(&self, own: &[u64], other: u32) -> bool {
        let (count, least) = (
            self.kept.shingles[other as usize] as usize,
            self.shape.similarity,
        );
        let similar = |both: usize| both as f64 >= least * (own.len() + count - both) as f64;
        // All of the smaller set in the larger one would not be enough.
        similar(own.len().min(count)) && {
            let tokens = self.kept.tokens(other);
            let places = tokens.len().saturating_sub(self.shape.shingle) + 1;
            let mut there = vec![false; own.len()];
            let mut both = 0;
            for (place, shingle) in each(&tokens, self.shape.shingle).enumerate() {
                // Not even if all that follow were new and in both.
                if !similar((both + places - place).min(own.len()).min(count)) {
                    return false;
                }
                if let Ok(at) = own.binary_search(&shingle) {
                    both += usize::from(!std::mem::replace(&mut there[at], true));
                }
            }
            similar(both)
        }
    }
}

/// The tokens of units, one after the other, seven bits to a byte.
#[derive(Debug, Default)]
struct StoredTokens {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u64>,
    /// How many different shingles each has.
    shingles: Vec<u32>,
}

impl StoredTokens {
    fn push(&mut self, unit: &[TokenId], shingles: usize) {
        for &token in unit {
            let mut rest = token;
            while rest >= 0x80 {
                self.bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.bytes.push(rest as u8);
        }
        self.ends.push(self.bytes.len() as u64);
        self.shingles
            .push(u32::try_from(shingles).unwrap_or(u32::MAX));
    }

    fn tokens(&self, number: u32) -> Vec<TokenId> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let bytes = &self.bytes[start as usize..self.ends[number] as usize];
        let mut out = Vec::with_capacity(bytes.len());
        let (mut token, mut shift) = (0, 0);
        for byte in bytes {
            token |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                out.push(token);
                (token, shift) = (0, 0);
            }
        }
        out
    }
}

/// Hashes of the different shingles of a unit, in order; one shorter than a shingle is its own.
/// Shingles of units that meet in a bucket are compared by 64 bits: with a million of them on
/// each side, two are taken for one with a probability below 1e-7.
pub(super) fn shingles(unit: &[TokenId], length: usize) -> Vec<u64> {
    let mut out: Vec<u64> = each(unit, length).collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn each(unit: &[TokenId], length: usize) -> impl Iterator<Item = u64> {
    // Of a shorter one there is a window of its own length; of none, none, and then itself.
    let length = length.min(unit.len()).max(1);
    let none = unit.is_empty().then(|| hash(unit));
    unit.windows(length).map(hash).chain(none)
}

/// The permutations of a signature: x ↦ (x ⊕ salt)·factor, a bijection of 64 bits, as the factor
/// is odd. One multiplication is enough behind a hash that spreads already, and what meets in a
/// bucket is compared exactly, so that a bad one costs recall and nothing else.
#[derive(Debug)]
pub(super) struct Permutations {
    shape: Shape,
    each: Vec<(u64, u64)>,
}

impl Permutations {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let each = (1..=(shape.bands * shape.rows) as u64).map(|number| {
            let salt = mix(seed ^ mix(number));
            (salt, mix(salt) | 1)
        });
        Self {
            shape,
            each: each.collect(),
        }
    }

    pub(super) fn sketch(&self, unit: &[TokenId]) -> Sketch {
        let shingles = shingles(unit, self.shape.shingle);
        Sketch {
            bands: self.bands(&shingles),
            shingles,
        }
    }

    /// One key for each band of the signature of a set of shingles.
    pub(super) fn bands(&self, shingles: &[u64]) -> Vec<u64> {
        let mut signature = vec![u64::MAX; self.each.len()];
        for hash in shingles {
            for (least, (salt, factor)) in signature.iter_mut().zip(&self.each) {
                *least = (*least).min((hash ^ salt).wrapping_mul(*factor));
            }
        }
        let rows = signature.chunks(self.shape.rows);
        rows.map(|rows| rows.iter().fold(0, |key, least| mix(key ^ least)))
            .collect()
    }
}

fn hash(tokens: &[TokenId]) -> u64 {
    tokens
        .iter()
        .fold(tokens.len() as u64, |h, t| mix(h ^ u64::from(*t)))
}

/// A bijection of 64 bits that spreads every bit (the finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_every_length_are_kept() {
        let mut kept = StoredTokens::default();
        let units: [&[TokenId]; 4] = [&[0, 127, 128, 16_383], &[], &[u32::MAX, 1 << 21], &[7]];
        units.iter().for_each(|unit| kept.push(unit, 1));
        for (number, unit) in (0..).zip(units) {
            assert_eq!(kept.tokens(number), unit);
        }
    }

    /// 300 units of ten kinds of shapes from a generator with seed 1, compared with the sets of
    /// their shingles themselves; nothing random is asserted.
    #[test]
    fn what_stays_is_what_the_sets_say() {
        use std::collections::HashSet;
        let shape = Shape {
            shingle: 3,
            bands: 64,
            rows: 1,
            similarity: 0.5,
        };
        let (mut state, mut stay) = (1, 0);
        let mut draw = |below: u64| {
            state = mix(state);
            (state % below) as u32
        };
        let (mut index, permutations) = (Index::new(shape), Permutations::new(shape, 0));
        let mut kept: Vec<HashSet<Vec<TokenId>>> = Vec::new();
        for number in 0..300 {
            let length = draw(2 + number % 10 * 4);
            let unit: Vec<TokenId> = (0..length).map(|_| draw(2 + number % 3)).collect();
            let own: HashSet<Vec<TokenId>> = if unit.len() <= 3 {
                HashSet::from([unit.clone()])
            } else {
                unit.windows(3).map(<[TokenId]>::to_vec).collect()
            };
            // With 64 bands of one row, sets of half in common miss each other once in 2^64.
            let near = kept.iter().any(|other| {
                let both = own.intersection(other).count();
                2 * both >= own.len() + other.len() - both
            });
            assert_eq!(index.insert(&unit, &permutations.sketch(&unit)), !near);
            if !near {
                kept.push(own);
                stay += 1;
            }
        }
        assert!((50..250).contains(&stay), "{stay}");
    }
}
