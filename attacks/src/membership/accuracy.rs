//! Attack accuracy, always reported with its interval.

use super::set::ScoreSet;
use crate::error::{Error, Result};
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Bounds, Confidence, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the threshold of an accuracy comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccuracyRule {
    /// Named before the scores were seen.
    Fixed(f64),
    /// The best of one random half; the accuracy is the other half's.
    Split,
}

/// The mean of the true-positive and the true-negative rate (chance: 1/2), with a two-sided
/// interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accuracy {
    /// A record counts as a member above this score.
    #[serde(with = "crate::spelled")]
    #[schemars(with = "f64")]
    pub threshold: f64,
    /// Where it comes from.
    pub rule: AccuracyRule,
    /// (TPR + TNR)/2 of the records that were judged.
    pub estimate: f64,
    /// Clopper–Pearson: over all records where there are as many members as non-members (a sum
    /// of two binomials is no wider than one of their mean rate, Hoeffding 1956), else over
    /// each kind at half of the failure probability.
    #[serde(flatten)]
    pub bounds: Bounds<Probability>,
    /// Members that were judged.
    pub members: u64,
    /// Non-members that were judged.
    pub non_members: u64,
}

impl ScoreSet {
    /// Returns the accuracy at a threshold that does not depend on the records on which it is
    /// evaluated. With groups, one record of each counts.
    ///
    /// # Errors
    /// Returns an error if the threshold is NaN, or if a split has fewer than two records of a
    /// kind.
    pub fn accuracy(
        &self,
        rule: AccuracyRule,
        confidence: Confidence,
        seed: u64,
    ) -> Result<Accuracy> {
        let set = self.thinned(seed);
        let (threshold, judged) = match rule {
            AccuracyRule::Fixed(threshold) if threshold.is_nan() => {
                return Err(Error::out_of_range("threshold", "[-inf, inf]", threshold));
            }
            AccuracyRule::Fixed(threshold) => (threshold, set),
            AccuracyRule::Split => {
                let (chosen_on, judged) = set.halves(seed)?;
                (chosen_on.best_threshold(), judged)
            }
        };
        let (tp, fp) = judged.above(threshold);
        let (m, n) = (judged.members.len() as u64, judged.non_members.len() as u64);
        let tn = n - fp;
        let (lower, upper) = if m == n {
            let each = confidence.shared_by(2)?;
            (
                clopper_pearson_lower(tp + tn, m + n, each)?.get().get(),
                clopper_pearson_upper(tp + tn, m + n, each)?.get().get(),
            )
        } else {
            let each = confidence.shared_by(4)?;
            let low = |hits, of| clopper_pearson_lower(hits, of, each).map(|b| b.get().get());
            let high = |hits, of| clopper_pearson_upper(hits, of, each).map(|b| b.get().get());
            (
                f64::midpoint(low(tp, m)?, low(tn, n)?),
                f64::midpoint(high(tp, m)?, high(tn, n)?),
            )
        };
        Ok(Accuracy {
            threshold,
            rule,
            estimate: f64::midpoint(tp as f64 / m as f64, tn as f64 / n as f64),
            bounds: Bounds::between(Probability::new(lower)?, Probability::new(upper)?),
            members: m,
            non_members: n,
        })
    }

    /// Returns the score above which TPR − FPR is largest.
    pub(super) fn best_threshold(&self) -> f64 {
        let mut all: Vec<(f64, bool)> = self
            .members
            .iter()
            .map(|s| (*s, true))
            .chain(self.non_members.iter().map(|s| (*s, false)))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let step = |member: bool| {
            if member {
                1.0 / self.members.len() as f64
            } else {
                -1.0 / self.non_members.len() as f64
            }
        };
        let (mut gain, mut best, mut threshold) = (0.0, 0.0, f64::INFINITY);
        for run in all.chunk_by(|a, b| a.0 <= b.0) {
            // The records above this run's score are those before it.
            if gain > best {
                best = gain;
                threshold = run[0].0;
            }
            gain += run.iter().map(|(_, member)| step(*member)).sum::<f64>();
        }
        if gain > best {
            threshold = f64::NEG_INFINITY;
        }
        threshold
    }
}
