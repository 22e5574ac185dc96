//! The transformer families in f64: one sequence forward, then backward by hand.

use super::arithmetic::{add, add_outer, add_rows, add_to_rows, product, product_transposed};
use super::attention::{Attention, AttentionTrace};
use super::head::HeadTrace;
use super::norm::{self, NormTrace};
use super::{Network, Sequence, drop_out};
use crate::error::{Error, Result};
use crate::model::{
    HeadNormsAt, LayerLayout, Layout, LinearAt, Lora, LoraModule, NormAt, NormPlace, Residual,
    TransformerConfig,
};
use crate::trainer::dropout::{DropoutSite, RecordMasks};

/// A transformer's architecture with its layout.
pub(super) struct Transformer {
    config: TransformerConfig,
    layout: Layout,
    adapter: Option<Lora>,
}

/// The values that one layer's backward pass needs.
struct LayerTrace {
    attention_before: Option<NormTrace>,
    attention_input: Vec<f64>,
    head_norms: Option<[NormTrace; 2]>,
    attention: AttentionTrace,
    attention_output: Vec<f64>,
    attention_after: Option<NormTrace>,
    feed_forward_before: Option<NormTrace>,
    feed_forward_input: Vec<f64>,
    inner: Vec<f64>,
    activated: Vec<f64>,
    feed_forward_after: Option<NormTrace>,
}

struct Trace {
    embedding_norm: Option<NormTrace>,
    layers: Vec<LayerTrace>,
    final_norm: Option<NormTrace>,
    head: HeadTrace,
    logits: Vec<f64>,
}

impl Network for Transformer {
    fn adapt(&mut self, adapter: Lora) -> Result<()> {
        match self.adapter.replace(adapter) {
            None => Ok(()),
            Some(_) => Err(Error::Unsuitable(
                "this model has an adapter already".into(),
            )),
        }
    }

    fn logits(&self, weights: &[Vec<f64>], sequence: &Sequence<'_>) -> Vec<f64> {
        self.pass(weights, sequence).forward(sequence).logits
    }

    fn gradient(
        &self,
        weights: &[Vec<f64>],
        sequence: &Sequence<'_>,
        slope: &dyn Fn(&[f64]) -> Vec<f64>,
    ) -> Vec<Vec<f64>> {
        let pass = self.pass(weights, sequence);
        let trace = pass.forward(sequence);
        let d_logits = slope(&trace.logits);
        let mut gradient: Vec<Vec<f64>> = weights.iter().map(|w| vec![0.0; w.len()]).collect();
        pass.backward(sequence, &trace, d_logits, &mut gradient);
        gradient
    }
}

impl Transformer {
    pub(super) fn new(config: TransformerConfig) -> Self {
        let layout = config.layout();
        Self {
            config,
            layout,
            adapter: None,
        }
    }

    fn pass<'a>(&'a self, w: &'a [Vec<f64>], sequence: &Sequence<'a>) -> Pass<'a> {
        Pass {
            masks: sequence.masks,
            c: &self.config,
            layout: &self.layout,
            adapter: self.adapter.as_ref(),
            w,
        }
    }
}

const EMBEDDING: DropoutSite = DropoutSite::Embedding { segment: 0 };

/// Returns the dropout places of a layer's attention and feed-forward part.
fn blocks(layer: usize) -> [DropoutSite; 2] {
    [0, 1].map(|part| DropoutSite::Block {
        number: 2 * layer + part,
    })
}

/// One sequence's pass through the model.
pub(super) struct Pass<'a> {
    pub(super) c: &'a TransformerConfig,
    pub(super) layout: &'a Layout,
    adapter: Option<&'a Lora>,
    pub(super) w: &'a [Vec<f64>],
    masks: Option<&'a RecordMasks>,
}

impl Pass<'_> {
    fn forward(&self, sequence: &Sequence<'_>) -> Trace {
        let x = self.embed(sequence);
        let (mut x, embedding_norm) = self.norm(self.layout.embedding_norm, x);
        drop_out(self.masks, EMBEDDING, &mut x);
        let mut layers = Vec::with_capacity(self.layout.layers.len());
        for (index, at) in self.layout.layers.iter().enumerate() {
            let (next, trace) = self.layer(index, at, x);
            x = next;
            layers.push(trace);
        }
        let (x, final_norm) = self.norm(self.layout.final_norm, x);
        let (logits, head) = self.head(x, sequence.tokens);
        Trace {
            embedding_norm,
            layers,
            final_norm,
            head,
            logits,
        }
    }

    fn backward(
        &self,
        sequence: &Sequence<'_>,
        trace: &Trace,
        d_logits: Vec<f64>,
        gradient: &mut [Vec<f64>],
    ) {
        let d = self.head_backward(
            &trace.head,
            &trace.logits,
            d_logits,
            sequence.tokens.len(),
            gradient,
        );
        let mut d = self.norm_backward(self.layout.final_norm, &trace.final_norm, d, gradient);
        for (index, at) in self.layout.layers.iter().enumerate().rev() {
            d = self.layer_backward(index, at, &trace.layers[index], d, gradient);
        }
        drop_out(self.masks, EMBEDDING, &mut d);
        let d = self.norm_backward(
            self.layout.embedding_norm,
            &trace.embedding_norm,
            d,
            gradient,
        );
        self.embed_backward(sequence, &d, gradient);
    }

    /// Multiplies the output of a layer's part, or its gradient, by the residual multiplier.
    fn multiply(&self, y: &mut [f64]) {
        let multiplier = self.c.switches.multipliers.residual;
        y.iter_mut().for_each(|y| *y *= multiplier);
    }

    /// Returns the embedding tables with the rows taken from them and the factor of these rows.
    fn tables(&self, sequence: &Sequence<'_>) -> Vec<(usize, Vec<usize>, f64)> {
        let rows = |ids: &[u32]| ids.iter().map(|i| *i as usize).collect::<Vec<_>>();
        let tokens = (
            self.layout.token_embedding,
            rows(sequence.tokens),
            self.c.embedding_scale(),
        );
        let mut tables = vec![tokens];
        if let Some(table) = self.layout.position_embedding {
            let offset = self.c.switches.position_offset;
            let places = self.c.position_rows(sequence.tokens).into_iter();
            tables.push((table, places.map(|row| row + offset).collect(), 1.0));
        }
        if let Some(table) = self.layout.token_type_embedding {
            let types = if sequence.token_types.is_empty() {
                vec![0; sequence.tokens.len()]
            } else {
                rows(sequence.token_types)
            };
            tables.push((table, types, 1.0));
        }
        tables
    }

    fn embed(&self, sequence: &Sequence<'_>) -> Vec<f64> {
        let d = self.c.width;
        let mut x = vec![0.0; sequence.tokens.len() * d];
        for (table, rows, scale) in self.tables(sequence) {
            for (x, row) in x.chunks_exact_mut(d).zip(rows) {
                for (x, w) in x.iter_mut().zip(&self.w[table][row * d..]) {
                    *x += scale * w;
                }
            }
        }
        x
    }

    fn embed_backward(&self, sequence: &Sequence<'_>, d_x: &[f64], gradient: &mut [Vec<f64>]) {
        let d = self.c.width;
        for (table, rows, scale) in self.tables(sequence) {
            for (d_x, row) in d_x.chunks_exact(d).zip(rows) {
                for (sum, d_x) in gradient[table][row * d..].iter_mut().zip(d_x) {
                    *sum += scale * d_x;
                }
            }
        }
    }

    pub(super) fn linear(&self, at: LinearAt, x: &[f64], inputs: usize) -> Vec<f64> {
        let w = &self.w[at.weight];
        let mut y = product(x, w, inputs, w.len() / inputs);
        if let Some(bias) = at.bias {
            add_to_rows(&self.w[bias], &mut y);
        }
        let width = w.len() / inputs;
        for (module, a, b) in self.adapted(at.weight) {
            let low = product(x, &self.w[a], inputs, self.w[a].len() / inputs);
            let added = product(&low, &self.w[b], self.w[a].len() / inputs, module.columns);
            for (y, added) in y
                .chunks_exact_mut(width)
                .zip(added.chunks_exact(module.columns))
            {
                for (y, x) in y[module.offset..].iter_mut().zip(added) {
                    *y += self.scale() * x;
                }
            }
        }
        y
    }

    /// Returns the adapted parts of a weight, with the indices of A and B after the model's own weights.
    fn adapted(&self, weight: usize) -> Vec<(&LoraModule, usize, usize)> {
        let modules = self.adapter.map_or(&[][..], Lora::modules);
        let first = self.w.len() - 2 * modules.len();
        let all = modules.iter().enumerate();
        all.filter(|(_, module)| module.weight == weight)
            .map(|(k, module)| (module, first + 2 * k, first + 2 * k + 1))
            .collect()
    }

    fn scale(&self) -> f64 {
        self.adapter.map_or(1.0, Lora::scale)
    }

    pub(super) fn linear_backward(
        &self,
        at: LinearAt,
        x: &[f64],
        d_y: &[f64],
        inputs: usize,
        gradient: &mut [Vec<f64>],
    ) -> Vec<f64> {
        let w = &self.w[at.weight];
        let outputs = w.len() / inputs;
        add_outer(x, d_y, inputs, outputs, &mut gradient[at.weight]);
        if let Some(bias) = at.bias {
            add_rows(d_y, &mut gradient[bias]);
        }
        let mut d_x = product_transposed(d_y, w, outputs);
        for (module, a, b) in self.adapted(at.weight) {
            let rank = self.w[a].len() / inputs;
            let low = product(x, &self.w[a], inputs, rank);
            let rows = d_y.chunks_exact(outputs);
            let cut = rows.flat_map(|row| &row[module.offset..module.offset + module.columns]);
            let d_added: Vec<f64> = cut.map(|d| self.scale() * d).collect();
            add_outer(&low, &d_added, rank, module.columns, &mut gradient[b]);
            let d_low = product_transposed(&d_added, &self.w[b], module.columns);
            add_outer(x, &d_low, inputs, rank, &mut gradient[a]);
            add(&product_transposed(&d_low, &self.w[a], rank), &mut d_x);
        }
        d_x
    }

    /// Applies the norm, or returns the input if there is none.
    pub(super) fn norm(&self, at: Option<NormAt>, x: Vec<f64>) -> (Vec<f64>, Option<NormTrace>) {
        let Some(at) = at else { return (x, None) };
        let bias = at.bias.map(|b| self.w[b].as_slice());
        let (kind, epsilon) = (self.c.norm_kind(), self.c.norm_epsilon);
        let (y, trace) = norm::forward(kind, &x, &self.w[at.gain], bias, epsilon);
        (y, Some(trace))
    }

    pub(super) fn norm_backward(
        &self,
        at: Option<NormAt>,
        trace: &Option<NormTrace>,
        d_y: Vec<f64>,
        gradient: &mut [Vec<f64>],
    ) -> Vec<f64> {
        let (Some(at), Some(trace)) = (at, trace) else {
            return d_y;
        };
        let gain = &self.w[at.gain];
        let mut d_gain = vec![0.0; gain.len()];
        let d_bias = at.bias.map(|b| gradient[b].as_mut_slice());
        let d_x = norm::backward(self.c.norm_kind(), trace, gain, &d_y, &mut d_gain, d_bias);
        add(&d_gain, &mut gradient[at.gain]);
        d_x
    }

    /// Returns the places of the values of query heads and of key heads in rows of queries, keys and values.
    fn head_places(&self, joined: &[f64]) -> [Vec<usize>; 2] {
        let (query, key) = (self.c.query_width(), self.c.key_value_width());
        let width = query + 2 * key;
        [0..query, query..query + key].map(|columns| {
            let rows = 0..joined.len() / width;
            rows.flat_map(|row| columns.clone().map(move |c| row * width + c))
                .collect()
        })
    }

    /// Normalises every query head and every key head.
    fn norm_heads(&self, at: HeadNormsAt, joined: &mut [f64]) -> [NormTrace; 2] {
        let (kind, epsilon) = (self.c.norm_kind(), self.c.norm_epsilon);
        let [queries, keys] = self.head_places(joined);
        [(at.query, queries), (at.key, keys)].map(|(gain, places)| {
            let heads: Vec<f64> = places.iter().map(|i| joined[*i]).collect();
            let (y, trace) = norm::forward(kind, &heads, &self.w[gain], None, epsilon);
            places.iter().zip(y).for_each(|(i, y)| joined[*i] = y);
            trace
        })
    }

    /// dL/d(joined) of [`Self::norm_heads`].
    fn norm_heads_backward(
        &self,
        at: HeadNormsAt,
        traces: &[NormTrace; 2],
        d: &mut [f64],
        gradient: &mut [Vec<f64>],
    ) {
        let places = self.head_places(d);
        for ((gain, places), trace) in [at.query, at.key].into_iter().zip(places).zip(traces) {
            let d_y: Vec<f64> = places.iter().map(|i| d[*i]).collect();
            let (kind, weights) = (self.c.norm_kind(), &self.w[gain]);
            let d_x = norm::backward(kind, trace, weights, &d_y, &mut gradient[gain], None);
            places.iter().zip(d_x).for_each(|(i, x)| d[*i] = x);
        }
    }

    /// Returns whether an `after` norm is applied to the residual sum instead of the block's output.
    fn after_sum(&self) -> bool {
        match self.c.norm_place() {
            NormPlace::After => true,
            NormPlace::Before | NormPlace::Both | NormPlace::Output => false,
        }
    }

    /// x + after(y), or after(x + y).
    fn join(
        &self,
        at: Option<NormAt>,
        mut x: Vec<f64>,
        y: Vec<f64>,
    ) -> (Vec<f64>, Option<NormTrace>) {
        if self.after_sum() {
            add(&y, &mut x);
            self.norm(at, x)
        } else {
            let (y, trace) = self.norm(at, y);
            add(&y, &mut x);
            (x, trace)
        }
    }

    /// dL/dx and dL/dy of [`Self::join`].
    fn join_backward(
        &self,
        at: Option<NormAt>,
        trace: &Option<NormTrace>,
        d: Vec<f64>,
        gradient: &mut [Vec<f64>],
    ) -> (Vec<f64>, Vec<f64>) {
        if self.after_sum() {
            let d = self.norm_backward(at, trace, d, gradient);
            (d.clone(), d)
        } else {
            (d.clone(), self.norm_backward(at, trace, d, gradient))
        }
    }

    fn layer(&self, index: usize, at: &LayerLayout, x: Vec<f64>) -> (Vec<f64>, LayerTrace) {
        let (d, query) = (self.c.width, self.c.query_width());
        let blocks = blocks(index);
        let attention = Attention {
            config: self.c,
            layer: index,
            masks: self.masks,
        };
        let (attention_input, attention_before) = self.norm(at.attention_before, x.clone());
        let mut joined = self.linear(at.attention_in, &attention_input, d);
        let head_norms = at
            .head_norms
            .map(|heads| self.norm_heads(heads, &mut joined));
        let (attention_output, attention) = attention.forward(joined);
        let mut y = self.linear(at.attention_out, &attention_output, query);
        drop_out(self.masks, blocks[0], &mut y);
        self.multiply(&mut y);
        let input = x.clone();
        let (x, attention_after) = self.join(at.attention_after, x, y);
        let read = match self.c.switches.residual {
            Residual::InTurn => x.clone(),
            Residual::Parallel => input,
            Residual::ParallelOneNorm => attention_input.clone(),
        };
        let (feed_forward_input, feed_forward_before) = self.norm(at.feed_forward_before, read);
        let inner = self.linear(at.feed_forward_in, &feed_forward_input, d);
        let activated = self.activate(&inner);
        let mut y = self.linear(at.feed_forward_out, &activated, self.c.feed_forward);
        drop_out(self.masks, blocks[1], &mut y);
        self.multiply(&mut y);
        let (x, feed_forward_after) = self.join(at.feed_forward_after, x, y);
        let trace = LayerTrace {
            attention_before,
            attention_input,
            head_norms,
            attention,
            attention_output,
            attention_after,
            feed_forward_before,
            feed_forward_input,
            inner,
            activated,
            feed_forward_after,
        };
        (x, trace)
    }

    fn layer_backward(
        &self,
        index: usize,
        at: &LayerLayout,
        trace: &LayerTrace,
        d: Vec<f64>,
        gradient: &mut [Vec<f64>],
    ) -> Vec<f64> {
        let (width, query) = (self.c.width, self.c.query_width());
        let blocks = blocks(index);
        let (mut d_x, mut d_y) = self.join_backward(
            at.feed_forward_after,
            &trace.feed_forward_after,
            d,
            gradient,
        );
        self.multiply(&mut d_y);
        drop_out(self.masks, blocks[1], &mut d_y);
        let inner_width = self.c.feed_forward;
        let d_y = self.linear_backward(
            at.feed_forward_out,
            &trace.activated,
            &d_y,
            inner_width,
            gradient,
        );
        let d_y = self.activate_backward(&trace.inner, &d_y);
        let input = &trace.feed_forward_input;
        let d_y = self.linear_backward(at.feed_forward_in, input, &d_y, width, gradient);
        let before = &trace.feed_forward_before;
        let d_read = self.norm_backward(at.feed_forward_before, before, d_y, gradient);
        let residual = self.c.switches.residual;
        if residual == Residual::InTurn {
            add(&d_read, &mut d_x);
        }
        let (mut d_x, mut d_y) =
            self.join_backward(at.attention_after, &trace.attention_after, d_x, gradient);
        self.multiply(&mut d_y);
        drop_out(self.masks, blocks[0], &mut d_y);
        let output = &trace.attention_output;
        let d_y = self.linear_backward(at.attention_out, output, &d_y, query, gradient);
        let attention = Attention {
            config: self.c,
            layer: index,
            masks: self.masks,
        };
        let mut d_y = attention.backward(&trace.attention, &d_y);
        if let (Some(heads), Some(traces)) = (at.head_norms, &trace.head_norms) {
            self.norm_heads_backward(heads, traces, &mut d_y, gradient);
        }
        let input = &trace.attention_input;
        let mut d_y = self.linear_backward(at.attention_in, input, &d_y, width, gradient);
        match residual {
            Residual::InTurn => {}
            Residual::Parallel => add(&d_read, &mut d_x),
            Residual::ParallelOneNorm => add(&d_read, &mut d_y),
        }
        let before = &trace.attention_before;
        add(
            &self.norm_backward(at.attention_before, before, d_y, gradient),
            &mut d_x,
        );
        d_x
    }

    /// Rows × feed-forward width from the inner layer; gated: activation(gate) ∘ up.
    fn activate(&self, inner: &[f64]) -> Vec<f64> {
        let (act, width) = (self.c.activation, self.c.feed_forward);
        if !self.c.gated() {
            return inner.iter().map(|x| act.value(*x)).collect();
        }
        let rows = inner.chunks_exact(2 * width).map(|row| row.split_at(width));
        rows.flat_map(|(gate, up)| gate.iter().zip(up).map(|(g, u)| act.value(*g) * u))
            .collect()
    }

    fn activate_backward(&self, inner: &[f64], d_y: &[f64]) -> Vec<f64> {
        let (act, width) = (self.c.activation, self.c.feed_forward);
        if !self.c.gated() {
            let pairs = inner.iter().zip(d_y);
            return pairs.map(|(x, d)| d * act.slope(*x)).collect();
        }
        let mut d_inner = Vec::with_capacity(inner.len());
        for (row, d_y) in inner.chunks_exact(2 * width).zip(d_y.chunks_exact(width)) {
            let (gate, up) = row.split_at(width);
            d_inner.extend((0..width).map(|i| d_y[i] * up[i] * act.slope(gate[i])));
            d_inner.extend((0..width).map(|i| d_y[i] * act.value(gate[i])));
        }
        d_inner
    }
}
