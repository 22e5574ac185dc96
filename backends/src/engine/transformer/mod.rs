//! Transformers: forward, taps, clipped sums, scores, cached prefixes.

mod flow;
mod heads;
mod resident;
mod scoring;
mod states;
#[cfg(test)]
#[cfg(feature = "oracle")]
mod tests;
mod training;

use super::host::attention::Attention;
use super::host::vector::Normal;
use super::layers::{
    Factors, Floats, HeadAt, HeadGradient, HeadTap, HeadWeights, Layers, Losses, Matrix,
    NormWeights, Norms, Sums, Tape,
};
use super::ops;
use super::packed::{NO_LOSS, finite};
use super::rows::{Grid, Microbatch, PredictingRows, Rows, consecutive, on_grids};
use super::transfers::{host, indices, upload as upload_values};
use crate::error::{Error, Result};
use crate::model::{
    Head, HeadLayout, Layout, LinearAt, Lora, Model, NormAt, NormKind, Rotary, TransformerConfig,
    groups,
};
use crate::privacy::clip::{Clip, SquaredNorms};
use crate::scorer::States;
use crate::trainer::dropout::Masks;
use crate::trainer::masking::TokenMasks;
use crate::trainer::optimizer::Update;
use crate::trainer::{
    Added, Example, Parameter, Precision, PrivateBatch, Privatized, PublicBatch, Trainer,
    check_shapes,
};
use burn::tensor::{IndexingUpdateOp, Tensor};
use flow::Recording;
use rayon::prelude::*;
use reticent_corpus::TokenId;
use states::State;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// Most rows of a microbatch; bounds the memory of the taps.
const ROWS: usize = 2048;
/// Values per block of copies.
const COPY: usize = 1 << 16;

/// A transformer on a device, with a copy of its weights on the host for the optimiser.
pub(crate) struct Transformer<B: Floats, K: Layers<B>> {
    config: TransformerConfig,
    layout: Layout,
    attention: Vec<Attention>,
    /// The trained parameters: the model's, or its adapter's.
    parameters: Vec<Parameter>,
    groups: Vec<usize>,
    /// The trained weights on the host; absent after steps on the device, until they are needed.
    values: OnceLock<Vec<Vec<f32>>>,
    adapter: Option<Lora>,
    /// The number of weights that stay as they are: all of the model's if an adapter is trained.
    frozen: usize,
    /// The model's weights, then its adapter's.
    weights: Vec<Matrix<B>>,
    device: B::Device,
    sums: Sums<B>,
    /// The buffers of the last step, reused in the next.
    spare: Vec<Vec<f32>>,
    /// A token whose prediction carries no loss.
    left_out: Option<TokenId>,
    masks: Option<Masks>,
    /// The masks of the tokens that an encoder has to predict.
    masked: Option<TokenMasks>,
    precision: Precision,
    states: States<State>,
    kernels: PhantomData<fn() -> K>,
}

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    pub(crate) fn new(
        config: TransformerConfig,
        values: Vec<Vec<f32>>,
        device: B::Device,
    ) -> Result<Self> {
        let model = Model::from(config.clone());
        let parameters = model.parameters();
        check_shapes(&parameters, &values)?;
        let weights = upload(&parameters, &values, &device);
        Ok(Self {
            layout: config.layout(),
            attention: attention(&config),
            groups: model.groups(),
            config,
            parameters,
            values: OnceLock::from(values),
            adapter: None,
            frozen: 0,
            weights,
            device,
            sums: Sums::Host(Vec::new()),
            spare: Vec::new(),
            left_out: None,
            masks: None,
            masked: None,
            precision: Precision::Single,
            states: States::default(),
            kernels: PhantomData,
        })
    }

    /// Returns whether this weight is trained.
    const fn trains(&self, weight: usize) -> bool {
        weight >= self.frozen
    }

    /// Returns the adapter matrices A and B of a weight, and the first column that each pair adds to.
    fn pairs(&self, weight: usize) -> impl Iterator<Item = ([usize; 2], usize)> {
        let modules = self.adapter.iter().flat_map(Lora::modules).enumerate();
        let beside = modules.filter(move |(_, module)| module.weight == weight);
        let first = self.frozen;
        beside.map(move |(k, module)| ([first + 2 * k, first + 2 * k + 1], module.offset))
    }

    fn adapter_scale(&self) -> f64 {
        self.adapter.as_ref().map_or(1.0, Lora::scale)
    }

    fn norm_weights(&self, at: NormAt) -> NormWeights<B> {
        let kind = self.config.norm_kind();
        NormWeights {
            gain: self.weights[at.gain].clone(),
            bias: at.bias.map(|bias| self.weights[bias].clone()),
            normal: Normal {
                centred: kind == NormKind::Layer,
                plus_one: kind == NormKind::RmsPlusOne,
                epsilon: self.config.norm_epsilon as f32,
            },
        }
    }

    fn linear_weights(&self, at: LinearAt) -> (Matrix<B>, Option<Matrix<B>>) {
        let bias = at.bias.map(|bias| self.weights[bias].clone());
        (self.weights[at.weight].clone(), bias)
    }

    /// Returns the last matrix and its index, with its bias; the embedding if the head is tied.
    fn head_weights(&self) -> (HeadAt, HeadWeights<B>) {
        let (projection, bias) = match &self.layout.head {
            HeadLayout::NextToken { projection, bias } => (*projection, *bias),
            HeadLayout::MaskedToken {
                projection, bias, ..
            } => (*projection, Some(*bias)),
            HeadLayout::Classes { output, .. } => (Some(output.weight), output.bias),
        };
        let index = projection.unwrap_or(self.layout.token_embedding);
        let head = HeadWeights {
            matrix: self.weights[index].clone(),
            bias: bias.map(|bias| self.weights[bias].clone()),
            tied: projection.is_none(),
            cap: match self.config.head {
                Head::NextToken => self.config.logit_cap.map(|c| c as f32),
                Head::MaskedToken | Head::Classes(_) => None,
            },
        };
        let at = HeadAt {
            weight: index,
            bias,
        };
        (at, head)
    }

    /// Embeds tokens and positions, N × d, and token types, all of them 0.
    fn embed(&self, rows: &Rows) -> Matrix<B> {
        let embedded = self.embed_untyped(rows);
        match self.layout.token_type_embedding {
            None => embedded,
            Some(table) => embedded.add(self.weights[table].clone().narrow(0, 0, 1)),
        }
    }

    fn embed_untyped(&self, rows: &Rows) -> Matrix<B> {
        let position = self.layout.position_embedding;
        K::embed(
            (
                &self.weights[self.layout.token_embedding],
                position.map(|p| &self.weights[p]),
            ),
            self.config.embedding_scale() as f32,
            self.config.switches.position_offset as u32,
            rows,
        )
    }

    fn matrix(&self, values: Vec<f32>, columns: usize) -> Matrix<B> {
        let rows = values.len() / columns.max(1);
        upload_values(values, [rows, columns], &self.device)
    }

    /// Runs one forward and one backward pass; returns the tape, and the negative log-likelihood of each row (nats).
    /// With `sum` the head's gradient, if it is trained, times the factor, is added to the sum immediately.
    fn pass(&self, rows: &Rows, sum: Option<(&mut Sums<B>, f32)>) -> (Tape<B>, Losses<B>) {
        let embedded = Tensor::from_inner(self.embed(rows));
        // the backward pass ends at the first trained parameter
        let embedded = match self.frozen {
            0 => embedded.require_grad(),
            _ => embedded,
        };
        let mut recording = Recording::<B, K>::new(self, rows);
        let hidden = flow::layers(self, &mut recording, embedded.clone());
        let hidden = flow::top(self, &mut recording, hidden);
        let (at, head) = self.head_weights();
        let (kept, chosen) = self.head_rows(rows, hidden.clone().inner());
        let targets = chosen
            .as_ref()
            .map_or(&rows.targets, |chosen| &chosen.targets);
        let own = match sum {
            _ if self.frozen > 0 => HeadGradient::Frozen,
            Some((sums, factor)) => HeadGradient::Added(sums, at, factor),
            None => HeadGradient::Kept,
        };
        let run = K::head(&kept, &head, targets, self.precision, own);
        let d_hidden = match &chosen {
            Some(chosen) => self.in_their_places(run.d_hidden, &chosen.places, rows.len()),
            None => run.d_hidden,
        };
        // a root needs a value, though it is never read
        let loss = Tensor::zeros([1, 1], &self.device);
        let gradients = ops::apply(hidden, loss, move |_| d_hidden).backward();
        let tape = recording.tape(
            &gradients,
            self,
            &embedded,
            HeadTap {
                weight: at.weight,
                bias: at.bias,
                tied: head.tied,
                hidden: kept,
                spans: chosen.map(|chosen| chosen.spans),
                delta: run.delta,
            },
        );
        debug_assert!(
            tape.covered().into_iter().eq(0..self.parameters.len()),
            "every trained parameter has a tap"
        );
        (tape, run.nll)
    }

    /// Selects the rows for the head. In an encoder or a classifier few rows predict something, and without a grid the
    /// head's matrix, which is as wide as the vocabulary, is applied only to these.
    fn head_rows(&self, rows: &Rows, hidden: Matrix<B>) -> (Matrix<B>, Option<PredictingRows>) {
        if K::GRID || self.config.head == Head::NextToken {
            return (hidden, None);
        }
        let chosen = rows.predicting_rows();
        if chosen.places.is_empty() {
            return (hidden, None);
        }
        let index = indices::<B>(&chosen.places, &self.device);
        (hidden.select(0, index), Some(chosen))
    }

    /// Scatters rows to their places among all rows; the others are zero.
    fn in_their_places(&self, part: Matrix<B>, places: &[u32], rows: usize) -> Matrix<B> {
        let zeros: Matrix<B> = Tensor::zeros([rows, part.dims()[1]], &self.device);
        let index = indices::<B>(places, &self.device);
        zeros.select_assign(0, index, part, IndexingUpdateOp::Add)
    }

    /// Returns the maximum number of rows of a microbatch.
    fn most_rows(&self) -> usize {
        let most = if K::GRID { B::GRID_ROWS } else { ROWS };
        most.min(B::LOGITS / self.config.vocabulary).max(1)
    }

    /// Returns microbatches of examples for the head: in a decoder no row reads the last token.
    fn microbatches<S: Copy + AsRef<[TokenId]>>(&self, sequences: &[S]) -> Vec<Microbatch<S>> {
        let unread = usize::from(self.config.head == Head::NextToken);
        self.microbatches_without(unread, sequences)
    }

    /// Returns consecutive examples that fit into a microbatch, or examples of one length on a grid.
    fn microbatches_without<S: Copy + AsRef<[TokenId]>>(
        &self,
        unread: usize,
        sequences: &[S],
    ) -> Vec<Microbatch<S>> {
        let most = self.most_rows();
        if K::GRID {
            return on_grids(sequences, unread, most, self.config.longest());
        }
        consecutive(sequences, most)
    }

    fn limits(&self) -> (usize, usize) {
        (self.config.vocabulary, self.config.longest())
    }

    /// Returns rows for training, with their masks; predictions of the token that is left out carry no loss.
    fn rows(&self, examples: &[Example<'_>], grid: Option<Grid>) -> Result<Rows> {
        let mut rows = self.predicting(examples, grid, self.masked.as_ref())?;
        let masks = self.masks.as_ref();
        rows.masks = masks.map(|m| {
            examples
                .iter()
                .map(|e| m.of(e.record, e.augmentation))
                .collect()
        });
        // a class is no token, though their numbers may be alike
        let left_out = self
            .left_out
            .filter(|_| !matches!(self.config.head, Head::Classes(_)));
        if let Some(left_out) = left_out {
            for target in rows.targets.iter_mut().filter(|t| **t == left_out) {
                *target = NO_LOSS;
            }
        }
        Ok(rows)
    }

    /// Returns rows with the targets of the head: each next token, the masked tokens, or the class of the whole.
    fn predicting(
        &self,
        examples: &[Example<'_>],
        grid: Option<Grid>,
        masked: Option<&TokenMasks>,
    ) -> Result<Rows> {
        match self.config.head {
            Head::NextToken => {
                let mut rows = Rows::predicting(examples, self.limits(), grid)?;
                for (span, example) in rows.spans.iter().zip(examples) {
                    for unlearned in example.unlearned().filter(|at| *at > 0) {
                        rows.targets[span.start + unlearned - 1] = NO_LOSS;
                    }
                }
                Ok(rows)
            }
            Head::MaskedToken => {
                let masked = masked.ok_or_else(|| {
                    Error::Unsuitable("an encoder needs masked tokens to train on".into())
                })?;
                let read: Vec<_> = examples
                    .iter()
                    .map(|e| masked.of(e.record, e.augmentation, e.tokens))
                    .collect();
                let inputs: Vec<&[TokenId]> = read.iter().map(|r| r.inputs.as_slice()).collect();
                let mut rows = Rows::reading(&inputs, self.limits(), grid)?;
                for (span, read) in rows.spans.iter().zip(&read) {
                    let targets = rows.targets[span.range()].iter_mut().zip(&read.targets);
                    targets.for_each(|(into, target)| *into = target.unwrap_or(NO_LOSS));
                }
                self.placed(&mut rows);
                Ok(rows)
            }
            Head::Classes(classes) => {
                let mut rows = Rows::reading(examples, self.limits(), grid)?;
                for (span, example) in rows.spans.iter().zip(examples) {
                    let label = label(example, classes)?;
                    let at = self.config.class_position(example.tokens);
                    rows.targets[span.start + at] = label;
                }
                self.placed(&mut rows);
                Ok(rows)
            }
        }
    }

    /// Sets each row's row of the position table, if it depends on the tokens.
    fn placed(&self, rows: &mut Rows) {
        for span in &rows.spans {
            let places = self.config.position_rows(&rows.inputs[span.range()]);
            let positions = rows.positions[span.range()].iter_mut();
            positions
                .zip(places)
                .for_each(|(position, place)| *position = place as u32);
        }
    }

    /// Sums norms by example and group.
    fn grouped(&self, norms: &Norms<B>, examples: usize) -> Result<SquaredNorms> {
        let groups = self.groups.last().map_or(0, |last| last + 1);
        let mut values = vec![0.0; examples * groups];
        for (squared, group) in norms.squared.iter().zip(&self.groups) {
            for (example, value) in squared.iter().take(examples).enumerate() {
                values[example * groups + group] += value;
            }
        }
        SquaredNorms::new(groups, values)
    }

    fn add_part(&mut self, part: &[Example<'_>], grid: Option<Grid>, clip: &Clip) -> Result<Added> {
        if part.is_empty() {
            return Ok(Added::default());
        }
        let rows = self.rows(part, grid)?;
        let (tape, _) = self.pass(&rows, None);
        let norms = K::norms(&tape, &rows, self.parameters.len());
        let squared = self.grouped(&norms, part.len())?;
        if squared.rejected() > 0 {
            drop((tape, norms));
            let (finite, mut added) = finite(part, &squared);
            added += self.add_part(&finite, grid, clip)?;
            return Ok(added);
        }
        let factors = clip.factors(&squared);
        let clipped = factors.clipped();
        let factors = Factors::clipped(&factors, &self.groups);
        K::add_sums(tape, norms, &factors, &rows, &mut self.sums);
        Ok(Added {
            examples: part.len(),
            clipped,
            rejected: 0,
        })
    }

    fn step(&mut self, update: &mut dyn Update, gradient: Vec<Vec<f32>>) -> Result<()> {
        check_shapes(&self.parameters, &gradient)?;
        let known = self.values.take();
        let mut values = known.unwrap_or_else(|| self.download());
        update.update(&mut values, &gradient);
        self.spare = gradient;
        self.reload(values);
        Ok(())
    }

    fn reload(&mut self, values: Vec<Vec<f32>>) {
        // the old weights are freed first: at no time are there three copies
        self.weights.truncate(self.frozen);
        let moved = upload(&self.parameters, &values, &self.device);
        self.weights.extend(moved);
        self.values = OnceLock::from(values);
        self.states.clear();
    }

    /// Returns the trained weights, on the host.
    fn trained(&self) -> &[Vec<f32>] {
        self.values.get_or_init(|| self.download())
    }

    fn download(&self) -> Vec<Vec<f32>> {
        let trained = self.weights[self.frozen..].iter();
        trained.map(|w| host(w.clone())).collect()
    }

    fn zeros(&mut self) -> Sums<B> {
        let spare = std::mem::take(&mut self.spare);
        self.zeroed(spare)
    }

    /// Returns zeros, in these buffers if they fit.
    fn zeroed(&self, mut buffers: Vec<Vec<f32>>) -> Sums<B> {
        if K::GRID || check_shapes(&self.parameters, &buffers).is_err() {
            return K::zeros(&self.parameters, &self.device);
        }
        for sum in &mut buffers {
            sum.par_chunks_mut(COPY).for_each(|part| part.fill(0.0));
        }
        Sums::Host(buffers)
    }
}

/// Returns the class of an example.
pub(crate) fn label(example: &Example<'_>, classes: usize) -> Result<u32> {
    match example.label {
        Some(label) if (label as usize) < classes => Ok(label),
        Some(label) => Err(Error::Unsuitable(format!(
            "a record's class must lie in [0, {classes}), got {label}"
        ))),
        None => Err(Error::Unsuitable(
            "a classifier trains on records with a label".into(),
        )),
    }
}

/// Returns the attention of each layer; layers share the tables of rotations.
fn attention(config: &TransformerConfig) -> Vec<Attention> {
    let table = |rotary: &Rotary| {
        let frequencies = rotary.frequencies(config.head_width);
        let turn = |position: usize, frequency: &f64| {
            let (sine, cosine) = (frequency * position as f64).sin_cos();
            [cosine as f32, sine as f32]
        };
        let all = (0..config.longest())
            .into_par_iter()
            .flat_map_iter(|p| frequencies.iter().map(move |f| turn(p, f)));
        Arc::new(all.collect::<Vec<_>>())
    };
    let mut tables: Vec<(Rotary, Arc<Vec<[f32; 2]>>)> = Vec::new();
    let mut turns = |layer: usize| {
        let rotary = config.rotary_of(layer)?;
        if let Some((_, table)) = tables.iter().find(|(known, _)| *known == rotary) {
            return Some(table.clone());
        }
        let table = table(&rotary);
        tables.push((rotary, table.clone()));
        Some(table)
    };
    let turned = |rotary: &Rotary| rotary.turned(config.head_width);
    (0..config.layers)
        .map(|layer| Attention {
            heads: config.heads,
            groups: config.key_value_heads,
            width: config.head_width,
            scale: config.attention_scale() as f32,
            cap: config.attention_cap.map(|c| c as f32),
            layer,
            window: config.window(layer),
            causal: config.causal(),
            turned: config.rotary.as_ref().map_or(0, turned),
            turns: turns(layer),
        })
        .collect()
}

/// Uploads the weights to the device, vectors as one row; each value is copied once.
fn upload<B: Floats>(
    parameters: &[Parameter],
    values: &[Vec<f32>],
    device: &B::Device,
) -> Vec<Matrix<B>> {
    let one = |(p, v): (&Parameter, &Vec<f32>)| {
        let shape = match p.shape[..] {
            [rows, columns] => [rows, columns],
            _ => [1, p.len()],
        };
        let mut copy = Vec::with_capacity(v.len());
        v.par_iter()
            .copied()
            .with_min_len(COPY)
            .collect_into_vec(&mut copy);
        upload_values(copy, shape, device)
    };
    parameters.iter().zip(values).map(one).collect()
}
