//! What is watched while a model is trained.

use clap::Args;
use std::path::PathBuf;

/// The course of a run.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Course {
    /// A folder of `audit prepare` with the same tokens, whose loss is shown after each epoch of
    /// the last phase; of a classifier accuracy and macro-F1, and where it is absent those of the documents that PREPARED
    /// held out. No guarantee covers what is shown.
    #[arg(long, value_name = "PREPARED")]
    pub held_out: Option<PathBuf>,
    /// Also write loss, clipped share, perplexity (accuracy and macro-F1 of a classifier) and ε into this folder as the run goes, for TensorBoard. No guarantee
    /// covers what is written: keep the folder as the text.
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
}
