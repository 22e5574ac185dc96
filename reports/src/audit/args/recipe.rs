//! How noisy steps clip gradients and move weights.

use crate::contract::positive_number;
use clap::{Args, ValueEnum};

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

/// How noisy steps clip and move weights.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PrivateArgs {
    /// All but sgd: norm to which each record's gradient is clipped [default: 1].
    #[arg(long, value_name = "C", value_parser = positive_number, allow_negative_numbers = true)]
    pub clip: Option<f64>,
    /// All but sgd: how the clipping norm is kept [default: flat].
    #[arg(long, value_enum)]
    pub clipping: Option<ClippingArg>,
    /// All but sgd: step size of private steps [default: 0.06]; it falls in the same way.
    #[arg(long, value_name = "RATE", value_parser = positive_number, allow_negative_numbers = true)]
    pub private_learning_rate: Option<f64>,
    /// All but sgd: how private steps move the weights [default: sgd].
    #[arg(long, value_enum)]
    pub private_optimizer: Option<OptimizerArg>,
    /// Decoupled weight decay of --private-optimizer adamw [default: 0.01].
    #[arg(long, value_name = "SHARE", value_parser = positive_number, allow_negative_numbers = true)]
    pub weight_decay: Option<f64>,
}
