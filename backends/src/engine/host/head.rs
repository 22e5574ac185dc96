//! The head's loss: turns rows of logits into losses and gradients, in place.

use super::activation::tanh;
use super::vector::{exponentials, largest, wide};
use crate::engine::packed::NO_LOSS;
use rayon::prelude::*;
use reticent_corpus::TokenId;

/// Rows per parallel task.
const BLOCK: usize = 8;

wide! {
    fn loss_rows(
        logits: &mut [f32],
        targets: &[TokenId],
        nll: &mut [f64],
        vocabulary: usize,
        cap: Option<f32>,
    ) {
        let rows = logits.chunks_exact_mut(vocabulary).zip(targets);
        let mut slopes = Vec::new();
        for ((row, target), nll) in rows.zip(nll) {
            if *target == NO_LOSS {
                row.fill(0.0);
                *nll = 0.0;
                continue;
            }
            if let Some(c) = cap {
                cap_rows(row, c);
                slopes.clear();
                slopes.extend(row.iter().map(|x| 1.0 - (x / c) * (x / c)));
            }
            let target = *target as usize;
            let chosen = row[target];
            let most = largest(row);
            let total = exponentials(row, most);
            *nll = f64::from(most) + f64::from(total).ln() - f64::from(chosen);
            let share = 1.0 / total;
            row.iter_mut().for_each(|x| *x *= share);
            row[target] -= 1.0;
            if cap.is_some() {
                row.iter_mut().zip(&slopes).for_each(|(x, s)| *x *= s);
            }
        }
    }
}

#[inline(always)]
fn cap_rows(x: &mut [f32], c: f32) {
    for x in x {
        *x = c * tanh(*x / c);
    }
}

/// Turns uncapped logits of rows into dL/dlogits in place; returns each row's negative log-likelihood (nats), 0 if the
/// row predicts nothing.
pub(crate) fn loss(
    logits: &mut [f32],
    targets: &[TokenId],
    vocabulary: usize,
    cap: Option<f32>,
) -> Vec<f64> {
    let mut nll = vec![0.0; targets.len()];
    logits
        .par_chunks_mut(BLOCK * vocabulary)
        .zip(targets.par_chunks(BLOCK))
        .zip(nll.par_chunks_mut(BLOCK))
        .for_each(|((logits, targets), nll)| {
            loss_rows(logits, targets, nll, vocabulary, cap);
        });
    nll
}

wide! {
    fn cap_part(x: &mut [f32], c: f32) {
        cap_rows(x, c);
    }
}

/// x ← c tanh(x / c).
pub(crate) fn cap(x: &mut [f32], c: f32) {
    x.par_chunks_mut(1 << 14).for_each(|x| cap_part(x, c));
}
