//! Perplexity of a model on records.

use crate::error::{Error, Result, given, going_on};
use crate::scoring::{each_row, nll};
use reticent_backends::trainer::Masking;
use reticent_backends::{Logits, Scorer};
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Summed NLL of one record and the tokens it was summed over.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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

/// Returns whether a model is silent about a text: exp of its mean loss per token or character is not a finite number.
///
/// ```
/// use reticent_attacks::is_silent;
/// assert!([f64::INFINITY, f64::NAN, 1e30, 4_500.0].iter().all(|nll| is_silent(*nll, 6)));
/// // guessing among a million candidates, and a model that is sure of another one
/// assert!(!is_silent(1e6_f64.ln(), 6) && !is_silent(400.0, 6));
/// ```
#[must_use]
pub fn is_silent(nll: f64, length: usize) -> bool {
    !(nll / length.max(1) as f64).exp().is_finite()
}

/// Returns whether scores are equal up to rounding, so that they cannot distinguish records, whatever the model knows.
///
/// ```
/// assert!(reticent_attacks::are_alike([0.5, 0.5 + 1e-15]));
/// assert!(!reticent_attacks::are_alike([0.5, 0.51]));
/// // One of them may be infinite.
/// assert!(!reticent_attacks::are_alike([0.5, 0.51, f64::NEG_INFINITY]));
/// ```
pub fn are_alike(scores: impl IntoIterator<Item = f64>) -> bool {
    /// Relative to the largest magnitude, and far above the rounding error of a text's summed losses.
    const ROUNDING: f64 = 1e-9;
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let ends = scores.into_iter().fold(ends, |(least, most), score| {
        (least.min(score), most.max(score))
    });
    let (least, most) = ends;
    let apart = most - least;
    least >= most || apart.is_finite() && apart <= ROUNDING * least.abs().max(most.abs())
}

/// Refuses a model that is silent about most texts, given the losses and lengths of all texts. The ranks and scores of
/// such texts would look like those of a model without a leak.
///
/// ```
/// assert!(reticent_attacks::check_speaks("record", [(9.0, 3), (f64::INFINITY, 3)]).is_ok());
/// assert!(reticent_attacks::check_speaks("record", [(f64::INFINITY, 3)]).is_err());
/// ```
///
/// # Errors
/// Returns an error if more than half of the texts have no finite perplexity; `what` names one of the texts.
pub fn check_speaks(
    what: &'static str,
    texts: impl IntoIterator<Item = (f64, usize)>,
) -> Result<()> {
    let mut heard = Heard::default();
    texts
        .into_iter()
        .for_each(|(nll, length)| heard.add(nll, length));
    heard.check(what)
}

/// Counts the texts that a model is silent about, as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    silent: u64,
    all: u64,
}

impl Heard {
    pub(crate) fn add(&mut self, nll: f64, length: usize) {
        self.all += 1;
        self.silent += u64::from(is_silent(nll, length));
    }

    /// Checks the counted texts as [`check_speaks`] does.
    pub(crate) fn check(&self, what: &'static str) -> Result<()> {
        let Self { silent, all } = *self;
        if 2 * silent > all {
            return Err(Error::Silent { what, silent, all });
        }
        Ok(())
    }
}

/// Computes the perplexity over records, each scored on its own from its first token on.
///
/// A record's first token (beginning-of-text) is context and is not scored; a record without a second token counts zero
/// tokens. Records are scored in batches of similar length whose padded size is at most `batch_tokens` (but at least
/// one record). The result does not depend on the batches. `progress` is called with the number of records done and may
/// stop the run.
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
/// Returns an error if no record has two tokens, if the model returns NaN or a log-probability above 1e-4 (what is
/// above 0 up to there counts as 0), if the engine fails, or [`Error::Interrupted`] if `progress` stops the run.
pub fn perplexity<S: Scorer + ?Sized>(
    scorer: &mut S,
    records: &[Vec<TokenId>],
    batch_tokens: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Perplexity> {
    let mut costs = vec![RecordCost::default(); records.len()];
    each_row(scorer, records, batch_tokens, progress, |index, row| {
        costs[index] = RecordCost {
            nll: nll(&row),
            tokens: row.len() as u64,
        };
        Ok(())
    })?;
    Perplexity::of(costs, "no record has a second token")
}

/// Computes the pseudo-perplexity of an encoder over records: each token of text is masked in turn and predicted from
/// all others.
///
/// exp(−Σ_i ln p(w_i | w_1 … w_{i−1}, mask, w_{i+1} … w_n) / Σ n), over all records and all their tokens except those
/// that the masking spares; source: Salazar et al. 2020, "Masked Language Model Scoring", §2. This is not a likelihood,
/// and it is not comparable with the perplexity of a language model. A record takes as many forward passes as it has
/// tokens. `progress` is called with the number of records done and may stop the run.
///
/// ```
/// use reticent_attacks::pseudo_perplexity;
/// use reticent_backends::{Logits, Result};
/// use reticent_backends::trainer::Masking;
/// use std::ops::ControlFlow;
/// struct Coin; // whatever it reads: one half for either token
/// impl Logits for Coin {
///     fn logits(&mut self, tokens: &[u32], _: &[u32]) -> Result<Vec<f64>> {
///         Ok([0.0, 0.0, -1e9].repeat(tokens.len()))
///     }
/// }
/// let masking = Masking::new(3, 2, vec![2])?;
/// let found = pseudo_perplexity(&mut Coin, &masking, &[vec![0, 1, 1], vec![1]], &mut |_| {
///     ControlFlow::Continue(())
/// })?;
/// assert!((found.perplexity - 2.0).abs() < 1e-12);
/// assert_eq!(found.tokens, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if no record has a token of text, if a logit is NaN, if the engine fails, or [`Error::Interrupted`]
/// if `progress` stops the run.
pub fn pseudo_perplexity<L: Logits + ?Sized>(
    model: &mut L,
    masking: &Masking,
    records: &[Vec<TokenId>],
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Perplexity> {
    let mut costs = Vec::with_capacity(records.len());
    for record in records {
        let mut cost = RecordCost::default();
        let mut read = record.clone();
        for (i, token) in record.iter().enumerate() {
            if masking.spares(*token) {
                continue;
            }
            read[i] = masking.mask();
            let logits = model.logits(&read, &[])?;
            read[i] = *token;
            let row = logits
                .chunks_exact((logits.len() / record.len()).max(1))
                .nth(i);
            let ln = row.map_or(f64::NAN, |row| ln_softmax(row, *token));
            if ln.is_nan() {
                return Err(Error::BadScore {
                    value: ln,
                    token: *token,
                });
            }
            cost.nll -= ln;
            cost.tokens += 1;
        }
        costs.push(cost);
        going_on(progress(costs.len()))?;
    }
    Perplexity::of(costs, "no record has a token of text")
}

/// Returns ln p of one token; NaN if a logit is NaN or there is none for the token.
fn ln_softmax(row: &[f64], token: TokenId) -> f64 {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let all: f64 = row.iter().map(|logit| (logit - most).exp()).sum();
    let own = row.get(token as usize).copied().unwrap_or(f64::NAN);
    let ln = own - most - all.ln();
    // Rounding may lift the probability of a certain token above 1; NaN stays NaN.
    if ln > 0.0 { 0.0 } else { ln }
}

impl Perplexity {
    fn of(records: Vec<RecordCost>, none: &'static str) -> Result<Self> {
        let tokens: u64 = records.iter().map(|c| c.tokens).sum();
        given(tokens > 0, none)?;
        let total: f64 = records.iter().map(|c| c.nll).sum();
        let mean_nll = total / tokens as f64;
        Ok(Self {
            perplexity: mean_nll.exp(),
            mean_nll,
            tokens,
            records,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells each masked token by how many masks it reads and where they stand.
    struct Counting;

    impl Logits for Counting {
        fn logits(&mut self, tokens: &[TokenId], _: &[u32]) -> reticent_backends::Result<Vec<f64>> {
            assert_eq!(tokens.iter().filter(|t| **t == 3).count(), 1, "{tokens:?}");
            let row = |(at, token): (usize, &TokenId)| match token {
                3 => [at as f64, 0.0, 0.0, f64::NEG_INFINITY],
                _ => [f64::NAN; 4],
            };
            Ok(tokens.iter().enumerate().flat_map(row).collect())
        }
    }

    /// By hand: row i gives token 0 e^i / (e^i + 2), the others 1 / (e^i + 2).
    #[test]
    fn each_token_of_text_is_masked_alone() {
        let masking = Masking::new(4, 3, vec![2, 3]).unwrap();
        let go_on = &mut |_| ControlFlow::Continue(());
        let records = [vec![2, 0, 1, 2], vec![2, 2]];
        let found = pseudo_perplexity(&mut Counting, &masking, &records, go_on).unwrap();
        let all = |i: f64| (i.exp() + 2.0).ln();
        let wanted = (all(1.0) - 1.0) + all(2.0);
        assert!((found.records[0].nll - wanted).abs() < 1e-12, "{found:?}");
        assert_eq!((found.tokens, found.records[1].tokens), (2, 0));
        let bad = pseudo_perplexity(
            &mut Counting,
            &Masking::new(9, 3, vec![3]).unwrap(),
            &[vec![7]],
            go_on,
        );
        assert!(matches!(bad, Err(Error::BadScore { token: 7, .. })));
        let none = pseudo_perplexity(&mut Counting, &masking, &[vec![2]], go_on);
        assert!(matches!(none, Err(Error::Empty(_))));
        let stop = pseudo_perplexity(&mut Counting, &masking, &records, &mut |_| {
            ControlFlow::Break(())
        });
        assert!(matches!(stop, Err(Error::Interrupted)));
    }
}
