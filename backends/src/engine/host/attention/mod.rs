//! Attention on the processor: one task per example and key-value head, in blocks of rows. Scores are recomputed in the
//! backward pass, so that no T × T matrix outlives its block.

mod backward;
mod dropout;
mod forward;
mod step;

use super::gemm::{Store, View, product_here};
use super::vector::{dot, exponentials, largest, wide};
use crate::engine::rows::{Rows, Span};
use rayon::prelude::*;

pub(crate) use backward::backward;
pub(crate) use dropout::Dropped;
pub(crate) use forward::forward;
pub(crate) use step::step;

/// Query rows per block.
const QUERIES: usize = 192;
/// Rows per block if the sum over keys ends at the last row's own position.
const SHORT: usize = 48;

/// The parameters of an attention layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attention {
    /// The layer's number, from 0.
    pub(crate) layer: usize,
    /// Query heads.
    pub(crate) heads: usize,
    /// Key and value heads.
    pub(crate) groups: usize,
    /// Width of a head.
    pub(crate) width: usize,
    /// The factor of the scores.
    pub(crate) scale: f32,
    /// c in c tanh(score / c).
    pub(crate) cap: Option<f32>,
    /// How many last positions a row sees.
    pub(crate) window: Option<usize>,
    /// Whether a row sees only itself and earlier rows.
    pub(crate) causal: bool,
    /// How many of a head's first values are turned.
    pub(crate) turned: usize,
    /// Cosine and sine of each pair at each position, positions × turned / 2.
    pub(crate) turns: Option<std::sync::Arc<Vec<[f32; 2]>>>,
}

impl Attention {
    /// Columns of queries, keys and values side by side.
    pub(crate) fn joined(&self) -> usize {
        (self.heads + 2 * self.groups) * self.width
    }
    /// Query heads per key-value head.
    pub(crate) fn each(&self) -> usize {
        self.heads / self.groups
    }
    fn first_seen(&self, row: usize) -> usize {
        self.window.map_or(0, |w| (row + 1).saturating_sub(w))
    }
    fn end_seen(&self, row: usize, length: usize) -> usize {
        if self.causal { row + 1 } else { length }
    }

    /// Rotates the pairs of one head's row at a position; with `sign` −1, back.
    pub(crate) fn turn(&self, row: &mut [f32], position: usize, sign: f32) {
        let Some(turns) = &self.turns else { return };
        let half = self.turned / 2;
        let (low, high) = row[..self.turned].split_at_mut(half);
        let turns = &turns[position * half..(position + 1) * half];
        for ((x, y), [cosine, sine]) in low.iter_mut().zip(high).zip(turns) {
            let (a, b, sine) = (*x, *y, sign * sine);
            *x = a * cosine - b * sine;
            *y = b * cosine + a * sine;
        }
    }
}

/// A block of an example's rows, with the keys that they see.
struct Block {
    /// Rows of the example.
    rows: std::ops::Range<usize>,
    /// Keys that any of these rows sees.
    keys: std::ops::Range<usize>,
}

fn blocks(attention: &Attention, length: usize, size: usize) -> impl Iterator<Item = Block> + '_ {
    (0..length).step_by(size).map(move |start| {
        let end = (start + size).min(length);
        Block {
            rows: start..end,
            keys: attention.first_seen(start)..attention.end_seen(end - 1, length),
        }
    })
}

#[inline(always)]
fn capped(row: &mut [f32], scale: f32, cap: Option<f32>) {
    for s in row.iter_mut() {
        *s *= scale;
    }
    if let Some(c) = cap {
        for s in row {
            *s = c * super::activation::tanh(*s / c);
        }
    }
}

/// Rows of an N × (parts · width) matrix, cut into lists per example and part.
fn cut<'a>(
    data: &'a mut [f32],
    rows: &Rows,
    columns: usize,
    width: usize,
) -> Vec<Vec<&'a mut [f32]>> {
    let parts = columns / width;
    let mut lists: Vec<Vec<&mut [f32]>> = Vec::with_capacity(rows.spans.len() * parts);
    let mut lines = data.chunks_exact_mut(columns).enumerate();
    for span in &rows.spans {
        let first = lists.len();
        lists.extend((0..parts).map(|_| Vec::with_capacity(span.length)));
        for (_, line) in lines
            .by_ref()
            .skip_while(|(row, _)| *row < span.start)
            .take(span.length)
        {
            for (list, part) in lists[first..].iter_mut().zip(line.chunks_exact_mut(width)) {
                list.push(part);
            }
        }
    }
    lists
}

/// Returns one head's rows of an example, rotated or unchanged.
fn head<'a>(
    joined: &'a [f32],
    attention: &Attention,
    rows: &Rows,
    span: Span,
    column: usize,
    kept: &'a mut Vec<f32>,
) -> View<'a> {
    let stride = attention.joined();
    let data = &joined[span.start * stride + column..];
    if attention.turns.is_none() {
        return View::new(data, stride);
    }
    let width = attention.width;
    kept.clear();
    for (line, position) in data.chunks(stride).zip(&rows.positions[span.range()]) {
        let start = kept.len();
        kept.extend_from_slice(&line[..width]);
        attention.turn(&mut kept[start..], *position as usize, 1.0);
    }
    View::new(kept, width)
}

/// Computes query · key for the visible pairs of a block's rows and keys.
fn score(
    query: View<'_>,
    key: View<'_>,
    attention: &Attention,
    block: &Block,
    scores: &mut Vec<f32>,
) {
    let keys = block.keys.len();
    scores.resize(block.rows.len() * keys, 0.0);
    let mut lines: Vec<&mut [f32]> = scores.chunks_exact_mut(keys).collect();
    let last = attention
        .causal
        .then(|| block.rows.start - block.keys.start);
    let (query, key) = (
        query.from(block.rows.start, 0),
        key.from(block.keys.start, 0),
    );
    product_here(
        query,
        key.transposed(),
        &mut lines,
        attention.width,
        Store::Set,
        last,
    );
}
