//! The `explanation` document.

use super::Pair;
use reticent_accounting::pld::Certificate;
use reticent_accounting::training;
use reticent_accounting::{Bounds, Delta, Direction, Epsilon, Guarantee, Mechanism};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of an `explanation` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Explanation {
    /// What is explained: of a group by the law of its records together or by the group lemma, whichever is tighter.
    pub(crate) headline: Guarantee,
    /// The steps, equal ones counted.
    pub(crate) steps: Vec<Step>,
    /// The distance of the one Gaussian that all plain Gaussian steps amount to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merged: Option<Merged>,
    /// Each direction of the divergence, the one that decides first; by the lemma from the loss of a single record.
    pub(crate) directions: Vec<OneWay>,
    /// Why this engine.
    pub(crate) engine: String,
    /// The same question by Rényi divergence, as other accountants answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside: Option<Guarantee>,
    /// The rows that follow from the loss by further steps.
    pub(crate) derived: Vec<Derived>,
    /// What the number does not cover.
    pub(crate) not_covered: Vec<String>,
    /// What runs.
    pub(crate) mechanism: Mechanism,
    /// The model of others that the run began from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<training::Base>,
}

/// One kind of step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Step {
    /// In words.
    pub(crate) what: String,
    /// How often.
    pub(crate) times: u64,
    /// How it is accounted for.
    pub(crate) treatment: String,
    /// Its dominating pair, in units of one record's largest contribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pair: Option<Pair>,
}

/// Plain Gaussian steps in one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Merged {
    /// How many steps.
    pub(crate) steps: u64,
    /// Distance of the means over the noise, √Σ μ².
    pub(crate) distance: f64,
}

/// One direction: its answer and what certifies it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OneWay {
    /// Which law comes first; absent where both are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) direction: Option<Direction>,
    /// ε, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) epsilon: Option<Bounds<Epsilon>>,
    /// δ, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delta: Option<Bounds<Delta>>,
    /// The evaluation at the upper end, or of a single record at its share of that; absent when it is infinite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<Certificate>,
}

impl OneWay {
    /// Returns the upper end that decides.
    pub(super) fn upper(&self) -> f64 {
        let epsilon = self.epsilon.map(|b| b.high().unwrap_or(f64::INFINITY));
        let delta = self.delta.map(|b| b.high().unwrap_or(1.0));
        epsilon.or(delta).unwrap_or(f64::INFINITY)
    }
}

/// A row that follows from the loss by a further step, and that step in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Derived {
    /// The row.
    pub(crate) guarantee: Guarantee,
    /// The step.
    pub(crate) how: String,
}
