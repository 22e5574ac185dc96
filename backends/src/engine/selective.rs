//! Selective DP-SGD on an LSTM: the states segment by segment, everything else over whole batches.
//!
//! Consecutive segments of an example are connected by released states; examples are independent. Only the recurrence
//! needs that order: head, norms and sums run over all rows of a part of the batch at once. There ordinary rows come
//! before sensitive ones, so that the ordinary gradient is a sum over rows whose number and order do not depend on
//! sensitive content.

use super::host::contraction::{
    InputWeight, LstmRows, add_rows, add_weight_sum, lstm_norms, scatter_add,
};
use super::host::layers;
use super::host::product::{add_product_of_few_rows, product_transposed};
use super::host::recurrence::{cell, cell_backward};
use super::kernels::{GROUP, GROUPS};
use super::packed::factors;
use crate::error::Result;
use crate::model::LstmConfig;
use crate::privacy::clip::{Clip, Factors, SquaredNorms};
use crate::privacy::segments::{Segment, SelectiveBatch};
use crate::trainer::dropout::{DropoutSite, Masks};
use crate::trainer::{Added, ReleaseState};
use rayon::prelude::*;
use reticent_corpus::TokenId;
use std::ops::Range;

mod places;
use places::Places;

/// Examples per part of a batch. The limit counts examples and not rows, because the end of a part, and with it the
/// rounding of sums, must not depend on the length of sensitive content.
const AT_ONCE: usize = 16;

/// The model as plain slices.
pub(super) struct Plain<'a> {
    weights: &'a [Vec<f32>],
    embed: usize,
    width: usize,
    vocabulary: usize,
    masks: Option<&'a Masks>,
}

type Example<'a> = (&'a [TokenId], &'a [Segment]);

/// The values that an example's forward pass keeps, T rows in time order.
struct Trace {
    /// h before each row, T × H.
    before: Vec<f32>,
    /// c before each row, T × H.
    cell_before: Vec<f32>,
    gates: Vec<f32>,
    cell: Vec<f32>,
    hidden: Vec<f32>,
    dropped: Dropped,
}

/// The dropout factors of an example's rows, if values are dropped.
#[derive(Default)]
struct Dropped {
    /// Embedded tokens, T × E.
    inputs: Option<Vec<f32>>,
    /// The input of the head, T × H.
    outputs: Option<Vec<f32>>,
}

/// The values of a part of a batch from which gradients are computed, row by row.
struct Rows {
    tokens: Vec<TokenId>,
    /// Embedded tokens after dropout, N × E.
    x: Vec<f32>,
    /// The dropout factors of the embedded tokens.
    factors: Option<Vec<f32>>,
    /// h before each row, N × H.
    before: Vec<f32>,
    /// The input of the head, N × H.
    read: Vec<f32>,
    d_gates: Vec<f32>,
    d_logits: Vec<f32>,
}

impl<'a> Plain<'a> {
    pub(super) fn new(
        config: &LstmConfig,
        weights: &'a [Vec<f32>],
        masks: Option<&'a Masks>,
    ) -> Self {
        Self {
            weights,
            masks,
            embed: config.embedding,
            width: config.hidden,
            vocabulary: config.vocabulary,
        }
    }

    /// Adds clipped sensitive gradients to `accumulator`, and writes the mean ordinary gradient.
    pub(super) fn add(
        &self,
        batch: &SelectiveBatch<'_>,
        clip: &Clip,
        release: &ReleaseState<'_>,
        ordinary: &mut [Vec<f32>],
        accumulator: &mut [Vec<f32>],
    ) -> Result<Added> {
        let (mut added, mut predictions) = (Added::default(), 0);
        let input = InputWeight::new(&self.weights[1]);
        for (part, examples) in batch.0.chunks(AT_ONCE).enumerate() {
            let places = Places::of(examples);
            let traces: Vec<Trace> = examples
                .par_iter()
                .enumerate()
                .map(|(i, example)| {
                    let number = part * AT_ONCE + i;
                    let dropped = self.dropped(batch.1[number], example.1);
                    self.forward(number, *example, dropped, release)
                })
                .collect();
            let mut rows = self.backward(examples, &traces, &places);
            let norms: Vec<[f64; GROUPS]> = places
                .sensitive
                .par_iter()
                .map(|own| self.norms(&rows, own.clone(), &input))
                .collect();
            let norms = SquaredNorms::new(GROUPS, norms.concat())?;
            let factors = clip.factors(&norms);
            for (example, own) in places.sensitive.iter().enumerate() {
                if !norms.finite(example) {
                    // zero times infinity would not be zero
                    self.silence(&mut rows, own.clone());
                }
            }
            let by_row = |group: usize| -> Vec<f32> {
                let examples = places.sensitive.iter().enumerate();
                examples
                    .flat_map(|(e, own)| std::iter::repeat_n(factors.of(e, group), own.len()))
                    .collect()
            };
            let factors_by_row: [Vec<f32>; GROUPS] = std::array::from_fn(by_row);
            let all = places.ordinary..places.rows;
            self.sum(&rows, all, Some(&factors_by_row), accumulator);
            self.sum(&rows, 0..places.ordinary, None, ordinary);
            predictions += places.ordinary;
            count(&mut added, &norms, &factors);
        }
        let mean = 1.0 / predictions.max(1) as f32;
        ordinary.iter_mut().flatten().for_each(|x| *x *= mean);
        Ok(added)
    }

    /// Returns the dropout factors of a record. Each segment has its own mask, so that the length of a sensitive
    /// segment changes nothing in later segments.
    fn dropped(&self, record: u32, segments: &[Segment]) -> Dropped {
        let Some(masks) = self.masks.map(|m| m.of(record, 0)) else {
            return Dropped::default();
        };
        let all = |place: fn(usize) -> DropoutSite, width: usize| -> Option<Vec<f32>> {
            let each = segments.iter().enumerate();
            let own = each.map(|(i, s)| factors(&masks, place(i), s.rows.len() * width));
            own.collect::<Option<Vec<_>>>().map(|own| own.concat())
        };
        Dropped {
            inputs: all(|segment| DropoutSite::Embedding { segment }, self.embed),
            outputs: all(|segment| DropoutSite::Output { segment }, self.width),
        }
    }

    /// Computes an example's states, segment by segment.
    fn forward(
        &self,
        number: usize,
        (tokens, segments): Example<'_>,
        dropped: Dropped,
        release: &ReleaseState<'_>,
    ) -> Trace {
        let (width, rows) = (self.width, tokens.len().saturating_sub(1));
        let [embedding, input, recurrent, bias, ..] = self.weights else {
            unreachable!("an LSTM has six parameters")
        };
        let mut x = layers::lookup(embedding, &tokens[..rows], self.embed);
        multiply(&mut x, dropped.inputs.as_deref());
        let zeros = || vec![0.0; rows * width];
        let mut trace = Trace {
            gates: layers::linear(&x, input, bias, self.embed),
            before: zeros(),
            cell_before: zeros(),
            cell: zeros(),
            hidden: zeros(),
            dropped,
        };
        let (mut h, mut c) = (vec![0.0; width], vec![0.0; width]);
        for (place, segment) in segments.iter().enumerate() {
            for row in segment.rows.clone() {
                let (here, gates) = (row * width..(row + 1) * width, 4 * width);
                trace.before[here.clone()].copy_from_slice(&h);
                trace.cell_before[here.clone()].copy_from_slice(&c);
                let z = &mut trace.gates[row * gates..(row + 1) * gates];
                add_product_of_few_rows(&h, recurrent, z, (1, width, gates));
                let (new_c, new_h) = (
                    &mut trace.cell[here.clone()],
                    &mut trace.hidden[here.clone()],
                );
                cell(z, Some(&trace.cell_before[here]), new_c, new_h);
                h.copy_from_slice(new_h);
                c.copy_from_slice(new_c);
            }
            if segment.sensitive && place + 1 < segments.len() {
                release(number, place, &mut h, &mut c);
            }
        }
        trace
    }

    /// Computes the gradients of all rows; none flows into the initial state of a segment.
    fn backward(&self, examples: &[Example<'_>], traces: &[Trace], places: &Places) -> Rows {
        let (width, gates) = (self.width, 4 * self.width);
        let [embedding, _, recurrent, _, head, head_bias] = self.weights else {
            unreachable!("an LSTM has six parameters")
        };
        let ends = |(t, _): &Example<'_>| t.len().saturating_sub(1);
        let read: Vec<&[TokenId]> = examples.iter().map(|e| &e.0[..ends(e)]).collect();
        let targets: Vec<&[TokenId]> = examples.iter().map(|e| &e.0[1.min(e.0.len())..]).collect();
        let joined = |of: fn(&Trace) -> &[f32]| {
            let in_time: Vec<&[f32]> = traces.iter().map(of).collect();
            places.gathered(examples, width, &in_time)
        };
        let masks = |of: fn(&Trace) -> Option<&[f32]>, width: usize| {
            let in_time: Option<Vec<&[f32]>> = traces.iter().map(of).collect();
            in_time.map(|in_time| places.gathered(examples, width, &in_time))
        };
        let factors = masks(|t| t.dropped.inputs.as_deref(), self.embed);
        let of_outputs = masks(|t| t.dropped.outputs.as_deref(), width);
        let mut hidden = joined(|t| &t.hidden);
        multiply(&mut hidden, of_outputs.as_deref());
        let tokens = places.gathered(examples, 1, &read);
        let mut d_logits = layers::linear(&hidden, head, head_bias, width);
        let targets = places.gathered(examples, 1, &targets);
        layers::cross_entropy(&mut d_logits, &targets, self.vocabulary);
        let mut d_hidden = layers::linear_backward(&d_logits, head, width, self.vocabulary);
        multiply(&mut d_hidden, of_outputs.as_deref());
        let mut d_gates = vec![0.0; places.rows * gates];
        let found: Vec<Vec<(usize, Vec<f32>)>> = traces
            .par_iter()
            .zip(examples)
            .zip(&places.segments)
            .map(|((trace, (_, segments)), places)| {
                let each = segments.iter().zip(places).map(|(segment, &first)| {
                    let d_hidden = part(&d_hidden, &(first..first + segment.rows.len()), width);
                    let d = segment_backward(trace, &segment.rows, d_hidden, recurrent);
                    (first, d)
                });
                each.collect()
            })
            .collect();
        for (first, d) in found.into_iter().flatten() {
            d_gates[first * gates..][..d.len()].copy_from_slice(&d);
        }
        let mut x = layers::lookup(embedding, &tokens, self.embed);
        multiply(&mut x, factors.as_deref());
        Rows {
            x,
            factors,
            before: joined(|t| &t.before),
            tokens,
            read: hidden,
            d_gates,
            d_logits,
        }
    }

    /// Returns ‖g_l‖² of each clipping group, over the rows of one example.
    fn norms(&self, rows: &Rows, own: Range<usize>, input: &InputWeight<'_>) -> [f64; GROUPS] {
        let (e, h, v) = (self.embed, self.width, self.vocabulary);
        let own_rows = LstmRows {
            tokens: &rows.tokens[own.clone()],
            x: part(&rows.x, &own, e),
            factors: rows.factors.as_ref().map(|f| part(f, &own, e)),
            before: part(&rows.before, &own, h),
            read: part(&rows.read, &own, h),
            d_gates: part(&rows.d_gates, &own, 4 * h),
            d_logits: part(&rows.d_logits, &own, v),
        };
        lstm_norms(&own_rows, input, (e, h, v))
    }

    /// Zeroes the rows of an example that contributes nothing.
    fn silence(&self, rows: &mut Rows, own: Range<usize>) {
        for (values, width) in [
            (&mut rows.x, self.embed),
            (&mut rows.before, self.width),
            (&mut rows.read, self.width),
            (&mut rows.d_gates, 4 * self.width),
            (&mut rows.d_logits, self.vocabulary),
        ] {
            values[own.start * width..own.end * width].fill(0.0);
        }
    }

    /// gradient += Σ over these rows, each multiplied by the factor of its example.
    fn sum(
        &self,
        rows: &Rows,
        own: Range<usize>,
        factors: Option<&[Vec<f32>; GROUPS]>,
        gradient: &mut [Vec<f32>],
    ) {
        let (n, e, h, v) = (own.len(), self.embed, self.width, self.vocabulary);
        if n == 0 {
            return;
        }
        let (x, before) = (part(&rows.x, &own, e), part(&rows.before, &own, h));
        let (read, d_gates) = (part(&rows.read, &own, h), part(&rows.d_gates, &own, 4 * h));
        let d_logits = part(&rows.d_logits, &own, v);
        let of = |parameter: usize| factors.map(|f| f[GROUP[parameter]].as_slice());
        let mut d_x = layers::linear_backward(d_gates, &self.weights[1], e, 4 * h);
        multiply(&mut d_x, rows.factors.as_ref().map(|f| part(f, &own, e)));
        if let Some(factors) = of(0) {
            let lines = d_x.chunks_exact_mut(e).zip(factors);
            lines.for_each(|(line, f)| line.iter_mut().for_each(|d| *d *= f));
        }
        scatter_add(&d_x, &rows.tokens[own.clone()], &mut gradient[0], e);
        add_weight_sum(x, of(1), d_gates, &mut gradient[1], (n, e, 4 * h));
        add_weight_sum(before, of(2), d_gates, &mut gradient[2], (n, h, 4 * h));
        add_rows(None, d_gates, of(3), &mut gradient[3]);
        add_weight_sum(read, of(4), d_logits, &mut gradient[4], (n, h, v));
        add_rows(None, d_logits, of(5), &mut gradient[5]);
    }
}

/// x ← x ∘ factors, if there are any.
fn multiply(x: &mut [f32], factors: Option<&[f32]>) {
    if let Some(factors) = factors {
        x.iter_mut().zip(factors).for_each(|(x, f)| *x *= f);
    }
}

/// Returns some of the rows of `width` values.
fn part<'a>(values: &'a [f32], rows: &Range<usize>, width: usize) -> &'a [f32] {
    &values[rows.start * width..rows.end * width]
}

/// Computes dL/dz of the rows of a segment, from dL/dh.
fn segment_backward(
    trace: &Trace,
    rows: &Range<usize>,
    d_hidden: &[f32],
    recurrent: &[f32],
) -> Vec<f32> {
    let width = d_hidden.len() / rows.len().max(1);
    let gates = 4 * width;
    let mut d_gates = vec![0.0; rows.len() * gates];
    let mut d_cell = vec![0.0; width];
    for (own, row) in rows.clone().enumerate().rev() {
        let here = row * width..(row + 1) * width;
        let mut d = d_hidden[own * width..(own + 1) * width].to_vec();
        if own + 1 < rows.len() {
            let mut back = vec![0.0; width];
            let after = &d_gates[(own + 1) * gates..(own + 2) * gates];
            product_transposed(after, recurrent, &mut back, (1, gates, width));
            d.iter_mut().zip(back).for_each(|(d, b)| *d += b);
        }
        cell_backward(
            &trace.gates[row * gates..(row + 1) * gates],
            &trace.cell[here.clone()],
            Some(&trace.cell_before[here]),
            &d,
            &mut d_cell,
            &mut d_gates[own * gates..(own + 1) * gates],
        );
    }
    d_gates
}

fn count(added: &mut Added, norms: &SquaredNorms, factors: &Factors) {
    added.examples += norms.examples();
    added.rejected += norms.rejected();
    added.clipped += factors.clipped() - norms.rejected();
}
