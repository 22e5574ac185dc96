//! Arguments of `audit neighbours`.

use crate::audit::args::Preparing;
use crate::audit::args::Reading;
use crate::contract::positive;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `audit neighbours`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
The corpus is prepared as it is and once more for each secret, with every marked occurrence of it masked beforehand. \
A secret is caught if nothing differs; k is the number of records that differ, with those that the policy could not examine. \
Each spelling is a secret of its own. Where neither the corpus nor --list marks one, the secrets are what the policy finds before simulated misses.

Example:
  audit neighbours data.jsonl --unit turn --policy customers --sample 200")]
pub struct NeighboursArgs {
    /// Corpus, as for `audit prepare`.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// How it is prepared.
    #[command(flatten)]
    pub prepare: Preparing,
    /// Take a simple random sample of this many secrets, drawn by --seed.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "200", allow_negative_numbers = true)]
    pub sample: u64,
    /// Take every secret.
    #[arg(long, conflicts_with = "sample")]
    pub all: bool,
    /// Also mark the secrets in this file, one per line, wherever they occur, inside longer words too: in any case, however
    /// typed, and with anything but letters between digits.
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Show the missed secrets.
    #[arg(long)]
    pub show_secrets: bool,
    /// How the corpus is read.
    #[command(flatten)]
    pub reading: Reading,
}
