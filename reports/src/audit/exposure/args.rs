//! Arguments of `audit exposure`.

use crate::audit::args::{Audited, TextField};
use crate::contract::{EXPOSURE_LIMIT, exposure_limit, number_within, positive, quantity};
use clap::{ArgGroup, Args};
use reticent_accounting::{Confidence, Delta};
use reticent_corpus::canary::Spec;
use std::path::PathBuf;

/// Arguments of `audit exposure`.
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    after_help = "\
Examples:
  audit exposure --model ckpt --canaries 10x20
  audit exposure --model ckpt --max-exposure 10 --format json
  audit exposure --model ckpt --stop-at 1000
  audit exposure --scorer command:./scorer --tokenizer tokenizer.json --canary-file canaries.json --sample 10000"
)]
pub struct Exposure {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// Expected canaries: number, and copies of each. Another plan in the model is an error.
    #[arg(long, value_name = "MxR")]
    pub canaries: Option<Spec>,
    /// Plan of the canaries, if the checkpoint has none: the canaries.json from `audit prepare` or `audit plant`, or
    /// coins.json, whose included canaries are then ranked.
    #[arg(long, value_name = "FILE")]
    pub canary_file: Option<PathBuf>,
    /// Text the model was trained on, which is searched for every copy of the canaries of --canary-file: the text, or the
    /// folder that `audit prepare` made from it. Without it, no limit is kept and nothing is concluded from silence.
    #[arg(long, value_name = "FILE|DIR", requires = "canary_file")]
    pub training: Option<PathBuf>,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// Mechanism that ran, for the ceiling, if the checkpoint has none: any file that `account --mechanism` takes.
    #[arg(long, value_name = "FILE")]
    pub mechanism: Option<PathBuf>,
    /// δ of the bound on ε; the promise's own if absent.
    #[arg(long, value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Confidence level of the lower bound shown; 0.95 if absent. The verdict has its own: all verdicts of a report
    /// together contradict promises that hold with probability 0.001 at most.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Exit with 1 if a canary is certainly above this many bits.
    #[arg(long, value_name = "BITS", value_parser = bits, allow_negative_numbers = true)]
    pub max_exposure: Option<f64>,
    /// Earlier checkpoints of the same training, oldest first, comma-separated, to compare exposures with. One of
    /// another training with the same canaries is flagged; other canaries and other architectures are refused.
    #[arg(
        long,
        value_name = "DIRS",
        value_delimiter = ',',
        conflicts_with = "sample"
    )]
    pub earlier: Vec<PathBuf>,
    /// Maximum number of positions to score; ranks are then ranges.
    #[arg(long, value_name = "POSITIONS", value_parser = positive)]
    pub budget: Option<u64>,
    /// Score only this many random candidates instead of searching for exact ranks; each rank is then an interval, and
    /// all intervals hold together with the stated confidence.
    #[arg(long, value_name = "CANDIDATES", value_parser = positive, conflicts_with = "budget")]
    pub sample: Option<u64>,
    /// Seed of the sample.
    #[arg(long, default_value_t = 0, requires = "sample", conflicts_with_all = ["earlier", "budget", "stop_at"])]
    pub seed: u64,
    /// Test only the promise, canary by canary in the order of the plan, and stop when the e-value against it reaches
    /// E: a promise that holds is contradicted with probability 1/E at most, whenever you stop. Fix E beforehand.
    #[arg(long, value_name = "E", value_parser = stopping, allow_negative_numbers = true,
          conflicts_with_all = ["sample", "budget", "earlier", "confidence", "max_exposure"])]
    pub stop_at: Option<f64>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the secrets instead of dots.
    #[arg(long)]
    pub show_secrets: bool,
}

fn stopping(text: &str) -> Result<f64, String> {
    let what = "a number in [2, 1e12]: 1 over the chance of a false alarm";
    number_within(text, what, |value| (2.0..=1e12).contains(&value))
}

pub(in crate::audit) fn bits(text: &str) -> Result<f64, String> {
    number_within(text, EXPOSURE_LIMIT, |bits| exposure_limit(bits).is_ok())
}
