//! Row-wise layers: lookup, linear, cross-entropy, softmax statistics.

use super::gemm::{Store, View, product};
use super::head;
use crate::scorer::TokenScore;
use rayon::prelude::*;
use reticent_corpus::TokenId;

/// Rows per parallel block.
const BLOCK: usize = 128;

/// Rows of `table` (any × width) by index.
pub(crate) fn lookup(table: &[f32], index: &[u32], width: usize) -> Vec<f32> {
    let mut out = vec![0.0; index.len() * width];
    out.par_chunks_mut(BLOCK * width)
        .zip(index.par_chunks(BLOCK))
        .for_each(|(out, index)| {
            for (row, &i) in out.chunks_exact_mut(width).zip(index) {
                row.copy_from_slice(&table[i as usize * width..(i as usize + 1) * width]);
            }
        });
    out
}

/// x w + b for x: rows × d, w: d × p, b: p.
pub(crate) fn linear(x: &[f32], w: &[f32], b: &[f32], d: usize) -> Vec<f32> {
    let p = b.len();
    let rows = x.len() / d;
    let mut out = vec![0.0; rows * p];
    out.par_chunks_mut(BLOCK * p).for_each(|out| {
        out.chunks_exact_mut(p)
            .for_each(|row| row.copy_from_slice(b));
    });
    product(
        View::new(x, d),
        View::new(w, p),
        &mut out,
        (rows, d, p),
        Store::Add,
    );
    out
}

/// dL/dx = dL/dy wᵀ for dy: rows × p, w: d × p.
pub(crate) fn linear_backward(dy: &[f32], w: &[f32], d: usize, p: usize) -> Vec<f32> {
    let rows = dy.len() / p;
    let mut out = vec![0.0; rows * d];
    let back = View::new(w, p).transposed();
    product(View::new(dy, p), back, &mut out, (rows, p, d), Store::Set);
    out
}

/// Negative log-likelihood of each row's target (nats, f64) and dL/dlogits = softmax − one-hot, in
/// place; zero for a row without loss.
pub(crate) fn cross_entropy(
    logits: &mut [f32],
    targets: &[TokenId],
    vocabulary: usize,
) -> Vec<f64> {
    head::loss(logits, targets, vocabulary, None)
}

/// Log-probabilities in f64 by a two-pass log-sum-exp; a row does not depend on any other.
pub(crate) fn log_softmax(row: &[f32]) -> Vec<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let max = f64::from(max);
    let sum: f64 = row.iter().map(|x| (f64::from(*x) - max).exp()).sum();
    let normaliser = max + sum.ln();
    row.iter().map(|x| f64::from(*x) - normaliser).collect()
}

/// Statistics of each row's distribution and of its target.
pub(crate) fn scores(logits: &[f32], targets: &[TokenId]) -> Vec<TokenScore> {
    let vocabulary = logits.len() / targets.len().max(1);
    logits
        .par_chunks_exact(vocabulary.max(1))
        .zip(targets)
        .map(|(row, target)| {
            let log_p = log_softmax(row);
            let mean: f64 = log_p.iter().map(|l| l.exp() * l).sum();
            let variance = log_p.iter().map(|l| l.exp() * (l - mean).powi(2)).sum();
            let top = (0..log_p.len())
                .max_by(|a, b| log_p[*a].total_cmp(&log_p[*b]))
                .unwrap_or(0);
            TokenScore {
                log_probability: log_p[*target as usize],
                mean,
                variance,
                top_token: top as TokenId,
                top_log_probability: log_p[top],
            }
        })
        .collect()
}

/// log p of these tokens, row by row.
pub(crate) fn log_probabilities(logits: &[f32], vocabulary: usize, wanted: &[TokenId]) -> Vec<f64> {
    let one = |row: &[f32]| {
        let log_p = log_softmax(row);
        wanted.iter().map(|t| log_p[*t as usize]).collect()
    };
    let rows: Vec<Vec<f64>> = logits.par_chunks_exact(vocabulary).map(one).collect();
    rows.concat()
}
