//! Attention in tensor operations, on grids of examples × steps.

use super::grid;
use crate::engine::host::attention::{Attention, Dropped};
use crate::engine::layers::{Attended, Floats, Matrix};
use crate::engine::portable::{capped, product};
use crate::engine::rows::Rows;
use crate::engine::transfers::{flags, upload};
use crate::trainer::Precision;
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor};
use std::sync::Arc;

/// Queries, keys and values as examples × heads × steps × width, and the mask of unseen positions.
struct Heads<B: Floats> {
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    unseen: Tensor<B, 4, Bool>,
    turns: Option<[Tensor<B, 4>; 2]>,
}

/// Splits a column range of N × columns into examples × heads × steps × width.
fn split<B: Floats>(
    joined: &Matrix<B>,
    (examples, steps): (usize, usize),
    from: usize,
    heads: usize,
    width: usize,
) -> Tensor<B, 4> {
    joined
        .clone()
        .narrow(1, from, heads * width)
        .reshape([examples, steps, heads, width])
        .swap_dims(1, 2)
}

/// The reverse of [`split`].
fn join<B: Floats>(x: Tensor<B, 4>) -> Matrix<B> {
    let [examples, heads, steps, width] = x.dims();
    x.swap_dims(1, 2).reshape([examples * steps, heads * width])
}

/// Repeats each key-value head for all query heads that share it.
fn repeat<B: Floats>(x: Tensor<B, 4>, each: usize) -> Tensor<B, 4> {
    if each == 1 {
        return x;
    }
    let [examples, groups, steps, width] = x.dims();
    x.reshape([examples, groups, 1, steps, width])
        .repeat_dim(2, each)
        .reshape([examples, groups * each, steps, width])
}

/// The reverse of [`repeat`]: sums over the query heads that share one.
fn gather<B: Floats>(x: Tensor<B, 4>, each: usize) -> Tensor<B, 4> {
    if each == 1 {
        return x;
    }
    let [examples, heads, steps, width] = x.dims();
    x.reshape([examples, heads / each, each, steps, width])
        .sum_dim(2)
        .reshape([examples, heads / each, steps, width])
}

fn turn<B: Floats>(x: Tensor<B, 4>, turns: Option<&[Tensor<B, 4>; 2]>, sign: f32) -> Tensor<B, 4> {
    let Some([cosine, sine]) = turns else {
        return x;
    };
    let (half, width) = (cosine.dims()[3], x.dims()[3]);
    let (low, high) = (
        x.clone().narrow(3, 0, half),
        x.clone().narrow(3, half, half),
    );
    let sine = sine.clone() * sign;
    let mut parts = vec![
        low.clone() * cosine.clone() - high.clone() * sine.clone(),
        high * cosine.clone() + low * sine,
    ];
    if 2 * half < width {
        parts.push(x.narrow(3, 2 * half, width - 2 * half));
    }
    Tensor::cat(parts, 3)
}

fn heads<B: Floats>(joined: &Matrix<B>, rows: &Rows, attention: &Attention) -> Heads<B> {
    let device = joined.device();
    let shape = grid(rows);
    let steps = shape.1;
    let (width, each) = (attention.width, attention.each());
    let turns = attention.turns.as_ref().map(|turns| {
        // Layers may have different tables of rotations.
        rows.kept.once("turns", Arc::as_ptr(turns).addr(), || {
            let half = attention.turned / 2;
            [0, 1].map(|part| {
                let values = turns[..steps * half].iter().map(|t| t[part]);
                upload::<B, 4>(values.collect(), [1, 1, steps, half], &device)
            })
        })
    });
    let (queries, keys) = (attention.heads * width, attention.groups * width);
    let query = split(joined, shape, 0, attention.heads, width);
    let key = split(joined, shape, queries, attention.groups, width);
    let value = split(joined, shape, queries + keys, attention.groups, width);
    let window = attention.window.unwrap_or(usize::MAX);
    let unseen = rows
        .kept
        .once("unseen", window, || unseen(rows, attention, &device));
    Heads {
        query: turn(query, turns.as_ref(), 1.0),
        key: repeat(turn(key, turns.as_ref(), 1.0), each),
        value: repeat(value, each),
        unseen,
        turns,
    }
}

/// Returns the mask of the steps that a step does not attend to.
fn unseen<B: Floats>(rows: &Rows, attention: &Attention, device: &B::Device) -> Tensor<B, 4, Bool> {
    let (examples, steps) = grid(rows);
    // causal masks are the same for all examples; otherwise no row may attend to unused rows
    let lines = if attention.causal { 1 } else { examples };
    let mut unseen = vec![false; lines * steps * steps];
    for (i, unseen) in unseen.chunks_exact_mut((steps * steps).max(1)).enumerate() {
        let length = rows.spans.get(i).map_or(1, |s| s.length);
        for (row, line) in unseen.chunks_exact_mut(steps).enumerate() {
            for (other, cell) in line.iter_mut().enumerate() {
                let later = attention.causal && other > row;
                let gone = attention.window.is_some_and(|w| row >= other + w);
                *cell = later || gone || (!attention.causal && other >= length);
            }
        }
    }
    flags(unseen, [lines, 1, steps, steps], device)
}

/// Capped scores and probabilities.
fn probabilities<B: Floats>(
    heads: &Heads<B>,
    attention: &Attention,
    precision: Precision,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let keys = heads.key.clone().swap_dims(2, 3);
    let product = product(heads.query.clone(), keys, precision);
    let scores = capped(product * attention.scale, attention.cap);
    let shown = scores.dims();
    let unseen = heads.unseen.clone().expand(shown);
    let p = softmax(scores.clone().mask_fill(unseen, -1e30), 3);
    (scores, p)
}

/// Returns the dropout factors of the probabilities, or `None` if nothing is dropped.
fn dropped<B: Floats>(
    rows: &Rows,
    attention: &Attention,
    like: &Tensor<B, 4>,
) -> Option<Tensor<B, 4>> {
    rows.masks.as_ref()?;
    rows.kept.once("dropped", attention.layer, || {
        dropping(rows, attention, like)
    })
}

fn dropping<B: Floats>(
    rows: &Rows,
    attention: &Attention,
    like: &Tensor<B, 4>,
) -> Option<Tensor<B, 4>> {
    let [examples, heads, steps, _] = like.dims();
    let mut factors = vec![1.0; examples * heads * steps * steps];
    for example in 0..rows.spans.len() {
        for head in 0..heads {
            let own = Dropped::of(rows, example, attention, head)?;
            let first = (example * heads + head) * steps;
            for row in 0..rows.spans[example].length {
                let line = own.row(row);
                factors[(first + row) * steps..][..line.len()].copy_from_slice(line);
            }
        }
    }
    Some(upload(
        factors,
        [examples, heads, steps, steps],
        &like.device(),
    ))
}

fn times<B: Floats>(x: Tensor<B, 4>, factors: Option<&Tensor<B, 4>>) -> Tensor<B, 4> {
    match factors {
        Some(factors) => x * factors.clone(),
        None => x,
    }
}

pub(in crate::engine) fn attend<B: Floats>(
    joined: &Matrix<B>,
    rows: &Rows,
    attention: &Attention,
    precision: Precision,
) -> Attended<B> {
    let heads = heads(joined, rows, attention);
    let (_, p) = probabilities(&heads, attention, precision);
    let dropped = dropped(rows, attention, &p);
    let p = times(p, dropped.as_ref());
    Attended {
        out: join(product(p, heads.value, precision)),
        normalisers: None,
    }
}

pub(in crate::engine) fn attend_back<B: Floats>(
    d_out: &Matrix<B>,
    joined: &Matrix<B>,
    kept: &Attended<B>,
    rows: &Rows,
    attention: &Attention,
    precision: Precision,
) -> Matrix<B> {
    let shape = grid(rows);
    let (width, each) = (attention.width, attention.each());
    let heads = heads(joined, rows, attention);
    let (scores, p) = probabilities(&heads, attention, precision);
    let d = split(d_out, shape, 0, attention.heads, width);
    let out = split(&kept.out, shape, 0, attention.heads, width);
    let along = (d.clone() * out).sum_dim(3);
    let dropped = dropped(rows, attention, &p);
    let left = times(p.clone(), dropped.as_ref());
    let d_value = product(left.swap_dims(2, 3), d.clone(), precision);
    let d_p = product(d, heads.value.swap_dims(2, 3), precision);
    let d_p = times(d_p, dropped.as_ref());
    let mut d_score = p * (d_p - along) * attention.scale;
    if let Some(c) = attention.cap {
        d_score = d_score * (-(scores / c).powi_scalar(2) + 1.0);
    }
    let d_key = product(d_score.clone().swap_dims(2, 3), heads.query, precision);
    let d_query = product(d_score, heads.key, precision);
    let turns = heads.turns.as_ref();
    Tensor::cat(
        vec![
            join(turn(d_query, turns, -1.0)),
            join(turn(gather(d_key, each), turns, -1.0)),
            join(gather(d_value, each)),
        ],
        1,
    )
}
