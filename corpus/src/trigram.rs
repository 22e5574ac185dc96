//! A baseline without a neural network: an interpolated n-gram model over the same tokens.

use crate::error::{Error, Result, range, within};
use crate::record::{Record, TokenId};
use serde::Serialize;
use std::collections::HashMap;

/// How well a model predicts a set of records.
///
/// The targets are the same as in training: every token but the first, including the end of text
/// and `<MASK>`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Evaluation {
    /// −Σ ln p over the targets, nats.
    pub nll: f64,
    /// Number of targets.
    pub tokens: u64,
}

impl Evaluation {
    /// Returns exp(nll / tokens), the perplexity per token. NaN if there are no tokens.
    #[must_use]
    pub fn perplexity(&self) -> f64 {
        (self.nll / self.tokens as f64).exp()
    }
}

/// An n-gram model of tokens, interpolated after Witten and Bell.
///
/// p(w | h) = (c(h,w) + T(h) p(w | h′)) / (c(h) + T(h))
///
/// Here c is the count in training, T(h) the number of different tokens seen after h, and h′ the
/// context h without its oldest token. The empty context backs off to the uniform distribution over
/// the vocabulary without the beginning of text, which is never a target. Contexts do not extend
/// beyond the beginning of a record. Every token has positive probability, and probabilities sum to
/// one over the possible targets.
///
/// Source: Witten and Bell 1991; Chen and Goodman 1999, section 2.4 (the recursive form).
///
/// ```
/// use reticent_corpus::Trigram;
/// use reticent_corpus::prepare::{PrepareOptions, prepare};
/// use reticent_corpus::simulate::simulate;
/// let options = PrepareOptions { held_out: 0.2, ..PrepareOptions::default() };
/// let prepared = prepare(&simulate(50, 0)?, &options)?;
/// let model = Trigram::of(&prepared)?;
/// let perplexity = model.evaluate(&prepared.held_out)?.perplexity();
/// assert!(perplexity > 1.0 && perplexity < 20.0);
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NGram {
    order: usize,
    vocabulary: usize,
    bos: TokenId,
    /// Keyed by context, at most `order − 1` tokens long.
    contexts: HashMap<Box<[TokenId]>, Follow>,
}

/// The n-gram model of order 3.
pub type Trigram = NGram;

/// The tokens seen after a context.
#[derive(Debug, Clone, Default)]
struct Follow {
    total: u64,
    counts: HashMap<TokenId, u64>,
}

impl NGram {
    /// Trains a trigram model on a preparation's training records.
    ///
    /// # Errors
    /// Returns an error if a token is outside the vocabulary.
    pub fn of(prepared: &crate::prepare::Prepared) -> Result<Self> {
        let tokenizer = &prepared.tokenizer;
        Self::train(
            &prepared.training.records,
            3,
            tokenizer.vocabulary_size(),
            tokenizer.bos(),
        )
    }

    /// Counts n-grams up to `order` (1 to 8) in the records.
    ///
    /// # Errors
    /// Returns an error if the order is outside its range, the vocabulary is below 2, or a token is
    /// outside it.
    pub fn train(
        records: &[Record],
        order: usize,
        vocabulary: usize,
        bos: TokenId,
    ) -> Result<Self> {
        within("the order of an n-gram model", order, 1..=8)?;
        if vocabulary < 2 {
            return Err(range("the vocabulary size", vocabulary, "at least 2"));
        }
        let mut model = Self {
            order,
            vocabulary,
            bos,
            contexts: HashMap::new(),
        };
        for record in records {
            model.check(&record.tokens)?;
            for at in 1..record.tokens.len() {
                let target = record.tokens[at];
                for length in 0..order.min(at + 1) {
                    let context = &record.tokens[at - length..at];
                    // Look up by slice first, so that only a new key is boxed.
                    if !model.contexts.contains_key(context) {
                        model.contexts.insert(context.into(), Follow::default());
                    }
                    if let Some(follow) = model.contexts.get_mut(context) {
                        follow.total += 1;
                        *follow.counts.entry(target).or_default() += 1;
                    }
                }
            }
        }
        Ok(model)
    }

    fn check(&self, tokens: &[TokenId]) -> Result<()> {
        match tokens.iter().find(|&&t| t as usize >= self.vocabulary) {
            Some(token) => Err(Error::Tokenizer(format!(
                "token {token} is outside the vocabulary of {}",
                self.vocabulary
            ))),
            None => Ok(()),
        }
    }

    /// Returns p(target | the tokens before it); only the last `order − 1` tokens matter.
    #[must_use]
    pub fn probability(&self, before: &[TokenId], target: TokenId) -> f64 {
        if target == self.bos || target as usize >= self.vocabulary {
            return 0.0;
        }
        let mut p = 1.0 / (self.vocabulary - 1) as f64;
        for length in 0..self.order.min(before.len() + 1) {
            let context = &before[before.len() - length..];
            let Some(follow) = self.contexts.get(context) else {
                break; // a longer context was not seen either
            };
            let types = follow.counts.len() as f64;
            let count = follow.counts.get(&target).copied().unwrap_or(0);
            p = (count as f64 + types * p) / (follow.total as f64 + types);
        }
        p
    }

    /// Scores records.
    ///
    /// # Errors
    /// Returns an error if a token is outside the vocabulary.
    pub fn evaluate(&self, records: &[Record]) -> Result<Evaluation> {
        let mut nll = 0.0;
        let mut tokens = 0;
        for record in records {
            self.check(&record.tokens)?;
            for at in 1..record.tokens.len() {
                nll -= self
                    .probability(&record.tokens[..at], record.tokens[at])
                    .ln();
                tokens += 1;
            }
        }
        Ok(Evaluation { nll, tokens })
    }
}
