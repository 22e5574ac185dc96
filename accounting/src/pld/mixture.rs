//! The dominating pair of one step: two mixtures of Gaussians on the line.
//!
//! Dominance lemma: let P = Σ_S w_S N(x_S, σ²I) and Q = Σ_S w'_S N(x'_S, σ²I) in any
//! dimension with ‖x_S‖ ≤ k_S and ‖x'_S‖ ≤ k'_S. Then the pair (Σ w_S N(k_S, σ²),
//! Σ w'_S N(−k'_S, σ²)) on the line dominates (P, Q): a half-space attains it. Positions
//! are kept in units of σ.

use crate::error::{Error, Result};
use crate::special::{ROUND, exp, ln_add_exp, ln_binomial_pmf};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Σ_k w_k N(κ_k, 1) with positions κ_k ≥ 0 in units of the noise deviation σ.
///
/// Components may be dropped ([`Mixture::trimmed`]); the mixture is then a measure of mass
/// 1 − `missing`, and is not scaled back to one: scaling would under-report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    positions: Vec<f64>,
    ln_weights: Vec<f64>,
    missing: f64,
    #[serde(skip)]
    shape: Shape,
}

/// Whether positions are equally spaced and the weights log-concave, as those of a binomial or
/// Poisson-binomial law: then terms fall ever faster away from the largest one. No part of what
/// a mixture is, so all are equal.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    concave: bool,
}

impl PartialEq for Shape {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Shape {
    fn of(positions: &[f64], ln_weights: &[f64]) -> Self {
        let gap = positions.get(1).map_or(0.0, |next| next - positions[0]);
        let equal = positions
            .windows(2)
            .all(|pair| (pair[1] - pair[0] - gap).abs() <= 1e-9 * gap);
        let bends = |w: &[f64]| w[0] + w[2] - 2.0 * w[1] <= 1e-9 * (1.0 + w[1].abs());
        Self {
            concave: equal && ln_weights.windows(3).all(bends),
        }
    }
}

/// Fewer components than this are always all summed.
const FEW: usize = 12;
/// Terms e^{−60} of the largest and below are left out: of fewer than 1e4 that fall ever faster, all
/// that are left out come to less than [`LEFT_OUT`] of the largest.
const DEPTH: f64 = 60.0;
const LEFT_OUT: f64 = 1e-22;

/// ln M(x), M(x) = Σ w_k e^{κ_k x − κ_k²/2}, the density ratio to N(0, 1), with its slope.
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
    /// A single Gaussian N(position, 1).
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a negative or non-finite position.
    pub fn point(position: f64) -> Result<Self> {
        Self::new(vec![(position, 0.0)])
    }

    /// N(position, 1) for a position already known to be good.
    pub(crate) fn standard(position: f64) -> Self {
        Self {
            positions: vec![position],
            ln_weights: vec![0.0],
            missing: 0.0,
            shape: Shape::default(),
        }
    }

    /// `count` independent Poisson draws at `rate`, each moving the mean by `shift` (in units
    /// of σ): κ = K·shift with K ~ Binomial(count, rate).
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a rate outside (0, 1] or a shift that is not positive and finite.
    pub fn binomial(count: u32, rate: f64, shift: f64) -> Result<Self> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(Error::OutOfRange {
                what: "sampling rate",
                range: "(0, 1]",
                value: rate,
            });
        }
        let components = (0..=count)
            .map(|k| {
                let weight = ln_binomial_pmf(u64::from(k), u64::from(count), rate);
                (f64::from(k) * shift, weight)
            })
            .filter(|(_, weight)| weight.is_finite())
            .collect();
        Self::new(components)
    }

    /// Independent Poisson draws at the given rates, each moving the mean by `shift` (in units of
    /// σ): κ = K·shift with K Poisson–binomial.
    ///
    /// Counts of less than 1e-290 of the mass are dropped and counted as missing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for no rate, a rate outside [0, 1] or a shift that is not positive.
    pub fn poisson_binomial(rates: &[f64], shift: f64) -> Result<Self> {
        if let Some(bad) = rates.iter().find(|rate| !(0.0..=1.0).contains(*rate)) {
            return Err(Error::OutOfRange {
                what: "sampling rate",
                range: "[0, 1]",
                value: *bad,
            });
        }
        // Sums and products of positive numbers only: relative accuracy throughout.
        let mut law = vec![1.0];
        for rate in rates {
            law.push(0.0);
            for k in (0..law.len()).rev() {
                let below = if k == 0 { 0.0 } else { law[k - 1] };
                law[k] = law[k] * (1.0 - rate) + below * rate;
            }
        }
        let components: Vec<(f64, f64)> = law
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 1e-290)
            .map(|(k, weight)| (k as f64 * shift, weight.ln()))
            .collect();
        let dropped = law.len() - components.len();
        let mut mixture = Self::new(components)?;
        if dropped > 0 {
            mixture.missing = 1e-290 * dropped as f64;
        }
        Ok(mixture)
    }

    /// Components as (position κ_k ≥ 0, ln w_k), in ascending order of position.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for no component, a position that is negative, not finite or out
    /// of order, or weights that do not sum to one.
    pub fn new(components: Vec<(f64, f64)>) -> Result<Self> {
        let ordered = components.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let bad = components
            .iter()
            .find(|(position, _)| !(*position >= 0.0 && position.is_finite()));
        if !ordered || bad.is_some() || components.is_empty() {
            return Err(Error::OutOfRange {
                what: "position of a mixture component",
                range: "[0, inf), ascending, at least one",
                value: bad.map_or(f64::NAN, |component| component.0),
            });
        }
        let total = components
            .iter()
            .fold(f64::NEG_INFINITY, |sum, c| ln_add_exp(sum, c.1));
        if total.is_nan() || total.abs() > 1e-9 {
            return Err(Error::OutOfRange {
                what: "sum of mixture weights",
                range: "[1, 1]",
                value: total.exp(),
            });
        }
        let (positions, ln_weights): (Vec<f64>, Vec<f64>) = components.into_iter().unzip();
        Ok(Self {
            shape: Shape::of(&positions, &ln_weights),
            positions,
            ln_weights,
            missing: 0.0,
        })
    }

    /// The mixture without its farthest components, as many as have total mass at most `mass`.
    ///
    /// Used as the first argument of a divergence it under-counts by at most the dropped mass
    /// per step, which the caller adds to δ.
    #[must_use]
    pub fn trimmed(&self, mass: f64) -> Self {
        let mut dropped = f64::NEG_INFINITY;
        let mut keep = self.positions.len();
        while keep > 1 {
            let next = ln_add_exp(dropped, self.ln_weights[keep - 1]);
            if next.exp() > mass - self.missing {
                break;
            }
            dropped = next;
            keep -= 1;
        }
        Self {
            positions: self.positions[..keep].to_vec(),
            ln_weights: self.ln_weights[..keep].to_vec(),
            missing: self.missing + dropped.exp() * (1.0 + 1e-12),
            shape: self.shape,
        }
    }

    /// The mass that was dropped.
    #[must_use]
    pub const fn missing(&self) -> f64 {
        self.missing
    }

    /// The smallest position.
    #[must_use]
    pub fn nearest(&self) -> f64 {
        self.positions[0]
    }

    /// ln of the weight at the smallest position.
    pub(crate) fn ln_nearest_weight(&self) -> f64 {
        self.ln_weights[0]
    }

    /// The largest position.
    #[must_use]
    pub fn farthest(&self) -> f64 {
        self.positions[self.positions.len() - 1]
    }

    /// Components as (position, ln weight).
    pub fn components(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.positions
            .iter()
            .copied()
            .zip(self.ln_weights.iter().copied())
    }

    /// Whether this is N(0, 1) itself.
    pub(crate) fn is_standard(&self) -> bool {
        self.positions.len() == 1 && self.positions[0] <= 0.0
    }

    /// Position and ln weight of one component.
    pub(super) fn component(&self, k: usize) -> (f64, f64) {
        (self.positions[k], self.ln_weights[k])
    }

    /// ln(w_k e^{κ_k x − κ_k²/2}).
    fn ln_term(&self, k: usize, x: f64) -> f64 {
        let position = self.positions[k];
        self.ln_weights[k] + position * (x - 0.5 * position)
    }

    /// The components whose height is within [`DEPTH`] of the largest, and the largest height.
    /// Heights are concave in k where the weights are.
    pub(super) fn near(&self, height: impl Fn(usize) -> f64) -> (Range<usize>, f64) {
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

    /// ln M(x) and its slope, by whichever of two forms keeps the digits.
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

    /// ln M(x) = ln(1 − missing + Σ w_k (e^{…} − 1)): relative accuracy where M is near one.
    ///
    /// `near` are the components that matter to M(x); here those that matter to 1 do too.
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
            // A far component may have hardly any weight and a huge exponent.
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

    /// An upper bound on the variance of the position under p_k(x'), for every x' within
    /// `reach` of x: Σ p_k (κ_k − m)² e^{|κ_k − m|·reach}, m the mean at x (the normaliser
    /// E e^{(κ−m)t} is at least 1), or a quarter of the squared range if that is smaller.
    pub(crate) fn variance_near(&self, x: f64, mean: f64, reach: f64) -> f64 {
        let range = self.farthest() - self.nearest();
        let most = 0.25 * range * range;
        if self.positions.len() == 1 || range * reach > 40.0 {
            return most;
        }
        // Where either tilt by e^{±κ·reach} may matter, and what the largest term is.
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

/// One step's dominating pair: P = Σ w_k N(κ_k, 1) against Q = Σ w'_k N(−κ'_k, 1).
///
/// The loss L(x) = ln dP/dQ(x) is increasing and analytic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The first law, to the right.
    pub first: Mixture,
    /// The second law, mirrored to the left.
    pub second: Mixture,
}

impl Pair {
    /// Whether the loss is itself Gaussian, and with which distance between the means.
    pub(crate) fn gaussian_distance(&self) -> Option<f64> {
        let plain = |side: &Mixture| side.positions.len() == 1 && side.missing <= 0.0;
        (plain(&self.first) && plain(&self.second))
            .then(|| self.first.nearest() + self.second.nearest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_ratio_agree_with_the_definition() {
        let mixture = Mixture::binomial(3, 0.2, 0.7).unwrap();
        for x in [-4.0, -1.0, 0.0, 0.4, 1.0, 3.0, 9.0] {
            let direct: f64 = mixture
                .components()
                .map(|(k, w)| (w + k * x - 0.5 * k * k).exp())
                .sum();
            let ratio = mixture.ratio(x);
            assert!(
                (ratio.ln - direct.ln()).abs() < 1e-14 + ratio.error,
                "x = {x}"
            );
            let slope = (mixture.ratio(x + 1e-5).ln - mixture.ratio(x - 1e-5).ln) / 2e-5;
            assert!((ratio.mean - slope).abs() < 1e-8, "x = {x}");
        }
    }

    /// Components far from the largest term are left out; the error says so.
    #[test]
    fn many_components_are_summed_where_they_matter() {
        for (count, rate, shift) in [(40, 0.2, 0.3), (1000, 1e-6, 0.1), (900, 0.5, 0.02)] {
            let quick = Mixture::binomial(count, rate, shift).unwrap();
            assert!(quick.shape.concave, "{count}");
            let mut slow = quick.clone();
            slow.shape.concave = false;
            for step in -20..=60 {
                let x = 0.5 * f64::from(step);
                let (a, b) = (quick.ratio(x), slow.ratio(x));
                assert!((a.ln - b.ln).abs() <= a.error + b.error, "{count} at {x}");
                assert!((a.mean - b.mean).abs() <= 1e-12 * (1.0 + b.mean));
                let (a, b) = (
                    quick.variance_near(x, a.mean, 0.1),
                    slow.variance_near(x, b.mean, 0.1),
                );
                assert!(
                    a >= b * (1.0 - 1e-9) && a <= b + 1e-15,
                    "{count} at {x}: {a} {b}"
                );
            }
        }
        // Two humps: everything is summed.
        let humps = Mixture::new(vec![(0.0, -0.7), (1.0, -50.0), (2.0, -0.686_414_7)]);
        assert!(humps.is_err() || !humps.unwrap().shape.concave);
    }

    #[test]
    fn tiny_rates_keep_their_digits() {
        let mixture = Mixture::binomial(1, 1e-12, 1.0).unwrap();
        // ln(1 + q(e^{0.5} − 1)) = q(e^{0.5} − 1) to 1e-12 relative.
        let expected = 1e-12 * 0.5f64.exp_m1();
        assert!((mixture.ratio(1.0).ln / expected - 1.0).abs() < 1e-11);
    }

    #[test]
    fn trimming_drops_mass_from_the_far_end_and_says_how_much() {
        let mixture = Mixture::binomial(20, 0.01, 0.25).unwrap();
        let trimmed = mixture.trimmed(1e-6);
        assert!(trimmed.farthest() < mixture.farthest());
        let kept: f64 = trimmed.components().map(|(_, w)| w.exp()).sum();
        assert!(trimmed.missing() > 0.0 && trimmed.missing() <= 1e-6);
        assert!((kept + trimmed.missing() - 1.0).abs() < 1e-12);
        assert_eq!(mixture.trimmed(0.0), mixture);
    }

    #[test]
    fn the_variance_bound_covers_its_neighbourhood() {
        let mixture = Mixture::binomial(5, 0.1, 0.8).unwrap();
        for centre in [-3.0, 0.0, 2.0, 4.0] {
            let bound = mixture.variance_near(centre, mixture.ratio(centre).mean, 0.3);
            for step in -3..=3 {
                let x = centre + 0.1 * f64::from(step);
                let slope = (mixture.ratio(x + 1e-4).mean - mixture.ratio(x - 1e-4).mean) / 2e-4;
                assert!(slope <= bound * (1.0 + 1e-6), "{slope} > {bound} at {x}");
            }
        }
    }

    #[test]
    fn bad_components_are_named() {
        assert!(Mixture::point(-1.0).is_err());
        assert!(Mixture::new(vec![(0.0, -1.0)]).is_err());
        assert!(Mixture::binomial(1, 1.5, 1.0).is_err());
    }
}
