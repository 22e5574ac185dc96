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

    /// How many units stay.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.kept.ends.len()).unwrap_or(u32::MAX)
    }

    /// Whether a unit is near one that stays, of those from a number on.
    pub(super) fn has_near(&self, sketch: &Sketch, from: u32) -> bool {
        let mut met: Vec<u32> = Vec::new();
        for (band, key) in self.bands.iter().zip(&sketch.bands) {
            met.extend(band.get(*key).filter(|number| *number >= from));
        }
        met.sort_unstable();
        met.dedup();
        // All of the smaller set in the larger one would not be enough.
        let own = sketch.shingles.len();
        met.retain(|&other| {
            let count = self.kept.shingles[other as usize] as usize;
            self.similar(own.min(count), own, count)
        });
        let mut own = (!met.is_empty()).then(|| Present::of(&sketch.shingles));
        met.iter()
            .any(|&other| own.as_mut().is_some_and(|own| self.near(own, other)))
    }

    /// Enters a unit unless it is near one that stays; whether it stays. That none of the first `before` is near it
    /// is known.
    pub(super) fn insert(&mut self, unit: &[TokenId], sketch: &Sketch, before: u32) -> bool {
        if self.has_near(sketch, before) {
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

    /// Whether sets of so many have enough in common.
    fn similar(&self, both: usize, own: usize, other: usize) -> bool {
        both as f64 >= self.shape.similarity * (own + other - both) as f64
    }

    /// Whether a unit that stays is as similar as that.
    fn near(&self, own: &mut Present, other: u32) -> bool {
        let count = self.kept.shingles[other as usize] as usize;
        let tokens = self.kept.tokens(other);
        let places = tokens.len().saturating_sub(self.shape.shingle) + 1;
        let most = own.count.min(count);
        own.begin();
        let mut both = 0;
        for (place, shingle) in each(&tokens, self.shape.shingle).enumerate() {
            // Not even if all that follow were new and in both.
            if !self.similar((both + places - place).min(most), own.count, count) {
                return false;
            }
            both += usize::from(own.meets(shingle));
        }
        self.similar(both, own.count, count)
    }
}

/// The shingles of one unit, which others are looked up in: each is met once in a comparison.
struct Present {
    count: usize,
    /// Where a shingle is, and the comparison that met it last; 0: free.
    places: Vec<(u64, u32)>,
    comparison: u32,
}

impl Present {
    fn of(shingles: &[u64]) -> Self {
        let mut out = Self {
            count: shingles.len(),
            places: vec![(0, 0); (2 * shingles.len()).next_power_of_two().max(2)],
            comparison: 1,
        };
        for shingle in shingles {
            let at = out.find(*shingle);
            out.places[at] = (*shingle, 1);
        }
        out
    }

    /// Where a shingle is, or the free place where it would be.
    #[inline]
    fn find(&self, shingle: u64) -> usize {
        let last = self.places.len() - 1;
        // Its bits are spread already.
        let mut at = shingle as usize & last;
        while self.places[at].1 != 0 && self.places[at].0 != shingle {
            at = (at + 1) & last;
        }
        at
    }

    /// Another comparison begins.
    fn begin(&mut self) {
        self.comparison += 1;
    }

    /// Whether a shingle is there, and was not met in this comparison.
    #[inline]
    fn meets(&mut self, shingle: u64) -> bool {
        let at = self.find(shingle);
        let met = &mut self.places[at].1;
        let new = *met != 0 && *met != self.comparison;
        if new {
            *met = self.comparison;
        }
        new
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
    /// Salts and factors, the last ones filled up.
    each: Vec<[[u64; LANES]; 2]>,
}

/// Permutations that are gone through at once: as many as stay in vector registers.
const LANES: usize = 8;

impl Permutations {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let mut each = vec![[[0; LANES]; 2]; (shape.bands * shape.rows).div_ceil(LANES)];
        for number in 0..shape.bands * shape.rows {
            let salt = mix(seed ^ mix(number as u64 + 1));
            let [salts, factors] = &mut each[number / LANES];
            salts[number % LANES] = salt;
            factors[number % LANES] = mix(salt) | 1;
        }
        Self { shape, each }
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
        let mut signature = pulp::Arch::new().dispatch(Signature {
            permutations: &self.each,
            shingles,
        });
        signature.truncate(self.shape.bands * self.shape.rows);
        let rows = signature.chunks(self.shape.rows);
        rows.map(|rows| rows.iter().fold(0, |key, least| mix(key ^ least)))
            .collect()
    }
}

/// The least that each permutation makes of any shingle, by the widest instructions that the processor has.
struct Signature<'a> {
    permutations: &'a [[[u64; LANES]; 2]],
    shingles: &'a [u64],
}

impl pulp::NullaryFnOnce for Signature<'_> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn call(self) -> Vec<u64> {
        let mut signature = Vec::with_capacity(self.permutations.len() * LANES);
        for [salts, factors] in self.permutations {
            let mut least = [u64::MAX; LANES];
            for shingle in self.shingles {
                for lane in 0..LANES {
                    let value = (shingle ^ salts[lane]).wrapping_mul(factors[lane]);
                    least[lane] = least[lane].min(value);
                }
            }
            signature.extend(least);
        }
        signature
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
            let sketch = permutations.sketch(&unit);
            // Those that were looked at before are not looked at again.
            let before = draw(index.count() as u64 + 1);
            let sooner = (0..before as usize).any(|number| {
                let one: &HashSet<Vec<TokenId>> = &kept[number];
                let both = own.intersection(one).count();
                2 * both >= own.len() + one.len() - both
            });
            if sooner {
                assert!(near && index.has_near(&sketch, 0));
                continue;
            }
            assert_eq!(index.insert(&unit, &sketch, before), !near);
            if !near {
                kept.push(own);
                stay += 1;
            }
        }
        assert!((50..250).contains(&stay), "{stay}");
    }
}
