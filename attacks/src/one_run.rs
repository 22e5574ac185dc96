//! A lower bound on ε from the coins of one training run.
//!
//! There are m canaries, each inserted according to its own fair coin. The auditor sees the model,
//! abstains on m − r canaries, guesses the coins of the other r, and guesses v of them correctly.
//! Under (ε, δ), with q = e^ε/(1 + e^ε) (Steinke, Nasr and Jagielski 2023, Theorem 5.2):
//!
//! P(V ≥ v) ≤ P[Bin(r, q) ≥ v] + 2 m δ max_{i ≤ v} P[v > Bin(r, q) ≥ v − i] / i.
//!
//! The bound is the ε up to which the right-hand side stays at most α. It is wrong with probability
//! at most α even where the right-hand side does not increase with ε: the least v at which some ε*
//! above the true ε is excluded has probability at most α under ε*, which the run also satisfies.

use crate::audit_bound::{AuditBound, AuditTerms};
use crate::error::{Error, Result, ranged};
use crate::exposure::EpsilonMethod;
use crate::normal::{normal_cdf, normal_quantile};
use crate::statistics::{binomial_upper_tail, bisect_last};
use reticent_accounting::statistics::ln_binomial_probability;
use reticent_accounting::{Delta, Epsilon, Probability, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest ε that the search considers: beyond it, q is 1 in double precision.
const LARGEST: f64 = 36.0;

/// The outcome of a one-run audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
pub struct OneRunCounts {
    /// m, the canaries that had a coin.
    canaries: u64,
    /// r, those whose coin was guessed.
    guesses: u64,
    /// v, the right guesses.
    correct: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Unchecked {
    canaries: u64,
    guesses: u64,
    correct: u64,
}

impl TryFrom<Unchecked> for OneRunCounts {
    type Error = Error;
    fn try_from(unchecked: Unchecked) -> Result<Self> {
        Self::new(unchecked.canaries, unchecked.guesses, unchecked.correct)
    }
}

impl OneRunCounts {
    /// Creates the counts, checking that v ≤ r ≤ m and 1 ≤ m ≤ 10^8.
    ///
    /// # Errors
    /// Counts that cannot be.
    pub fn new(canaries: u64, guesses: u64, correct: u64) -> Result<Self> {
        // The time for a bound is proportional to the count: some seconds for this many.
        ranged(
            "m (canaries)",
            "[1, 10^8]",
            canaries,
            (1..=100_000_000).contains(&canaries),
        )?;
        ranged(
            "r (guesses)",
            "[0, m]",
            format_args!("{guesses} of m = {canaries}"),
            guesses <= canaries,
        )?;
        ranged(
            "v (right guesses)",
            "[0, r]",
            format_args!("{correct} of r = {guesses}"),
            correct <= guesses,
        )?;
        Ok(Self {
            canaries,
            guesses,
            correct,
        })
    }

    /// Returns m, the canaries that had a coin.
    #[must_use]
    pub const fn canaries(&self) -> u64 {
        self.canaries
    }

    /// Returns r, the canaries whose coin was guessed.
    #[must_use]
    pub const fn guesses(&self) -> u64 {
        self.guesses
    }

    /// Returns v, the right guesses.
    #[must_use]
    pub const fn correct(&self) -> u64 {
        self.correct
    }

    /// Returns the same guesses, all of them right: the most that so many can prove.
    #[must_use]
    pub const fn best(self) -> Self {
        Self {
            correct: self.guesses,
            ..self
        }
    }

    /// Returns the same canaries with each guess inverted.
    #[must_use]
    pub const fn inverted(self) -> Self {
        Self {
            correct: self.guesses - self.correct,
            ..self
        }
    }

    /// Returns an upper bound on P(at least this many correct guesses) under (ε, δ). Direction:
    /// upper.
    ///
    /// ```
    /// use reticent_accounting::{Delta, Epsilon};
    /// use reticent_attacks::OneRunCounts;
    /// let p = OneRunCounts::new(1000, 100, 90)?.p_value(Epsilon::new(1.0)?, Delta::new(1e-5)?)?;
    /// assert!((p.get().get() - 8.412_885_6e-4).abs() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// None for checked quantities.
    pub fn p_value(&self, epsilon: Epsilon, delta: Delta) -> Result<Upper<Probability>> {
        let p = self.tail(epsilon.get(), delta.get())? * (1.0 + 1e-10);
        Ok(Upper::new(Probability::new(p.min(1.0))?))
    }

    /// Returns the lower bound on ε(δ). Direction: lower.
    ///
    /// ```
    /// use reticent_accounting::{Confidence, Delta, Neighbours, UnitName};
    /// use reticent_attacks::{AuditTerms, OneRunCounts};
    /// let terms = AuditTerms {
    ///     confidence: Confidence::new(0.95)?, delta: Delta::new(1e-5)?,
    ///     neighbours: Neighbours::AddRemove, unit: UnitName::new("turn")?, copies: 1,
    /// };
    /// let bound = OneRunCounts::new(1000, 100, 95)?.bound(&terms)?;
    /// assert!((bound.lower.get().get() - 2.1652).abs() < 1e-4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if δ = 1 or the terms have zero copies.
    pub fn bound(&self, terms: &AuditTerms) -> Result<AuditBound> {
        terms.check()?;
        let alpha = terms.alpha() * (1.0 - 1e-9);
        let delta = terms.delta.get();
        let epsilon = last_excluded(LARGEST, |epsilon| Ok(self.tail(epsilon, delta)? <= alpha))?;
        AuditBound::new(epsilon, terms, EpsilonMethod::OneRun)
    }

    /// Returns the lower bound on ε(δ) if the mechanism is Gaussian (μ-GDP), by the recursion of
    /// Mahloujifar, Melis and Chaudhuri 2024 ("Auditing f-differential privacy in one run",
    /// algorithm `audit_rh_with_cap`). Direction: lower, conditional on the family: the bound says
    /// which μ a **Gaussian** trade-off must have, and nothing about other mechanisms.
    ///
    /// # Errors
    /// Returns an error if δ is outside (0, 1) or the terms have zero copies.
    pub fn gaussian_bound(&self, terms: &AuditTerms) -> Result<AuditBound> {
        terms.check_positive_delta()?;
        let alpha = terms.alpha();
        let mu = last_excluded(64.0, |mu| Ok(self.excludes_gaussian(mu, alpha)))?;
        AuditBound::gaussian(mu, terms, EpsilonMethod::OneRunFDp)
    }

    /// Returns the right-hand side of the inequality in the module's documentation.
    fn tail(&self, epsilon: f64, delta: f64) -> Result<f64> {
        if self.correct == 0 {
            return Ok(1.0);
        }
        let q = 1.0 / (1.0 + (-epsilon).exp());
        let tail = binomial_upper_tail(self.correct, self.guesses, q);
        if delta <= 0.0 {
            return Ok(tail);
        }
        let slack = 2.0 * self.canaries as f64 * delta * self.steepest_mean(q)?;
        Ok((tail + slack).min(1.0))
    }

    /// Returns max_{1 ≤ i ≤ v} P[v > Bin(r, q) ≥ v − i] / i: the largest mean of the last i
    /// probabilities below v. The probabilities rise towards the mode and fall beyond it, so the
    /// search stops at the first probability beyond the mode that is below the mean.
    fn steepest_mean(&self, q: f64) -> Result<f64> {
        let (trials, odds) = (self.guesses as f64, (q / (1.0 - q)).ln());
        let mode = (trials + 1.0) * q;
        let share = Probability::new(q)?;
        let mut ln_term = ln_binomial_probability(self.correct - 1, self.guesses, share)?;
        let (mut sum, mut best) = (0.0, 0.0_f64);
        for below in 1..=self.correct {
            let hits = (self.correct - below) as f64;
            let term = ln_term.exp();
            sum += term;
            let mean = sum / below as f64;
            best = best.max(mean);
            if hits <= mode && term < mean {
                break;
            }
            // P[hits − 1] / P[hits] in logarithms, because both underflow far above the mode.
            ln_term += (hits / (trials - hits + 1.0)).ln() - odds;
        }
        Ok(best)
    }

    /// Returns whether this many correct guesses exclude μ-GDP at level alpha.
    ///
    /// r and h stand for the probabilities of right and wrong guesses beyond the count. f maps
    /// one of them to the least value of the other. μ is excluded if they cannot add up to r/m.
    fn excludes_gaussian(&self, mu: f64, alpha: f64) -> bool {
        let (m, guesses) = (self.canaries as f64, self.guesses as f64);
        let mut right = alpha * self.correct as f64 / m;
        let mut wrong = alpha * (self.guesses - self.correct) as f64 / m;
        for count in (0..self.correct).rev() {
            let least = normal_cdf(normal_quantile(right) - mu);
            if least <= wrong {
                break; // from here on neither changes
            }
            let count = count as f64;
            right = (right + count / (guesses - count) * (least - wrong)).min(1.0);
            wrong = least;
        }
        right + wrong > guesses / m * (1.0 + 1e-9)
    }
}

/// Returns the last point of [0, top] up to which `excluded` holds, found by doubling and
/// bisection; 0 if it does not hold at 0.
fn last_excluded(top: f64, excluded: impl Fn(f64) -> Result<bool>) -> Result<f64> {
    if !excluded(0.0)? {
        return Ok(0.0);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while high < top && excluded(high)? {
        low = high;
        high *= 2.0;
    }
    // Errors depend only on the counts, which have already passed.
    Ok(bisect_last(low, high.min(top), |x| {
        excluded(x).unwrap_or(false)
    }))
}
