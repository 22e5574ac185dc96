//! The nonlinearities and their slopes.

use crate::model::Activation;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// 0.044715 in the tanh form of the Gaussian error linear unit.
const CUBIC: f64 = 0.044_715;

/// 1.702 in the sigmoid form of the Gaussian error linear unit.
const QUICK: f64 = 1.702;

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Φ(x).
fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The argument of the tanh form.
fn inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + CUBIC * x * x * x)
}

impl Activation {
    pub(super) fn value(self, x: f64) -> f64 {
        match self {
            Self::Gelu => x * normal_cdf(x),
            Self::GeluTanh => 0.5 * x * (1.0 + inner(x).tanh()),
            Self::Silu => x * sigmoid(x),
            Self::Relu => x.max(0.0),
            Self::QuickGelu => x * sigmoid(QUICK * x),
        }
    }

    pub(super) fn slope(self, x: f64) -> f64 {
        match self {
            Self::Gelu => normal_cdf(x) + x * (-0.5 * x * x).exp() / (2.0 * PI).sqrt(),
            Self::GeluTanh => {
                let t = inner(x).tanh();
                let d_inner = (2.0 / PI).sqrt() * (1.0 + 3.0 * CUBIC * x * x);
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * d_inner
            }
            Self::Silu => {
                let s = sigmoid(x);
                s * (1.0 + x * (1.0 - s))
            }
            Self::QuickGelu => {
                let s = sigmoid(QUICK * x);
                s * (1.0 + QUICK * x * (1.0 - s))
            }
            Self::Relu if x > 0.0 => 1.0,
            Self::Relu => 0.0,
        }
    }
}
