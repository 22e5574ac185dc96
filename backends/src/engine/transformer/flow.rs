//! The order of the layers, shared by training and scoring.

use super::Transformer;
use super::heads::{KeptHeads, NormedHeads};
use crate::engine::layers::{
    EmbeddingTap, Ends, Floats, HeadTap, Layers, LinearTap, Matrix, Nonlinearity, NormTap, Tape,
};
use crate::engine::ops::{self, Tracked};
use crate::engine::rows::Rows;
use crate::engine::transfers::upload;
use crate::model::{HeadLayout, HeadNormsAt, LayerLayout, LinearAt, NormAt, NormPlace, Residual};
use crate::trainer::Precision;
use crate::trainer::dropout::DropoutSite;
use burn::backend::Autodiff;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use std::marker::PhantomData;

/// The operations to which the layers are applied: on matrices, with or without a backward pass.
pub(super) trait Flow<B: Floats, K: Layers<B>> {
    type Value: Clone;
    fn linear(&mut self, model: &Transformer<B, K>, x: Self::Value, at: LinearAt) -> Self::Value;
    fn norm(&mut self, model: &Transformer<B, K>, x: Self::Value, at: NormAt) -> Self::Value;
    /// Normalises every query head and every key head of queries, keys and values side by side.
    fn norm_heads(
        &mut self,
        model: &Transformer<B, K>,
        joined: Self::Value,
        at: HeadNormsAt,
    ) -> Self::Value;
    fn attend(
        &mut self,
        model: &Transformer<B, K>,
        joined: Self::Value,
        layer: usize,
    ) -> Self::Value;
    fn activate(&mut self, z: Self::Value, nonlinearity: Nonlinearity) -> Self::Value;
    fn add(&mut self, x: Self::Value, y: Self::Value) -> Self::Value;
    fn scale(&mut self, x: Self::Value, factor: f64) -> Self::Value;
    fn tanh(&mut self, x: Self::Value) -> Self::Value;
    /// Places the values in columns from `offset` of `width`; the others are zero.
    fn widen(&mut self, x: Self::Value, offset: usize, width: usize) -> Self::Value;
    /// Applies dropout, if the flow has any.
    fn drop(&mut self, x: Self::Value, _: DropoutSite) -> Self::Value {
        x
    }
}

/// Applies all layers and the norm after them.
pub(super) fn layers<B: Floats, K: Layers<B>, F: Flow<B, K>>(
    model: &Transformer<B, K>,
    flow: &mut F,
    x: F::Value,
) -> F::Value {
    let mut x = x;
    if let Some(at) = model.layout.embedding_norm {
        x = flow.norm(model, x, at);
    }
    x = flow.drop(x, DropoutSite::Embedding { segment: 0 });
    for (index, at) in model.layout.layers.iter().enumerate() {
        x = layer(model, flow, x, (index, at));
    }
    if let Some(at) = model.layout.final_norm {
        x = flow.norm(model, x, at);
    }
    x
}

/// Applies the operations between the layers and the head's matrix, row by row. In a classifier, whose loss is that of
/// one row, the other rows have no gradient.
pub(super) fn top<B: Floats, K: Layers<B>, F: Flow<B, K>>(
    model: &Transformer<B, K>,
    flow: &mut F,
    x: F::Value,
) -> F::Value {
    match &model.layout.head {
        // before the head's matrix: the logits and the matrix's gradient are the same as for divided logits
        HeadLayout::NextToken { .. } => {
            flow.scale(x, model.config.switches.multipliers.logits.recip())
        }
        HeadLayout::MaskedToken {
            transform, norm, ..
        } => {
            let shape = Nonlinearity {
                kind: model.config.activation,
                gated: false,
                width: model.config.width,
            };
            let x = flow.linear(model, x, *transform);
            let x = flow.activate(x, shape);
            flow.norm(model, x, *norm)
        }
        HeadLayout::Classes { dense: None, .. } => x,
        HeadLayout::Classes {
            dense: Some(dense), ..
        } => {
            let x = flow.linear(model, x, *dense);
            flow.tanh(x)
        }
    }
}

/// Adds a block's output to its input, with the norm after the block: on the sum or on the output.
fn joined<B: Floats, K: Layers<B>, F: Flow<B, K>>(
    model: &Transformer<B, K>,
    flow: &mut F,
    (x, y): (F::Value, F::Value),
    after: Option<NormAt>,
) -> F::Value {
    match (after, model.config.norm_place()) {
        (None, _) => flow.add(x, y),
        (Some(after), NormPlace::After) => {
            let sum = flow.add(x, y);
            flow.norm(model, sum, after)
        }
        (Some(after), NormPlace::Before | NormPlace::Both | NormPlace::Output) => {
            let y = flow.norm(model, y, after);
            flow.add(x, y)
        }
    }
}

/// Applies a linear layer and adds its adapter, two consecutive linear layers, to some of the columns.
fn linear<B: Floats, K: Layers<B>, F: Flow<B, K>>(
    model: &Transformer<B, K>,
    flow: &mut F,
    x: F::Value,
    at: LinearAt,
) -> F::Value {
    let width = model.weights[at.weight].dims()[1];
    let mut y = flow.linear(model, x.clone(), at);
    for (pair, offset) in model.pairs(at.weight) {
        let [down, up] = pair.map(|weight| LinearAt { weight, bias: None });
        let low = flow.linear(model, x.clone(), down);
        let mut added = flow.linear(model, low, up);
        added = flow.scale(added, model.adapter_scale());
        added = flow.widen(added, offset, width);
        y = flow.add(y, added);
    }
    y
}

fn layer<B: Floats, K: Layers<B>, F: Flow<B, K>>(
    model: &Transformer<B, K>,
    flow: &mut F,
    x: F::Value,
    (index, at): (usize, &LayerLayout),
) -> F::Value {
    let residual = model.config.switches.multipliers.residual;
    let input = x.clone();
    let mut y = x.clone();
    if let Some(before) = at.attention_before {
        y = flow.norm(model, y, before);
    }
    let normed = y.clone();
    y = linear(model, flow, y, at.attention_in);
    if let Some(heads) = at.head_norms {
        y = flow.norm_heads(model, y, heads);
    }
    y = flow.attend(model, y, index);
    y = linear(model, flow, y, at.attention_out);
    y = flow.drop(y, DropoutSite::Block { number: 2 * index });
    y = flow.scale(y, residual);
    let x = joined(model, flow, (x, y), at.attention_after);
    let mut y = match model.config.switches.residual {
        Residual::InTurn => x.clone(),
        Residual::Parallel => input,
        Residual::ParallelOneNorm => normed,
    };
    if let Some(before) = at.feed_forward_before {
        y = flow.norm(model, y, before);
    }
    y = linear(model, flow, y, at.feed_forward_in);
    y = flow.activate(y, model.nonlinearity());
    y = linear(model, flow, y, at.feed_forward_out);
    let number = 2 * index + 1;
    y = flow.drop(y, DropoutSite::Block { number });
    y = flow.scale(y, residual);
    joined(model, flow, (x, y), at.feed_forward_after)
}

impl<B: Floats, K: Layers<B>> Transformer<B, K> {
    fn nonlinearity(&self) -> Nonlinearity {
        Nonlinearity {
            kind: self.config.activation,
            gated: self.config.gated(),
            width: self.config.feed_forward,
        }
    }
}

fn is_one(factor: f64) -> bool {
    factor.total_cmp(&1.0).is_eq()
}

fn scaled<B: Floats>(x: Matrix<B>, factor: f64) -> Matrix<B> {
    if is_one(factor) {
        x
    } else {
        x.mul_scalar(factor as f32)
    }
}

fn widened<B: Floats>(x: Matrix<B>, offset: usize, width: usize) -> Matrix<B> {
    let [rows, columns] = x.dims();
    if columns == width {
        return x;
    }
    let device = x.device();
    // devices refuse to fill an empty tensor
    let zeros = |columns| (columns > 0).then(|| Tensor::zeros([rows, columns], &device));
    let (before, behind) = (zeros(offset), zeros(width - offset - columns));
    let parts = [before, Some(x), behind].into_iter().flatten();
    Tensor::cat(parts.collect(), 1)
}

/// Computes attention in a layer. The arguments are the layer's index, and queries, keys and values side by side.
pub(super) type Attend<'a, B> = dyn FnMut(usize, &Matrix<B>) -> Matrix<B> + 'a;

/// Layers without a backward pass.
pub(super) struct Plain<'a, B: Floats> {
    pub(super) attend: &'a mut Attend<'a, B>,
}

impl<B: Floats, K: Layers<B>> Flow<B, K> for Plain<'_, B> {
    type Value = Matrix<B>;
    fn linear(&mut self, model: &Transformer<B, K>, x: Matrix<B>, at: LinearAt) -> Matrix<B> {
        let (w, b) = model.linear_weights(at);
        K::linear(&x, &w, b.as_ref(), Precision::Single)
    }
    fn norm(&mut self, model: &Transformer<B, K>, x: Matrix<B>, at: NormAt) -> Matrix<B> {
        K::normalise(&x, &model.norm_weights(at)).y
    }
    fn norm_heads(
        &mut self,
        model: &Transformer<B, K>,
        joined: Matrix<B>,
        at: HeadNormsAt,
    ) -> Matrix<B> {
        NormedHeads::of(model, &joined, at).0
    }
    fn attend(&mut self, _: &Transformer<B, K>, joined: Matrix<B>, layer: usize) -> Matrix<B> {
        (self.attend)(layer, &joined)
    }
    fn activate(&mut self, z: Matrix<B>, nonlinearity: Nonlinearity) -> Matrix<B> {
        K::activate(&z, nonlinearity)
    }
    fn add(&mut self, x: Matrix<B>, y: Matrix<B>) -> Matrix<B> {
        x.add(y)
    }
    fn scale(&mut self, x: Matrix<B>, factor: f64) -> Matrix<B> {
        scaled(x, factor)
    }
    fn tanh(&mut self, x: Matrix<B>) -> Matrix<B> {
        x.tanh()
    }
    fn widen(&mut self, x: Matrix<B>, offset: usize, width: usize) -> Matrix<B> {
        widened(x, offset, width)
    }
}

/// Layers with a tap at each trained parameter, and none at frozen ones. Weights are untracked, so the backward pass
/// computes no weight gradient.
pub(super) struct Recording<'a, B: Floats, K> {
    rows: &'a Rows,
    device: B::Device,
    linears: Vec<(LinearAt, Matrix<B>, Tracked<B>)>,
    norms: Vec<(NormAt, Matrix<B>, Tracked<B>)>,
    heads: Vec<(KeptHeads<B>, Tracked<B>)>,
    kernels: PhantomData<fn() -> K>,
}

impl<'a, B: Floats, K: Layers<B>> Recording<'a, B, K> {
    pub(super) fn new(model: &Transformer<B, K>, rows: &'a Rows) -> Self {
        Self {
            rows,
            device: model.device.clone(),
            linears: Vec::new(),
            norms: Vec::new(),
            heads: Vec::new(),
            kernels: PhantomData,
        }
    }

    fn tap(&self, z: Tracked<B>) -> (Tracked<B>, Tracked<B>) {
        let leaf = ops::leaf::<B>(&self.device);
        (ops::tap::<B>(z, leaf.clone()), leaf)
    }

    /// Returns the recorded values, with the gradients that the backward pass left at the taps.
    pub(super) fn tape(
        self,
        gradients: &<Autodiff<B> as AutodiffBackend>::Gradients,
        model: &Transformer<B, K>,
        embedded: &Tracked<B>,
        head: HeadTap<B>,
    ) -> Tape<B> {
        let gradient = |leaf: &Tracked<B>| leaf.grad(gradients).expect("the tap registered it");
        let linears = self.linears.iter().map(|(at, input, leaf)| LinearTap {
            weight: at.weight - model.frozen,
            bias: at.bias,
            input: input.clone(),
            gradient: gradient(leaf),
        });
        let norms = self.norms.iter().map(|(at, unit, leaf)| NormTap {
            gain: at.gain,
            bias: at.bias,
            heads: 1,
            unit: unit.clone(),
            gradient: gradient(leaf),
        });
        let heads = self
            .heads
            .iter()
            .flat_map(|(kept, leaf)| kept.taps(&gradient(leaf)));
        Tape {
            linears: linears.collect(),
            norms: norms.chain(heads).collect(),
            ends: model.trains(head.weight).then(|| Ends {
                embedding: EmbeddingTap {
                    token: model.layout.token_embedding,
                    position: model.layout.position_embedding,
                    types: model.layout.token_type_embedding,
                    offset: model.config.switches.position_offset as u32,
                    scale: model.config.embedding_scale() as f32,
                    gradient: gradient(embedded),
                },
                head,
            }),
        }
    }
}

impl<B: Floats, K: Layers<B>> Flow<B, K> for Recording<'_, B, K> {
    type Value = Tracked<B>;

    fn linear(&mut self, model: &Transformer<B, K>, x: Tracked<B>, at: LinearAt) -> Tracked<B> {
        let (w, b) = model.linear_weights(at);
        let input = x.clone().inner();
        let precision = model.precision;
        let out = K::linear(&input, &w, b.as_ref(), precision);
        let z = ops::apply::<B>(x, out, move |d| K::linear_back(&d, &w, precision));
        if !model.trains(at.weight) {
            return z;
        }
        let (z, leaf) = self.tap(z);
        self.linears.push((at, input, leaf));
        z
    }

    fn norm(&mut self, model: &Transformer<B, K>, x: Tracked<B>, at: NormAt) -> Tracked<B> {
        let weights = model.norm_weights(at);
        let run = K::normalise(&x.clone().inner(), &weights);
        let unit = run.unit.clone();
        let y = run.y.clone();
        let y = ops::apply::<B>(x, y, move |d| K::normalise_back(&d, &run, &weights));
        if !model.trains(at.gain) {
            return y;
        }
        let (y, leaf) = self.tap(y);
        self.norms.push((at, unit, leaf));
        y
    }

    fn norm_heads(
        &mut self,
        model: &Transformer<B, K>,
        joined: Tracked<B>,
        at: HeadNormsAt,
    ) -> Tracked<B> {
        let (out, normed) = NormedHeads::of(model, &joined.clone().inner(), at);
        let kept = normed.kept();
        let y = ops::apply::<B>(joined, out, move |d| normed.back::<K>(&d));
        if !model.trains(at.query) {
            return y;
        }
        let (y, leaf) = self.tap(y);
        self.heads.push((kept, leaf));
        y
    }

    fn attend(
        &mut self,
        model: &Transformer<B, K>,
        joined: Tracked<B>,
        layer: usize,
    ) -> Tracked<B> {
        let attention = model.attention[layer].clone();
        let rows = self.rows.clone();
        let input = joined.clone().inner();
        let precision = model.precision;
        let run = K::attend(&input, &rows, &attention, precision);
        let out = run.out.clone();
        ops::apply::<B>(joined, out, move |d| {
            K::attend_back(&d, &input, &run, &rows, &attention, precision)
        })
    }

    fn activate(&mut self, z: Tracked<B>, nonlinearity: Nonlinearity) -> Tracked<B> {
        let input = z.clone().inner();
        let out = K::activate(&input, nonlinearity);
        ops::apply::<B>(z, out, move |d| K::activate_back(&d, &input, nonlinearity))
    }

    fn add(&mut self, x: Tracked<B>, y: Tracked<B>) -> Tracked<B> {
        x.add(y)
    }

    fn scale(&mut self, x: Tracked<B>, factor: f64) -> Tracked<B> {
        if is_one(factor) {
            return x;
        }
        let out = scaled(x.clone().inner(), factor);
        ops::apply::<B>(x, out, move |d| scaled(d, factor))
    }

    fn tanh(&mut self, x: Tracked<B>) -> Tracked<B> {
        let y = x.clone().inner().tanh();
        let slope = -y.clone().powi_scalar(2) + 1.0;
        ops::apply::<B>(x, y, move |d| d.mul(slope))
    }

    fn widen(&mut self, x: Tracked<B>, offset: usize, width: usize) -> Tracked<B> {
        let columns = x.dims()[1];
        let out = widened(x.clone().inner(), offset, width);
        ops::apply::<B>(x, out, move |d| d.narrow(1, offset, columns))
    }

    fn drop(&mut self, x: Tracked<B>, place: DropoutSite) -> Tracked<B> {
        let [rows, width] = x.dims();
        let Some(factors) = self.rows.factors(place, width) else {
            return x;
        };
        let factors: Matrix<B> = upload(factors, [rows, width], &self.device);
        let out = x.clone().inner().mul(factors.clone());
        ops::apply::<B>(x, out, move |d| d.mul(factors))
    }
}
