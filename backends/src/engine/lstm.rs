//! The one-layer LSTM language model: forward, taps, clipped sums.

use super::bound::MARGIN;
use super::kernels::{Dropped, GROUP, GROUPS, Kernels, Taps, Weights};
use super::layers::{Losses, Sums};
use super::ops;
use super::packed::{Packed, finite};
use super::rows::{Grid, Microbatch, consecutive, on_grids};
use super::selective::Plain;
use super::transfers::upload as upload_values;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::privacy::clip::{Clip, Factors, SquaredNorms};
use crate::privacy::segments::SelectiveBatch;
use crate::scorer::{States, check_tokens};
use crate::trainer::dropout::{DropoutSite, Masks};
use crate::trainer::optimizer::Update;
use crate::trainer::{
    Added, Example, Parameter, Precision, PrivateBatch, Privatized, PublicBatch, Recurrent,
    ReleaseState, Trainer, check_shapes,
};
use burn::tensor::Tensor;
use reticent_corpus::TokenId;
use std::sync::Arc;

mod scoring;

pub(crate) use crate::model::LstmConfig;

/// Tokens of a pass without a grid; bounds memory.
const TOKENS: usize = 16_384;

/// The model on a device, with a copy of its weights on the host for the optimiser.
pub(crate) struct Lstm<B: Kernels> {
    config: LstmConfig,
    parameters: Vec<Parameter>,
    values: Vec<Vec<f32>>,
    pub(super) weights: Weights<B>,
    device: B::Device,
    sums: Sums<B>,
    left_out: Option<TokenId>,
    masks: Option<Masks>,
    precision: Precision,
    states: States<Vec<f32>>,
}

impl<B: Kernels> Lstm<B> {
    pub(crate) fn new(
        config: LstmConfig,
        values: Vec<Vec<f32>>,
        device: B::Device,
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
            sums: Sums::Host(Vec::new()),
            left_out: None,
            masks: None,
            precision: Precision::Single,
            states: States::default(),
        })
    }

    /// Splits a batch into passes: consecutive examples, or examples of one length on a grid.
    pub(super) fn parts<S: Copy + AsRef<[TokenId]>>(&self, batch: &[S]) -> Vec<Microbatch<S>> {
        if B::GRID {
            let most = B::GRID_ROWS.min(B::LOGITS / self.config.vocabulary).max(1);
            return on_grids(batch, 1, most, usize::MAX);
        }
        consecutive(batch, TOKENS)
    }

    /// Arranges sequences as rows.
    fn arranged(&self, sequences: &[&[TokenId]], grid: Option<Grid>) -> Result<Packed> {
        match grid {
            Some(grid) => Packed::on_grid(sequences, self.config.vocabulary, grid),
            None => Packed::new(sequences, self.config.vocabulary),
        }
    }

    /// Packs a training batch with its masks, excluding predictions that are left out of the loss.
    pub(super) fn packed(&self, batch: &[Example<'_>], grid: Option<Grid>) -> Result<Arc<Packed>> {
        let sequences: Vec<&[TokenId]> = batch.iter().map(|e| e.tokens).collect();
        let mut packed = self.arranged(&sequences, grid)?;
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
        if batch.iter().any(|example| !example.ignored.is_empty()) {
            packed.ignore(batch);
        }
        Ok(Arc::new(packed))
    }

    fn zeros(&self) -> Vec<Vec<f32>> {
        self.parameters.iter().map(|p| vec![0.0; p.len()]).collect()
    }

    /// Runs one forward and one backward pass; returns the taps, and the negative log-likelihood of each row (nats).
    pub(super) fn taps(&self, packed: &Arc<Packed>) -> (Taps<B>, Losses<B>) {
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
        (taps, nll)
    }

    /// Squared gradient norms of a batch's examples, for tests of isolation.
    #[cfg(test)]
    pub(super) fn squared_norms_of(&self, packed: &Arc<Packed>) -> Vec<f64> {
        B::squared_norms(&self.taps(packed).0, &self.weights, packed)
    }

    /// The contribution of the input tokens to the gates, N × 4H: one product per distinct token.
    fn input_part(&self, packed: &Packed, precision: Precision) -> Tensor<B, 2> {
        if B::GRID {
            // the same number of rows whatever the tokens
            return self.token_gates(&packed.inputs, precision);
        }
        let (distinct, index) = packed.distinct_inputs();
        B::lookup(self.token_gates(&distinct, precision), &index)
    }

    /// Embedded tokens after dropout, N × E. Rows of the same token differ, so each row needs its own product.
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

    fn matrix(&self, values: Vec<f32>, columns: usize) -> Tensor<B, 2> {
        let rows = values.len() / columns;
        upload_values(values, [rows, columns], &self.device)
    }
}

fn upload<B: Kernels>(
    parameters: &[Parameter],
    values: &[Vec<f32>],
    device: &B::Device,
) -> Weights<B> {
    let two = |i: usize| {
        let columns = parameters[i].shape.last().copied().unwrap_or(1).max(1);
        let rows = values[i].len() / columns;
        upload_values(values[i].clone(), [rows, columns], device)
    };
    let one = |i: usize| upload_values(values[i].clone(), [values[i].len()], device);
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
    fn model(&self) -> Model {
        self.config.clone().into()
    }
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
        MARGIN
    }
    fn device_kind(&self) -> &'static str {
        B::kind()
    }

    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)> {
        let parts = self.parts(&batch.0);
        let parts: Vec<Arc<Packed>> = parts
            .iter()
            .map(|part| self.packed(&part.sequences, part.grid))
            .collect::<Result<_>>()?;
        let counted: usize = parts.iter().map(|packed| packed.counted()).sum();
        if counted == 0 {
            return Ok((self.zeros(), 0.0));
        }
        let mut sums = B::zeros(&self.parameters, &self.device);
        let mut total = 0.0;
        for packed in parts {
            let (taps, nll) = self.taps(&packed);
            total += nll.total();
            let factors = Factors::uniform(packed.examples, GROUPS, 1.0 / counted as f32);
            B::add_weighted_sums(taps, &self.weights, &factors, &packed, &mut sums);
        }
        Ok((sums.into_host(), total / counted as f64))
    }

    fn begin(&mut self) {
        self.sums = B::zeros(&self.parameters, &self.device);
    }

    fn add(&mut self, batch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added> {
        let mut added = Added::default();
        for part in self.parts(&batch.0) {
            added += self.add_part(&part.sequences, part.grid, clip)?;
        }
        Ok(added)
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
        self.sums.bring_to_host()
    }

    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()> {
        self.step(update, &gradient.into_host()?)
    }

    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()> {
        self.step(update, &gradient)
    }
}

impl<B: Kernels> Lstm<B> {
    fn add_part(&mut self, part: &[Example<'_>], grid: Option<Grid>, clip: &Clip) -> Result<Added> {
        let packed = self.packed(part, grid)?;
        if packed.examples == 0 {
            return Ok(Added::default());
        }
        let (taps, _) = self.taps(&packed);
        let norms = SquaredNorms::new(GROUPS, B::squared_norms(&taps, &self.weights, &packed))?;
        if norms.rejected() > 0 {
            let (finite, mut added) = finite(part, &norms);
            added += self.add_part(&finite, grid, clip)?;
            return Ok(added);
        }
        let factors = clip.factors(&norms);
        B::add_weighted_sums(taps, &self.weights, &factors, &packed, &mut self.sums);
        Ok(Added {
            examples: packed.examples,
            clipped: factors.clipped(),
            rejected: 0,
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
            check_tokens(tokens, self.config.vocabulary)?;
        }
        // on the host whatever the device, because states leave the device after every segment
        let model = Plain::new(&self.config, &self.values, self.masks.as_ref());
        let mut ordinary = self.zeros();
        let sums = self.sums.bring_to_host();
        let added = model.add(batch, clip, release, &mut ordinary, sums)?;
        Ok((ordinary, added))
    }
}
