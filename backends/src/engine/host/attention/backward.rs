//! The backward pass: scores are recomputed and normalised with the stored normalisers.

use super::*;

wide! {
    /// Turns scores into probabilities in place, and the dL/dprobability in `d` into dL/dscore. `along` is Σ over keys
    /// of probability × its gradient, per row: the product of the output and its gradient.
    fn score_gradient(
        scores: &mut [f32],
        d: &mut [f32],
        normalisers: &[f32],
        along: &[f32],
        block: &Block,
        attention: &Attention,
        length: usize,
    ) {
        let width = block.keys.len();
        let (scale, cap) = (attention.scale, attention.cap);
        let lines = scores
            .chunks_exact_mut(width)
            .zip(d.chunks_exact_mut(width));
        for (i, (line, d)) in lines.enumerate() {
            let row = block.rows.start + i;
            let from = attention.first_seen(row) - block.keys.start;
            let to = attention.end_seen(row, length) - block.keys.start;
            for part in [&mut *line, &mut *d] {
                part[..from].fill(0.0);
                part[to..].fill(0.0);
            }
            let (seen, d) = (&mut line[from..to], &mut d[from..to]);
            capped(seen, scale, cap);
            let (normaliser, along) = (normalisers[i], along[i]);
            for (s, d) in seen.iter_mut().zip(d) {
                let slope = cap.map_or(scale, |c| scale * (1.0 - (*s / c) * (*s / c)));
                let p = crate::engine::host::activation::exp(*s - normaliser);
                *d = p * (*d - along) * slope;
                *s = p;
            }
        }
    }
}

/// Returns the gradients of queries, keys and values side by side.
pub(crate) fn backward(
    d_out: &[f32],
    joined: &[f32],
    (out, normalisers): (&[f32], &[f32]),
    rows: &Rows,
    attention: &Attention,
) -> Vec<f32> {
    let (width, each) = (attention.width, attention.each());
    let mut d_joined = vec![0.0; joined.len()];
    // head by head: the queries of a group, its keys and its values are in separate columns
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
                example,
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
    example: usize,
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
            let mut work = HeadBack {
                dropped: Dropped::of(rows, self.example, attention, index),
                ..HeadBack::default()
            };
            for block in blocks(attention, span.length, QUERIES) {
                self.block(index, (query, key, values), &block, &mut work);
                work.add(
                    (query, key),
                    &block,
                    self.d_head(index),
                    (&mut d_query, &mut d_keys, &mut d_values),
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

    /// Computes probabilities and dL/dscore of a block.
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
        if let Some(dropped) = &work.dropped {
            dropped.multiply(&mut work.d, block);
        }
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
        score_gradient(
            &mut work.scores,
            &mut work.d,
            &work.normalisers,
            &work.along,
            block,
            attention,
            self.span.length,
        );
        if let Some(dropped) = &work.dropped {
            dropped.multiply(&mut work.scores, block);
        }
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
    dropped: Option<Dropped>,
}

impl HeadBack {
    /// Adds a block to the gradients of queries, keys and values.
    fn add(
        &self,
        (query, key): (View<'_>, View<'_>),
        block: &Block,
        d_head: View<'_>,
        (d_query, d_keys, d_values): (&mut Lines<'_>, &mut Lines<'_>, &mut Lines<'_>),
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
