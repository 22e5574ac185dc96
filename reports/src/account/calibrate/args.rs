//! Arguments of `account calibrate`.

use crate::account::values::{bits, group, neighbours};
use crate::contract::{limit, positive, quantity};
use crate::plan::PlanRequest;
use crate::plan::args::{Schedule, unit};
use crate::plan::schedule::ASSUMED_NEIGHBOURS;
use clap::{ArgGroup, Args, ValueEnum};
use reticent_accounting::{
    Delta, Epsilon, GroupSize, MissRate, Neighbours, NoiseMultiplier, Probability, Tolerance,
    UnitName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Arguments of `account calibrate`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(group(ArgGroup::new("target").required(true).args(["epsilon", "posterior", "tpr", "max_exposure"])))]
#[command(after_help = "\
Examples:
  account calibrate --epsilon 2 --delta 1e-5 --sample-rate 0.1 --steps 100 --gamma 0.1
  account calibrate --prior 1e-9 --posterior 1e-4 --group 20 --sample-rate 0.001 --steps 5000
  account calibrate --solve steps --tpr 0.05 --fpr 0.001 --sigma 1.1 --sample-rate 0.01
  account calibrate --by papers --epsilon 3 --delta 1.2732e-6 --sample-rate 0.015279 --steps 1178
  account calibrate --solve group --max-exposure 10 --chance 0.01 --sigma 2 --sample-rate 0.01 --steps 500")]
pub struct Calibrate {
    /// Quantity to find: the least noise, or the highest rate, step count or group size.
    #[arg(long, value_enum, default_value_t)]
    pub solve: Solve,
    /// Target epsilon (with --gamma: against an adversary without prior knowledge of the secret).
    #[arg(long, value_name = "E", value_parser = limit, allow_negative_numbers = true,
          conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub epsilon: Option<Epsilon>,
    /// Delta at the target epsilon [default: 1e-6, or 0.1/N for N records if that is smaller].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true,
          conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub delta: Option<Delta>,
    /// Accountant that must prove --epsilon; guarantees at the solution are from all accountants.
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub by: By,
    /// Chance of guessing a secret before training.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "posterior",
          conflicts_with_all = ["epsilon", "delta", "by", "tpr", "fpr", "max_exposure", "chance", "neighbours", "gamma"])]
    pub prior: Option<Probability>,
    /// Highest tolerated chance of guessing it after training.
    #[arg(long, value_name = "R", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "prior", conflicts_with_all = ["tpr", "max_exposure"])]
    pub posterior: Option<Probability>,
    /// Highest tolerated true-positive rate of a membership attack at --fpr.
    #[arg(long, value_name = "T", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "fpr", conflicts_with = "max_exposure")]
    pub tpr: Option<Probability>,
    /// False-positive rate of the attack.
    #[arg(long, value_name = "F", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "tpr", conflicts_with_all = ["epsilon", "delta", "by", "posterior", "max_exposure", "chance", "gamma"])]
    pub fpr: Option<Probability>,
    /// Exposure in bits that a uniform secret may reach with probability --chance at most.
    #[arg(long, value_name = "BITS", value_parser = bits, allow_negative_numbers = true, requires = "chance")]
    pub max_exposure: Option<f64>,
    /// Highest tolerated chance of reaching it.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true,
          requires = "max_exposure",
          conflicts_with_all = ["epsilon", "delta", "by", "prior", "posterior", "tpr", "neighbours", "gamma"])]
    pub chance: Option<Probability>,
    /// Noise standard deviation over clipping norm, unless solved for.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true)]
    pub sigma: Option<NoiseMultiplier>,
    /// Number of records covered by noise.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub dataset_size: Option<u64>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// JSON file with a mechanism instead: find how often it may run, or for how large a group; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sigma", "dataset_size", "Schedule"])]
    pub mechanism: Option<PathBuf>,
    /// Neighbouring relation.
    #[arg(long, value_parser = neighbours(),
          help = format!("Neighbouring relation [default: {ASSUMED_NEIGHBOURS}]"), conflicts_with_all = ["gamma", "posterior", "max_exposure"])]
    pub neighbours: Option<Neighbours>,
    /// Group size: records of one secret or person.
    #[arg(long, value_name = "K", value_parser = group, allow_negative_numbers = true)]
    pub group: Option<GroupSize>,
    /// What one record is [default: record].
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Option<UnitName>,
    /// Assumed share of secrets that the redaction policy misses.
    #[arg(long, value_name = "G", value_parser = quantity::<MissRate>, allow_negative_numbers = true,
          conflicts_with_all = ["posterior", "tpr", "max_exposure"])]
    pub gamma: Option<MissRate>,
    /// Maximum relative distance to the last value that keeps the promise [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
}

impl Calibrate {
    /// Returns the keys of a project's defaults that are not taken: the exposure, which is the goal here and no limit;
    /// the group size if it is solved for; neighbours if the papers have their own; and prior without --posterior.
    pub(in crate::account) fn excluded(&self) -> Vec<&'static str> {
        let size = (self.solve == Solve::Group).then_some("group");
        let neighbours = (self.by == By::Papers).then_some("neighbours");
        let prior = self.posterior.is_none().then_some("prior");
        let others = size.into_iter().chain(neighbours).chain(prior);
        others.chain(["max_exposure"]).collect()
    }

    /// Returns the batches that these arguments describe.
    #[must_use]
    pub fn request(&self) -> PlanRequest {
        PlanRequest {
            records: self.dataset_size,
            schedule: self.schedule.clone(),
            ..PlanRequest::default()
        }
    }
}

/// Accountant that a calibration relies on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Privacy-loss distribution, certified at both ends.
    #[default]
    Pld,
    /// Rényi curve at the best order; with --gamma, Proposition 6 on it.
    Renyi,
    /// As in the papers: the add-remove Rényi curve, whatever the neighbours.
    Papers,
}

/// What a calibration solves for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
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
