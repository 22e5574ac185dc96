//! Tails of the binomial and gamma laws, as sums of positive terms.

use crate::error::{Error, Result};

/// P[Bin(trials, q) ≥ least].
pub(crate) fn binomial_upper_tail(least: u64, trials: u64, q: f64) -> f64 {
    if least == 0 || q >= 1.0 {
        return if least <= trials { 1.0 } else { 0.0 };
    }
    if least > trials || q <= 0.0 {
        return 0.0;
    }
    let odds = q / (1.0 - q);
    let up = |i: u64| (trials - i) as f64 / (i + 1) as f64 * odds;
    if least as f64 > trials as f64 * q {
        let first = ln_binomial_mass(least, trials, q).exp();
        series(first, (least..trials).map(up)).min(1.0)
    } else {
        let first = ln_binomial_mass(least - 1, trials, q).exp();
        let down = (0..least - 1).rev().map(|i| 1.0 / up(i));
        (1.0 - series(first, down)).clamp(0.0, 1.0)
    }
}

/// ln P[Bin(trials, q) = count], 0 < q < 1.
fn ln_binomial_mass(count: u64, trials: u64, q: f64) -> f64 {
    let (n, k) = (trials as f64, count as f64);
    let ways = if count == 0 || count == trials {
        0.0
    } else {
        libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
    };
    ways + k * q.ln() + (n - k) * (-q).ln_1p()
}

/// P[Gamma(shape, 1) ≥ x] for a whole-numbered shape: P[Poisson(x) < shape].
pub(crate) fn gamma_upper_tail(shape: u64, x: f64) -> f64 {
    if x <= 0.0 {
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

/// The sum of a falling series from its first term and its ratios, until terms no longer count.
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

/// Clopper–Pearson: the largest q (to rounding, on the safe side) with P[Bin(trials, q) ≥ hits] ≤ alpha.
pub(crate) fn clopper_pearson_lower(hits: u64, trials: u64, alpha: f64) -> f64 {
    if hits == 0 {
        return 0.0;
    }
    // The tail is a sum of positive terms with a relative error far below the 1e-11.
    let alpha = alpha * (1.0 - 1e-11);
    bisect_last(0.0, 1.0, |q| binomial_upper_tail(hits, trials, q) <= alpha)
}

/// The last point of [low, high] that still holds, where `holds` turns from true to false once;
/// `low` if none does.
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

/// The last whole number of [low, high] that still holds; `low` if none does.
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

/// Refuses a level that is no probability strictly between 0 and 1.
pub(crate) fn check_open_unit(what: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 {
        Ok(())
    } else {
        Err(Error::out_of_range(what, "(0, 1)", value))
    }
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
    fn binomial_tail_equals_the_sum_of_all_masses() {
        for trials in [1_u64, 2, 7, 30] {
            for q in [1e-9, 0.03, 0.5, 0.97] {
                let masses: Vec<f64> = (0..=trials)
                    .map(|i| ln_binomial_mass(i, trials, q).exp())
                    .collect();
                for least in 0..=trials {
                    let direct: f64 = masses[least as usize..].iter().rev().sum();
                    close(binomial_upper_tail(least, trials, q), direct, 1e-12);
                }
            }
        }
    }

    #[test]
    fn tails_meet_their_limits() {
        close(binomial_upper_tail(0, 5, 0.0), 1.0, 0.0);
        close(binomial_upper_tail(1, 5, 0.0), 0.0, 0.0);
        close(binomial_upper_tail(5, 5, 1.0), 1.0, 0.0);
        close(binomial_upper_tail(6, 5, 1.0), 0.0, 0.0);
        close(gamma_upper_tail(3, 0.0), 1.0, 0.0);
        close(gamma_upper_tail(1, 2.5), (-2.5_f64).exp(), 1e-14);
        // e^-x Σ x^i / i! in 50-digit decimal arithmetic (Python's decimal).
        close(gamma_upper_tail(10, 15.705_216_422_115_463), 0.05, 1e-12);
        close(gamma_upper_tail(10, 2.0), 0.999_953_501_924_982_7, 1e-14);
    }

    /// Golden: attack vector cp-04 (scipy): lower end of the two-sided 95 % interval.
    #[test]
    fn clopper_pearson_golden() {
        close(
            clopper_pearson_lower(1200, 2000, 0.025),
            0.578_145_898_723_077_9,
            1e-9,
        );
        close(
            clopper_pearson_lower(1000, 2000, 0.025),
            0.477_850_554_231_109_8,
            1e-9,
        );
        close(
            clopper_pearson_lower(1, 1000, 0.025),
            2.531_748_749_129_404e-5,
            1e-9,
        );
        close(
            clopper_pearson_lower(10, 10, 0.05),
            0.05_f64.powf(0.1),
            1e-11,
        );
        close(clopper_pearson_lower(0, 10, 0.05), 0.0, 0.0);
    }
}
