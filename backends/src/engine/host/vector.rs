//! Loops over rows, compiled for the widest vector instructions of the machine.
//!
//! Sums run in sixteen lanes and a tree, in a fixed order: the same bits on any machine with
//! the same instructions, and an error that grows with the logarithm of the length.

use super::activation::{exp, sigmoid, tanh};
use crate::model::Activation;
use rayon::prelude::*;

/// Rows per parallel block.
pub(crate) const BLOCK: usize = 32;

/// Runs a kernel with the widest vector instructions of this machine. A struct and not a
/// closure: only its `call` is sure to be inlined, and so compiled for them.
pub(crate) fn wide<K: pulp::NullaryFnOnce>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

const LANES: usize = 16;

/// Σ f(x, y) over two slices of one length.
#[inline(always)]
fn fold(x: &[f32], y: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let (xr, yr) = (xs.remainder(), ys.remainder());
    for (x, y) in xs.zip(ys) {
        for i in 0..LANES {
            lanes[i] += f(x[i], y[i]);
        }
    }
    for (i, (x, y)) in xr.iter().zip(yr).enumerate() {
        lanes[i] += f(*x, *y);
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

/// Σ x.
#[inline(always)]
pub(crate) fn sum(x: &[f32]) -> f32 {
    fold(x, x, |x, _| x)
}

/// Σ x y.
#[inline(always)]
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    fold(x, y, |x, y| x * y)
}

/// The largest value.
#[inline(always)]
pub(crate) fn largest(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let xs = x.chunks_exact(LANES);
    let rest = xs.remainder();
    for x in xs {
        for i in 0..LANES {
            lanes[i] = if x[i] > lanes[i] { x[i] } else { lanes[i] };
        }
    }
    rest.iter()
        .chain(&lanes)
        .fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m })
}

/// x ← e^(x − shift), and Σ of that.
#[inline(always)]
pub(crate) fn exponentials(x: &mut [f32], shift: f32) -> f32 {
    x.iter_mut().for_each(|x| *x = exp(*x - shift));
    sum(x)
}

/// Σ x² in f64.
pub(crate) fn sum_of_squares(x: &[f32]) -> f64 {
    struct Squares<'a>(&'a [f32]);
    impl pulp::NullaryFnOnce for Squares<'_> {
        type Output = f64;
        #[inline(always)]
        fn call(self) -> f64 {
            products(self.0, self.0)
        }
    }
    wide(Squares(x))
}

/// Σ x y in f64 of two slices of one length.
#[inline(always)]
pub(crate) fn products(x: &[f32], y: &[f32]) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let (xr, yr) = (xs.remainder(), ys.remainder());
    for (x, y) in xs.zip(ys) {
        for i in 0..LANES {
            lanes[i] += f64::from(x[i]) * f64::from(y[i]);
        }
    }
    for (i, (x, y)) in xr.iter().zip(yr).enumerate() {
        lanes[i] += f64::from(*x) * f64::from(*y);
    }
    lanes.iter().sum()
}

/// How rows are normalised: mean taken off or not, gain as it is or one more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Normal {
    pub(crate) centred: bool,
    pub(crate) plus_one: bool,
    pub(crate) epsilon: f32,
}

/// A normalised matrix: the rows times gain plus bias, the rows before that, and each row's 1/σ.
pub(crate) struct Normalised {
    pub(crate) y: Vec<f32>,
    pub(crate) unit: Vec<f32>,
    pub(crate) scale: Vec<f32>,
}

struct NormaliseRows<'a> {
    x: &'a [f32],
    gain: &'a [f32],
    bias: Option<&'a [f32]>,
    normal: Normal,
    y: &'a mut [f32],
    unit: &'a mut [f32],
    scale: &'a mut [f32],
}

impl pulp::NullaryFnOnce for NormaliseRows<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let width = self.gain.len();
        let rows = self
            .x
            .chunks_exact(width)
            .zip(self.unit.chunks_exact_mut(width));
        let out = self.y.chunks_exact_mut(width).zip(self.scale);
        for ((x, unit), (y, scale)) in rows.zip(out) {
            let mean = if self.normal.centred {
                sum(x) / width as f32
            } else {
                0.0
            };
            for (u, x) in unit.iter_mut().zip(x) {
                *u = x - mean;
            }
            let variance = dot(unit, unit) / width as f32;
            *scale = 1.0 / (variance + self.normal.epsilon).sqrt();
            for ((u, y), g) in unit.iter_mut().zip(y.iter_mut()).zip(self.gain) {
                *u *= *scale;
                *y = *u * if self.normal.plus_one { 1.0 + g } else { *g };
            }
            if let Some(bias) = self.bias {
                y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            }
        }
    }
}

/// Normalises each row of x.
pub(crate) fn normalise(
    x: &[f32],
    gain: &[f32],
    bias: Option<&[f32]>,
    normal: Normal,
) -> Normalised {
    let width = gain.len();
    let mut out = Normalised {
        y: vec![0.0; x.len()],
        unit: vec![0.0; x.len()],
        scale: vec![0.0; x.len() / width],
    };
    let size = BLOCK * width;
    let blocks = x
        .par_chunks(size)
        .zip(out.y.par_chunks_mut(size))
        .zip(out.unit.par_chunks_mut(size))
        .zip(out.scale.par_chunks_mut(BLOCK));
    blocks.for_each(|(((x, y), unit), scale)| {
        wide(NormaliseRows {
            x,
            gain,
            bias,
            normal,
            y,
            unit,
            scale,
        });
    });
    out
}

struct NormaliseBackRows<'a> {
    dy: &'a [f32],
    gain: &'a [f32],
    unit: &'a [f32],
    scale: &'a [f32],
    normal: Normal,
    dx: &'a mut [f32],
}

impl pulp::NullaryFnOnce for NormaliseBackRows<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let width = self.gain.len();
        let rows = self
            .dy
            .chunks_exact(width)
            .zip(self.unit.chunks_exact(width));
        let out = self.dx.chunks_exact_mut(width).zip(self.scale);
        for ((dy, unit), (dx, scale)) in rows.zip(out) {
            for ((dx, dy), g) in dx.iter_mut().zip(dy).zip(self.gain) {
                *dx = dy * if self.normal.plus_one { 1.0 + g } else { *g };
            }
            let mean = if self.normal.centred {
                sum(dx) / width as f32
            } else {
                0.0
            };
            let along = dot(dx, unit) / width as f32;
            for (dx, u) in dx.iter_mut().zip(unit) {
                *dx = scale * (*dx - mean - u * along);
            }
        }
    }
}

/// dL/dx from dL/dy of [`normalise`].
pub(crate) fn normalise_back(
    dy: &[f32],
    gain: &[f32],
    (unit, scale): (&[f32], &[f32]),
    normal: Normal,
) -> Vec<f32> {
    let width = gain.len();
    let mut dx = vec![0.0; dy.len()];
    let size = BLOCK * width;
    let blocks = dy
        .par_chunks(size)
        .zip(unit.par_chunks(size))
        .zip(scale.par_chunks(BLOCK))
        .zip(dx.par_chunks_mut(size));
    blocks.for_each(|(((dy, unit), scale), dx)| {
        wide(NormaliseBackRows {
            dy,
            gain,
            unit,
            scale,
            normal,
            dx,
        });
    });
    dx
}

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

/// The activation and its derivative.
#[inline(always)]
fn activation(kind: Activation, x: f32) -> (f32, f32) {
    match kind {
        Activation::GeluTanh => {
            let t = tanh(ROOT_2_OVER_PI * (x + CUBE * x * x * x));
            let slope = ROOT_2_OVER_PI * (1.0 + 3.0 * CUBE * x * x);
            (
                0.5 * x * (1.0 + t),
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope,
            )
        }
        Activation::Gelu => {
            let (cdf, density) = (normal_cdf(x), 0.398_942_3 * exp(-0.5 * x * x));
            (x * cdf, cdf + x * density)
        }
        Activation::Silu => {
            let s = sigmoid(x);
            (x * s, s * (1.0 + x * (1.0 - s)))
        }
        Activation::Relu => (x.max(0.0), if x > 0.0 { 1.0 } else { 0.0 }),
    }
}

struct ActivateRows<'a> {
    kind: Activation,
    gated: bool,
    z: &'a [f32],
    out: &'a mut [f32],
    width: usize,
}

#[inline(always)]
fn activate_with(task: ActivateRows<'_>, f: impl Fn(f32) -> f32) {
    let ActivateRows {
        gated,
        z,
        out,
        width,
        ..
    } = task;
    if !gated {
        out.iter_mut().zip(z).for_each(|(o, z)| *o = f(*z));
        return;
    }
    for (z, out) in z.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
        let (gate, up) = z.split_at(width);
        for ((o, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *o = f(*gate) * up;
        }
    }
}

impl pulp::NullaryFnOnce for ActivateRows<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        match self.kind {
            Activation::GeluTanh => activate_with(self, |x| activation(Activation::GeluTanh, x).0),
            Activation::Gelu => activate_with(self, |x| activation(Activation::Gelu, x).0),
            Activation::Silu => activate_with(self, |x| activation(Activation::Silu, x).0),
            Activation::Relu => activate_with(self, |x| activation(Activation::Relu, x).0),
        }
    }
}

/// The activation of z (rows × width), or of its first half times its second (rows × 2 width).
pub(crate) fn activate(z: &[f32], kind: Activation, gated: bool, width: usize) -> Vec<f32> {
    let wider = if gated { 2 } else { 1 };
    let mut out = vec![0.0; z.len() / wider];
    let blocks = z
        .par_chunks(BLOCK * width * wider)
        .zip(out.par_chunks_mut(BLOCK * width));
    blocks.for_each(|(z, out)| {
        wide(ActivateRows {
            kind,
            gated,
            z,
            out,
            width,
        })
    });
    out
}

struct ActivateBackRows<'a> {
    kind: Activation,
    gated: bool,
    z: &'a [f32],
    d_out: &'a [f32],
    dz: &'a mut [f32],
    width: usize,
}

#[inline(always)]
fn activate_back_with(task: ActivateBackRows<'_>, f: impl Fn(f32) -> (f32, f32)) {
    let ActivateBackRows {
        gated,
        z,
        d_out,
        dz,
        width,
        ..
    } = task;
    if !gated {
        for ((dz, z), d) in dz.iter_mut().zip(z).zip(d_out) {
            *dz = d * f(*z).1;
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
            let (value, slope) = f(*gate);
            *d_gate = d * up * slope;
            *d_up = d * value;
        }
    }
}

impl pulp::NullaryFnOnce for ActivateBackRows<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        match self.kind {
            Activation::GeluTanh => {
                activate_back_with(self, |x| activation(Activation::GeluTanh, x))
            }
            Activation::Gelu => activate_back_with(self, |x| activation(Activation::Gelu, x)),
            Activation::Silu => activate_back_with(self, |x| activation(Activation::Silu, x)),
            Activation::Relu => activate_back_with(self, |x| activation(Activation::Relu, x)),
        }
    }
}

/// dL/dz from dL/d(output) of [`activate`].
pub(crate) fn activate_back(
    d_out: &[f32],
    z: &[f32],
    kind: Activation,
    gated: bool,
    width: usize,
) -> Vec<f32> {
    let wider = if gated { 2 } else { 1 };
    let mut dz = vec![0.0; z.len()];
    let blocks = z
        .par_chunks(BLOCK * width * wider)
        .zip(dz.par_chunks_mut(BLOCK * width * wider))
        .zip(d_out.par_chunks(BLOCK * width));
    blocks.for_each(|((z, dz), d_out)| {
        wide(ActivateBackRows {
            kind,
            gated,
            z,
            d_out,
            dz,
            width,
        });
    });
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
        };
        for kind in [
            Activation::GeluTanh,
            Activation::Gelu,
            Activation::Silu,
            Activation::Relu,
        ] {
            for i in -600..=600 {
                let x = f64::from(i) * 0.013 + 0.001;
                let (value, slope) = activation(kind, x as f32);
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

    #[test]
    fn sums_are_exact_to_rounding() {
        let x: Vec<f32> = (0..1013)
            .map(|i| ((i * 37) % 101) as f32 / 7.0 - 6.0)
            .collect();
        let want: f64 = x.iter().map(|v| f64::from(*v)).sum();
        assert!((f64::from(sum(&x)) - want).abs() < 1e-3);
        let squares: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
        assert!((sum_of_squares(&x) - squares).abs() < 1e-9 * squares);
        assert!((f64::from(dot(&x, &x)) - squares).abs() < 1e-6 * squares);
        assert!((largest(&x) - 100.0 / 7.0 + 6.0).abs() < 1e-5);
    }
}
