//! Book-keeping: per-example gradient norms and clipped sums from layer inputs and taps,
//! without ever holding a per-example gradient.
//!
//! With a the inputs of a linear layer (T × d) and g the gradients of its outputs (T × p), the
//! gradient of its weight is aᵀg, so ‖aᵀg‖² = Σ_{s,t} (a aᵀ)∘(g gᵀ), and the sum of clipped
//! gradients is aᵀ(c∘g) over all rows at once. Sums of squares run in f64: a norm that comes
//! out too small would be a clip that is too weak.

use super::product::{add_transposed_product, product_transposed};
use crate::engine::packed::Packed;
use ndarray::parallel::prelude::*;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};

/// Columns per parallel block of a weight gradient.
const COLUMNS: usize = 128;

/// ‖aᵀg‖² for a: t × d, g: t × p, whichever way is cheaper.
pub(crate) fn squared_norm_linear(a: &[f32], g: &[f32], (t, d, p): (usize, usize, usize)) -> f64 {
    if t * (d + p) <= d * p {
        let mut inputs = vec![0.0; t * t];
        let mut outputs = vec![0.0; t * t];
        product_transposed(a, a, &mut inputs, (t, d, t));
        product_transposed(g, g, &mut outputs, (t, p, t));
        // a sum of products of two Gram matrices is not negative; rounding may make it so
        inputs
            .iter()
            .zip(&outputs)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum::<f64>()
            .max(0.0)
    } else {
        let mut gradient = vec![0.0; d * p];
        add_transposed_product(a, g, &mut gradient, (t, d, p));
        sum_of_squares(&gradient)
    }
}

/// Σ x² in f64.
pub(crate) fn sum_of_squares(x: &[f32]) -> f64 {
    x.iter().map(|v| f64::from(*v) * f64::from(*v)).sum()
}

/// The rows of one example, one after the other.
pub(crate) fn gather(data: &[f32], rows: &[usize], width: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows.len() * width);
    for &row in rows {
        out.extend_from_slice(&data[row * width..(row + 1) * width]);
    }
    out
}

/// Multiplies every row by its example's factor.
pub(crate) fn scale_rows(data: &mut [f32], factors: &[f32], packed: &Packed, width: usize) {
    ndarray::parallel::prelude::IntoParallelIterator::into_par_iter(
        ArrayViewMut2::from_shape((packed.rows(), width), data)
            .expect("rows times width")
            .axis_iter_mut(Axis(0)),
    )
    .zip(&packed.example)
    .for_each(|(mut row, &example)| {
        let factor = factors[example as usize];
        row.iter_mut().for_each(|x| *x *= factor);
    });
}

/// sum += aᵀg for a: rows × d, g: rows × p, in parallel over columns.
pub(crate) fn add_weight_sum(
    a: &[f32],
    g: &[f32],
    sum: &mut [f32],
    (rows, d, p): (usize, usize, usize),
) {
    let a = ArrayView2::from_shape((rows, d), a).expect("rows times inputs");
    let g = ArrayView2::from_shape((rows, p), g).expect("rows times outputs");
    let mut sum = ArrayViewMut2::from_shape((d, p), sum).expect("inputs times outputs");
    let blocks: Vec<_> = sum
        .axis_chunks_iter_mut(Axis(1), COLUMNS)
        .zip(g.axis_chunks_iter(Axis(1), COLUMNS))
        .collect();
    blocks.into_par_iter().for_each(|(mut sum, g)| {
        ndarray::linalg::general_mat_mul(1.0, &a.t(), &g, 1.0, &mut sum);
    });
}

/// sum += Σ rows of g.
pub(crate) fn add_row_sum(g: &[f32], sum: &mut [f32]) {
    let width = sum.len();
    let mut total = vec![0.0f64; width];
    for row in g.chunks_exact(width) {
        for (t, x) in total.iter_mut().zip(row) {
            *t += f64::from(*x);
        }
    }
    for (s, t) in sum.iter_mut().zip(total) {
        *s += t as f32;
    }
}

/// Adds each row of g to the row of `sum` that `index` names.
pub(crate) fn scatter_add(g: &[f32], index: &[u32], sum: &mut [f32], width: usize) {
    for (row, &i) in g.chunks_exact(width).zip(index) {
        let into = &mut sum[i as usize * width..(i as usize + 1) * width];
        for (s, x) in into.iter_mut().zip(row) {
            *s += x;
        }
    }
}
