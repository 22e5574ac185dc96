//! Losses and their gradients, with a group of threads per row.

use super::{Cubes, UNITS, floats, folded, packed, room, rows_of_groups};
use crate::engine::layers::Matrix;
use crate::engine::transfers::indices;
use burn::tensor::{Shape, Tensor};
use burn_cubecl::ops::numeric::empty_device_dtype;
use cubecl::prelude::*;
use reticent_corpus::TokenId;

/// -ln p of each row's target and dL/dlogits of their sum, by softmax. Rows whose target is `NO_LOSS` give zeros.
/// With a cap the logits are c tanh(x / c), and the gradient is by x.
pub(in crate::engine) fn cross_entropy<B: Cubes>(
    logits: Matrix<B>,
    targets: &[TokenId],
    cap: Option<f32>,
) -> (Matrix<B>, Matrix<B>) {
    let [rows, columns] = logits.dims();
    let targets: Tensor<B, 1, burn::tensor::Int> = indices(targets, &logits.device());
    let targets = targets.into_primitive();
    let logits = packed(logits);
    let nll = room(&logits, &[rows, 1], logits.dtype);
    // aligned rows, because the product that follows reads four values at once
    let delta = empty_device_dtype(
        logits.client.clone(),
        logits.device.clone(),
        Shape::from(vec![rows, columns]),
        logits.dtype,
    );
    let step = delta.meta.strides()[0];
    if rows > 0 {
        let client = logits.client.clone();
        // SAFETY: a group has one row below `rows`, and its threads only columns below `columns`; a target is compared
        // with columns and never used as a place.
        #[expect(unsafe_code, reason = "launches a kernel that stays inside its arrays")]
        unsafe {
            rows_apart::launch_unchecked::<B::Own>(
                &client,
                rows_of_groups(rows),
                CubeDim::new_1d(UNITS),
                logits.into_array_arg(),
                targets.into_array_arg(),
                nll.clone().into_array_arg(),
                delta.clone().into_array_arg(),
                rows as u32,
                columns as u32,
                step as u32,
                cap.unwrap_or(1.0),
                cap.is_some(),
            );
        }
    }
    (floats(nll), floats(delta))
}

#[cube(launch_unchecked)]
fn rows_apart(
    logits: &Array<f32>,
    targets: &Array<u32>,
    nll: &mut Array<f32>,
    delta: &mut Array<f32>,
    rows: u32,
    columns: u32,
    step: u32,
    cap: f32,
    #[comptime] capped: bool,
) {
    // groups beyond the rows write the last row again
    let row = min(CUBE_POS, rows as usize - 1);
    let unit = UNIT_POS as usize;
    let units = comptime!(UNITS as usize);
    let columns = columns as usize;
    let start = row * columns;
    let target = targets[row];
    let mut parts = SharedMemory::<f32>::new(units);

    let mut most = f32::min_value();
    for at in range_stepped(unit, columns, units) {
        most = max(most, logit(logits[start + at], cap, capped));
    }
    parts[unit] = most;
    let most = folded(&mut parts, true);

    let mut sum = 0.0f32;
    for at in range_stepped(unit, columns, units) {
        sum += f32::exp(logit(logits[start + at], cap, capped) - most);
    }
    parts[unit] = sum;
    let log_sum = f32::ln(folded(&mut parts, false));

    let counted = select(target == 0xffff_ffffu32, 0.0f32, 1.0f32);
    if unit == 0 && target == 0xffff_ffffu32 {
        nll[row] = 0.0f32;
    }
    for at in range_stepped(unit, columns, units) {
        let x = logit(logits[start + at], cap, capped);
        let log_p = x - most - log_sum;
        let own = at == target as usize;
        let mut d = f32::exp(log_p) * counted - select(own, 1.0f32, 0.0f32);
        if own {
            nll[row] = -log_p;
        }
        if comptime!(capped) {
            let bent = x / cap;
            d *= 1.0f32 - bent * bent;
        }
        delta[row * step as usize + at] = d;
    }
}

#[cube]
fn logit(x: f32, cap: f32, #[comptime] capped: bool) -> f32 {
    if comptime!(capped) {
        f32::tanh(x / cap) * cap
    } else {
        x
    }
}
