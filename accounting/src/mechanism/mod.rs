//! Mechanisms, the description of what ran as data, with all their readers and writers. An accountant is a fold over a
//! mechanism.
//!
//! [`read`](crate::training::read) accepts our own JSON, our documents that contain it (`manifest.json`, the output of
//! `account` and `audit train`), and events of Google's `dp_accounting` for Python; [`to_event`] writes the latter. The
//! module converts text to data; the commands handle files.

pub(crate) mod event;
pub(crate) mod json;
mod runs;
mod sampling;
#[cfg(test)]
mod tests;
mod validate;

pub use event::to_event;
pub use json::json_value;
pub use runs::Runs;
pub use sampling::{Draw, Sampling};
pub(crate) use validate::MOST_NUMBERS;

use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Delta, Divergence, Epsilon, MeanRepetitions, NoiseMultiplier, Order, Probability,
    RepetitionShape, SamplingRate, Steps,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What ran: a closed, serialisable description. Neighbours, unit and group size are
/// arguments of the query, not of the mechanism, so that one run answers many questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The Gaussian mechanism on the sum of several records, each in the batch with its own rate.
    PoissonBinomialGaussian {
        /// Noise standard deviation over clipping norm.
        noise_multiplier: NoiseMultiplier,
        /// The rate of each record of the group that is asked about; the group size of a query
        /// does not multiply it.
        rates: Vec<SamplingRate>,
    },
    /// The Gaussian mechanism whose sensitivity is itself random: a mixture of Gaussians.
    MixtureOfGaussians {
        /// Noise standard deviation, in the units of the sensitivities.
        noise_multiplier: NoiseMultiplier,
        /// The sensitivities, ascending from 0 on.
        sensitivities: Vec<f64>,
        /// Their probabilities, summing to one.
        probabilities: Vec<Probability>,
    },
    /// The Laplace mechanism on a sum of records of absolute norm at most one.
    Laplace {
        /// Scale of the noise over the norm.
        scale: NoiseMultiplier,
    },
    /// The Laplace mechanism on the sum over a random batch.
    SubsampledLaplace {
        /// Scale of the noise over the norm.
        scale: NoiseMultiplier,
        /// Probability of each record to be in the batch.
        sampling_rate: SamplingRate,
        /// How the batch is drawn.
        sampling: Sampling,
    },
    /// Discrete Gaussian noise, P(x) ∝ e^{−x²/2σ²} over the integers, on one integer-valued query.
    DiscreteGaussian {
        /// σ in units of the integers.
        sigma: NoiseMultiplier,
        /// How much one record changes the query.
        #[schemars(range(min = 1, max = u32::MAX))]
        sensitivity: u32,
    },
    /// Discrete Laplace (two-sided geometric) noise, P(x) ∝ e^{−|x|/b}, on one integer-valued query.
    DiscreteLaplace {
        /// b in units of the integers.
        scale: NoiseMultiplier,
        /// How much one record changes the query.
        #[schemars(range(min = 1, max = u32::MAX))]
        sensitivity: u32,
    },
    /// Each record reports its category truthfully with the given probability, otherwise one of
    /// the others, uniformly.
    RandomisedResponse {
        /// Probability of the true category.
        truth: Probability,
        /// How many categories there are, at least two.
        #[schemars(range(min = 2, max = u32::MAX))]
        categories: u32,
    },
    /// Sampling an answer with weight e^{ε u/2Δ} for utility u of sensitivity Δ.
    ExponentialMechanism {
        /// ε of the mechanism.
        epsilon: Epsilon,
        /// The neighbours for which Δ bounds the utility's change.
        neighbours: Neighbours,
    },
    /// Anything known only to be ε-differentially private.
    PureDp {
        /// ε.
        epsilon: Epsilon,
        /// For these neighbours.
        neighbours: Neighbours,
    },
    /// Anything known only to be (ε, δ)-differentially private.
    ApproxDp {
        /// ε.
        epsilon: Epsilon,
        /// δ.
        delta: Delta,
        /// For these neighbours.
        neighbours: Neighbours,
    },
    /// Anything known only to be (ξ, ρ)-zero-concentrated differentially private: the Rényi divergence
    /// of every order α > 1 is at most ξ + ρα, in both directions (Bun and Steinke 2016).
    Zcdp {
        /// ρ.
        rho: Divergence,
        /// ξ; most mechanisms have none.
        #[serde(default = "no_divergence")]
        xi: Divergence,
        /// For these neighbours.
        neighbours: Neighbours,
    },
    /// Anything of which only Rényi divergences are bounded, at some orders and in both directions.
    RenyiDp {
        /// The orders, ascending.
        orders: Vec<Order>,
        /// The divergence at each order is at most this.
        divergences: Vec<Divergence>,
        /// For these neighbours.
        neighbours: Neighbours,
    },
    /// A mechanism run a random number of times, of which only the best outcome is released: its
    /// score is part of the outcome, the number of runs is drawn by coins of its own and stays secret
    /// (Papernot and Steinke 2022).
    RepeatAndSelect {
        /// What runs.
        each: Box<Mechanism>,
        /// How often on average.
        mean: MeanRepetitions,
        /// How that number is distributed.
        shape: RepetitionShape,
    },
    /// A computation on the records without any protection: ε is infinite.
    NonPrivate {
        /// Why, in words a reader of the manifest understands.
        why: String,
    },
    /// The same mechanism several times, adaptively: of a step, consecutive ones; of anything else, runs of its own,
    /// each of which begins with an epoch of its own.
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

const fn no_divergence() -> Divergence {
    Divergence::ZERO
}

impl Mechanism {
    /// Describes DP-SGD: `steps` Poisson batches at `sampling_rate`, unit clipping, noise `noise_multiplier`.
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
        let step = Self::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling: Sampling::Poisson,
        };
        step.times(steps)
    }

    /// Returns so many of this mechanism in a row.
    pub(crate) fn times(self, times: Steps) -> Self {
        Self::Repeat {
            times,
            each: Box::new(self),
        }
    }

    /// Describes what protects nothing, for the reason `why`.
    pub(crate) fn open(why: impl Into<String>) -> Self {
        Self::NonPrivate { why: why.into() }
    }

    /// Returns whether a part protects nothing, for a reason that `fits`.
    pub(crate) fn is_open_since(&self, fits: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::NonPrivate { why } => fits(why),
            Self::Sequence { parts } => parts.iter().any(|part| part.is_open_since(fits)),
            Self::Repeat { times, each } => times.get() > 0 && each.is_open_since(fits),
            _ => false,
        }
    }

    /// Returns whether only Rényi divergences are known for some part.
    pub(crate) fn is_stated(&self) -> bool {
        match self {
            // Of a divergence that no order raises, the law is known.
            Self::Zcdp { rho, .. } => rho.get() > 0.0,
            Self::RenyiDp { .. } | Self::RepeatAndSelect { .. } => true,
            Self::Repeat { times, each } => times.get() > 0 && each.is_stated(),
            Self::Sequence { parts } => parts.iter().any(Self::is_stated),
            Self::Estimated { inner, .. } => inner.is_stated(),
            _ => false,
        }
    }

    /// Returns the same run with an additional part that protects nothing: no promise is left, for the reason `why`.
    #[must_use]
    pub fn unprotected(self, why: impl Into<String>) -> Self {
        Self::Sequence {
            parts: vec![self, Self::open(why)],
        }
    }
}
