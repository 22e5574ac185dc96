//! The dominating pair of one step: two mixtures of Gaussians on the line.
//!
//! Dominance lemma: let P = Σ_S w_S N(x_S, σ²I) and Q = Σ_S w'_S N(x'_S, σ²I) in any
//! dimension with ‖x_S‖ ≤ k_S and ‖x'_S‖ ≤ k'_S. Then the pair (Σ w_S N(k_S, σ²),
//! Σ w'_S N(−k'_S, σ²)) on the line dominates (P, Q): a half-space attains it. Positions
//! are kept in units of σ.

use crate::numeric::special::{ln_add_exp, ln_binomial_pmf};
use crate::quantity::error::{Error, Result};

mod ratio;
#[cfg(test)]
mod tests;

/// Σ_k w_k N(κ_k, 1) with positions κ_k ≥ 0 in units of the noise deviation σ.
///
/// Components may be dropped ([`Mixture::trimmed`]). The mixture is then a measure of mass 1 − `missing`
/// and isn't rescaled to one, since scaling would under-report.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    positions: Vec<f64>,
    ln_weights: Vec<f64>,
    missing: f64,
    shape: Shape,
}

/// The largest deviation from log-concave weights, and from equally spaced positions, that rounding can
/// cause.
const BENDS: f64 = 1e-9;
/// Counts with less mass are dropped from a Poisson–binomial law.
const LEAST_MASS: f64 = 1e-290;
/// The largest mass that a mixture with all of its components lacks: that of ten billion such counts.
const NOTHING: f64 = 1e10 * LEAST_MASS;
/// The deviation of the sum of computed weights from one that rounding can cause.
const ROUNDED: f64 = 1e-9;
/// For components closer than this, a bound by their range is better.
const LEAST_BEND: f64 = 0.05;

/// Whether positions are equally spaced and the weights log-concave, as for a binomial or Poisson-binomial
/// law; terms then fall ever faster away from the largest one. The value is derived from the mixture, so
/// all values compare equal.
#[derive(Debug, Clone, Copy)]
struct Shape {
    concave: bool,
    /// See [`Mixture::most_variance`].
    most_variance: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            concave: false,
            most_variance: f64::INFINITY,
        }
    }
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
            .all(|pair| (pair[1] - pair[0] - gap).abs() <= BENDS * gap);
        let bends = |w: &[f64]| w[0] + w[2] - 2.0 * w[1] <= BENDS * (1.0 + w[1].abs());
        let concave = equal && ln_weights.windows(3).all(bends);
        let heaviest = ln_weights.iter().fold(0.0f64, |most, w| most.max(w.abs()));
        let farthest = positions.last().copied().unwrap_or(0.0);
        // A second difference of ln w_k − κ_k²/2 is at most −g², except for the deviations allowed above.
        let bend = gap * gap - 2.0 * BENDS * (1.0 + heaviest + farthest * gap);
        Self {
            concave,
            most_variance: if concave && bend >= LEAST_BEND {
                gap * gap * most_variance_of_counts(bend)
            } else {
                f64::INFINITY
            },
        }
    }
}

/// Returns a bound on the variance of a law on the integers whose ln p_k has second differences of at most
/// −`bend`: from a mode m on p_{m ± j} ≤ p_m e^{−b j(j − 1)/2}, so that E(k − m)² ≤ 2 Σ j² e^{−b j(j −
/// 1)/2}.
fn most_variance_of_counts(bend: f64) -> f64 {
    let term = |j: f64| j * j * (-0.5 * bend * j * (j - 1.0)).exp();
    // Later terms are less than 1e-30 of the first.
    let terms = (1..=64).map(|j| term(f64::from(j)));
    2.0 * terms.sum::<f64>() * (1.0 + 10.0 * BENDS)
}

impl Mixture {
    /// Creates a single Gaussian N(position, 1).
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a negative or non-finite position.
    pub fn point(position: f64) -> Result<Self> {
        Self::new(vec![(position, 0.0)])
    }

    /// Creates N(position, 1) for a position that is known to be valid.
    pub(crate) fn standard(position: f64) -> Self {
        Self {
            positions: vec![position],
            ln_weights: vec![0.0],
            missing: 0.0,
            shape: Shape::default(),
        }
    }

    /// Creates the mixture of `count` independent Poisson draws at `rate`, each moving the mean by `shift`
    /// (in units of σ): κ = K·shift with K ~ Binomial(count, rate).
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a rate outside (0, 1] or a shift that isn't positive and finite.
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
        Self::computed(components)
    }

    /// Creates the mixture of independent Poisson draws at the given rates, each moving the mean by `shift`
    /// (in units of σ): κ = K·shift with K Poisson–binomial.
    ///
    /// Counts with less than 1e-290 of the mass are dropped and counted as missing.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for no rate, a rate outside [0, 1] or a shift that isn't positive.
    pub fn poisson_binomial(rates: &[f64], shift: f64) -> Result<Self> {
        if let Some(bad) = rates.iter().find(|rate| !(0.0..=1.0).contains(*rate)) {
            return Err(Error::OutOfRange {
                what: "sampling rate",
                range: "[0, 1]",
                value: *bad,
            });
        }
        // Only sums and products of positive numbers, so every entry is accurate relatively.
        let mut law = vec![1.0];
        for rate in rates.iter().filter(|rate| **rate > 0.0) {
            law.push(0.0);
            for k in (0..law.len()).rev() {
                let below = if k == 0 { 0.0 } else { law[k - 1] };
                law[k] = law[k] * (1.0 - rate) + below * rate;
            }
        }
        let components: Vec<(f64, f64)> = law
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > LEAST_MASS)
            .map(|(k, weight)| (k as f64 * shift, weight.ln()))
            .collect();
        // With certain records, the lowest counts can't come up at all.
        let certain = rates.iter().filter(|rate| **rate >= 1.0).count();
        let dropped = law.len() - certain - components.len();
        let mut mixture = Self::computed(components)?;
        if dropped > 0 {
            mixture.missing = LEAST_MASS * dropped as f64;
        }
        Ok(mixture)
    }

    /// Creates a mixture from components (position κ_k ≥ 0, ln w_k), in ascending order of position.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for no component, for a position that is negative, not finite or out
    /// of order, or for weights whose sum differs from one by more than their rounding: what a first law lacks
    /// would be missing in δ.
    pub fn new(components: Vec<(f64, f64)>) -> Result<Self> {
        let rounding = 4.0 * f64::EPSILON * components.len() as f64;
        Self::of_components(components, rounding)
    }

    /// Creates a mixture from components whose weights were computed so that they sum to one.
    ///
    /// # Errors
    /// As [`Mixture::new`].
    pub(crate) fn computed(components: Vec<(f64, f64)>) -> Result<Self> {
        Self::of_components(components, ROUNDED)
    }

    fn of_components(components: Vec<(f64, f64)>, rounding: f64) -> Result<Self> {
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
        if total.is_nan() || total.abs() > rounding {
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

    /// Returns the mixture without its farthest components, as many as have total mass at most `mass`.
    ///
    /// As the first argument of a divergence, it under-counts by at most the dropped mass per step, which
    /// the caller adds to δ.
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

    /// Returns the mass that was dropped.
    #[must_use]
    pub const fn missing(&self) -> f64 {
        self.missing
    }

    /// Returns whether no mass was dropped that matters.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing <= NOTHING
    }

    /// Returns the smallest position.
    #[must_use]
    pub fn nearest(&self) -> f64 {
        self.positions[0]
    }

    /// Returns ln of the weight at the smallest position.
    pub(crate) fn ln_nearest_weight(&self) -> f64 {
        self.ln_weights[0]
    }

    /// Returns the largest position.
    #[must_use]
    pub fn farthest(&self) -> f64 {
        self.positions[self.positions.len() - 1]
    }

    /// Returns the components as (position, ln weight).
    pub fn components(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.positions
            .iter()
            .copied()
            .zip(self.ln_weights.iter().copied())
    }

    /// Returns a bound on d² ln M/dx² at every x, M = Σ w_k e^{κ_k x − κ_k²/2}: the variance of the
    /// positions under any tilt. Infinite unless the weights are known to be log-concave on equally spaced
    /// positions.
    pub(crate) fn most_variance(&self) -> f64 {
        self.shape.most_variance
    }

    /// Returns whether this is N(0, 1) itself.
    pub(crate) fn is_standard(&self) -> bool {
        self.positions.len() == 1 && self.positions[0] <= 0.0
    }

    /// Returns position and ln weight of one component.
    pub(super) fn component(&self, k: usize) -> (f64, f64) {
        (self.positions[k], self.ln_weights[k])
    }

    /// Returns ln(w_k e^{κ_k x − κ_k²/2}).
    fn ln_term(&self, k: usize, x: f64) -> f64 {
        let position = self.positions[k];
        self.ln_weights[k] + position * (x - 0.5 * position)
    }
}

/// One step's dominating pair: P = Σ w_k N(κ_k, 1) against Q = Σ w'_k N(−κ'_k, 1).
///
/// The loss L(x) = ln dP/dQ(x) is increasing and analytic.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The first law, to the right.
    pub first: Mixture,
    /// The second law, mirrored to the left.
    pub second: Mixture,
}

impl Pair {
    /// Returns the distance between the means if the loss is itself Gaussian.
    pub(crate) fn gaussian_distance(&self) -> Option<f64> {
        let plain = |side: &Mixture| side.positions.len() == 1 && side.missing <= 0.0;
        (plain(&self.first) && plain(&self.second))
            .then(|| self.first.nearest() + self.second.nearest())
    }
}
