//! What is watched while a model is trained.

use clap::Args;
use std::path::PathBuf;

/// The course of a run.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Course {
    /// A folder of `audit prepare` with the same tokens, whose loss is shown after each epoch of
    /// the last phase. No guarantee covers what is shown.
    #[arg(long, value_name = "PREPARED")]
    pub held_out: Option<PathBuf>,
    /// Also write loss, clipped share, perplexity and ε into this folder as the run goes, for TensorBoard. No guarantee
    /// covers what is written: keep the folder as the text.
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
}
