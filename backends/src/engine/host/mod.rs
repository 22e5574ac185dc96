//! The processor's own kernels on plain slices: own matrix products, parallel by rayon over groups and blocks.
//!
//! Work is split into parts of fixed sizes, never by the number of threads, so results are the same on any machine with
//! the same instruction set.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod contraction;
pub(crate) mod examples;
pub(crate) mod feed_forward;
pub(crate) mod gemm;
pub(crate) mod gram;
pub(crate) mod head;
pub(crate) mod layers;
pub(crate) mod product;
pub(crate) mod recurrence;
pub(crate) mod vector;

use super::packed::Packed;

/// Returns the mutable rows of each group, `width` values per row.
fn split_rows<'a>(mut data: &'a mut [f32], packed: &Packed, width: usize) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(packed.groups.len());
    for group in &packed.groups {
        let (part, rest) = data.split_at_mut(group.rows() * width);
        parts.push(part);
        data = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::contraction::{add_rows, add_weight_sum, scatter_add};
    use super::vector::{products, sum};

    /// A large first term swallows the ones that follow it in its partial sum, so that what is left of them tells how
    /// terms are grouped. All products are exact, so that no machine's instructions change it. Part of what the number of
    /// the arithmetic stands for: if one of these changes, increase it.
    #[test]
    fn sums_are_in_the_order_of_the_arithmetic() {
        assert_eq!(crate::checkpoint::description::ARITHMETIC, 2);
        let (single, double) = (2f32.powi(24), 2f32.powi(53));
        let after = |first: f32, ones: usize| [vec![first], vec![1.0; ones]].concat();
        let left = |sum: f64, first: f32| (sum - f64::from(first)) as i64;
        // Weights, over rows: blocks of 256 terms.
        let mut weight = [0.0];
        let rows = after(single, 599);
        add_weight_sum(&[1.0; 600], None, &rows, &mut weight, (600, 1, 1));
        // Biases, over rows: blocks of 128, in double precision.
        let mut bias = [0.0];
        let rows = [after(double, 382), vec![-double]].concat();
        add_rows(None, &rows, None, &mut bias);
        // Embeddings, over rows: one after another.
        let mut embedding = [0.0];
        scatter_add(&[1.0, 1.0, single], &[0; 3], &mut embedding, 1);
        // Within rows: sixteen lanes, then a tree of them, or in double precision one after another.
        let within = sum(&after(single, 63));
        let squared = products(&after(double, 47), &[1.0; 48]);
        let found = [
            left(weight[0].into(), single),
            left(bias[0].into(), 0.0),
            left(embedding[0].into(), single),
            left(within.into(), single),
            left(squared, double),
        ];
        assert_eq!(found, [344, 255, 2, 60, 60]);
    }
}
