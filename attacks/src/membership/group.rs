//! Membership inference for groups of records.

use super::area::{Area, AreaMethod, mid_rank};
use super::bootstrap::{SAMPLES, percentiles};
use super::set::ScoreSet;
use crate::error::{Result, given, ranged};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_accounting::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the scores of a group's records become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupRule {
    /// Σ of the records' scores on a logarithmic scale, such as −mean NLL.
    SumOfScores,
    /// CRT's: −Σ exp(mean NLL), for scores that are −mean NLL. One outlier decides it.
    SumOfPerplexities,
}

/// Returns the score of a group.
///
/// ```
/// use reticent_attacks::membership::{GroupRule, group_score};
/// let mut one_outlier = vec![-(5.0_f64.ln()); 19];
/// one_outlier.push(-(2000.0_f64.ln()));
/// let even = vec![-(20.0_f64.ln()); 20];
/// let better = |rule| group_score(rule, &one_outlier) > group_score(rule, &even);
/// assert!(better(GroupRule::SumOfScores) && !better(GroupRule::SumOfPerplexities));
/// ```
#[must_use]
pub fn group_score(rule: GroupRule, scores: &[f64]) -> f64 {
    match rule {
        GroupRule::SumOfScores => scores.iter().sum(),
        GroupRule::SumOfPerplexities => -scores.iter().map(|s| (-s).exp()).sum::<f64>(),
    }
}

/// Returns the scores of ⌊n/size⌋ groups of records, drawn without replacement, so that groups
/// share no records and count as independent.
///
/// # Errors
/// Returns an error if the size is zero or above the number of records.
pub fn disjoint_groups(
    scores: &[f64],
    size: usize,
    rule: GroupRule,
    seed: u64,
) -> Result<Vec<f64>> {
    check_size(size, scores.len())?;
    let mut mixed = scores.to_vec();
    mixed.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
    Ok(mixed
        .chunks_exact(size)
        .map(|group| group_score(rule, group))
        .collect())
}

/// Evaluates CRT's groups: `groups` of `size` on each side, each drawn afresh from all records of
/// its side, so that groups share records. Any number of groups can be drawn from the same records,
/// so the interval is a bootstrap over the **records**, with groups drawn anew in each sample.
/// CRT's protocol is 1000 + 1000 records, groups of 20, and 1000 groups per side.
///
/// # Errors
/// Returns an error if the size is zero or above the number of records of a side, if there is no
/// group, or if there are fewer than ten records.
pub fn overlapping_groups_area(
    scores: &ScoreSet,
    size: usize,
    groups: usize,
    rule: GroupRule,
    confidence: Confidence,
    seed: u64,
) -> Result<Area> {
    let fewest = scores.members.len().min(scores.non_members.len());
    check_size(size, fewest)?;
    given(groups > 0, "no group was asked for")?;
    ranged("records of a side", "[10, inf)", fewest, fewest >= 10)?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let area_of = |members: &[f64], others: &[f64], rng: &mut ChaCha20Rng| {
        let inside = drawn(members, size, groups, rule, rng);
        let outside = drawn(others, size, groups, rule, rng);
        area(inside, outside)
    };
    let estimate = area_of(&scores.members, &scores.non_members, &mut rng);
    let samples = (0..SAMPLES / 2).map(|_| {
        let members = resampled(&scores.members, &mut rng);
        let others = resampled(&scores.non_members, &mut rng);
        area_of(&members, &others, &mut rng)
    });
    match percentiles(samples.collect(), fewest as f64, confidence)? {
        Some(bounds) => Ok(Area {
            estimate,
            bounds,
            method: AreaMethod::ClusterBootstrap,
        }),
        // Without any overlap, the result comes from disjoint groups.
        None => ScoreSet::new(
            disjoint_groups(&scores.members, size, rule, seed)?,
            disjoint_groups(&scores.non_members, size, rule, seed)?,
        )?
        .area(confidence, seed),
    }
}

/// Returns `count` of the numbers below `records`, drawn uniformly without replacement, in
/// ascending order; all of them if there are no more.
#[must_use]
pub fn chosen(records: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..records).collect();
    kept.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
    kept.truncate(count);
    kept.sort_unstable();
    kept
}

fn check_size(size: usize, records: usize) -> Result<()> {
    ranged(
        "group size",
        "[1, number of independent records]",
        format_args!("{size} of {records}"),
        (1..=records).contains(&size),
    )
}

fn drawn(
    scores: &[f64],
    size: usize,
    groups: usize,
    rule: GroupRule,
    rng: &mut ChaCha20Rng,
) -> Vec<f64> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    let mut group = vec![0.0; size];
    (0..groups)
        .map(|_| {
            let (chosen, _) = places.partial_shuffle(rng, size);
            for (slot, &place) in group.iter_mut().zip(chosen.iter()) {
                *slot = scores[place];
            }
            group_score(rule, &group)
        })
        .collect()
}

fn resampled(scores: &[f64], rng: &mut ChaCha20Rng) -> Vec<f64> {
    (0..scores.len())
        .map(|_| scores[rng.random_range(0..scores.len())])
        .collect()
}

/// Returns the Mann–Whitney statistic.
fn area(inside: Vec<f64>, mut outside: Vec<f64>) -> f64 {
    outside.sort_by(f64::total_cmp);
    let n = outside.len() as f64;
    let share = |score: &f64| mid_rank(&outside, *score) / n;
    inside.iter().map(share).sum::<f64>() / inside.len() as f64
}
