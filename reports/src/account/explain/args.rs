//! Arguments of `account explain`.

use crate::account::question::{QuestionArgs, RunArgs};
use clap::Args;

/// Arguments of `account explain`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  account explain --sigma 1.1 --steps 10000
  account explain --mechanism mechanism.json --at-epsilon 2 --neighbours replace --format json")]
pub struct Explain {
    /// What runs.
    #[command(flatten)]
    pub run: RunArgs,
    /// What is asked.
    #[command(flatten)]
    pub question: QuestionArgs,
}
