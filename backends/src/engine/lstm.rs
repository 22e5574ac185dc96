//! The one-layer LSTM language model: forward, taps, clipped sums, scoring with cached states.

use super::kernels::{Dropped, GROUP, GROUPS, Kernels, Taps, Weights};
use super::ops;
use super::packed::Packed;
use super::portable::host;
use super::selective::Plain;
use crate::clip::{Clip, Factors, SquaredNorms};
use crate::dropout::{Masks, Place};
use crate::error::{Error, Result};
use crate::optimizer::Update;
use crate::scorer::{PrefixScorer, Scorer, StateId, TokenScore};
use crate::segments::SelectiveBatch;
use crate::trainer::{
    Added, Example, Parameter, Precision, PrivateBatch, Privatized, PublicBatch, Recurrent,
    ReleaseState, Trainer, check_shapes,
};
use burn::tensor::{Tensor, TensorData};
use reticent_corpus::TokenId;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use crate::model::LstmConfig;

/// Rows scored at once: bounds memory.
const SCORED_TOKENS: usize = 32_768;

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
        packed.masks = masks.map(|m| batch.iter().map(|e| m.of(e.record)).collect());
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
        if let Some(factors) = packed.factors(Place::Output { segment: 0 }, width) {
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
        let factors = packed.factors(Place::Embedding { segment: 0 }, width)?;
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

    fn logits(&self, packed: &Packed) -> Tensor<B, 2> {
        let run = B::recurrence(
            self.input_part(packed, Precision::Single),
            self.weights.recurrent.clone(),
            packed,
            Precision::Single,
        );
        B::affine(
            run.hidden,
            self.weights.head.clone(),
            self.weights.head_bias.clone(),
            Precision::Single,
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

    /// Advances states (each h then c, 2H values) by one token each.
    fn advance(&self, states: &[f32], tokens: &[TokenId]) -> Vec<Vec<f32>> {
        let width = self.config.hidden;
        let mut distinct: Vec<TokenId> = tokens.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let index: Vec<u32> = tokens
            .iter()
            .map(|t| distinct.partition_point(|d| d < t) as u32)
            .collect();
        let z = B::lookup(self.token_gates(&distinct, Precision::Single), &index);
        let half = |offset: usize| {
            let picked = states
                .chunks_exact(2 * width)
                .flat_map(|s| s[offset..offset + width].iter().copied());
            self.matrix(picked.collect(), width)
        };
        let (hidden, cell) = B::cell(z, self.weights.recurrent.clone(), half(0), half(width));
        let (hidden, cell) = (host(hidden), host(cell));
        hidden
            .chunks_exact(width)
            .zip(cell.chunks_exact(width))
            .map(|(h, c)| [h, c].concat())
            .collect()
    }

    fn keep(&mut self, states: Vec<Vec<f32>>) -> Vec<StateId> {
        states
            .into_iter()
            .map(|state| {
                let id = self.next_state;
                self.next_state += 1;
                self.states.insert(id, state);
                StateId(id)
            })
            .collect()
    }

    fn gather(&self, ids: impl Iterator<Item = StateId>) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        for id in ids {
            out.extend_from_slice(self.states.get(&id.0).ok_or(Error::UnknownState(id.0))?);
        }
        Ok(out)
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

impl<B: Kernels> Scorer for Lstm<B> {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        let views: Vec<&[TokenId]> = sequences.iter().map(Vec::as_slice).collect();
        let mut out = Vec::with_capacity(sequences.len());
        for part in PrivateBatch::in_order(views).microbatches(SCORED_TOKENS) {
            let part: Vec<&[TokenId]> = part.0.iter().map(|e| e.tokens).collect();
            let packed = Packed::new(&part, self.config.vocabulary)?;
            let scores = row_scores(&host(self.logits(&packed)), &packed.targets);
            let mut by_example = vec![Vec::new(); packed.examples];
            for group in &packed.groups {
                for (lane, &example) in group.examples.iter().enumerate() {
                    by_example[example] = group.rows_of(lane).map(|row| scores[row]).collect();
                }
            }
            out.extend(by_example);
        }
        Ok(out)
    }
}

/// Statistics of each row's distribution and of its target.
pub(super) fn row_scores(logits: &[f32], targets: &[TokenId]) -> Vec<TokenScore> {
    use rayon::prelude::*;
    let vocabulary = logits.len() / targets.len().max(1);
    logits
        .par_chunks_exact(vocabulary.max(1))
        .zip(targets)
        .map(|(row, target)| {
            let log_p = super::host::layers::log_softmax(row);
            let mean: f64 = log_p.iter().map(|l| l.exp() * l).sum();
            let variance = log_p.iter().map(|l| l.exp() * (l - mean).powi(2)).sum();
            let top = (0..log_p.len())
                .max_by(|a, b| log_p[*a].total_cmp(&log_p[*b]))
                .unwrap_or(0);
            TokenScore {
                log_probability: log_p[*target as usize],
                mean,
                variance,
                top_token: top as TokenId,
                top_log_probability: log_p[top],
            }
        })
        .collect()
}

impl<B: Kernels> PrefixScorer for Lstm<B> {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        let mut finished = Vec::with_capacity(prefixes.len());
        for (index, prefix) in prefixes.iter().enumerate() {
            if prefix.is_empty() {
                return Err(Error::TooShort {
                    index,
                    length: 0,
                    least: 1,
                });
            }
            let mut state = vec![0.0; 2 * self.config.hidden];
            for &token in prefix {
                self.known(token)?;
                state = self.advance(&state, &[token]).concat();
            }
            finished.push(state);
        }
        Ok(self.keep(finished))
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let tokens: Vec<TokenId> = steps.iter().map(|(_, t)| *t).collect();
        tokens.iter().try_for_each(|t| self.known(*t))?;
        let states = self.gather(steps.iter().map(|(s, _)| *s))?;
        let advanced = self.advance(&states, &tokens);
        Ok(self.keep(advanced))
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        if states.is_empty() {
            return Ok(Vec::new());
        }
        wanted.iter().try_for_each(|t| self.known(*t))?;
        let width = self.config.hidden;
        let gathered = self.gather(states.iter().copied())?;
        let hidden = gathered
            .chunks_exact(2 * width)
            .flat_map(|s| s[..width].iter().copied())
            .collect();
        let logits = host(B::affine(
            self.matrix(hidden, width),
            self.weights.head.clone(),
            self.weights.head_bias.clone(),
            Precision::Single,
        ));
        let rows = logits
            .chunks_exact(self.config.vocabulary)
            .map(super::host::layers::log_softmax);
        Ok(rows
            .flat_map(|log_p| {
                wanted
                    .iter()
                    .map(move |t| log_p[*t as usize])
                    .collect::<Vec<_>>()
            })
            .collect())
    }

    fn release(&mut self, states: &[StateId]) {
        for state in states {
            self.states.remove(&state.0);
        }
    }
}
