//! Arguments of a preparation in shards.

use crate::contract::whole_within;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// The most processes that are started at once.
const MOST: usize = 256;

/// The arguments that a plan fixes: given when it is written, and not again.
const OF_PLAN: [&str; 29] = [
    "data",
    "out",
    "unit",
    "user_field",
    "policy",
    "miss_rate",
    "false_positive_rate",
    "conservative",
    "no_deduplication",
    "duplicates",
    "no_redaction",
    "canaries",
    "CanaryArgs",
    "canary_sight",
    "canary_recall",
    "tokenizer",
    "vocabulary",
    "label",
    "classes",
    "loss_on",
    "max_tokens",
    "held_out",
    "seed",
    "shards",
    "longest",
    "text_field",
    "chat_template",
    "separator",
    "skip_unreadable",
];

/// By which processes a corpus is prepared.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Sharding {
    /// Plan of a sharded preparation: with DATA it is written, --stage and --run follow it.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Write the plan for this many shards (one for each 128 MiB of DATA if not given), and prepare nothing yet.
    #[arg(long, value_name = "N", requires = "plan", conflicts_with_all = ["stage", "run"], value_parser = whole_within::<u64>(1..=4096))]
    pub shards: Option<u64>,
    /// Run one stage of the plan: scan and write with --shard, group with --part, join alone.
    #[arg(long, value_name = "STAGE", requires = "plan", conflicts_with_all = OF_PLAN, conflicts_with = "run")]
    pub stage: Option<StageName>,
    /// Shard number, from 0.
    #[arg(long, value_name = "N", requires = "stage", conflicts_with = "part")]
    pub shard: Option<u64>,
    /// Part number, from 0.
    #[arg(long, value_name = "N", requires = "stage")]
    pub part: Option<u64>,
    /// Run all stages: local:N starts N processes on this machine; slurm writes a script that submits them.
    #[arg(long, value_name = "HOW", requires = "plan", conflicts_with_all = OF_PLAN)]
    pub run: Option<Driver>,
}

/// A stage of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StageName {
    /// Compute digests of a shard's records.
    Scan,
    /// Find which records of a part came before.
    Group,
    /// Write a shard's records.
    Write,
    /// Complete the prepared folder.
    Join,
}

/// What runs the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// This many processes on this machine.
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
            // Ballista is linked by a separate program, not by this one.
            _ if text.starts_with("ballista://") => Err(format!(
                "must be local:N or slurm here; audit-cluster, which scripts/cluster builds, follows the same plan: \
                 audit-cluster prepare --plan FILE --run {text}"
            )),
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
    use crate::audit::args::Audit;
    use clap::{CommandFactory, Parser};

    /// Whatever else `audit prepare` takes is refused beside a stage.
    #[test]
    fn a_plan_fixes_all_but_who_works() {
        let mut audit = Audit::command();
        audit.build();
        let prepare = audit.find_subcommand("prepare").unwrap();
        let free = [
            "plan", "shard", "part", "stage", "run", "threads", "help", "format", "verbose",
            "config",
        ];
        let mut refused = 0;
        for argument in prepare.get_arguments() {
            let id = argument.get_id().as_str();
            if free.contains(&id) || id == "version" {
                continue;
            }
            let long = argument.get_long().map(|long| format!("--{long}"));
            let value = match id {
                "policy" => "gold",
                "tokenizer" => "bytes",
                "unit" => "turn",
                "conservative" => "digits",
                "duplicates" => "exact",
                "loss_on" => "assistant",
                "canaries" => "1x1",
                "canary_format" => "id: {digits:4}",
                "canary_sight" => "ordinary",
                "vocabulary" => "leaks",
                "max_tokens" | "longest" | "shards" => "5",
                _ => "0",
            };
            let takes = argument.get_action().takes_values();
            let words = long.into_iter().chain(takes.then(|| value.to_owned()));
            let words: Vec<String> = words.collect();
            let line = ["audit", "prepare", "--plan", "p", "--stage", "join"];
            let line = line.iter().map(|word| (*word).to_owned()).chain(words);
            let error = Audit::try_parse_from(line).unwrap_err();
            assert_eq!(
                error.kind(),
                clap::error::ErrorKind::ArgumentConflict,
                "{id}: {error}"
            );
            refused += 1;
        }
        assert!(refused > 20, "{refused}");
    }

    #[test]
    fn drivers_are_local_or_slurm() {
        assert_eq!("local:4".parse(), Ok(Driver::Local(4)));
        assert_eq!("slurm".parse(), Ok(Driver::Slurm));
        for text in ["local", "local:0", "local:257", "local:x", "spark"] {
            let said = Driver::from_str(text).unwrap_err();
            assert!(said.contains("from 1 to 256"), "{said}");
        }
        let said = Driver::from_str("ballista://host:50050").unwrap_err();
        let says = "audit-cluster prepare --plan FILE --run ballista://host:50050";
        assert!(said.contains(says), "{said}");
    }
}
