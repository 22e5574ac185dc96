//! Layer norm and RMS norm over rows, forward and backward.

use super::arithmetic::dot;
use crate::model::NormKind;

/// The values that the backward pass needs: the normalised rows, and each row's scale.
pub(super) struct NormTrace {
    normal: Vec<f64>,
    scale: Vec<f64>,
}

/// y = normal ∘ gain + bias, where normal = (x − mean)·scale, the mean absent for RMS norms.
pub(super) fn forward(
    kind: NormKind,
    x: &[f64],
    gain: &[f64],
    bias: Option<&[f64]>,
    epsilon: f64,
) -> (Vec<f64>, NormTrace) {
    let d = gain.len();
    let mut trace = NormTrace {
        normal: Vec::with_capacity(x.len()),
        scale: Vec::with_capacity(x.len() / d),
    };
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks_exact(d) {
        let mean = match kind {
            NormKind::Layer => row.iter().sum::<f64>() / d as f64,
            NormKind::Rms | NormKind::RmsPlusOne => 0.0,
        };
        let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d as f64;
        let scale = (square + epsilon).sqrt().recip();
        trace.scale.push(scale);
        for (i, x) in row.iter().enumerate() {
            let normal = (x - mean) * scale;
            trace.normal.push(normal);
            y.push(normal * factor(kind, gain[i]) + bias.map_or(0.0, |b| b[i]));
        }
    }
    (y, trace)
}

fn factor(kind: NormKind, gain: f64) -> f64 {
    match kind {
        NormKind::Layer | NormKind::Rms => gain,
        NormKind::RmsPlusOne => 1.0 + gain,
    }
}

/// dL/dx from dL/dy; adds dL/dgain and dL/dbias.
///
/// dL/dx = scale · (u − mean(u) − normal·mean(u ∘ normal)) with u = dL/dy ∘ gain; the first
/// mean is absent for RMS norms.
pub(super) fn backward(
    kind: NormKind,
    trace: &NormTrace,
    gain: &[f64],
    d_y: &[f64],
    d_gain: &mut [f64],
    d_bias: Option<&mut [f64]>,
) -> Vec<f64> {
    let d = gain.len();
    let mut d_x = Vec::with_capacity(d_y.len());
    let rows = d_y.chunks_exact(d).zip(trace.normal.chunks_exact(d));
    for ((d_y, normal), scale) in rows.zip(&trace.scale) {
        let u: Vec<f64> = d_y
            .iter()
            .zip(gain)
            .map(|(d_y, g)| d_y * factor(kind, *g))
            .collect();
        let mean = match kind {
            NormKind::Layer => u.iter().sum::<f64>() / d as f64,
            NormKind::Rms | NormKind::RmsPlusOne => 0.0,
        };
        let along = dot(&u, normal) / d as f64;
        for i in 0..d {
            d_gain[i] += d_y[i] * normal[i];
            d_x.push(scale * (u[i] - mean - normal[i] * along));
        }
    }
    if let Some(d_bias) = d_bias {
        super::arithmetic::add_rows(d_y, d_bias);
    }
    d_x
}
