//! The command line of `audit`, parsed without side effects.
//!
//! Nothing here reads what is in a file or accesses a device: values with their own types are only checked against their
//! ranges.

mod audited;
pub(super) mod measured;
pub(super) mod preparing;
mod reading;
mod values;

pub use super::classify::args::Classify;
pub use super::coins::args::Coins;
pub use super::convert::args::{Convert, Layout};
pub use super::demo::args::{ArmName, Demo};
pub use super::design::args::Design;
pub use super::devices::args::DevicesArgs;
pub use super::diff::args::Diff;
pub use super::epsilon::args::EpsilonArgs;
pub use super::exposure::args::Exposure;
pub use super::extract::args::Extract;
pub use super::figure::args::Figure;
pub use super::grid::args::Grid;
pub use super::incidence::args::{IncidenceArgs, Sensing};
pub use super::membership::args::{
    AttackArg, GroupBy, MembershipArgs, NeighbourTexts, OnModel, Protocol,
};
pub use super::neighbours::args::NeighboursArgs;
pub use super::perplexity::args::Perplexity;
pub use super::plant::args::Plant;
pub use super::policy::args::Policy;
pub use super::prepare::args::Prepare;
pub use super::redact::args::Redact;
pub use super::report::args::Report;
pub use super::reproduce::args::Reproduce;
pub use super::screen::args::Screen;
pub use super::serve::args::Serve;
pub use super::simulate::args::{Simulate, Simulation};
pub use super::tokenizer::args::TokenizerArgs;
pub use super::train::args::Train;
#[cfg(feature = "audit")]
pub(in crate::audit) use audited::adapted;
pub use audited::{Audited, Source};
pub use measured::Measured;
pub use preparing::Preparing;
pub use reading::{Reading, TextField};
pub use values::{ConservativeSign, ModelArg, PolicyArg, TokenizerArg, precision};

use crate::contract::{Completions, Format, ManualPage, is_prepared};
use crate::defaults::{Configured, TakesDefaults};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

const AFTER: &str = "\
Exit codes: 0 finished; 1 finished, and a measured lower bound exceeds the promised upper bound, \
a limit you set is exceeded, or `diff` finds more; 2 not finished (bad input or usage), or a limit you set is undecided; 130 interrupted.

Example:
  audit demo";

/// The message of `audit` without arguments.
pub const GREETING: &str = "\
audit says what a trained model leaks, and whether that contradicts what was promised.

  audit demo                                              the whole pipeline on synthetic text, in minutes
  audit prepare data.jsonl --canaries 10x20 --out p/      a training set with planted canaries
  audit train p/ --recipe dpsgd --sigma 1.1 --out ckpt/   train with and without protection
  audit exposure --model ckpt/                            what the model leaks of the canaries

audit --help lists everything. Before training, account says what a plan promises.
";

/// After training: what does this model leak? A lower bound, with its confidence.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "audit", version = crate::contract::VERSION, after_help = AFTER)]
pub struct Audit {
    /// Output format on stdout.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
    /// Show the full text, not just the answer.
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// File of project defaults, or none; if absent, reticent.toml in the working directory or a parent in the same
    /// repository. Flags take precedence; the answer shows what was used.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// What was taken from the project's defaults.
    #[arg(skip)]
    pub configured: Configured,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl TakesDefaults for Audit {
    fn take(&mut self, configured: Configured) {
        self.configured = configured;
    }
    fn configured(&self) -> &Configured {
        &self.configured
    }
    /// Returns the keys that mean something else in a command, or that it can't use: a folder that `audit prepare` made
    /// has a unit of its own.
    fn excluded(&self) -> Vec<&'static str> {
        let key = match &self.command {
            // Its flag names a file.
            Command::Membership(args) if args.is_of_folder() => return vec!["neighbours", "unit"],
            Command::Membership(_) => Some("neighbours"),
            Command::Exposure(args) => args.sample.map(|_| "delta"),
            Command::Perplexity(args) => is_prepared(&args.data).then_some("unit"),
            Command::Classify(args) => is_prepared(&args.data).then_some("unit"),
            Command::Extract(args) => {
                let mut texts = args.data.iter().chain(&args.training);
                texts.any(|text| is_prepared(text)).then_some("unit")
            }
            Command::Incidence(args) => args.folder().map(|_| "unit"),
            _ => None,
        };
        key.into_iter().collect()
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Run the whole pipeline: prepare a corpus, train with and without protection, attack, report.
    Demo(Demo),
    /// Generate a synthetic corpus with every secret marked.
    Simulate(Simulate),
    /// Turn text into a training set: deduplicate, redact, split, plant canaries.
    Prepare(Prepare),
    /// Build a vocabulary from text declared public.
    Tokenizer(TokenizerArgs),
    /// Plant canaries in a file for any trainer, changing nothing else.
    Plant(Plant),
    /// Prepare a corpus and its neighbours to find which secrets are caught, and how many records a missed one
    /// changes.
    Neighbours(NeighboursArgs),
    /// Choose how many canaries, candidates and copies to use for a token budget, and predict what they would prove.
    Design(Design),
    /// Deduplicate and redact a corpus of any size, as a stream.
    Redact(Redact),
    /// List which record contains which secret, for `account protect`.
    Incidence(IncidenceArgs),
    /// Measure what a redaction policy finds, and how much of what is marked.
    Policy(Policy),
    /// Draw a sample, label it, and bound the share of secrets that a policy misses.
    Screen(Screen),
    /// Train a model on a prepared corpus.
    Train(Box<Train>),
    /// Measure how well a model predicts a text.
    Perplexity(Perplexity),
    /// Measure how well a classifier predicts the classes of texts.
    Classify(Classify),
    /// Convert a model of another layout to a folder that transformers and audit read.
    Convert(Convert),
    /// Measure the exposure of planted canaries: exact ranks among all candidates.
    Exposure(Exposure),
    /// Audit canaries that coin flips included or left out: a lower bound on ε from one run.
    Coins(Coins),
    /// Measure how well attacks on a model, or scores, distinguish members from non-members, and what the sample can
    /// certify.
    Membership(MembershipArgs),
    /// Measure what the model reproduces verbatim, and rank secrets among their candidates.
    Extract(Extract),
    /// Measure everything possible on a model: one page, one exit code.
    Report(Report),
    /// Test whether a new model leaks more than an old one, beyond noise.
    Diff(Diff),
    /// Plot many documents in one figure, such as exposure over the policy's miss rate by recipe.
    Figure(Figure),
    /// Prepare, train and attack for every cell of a grid: recipes, miss rates, canaries, noise, models and seeds.
    Grid(Grid),
    /// Compare a paper's claims with what is measured here, each judged by a rule fixed beforehand.
    Reproduce(Reproduce),
    /// Compute lower bounds on ε from counts of guesses.
    Epsilon(EpsilonArgs),
    /// Serve another audit's `--scorer` on stdin and stdout; for a model on another machine, use `--scorer
    /// "command:ssh gpu audit serve --model ckpt"`.
    Serve(Serve),
    /// List devices to run models on, by the names that `--device` takes.
    Devices(DevicesArgs),
    /// Write shell completions to stdout.
    #[command(
        after_help = "Example:\n  audit completions bash > ~/.local/share/bash-completion/completions/audit"
    )]
    Completions(Completions),
    /// Write a manual page to stdout.
    #[command(after_help = "Example:\n  audit man > audit.1")]
    Man(ManualPage),
}

#[cfg(test)]
mod tests;
