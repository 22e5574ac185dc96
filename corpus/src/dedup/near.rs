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
    shingles: Shingles,
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
        let own = sketch.shingles.count;
        met.retain(|&other| {
            let count = self.kept.shingles[other as usize] as usize;
            self.similar(own.min(count), own, count)
        });
        if met.is_empty() {
            return false;
        }
        let mut compared = Compared::new(&sketch.shingles);
        met.iter().any(|&other| self.near(&mut compared, other))
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
            self.kept.push(unit, sketch.shingles.count);
        }
        true
    }

    /// Whether sets of so many have enough in common.
    fn similar(&self, both: usize, own: usize, other: usize) -> bool {
        both as f64 >= self.shape.similarity * (own + other - both) as f64
    }

    /// Whether a unit that stays is as similar as that.
    fn near(&self, own: &mut Compared<'_>, other: u32) -> bool {
        let count = self.kept.shingles[other as usize] as usize;
        let needed = self.needed(own.shingles.count, count);
        self.kept.read(other, &mut own.tokens);
        let tokens = std::mem::take(&mut own.tokens);
        let places = tokens.len().saturating_sub(self.shape.shingle) + 1;
        own.comparison += 1;
        let mut both = 0;
        for (place, shingle) in each(&tokens, self.shape.shingle).enumerate() {
            // Not even if all that follow were new and in both.
            if both + places - place < needed {
                break;
            }
            both += usize::from(own.meets(shingle));
        }
        own.tokens = tokens;
        both >= needed
    }

    /// The fewest shingles in both that make sets of so many similar.
    fn needed(&self, own: usize, other: usize) -> usize {
        let share = self.shape.similarity / (1.0 + self.shape.similarity);
        let mut needed = (share * (own + other) as f64) as usize;
        while needed > 0 && self.similar(needed - 1, own, other) {
            needed -= 1;
        }
        while !self.similar(needed, own, other) {
            needed += 1;
        }
        needed
    }
}

/// Hashes of the different shingles of a unit, in a table with open addressing.
#[derive(Debug, Clone, Default)]
struct Shingles {
    count: usize,
    /// Zero is free.
    places: Vec<u64>,
}

impl Shingles {
    fn of(all: &[u64]) -> Self {
        let mut out = Self {
            count: 0,
            places: vec![0; (2 * all.len()).next_power_of_two().max(2)],
        };
        for shingle in all {
            let at = out.find(*shingle);
            out.count += usize::from(out.places[at] == 0);
            out.places[at] = *shingle;
        }
        out
    }

    /// Where a shingle is, or the free place where it would be.
    #[inline]
    fn find(&self, shingle: u64) -> usize {
        let last = self.places.len() - 1;
        // Its bits are spread already.
        let mut at = shingle as usize & last;
        while self.places[at] != 0 && self.places[at] != shingle {
            at = (at + 1) & last;
        }
        at
    }
}

/// The shingles of a unit that is compared with others.
struct Compared<'a> {
    shingles: &'a Shingles,
    /// The comparison that met each place last.
    met: Vec<u32>,
    comparison: u32,
    /// Room for the tokens of the other.
    tokens: Vec<TokenId>,
}

impl<'a> Compared<'a> {
    fn new(shingles: &'a Shingles) -> Self {
        Self {
            met: vec![0; shingles.places.len()],
            comparison: 0,
            tokens: Vec::new(),
            shingles,
        }
    }

    /// Whether a shingle is there, and was not met in this comparison.
    #[inline]
    fn meets(&mut self, shingle: u64) -> bool {
        let at = self.shingles.find(shingle);
        let new = self.shingles.places[at] != 0 && self.met[at] != self.comparison;
        if new {
            self.met[at] = self.comparison;
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

    /// Reads the tokens of a unit into `out`.
    fn read(&self, number: u32, out: &mut Vec<TokenId>) {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let bytes = &self.bytes[start as usize..self.ends[number] as usize];
        out.clear();
        let (mut token, mut shift) = (0, 0);
        for byte in bytes {
            token |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                out.push(token);
                (token, shift) = (0, 0);
            }
        }
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

/// Hashes of all shingles, none of them zero: of a rolling sum Σ spread(t_j) B^(n − 1 − j) modulo 2^64.
fn each(unit: &[TokenId], length: usize) -> impl Iterator<Item = u64> {
    /// Odd, so that no power of it loses bits.
    const BASE: u64 = 0x9fb2_1c65_1e98_df25;
    let spread = |token: &TokenId| mix(u64::from(*token) + 1);
    // Of a shorter one there is a window of its own length; of none, an empty one.
    let length = length.min(unit.len()).max(1);
    let first = &unit[..(length - 1).min(unit.len())];
    let mut sum = first.iter().fold(0u64, |sum, t| {
        sum.wrapping_mul(BASE).wrapping_add(spread(t))
    });
    let highest = (1..length).fold(1u64, |power, _| power.wrapping_mul(BASE));
    (0..(unit.len() + 1 - length).max(1)).map(move |at| {
        let last = unit.get(at + length - 1).map_or(0, spread);
        sum = sum.wrapping_mul(BASE).wrapping_add(last);
        let shingle = mix(sum ^ length as u64).max(1);
        let gone = unit.get(at).map_or(0, spread).wrapping_mul(highest);
        sum = sum.wrapping_sub(gone);
        shingle
    })
}

/// The permutations of a signature: x ↦ (x ⊕ salt)·factor, a bijection of 32 bits, as the factor
/// is odd. One multiplication is enough behind a hash that spreads already, and what meets in a
/// bucket is compared exactly, so that a bad one costs recall and nothing else.
#[derive(Debug)]
pub(super) struct Permutations {
    shape: Shape,
    /// Salts and factors, the last ones filled up.
    each: Vec<[[u32; LANES]; 2]>,
}

/// Permutations that are gone through at once: as many as stay in vector registers.
const LANES: usize = 16;

impl Permutations {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let mut each = vec![[[0; LANES]; 2]; (shape.bands * shape.rows).div_ceil(LANES)];
        for number in 0..shape.bands * shape.rows {
            let salt = mix(seed ^ mix(number as u64 + 1));
            let [salts, factors] = &mut each[number / LANES];
            salts[number % LANES] = (salt >> 32) as u32;
            factors[number % LANES] = mix(salt) as u32 | 1;
        }
        Self { shape, each }
    }

    pub(super) fn sketch(&self, unit: &[TokenId]) -> Sketch {
        let shingles: Vec<u64> = each(unit, self.shape.shingle).collect();
        Sketch {
            bands: self.bands(&shingles),
            shingles: Shingles::of(&shingles),
        }
    }

    /// One key for each band of the signature of a set of shingles, which may be there several times.
    pub(super) fn bands(&self, shingles: &[u64]) -> Vec<u64> {
        let shingles: Vec<u32> = shingles
            .iter()
            .map(|shingle| (shingle >> 32) as u32)
            .collect();
        let mut signature = pulp::Arch::new().dispatch(Signature {
            permutations: &self.each,
            shingles: &shingles,
        });
        signature.truncate(self.shape.bands * self.shape.rows);
        let rows = signature.chunks(self.shape.rows);
        rows.map(|rows| {
            rows.iter()
                .fold(0, |key, least| mix(key ^ u64::from(*least)))
        })
        .collect()
    }
}

/// The least that each permutation makes of any shingle, by the widest instructions that the processor has.
struct Signature<'a> {
    permutations: &'a [[[u32; LANES]; 2]],
    shingles: &'a [u32],
}

impl pulp::NullaryFnOnce for Signature<'_> {
    type Output = Vec<u32>;

    #[inline(always)]
    fn call(self) -> Vec<u32> {
        let mut signature = Vec::with_capacity(self.permutations.len() * LANES);
        for [salts, factors] in self.permutations {
            let mut least = [u32::MAX; LANES];
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
        let mut tokens = vec![1];
        for (number, unit) in (0..).zip(units) {
            kept.read(number, &mut tokens);
            assert_eq!(tokens, unit);
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
