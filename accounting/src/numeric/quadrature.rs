//! Gauss–Legendre rules with a bound on their error for densities that are sums of Gaussians.

use std::f64::consts::PI;
use std::sync::OnceLock;

/// The available numbers of nodes.
const SIZES: [usize; 7] = [2, 3, 4, 6, 8, 12, 16];

/// Nodes in [−1, 1] with weights that sum to 2.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) nodes: Vec<(f64, f64)>,
}

/// Returns the smallest rule whose relative error on an interval of half-width `half` is at most
/// e^`ln_goal`, for densities whose logarithm grows by at most `steepness` per unit in the real
/// direction; `None` if no rule is accurate enough.
///
/// On the Bernstein ellipse of parameter ρ around the interval, a sum of Gaussians is at most
/// e^{b²/2 + (a + half)·steepness} times its value anywhere on the interval, a and b ≤ half·ρ/2 up
/// to terms covered by the factor e²; an n-node rule errs by at most (64/15) ρ^{−2n}/(1 − ρ^{−2})
/// times that maximum (Trefethen, Theorem 19.3).
pub(crate) fn rule(half: f64, steepness: f64, ln_goal: f64) -> Option<&'static Rule> {
    let index = SIZES
        .iter()
        .position(|n| ln_error(*n as f64, half, steepness) <= ln_goal)?;
    Some(&rules()[index])
}

/// Returns the rule with the most nodes.
pub(crate) fn finest() -> &'static Rule {
    &rules()[SIZES.len() - 1]
}

/// Returns the bound at the ρ that minimises it: with z = half·ρ, 2n = z²/4 + z·steepness/2.
fn ln_error(n: f64, half: f64, steepness: f64) -> f64 {
    let z = (steepness * steepness + 8.0 * n).sqrt() - steepness;
    let rho = z / half;
    if rho < 4.0 {
        return f64::INFINITY;
    }
    -2.0 * n * rho.ln() + 0.125 * z * z + 0.5 * z * steepness + 2.0 * half * steepness + 4.0
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| SIZES.iter().map(|n| Rule::new(*n)).collect())
}

impl Rule {
    /// Finds the roots of the Legendre polynomial by Newton steps from Tricomi's guess.
    fn new(n: usize) -> Self {
        let nodes = (0..n)
            .map(|i| {
                let mut x = -(PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
                let mut slope = 1.0;
                for _ in 0..8 {
                    let (value, derivative) = legendre(n, x);
                    slope = derivative;
                    x -= value / derivative;
                }
                (x, 2.0 / ((1.0 - x * x) * slope * slope))
            })
            .collect();
        Self { nodes }
    }
}

/// Returns P_n(x) and its derivative.
fn legendre(n: usize, x: f64) -> (f64, f64) {
    let (mut before, mut now) = (1.0, x);
    for k in 2..=n {
        let k = k as f64;
        (before, now) = (now, ((2.0 * k - 1.0) * x * now - (k - 1.0) * before) / k);
    }
    (now, n as f64 * (x * now - before) / (x * x - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_integrate_polynomials_exactly() {
        for rule in rules() {
            let degree = 2 * rule.nodes.len() - 2;
            let sum: f64 = rule
                .nodes
                .iter()
                .map(|(x, w)| w * x.powi(i32::try_from(degree).unwrap()))
                .sum();
            let exact = 2.0 / (degree as f64 + 1.0);
            assert!((sum / exact - 1.0).abs() < 1e-14, "degree {degree}");
        }
    }

    #[test]
    fn the_error_bound_holds_for_a_shifted_gaussian() {
        // Coarse enough for the error to show: ∫ e^{−x²/2} over [5 − half, 5 + half].
        for (n, half) in [(2usize, 0.2), (3, 0.3), (4, 0.4)] {
            let rule = Rule::new(n);
            let fine = Rule::new(16);
            let with = |rule: &Rule| -> f64 {
                let at = |x: f64| (-0.5 * (5.0 + half * x).powi(2) + 12.5).exp();
                rule.nodes.iter().map(|(x, w)| w * at(*x)).sum()
            };
            let error = (with(&rule) / with(&fine) - 1.0).abs();
            let bound = ln_error(n as f64, half, 5.0 + half);
            assert!(error > 1e-9 && error.ln() <= bound, "{n}: {error} {bound}");
        }
    }
}
