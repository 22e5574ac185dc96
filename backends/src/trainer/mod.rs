//! The interface of a trainable engine, and the types that turn privacy mistakes into compile errors.

pub(crate) mod dropout;
pub(crate) mod learning_rate;
pub(crate) mod masking;
pub(crate) mod optimizer;
mod records;

pub use dropout::{Dropout, Masks};
pub use learning_rate::{Decay, LearningRates};
pub use masking::{Masking, TokenMasks};
pub use optimizer::{Optimizer, OptimizerSpec, Update};
pub use records::{
    Example, PrivateBatch, PrivateRecords, PublicBatch, PublicRecords, all_private, shorten,
    unprotected,
};
pub(crate) use records::{redacted, redacted_private, split};

use crate::error::{Error, Result};
use crate::model::{Lora, Model};
use crate::privacy::clip::Clip;
use crate::privacy::random::MeanNoise;
use crate::privacy::segments::SelectiveBatch;
use crate::scorer::PrefixScorer;
use rayon::prelude::*;
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A trainable parameter, given by name and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape, row-major.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Returns whether the parameter has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// In what precision the products of training passes are computed.
///
/// Only those of the passes forward and back: norms, clipped sums, noise, the optimiser and
/// scores never leave f32 and f64. That is enough for the declared sensitivity. An example's
/// gradient is *defined* by what the two passes leave behind, layer inputs and output gradients
/// as they are, however roughly computed; they depend on no other example. Its norm and its share
/// of the clipped sum are two contractions of these same values, both in f32 or wider, so the
/// share is at most the clipping norm up to the rounding of the contractions, which the margin
/// η covers as before. Rounding the passes changes what is learnt, not what is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// f32.
    #[default]
    Single,
    /// Operands and results rounded to bf16, on devices that have it.
    Bf16,
}

impl Precision {
    /// Whether it is f32.
    #[must_use]
    pub fn is_single(&self) -> bool {
        *self == Self::Single
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Bf16 => "bf16",
        })
    }
}

/// Counts of what adding a batch did. Not covered by any guarantee: for debugging only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Added {
    /// Examples added.
    pub examples: usize,
    /// Examples whose gradient was scaled down.
    pub clipped: usize,
    /// Examples with a gradient that was not finite; they contributed zero.
    pub rejected: usize,
}

impl std::ops::AddAssign for Added {
    fn add_assign(&mut self, other: Self) {
        self.examples += other.examples;
        self.clipped += other.clipped;
        self.rejected += other.rejected;
    }
}

/// A noised, averaged gradient. Only [`crate::privacy::Step::finish`] creates one.
///
/// A bare sum of gradients does not have this type:
///
/// ```compile_fail,E0308
/// # fn f(model: &mut dyn reticent_backends::trainer::Trainer, update: &mut dyn reticent_backends::trainer::Update) {
/// let sum: Vec<Vec<f32>> = model.accumulator().to_vec();
/// model.apply(sum, update).unwrap(); // expected Privatized
/// # }
/// ```
#[derive(Debug)]
pub struct Privatized {
    pub(crate) gradients: Gradients,
}

/// The values of a gradient, on the host or on a device.
#[derive(Debug)]
#[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines read it"))]
pub(crate) enum Gradients {
    Host(Vec<Vec<f32>>),
    /// On the device of the trainer that computed them, in its own tensors.
    Device(Box<dyn std::any::Any + Send>),
}

impl Privatized {
    /// Returns the values on the host, in the order of the parameters, for [`Trainer::apply`]. They are noised, so
    /// whatever is made of them keeps the guarantee.
    ///
    /// # Errors
    /// Returns [`Error::Engine`] for values on another engine's device.
    pub fn into_host(self) -> Result<Vec<Vec<f32>>> {
        match self.gradients {
            Gradients::Host(values) => Ok(values),
            Gradients::Device(_) => Err(elsewhere()),
        }
    }
}

/// Returns the error for a gradient in tensors of another engine.
pub(crate) fn elsewhere() -> Error {
    Error::Engine("the gradient lies on another engine's device".into())
}

/// A trainer whose device can finish a private step by itself. Not exported: only engines of this crate implement it.
pub trait Resident {
    /// Takes the sum of clipped gradients and returns it noised and divided, in tensors of the device, and whether
    /// every value is finite.
    fn noised(&mut self, noise: &MeanNoise<'_>) -> (Box<dyn std::any::Any + Send>, bool);
}

/// Returns the largest magnitude, or `None` unless all values are finite.
pub(crate) fn largest(weights: &[Vec<f32>]) -> Option<f32> {
    // f32::max ignores NaN
    let of = |values: &[f32]| {
        let finite = values.iter().all(|v| v.is_finite());
        finite.then(|| values.iter().fold(0f32, |most, v| most.max(v.abs())))
    };
    let blocks = weights
        .par_iter()
        .flat_map(|tensor| tensor.par_chunks(1 << 16));
    blocks.map(of).try_reduce(|| 0.0, |a, b| Some(a.max(b)))
}

/// A model that can be trained, with and without privacy protection.
///
/// # Engines of other crates
/// An engine implements [`Scorer`](crate::Scorer), [`PrefixScorer`] and this trait. It reads batches through
/// [`PublicBatch::examples`] and [`PrivateBatch::examples`], clips and sums with [`Clip::add`] (or computes norms and
/// sums of its own by [`Clip::factors`]), and takes noised gradients from [`Privatized::into_host`].
/// `attacks/tests/attacks/own_engine.rs` trains a small one through [`Step`](crate::privacy::Step).
///
/// The step draws the noise, divides by a constant and writes the ledger, and the engine can't do otherwise: nothing
/// but a noised mean has the type that [`Self::apply`] takes. An engine sees private records, however, and what it
/// does with them can't be checked from outside. A guarantee therefore trusts it in this:
///
/// - [`Self::add`] changes nothing but the accumulator, which holds the sum of the clipped gradients of the examples
///   added since [`Self::begin`], each a function of that example, of the weights and of the step's masks alone.
/// - [`Self::norm_margin`] covers the relative error of its norms and of the products with the factors. Where a gradient's
///   terms cancel, roundings of the terms are large beside it: a norm is then too large rather than too small.
/// - Weights change in [`Self::set_weights`], [`Self::apply`], [`Self::apply_public`] and [`Self::public_step`] only.
pub trait Trainer: PrefixScorer {
    /// Returns the architecture: everything about the computation that the weights alone do not determine. Private
    /// steps don't read it. [`crate::run`] writes it into checkpoints, and refuses an engine with other parameters.
    fn model(&self) -> Model;
    /// Returns the trainable parameters, in a fixed order.
    fn parameters(&self) -> &[Parameter];
    /// Returns the values of the parameters, in the same order.
    fn weights(&self) -> &[Vec<f32>];
    /// Replaces all values.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a length does not fit.
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Result<()>;
    /// Returns the clipping group of each parameter, numbered from 0 without gaps. Parameters whose norms come from one
    /// computation share a group.
    ///
    /// The whole gradient is clipped to one norm whatever the groups are, except by [`Clipping::PerLayer`].
    ///
    /// [`Clipping::PerLayer`]: crate::privacy::Clipping::PerLayer
    fn groups(&self) -> &[usize];
    /// Returns the margin η that this engine's norms need.
    fn norm_margin(&self) -> f64;
    /// Returns the kind of device that computes; of a processor, with its vector instructions. Two kinds round the same
    /// sums differently, so a run doesn't resume on another one: the same noise on both sums would tell their difference.
    /// Devices of one kind that round differently are not distinguished.
    fn device_kind(&self) -> &'static str;
    /// Returns the length of the longest sequence in tokens, if there is a limit.
    fn context(&self) -> Option<usize> {
        None
    }
    /// Returns the gradient of the mean negative log-likelihood per predicted token (per record, for a classifier) over
    /// a public batch, and that mean (nats).
    ///
    /// # Errors
    /// Returns an error if a token lies outside the vocabulary, or if the engine fails.
    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)>;
    /// Zeroes the accumulator.
    fn begin(&mut self);
    /// accumulator += Σ_i clip(g_i) by the factors of [`Clip::factors`], where g_i is the gradient of example i's
    /// summed negative log-likelihood: of each next token, of the masked tokens, or of its class, by [`Model::head`]. A
    /// batch may have any size: the engine splits it into passes that fit into memory, and the sum does not depend on
    /// the split.
    ///
    /// # Errors
    /// Returns an error if a token lies outside the vocabulary, or if the engine fails.
    fn add(&mut self, batch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added>;
    /// Returns the accumulator, one tensor for each parameter, for the collective and the noise. The step may take
    /// values out of it, before [`Self::begin`].
    fn accumulator(&mut self) -> &mut [Vec<f32>];
    /// Excludes predictions of this token (`<MASK>` of a redacted text) from the loss in training from now on, in every
    /// gradient and mean. `None` undoes it.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for an engine that can't.
    fn leave_out(&mut self, target: Option<TokenId>) -> Result<()> {
        let why = "this model can't leave a token out of the loss";
        refuse(target.is_some(), why)
    }
    /// Sets the masks by which training passes drop values from now on; scoring never drops any. `None` undoes it.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for an engine that can't.
    fn drop_out(&mut self, masks: Option<Masks>) -> Result<()> {
        refuse(masks.is_some(), "this model has no dropout")
    }
    /// Sets the masked tokens that an encoder's training passes read and predict from now on. `None` undoes it.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for an engine that can't.
    fn mask_tokens(&mut self, masked: Option<TokenMasks>) -> Result<()> {
        refuse(masked.is_some(), "this model masks no tokens")
    }
    /// Returns Σ −ln p (nats) over the masked tokens of a batch, and the number of these tokens; nothing is dropped.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for a model that does not predict masked tokens.
    fn masked_loss(
        &mut self,
        batch: &PublicBatch<'_>,
        masked: &TokenMasks,
    ) -> Result<(f64, usize)> {
        let _ = (batch, masked);
        Err(Error::Unsuitable("this model masks no tokens".into()))
    }
    /// Returns ln p (nats) of every class for each sequence; nothing is dropped.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for a model without classes, or an error if a token lies outside the vocabulary.
    fn classify(&mut self, sequences: &[&[TokenId]]) -> Result<Vec<Vec<f64>>> {
        let _ = sequences;
        Err(Error::Unsuitable("this model tells no classes".into()))
    }
    /// Sets the precision in which training passes compute their products from now on.
    ///
    /// # Errors
    /// Returns [`Error::Precision`] if the device or its engine can't compute in it.
    fn compute_in(&mut self, precision: Precision) -> Result<()> {
        match precision {
            Precision::Single => Ok(()),
            Precision::Bf16 => Err(Error::Precision { precision }),
        }
    }
    /// Trains an adapter from now on, starting from these weights. The model's own weights stay as they are:
    /// parameters, weights and groups are the adapter's.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the weights do not fit; [`Error::Unsuitable`] for a model that takes no adapter, or
    /// already has one.
    fn adapt(&mut self, adapter: Lora, weights: Vec<Vec<f32>>) -> Result<()> {
        let _ = (adapter, weights);
        Err(Error::Unsuitable(
            "this model takes no LoRA adapter; decoders of Hugging Face's families do".into(),
        ))
    }
    /// Returns the adapter that is trained, or `None` if the model itself is trained.
    fn adapter(&self) -> Option<&Lora> {
        None
    }
    /// Returns the same model for Selective DP-SGD, if it is recurrent.
    fn as_recurrent(&mut self) -> Option<&mut dyn Recurrent> {
        None
    }
    /// Updates the weights with a privatised gradient.
    ///
    /// # Errors
    /// Returns an error if the engine fails.
    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()>;
    /// Updates the weights with a public gradient.
    ///
    /// # Errors
    /// Returns an error if the engine fails.
    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()>;
    /// Updates the weights with the public gradient of a batch, and returns its mean loss as [`Self::public_gradient`]
    /// does. If the loss is not finite, the weights stay as they are.
    ///
    /// # Errors
    /// As [`Self::public_gradient`].
    fn public_step(&mut self, batch: &PublicBatch<'_>, update: &mut dyn Update) -> Result<f64> {
        let (gradient, loss) = self.public_gradient(batch)?;
        if loss.is_finite() {
            self.apply_public(gradient, update)?;
        }
        Ok(loss)
    }
    /// Returns the largest magnitude of a trained weight, or `None` unless all weights are finite.
    fn largest_weight(&self) -> Option<f32> {
        largest(self.weights())
    }
    /// Returns the same model as one whose device finishes private steps by itself, if the sum lies on that device now.
    #[doc(hidden)]
    fn resident(&mut self) -> Option<&mut dyn Resident> {
        None
    }
}

/// Clips and noises the state that leaves a sensitive segment. The arguments are example, segment, h, c.
pub type ReleaseState<'a> = dyn Fn(usize, usize, &mut [f32], &mut [f32]) + Sync + 'a;

/// A model whose memory of earlier tokens is a state of fixed size, which Selective DP-SGD can release.
pub trait Recurrent {
    /// Returns the number of values of h, which is also that of c.
    fn state_width(&self) -> usize;
    /// accumulator += Σ_i clip(g_i), where g_i is the gradient of example i's sensitive predictions together; returns
    /// the gradient of the mean negative log-likelihood of the ordinary ones.
    ///
    /// Each segment starts from the state that the preceding one left, without gradient through it. The state from
    /// which an ordinary segment starts has gone through `release` if the preceding segment was sensitive.
    ///
    /// # Errors
    /// Returns an error if a token lies outside the vocabulary, or if the engine fails.
    fn add_selective(
        &mut self,
        batch: &SelectiveBatch<'_>,
        clip: &Clip,
        release: &ReleaseState<'_>,
    ) -> Result<(Vec<Vec<f32>>, Added)>;
}

/// Refuses what is `requested` of an engine that can't do it.
fn refuse(requested: bool, why: &str) -> Result<()> {
    match requested {
        false => Ok(()),
        true => Err(Error::Unsuitable(why.into())),
    }
}

/// Checks the lengths of weights against the shapes of parameters.
///
/// # Errors
/// Returns [`Error::Shape`] for the first that does not fit.
pub(crate) fn check_shapes(parameters: &[Parameter], weights: &[Vec<f32>]) -> Result<()> {
    if parameters.len() != weights.len() {
        return Err(Error::Shape {
            name: "parameters".into(),
            expected: vec![parameters.len()],
            actual: vec![weights.len()],
        });
    }
    for (p, w) in parameters.iter().zip(weights) {
        if p.len() != w.len() {
            return Err(Error::Shape {
                name: p.name.clone(),
                expected: p.shape.clone(),
                actual: vec![w.len()],
            });
        }
    }
    Ok(())
}
