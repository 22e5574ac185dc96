//! Low-rank adapters: two trained matrices for some columns of a linear layer whose weights stay as they are.

use super::in_range;
use crate::error::{Result, ranged};
use crate::trainer::Parameter;
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked of an adapter, in the words of PEFT's `LoraConfig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoraSpec {
    /// Columns of A and rows of B (`r`).
    pub rank: usize,
    /// The product of both is multiplied by this over the rank (`lora_alpha`).
    pub alpha: f64,
    /// Names of linear layers, or the ends of them (`target_modules`).
    pub targets: Vec<String>,
}

/// One adapted linear layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LoraModule {
    /// The name of the layer in transformers.
    pub(crate) name: String,
    /// The index of our weight that contains the layer.
    pub(crate) weight: usize,
    /// Rows of the weight.
    pub(crate) inputs: usize,
    /// The layer's first column in the weight.
    pub(crate) offset: usize,
    /// The number of the layer's columns.
    pub(crate) columns: usize,
}

/// An adapter on one model: each module's output gets s·(x A) B, where s is alpha over the rank.
/// A is `[inputs, rank]`, B `[rank, columns]`, in the order of the model's own columns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lora {
    spec: LoraSpec,
    /// Digest of the base weights.
    base: String,
    modules: Vec<LoraModule>,
}

impl LoraSpec {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Returns [`crate::Error::OutOfRange`].
    pub fn validated(self) -> Result<Self> {
        in_range("rank of the adapter", self.rank, 1, 4096, "[1, 4096]")?;
        // Beyond 1e6, products of partly trained matrices overflow single precision.
        let inside = self.alpha > 0.0 && self.alpha <= 1e6;
        ranged("alpha of the adapter", "(0, 1e6]", self.alpha, inside)?;
        Ok(self)
    }
}

impl Lora {
    pub(crate) const fn new(spec: LoraSpec, base: String, modules: Vec<LoraModule>) -> Self {
        Self {
            spec,
            base,
            modules,
        }
    }

    /// Returns the specification.
    #[must_use]
    pub const fn spec(&self) -> &LoraSpec {
        &self.spec
    }

    /// Returns the digest of the base weights.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn modules(&self) -> &[LoraModule] {
        &self.modules
    }

    /// Returns the factor of the product of both matrices.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.spec.alpha / self.spec.rank as f64
    }

    /// Returns A and B of each module.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let rank = self.spec.rank;
        let of = |m: &LoraModule| {
            [("A", [m.inputs, rank]), ("B", [rank, m.columns])].map(|(half, shape)| Parameter {
                name: format!("{}.lora_{half}.weight", m.name),
                shape: shape.to_vec(),
            })
        };
        self.modules.iter().flat_map(of).collect()
    }

    /// Returns starting weights. A is drawn as in PEFT, uniformly within one over the square root of its inputs, and
    /// depends only on the seed; B is zero, so that the model starts as the base.
    #[must_use]
    pub fn starting_weights(&self, seed: u64) -> Vec<Vec<f32>> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut draw = |m: &LoraModule| {
            let most = (m.inputs as f32).sqrt().recip();
            let a =
                (0..m.inputs * self.spec.rank).map(|_| most * (2.0 * rng.random::<f32>() - 1.0));
            [a.collect(), vec![0.0; self.spec.rank * m.columns]]
        };
        self.modules.iter().flat_map(&mut draw).collect()
    }
}
