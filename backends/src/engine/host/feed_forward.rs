//! The nonlinearities of feed-forward parts, gated or not, and their derivatives.

use super::activation::{exp, sigmoid, tanh};
use super::vector::{BLOCK, wide};
use crate::engine::layers::Nonlinearity;
use crate::engine::portable_layers::QUICK;
use crate::model::Activation;
use rayon::prelude::*;

const ROOT_2_OVER_PI: f32 = 0.797_884_6;
const CUBE: f32 = 0.044_715;

/// Φ(x) by the error function: Abramowitz & Stegun 7.1.26, absolute error below 1e-7.
#[inline(always)]
fn normal_cdf(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let p = 1.061_405_4_f32;
    let p = p * t - 1.453_152;
    let p = p * t + 1.421_413_7;
    let p = p * t - 0.284_496_74;
    let p = p * t + 0.254_829_6;
    let tail = 0.5 * p * t * exp(-z * z);
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// A nonlinearity and its derivative. This is a method of a type rather than a closure, because only code that is
/// certain to be inlined is compiled for the widest vectors.
trait Nonlinear {
    /// (f(x), f'(x)).
    fn at(x: f32) -> (f32, f32);
}

struct GeluTanh;

impl Nonlinear for GeluTanh {
    #[inline(always)]
    fn at(x: f32) -> (f32, f32) {
        let t = tanh(ROOT_2_OVER_PI * (x + CUBE * x * x * x));
        let slope = ROOT_2_OVER_PI * (1.0 + 3.0 * CUBE * x * x);
        (
            0.5 * x * (1.0 + t),
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope,
        )
    }
}

struct Gelu;

impl Nonlinear for Gelu {
    #[inline(always)]
    fn at(x: f32) -> (f32, f32) {
        let (cdf, density) = (normal_cdf(x), 0.398_942_3 * exp(-0.5 * x * x));
        (x * cdf, cdf + x * density)
    }
}

struct Silu;

impl Nonlinear for Silu {
    #[inline(always)]
    fn at(x: f32) -> (f32, f32) {
        let s = sigmoid(x);
        (x * s, s * (1.0 + x * (1.0 - s)))
    }
}

struct Relu;

impl Nonlinear for Relu {
    #[inline(always)]
    fn at(x: f32) -> (f32, f32) {
        (x.max(0.0), if x > 0.0 { 1.0 } else { 0.0 })
    }
}

struct QuickGelu;

impl Nonlinear for QuickGelu {
    #[inline(always)]
    fn at(x: f32) -> (f32, f32) {
        let s = sigmoid(QUICK * x);
        (x * s, s * (1.0 + QUICK * x * (1.0 - s)))
    }
}

#[inline(always)]
fn activate_by<N: Nonlinear>(z: &[f32], out: &mut [f32], shape: Nonlinearity) {
    let width = shape.width;
    if !shape.gated {
        for (o, z) in out.iter_mut().zip(z) {
            *o = N::at(*z).0;
        }
        return;
    }
    for (z, out) in z.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
        let (gate, up) = z.split_at(width);
        for ((o, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *o = N::at(*gate).0 * up;
        }
    }
}

wide! {
    fn activate_rows(z: &[f32], out: &mut [f32], shape: Nonlinearity) {
        match shape.kind {
            Activation::GeluTanh => activate_by::<GeluTanh>(z, out, shape),
            Activation::Gelu => activate_by::<Gelu>(z, out, shape),
            Activation::Silu => activate_by::<Silu>(z, out, shape),
            Activation::Relu => activate_by::<Relu>(z, out, shape),
            Activation::QuickGelu => activate_by::<QuickGelu>(z, out, shape),
        }
    }
}

/// The activation of z (rows × width), or of its first half times its second (rows × 2 width).
pub(crate) fn activate(z: &[f32], shape: Nonlinearity) -> Vec<f32> {
    let wider = if shape.gated { 2 } else { 1 };
    let mut out = vec![0.0; z.len() / wider];
    let size = BLOCK * shape.width;
    let blocks = z.par_chunks(size * wider).zip(out.par_chunks_mut(size));
    blocks.for_each(|(z, out)| activate_rows(z, out, shape));
    out
}

#[inline(always)]
fn back_by<N: Nonlinear>(z: &[f32], d_out: &[f32], dz: &mut [f32], shape: Nonlinearity) {
    let width = shape.width;
    if !shape.gated {
        for ((dz, z), d) in dz.iter_mut().zip(z).zip(d_out) {
            *dz = d * N::at(*z).1;
        }
        return;
    }
    let rows = z
        .chunks_exact(2 * width)
        .zip(dz.chunks_exact_mut(2 * width));
    for ((z, dz), d) in rows.zip(d_out.chunks_exact(width)) {
        let (gate, up) = z.split_at(width);
        let (d_gate, d_up) = dz.split_at_mut(width);
        let inputs = gate.iter().zip(up).zip(d);
        for ((d_gate, d_up), ((gate, up), d)) in d_gate.iter_mut().zip(d_up).zip(inputs) {
            let (value, slope) = N::at(*gate);
            *d_gate = d * up * slope;
            *d_up = d * value;
        }
    }
}

wide! {
    fn back_rows(z: &[f32], d_out: &[f32], dz: &mut [f32], shape: Nonlinearity) {
        match shape.kind {
            Activation::GeluTanh => back_by::<GeluTanh>(z, d_out, dz, shape),
            Activation::Gelu => back_by::<Gelu>(z, d_out, dz, shape),
            Activation::Silu => back_by::<Silu>(z, d_out, dz, shape),
            Activation::Relu => back_by::<Relu>(z, d_out, dz, shape),
            Activation::QuickGelu => back_by::<QuickGelu>(z, d_out, dz, shape),
        }
    }
}

/// dL/dz from dL/d(output) of [`activate`].
pub(crate) fn activate_back(d_out: &[f32], z: &[f32], shape: Nonlinearity) -> Vec<f32> {
    let wider = if shape.gated { 2 } else { 1 };
    let mut dz = vec![0.0; z.len()];
    let size = BLOCK * shape.width;
    let blocks = z
        .par_chunks(size * wider)
        .zip(dz.par_chunks_mut(size * wider))
        .zip(d_out.par_chunks(size));
    blocks.for_each(|((z, dz), d_out)| back_rows(z, d_out, dz, shape));
    dz
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_agree_with_f64_and_their_derivatives_with_differences() {
        let reference = |kind: Activation, x: f64| match kind {
            Activation::GeluTanh => {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3)))
                            .tanh())
            }
            Activation::Gelu => 0.5 * x * libm_erfc(-x / 2f64.sqrt()),
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Relu => x.max(0.0),
            Activation::QuickGelu => x / (1.0 + (-1.702 * x).exp()),
        };
        for kind in [
            Activation::GeluTanh,
            Activation::Gelu,
            Activation::Silu,
            Activation::Relu,
            Activation::QuickGelu,
        ] {
            let (gated, width) = (false, 1);
            let shape = Nonlinearity { kind, gated, width };
            for i in -600..=600 {
                let x = f64::from(i) * 0.013 + 0.001;
                let value = activate(&[x as f32], shape)[0];
                let slope = activate_back(&[1.0], &[x as f32], shape)[0];
                let want = reference(kind, x);
                let difference = (reference(kind, x + 1e-5) - reference(kind, x - 1e-5)) / 2e-5;
                assert!((f64::from(value) - want).abs() < 1.5e-6, "{kind:?} {x}");
                assert!(
                    (f64::from(slope) - difference).abs() < 1e-5,
                    "{kind:?}' {x}"
                );
            }
        }
    }

    /// erfc by its continued fraction and series: independent of the approximation above.
    fn libm_erfc(x: f64) -> f64 {
        if x < 0.0 {
            return 2.0 - libm_erfc(-x);
        }
        if x < 3.0 {
            let (mut term, mut total) = (x, x);
            for n in 1..200 {
                term *= -x * x / f64::from(n);
                total += term / f64::from(2 * n + 1);
            }
            return 1.0 - 2.0 / std::f64::consts::PI.sqrt() * total;
        }
        let fraction = (1..80).rev().fold(x, |f, k| x + f64::from(k) / 2.0 / f);
        (-x * x).exp() / std::f64::consts::PI.sqrt() / fraction
    }
}
