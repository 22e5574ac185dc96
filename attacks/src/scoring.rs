//! Scores records in batches of similar length and checks every answer of the scorer.

use crate::error::{Result, counted, going_on};
use crate::search::cost;
use reticent_backends::{Scorer, TokenScore};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// Scores every record that has a second token and passes its checked row to `take`, in no
/// particular order.
///
/// Batches hold records of similar length and at most `batch_tokens` padded tokens, but at least
/// one record. `progress` is called with the number of records done and may stop the run.
pub(crate) fn each_row<S: Scorer + ?Sized>(
    scorer: &mut S,
    records: &[Vec<TokenId>],
    batch_tokens: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    mut take: impl FnMut(usize, Vec<TokenScore>) -> Result<()>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..records.len())
        .filter(|&i| records[i].len() > 1)
        .collect();
    order.sort_by_key(|&i| records[i].len());
    let mut done = records.len() - order.len();
    for batch in batches(&order, records, batch_tokens) {
        let sequences: Vec<Vec<TokenId>> = batch.iter().map(|&i| records[i].clone()).collect();
        let scores = scorer.score(&sequences)?;
        counted("score rows", scores.len(), batch.len())?;
        for ((&index, sequence), row) in batch.iter().zip(&sequences).zip(scores) {
            counted("token scores", row.len(), sequence.len() - 1)?;
            for (token, score) in sequence[1..].iter().zip(&row) {
                cost(score.log_probability, *token)?;
            }
            take(index, row)?;
        }
        done += batch.len();
        going_on(progress(done))?;
    }
    Ok(())
}

/// Returns ln p of a checked score in nats; 0 if rounding lifts it above probability 1.
pub(crate) fn ln_p(score: &TokenScore) -> f64 {
    score.log_probability.min(0.0)
}

/// Returns Σ −ln p of checked scores in nats.
pub(crate) fn nll(row: &[TokenScore]) -> f64 {
    -row.iter().map(ln_p).sum::<f64>()
}

/// Cuts records, sorted by length, into batches of bounded padded size.
fn batches<'o>(
    order: &'o [usize],
    records: &[Vec<TokenId>],
    batch_tokens: usize,
) -> Vec<&'o [usize]> {
    let mut batches = Vec::new();
    let mut start = 0;
    for end in 1..=order.len() {
        let full = order
            .get(end)
            .is_none_or(|&next| (end - start + 1) * records[next].len() > batch_tokens);
        if full {
            batches.push(&order[start..end]);
            start = end;
        }
    }
    batches
}

/// Returns the windows of a record: the whole record if it fits the model's context, otherwise
/// pieces of that length. Each piece overlaps the previous one by one token, so that every token
/// but the record's first is predicted once. A context below two tokens counts as no limit.
///
/// ```
/// use reticent_attacks::windows;
/// assert_eq!(windows(9, Some(4)), [0..4, 3..7, 6..9]);
/// assert_eq!(windows(9, None), [0..9]);
/// ```
#[must_use]
pub fn windows(tokens: usize, context: Option<usize>) -> Vec<std::ops::Range<usize>> {
    let context = context.filter(|c| *c >= 2).unwrap_or(usize::MAX);
    if tokens <= context {
        return std::iter::once(0..tokens).collect();
    }
    (0..tokens - 1)
        .step_by(context - 1)
        .map(|start| start..(start + context).min(tokens))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::windows;

    #[test]
    fn windows_predict_every_token_once() {
        for length in 2..40 {
            for context in 2..12 {
                let parts = windows(length, Some(context));
                let predicted: Vec<usize> = parts.iter().flat_map(|p| p.start + 1..p.end).collect();
                assert_eq!(predicted, (1..length).collect::<Vec<_>>());
                assert!(parts.iter().all(|p| p.len() <= context && p.len() > 1));
            }
        }
        assert_eq!(windows(9, None), vec![0..9]);
        assert_eq!(windows(9, Some(1)), vec![0..9]);
    }
}
