//! The course of a run: learning rates and held-out text.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How learning rates fall over the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DecayArg {
    /// They stay.
    Constant,
    /// Epoch e of E, from 0, takes 1 − e/E of them.
    #[default]
    Linear,
    /// Epoch e of E, from 0, takes (1 + cos(π e/E))/2 of them.
    Cosine,
}

/// The course of a run.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Course {
    /// How the learning rates fall over the epochs.
    #[arg(long, value_enum, value_name = "SHAPE", default_value_t)]
    pub decay: DecayArg,
    /// Steps over which the learning rates rise first.
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(0..=1 << 32), default_value_t = 0)]
    pub warmup: u64,
    /// A folder of `audit prepare` with the same tokens, whose loss is shown after each epoch of
    /// the last phase. No guarantee covers what is shown.
    #[arg(long, value_name = "PREPARED")]
    pub held_out: Option<PathBuf>,
}
