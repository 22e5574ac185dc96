//! Selective DP-SGD on an LSTM: one example at a time, segment by segment, gradients in full.
//!
//! Segments follow each other through released states, so an example's segments can't run side
//! by side; examples can. Each holds its own gradient of the sensitive predictions, which is
//! clipped before it is added; ordinary predictions need no clipping.

use super::host::contraction::{add_row_sum, scatter_add, sum_of_squares};
use super::host::layers;
use super::host::product::{add_product_of_few_rows, add_transposed_product, product_transposed};
use super::host::recurrence::{cell, cell_backward};
use super::kernels::{GROUP, GROUPS};
use crate::clip::{Clip, Factors, SquaredNorms};
use crate::error::Result;
use crate::model::LstmConfig;
use crate::segments::{Segment, SelectiveBatch};
use crate::trainer::{Added, ReleaseState};
use rayon::prelude::*;
use reticent_corpus::TokenId;

/// Examples whose gradients are held at once.
const AT_ONCE: usize = 16;

/// The model on plain slices.
pub(super) struct Plain<'a> {
    weights: &'a [Vec<f32>],
    embed: usize,
    width: usize,
    vocabulary: usize,
}

/// What a segment's forward pass keeps, T rows.
struct Trace {
    tokens: Vec<TokenId>,
    /// h before each row, T × H.
    before: Vec<f32>,
    /// c before each row, T × H.
    cell_before: Vec<f32>,
    gates: Vec<f32>,
    cell: Vec<f32>,
    hidden: Vec<f32>,
    d_logits: Vec<f32>,
}

/// One example's gradients, and how many ordinary predictions it has.
struct Gradients {
    ordinary: Vec<Vec<f32>>,
    sensitive: Vec<Vec<f32>>,
    rows: usize,
}

impl<'a> Plain<'a> {
    pub(super) fn new(config: &LstmConfig, weights: &'a [Vec<f32>]) -> Self {
        Self {
            weights,
            embed: config.embedding,
            width: config.hidden,
            vocabulary: config.vocabulary,
        }
    }

    /// Adds clipped sensitive gradients to `accumulator`, and writes the mean ordinary one.
    pub(super) fn add(
        &self,
        batch: &SelectiveBatch<'_>,
        clip: &Clip,
        release: &ReleaseState<'_>,
        ordinary: &mut [Vec<f32>],
        accumulator: &mut [Vec<f32>],
    ) -> Result<Added> {
        let (mut added, mut rows) = (Added::default(), 0);
        for (part, examples) in batch.0.chunks(AT_ONCE).enumerate() {
            let gradients: Vec<Gradients> = examples
                .par_iter()
                .enumerate()
                .map(|(i, (tokens, segments))| {
                    self.example(part * AT_ONCE + i, tokens, segments, release)
                })
                .collect();
            let norms = gradients.iter().flat_map(|g| group_norms(&g.sensitive));
            let norms = SquaredNorms::new(GROUPS, norms.collect())?;
            let factors = clip.factors(&norms);
            for (example, own) in gradients.iter().enumerate() {
                add_scaled(ordinary, &own.ordinary, |_| 1.0);
                rows += own.rows;
                if norms.finite(example) {
                    add_scaled(accumulator, &own.sensitive, |p| {
                        factors.of(example, GROUP[p])
                    });
                }
            }
            count(&mut added, &norms, &factors);
        }
        let mean = 1.0 / rows.max(1) as f32;
        ordinary.iter_mut().flatten().for_each(|x| *x *= mean);
        Ok(added)
    }

    fn example(
        &self,
        number: usize,
        tokens: &[TokenId],
        segments: &[Segment],
        release: &ReleaseState<'_>,
    ) -> Gradients {
        let zeros = || self.weights.iter().map(|w| vec![0.0; w.len()]).collect();
        let mut out = Gradients {
            ordinary: zeros(),
            sensitive: zeros(),
            rows: 0,
        };
        let (mut h, mut c) = (vec![0.0; self.width], vec![0.0; self.width]);
        for (place, segment) in segments.iter().enumerate() {
            let trace = self.forward(tokens, segment, &h, &c);
            let end = trace.hidden.len() - self.width;
            h.copy_from_slice(&trace.hidden[end..]);
            c.copy_from_slice(&trace.cell[end..]);
            if segment.sensitive {
                self.backward(&trace, &mut out.sensitive);
                if place + 1 < segments.len() {
                    release(number, place, &mut h, &mut c);
                }
            } else {
                self.backward(&trace, &mut out.ordinary);
                out.rows += segment.rows.len();
            }
        }
        out
    }

    /// A segment from a given state.
    fn forward(&self, tokens: &[TokenId], segment: &Segment, h: &[f32], c: &[f32]) -> Trace {
        let (width, rows) = (self.width, segment.rows.len());
        let [embedding, input, recurrent, bias, head, head_bias] = self.weights else {
            unreachable!("an LSTM has six parameters")
        };
        let read = tokens[segment.rows.clone()].to_vec();
        let asked = &tokens[segment.rows.start + 1..=segment.rows.end];
        let x = layers::lookup(embedding, &read, self.embed);
        let mut trace = Trace {
            gates: layers::linear(&x, input, bias, self.embed),
            before: h.to_vec(),
            cell_before: c.to_vec(),
            cell: vec![0.0; rows * width],
            hidden: vec![0.0; rows * width],
            d_logits: Vec::new(),
            tokens: read,
        };
        trace.before.resize(rows * width, 0.0);
        trace.cell_before.resize(rows * width, 0.0);
        for row in 0..rows {
            let (here, gates) = (row * width..(row + 1) * width, 4 * width);
            let z = &mut trace.gates[row * gates..(row + 1) * gates];
            let old = &trace.before[here.clone()];
            add_product_of_few_rows(old, recurrent, z, (1, width, gates));
            let (c, h) = (
                &mut trace.cell[here.clone()],
                &mut trace.hidden[here.clone()],
            );
            cell(z, Some(&trace.cell_before[here]), c, h);
            if row + 1 < rows {
                let next = (row + 1) * width..(row + 2) * width;
                trace.before[next.clone()].copy_from_slice(h);
                trace.cell_before[next].copy_from_slice(c);
            }
        }
        let mut logits = layers::linear(&trace.hidden, head, head_bias, width);
        layers::cross_entropy(&mut logits, asked, self.vocabulary);
        trace.d_logits = logits;
        trace
    }

    /// gradient += that of the segment's summed loss; none flows into the state it began with.
    fn backward(&self, trace: &Trace, gradient: &mut [Vec<f32>]) {
        let (width, gates, rows) = (self.width, 4 * self.width, trace.tokens.len());
        let [embedding, input, recurrent, _, head, _] = self.weights else {
            unreachable!("an LSTM has six parameters")
        };
        let mut d_hidden = layers::linear_backward(&trace.d_logits, head, width, self.vocabulary);
        let mut d_gates = vec![0.0; rows * gates];
        let mut d_cell = vec![0.0; width];
        for row in (0..rows).rev() {
            let here = row * width..(row + 1) * width;
            if row + 1 < rows {
                let mut back = vec![0.0; width];
                let after = &d_gates[(row + 1) * gates..(row + 2) * gates];
                product_transposed(after, recurrent, &mut back, (1, gates, width));
                let d = d_hidden[here.clone()].iter_mut();
                d.zip(back).for_each(|(d, b)| *d += b);
            }
            cell_backward(
                &trace.gates[row * gates..(row + 1) * gates],
                &trace.cell[here.clone()],
                Some(&trace.cell_before[here.clone()]),
                &d_hidden[here],
                &mut d_cell,
                &mut d_gates[row * gates..(row + 1) * gates],
            );
        }
        let x = layers::lookup(embedding, &trace.tokens, self.embed);
        let d_x = layers::linear_backward(&d_gates, input, self.embed, gates);
        let [
            d_embedding,
            d_input,
            d_recurrent,
            d_bias,
            d_head,
            d_head_bias,
        ] = gradient
        else {
            unreachable!("an LSTM has six parameters")
        };
        scatter_add(&d_x, &trace.tokens, d_embedding, self.embed);
        add_transposed_product(&x, &d_gates, d_input, (rows, self.embed, gates));
        add_transposed_product(&trace.before, &d_gates, d_recurrent, (rows, width, gates));
        add_row_sum(&d_gates, d_bias);
        let head = (rows, width, self.vocabulary);
        add_transposed_product(&trace.hidden, &trace.d_logits, d_head, head);
        add_row_sum(&trace.d_logits, d_head_bias);
    }
}

/// ‖g_l‖² of each clipping group.
fn group_norms(gradient: &[Vec<f32>]) -> [f64; GROUPS] {
    let mut norms = [0.0; GROUPS];
    for (parameter, group) in gradient.iter().zip(GROUP) {
        norms[group] += sum_of_squares(parameter);
    }
    norms
}

fn add_scaled(sum: &mut [Vec<f32>], own: &[Vec<f32>], factor: impl Fn(usize) -> f32) {
    for (parameter, (sum, own)) in sum.iter_mut().zip(own).enumerate() {
        let factor = factor(parameter);
        sum.iter_mut().zip(own).for_each(|(s, x)| *s += factor * x);
    }
}

fn count(added: &mut Added, norms: &SquaredNorms, factors: &Factors) {
    added.examples += norms.examples();
    added.rejected += norms.rejected();
    added.clipped += factors.clipped() - norms.rejected();
}
