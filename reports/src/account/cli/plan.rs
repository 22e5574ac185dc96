//! What runs and what is asked about it.

use super::values::{NeighboursArg, Sampler, group, unit, whole};
use crate::account::mechanism::Export;
use crate::account::sheet::file::Recipe;
use crate::contract::{positive, positive_number, quantity, step_count};
use clap::Args;
use reticent_accounting::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, NoiseMultiplier, Probability, SamplingRate,
    Tolerance, UnitName,
};
use std::path::PathBuf;

/// Batches: how often they are drawn and how many.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Schedule {
    /// Probability of each record to be in a batch [default: 0.01].
    #[arg(long, value_name = "Q", value_parser = quantity::<SamplingRate>, allow_negative_numbers = true)]
    pub sample_rate: Option<SamplingRate>,
    /// Expected batch size, with --dataset-size or --prepared, instead of --sample-rate.
    #[arg(long, value_name = "B", value_parser = positive, allow_negative_numbers = true,
          conflicts_with = "sample_rate")]
    pub batch_size: Option<u64>,
    /// Number of private records.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub dataset_size: Option<u64>,
    /// Number of noisy steps [default: 1000].
    #[arg(long, value_name = "T", value_parser = step_count, allow_negative_numbers = true)]
    pub steps: Option<u64>,
    /// Passes over the private records, instead of --steps: E times 1/q, each rounded up, as of a
    /// loader that keeps its last, smaller batch.
    #[arg(long, value_name = "E", value_parser = positive_number, allow_negative_numbers = true, conflicts_with = "steps")]
    pub epochs: Option<f64>,
    /// How batches are drawn [default: poisson].
    #[arg(long, value_enum, value_name = "HOW")]
    pub sampler: Option<Sampler>,
    /// The most records in a batch, of --sampler truncated-poisson.
    #[arg(long, value_name = "M", value_parser = positive, allow_negative_numbers = true)]
    pub max_batch: Option<u64>,
    /// Steps of an epoch, instead of --sample-rate, of --sampler shuffled, balls-in-bins and random-allocation.
    #[arg(long, value_name = "T", value_parser = step_count, allow_negative_numbers = true,
          conflicts_with_all = ["sample_rate", "batch_size"])]
    pub epoch_steps: Option<u64>,
    /// In how many of them each record is, of --sampler random-allocation.
    #[arg(long, value_name = "K", value_parser = step_count, allow_negative_numbers = true)]
    pub selected: Option<u64>,
}

/// What runs: DP-SGD by its numbers, or a mechanism from a file.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunArgs {
    /// Noise standard deviation over clipping norm.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true,
          required_unless_present = "mechanism")]
    pub sigma: Option<NoiseMultiplier>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// A mechanism from a JSON file instead of --sigma: ours, one in a manifest.json, or an event of
    /// Google's dp_accounting; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sigma", "Schedule"])]
    pub mechanism: Option<PathBuf>,
}

/// How well secrets are redacted.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RedactionArgs {
    /// Share of secrets that the redaction policy misses, assumed.
    #[arg(long, value_name = "G", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub gamma: Option<MissRate>,
    /// Secrets labelled by hand, a simple random sample: a measured miss rate instead of --gamma.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true,
          group = "sample",
          requires = "missed", conflicts_with_all = ["gamma", "labels"])]
    pub labelled: Option<u64>,
    /// Labelled secrets, a simple random sample, one JSON object a line: measured rates of both
    /// policies instead of --gamma.
    #[arg(long, value_name = "FILE", group = "sample", conflicts_with_all = ["gamma", "joint_miss"])]
    pub labels: Option<PathBuf>,
    /// How many of the labelled secrets the policy missed.
    #[arg(long, value_name = "M", value_parser = whole, allow_negative_numbers = true, requires = "labelled")]
    pub missed: Option<u64>,
    /// Confidence of the measured miss rates [default: 0.95].
    #[arg(long, value_name = "C", value_parser = quantity::<Confidence>, allow_negative_numbers = true, requires = "sample")]
    pub confidence: Option<Confidence>,
    /// Share of secrets that the conservative policy (what counts as private) misses.
    #[arg(long, value_name = "D2", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub conservative_miss: Option<MissRate>,
    /// Share of secrets that both policies miss [default: the smaller of the two].
    #[arg(long, value_name = "J", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub joint_miss: Option<MissRate>,
}

/// What is asked about it.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct QuestionArgs {
    /// The slack of every (epsilon, delta) promise [default: 1e-5].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Ask for the delta at this epsilon instead of the epsilon at --delta.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true, conflicts_with = "delta")]
    pub epsilon: Option<Epsilon>,
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
    /// Adds mu-GDP, one number for the whole curve, with this slack on top [default: 1e-5].
    #[arg(long, value_name = "SLACK", value_parser = quantity::<Delta>, num_args = 0..=1, require_equals = true,
          default_missing_value = "1e-5")]
    pub gdp: Option<Delta>,
    /// How far apart the two ends of an answer may be, relatively [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
}

/// What is done with the answer.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct OutcomeArgs {
    /// Exit 1 if the epsilon of the first row (of the group row with --group) is above this.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true, conflicts_with = "epsilon")]
    pub max_epsilon: Option<Epsilon>,
    /// Draw delta against epsilon into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write what runs as JSON for other programs, and answer nothing.
    #[arg(long, value_enum, value_name = "AS", conflicts_with_all = [
        "max_epsilon", "plot", "delta", "epsilon", "group", "unit", "prior", "gdp", "tolerance", "RedactionArgs"])]
    pub export: Option<Export>,
}

/// The plan to account for.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PlanArgs {
    /// What runs.
    #[command(flatten)]
    pub run: RunArgs,
    /// A corpus that `audit prepare` made: sizes, copies and misses come from it, and the answer
    /// is a page to sign.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "mechanism", "dataset_size", "sampler", "max_batch", "epoch_steps", "selected", "neighbours", "epsilon", "plot", "export", "labelled"])]
    pub prepared: Option<PathBuf>,
    /// How the prepared corpus is trained on [default: crt].
    #[arg(long, value_enum, requires = "prepared")]
    pub recipe: Option<Recipe>,
    /// What is asked.
    #[command(flatten)]
    pub question: QuestionArgs,
    /// What is done with the answer.
    #[command(flatten)]
    pub outcome: OutcomeArgs,
}
