//! The forward pass: probabilities times values, block by block.

use super::*;

wide! {
    /// Turns scores into probabilities, row by row; returns the logarithm of each row's normaliser.
    fn softmax(scores: &mut [f32], block: &Block, attention: &Attention, length: usize) -> Vec<f32> {
        let lines = scores.chunks_exact_mut(block.keys.len());
        let mut normalisers = Vec::with_capacity(block.rows.len());
        for (line, row) in lines.zip(block.rows.clone()) {
            let from = attention.first_seen(row) - block.keys.start;
            let to = attention.end_seen(row, length) - block.keys.start;
            line[..from].fill(0.0);
            line[to..].fill(0.0);
            let seen = &mut line[from..to];
            capped(seen, attention.scale, attention.cap);
            let most = largest(seen);
            let total = exponentials(seen, most);
            let share = 1.0 / total;
            for p in seen {
                *p *= share;
            }
            normalisers.push(most + total.ln());
        }
        normalisers
    }
}

/// Returns the outputs of attention, N × (heads · width), and the logarithms of the normalisers, N × heads.
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
            group_forward(joined, rows, example, group, attention, &mut list)
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
    example: usize,
    group: usize,
    attention: &Attention,
    out: &mut [&mut [f32]],
) -> Vec<f32> {
    let span = rows.spans[example];
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
        let dropped = Dropped::of(rows, example, attention, group * each + h);
        for block in blocks(attention, span.length, QUERIES) {
            score(query, key, attention, &block, &mut scores);
            normalisers.extend(softmax(&mut scores, &block, attention, span.length));
            if let Some(dropped) = &dropped {
                dropped.multiply(&mut scores, &block);
            }
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
