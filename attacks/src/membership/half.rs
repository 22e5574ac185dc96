//! Draws a random half of the groups, for methods that are fitted on one half and evaluated on the
//! other.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeSet;

/// Returns half of the groups of each kind; groups with both kinds are halved among themselves.
///
/// All records of a group are in the same half, so nothing that they share is used for both fit and
/// evaluation.
pub(super) fn first_half(
    inside: &BTreeSet<usize>,
    outside: &BTreeSet<usize>,
    seed: u64,
) -> BTreeSet<usize> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut half = BTreeSet::new();
    let strata: [Vec<usize>; 3] = [
        inside.difference(outside).copied().collect(),
        outside.difference(inside).copied().collect(),
        inside.intersection(outside).copied().collect(),
    ];
    for mut stratum in strata {
        stratum.shuffle(&mut rng);
        half.extend(&stratum[..stratum.len() / 2]);
    }
    half
}
