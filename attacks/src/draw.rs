//! How the secrets of a plan were drawn, which the null distribution and the ε bound depend on.

use crate::error::{Error, Result, given, ranged};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the m secrets of a plan were drawn from N candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Each uniform on all N, independent of the others.
    Independent,
    /// Uniform without replacement: no two canaries share a secret.
    Distinct,
}

impl Draw {
    /// Returns N', the number of candidates over which a secret is uniform when all others are known: N for independent
    /// draws, N − m + 1 for distinct ones.
    ///
    /// Given all other secrets and a model that ignores this one, the secret lies in a set of t candidates with
    /// probability at most t / N', because it is uniform on N' values of which at most t are in the set. Every count of
    /// canaries in sets of size t is therefore dominated by a binomial with rate t / N', whether or not the canaries
    /// share a context. P-values and bounds by ranks use N' in place of N; those by e-values use [`Self::uncollided`].
    ///
    /// # Errors
    /// No canary, no candidate, or more distinct canaries than candidates.
    pub fn effective_candidates(self, candidates: u64, canaries: u64) -> Result<u64> {
        given(canaries > 0, "no canary was given")?;
        ranged("candidates", "[1, 2^63]", candidates, candidates > 0)?;
        match self {
            Self::Independent => Ok(candidates),
            Self::Distinct if canaries <= candidates => Ok(candidates - canaries + 1),
            Self::Distinct => Err(Error::OutOfRange {
                what: "number of distinct canaries",
                range: "[1, number of candidates]",
                value: format!("{canaries} for {candidates} candidates"),
            }),
        }
    }

    /// Returns a lower bound on P(independent draws are distinct) for distinct draws, and 1 for independent ones.
    ///
    /// Distinct secrets are independent secrets conditioned on this event, so a test with error probability α on
    /// independent secrets has error probability at most α divided by this on distinct ones: P(A | B) ≤ P(A)/P(B).
    ///
    /// # Errors
    /// As for [`Self::effective_candidates`].
    pub fn uncollided(self, candidates: u64, canaries: u64) -> Result<f64> {
        self.effective_candidates(candidates, canaries)?;
        Ok(match self {
            Self::Independent => 1.0,
            Self::Distinct => {
                let n = candidates as f64;
                let ln: f64 = (1..canaries).map(|i| (-(i as f64) / n).ln_1p()).sum();
                ln.exp() * (1.0 - 1e-12)
            }
        })
    }
}
