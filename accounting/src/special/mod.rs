//! Special functions in the log domain, with the size of their rounding error where a
//! certificate needs it.

mod binomial;

pub(crate) use binomial::{ln_binomial_pmf, ln_binomial_upper_tail};

/// ln √(2π).
pub(crate) const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;

/// ln(1 − e^x) for x ≤ 0, accurate at both ends.
pub(crate) fn ln_one_minus_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 {
        (-x.exp_m1()).ln()
    } else {
        (-x.exp()).ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_one_minus_exp_at_both_ends() {
        assert!((ln_one_minus_exp(-1e-20) - (1e-20f64).ln()).abs() < 1e-12);
        assert!((ln_one_minus_exp(-50.0) + (-50f64).exp()).abs() < 1e-36);
    }
}
