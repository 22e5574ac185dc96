//! The command line of `account protect`.

use crate::contract::{positive, positive_number, quantity, step_count};
use clap::{ArgGroup, Args};
use reticent_accounting::{Probability, Tolerance};
use std::path::PathBuf;

const AFTER: &str = "\
The incidence file says which example contains which secret: CSV with columns example, secret (one pair per row); JSON \
Lines {\"example\": …, \"secrets\": […]}; Parquet with columns example, secret. With --field, that key or column \
holds a record's secrets instead (one, or a list), and the example is the record: its \"id\", or its line. The secrets \
table has id, prior, posterior and optionally kind, in the same formats.

Neighbouring inputs differ arbitrarily in the content of all examples of one secret. Which example contains which secret \
is assumed to be public.

Examples:
  account protect --incidence pairs.csv --secrets secrets.csv --batch-size 2048 --steps 2000 --sweep --plot sweep.svg
  account protect --incidence notes.jsonl --field author --prior 1e-6 --posterior 1e-3 --batch-size 64 --steps 500
  account protect --counts 50,100 --prior 1e-10 --posterior 2e-4,1e-3 --batch-size 20480 --dataset-size 17000000 --steps 2000";

/// Arguments of `account protect`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    after_help = AFTER,
    group = ArgGroup::new("occurrences").required(true).multiple(true).args(["incidence", "counts"]),
    group = ArgGroup::new("promises").required(true).multiple(true).args(["secrets", "prior"]),
    group = ArgGroup::new("written").multiple(true).args(["out", "weights"]),
)]
pub struct Protect {
    /// File that says which example contains which secret (.csv, .jsonl, .parquet).
    #[arg(long, value_name = "FILE", conflicts_with = "counts")]
    pub incidence: Option<PathBuf>,
    /// File with the promise for each secret (.csv, .jsonl, .parquet).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prior", "posterior"])]
    pub secrets: Option<PathBuf>,
    /// Key or column with a record's secrets, such as author. Case, spaces and how accents are written make no other secret.
    #[arg(long, value_name = "NAME", requires = "incidence")]
    pub field: Option<String>,
    /// Synthetic secrets, each in this many examples of its own, instead of files.
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = positive, requires = "dataset_size")]
    pub counts: Vec<u64>,
    /// Chance of guessing a secret before training, for every secret.
    #[arg(long, value_name = "P", value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "posterior")]
    pub prior: Option<Probability>,
    /// Highest tolerated chance of guessing it after training; several with --counts.
    #[arg(long, value_name = "R", value_delimiter = ',', value_parser = quantity::<Probability>, allow_negative_numbers = true, requires = "prior")]
    pub posterior: Vec<Probability>,
    /// Expected batch size.
    #[arg(long, value_name = "B", value_parser = positive_number, allow_negative_numbers = true)]
    pub batch_size: f64,
    /// Number of noisy steps.
    #[arg(long, value_name = "T", value_parser = step_count, allow_negative_numbers = true)]
    pub steps: u64,
    /// Total number of examples; those not in the incidence contain no secret [default: those it names].
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub dataset_size: Option<u64>,
    /// Never draw examples without a secret, as in the experiments of Hush!: their rate is 0, and the others fill the
    /// batches.
    #[arg(long, requires_all = ["incidence", "dataset_size"], conflicts_with = "counts")]
    pub discard_others: bool,
    /// Constant c of the weights' capacities [default: no preprocessing, every weight is 1].
    #[arg(long, value_name = "C", value_parser = positive_number, allow_negative_numbers = true, conflicts_with = "sweep")]
    pub c: Option<f64>,
    /// Sweep c from 2^-6 to 2^4, in units in which 2^4 means no preprocessing.
    #[arg(long)]
    pub sweep: bool,
    /// Also choose weights and noise jointly, at the same kept mass.
    #[arg(long)]
    pub joint: bool,
    /// Relative gap to which the weights are certified [default: 1e-4].
    #[arg(long, value_name = "G", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub gap: Option<Tolerance>,
    /// Maximum relative distance to the least noise [default: 1e-4].
    #[arg(long, value_name = "R", value_parser = quantity::<Tolerance>, allow_negative_numbers = true)]
    pub tolerance: Option<Tolerance>,
    /// Write the posterior of every secret to this file (.csv, .parquet).
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    pub out: Option<PathBuf>,
    /// Write the input of `audit train --recipe protect` to this file (.json): record rates, batch, steps, noise, and
    /// the promise for each secret.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sweep", "counts"])]
    pub weights: Option<PathBuf>,
    /// Replace the files of --out and --weights if they exist.
    #[arg(long, requires = "written")]
    pub force: bool,
    /// Plot noise against kept examples to this SVG file.
    #[arg(long, value_name = "FILE", requires = "sweep", conflicts_with_all = ["c", "out", "weights"])]
    pub plot: Option<PathBuf>,
}
