//! Arguments of a preparation in shards.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// Most processes that are started at once.
const MOST: usize = 256;

/// By which processes a corpus is prepared.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Sharding {
    /// The plan of a preparation in shards: --shards writes it, --stage and --run follow it.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Write the plan for so many shards, and prepare nothing yet.
    #[arg(long, value_name = "N", requires = "plan", conflicts_with_all = ["stage", "run"], value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub shards: Option<u64>,
    /// Run one stage of the plan: scan and write with --shard, group with --part, join by itself.
    #[arg(long, value_name = "STAGE", requires = "plan", conflicts_with_all = ["data", "out", "run", "Preparing", "CanaryArgs", "Reading"])]
    pub stage: Option<StageName>,
    /// The shard, from 0.
    #[arg(long, value_name = "N", requires = "stage", conflicts_with = "part")]
    pub shard: Option<u64>,
    /// The part, from 0.
    #[arg(long, value_name = "N", requires = "stage")]
    pub part: Option<u64>,
    /// Run all stages: local:N starts so many processes on this machine; slurm writes a script that submits them.
    #[arg(long, value_name = "HOW", requires = "plan", conflicts_with_all = ["data", "out", "Preparing", "CanaryArgs", "Reading"])]
    pub run: Option<Driver>,
}

/// A stage of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StageName {
    /// Digests of a shard's records.
    Scan,
    /// Which records of a part came before.
    Group,
    /// A shard's records.
    Write,
    /// The prepared folder.
    Join,
}

/// What runs the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// So many processes on this machine.
    Local(usize),
    /// A script for Slurm.
    Slurm,
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = text.strip_prefix("local:").map(str::parse);
        match (text, count) {
            ("slurm", _) => Ok(Self::Slurm),
            (_, Some(Ok(count))) if (1..=MOST).contains(&count) => Ok(Self::Local(count)),
            _ => Err(format!(
                "must be local:N, with N from 1 to {MOST}, or slurm"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_local_or_slurm() {
        assert_eq!("local:4".parse(), Ok(Driver::Local(4)));
        assert_eq!("slurm".parse(), Ok(Driver::Slurm));
        for text in ["local", "local:0", "local:257", "local:x", "spark"] {
            let said = Driver::from_str(text).unwrap_err();
            assert!(said.contains("from 1 to 256"), "{said}");
        }
    }
}
