//! Arguments of `account compose`.

use crate::account::answer::args::OutcomeArgs;
use crate::account::question::QuestionArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `account compose`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  account compose first.json second.json --delta 1e-6
  account compose ckpt/manifest.json --neighbours replace --group 20 --prior 1e-6
  account compose event.json --export mechanism
  account compose mechanism.json --export dp-event")]
pub struct Compose {
    /// Mechanisms to run in sequence on the same data: our mechanism.json, a manifest.json from `audit train`, a
    /// document from `account`, or an event of Google's dp_accounting; - reads stdin.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What is asked.
    #[command(flatten)]
    pub question: QuestionArgs,
    /// What to do with the answer.
    #[command(flatten)]
    pub outcome: OutcomeArgs,
}
