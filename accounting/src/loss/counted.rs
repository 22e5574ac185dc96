//! Runs of equal steps whose loss is a function of one whole number: sums over this number, without
//! a grid.

use super::binomial::BinomialLoss;
use super::integer_noise::IntegerNoise;
use crate::loss::PrivacyLoss;
use crate::numeric::interval::LnBounds;

/// A run whose loss is a function of one whole number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountedLoss {
    /// Steps of two outcomes; the number counts one of them.
    Binomial(BinomialLoss),
    /// Steps of discrete Gaussian noise; the number is the sum of the noise.
    IntegerNoise(IntegerNoise),
}

impl CountedLoss {
    /// Returns `loss` as such a run, if it is one.
    pub(crate) fn of(loss: &PrivacyLoss) -> Option<Self> {
        let binomial = BinomialLoss::of(loss).map(Self::Binomial);
        binomial.or_else(|| IntegerNoise::of(loss).map(Self::IntegerNoise))
    }

    /// Returns ln δ(ε), for any real ε, with ends that may be `width` apart.
    pub(crate) fn ln_delta(&self, epsilon: f64, width: f64) -> LnBounds {
        match self {
            Self::Binomial(binomial) => binomial.ln_delta(epsilon),
            Self::IntegerNoise(noise) => noise.ln_delta(epsilon, width),
        }
    }

    /// Returns ln B(x), x = e^`ln_x`, with ends that may be `width` apart.
    pub(crate) fn ln_blow_up(&self, ln_x: f64, width: f64) -> LnBounds {
        match self {
            Self::Binomial(binomial) => binomial.ln_blow_up(ln_x),
            Self::IntegerNoise(noise) => noise.ln_blow_up(ln_x, width),
        }
    }
}
