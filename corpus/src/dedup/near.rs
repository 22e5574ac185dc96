//! Near-duplicates: MinHash signatures, banded into buckets, and the exact similarity of what
//! meets in one.

use crate::record::TokenId;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) shingle: usize,
    pub(super) bands: usize,
    pub(super) rows: usize,
    pub(super) similarity: f64,
}

/// The units that stay, by the bands of their signatures.
#[derive(Debug)]
pub(super) struct Index {
    shape: Shape,
    permutations: Permutations,
    buckets: HashMap<(usize, u64), Vec<usize>>,
    kept: Vec<Vec<TokenId>>,
}

impl Index {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        Self {
            shape,
            permutations: Permutations::new(shape, seed),
            buckets: HashMap::new(),
            kept: Vec::new(),
        }
    }

    /// Enters a unit unless it is near one that stays; whether it stays.
    pub(super) fn insert(&mut self, unit: &[TokenId]) -> bool {
        let own = shingles(unit, self.shape.shingle);
        let keys = self.permutations.bands(&own, self.shape);
        let met: HashSet<usize> = keys
            .iter()
            .filter_map(|key| self.buckets.get(key))
            .flatten()
            .copied()
            .collect();
        let near = met.iter().any(|&other| {
            similar(
                &own,
                &shingles(&self.kept[other], self.shape.shingle),
                self.shape.similarity,
            )
        });
        if near {
            return false;
        }
        for key in keys {
            self.buckets.entry(key).or_default().push(self.kept.len());
        }
        self.kept.push(unit.to_vec());
        true
    }
}

/// The set of shingles; a unit shorter than one is its own.
fn shingles(unit: &[TokenId], length: usize) -> HashSet<&[TokenId]> {
    if unit.len() <= length {
        HashSet::from([unit])
    } else {
        unit.windows(length).collect()
    }
}

fn similar(one: &HashSet<&[TokenId]>, other: &HashSet<&[TokenId]>, least: f64) -> bool {
    let both = one.intersection(other).count();
    let either = one.len() + other.len() - both;
    both as f64 >= least * either as f64
}

/// The permutations of a signature: x ↦ (x ⊕ salt)·factor, a bijection of 64 bits, as the factor
/// is odd. One multiplication is enough behind a hash that spreads already, and what meets in a
/// bucket is compared exactly, so that a bad one costs recall and nothing else.
#[derive(Debug)]
struct Permutations {
    each: Vec<(u64, u64)>,
}

impl Permutations {
    fn new(shape: Shape, seed: u64) -> Self {
        let each = (1..=(shape.bands * shape.rows) as u64).map(|number| {
            let salt = mix(seed ^ mix(number));
            (salt, mix(salt) | 1)
        });
        Self {
            each: each.collect(),
        }
    }

    /// One key per band of the signature.
    fn bands(&self, shingles: &HashSet<&[TokenId]>, shape: Shape) -> Vec<(usize, u64)> {
        let mut signature = vec![u64::MAX; self.each.len()];
        for shingle in shingles {
            let hash = hash(shingle);
            for (least, (salt, factor)) in signature.iter_mut().zip(&self.each) {
                *least = (*least).min((hash ^ salt).wrapping_mul(*factor));
            }
        }
        let rows = signature.chunks(shape.rows).enumerate();
        rows.map(|(band, rows)| (band, rows.iter().fold(0, |key, least| mix(key ^ least))))
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
