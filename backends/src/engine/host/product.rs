//! Matrix products on row-major slices, each on one thread; the caller splits the work.

use super::gemm::{Store, View, dense_here};

/// c += a b for few rows: b is read once for four rows at a time, with sixteen columns in registers.
///
/// The general product first packs all of b, which costs more than eight rows take here. Each value is summed over k in
/// order, whatever the number of rows. The recurrence uses only this kernel, so that an example gets the same bits in
/// any batch.
#[inline(always)]
pub(crate) fn add_product_of_few_rows(
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    (m, k, n): (usize, usize, usize),
) {
    let whole = n - n % COLUMNS;
    for row in (0..m).step_by(4) {
        let rows = (m - row).min(4);
        // rows beyond the last repeat it, and their sums are discarded
        let line = |r: usize| &a[(row + r.min(rows - 1)) * k..][..k];
        let lines = [line(0), line(1), line(2), line(3)];
        for column in (0..whole).step_by(COLUMNS) {
            let sums = four_rows(lines, &b[column..], n);
            for (r, sum) in sums.iter().enumerate().take(rows) {
                let into = &mut c[(row + r) * n + column..][..COLUMNS];
                into.iter_mut().zip(sum).for_each(|(c, s)| *c += s);
            }
        }
        for r in row..row + rows {
            for column in whole..n {
                let sum: f32 = (0..k).map(|i| a[r * k + i] * b[i * n + column]).sum();
                c[r * n + column] += sum;
            }
        }
    }
}

/// Columns that stay in registers.
const COLUMNS: usize = 16;

/// Sixteen columns of four rows: the innermost loop of the recurrence.
#[inline(always)]
fn four_rows([a0, a1, a2, a3]: [&[f32]; 4], b: &[f32], n: usize) -> [[f32; COLUMNS]; 4] {
    let (mut s0, mut s1, mut s2, mut s3) = (
        [0.0f32; COLUMNS],
        [0.0f32; COLUMNS],
        [0.0f32; COLUMNS],
        [0.0f32; COLUMNS],
    );
    for ((((line, f0), f1), f2), f3) in b.chunks(n).zip(a0).zip(a1).zip(a2).zip(a3) {
        let line = &line[..COLUMNS];
        for j in 0..COLUMNS {
            s0[j] += f0 * line[j];
            s1[j] += f1 * line[j];
            s2[j] += f2 * line[j];
            s3[j] += f3 * line[j];
        }
    }
    [s0, s1, s2, s3]
}

/// c = a bᵀ for a: m × k, b: n × k, c: m × n; `shape` is (m, k, n).
pub(crate) fn product_transposed(
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    (m, k, n): (usize, usize, usize),
) {
    let b = View::new(b, k).transposed();
    dense_here(View::new(a, k), b, c, (m, k, n), Store::Set, None);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_give_the_general_product() {
        for (m, k, n) in [
            (1, 3, 5),
            (4, 7, 16),
            (5, 20, 33),
            (13, 40, 100),
            (3, 1, 16),
        ] {
            let fill = |count: usize, step: usize| -> Vec<f32> {
                (0..count)
                    .map(|i| ((i * step) % 17) as f32 / 8.0 - 1.0)
                    .collect()
            };
            let (a, b) = (fill(m * k, 5), fill(k * n, 7));
            let (mut few, mut general) = (fill(m * n, 3), fill(m * n, 3));
            add_product_of_few_rows(&a, &b, &mut few, (m, k, n));
            let (x, y) = (View::new(&a, k), View::new(&b, n));
            dense_here(x, y, &mut general, (m, k, n), Store::Add, None);
            for (x, y) in few.iter().zip(&general) {
                assert!((x - y).abs() < 1e-4, "{m} {k} {n}: {x} against {y}");
            }
        }
    }
}
