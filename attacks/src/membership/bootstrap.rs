//! A bootstrap over groups of records.

use super::set::ScoreSet;
use crate::error::Result;
use crate::normal::{normal_cdf, normal_quantile};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_accounting::{Bounds, Confidence, Probability};

/// The number of bootstrap samples; the ends of a 95 % interval then vary by about a tenth of its
/// width.
pub(super) const SAMPLES: usize = 1000;
/// With a smaller effective number of groups of a kind than this, their spread is not estimated well enough.
const LEAST_GROUPS: f64 = 10.0;

/// Returns the interval of the area from resampled groups; `None` if they are too few, or if all samples agree
/// (no overlap).
pub(super) fn bootstrap_area(
    set: &ScoreSet,
    confidence: Confidence,
    seed: u64,
) -> Result<Option<Bounds<Probability>>> {
    let Some(groups) = &set.groups else {
        return Ok(None);
    };
    let fewest = groups.effective();
    if fewest < LEAST_GROUPS {
        return Ok(None);
    }
    // Groups with the same kinds of records are resampled among themselves, so that every sample
    // has both kinds.
    let strata = groups.by_kind();
    let ladder = Ladder::of(set);
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut weights = vec![0_u32; groups.count];
    let areas = (0..SAMPLES).map(|_| {
        weights.fill(0);
        for stratum in &strata {
            for _ in 0..stratum.len() {
                weights[stratum[rng.random_range(0..stratum.len())]] += 1;
            }
        }
        ladder.area(&weights)
    });
    percentiles(areas.collect(), fewest, confidence)
}

/// Returns the widened percentile interval of bootstrap values; `None` if they all agree.
///
/// Percentiles of G groups are too narrow by √((G − 1)/G) and because they use the normal
/// distribution in place of Student's; both are compensated by going further out (Hesterberg 2015).
/// `groups` is their effective number. An end beyond the last of the values follows their standard deviation.
pub(super) fn percentiles(
    mut values: Vec<f64>,
    groups: f64,
    confidence: Confidence,
) -> Result<Option<Bounds<Probability>>> {
    values.sort_by(f64::total_cmp);
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
        return Ok(None);
    };
    if last - first <= 0.0 {
        return Ok(None);
    }
    let freedom = groups - 1.0;
    let z = normal_quantile(f64::midpoint(1.0, confidence.get()));
    // Student's quantile to second order (Cornish–Fisher).
    let t = z
        + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom);
    let reach = t * (groups / freedom).sqrt();
    let beyond = normal_cdf(-reach) * values.len() as f64;
    let cut = (beyond.floor() as usize).min(values.len() / 2);
    let (mut low, mut high) = (values[cut], values[values.len() - 1 - cut]);
    if beyond < 1.0 {
        let count = values.len() as f64;
        let centre = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|v| (v - centre) * (v - centre)).sum();
        let reach = reach * (squares / (count - 1.0)).sqrt();
        low = low.min(centre - reach).max(0.0);
        high = high.max(centre + reach).min(1.0);
    }
    Ok(Some(Bounds::between(
        Probability::new(low)?,
        Probability::new(high)?,
    )))
}

/// All records in ascending order with their groups, split into runs of equal scores.
struct Ladder {
    records: Vec<(f64, usize, bool)>,
}

impl Ladder {
    fn of(set: &ScoreSet) -> Self {
        let mut records = Vec::with_capacity(set.members.len() + set.non_members.len());
        if let Some(groups) = &set.groups {
            let members = set.members.iter().zip(&groups.members);
            records.extend(members.map(|(&s, &g)| (s, g, true)));
            let others = set.non_members.iter().zip(&groups.non_members);
            records.extend(others.map(|(&s, &g)| (s, g, false)));
        }
        records.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { records }
    }

    /// Returns the area with every record weighted by its group.
    fn area(&self, weights: &[u32]) -> f64 {
        let (mut below, mut members, mut won) = (0.0, 0.0, 0.0);
        for run in self.records.chunk_by(|a, b| a.0 >= b.0) {
            let (mut here, mut there) = (0.0, 0.0);
            for &(_, group, member) in run {
                let weight = f64::from(weights[group]);
                if member {
                    here += weight;
                } else {
                    there += weight;
                }
            }
            won += here * (below + there / 2.0);
            members += here;
            below += there;
        }
        won / (members * below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More confidence moves an end further, also beyond the last of the values.
    #[test]
    fn ends_move_on_beyond_the_samples() {
        let value = |i: usize| 0.5 + 0.01 * normal_quantile(i as f64 / (SAMPLES + 1) as f64);
        let values: Vec<f64> = (1..=SAMPLES).map(value).collect();
        let mut before = 0.0;
        for confidence in [0.99, 0.999, 0.9999, 0.999_999] {
            let confidence = Confidence::new(confidence).unwrap();
            let bounds = percentiles(values.clone(), 50.0, confidence).unwrap();
            let end = bounds.unwrap().upper.unwrap().get().get();
            assert!(end > before, "{confidence:?}: {end} {before}");
            before = end;
        }
        assert!(before < 0.57, "{before}");
    }
}
