//! Arguments of `audit extract`.

use crate::audit::args::preparing::unit;
use crate::audit::args::{Audited, Source, TextField};
use crate::contract::{number_within, positive, positive_number, quantity, whole_within};
use clap::{ArgGroup, Args};
use reticent_accounting::Confidence;
use reticent_corpus::Unit;
use std::path::PathBuf;

/// Arguments of `audit extract`.
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    group = ArgGroup::new("what").required(true).multiple(true).args(["data", "secrets"]),
    after_help = "\
Examples:
  audit extract --model ckpt --data train-sample.jsonl --baseline base
  audit extract --model ckpt --data train-sample.jsonl --prompt 50 --suffix 50 --near 0.1
  audit extract --model ckpt --secrets secrets.jsonl --weights weights.json --training prepared"
)]
pub struct Extract {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// Text the model was trained on: JSON Lines, plain text, or the folder that `audit prepare` made from it.
    #[arg(long, value_name = "FILE|DIR")]
    pub data: Option<PathBuf>,
    /// Model with the same tokenizer that never saw the text: what it also continues is not memorised. A folder, or
    /// command:LINE.
    #[arg(long, value_name = "DIR", requires = "data")]
    pub baseline: Option<Source>,
    /// What one record is; if absent, the model's own unit, or document if it has none.
    #[arg(long, value_parser = unit, requires = "data")]
    pub unit: Option<Unit>,
    /// Prompt lengths in tokens; 10,25,50,100 if absent, as far as the records and the model's context allow.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = positive, requires = "data")]
    pub prompt: Vec<u64>,
    /// Tokens that must be reproduced after the prompt; if absent, 50 or half the model's context, if that is less.
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "data")]
    pub suffix: Option<u64>,
    /// Also generate, and count continuations within this edit distance, as a share of tokens.
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "data", allow_negative_numbers = true)]
    pub near: Option<f64>,
    /// Complete training text, to count copies in (--data itself if absent) and to find --secrets in: the text, or the
    /// folder that `audit prepare` made from it.
    #[arg(long, value_name = "FILE|DIR")]
    pub training: Option<PathBuf>,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// Sampling temperature for the numbers of draws.
    #[arg(long, value_parser = positive_number, default_value_t = 1.0, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Draw only from the K most probable tokens.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub top_k: Option<u64>,
    /// Draw only from the most probable tokens up to this mass.
    #[arg(long, value_name = "MASS", value_parser = mass, allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// File of secrets, lines of {"id", "context", "secret"} with a "shape" such as {digits:6} or their "candidates",
    /// and with "prior" and "posterior" unless --weights has them.
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Promise for each secret: the file from account protect --weights.
    #[arg(long, value_name = "FILE", requires = "secrets")]
    pub weights: Option<PathBuf>,
    /// Number of random candidates for each secret with a shape, itself included; 10000 if absent.
    #[arg(long, value_name = "N", value_parser = whole_within::<u64>(2..=1_000_000), requires = "secrets")]
    pub candidates: Option<u64>,
    /// Seed of the candidates.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "secrets")]
    pub candidate_seed: u64,
    /// Write each secret's rank among its candidates into JSON and CSV: whoever has the model then has the secret.
    #[arg(long, requires = "secrets")]
    pub show_ranks: bool,
    /// Confidence level of each interval; 0.95 if absent.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Exit with 1 if certainly more than this share is reproduced verbatim, beyond a baseline that is no near copy.
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "data", allow_negative_numbers = true)]
    pub max_rate: Option<f64>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    number_within(text, "a number in [0, 1]", |v| (0.0..=1.0).contains(&v))
}

fn mass(text: &str) -> Result<f64, String> {
    number_within(text, "a number in (0, 1]", |v| v > 0.0 && v <= 1.0)
}
