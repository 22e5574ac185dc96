//! Moments and divergences without quadrature, for atoms and for pieces whose densities are single
//! exponentials.

use super::{LossDistribution, Piece, Shape};
use crate::numeric::special::{ROUND, above_zero, ln_add_exp};
use std::f64::consts::LN_2;

/// An interval on which the logarithms of both densities are linear.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    length: f64,
    /// ln of the densities at both ends.
    first: [f64; 2],
    second: [f64; 2],
    /// The size to which the rounding error of these values is proportional.
    size: f64,
}

impl LossDistribution {
    /// Returns K(c) with a bound on its error; `None` if a density isn't a single exponential.
    pub(crate) fn closed_moment(&self, order: f64) -> Option<(f64, f64)> {
        let stretches = self.stretches()?;
        let (mut ln, mut size) = (f64::NEG_INFINITY, 0.0f64);
        for atom in self.atoms.iter() {
            ln = ln_add_exp(ln, atom.ln_second + order * atom.loss);
            let off = order * atom.loss_error / (8.0 * ROUND);
            size = size.max(atom.ln_second.abs() + order * atom.loss.abs() + off);
        }
        for stretch in &stretches {
            let at = |i: usize| order * stretch.first[i] + (1.0 - order) * stretch.second[i];
            let (low, high) = (at(0), at(1));
            let fall = (high - low).abs();
            let mean = if fall > 0.0 {
                -(-fall).exp_m1() / fall
            } else {
                1.0
            };
            ln = ln_add_exp(ln, low.max(high) + (stretch.length * mean).ln());
            size = size.max(2.0 * order * stretch.size);
        }
        let count = (self.atoms.len() + stretches.len()) as f64;
        let terms = 16.0 + 4.0 * count + self.roundings;
        Some((ln, ROUND * (terms + 8.0 * size)))
    }

    /// Returns E_P[L], rounded up; `None` if a density isn't a single exponential.
    pub(crate) fn closed_divergence(&self) -> Option<f64> {
        let stretches = self.stretches()?;
        let (mut sum, mut size, mut off) = (0.0, 0.0, 0.0);
        for atom in self.atoms.iter() {
            let mass = (atom.ln_second + atom.loss).exp();
            sum += mass * atom.loss;
            size += mass * atom.loss.abs() * (1.0 + atom.ln_second.abs() + atom.loss.abs());
            off += mass * atom.loss_error * (1.0 + atom.loss.abs());
        }
        for stretch in &stretches {
            // Starts from the end where p is larger, so that nothing overflows.
            let [from, to] = if stretch.first[0] < stretch.first[1] {
                [1, 0]
            } else {
                [0, 1]
            };
            let [here, there] = [from, to].map(|i| stretch.first[i] - stretch.second[i]);
            let rise = stretch.first[to] - stretch.first[from];
            let most = stretch.length * stretch.first[from].exp();
            // ∫ p L = length·p(a) ∫_0^1 e^{ud} (L(a) + u (L(b) − L(a))) du.
            sum += most * (here * weight(rise, 0) + (there - here) * weight(rise, 1));
            let loss = [here, there];
            size += most * (loss[0].abs().max(loss[1].abs()) + stretch.size) * (2.0 + stretch.size);
        }
        let count = (self.atoms.len() + stretches.len()) as f64;
        Some(above_zero(sum + 1.01 * off + ROUND * (16.0 + count) * size))
    }

    fn stretches(&self) -> Option<Vec<Stretch>> {
        (self.infinite <= 0.0 && self.missing <= 0.0)
            .then(|| self.pieces.iter().map(Piece::stretch).collect())
            .flatten()
    }
}

impl Piece {
    fn stretch(&self) -> Option<Stretch> {
        let (from, to) = (self.from?, self.to?);
        let ([first], [second]) = (self.first.components(), self.second.components()) else {
            return None;
        };
        if self.shape != Shape::Laplace {
            return None;
        }
        let at =
            |(position, ln): (f64, f64), x: f64| self.ln_weight + ln - (x - position).abs() - LN_2;
        let far = from.abs().max(to.abs()) + first.0.abs().max(second.0.abs());
        Some(Stretch {
            length: to - from,
            first: [at(*first, from), at(*first, to)],
            second: [at(*second, from), at(*second, to)],
            size: 1.0
                + far
                + self.ln_weight.abs()
                + first.1.abs()
                + second.1.abs()
                + self.first.roundings()
                + self.second.roundings(),
        })
    }
}

/// Returns both ends of the largest K(c) of two outcomes with losses t and t − ε, over t in [0, ε].
///
/// With u = e^t the moment is u^{c−1}(a − bu), a = (1 − e^{−cε})/(1 − e^{−ε}) and b = e^{−ε}(1 −
/// e^{−(c−1)ε})/(1 − e^{−ε}): largest at u = a(c − 1)/bc, where it is u^{c−1} a/c. Losses add up
/// over steps and each step's t may be the worst, so the bound composes.
pub(crate) fn range_moment(epsilon: f64, order: f64) -> (f64, f64) {
    let less = order - 1.0;
    let ln_part = |x: f64| crate::numeric::special::ln_one_minus_exp(-x);
    let ln_a = ln_part(order * epsilon) - ln_part(epsilon);
    let ln_b = -epsilon + ln_part(less * epsilon) - ln_part(epsilon);
    let u = (ln_a - ln_b + (less / order).ln()).clamp(0.0, epsilon);
    // ln(u^{c−1}(a − bu)) at that u, whether or not it was clamped.
    let rest = ln_a + crate::numeric::special::ln_one_minus_exp((ln_b + u - ln_a).min(0.0));
    let ln = less * u + rest;
    let error = ROUND * (64.0 + 16.0 * order * (1.0 + epsilon));
    ((ln - error).max(0.0), above_zero(ln + error))
}

/// Returns the largest divergence of two such outcomes: x − 1 − ln x with x = ε/(1 − e^{−ε}),
/// rounded up.
///
/// Source: Dong, Durfee and Rogers 2020.
pub(crate) fn range_divergence(epsilon: f64) -> f64 {
    if epsilon < 1e-3 {
        // Hoeffding's ε²/8 exceeds the true value by less than a relative ε² here.
        return 0.125 * epsilon * epsilon;
    }
    let x = epsilon / -(-epsilon).exp_m1();
    above_zero((x - 1.0) - x.ln() + 32.0 * ROUND * x)
}

/// Returns ∫_0^1 u^n e^{ud} du for n of 0 or 1.
fn weight(d: f64, n: u32) -> f64 {
    if d.abs() < 1.0 {
        // Σ d^k/(k! (k + n + 1)): the first dropped term is below 1/22!.
        let (mut sum, mut term) = (0.0, 1.0);
        for k in 0..22u32 {
            sum += term / f64::from(k + n + 1);
            term *= d / f64::from(k + 1);
        }
        return sum;
    }
    match n {
        0 => d.exp_m1() / d,
        _ => (d.exp() * (d - 1.0) + 1.0) / (d * d),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_meet_where_the_formulas_change() {
        for d in [1.0 - 1e-9, -1.0 + 1e-9f64] {
            let there = |n: u32| weight(d.signum(), n);
            for n in [0, 1] {
                assert!((weight(d, n) / there(n) - 1.0).abs() < 3e-9, "{d} {n}");
            }
        }
        assert!((weight(0.0, 1) - 0.5).abs() < 1e-16);
    }
}
