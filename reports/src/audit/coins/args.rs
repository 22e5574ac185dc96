//! Arguments of `audit coins`.

use crate::audit::args::{Audited, Source, TextField};
use crate::contract::{limit, quantity};
use clap::{ArgGroup, Args};
use reticent_accounting::{Confidence, Delta, Epsilon};
use std::path::PathBuf;

/// Arguments of `audit coins`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    after_help = "\
`audit plant DATA --canaries 1000x1 --coins --out planted/` writes the text and the coins.

Examples:
  audit coins --model ckpt --coins-file planted/coins.json --training prepared
  audit coins --model ckpt --coins-file planted/coins.json --training planted/train.jsonl --reference base --mechanism run.json"
)]
pub struct Coins {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// Canaries and their coins: the coins.json from `audit plant --coins`.
    #[arg(long, value_name = "FILE")]
    pub coins_file: PathBuf,
    /// Training data: the text, or the folder that `audit prepare` made from it. Canaries left out must not occur in
    /// it, included ones are counted; a folder is compared with what a Reticent checkpoint was trained on. Without
    /// it, no promise is reported as not contradicted.
    #[arg(long, value_name = "FILE|DIR")]
    pub training: Option<PathBuf>,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// Model with the same tokens that saw none of the canaries: a canary's score is then its gain in likelihood. A
    /// folder, or command:LINE.
    #[arg(long, value_name = "DIR")]
    pub reference: Option<Source>,
    /// Mechanism run on every record, for the verdict: any file that `account --mechanism` takes. A Reticent
    /// checkpoint has its own. Of other models, text in which coins change documents must not have been deduplicated
    /// with the canaries in it: two records would differ for each copy.
    #[arg(long, value_name = "FILE")]
    pub mechanism: Option<PathBuf>,
    /// δ of the bound on ε; the promise's own if absent.
    #[arg(long, value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Confidence level of the lower bound.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Exit with 1 if the bound exceeds this.
    #[arg(long, value_name = "EPSILON", value_parser = limit, allow_negative_numbers = true)]
    pub max_epsilon: Option<Epsilon>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
