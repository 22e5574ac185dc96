//! Learning-rate schedules. A schedule fixed beforehand costs no privacy; [`Decay::Plateau`] follows held-out text.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the learning rates of all optimisers move over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// They stay.
    Constant,
    /// Epoch e of E, from 0, takes 1 − e/E of them.
    #[default]
    Linear,
    /// Epoch e of E, from 0, takes (1 + cos(π e/E))/2 of them. Source: Loshchilov & Hutter 2017.
    Cosine,
    /// A quarter of them is left after each epoch after which held-out text is not likelier than ever before. That text
    /// decides then: unless it is declared public, nothing is promised. Source: the word language model of PyTorch's
    /// examples.
    Plateau,
}

/// The factor of [`Decay::Plateau`].
const QUARTER: f64 = 0.25;

/// A schedule: a rise over the first steps, then a decay by epochs.
///
/// ```
/// use reticent_backends::trainer::{Decay, LearningRates};
/// let rates = LearningRates { decay: Decay::Cosine, warmup: 10 };
/// assert!((rates.scale(0, 0, 8) - 0.1).abs() < 1e-12); // the first of ten steps
/// assert!((rates.scale(90, 4, 8) - 0.5).abs() < 1e-12); // half way
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LearningRates {
    /// The decay.
    pub decay: Decay,
    /// Steps of the whole run over which the rates rise from nothing, the first of them 1/warmup.
    pub warmup: u64,
}

impl LearningRates {
    /// Constant rates.
    pub const CONSTANT: Self = Self {
        decay: Decay::Constant,
        warmup: 0,
    };

    /// Checks that the warm-up is not longer than a run of so many steps, which would never reach these rates.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] if it is.
    pub fn fit(&self, steps: u64) -> Result<()> {
        let warmup = self.warmup;
        if warmup <= steps {
            return Ok(());
        }
        Err(Error::Unsuitable(format!(
            "the warm-up must lie in [0, {steps}], the steps of this run, got {warmup}"
        )))
    }

    /// Returns the share of the learning rate that remains given the losses of the held-out text after the epochs so
    /// far.
    #[must_use]
    pub fn left_by(&self, losses: &[f64]) -> f64 {
        let (mut left, mut best) = (1.0, f64::INFINITY);
        for loss in losses {
            if *loss < best {
                best = *loss;
            } else if self.decay == Decay::Plateau {
                left *= QUARTER;
            }
        }
        left
    }

    /// Returns the share of the learning rate at a step of the whole run, in epoch `epoch` of `epochs`.
    #[must_use]
    pub fn scale(&self, step: u64, epoch: u64, epochs: u64) -> f64 {
        let passed = epoch as f64 / epochs.max(1) as f64;
        let decayed = match self.decay {
            Decay::Constant | Decay::Plateau => 1.0,
            Decay::Linear => 1.0 - passed,
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * passed).cos()),
        };
        if step < self.warmup {
            decayed * (step + 1) as f64 / self.warmup as f64
        } else {
            decayed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_and_fall_as_declared() {
        let at = |decay, warmup, step, epoch| LearningRates { decay, warmup }.scale(step, epoch, 4);
        for (decay, want) in [
            (Decay::Constant, [1.0, 1.0, 1.0, 1.0]),
            (Decay::Linear, [1.0, 0.75, 0.5, 0.25]),
            (
                Decay::Cosine,
                [1.0, 0.853_553_390_593, 0.5, 0.146_446_609_407],
            ),
        ] {
            for (epoch, want) in (0..).zip(want) {
                assert!((at(decay, 0, 100, epoch) - want).abs() < 1e-9);
                assert!((at(decay, 5, 100, epoch) - want).abs() < 1e-9);
            }
        }
        let warmed = LearningRates {
            warmup: 5,
            ..LearningRates::CONSTANT
        };
        assert!(warmed.fit(5).is_ok() && warmed.fit(4).is_err());
        let rates = |decay| LearningRates { decay, warmup: 0 };
        let losses = [3.0, 2.0, 2.0, 1.9, 2.5];
        for (epochs, want) in [(0, 1.0), (2, 1.0), (3, 0.25), (4, 0.25), (5, 0.0625)] {
            let left = rates(Decay::Plateau).left_by(&losses[..epochs]);
            assert!((left - want).abs() < 1e-12, "after {epochs} epochs");
        }
        assert!((rates(Decay::Linear).left_by(&losses) - 1.0).abs() < 1e-12);
        for step in 0..5 {
            let want = (step + 1) as f64 / 5.0;
            assert!((at(Decay::Constant, 5, step, 0) - want).abs() < 1e-12);
        }
    }
}
