//! Scoring candidates one by one: the baseline for the cost of a search.

use super::{CandidateTree, cost};
use crate::error::{Error, Result, counted};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;

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
