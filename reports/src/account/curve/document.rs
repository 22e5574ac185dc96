//! The `curve` document.

use crate::contract::Number;
use clap::ValueEnum;
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

/// Which curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CurveKind {
    /// Delta at each epsilon.
    Profile,
    /// Epsilon at each delta.
    Epsilon,
    /// True-positive rate of a membership attack at each false-positive rate.
    TradeOff,
    /// Rényi divergence at each order.
    Renyi,
    /// Chance of guessing a secret after training at each chance before.
    #[value(name = "posterior", alias = "blow-up")]
    BlowUp,
    /// Noise standard deviation over clipping norm.
    Sigma,
    /// Probability that a record is in a batch.
    SampleRate,
    /// Number of noisy steps.
    Steps,
    /// Share of secrets that the policy misses: epsilon against an adversary without prior knowledge of the secret.
    Gamma,
}

impl CurveKind {
    /// The curves of one run.
    pub(super) const OF_A_RUN: &[Self] = &[
        Self::Profile,
        Self::Epsilon,
        Self::TradeOff,
        Self::Renyi,
        Self::BlowUp,
    ];
    /// The parameters over which runs differ, each against epsilon.
    pub(super) const OVER_RUNS: &[Self] =
        &[Self::Sigma, Self::SampleRate, Self::Steps, Self::Gamma];

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
