//! Perplexity of a model on records.

use crate::error::{Error, Result};
use crate::scoring::{each_row, nll};
use reticent_backends::Scorer;
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Summed NLL of one record and the tokens it was summed over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordCost {
    /// −Σ ln p over the record's tokens but the first, nats.
    #[serde(with = "crate::spelled")]
    #[schemars(with = "f64")]
    pub nll: f64,
    /// How many tokens that are.
    pub tokens: u64,
}

/// exp(mean NLL per token), with what it was computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Perplexity {
    /// exp(Σ NLL / Σ tokens), over all records together; +∞ if the model rules a token out.
    #[serde(with = "crate::spelled")]
    #[schemars(with = "f64")]
    pub perplexity: f64,
    /// Σ NLL / Σ tokens, nats per token.
    #[serde(with = "crate::spelled")]
    #[schemars(with = "f64")]
    pub mean_nll: f64,
    /// Tokens scored: every token but the first of each record.
    pub tokens: u64,
    /// One per record, in their order.
    pub records: Vec<RecordCost>,
}

/// Perplexity over records, each scored on its own from its first token on.
///
/// A record's first token (beginning-of-text) is context and not scored; a record without a
/// second token counts zero tokens. Records are scored in batches of similar length whose
/// padded size stays within `batch_tokens` (one record at least). The result does not depend
/// on the batches. `progress` is called with records done and may stop the run.
///
/// ```
/// # use reticent_backends::{Result, Scorer, TokenScore};
/// # struct Coin;
/// # impl Scorer for Coin {
/// #     fn vocabulary_size(&self) -> usize { 2 }
/// #     fn score(&mut self, sequences: &[Vec<u32>]) -> Result<Vec<Vec<TokenScore>>> {
/// #         let half = TokenScore {
/// #             log_probability: 0.5_f64.ln(), mean: 0.5_f64.ln(), variance: 0.0, top_token: 0,
/// #             top_log_probability: 0.5_f64.ln(),
/// #         };
/// #         Ok(sequences.iter().map(|s| vec![half; s.len() - 1]).collect())
/// #     }
/// # }
/// use std::ops::ControlFlow;
/// let records = [vec![0, 1, 1], vec![1, 0]];
/// let mut model = Coin; // one half for either token
/// let result = reticent_attacks::perplexity(&mut model, &records, 4096, &mut |_| {
///     ControlFlow::Continue(())
/// })?;
/// assert!((result.perplexity - 2.0).abs() < 1e-12);
/// assert_eq!(result.tokens, 3);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// No record with two tokens, NaN or a positive log-probability from the model, a failing
/// engine, [`Error::Interrupted`].
pub fn perplexity<S: Scorer + ?Sized>(
    scorer: &mut S,
    records: &[Vec<TokenId>],
    batch_tokens: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Perplexity> {
    let mut costs = vec![
        RecordCost {
            nll: 0.0,
            tokens: 0
        };
        records.len()
    ];
    each_row(scorer, records, batch_tokens, progress, |index, row| {
        costs[index] = RecordCost {
            nll: nll(&row),
            tokens: row.len() as u64,
        };
        Ok(())
    })?;
    let tokens: u64 = costs.iter().map(|c| c.tokens).sum();
    if tokens == 0 {
        return Err(Error::Empty("no record has a second token"));
    }
    let total: f64 = costs.iter().map(|c| c.nll).sum();
    let mean_nll = total / tokens as f64;
    Ok(Perplexity {
        perplexity: mean_nll.exp(),
        mean_nll,
        tokens,
        records: costs,
    })
}
