//! Confidence bounds on probabilities from counts, exact at any count.
//!
//! All bounds are one-sided: a bound holds with the requested confidence, and the search for it ends on the safe side.

use crate::numeric::special::{ln_binomial_lower_tail, ln_binomial_pmf, ln_binomial_upper_tail};
use crate::quantity::bound::{Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Confidence, MOST_COUNT, MissRate, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The relative amount by which a numerically found bound is moved to the safe side: a hundred times the error of the
/// tail sums.
const SAFETY: f64 = 1e-11;

fn check_counts(successes: u64, trials: u64) -> Result<()> {
    if trials == 0 {
        return Err(Error::out_of_range("number of trials", "[1, 2^53]", 0.0));
    }
    if trials > MOST_COUNT {
        return Err(Error::out_of_range(
            "number of trials",
            "[1, 2^53]",
            trials as f64,
        ));
    }
    if successes > trials {
        return Err(Error::out_of_range(
            "number of successes",
            "[0, number of trials]",
            successes as f64,
        ));
    }
    Ok(())
}

/// Returns P(Bin(trials, q) ≥ successes) for one fixed q, the p-value of a count.
///
/// The relative error is below 1e-11 at any count; the result is 0 only below the smallest number.
///
/// ```
/// use reticent_accounting::{Probability, statistics::binomial_upper_tail};
/// let p = binomial_upper_tail(3, 5, Probability::new(0.3)?)?;
/// assert!((p.get() - 0.16308).abs() < 1e-15);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for no trials or more successes than trials.
pub fn binomial_upper_tail(successes: u64, trials: u64, q: Probability) -> Result<Probability> {
    check_counts(successes, trials)?;
    Probability::new(
        ln_binomial_upper_tail(successes, trials, q.get())
            .exp()
            .min(1.0),
    )
}

/// Returns ln P(Bin(trials, q) = successes), for tests and likelihoods.
///
/// # Errors
/// Returns [`Error::OutOfRange`] for no trials or more successes than trials.
pub fn ln_binomial_probability(successes: u64, trials: u64, q: Probability) -> Result<f64> {
    check_counts(successes, trials)?;
    Ok(ln_binomial_pmf(successes, trials, q.get()))
}

/// Returns the Clopper–Pearson lower bound: the largest q with P(Bin(trials, q) ≥ successes) ≤ 1 − confidence.
///
/// Bound: lower, one-sided, holding with probability at least `confidence` over a simple random sample. Source: Clopper
/// and Pearson 1934.
///
/// ```
/// use reticent_accounting::{Confidence, statistics::clopper_pearson_lower};
/// // Ten of ten: 0.05^(1/10).
/// let low = clopper_pearson_lower(10, 10, Confidence::new(0.95)?)?;
/// assert!((low.get().get() - 0.05f64.powf(0.1)).abs() < 1e-10);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for no trials or more successes than trials.
pub fn clopper_pearson_lower(
    successes: u64,
    trials: u64,
    confidence: Confidence,
) -> Result<Lower<Probability>> {
    check_counts(successes, trials)?;
    let bound = lower_bound(successes, trials, (-confidence.get()).ln_1p());
    Ok(Lower::new(Probability::new(bound * (1.0 - SAFETY))?))
}

/// Returns the Clopper–Pearson upper bound: the smallest q with P(Bin(trials, q) ≤ successes) ≤ 1 − confidence.
///
/// Bound: upper, one-sided, holding with probability at least `confidence` over a simple random sample. Source: Clopper
/// and Pearson 1934.
///
/// ```
/// use reticent_accounting::{Confidence, statistics::clopper_pearson_upper};
/// // CRT's 200 labels without a miss do not support a miss rate of 8e-5.
/// let high = clopper_pearson_upper(0, 200, Confidence::new(0.95)?)?;
/// assert!((high.get().get() - 0.0148670).abs() < 1e-6);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for no trials or more successes than trials.
pub fn clopper_pearson_upper(
    successes: u64,
    trials: u64,
    confidence: Confidence,
) -> Result<Upper<Probability>> {
    check_counts(successes, trials)?;
    Ok(Upper::new(Probability::new(upper_bound(
        successes,
        trials,
        (-confidence.get()).ln_1p(),
    ))?))
}

/// Returns the largest q with ln P(Bin ≥ successes) ≤ `ln_level`, by bisection of ln q that keeps the lower end
/// feasible.
fn lower_bound(successes: u64, trials: u64, ln_level: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    if successes == trials {
        return (ln_level / trials as f64).exp();
    }
    // P(X ≥ s) ≤ C(n,s) q^s gives a feasible start; the mean is infeasible or the largest possible answer.
    let share = (successes as f64 / trials as f64).ln();
    let (mut feasible, mut infeasible) = (share - 1.0, 0.0f64.min(share + 1.0));
    while ln_binomial_upper_tail(successes, trials, feasible.exp()) > ln_level {
        infeasible = feasible;
        feasible = share + 2.0 * (feasible - share);
    }
    for _ in 0..200 {
        let middle = 0.5 * (feasible + infeasible);
        if middle <= feasible || middle >= infeasible {
            break;
        }
        if ln_binomial_upper_tail(successes, trials, middle.exp()) <= ln_level {
            feasible = middle;
        } else {
            infeasible = middle;
        }
    }
    feasible.exp()
}

/// Returns the smallest q with P(Bin ≤ successes) ≤ level. The number of failures is at least n − s with rate 1 − q;
/// the upper tail is searched for q itself, so that a small q keeps its digits.
fn upper_bound(successes: u64, trials: u64, ln_level: f64) -> f64 {
    if successes == trials {
        return 1.0;
    }
    if successes == 0 {
        return (-(ln_level / trials as f64).exp_m1() * (1.0 + SAFETY)).min(1.0);
    }
    // P(X ≤ s; q) = 1 − P(X ≥ s+1; q) ≤ level.
    let ln_needed = crate::numeric::special::ln_one_minus_exp(ln_level);
    let met = |ln_q: f64| {
        let q = ln_q.exp();
        let above = ln_binomial_upper_tail(successes + 1, trials, q);
        if above < -0.7 {
            above >= ln_needed
        } else {
            ln_binomial_lower_tail(successes, trials, q) <= ln_level
        }
    };
    let (mut infeasible, mut feasible) = ((successes as f64 / trials as f64).ln() - 1.0, 0.0);
    while met(infeasible) {
        feasible = infeasible;
        infeasible -= 1.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (feasible + infeasible);
        if middle <= infeasible || middle >= feasible {
            break;
        }
        if met(middle) {
            feasible = middle;
        } else {
            infeasible = middle;
        }
    }
    (feasible.exp() * (1.0 + SAFETY)).min(1.0)
}

/// A miss rate measured on a simple random sample of secrets, labelled by hand before any
/// threshold was tuned (adaptive selection voids the bound).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelledSample {
    /// Secrets that were labelled.
    pub labelled: u64,
    /// Those of them the policy missed.
    pub missed: u64,
}

impl LabelledSample {
    /// Returns an upper bound on the miss rate γ that holds with `confidence`.
    ///
    /// ```
    /// use reticent_accounting::{Confidence, statistics::LabelledSample};
    /// let sample = LabelledSample { labelled: 200, missed: 20 };
    /// let gamma = sample.miss_rate(Confidence::new(0.95)?)?;
    /// assert!((gamma.get().get() - 0.142).abs() < 1e-3); // not 0.1
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for no labels or more misses than labels, and for a confidence below 0.75.
    pub fn miss_rate(&self, confidence: Confidence) -> Result<Upper<MissRate>> {
        let bound = share_of_sampled(self.missed, self.labelled, confidence)?;
        Ok(Upper::new(MissRate::new(bound.get().get())?))
    }
}

/// Returns an upper bound on a share of a finite population, if `found` of `sampled` drawn without replacement belong
/// to it: Clopper and Pearson's, or one if all but one were found and more than one was drawn.
///
/// A hypergeometric count has a lighter tail than a binomial one only at or below np − 1 (Hoeffding 1956). That holds
/// at Clopper and Pearson's bound for a confidence of at least 0.75, except for n − 1 of n: if 38 of 39 are missed, 11
/// draws have 10 or fewer with probability 0.282, where 0.25 was required.
///
/// ```
/// use reticent_accounting::{Confidence, statistics::share_of_sampled};
/// let at = Confidence::new(0.75)?;
/// assert_eq!(share_of_sampled(10, 11, at)?.get().get(), 1.0);
/// assert!(share_of_sampled(9, 11, at)?.get().get() < 0.92);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a confidence below 0.75, for no draws, and for more found than drawn.
pub fn share_of_sampled(
    found: u64,
    sampled: u64,
    confidence: Confidence,
) -> Result<Upper<Probability>> {
    check_sample_confidence(confidence)?;
    if found > 0 && found.checked_add(1) == Some(sampled) {
        return Ok(Upper::new(Probability::new(1.0)?));
    }
    clopper_pearson_upper(found, sampled, confidence)
}

/// Returns a lower bound on a share of a finite population, if `found` of `sampled` drawn without replacement belong to
/// it: one minus [`share_of_sampled`] of the others.
///
/// ```
/// use reticent_accounting::{Confidence, statistics::least_share_of_sampled};
/// let at = Confidence::new(0.75)?;
/// assert_eq!(least_share_of_sampled(1, 11, at)?.get().get(), 0.0);
/// assert!(least_share_of_sampled(2, 11, at)?.get().get() > 0.08);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] as [`share_of_sampled`] does.
pub fn least_share_of_sampled(
    found: u64,
    sampled: u64,
    confidence: Confidence,
) -> Result<Lower<Probability>> {
    check_sample_confidence(confidence)?;
    if found == 1 && sampled > 1 {
        return Ok(Lower::new(Probability::new(0.0)?));
    }
    clopper_pearson_lower(found, sampled, confidence)
}

/// Checks the confidence of a sample drawn without replacement; see [`share_of_sampled`].
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a confidence below 0.75.
pub fn check_sample_confidence(confidence: Confidence) -> Result<()> {
    if confidence.get() >= 0.75 {
        return Ok(());
    }
    Err(Error::out_of_range(
        "confidence of a miss rate from a sample",
        "[0.75, 1)",
        confidence.get(),
    ))
}

/// Returns how many secrets must be labelled without a single miss for the miss rate to be at most `target` with
/// `confidence`: the smallest n with (1 − target)^n ≤ 1 − confidence.
///
/// ```
/// use reticent_accounting::{Confidence, MissRate, statistics::labels_needed};
/// assert_eq!(labels_needed(MissRate::new(8e-5)?, Confidence::new(0.95)?), Some(37_446));
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// Returns `None` for a target of zero, which no sample can support.
#[must_use]
pub fn labels_needed(target: MissRate, confidence: Confidence) -> Option<u64> {
    if target.get() <= 0.0 {
        return None;
    }
    if target.get() >= 1.0 {
        return Some(1);
    }
    let count = (-confidence.get()).ln_1p() / (-target.get()).ln_1p();
    (count < 9e15).then(|| count.ceil().max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{Beta, ContinuousCDF};

    fn level(confidence: f64) -> Confidence {
        Confidence::new(confidence).unwrap()
    }

    fn lower(successes: u64, trials: u64, confidence: f64) -> f64 {
        clopper_pearson_lower(successes, trials, level(confidence))
            .unwrap()
            .get()
            .get()
    }

    fn upper(successes: u64, trials: u64, confidence: f64) -> f64 {
        clopper_pearson_upper(successes, trials, level(confidence))
            .unwrap()
            .get()
            .get()
    }

    /// P(at most `found` of `sampled` drawn from a population with so many), by enumeration.
    fn hypergeometric(found: u64, sampled: u64, many: u64, population: u64) -> f64 {
        let choose = |n: u64, k: u64| {
            (0..k)
                .map(|i| (n - i) as f64 / (k - i) as f64)
                .product::<f64>()
        };
        let all = choose(population, sampled);
        let counts = (0..=found).filter(|k| *k <= many && sampled - k <= population - many);
        counts
            .map(|k| choose(many, k) * choose(population - many, sampled - k) / all)
            .sum()
    }

    /// Every sample of up to 12 from every population of up to 60: a bound below the truth has at most the chance that
    /// the confidence leaves. Clopper and Pearson's alone fails at n − 1 of n.
    #[test]
    fn shares_of_finitely_many_are_covered() {
        for confidence in [0.75, 0.95] {
            let mut failed = false;
            for sampled in 1..=12 {
                let bounds: Vec<[f64; 2]> = (0..=sampled)
                    .map(|found| {
                        let ours = share_of_sampled(found, sampled, level(confidence)).unwrap();
                        let others =
                            least_share_of_sampled(sampled - found, sampled, level(confidence));
                        let others = 1.0 - others.unwrap().get().get();
                        assert!((ours.get().get() - others).abs() < 1e-9);
                        [ours.get().get(), upper(found, sampled, confidence)]
                    })
                    .collect();
                for population in sampled..=60 {
                    for many in 0..=population {
                        let share = many as f64 / population as f64;
                        let error = |which: usize| {
                            // Bounds grow with what was found.
                            let below =
                                bounds.partition_point(|bound| bound[which] < share - 1e-12);
                            match below as u64 {
                                0 => 0.0,
                                below => hypergeometric(below - 1, sampled, many, population),
                            }
                        };
                        assert!(
                            error(0) <= 1.0 - confidence + 1e-9,
                            "{sampled} {many} {population}"
                        );
                        failed |= error(1) > 1.0 - confidence + 1e-9;
                    }
                }
            }
            assert!(failed || confidence > 0.9);
        }
        assert!(share_of_sampled(1, 2, level(0.7)).is_err());
    }

    fn tail(successes: u64, trials: u64, q: f64) -> f64 {
        binomial_upper_tail(successes, trials, Probability::new(q).unwrap())
            .unwrap()
            .get()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The bounds are where the tails have the level, on the safe side of it.
        #[test]
        fn the_tails_at_the_bounds_have_the_level(
            trials in 1u64..3000,
            share in 0.0f64..1.0,
            confidence in 0.01f64..0.9999,
        ) {
            let successes = (share * trials as f64) as u64;
            let alpha = 1.0 - confidence;
            let low = lower(successes, trials, confidence);
            if successes > 0 {
                let at = tail(successes, trials, low);
                prop_assert!(at <= alpha * (1.0 + 1e-10) && at >= alpha * (1.0 - 1e-6), "{at} {alpha}");
            } else {
                prop_assert!(low <= 0.0);
            }
            let high = upper(successes, trials, confidence);
            if successes < trials {
                // P(X ≤ s) = 1 − P(X ≥ s + 1).
                let at = 1.0 - tail(successes + 1, trials, high);
                prop_assert!(at <= alpha + 1e-10 && at >= alpha * (1.0 - 1e-5) - 1e-10, "{at} {alpha}");
            } else {
                prop_assert!(high >= 1.0);
            }
            prop_assert!(low <= share + 1.0 / trials as f64 || confidence < 0.6);
        }

        /// Counting failures instead of successes gives the mirrored bound.
        #[test]
        fn bounds_mirror_each_other(trials in 1u64..100_000, share in 0.0f64..1.0, confidence in 0.5f64..0.999) {
            let successes = (share * trials as f64) as u64;
            let mirrored = 1.0 - lower(trials - successes, trials, confidence);
            prop_assert!((upper(successes, trials, confidence) - mirrored).abs() < 1e-9);
        }
    }

    /// Against the regularised incomplete beta functions of another library, good to about 1e-10 of one:
    /// S successes or more come up with probability I_q(s, n − s + 1), and the bounds are its inverses.
    #[test]
    fn bounds_are_those_of_the_beta_distribution() {
        for (successes, trials, confidence) in [
            (1, 20, 0.95),
            (7, 100, 0.975),
            (95, 100, 0.999),
            (40, 5000, 0.99),
        ] {
            let (s, n) = (successes as f64, trials as f64);
            let below = Beta::new(s, n - s + 1.0).unwrap();
            let above = Beta::new(s + 1.0, n - s).unwrap();
            let low = below.inverse_cdf(1.0 - confidence);
            let high = above.inverse_cdf(confidence);
            assert!((lower(successes, trials, confidence) / low - 1.0).abs() < 1e-7);
            assert!((upper(successes, trials, confidence) / high - 1.0).abs() < 1e-7);
            for q in [0.01, 0.3, 0.9] {
                assert!((tail(successes, trials, q) - below.cdf(q)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn extreme_counts_stay_exact() {
        // No miss among n: 1 − α^{1/n}, with its digits, at a billion.
        let expected = -(0.05f64.ln() / 1e9).exp_m1();
        assert!((upper(0, 1_000_000_000, 0.95) / expected - 1.0).abs() < 1e-10);
        // One miss: e^{−λ}(1 + λ) = 0.05 at λ = 4.743864518, the Poisson limit to 1e-9.
        assert!((upper(1, 1_000_000_000, 0.95) / 4.743_864_518e-9 - 1.0).abs() < 1e-8);
        assert!(lower(999_999_999, 1_000_000_000, 0.95) > 0.999_999_99);
        assert!(upper(500_000, 1_000_000, 0.95) < 0.501);
    }

    #[test]
    fn bad_counts_are_named() {
        assert!(
            clopper_pearson_lower(1, 0, level(0.9))
                .unwrap_err()
                .to_string()
                .contains("number of trials")
        );
        assert!(
            clopper_pearson_upper(3, 2, level(0.9))
                .unwrap_err()
                .to_string()
                .contains("number of successes")
        );
    }

    #[test]
    fn labels_needed_is_the_least_number_that_suffices() {
        for (target, confidence) in [(8e-5, 0.95), (0.1, 0.9), (1e-9, 0.999)] {
            let needed = labels_needed(MissRate::new(target).unwrap(), level(confidence)).unwrap();
            assert!(upper(0, needed, confidence) <= target * (1.0 + 1e-10));
            assert!(upper(0, needed - 1, confidence) > target);
        }
        assert_eq!(labels_needed(MissRate::ZERO, level(0.95)), None);
    }
}
