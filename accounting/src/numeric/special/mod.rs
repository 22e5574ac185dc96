//! Special functions in the log domain, with the size of their rounding error where a certificate needs
//! it.

mod binomial;
mod exponential;
mod normal;

pub(crate) use binomial::{ln_binomial_lower_tail, ln_binomial_pmf, ln_binomial_upper_tail};
pub(crate) use exponential::{EXP_ERROR, LANES, exp, ln_sum_exp};
pub(crate) use normal::{ln_mills_above, ln_mills_ratio, ln_normal_tail};

/// Half a unit in the last place of 1.0: the relative error of one rounded operation.
pub(crate) const ROUND: f64 = f64::EPSILON / 2.0;

/// ln √(2π).
pub(crate) const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;

/// Returns an upper end that is never below zero. NaN becomes infinity, as it bounds nothing; `f64::max`
/// would turn it into 0.
pub(crate) const fn above_zero(x: f64) -> f64 {
    if x.is_nan() {
        f64::INFINITY
    } else {
        x.max(0.0)
    }
}

/// Returns an upper bound: asin z ≤ z + (π/2 − 1) z³ on [0, 1], as (asin z − z)/z³ increases to its value
/// at 1.
#[inline(always)]
pub(crate) fn arcsine(z: f64) -> f64 {
    z + (std::f64::consts::FRAC_PI_2 - 1.0) * z * z * z
}

/// Returns an upper bound on −½ ln(1 − z) on [0, 1), tight near 0 and to a tenth at 0.95: with w = z/(2 −
/// z) it is artanh w = w + w³/3 + w⁵/5 + …, whose terms from w⁷/7 on are below w⁷/7 (1 + w² + …).
#[inline(always)]
pub(crate) fn half_ln_shrinkage(z: f64) -> f64 {
    let w = z / (2.0 - z);
    let square = w * w;
    let rest = square * square * square / (7.0 * (1.0 - square));
    w * (1.0 + square * (1.0 / 3.0 + square * 0.2) + rest) * (1.0 + 1e-14)
}

/// Returns ln(e^a + e^b), for any combination of finite and infinite arguments; NaN if one of them is.
pub(crate) fn ln_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high.is_infinite() && !low.is_nan() {
        high
    } else {
        high + (low - high).exp().ln_1p()
    }
}

/// Returns ln(1 − e^x) for x ≤ 0, accurate at both ends.
pub(crate) fn ln_one_minus_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 {
        (-x.exp_m1()).ln()
    } else {
        (-x.exp()).ln_1p()
    }
}

/// Returns ln(e^a − e^b), rounded down; −∞ unless a > b.
pub(crate) fn ln_difference(a: f64, b: f64) -> f64 {
    if b < a {
        a + ln_one_minus_exp(b - a) - 1e-13 * (1.0 + a.abs())
    } else {
        f64::NEG_INFINITY
    }
}

/// Returns e^z − 1 − z with relative accuracy near 0.
pub(crate) fn exp_second_order(z: f64) -> f64 {
    if z.abs() > 0.3 {
        return z.exp_m1() - z;
    }
    // Horner form of Σ_{k≥2} z^k/k!; the first dropped term is below 2^-60 of the sum at |z| = 0.3.
    const TERMS: [f64; 11] = [
        1.0 / 13.0,
        1.0 / 12.0,
        1.0 / 11.0,
        1.0 / 10.0,
        1.0 / 9.0,
        1.0 / 8.0,
        1.0 / 7.0,
        1.0 / 6.0,
        1.0 / 5.0,
        1.0 / 4.0,
        1.0 / 3.0,
    ];
    let tail = TERMS.iter().fold(1.0, |sum, part| 1.0 + sum * (z * part));
    0.5 * z * z * tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_add_exp_survives_every_end() {
        assert!((ln_add_exp(-1e300, 0.0)).abs() < 1e-300);
        assert!(ln_add_exp(f64::NEG_INFINITY, f64::NEG_INFINITY) == f64::NEG_INFINITY);
        assert!((ln_add_exp(1000.0, 1000.0) - 1000.0 - std::f64::consts::LN_2).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_number_bounds_nothing() {
        assert!(above_zero(f64::NAN) == f64::INFINITY);
        assert!(above_zero(-1e-300).abs() <= 0.0);
        for x in [f64::NEG_INFINITY, 0.0, f64::INFINITY] {
            assert!(
                ln_add_exp(x, f64::NAN).is_nan() && ln_add_exp(f64::NAN, x).is_nan(),
                "{x}"
            );
        }
    }

    #[test]
    fn second_order_exponential_matches_the_plain_formula_where_that_is_accurate() {
        for z in [-0.31f64, -0.29, 0.29, 0.31, 1.0, -5.0] {
            let plain = z.exp() - 1.0 - z;
            assert!((exp_second_order(z) - plain).abs() < 1e-15, "z = {z}");
        }
        // 1e-8: the series' own first terms, exact to the last digit.
        assert!((exp_second_order(1e-8) / (0.5e-16 * (1.0 + 1e-8 / 3.0)) - 1.0).abs() < 4e-16);
    }

    #[test]
    fn ln_one_minus_exp_at_both_ends() {
        assert!((ln_one_minus_exp(-1e-20) - (1e-20f64).ln()).abs() < 1e-12);
        assert!((ln_one_minus_exp(-50.0) + (-50f64).exp()).abs() < 1e-36);
    }
}
