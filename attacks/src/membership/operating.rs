//! True positives at few false positives, and the ROC curve.

use super::set::{Rate, ScoreSet, falling};
use crate::error::{Error, Result};
use crate::statistics::{bisect_last_whole, check_open_unit};
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Confidence, Estimate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// True positives at a false-positive rate that the sample can certify, or how many more
/// non-members that takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatingPoint {
    /// The false-positive rate that was asked for.
    pub fpr: f64,
    /// Non-members without which no sample can certify it.
    pub non_members_needed: u64,
    /// The largest share of members where the sample's own share of non-members is at most `fpr`: what
    /// papers print. Its threshold was chosen on the records it is judged by, and nothing certifies the rate.
    pub plug_in: Estimate<f64>,
    /// What was found; absent where the sample is too small.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<TruePositives>,
}

/// What a threshold finds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TruePositives {
    /// A record counts as a member above this score: a score among the non-members', chosen
    /// without looking at the members.
    #[serde(with = "crate::spelled")]
    #[schemars(with = "f64")]
    pub threshold: f64,
    /// Non-members above the threshold that the certificate allows.
    pub allowed: u64,
    /// The false-positive rate is at most this with the stated confidence; at most `fpr`.
    pub fpr_upper: f64,
    /// Members above the threshold.
    pub tpr: Rate,
}

/// One corner of the ROC curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RocPoint {
    /// Share of non-members at or above a score.
    pub fpr: f64,
    /// Share of members.
    pub tpr: f64,
}

/// Non-members without a single false positive that certify a false-positive rate:
/// ⌈ln(1 − confidence)/ln(1 − fpr)⌉.
///
/// ```
/// use reticent_accounting::Confidence;
/// let needed = reticent_attacks::membership::non_members_needed(0.001, Confidence::new(0.95)?)?;
/// assert_eq!(needed, 2995);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A rate outside (0, 1), or below 1e-15.
pub fn non_members_needed(fpr: f64, confidence: Confidence) -> Result<u64> {
    check_open_unit("false-positive rate", fpr)?;
    if fpr < 1e-15 {
        return Err(Error::out_of_range(
            "false-positive rate",
            "[1e-15, 1)",
            fpr,
        ));
    }
    let needed = (-confidence.get()).ln_1p() / (-fpr).ln_1p();
    Ok((needed - 1e-9).ceil().max(1.0) as u64)
}

impl ScoreSet {
    /// True positives at a certified false-positive rate.
    ///
    /// The threshold is the (k+1)-th largest score of the n non-members, with the largest k
    /// that keeps the rate above it within `fpr` with the stated confidence: for continuous
    /// scores that rate is distributed as Beta(k + 1, n − k) (ties lower it), and its upper
    /// bound is Clopper and Pearson's for k of n. k follows from n, fpr and the confidence
    /// alone. Given the threshold the members above it are binomial, so their two-sided
    /// interval, at the same confidence, is exact too. With groups one record of each counts.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// use reticent_attacks::membership::ScoreSet;
    /// let outside: Vec<f64> = (0..100).map(f64::from).collect();
    /// let set = ScoreSet::new(outside.iter().map(|s| s + 9.5).collect(), outside)?;
    /// let point = set.true_positives_at(0.01, Confidence::new(0.95)?, 0)?;
    /// assert!(point.found.is_none() && point.non_members_needed == 299);
    /// // Of 100 non-members one is above 98, and of the members 11: no certificate, but what papers print.
    /// assert!((point.plug_in.get() - 0.11).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A rate outside (0, 1).
    pub fn true_positives_at(
        &self,
        fpr: f64,
        confidence: Confidence,
        seed: u64,
    ) -> Result<OperatingPoint> {
        let needed = non_members_needed(fpr, confidence)?;
        let set = self.thinned(seed);
        let outside = falling(&set.non_members);
        let mut point = OperatingPoint {
            fpr,
            non_members_needed: needed,
            plug_in: self.plug_in(fpr),
            found: None,
        };
        if (outside.len() as u64) < needed {
            return Ok(point);
        }
        let n = outside.len() as u64;
        let allowed = bisect_last_whole(0, n - 1, |k| {
            clopper_pearson_upper(k, n, confidence).is_ok_and(|upper| upper.get().get() <= fpr)
        });
        let upper = clopper_pearson_upper(allowed, n, confidence)?;
        let threshold = outside[allowed as usize];
        let (tp, _) = set.above(threshold);
        point.found = Some(TruePositives {
            threshold,
            allowed,
            fpr_upper: upper.get().get(),
            tpr: Rate::of(tp, set.members.len() as u64, confidence)?,
        });
        Ok(point)
    }

    /// The largest share of members at a corner of the ROC curve with no more false positives than `fpr`.
    fn plug_in(&self, fpr: f64) -> Estimate<f64> {
        let corners = self.roc().into_iter().filter(|point| point.fpr <= fpr);
        Estimate::new(corners.map(|point| point.tpr).fold(0.0, f64::max))
    }

    /// The corners of the ROC curve, from (0, 0) to (1, 1); a run of equal scores is one step.
    #[must_use]
    pub fn roc(&self) -> Vec<RocPoint> {
        let (inside, outside) = (falling(&self.members), falling(&self.non_members));
        let mut points = vec![RocPoint { fpr: 0.0, tpr: 0.0 }];
        let (mut i, mut j) = (0, 0);
        while i < inside.len() || j < outside.len() {
            let next = match (inside.get(i), outside.get(j)) {
                (Some(a), Some(b)) => a.max(*b),
                (Some(a), None) => *a,
                (None, Some(b)) => *b,
                (None, None) => break,
            };
            i += inside[i..].iter().take_while(|s| **s >= next).count();
            j += outside[j..].iter().take_while(|s| **s >= next).count();
            points.push(RocPoint {
                fpr: j as f64 / outside.len() as f64,
                tpr: i as f64 / inside.len() as f64,
            });
        }
        points
    }

    /// The true-positive rate at a false-positive rate from both sides, each rate's bound at a
    /// quarter of the failure probability: pointwise, for the band of a plot.
    ///
    /// # Errors
    /// A rate outside (0, 1).
    pub fn roc_band(&self, fpr: f64, confidence: Confidence, seed: u64) -> Result<(f64, f64)> {
        check_open_unit("false-positive rate", fpr)?;
        let set = self.thinned(seed);
        let outside = falling(&set.non_members);
        let n = outside.len() as u64;
        let each = Confidence::new(1.0 - (1.0 - confidence.get()) / 4.0)?;
        let at_most = |k| clopper_pearson_upper(k, n, each).is_ok_and(|u| u.get().get() <= fpr);
        let at_least = |k| clopper_pearson_lower(k, n, each).is_ok_and(|l| l.get().get() >= fpr);
        let members = set.members.len() as u64;
        let mut band = (0.0, 1.0);
        if at_most(0) {
            let k = bisect_last_whole(0, n - 1, at_most);
            let (tp, _) = set.above(outside[k as usize]);
            band.0 = clopper_pearson_lower(tp, members, each)?.get().get();
        }
        if at_least(n) {
            // The least k whose rate is surely as large: the mirror of the above.
            let short = bisect_last_whole(0, n, |k| !at_least(k));
            let k = (short + 1).min(n);
            let threshold = outside[(k - 1) as usize];
            let tp = set.members.iter().filter(|s| **s >= threshold).count() as u64;
            band.1 = clopper_pearson_upper(tp, members, each)?.get().get();
        }
        Ok(band)
    }
}
