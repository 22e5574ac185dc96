//! Arguments of `audit simulate`.

use crate::contract::whole_within;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `audit simulate`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Simulate {
    /// What to simulate.
    #[command(subcommand)]
    pub what: Simulation,
}

/// What to simulate.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Simulation {
    /// Customer-service dialogues with names, addresses, phone, order and tracking numbers.
    #[command(
        after_help = "Example:\n  audit simulate customers --dialogues 10000 --seed 0 --out data.jsonl"
    )]
    Customers {
        /// Number of dialogues, from 1 to 10 million.
        #[arg(long, default_value_t = 10_000, value_parser = whole_within::<u64>(1..=10_000_000))]
        dialogues: u64,
        /// Seed: the same seed and number give the same bytes.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Write only the customers' turns, one {"id", "text", "act", "secrets"} per line, with classes for `audit
        /// prepare --label act`.
        #[arg(long)]
        turns: bool,
        /// File to write, one {"id", "text", "secrets"} per line; - for stdout. It must not exist or be a link to a
        /// file.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Replace the file if it exists.
        #[arg(long)]
        force: bool,
    },
}
