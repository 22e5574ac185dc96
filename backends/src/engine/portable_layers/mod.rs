//! Transformer layers in tensor operations of any backend, on grids of examples × steps.
//!
//! Unused rows stand at the end of each example. No preceding row attends to them, and they predict nothing, so the
//! gradient of all their values is zero.

use crate::engine::layers::{
    Ends, Factors, Floats, HeadGradient, HeadRun, HeadWeights, LinearTap, Losses, Matrix,
    Nonlinearity, NormTap, NormWeights, Normalised, Norms, Sums, Tape,
};
use crate::engine::portable::{capped, host, indices, pieces, product, product_plus, upload};
use crate::engine::rows::Rows;
use crate::model::Activation;
use crate::trainer::{Parameter, Precision};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Int, Tensor};
use reticent_corpus::TokenId;

mod attention;
mod sums;
pub(in crate::engine) use attention::{attend, attend_back};
pub(in crate::engine) use sums::{add_sums, norms};

/// 1.702 in the sigmoid form of the Gaussian error linear unit.
pub(in crate::engine) const QUICK: f32 = 1.702;
pub(in crate::engine) fn zeros<B: Floats>(parameters: &[Parameter], device: &B::Device) -> Sums<B> {
    let matrix = |p: &Parameter| match p.shape[..] {
        [rows, columns] => Tensor::zeros([rows, columns], device),
        _ => Tensor::zeros([1, p.len()], device),
    };
    Sums::Device(parameters.iter().map(matrix).collect())
}

pub(in crate::engine) fn embed<B: Floats>(
    (token, position): (&Matrix<B>, Option<&Matrix<B>>),
    scale: f32,
    offset: u32,
    rows: &Rows,
) -> Matrix<B> {
    let device = token.device();
    let mut out = token.clone().select(0, inputs::<B>(rows, &device));
    if scale.to_bits() != 1.0f32.to_bits() {
        out = out * scale;
    }
    match position {
        Some(table) => {
            out + table
                .clone()
                .select(0, positions::<B>(rows, offset, &device))
        }
        None => out,
    }
}

/// Returns the input token of each row, on the device.
fn inputs<B: Floats>(rows: &Rows, device: &B::Device) -> Tensor<B, 1, Int> {
    rows.kept
        .once("inputs", 0, || indices::<B>(&rows.inputs, device))
}

/// Returns the row of the position table for each row, on the device.
fn positions<B: Floats>(rows: &Rows, offset: u32, device: &B::Device) -> Tensor<B, 1, Int> {
    rows.kept.once("positions", offset as usize, || {
        let at: Vec<u32> = rows.positions.iter().map(|at| at + offset).collect();
        indices::<B>(&at, device)
    })
}

pub(in crate::engine) fn linear<B: Floats>(
    x: &Matrix<B>,
    w: &Matrix<B>,
    b: Option<&Matrix<B>>,
    precision: Precision,
) -> Matrix<B> {
    match b {
        Some(b) => product_plus(x.clone(), w.clone(), b.clone(), precision),
        None => product(x.clone(), w.clone(), precision),
    }
}

pub(in crate::engine) fn linear_back<B: Floats>(
    dy: &Matrix<B>,
    w: &Matrix<B>,
    precision: Precision,
) -> Matrix<B> {
    product(dy.clone(), w.clone().transpose(), precision)
}

pub(in crate::engine) fn logits<B: Floats>(
    hidden: &Matrix<B>,
    head: &HeadWeights<B>,
    precision: Precision,
) -> Matrix<B> {
    capped(uncapped(hidden, head, precision), head.cap)
}

fn uncapped<B: Floats>(
    hidden: &Matrix<B>,
    head: &HeadWeights<B>,
    precision: Precision,
) -> Matrix<B> {
    let w = head.matrix.clone();
    let w = if head.tied { w.transpose() } else { w };
    linear(hidden, &w, head.bias.as_ref(), precision)
}

fn gain<B: Floats>(weights: &NormWeights<B>) -> Matrix<B> {
    if weights.normal.plus_one {
        weights.gain.clone() + 1.0
    } else {
        weights.gain.clone()
    }
}

pub(in crate::engine) fn normalise<B: Floats>(
    x: &Matrix<B>,
    weights: &NormWeights<B>,
) -> Normalised<B> {
    let x = x.clone();
    let x = if weights.normal.centred {
        x.clone() - x.mean_dim(1)
    } else {
        x
    };
    let variance = x.clone().powi_scalar(2).mean_dim(1);
    let scale = (variance + weights.normal.epsilon).sqrt().recip();
    let unit = x * scale.clone();
    let y = unit.clone() * gain(weights);
    let y = match &weights.bias {
        Some(bias) => y + bias.clone(),
        None => y,
    };
    Normalised { y, unit, scale }
}

pub(in crate::engine) fn normalise_back<B: Floats>(
    dy: &Matrix<B>,
    kept: &Normalised<B>,
    weights: &NormWeights<B>,
) -> Matrix<B> {
    let d = dy.clone() * gain(weights);
    let along = (d.clone() * kept.unit.clone()).mean_dim(1);
    let d = if weights.normal.centred {
        d.clone() - d.mean_dim(1)
    } else {
        d
    };
    (d - kept.unit.clone() * along) * kept.scale.clone()
}

/// Returns the examples and steps of a grid.
fn grid(rows: &Rows) -> (usize, usize) {
    let grid = rows.grid.expect("portable layers work on grids");
    (grid.examples, grid.steps)
}

/// Returns the activation of z and its derivative.
fn activation<B: Floats>(z: Matrix<B>, kind: Activation) -> (Matrix<B>, Matrix<B>) {
    match kind {
        Activation::GeluTanh => {
            let root = (2.0 / std::f32::consts::PI).sqrt();
            let inner = (z.clone() + z.clone().powi_scalar(3) * 0.044_715) * root;
            let t = inner.tanh();
            let slope = (z.clone().powi_scalar(2) * (3.0 * 0.044_715) + 1.0) * root;
            let half = (t.clone() + 1.0) * 0.5;
            let bend = z.clone() * (-t.powi_scalar(2) + 1.0) * slope * 0.5;
            (z * half.clone(), half + bend)
        }
        Activation::Gelu => {
            let cdf = ((z.clone() * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
            let density = (z.clone().powi_scalar(2) * -0.5).exp() * 0.398_942_3;
            (z.clone() * cdf.clone(), cdf + z * density)
        }
        Activation::Silu => {
            let s = sigmoid(z.clone());
            let slope = s.clone() * (z.clone() * (-s.clone() + 1.0) + 1.0);
            (z * s, slope)
        }
        Activation::QuickGelu => {
            let s = sigmoid(z.clone() * QUICK);
            let slope = s.clone() * (z.clone() * (-s.clone() + 1.0) * QUICK + 1.0);
            (z * s, slope)
        }
        Activation::Relu => {
            let positive = z.clone().greater_elem(0.0).float();
            (z * positive.clone(), positive)
        }
    }
}

pub(in crate::engine) fn activate<B: Floats>(z: Matrix<B>, shape: Nonlinearity) -> Matrix<B> {
    if !shape.gated {
        return activation(z, shape.kind).0;
    }
    let gate = z.clone().narrow(1, 0, shape.width);
    let up = z.narrow(1, shape.width, shape.width);
    activation(gate, shape.kind).0 * up
}

pub(in crate::engine) fn activate_back<B: Floats>(
    d_out: Matrix<B>,
    z: Matrix<B>,
    shape: Nonlinearity,
) -> Matrix<B> {
    if !shape.gated {
        return d_out * activation(z, shape.kind).1;
    }
    let gate = z.clone().narrow(1, 0, shape.width);
    let up = z.narrow(1, shape.width, shape.width);
    let (value, slope) = activation(gate, shape.kind);
    Tensor::cat(vec![d_out.clone() * up * slope, d_out * value], 1)
}

pub(in crate::engine) fn head<B: Floats>(
    hidden: &Matrix<B>,
    head: &HeadWeights<B>,
    targets: &[TokenId],
    precision: Precision,
    own: HeadGradient<'_, B>,
) -> HeadRun<B> {
    let (mut nll, mut d_hidden, mut deltas) = (Vec::new(), Vec::new(), Vec::new());
    for start in (0..targets.len()).step_by(B::HEAD_ROWS) {
        let count = (targets.len() - start).min(B::HEAD_ROWS);
        let h = hidden.clone().narrow(0, start, count);
        let (block_nll, delta) = B::cross_entropy(
            uncapped(&h, head, precision),
            &targets[start..start + count],
            head.cap,
        );
        let w = head.matrix.clone();
        let back = if head.tied { w } else { w.transpose() };
        d_hidden.push(product(delta.clone(), back, precision));
        nll.push(block_nll);
        match own {
            HeadGradient::Frozen => {}
            // one product over all rows, with the others' sums: split into parts it took 16 times as long on a card
            HeadGradient::Kept | HeadGradient::Added(..) => deltas.push(delta),
        }
    }
    HeadRun {
        nll: Losses::Device(Tensor::cat(nll, 0)),
        d_hidden: Tensor::cat(d_hidden, 0),
        delta: (!deltas.is_empty()).then(|| Tensor::cat(deltas, 0)),
    }
}

fn head_sum<B: Floats>(hidden: Matrix<B>, delta: Matrix<B>, tied: bool) -> Matrix<B> {
    if tied {
        B::product(delta.transpose(), hidden)
    } else {
        B::product(hidden.transpose(), delta)
    }
}
