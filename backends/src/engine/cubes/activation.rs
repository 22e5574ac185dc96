//! Nonlinearities of feed-forward parts and their gradients, in one pass over memory.

use super::{Cubes, UNITS, floats, packed, room};
use crate::engine::layers::{Matrix, Nonlinearity};
use crate::engine::portable_layers::QUICK;
use crate::model::Activation;
use cubecl::prelude::*;

/// Groups of threads, each of which strides over the values.
const GROUPS: usize = 1024;

/// f(z), or f(gate) · up if z holds gates beside the values that they scale.
pub(in crate::engine) fn activate<B: Cubes>(z: Matrix<B>, shape: Nonlinearity) -> Matrix<B> {
    let [rows, _] = z.dims();
    let z = packed(z);
    let out = room(&z, &[rows, shape.width], z.dtype);
    let client = z.client.clone();
    // SAFETY: each place of `out` is below rows · width, and of z below its rows times its columns.
    #[expect(unsafe_code, reason = "launches a kernel that stays inside its arrays")]
    unsafe {
        forward::launch_unchecked::<B::Own>(
            &client,
            CubeCount::Static(GROUPS as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            z.into_array_arg(),
            out.clone().into_array_arg(),
            (rows * shape.width) as u32,
            shape.width as u32,
            shape.kind,
            shape.gated,
        );
    }
    floats(out)
}

/// dL/dz of [`activate`] from dL/df.
pub(in crate::engine) fn activate_back<B: Cubes>(
    d_out: Matrix<B>,
    z: Matrix<B>,
    shape: Nonlinearity,
) -> Matrix<B> {
    let [rows, columns] = z.dims();
    let (d_out, z) = (packed(d_out), packed(z));
    let out = room(&z, &[rows, columns], z.dtype);
    let client = z.client.clone();
    // SAFETY: as in `activate`.
    #[expect(unsafe_code, reason = "launches a kernel that stays inside its arrays")]
    unsafe {
        backward::launch_unchecked::<B::Own>(
            &client,
            CubeCount::Static(GROUPS as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            d_out.into_array_arg(),
            z.into_array_arg(),
            out.clone().into_array_arg(),
            (rows * shape.width) as u32,
            shape.width as u32,
            shape.kind,
            shape.gated,
        );
    }
    floats(out)
}

#[cube(launch_unchecked)]
fn forward(
    z: &Array<f32>,
    out: &mut Array<f32>,
    values: u32,
    width: u32,
    #[comptime] kind: Activation,
    #[comptime] gated: bool,
) {
    let width = width as usize;
    let step = comptime!(GROUPS * UNITS as usize);
    for at in range_stepped(ABSOLUTE_POS, values as usize, step) {
        if comptime!(gated) {
            let gate = at / width * 2 * width + at % width;
            let (value, _) = value_and_slope(z[gate], kind);
            out[at] = value * z[gate + width];
        } else {
            let (value, _) = value_and_slope(z[at], kind);
            out[at] = value;
        }
    }
}

#[cube(launch_unchecked)]
fn backward(
    d_out: &Array<f32>,
    z: &Array<f32>,
    out: &mut Array<f32>,
    values: u32,
    width: u32,
    #[comptime] kind: Activation,
    #[comptime] gated: bool,
) {
    let width = width as usize;
    let step = comptime!(GROUPS * UNITS as usize);
    for at in range_stepped(ABSOLUTE_POS, values as usize, step) {
        if comptime!(gated) {
            let gate = at / width * 2 * width + at % width;
            let (value, slope) = value_and_slope(z[gate], kind);
            out[gate] = d_out[at] * z[gate + width] * slope;
            out[gate + width] = d_out[at] * value;
        } else {
            let (_, slope) = value_and_slope(z[at], kind);
            out[at] = d_out[at] * slope;
        }
    }
}

/// f(z) and f'(z).
#[cube]
fn value_and_slope(z: f32, #[comptime] kind: Activation) -> (f32, f32) {
    match kind {
        Activation::GeluTanh => {
            let root = comptime!((2.0 / std::f32::consts::PI).sqrt());
            let t = f32::tanh((z + z * z * z * 0.044_715f32) * root);
            let half = (t + 1.0f32) * 0.5f32;
            let inner = (z * z * 0.134_145f32 + 1.0f32) * root;
            (z * half, half + z * (1.0f32 - t * t) * inner * 0.5f32)
        }
        Activation::Gelu => {
            let cdf = (Erf::erf(z * std::f32::consts::FRAC_1_SQRT_2) + 1.0f32) * 0.5f32;
            let density = f32::exp(z * z * -0.5f32) * 0.398_942_3f32;
            (z * cdf, cdf + z * density)
        }
        Activation::Silu => sigmoid_weighted(z, 1.0f32),
        Activation::QuickGelu => sigmoid_weighted(z, QUICK),
        Activation::Relu => {
            let slope = select(z > 0.0f32, 1.0f32, 0.0f32);
            (max(z, 0.0f32), slope)
        }
    }
}

/// z s(k z) and its derivative, where s is the logistic function.
#[cube]
fn sigmoid_weighted(z: f32, k: f32) -> (f32, f32) {
    let s = 1.0f32 / (1.0f32 + f32::exp(-(z * k)));
    (z * s, s + z * s * (1.0f32 - s) * k)
}
