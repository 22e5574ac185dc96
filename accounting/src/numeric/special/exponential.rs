//! e^x without branches or calls, so that the compiler can vectorise loops over it.

use super::ROUND;

/// A bound on the relative error of [`exp`] for −708 ≤ x ≤ 709.
///
/// x = k ln 2 + r, |r| ≤ 0.3466: k times the high part of ln 2 is exact, the remainder r is off by
/// one rounding of r; the series to degree 13 leaves 5e-18; Horner's last two steps round by ½ + ½
/// and the earlier ones by less than |r| together. The total is below 3 roundings.
pub(crate) const EXP_ERROR: f64 = 3.0 * ROUND;

/// Adding and subtracting this number leaves the nearest whole number, also in its lowest bits.
const WHOLE: f64 = 6_755_399_441_055_744.0;
/// The leading 32 bits of ln 2.
const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
/// ln 2 minus [`LN_2_HIGH`].
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 1/13!, 1/12!, … 1/2!.
const SERIES: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// Returns e^x to a relative [`EXP_ERROR`]; infinite above 709, e^{−708} = 3.3e-308 below −708, NaN
/// for NaN.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let from = if x < -708.0 { -708.0 } else { x };
    let shifted = from * std::f64::consts::LOG2_E + WHOLE;
    let k = shifted - WHOLE;
    let r = (from - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut sum = SERIES[0];
    for term in &SERIES[1..] {
        sum = sum * r + term;
    }
    let sum = 1.0 + (r + r * r * sum);
    // Moves 2^k into the exponent: the low bits of `shifted` are k.
    let scaled = f64::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 52));
    if x > 709.0 { f64::INFINITY } else { scaled }
}

/// The number of lanes of a sum.
pub(crate) const LANES: usize = 8;

/// Returns ln Σ e^{x_j}; −∞ for an empty slice.
pub(crate) fn ln_sum_exp(exponents: &[f64]) -> f64 {
    let (lanes, rest) = exponents.as_chunks::<LANES>();
    let mut tops = [f64::NEG_INFINITY; LANES];
    for xs in lanes {
        for i in 0..LANES {
            tops[i] = if xs[i] > tops[i] { xs[i] } else { tops[i] };
        }
    }
    let top = tops
        .iter()
        .chain(rest)
        .fold(f64::NEG_INFINITY, |top, x| top.max(*x));
    if top.is_infinite() {
        return top;
    }
    let mut sums = [0.0; LANES];
    for xs in lanes {
        for i in 0..LANES {
            sums[i] += exp(xs[i] - top);
        }
    }
    let rest: f64 = rest.iter().map(|x| exp(x - top)).sum();
    top + (rest + sums.iter().sum::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_library_everywhere() {
        // libm's exponential is good to one rounding (half a unit and a little more).
        for i in -1_416_000..=1_418_000 {
            let x = f64::from(i) * 5e-4 + f64::from(i % 97) * 1e-9;
            if !(-708.0..=709.0).contains(&x) {
                continue;
            }
            let expected = libm::exp(x);
            assert!(
                (exp(x) / expected - 1.0).abs() <= EXP_ERROR + 2.0 * ROUND,
                "x = {x}"
            );
        }
        for x in [0.0, 1e-300, -1e-17, 1e-9, -1e-9] {
            assert!((exp(x) - libm::exp(x)).abs() <= EXP_ERROR, "x = {x}");
        }
    }

    #[test]
    fn sums_of_exponentials_do_not_overflow() {
        let exponents: Vec<f64> = (0..37).map(|i| 900.0 - f64::from(i)).collect();
        let expected = 900.0 - (-(-1.0f64).exp()).ln_1p();
        assert!((ln_sum_exp(&exponents) - expected).abs() < 1e-12);
        assert!(ln_sum_exp(&[]) == f64::NEG_INFINITY);
        assert!(ln_sum_exp(&[1.0, f64::INFINITY]) == f64::INFINITY);
        assert!(ln_sum_exp(&[1.0, f64::NAN, 2.0]).is_nan());
    }

    #[test]
    fn ends_are_on_the_safe_side() {
        assert!(exp(709.1) == f64::INFINITY && exp(f64::INFINITY) == f64::INFINITY);
        assert!(exp(-1e5) > 0.0 && exp(f64::NEG_INFINITY) < 1e-307);
        assert!(exp(f64::NAN).is_nan());
    }
}
