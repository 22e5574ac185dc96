//! The answer as data.

use reticent_accounting::{Bounds, NoiseMultiplier, Probability, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of a `protection` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Protection {
    /// What may differ between neighbouring inputs: always "arbitrary", the whole content of a secret's examples.
    pub(crate) change: String,
    /// Sizes of the incidence.
    pub(crate) incidence: Sizes,
    /// The least c at which no capacity binds, which is no preprocessing.
    pub(crate) full_c: f64,
    /// One row per choice of weights.
    pub(crate) settings: Vec<Setting>,
    /// Choices of a sweep for which no batch can be drawn; absent when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) infeasible: Vec<Infeasible>,
    /// The secrets one by one when there are few, otherwise the ones nearest to their promise.
    /// Absent from a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<Row>,
    /// The same by kind. Absent from a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kinds: Vec<KindRow>,
}

/// Sizes of the incidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sizes {
    /// Total number of examples.
    pub(crate) examples: u64,
    /// Those that contain a secret.
    pub(crate) with_secrets: u64,
    /// Total number of secrets.
    pub(crate) secrets: u64,
    /// Those that are in no example; absent if each is in some.
    #[serde(default, skip_serializing_if = "crate::contract::is_zero")]
    pub(crate) in_no_example: u64,
    /// Pairs of example and secret.
    pub(crate) pairs: u64,
    /// Most secrets of one example.
    pub(crate) most_secrets: u64,
    /// Most examples of one secret.
    pub(crate) most_examples: u64,
}

/// One choice of weights and the noise it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Setting {
    /// k of c = 2^k in the sweep's units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exponent: Option<i32>,
    /// The constant of the capacities c μ_j.
    pub(crate) c: f64,
    /// Examples whose weight is above zero.
    pub(crate) kept: u64,
    /// Sum of the weights; no feasible choice has a sum above the upper end.
    pub(crate) mass: Bounds<f64>,
    /// Relative distance of the two.
    pub(crate) gap: f64,
    /// Noise by the tight blow-up. Upper end: every promise is certified. Lower end: the binding
    /// secret's bound certainly exceeds its promise.
    pub(crate) sigma: Bounds<NoiseMultiplier>,
    /// The secret that needs the most noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) binding: Option<String>,
    /// Noise when the same promises are proved by Fano's inequality for KL, as in the paper; null where no noise
    /// multiplier up to 1e7 suffices.
    pub(crate) kl_fano_sigma: Option<Upper<NoiseMultiplier>>,
    /// The same for Rényi divergences.
    pub(crate) renyi_fano_sigma: Option<Upper<NoiseMultiplier>>,
    /// Weights of the same mass chosen together with the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) joint: Option<Joint>,
}

impl Setting {
    /// Returns the recommended noise: that of the joint choice, if there is one.
    #[must_use]
    pub(crate) fn recommended(&self) -> Bounds<NoiseMultiplier> {
        self.joint.as_ref().map_or(self.sigma, |joint| joint.sigma)
    }
}

/// A constant of the capacities whose weights add up to no more than the batch size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Infeasible {
    /// k of c = 2^k in the sweep's units.
    pub(crate) exponent: i32,
    /// The constant of the capacities c μ_j.
    pub(crate) c: f64,
    /// Sum of the weights.
    pub(crate) mass: f64,
}

/// Weights chosen together with the noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Joint {
    /// Examples whose weight is above zero.
    pub(crate) kept: u64,
    /// Sum of the weights.
    pub(crate) mass: f64,
    /// As [`Setting::sigma`].
    pub(crate) sigma: Bounds<NoiseMultiplier>,
    /// 1 − σ(joint)/σ(weights by c).
    pub(crate) noise_saved: f64,
}

/// One secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Row {
    /// Its id.
    pub(crate) id: String,
    /// Its kind; absent if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// The largest chance of guessing it before training.
    pub(crate) prior: Probability,
    /// Highest tolerated chance after training.
    pub(crate) promise: Probability,
    /// Examples that contain it.
    pub(crate) examples: u64,
    /// How many of them a batch holds on average.
    pub(crate) mean_draws: f64,
    /// The chance of guessing it after training at the recommended noise, by the blow-up.
    pub(crate) blow_up: Upper<Probability>,
    /// By Fano's inequality for KL.
    pub(crate) kl_fano: Upper<Probability>,
    /// By Fano's inequality for Rényi divergences.
    pub(crate) renyi_fano: Upper<Probability>,
    /// The noise it needs on its own, by each proof; only when secrets are few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) own: Option<Own>,
}

/// The noise one secret needs on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Own {
    /// By the blow-up, both ends.
    pub(crate) blow_up: Bounds<NoiseMultiplier>,
    /// By Fano's inequality for KL; null where no noise multiplier up to 1e7 suffices.
    pub(crate) kl_fano: Option<Upper<NoiseMultiplier>>,
    /// By Fano's inequality for Rényi divergences.
    pub(crate) renyi_fano: Option<Upper<NoiseMultiplier>>,
}

/// All secrets of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KindRow {
    /// The kind; empty for secrets without one.
    pub(crate) kind: String,
    /// How many there are.
    pub(crate) secrets: u64,
    /// The largest posterior, by the blow-up.
    pub(crate) blow_up: Upper<Probability>,
    /// The largest ratio of a secret's posterior to its promise.
    pub(crate) share_of_promise: f64,
}
