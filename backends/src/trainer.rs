//! What an engine must offer to be trained, and the types by which a privacy mistake does not compile.

use crate::clip::Clip;
use crate::dropout::Masks;
use crate::error::{Error, Result};
use crate::material::Sensitive;
use crate::optimizer::Update;
use crate::scorer::PrefixScorer;
use crate::segments::SelectiveBatch;
use reticent_corpus::{Record, Side, TokenId, TrainingSet};
use serde::{Deserialize, Serialize};

/// A trainable parameter by name and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape, row-major.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether it has no values.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// f32 (on CUDA perhaps TF32).
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

/// What adding a microbatch did. Not covered by any guarantee: for debugging only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Added {
    /// Examples added.
    pub examples: usize,
    /// Examples whose gradient was scaled down.
    pub clipped: usize,
    /// Examples with a gradient that was not finite; they contributed zero.
    pub rejected: usize,
}

/// Records that private optimisation alone may see.
#[derive(Debug, Clone)]
pub struct PrivateRecords {
    tokens: Vec<Vec<TokenId>>,
    mask_only: u64,
}

/// Records that ordinary optimisation may see.
#[derive(Debug, Clone)]
pub struct PublicRecords {
    tokens: Vec<Vec<TokenId>>,
}

/// Splits a training set by side. The only way, besides [`unprotected`] and [`all_private`], to records that train.
#[must_use]
pub fn split(set: &TrainingSet) -> (PublicRecords, PrivateRecords) {
    let take = |side| set.side(side).map(|r| r.tokens.clone()).collect();
    (
        PublicRecords {
            tokens: take(Side::Public),
        },
        PrivateRecords {
            tokens: take(Side::Private),
            mask_only: set.mask_only,
        },
    )
}

/// Every record on the private side: the conservative policy that flags everything.
#[must_use]
pub fn all_private(set: &TrainingSet) -> PrivateRecords {
    PrivateRecords {
        tokens: all(set),
        mask_only: set.mask_only,
    }
}

/// Every record without any protection. The ledger then holds a non-private phase, and ε is infinite.
#[must_use]
pub fn unprotected(set: &TrainingSet) -> PublicRecords {
    PublicRecords { tokens: all(set) }
}

/// Redacted records for ordinary optimisation: all of them, or those that `only` names.
///
/// # Errors
/// [`Error::Unsuitable`] for a record that does not exist or is named twice.
pub(crate) fn redacted(
    set: &TrainingSet,
    sensitive: &Sensitive,
    only: Option<&[u32]>,
) -> Result<PublicRecords> {
    let everyone: Vec<u32> = (0..set.records.len() as u32).collect();
    let chosen = only.unwrap_or(&everyone);
    let mut seen = std::collections::HashSet::new();
    let mut tokens = Vec::with_capacity(chosen.len());
    for &number in chosen {
        let record = set.records.get(number as usize);
        match record {
            Some(record) if seen.insert(number) => {
                tokens.push(sensitive.redacted(number as usize, &record.tokens));
            }
            _ => {
                return Err(Error::Unsuitable(format!(
                    "screened records must be different numbers in [0, {}), got {number}",
                    set.records.len()
                )));
            }
        }
    }
    Ok(PublicRecords { tokens })
}

/// Every record, redacted, for private optimisation.
///
/// # Errors
/// As [`redacted`].
pub(crate) fn redacted_private(set: &TrainingSet, sensitive: &Sensitive) -> Result<PrivateRecords> {
    Ok(PrivateRecords {
        tokens: redacted(set, sensitive, None)?.tokens,
        mask_only: set.mask_only,
    })
}

fn all(set: &TrainingSet) -> Vec<Vec<TokenId>> {
    set.records
        .iter()
        .map(|r: &Record| r.tokens.clone())
        .collect()
}

impl PrivateRecords {
    /// Records with loss.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }
    /// Whether no record has loss.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
    /// |D_pri|: records with loss plus points that are only `<MASK>`.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.tokens.len() as u64 + self.mask_only
    }
    /// The batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> PrivateBatch<'_> {
        PrivateBatch(numbered(&self.tokens, indices))
    }
}

impl PublicRecords {
    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
    /// The batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> PublicBatch<'_> {
        PublicBatch(numbered(&self.tokens, indices))
    }
}

/// A batch wholly from the private side.
///
/// It can't be trained on without noise: there is no way from it to a public step.
///
/// ```compile_fail,E0308
/// # fn f(model: &mut dyn reticent_backends::Trainer, private: &reticent_backends::PrivateRecords) {
/// model.public_gradient(&private.batch(&[0])).unwrap(); // expected a PublicBatch
/// # }
/// ```
///
/// Nor can records of both sides meet in one batch: the records inside are not reachable.
///
/// ```compile_fail,E0616
/// # fn f(private: &reticent_backends::PrivateRecords, public: &reticent_backends::PublicRecords) {
/// let mut mixed = private.batch(&[0]);
/// mixed.0.extend(public.batch(&[0]).0); // private fields
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PrivateBatch<'a>(pub(crate) Vec<Example<'a>>);

/// A batch wholly from the public side.
#[derive(Debug, Clone)]
pub struct PublicBatch<'a>(
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines read it"))]
    pub(crate)  Vec<Example<'a>>,
);

/// A record of a batch, and its number among the records it was drawn from: what its dropout
/// masks are keyed by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Example<'a> {
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines read it"))]
    pub(crate) record: u32,
    pub(crate) tokens: &'a [TokenId],
}

impl AsRef<[TokenId]> for Example<'_> {
    fn as_ref(&self) -> &[TokenId] {
        self.tokens
    }
}

/// The records of these numbers; one that does not exist is ignored.
fn numbered<'a>(records: &'a [Vec<TokenId>], indices: &[u32]) -> Vec<Example<'a>> {
    let one = |&record: &u32| {
        let tokens = records.get(record as usize)?;
        Some(Example { record, tokens })
    };
    indices.iter().filter_map(one).collect()
}

#[cfg(feature = "cpu")]
impl<'a> PrivateBatch<'a> {
    /// Sequences as they come, numbered from 0.
    pub(crate) fn in_order(sequences: Vec<&'a [TokenId]>) -> Self {
        Self(by_place(sequences))
    }
}

#[cfg(all(test, feature = "cpu"))]
impl<'a> PublicBatch<'a> {
    /// Sequences as they come, numbered from 0.
    pub(crate) fn in_order(sequences: Vec<&'a [TokenId]>) -> Self {
        Self(by_place(sequences))
    }
}

#[cfg(feature = "cpu")]
fn by_place(sequences: Vec<&[TokenId]>) -> Vec<Example<'_>> {
    (0..)
        .zip(sequences)
        .map(|(record, tokens)| Example { record, tokens })
        .collect()
}

impl<'a> PrivateBatch<'a> {
    /// Microbatches of at most `tokens` tokens each (at least one example each).
    pub(crate) fn microbatches(&self, tokens: usize) -> Vec<PrivateBatch<'a>> {
        let mut parts: Vec<PrivateBatch<'a>> = Vec::new();
        let mut used = usize::MAX;
        for &example in &self.0 {
            if used.saturating_add(example.tokens.len()) > tokens {
                parts.push(PrivateBatch(Vec::new()));
                used = 0;
            }
            if let Some(part) = parts.last_mut() {
                part.0.push(example);
            }
            used += example.tokens.len();
        }
        parts
    }
}

/// A noised, averaged gradient. Only [`crate::Step::finish`] makes one.
///
/// A bare sum of gradients is not one:
///
/// ```compile_fail,E0308
/// # fn f(model: &mut dyn reticent_backends::Trainer, update: &mut dyn reticent_backends::Update) {
/// let sum: Vec<Vec<f32>> = model.accumulator().to_vec();
/// model.apply(sum, update).unwrap(); // expected Privatized
/// # }
/// ```
#[derive(Debug)]
pub struct Privatized {
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines read it"))]
    pub(crate) gradients: Vec<Vec<f32>>,
}

/// A model that can be trained, with and without protection.
pub trait Trainer: PrefixScorer {
    /// The trainable parameters, in a fixed order.
    fn parameters(&self) -> &[Parameter];
    /// Their values, in the same order.
    fn weights(&self) -> &[Vec<f32>];
    /// Replaces all values.
    ///
    /// # Errors
    /// [`Error::Shape`] where a length does not fit.
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Result<()>;
    /// The clipping group of each parameter, numbered from 0 without gaps. Parameters whose
    /// norms come from one computation share a group.
    fn groups(&self) -> &[usize];
    /// The margin η that this engine's norms need.
    fn norm_margin(&self) -> f64;
    /// The gradient of the mean negative log-likelihood per token over a public batch, and that mean (nats).
    ///
    /// # Errors
    /// A token outside the vocabulary, or a failing engine.
    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)>;
    /// Zeroes the accumulator.
    fn begin(&mut self);
    /// accumulator += Σ_i clip(g_i) by the factors of [`Clip::factors`], where g_i is the gradient of example i's summed negative
    /// log-likelihood. Does not depend on how a batch is cut into microbatches.
    ///
    /// # Errors
    /// A token outside the vocabulary, or a failing engine.
    fn add(&mut self, microbatch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added>;
    /// The accumulator, for the collective and the noise.
    fn accumulator(&mut self) -> &mut [Vec<f32>];
    /// From now on predictions of this token carry no loss in training (`<MASK>` of a redacted
    /// text), in no gradient and no mean. `None` undoes it.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] for an engine that can't.
    fn leave_out(&mut self, target: Option<TokenId>) -> Result<()> {
        match target {
            None => Ok(()),
            Some(_) => Err(Error::Unsuitable(
                "this model can't leave a token out of the loss".into(),
            )),
        }
    }
    /// From now on training passes drop values by these masks; scoring never does. `None` undoes
    /// it.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] for an engine that can't.
    fn drop_out(&mut self, masks: Option<Masks>) -> Result<()> {
        match masks {
            None => Ok(()),
            Some(_) => Err(Error::Unsuitable("this model has no dropout".into())),
        }
    }
    /// From now on training passes compute their products in this precision.
    ///
    /// # Errors
    /// [`Error::Precision`] where the device or its engine can't.
    fn compute_in(&mut self, precision: Precision) -> Result<()> {
        match precision {
            Precision::Single => Ok(()),
            Precision::Bf16 => Err(Error::Precision { precision }),
        }
    }
    /// The same model for Selective DP-SGD, if it is recurrent.
    fn as_recurrent(&mut self) -> Option<&mut dyn Recurrent> {
        None
    }
    /// Moves the weights by a privatised gradient.
    ///
    /// # Errors
    /// A failing engine.
    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()>;
    /// Moves the weights by a public gradient.
    ///
    /// # Errors
    /// A failing engine.
    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()>;
}

/// Clips and noises the state that leaves a sensitive segment: example, segment, h, c.
pub type ReleaseState<'a> = dyn Fn(usize, usize, &mut [f32], &mut [f32]) + Sync + 'a;

/// A model whose past is a state of fixed size, which Selective DP-SGD can release.
pub trait Recurrent {
    /// Values of h, and of c.
    fn state_width(&self) -> usize;
    /// accumulator += Σ_i clip(g_i), g_i the gradient of example i's sensitive predictions
    /// together; returns the gradient of the mean negative log-likelihood of the ordinary ones.
    ///
    /// Each segment starts from the state the last one left, without gradient through it. What
    /// an ordinary segment starts from has gone through `release` if a sensitive one came before.
    ///
    /// # Errors
    /// A token outside the vocabulary, or a failing engine.
    fn add_selective(
        &mut self,
        batch: &SelectiveBatch<'_>,
        clip: &Clip,
        release: &ReleaseState<'_>,
    ) -> Result<(Vec<Vec<f32>>, Added)>;
}

/// Checks lengths against shapes.
///
/// # Errors
/// [`Error::Shape`] for the first that does not fit.
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
