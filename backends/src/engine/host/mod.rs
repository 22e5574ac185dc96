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
