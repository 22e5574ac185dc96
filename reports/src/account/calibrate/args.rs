//! Arguments of `account calibrate`.

use crate::account::values::{NeighboursArg, bits, group};
use crate::contract::{positive, quantity};
use crate::plan::PlanRequest;
use crate::plan::args::{Schedule, unit};
use clap::{ArgGroup, Args, ValueEnum};
use reticent_accounting::{
    Delta, Epsilon, GroupSize, MissRate, NoiseMultiplier, Probability, Tolerance, UnitName,
};
use std::path::PathBuf;

/// Arguments of `account calibrate`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(group(ArgGroup::new("target").required(true).args(["epsilon", "posterior", "tpr", "max_exposure"])))]
#[command(after_help = "\
Examples:
  account calibrate --epsilon 2 --delta 1e-5 --sample-rate 0.1 --steps 100 --gamma 0.1
  account calibrate --prior 1e-9 --posterior 1e-4 --group 20 --sample-rate 0.001 --steps 5000
  account calibrate --solve steps --tpr 0.05 --fpr 0.001 --sigma 1.1 --sample-rate 0.01
  account calibrate --by renyi --epsilon 3 --delta 1.2732e-6 --batch-size 6000 --dataset-size 392702 --epochs 18
  account calibrate --solve group --max-exposure 10 --chance 0.01 --sigma 2 --sample-rate 0.01 --steps 500")]
pub struct Calibrate {
    /// What to find: the least noise, or the highest rate, number of steps or group size.
    #[arg(long, value_enum, default_value_t)]
    pub solve: Solve,
    /// The epsilon to keep (with --gamma: against an adversary without prior knowledge of the secret).
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true,
          conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub epsilon: Option<Epsilon>,
    /// The delta at which to keep it [default: 1e-6, or 1/N for N records if that is smaller].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true,
          conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub delta: Option<Delta>,
    /// Which accountant proves --epsilon; the guarantees at the answer are by all of them.
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub by: By,
    /// The chance of guessing a secret before training.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "posterior")]
    pub prior: Option<Probability>,
    /// The chance of guessing it after training that is tolerated.
    #[arg(long, value_name = "R", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "prior", conflicts_with_all = ["tpr", "max_exposure"])]
    pub posterior: Option<Probability>,
    /// The share of true cases that an attack on membership may find at --fpr.
    #[arg(long, value_name = "T", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "fpr", conflicts_with = "max_exposure")]
    pub tpr: Option<Probability>,
    /// Its share of false alarms.
    #[arg(long, value_name = "F", value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "tpr")]
    pub fpr: Option<Probability>,
    /// The exposure in bits that a uniform secret may reach with --chance at most.
    #[arg(long, value_name = "BITS", value_parser = bits, allow_negative_numbers = true, requires = "chance")]
    pub max_exposure: Option<f64>,
    /// The chance with which it may be reached.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "max_exposure")]
    pub chance: Option<Probability>,
    /// Noise standard deviation over clipping norm, unless it is what to find.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true)]
    pub sigma: Option<NoiseMultiplier>,
    /// Number of records that noise covers.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub dataset_size: Option<u64>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// A mechanism from a JSON file instead: how often it may run, or for how large a group; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sigma", "dataset_size", "Schedule"])]
    pub mechanism: Option<PathBuf>,
    /// Who is compared with whom [default: add-remove].
    #[arg(long, value_enum, conflicts_with_all = ["gamma", "posterior", "max_exposure"])]
    pub neighbours: Option<NeighboursArg>,
    /// Records that one secret or person accounts for.
    #[arg(long, value_name = "K", value_parser = group, allow_negative_numbers = true)]
    pub group: Option<GroupSize>,
    /// What one record is [default: record].
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Option<UnitName>,
    /// Share of secrets that the redaction policy misses, assumed.
    #[arg(long, value_name = "G", value_parser = quantity::<MissRate>, allow_negative_numbers = true,
          conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub gamma: Option<MissRate>,
    /// How close to the last value that keeps the promise, relatively [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
}

impl Calibrate {
    /// The defaults that --solve and --by exclude: the size that is looked for, and neighbours where the papers have
    /// their own.
    pub(in crate::account) fn excluded(&self) -> Vec<&'static str> {
        let size = (self.solve == Solve::Group).then_some("group");
        let neighbours = (self.by == By::Papers).then_some("neighbours");
        size.into_iter().chain(neighbours).collect()
    }

    /// The batches that these arguments ask for.
    #[must_use]
    pub fn request(&self) -> PlanRequest {
        PlanRequest {
            records: self.dataset_size,
            schedule: self.schedule.clone(),
            ..PlanRequest::default()
        }
    }
}

/// Which accountant a calibration believes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    ValueEnum,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The privacy-loss distribution, certified at both ends.
    #[default]
    Pld,
    /// The Rényi curve, at the best order; with --gamma Proposition 6 on it.
    Renyi,
    /// As the papers did: the Rényi curve of add-remove, whatever is compared.
    Papers,
}

/// What a calibration finds.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    ValueEnum,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Solve {
    /// The least noise multiplier.
    #[default]
    Sigma,
    /// The highest sampling rate.
    Rate,
    /// The most steps.
    Steps,
    /// The most records changed together.
    Group,
}
