//! The one-layer LSTM language model: forward, taps, clipped sums.

use super::kernels::{Dropped, GROUP, GROUPS, Kernels, Taps, Weights};
use super::ops;
use super::packed::Packed;
use super::selective::Plain;
use crate::clip::{Clip, Factors, SquaredNorms};
use crate::dropout::{DropoutSite, Masks};
use crate::error::{Error, Result};
use crate::optimizer::Update;
use crate::segments::SelectiveBatch;
use crate::trainer::{
    Added, Example, Parameter, Precision, PrivateBatch, Privatized, PublicBatch, Recurrent,
    ReleaseState, Trainer, check_shapes,
};
use burn::tensor::{Tensor, TensorData};
use reticent_corpus::TokenId;
use std::collections::HashMap;
use std::sync::Arc;

mod scoring;
pub(super) use scoring::row_scores;

pub(crate) use crate::model::LstmConfig;

/// The model on a device, with its weights on the host too (the optimiser's side).
pub(crate) struct Lstm<B: Kernels> {
    config: LstmConfig,
    parameters: Vec<Parameter>,
    values: Vec<Vec<f32>>,
    weights: Weights<B>,
    device: B::Device,
    accumulator: Vec<Vec<f32>>,
    margin: f64,
    left_out: Option<TokenId>,
    masks: Option<Masks>,
    precision: Precision,
    states: HashMap<u64, Vec<f32>>,
    next_state: u64,
}

impl<B: Kernels> Lstm<B> {
    pub(crate) fn new(
        config: LstmConfig,
        values: Vec<Vec<f32>>,
        device: B::Device,
        margin: f64,
    ) -> Result<Self> {
        let parameters = config.parameters();
        check_shapes(&parameters, &values)?;
        let weights = upload(&parameters, &values, &device);
        Ok(Self {
            config,
            parameters,
            values,
            weights,
            device,
            accumulator: Vec::new(),
            margin,
            left_out: None,
            masks: None,
            precision: Precision::Single,
            states: HashMap::new(),
            next_state: 0,
        })
    }

    /// A batch to train on, without loss where it is left out, with its masks.
    fn packed(&self, batch: &[Example<'_>]) -> Result<Arc<Packed>> {
        let sequences: Vec<&[TokenId]> = batch.iter().map(|e| e.tokens).collect();
        let mut packed = Packed::new(&sequences, self.config.vocabulary)?;
        let masks = self.masks.as_ref();
        packed.masks = masks.map(|m| {
            batch
                .iter()
                .map(|e| m.of(e.record, e.augmentation))
                .collect()
        });
        if let Some(token) = self.left_out {
            packed.leave_out(token);
        }
        Ok(Arc::new(packed))
    }

    fn zeros(&self) -> Vec<Vec<f32>> {
        self.parameters.iter().map(|p| vec![0.0; p.len()]).collect()
    }

    /// One forward and one backward: taps, and the summed negative log-likelihood of the batch (nats).
    fn taps(&self, packed: &Arc<Packed>) -> (Taps<B>, f64) {
        let w = &self.weights;
        let leaves = (ops::leaf::<B>(&self.device), ops::leaf::<B>(&self.device));
        let embedded = self.dropped_inputs(packed);
        let z = match &embedded {
            Some(x) => B::affine(
                x.values.clone(),
                w.input.clone(),
                w.bias.clone(),
                self.precision,
            ),
            None => self.input_part(packed, self.precision),
        };
        let z = ops::tap::<B>(Tensor::from_inner(z), leaves.0.clone());
        let mut hidden = ops::recurrence::<B>(z, w.recurrent.clone(), packed, self.precision);
        let (kept, mut read) = (hidden.clone().inner(), None);
        let width = self.config.hidden;
        if let Some(factors) = packed.factors(DropoutSite::Output { segment: 0 }, width) {
            let factors = self.matrix(factors, width);
            let out = kept.clone().mul(factors.clone());
            read = Some(out.clone());
            hidden = ops::apply::<B>(hidden, out, move |d| d.mul(factors));
        }
        let (head, bias) = (w.head.clone(), w.head_bias.clone());
        let logits = ops::linear::<B>(hidden, head, bias, self.precision);
        let logits = ops::tap::<B>(logits, leaves.1.clone());
        let (loss, nll) = ops::cross_entropy::<B>(logits, &packed.targets);
        let gradients = loss.backward();
        let gradient =
            |leaf: &ops::Tracked<B>| leaf.grad(&gradients).expect("the tap registered it");
        let taps = Taps {
            hidden: kept,
            read,
            embedded,
            d_gates: gradient(&leaves.0),
            d_logits: gradient(&leaves.1),
        };
        (taps, nll.iter().sum())
    }

    /// Squared gradient norms of a batch's examples: for tests of isolation.
    #[cfg(test)]
    pub(super) fn squared_norms_of(&self, packed: &Arc<Packed>) -> Vec<f64> {
        B::squared_norms(&self.taps(packed).0, &self.weights, packed)
    }

    /// What the input tokens contribute to the gates, N × 4H: one product per distinct token.
    fn input_part(&self, packed: &Packed, precision: Precision) -> Tensor<B, 2> {
        let (distinct, index) = packed.distinct_inputs();
        B::lookup(self.token_gates(&distinct, precision), &index)
    }

    /// Embedded tokens after dropout, N × E: rows of one token differ, so each has a product.
    fn dropped_inputs(&self, packed: &Packed) -> Option<Dropped<B>> {
        let width = self.config.embedding;
        let factors = packed.factors(DropoutSite::Embedding { segment: 0 }, width)?;
        let factors = self.matrix(factors, width);
        let values = B::lookup(self.weights.embedding.clone(), &packed.inputs);
        let values = values.mul(factors.clone());
        Some(Dropped { values, factors })
    }

    fn token_gates(&self, tokens: &[TokenId], precision: Precision) -> Tensor<B, 2> {
        let w = &self.weights;
        B::affine(
            B::lookup(w.embedding.clone(), tokens),
            w.input.clone(),
            w.bias.clone(),
            precision,
        )
    }

    fn step(&mut self, update: &mut dyn Update, gradient: &[Vec<f32>]) -> Result<()> {
        check_shapes(&self.parameters, gradient)?;
        update.update(&mut self.values, gradient);
        self.weights = upload(&self.parameters, &self.values, &self.device);
        self.states.clear();
        Ok(())
    }

    fn known(&self, token: TokenId) -> Result<()> {
        if (token as usize) < self.config.vocabulary {
            Ok(())
        } else {
            Err(Error::UnknownToken {
                token,
                size: self.config.vocabulary,
            })
        }
    }

    fn matrix(&self, values: Vec<f32>, columns: usize) -> Tensor<B, 2> {
        let rows = values.len() / columns;
        Tensor::from_data(TensorData::new(values, [rows, columns]), &self.device)
    }
}

fn upload<B: Kernels>(
    parameters: &[Parameter],
    values: &[Vec<f32>],
    device: &B::Device,
) -> Weights<B> {
    let data = |i: usize| TensorData::new(values[i].clone(), parameters[i].shape.clone());
    let two = |i: usize| Tensor::<B, 2>::from_data(data(i), device);
    let one = |i: usize| Tensor::<B, 1>::from_data(data(i), device);
    Weights {
        embedding: two(0),
        input: two(1),
        recurrent: two(2),
        bias: one(3),
        head: two(4),
        head_bias: one(5),
    }
}

impl<B: Kernels> Trainer for Lstm<B> {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    fn weights(&self) -> &[Vec<f32>] {
        &self.values
    }
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Result<()> {
        check_shapes(&self.parameters, &weights)?;
        self.values = weights;
        self.weights = upload(&self.parameters, &self.values, &self.device);
        self.states.clear();
        Ok(())
    }
    fn groups(&self) -> &[usize] {
        &GROUP
    }
    fn norm_margin(&self) -> f64 {
        self.margin
    }

    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)> {
        let packed = self.packed(&batch.0)?;
        let mut gradient = self.zeros();
        if packed.counted() == 0 {
            return Ok((gradient, 0.0));
        }
        let (taps, nll) = self.taps(&packed);
        let factors = Factors::uniform(packed.examples, GROUPS, 1.0 / packed.counted() as f32);
        B::add_weighted_sums(taps, &self.weights, &factors, &packed, &mut gradient);
        Ok((gradient, nll / packed.counted() as f64))
    }

    fn begin(&mut self) {
        self.accumulator = self.zeros();
    }

    fn add(&mut self, microbatch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added> {
        let packed = self.packed(&microbatch.0)?;
        if packed.rows() == 0 {
            return Ok(Added::default());
        }
        let (taps, _) = self.taps(&packed);
        let norms = SquaredNorms::new(GROUPS, B::squared_norms(&taps, &self.weights, &packed))?;
        if norms.rejected() > 0 {
            return self.add_finite(microbatch, &norms, clip);
        }
        let factors = clip.factors(&norms);
        B::add_weighted_sums(
            taps,
            &self.weights,
            &factors,
            &packed,
            &mut self.accumulator,
        );
        Ok(Added {
            examples: packed.examples,
            clipped: factors.clipped(),
            rejected: 0,
        })
    }

    fn leave_out(&mut self, target: Option<TokenId>) -> Result<()> {
        self.left_out = target;
        Ok(())
    }

    fn drop_out(&mut self, masks: Option<Masks>) -> Result<()> {
        self.masks = masks;
        Ok(())
    }

    fn compute_in(&mut self, precision: Precision) -> Result<()> {
        if !B::computes_in(precision, &self.device) {
            return Err(Error::Precision { precision });
        }
        self.precision = precision;
        Ok(())
    }

    fn as_recurrent(&mut self) -> Option<&mut dyn Recurrent> {
        Some(self)
    }

    fn accumulator(&mut self) -> &mut [Vec<f32>] {
        &mut self.accumulator
    }

    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()> {
        self.step(update, &gradient.gradients)
    }

    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()> {
        self.step(update, &gradient)
    }
}

impl<B: Kernels> Lstm<B> {
    /// Adds only the examples with finite gradients: zero times infinity would not be zero.
    fn add_finite(
        &mut self,
        batch: &PrivateBatch<'_>,
        norms: &SquaredNorms,
        clip: &Clip,
    ) -> Result<Added> {
        let rejected = norms.rejected();
        let kept = (0..batch.0.len()).filter(|e| norms.finite(*e));
        let finite = kept.map(|e| batch.0[e]).collect();
        let added = self.add(&PrivateBatch(finite), clip)?;
        Ok(Added {
            examples: added.examples + rejected,
            rejected: added.rejected + rejected,
            ..added
        })
    }
}

impl<B: Kernels> Recurrent for Lstm<B> {
    fn state_width(&self) -> usize {
        self.config.hidden
    }

    fn add_selective(
        &mut self,
        batch: &SelectiveBatch<'_>,
        clip: &Clip,
        release: &ReleaseState<'_>,
    ) -> Result<(Vec<Vec<f32>>, Added)> {
        for (tokens, _) in &batch.0 {
            tokens.iter().try_for_each(|t| self.known(*t))?;
        }
        // on the host whatever the device: states leave it after every segment
        let model = Plain::new(&self.config, &self.values, self.masks.as_ref());
        let mut ordinary = self.zeros();
        let added = model.add(batch, clip, release, &mut ordinary, &mut self.accumulator)?;
        Ok((ordinary, added))
    }
}
