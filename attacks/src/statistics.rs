//! Tail probabilities and bisections. The binomial tail itself is in the accounting crate.

use crate::error::{Result, ranged};
use reticent_accounting::Probability;

/// Returns P[Bin(trials, q) ≥ least] for a rate that rounding may have moved out of [0, 1].
pub(crate) fn binomial_upper_tail(least: u64, trials: u64, q: f64) -> f64 {
    if least > trials {
        return 0.0;
    }
    // An error (no trials) becomes 1, which raises no alarm.
    Probability::new(q.clamp(0.0, 1.0))
        .and_then(|q| reticent_accounting::statistics::binomial_upper_tail(least, trials, q))
        .map_or(1.0, Probability::get)
}

/// Returns ln of the mean of the exponentials of `logarithms`.
pub(crate) fn ln_mean(logarithms: &[f64]) -> f64 {
    let top = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        return top;
    }
    let sum: f64 = logarithms.iter().map(|ln| (ln - top).exp()).sum();
    top + (sum / logarithms.len() as f64).ln()
}

/// Returns the p-value of the one-sided sign test: P(`rose` or more heads in rose + fell tosses); 1
/// without a toss, and for 2^64 tosses or more.
///
/// ```
/// assert!((reticent_attacks::sign_test(9, 1) - 11.0 / 1024.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn sign_test(rose: u64, fell: u64) -> f64 {
    match rose.checked_add(fell) {
        None | Some(0) => 1.0,
        Some(tosses) => binomial_upper_tail(rose, tosses, 0.5),
    }
}

/// Returns P[Gamma(shape, 1) ≥ x] for an integer shape: P[Poisson(x) < shape]; 1, which raises no
/// alarm, if x is NaN.
pub(crate) fn gamma_upper_tail(shape: u64, x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return 1.0;
    }
    let k = shape as f64;
    if x >= k {
        let first = ((k - 1.0) * x.ln() - x - libm::lgamma(k)).exp();
        series(first, (1..shape).rev().map(|i| i as f64 / x)).min(1.0)
    } else {
        let first = (k * x.ln() - x - libm::lgamma(k + 1.0)).exp();
        let up = (shape + 1..).map(|i| x / i as f64);
        (1.0 - series(first, up)).clamp(0.0, 1.0)
    }
}

/// Sums a decreasing series, given its first term and its ratios, until terms are negligible.
fn series(first: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let mut term = first;
    let mut sum = first;
    for ratio in ratios {
        term *= ratio;
        sum += term;
        if term <= sum * 1e-18 {
            break;
        }
    }
    sum
}

/// Returns the last point of [low, high] where `holds` is true, or `low` if it is true nowhere.
/// `holds` must turn from true to false only once.
pub(crate) fn bisect_last(low: f64, high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (low, high);
    loop {
        let middle = low + 0.5 * (high - low);
        if middle <= low || middle >= high {
            return low;
        }
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Returns the last integer of [low, high] where `holds` is true, or `low` if it is true nowhere.
pub(crate) fn bisect_last_whole(low: u64, high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (low, high + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Refuses a value outside [0, 1].
pub(crate) fn check_closed_unit(what: &'static str, value: f64) -> Result<()> {
    ranged(what, "[0, 1]", value, (0.0..=1.0).contains(&value))
}

/// Refuses a value outside the open interval (0, 1).
pub(crate) fn check_open_unit(what: &'static str, value: f64) -> Result<()> {
    ranged(what, "(0, 1)", value, value > 0.0 && value < 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, wanted: f64, relative: f64) {
        assert!(
            (got - wanted).abs() <= relative * wanted.abs(),
            "got {got}, wanted {wanted}"
        );
    }

    #[test]
    fn tails_meet_their_limits() {
        close(binomial_upper_tail(0, 5, 0.0), 1.0, 0.0);
        close(binomial_upper_tail(1, 5, 0.0), 0.0, 0.0);
        close(binomial_upper_tail(5, 5, 1.0), 1.0, 0.0);
        close(binomial_upper_tail(6, 5, 1.0), 0.0, 0.0);
        close(gamma_upper_tail(3, 0.0), 1.0, 0.0);
        close(gamma_upper_tail(3, f64::NAN), 1.0, 0.0);
        close(gamma_upper_tail(1, 2.5), (-2.5_f64).exp(), 1e-14);
        // e^-x Σ x^i / i! in 50-digit decimal arithmetic (Python's decimal).
        close(gamma_upper_tail(10, 15.705_216_422_115_463), 0.05, 1e-12);
        close(gamma_upper_tail(10, 2.0), 0.999_953_501_924_982_7, 1e-14);
    }

    #[test]
    fn tosses_beyond_every_count_raise_no_alarm() {
        close(sign_test(u64::MAX, 1), 1.0, 0.0);
        close(sign_test(u64::MAX, u64::MAX), 1.0, 0.0);
        close(sign_test(0, 0), 1.0, 0.0);
    }

    #[test]
    fn bisections_end_on_the_holding_side() {
        let root = bisect_last(0.0, 10.0, |x| x * x <= 2.0);
        assert!(root * root <= 2.0 && (root - 2.0_f64.sqrt()).abs() < 1e-15);
        close(bisect_last(3.0, 10.0, |_| false), 3.0, 0.0);
        for last in 1..=20 {
            assert_eq!(bisect_last_whole(1, 20, |n| n <= last), last);
        }
    }
}
