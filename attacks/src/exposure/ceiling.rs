//! Tests what an upper bound promises about ranks against the measured ranks.
//!
//! An accountant gives B_j(x): the largest probability with which secret j lies in a set that the
//! model names and that had mass x before the model was seen. The t best candidates had mass at
//! most t/N', so P(max-rank_j ≤ t) ≤ B_j(t/N'), and by Markov's inequality P(at least v of m
//! rank ≤ t) ≤ Σ_j B_j(t/N') / v. This needs no independence (a mechanism that reveals one random
//! secret of m attains the sum; 1 − (1−B)^m would be wrong).
//!
//! Several thresholds t_k share one test. v_k / Σ_j B_j(t_k/N') has expectation at most 1 under any
//! dependence, so its mean over thresholds fixed in advance is an e-value E, and P(E ≥ 1/α) ≤ α,
//! again by Markov's inequality. A mean is at least its largest term divided by the number of
//! terms, so 1/E is at most the number of thresholds times the smallest p-value (Bonferroni). Such
//! e-values are averaged, never multiplied, because nothing makes the canaries independent.

use crate::draw::Draw;
use crate::error::{Error, Result, counted, given};
use crate::exposure::rank_audit::hits;
use crate::search::RankCount;
use crate::statistics::check_open_unit;
use reticent_accounting::{Probability, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The promise at one threshold: an upper bound on P(max-rank ≤ threshold) for each canary.
#[derive(Debug, Clone, PartialEq)]
pub struct CeilingAt {
    /// t, fixed before the ranks were seen.
    pub threshold: u64,
    /// B_j(prior mass of t candidates), one per canary in their order; [`prior_mass`] computes the
    /// argument.
    pub bounds: Vec<Upper<Probability>>,
}

/// Whether the measured ranks are possible under the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CeilingOutcome {
    /// The ranks have probability at most α under the promise: a bug report.
    Contradicted,
    /// Nothing follows. In particular not that the promise holds.
    NotContradicted,
    /// No measurement of this audit could have contradicted the promise.
    CouldNotContradict,
}

impl CeilingOutcome {
    /// Returns the outcome of a test at level `alpha` whose p-value is at least `least`, whatever
    /// is measured.
    #[must_use]
    pub fn of(p_value: f64, least: f64, alpha: f64) -> Self {
        match (p_value <= alpha, least <= alpha) {
            (true, _) => Self::Contradicted,
            (false, true) => Self::NotContradicted,
            (false, false) => Self::CouldNotContradict,
        }
    }

    /// Returns the outcome in the words that every report uses.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::Contradicted => "contradicted",
            Self::NotContradicted => "not contradicted",
            Self::CouldNotContradict => "this audit could not have contradicted the promise",
        }
    }
}

/// One threshold of the test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CeilingPoint {
    /// t.
    pub threshold: u64,
    /// v, canaries with max-rank at most t.
    pub hits: u64,
    /// Σ_j B_j(t/N'), the most hits the promise allows on average.
    pub expected_at_most: f64,
    /// min(1, Σ_j B_j / v): P(at least v hits) is at most this under the promise.
    pub p_value: f64,
}

/// The outcome of the ceiling test over all thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CeilingTest {
    /// Contradicted only if `p_value ≤ alpha`.
    pub outcome: CeilingOutcome,
    /// The smallest p-value that any ranks of the canaries that training met could have, at most `p_value`: above alpha,
    /// the promise could not have been contradicted.
    pub least_p_value: f64,
    /// 1/E with E the mean over thresholds of hits by what the promise allows on average, at most 1.
    pub p_value: f64,
    /// The probability of a false alarm, for all thresholds together.
    pub alpha: f64,
    /// Every threshold that was tested.
    pub thresholds: Vec<CeilingPoint>,
}

impl CeilingTest {
    /// Returns the test of canaries of which training met only so many. Its p-value stays; the smallest that ranks could
    /// have is that with each of these within every threshold and the others within none.
    #[must_use]
    pub fn reaching(self, reached: u64) -> Self {
        let least = inverse_mean(&self.thresholds, |_| reached).max(self.least_p_value);
        Self {
            outcome: CeilingOutcome::of(self.p_value, least, self.alpha),
            // Lower only where ranks are those of canaries that training is said not to have met.
            least_p_value: least.min(self.p_value),
            ..self
        }
    }
}

/// Returns t/N', the largest prior mass of t candidates for one secret when all others are known.
///
/// # Errors
/// Returns an error if there is no canary, or if there are more distinct canaries than candidates.
pub fn prior_mass(
    threshold: u64,
    candidates: u64,
    canaries: u64,
    draw: Draw,
) -> Result<Probability> {
    let effective = draw.effective_candidates(candidates, canaries)?;
    Ok(Probability::new(
        (threshold as f64 / effective as f64).min(1.0),
    )?)
}

/// Tests measured ranks against promised ceilings. Only certified upper bounds are accepted: an
/// estimate does not compile.
///
/// ```compile_fail,E0308
/// use reticent_attacks::exposure::CeilingAt;
/// use reticent_accounting::{Estimate, Probability};
/// let guess = Estimate::new(Probability::new(1e-6).unwrap());
/// let _ = CeilingAt { threshold: 1, bounds: vec![guess] };
/// ```
///
/// ```
/// use reticent_attacks::exposure::{CeilingAt, CeilingOutcome, ceiling_test};
/// use reticent_attacks::search::RankCount;
/// use reticent_accounting::{Probability, Upper};
/// let first = RankCount { candidates: 1_000_000, nll: 0.1, below: 0, ties: 0, unresolved: 0 };
/// let promise = CeilingAt { threshold: 1, bounds: vec![Upper::new(Probability::new(1e-4)?); 10] };
/// let test = ceiling_test(&[first; 10], &[promise], 1e-3)?;
/// assert_eq!(test.outcome, CeilingOutcome::Contradicted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if there is no canary or no threshold, if a rank is not among its candidates, if the
/// number of bounds is not that of canaries, or if alpha is outside (0, 1).
pub fn ceiling_test(
    counts: &[RankCount],
    ceilings: &[CeilingAt],
    alpha: f64,
) -> Result<CeilingTest> {
    check_open_unit("alpha", alpha)?;
    given(!counts.is_empty(), "no canary was given")?;
    given(!ceilings.is_empty(), "no threshold was given")?;
    counts.iter().try_for_each(RankCount::check)?;
    let thresholds: Vec<CeilingPoint> = ceilings
        .iter()
        .map(|ceiling| point(counts, ceiling))
        .collect::<Result<_>>()?;
    let p_value = inverse_mean(&thresholds, |point| point.hits);
    let least = inverse_mean(&thresholds, |_| counts.len() as u64);
    Ok(CeilingTest {
        outcome: CeilingOutcome::of(p_value, least, alpha),
        least_p_value: least,
        p_value,
        alpha,
        thresholds,
    })
}

/// Returns 1/E if `hits` canaries are within each threshold.
fn inverse_mean(thresholds: &[CeilingPoint], hits: impl Fn(&CeilingPoint) -> u64) -> f64 {
    let each = thresholds.iter().map(|point| match hits(point) {
        0 => 0.0,
        hits => hits as f64 / point.expected_at_most,
    });
    let mean = each.sum::<f64>() / thresholds.len() as f64;
    // Covers the rounding of the sum.
    (1.0 / mean * (1.0 + 1e-12)).min(1.0)
}

fn point(counts: &[RankCount], ceiling: &CeilingAt) -> Result<CeilingPoint> {
    counted("ceilings", ceiling.bounds.len(), counts.len())?;
    let hits = hits(counts, ceiling.threshold);
    let expected: f64 = ceiling.bounds.iter().map(|b| b.get().get()).sum();
    let p_value = if hits == 0 {
        1.0
    } else {
        (expected / hits as f64).min(1.0)
    };
    Ok(CeilingPoint {
        threshold: ceiling.threshold,
        hits,
        expected_at_most: expected,
        p_value,
    })
}

/// Returns the exposure, in bits, that no canary exceeds with probability at least `level` under
/// the promise: log2 N − log2 (t + 1) for the largest t with Σ_j B_j(t/N') ≤ 1 − level.
///
/// `ceiling` returns Σ_j B_j for a prior mass and must be increasing. Direction: upper.
///
/// For one secret under pure ε this is at most log2(1 + 19 e^ε) at 95 %:
///
/// ```
/// use reticent_accounting::{Probability, Upper};
/// use reticent_attacks::{Draw, Error};
/// use reticent_attacks::exposure::exposure_ceiling;
/// let e_to_epsilon = 2.0_f64.exp();
/// let promise = |mass: Probability| {
///     let x = mass.get();
///     Ok::<_, Error>(Upper::new(x * e_to_epsilon / (x * e_to_epsilon + 1.0 - x)))
/// };
/// let bits = exposure_ceiling(1_000_000, 1, Draw::Independent, 0.95, promise)?;
/// assert!((bits.get() - (1.0 + 19.0 * e_to_epsilon).log2()).abs() < 1e-3);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// Returns an error if the level is outside (0, 1), if there is no canary, if there are more
/// distinct canaries than candidates, or if `ceiling` fails.
pub fn exposure_ceiling<E: From<Error>>(
    candidates: u64,
    canaries: u64,
    draw: Draw,
    level: f64,
    mut ceiling: impl FnMut(Probability) -> std::result::Result<Upper<f64>, E>,
) -> std::result::Result<Upper<f64>, E> {
    check_open_unit("level", level)?;
    let effective = draw.effective_candidates(candidates, canaries)?;
    let (mut allowed, mut refused) = (0_u64, effective);
    while refused - allowed > 1 {
        let middle = allowed + (refused - allowed) / 2;
        let mass = prior_mass(middle, candidates, canaries, draw)?;
        if *ceiling(mass)?.get() <= 1.0 - level {
            allowed = middle;
        } else {
            refused = middle;
        }
    }
    let bits = (candidates as f64).log2() - ((allowed + 1) as f64).log2();
    Ok(Upper::new(bits))
}
