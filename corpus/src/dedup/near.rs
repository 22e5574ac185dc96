//! Near-duplicates: MinHash signatures, banded into buckets, and the exact similarity of what
//! meets in one.

use super::Fate;
use crate::record::TokenId;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) shingle: usize,
    pub(super) bands: usize,
    pub(super) rows: usize,
    pub(super) similarity: f64,
}

pub(super) fn fates(units: &[Vec<TokenId>], shape: Shape, seed: u64) -> Vec<Fate> {
    let mut buckets: HashMap<(usize, u64), Vec<usize>> = HashMap::new();
    let mut out = Vec::with_capacity(units.len());
    for (number, unit) in units.iter().enumerate() {
        let own = shingles(unit, shape.shingle);
        let keys = bands(&own, shape, seed);
        let met: HashSet<usize> = keys
            .iter()
            .filter_map(|key| buckets.get(key))
            .flatten()
            .copied()
            .collect();
        let near = met.iter().any(|&other| {
            similar(
                &own,
                &shingles(&units[other], shape.shingle),
                shape.similarity,
            )
        });
        if near {
            out.push(Fate::Drop);
            continue;
        }
        for key in keys {
            buckets.entry(key).or_default().push(number);
        }
        out.push(Fate::Keep);
    }
    out
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

/// One key per band of the signature.
fn bands(shingles: &HashSet<&[TokenId]>, shape: Shape, seed: u64) -> Vec<(usize, u64)> {
    let hashes: Vec<u64> = shingles.iter().map(|s| hash(s)).collect();
    let least = |number: usize| {
        let salt = mix(seed ^ mix(number as u64 + 1));
        hashes.iter().map(|h| mix(h ^ salt)).min().unwrap_or(0)
    };
    (0..shape.bands)
        .map(|band| {
            let rows = band * shape.rows..(band + 1) * shape.rows;
            (band, rows.fold(0, |key, row| mix(key ^ least(row))))
        })
        .collect()
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
