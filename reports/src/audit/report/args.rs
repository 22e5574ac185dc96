//! Arguments of `audit report`.

use crate::audit::args::{Audited, Source, TextField};
use crate::audit::exposure::args::bits;
use crate::audit::membership::args::area;
use crate::contract::whole_within;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Arguments of `audit report`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    group = ArgGroup::new("trained").multiple(true).args(["members", "canary_file", "secrets"]),
    after_help = "\
Examples:
  audit report --model ckpt --max-exposure 10 --format json
  audit report --model ckpt --members train-sample.jsonl --non-members held-out.jsonl --reference base --html report.html"
)]
pub struct Report {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// Plan of the canaries, if the checkpoint has none: the canaries.json from `audit prepare`.
    #[arg(long, value_name = "FILE")]
    pub canary_file: Option<PathBuf>,
    /// Mechanism that ran, for the promise, if the checkpoint has none: any file that `account --mechanism` takes.
    #[arg(long, value_name = "FILE")]
    pub mechanism: Option<PathBuf>,
    /// Text the model was trained on: JSON Lines, plain text, or the folder that `audit prepare` made from it.
    #[arg(long, value_name = "FILE|DIR", requires = "non_members")]
    pub members: Option<PathBuf>,
    /// Text of the same kind and time that the model was not trained on; of a prepared folder, what it held out.
    #[arg(long, value_name = "FILE|DIR", requires = "members")]
    pub non_members: Option<PathBuf>,
    /// Complete training text, to count copies of extracted text in (the members if absent) and to find --secrets and the
    /// canaries of --canary-file in: the text, or the folder that `audit prepare` made from it.
    #[arg(long, value_name = "FILE|DIR", requires = "trained")]
    pub training: Option<PathBuf>,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// Secrets to rank among candidates of their shapes, as for `audit extract`.
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Promise for each secret: the file from account protect --weights.
    #[arg(long, value_name = "FILE", requires = "secrets")]
    pub weights: Option<PathBuf>,
    /// Number of random candidates for each secret with a shape, itself included; 10000 if absent.
    #[arg(long, value_name = "N", value_parser = whole_within::<u64>(2..=1_000_000), requires = "secrets")]
    pub candidates: Option<u64>,
    /// Model with the same tokenizer that saw neither, such as the base before fine-tuning: a folder, or
    /// command:LINE.
    #[arg(long, value_name = "DIR", requires = "members")]
    pub reference: Option<Source>,
    /// Exit with 1 if a canary is certainly above this many bits.
    #[arg(long, value_name = "BITS", value_parser = bits, allow_negative_numbers = true)]
    pub max_exposure: Option<f64>,
    /// Exit with 1 if the AUC of membership inference is certainly above this.
    #[arg(long, value_name = "AUC", value_parser = area, requires = "members", allow_negative_numbers = true)]
    pub max_auc: Option<f64>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write the answer in Markdown, for a CI job summary.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Also write the result in SARIF.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Also write a YAML block for the model card.
    #[arg(long, value_name = "FILE")]
    pub model_card: Option<PathBuf>,
    /// Seed of halves, pairs and bootstrap samples.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print the secrets instead of dots.
    #[arg(long)]
    pub show_secrets: bool,
}
