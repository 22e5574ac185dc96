//! The command line of `account`, parsed without side effects.

pub use super::answer::args::{OutcomeArgs, PlanArgs};
pub use super::calibrate::args::{By, Calibrate, Solve};
pub use super::compose::args::Compose;
pub use super::curve::CurveKind;
pub use super::curve::args::Curve;
pub use super::explain::args::Explain;
pub use super::plan_page::args::PlanFile;
pub use super::protect::args::Protect;
pub use super::question::{QuestionArgs, RunArgs};

use crate::contract::{Completions, Format, ManualPage};
use crate::defaults::{Configured, TakesDefaults};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

const AFTER: &str = "\
Exit codes: 0 finished; 1 finished, and the promised epsilon is above --max-epsilon; 2 not finished \
(bad input or usage).

Examples:
  account --sigma 1.1 --gamma 0.1
  account --sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 20 --delta 1e-6 --format json
  account --mechanism ckpt/manifest.json --at-epsilon 2
  account --prepared prepared/ --recipe crt --sigma 1.1 --batch-size 256 --epochs 20
  account --recipe sdp --sigma 2 --state-sigma 5 --states 4 --epochs 2 --assume caught
  account plan training.toml --format html > plan.html
  account calibrate --epsilon 2 --delta 1e-5 --sample-rate 0.01 --steps 5000";

/// The message of `account` without arguments.
pub const GREETING: &str = "\
account computes what a training plan promises, before training.

  account --sigma 1.1 --sample-rate 0.01 --steps 1000     what this noise promises
  account calibrate --epsilon 2 --steps 1000              how much noise a promise needs
  account --prepared prepared/ --recipe crt --sigma 1.1   a page to sign, for a prepared corpus

account --help lists everything. After training, audit says what the model leaks.
";

/// Before training: what does this plan promise? An upper bound, certified at both ends.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "account",
    version = crate::contract::VERSION,
    after_help = AFTER,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Account {
    /// Output format on stdout.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// Show the full text: other accountants, other assumptions, what the numbers mean.
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// File of project defaults, or none; if absent, reticent.toml in the working directory or a parent in the same
    /// repository. Flags take precedence; the answer shows what was used.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// What was taken from the project's defaults.
    #[arg(skip)]
    pub configured: Configured,
    /// The plan to account for.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// What to do instead.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl TakesDefaults for Account {
    fn take(&mut self, configured: Configured) {
        self.configured = configured;
    }
    fn configured(&self) -> &Configured {
        &self.configured
    }
    fn excluded(&self) -> Vec<&'static str> {
        match &self.command {
            Some(Command::Calibrate(wish)) => wish.excluded(),
            Some(Command::Curve(wish)) => wish.excluded(),
            None => self.plan.excluded(),
            _ => Vec::new(),
        }
    }
}

/// What to do instead of accounting for a plan.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Compute a curve of the plan, point by point, certified at both ends.
    Curve(Box<Curve>),
    /// Write a page on a training plan for a privacy officer to sign.
    Plan(PlanFile),
    /// Compose several mechanisms run in sequence on the same data.
    Compose(Box<Compose>),
    /// Explain how a number was obtained and what certifies it.
    Explain(Box<Explain>),
    /// Find the least noise that keeps a promise, or the highest rate, step count or group size.
    Calibrate(Box<Calibrate>),
    /// Find weights and noise that protect a set of secrets.
    Protect(Box<Protect>),
    /// Write shell completions to stdout.
    #[command(
        after_help = "Example:\n  account completions bash > ~/.local/share/bash-completion/completions/account"
    )]
    Completions(Completions),
    /// Write a manual page to stdout.
    #[command(after_help = "Example:\n  account man > account.1")]
    Man(ManualPage),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Account::command().debug_assert();
    }

    #[test]
    fn a_calibration_needs_a_target() {
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
        // An assumed rate of the conservative policy took the place of the labels' bound on both.
        for other in ["--conservative-miss", "--joint-miss", "--gamma"] {
            let both = ["account", "--sigma", "1", "--labels", "l.jsonl", other, "0"];
            assert!(Account::try_parse_from(both).is_err(), "{other}");
        }
        assert!(Account::try_parse_from(["account", "--sigma", "1", "--labelled", "200"]).is_err());
        assert!(Account::try_parse_from(["account", "--sigma", "1", "--missed", "2"]).is_err());
    }
}
