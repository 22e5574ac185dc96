//! Tests reconstruction of secrets among their candidates against promises (p_j, r_j).
//!
//! Hush! promises that a secret that can be guessed with probability p before training is guessed with probability at
//! most r after it. The guess here names the ⌊pN⌋ of N candidates that the model finds most likely in the secret's own
//! context; a secret among them is a hit. The test assumes that the secret is uniform on its candidates, whatever the
//! other secrets and the rest of the text are, for example because it was drawn from a known shape and its candidates
//! are fresh draws from that shape.
//!
//! Hits of several secrets in one run may depend on each other in any way, although the secrets don't: a model may
//! reveal all of them at once, or none. The test is therefore based on Markov's inequality, P(at least v hits) ≤ Σ_j
//! r_j / v, for each group of secrets by itself; groups share the false-alarm rate α equally (Bonferroni). Inverted:
//! the mean probability of a hit of m secrets is at least αv/m, except for false alarms at rate α.
//!
//! Hits on different secrets of a model that knows nothing of them are independent, so whether a model knows some of them
//! is tested more sharply, without a promise ([`Reconstruction::blind_p_value`]). There, one secret in several places is one.

use crate::error::{Result, given, ranged, suited};
use crate::exposure::CeilingOutcome;
use crate::perplexity::Heard;
use crate::scoring::{each_row, nll};
use crate::search::tie_tolerance;
use crate::statistics::{check_closed_unit, check_open_unit};
use reticent_accounting::{Lower, Probability, Upper};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A secret, the tokens before it, and its candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretCase {
    /// The secret's name.
    pub id: String,
    /// The tokens before it, at least one.
    pub context: Vec<TokenId>,
    /// The secret's tokens.
    pub secret: Vec<TokenId>,
    /// All candidates, including the secret itself.
    pub candidates: Vec<Vec<TokenId>>,
    /// p_j, the largest probability with which the secret is guessed without the model.
    pub prior: f64,
    /// r_j, the promised largest probability with which it is guessed with the model.
    pub posterior: f64,
    /// The number of the group that the secret is tested in; groups are numbered from 0.
    pub group: usize,
    /// The secret's number, which it has in every place: one guess hits all of them.
    pub number: usize,
}

impl SecretCase {
    /// Returns how many candidates one guess names: as many as have mass p_j together.
    #[must_use]
    pub fn guess(&self) -> u64 {
        // A product that is an integer up to rounding counts as that integer.
        (self.prior * self.candidates.len() as f64 * (1.0 + 1e-12)).floor() as u64
    }

    /// Checks that the secret can be ranked and its promise tested. The error names neither its id nor a candidate: an id may
    /// be the secret itself.
    ///
    /// # Errors
    /// Returns an error if
    ///
    /// - the context, the secret or a candidate is empty,
    /// - the secret is not among its candidates, or a candidate occurs twice,
    /// - the promise has r_j < p_j or lies outside [0, 1], or
    /// - there are fewer candidates than the prior says (1/N > p_j: guessing among them beats the promised prior without
    ///   any model).
    pub fn check(&self) -> Result<()> {
        given(
            !self.context.is_empty() && !self.candidates.iter().any(Vec::is_empty),
            "a secret without context or with an empty candidate",
        )?;
        suited(
            "secret",
            "one of its candidates",
            "another text",
            self.candidates.contains(&self.secret),
        )?;
        let mut sorted: Vec<&Vec<TokenId>> = self.candidates.iter().collect();
        sorted.sort();
        suited(
            "candidates",
            "different from each other in tokens",
            "two that are alike",
            sorted.windows(2).all(|pair| pair[0] != pair[1]),
        )?;
        check_closed_unit("prior", self.prior)?;
        check_closed_unit("posterior", self.posterior)?;
        ranged(
            "posterior",
            "[prior, 1]",
            format_args!("{} below the prior {}", self.posterior, self.prior),
            self.posterior >= self.prior,
        )?;
        let least = 1.0 / self.candidates.len() as f64;
        ranged(
            "prior",
            "[1 / number of candidates, 1]: guessing among them is no harder",
            format_args!("{} with {} candidates", self.prior, self.candidates.len()),
            self.prior >= least * (1.0 - 1e-12),
        )
    }
}

/// The secrets of one group, such as those of one promise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromiseTest {
    /// The mean of p_j.
    pub prior: f64,
    /// r, the mean of r_j.
    pub posterior: f64,
    /// m, how many there are.
    pub secrets: u64,
    /// v, how many of them are hit.
    pub hits: u64,
    /// P(so many hits or more) under the promise, at most: min(1, m r / v).
    pub p_value: f64,
    /// The share of the false-alarm rate that this test may use.
    pub false_alarm: f64,
    /// The mean chance of a hit is at least this, unless a false alarm struck: α v/m.
    pub at_least: Lower<Probability>,
    /// The largest lower bound that so many secrets can give: α.
    pub provable: Upper<Probability>,
    /// Whether each secret ties with all its candidates, so that the ranks say nothing; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alike: bool,
}

/// A secret, whether it is hit, and whether it ties with all its candidates.
type Ranked<'c> = (&'c SecretCase, bool, bool);

impl PromiseTest {
    fn new(group: &[Ranked<'_>], alpha: f64) -> Result<Self> {
        let (secrets, hits) = (group.len(), group.iter().filter(|(_, hit, _)| *hit).count());
        let (all, hit) = (secrets as f64, hits as f64);
        // The mean of equal values must be that value, without rounding.
        let mean = |of: fn(&SecretCase) -> f64| match group.split_first() {
            Some(((first, ..), rest)) => {
                let beyond = rest.iter().map(|(case, ..)| of(case) - of(first));
                of(first) + beyond.sum::<f64>() / all
            }
            None => 0.0,
        };
        let posterior = mean(|case| case.posterior);
        // Subtract a few units in the last place, toward the safe side.
        let at_least = alpha * (hit / all) * (1.0 - 1e-12);
        Ok(Self {
            prior: mean(|case| case.prior),
            posterior,
            secrets: secrets as u64,
            hits: hits as u64,
            p_value: match hits {
                0 => 1.0,
                _ => (all * posterior / hit).min(1.0),
            },
            false_alarm: alpha,
            at_least: Lower::new(Probability::new(at_least)?),
            provable: Upper::new(Probability::new(alpha)?),
            alike: group.iter().all(|(.., tied)| *tied),
        })
    }
}

/// Hits against promises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reconstruction {
    /// Each secret's rank among its candidates, ties at their worst. With the model a rank names the secret, so a report
    /// shows them only where asked to.
    #[serde(skip)]
    pub ranks: Vec<(String, u64)>,
    /// Secrets that the model's guess names.
    pub hits: u64,
    /// Hits without the model, at most: Σ p_j.
    pub expected_blindly: f64,
    /// Hits that the promises allow on average: Σ r_j.
    pub expected_at_most: f64,
    /// The number of promises times the smallest p-value of any of them, at most 1.
    pub p_value: f64,
    /// The smallest p-value that any ranks could have.
    pub least_p_value: f64,
    /// The false-alarm rate of all tests together.
    pub alpha: f64,
    /// Contradicted where the lower bound of any promise is above it.
    pub outcome: CeilingOutcome,
    /// Each group in the order of their numbers; a report shows them beside their verdicts.
    #[serde(skip)]
    pub promises: Vec<PromiseTest>,
    /// Places of secrets beyond the first of each.
    #[serde(skip)]
    pub repeated: u64,
    /// Hits beyond the first of each secret.
    #[serde(skip)]
    pub repeated_hits: u64,
}

impl Reconstruction {
    /// Returns P(so many secrets hit in some place, or more), at most, for a model that knows nothing of them. Hits of such a
    /// model on different secrets don't depend on each other, and one is hit with the sum of its places' chances at most.
    #[must_use]
    pub fn blind_p_value(&self) -> f64 {
        let hits = self.hits.saturating_sub(self.repeated_hits);
        hits_by_chance(self.expected_blindly, hits)
    }

    /// Returns the smallest such p-value that any ranks could have given.
    #[must_use]
    pub fn least_blind_p_value(&self) -> f64 {
        let all = self.ranks.len() as u64;
        hits_by_chance(self.expected_blindly, all.saturating_sub(self.repeated))
    }
}

/// Returns P(at least `hits` independent events), at most, of which `expected` are expected at most: the smaller of
/// Markov's bound μ/v and Chernoff's e^(v − μ) (μ/v)^v.
fn hits_by_chance(expected: f64, hits: u64) -> f64 {
    let hits = hits as f64;
    if hits <= expected {
        return 1.0;
    }
    let chernoff = (hits - expected + hits * (expected / hits).ln()).exp();
    chernoff.min(expected / hits)
}

/// Ranks every secret among its candidates by summed NLL and tests the promises.
///
/// # Errors
/// Returns an error if
///
/// - there is no secret,
/// - one fails its [`SecretCase::check`],
/// - alpha is outside (0, 1),
/// - the model gives most candidates no finite perplexity, or
/// - the engine fails.
///
/// Returns [`crate::Error::Interrupted`] if `progress` stops the run.
pub fn reconstruct<S: Scorer + ?Sized>(
    scorer: &mut S,
    cases: &[SecretCase],
    alpha: f64,
    batch_tokens: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Reconstruction> {
    check_open_unit("alpha", alpha)?;
    given(!cases.is_empty(), "no secret was given")?;
    cases.iter().try_for_each(SecretCase::check)?;
    let mut ranks = Vec::with_capacity(cases.len());
    let mut tied = Vec::with_capacity(cases.len());
    let mut heard = Heard::default();
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
        let longest = case.candidates.iter().map(Vec::len).max();
        let tolerance = tie_tolerance(scorer, longest.unwrap_or(0));
        let most = own + tolerance;
        let rank = costs.iter().filter(|cost| **cost <= most).count() as u64;
        ranks.push((case.id.clone(), rank));
        tied.push(
            costs
                .iter()
                .all(|cost| (own - tolerance..=most).contains(cost)),
        );
        for (cost, candidate) in costs.iter().zip(&case.candidates) {
            heard.add(*cost, candidate.len());
        }
    }
    heard.check("candidate")?;
    let mut groups: BTreeMap<usize, Vec<Ranked<'_>>> = BTreeMap::new();
    let (mut places, mut places_hit) = (BTreeSet::new(), BTreeSet::new());
    let (mut repeated, mut repeated_hits) = (0, 0);
    for ((case, (_, rank)), tied) in cases.iter().zip(&ranks).zip(tied) {
        let hit = *rank <= case.guess();
        repeated += u64::from(!places.insert(case.number));
        repeated_hits += u64::from(hit && !places_hit.insert(case.number));
        let group = groups.entry(case.group).or_default();
        group.push((case, hit, tied));
    }
    let tests = groups.len() as f64;
    let promises = groups
        .values()
        .map(|group| PromiseTest::new(group, alpha / tests))
        .collect::<Result<Vec<_>>>()?;
    let beyond = |bound: fn(&PromiseTest) -> f64| promises.iter().any(|p| bound(p) > p.posterior);
    let outcome = match (
        beyond(|p| p.at_least.get().get()),
        beyond(|p| p.provable.get().get()),
    ) {
        (true, _) => CeilingOutcome::Contradicted,
        (false, true) => CeilingOutcome::NotContradicted,
        (false, false) => CeilingOutcome::CouldNotContradict,
    };
    let smallest = promises.iter().map(|p| p.p_value).fold(1.0, f64::min);
    let least = promises.iter().map(|p| p.posterior).fold(1.0, f64::min);
    let (p_value, least) = ((tests * smallest).min(1.0), (tests * least).min(1.0));
    Ok(Reconstruction {
        hits: promises.iter().map(|p| p.hits).sum(),
        ranks,
        expected_blindly: cases.iter().map(|c| c.prior).sum(),
        expected_at_most: cases.iter().map(|c| c.posterior).sum(),
        p_value,
        least_p_value: least,
        alpha,
        outcome,
        promises,
        repeated,
        repeated_hits,
    })
}
