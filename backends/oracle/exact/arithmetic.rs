//! Matrix products by ndarray and row-wise functions in f64, written as their definitions.

use ndarray::{Array2, ArrayView2};

/// x·W for x: rows × d and W: d × p.
pub(super) fn product(x: &[f64], w: &[f64], d: usize, p: usize) -> Vec<f64> {
    row_major(&matrix(x, d).dot(&matrix(w, p)))
}

/// y·Wᵀ for y: rows × p and W: d × p; rows × d.
pub(super) fn product_transposed(y: &[f64], w: &[f64], p: usize) -> Vec<f64> {
    row_major(&matrix(y, p).dot(&matrix(w, p).t()))
}

/// sum += xᵀ·y for x: rows × d and y: rows × p.
pub(super) fn add_outer(x: &[f64], y: &[f64], d: usize, p: usize, sum: &mut [f64]) {
    add(&row_major(&matrix(x, d).t().dot(&matrix(y, p))), sum);
}

/// The rows stored one after the other in `values`.
fn matrix(values: &[f64], columns: usize) -> ArrayView2<'_, f64> {
    ArrayView2::from_shape((values.len() / columns, columns), values)
        .expect("callers hand over whole rows")
}

/// Returns the entries row by row, whatever the storage order of the product.
fn row_major(x: &Array2<f64>) -> Vec<f64> {
    x.iter().copied().collect()
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// sum += x.
pub(super) fn add(x: &[f64], sum: &mut [f64]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
}

/// sum += every row of x.
pub(super) fn add_rows(x: &[f64], sum: &mut [f64]) {
    x.chunks_exact(sum.len()).for_each(|row| add(row, sum));
}

/// Every row of x += row.
pub(super) fn add_to_rows(row: &[f64], x: &mut [f64]) {
    x.chunks_exact_mut(row.len()).for_each(|x| add(row, x));
}

/// Log-softmax of one row.
pub(super) fn log_softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
    let shift = largest + sum.ln();
    row.iter().map(|x| x - shift).collect()
}

/// c·tanh(x / c).
pub(super) fn cap(x: f64, c: Option<f64>) -> f64 {
    c.map_or(x, |c| c * (x / c).tanh())
}

/// The slope of `cap` where its value is `y`: 1 − (y/c)².
pub(super) fn cap_slope(y: f64, c: Option<f64>) -> f64 {
    c.map_or(1.0, |c| 1.0 - (y / c).powi(2))
}
