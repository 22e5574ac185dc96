//! Arguments of `audit design`.

use crate::contract::{positive, quantity, step_count, whole_within};
use clap::{ArgGroup, Args};
use reticent_accounting::{Confidence, Delta, NoiseMultiplier, SamplingRate};
use reticent_corpus::Unit;
use std::path::PathBuf;

/// Arguments of `audit design`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("run").required(true).args(["mechanism", "sigma"]),
    after_help = "\
Predictions are for the best attack on the run's own noise; a model shows less.

Examples:
  audit design --sigma 1.1 --sample-rate 0.01 --steps 1000 --tokens 20000
  audit design --mechanism ckpt/manifest.json --tokens 20000 --copies-tried 1,4"
)]
pub struct Design {
    /// Mechanism to run: any file that `account --mechanism` takes.
    #[arg(long, value_name = "FILE")]
    pub mechanism: Option<PathBuf>,
    /// Noise standard deviation over clipping norm, for DP-SGD.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true,
          requires = "sample_rate", requires = "steps")]
    pub sigma: Option<NoiseMultiplier>,
    /// Probability that a record is in a batch.
    #[arg(long, value_name = "Q", value_parser = quantity::<SamplingRate>, allow_negative_numbers = true, requires = "sigma")]
    pub sample_rate: Option<SamplingRate>,
    /// Number of noisy steps.
    #[arg(long, value_name = "T", value_parser = step_count, allow_negative_numbers = true, requires = "sigma")]
    pub steps: Option<u64>,
    /// Token budget for all copies of all canaries.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub tokens: u64,
    /// Tokens of a canary's carrier (the words around its secret); about 24 in those from --own-carriers.
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub carrier_tokens: u64,
    /// Secret lengths to try, in digits; each digit takes a token.
    #[arg(long, value_name = "DIGITS", value_delimiter = ',', default_value = "1,2,3,4,5,6", value_parser = whole_within::<u32>(1..=9))]
    pub digits: Vec<u32>,
    /// Numbers of copies per canary to try.
    #[arg(long, value_name = "COPIES", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = whole_within::<u32>(1..=1024))]
    pub copies_tried: Vec<u32>,
    /// Maximum number of canaries.
    #[arg(long, value_name = "M", default_value_t = 1000, value_parser = whole_within::<u64>(2..=10_000))]
    pub max_canaries: u64,
    /// δ of the bound on ε; 1e-6 if absent.
    #[arg(long, value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Confidence level of the lower bound; 0.95 if absent.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// What one record is: turn, sentence, dialogue, document or user; if absent, as in --mechanism, else document.
    #[arg(long, value_parser = crate::audit::args::preparing::unit)]
    pub unit: Option<Unit>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
