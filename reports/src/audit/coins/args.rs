//! Arguments of `audit coins`.

use crate::audit::args::{Audited, Source};
use crate::contract::{limit, quantity};
use clap::{ArgGroup, Args};
use reticent_accounting::{Confidence, Delta, Epsilon};
use std::path::PathBuf;

/// Arguments of `audit coins`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    after_help = "\
`audit plant DATA --canaries 1000x1 --coins --out planted/` makes the text and the coins.

Examples:
  audit coins --model ckpt --coins-file planted/coins.json --training prepared
  audit coins --model ckpt --coins-file planted/coins.json --training planted/train.jsonl --reference base --mechanism run.json"
)]
pub struct Coins {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// The canaries and their coins: the coins.json that `audit plant --coins` wrote.
    #[arg(long, value_name = "FILE")]
    pub coins_file: PathBuf,
    /// What was trained on: the text, or the folder that `audit prepare` made of it. Canaries that are out may not stand in
    /// it, those that are in are counted; a folder is compared with what a checkpoint of ours was trained on. Without it
    /// no promise is said to stand.
    #[arg(long, value_name = "FILE|DIR")]
    pub training: Option<PathBuf>,
    /// A model that saw none of the canaries, with the same tokens: a canary's score is then how much
    /// likelier it became. A folder, or command:LINE.
    #[arg(long, value_name = "DIR")]
    pub reference: Option<Source>,
    /// What ran on every record, for the verdict: any file that `account --mechanism` takes. A checkpoint of ours
    /// says so itself.
    #[arg(long, value_name = "FILE")]
    pub mechanism: Option<PathBuf>,
    /// δ of the ε that is bounded; the promise's own if absent.
    #[arg(long, value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Probability with which the lower bound holds.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Exit with 1 when the bound is above this.
    #[arg(long, value_name = "EPSILON", value_parser = limit, allow_negative_numbers = true)]
    pub max_epsilon: Option<Epsilon>,
    /// Also write a page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
