//! Arguments of `account plan`.

use crate::contract::limit;
use clap::Args;
use reticent_accounting::Epsilon;
use std::path::PathBuf;

/// Arguments of `account plan`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
The file (only schema and recipe are required; the keys in [training] are the flags of audit train
that describe the run):
  schema = 1
  recipe = \"crt\"             # sgd, dpsgd, crt, sdp, jft or protect
  unit = \"turn\"              # what one record is
  delta = 1e-5
  [data]
  prepared = \"prepared/\"     # from audit prepare; or private = 60000
  [training]
  sigma = 1.1                # or epsilon
  batch_size = 256           # or sample_rate
  epochs = 20                # or steps
  [secrets]
  records = 3                # records of one secret, at most
  records_before = 20        # before deduplication
  labels = \"labels.jsonl\"    # or gamma and joint_miss; confidence = 0.95
  prior = 1e-6               # chance of guessing a secret beforehand
  candidates = 1000000
  canaries = 10              # canary_copies = 20
  everything_private = false
  [first_phase]              # of jft: with the three conditions, or sigma, sample_rate and steps
  kind = \"direct\"            # with noise, miss = [0.003, 0.012]
  every_content_caught = true
  length_and_kind_hidden = true
  screening_ignores_secrets = true

Examples:
  account plan training.toml
  account plan training.toml --format html > plan.html
  account plan training.toml --max-epsilon 8")]
pub struct PlanFile {
    /// Training plan.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Exit with 1 if any epsilon that is promised to a record or to one secret exceeds this.
    #[arg(long, value_name = "E", value_parser = limit, allow_negative_numbers = true)]
    pub max_epsilon: Option<Epsilon>,
}
