//! Densities that are positive sums of shifted Gaussians or Laplace densities of unit scale.

use crate::pld::Mixture;
use crate::special::{LN_SQRT_TAU, ROUND, ln_normal_tail};
use serde::{Deserialize, Serialize};

/// The density that is shifted about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// e^{−x²/2}/√(2π).
    Gaussian,
    /// e^{−|x|}/2.
    Laplace,
}

impl Shape {
    /// ln of the density at 0 shift.
    pub(crate) fn ln_base(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => -0.5 * x * x - LN_SQRT_TAU,
            Self::Laplace => -x.abs() - std::f64::consts::LN_2,
        }
    }

    /// ln of the density shifted to `position` over the one at 0, and its slope in x.
    fn exponent(self, x: f64, position: f64) -> (f64, f64) {
        match self {
            Self::Gaussian => (position * (x - 0.5 * position), position),
            Self::Laplace => (
                x.abs() - (x - position).abs(),
                x.signum() - (x - position).signum(),
            ),
        }
    }

    /// What the rounding error of [`Shape::exponent`] is proportional to.
    fn exponent_size(self, x: f64, position: f64) -> f64 {
        let far = x.abs() + position.abs();
        match self {
            Self::Gaussian => 3.0 * position.abs() * far,
            // No shift at all is exact.
            Self::Laplace if position.abs() > 0.0 => 3.0 * far,
            Self::Laplace => 0.0,
        }
    }

    /// ln P(X > x).
    pub(crate) fn ln_tail(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => ln_normal_tail(x),
            Self::Laplace if x > 0.0 => -x - std::f64::consts::LN_2,
            Self::Laplace => (-0.5 * x.exp()).ln_1p(),
        }
    }

    /// A distance beyond which at most e^`ln_mass` is left on one side.
    pub(crate) fn reach(self, ln_mass: f64) -> f64 {
        let depth = (-ln_mass).max(1.0);
        match self {
            // P(X > z) ≤ e^{−z²/2}/2.
            Self::Gaussian => (2.0 * depth).sqrt(),
            Self::Laplace => depth,
        }
    }
}

/// Terms whose logarithm is so far below that of the largest are far below its rounding, all of a
/// million together.
const NEGLIGIBLE: f64 = -60.0;

/// Σ w_k f(x − κ_k), positions κ_k of any sign, in units of the scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Density {
    /// (κ_k, ln w_k).
    components: Vec<(f64, f64)>,
    /// Whether the weights sum to one.
    complete: bool,
}

/// ln M(x), M the density over the one at 0, with slope and a bound on the rounding error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) ln: f64,
    pub(crate) slope: f64,
    pub(crate) error: f64,
}

impl Density {
    /// Components of total weight one.
    pub(crate) const fn complete(components: Vec<(f64, f64)>) -> Self {
        Self {
            components,
            complete: true,
        }
    }

    /// A mixture, or its mirror image for `sign` −1.
    pub(crate) fn of_mixture(mixture: &Mixture, sign: f64) -> Self {
        Self {
            components: mixture.components().map(|(k, w)| (sign * k, w)).collect(),
            complete: mixture.missing() <= 0.0,
        }
    }

    /// (κ_k, ln w_k).
    pub(crate) fn components(&self) -> &[(f64, f64)] {
        &self.components
    }

    pub(crate) fn positions(&self) -> impl Iterator<Item = f64> + '_ {
        self.components.iter().map(|(position, _)| *position)
    }

    /// Smallest and largest position.
    pub(crate) fn range(&self) -> (f64, f64) {
        self.positions()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), k| {
                (low.min(k), high.max(k))
            })
    }

    /// ln Σ w_k P(X + κ_k > x).
    pub(crate) fn ln_tail(&self, shape: Shape, x: f64) -> f64 {
        self.components
            .iter()
            .fold(f64::NEG_INFINITY, |sum, (k, w)| {
                crate::special::ln_add_exp(sum, w + shape.ln_tail(x - k))
            })
    }

    /// ln Σ w_k P(X + κ_k < x).
    pub(crate) fn ln_head(&self, shape: Shape, x: f64) -> f64 {
        self.components
            .iter()
            .fold(f64::NEG_INFINITY, |sum, (k, w)| {
                crate::special::ln_add_exp(sum, w + shape.ln_tail(k - x))
            })
    }

    pub(crate) fn ratio(&self, shape: Shape, x: f64) -> Ratio {
        if let [(position, ln_weight)] = self.components.as_slice() {
            let (exponent, slope) = shape.exponent(x, *position);
            let ln = exponent + ln_weight;
            let size = shape.exponent_size(x, *position) + 2.0 * ln_weight.abs();
            return Ratio {
                ln,
                slope,
                error: ROUND * (size + ln.abs()),
            };
        }
        let mut top = f64::NEG_INFINITY;
        let mut most: f64 = 0.0;
        for (position, ln_weight) in &self.components {
            let exponent = shape.exponent(x, *position).0;
            top = top.max(ln_weight + exponent);
            most = most.max(exponent.abs());
        }
        if self.complete && most < 0.5 {
            return self.near_one(shape, x);
        }
        let (mut sum, mut first, mut size) = (0.0, 0.0, 0.0);
        for (position, ln_weight) in &self.components {
            let (exponent, slope) = shape.exponent(x, *position);
            let from_top = ln_weight + exponent - top;
            if from_top < NEGLIGIBLE {
                continue;
            }
            let term = from_top.exp();
            sum += term;
            first += term * slope;
            size += term * (shape.exponent_size(x, *position) + ln_weight.abs());
        }
        let ln = top + sum.ln();
        if self.complete && ln.abs() < 0.5 {
            return self.near_one(shape, x);
        }
        Ratio {
            ln,
            slope: first / sum,
            error: ROUND * (2.0 * size / sum + 2.0 * top.abs() + 16.0),
        }
    }

    /// ln(1 + Σ w_k (e^{…} − 1)): relative accuracy where M is near one.
    fn near_one(&self, shape: Shape, x: f64) -> Ratio {
        let (mut sum, mut first, mut size) = (0.0, 0.0, 0.0);
        for (position, ln_weight) in &self.components {
            let (exponent, slope) = shape.exponent(x, *position);
            let weight = ln_weight.exp();
            let change = exponent.exp_m1();
            sum += weight * change;
            first += weight * (1.0 + change) * slope;
            let rounding = shape.exponent_size(x, *position);
            size +=
                weight * (change.abs() * (6.0 + 2.0 * ln_weight.abs()) + (1.0 + change) * rounding);
        }
        Ratio {
            ln: sum.ln_1p(),
            slope: first / (1.0 + sum),
            error: ROUND * (2.0 * size / (1.0 + sum) + 4.0 * sum.ln_1p().abs()),
        }
    }
}
