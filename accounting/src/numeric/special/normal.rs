//! The tail of the standard normal law, down to where only its logarithm can be represented.

use super::LN_SQRT_TAU;

/// Beyond this argument the continued fraction is used.
const FRACTION_FROM: f64 = 5.0;

/// Returns P(Z > z) for a standard normal Z.
///
/// The relative error is below (z²/2 + 4)·2⁻⁵³ for z > 0, and below 4·2⁻⁵³ otherwise; the result is
/// 0 below the smallest number.
pub(crate) fn normal_tail(z: f64) -> f64 {
    if z > FRACTION_FROM {
        (-0.5 * z * z - LN_SQRT_TAU).exp() * fraction(z)
    } else {
        0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
    }
}

/// Returns ln P(Z > z), for every finite z.
pub(crate) fn ln_normal_tail(z: f64) -> f64 {
    if z > FRACTION_FROM {
        -0.5 * z * z - LN_SQRT_TAU + fraction(z).ln()
    } else if z < -FRACTION_FROM {
        (-normal_tail(-z)).ln_1p()
    } else {
        normal_tail(z).ln()
    }
}

/// Returns ln R(z) for the Mills ratio R(z) = P(Z > z)/φ(z) = ∫₀^∞ e^{−zu−u²/2} du, for every finite
/// z.
pub(crate) fn ln_mills_ratio(z: f64) -> f64 {
    if z > FRACTION_FROM {
        fraction(z).ln()
    } else {
        0.5 * z * z + LN_SQRT_TAU + ln_normal_tail(z)
    }
}

/// Returns an upper bound on ln R(z), a percent above it for z ≥ 0, where it is Sampford's R(z) <
/// 4/(3z + √(z² + 8)).
pub(crate) fn ln_mills_above(z: f64) -> f64 {
    if z < 0.0 {
        return ln_mills_ratio(z) + 1e-12 * (1.0 + z * z);
    }
    (4.0 / (3.0 * z + (z * z + 8.0).sqrt())).ln() + 1e-12
}

/// Returns R(z) = 1/(z + 1/(z + 2/(z + 3/(z + …)))), evaluated from the bottom; 80 levels leave less
/// than 2⁻⁵³ at z = 5, and less beyond.
fn fraction(z: f64) -> f64 {
    let levels = if z > 12.0 { 24 } else { 80 };
    let mut below = z;
    for level in (1..=levels).rev() {
        below = z + f64::from(level) / below;
    }
    1.0 / below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50-digit decimal arithmetic: −z²/2 − ln√(2π) + ln of the continued fraction (erfc for z ≤ 1).
    const LN_TAIL: [(f64, f64); 6] = [
        (0.0, -std::f64::consts::LN_2),
        (1.0, -1.841_021_645_009_263_8),
        (5.0, -15.064_998_393_988_725),
        (10.0, -53.231_285_150_512_47),
        (38.0, -726.557_216_018_820_1),
        (-2.0, -0.023_012_909_328_963_486),
    ];

    #[test]
    fn log_tail_matches_fifty_digit_values() {
        for (z, expected) in LN_TAIL {
            let got = ln_normal_tail(z);
            assert!(
                (got - expected).abs() <= 4e-15 * expected.abs(),
                "z = {z}: {got} != {expected}"
            );
        }
    }

    #[test]
    fn the_two_formulas_meet() {
        for z in [4.999_999_f64, 5.000_001, 11.9999, 12.0001] {
            let direct = 0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2);
            assert!((normal_tail(z) / direct - 1.0).abs() < 1e-13, "z = {z}");
            assert!((ln_normal_tail(z) - direct.ln()).abs() < 1e-13, "z = {z}");
            assert!((ln_mills_ratio(z) - 0.5 * z * z - LN_SQRT_TAU - direct.ln()).abs() < 1e-13);
        }
    }

    #[test]
    fn the_quick_bound_is_above_and_near() {
        for i in -40..400 {
            let z = f64::from(i) * 0.1;
            let above = ln_mills_above(z) - ln_mills_ratio(z);
            assert!((0.0..0.13).contains(&above), "z = {z}: {above}");
        }
    }

    #[test]
    fn far_arguments_stay_finite() {
        assert!((ln_normal_tail(1e8) + 5e15).abs() < 100.0);
        assert!(ln_normal_tail(-1e8) == 0.0 && normal_tail(1e8) == 0.0);
    }
}
