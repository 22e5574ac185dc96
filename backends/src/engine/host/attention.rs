//! Attention on the processor: one task per example and key-value head, blocks of rows, scores
//! computed again on the way back, so that no T × T matrix outlives its block.

use super::gemm::{Store, View, product_here};
use super::vector::{dot, exponentials, largest, wide};
use crate::engine::rows::{Rows, Span};
use rayon::prelude::*;

/// Query rows per block.
const QUERIES: usize = 192;
/// Rows per block where the sum over keys ends at the last row's own position.
const SHORT: usize = 48;

/// What an attention layer is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attention {
    /// Query heads.
    pub(crate) heads: usize,
    /// Key and value heads.
    pub(crate) groups: usize,
    /// Width of a head.
    pub(crate) width: usize,
    /// Scores are multiplied by this.
    pub(crate) scale: f32,
    /// c in c tanh(score / c).
    pub(crate) cap: Option<f32>,
    /// How many last positions a row sees.
    pub(crate) window: Option<usize>,
    /// Whether a row sees only what stands before it.
    pub(crate) causal: bool,
    /// Cosine and sine of each pair at each position, positions × width / 2.
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

    /// Turns the pairs of one head's row at a position; backwards with `sign` −1.
    pub(crate) fn turn(&self, row: &mut [f32], position: usize, sign: f32) {
        let Some(turns) = &self.turns else { return };
        let half = self.width / 2;
        let (low, high) = row.split_at_mut(half);
        let turns = &turns[position * half..(position + 1) * half];
        for ((x, y), [cosine, sine]) in low.iter_mut().zip(high).zip(turns) {
            let (a, b, sine) = (*x, *y, sign * sine);
            *x = a * cosine - b * sine;
            *y = b * cosine + a * sine;
        }
    }
}

/// What a row of scores can see, as columns of a block that begins at `low`.
struct Block {
    /// Rows of the example.
    rows: std::ops::Range<usize>,
    /// Keys that any of them sees.
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

/// Scores to probabilities, row by row; returns the logarithm of each row's normaliser.
struct Softmax<'a> {
    scores: &'a mut [f32],
    block: &'a Block,
    attention: &'a Attention,
    length: usize,
}

#[inline(always)]
fn capped(row: &mut [f32], scale: f32, cap: Option<f32>) {
    match cap {
        None => row.iter_mut().for_each(|s| *s *= scale),
        Some(c) => row
            .iter_mut()
            .for_each(|s| *s = c * super::activation::tanh(*s * scale / c)),
    }
}

impl pulp::NullaryFnOnce for Softmax<'_> {
    type Output = Vec<f32>;
    #[inline(always)]
    fn call(self) -> Vec<f32> {
        let Self {
            scores,
            block,
            attention,
            length,
        } = self;
        let lines = scores.chunks_exact_mut(block.keys.len());
        lines
            .zip(block.rows.clone())
            .map(|(line, row)| {
                let from = attention.first_seen(row) - block.keys.start;
                let to = attention.end_seen(row, length) - block.keys.start;
                line[..from].fill(0.0);
                line[to..].fill(0.0);
                let seen = &mut line[from..to];
                capped(seen, attention.scale, attention.cap);
                let most = largest(seen);
                let total = exponentials(seen, most);
                let share = 1.0 / total;
                seen.iter_mut().for_each(|p| *p *= share);
                most + total.ln()
            })
            .collect()
    }
}

/// Scores to dL/dscore, given dL/dprobability in `d`, and to probabilities in place.
struct ScoreGradient<'a> {
    scores: &'a mut [f32],
    d: &'a mut [f32],
    normalisers: &'a [f32],
    /// Σ over keys of probability × its gradient, per row: output · its gradient.
    along: &'a [f32],
    block: &'a Block,
    attention: &'a Attention,
    length: usize,
}

impl pulp::NullaryFnOnce for ScoreGradient<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let width = self.block.keys.len();
        let (scale, cap) = (self.attention.scale, self.attention.cap);
        let lines = self
            .scores
            .chunks_exact_mut(width)
            .zip(self.d.chunks_exact_mut(width));
        for (i, (line, d)) in lines.enumerate() {
            let row = self.block.rows.start + i;
            let from = self.attention.first_seen(row) - self.block.keys.start;
            let to = self.attention.end_seen(row, self.length) - self.block.keys.start;
            for part in [&mut *line, &mut *d] {
                part[..from].fill(0.0);
                part[to..].fill(0.0);
            }
            let (seen, d) = (&mut line[from..to], &mut d[from..to]);
            capped(seen, scale, cap);
            let (normaliser, along) = (self.normalisers[i], self.along[i]);
            for (s, d) in seen.iter_mut().zip(d) {
                let slope = cap.map_or(scale, |c| scale * (1.0 - (*s / c) * (*s / c)));
                let p = super::activation::exp(*s - normaliser);
                *d = p * (*d - along) * slope;
                *s = p;
            }
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

/// One head's rows of an example, turned, or as they lie.
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

/// Outputs of attention, N × (heads · width), and the logarithms of the normalisers, N × heads.
pub(crate) fn forward(joined: &[f32], rows: &Rows, attention: &Attention) -> (Vec<f32>, Vec<f32>) {
    let (width, each) = (attention.width, attention.each());
    let columns = attention.heads * width;
    let mut out = vec![0.0; rows.len() * columns];
    let lists = cut(&mut out, rows, columns, each * width);
    let normalisers: Vec<Vec<f32>> = lists
        .into_par_iter()
        .enumerate()
        .map(|(task, mut list)| {
            let (example, group) = (task / attention.groups, task % attention.groups);
            group_forward(
                joined,
                rows,
                rows.spans[example],
                group,
                attention,
                &mut list,
            )
        })
        .collect();
    let mut all = vec![0.0; rows.len() * attention.heads];
    for (task, part) in normalisers.into_iter().enumerate() {
        let (example, group) = (task / attention.groups, task % attention.groups);
        let span = rows.spans[example];
        for (h, head) in part.chunks_exact(span.length).enumerate() {
            for (row, value) in span.range().zip(head) {
                all[row * attention.heads + group * each + h] = *value;
            }
        }
    }
    (out, all)
}

fn group_forward(
    joined: &[f32],
    rows: &Rows,
    span: Span,
    group: usize,
    attention: &Attention,
    out: &mut [&mut [f32]],
) -> Vec<f32> {
    let (width, each) = (attention.width, attention.each());
    let (mut query_kept, mut key_kept) = (Vec::new(), Vec::new());
    let key = head(
        joined,
        attention,
        rows,
        span,
        (attention.heads + group) * width,
        &mut key_kept,
    );
    let values = View::new(
        &joined[span.start * attention.joined()
            + (attention.heads + attention.groups + group) * width..],
        attention.joined(),
    );
    let mut normalisers = Vec::with_capacity(each * span.length);
    let mut scores = Vec::new();
    for h in 0..each {
        let column = (group * each + h) * width;
        let query = head(joined, attention, rows, span, column, &mut query_kept);
        for block in blocks(attention, span.length, QUERIES) {
            score(query, key, attention, &block, &mut scores);
            normalisers.extend(wide(Softmax {
                scores: &mut scores,
                block: &block,
                attention,
                length: span.length,
            }));
            let keys = block.keys.len();
            // short blocks of rows: the probabilities beyond their last key are zero
            for start in (0..block.rows.len()).step_by(SHORT) {
                let end = (start + SHORT).min(block.rows.len());
                let depth =
                    attention.end_seen(block.rows.start + end - 1, span.length) - block.keys.start;
                let mut lines: Vec<&mut [f32]> = out
                    [block.rows.start + start..block.rows.start + end]
                    .iter_mut()
                    .map(|line| &mut line[h * width..(h + 1) * width])
                    .collect();
                let (p, v) = (
                    View::new(&scores, keys).from(start, 0),
                    values.from(block.keys.start, 0),
                );
                product_here(p, v, &mut lines, depth, Store::Set, None);
            }
        }
    }
    normalisers
}

/// query · key for the rows and keys of a block, as far as they are seen.
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

/// Gradients of queries, keys and values side by side.
pub(crate) fn backward(
    d_out: &[f32],
    joined: &[f32],
    (out, normalisers): (&[f32], &[f32]),
    rows: &Rows,
    attention: &Attention,
) -> Vec<f32> {
    let (width, each) = (attention.width, attention.each());
    let mut d_joined = vec![0.0; joined.len()];
    // head by head: the queries of a group, its keys and its values are separate columns
    let mut heads = cut(&mut d_joined, rows, attention.joined(), width).into_iter();
    let per_example = attention.heads + 2 * attention.groups;
    let mut tasks = Vec::with_capacity(rows.spans.len() * attention.groups);
    for example in 0..rows.spans.len() {
        let mut parts: Vec<_> = heads.by_ref().take(per_example).collect();
        let values = parts.split_off(attention.heads + attention.groups);
        let keys = parts.split_off(attention.heads);
        let mut queries = parts.into_iter();
        for (group, (keys, values)) in keys.into_iter().zip(values).enumerate() {
            let queries: Vec<_> = queries.by_ref().take(each).collect();
            tasks.push((example, group, queries, keys, values));
        }
    }
    tasks
        .into_par_iter()
        .for_each(|(example, group, d_queries, d_keys, d_values)| {
            let task = GroupBack {
                d_out,
                out,
                joined,
                normalisers,
                rows,
                span: rows.spans[example],
                group,
                attention,
            };
            task.run(d_queries, d_keys, d_values);
        });
    d_joined
}

struct GroupBack<'a> {
    d_out: &'a [f32],
    out: &'a [f32],
    joined: &'a [f32],
    normalisers: &'a [f32],
    rows: &'a Rows,
    span: Span,
    group: usize,
    attention: &'a Attention,
}

type Lines<'a> = Vec<&'a mut [f32]>;

impl GroupBack<'_> {
    fn run(&self, d_queries: Vec<Lines<'_>>, mut d_keys: Lines<'_>, mut d_values: Lines<'_>) {
        let attention = self.attention;
        let (width, each) = (attention.width, attention.each());
        let (mut query_kept, mut key_kept) = (Vec::new(), Vec::new());
        let column = |part: usize| part * width;
        let (rows, span) = (self.rows, self.span);
        let key = head(
            self.joined,
            attention,
            rows,
            span,
            column(attention.heads + self.group),
            &mut key_kept,
        );
        let value_column = column(attention.heads + attention.groups + self.group);
        let values = View::new(
            &self.joined[span.start * attention.joined() + value_column..],
            attention.joined(),
        );
        for (h, mut d_query) in d_queries.into_iter().enumerate() {
            let index = self.group * each + h;
            let query = head(
                self.joined,
                attention,
                rows,
                span,
                column(index),
                &mut query_kept,
            );
            let mut work = HeadBack::default();
            for block in blocks(attention, span.length, QUERIES) {
                self.block(index, (query, key, values), &block, &mut work);
                work.add(
                    (query, key),
                    &block,
                    self.d_head(index),
                    (&mut d_query, &mut d_keys, &mut d_values),
                    width,
                );
            }
            self.turn_back(&mut d_query);
        }
        self.turn_back(&mut d_keys);
    }

    fn d_head(&self, index: usize) -> View<'_> {
        let columns = self.attention.heads * self.attention.width;
        View::new(
            &self.d_out[self.span.start * columns + index * self.attention.width..],
            columns,
        )
    }

    /// Probabilities and dL/dscore of a block.
    fn block(
        &self,
        index: usize,
        (query, key, values): (View<'_>, View<'_>, View<'_>),
        block: &Block,
        work: &mut HeadBack,
    ) {
        let attention = self.attention;
        let (width, columns) = (attention.width, attention.heads * attention.width);
        score(query, key, attention, block, &mut work.scores);
        score(self.d_head(index), values, attention, block, &mut work.d);
        let lines = block.rows.clone().map(|row| self.span.start + row);
        work.normalisers.clear();
        work.normalisers.extend(
            lines
                .clone()
                .map(|row| self.normalisers[row * attention.heads + index]),
        );
        work.along.clear();
        work.along.extend(lines.map(|row| {
            let at = row * columns + index * width..row * columns + (index + 1) * width;
            dot(&self.d_out[at.clone()], &self.out[at])
        }));
        wide(ScoreGradient {
            scores: &mut work.scores,
            d: &mut work.d,
            normalisers: &work.normalisers,
            along: &work.along,
            block,
            attention,
            length: self.span.length,
        });
    }

    fn turn_back(&self, lines: &mut [&mut [f32]]) {
        for (line, position) in lines
            .iter_mut()
            .zip(&self.rows.positions[self.span.range()])
        {
            self.attention.turn(line, *position as usize, -1.0);
        }
    }
}

#[derive(Default)]
struct HeadBack {
    scores: Vec<f32>,
    d: Vec<f32>,
    normalisers: Vec<f32>,
    along: Vec<f32>,
}

impl HeadBack {
    /// Adds a block to the gradients of queries, keys and values.
    fn add(
        &self,
        (query, key): (View<'_>, View<'_>),
        block: &Block,
        d_head: View<'_>,
        (d_query, d_keys, d_values): (&mut Lines<'_>, &mut Lines<'_>, &mut Lines<'_>),
        _width: usize,
    ) {
        let keys = block.keys.len();
        let (p, d) = (View::new(&self.scores, keys), View::new(&self.d, keys));
        let count = block.rows.len();
        let mine = &mut d_query[block.rows.clone()];
        product_here(
            d,
            key.from(block.keys.start, 0),
            mine,
            keys,
            Store::Set,
            None,
        );
        let query = query.from(block.rows.start, 0);
        product_here(
            d.transposed(),
            query,
            &mut d_keys[block.keys.clone()],
            count,
            Store::Add,
            None,
        );
        let d_head = d_head.from(block.rows.start, 0);
        product_here(
            p.transposed(),
            d_head,
            &mut d_values[block.keys.clone()],
            count,
            Store::Add,
            None,
        );
    }
}

/// One row's attention over keys (turned) and values in parts, oldest first, its own last.
pub(crate) fn step(
    joined: &[f32],
    position: usize,
    parts: &[(&[f32], &[f32])],
    attention: &Attention,
) -> Vec<f32> {
    wide(Step {
        joined,
        position,
        parts,
        attention,
    })
}

struct Step<'a> {
    joined: &'a [f32],
    position: usize,
    parts: &'a [(&'a [f32], &'a [f32])],
    attention: &'a Attention,
}

impl pulp::NullaryFnOnce for Step<'_> {
    type Output = Vec<f32>;
    #[inline(always)]
    fn call(self) -> Vec<f32> {
        let attention = self.attention;
        let (width, side) = (attention.width, attention.groups * attention.width);
        let first = attention.first_seen(self.position);
        let mut out = vec![0.0; attention.heads * width];
        let mut scores = Vec::with_capacity(self.position + 1);
        for (head, out) in out.chunks_exact_mut(width).enumerate() {
            let mut query = self.joined[head * width..(head + 1) * width].to_vec();
            attention.turn(&mut query, self.position, 1.0);
            let column = head / attention.each() * width;
            let keys = self.parts.iter().flat_map(|(k, _)| k.chunks_exact(side));
            scores.clear();
            scores.extend(
                keys.skip(first)
                    .map(|k| dot(&query, &k[column..column + width])),
            );
            capped(&mut scores, attention.scale, attention.cap);
            let most = largest(&scores);
            let total = exponentials(&mut scores, most);
            let values = self.parts.iter().flat_map(|(_, v)| v.chunks_exact(side));
            for (value, p) in values.skip(first).zip(&scores) {
                let value = &value[column..column + width];
                out.iter_mut()
                    .zip(value)
                    .for_each(|(o, v)| *o += p / total * v);
            }
        }
        out
    }
}
