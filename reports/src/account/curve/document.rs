//! The `curve` document.

use super::args::{Over, What};
use crate::contract::Number;
use reticent_accounting::pld::Engine;
use reticent_accounting::training;
use reticent_accounting::{Bounds, Delta, GroupSize, Mechanism, Neighbours};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of a `curve` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Points {
    /// Which curve.
    pub(crate) curve: CurveKind,
    /// Neighbouring relation.
    pub(crate) neighbours: Neighbours,
    /// How many records are changed together.
    pub(crate) group: GroupSize,
    /// The δ, if ε is computed over a parameter of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delta: Option<Delta>,
    /// The engine of the coarsest point; absent for the Rényi curve, which is plain quadrature, and
    /// for redaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<Engine>,
    /// In ascending order.
    pub(crate) points: Vec<CurvePoint>,
    /// What runs; if that varies, at the first point.
    pub(crate) mechanism: Mechanism,
    /// The model of others that the run began from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<training::Base>,
}

/// One point: the argument, and both ends of the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CurvePoint {
    /// Where.
    pub(crate) at: Number,
    /// What is certified there.
    pub(crate) value: Bounds<Number>,
}

/// Which curve, with its argument and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CurveKind {
    /// ε ↦ δ.
    Profile,
    /// δ ↦ ε.
    Epsilon,
    /// False-positive rate ↦ true-positive rate of the best attack on membership.
    TradeOff,
    /// Order ↦ Rényi divergence in nats.
    Renyi,
    /// Chance of a guess before ↦ after.
    BlowUp,
    /// Noise multiplier ↦ ε.
    Sigma,
    /// Sampling rate ↦ ε.
    SampleRate,
    /// Steps ↦ ε.
    Steps,
    /// Share of secrets that redaction misses ↦ ε against an adversary without prior knowledge of the secret.
    Gamma,
}

impl CurveKind {
    /// Returns the names of argument and value.
    #[must_use]
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Profile => ("epsilon", "delta"),
            Self::Epsilon => ("delta", "epsilon"),
            Self::TradeOff => ("false-positive rate", "true-positive rate"),
            Self::Renyi => ("order", "divergence"),
            Self::BlowUp => ("chance before", "chance after"),
            Self::Sigma => ("sigma", "epsilon"),
            Self::SampleRate => ("sample rate", "epsilon"),
            Self::Steps => ("steps", "epsilon"),
            Self::Gamma => ("gamma", "epsilon"),
        }
    }
}

impl From<What> for CurveKind {
    fn from(what: What) -> Self {
        match what {
            What::Profile => Self::Profile,
            What::Epsilon => Self::Epsilon,
            What::TradeOff => Self::TradeOff,
            What::Renyi => Self::Renyi,
            What::BlowUp => Self::BlowUp,
        }
    }
}

impl From<Over> for CurveKind {
    fn from(over: Over) -> Self {
        match over {
            Over::Sigma => Self::Sigma,
            Over::SampleRate => Self::SampleRate,
            Over::Steps => Self::Steps,
            Over::Gamma => Self::Gamma,
        }
    }
}
