//! The exposure of one canary and of a set of canaries, always reported together with its null.

mod ceiling;
mod finding;
mod null;
mod paired;
mod rank_audit;
mod sampled;
mod skew_normal;

pub use ceiling::{
    CeilingAt, CeilingOutcome, CeilingPoint, CeilingTest, ceiling_test, exposure_ceiling,
    prior_mass,
};
pub use finding::{CanaryFinding, EValueFinding, ExposureFinding};
pub use null::ExposureNull;
pub use paired::{Crossings, ExposurePair, PairedEValue};
pub use rank_audit::{Assumption, EpsilonBound, EpsilonMethod, RankAudit, hit_probability, hits};
pub use sampled::{SampledExposure, Sampling, sampled_exposures};
pub use skew_normal::SkewNormal;

use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::search::RankCount;
use null::exposure_bits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rank of a canary among its candidates; 1 is the model's favourite.
///
/// `min ≤ true rank ≤ max`. Without a tie and without a spent budget the three agree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Ties broken in the canary's favour: the rank to use for "does not leak".
    pub min: u64,
    /// The mean over the ties; absent when a budget left candidates open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mid: Option<f64>,
    /// Ties broken against the canary: the rank to use for "leaks".
    pub max: u64,
}

/// Exposure in bits, log2 N − log2 rank: how many bits of the secret the model gives away.
///
/// `min` belongs to the largest rank, `max` to the smallest.
///
/// ```
/// use reticent_attacks::exposure::Exposure;
/// use reticent_attacks::search::RankCount;
/// let first = RankCount { candidates: 1_000_000, nll: 0.7, below: 0, ties: 0, unresolved: 0 };
/// let exposure = Exposure::of(&first);
/// assert!((exposure.min - 19.931_568_569_324_174).abs() < 1e-12);
/// // A model that gives every candidate the same score exposes nothing, whatever the canary.
/// let constant = RankCount { ties: 999_999, ..first };
/// assert!(Exposure::of(&constant).min.abs() < 1e-12);
/// ```
///
/// Source: Carlini et al. 2019, Definition 5; ties as three numbers are our own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exposure {
    /// log2 N − log2 (largest rank).
    pub min: f64,
    /// log2 N − log2 (mid-rank); absent when a budget left candidates open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mid: Option<f64>,
    /// log2 N − log2 (smallest rank).
    pub max: f64,
}

impl Rank {
    /// Returns the three ranks of a count.
    #[must_use]
    pub fn of(count: &RankCount) -> Self {
        Self {
            min: count.rank_min(),
            mid: count.rank_mid(),
            max: count.rank_max(),
        }
    }
}

impl Exposure {
    /// Returns the three exposures of a count, in bits.
    #[must_use]
    pub fn of(count: &RankCount) -> Self {
        let mid = count.rank_mid();
        Self {
            min: exposure_bits(count.candidates, count.rank_max()),
            mid: mid.map(|rank| (count.candidates as f64).log2() - rank.log2()),
            max: exposure_bits(count.candidates, count.rank_min()),
        }
    }
}

/// Returns the p-value of one canary against a model that ignores its secret: max-rank / N,
/// exactly.
///
/// P(max-rank ≤ t) ≤ t/N for a uniform secret, with equality without ties.
#[must_use]
pub fn rank_p_value(count: &RankCount) -> f64 {
    count.rank_max() as f64 / count.candidates as f64
}

/// A summary of several exposures together with its distribution for a model that ignores the
/// secrets.
///
/// It cannot be created, printed or serialised without its null.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistic {
    lower: f64,
    upper: f64,
    null_mean: f64,
    null_95: f64,
    p_value: f64,
}

impl Statistic {
    /// Returns the statistic in bits, with ties and open candidates counted against the canaries:
    /// for "leaks".
    #[must_use]
    pub const fn lower(&self) -> f64 {
        self.lower
    }
    /// Returns the statistic in bits, with ties and open candidates counted for the canaries: for
    /// "does not leak".
    #[must_use]
    pub const fn upper(&self) -> f64 {
        self.upper
    }
    /// Returns the mean of the statistic under the null, in bits.
    #[must_use]
    pub const fn null_mean(&self) -> f64 {
        self.null_mean
    }
    /// Returns the 95th percentile of the statistic under the null, in bits.
    #[must_use]
    pub const fn null_95(&self) -> f64 {
        self.null_95
    }
    /// Returns P(a statistic this high or higher) under the null, from [`Self::lower`].
    #[must_use]
    pub const fn p_value(&self) -> f64 {
        self.p_value
    }
}

impl std::fmt::Display for Statistic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2}", self.lower)?;
        if self.upper - self.lower >= 0.005 {
            write!(f, " to {:.2}", self.upper)?;
        }
        write!(
            f,
            " bits (without any leak {:.2} on average, 95 % below {:.2}; p = {:.2e})",
            self.null_mean, self.null_95, self.p_value
        )
    }
}

/// Maximum, mean and median of several canaries' exposures, each with its null.
///
/// ```
/// use reticent_attacks::Draw;
/// use reticent_attacks::exposure::ExposureSummary;
/// use reticent_attacks::search::RankCount;
/// let canary = |rank: u64| RankCount {
///     candidates: 1_000_000, nll: 9.0, below: rank - 1, ties: 0, unresolved: 0,
/// };
/// let ranks = [301_111, 52_000, 710_000, 499_000, 88_123, 930_000, 610_000, 244_000, 800_001, 377_000];
/// let counts: Vec<RankCount> = ranks.into_iter().map(canary).collect();
/// let summary = ExposureSummary::of(&counts, Draw::Independent)?;
/// assert!(summary.max().lower() > 4.0); // alarming alone …
/// assert!(summary.max().p_value() > 0.4); // … but just what ten untouched canaries show
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Flat", into = "Flat")]
pub struct ExposureSummary {
    max: Statistic,
    mean: Statistic,
    median: Statistic,
    low_maximum: f64,
}

impl ExposureSummary {
    /// Summarises the ranks of canaries that share one candidate space.
    ///
    /// # Errors
    /// Returns an error if there is no canary, if canaries have different numbers of candidates or a rank
    /// beyond it, or if there are more distinct canaries than candidates.
    pub fn of(counts: &[RankCount], draw: Draw) -> Result<Self> {
        let first = counts.first().ok_or(Error::Empty("no canary was given"))?;
        let candidates = first.candidates;
        if let Some(other) = counts.iter().find(|c| c.candidates != candidates) {
            let range = "one number for all canaries of a summary";
            return Err(Error::out_of_range("candidates", range, other.candidates));
        }
        counts.iter().try_for_each(RankCount::check)?;
        let null = ExposureNull::new(candidates, counts.len() as u64, draw)?;
        let mut worst: Vec<u64> = counts.iter().map(RankCount::rank_max).collect();
        let mut best: Vec<u64> = counts.iter().map(RankCount::rank_min).collect();
        worst.sort_unstable();
        best.sort_unstable();
        Ok(Self {
            max: order_statistic(&null, 1, &worst, &best),
            mean: mean_statistic(&null, &worst, &best),
            median: order_statistic(&null, median_order(null.canaries()), &worst, &best),
            low_maximum: null.low_maximum_p_value(best[0]),
        })
    }

    /// Returns the largest exposure, with its null.
    #[must_use]
    pub const fn max(&self) -> &Statistic {
        &self.max
    }
    /// Returns the mean exposure, with its null.
    #[must_use]
    pub const fn mean(&self) -> &Statistic {
        &self.mean
    }
    /// Returns the median exposure (the lower of the two middle ones for an even number), with its
    /// null.
    #[must_use]
    pub const fn median(&self) -> &Statistic {
        &self.median
    }
    /// Returns P(the largest exposure is this low or lower) for a model that ignores the secrets. A
    /// tiny value means that the measurement is broken ("below one bit" has 0.001 with ten
    /// canaries).
    #[must_use]
    pub const fn low_maximum_p_value(&self) -> f64 {
        self.low_maximum
    }
}

/// The lower median is the h-th largest exposure: h = floor(k/2) + 1 of k canaries have at least
/// that exposure.
const fn median_order(canaries: u64) -> u64 {
    canaries / 2 + 1
}

/// Returns the h-th largest exposure; `worst` and `best` are max- and min-ranks in ascending order.
fn order_statistic(null: &ExposureNull, h: u64, worst: &[u64], best: &[u64]) -> Statistic {
    let at = (h - 1) as usize;
    Statistic {
        lower: exposure_bits(null.candidates(), worst[at]),
        upper: exposure_bits(null.candidates(), best[at]),
        null_mean: null.order_mean(h),
        null_95: null.order_percentile(h, 0.95),
        p_value: null.order_p_value(h, worst[at]),
    }
}

fn mean_statistic(null: &ExposureNull, worst: &[u64], best: &[u64]) -> Statistic {
    let mean = |ranks: &[u64]| {
        let bits = ranks.iter().map(|&r| exposure_bits(null.candidates(), r));
        bits.sum::<f64>() / ranks.len() as f64
    };
    let lower = mean(worst);
    Statistic {
        lower,
        upper: mean(best),
        null_mean: null.single_mean(),
        null_95: null.mean_percentile(0.95),
        p_value: null.mean_p_value(lower),
    }
}

/// The summary as it is written: the keys of `schemas/exposure.schema.json`.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
struct Flat {
    max: f64,
    max_upper: f64,
    mean: f64,
    mean_upper: f64,
    median: f64,
    median_upper: f64,
    null_max_mean: f64,
    null_max_95: f64,
    null_mean_mean: f64,
    null_mean_95: f64,
    null_median_mean: f64,
    null_median_95: f64,
    p_max: f64,
    p_mean: f64,
    p_median: f64,
    p_max_this_low: f64,
}

impl From<ExposureSummary> for Flat {
    fn from(summary: ExposureSummary) -> Self {
        let ExposureSummary {
            max,
            mean,
            median,
            low_maximum,
        } = summary;
        Self {
            max: max.lower,
            max_upper: max.upper,
            mean: mean.lower,
            mean_upper: mean.upper,
            median: median.lower,
            median_upper: median.upper,
            null_max_mean: max.null_mean,
            null_max_95: max.null_95,
            null_mean_mean: mean.null_mean,
            null_mean_95: mean.null_95,
            null_median_mean: median.null_mean,
            null_median_95: median.null_95,
            p_max: max.p_value,
            p_mean: mean.p_value,
            p_median: median.p_value,
            p_max_this_low: low_maximum,
        }
    }
}

impl From<Flat> for ExposureSummary {
    fn from(flat: Flat) -> Self {
        let statistic = |(lower, upper), (null_mean, null_95), p_value| Statistic {
            lower,
            upper,
            null_mean,
            null_95,
            p_value,
        };
        Self {
            max: statistic(
                (flat.max, flat.max_upper),
                (flat.null_max_mean, flat.null_max_95),
                flat.p_max,
            ),
            mean: statistic(
                (flat.mean, flat.mean_upper),
                (flat.null_mean_mean, flat.null_mean_95),
                flat.p_mean,
            ),
            median: statistic(
                (flat.median, flat.median_upper),
                (flat.null_median_mean, flat.null_median_95),
                flat.p_median,
            ),
            low_maximum: flat.p_max_this_low,
        }
    }
}
