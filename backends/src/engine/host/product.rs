//! Matrix products on row-major slices, one thread each; the caller splits the work.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// A row-major view; a length that does not fit is a programming mistake of this crate.
fn view(x: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns), &x[..rows * columns])
        .expect("length is rows times columns")
}

fn view_mut(x: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), &mut x[..rows * columns])
        .expect("length is rows times columns")
}

/// c += a b for a: m × k, b: k × n, c: m × n; `shape` is (m, k, n).
pub(crate) fn add_product(a: &[f32], b: &[f32], c: &mut [f32], (m, k, n): (usize, usize, usize)) {
    general_mat_mul(
        1.0,
        &view(a, m, k),
        &view(b, k, n),
        1.0,
        &mut view_mut(c, m, n),
    );
}

/// c = a bᵀ for a: m × k, b: n × k, c: m × n; `shape` is (m, k, n).
pub(crate) fn product_transposed(
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    (m, k, n): (usize, usize, usize),
) {
    general_mat_mul(
        1.0,
        &view(a, m, k),
        &view(b, n, k).t(),
        0.0,
        &mut view_mut(c, m, n),
    );
}

/// c += aᵀ b for a: rows × m, b: rows × n, c: m × n; `shape` is (rows, m, n).
pub(crate) fn add_transposed_product(
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    (rows, m, n): (usize, usize, usize),
) {
    general_mat_mul(
        1.0,
        &view(a, rows, m).t(),
        &view(b, rows, n),
        1.0,
        &mut view_mut(c, m, n),
    );
}

/// The transpose of a rows × columns matrix.
pub(crate) fn transposed(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows * columns];
    for (r, line) in x.chunks_exact(columns).enumerate().take(rows) {
        for (c, value) in line.iter().enumerate() {
            out[c * rows + r] = *value;
        }
    }
    out
}
