//! The one-layer LSTM language model.

use super::in_range;
use crate::error::Result;
use crate::trainer::Parameter;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The one-layer LSTM language model of the papers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LstmConfig {
    /// Number of tokens V.
    pub vocabulary: usize,
    /// Width of the embedding E; the papers use 200.
    pub embedding: usize,
    /// Width of the hidden state H; the papers use 200.
    pub hidden: usize,
}

impl LstmConfig {
    /// Returns the size used in the papers, with this vocabulary.
    #[must_use]
    pub const fn paper(vocabulary: usize) -> Self {
        Self {
            vocabulary,
            embedding: 200,
            hidden: 200,
        }
    }

    /// Checks the sizes, so that a foreign checkpoint can't exhaust the memory.
    ///
    /// # Errors
    /// Returns [`crate::Error::OutOfRange`].
    pub fn validated(self) -> Result<Self> {
        let vocabulary = self.vocabulary;
        in_range("vocabulary size", vocabulary, 2, 1 << 20, "[2, 1048576]")?;
        in_range("embedding width", self.embedding, 1, 1 << 14, "[1, 16384]")?;
        in_range("hidden width", self.hidden, 1, 1 << 14, "[1, 16384]")?;
        Ok(self)
    }

    /// Returns the parameters in checkpoint order. The gates are in the order input, forget, candidate, output.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let (v, e, h) = (self.vocabulary, self.embedding, self.hidden);
        let make = |name: &str, shape: &[usize]| Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
        };
        vec![
            make("embedding.weight", &[v, e]),
            make("lstm.input_weight", &[e, 4 * h]),
            make("lstm.recurrent_weight", &[h, 4 * h]),
            make("lstm.bias", &[4 * h]),
            make("head.weight", &[h, v]),
            make("head.bias", &[v]),
        ]
    }

    /// Returns random starting weights that depend only on the seed: uniform in ±1/√fan-in, with open forget gates
    /// (bias 1).
    #[must_use]
    pub fn starting_weights(&self, seed: u64) -> Vec<Vec<f32>> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let (e, h) = (self.embedding as f32, self.hidden as f32);
        let bounds = [
            1.0,
            1.0 / e.sqrt(),
            1.0 / h.sqrt(),
            0.0,
            1.0 / h.sqrt(),
            0.0,
        ];
        let mut weights: Vec<Vec<f32>> = self
            .parameters()
            .iter()
            .zip(bounds)
            .map(|(p, b)| {
                (0..p.len())
                    .map(|_| (rng.random::<f32>() * 2.0 - 1.0) * b)
                    .collect()
            })
            .collect();
        weights[3][self.hidden..2 * self.hidden].fill(1.0);
        weights
    }
}
