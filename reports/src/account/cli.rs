//! The command line of `account`, parsed without side effects.

use crate::contract::{Format, positive, positive_number, print, quantity};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use reticent_accounting::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, Neighbours, NoiseMultiplier, Probability,
    SamplingRate, Tolerance, UnitName,
};
use std::path::PathBuf;

const AFTER: &str = "\
Exit codes: 0 finished; 1 finished, and the promised epsilon is above --max-epsilon; 2 not finished \
(bad input or usage).

Examples:
  account --sigma 1.1 --gamma 0.1
  account --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 20 --delta 1e-6 --format json
  account calibrate --epsilon 2 --delta 1e-5 --sample-rate 0.01 --steps 5000";

/// Before training: what does this plan promise? An upper bound, certified at both ends.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "account",
    version,
    after_help = AFTER,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Account {
    /// How the result is written to stdout.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// The plan to account for.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// What to do instead.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of accounting for a plan.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// The least noise that keeps a promise.
    Calibrate(Box<Calibrate>),
    /// Write the completions of a shell to stdout.
    Completions(Completions),
}

/// Batches: how often they are drawn and how many.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Schedule {
    /// Probability of each record to be in a batch [default: 0.01].
    #[arg(long, value_name = "Q", value_parser = quantity::<SamplingRate>, allow_negative_numbers = true)]
    pub sample_rate: Option<SamplingRate>,
    /// Expected batch size, with --dataset-size, instead of --sample-rate.
    #[arg(long, value_name = "B", value_parser = positive, allow_negative_numbers = true,
          requires = "dataset_size", conflicts_with = "sample_rate")]
    pub batch_size: Option<u64>,
    /// Number of private records.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true, requires = "batch_size")]
    pub dataset_size: Option<u64>,
    /// Number of noisy steps [default: 1000].
    #[arg(long, value_name = "T", value_parser = positive, allow_negative_numbers = true)]
    pub steps: Option<u64>,
    /// Passes over the private records, instead of --steps: T = E/q, rounded up.
    #[arg(long, value_name = "E", value_parser = positive_number, allow_negative_numbers = true, conflicts_with = "steps")]
    pub epochs: Option<f64>,
}

/// How well secrets are redacted.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RedactionArgs {
    /// Share of secrets that the redaction policy misses, assumed.
    #[arg(long, value_name = "G", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub gamma: Option<MissRate>,
    /// Secrets labelled by hand, a simple random sample: a measured miss rate instead of --gamma.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true,
          requires = "missed", conflicts_with = "gamma")]
    pub labelled: Option<u64>,
    /// How many of the labelled secrets the policy missed.
    #[arg(long, value_name = "M", value_parser = whole, allow_negative_numbers = true, requires = "labelled")]
    pub missed: Option<u64>,
    /// Confidence of the measured miss rate [default: 0.95].
    #[arg(long, value_name = "C", value_parser = quantity::<Confidence>, allow_negative_numbers = true, requires = "labelled")]
    pub confidence: Option<Confidence>,
    /// Share of secrets that the conservative policy (what counts as private) misses.
    #[arg(long, value_name = "D2", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub conservative_miss: Option<MissRate>,
    /// Share of secrets that both policies miss [default: the smaller of the two].
    #[arg(long, value_name = "J", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub joint_miss: Option<MissRate>,
}

/// The plan to account for.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PlanArgs {
    /// Noise standard deviation over clipping norm.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true, required = true)]
    pub sigma: Option<NoiseMultiplier>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// The slack of every (epsilon, delta) promise [default: 1e-5].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Who is compared with whom in the differential-privacy rows [default: add-remove].
    #[arg(long, value_enum)]
    pub neighbours: Option<NeighboursArg>,
    /// Records that one secret or person accounts for.
    #[arg(long, value_name = "K", value_parser = group, allow_negative_numbers = true)]
    pub group: Option<GroupSize>,
    /// What one record is: sentence, turn, dialogue, document, … [default: record].
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Option<UnitName>,
    /// Redaction.
    #[command(flatten)]
    pub redaction: RedactionArgs,
    /// The adversary's chance of guessing the secret before training.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true)]
    pub prior: Option<Probability>,
    /// How far apart the two ends of an answer may be, relatively [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
    /// Exit 1 if the epsilon of the first row (of the group row with --group) is above this.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true)]
    pub max_epsilon: Option<Epsilon>,
    /// Draw delta against epsilon into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// Arguments of `account calibrate`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  account calibrate --epsilon 2 --delta 1e-5 --sample-rate 0.1 --steps 100 --gamma 0.1
  account calibrate --prior 1e-9 --posterior 1e-4 --group 20 --sample-rate 0.001 --steps 5000")]
pub struct Calibrate {
    /// The epsilon to keep (with --gamma: against an adversary who ignores the secret).
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true,
          required_unless_present = "posterior", conflicts_with = "posterior")]
    pub epsilon: Option<Epsilon>,
    /// The delta at which to keep it [default: 1e-5].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true, conflicts_with = "posterior")]
    pub delta: Option<Delta>,
    /// The chance of guessing a secret before training.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "posterior")]
    pub prior: Option<Probability>,
    /// The chance of guessing it after training that is tolerated.
    #[arg(long, value_name = "R", value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "prior")]
    pub posterior: Option<Probability>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// Who is compared with whom [default: add-remove].
    #[arg(long, value_enum, conflicts_with_all = ["gamma", "posterior"])]
    pub neighbours: Option<NeighboursArg>,
    /// Records that one secret or person accounts for.
    #[arg(long, value_name = "K", value_parser = group, allow_negative_numbers = true)]
    pub group: Option<GroupSize>,
    /// What one record is [default: record].
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Option<UnitName>,
    /// Share of secrets that the redaction policy misses, assumed.
    #[arg(long, value_name = "G", value_parser = quantity::<MissRate>, allow_negative_numbers = true, conflicts_with = "posterior")]
    pub gamma: Option<MissRate>,
    /// How close to the least noise, relatively [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
}

/// Arguments of `account completions`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    after_help = "Example:\n  account completions bash > ~/.local/share/bash-completion/completions/account"
)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

impl Completions {
    /// Writes the completions, made from this very definition.
    ///
    /// # Errors
    /// Trouble with stdout.
    pub fn run(&self) -> std::io::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Account::command(), "account", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

/// Who is compared with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NeighboursArg {
    /// One record more or less.
    AddRemove,
    /// One record's contribution replaced by zero.
    ZeroOut,
    /// One record's content replaced.
    Replace,
}

impl From<NeighboursArg> for Neighbours {
    fn from(neighbours: NeighboursArg) -> Self {
        match neighbours {
            NeighboursArg::AddRemove => Self::AddRemove,
            NeighboursArg::ZeroOut => Self::ZeroOut,
            NeighboursArg::Replace => Self::Replace,
        }
    }
}

fn group(text: &str) -> Result<GroupSize, String> {
    let size = text
        .parse::<u32>()
        .ok()
        .and_then(|records| GroupSize::new(records).ok());
    size.ok_or_else(|| format!("must be a whole number in [1, 10000], got {text:?}"))
}

fn unit(text: &str) -> Result<UnitName, String> {
    UnitName::new(text).map_err(|error| error.to_string())
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 0 on, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Account::command().debug_assert();
    }

    #[test]
    fn sigma_is_needed_for_a_plan_and_not_for_a_calibration() {
        assert!(Account::try_parse_from(["account"]).is_err());
        assert!(Account::try_parse_from(["account", "--gamma", "0.1"]).is_err());
        assert!(Account::try_parse_from(["account", "--sigma", "1"]).is_ok());
        assert!(Account::try_parse_from(["account", "calibrate", "--epsilon", "2"]).is_ok());
        assert!(Account::try_parse_from(["account", "calibrate"]).is_err());
        assert!(Account::try_parse_from(["account", "calibrate", "--prior", "1e-9"]).is_err());
    }

    #[test]
    fn assumed_and_measured_miss_rates_exclude_each_other() {
        let both = [
            "account",
            "--sigma",
            "1",
            "--gamma",
            "0.1",
            "--labelled",
            "200",
            "--missed",
            "20",
        ];
        assert!(Account::try_parse_from(both).is_err());
        assert!(Account::try_parse_from(["account", "--sigma", "1", "--labelled", "200"]).is_err());
        assert!(Account::try_parse_from(["account", "--sigma", "1", "--missed", "2"]).is_err());
    }
}
