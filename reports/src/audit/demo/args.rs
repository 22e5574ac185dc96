//! Arguments of `audit demo`.

use clap::{Args, ValueEnum};
use reticent_backends::Device;
use reticent_corpus::canary::Spec;
use std::path::PathBuf;

/// An arm of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArmName {
    /// Ordinary training on redacted text.
    Sgd,
    /// The same on deduplicated text.
    SgdDedup,
    /// DP-SGD on everything.
    Dpsgd,
    /// Confidentially redacted training.
    Crt,
    /// The same where the conservative policy misses the canaries too.
    CrtMissed,
    /// Confidentially redacted training whose noise is left out: what an audit says of it.
    CrtNoiseless,
}

/// Arguments of `audit demo`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit demo
  audit demo --quick
  audit demo data.jsonl --out my-demo/")]
pub struct Demo {
    /// The corpus, as for `audit prepare`; made up if absent.
    #[arg(value_name = "FILE.jsonl")]
    pub file: Option<PathBuf>,
    /// The folder to write; the first free of reticent-demo, reticent-demo-2, … if absent.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How many dialogues to make up, or to take from FILE at most.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub dialogues: Option<u64>,
    /// Canaries to plant: how many, and how often each.
    #[arg(long, value_name = "MxR", default_value = "10x20")]
    pub canaries: Spec,
    /// Half the dialogues, and only the arms sgd-dedup, crt and crt-noiseless, unless others are asked for.
    #[arg(long)]
    pub quick: bool,
    /// Which arms to run: sgd, sgd-dedup, dpsgd, crt, crt-missed, crt-noiseless; all if absent.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ARMS")]
    pub arms: Vec<ArmName>,
    /// Seed of the made-up corpus and of the canaries. Noise and batches are never seeded.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is there.
    #[arg(long, default_value_t)]
    pub device: Device,
    /// Print the canaries' secrets instead of dots.
    #[arg(long)]
    pub show_secrets: bool,
}
