//! Arguments of `audit screen`.

use crate::audit::args::Measured;
use crate::contract::{positive, quantity};
use clap::Args;
use reticent_accounting::Confidence;
use std::path::PathBuf;

/// Arguments of `audit screen`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit screen data.jsonl --policy names --sample 200 --label --labels labels.jsonl
  audit screen data.jsonl --policy names --sample 200 --sheet sheet.jsonl
  audit screen data.jsonl --policy names --sheet sheet.jsonl --labels labels.jsonl
  audit screen prepared/train.jsonl --unit document --policy high-entity --jft --screened ids.txt")]
pub struct Screen {
    /// What is measured.
    #[command(flatten)]
    pub measured: Measured,
    /// Records to sample at random, excluding exact duplicates, if the sheet does not exist yet [default: 200].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "jft")]
    pub sample: Option<u64>,
    /// Draw ten samples of 0.01 % of the records each, as JFT does for its missing rate.
    #[arg(long)]
    pub jft: bool,
    /// Seed of the sample, to draw the same again; refused for policies from --mended [default: drawn by the operating
    /// system].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Also ask about this many records in which the policy nearly found something. They can show misses; no rate
    /// counts them.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub near: Option<u64>,
    /// Sheet of the sample: drawn if it does not exist, measured once every record has its "secrets".
    #[arg(long, value_name = "FILE", default_value = "screening.jsonl")]
    pub sheet: PathBuf,
    /// Ask in the terminal about every record without labels; answers are saved one by one.
    #[arg(long)]
    pub label: bool,
    /// Use the secrets marked in DATA as labels.
    #[arg(long, conflicts_with = "label")]
    pub marked: bool,
    /// Confidence level of the bounds [default: 0.95].
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Write labels for `account --labels`.
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Write the ids of the random sample, for `audit train --recipe jft --screened`.
    #[arg(long, value_name = "FILE")]
    pub screened: Option<PathBuf>,
    /// Write a policy that also finds what was missed in the sample, as JSON for --policy.
    #[arg(long, value_name = "FILE.json")]
    pub mended: Option<PathBuf>,
    /// Replace the files of --labels, --screened and --mended if they exist.
    #[arg(long)]
    pub force: bool,
}
