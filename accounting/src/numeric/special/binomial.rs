//! Binomial probabilities that are accurate relatively at any count.

/// Returns ln(n!) − [ (n+½) ln n − n + ½ ln 2π ], the error of Stirling's formula.
///
/// Source: C. Loader, Fast and accurate computation of binomial probabilities, 2000.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        // Exact factorials up to 15! are representable.
        let factorial = (1..=n as u32).fold(1.0, |product, k| product * f64::from(k));
        return if n < 0.5 {
            0.0
        } else {
            factorial.ln() - (n + 0.5) * n.ln() + n - super::LN_SQRT_TAU
        };
    }
    let square = n * n;
    let series = 1.0 / 1260.0 - (1.0 / 1680.0 - (1.0 / 1188.0) / square) / square;
    (1.0 / 12.0 - (1.0 / 360.0 - series / square) / square) / n
}

/// Returns the deviance x ln(x/m) + m − x, without cancellation when x is near m.
fn deviance(x: f64, mean: f64) -> f64 {
    if x == 0.0 {
        return mean;
    }
    let relative = (x - mean) / (x + mean);
    if relative.abs() >= 0.1 {
        return x * (x / mean).ln() + mean - x;
    }
    // ln(x/m) = 2 artanh(v), v = (x−m)/(x+m): sum the odd powers after the two that cancel.
    let square = relative * relative;
    let mut sum = (x - mean) * relative;
    let mut power = 2.0 * x * relative;
    for odd in (3..200).step_by(2) {
        power *= square;
        let next = sum + power / f64::from(odd);
        if next.to_bits() == sum.to_bits() {
            break;
        }
        sum = next;
    }
    sum
}

/// A success probability together with its complement, so that neither loses digits.
#[derive(Clone, Copy)]
struct Chance {
    hit: f64,
    miss: f64,
}

impl Chance {
    /// Creates a probability; 1 − q is exact for q ≥ ½ and rounds by 2⁻⁵⁴ below, where it is
    /// near 1.
    fn new(q: f64) -> Self {
        Self {
            hit: q,
            miss: 1.0 - q,
        }
    }
    fn swapped(self) -> Self {
        Self {
            hit: self.miss,
            miss: self.hit,
        }
    }
    /// Returns ln(1 − hit) with the digits of the smaller of the two.
    fn ln_miss(self) -> f64 {
        if self.hit < 0.5 {
            (-self.hit).ln_1p()
        } else {
            self.miss.ln()
        }
    }
}

/// Returns ln P(Bin(trials, q) = successes), with an absolute error of a few 1e-15 times
/// 1 + |value|.
pub(crate) fn ln_binomial_pmf(successes: u64, trials: u64, q: f64) -> f64 {
    ln_pmf(successes, trials, Chance::new(q))
}

fn ln_pmf(successes: u64, trials: u64, chance: Chance) -> f64 {
    let (n, k) = (trials as f64, successes as f64);
    let failures = n - k;
    if successes > trials {
        return f64::NEG_INFINITY;
    }
    if successes == 0 {
        return if trials == 0 {
            0.0
        } else {
            n * chance.ln_miss()
        };
    }
    if successes == trials {
        return n * chance.swapped().ln_miss();
    }
    if chance.hit <= 0.0 || chance.miss <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let stirling = stirling_error(n) - stirling_error(k) - stirling_error(failures);
    let distance = deviance(k, n * chance.hit) + deviance(failures, n * chance.miss);
    // k·(n−k)/n as a product of ratios: no overflow for any count.
    stirling - distance - super::LN_SQRT_TAU - 0.5 * (k * (failures / n)).ln()
}

/// Returns ln P(Bin(trials, q) ≥ successes) by summing positive terms away from the mode, so that
/// the relative error stays near 1e-13 at any count.
pub(crate) fn ln_binomial_upper_tail(successes: u64, trials: u64, q: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    if successes > trials || q <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if q >= 1.0 {
        return 0.0;
    }
    let mean = trials as f64 * q;
    if successes as f64 >= mean {
        ln_sum_from(successes, trials, Chance::new(q))
    } else {
        // The complement P(X ≤ s−1) = P(n − X ≥ n − s + 1) is the smaller side.
        let below = ln_sum_from(trials - successes + 1, trials, Chance::new(q).swapped());
        super::ln_one_minus_exp(below)
    }
}

/// Returns ln P(Bin(trials, q) ≤ successes), with the digits of a small q.
pub(crate) fn ln_binomial_lower_tail(successes: u64, trials: u64, q: f64) -> f64 {
    if successes >= trials || q <= 0.0 {
        return 0.0;
    }
    if q >= 1.0 {
        return f64::NEG_INFINITY;
    }
    if (successes as f64) < trials as f64 * q {
        // Counted as failures: 1 − q never rounds.
        ln_sum_from(trials - successes, trials, Chance::new(q).swapped())
    } else {
        super::ln_one_minus_exp(ln_sum_from(successes + 1, trials, Chance::new(q)))
    }
}

/// Returns ln Σ_{k ≥ from} pmf(k), for `from` at or above the mean, by the ratio of neighbouring
/// terms.
fn ln_sum_from(from: u64, trials: u64, chance: Chance) -> f64 {
    let first = ln_pmf(from, trials, chance);
    let odds = chance.hit / chance.miss;
    let (mut term, mut sum, mut k) = (1.0, 1.0, from);
    while k < trials {
        term *= (trials - k) as f64 / (k + 1) as f64 * odds;
        sum += term;
        k += 1;
        if term < sum * 1e-18 {
            break;
        }
    }
    (first + f64::ln(sum)).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_match_exact_fractions() {
        // Bin(5, 0.3): P(2) = 10·0.09·0.343.
        assert!((ln_binomial_pmf(2, 5, 0.3) - 0.3087f64.ln()).abs() < 4e-15);
        // P(≥ 3) = 0.16308.
        assert!((ln_binomial_upper_tail(3, 5, 0.3) - 0.16308f64.ln()).abs() < 1e-14);
        assert!((ln_binomial_upper_tail(1, 5, 0.3) - (1.0 - 0.7f64.powi(5)).ln()).abs() < 1e-14);
    }

    #[test]
    fn pmf_sums_to_one_at_a_million() {
        let total: f64 = (498_000..=502_000)
            .map(|k| ln_binomial_pmf(k, 1_000_000, 0.5).exp())
            .sum();
        // P(|Z| > 4.001) = 6.3075e-5; the Edgeworth term is below 1e-8.
        assert!((total - (1.0 - 6.3075e-5)).abs() < 1e-8, "{total}");
    }

    #[test]
    fn both_tails_make_one() {
        for (k, n, q) in [
            (1u64, 10u64, 0.01),
            (7, 10, 0.4),
            (50_000, 100_000, 0.5),
            (3, 1_000_000_000, 0.5f64.powi(30)),
        ] {
            let above = ln_binomial_upper_tail(k, n, q).exp();
            let below = ln_binomial_upper_tail(n - k + 1, n, 1.0 - q).exp();
            assert!(
                (above + below - 1.0).abs() < 1e-11,
                "{k} {n} {q}: {above} {below}"
            );
        }
    }
}
