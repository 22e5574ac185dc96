//! Adam in one kernel. Products of two f32 are computed in f64, where they are exact, and rounded once, so that no
//! compiler fuses them with a sum, and the bits are the host's.

use crate::engine::cubes::{UNITS, floats, packed, room};
use crate::engine::layers::Matrix;
use crate::trainer::optimizer::{AdamRule, BETA1, BETA2};
use burn_cuda::Cuda;
use cubecl::cuda::CudaRuntime;
use cubecl::prelude::*;

/// Returns weights and moments after the step.
pub(super) fn step(values: [Matrix<Cuda>; 4], rule: &AdamRule) -> [Matrix<Cuda>; 3] {
    let shape = values[0].dims();
    let count = shape[0] * shape[1];
    let [w, m, v, g] = values.map(packed);
    let out = [(); 3].map(|()| room(&w, &shape, w.dtype));
    if count > 0 {
        let client = w.client.clone();
        let groups = count.div_ceil(UNITS as usize) as u32;
        // SAFETY: a place is compared with the arrays' length before it is used, and all have the same.
        #[expect(unsafe_code, reason = "launches a kernel that checks its own indices")]
        unsafe {
            adam::launch_unchecked::<CudaRuntime>(
                &client,
                CubeCount::Static(groups, 1, 1),
                CubeDim::new_1d(UNITS),
                w.into_array_arg(),
                m.into_array_arg(),
                v.into_array_arg(),
                g.into_array_arg(),
                out[0].clone().into_array_arg(),
                out[1].clone().into_array_arg(),
                out[2].clone().into_array_arg(),
                BETA1 as f32,
                BETA2 as f32,
                rule.rate,
                rule.keep,
                rule.epsilon,
            );
        }
    }
    out.map(floats)
}

#[cube(launch_unchecked)]
fn adam(
    w: &Array<f32>,
    m: &Array<f32>,
    v: &Array<f32>,
    g: &Array<f32>,
    new_w: &mut Array<f32>,
    new_m: &mut Array<f32>,
    new_v: &mut Array<f32>,
    b1: f32,
    b2: f32,
    rate: f32,
    keep: f32,
    epsilon: f32,
) {
    let at = ABSOLUTE_POS;
    if at < w.len() {
        let own = g[at];
        let first = times(m[at], b1) + times(own, 1.0f32 - b1);
        let second = times(v[at], b2) + times(times(own, 1.0f32 - b2), own);
        let moved = times(first, rate) / (f32::sqrt(second) + epsilon);
        new_w[at] = times(w[at], keep) - moved;
        new_m[at] = first;
        new_v[at] = second;
    }
}

#[cube]
fn times(x: f32, y: f32) -> f32 {
    f32::cast_from(f64::cast_from(x) * f64::cast_from(y))
}
