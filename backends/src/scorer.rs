//! The seam between models and attacks: tokens in, nats out.

use crate::error::Result;
use reticent_corpus::TokenId;

/// What a model says about one token in its context.
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
    /// Its log-probability, nats.
    pub top_log_probability: f64,
}

/// A language model that scores whole sequences.
pub trait Scorer: Send {
    /// Number of tokens the model knows.
    fn vocabulary_size(&self) -> usize;
    /// Scores every token but the first of each sequence, given the tokens before it.
    ///
    /// Row i has `sequences[i].len() - 1` entries. A sequence's scores do not depend on the
    /// other sequences of the call.
    ///
    /// # Errors
    /// A token outside the vocabulary, or a failing engine.
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>>;
}

/// A cached state of a [`PrefixScorer`]: "this model after this prefix".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u64);

/// A scorer that keeps its state after a prefix, so that candidates sharing a prefix share its cost.
pub trait PrefixScorer: Scorer {
    /// States after each prefix (at least one token each).
    ///
    /// # Errors
    /// An empty prefix, a token outside the vocabulary, or a failing engine.
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>>;
    /// States after appending one token to each given state; the parents stay valid.
    ///
    /// # Errors
    /// An unknown state, a token outside the vocabulary, or a failing engine.
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>>;
    /// log p(token | state) in nats for every state × wanted token, row-major
    /// (`states.len() × wanted.len()`). A row does not depend on the other rows of the call.
    ///
    /// # Errors
    /// An unknown state, a token outside the vocabulary, or a failing engine.
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>>;
    /// Forgets states; unknown ones are ignored.
    fn release(&mut self, states: &[StateId]);
}

/// Logits of one sequence, for encoders and decoders alike.
pub trait Logits: Send {
    /// Row-major logits: tokens × V, or one row of classes. `token_types` is empty (all 0) or as
    /// long as `tokens`.
    ///
    /// # Errors
    /// No token, too many, one outside the vocabulary, or types that do not fit.
    fn logits(&mut self, tokens: &[TokenId], token_types: &[u32]) -> Result<Vec<f64>>;
}

/// Checks token types against a model and the tokens they stand beside.
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
        return Err(crate::error::Error::Shape {
            name: "token types".into(),
            expected: vec![tokens.len()],
            actual: vec![token_types.len()],
        });
    }
    match token_types.iter().find(|t| **t as usize >= known) {
        Some(&token) => Err(crate::error::Error::UnknownToken { token, size: known }),
        None => Ok(()),
    }
}
