//! Attention of one sequence, head by head, forward and backward.

use super::arithmetic::{cap, cap_slope, dot};
use crate::model::TransformerConfig;

/// What the backward pass needs.
pub(super) struct AttentionTrace {
    /// Query, key and value side by side, turned by their positions: rows × joined width.
    joined: Vec<f64>,
    /// Capped scores, `[heads, rows, rows]`; unseen pairs hold −∞.
    scores: Vec<f64>,
    /// Their softmax.
    shares: Vec<f64>,
}

/// Attention under one layer's rules.
pub(super) struct Attention<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) layer: usize,
}

impl Attention<'_> {
    fn joined_width(&self) -> usize {
        self.config.query_width() + 2 * self.config.key_value_width()
    }

    /// Where a query head's query, key and value start in a joined row.
    fn columns(&self, head: usize) -> [usize; 3] {
        let c = self.config;
        let shared = head / (c.heads / c.key_value_heads) * c.head_width;
        let keys = c.query_width();
        [
            head * c.head_width,
            keys + shared,
            keys + c.key_value_width() + shared,
        ]
    }

    /// Turns queries and keys by their positions; backwards with `direction` −1.
    fn turn(&self, joined: &mut [f64], direction: f64) {
        let c = self.config;
        let Some(rotary) = &c.rotary else { return };
        let half = c.head_width / 2;
        let turned = (c.heads + c.key_value_heads) * c.head_width;
        for (position, row) in joined.chunks_exact_mut(self.joined_width()).enumerate() {
            let turns = rotary.turns(c.head_width, position);
            for head in row[..turned].chunks_exact_mut(c.head_width) {
                for (i, (cosine, sine)) in turns.iter().enumerate() {
                    let (a, b) = (head[i], head[i + half]);
                    let sine = direction * sine;
                    head[i] = a * cosine - b * sine;
                    head[i + half] = b * cosine + a * sine;
                }
            }
        }
    }

    /// Rows × query width from rows × joined width.
    pub(super) fn forward(&self, mut joined: Vec<f64>) -> (Vec<f64>, AttentionTrace) {
        let c = self.config;
        self.turn(&mut joined, 1.0);
        let (width, head_width) = (self.joined_width(), c.head_width);
        let rows = joined.len() / width;
        let part = |row: usize, column: usize| &joined[row * width + column..][..head_width];
        let mut out = vec![0.0; rows * c.query_width()];
        let (mut scores, mut shares) = (Vec::new(), Vec::new());
        for head in 0..c.heads {
            let [query, key, value] = self.columns(head);
            for i in 0..rows {
                let row: Vec<f64> = (0..rows)
                    .map(|j| {
                        if c.sees(self.layer, i, j) {
                            let score = dot(part(i, query), part(j, key)) * c.attention_scale();
                            cap(score, c.attention_cap)
                        } else {
                            f64::NEG_INFINITY
                        }
                    })
                    .collect();
                let share: Vec<f64> = super::arithmetic::log_softmax(&row)
                    .iter()
                    .map(|l| l.exp())
                    .collect();
                for (j, share) in share.iter().enumerate().filter(|(_, s)| **s > 0.0) {
                    let out = &mut out[i * c.query_width() + query..][..head_width];
                    for (out, v) in out.iter_mut().zip(part(j, value)) {
                        *out += share * v;
                    }
                }
                scores.extend(row);
                shares.extend(share);
            }
        }
        let trace = AttentionTrace {
            joined,
            scores,
            shares,
        };
        (out, trace)
    }

    /// dL/d(joined) from dL/d(output).
    pub(super) fn backward(&self, trace: &AttentionTrace, d_out: &[f64]) -> Vec<f64> {
        let c = self.config;
        let (width, head_width) = (self.joined_width(), c.head_width);
        let rows = trace.joined.len() / width;
        let part = |row: usize, column: usize| &trace.joined[row * width + column..][..head_width];
        let mut d_joined = vec![0.0; trace.joined.len()];
        let mut add = |row: usize, column: usize, factor: f64, x: &[f64]| {
            let d = &mut d_joined[row * width + column..][..head_width];
            d.iter_mut().zip(x).for_each(|(d, x)| *d += factor * x);
        };
        for head in 0..c.heads {
            let [query, key, value] = self.columns(head);
            for i in 0..rows {
                let at = (head * rows + i) * rows;
                let shares = &trace.shares[at..at + rows];
                let scores = &trace.scores[at..at + rows];
                let d_out = &d_out[i * c.query_width() + query..][..head_width];
                let d_shares: Vec<f64> = (0..rows).map(|j| dot(d_out, part(j, value))).collect();
                let mean = dot(shares, &d_shares);
                for j in (0..rows).filter(|j| c.sees(self.layer, i, *j)) {
                    add(j, value, shares[j], d_out);
                    let d_capped = shares[j] * (d_shares[j] - mean);
                    let d_score =
                        d_capped * cap_slope(scores[j], c.attention_cap) * c.attention_scale();
                    add(i, query, d_score, part(j, key));
                    add(j, key, d_score, part(i, query));
                }
            }
        }
        self.turn(&mut d_joined, -1.0);
        d_joined
    }
}
