//! The Gram matrix x xᵀ of few long rows, computed from the rows in place, without packing.
//!
//! A general product would copy every row twice in a packed order, which costs as much as the products themselves when
//! there are only some dozens of rows. Here a tile of four rows times three is summed in vectors along the rows, and
//! each vector of partial sums is folded once per block. The order of terms depends on the sizes alone.

use pulp::{Simd, WithSimd};

/// Rows of a tile, from above and from below the diagonal: twelve sums and four values use sixteen registers.
const ABOVE: usize = 4;
const BELOW: usize = 3;
/// Terms per block: seven rows of a block fit into the first-level cache.
const DEPTH: usize = 512;

/// x xᵀ for x: t × width; the part above the diagonal is only partly computed.
pub(crate) fn gram(x: &[f32], (t, width): (usize, usize)) -> Vec<f32> {
    let mut out = vec![0.0; t * t];
    if width > 0 {
        let out = &mut out;
        pulp::Arch::new().dispatch(Triangle { x, t, width, out });
    }
    out
}

struct Triangle<'a> {
    x: &'a [f32],
    t: usize,
    width: usize,
    out: &'a mut [f32],
}

impl WithSimd for Triangle<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, t, width, out } = self;
        let whole = width - width % S::F32_LANES;
        for start in (0..whole).step_by(DEPTH) {
            let end = (start + DEPTH).min(whole);
            // rows beyond the last repeat it, and their sums are discarded
            let row = |r: usize| S::as_simd_f32s(&x[r.min(t - 1) * width..][start..end]).0;
            for i in (0..t).step_by(ABOVE) {
                let a: [&[S::f32s]; ABOVE] = std::array::from_fn(|r| row(i + r));
                for j in (0..(i + ABOVE).min(t)).step_by(BELOW) {
                    let b: [&[S::f32s]; BELOW] = std::array::from_fn(|r| row(j + r));
                    let sums = tile(simd, a, b);
                    for (r, sums) in sums.iter().enumerate().take(t - i) {
                        let into = &mut out[(i + r) * t + j..(i + r + 1) * t];
                        for (into, sum) in into.iter_mut().zip(sums) {
                            *into += simd.reduce_sum_f32s(*sum);
                        }
                    }
                }
            }
        }
        if whole < width {
            for i in 0..t {
                let a = &x[i * width + whole..(i + 1) * width];
                for (j, into) in out[i * t..=i * t + i].iter_mut().enumerate() {
                    let b = &x[j * width + whole..(j + 1) * width];
                    *into += a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
                }
            }
        }
    }
}

/// Products of four rows with three, one vector of partial sums each.
#[inline(always)]
fn tile<S: Simd>(
    simd: S,
    a: [&[S::f32s]; ABOVE],
    b: [&[S::f32s]; BELOW],
) -> [[S::f32s; BELOW]; ABOVE] {
    let mut sums = [[simd.splat_f32s(0.0); BELOW]; ABOVE];
    let terms = a[0].len();
    // one length for all, so that the loop needs no bounds check
    let a: [&[S::f32s]; ABOVE] = std::array::from_fn(|i| &a[i][..terms]);
    let b: [&[S::f32s]; BELOW] = std::array::from_fn(|j| &b[j][..terms]);
    for k in 0..terms {
        for i in 0..ABOVE {
            for j in 0..BELOW {
                sums[i][j] = simd.mul_add_f32s(a[i][k], b[j][k], sums[i][j]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triangle_is_that_of_the_products_of_rows() {
        for (t, width) in [
            (1, 1),
            (2, 7),
            (3, 16),
            (5, 33),
            (11, 512),
            (13, 1027),
            (64, 40),
        ] {
            let x: Vec<f32> = (0..t * width)
                .map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0)
                .collect();
            let out = gram(&x, (t, width));
            for i in 0..t {
                for j in 0..=i {
                    let (a, b) = (&x[i * width..][..width], &x[j * width..][..width]);
                    let terms = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
                    let want: f64 = terms.sum();
                    let error = (f64::from(out[i * t + j]) - want).abs();
                    assert!(error < 1e-4, "{t} × {width}, {i} {j}: {error}");
                }
            }
        }
        assert_eq!(gram(&[], (0, 5)), Vec::<f32>::new());
    }

    #[test]
    fn an_undefined_value_stays_one() {
        let mut x = vec![1.0f32; 3 * 9];
        x[9 + 8] = f32::NAN;
        let out = gram(&x, (3, 9));
        assert!(out[4].is_nan() && out[3].is_nan() && out[7].is_nan());
        assert!((out[6] - 9.0).abs() < 1e-6);
    }
}
