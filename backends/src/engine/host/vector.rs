//! Loops over rows, compiled for the widest vector instructions of the machine.
//!
//! Sums run in sixteen lanes and a tree, in a fixed order. They have the same bits on any machine with the same
//! instructions, and an error that grows with the logarithm of the length.

use super::activation::exp;
use rayon::prelude::*;

/// Rows per parallel block.
pub(crate) const BLOCK: usize = 32;

/// Defines a function that is compiled for the widest vector instructions of this machine. Its body is the `call` of a
/// struct rather than a closure, because only that is certain to be inlined, and so compiled for these instructions.
macro_rules! wide {
    (@of) => { () };
    (@of $output:ty) => { $output };
    (
        $(#[$about:meta])*
        $seen:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block
    ) => {
        $(#[$about])*
        $seen fn $name($($argument: $type),*) $(-> $output)? {
            struct Kernel<T>(T);
            impl pulp::NullaryFnOnce for Kernel<($($type,)*)> {
                type Output = wide!(@of $($output)?);
                #[inline(always)]
                fn call(self) -> Self::Output {
                    let ($($argument,)*) = self.0;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Kernel(($($argument,)*)))
        }
    };
}
pub(crate) use wide;

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
    for x in x.iter_mut() {
        *x = exp(*x - shift);
    }
    sum(x)
}

wide! {
    /// Σ x² in f64.
    pub(crate) fn sum_of_squares(x: &[f32]) -> f64 {
        products(x, x)
    }
}

/// Σ x y in f64 of two slices of one length.
#[inline(always)]
pub(crate) fn products(x: &[f32], y: &[f32]) -> f64 {
    sum_wide(x, y, |x, y| f64::from(x) * f64::from(y))
}

/// Σ |x| y in f64 of two slices of one length.
#[inline(always)]
pub(crate) fn magnitudes(x: &[f32], y: &[f32]) -> f64 {
    sum_wide(x, y, |x, y| f64::from(x.abs()) * f64::from(y))
}

/// The sum of a term of two slices of one length, in lanes of f64.
#[inline(always)]
fn sum_wide(x: &[f32], y: &[f32], term: impl Fn(f32, f32) -> f64) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let (xr, yr) = (xs.remainder(), ys.remainder());
    for (x, y) in xs.zip(ys) {
        for i in 0..LANES {
            lanes[i] += term(x[i], y[i]);
        }
    }
    for (i, (x, y)) in xr.iter().zip(yr).enumerate() {
        lanes[i] += term(*x, *y);
    }
    lanes.iter().sum()
}

wide! {
    /// ‖x_t‖ of each row of `width` values, or up to 1e-4 more of it.
    pub(crate) fn row_lengths(x: &[f32], width: usize) -> Vec<f64> {
        let rows = x.chunks_exact(width);
        let one = |row: &[f32]| {
            let square = dot(row, row);
            match square {
                // far from what vanishes or overflows: f32 is enough, and faster
                1e-20..1e30 => f64::from(square).sqrt() * (1.0 + 1e-4),
                _ => products(row, row).sqrt(),
            }
        };
        rows.map(one).collect()
    }
}

/// How rows are normalised: whether the mean is subtracted, and whether one is added to the gain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Normal {
    pub(crate) centred: bool,
    pub(crate) plus_one: bool,
    pub(crate) epsilon: f32,
}

/// A normalised matrix: the rows times gain plus bias, the normalised rows before that, and each row's 1/σ.
pub(crate) struct Normalised {
    pub(crate) y: Vec<f32>,
    pub(crate) unit: Vec<f32>,
    pub(crate) scale: Vec<f32>,
}

wide! {
    fn normalise_rows(
        x: &[f32],
        gain: &[f32],
        bias: Option<&[f32]>,
        normal: Normal,
        y: &mut [f32],
        unit: &mut [f32],
        scale: &mut [f32],
    ) {
        let width = gain.len();
        let rows = x.chunks_exact(width).zip(unit.chunks_exact_mut(width));
        let out = y.chunks_exact_mut(width).zip(scale);
        for ((x, unit), (y, scale)) in rows.zip(out) {
            let mean = if normal.centred {
                sum(x) / width as f32
            } else {
                0.0
            };
            for (u, x) in unit.iter_mut().zip(x) {
                *u = x - mean;
            }
            let variance = dot(unit, unit) / width as f32;
            *scale = 1.0 / (variance + normal.epsilon).sqrt();
            for ((u, y), g) in unit.iter_mut().zip(y.iter_mut()).zip(gain) {
                *u *= *scale;
                *y = *u * if normal.plus_one { 1.0 + g } else { *g };
            }
            if let Some(bias) = bias {
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
        normalise_rows(x, gain, bias, normal, y, unit, scale);
    });
    out
}

wide! {
    fn normalise_back_rows(
        dy: &[f32],
        gain: &[f32],
        unit: &[f32],
        scale: &[f32],
        normal: Normal,
        dx: &mut [f32],
    ) {
        let width = gain.len();
        let rows = dy.chunks_exact(width).zip(unit.chunks_exact(width));
        let out = dx.chunks_exact_mut(width).zip(scale);
        for ((dy, unit), (dx, scale)) in rows.zip(out) {
            for ((dx, dy), g) in dx.iter_mut().zip(dy).zip(gain) {
                *dx = dy * if normal.plus_one { 1.0 + g } else { *g };
            }
            let mean = if normal.centred {
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
        normalise_back_rows(dy, gain, unit, scale, normal, dx);
    });
    dx
}

#[cfg(test)]
mod tests {
    use super::*;

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
