//! The normal distribution and Gaussian differential privacy, with the accuracy that bounds
//! require.

use std::f64::consts::{PI, SQRT_2};

/// Φ(x).
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// ln φ(x).
pub(crate) fn ln_normal_density(x: f64) -> f64 {
    -0.5 * x * x - 0.5 * (2.0 * PI).ln()
}

/// Returns Φ⁻¹(p), −∞ and ∞ at the ends. The relative error of p is below 1e-13.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        // 1 − p is exact here, and the lower tail keeps its precision.
        return -normal_quantile(1.0 - p);
    }
    // Φ is increasing and ln Φ concave: Newton's method started left of the root stays there and
    // converges.
    let ln_p = p.ln();
    let mut x = -(-2.0 * ln_p).sqrt() - 1.0;
    for _ in 0..100 {
        let gap = ln_p - ln_normal_cdf(x);
        // d ln Φ / dx = φ/Φ = 1 / Mills(−x).
        let step = gap * mills(-x);
        x += step;
        if step.abs() <= 1e-15 * (1.0 + x.abs()) {
            break;
        }
    }
    x
}

/// Returns ln Φ(x), with relative accuracy in the lower tail.
pub(crate) fn ln_normal_cdf(x: f64) -> f64 {
    if x > -5.0 {
        normal_cdf(x).ln()
    } else {
        ln_normal_density(x) + mills(-x).ln()
    }
}

/// Returns Mills' ratio Φ(−x)/φ(x).
fn mills(x: f64) -> f64 {
    if x < 25.0 {
        normal_cdf(-x) / ln_normal_density(x).exp()
    } else {
        // The asymptotic series; the first dropped term is below 1e-11 of the sum.
        let y = 1.0 / (x * x);
        (1.0 - y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y)))) / x
    }
}

/// Returns δ(ε) of μ-GDP: Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Dong, Roth and Su, Corollary 2.13).
pub(crate) fn gdp_delta(mu: f64, epsilon: f64) -> f64 {
    let (a, b) = (mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu);
    if a > -5.0 {
        // e^ε Φ(b) is computed from its logarithm, because e^ε alone may overflow.
        return (normal_cdf(a) - (epsilon + ln_normal_cdf(b)).exp()).max(0.0);
    }
    // e^ε φ(b) = φ(a).
    (ln_normal_density(a).exp() * (mills(-a) - mills(-b))).max(0.0)
}

/// Returns the ε at which δ(ε) of μ-GDP equals `delta`, rounded down; 0 if δ(0) is at most `delta`.
pub(crate) fn gdp_epsilon(mu: f64, delta: f64) -> f64 {
    if mu <= 0.0 || gdp_delta(mu, 0.0) <= delta {
        return 0.0;
    }
    let mut high = 1.0;
    while gdp_delta(mu, high) > delta && high < 1e9 {
        high *= 2.0;
    }
    let epsilon =
        crate::statistics::bisect_last(0.0, high, |e| gdp_delta(mu, e) >= delta * (1.0 + 1e-9));
    epsilon * (1.0 - 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_the_law() {
        for p in [1e-300, 1e-20, 1e-6, 0.025, 0.3, 0.5, 0.7, 0.999] {
            let x = normal_quantile(p);
            assert!((ln_normal_cdf(x) - p.ln()).abs() < 1e-11, "{p}: {x}");
        }
        // scipy: norm.ppf(0.975).
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-12);
        assert!(normal_quantile(0.0).is_infinite() && normal_quantile(1.0).is_infinite());
    }

    /// Golden: Dong, Roth and Su, Corollary 2.13, by 40-digit arithmetic; the inverse beside it.
    #[test]
    fn gaussian_curves_meet_published_points() {
        for (mu, epsilon, delta) in [
            (1.0, 1.0, 0.126_936_737_506_643_92),
            (2.0, 1.0, 0.509_861_660_054_670_2),
            (0.5, 0.5, 0.052_440_323_287_669_51),
        ] {
            assert!((gdp_delta(mu, epsilon) - delta).abs() < 1e-10);
            let back = gdp_epsilon(mu, delta);
            assert!(back <= epsilon && epsilon - back < 1e-7, "{back}");
        }
        // dp_accounting: the Gaussian mechanism with sigma 1/mu at delta 1e-6.
        for (mu, epsilon) in [
            (1.0, 4.886_554_117_462_159),
            (2.0, 10.997_151_214_220_652),
            (4.0, 26.356_963_925_325_818),
        ] {
            let got = gdp_epsilon(mu, 1e-6);
            assert!((got / epsilon - 1.0).abs() < 1e-6, "{got}");
        }
        assert!(gdp_epsilon(0.0, 1e-5) <= 0.0 && gdp_epsilon(-3.0, 1e-5) <= 0.0);
    }
}
