//! Ranks by scoring every candidate separately: the oracle for the search and the baseline for its
//! cost.

use super::{CandidateTree, RankCount, SearchOptions, Target, by_context, check_targets, cost};
use crate::error::{Error, Result, counted};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Ranks every target by scoring every candidate; `options.budget` is checked, and ignored.
///
/// This is the definition of the rank in its plainest form. For large spaces use
/// [`super::search_ranks`].
///
/// # Errors
/// As for [`super::search_ranks`], except that nothing interrupts it.
pub fn flat_ranks<S: Scorer + ?Sized>(
    scorer: &mut S,
    tree: &CandidateTree,
    targets: &[Target],
    options: &SearchOptions,
) -> Result<Vec<RankCount>> {
    options.check()?;
    check_targets(tree, targets)?;
    let mut counts = vec![None; targets.len()];
    for (context, members) in by_context(targets) {
        let secrets: Vec<Vec<TokenId>> =
            (0..tree.candidates()).map(|i| tree.candidate(i)).collect();
        let mut costs = Vec::with_capacity(secrets.len());
        for chunk in secrets.chunks(options.batch) {
            costs.extend(score_secrets(scorer, context, chunk)?);
        }
        for member in members {
            counts[member] = Some(count(&targets[member], &secrets, &costs, options));
        }
    }
    Ok(counts.into_iter().flatten().collect())
}

fn count(
    target: &Target,
    secrets: &[Vec<TokenId>],
    costs: &[f64],
    options: &SearchOptions,
) -> RankCount {
    let own = secrets.iter().position(|secret| *secret == target.secret);
    let own = own.unwrap_or_default();
    let nll = costs[own];
    let others = || costs.iter().enumerate().filter(|(i, _)| *i != own);
    let below = others().filter(|(_, c)| **c < nll - options.tie_tolerance);
    let up_to = others().filter(|(_, c)| **c <= nll + options.tie_tolerance);
    let below = below.count() as u64;
    RankCount {
        candidates: secrets.len() as u64,
        nll,
        below,
        ties: up_to.count() as u64 - below,
        unresolved: 0,
    }
}

/// Returns the NLL of each secret after the context, in nats.
pub(crate) fn score_secrets<S: Scorer + ?Sized>(
    scorer: &mut S,
    context: &[TokenId],
    secrets: &[Vec<TokenId>],
) -> Result<Vec<f64>> {
    let sequences: Vec<Vec<TokenId>> = secrets
        .iter()
        .map(|secret| [context, secret].concat())
        .collect();
    let scores = scorer.score(&sequences)?;
    counted("score rows", scores.len(), sequences.len())?;
    let mut costs = Vec::with_capacity(secrets.len());
    for (secret, row) in secrets.iter().zip(scores) {
        let wanted = context.len() + secret.len() - 1;
        counted("token scores", row.len(), wanted)?;
        let mut sum = 0.0;
        for (token, score) in secret.iter().zip(&row[context.len() - 1..]) {
            sum += cost(score.log_probability, *token)?;
        }
        costs.push(sum);
    }
    Ok(costs)
}

/// What flat scoring of a few candidates took, to set a search's seconds beside.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlatSample {
    /// Candidates scored, evenly spread over the space.
    pub candidates: u64,
    /// Positions scored, contexts included: flat scoring has nothing to share them with.
    pub positions: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Times flat scoring on `sample` evenly spread candidates of one context.
///
/// # Errors
/// Returns an error if the sample, the context or the batch is empty, or if the engine fails.
pub fn sample_flat<S: Scorer + ?Sized>(
    scorer: &mut S,
    tree: &CandidateTree,
    context: &[TokenId],
    sample: u64,
    batch: usize,
) -> Result<FlatSample> {
    if sample == 0 || batch == 0 || context.is_empty() {
        let what = "sample, batch and context length";
        let value = format!("{sample}, {batch} and {}", context.len());
        return Err(Error::out_of_range(what, "[1, inf)", value));
    }
    let sample = sample.min(tree.candidates());
    let spread =
        |i: u64| (u128::from(i) * u128::from(tree.candidates()) / u128::from(sample)) as u64;
    let begun = Instant::now();
    let mut positions = 0;
    let mut next = 0;
    while next < sample {
        let end = sample.min(next + batch as u64);
        let secrets: Vec<_> = (next..end).map(|i| tree.candidate(spread(i))).collect();
        score_secrets(scorer, context, &secrets)?;
        // The last token of a sequence is only predicted, never fed in.
        let fed = secrets.iter().map(|s| (context.len() + s.len() - 1) as u64);
        positions += fed.sum::<u64>();
        next = end;
    }
    Ok(FlatSample {
        candidates: sample,
        positions,
        seconds: begun.elapsed().as_secs_f64(),
    })
}
