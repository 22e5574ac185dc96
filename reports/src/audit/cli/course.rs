//! The course of a run: learning rates, held-out text, early stopping.

use crate::contract::positive;
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

/// Whom a promise covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Whose {
    /// Nobody's promise covers the text.
    Public,
    /// Someone's promise should.
    #[default]
    Private,
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
    /// What the held-out text is.
    #[arg(long, value_enum, requires = "held_out", default_value_t)]
    pub held_out_is: Whose,
    /// Stop when the held-out text has not become likelier for so many epochs. Private steps
    /// count as planned; unless --held-out-is public, nothing is promised.
    #[arg(long, value_name = "EPOCHS", value_parser = positive, requires = "held_out")]
    pub patience: Option<u64>,
}
