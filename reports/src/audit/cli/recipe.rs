//! What single recipes need besides σ.

use crate::contract::{positive, positive_number, quantity};
use clap::{Args, ValueEnum};
use reticent_accounting::{MissRate, NoiseMultiplier};
use std::path::PathBuf;

/// How the clipping norm is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ClippingArg {
    /// One norm over all parameters.
    #[default]
    Flat,
    /// Each layer by itself, to an equal share.
    PerLayer,
    /// Every gradient scaled to nearly the norm: no threshold to tune.
    Automatic,
}

/// How weights are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OptimizerArg {
    /// Gradient descent with momentum 0.9.
    #[default]
    Sgd,
    /// Adam.
    Adam,
    /// Adam with decoupled weight decay.
    Adamw,
}

/// What jft does with the redacted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FirstPhaseArg {
    /// Ordinary fine-tuning on all of it.
    #[default]
    Direct,
    /// Ordinary fine-tuning on records that someone has screened (--screened).
    Screened,
    /// Little noise, sized by the share of tokens missed (--token-miss).
    LightNoise,
    /// Little noise, as if the policy found nothing.
    ConservativeLightNoise,
}

/// What is taken for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Assumption {
    /// The policy finds every secret from end to end, whatever its content.
    Caught,
    /// Which records were screened does not depend on secrets.
    Screening,
}

/// What single recipes need besides σ.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RecipeArgs {
    /// All but sgd: how the clipping norm is kept [default: flat].
    #[arg(long, value_enum)]
    pub clipping: Option<ClippingArg>,
    /// All but sgd: how private steps move the weights [default: sgd].
    #[arg(long, value_enum)]
    pub private_optimizer: Option<OptimizerArg>,
    /// Decoupled weight decay of --private-optimizer adamw [default: 0.01].
    #[arg(long, value_name = "SHARE", value_parser = positive_number, allow_negative_numbers = true)]
    pub weight_decay: Option<f64>,
    /// jft: what is done with the redacted text [default: direct].
    #[arg(long, value_enum)]
    pub first_phase: Option<FirstPhaseArg>,
    /// jft: passes over the redacted text [default: 1].
    #[arg(long, value_name = "E", value_parser = positive)]
    pub first_epochs: Option<u64>,
    /// jft: noise of the first phase, with light noise.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true)]
    pub first_sigma: Option<NoiseMultiplier>,
    /// jft: both ends of the share of tokens that the policy misses, with light noise.
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub token_miss: Vec<MissRate>,
    /// jft: the ids of the screened records, one a line, as in train.jsonl.
    #[arg(long, value_name = "FILE")]
    pub screened: Option<PathBuf>,
    /// sdp: noise of each released state over --state-norm.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true)]
    pub state_sigma: Option<NoiseMultiplier>,
    /// sdp: norm to which a released state is clipped [default: 1].
    #[arg(long, value_name = "C", value_parser = positive_number, allow_negative_numbers = true)]
    pub state_norm: Option<f64>,
    /// protect: the rates that `account protect --weights` wrote; examples are ids of train.jsonl.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// protect: which record contains which secret, as for `account protect`.
    #[arg(long, value_name = "FILE")]
    pub incidence: Option<PathBuf>,
    /// jft, sdp: what is taken for granted, and written into the manifest.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub assume: Vec<Assumption>,
}
