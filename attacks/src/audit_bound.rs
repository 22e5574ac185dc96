//! A lower bound on ε from in/out coins, together with everything that it refers to.

use crate::error::{Result, ranged};
use crate::exposure::{Assumption, EpsilonMethod};
use crate::normal::gdp_epsilon;
use reticent_accounting::{Confidence, Delta, Epsilon, Lower, Neighbours, UnitName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a lower bound on ε is about: the same for every method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTerms {
    /// 1 − α, the probability that the bound holds.
    pub confidence: Confidence,
    /// δ of the ε that is bounded; 0 bounds the pure ε.
    pub delta: Delta,
    /// What the coin decided: a canary in or out (`add-remove`, `zero-out`), or one content or
    /// another (`replace`).
    pub neighbours: Neighbours,
    /// What one record is.
    pub unit: UnitName,
    /// Records that one coin put in or out together: the group of the ε that is bounded.
    pub copies: u64,
}

/// A lower bound on ε from guesses about in/out coins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditBound {
    /// ε is at least this.
    pub lower: Lower<Epsilon>,
    /// What it is about.
    #[serde(flatten)]
    pub terms: AuditTerms,
    /// How it was found.
    pub method: EpsilonMethod,
    /// What it presupposes.
    pub assumes: Assumption,
    /// μ of Gaussian differential privacy that the data exclude from below; only where the
    /// method goes through it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mu: Option<f64>,
}

impl AuditTerms {
    pub(crate) fn check(&self) -> Result<()> {
        ranged("delta", "[0, 1)", self.delta.get(), self.delta.get() < 1.0)?;
        ranged("copies", "[1, inf)", self.copies, self.copies > 0)
    }

    /// Checks the terms for a bound through a Gaussian trade-off, which also needs δ > 0: its pure
    /// ε is infinite.
    pub(crate) fn check_positive_delta(&self) -> Result<()> {
        self.check()?;
        let range = "(0, 1) for a Gaussian trade-off, whose epsilon at delta = 0 is infinite";
        ranged("delta", range, self.delta.get(), self.delta.get() > 0.0)
    }

    /// Returns α, the probability of a false alarm.
    pub(crate) fn alpha(&self) -> f64 {
        1.0 - self.confidence.get()
    }
}

impl AuditBound {
    /// Creates a bound without a trade-off family.
    pub(crate) fn new(epsilon: f64, terms: &AuditTerms, method: EpsilonMethod) -> Result<Self> {
        Ok(Self {
            lower: Lower::new(Epsilon::new(epsilon.max(0.0))?),
            terms: terms.clone(),
            method,
            assumes: Assumption::of(terms.delta),
            mu: None,
        })
    }

    /// Creates the bound that a Gaussian trade-off with this μ has.
    pub(crate) fn gaussian(mu: f64, terms: &AuditTerms, method: EpsilonMethod) -> Result<Self> {
        Ok(Self {
            assumes: Assumption::GaussianTradeOff,
            mu: Some(mu),
            ..Self::new(gdp_epsilon(mu, terms.delta.get()), terms, method)?
        })
    }

    /// Returns the bound if it can be compared with a promised ε(δ) in these terms, otherwise
    /// `None`.
    ///
    /// A pure-ε bound cannot be compared with an ε(δ) with δ > 0: the pure ε of a Gaussian is
    /// infinite, so the two don't contradict each other. A bound under an assumed trade-off family
    /// cannot be compared with any promise, because an apparent breach may be due to the
    /// assumption.
    ///
    /// ```
    /// use reticent_accounting::{Confidence, Delta, Neighbours, UnitName};
    /// use reticent_attacks::{AuditTerms, OneRunCounts};
    /// let terms = AuditTerms {
    ///     confidence: Confidence::new(0.95)?, delta: Delta::new(0.0)?,
    ///     neighbours: Neighbours::AddRemove, unit: UnitName::new("turn")?, copies: 1,
    /// };
    /// let pure = OneRunCounts::new(100, 100, 100)?.bound(&terms)?;
    /// assert!(pure.against(&terms).is_some());
    /// let promised = AuditTerms { delta: Delta::new(1e-5)?, ..terms };
    /// assert!(pure.against(&promised).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn against(&self, promised: &AuditTerms) -> Option<Lower<Epsilon>> {
        let same = self.terms.delta == promised.delta
            && self.terms.neighbours == promised.neighbours
            && self.terms.unit == promised.unit
            && self.terms.copies == promised.copies;
        (same && self.assumes != Assumption::GaussianTradeOff).then_some(self.lower)
    }
}
