//! Transformer layers on the processor: plain slices, rows without padding.

mod measure;

use super::flex::Values;
use super::host::attention::{self, Attention};
use super::host::contraction::add_rows;
use super::host::examples::{
    Lengths, Tied, Way, bias_norm, gain_norm, gram_norm, instantiated, instantiated_norm,
    table_norm,
};
use super::host::feed_forward;
use super::host::gemm::{Store, View, product, weighted_product};
use super::host::head;
use super::host::vector::{self, row_lengths};
use super::layers::{
    Attended, Ends, Factors, HeadGradient, HeadRun, HeadWeights, Layers, Losses, Matrix,
    Nonlinearity, NormWeights, Normalised, Norms, Sums, Tape,
};
use super::rows::{Rows, Span, spread};
use crate::trainer::{Parameter, Precision};
use burn::tensor::{Tensor, TensorData, TensorPrimitive};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;
use reticent_corpus::TokenId;

/// Most values of logits at a time if they need not be kept.
const HEAD_VALUES: usize = 1 << 25;
/// Values of per-example gradients that may be kept for the sum (256 MiB).
const KEPT_VALUES: usize = 1 << 26;
/// Rows per parallel block of copies.
const ROWS: usize = 64;

/// The processor's kernels.
pub(crate) struct Processor;

/// Returns a matrix of these values.
pub(crate) fn matrix(values: Vec<f32>, columns: usize) -> Matrix<Flex> {
    let rows = values.len() / columns.max(1);
    let data = TensorData::new(values, [rows, columns]);
    Tensor::from_primitive(TensorPrimitive::Float(FlexTensor::from_data(data)))
}

/// The head's matrix as d × V.
fn head_view<'a>(values: &'a Values, head: &HeadWeights<Flex>) -> View<'a> {
    let view = View::new(values.slice(), head.matrix.dims()[1]);
    if head.tied { view.transposed() } else { view }
}

fn vocabulary(head: &HeadWeights<Flex>) -> usize {
    head.matrix.dims()[usize::from(!head.tied)]
}

impl Layers<Flex> for Processor {
    const GRID: bool = false;

    // own kernels on plain slices of f32
    fn computes_in(precision: Precision, _: &burn_flex::FlexDevice) -> bool {
        precision == Precision::Single
    }

    fn zeros(parameters: &[Parameter], _: &burn_flex::FlexDevice) -> Sums<Flex> {
        Sums::Host(parameters.iter().map(|p| vec![0.0; p.len()]).collect())
    }

    fn embed(
        (token, position): (&Matrix<Flex>, Option<&Matrix<Flex>>),
        scale: f32,
        offset: u32,
        rows: &Rows,
    ) -> Matrix<Flex> {
        let d = token.dims()[1];
        let (token, position) = (Values::of(token), position.map(Values::of));
        let (token, position) = (token.slice(), position.as_ref().map(Values::slice));
        let mut out = vec![0.0f32; rows.len() * d];
        let lines = out.par_chunks_exact_mut(d).zip(&rows.inputs);
        lines
            .zip(&rows.positions)
            .for_each(|((out, token_id), at)| {
                let line = &token[*token_id as usize * d..][..d];
                out.iter_mut().zip(line).for_each(|(o, x)| *o = scale * x);
                if let Some(position) = position {
                    let line = &position[(*at + offset) as usize * d..][..d];
                    out.iter_mut().zip(line).for_each(|(o, x)| *o += x);
                }
            });
        matrix(out, d)
    }

    fn linear(
        x: &Matrix<Flex>,
        w: &Matrix<Flex>,
        b: Option<&Matrix<Flex>>,
        _: Precision,
    ) -> Matrix<Flex> {
        let ([n, d], [_, p]) = (x.dims(), w.dims());
        let mut out = vec![0.0; n * p];
        let (x, w) = (Values::of(x), Values::of(w));
        let mut store = Store::Set;
        if let Some(b) = b {
            let b = Values::of(b);
            out.par_chunks_mut(ROWS * p).for_each(|rows| {
                rows.chunks_exact_mut(p)
                    .for_each(|row| row.copy_from_slice(b.slice()));
            });
            store = Store::Add;
        }
        product(
            View::new(x.slice(), d),
            View::new(w.slice(), p),
            &mut out,
            (n, d, p),
            store,
        );
        matrix(out, p)
    }

    fn linear_back(dy: &Matrix<Flex>, w: &Matrix<Flex>, _: Precision) -> Matrix<Flex> {
        let ([n, p], [d, _]) = (dy.dims(), w.dims());
        let mut out = vec![0.0; n * d];
        let (dy, w) = (Values::of(dy), Values::of(w));
        let back = View::new(w.slice(), p).transposed();
        product(
            View::new(dy.slice(), p),
            back,
            &mut out,
            (n, p, d),
            Store::Set,
        );
        matrix(out, d)
    }

    fn logits(hidden: &Matrix<Flex>, head: &HeadWeights<Flex>) -> Matrix<Flex> {
        let [n, d] = hidden.dims();
        let v = vocabulary(head);
        let mut out = vec![0.0; n * v];
        let (h, w) = (Values::of(hidden), Values::of(&head.matrix));
        product(
            View::new(h.slice(), d),
            head_view(&w, head),
            &mut out,
            (n, d, v),
            Store::Set,
        );
        add_bias(&mut out, head);
        if let Some(c) = head.cap {
            head::cap(&mut out, c);
        }
        matrix(out, v)
    }

    fn normalise(x: &Matrix<Flex>, weights: &NormWeights<Flex>) -> Normalised<Flex> {
        let width = x.dims()[1];
        let (x, gain) = (Values::of(x), Values::of(&weights.gain));
        let bias = weights.bias.as_ref().map(Values::of);
        let bias = bias.as_ref().map(Values::slice);
        let out = vector::normalise(x.slice(), gain.slice(), bias, weights.normal);
        Normalised {
            y: matrix(out.y, width),
            unit: matrix(out.unit, width),
            scale: matrix(out.scale, 1),
        }
    }

    fn normalise_back(
        dy: &Matrix<Flex>,
        kept: &Normalised<Flex>,
        weights: &NormWeights<Flex>,
    ) -> Matrix<Flex> {
        let width = dy.dims()[1];
        let (dy, gain) = (Values::of(dy), Values::of(&weights.gain));
        let (unit, scale) = (Values::of(&kept.unit), Values::of(&kept.scale));
        let kept = (unit.slice(), scale.slice());
        matrix(
            vector::normalise_back(dy.slice(), gain.slice(), kept, weights.normal),
            width,
        )
    }

    fn attend(
        joined: &Matrix<Flex>,
        rows: &Rows,
        shape: &Attention,
        _: Precision,
    ) -> Attended<Flex> {
        let (out, normalisers) = attention::forward(Values::of(joined).slice(), rows, shape);
        Attended {
            out: matrix(out, shape.heads * shape.width),
            normalisers: Some(matrix(normalisers, shape.heads)),
        }
    }

    fn attend_back(
        d_out: &Matrix<Flex>,
        joined: &Matrix<Flex>,
        kept: &Attended<Flex>,
        rows: &Rows,
        shape: &Attention,
        _: Precision,
    ) -> Matrix<Flex> {
        let (d_out, joined, out) = (Values::of(d_out), Values::of(joined), Values::of(&kept.out));
        let normalisers = Values::of(
            kept.normalisers
                .as_ref()
                .expect("the forward pass kept them"),
        );
        let kept = (out.slice(), normalisers.slice());
        let d = attention::backward(d_out.slice(), joined.slice(), kept, rows, shape);
        matrix(d, shape.joined())
    }

    fn activate(z: &Matrix<Flex>, shape: Nonlinearity) -> Matrix<Flex> {
        let out = feed_forward::activate(Values::of(z).slice(), shape);
        matrix(out, shape.width)
    }

    fn activate_back(d_out: &Matrix<Flex>, z: &Matrix<Flex>, shape: Nonlinearity) -> Matrix<Flex> {
        let columns = z.dims()[1];
        let (d_out, z) = (Values::of(d_out), Values::of(z));
        let d = feed_forward::activate_back(d_out.slice(), z.slice(), shape);
        matrix(d, columns)
    }

    fn head(
        hidden: &Matrix<Flex>,
        head: &HeadWeights<Flex>,
        targets: &[TokenId],
        _: Precision,
        mut own: HeadGradient<'_, Flex>,
    ) -> HeadRun<Flex> {
        let ([n, d], v) = (hidden.dims(), vocabulary(head));
        let (h, w) = (Values::of(hidden), Values::of(&head.matrix));
        let w = head_view(&w, head);
        let mut nll = Vec::with_capacity(n);
        let mut d_hidden = vec![0.0; n * d];
        let mut deltas = Vec::new();
        let keeps = matches!(own, HeadGradient::Kept);
        let block = if keeps { n } else { HEAD_VALUES / v }.max(1);
        for start in (0..n).step_by(block) {
            let count = (n - start).min(block);
            deltas.resize(count * v, 0.0);
            let h = View::new(h.slice(), d).from(start, 0);
            product(h, w, &mut deltas, (count, d, v), Store::Set);
            add_bias(&mut deltas, head);
            nll.extend(head::loss(
                &mut deltas,
                &targets[start..start + count],
                v,
                head.cap,
            ));
            let delta = View::new(&deltas, v);
            let into = &mut d_hidden[start * d..(start + count) * d];
            product(delta, w.transposed(), into, (count, v, d), Store::Set);
            if let HeadGradient::Added(sums, at, factor) = &mut own {
                let factors = vec![*factor; count];
                if let Some(bias) = at.bias {
                    add_rows(None, &deltas, Some(&factors), sums.host_mut(bias));
                }
                let into = sums.host_mut(at.weight);
                add_head_sum(h, delta, &factors, into, (count, d, v), head.tied);
            }
        }
        HeadRun {
            nll: Losses::Host(nll),
            d_hidden: matrix(d_hidden, d),
            delta: keeps.then(|| matrix(deltas, v)),
        }
    }

    fn norms(tape: &Tape<Flex>, rows: &Rows, parameters: usize) -> Norms<Flex> {
        measure::Measure::new(tape, rows).all(parameters)
    }

    fn add_sums(
        tape: Tape<Flex>,
        norms: Norms<Flex>,
        factors: &Factors,
        rows: &Rows,
        sums: &mut Sums<Flex>,
    ) {
        for (i, tap) in tape.linears.iter().enumerate() {
            let kept = norms.kept.get(i).map_or(&[][..], Vec::as_slice);
            let (a, g) = (Values::of(&tap.input), Values::of(&tap.gradient));
            let (d, p) = (tap.input.dims()[1], tap.gradient.dims()[1]);
            if let Some(bias) = tap.bias {
                let scale = rows.spread(factors.of(bias), 0.0);
                add_rows(None, g.slice(), Some(&scale), sums.host_mut(bias));
            }
            let scale = factors.of(tap.weight);
            let into = sums.host_mut(tap.weight);
            if let Some(scale) = add_kept(kept, scale, (&rows.spans, rows.len()), into) {
                let (a, g) = (
                    View::new(a.slice(), d).transposed(),
                    View::new(g.slice(), p),
                );
                weighted_product(a, Some(&scale), g, into, (d, rows.len(), p), Store::Add);
            }
        }
        for tap in &tape.norms {
            let (unit, g) = (Values::of(&tap.unit), Values::of(&tap.gradient));
            if let Some(bias) = tap.bias {
                let scale = rows.spread(factors.of(bias), 0.0);
                add_rows(None, g.slice(), Some(&scale), sums.host_mut(bias));
            }
            let scale = rows.spread(factors.of(tap.gain), 0.0);
            // Heads that share a gain are rows of it.
            let by_head = scale
                .iter()
                .flat_map(|x| std::iter::repeat_n(*x, tap.heads));
            let by_head: Vec<f32> = by_head.collect();
            add_rows(
                Some(unit.slice()),
                g.slice(),
                Some(&by_head),
                sums.host_mut(tap.gain),
            );
        }
        let Some(Ends { embedding, head }) = &tape.ends else {
            return;
        };
        let (g, d) = (
            Values::of(&embedding.gradient),
            embedding.gradient.dims()[1],
        );
        let mut scale = rows.spread(factors.of(embedding.token), 0.0);
        scale.iter_mut().for_each(|x| *x *= embedding.scale);
        scatter(
            g.slice(),
            &rows.inputs,
            &scale,
            sums.host_mut(embedding.token),
            d,
        );
        if let Some(position) = embedding.position {
            let scale = rows.spread(factors.of(position), 0.0);
            scatter(
                g.slice(),
                &embedding.position_rows(rows),
                &scale,
                sums.host_mut(position),
                d,
            );
        }
        if let Some(types) = embedding.types {
            let scale = rows.spread(factors.of(types), 0.0);
            add_rows(
                None,
                g.slice(),
                Some(&scale),
                &mut sums.host_mut(types)[..d],
            );
        }
        if let Some(delta) = &head.delta {
            let [count, v] = delta.dims();
            let (h, delta) = (Values::of(&head.hidden), Values::of(delta));
            let spans = head.spans.as_deref().unwrap_or(&rows.spans);
            if let Some(bias) = head.bias {
                let scale = spread(spans, count, factors.of(bias), 0.0);
                add_rows(None, delta.slice(), Some(&scale), sums.host_mut(bias));
            }
            let into = sums.host_mut(head.weight);
            let kept = norms.kept.get(tape.linears.len());
            let kept = kept.map_or(&[][..], Vec::as_slice);
            if let Some(scale) = add_kept(kept, factors.of(head.weight), (spans, count), into) {
                let (h, delta) = (View::new(h.slice(), d), View::new(delta.slice(), v));
                add_head_sum(h, delta, &scale, into, (count, d, v), head.tied);
            }
        }
    }
}

/// Adds the head's bias to rows of logits, if there is one.
fn add_bias(logits: &mut [f32], head: &HeadWeights<Flex>) {
    let Some(bias) = &head.bias else { return };
    let bias = Values::of(bias);
    let width = bias.slice().len();
    logits.par_chunks_mut(ROWS * width).for_each(|rows| {
        for row in rows.chunks_exact_mut(width) {
            row.iter_mut().zip(bias.slice()).for_each(|(x, b)| *x += b);
        }
    });
}

/// sum += Σ factor · hᵀδ, d × V, or V × d if tied.
fn add_head_sum(
    h: View<'_>,
    delta: View<'_>,
    factors: &[f32],
    sum: &mut [f32],
    (n, d, v): (usize, usize, usize),
    tied: bool,
) {
    if tied {
        weighted_product(
            delta.transposed(),
            Some(factors),
            h,
            sum,
            (v, n, d),
            Store::Add,
        );
    } else {
        weighted_product(
            h.transposed(),
            Some(factors),
            delta,
            sum,
            (d, n, v),
            Store::Add,
        );
    }
}

/// Adds the gradients that were kept. Returns one factor per row for the product of the remaining examples, or `None`
/// if no example remains.
fn add_kept(
    kept: &[Option<Vec<f32>>],
    factors: &[f32],
    (spans, rows): (&[Span], usize),
    sum: &mut [f32],
) -> Option<Vec<f32>> {
    const BLOCK: usize = 1 << 13;
    let parts: Vec<(f32, &[f32])> = kept
        .iter()
        .zip(factors)
        .filter_map(|(kept, factor)| kept.as_ref().map(|k| (*factor, k.as_slice())))
        .collect();
    if !parts.is_empty() {
        sum.par_chunks_mut(BLOCK).enumerate().for_each(|(i, sum)| {
            for (factor, part) in &parts {
                let part = &part[i * BLOCK..][..sum.len()];
                sum.iter_mut().zip(part).for_each(|(s, x)| *s += factor * x);
            }
        });
    }
    if parts.len() == spans.len() {
        return None;
    }
    let mut left = factors.to_vec();
    for (factor, kept) in left.iter_mut().zip(kept) {
        if kept.is_some() {
            *factor = 0.0;
        }
    }
    Some(spread(spans, rows, &left, 0.0))
}

/// Adds factor · g row by row to the rows given by `index`.
fn scatter(g: &[f32], index: &[u32], factors: &[f32], sum: &mut [f32], width: usize) {
    for ((g, &i), factor) in g.chunks_exact(width).zip(index).zip(factors) {
        let into = &mut sum[i as usize * width..(i as usize + 1) * width];
        into.iter_mut().zip(g).for_each(|(s, x)| *s += factor * x);
    }
}
