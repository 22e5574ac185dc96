//! Arguments for what is watched while a model is trained.

use clap::Args;
use std::path::PathBuf;

/// The course of a run.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Course {
    /// Folder from `audit prepare` with the same tokens, whose loss is shown after each epoch of the last phase; for
    /// a classifier, accuracy and macro-F1, by default on the documents that PREPARED held out. No guarantee covers
    /// these figures.
    #[arg(long, value_name = "PREPARED")]
    pub held_out: Option<PathBuf>,
    /// Also log loss, clipped share, perplexity (for a classifier, accuracy and macro-F1) and ε to this folder during
    /// the run, for TensorBoard. No guarantee covers these logs: protect the folder like the text.
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
}
