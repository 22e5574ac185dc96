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
    /// DeLong's variance, normal on the logit scale, widened for skewness and for what may have gone unseen: large
    /// samples.
    Delong,
    /// Clopper–Pearson over disjoint pairs of a member and a non-member: exact, for samples
    /// where few scores overlap or that are small. Of groups, one record each.
    DisjointPairs,
    /// Bootstrap over groups, percentiles widened for their effective number, for skewness and for what may have gone
    /// unseen.
    ClusterBootstrap,
}

/// With fewer records of a kind than this, or fewer that overlap with the other kind, a variance estimate is not
/// reliable.
const FEW: usize = 20;
const FEW_OVERLAPPING: usize = 5;

impl ScoreSet {
    /// Returns the area under the ROC curve. With groups, the interval comes from a bootstrap over them; with an
    /// effective number of groups below ten, from one record of each.
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
    /// Returns no error for a confidence in (0, 1).
    pub fn area(&self, confidence: Confidence, seed: u64) -> Result<Area> {
        let (inside, outside) = self.placements();
        let estimate = mean(&inside);
        let deviations = [&inside, &outside].map(|side| deviations(side, estimate));
        let (bounds, kinds, fewest, method) = match &self.groups {
            Some(groups) => match bootstrap_area(self, confidence, seed)? {
                Some(bounds) => (
                    bounds,
                    groups.sums(&deviations).to_vec(),
                    groups.effective(),
                    AreaMethod::ClusterBootstrap,
                ),
                None => return self.thinned(seed).pairs(estimate, confidence, seed),
            },
            None if enough(&inside) && enough(&outside) => (
                delong(&inside, &outside, confidence)?,
                deviations.to_vec(),
                inside.len().min(outside.len()) as f64,
                AreaMethod::Delong,
            ),
            None => return self.pairs(estimate, confidence, seed),
        };
        let bounds = with_skewness(estimate, bounds, &kinds, fewest, confidence)?;
        Ok(Area {
            estimate,
            bounds: with_unseen(estimate, bounds, fewest, confidence)?,
            method,
        })
    }

    /// Returns DeLong's interval without what skewness adds to it, which documents of earlier versions hold; `None` for
    /// scores whose interval has another method.
    ///
    /// # Errors
    /// Returns no error for a confidence in (0, 1).
    pub fn delong_without_skewness(
        &self,
        confidence: Confidence,
    ) -> Result<Option<Bounds<Probability>>> {
        let (inside, outside) = self.placements();
        if self.groups.is_some() || !enough(&inside) || !enough(&outside) {
            return Ok(None);
        }
        let bounds = delong(&inside, &outside, confidence)?;
        let fewest = inside.len().min(outside.len()) as f64;
        with_unseen(mean(&inside), bounds, fewest, confidence).map(Some)
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
            let share = |score: &f64| mid_rank(&sorted, sign * score) / sorted.len() as f64;
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
        let each = confidence.shared_by(2)?;
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

/// Returns how much each record moves the area away from `estimate`, by the placements of its side.
fn deviations(placements: &[f64], estimate: f64) -> Vec<f64> {
    let count = placements.len() as f64;
    placements.iter().map(|p| (p - estimate) / count).collect()
}

/// Widens the interval for skewness: where few records deviate from all others, a sample that happens to hold fewer of
/// them has a more extreme estimate and a smaller variance.
///
/// `kinds` are the deviations of independent units, kind by kind. To each kind z²/2 units are added that deviate
/// towards an end by Σd³/Σd², the size of what is rare, where the cubes are those of the deviations towards this end
/// alone: what is rare on the other side makes up for none of it. For a Poisson count k of equal deviations the end is
/// k + z²/2 + z√(k + z²/2): at 95 % beyond the exact one for k up to a thousand. An interval of n records on either side
/// whose scores are all different and tell nothing is wider by about z/(2√n) of its width.
fn with_skewness(
    estimate: f64,
    bounds: Bounds<Probability>,
    kinds: &[Vec<f64>],
    fewest: f64,
    confidence: Confidence,
) -> Result<Bounds<Probability>> {
    let z = normal_quantile(f64::midpoint(1.0, confidence.get()));
    let added = 0.5 * z * z;
    let reach = |sign: f64| {
        let (mut shift, mut variance) = (0.0, 0.0);
        for kind in kinds {
            let squares: f64 = kind.iter().map(|d| d * d).sum();
            let cubes: f64 = kind.iter().map(|d| (sign * d).max(0.0).powi(3)).sum();
            let rare = match squares > 0.0 {
                true => cubes / squares,
                false => 0.0,
            };
            shift += added * rare;
            variance += squares + added * rare * rare;
        }
        (shift > 0.0).then(|| shift + z * (variance * fewest / (fewest - 1.0)).sqrt())
    };
    let (lower, upper) = ends(&bounds);
    let further = |sign: f64| reach(sign).map_or(estimate, |reach| estimate + sign * reach);
    Ok(Bounds::between(
        Probability::new(lower.min(further(-1.0)).max(0.0))?,
        Probability::new(upper.max(further(1.0)).min(1.0))?,
    ))
}

/// Widens the interval for records of a kind that happens not to be among the `fewest` independent ones. A share u of
/// such records goes unseen with probability (1 − u)^fewest, which is α/2 here, and may lie below all others, or above.
/// No variance estimate accounts for it if all but a few records are alike.
fn with_unseen(
    estimate: f64,
    bounds: Bounds<Probability>,
    fewest: f64,
    confidence: Confidence,
) -> Result<Bounds<Probability>> {
    let seen = (0.5 * (1.0 - confidence.get())).powf(1.0 / fewest);
    let (lower, upper) = ends(&bounds);
    Ok(Bounds::between(
        Probability::new(lower.min(estimate * seen))?,
        Probability::new(upper.max(1.0 - (1.0 - estimate) * seen))?,
    ))
}

/// Returns both ends, those of [0, 1] where one is open.
fn ends(bounds: &Bounds<Probability>) -> (f64, f64) {
    let lower = bounds.lower.map_or(0.0, |l| l.get().get());
    let upper = bounds.upper.map_or(1.0, |u| u.get().get());
    (lower, upper)
}

/// Returns a normal interval of ln(A/(1 − A)) by DeLong's variance, mapped back.
fn delong(inside: &[f64], outside: &[f64], confidence: Confidence) -> Result<Bounds<Probability>> {
    let area = mean(inside);
    let variance = spread(inside) / inside.len() as f64 + spread(outside) / outside.len() as f64;
    let z = normal_quantile(f64::midpoint(1.0, confidence.get()));
    let half = z * variance.sqrt() / (area * (1.0 - area));
    let centre = (area / (1.0 - area)).ln();
    let back = |x: f64| Probability::new(1.0 / (1.0 + (-x).exp()));
    Ok(Bounds::between(back(centre - half)?, back(centre + half)?))
}

/// Returns how many of sorted scores lie below a value; those equal to it count one half.
pub(super) fn mid_rank(sorted: &[f64], value: f64) -> f64 {
    let below = sorted.partition_point(|s| *s < value);
    let up_to = sorted.partition_point(|s| *s <= value);
    (below + up_to) as f64 / 2.0
}
