//! Reconstruction of secrets among their candidates, against promises (p_j, r_j).
//!
//! Hush! promises: a secret that can be guessed with probability p before training is guessed
//! with probability at most r after it. The guess here is the candidate that the model finds
//! most likely in the secret's own context. Hits of several secrets in one run may depend on
//! each other in any way, so the test is Markov's: P(at least v hits) ≤ Σ_j r_j / v.

use crate::ceiling::CeilingOutcome;
use crate::error::{Error, Result};
use crate::scoring::{each_row, nll};
use crate::statistics::{check_closed_unit, check_open_unit};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// A secret, what stands before it, and what else it might have been.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretCase {
    /// Its name.
    pub id: String,
    /// Tokens before it, at least one.
    pub context: Vec<TokenId>,
    /// The secret's tokens.
    pub secret: Vec<TokenId>,
    /// Everything it might have been, itself among it.
    pub candidates: Vec<Vec<TokenId>>,
    /// p_j, the largest probability with which it is guessed without the model.
    pub prior: f64,
    /// r_j, the promised largest probability with it.
    pub posterior: f64,
}

/// Hits against promises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reconstruction {
    /// Each secret's rank among its candidates, ties at their worst; 1 is a hit.
    pub ranks: Vec<(String, u64)>,
    /// Secrets that the model's first choice names.
    pub hits: u64,
    /// Hits without the model, at most: Σ p_j.
    pub expected_blindly: f64,
    /// Hits that the promises allow on average: Σ r_j.
    pub expected_at_most: f64,
    /// P(so many hits or more) under the promises, at most: min(1, Σ r_j / v).
    pub p_value: f64,
    /// The smallest p-value that any ranks could have: min(1, Σ r_j / number of secrets).
    pub least_p_value: f64,
    /// The level of the test.
    pub alpha: f64,
    /// Contradicted only if `p_value ≤ alpha`.
    pub outcome: CeilingOutcome,
}

/// Ranks every secret among its candidates by summed NLL and tests the promises.
///
/// # Errors
/// No secret, an empty context, secret or candidate, a secret that is no candidate, a candidate
/// twice, a promise r_j < p_j or outside [0, 1], fewer candidates than the prior says (1/N > p_j:
/// guessing among them beats the promised prior without any model), alpha outside (0, 1), a
/// failing engine, [`Error::Interrupted`].
pub fn reconstruct<S: Scorer + ?Sized>(
    scorer: &mut S,
    cases: &[SecretCase],
    alpha: f64,
    batch_tokens: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Reconstruction> {
    check_open_unit("alpha", alpha)?;
    if cases.is_empty() {
        return Err(Error::Empty("no secret was given"));
    }
    cases.iter().try_for_each(check)?;
    let mut ranks = Vec::with_capacity(cases.len());
    for (done, case) in cases.iter().enumerate() {
        let sequences: Vec<Vec<TokenId>> = case
            .candidates
            .iter()
            .map(|c| case.context.iter().chain(c).copied().collect())
            .collect();
        let mut costs = vec![f64::INFINITY; sequences.len()];
        let mut quiet = |_: usize| progress(done);
        each_row(
            scorer,
            &sequences,
            batch_tokens,
            &mut quiet,
            |index, row| {
                let span = case.candidates[index].len();
                costs[index] = nll(&row[row.len() - span..]);
                Ok(())
            },
        )?;
        let own = case.candidates.iter().position(|c| *c == case.secret);
        let own = own.map_or(f64::INFINITY, |at| costs[at]);
        let rank = costs.iter().filter(|c| **c <= own).count() as u64;
        ranks.push((case.id.clone(), rank));
    }
    let hits = ranks.iter().filter(|(_, rank)| *rank == 1).count() as u64;
    let expected: f64 = cases.iter().map(|c| c.posterior).sum();
    let p_value = if hits == 0 {
        1.0
    } else {
        (expected / hits as f64).min(1.0)
    };
    let least = (expected / cases.len() as f64).min(1.0);
    Ok(Reconstruction {
        ranks,
        hits,
        expected_blindly: cases.iter().map(|c| c.prior).sum(),
        expected_at_most: expected,
        p_value,
        least_p_value: least,
        alpha,
        outcome: CeilingOutcome::of(p_value, least, alpha),
    })
}

fn check(case: &SecretCase) -> Result<()> {
    if case.context.is_empty() || case.candidates.iter().any(Vec::is_empty) {
        return Err(Error::Empty(
            "a secret without context or with an empty candidate",
        ));
    }
    if !case.candidates.contains(&case.secret) {
        return Err(Error::OutOfRange {
            what: "secret",
            range: "one of its candidates",
            value: case.id.clone(),
        });
    }
    let mut sorted: Vec<&Vec<TokenId>> = case.candidates.iter().collect();
    sorted.sort();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::OutOfRange {
            what: "candidates",
            range: "different from each other in tokens",
            value: case.id.clone(),
        });
    }
    check_closed_unit("prior", case.prior)?;
    check_closed_unit("posterior", case.posterior)?;
    if case.posterior < case.prior {
        return Err(Error::OutOfRange {
            what: "posterior",
            range: "[prior, 1]",
            value: format!(
                "{} below the prior {} of {}",
                case.posterior, case.prior, case.id
            ),
        });
    }
    let least = 1.0 / case.candidates.len() as f64;
    if case.prior < least * (1.0 - 1e-12) {
        return Err(Error::OutOfRange {
            what: "prior",
            range: "[1 / number of candidates, 1]: guessing among them is no harder",
            value: format!(
                "{} with {} candidates ({})",
                case.prior,
                case.candidates.len(),
                case.id
            ),
        });
    }
    Ok(())
}
