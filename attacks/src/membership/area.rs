//! The area under the ROC curve: the Mann–Whitney statistic with an interval.

use super::bootstrap::bootstrap_area;
use super::set::ScoreSet;
use crate::error::Result;
use crate::normal::normal_quantile;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use reticent_accounting::statistics::clopper_pearson_lower;
use reticent_accounting::{Bounds, Confidence, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// P(a member scores above a non-member), ties one half, with a two-sided interval.
///
/// Not the area under the convex hull, which is at least 1/2 for any scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Area {
    /// Mann and Whitney's statistic over all pairs.
    pub estimate: f64,
    /// Both ends, half of the failure probability each.
    #[serde(flatten)]
    pub bounds: Bounds<Probability>,
    /// How the interval was found.
    pub method: AreaMethod,
}

/// How the interval of an area was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AreaMethod {
    /// DeLong's variance, normal on the logit scale, and what may have gone unseen: large samples.
    Delong,
    /// Clopper–Pearson over disjoint pairs of a member and a non-member: exact, for samples
    /// where few scores overlap or that are small.
    DisjointPairs,
    /// Bootstrap over groups, percentiles widened for their number and for what may have gone unseen.
    ClusterBootstrap,
}

/// With fewer records of a kind than this, or fewer that overlap with the other kind, a variance estimate is not
/// reliable.
const FEW: usize = 20;
const FEW_OVERLAPPING: usize = 5;

impl ScoreSet {
    /// Returns the area under the ROC curve. With groups, the interval comes from a bootstrap over them.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// use reticent_attacks::membership::ScoreSet;
    /// let scores = ScoreSet::new(vec![0.0, 4.0, 6.0, 7.0], vec![1.0, 2.0, 3.0, 5.0])?;
    /// let area = scores.area(Confidence::new(0.95)?, 0)?;
    /// assert!((area.estimate - 0.6875).abs() < 1e-12); // the hull has 0.8125
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `seed` draws pairs and bootstrap samples; nothing else depends on it.
    ///
    /// # Errors
    /// Returns an error if fewer than ten groups have members, or fewer than ten have non-members.
    pub fn area(&self, confidence: Confidence, seed: u64) -> Result<Area> {
        let (inside, outside) = self.placements();
        let estimate = mean(&inside);
        if let Some(groups) = &self.groups {
            let fewest = groups.fewest();
            return match bootstrap_area(self, confidence, seed)? {
                Some(bounds) => Ok(Area {
                    estimate,
                    bounds: with_unseen(estimate, bounds, fewest, confidence)?,
                    method: AreaMethod::ClusterBootstrap,
                }),
                None => self.thinned(seed).pairs(estimate, confidence, seed),
            };
        }
        if !enough(&inside) || !enough(&outside) {
            return self.pairs(estimate, confidence, seed);
        }
        let variance =
            spread(&inside) / inside.len() as f64 + spread(&outside) / outside.len() as f64;
        let bounds = logit_interval(estimate, variance, confidence)?;
        let fewest = inside.len().min(outside.len());
        Ok(Area {
            estimate,
            bounds: with_unseen(estimate, bounds, fewest, confidence)?,
            method: AreaMethod::Delong,
        })
    }

    /// Returns the area alone, over all pairs.
    pub(super) fn mann_whitney(&self) -> f64 {
        mean(&self.placements().0)
    }

    /// Returns for every member the share of non-members below it, and for every non-member the share of
    /// members above it; ties count one half.
    fn placements(&self) -> (Vec<f64>, Vec<f64>) {
        let place = |scores: &[f64], others: &[f64], sign: f64| {
            let mut sorted: Vec<f64> = others.iter().map(|s| sign * s).collect();
            sorted.sort_by(f64::total_cmp);
            let share = |score: &f64| {
                let score = sign * score;
                let below = sorted.partition_point(|s| *s < score);
                let up_to = sorted.partition_point(|s| *s <= score);
                (below + up_to) as f64 / 2.0 / sorted.len() as f64
            };
            scores.iter().map(share).collect()
        };
        (
            place(&self.members, &self.non_members, 1.0),
            place(&self.non_members, &self.members, -1.0),
        )
    }

    /// Uses pairs that share no record: P(member above) ≤ area ≤ P(member not below), each from its own exact bound.
    fn pairs(&self, estimate: f64, confidence: Confidence, seed: u64) -> Result<Area> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        // Shuffle, because the order of a file may depend on the scores.
        let mut members = self.members.clone();
        members.shuffle(&mut rng);
        let pairs = members.len().min(self.non_members.len()) as u64;
        let mut others = self.non_members.clone();
        others.shuffle(&mut rng);
        let won = members.iter().zip(&others).filter(|(m, n)| m > n).count() as u64;
        let lost = members.iter().zip(&others).filter(|(m, n)| m < n).count() as u64;
        let each = Confidence::new(f64::midpoint(1.0, confidence.get()))?;
        let lower = clopper_pearson_lower(won, pairs, each)?.get().get();
        let upper = 1.0 - clopper_pearson_lower(lost, pairs, each)?.get().get();
        // All pairs together contain more information than the disjoint ones, so the estimate may fall outside.
        Ok(Area {
            estimate,
            bounds: Bounds::between(
                Probability::new(lower.min(estimate))?,
                Probability::new(upper.max(estimate))?,
            ),
            method: AreaMethod::DisjointPairs,
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn spread(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|v| (v - centre) * (v - centre)).sum();
    squares / (values.len() - 1) as f64
}

/// Returns whether a variance of these placements is meaningful.
fn enough(placements: &[f64]) -> bool {
    let below = placements.iter().filter(|p| **p < 1.0).count();
    let above = placements.iter().filter(|p| **p > 0.0).count();
    placements.len() >= FEW && below >= FEW_OVERLAPPING && above >= FEW_OVERLAPPING
}

/// Widens the interval for records of a kind that happens not to be among the `fewest` independent ones. A share u of
/// such records goes unseen with probability (1 − u)^fewest, which is α/2 here, and may lie below all others, or above.
/// No variance estimate accounts for it if all but a few records are alike.
fn with_unseen(
    estimate: f64,
    bounds: Bounds<Probability>,
    fewest: usize,
    confidence: Confidence,
) -> Result<Bounds<Probability>> {
    let seen = (0.5 * (1.0 - confidence.get())).powf(1.0 / fewest as f64);
    let end = |bound: Option<f64>, open: f64| bound.unwrap_or(open);
    let lower = end(bounds.lower.map(|l| l.get().get()), 0.0);
    let upper = end(bounds.upper.map(|u| u.get().get()), 1.0);
    Ok(Bounds::between(
        Probability::new(lower.min(estimate * seen))?,
        Probability::new(upper.max(1.0 - (1.0 - estimate) * seen))?,
    ))
}

/// Returns a normal interval of ln(A/(1 − A)), mapped back.
fn logit_interval(area: f64, variance: f64, confidence: Confidence) -> Result<Bounds<Probability>> {
    let z = normal_quantile(f64::midpoint(1.0, confidence.get()));
    let half = z * variance.sqrt() / (area * (1.0 - area));
    let centre = (area / (1.0 - area)).ln();
    let back = |x: f64| Probability::new(1.0 / (1.0 + (-x).exp()));
    Ok(Bounds::between(back(centre - half)?, back(centre + half)?))
}
