//! Standard normals from a stream of random words: the Box–Muller transform in f64, written so that compilers vectorise
//! it. The bits are the same on every machine, devices included: products are added only by fused operations, so
//! compilers have no choice between roundings.
//!
//! Three words make two normals: 52 bits for the radius, so that tails reach 8.5 standard
//! deviations, and 44 for the angle. Source: Box & Muller 1958.

use crate::privacy::keystream::{KeyStream, WORDS};

/// Pairs computed at once: one for each word of a group.
const PAIRS: usize = WORDS;

/// Adds `std` times a standard normal to every value.
pub(crate) fn add(stream: &mut KeyStream, std: f64, values: &mut [f32]) {
    let mut words = [[0; PAIRS]; 3];
    for values in values.chunks_mut(2 * PAIRS) {
        words.iter_mut().for_each(|words| stream.fill(words));
        let block = Block {
            words: &words,
            std,
            values,
        };
        #[cfg(feature = "cpu")]
        pulp::Arch::new().dispatch(block);
        #[cfg(not(feature = "cpu"))]
        block.add();
    }
}

struct Block<'a> {
    words: &'a [[u32; PAIRS]; 3],
    std: f64,
    values: &'a mut [f32],
}

impl Block<'_> {
    #[inline(always)]
    fn add(self) {
        let [high, middle, low] = self.words;
        let mut normals = [[0.0f64; PAIRS]; 2];
        let [first, second] = &mut normals;
        for i in 0..PAIRS {
            let (x, y) = pair([high[i], middle[i], low[i]]);
            first[i] = x;
            second[i] = y;
        }
        for (values, normals) in self.values.chunks_mut(PAIRS).zip(&normals) {
            for (v, normal) in values.iter_mut().zip(normals) {
                *v = self.std.mul_add(*normal, f64::from(*v)) as f32;
            }
        }
    }
}

#[cfg(feature = "cpu")]
impl pulp::NullaryFnOnce for Block<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.add();
    }
}

/// Returns a value in [1, 2) from 52 bits.
#[inline(always)]
fn unit(bits: u64) -> f64 {
    f64::from_bits(bits | 0x3ff0_0000_0000_0000)
}

#[inline(always)]
fn pair(words: [u32; 3]) -> (f64, f64) {
    let high = (u64::from(words[0]) << 20) | (u64::from(words[1]) >> 12);
    let low = (u64::from(words[1] & 0xfff) << 32) | u64::from(words[2]);
    let u = 2.0 - unit(high); // (0, 1]
    let turn = unit(low << 8) - 1.5; // [-1/2, 1/2)
    let radius = (-2.0 * logarithm(u)).sqrt();
    // with y = 1/4 - |turn|: cos 2π turn = sin 2π y, sin 2π turn = ± cos 2π y; beyond an eighth of a turn sine and
    // cosine are exchanged, so that short series suffice
    let y = 0.25 - turn.abs();
    let far = y.abs() > 0.125;
    let z = if far { 0.25 - y.abs() } else { y.abs() };
    let x = z * (2.0 * std::f64::consts::PI);
    let (near, other) = (sine(x), cosine(x));
    let sine = if far { other } else { near };
    let cosine = if far { near } else { other };
    (radius * sine.copysign(y), radius * cosine.copysign(turn))
}

/// Σ c_i q^i, the last coefficient first, in fused steps: the same bits on any machine.
#[inline(always)]
fn series<const N: usize>(coefficients: [f64; N], q: f64) -> f64 {
    let mut sum = coefficients[0];
    for c in &coefficients[1..] {
        sum = sum.mul_add(q, *c);
    }
    sum
}

/// 1/(2k + 1), highest k first.
pub(crate) const ODD: [f64; 9] = [
    1.0 / 17.0,
    1.0 / 15.0,
    1.0 / 13.0,
    1.0 / 11.0,
    1.0 / 9.0,
    1.0 / 7.0,
    1.0 / 5.0,
    1.0 / 3.0,
    1.0,
];

/// (-1)^k/(2k + 1)!, highest k first.
pub(crate) const SINE: [f64; 8] = [
    -1.0 / 1_307_674_368_000.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 39_916_800.0,
    1.0 / 362_880.0,
    -1.0 / 5040.0,
    1.0 / 120.0,
    -1.0 / 6.0,
    1.0,
];

/// (-1)^k/(2k)!, highest k first.
pub(crate) const COSINE: [f64; 8] = [
    -1.0 / 87_178_291_200.0,
    1.0 / 479_001_600.0,
    -1.0 / 3_628_800.0,
    1.0 / 40_320.0,
    -1.0 / 720.0,
    1.0 / 24.0,
    -0.5,
    1.0,
];

/// Returns ln u for u in (0, 1], error below 1e-13: the exponent separately, then 2 artanh((m-1)/(m+1)).
#[inline(always)]
fn logarithm(u: f64) -> f64 {
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    let bits = u.to_bits();
    let exponent = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - TWO_52 - 1023.0;
    let m = unit(bits & 0x000f_ffff_ffff_ffff);
    let large = m > std::f64::consts::SQRT_2;
    let m = if large { 0.5 * m } else { m };
    let exponent = if large { exponent + 1.0 } else { exponent };
    let s = (m - 1.0) / (m + 1.0);
    exponent.mul_add(std::f64::consts::LN_2, 2.0 * s * series(ODD, s * s))
}

/// sin x for 0 ≤ x ≤ π/4 by its series, error below 1e-14.
#[inline(always)]
fn sine(x: f64) -> f64 {
    x * series(SINE, x * x)
}

/// cos x for 0 ≤ x ≤ π/4 by its series, error below 1e-14.
#[inline(always)]
fn cosine(x: f64) -> f64 {
    series(COSINE, x * x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal};

    #[test]
    fn the_functions_agree_with_the_standard_library() {
        for i in 1..20_000 {
            let u = f64::from(i) / 20_000.0;
            assert!((logarithm(u) - u.ln()).abs() < 2e-13, "ln {u}");
            let x = u * std::f64::consts::FRAC_PI_4;
            assert!((sine(x) - x.sin()).abs() < 1e-14, "sin {x}");
            assert!((cosine(x) - x.cos()).abs() < 1e-14, "cos {x}");
        }
        assert!(logarithm(1.0).abs() < 1e-15);
        let least = 2.0f64.powi(-52);
        assert!((logarithm(least) - least.ln()).abs() < 1e-12);
    }

    #[test]
    fn tails_reach_eight_deviations_and_no_word_gives_infinity() {
        let (far, _) = pair([u32::MAX, u32::MAX, 0]);
        let radius = |w| {
            let (x, y) = pair(w);
            x.hypot(y)
        };
        assert!(radius([u32::MAX, u32::MAX, 0]) > 8.4 && far.is_finite());
        assert!(radius([0, 0, 0]).abs() < 1e-9);
    }

    /// A key of sevens, 2 000 000 draws. Distances of the empirical from the normal distribution exceed
    /// 2.2e-3 (Kolmogorov-Smirnov, 3.1/√n) with probability 1e-8; moments are held to 6 of
    /// their standard errors.
    #[test]
    fn draws_are_standard_normal() {
        let n = 2_000_000;
        let mut values = vec![0.0f32; n];
        add(&mut KeyStream::new([7; 32], 0), 1.0, &mut values);
        let moment = |k: i32| values.iter().map(|v| f64::from(*v).powi(k)).sum::<f64>() / n as f64;
        let root = (n as f64).sqrt();
        assert!(moment(1).abs() < 6.0 / root);
        assert!((moment(2) - 1.0).abs() < 6.0 * 2f64.sqrt() / root);
        assert!(moment(3).abs() < 6.0 * 15f64.sqrt() / root);
        assert!((moment(4) - 3.0).abs() < 6.0 * 96f64.sqrt() / root);
        values.sort_by(f32::total_cmp);
        let normal = Normal::standard();
        for (i, v) in values.iter().enumerate().step_by(997) {
            let cdf = normal.cdf(f64::from(*v));
            assert!((cdf - i as f64 / n as f64).abs() < 2.2e-3, "at {v}");
        }
        // neighbours in a pair and across pairs do not go together
        let mut again = vec![0.0f32; n];
        add(&mut KeyStream::new([7; 32], 0), 1.0, &mut again);
        for lag in [1, PAIRS, 2 * PAIRS] {
            let product: f64 = again
                .iter()
                .zip(&again[lag..])
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum();
            assert!((product / n as f64).abs() < 6.0 / root, "lag {lag}");
        }
    }
}
