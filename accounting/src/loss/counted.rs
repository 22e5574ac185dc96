//! Runs of equal steps whose losses are told by one whole number: sums over it, without a grid.

use super::binomial::BinomialLoss;
use super::integer_noise::IntegerNoise;
use crate::loss::PrivacyLoss;
use crate::numeric::interval::LnBounds;

/// A run whose loss is a function of one whole number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountedLoss {
    /// Steps of two outcomes: how many of one there are.
    Binomial(BinomialLoss),
    /// Steps of discrete Gaussian noise: its sum.
    IntegerNoise(IntegerNoise),
}

impl CountedLoss {
    /// `loss` as such a run, if it is one.
    pub(crate) fn of(loss: &PrivacyLoss) -> Option<Self> {
        let binomial = BinomialLoss::of(loss).map(Self::Binomial);
        binomial.or_else(|| IntegerNoise::of(loss).map(Self::IntegerNoise))
    }

    /// ln δ(ε), for any real ε; ends `width` apart will do.
    pub(crate) fn ln_delta(&self, epsilon: f64, width: f64) -> LnBounds {
        match self {
            Self::Binomial(binomial) => binomial.ln_delta(epsilon),
            Self::IntegerNoise(noise) => noise.ln_delta(epsilon, width),
        }
    }

    /// ln B(x), x = e^`ln_x`; ends `width` apart will do.
    pub(crate) fn ln_blow_up(&self, ln_x: f64, width: f64) -> LnBounds {
        match self {
            Self::Binomial(binomial) => binomial.ln_blow_up(ln_x),
            Self::IntegerNoise(noise) => noise.ln_blow_up(ln_x, width),
        }
    }
}
