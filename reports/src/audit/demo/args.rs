//! Arguments of `audit demo`.

use crate::contract::whole_within;
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
    /// The same, with the conservative policy missing the canaries too.
    CrtMissed,
    /// Confidentially redacted training without its noise, to show what an audit says.
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
    /// Corpus, as for `audit prepare`; synthetic if absent.
    #[arg(value_name = "FILE.jsonl")]
    pub file: Option<PathBuf>,
    /// Folder to write; the first free of reticent-demo, reticent-demo-2, … if absent.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Number of dialogues to generate, or at most to take from FILE.
    #[arg(long, value_parser = whole_within::<u64>(1..=10_000_000))]
    pub dialogues: Option<u64>,
    /// Canaries to plant: number, and copies of each.
    #[arg(long, value_name = "MxR", default_value = "10x20")]
    pub canaries: Spec,
    /// Use half the dialogues, and only the arms sgd-dedup, crt and crt-noiseless, unless others are given.
    #[arg(long)]
    pub quick: bool,
    /// Arms to run: sgd, sgd-dedup, dpsgd, crt, crt-missed, crt-noiseless; all if absent.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ARMS")]
    pub arms: Vec<ArmName>,
    /// Seed of the synthetic corpus and the canaries. Noise and batches are never seeded.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Device: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is available.
    #[arg(long, default_value_t)]
    pub device: Device,
    /// Print the canaries' secrets instead of dots.
    #[arg(long)]
    pub show_secrets: bool,
}
