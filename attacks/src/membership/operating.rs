//! True positives at low false-positive rates, and the ROC curve.

use super::set::{Rate, ScoreSet, falling};
use crate::error::{Result, ranged};
use crate::statistics::{bisect_last_whole, check_open_unit};
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Bounds, Confidence, Estimate, Probability, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// True positives at a false-positive rate that the sample can certify, or how many more
/// non-members that takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatingPoint {
    /// The false-positive rate that was asked for.
    pub fpr: f64,
    /// Non-members without which no sample can certify it, at the share of the confidence that the threshold has.
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
    /// The false-positive rate is at most this, at a quarter of what may be wrong of the whole; at most `fpr`.
    pub fpr_upper: f64,
    /// Members above the threshold. Its interval is that of the true-positive rate at `fpr`, for threshold and rate
    /// together: it holds the largest share of members above any threshold whose false-positive rate is at most `fpr`.
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

/// Returns the number of non-members that certify a false-positive rate if none of them is a false positive:
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
/// Returns an error if the rate is outside (0, 1), or below 1e-15.
pub fn non_members_needed(fpr: f64, confidence: Confidence) -> Result<u64> {
    check_open_unit("false-positive rate", fpr)?;
    ranged("false-positive rate", "[1e-15, 1)", fpr, fpr >= 1e-15)?;
    let needed = (-confidence.get()).ln_1p() / (-fpr).ln_1p();
    Ok((needed - 1e-9).ceil().max(1.0) as u64)
}

impl ScoreSet {
    /// Returns the true positives at a certified false-positive rate.
    ///
    /// With β(x) = sup {P₁(S > t): P₀(S > t) ≤ x}, the largest share of members above a threshold whose false-positive
    /// rate is at most x, the interval contains β(fpr) with the stated confidence 1 − α. Each of its ends depends on a
    /// threshold and on a rate above it, at α/4 each:
    ///
    /// - Lower end: t is the (k+1)-th largest score of the n non-members, with the largest k for which the
    ///   Clopper–Pearson upper end of k of n is at most fpr. Let t* be the least threshold with P₀(S > t*) ≤ fpr, so
    ///   that P₀(S ≥ t*) ≥ fpr. P₀(S > t) > fpr means t < t*, so at most k scores of n reach t*, which has probability
    ///   P(Bin(n, fpr) ≤ k) ≤ α/4 at most, and exactly that for continuous scores where the upper end is fpr. Otherwise
    ///   β(fpr) ≥ P₁(S > t). Given t, the number of members above it is binomial, and the lower end of their rate
    ///   exceeds the rate with probability at most α/4.
    /// - Upper end: u is the k-th largest score with the least k for which the lower end of k of n is at least fpr.
    ///   u > t* means that at least k scores lie above t*, which has probability P(Bin(n, fpr) ≥ k) ≤ α/4 at most.
    ///   Otherwise every threshold with a rate of at most fpr is u or more, so β(fpr) ≤ P₁(S ≥ u), whose upper end is
    ///   below it with probability at most α/4. If no k suffices, the interval has no upper end.
    ///
    /// k depends on n, fpr and the confidence only, also with ties. Each end errs with probability at most α/2. Giving
    /// all of α to the threshold and another α to the ends of the rate would err twice as often. With groups, one
    /// record of each counts.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// use reticent_attacks::membership::ScoreSet;
    /// let outside: Vec<f64> = (0..100).map(f64::from).collect();
    /// let set = ScoreSet::new(outside.iter().map(|s| s + 9.5).collect(), outside)?;
    /// let point = set.true_positives_at(0.01, Confidence::new(0.95)?, 0)?;
    /// assert!(point.found.is_none() && point.non_members_needed == 437);
    /// // Of 100 non-members one is above 98, and of the members 11: no certificate, but what papers print.
    /// assert!((point.plug_in.get() - 0.11).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the rate is outside (0, 1).
    pub fn true_positives_at(
        &self,
        fpr: f64,
        confidence: Confidence,
        seed: u64,
    ) -> Result<OperatingPoint> {
        let each = confidence.shared_by(4)?;
        let set = self.thinned(seed);
        let outside = falling(&set.non_members);
        let mut point = OperatingPoint {
            fpr,
            non_members_needed: non_members_needed(fpr, each)?,
            plug_in: self.plug_in(fpr),
            found: None,
        };
        if let Some((threshold, allowed, tp)) = set.certified(&outside, fpr, each) {
            let (n, m) = (outside.len() as u64, set.members.len() as u64);
            let rate = Rate::of(tp, m, confidence)?;
            let lower = clopper_pearson_lower(tp, m, each)?;
            let upper = set.surely_beyond(&outside, fpr, each)?;
            point.found = Some(TruePositives {
                threshold,
                allowed,
                fpr_upper: clopper_pearson_upper(allowed, n, each)?.get().get(),
                tpr: Rate {
                    bounds: Bounds {
                        lower: Some(lower),
                        upper,
                    },
                    ..rate
                },
            });
        }
        Ok(point)
    }

    /// Returns the threshold above which the share of non-members is certainly at most `fpr`, how many non-members of
    /// the sample may be above it, and how many members are; `None` if the sample is too small.
    fn certified(&self, outside: &[f64], fpr: f64, each: Confidence) -> Option<(f64, u64, u64)> {
        let n = outside.len() as u64;
        let at_most =
            |k| clopper_pearson_upper(k, n, each).is_ok_and(|upper| upper.get().get() <= fpr);
        if n == 0 || !at_most(0) {
            return None;
        }
        let allowed = bisect_last_whole(0, n - 1, at_most);
        let threshold = outside[allowed as usize];
        Some((threshold, allowed, self.above(threshold).0))
    }

    /// Returns the upper end of the rate of members at or above the highest score that at least a share `fpr` of
    /// non-members certainly reaches.
    fn surely_beyond(
        &self,
        outside: &[f64],
        fpr: f64,
        each: Confidence,
    ) -> Result<Option<Upper<Probability>>> {
        let n = outside.len() as u64;
        let at_least =
            |k| clopper_pearson_lower(k, n, each).is_ok_and(|lower| lower.get().get() >= fpr);
        if n == 0 || !at_least(n) {
            return Ok(None);
        }
        // The least k whose rate is certainly that large: the mirror image of `certified`.
        let short = bisect_last_whole(0, n, |k| !at_least(k));
        let threshold = outside[(short + 1).min(n) as usize - 1];
        let reached = self.members.iter().filter(|s| **s >= threshold).count() as u64;
        Ok(Some(clopper_pearson_upper(
            reached,
            self.members.len() as u64,
            each,
        )?))
    }

    /// Returns the largest share of members at a corner of the ROC curve with a false-positive rate of at most `fpr`.
    fn plug_in(&self, fpr: f64) -> Estimate<f64> {
        let corners = self.roc().into_iter().filter(|point| point.fpr <= fpr);
        Estimate::new(corners.map(|point| point.tpr).fold(0.0, f64::max))
    }

    /// Returns the corners of the ROC curve, from (0, 0) to (1, 1); a run of equal scores is one step.
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

    /// Returns the interval of [`Self::true_positives_at`], also if the sample certifies nothing. It is pointwise, for
    /// the band of a plot.
    ///
    /// # Errors
    /// Returns an error if the rate is outside (0, 1).
    pub fn roc_band(&self, fpr: f64, confidence: Confidence, seed: u64) -> Result<(f64, f64)> {
        check_open_unit("false-positive rate", fpr)?;
        let set = self.thinned(seed);
        let outside = falling(&set.non_members);
        let each = confidence.shared_by(4)?;
        let lower = match set.certified(&outside, fpr, each) {
            Some((_, _, tp)) => clopper_pearson_lower(tp, set.members.len() as u64, each)?
                .get()
                .get(),
            None => 0.0,
        };
        let upper = set.surely_beyond(&outside, fpr, each)?;
        Ok((lower, upper.map_or(1.0, |upper| upper.get().get())))
    }
}
