//! ln M(x), the ratio of a mixture's density to N(0, 1), with slope, variance and rounding error.

use super::Mixture;
use crate::numeric::special::{ROUND, exp};
use std::ops::Range;

/// With fewer components than this, all are summed.
const FEW: usize = 12;
/// Terms at most e^{−60} of the largest are left out: of fewer than 1e4 terms that fall ever faster,
/// all that are left out amount to less than [`LEFT_OUT`] of the largest.
const DEPTH: f64 = 60.0;
const LEFT_OUT: f64 = 1e-22;

/// ln M(x), M(x) = Σ w_k e^{κ_k x − κ_k²/2}, the ratio of the density to N(0, 1), with its slope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    /// ln M(x).
    pub(crate) ln: f64,
    /// d ln M/dx = Σ p_k κ_k with p_k ∝ w_k e^{κ_k x − κ_k²/2}: increasing in x.
    pub(crate) mean: f64,
    /// A bound on the rounding error of `ln`.
    pub(crate) error: f64,
}

impl Mixture {
    /// Returns the components whose height is within [`DEPTH`] of the largest, and the largest
    /// height. Heights are concave in k if the weights are.
    pub(crate) fn near(&self, height: impl Fn(usize) -> f64) -> (Range<usize>, f64) {
        let count = self.positions.len();
        if count <= FEW || !self.shape.concave {
            let top = (0..count).map(height).fold(f64::NEG_INFINITY, f64::max);
            return (0..count, top);
        }
        let (mut peak, mut end) = (0, count - 1);
        while peak < end {
            let middle = usize::midpoint(peak, end);
            if height(middle + 1) > height(middle) {
                peak = middle + 1
            } else {
                end = middle
            }
        }
        let top = height(peak);
        let floor = top - DEPTH;
        let (mut first, mut last) = (peak, peak);
        while first > 0 && height(first - 1) > floor {
            first -= 1;
        }
        while last + 1 < count && height(last + 1) > floor {
            last += 1;
        }
        (first..last + 1, top)
    }

    /// Returns ln M(x) and its slope, by the more accurate of two forms.
    pub(crate) fn ratio(&self, x: f64) -> Ratio {
        if self.is_standard() {
            return Ratio {
                ln: 0.0,
                mean: 0.0,
                error: 0.0,
            };
        }
        let (near, top) = self.near(|k| self.ln_term(k, x));
        let (mut sum, mut first, mut size) = (0.0, 0.0, 0.0);
        for k in near.clone() {
            let (position, ln_weight) = (self.positions[k], self.ln_weights[k]);
            let exponent = position * (x - 0.5 * position);
            let term = exp(ln_weight + exponent - top);
            sum += term;
            first += term * position;
            size += term * (exponent.abs() + ln_weight.abs());
        }
        let (mean, size) = (first / sum, size / sum);
        let ln = top + sum.ln();
        if ln.abs() < 0.5 && self.missing < 0.25 {
            self.near_one(x, mean, near)
        } else {
            let sums = near.len() as f64;
            Ratio {
                ln,
                mean,
                error: ROUND * (4.0 * size + 2.0 * top.abs() + 10.0 + sums),
            }
        }
    }

    /// Returns ln M(x) = ln(1 − missing + Σ w_k (e^{…} − 1)), which is accurate relatively where M
    /// is near one.
    ///
    /// `near` are the components that matter to M(x); here, those that matter to 1 matter too.
    fn near_one(&self, x: f64, mean: f64, near: Range<usize>) -> Ratio {
        let heavy = self.near(|k| self.ln_weights[k]).0;
        let range = near.start.min(heavy.start)..near.end.max(heavy.end);
        let left_out = if range.len() < self.positions.len() {
            LEFT_OUT
        } else {
            0.0
        };
        let components = range.len() as f64;
        let (mut sum, mut size, mut whole) = (-self.missing, 0.0, self.missing);
        for k in range {
            let (position, ln_weight) = (self.positions[k], self.ln_weights[k]);
            let exponent = position * (x - 0.5 * position);
            if exponent.abs() <= 0.0 {
                continue;
            }
            // A far component may have almost no weight and a huge exponent.
            let (change, grown) = if exponent > 1.0 {
                let grown = exp(ln_weight + exponent);
                (grown - exp(ln_weight), grown)
            } else {
                let (weight, change) = (exp(ln_weight), exponent.exp_m1());
                (weight * change, weight * (1.0 + change))
            };
            sum += change;
            whole += change.abs();
            size += change.abs() * (8.0 + 4.0 * ln_weight.abs()) + 5.0 * grown * exponent.abs();
        }
        let ln = sum.ln_1p();
        let size = 2.0 * size + components * whole;
        Ratio {
            ln,
            mean,
            error: (ROUND * size + 4.0 * left_out) / (1.0 + sum) + 2.0 * ROUND * ln.abs(),
        }
    }

    /// Returns an upper bound on the variance of the position under p_k(x'), for every x' within
    /// `reach` of x: Σ p_k (κ_k − m)² e^{|κ_k − m|·reach}, with m the mean at x (the normaliser E
    /// e^{(κ−m)t} is at least 1), or a quarter of the squared range if that is smaller.
    pub(crate) fn variance_near(&self, x: f64, mean: f64, reach: f64) -> f64 {
        let range = self.farthest() - self.nearest();
        let most = 0.25 * range * range;
        if self.positions.len() == 1 || range * reach > 40.0 {
            return most;
        }
        // The components for which either tilt by e^{±κ·reach} may matter, and the largest term.
        let (right, highest) =
            self.near(|k| self.ln_term(k, x) + reach * (self.positions[k] - mean));
        let (left, other) = self.near(|k| self.ln_term(k, x) - reach * (self.positions[k] - mean));
        let all = right.start.min(left.start)..right.end.max(left.end);
        let top = highest.max(other);
        let left_out = if all.len() < self.positions.len() {
            2.0 * LEFT_OUT * range * range
        } else {
            0.0
        };
        let (mut sum, mut second) = (0.0, 0.0);
        for k in all {
            let term = exp(self.ln_term(k, x) - top);
            let distance = (self.positions[k] - mean).abs();
            sum += term;
            second += term * distance * distance * exp(distance * reach);
        }
        let second = second + left_out;
        most.min(second / sum * (1.0 + 1e-9))
    }
}
