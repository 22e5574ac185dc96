//! The largest magnitude of tensors, which also tells whether all values are finite.

use super::{Cubes, UNITS, folded, integers, packed, room};
use crate::engine::layers::Matrix;
use burn::tensor::{DType, Tensor};
use cubecl::prelude::*;

/// Groups of threads per tensor, each of which returns one number.
const PARTS: usize = 128;

/// The largest magnitude of each tensor; not finite if one of its values is not.
pub(in crate::engine) fn largest<B: Cubes>(tensors: &[Matrix<B>]) -> Vec<f32> {
    let Some(first) = tensors.first() else {
        return Vec::new();
    };
    let first = super::bare(first.clone());
    let out = room(&first, &[tensors.len() * PARTS], DType::I32);
    for (i, x) in tensors.iter().enumerate() {
        let x = packed(x.clone());
        let values = x.meta.shape().num_elements();
        let client = x.client.clone();
        // SAFETY: places are below `values`, and each group writes one number of `out`, which has one for each.
        #[expect(unsafe_code, reason = "launches a kernel that stays inside its arrays")]
        unsafe {
            magnitudes::launch_unchecked::<B::Own>(
                &client,
                CubeCount::Static(PARTS as u32, 1, 1),
                CubeDim::new_1d(UNITS),
                x.into_array_arg(),
                out.clone().into_array_arg(),
                values as u32,
                (i * PARTS) as u32,
            );
        }
    }
    let out: Tensor<B, 1, burn::tensor::Int> = integers(out);
    crate::engine::transfers::host_bits(out)
        .chunks_exact(PARTS)
        .map(|parts| f32::from_bits(parts.iter().copied().max().unwrap_or(0)))
        .collect()
}

#[cube(launch_unchecked)]
fn magnitudes(x: &Array<f32>, out: &mut Array<u32>, values: u32, first: u32) {
    let unit = UNIT_POS as usize;
    let units = comptime!(UNITS as usize);
    let mut parts = SharedMemory::<u32>::new(units);
    // as integers, magnitudes are ordered like their values, and values that are not finite are larger
    let mut most = 0u32;
    for at in range_stepped(
        ABSOLUTE_POS,
        values as usize,
        comptime!(PARTS * UNITS as usize),
    ) {
        most = max(most, u32::reinterpret(x[at]) & 0x7fff_ffffu32);
    }
    parts[unit] = most;
    let most = folded(&mut parts, true);
    if unit == 0 {
        out[first as usize + CUBE_POS] = most;
    }
}
