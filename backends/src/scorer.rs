//! The interface between models and attacks: tokens in, scores in nats out.

use crate::error::{Error, Result};
use reticent_corpus::TokenId;
use std::collections::HashMap;

/// The most by which two answers of a model outside this program about one token may differ, in nats: kernels round
/// differently in another batch or on another device, and other models differ by more.
pub const AGREEMENT: f64 = 1e-2;

/// A model's score of one token in its context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenScore {
    /// log p(token | context), nats.
    pub log_probability: f64,
    /// Mean of log p over the vocabulary, weighted by p (the negative entropy), nats.
    pub mean: f64,
    /// Variance of log p over the vocabulary, weighted by p, nats squared.
    pub variance: f64,
    /// The most probable token.
    pub top_token: TokenId,
    /// The log-probability of the most probable token, nats.
    pub top_log_probability: f64,
}

/// A language model that scores whole sequences.
pub trait Scorer: Send {
    /// Number of tokens the model knows.
    fn vocabulary_size(&self) -> usize;
    /// Scores every token but the first of each sequence, given the tokens before it.
    ///
    /// Row i has `sequences[i].len() - 1` entries. A sequence's scores do not depend on the
    /// other sequences of the call, up to [`Self::batch_rounding`].
    ///
    /// Returns an error if a token lies outside the vocabulary, or if the engine fails.
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>>;
    /// The most by which a token's log-probability may differ between batches, in nats. Attacks count candidates as ties
    /// whose scores differ by no more. A model whose batches are not under control returns [`AGREEMENT`].
    fn batch_rounding(&self) -> f64 {
        0.0
    }
}

/// The identifier of a cached state of a [`PrefixScorer`]: the model after it has read a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u64);

/// The states that a [`PrefixScorer`] has created and not released. No identifier is used twice.
#[derive(Debug)]
pub struct States<T> {
    kept: HashMap<u64, T>,
    next: u64,
}

impl<T> Default for States<T> {
    fn default() -> Self {
        Self {
            kept: HashMap::new(),
            next: 0,
        }
    }
}

impl<T> States<T> {
    /// Keeps a state.
    pub fn keep(&mut self, state: T) -> StateId {
        let id = StateId(self.next);
        self.next += 1;
        self.kept.insert(id.0, state);
        id
    }
    /// Returns a state.
    ///
    /// # Errors
    /// Returns [`Error::UnknownState`] for one that was never created or is released.
    pub fn get(&self, id: StateId) -> Result<&T> {
        self.kept.get(&id.0).ok_or(Error::UnknownState(id.0))
    }
    /// Releases states; unknown ones are ignored.
    pub fn release(&mut self, ids: &[StateId]) {
        for id in ids {
            self.kept.remove(&id.0);
        }
    }
    /// Releases all states.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

/// Checks one sequence of a call: its length within both ends, and its tokens against a vocabulary of this size.
///
/// # Errors
/// Returns [`Error::TooShort`], [`Error::TooLong`] or [`Error::UnknownToken`].
pub fn check_sequence(
    tokens: &[TokenId],
    index: usize,
    (least, most): (usize, usize),
    size: usize,
) -> Result<()> {
    let length = tokens.len();
    if length < least {
        return Err(Error::TooShort {
            index,
            length,
            least,
        });
    }
    if length > most {
        return Err(Error::TooLong {
            index,
            length,
            most,
        });
    }
    check_tokens(tokens, size)
}

/// Checks tokens against a vocabulary of this size.
///
/// # Errors
/// Returns [`Error::UnknownToken`].
pub fn check_tokens(tokens: &[TokenId], size: usize) -> Result<()> {
    match tokens.iter().find(|t| **t as usize >= size) {
        Some(&token) => Err(Error::UnknownToken { token, size }),
        None => Ok(()),
    }
}

/// A scorer that keeps its state after a prefix, so that candidates with a common prefix share the cost of reading it.
pub trait PrefixScorer: Scorer {
    /// Returns the state after each prefix. A prefix has at least one token.
    ///
    /// # Errors
    /// Returns an error if a prefix is empty, if a token lies outside the vocabulary, or if the engine fails.
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>>;
    /// Returns the state after appending one token to each given state; the given states stay valid.
    ///
    /// # Errors
    /// Returns an error if a state is unknown, if a token lies outside the vocabulary, or if the engine fails.
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>>;
    /// Returns log p(token | state) in nats for every state × wanted token, row-major (`states.len() × wanted.len()`).
    /// A row does not depend on the other rows of the call, up to [`Scorer::batch_rounding`].
    ///
    /// # Errors
    /// Returns an error if a state is unknown, if a token lies outside the vocabulary, or if the engine fails.
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>>;
    /// Releases states; unknown ones are ignored.
    fn release(&mut self, states: &[StateId]);
}

/// A model that returns the logits of one sequence, for encoders and decoders alike.
pub trait Logits: Send {
    /// Returns row-major logits: tokens × V, or one row with a value for each class. `token_types` is empty (all 0) or
    /// as long as `tokens`.
    ///
    /// # Errors
    /// Returns an error if there is no token or there are too many, if one lies outside the vocabulary, or if the types
    /// do not fit.
    fn logits(&mut self, tokens: &[TokenId], token_types: &[u32]) -> Result<Vec<f64>>;
}

/// Checks token types against a model and the tokens that they belong to.
#[cfg(feature = "cpu")]
pub(crate) fn check_token_types(
    model: &crate::model::Model,
    tokens: &[TokenId],
    token_types: &[u32],
) -> Result<()> {
    if token_types.is_empty() {
        return Ok(());
    }
    let known = match model {
        crate::model::Model::Lstm(_) => 0,
        crate::model::Model::Transformer(config) => config.token_types,
    };
    if token_types.len() != tokens.len() {
        return Err(Error::Shape {
            name: "token types".into(),
            expected: vec![tokens.len()],
            actual: vec![token_types.len()],
        });
    }
    check_tokens(token_types, known)
}
