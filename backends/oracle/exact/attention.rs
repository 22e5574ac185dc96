//! Attention of one sequence, head by head, forward and backward.

use super::arithmetic::{cap, cap_slope, dot};
use super::drop_out;
use crate::model::TransformerConfig;
use crate::trainer::dropout::{DropoutSite, RecordMasks};

/// The values that the backward pass needs.
pub(super) struct AttentionTrace {
    /// Query, key and value side by side, rotated by their positions: rows × joined width.
    joined: Vec<f64>,
    /// Capped scores, `[heads, rows, rows]`; unseen pairs hold −∞.
    scores: Vec<f64>,
    /// The softmax of the scores.
    shares: Vec<f64>,
    /// The dropout factors of the shares, `[heads, rows, rows]`.
    factors: Vec<f64>,
}

/// Attention under one layer's rules.
pub(super) struct Attention<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) layer: usize,
    pub(super) masks: Option<&'a RecordMasks>,
}

impl Attention<'_> {
    fn joined_width(&self) -> usize {
        self.config.query_width() + 2 * self.config.key_value_width()
    }

    /// Returns the columns at which a query head's query, key and value start in a joined row.
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

    /// Rotates queries and keys by their positions; with `direction` −1, back.
    fn turn(&self, joined: &mut [f64], direction: f64) {
        let c = self.config;
        let Some(rotary) = c.rotary_of(self.layer) else {
            return;
        };
        let half = rotary.turned(c.head_width) / 2;
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

    /// What dropout multiplies a head's shares by, rows × rows; 1 for keys that a row does not see.
    pub(super) fn factors(&self, head: usize, rows: usize) -> Vec<f64> {
        let (layer, causal) = (self.layer, self.config.causal());
        let count = if causal {
            rows * (rows + 1) / 2
        } else {
            rows * rows
        };
        let mut drawn = vec![1.0; count];
        drop_out(
            self.masks,
            DropoutSite::Attention { layer, head },
            &mut drawn,
        );
        let factor = |at: usize| {
            let (row, key) = (at / rows, at % rows);
            match (causal, key <= row) {
                (true, true) => drawn[row * (row + 1) / 2 + key],
                (true, false) => 1.0,
                (false, true) => drawn[row * row + key],
                (false, false) => drawn[key * key + key + 1 + row],
            }
        };
        (0..rows * rows).map(factor).collect()
    }

    /// Returns rows × query width from rows × joined width.
    pub(super) fn forward(&self, mut joined: Vec<f64>) -> (Vec<f64>, AttentionTrace) {
        let c = self.config;
        self.turn(&mut joined, 1.0);
        let (width, head_width) = (self.joined_width(), c.head_width);
        let rows = joined.len() / width;
        let part = |row: usize, column: usize| &joined[row * width + column..][..head_width];
        let mut out = vec![0.0; rows * c.query_width()];
        let (mut scores, mut shares, mut factors) = (Vec::new(), Vec::new(), Vec::new());
        for head in 0..c.heads {
            factors.extend(self.factors(head, rows));
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
                let factors = &factors[(head * rows + i) * rows..][..rows];
                for (j, share) in share.iter().enumerate().filter(|(_, s)| **s > 0.0) {
                    let share = share * factors[j];
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
            factors,
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
                let factors = &trace.factors[at..at + rows];
                let d_shares: Vec<f64> = (0..rows)
                    .map(|j| dot(d_out, part(j, value)) * factors[j])
                    .collect();
                let mean = dot(shares, &d_shares);
                for j in (0..rows).filter(|j| c.sees(self.layer, i, *j)) {
                    add(j, value, shares[j] * factors[j], d_out);
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
