//! What ran, as data. An accountant is a fold over it.

use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};
use serde::{Deserialize, Serialize};

/// How the records of a batch are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Each record independently, with the sampling rate.
    Poisson,
}

/// What ran: a closed, serialisable description. Neighbours, unit and group size are
/// arguments of the query, not of the mechanism, so that one run answers many questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mechanism {
    /// The Gaussian mechanism on a sum of unit-clipped records.
    Gaussian {
        /// Noise standard deviation over clipping norm.
        noise_multiplier: NoiseMultiplier,
    },
    /// The Gaussian mechanism on the sum over a random batch of unit-clipped records.
    SubsampledGaussian {
        /// Noise standard deviation over clipping norm.
        noise_multiplier: NoiseMultiplier,
        /// Probability of each record to be in the batch.
        sampling_rate: SamplingRate,
        /// How the batch is drawn.
        sampling: Sampling,
    },
    /// A computation on the records without any protection: ε is infinite.
    NonPrivate {
        /// Why, in words a reader of the manifest understands.
        why: String,
    },
    /// The same mechanism several times, adaptively.
    Repeat {
        /// How often.
        times: Steps,
        /// What.
        each: Box<Mechanism>,
    },
    /// Several mechanisms one after the other, adaptively.
    Sequence {
        /// In order; empty means nothing was released.
        parts: Vec<Mechanism>,
    },
    /// A description that is not a bound, and can never become an upper bound.
    Estimated {
        /// The description.
        inner: Box<Mechanism>,
        /// What makes it an estimate.
        why: String,
    },
}

impl Mechanism {
    /// DP-SGD: `steps` Poisson batches at `sampling_rate`, unit clipping, noise `noise_multiplier`.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1000));
    /// assert!(matches!(run, Mechanism::Repeat { .. }));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn dp_sgd(
        noise_multiplier: NoiseMultiplier,
        sampling_rate: SamplingRate,
        steps: Steps,
    ) -> Self {
        Self::Repeat {
            times: steps,
            each: Box::new(Self::SubsampledGaussian {
                noise_multiplier,
                sampling_rate,
                sampling: Sampling::Poisson,
            }),
        }
    }
}
