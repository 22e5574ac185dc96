//! Arguments that several commands share: what runs and what is asked about it.

use super::values::{group, neighbours};
use crate::contract::{positive, quantity};
use crate::plan::PlanRequest;
use crate::plan::args::{NoiseArgs, NoiseDecayArgs, RedactionArgs, Schedule, Sigma, unit};
use crate::plan::schedule::ASSUMED_NEIGHBOURS;
use clap::Args;
use reticent_accounting::{
    Delta, Epsilon, GroupSize, Neighbours, Probability, Tolerance, UnitName,
};
use std::path::PathBuf;

/// What runs: DP-SGD by its numbers, or a mechanism from a file.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunArgs {
    /// Noise standard deviation over clipping norm; 0 for protect weights without noise, which promise nothing.
    #[arg(long, value_name = "S", value_parser = quantity::<Sigma>, allow_negative_numbers = true)]
    pub sigma: Option<Sigma>,
    /// How it falls.
    #[command(flatten)]
    pub decay: NoiseDecayArgs,
    /// Number of records covered by noise; taken from a prepared corpus.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub dataset_size: Option<u64>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// JSON file with a mechanism instead of --sigma: our format, a manifest.json, or an event of Google's
    /// dp_accounting; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sigma", "NoiseDecayArgs", "dataset_size", "Schedule"])]
    pub mechanism: Option<PathBuf>,
}

impl RunArgs {
    /// Returns the plan that these arguments describe: DP-SGD on every record.
    #[must_use]
    pub fn request(&self) -> PlanRequest {
        PlanRequest {
            records: self.dataset_size,
            noise: NoiseArgs {
                sigma: self.sigma,
                epsilon: None,
                decay: self.decay.clone(),
            },
            schedule: self.schedule.clone(),
            ..PlanRequest::default()
        }
    }
}

/// What is asked about it.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct QuestionArgs {
    /// Delta of every (epsilon, delta) promise [default: 1e-6, or 0.1/N for N records if that is smaller].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Compute delta at this epsilon instead of epsilon at --delta.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true, conflicts_with = "delta")]
    pub at_epsilon: Option<Epsilon>,
    /// Neighbouring relation of the differential-privacy rows.
    #[arg(long, value_parser = neighbours(), help = format!(
        "Neighbouring relation of the differential-privacy rows [default: {ASSUMED_NEIGHBOURS} and for files of crt, sdp, jft and protect]"
    ))]
    pub neighbours: Option<Neighbours>,
    /// Group size: records of one secret or person.
    #[arg(long, value_name = "K", value_parser = group, allow_negative_numbers = true)]
    pub group: Option<GroupSize>,
    /// What one record is: sentence, turn, dialogue, document, … [default: record].
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Option<UnitName>,
    /// Redaction.
    #[command(flatten)]
    pub redaction: RedactionArgs,
    /// Adversary's chance of guessing the secret before training.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true)]
    pub prior: Option<Probability>,
    /// Also report mu-GDP, a single number for the whole curve, with this slack [default: 1e-5].
    #[arg(long, value_name = "SLACK", value_parser = quantity::<Delta>, num_args = 0..=1, require_equals = true,
          default_missing_value = "1e-5")]
    pub gdp: Option<Delta>,
    /// Maximum relative gap between the two ends of an answer [default: 1e-6].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
}
