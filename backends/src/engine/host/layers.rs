//! Row-wise layers: lookup, linear, cross-entropy, softmax statistics.

use super::activation::exp;
use super::product::{add_product, product_transposed};
use crate::engine::packed::NO_LOSS;
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
    let mut out = vec![0.0; x.len() / d * p];
    out.par_chunks_mut(BLOCK * p)
        .zip(x.par_chunks(BLOCK * d))
        .for_each(|(out, x)| {
            out.chunks_exact_mut(p)
                .for_each(|row| row.copy_from_slice(b));
            add_product(x, w, out, (x.len() / d, d, p));
        });
    out
}

/// dL/dx = dL/dy wᵀ for dy: rows × p, w: d × p.
pub(crate) fn linear_backward(dy: &[f32], w: &[f32], d: usize, p: usize) -> Vec<f32> {
    let mut out = vec![0.0; dy.len() / p * d];
    out.par_chunks_mut(BLOCK * d)
        .zip(dy.par_chunks(BLOCK * p))
        .for_each(|(out, dy)| {
            product_transposed(dy, w, out, (dy.len() / p, p, d));
        });
    out
}

/// Negative log-likelihood of each row's target (nats, f64) and dL/dlogits = softmax − one-hot, in
/// place; zero for a row without loss.
pub(crate) fn cross_entropy(
    logits: &mut [f32],
    targets: &[TokenId],
    vocabulary: usize,
) -> Vec<f64> {
    let mut nll = vec![0.0; targets.len()];
    logits
        .par_chunks_mut(BLOCK * vocabulary)
        .zip(targets.par_chunks(BLOCK))
        .zip(nll.par_chunks_mut(BLOCK))
        .for_each(|((logits, targets), nll)| {
            for ((row, &target), nll) in logits.chunks_exact_mut(vocabulary).zip(targets).zip(nll) {
                if target == NO_LOSS {
                    row.fill(0.0);
                    continue;
                }
                let chosen = row[target as usize];
                let (max, sum) = softmax_in_place(row);
                *nll = f64::from(max) + f64::from(sum).ln() - f64::from(chosen);
                row[target as usize] -= 1.0;
            }
        });
    nll
}

/// Turns logits into probabilities; returns the maximum and the sum of e^(logit − maximum).
fn softmax_in_place(row: &mut [f32]) -> (f32, f32) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = exp(*x - max));
    let sum: f32 = row.iter().sum();
    let scale = 1.0 / sum;
    row.iter_mut().for_each(|x| *x *= scale);
    (max, sum)
}

/// Log-probabilities in f64 by a two-pass log-sum-exp; a row does not depend on any other.
pub(crate) fn log_softmax(row: &[f32]) -> Vec<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let max = f64::from(max);
    let sum: f64 = row.iter().map(|x| (f64::from(*x) - max).exp()).sum();
    let normaliser = max + sum.ln();
    row.iter().map(|x| f64::from(*x) - normaliser).collect()
}
