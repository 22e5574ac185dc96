//! A sequential test of one promised ε while secrets are revealed, which may stop once the ε is
//! rejected.

use super::{CanaryGuesses, EValueAudit, EValueTest, Limits, ROUNDING, check_guesses, ln_mean};
use crate::error::Result;
use reticent_accounting::Epsilon;

/// A test of one ε: E_t(ε) after each revealed secret.
///
/// If the ε holds, P(E ever reaches 1/α′) ≤ α, whatever the stopping rule. The order of the secrets
/// may not depend on them. A bound from the same secrets is another test: the probability that at
/// least one of the two errs can exceed α.
///
/// ```
/// use reticent_accounting::{Confidence, Delta, Epsilon};
/// use reticent_attacks::Draw;
/// use reticent_attacks::evalue::{Beliefs, EValueAudit, Pool, SequentialTest};
/// use reticent_attacks::exposure::RankAudit;
/// use reticent_corpus::Unit;
/// let rank = RankAudit {
///     thresholds: vec![1], confidence: Confidence::new(0.95)?, delta: Delta::new(0.0)?,
///     draw: Draw::Independent, unit: Unit::Turn, copies: 1,
/// };
/// let audit = EValueAudit { tempers: vec![EValueAudit::usual_tempers()[1]], ..EValueAudit::beside(&rank, 100, 10) };
/// let mut test = SequentialTest::new(&audit, Epsilon::new(2.0)?)?;
/// // Two secrets that are nearly certain: 13 each at ε = 2, and 20 are needed.
/// let mut belief = vec![0.01 / 99.0; 100];
/// belief[0] = 0.99;
/// let guess = Beliefs::full(&belief, Pool::NONE)?.guess(0.99)?;
/// test.reveal(vec![guess.clone()])?;
/// assert_eq!(test.rejected_after(), None);
/// test.reveal(vec![guess])?;
/// assert_eq!(test.rejected_after(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SequentialTest {
    test: EValueTest,
    limits: Limits,
    epsilon: f64,
    /// ln of the product so far, for each belief.
    sums: Vec<f64>,
    revealed: u64,
    rejected_after: Option<u64>,
}

impl SequentialTest {
    /// Creates a test in which nothing is revealed yet. If δ > 0 or the secrets are distinct, at most
    /// `audit.canaries` secrets may be revealed.
    ///
    /// # Errors
    /// As for [`EValueAudit::test`].
    pub fn new(audit: &EValueAudit, epsilon: Epsilon) -> Result<Self> {
        let test = audit.test()?;
        Ok(Self {
            limits: audit.limits(&test),
            sums: vec![0.0; test.beliefs],
            test,
            epsilon: epsilon.get(),
            revealed: 0,
            rejected_after: None,
        })
    }

    /// Reveals the next secret and returns ln E including it.
    ///
    /// # Errors
    /// As for [`EValueProcess::reveal`](super::EValueProcess::reveal).
    pub fn reveal(&mut self, guesses: CanaryGuesses) -> Result<f64> {
        check_guesses(&self.test, &self.limits, self.revealed, &guesses)?;
        let cap = self.test.cap.map_or(f64::INFINITY, f64::ln);
        for (sum, guess) in self.sums.iter_mut().zip(&guesses) {
            *sum += guess.ln_evalue(self.epsilon).min(cap);
        }
        self.revealed += 1;
        let ln = ln_mean(&self.sums);
        if self.rejected_after.is_none() && ln >= self.wanted() {
            self.rejected_after = Some(self.revealed);
        }
        Ok(ln)
    }

    /// Returns the threshold for ln E: ln 1/α′.
    #[must_use]
    pub fn wanted(&self) -> f64 {
        -self.test.working_alpha.ln() + ROUNDING
    }

    /// Returns the number of secrets after which ε was rejected; it stays rejected.
    #[must_use]
    pub const fn rejected_after(&self) -> Option<u64> {
        self.rejected_after
    }
}
