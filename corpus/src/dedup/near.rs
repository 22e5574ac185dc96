//! Near-duplicates: MinHash signatures, banded into buckets, and the exact similarity of units that share a bucket.
//!
//! Memory per kept unit: 10 to 15 bytes for each band, its tokens at one to five bytes each, and 24 bytes. Signatures
//! are not kept.

use super::bands::Band;
use super::{mix, varint};
use crate::record::TokenId;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) shingle: usize,
    pub(super) bands: usize,
    pub(super) rows: usize,
    pub(super) similarity: f64,
}

/// What can be computed from a unit alone; done by workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sketch {
    shingles: Shingles,
    /// One key for each band of the signature.
    bands: Vec<u64>,
}

/// The number of bands that are looked up together.
const AT_ONCE: usize = 8;

/// The kept units, indexed by the bands of their signatures.
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

    /// Returns the number of kept units.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.kept.ends.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether a unit is near a kept unit whose number is at least `from`.
    pub(super) fn has_near(&self, unit: &[TokenId], sketch: &Sketch, from: u32) -> bool {
        let own = sketch.shingles.summary;
        let mut met: HashTable<u32> = HashTable::new();
        let hash = |number: &u32| mix(u64::from(*number));
        let mut compared: Option<Compared<'_>> = None;
        for (bands, keys) in self.bands.chunks(AT_ONCE).zip(sketch.bands.chunks(AT_ONCE)) {
            // The tables are larger than the caches; independent lookups overlap their misses.
            let mut any = [false; AT_ONCE];
            for ((any, band), key) in any.iter_mut().zip(bands).zip(keys) {
                *any = band.may_have(*key);
            }
            // One loop in another: an iterator over all of them takes longer than what is done with each.
            for ((band, key), _) in bands.iter().zip(keys).zip(any).filter(|(_, any)| *any) {
                for other in band.get(*key, from) {
                    let [a, b] = [own, self.kept.summaries[other as usize]];
                    if !self.similar(a.most_in_common(b), a.count, b.count) {
                        continue;
                    }
                    // It may already have been compared in another band.
                    match met.entry(hash(&other), |number| *number == other, hash) {
                        Entry::Occupied(_) => continue,
                        Entry::Vacant(free) => free.insert(other),
                    };
                    let needed = self.needed(a.count, b.count);
                    let compared = compared
                        .get_or_insert_with(|| Compared::new(unit, sketch, self.shape.shingle));
                    if compared.has_in_common(self.kept.bytes(other), needed as usize) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Enters a unit unless it is near a kept one, and returns whether it is kept. The first `before` kept units are
    /// known not to be near it.
    pub(super) fn insert(&mut self, unit: &[TokenId], sketch: &Sketch, before: u32) -> bool {
        if before < self.count() && self.has_near(unit, sketch, before) {
            return false;
        }
        if let Ok(number) = u32::try_from(self.kept.ends.len()) {
            for (band, key) in self.bands.iter_mut().zip(&sketch.bands) {
                band.insert(*key, number);
            }
            self.kept.push(unit, sketch.shingles.summary);
        }
        true
    }

    /// Returns whether sets of these sizes with `both` common elements are similar.
    fn similar(&self, both: u32, own: u32, other: u32) -> bool {
        let either = f64::from(own) + f64::from(other) - f64::from(both);
        f64::from(both) >= self.shape.similarity * either
    }

    /// Returns the smallest number of common shingles that makes sets of these sizes similar.
    fn needed(&self, own: u32, other: u32) -> u32 {
        let share = self.shape.similarity / (1.0 + self.shape.similarity);
        let mut needed = (share * (f64::from(own) + f64::from(other))) as u32;
        while needed > 0 && self.similar(needed - 1, own, other) {
            needed -= 1;
        }
        while !self.similar(needed, own, other) {
            needed += 1;
        }
        needed
    }
}

/// A summary of a set of shingles, compared before the sets themselves.
#[derive(Debug, Clone, Copy, Default)]
struct Summary {
    /// The number of shingles.
    count: u32,
    /// One bit for each 64th of the hash range: whether it contains a shingle's hash.
    parts: u64,
}

impl Summary {
    /// Returns an upper bound on the number of common elements of two sets: for each part that only one set has, at
    /// least one element is in that set alone.
    const fn most_in_common(self, other: Self) -> u32 {
        let one = self.count - (self.parts & !other.parts).count_ones();
        let two = other.count - (other.parts & !self.parts).count_ones();
        if one < two { one } else { two }
    }
}

/// The hashes of a unit's distinct shingles, in a table with open addressing.
#[derive(Debug, Clone, Default)]
struct Shingles {
    summary: Summary,
    /// Zero marks a free place.
    places: Vec<u64>,
}

impl Shingles {
    fn of(all: &[u64]) -> Self {
        let mut out = Self {
            summary: Summary::default(),
            places: vec![0; (2 * all.len()).next_power_of_two().max(2)],
        };
        for shingle in all {
            let at = out.find(*shingle);
            out.summary.count += u32::from(out.places[at] == 0);
            out.summary.parts |= 1 << (shingle >> 58);
            out.places[at] = *shingle;
        }
        out
    }

    /// Returns the place of a shingle, or the free place where it would be inserted.
    #[inline]
    fn find(&self, shingle: u64) -> usize {
        let last = self.places.len() - 1;
        // The hash is already well mixed.
        let mut at = shingle as usize & last;
        while self.places[at] != 0 && self.places[at] != shingle {
            at = (at + 1) & last;
        }
        at
    }
}

/// A unit that is compared with others.
struct Compared<'a> {
    unit: &'a [TokenId],
    /// The number of tokens in a shingle.
    length: usize,
    /// The unit as it would be stored.
    bytes: Vec<u8>,
    shingles: &'a Shingles,
    /// The place in the table of each of its shingles.
    places: Vec<u32>,
    /// The last comparison that met each place of the table.
    met: Vec<u32>,
    comparison: u32,
    /// A buffer for tokens of the other unit.
    tokens: Vec<TokenId>,
}

impl<'a> Compared<'a> {
    fn new(unit: &'a [TokenId], sketch: &'a Sketch, length: usize) -> Self {
        let mut bytes = Vec::with_capacity(unit.len());
        varint::encode(unit, &mut bytes);
        let shingles = &sketch.shingles;
        Self {
            unit,
            length,
            bytes,
            shingles,
            places: each(unit, length)
                .map(|s| shingles.find(s) as u32)
                .collect(),
            met: vec![0; shingles.places.len()],
            comparison: 0,
            tokens: Vec::new(),
        }
    }

    /// Returns whether at least `needed` distinct shingles of another unit, given as stored, are also in this one.
    ///
    /// If both units begin or end with the same tokens, the shingles there are known to be common. The shingles between
    /// are looked up first, since they rule out most units that are not near.
    fn has_in_common(&mut self, other: &[u8], needed: usize) -> bool {
        self.comparison += 1;
        let ends = varint::common_ends(&self.bytes, other);
        let (before, rest) = other.split_at(ends[0]);
        let (between, behind) = rest.split_at(rest.len() - ends[1]);
        let [begin, middle, end] = [before, between, behind].map(varint::count);
        // A unit shorter than a shingle still has one, which no longer unit has.
        let whole = self.unit.len().min(begin + middle + end) >= self.length;
        let known = |same: usize| match whole {
            true => (same + 1).saturating_sub(self.length),
            false => 0,
        };
        let (first, last) = (known(begin), known(end));
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.clear();
        let count = self.unit.len();
        tokens.extend(&self.unit[first..begin]);
        varint::decode(between, &mut tokens);
        tokens.extend(&self.unit[count - end..count - last]);
        let mut both = 0;
        // If nothing differs, no shingle may be left.
        if !whole || tokens.len() >= self.length {
            for shingle in each(&tokens, self.length) {
                let at = self.shingles.find(shingle);
                both += usize::from(self.shingles.places[at] != 0 && self.meets(at));
            }
        }
        self.tokens = tokens;
        // Not enough, even if all others were distinct.
        if both + first + last < needed {
            return false;
        }
        let all = self.places.len();
        for number in (0..first).chain(all - last..all) {
            let at = self.places[number] as usize;
            both += usize::from(self.meets(at));
        }
        both >= needed
    }

    /// Marks a place of the table as met, and returns whether it was not met before in this comparison.
    #[inline]
    fn meets(&mut self, at: usize) -> bool {
        std::mem::replace(&mut self.met[at], self.comparison) != self.comparison
    }
}

/// The tokens of units, concatenated, with seven bits per byte.
#[derive(Debug, Default)]
struct StoredTokens {
    bytes: Vec<u8>,
    /// The end of each unit.
    ends: Vec<u64>,
    /// The summary of each unit's shingles.
    summaries: Vec<Summary>,
}

impl StoredTokens {
    fn push(&mut self, unit: &[TokenId], shingles: Summary) {
        varint::encode(unit, &mut self.bytes);
        self.ends.push(self.bytes.len() as u64);
        self.summaries.push(shingles);
    }

    /// Returns a unit as stored.
    fn bytes(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[number] as usize]
    }
}

/// Returns the hashes of a unit's distinct shingles, in order. A unit shorter than a shingle is its own shingle.
/// Shingles of units that share a bucket are compared by 64 bits: with a million on each side, two are confused with a
/// probability below 1e-7.
pub(super) fn shingles(unit: &[TokenId], length: usize) -> Vec<u64> {
    let mut out: Vec<u64> = each(unit, length).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Iterates over the hashes of all shingles, which are never zero: each is derived from a rolling sum Σ spread(t_j)
/// B^(n − 1 − j) modulo 2^64.
fn each(unit: &[TokenId], length: usize) -> impl Iterator<Item = u64> {
    /// Odd, so that its powers lose no bits.
    const BASE: u64 = 0x9fb2_1c65_1e98_df25;
    let spread = |token: &TokenId| match SPREAD.get(*token as usize) {
        Some(spread) => *spread,
        None => mix(u64::from(*token) + 1),
    };
    // A shorter unit has one window of its own length; an empty unit has an empty one.
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

/// The permutations of a signature: x ↦ (x ⊕ salt)·factor, a bijection of 32 bits, since the factor is odd. One
/// multiplication suffices after a hash that already mixes well. Units that share a bucket are compared exactly, so a
/// poor permutation only costs recall.
#[derive(Debug)]
pub(super) struct Permutations {
    shape: Shape,
    /// Salts and factors; the last block is padded.
    each: Vec<[[u32; LANES]; 2]>,
}

/// The number of permutations processed together: as many as fit in vector registers.
const LANES: usize = 32;

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

    /// Returns one key for each band of the signature of a set of shingles, which may contain repetitions.
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

/// Computes the least value that each permutation gives for any shingle, with the widest instructions that the
/// processor has.
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

/// The values of [`mix`] for the most common tokens, offset by one.
static SPREAD: [u64; 256] = {
    let mut out = [0; 256];
    let mut token = 0;
    while token < out.len() {
        out[token] = mix(token as u64 + 1);
        token += 1;
    }
    out
};

#[cfg(test)]
mod tests {
    use super::*;

    /// 900 units of ten kinds of shapes from a generator with seed 1, compared with the sets of
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
        let mut units: Vec<Vec<TokenId>> = Vec::new();
        for number in 0..900 {
            let length = draw(2 + number % 10 * 4);
            let mut unit: Vec<TokenId> = (0..length).map(|_| draw(2 + number % 3)).collect();
            // Every other one has an earlier one's ends.
            if let Some(earlier) = units.last().filter(|_| number % 2 == 1) {
                let begin = draw(earlier.len() as u64 + 1) as usize;
                let end = draw((earlier.len() - begin) as u64 + 1) as usize;
                unit.truncate(12);
                unit.splice(0..0, earlier[..begin].iter().copied());
                unit.extend(&earlier[earlier.len() - end..]);
            }
            units.push(unit.clone());
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
                assert!(near && index.has_near(&unit, &sketch, 0));
                continue;
            }
            assert_eq!(index.insert(&unit, &sketch, before), !near);
            if !near {
                kept.push(own);
                stay += 1;
            }
        }
        assert!((100..800).contains(&stay), "{stay}");
    }
}
