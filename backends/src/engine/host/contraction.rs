//! Book-keeping: per-example gradient norms and clipped sums from layer inputs and taps, without storing any
//! per-example gradient.
//!
//! With a the inputs of a linear layer (T × d) and g the gradients of its outputs (T × p), the gradient of its weight
//! is aᵀg, so ‖aᵀg‖² = Σ_{s,t} (a aᵀ)∘(g gᵀ), and the sum of clipped gradients is aᵀ(c∘g) over all rows at once.
//! [`crate::engine::bound`] says what keeps a share within the clipping norm.

use super::examples::{Lengths, gram_norm, instantiated, instantiated_norm, table_norm};
use super::gemm::{Store, View, weighted_product};
use super::product::product_transposed;
use super::vector::{sum_of_squares, wide};
use crate::engine::bound::{Measured, rounding_of_rows};
use crate::engine::kernels::GROUPS;
use crate::engine::packed::Packed;
use rayon::prelude::*;
use reticent_corpus::TokenId;

/// Rows per parallel block.
const BLOCK: usize = 128;

/// ‖aᵀg‖² for a: t × d, g: t × p with rows of these lengths, whichever way is cheaper.
fn squared_norm_linear(
    a: &[f32],
    g: &[f32],
    lengths: &Lengths,
    (t, d, p): (usize, usize, usize),
) -> Measured {
    // a Gram matrix is symmetric, so only half of it is computed
    if t * (d + p) <= 2 * d * p {
        gram_norm(a, g, lengths, (t, d, p))
    } else {
        instantiated_norm(&instantiated(a, g, (t, d, p)), lengths)
    }
}

/// Σ over distinct tokens v of ‖(Σ_{t: x_t = v} g_t) wᵀ‖²: the squared norm of an embedding that feeds a linear layer
/// w, d × p, where g, t × p, are the gradients of the layer's outputs.
fn embedding_norm(tokens: &[TokenId], g: &[f32], w: &[f32], d: usize) -> f64 {
    let p = w.len() / d;
    let mut distinct = tokens.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let index: Vec<u32> = tokens
        .iter()
        .map(|token| distinct.partition_point(|d| d < token) as u32)
        .collect();
    let mut by_token = vec![0.0; distinct.len() * p];
    scatter_add(g, &index, &mut by_token, p);
    let mut projected = vec![0.0; distinct.len() * d];
    product_transposed(&by_token, w, &mut projected, (distinct.len(), p, d));
    sum_of_squares(&projected)
}

/// R of the gradient of an LSTM's embedding, which is summed over rows and multiplied with `input`: each is off by a
/// rounding of Σ_t ‖g_t‖ times the length of `input`, and of the largest dropout factor. `lengths` are those of g.
fn embedding_slack(
    rows: &LstmRows<'_>,
    input: &InputWeight<'_>,
    lengths: &[f64],
    gates: usize,
) -> f64 {
    let most = rows.factors.map_or(1.0, |factors| {
        factors
            .iter()
            .fold(0.0f64, |most, f| most.max(f64::from(*f)))
    });
    let spread: f64 = lengths.iter().sum();
    most * rounding_of_rows(rows.tokens.len() + gates) * spread * input.length
}

/// The input weight of an LSTM, E × 4H, and its length, which is the same for all examples of a batch.
#[derive(Clone, Copy)]
pub(crate) struct InputWeight<'a> {
    values: &'a [f32],
    length: f64,
}

impl<'a> InputWeight<'a> {
    pub(crate) fn new(values: &'a [f32]) -> Self {
        Self {
            values,
            length: sum_of_squares(values).sqrt(),
        }
    }
}

/// The T rows of one example of an LSTM from which its norms are computed.
pub(crate) struct LstmRows<'a> {
    pub(crate) tokens: &'a [TokenId],
    /// Embedded tokens after dropout, T × E.
    pub(crate) x: &'a [f32],
    /// The dropout factors of the embedded tokens, if values are dropped.
    pub(crate) factors: Option<&'a [f32]>,
    /// Hidden states before each row, T × H.
    pub(crate) before: &'a [f32],
    /// The input of the head, T × H.
    pub(crate) read: &'a [f32],
    /// dL/dz, T × 4H.
    pub(crate) d_gates: &'a [f32],
    /// dL/dlogits, T × V.
    pub(crate) d_logits: &'a [f32],
}

/// ‖gradient‖² of one example of an LSTM to clip by, by clipping group: embedding, recurrent layer, head.
pub(crate) fn lstm_norms(
    rows: &LstmRows<'_>,
    input: &InputWeight<'_>,
    (e, h, vocabulary): (usize, usize, usize),
) -> [f64; GROUPS] {
    let t = rows.tokens.len();
    if t == 0 {
        return [0.0; GROUPS];
    }
    let embedding = match rows.factors {
        None => embedding_norm(rows.tokens, rows.d_gates, input.values, e),
        Some(factors) => {
            let mut d_x = vec![0.0; t * e];
            product_transposed(rows.d_gates, input.values, &mut d_x, (t, 4 * h, e));
            d_x.iter_mut().zip(factors).for_each(|(d, f)| *d *= f);
            table_norm(rows.tokens, &d_x, e).squared
        }
    };
    // input weight, recurrent weight and bias share dL/dz: one layer with inputs [x, h before, 1]
    let mut inputs = Vec::with_capacity(t * (e + h + 1));
    let mut outputs = Vec::with_capacity(t * (h + 1));
    for row in 0..t {
        inputs.extend_from_slice(&rows.x[row * e..(row + 1) * e]);
        inputs.extend_from_slice(&rows.before[row * h..(row + 1) * h]);
        inputs.push(1.0);
        outputs.extend_from_slice(&rows.read[row * h..(row + 1) * h]);
        outputs.push(1.0);
    }
    let shape = (t, e + h + 1, 4 * h);
    let lengths = Lengths::of(&inputs, rows.d_gates, shape);
    let embedding = Measured {
        squared: embedding,
        doubt: 0.0,
        // the norm and the share
        slack: 2.0 * embedding_slack(rows, input, &lengths.g, 4 * h),
    };
    let recurrent = squared_norm_linear(&inputs, rows.d_gates, &lengths, shape);
    let shape = (t, h + 1, vocabulary);
    let lengths = Lengths::of(&outputs, rows.d_logits, shape);
    let head = squared_norm_linear(&outputs, rows.d_logits, &lengths, shape);
    [embedding, recurrent, head].map(|measured| measured.bound())
}

/// Gathers the rows of one example.
pub(crate) fn gather(data: &[f32], rows: &[usize], width: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows.len() * width);
    for &row in rows {
        out.extend_from_slice(&data[row * width..(row + 1) * width]);
    }
    out
}

/// Expands one factor per example to one per row.
pub(crate) fn by_row(factors: &[f32], packed: &Packed) -> Vec<f32> {
    packed
        .example
        .iter()
        .map(|e| factors[*e as usize])
        .collect()
}

/// Multiplies every row by its example's factor.
pub(crate) fn scale_rows(data: &mut [f32], factors: &[f32], packed: &Packed, width: usize) {
    data.par_chunks_mut(BLOCK * width)
        .zip(packed.example.par_chunks(BLOCK))
        .for_each(|(rows, examples)| {
            for (row, example) in rows.chunks_exact_mut(width).zip(examples) {
                let factor = factors[*example as usize];
                row.iter_mut().for_each(|x| *x *= factor);
            }
        });
}

/// sum += aᵀ diag(factors) g for a: rows × d, g: rows × p, in parallel.
pub(crate) fn add_weight_sum(
    a: &[f32],
    factors: Option<&[f32]>,
    g: &[f32],
    sum: &mut [f32],
    (rows, d, p): (usize, usize, usize),
) {
    let a = View::new(a, d).transposed();
    weighted_product(a, factors, View::new(g, p), sum, (d, rows, p), Store::Add);
}

wide! {
    fn row_sums(x: Option<&[f32]>, g: &[f32], factors: Option<&[f32]>, width: usize) -> Vec<f64> {
        let mut sums = vec![0.0; width];
        for (row, g) in g.chunks_exact(width).enumerate() {
            let factor = factors.map_or(1.0, |f| f[row]);
            match x {
                None => {
                    for (s, g) in sums.iter_mut().zip(g) {
                        *s += f64::from(factor * g);
                    }
                }
                Some(x) => {
                    let x = &x[row * width..(row + 1) * width];
                    for ((s, g), x) in sums.iter_mut().zip(g).zip(x) {
                        *s += f64::from(factor * g * x);
                    }
                }
            }
        }
        sums
    }
}

/// sum += Σ rows of factor · g, or of factor · x∘g; blocks of rows in parallel, added in order.
pub(crate) fn add_rows(x: Option<&[f32]>, g: &[f32], factors: Option<&[f32]>, sum: &mut [f32]) {
    let width = sum.len();
    let blocks: Vec<Vec<f64>> = (0..g.len().div_ceil(BLOCK * width))
        .into_par_iter()
        .map(|i| {
            let part = |v: &[f32], each: usize| {
                let end = ((i + 1) * BLOCK * each).min(v.len());
                i * BLOCK * each..end
            };
            row_sums(
                x.map(|x| &x[part(x, width)]),
                &g[part(g, width)],
                factors.map(|f| &f[part(f, 1)]),
                width,
            )
        })
        .collect();
    for (i, s) in sum.iter_mut().enumerate() {
        *s += blocks.iter().map(|b| b[i]).sum::<f64>() as f32;
    }
}

/// sum += Σ rows of g.
pub(crate) fn add_row_sum(g: &[f32], sum: &mut [f32]) {
    add_rows(None, g, None, sum);
}

/// Adds each row of g to the row of `sum` given by `index`.
pub(crate) fn scatter_add(g: &[f32], index: &[u32], sum: &mut [f32], width: usize) {
    for (row, &i) in g.chunks_exact(width).zip(index) {
        let into = &mut sum[i as usize * width..(i as usize + 1) * width];
        for (s, x) in into.iter_mut().zip(row) {
            *s += x;
        }
    }
}
