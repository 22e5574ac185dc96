//! The statistics that scores need of each row's distribution, with a group of threads per row; logits stay on the
//! device.

use super::{Cubes, UNITS, floats, folded, packed, room, rows_of_groups};
use crate::engine::layers::Matrix;
use crate::engine::transfers::{host, indices};
use crate::scorer::TokenScore;
use burn::tensor::Tensor;
use cubecl::prelude::*;
use reticent_corpus::TokenId;

/// Numbers per row.
const NUMBERS: usize = 5;

/// The statistics of a row x with softmax p.
struct Distribution {
    /// Its largest value.
    most: f64,
    /// ln Σ exp(x - most).
    normaliser: f64,
    /// Mean of x - most under p.
    mean: f64,
    /// Variance of x - most under p.
    variance: f64,
    /// The last position of `most`.
    top: TokenId,
}

/// Returns the distribution of each row together with its values of `columns_beside`, in one transfer.
fn distributions<B: Cubes>(
    logits: Matrix<B>,
    columns_beside: Matrix<B>,
) -> Vec<(Distribution, Vec<f32>)> {
    let [rows, columns] = logits.dims();
    let logits = packed(logits);
    let out = room(&logits, &[rows, NUMBERS], logits.dtype);
    let client = logits.client.clone();
    // SAFETY: a group has one row below `rows` and writes the numbers of that row; its threads read columns below `columns`.
    #[expect(unsafe_code, reason = "launches a kernel that stays inside its arrays")]
    unsafe {
        rows_apart::launch_unchecked::<B::Own>(
            &client,
            rows_of_groups(rows),
            CubeDim::new_1d(UNITS),
            logits.into_array_arg(),
            out.clone().into_array_arg(),
            rows as u32,
            columns as u32,
        );
    }
    let all = Tensor::cat(vec![floats(out), columns_beside], 1);
    let width = all.dims()[1];
    let one = |row: &[f32]| {
        let (numbers, beside) = row.split_at(NUMBERS);
        let distribution = Distribution {
            most: f64::from(numbers[0]),
            normaliser: f64::from(numbers[1]).ln(),
            mean: f64::from(numbers[2]),
            variance: f64::from(numbers[3]),
            top: numbers[4] as TokenId,
        };
        (distribution, beside.to_vec())
    };
    host::<B, 2>(all).chunks_exact(width).map(one).collect()
}

impl Distribution {
    fn log_probability(&self, logit: f32) -> f64 {
        f64::from(logit) - self.most - self.normaliser
    }
}

/// Statistics of each row's distribution and of its target.
pub(in crate::engine) fn scores<B: Cubes>(
    logits: Matrix<B>,
    targets: &[TokenId],
) -> Vec<TokenScore> {
    if targets.is_empty() {
        return Vec::new();
    }
    let index = indices::<B>(targets, &logits.device()).reshape([targets.len(), 1]);
    let own = logits.clone().gather(1, index);
    let one = |(row, own): (Distribution, Vec<f32>)| TokenScore {
        log_probability: row.log_probability(own[0]),
        mean: row.mean - row.normaliser,
        variance: row.variance,
        top_token: row.top,
        top_log_probability: -row.normaliser,
    };
    distributions(logits, own).into_iter().map(one).collect()
}

/// log p of these tokens, row by row.
pub(in crate::engine) fn log_probabilities<B: Cubes>(
    logits: Matrix<B>,
    wanted: &[TokenId],
) -> Vec<f64> {
    if wanted.is_empty() || logits.dims()[0] == 0 {
        return Vec::new();
    }
    let chosen = logits
        .clone()
        .select(1, indices::<B>(wanted, &logits.device()));
    let rows = distributions(logits, chosen);
    let one = |(row, chosen): &(Distribution, Vec<f32>)| -> Vec<f64> {
        chosen.iter().map(|x| row.log_probability(*x)).collect()
    };
    rows.iter().flat_map(one).collect()
}

#[cube(launch_unchecked)]
fn rows_apart(logits: &Array<f32>, out: &mut Array<f32>, rows: u32, columns: u32) {
    // groups beyond the rows write the last row again
    let row = min(CUBE_POS, rows as usize - 1);
    let unit = UNIT_POS as usize;
    let units = comptime!(UNITS as usize);
    let columns = columns as usize;
    let start = row * columns;
    let mut parts = SharedMemory::<f32>::new(units);
    let mut places = SharedMemory::<u32>::new(units);

    let mut most = f32::min_value();
    for at in range_stepped(unit, columns, units) {
        most = max(most, logits[start + at]);
    }
    parts[unit] = most;
    let most = folded(&mut parts, true);

    let mut sum = 0.0f32;
    let mut first = 0.0f32;
    let mut top = 0u32;
    for at in range_stepped(unit, columns, units) {
        let below = logits[start + at] - most;
        let weight = f32::exp(below);
        sum += weight;
        first += weight * below;
        top = select(below == 0.0f32, at as u32, top);
    }
    parts[unit] = sum;
    let sum = folded(&mut parts, false);
    parts[unit] = first;
    let mean = folded(&mut parts, false) / sum;
    places[unit] = top;
    let top = folded(&mut places, true);

    // around the mean, because a difference of two sums would lose the digits of a small variance
    let mut second = 0.0f32;
    for at in range_stepped(unit, columns, units) {
        let below = logits[start + at] - most;
        let apart = below - mean;
        second += f32::exp(below) * apart * apart;
    }
    parts[unit] = second;
    let variance = folded(&mut parts, false) / sum;

    if unit == 0 {
        let at = row * comptime!(NUMBERS);
        out[at] = most;
        out[at + 1] = sum;
        out[at + 2] = mean;
        out[at + 3] = variance;
        out[at + 4] = f32::cast_from(top);
    }
}
