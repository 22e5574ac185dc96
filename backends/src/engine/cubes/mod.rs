//! Our own GPU kernels where the tensor library's are slow: nonlinearities, losses, scores and largest magnitudes on
//! CUDA and wgpu, products on CUDA.

mod activation;
mod cross_entropy;
mod distribution;
mod largest;
#[cfg(any(feature = "cuda", test))]
mod product;
#[cfg(test)]
mod tests;

pub(super) use activation::{activate, activate_back};
pub(super) use cross_entropy::cross_entropy;
pub(super) use distribution::{log_probabilities, scores};
pub(super) use largest::largest;
#[cfg(any(feature = "cuda", test))]
pub(super) use product::product;

use burn::tensor::backend::Backend;
use burn::tensor::{DType, Int, Shape, Tensor, TensorPrimitive};
use burn_cubecl::CubeRuntime;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Threads of a group.
pub(super) const UNITS: u32 = 256;

/// A backend whose tensors lie in memory that our kernels can access.
pub(super) trait Cubes:
    Backend<
        IntElem = i32,
        FloatTensorPrimitive = CubeTensor<Self::Own>,
        IntTensorPrimitive = CubeTensor<Self::Own>,
    >
{
    type Own: CubeRuntime;
}

fn bare<B: Cubes, const D: usize>(x: Tensor<B, D>) -> CubeTensor<B::Own> {
    x.into_primitive().tensor()
}

/// Returns the tensor in row order, without gaps.
pub(super) fn packed<B: Cubes, const D: usize>(x: Tensor<B, D>) -> CubeTensor<B::Own> {
    into_contiguous(bare(x))
}

pub(super) fn floats<B: Cubes, const D: usize>(x: CubeTensor<B::Own>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

fn integers<B: Cubes, const D: usize>(x: CubeTensor<B::Own>) -> Tensor<B, D, Int> {
    Tensor::from_primitive(x)
}

/// Allocates an uninitialised tensor on the same device, without gaps; the library's own allocations may have gaps
/// after each row.
pub(super) fn room<R: CubeRuntime>(
    beside: &CubeTensor<R>,
    shape: &[usize],
    dtype: DType,
) -> CubeTensor<R> {
    empty_device_contiguous_dtype(
        beside.client.clone(),
        beside.device.clone(),
        Shape::from(shape.to_vec()),
        dtype,
    )
}

/// Returns a launch shape with one group of threads per row.
fn rows_of_groups(rows: usize) -> CubeCount {
    // a dimension may be limited to 2^16 groups
    let across = rows.min(1 << 15);
    CubeCount::Static(across as u32, rows.div_ceil(across) as u32, 1)
}

/// Reduces one value per thread of a group to their maximum or their sum. All threads must call this, and `parts` can
/// be reused afterwards.
#[cube]
fn folded<N: Numeric>(parts: &mut SharedMemory<N>, #[comptime] largest: bool) -> N {
    let unit = UNIT_POS as usize;
    sync_cube();
    let mut half = comptime!(UNITS as usize / 2).runtime();
    while half > 0 {
        if unit < half {
            let (own, other) = (parts[unit], parts[unit + half]);
            parts[unit] = if comptime!(largest) {
                max(own, other)
            } else {
                own + other
            };
        }
        sync_cube();
        half /= 2;
    }
    let whole = parts[0];
    sync_cube();
    whole
}
