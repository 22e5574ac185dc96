//! Repeated stretches of exactly known length.
//!
//! A suffix array sorted to the depth of the stretch would bring equal stretches together.
//! Only equality is asked for here, so the names that Karp, Miller and Rosenberg give to
//! stretches by doubling do: two stretches of one length have one name exactly when they are
//! equal. Work n log(length), no hashing of content to trust.

use super::Fate;
use crate::record::TokenId;
use std::collections::HashMap;
use std::ops::Range;

/// A name no stretch has: it would go beyond its unit.
const BEYOND: u32 = u32::MAX;

pub(super) fn fates(units: &[Vec<TokenId>], length: usize) -> Vec<Fate> {
    let names = names(units, length);
    let mut seen = vec![false; names.iter().flatten().filter(|n| **n != BEYOND).count()];
    names
        .iter()
        .map(|unit| {
            let mut cut: Vec<Range<usize>> = Vec::new();
            for (at, &name) in unit.iter().enumerate().filter(|(_, n)| **n != BEYOND) {
                if !std::mem::replace(&mut seen[name as usize], true) {
                    continue;
                }
                match cut.last_mut() {
                    Some(last) if at <= last.end => last.end = at + length,
                    _ => cut.push(at..at + length),
                }
            }
            if cut.is_empty() {
                Fate::Keep
            } else {
                Fate::Cut(cut)
            }
        })
        .collect()
}

/// For each place the name of the stretch of `length` tokens that begins there.
fn names(units: &[Vec<TokenId>], length: usize) -> Vec<Vec<u32>> {
    let mut known: HashMap<u32, u32> = HashMap::new();
    let mut names: Vec<Vec<u32>> = units
        .iter()
        .map(|unit| {
            let name = |t: &TokenId| {
                let next = known.len() as u32;
                *known.entry(*t).or_insert(next)
            };
            unit.iter().map(name).collect()
        })
        .collect();
    let mut reach = 1;
    while reach < length {
        // The last step may overlap: a stretch is its first and its last `reach` tokens.
        let next = (2 * reach).min(length);
        names = doubled(&names, next - reach, next);
        reach = next;
    }
    names
}

/// Names of stretches of `length` tokens from those of two that begin `step` apart.
fn doubled(names: &[Vec<u32>], step: usize, length: usize) -> Vec<Vec<u32>> {
    let mut known: HashMap<(u32, u32), u32> = HashMap::new();
    names
        .iter()
        .map(|unit| {
            (0..unit.len())
                .map(|at| {
                    if at + length > unit.len() {
                        return BEYOND;
                    }
                    let next = known.len() as u32;
                    *known.entry((unit[at], unit[at + step])).or_insert(next)
                })
                .collect()
        })
        .collect()
}
