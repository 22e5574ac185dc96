//! Turns exposure into a lower bound on ε.
//!
//! # Statement
//! There are m secrets, each uniform on N candidates, and a mechanism that is
//! (ε, δ)-indistinguishable (in both directions) when one secret is replaced by another in all its
//! r copies at once. The output (the model) names for every canary j a set T_j of at most t
//! candidates; T_j may also depend on the secrets before j. Let v be the number of j with
//! s_j ∈ T_j. With N' = N for independent draws, N' = N − m + 1 for distinct ones, and
//! q = t e^ε / (N' − t + t e^ε):
//!
//! P(v ≥ v₀) ≤ P[Bin(m, q) ≥ v₀] + m δ (N' − 1) / (N' − t + t e^ε).
//!
//! "Max-rank at most t" defines such a set: the max-rank of its candidate with the largest NLL
//! counts the whole set, so the set has at most t members, whatever the ties. The set depends on
//! the model alone as long as the other canaries remain among the candidates.
//!
//! # Proof
//! *One secret.* Fix all other secrets; s is uniform on a set C of N' candidates (for distinct
//! draws those not taken; for independent draws all). Enlarge T to a T ⊂ C with exactly t
//! members: this can only add hits. Let P_x be the output's law with s = x, O any event of
//! outputs, a = P(s ∈ T, O), b = P(s ∉ T, O). For x ≠ y,
//! P_x(x ∈ T, y ∉ T, O) ≤ e^ε P_y(x ∈ T, y ∉ T, O) + δ. Summed over all ordered pairs of C, the
//! left side counts N' − t values y for every hit, the right side t values x for every miss:
//! (N' − t) a ≤ t e^ε b + (N' − 1) δ. Hence
//! E[1_O (1[s ∈ T] − q)] = (1 − q) a − q b ≤ (N' − 1) δ / (N' − t + t e^ε) =: δ'. With O the
//! outputs whose posterior of a hit exceeds q: the mean excess of that posterior over q is at
//! most δ'; with δ = 0 the posterior never exceeds q.
//!
//! *All secrets.* Reveal the output, then the secrets in order. Given the output and the secrets
//! before j, s_j ∈ T_j has probability at most q + g_j: the average of the above over the
//! secrets after j; E g_j ≤ δ'. With U_j uniform, a hit implies U_j ≤ q or q < U_j ≤ q + g_j.
//! The first kind is counted by Bin(m, q); the second occurs at all with probability at most
//! Σ E g_j ≤ m δ'. ∎
//!
//! *Inversion.* P(v ≥ v₀) decreases in v₀, so the largest ε whose right-hand side is at most α is a
//! lower bound that is wrong with probability at most α, although the right-hand side need not
//! increase with ε when δ > 0: if the bound were above the true ε₀ from v₀ on, some ε* > ε₀ would
//! have a right-hand side ≤ α at v₀; the mechanism is (ε*, δ)-indistinguishable too, so
//! P(v ≥ v₀) ≤ α. Several thresholds share α equally (Bonferroni). They must be fixed before the
//! ranks are seen.
//!
//! Source: the domination argument of Steinke, Nasr and Jagielski 2023 (one-run auditing), with
//! N-ary secrets in place of in/out coins.

use crate::draw::Draw;
use crate::error::{Error, Result, given, ranged};
use crate::evalue::EValueTest;
use crate::search::RankCount;
use crate::statistics::{binomial_upper_tail, bisect_last};
use reticent_accounting::statistics::clopper_pearson_lower;
use reticent_accounting::{
    Confidence, Delta, Epsilon, Estimate, Lower, Neighbours, Probability, Upper,
};
use reticent_corpus::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What must be fixed before the ranks are seen.
#[derive(Debug, Clone, PartialEq)]
pub struct RankAudit {
    /// The thresholds t; the failure probability is divided equally among them.
    pub thresholds: Vec<u64>,
    /// 1 − α, the probability that the bound holds.
    pub confidence: Confidence,
    /// The δ of the ε that is bounded: 0 bounds the pure ε, which is not comparable with an ε(δ) of
    /// δ > 0.
    pub delta: Delta,
    /// How the secrets were drawn.
    pub draw: Draw,
    /// What one record is in the audited training.
    pub unit: Unit,
    /// The number of records that hold one secret and are replaced together: the group of the ε
    /// that is bounded.
    pub copies: u64,
}

/// How a lower bound on ε was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EpsilonMethod {
    /// Ranks of secrets among their candidates.
    RankAudit,
    /// E-values of what the model believes of each secret.
    EValue,
    /// Coins of one run, any (ε, δ).
    OneRun,
    /// Coins of one run, a Gaussian trade-off.
    OneRunFDp,
    /// Clopper–Pearson bounds of both error rates over independent trials.
    ClopperPearson,
    /// The same bounds, a Gaussian trade-off.
    Gdp,
}

/// What a lower bound on ε presupposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// The guarantee has δ = 0; the bound is never compared with an ε(δ) of δ > 0.
    PureDp,
    /// The guarantee has the stated δ.
    ApproximateDp,
    /// The mechanism's trade-off is a Gaussian's. The bound meets no promise: a breach may be the
    /// assumption's fault.
    GaussianTradeOff,
}

impl Assumption {
    /// Returns what a bound without a trade-off family assumes at this δ.
    pub(crate) fn of(delta: Delta) -> Self {
        if delta.get() > 0.0 {
            Self::ApproximateDp
        } else {
            Self::PureDp
        }
    }
}

/// A lower bound on ε with everything it is a bound *of*.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpsilonBound {
    /// ε is at least this, with the stated confidence.
    pub lower: Lower<Epsilon>,
    /// The probability with which the bound holds, over secrets and training.
    pub confidence: Confidence,
    /// δ of the ε that is bounded.
    pub delta: Delta,
    /// Always `Replace`: secret against secret.
    pub neighbours: Neighbours,
    /// What one record is.
    pub unit: Unit,
    /// Records replaced at once.
    pub copies: u64,
    /// How it was found.
    pub method: EpsilonMethod,
    /// What it presupposes.
    pub assumes: Assumption,
    /// The threshold that gave it, by ranks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threshold: Option<u64>,
    /// Canaries with max-rank at most that, by ranks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hits: Option<u64>,
    /// m, the number of canaries.
    pub canaries: u64,
    /// How many thresholds shared the failure probability, by ranks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub thresholds: Option<usize>,
    /// The numbers of the test, by e-values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub e_value: Option<EValueTest>,
}

impl RankAudit {
    /// Returns the lower bound on ε that these ranks support.
    ///
    /// Direction: lower. Only max-ranks are used, so ties and spent budgets weaken the bound but
    /// never invalidate it.
    ///
    /// ```
    /// use reticent_attacks::Draw;
    /// use reticent_attacks::exposure::RankAudit;
    /// use reticent_attacks::search::RankCount;
    /// use reticent_accounting::{Confidence, Delta};
    /// use reticent_corpus::Unit;
    /// let first = RankCount { candidates: 1_000_000, nll: 0.1, below: 0, ties: 0, unresolved: 0 };
    /// let audit = RankAudit {
    ///     thresholds: vec![1], confidence: Confidence::new(0.95)?, delta: Delta::new(0.0)?,
    ///     draw: Draw::Independent, unit: Unit::Turn, copies: 20,
    /// };
    /// let bound = audit.bound(&[first; 10])?;
    /// assert!((bound.lower.get().get() - 14.867).abs() < 1e-3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no canary, if canaries have different numbers of candidates or a
    /// rank beyond it, if there is no threshold or one outside [1, N'), if δ = 1, or if there are zero
    /// copies.
    pub fn bound(&self, counts: &[RankCount]) -> Result<EpsilonBound> {
        let first = counts.first().ok_or(Error::Empty("no canary was given"))?;
        let canaries = counts.len() as u64;
        if let Some(other) = counts.iter().find(|c| c.candidates != first.candidates) {
            let range = "one number for all canaries of an audit";
            return Err(Error::out_of_range("candidates", range, other.candidates));
        }
        counts.iter().try_for_each(RankCount::check)?;
        let (test, alpha) = self.test(first.candidates, canaries)?;
        let mut best: Option<(f64, u64, u64)> = None;
        for &threshold in &self.thresholds {
            let hits = hits(counts, threshold);
            let epsilon = test(threshold).epsilon(hits, alpha)?;
            if best.is_none_or(|(so_far, ..)| epsilon > so_far) {
                best = Some((epsilon, threshold, hits));
            }
        }
        let (epsilon, threshold, hits) = best.ok_or(Error::Empty("no threshold was given"))?;
        Ok(EpsilonBound {
            lower: Lower::new(Epsilon::new(epsilon)?),
            confidence: self.confidence,
            delta: self.delta,
            neighbours: Neighbours::Replace,
            unit: self.unit,
            copies: self.copies,
            method: EpsilonMethod::RankAudit,
            assumes: Assumption::of(self.delta),
            threshold: Some(threshold),
            hits: Some(hits),
            canaries,
            thresholds: Some(self.thresholds.len()),
            e_value: None,
        })
    }

    /// Returns the largest ε that this audit can prove: all of `canaries` canaries within every
    /// threshold. No ranks give a larger bound.
    ///
    /// ```
    /// use reticent_attacks::Draw;
    /// use reticent_attacks::exposure::RankAudit;
    /// use reticent_accounting::{Confidence, Delta};
    /// use reticent_corpus::Unit;
    /// let audit = RankAudit {
    ///     thresholds: vec![1], confidence: Confidence::new(0.95)?, delta: Delta::new(0.0)?,
    ///     draw: Draw::Independent, unit: Unit::Turn, copies: 20,
    /// };
    /// let most = audit.provable(1_000_000, 10)?;
    /// assert!((most.get().get() - 14.867).abs() < 1e-3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`RankAudit::bound`].
    pub fn provable(&self, candidates: u64, canaries: u64) -> Result<Upper<Epsilon>> {
        self.provable_by((candidates, canaries), canaries)
    }

    /// Returns the largest ε that `hits` of the canaries can prove, all of them within every threshold and the others
    /// within none.
    ///
    /// # Errors
    /// As for [`RankAudit::bound`].
    pub fn provable_by(
        &self,
        (candidates, canaries): (u64, u64),
        hits: u64,
    ) -> Result<Upper<Epsilon>> {
        let (test, alpha) = self.test(candidates, canaries)?;
        let mut most = 0.0_f64;
        for &threshold in &self.thresholds {
            most = most.max(test(threshold).epsilon(hits.min(canaries), alpha)?);
        }
        Ok(Upper::new(Epsilon::new(most)?))
    }

    /// Returns the smallest number of canaries within `threshold` that proves more than this ε;
    /// `None` if not even all of them do.
    ///
    /// # Errors
    /// As for [`RankAudit::bound`].
    pub fn hits_beyond(
        &self,
        epsilon: Epsilon,
        threshold: u64,
        (candidates, canaries): (u64, u64),
    ) -> Result<Option<u64>> {
        let (test, alpha) = self.test(candidates, canaries)?;
        let test = test(threshold);
        check_threshold(threshold, test.effective)?;
        for hits in 1..=canaries {
            if test.epsilon(hits, alpha)? > epsilon.get() {
                return Ok(Some(hits));
            }
        }
        Ok(None)
    }

    /// Returns P(at least `hits` of `canaries` within a threshold) if each is within it with
    /// probability at most `each`, independently of the others. Direction: an estimate, since
    /// nothing makes them independent.
    #[must_use]
    pub fn chance_of(hits: u64, canaries: u64, each: Probability) -> Estimate<Probability> {
        let chance = binomial_upper_tail(hits, canaries, each.get());
        Estimate::new(Probability::new(chance.clamp(0.0, 1.0)).unwrap_or(Probability::ONE))
    }

    /// Returns thresholds that follow from the plan alone: a, 10 a, 100 a, where a is the largest
    /// number of canaries that share a context (if all are memorised, they occupy the ranks 1 to
    /// a). The multiples are included while they are below half of the candidates.
    #[must_use]
    pub fn planned_thresholds(candidates: u64, sharing_a_context: u64) -> Vec<u64> {
        let first = sharing_a_context.max(1);
        [1, 10, 100]
            .into_iter()
            .map(|step| first.saturating_mul(step))
            .filter(|&t| t == first || t < candidates / 2)
            .collect()
    }

    /// Returns what makes the test of a threshold, and the failure probability of each.
    fn test(&self, candidates: u64, canaries: u64) -> Result<(impl Fn(u64) -> HitTest, f64)> {
        let effective = self.draw.effective_candidates(candidates, canaries)?;
        self.check(effective)?;
        let delta = self.delta.get();
        let test = move |threshold| HitTest {
            canaries,
            effective,
            threshold,
            delta,
        };
        let alpha = (1.0 - self.confidence.get()) / self.thresholds.len() as f64;
        Ok((test, alpha))
    }

    /// Returns the audit of so many canaries with so many candidates each, in which thresholds of N' or more, of which
    /// every secret is within, become N' − 1. N' follows from the numbers alone, so they stay fixed beforehand.
    #[must_use]
    pub fn within(mut self, candidates: u64, canaries: u64) -> Self {
        if let Ok(effective @ 2..) = self.draw.effective_candidates(candidates, canaries) {
            for threshold in &mut self.thresholds {
                *threshold = (*threshold).min(effective - 1);
            }
            self.thresholds.dedup();
        }
        self
    }

    fn check(&self, effective: u64) -> Result<()> {
        ranged("delta", "[0, 1)", self.delta.get(), self.delta.get() < 1.0)?;
        ranged("copies", "[1, inf)", self.copies, self.copies > 0)?;
        given(!self.thresholds.is_empty(), "no threshold was given")?;
        self.thresholds
            .iter()
            .try_for_each(|&threshold| check_threshold(threshold, effective))
    }
}

/// Returns v, the number of canaries whose max-rank is at most t.
#[must_use]
pub fn hits(counts: &[RankCount], threshold: u64) -> u64 {
    counts.iter().filter(|c| c.rank_max() <= threshold).count() as u64
}

/// Returns an upper bound on P(at least `hits` of m secrets lie in model-named sets of t
/// candidates) under (ε, δ) for replacing one secret:
/// P[Bin(m, q) ≥ hits] + m δ (N' − 1) / (N' − t + t e^ε), with q = t e^ε / (N' − t + t e^ε).
/// Direction: upper. Tight for m = 1, and for every m at δ = 0 (randomised response over the
/// candidates).
///
/// `effective` is N' ([`Draw::effective_candidates`]).
///
/// ```
/// use reticent_accounting::{Delta, Epsilon};
/// use reticent_attacks::exposure::hit_probability;
/// // A model without any leak (ε = 0) has one of ten secrets in its top hundred of 10^6 once in a thousand runs.
/// let p = hit_probability(1, 10, 1_000_000, 100, Epsilon::new(0.0)?, Delta::new(0.0)?)?;
/// assert!((p.get().get() - 1e-3).abs() < 1e-6);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if there is no canary, or if the threshold is outside [1, N').
pub fn hit_probability(
    hits: u64,
    canaries: u64,
    effective: u64,
    threshold: u64,
    epsilon: Epsilon,
    delta: Delta,
) -> Result<Upper<Probability>> {
    given(canaries > 0, "no canary was given")?;
    check_threshold(threshold, effective)?;
    let test = HitTest {
        canaries,
        effective,
        threshold,
        delta: delta.get(),
    };
    // Compute q from its log-odds, so that ε = ∞ works and small sets keep their accuracy.
    let odds = (epsilon.get() + (threshold as f64 / (effective - threshold) as f64).ln()).exp();
    let q = if odds.is_finite() {
        odds / (1.0 + odds)
    } else {
        1.0
    };
    let p = test.p_value(hits, q) * (1.0 + 1e-12);
    Ok(Upper::new(Probability::new(p.min(1.0))?))
}

fn check_threshold(threshold: u64, effective: u64) -> Result<()> {
    if (1..effective).contains(&threshold) {
        return Ok(());
    }
    ranged(
        "candidates of each canary, less the canaries before it",
        "at least 2, so that one is not known by the others",
        effective,
        effective > 1,
    )?;
    Err(Error::out_of_range(
        "threshold",
        "[1, N') with N' the candidates open to one secret when the others are known",
        format_args!("{threshold} for N' = {effective}"),
    ))
}

/// The test "at least v of m secrets in sets of size t" for one threshold.
struct HitTest {
    canaries: u64,
    effective: u64,
    threshold: u64,
    delta: f64,
}

impl HitTest {
    /// Returns the largest ε that `hits` reject at level alpha; 0 if they reject none.
    fn epsilon(&self, hits: u64, alpha: f64) -> Result<f64> {
        let (candidates, threshold) = (self.effective as f64, self.threshold as f64);
        let q = self.largest_rate(hits, alpha)?;
        if q <= 0.0 {
            return Ok(0.0);
        }
        let epsilon = q.ln() - (-q).ln_1p() + ((candidates - threshold) / threshold).ln();
        // Subtract a few units in the last place, toward the safe side.
        Ok((epsilon - 1e-13 * (1.0 + epsilon.abs())).max(0.0))
    }

    /// Returns P[Bin(m, q) ≥ hits] + m δ (N' − 1) / (N' − t + t e^ε) as a function of q. Since
    /// N' − t + t e^ε = (N' − t) / (1 − q), the second term is linear in q.
    fn p_value(&self, hits: u64, q: f64) -> f64 {
        let (candidates, threshold) = (self.effective as f64, self.threshold as f64);
        let slack =
            self.canaries as f64 * self.delta * (candidates - 1.0) / (candidates - threshold);
        binomial_upper_tail(hits, self.canaries, q) + slack * (1.0 - q)
    }

    /// Returns the largest q whose p-value is at most alpha; 0 if there is none.
    ///
    /// The binomial tail is convex in q up to its steepest point (v−1)/(m−1) and concave beyond it;
    /// the slack is linear. The p-value therefore decreases to one minimum and then increases. On
    /// the concave piece, which ends at 1 > alpha, it can only cross alpha upwards once.
    fn largest_rate(&self, hits: u64, alpha: f64) -> Result<f64> {
        if hits == 0 {
            return Ok(0.0);
        }
        if self.delta <= 0.0 {
            let confidence = Confidence::new(1.0 - alpha)?;
            let low = clopper_pearson_lower(hits, self.canaries, confidence)?;
            return Ok(low.get().get());
        }
        // The tail's relative error is far below this.
        let alpha = alpha * (1.0 - 1e-9);
        let holds = |q: f64| self.p_value(hits, q) <= alpha;
        let steepest = (hits - 1) as f64 / (self.canaries.max(2) - 1) as f64;
        if steepest < 1.0 && holds(steepest) {
            return Ok(bisect_last(steepest, 1.0, holds));
        }
        let lowest = self.lowest_point(hits, steepest);
        Ok(if holds(lowest) {
            bisect_last(lowest, steepest, holds)
        } else {
            0.0
        })
    }

    /// Returns the point where the p-value is smallest on [0, end], on which it is convex.
    fn lowest_point(&self, hits: u64, end: f64) -> f64 {
        let (mut low, mut high) = (0.0, end);
        for _ in 0..200 {
            let third = (high - low) / 3.0;
            if self.p_value(hits, low + third) <= self.p_value(hits, high - third) {
                high -= third;
            } else {
                low += third;
            }
        }
        low
    }
}
