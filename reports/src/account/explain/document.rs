//! The `explanation` document.

use super::Pair;
use reticent_accounting::pld::Certificate;
use reticent_accounting::{Bounds, Delta, Direction, Epsilon, Guarantee, Mechanism};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of an `explanation` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The steps, equal ones counted.
    pub steps: Vec<Step>,
    /// The distance of the one Gaussian that all plain Gaussian steps amount to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    /// Each direction of the divergence, the one that decides first.
    pub directions: Vec<OneWay>,
    /// Why this engine.
    pub engine: String,
    /// The same question by Rényi divergence, as other accountants answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Guarantee>,
    /// The rows that follow from the loss by further steps.
    pub derived: Vec<Derived>,
    /// What the number does not cover.
    pub not_covered: Vec<String>,
    /// What runs.
    pub mechanism: Mechanism,
}

/// One kind of step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// In words.
    pub what: String,
    /// How often.
    pub times: u64,
    /// How it is accounted for.
    pub treatment: String,
    /// Its dominating pair, in units of one record's largest contribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
}

/// Plain Gaussian steps in one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// How many steps.
    pub steps: u64,
    /// Distance of the means over the noise, √Σ μ².
    pub distance: f64,
}

/// One direction: its answer and what certifies it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneWay {
    /// Which law comes first; absent where both are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// ε, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<Bounds<Epsilon>>,
    /// δ, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Bounds<Delta>>,
    /// The evaluation at the upper end; absent when that is infinite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

impl OneWay {
    /// The upper end that decides.
    pub(super) fn upper(&self) -> f64 {
        let epsilon = self
            .epsilon
            .as_ref()
            .map(|b| b.upper.map_or(f64::INFINITY, |end| end.get().get()));
        let delta = self
            .delta
            .as_ref()
            .map(|b| b.upper.map_or(1.0, |end| end.get().get()));
        epsilon.or(delta).unwrap_or(f64::INFINITY)
    }
}

/// A row that follows from the loss by a further step, and that step in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derived {
    /// The row.
    pub guarantee: Guarantee,
    /// The step.
    pub how: String,
}
