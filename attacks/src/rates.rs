//! Lower bounds on ε from true and false positives of independent trials.
//!
//! Independent means that every trial is a separate model (trained with or without the canary), or
//! that there is an argument why the canaries of one run do not influence each other. For the coins
//! of one run use [`OneRunCounts`](crate::OneRunCounts), which needs no such argument.

use crate::audit_bound::{AuditBound, AuditTerms};
use crate::error::{Error, Result, ranged};
use crate::exposure::EpsilonMethod;
use crate::normal::normal_quantile;
use reticent_accounting::statistics::clopper_pearson_upper;
use reticent_accounting::{Confidence, Delta, Epsilon, Estimate, Probability, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Positives among trials with and without the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
pub struct RateCounts {
    /// True positives.
    tp: u64,
    /// Trials with the record.
    members: u64,
    /// False positives.
    fp: u64,
    /// Trials without it.
    non_members: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Unchecked {
    tp: u64,
    members: u64,
    fp: u64,
    non_members: u64,
}

impl TryFrom<Unchecked> for RateCounts {
    type Error = Error;
    fn try_from(unchecked: Unchecked) -> Result<Self> {
        let Unchecked {
            tp,
            members,
            fp,
            non_members,
        } = unchecked;
        Self::new(tp, members, fp, non_members)
    }
}

/// Which error ratios a bound uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sides {
    /// ln((TPR − δ)/FPR).
    One,
    /// The larger of ln((TPR − δ)/FPR) and ln((TNR − δ)/FNR): indistinguishability holds in
    /// both directions, and the same two error bounds serve both.
    Both,
}

/// Named asymptotic lower limits of a ratio of two rates. None is a bound at small counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RatioMethod {
    /// Katz et al. 1978: normal on the logarithm.
    KatzLog,
    /// Walter 1975: Katz with half a count added everywhere.
    AdjustedLog,
    /// Bailey 1987: normal on the cube root.
    Bailey,
    /// Newman 2001: inverse hyperbolic sine.
    InverseSinh,
}

impl RateCounts {
    /// Creates the counts, checking that positives do not exceed trials and that there are trials
    /// of both kinds.
    ///
    /// # Errors
    /// Returns an error if a count of trials is 0 or smaller than its positives.
    pub fn new(tp: u64, members: u64, fp: u64, non_members: u64) -> Result<Self> {
        ranged("n_in (trials with the record)", "[1, inf)", 0, members > 0)?;
        let what = "n_out (trials without the record)";
        ranged(what, "[1, inf)", 0, non_members > 0)?;
        ranged(
            "tp (true positives)",
            "[0, n_in]",
            format_args!("{tp} of n_in = {members}"),
            tp <= members,
        )?;
        ranged(
            "fp (false positives)",
            "[0, n_out]",
            format_args!("{fp} of n_out = {non_members}"),
            fp <= non_members,
        )?;
        Ok(Self {
            tp,
            members,
            fp,
            non_members,
        })
    }

    /// Returns the true positives.
    #[must_use]
    pub const fn tp(&self) -> u64 {
        self.tp
    }

    /// Returns the trials with the record.
    #[must_use]
    pub const fn members(&self) -> u64 {
        self.members
    }

    /// Returns the false positives.
    #[must_use]
    pub const fn fp(&self) -> u64 {
        self.fp
    }

    /// Returns the trials without the record.
    #[must_use]
    pub const fn non_members(&self) -> u64 {
        self.non_members
    }

    /// Returns the same trials, all of them guessed right: the most that so many can prove.
    #[must_use]
    pub const fn best(self) -> Self {
        Self {
            tp: self.members,
            fp: 0,
            ..self
        }
    }

    /// Returns the same trials with each guess inverted.
    #[must_use]
    pub const fn inverted(self) -> Self {
        Self {
            tp: self.members - self.tp,
            fp: self.non_members - self.fp,
            ..self
        }
    }

    /// Returns the bound ε ≥ ln((TPR_L − δ)/FPR_U) with Clopper–Pearson bounds at α/2 each.
    /// Direction: lower.
    ///
    /// The decision rule must not depend on these trials.
    ///
    /// ```
    /// use reticent_accounting::{Confidence, Delta, Neighbours, UnitName};
    /// use reticent_attacks::{AuditTerms, RateCounts, Sides};
    /// let terms = AuditTerms {
    ///     confidence: Confidence::new(0.99)?, delta: Delta::new(0.0)?,
    ///     neighbours: Neighbours::AddRemove, unit: UnitName::new("turn")?, copies: 1,
    /// };
    /// let bound = RateCounts::new(500, 500, 0, 500)?.bound(Sides::Both, &terms)?;
    /// assert!((bound.lower.get().get() - 4.541_915_81).abs() < 1e-8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if δ = 1 or the terms have zero copies.
    pub fn bound(&self, sides: Sides, terms: &AuditTerms) -> Result<AuditBound> {
        terms.check()?;
        let (fpr, fnr) = self.error_rates(terms)?;
        let delta = terms.delta.get();
        let ratio = |error: f64, other: f64| {
            let power = 1.0 - other - delta;
            if power > 0.0 {
                (power / error).ln()
            } else {
                0.0
            }
        };
        let epsilon = match sides {
            Sides::One => ratio(fpr, fnr),
            Sides::Both => ratio(fpr, fnr).max(ratio(fnr, fpr)),
        };
        let epsilon = epsilon - 1e-10 * epsilon.abs();
        AuditBound::new(epsilon, terms, EpsilonMethod::ClopperPearson)
    }

    /// Returns ε(δ) of the least μ with μ ≥ Φ⁻¹(1 − FPR_U) − Φ⁻¹(FNR_U). Direction: lower,
    /// conditional on the mechanism being Gaussian.
    ///
    /// Guesses that are worse than chance give 0, not the bound for the inverted guesses.
    ///
    /// # Errors
    /// Returns an error if δ is outside (0, 1) or the terms have zero copies.
    pub fn gaussian_bound(&self, terms: &AuditTerms) -> Result<AuditBound> {
        terms.check_positive_delta()?;
        let (fpr, fnr) = self.error_rates(terms)?;
        let mu = if fpr < 1.0 && fnr < 1.0 {
            (-normal_quantile(fpr) - normal_quantile(fnr)).max(0.0)
        } else {
            0.0
        };
        AuditBound::gaussian(mu, terms, EpsilonMethod::Gdp)
    }

    /// Returns ln((TPR − δ)/FPR) of the observed rates, which is never a bound, whatever the
    /// counts.
    #[must_use]
    pub fn raw(&self, delta: Delta) -> Option<Estimate<f64>> {
        let tpr = self.tp as f64 / self.members as f64 - delta.get();
        let fpr = self.fp as f64 / self.non_members as f64;
        (tpr > 0.0 && fpr > 0.0).then(|| Estimate::new((tpr / fpr).ln()))
    }

    /// Returns a one-sided lower limit of TPR/FPR by a normal approximation. It is an estimate:
    /// none of the four methods has its nominal coverage at small counts.
    ///
    /// Source: Fagerland, Lydersen and Laake 2015, section 4.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// use reticent_attacks::{RateCounts, RatioMethod};
    /// let counts = RateCounts::new(473, 984, 755, 1705)?;
    /// let low = counts.ratio(RatioMethod::KatzLog, Confidence::new(0.95)?);
    /// assert!((low.into_inner() - 1.011_661_94).abs() < 1e-8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ratio(&self, method: RatioMethod, confidence: Confidence) -> Estimate<f64> {
        let z = normal_quantile(confidence.get());
        let (x, m) = (self.tp as f64, self.members as f64);
        let (y, n) = (self.fp as f64, self.non_members as f64);
        let ratio = (x / m) / (y / n);
        let low = match method {
            RatioMethod::KatzLog => {
                let se = (1.0 / x - 1.0 / m + 1.0 / y - 1.0 / n).sqrt();
                (ratio.ln() - z * se).exp()
            }
            RatioMethod::AdjustedLog => {
                let (x, m, y, n) = (x + 0.5, m + 0.5, y + 0.5, n + 0.5);
                let se = (1.0 / x - 1.0 / m + 1.0 / y - 1.0 / n).sqrt();
                (((x / m) / (y / n)).ln() - z * se).exp()
            }
            RatioMethod::Bailey => {
                let (miss, pass) = ((1.0 - x / m) / x, (1.0 - y / n) / y);
                let square = miss + pass - z * z * miss * pass / 9.0;
                let shift = z * square.max(0.0).sqrt() / 3.0;
                ratio * ((1.0 - shift) / (1.0 - z * z * pass / 9.0)).powi(3)
            }
            RatioMethod::InverseSinh => {
                let se = (1.0 / x + 1.0 / y - 1.0 / m - 1.0 / n).sqrt();
                (ratio.ln() - 2.0 * (z / 2.0 * se).asinh()).exp()
            }
        };
        Estimate::new(low)
    }

    /// Returns upper bounds on FPR and FNR, at α/2 each.
    fn error_rates(&self, terms: &AuditTerms) -> Result<(f64, f64)> {
        let each = terms.confidence.shared_by(2)?;
        let fpr = clopper_pearson_upper(self.fp, self.non_members, each)?;
        let fnr = clopper_pearson_upper(self.members - self.tp, self.members, each)?;
        Ok((fpr.get().get(), fnr.get().get()))
    }
}

/// Returns the largest accuracy, under (ε, δ), of telling members from equally many non-members:
/// (e^ε + δ)/(1 + e^ε). Direction: upper.
///
/// ```
/// use reticent_accounting::{Delta, Epsilon};
/// let most = reticent_attacks::accuracy_ceiling(Epsilon::new(1.0)?, Delta::new(8e-5)?)?;
/// assert!((most.get().get() - 0.731_080_093_94).abs() < 1e-10);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// None for checked quantities.
pub fn accuracy_ceiling(epsilon: Epsilon, delta: Delta) -> Result<Upper<Probability>> {
    let q = 1.0 / (1.0 + (-epsilon.get()).exp());
    let most = (q + delta.get() * (1.0 - q)).min(1.0);
    Ok(Upper::new(Probability::new(most)?))
}
