//! The arguments that describe a run, with the same names, meanings and defaults in `account` and `audit train`.

use super::sampler::Sampler;
use crate::contract::{
    number_within, positive, positive_number, quantity, step_count, steps_if_any,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use reticent_accounting::training::Recipe;
use reticent_accounting::{Confidence, Epsilon, MissRate, NoiseMultiplier, SamplingRate, UnitName};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// Options that exclude each other, each with those that it excludes. The command line and plan files refuse the same pairs.
pub(super) const EXCLUSIVE: [(&str, &[&str]); 6] = [
    ("epochs", &["steps"]),
    ("epoch_steps", &["sample_rate", "batch_size"]),
    ("first_epsilon", &["first_sigma"]),
    ("labelled", &["gamma", "labels"]),
    ("labels", &["gamma", "joint_miss", "conservative_miss"]),
    ("missed", &["gamma", "labels"]),
];

/// Returns what an option excludes.
fn excluded(key: &'static str) -> impl Iterator<Item = &'static str> {
    let of_key = EXCLUSIVE.iter().filter(move |(option, _)| *option == key);
    of_key.flat_map(|(_, others)| others.iter().copied())
}

/// Completes the help of an option that only some samplers need.
fn of_samplers(help: &str, option: &str) -> String {
    let samplers = Sampler::named("and", |sampler| sampler.takes(option));
    format!("{help}, for --sampler {samplers}")
}

/// Batches.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct Schedule {
    /// Probability that a record is in a batch; for sdp, the share of records in each batch [default: 0.1 of a
    /// prepared corpus, else 0.01].
    #[arg(long, value_name = "Q", value_parser = quantity::<SamplingRate>, allow_negative_numbers = true)]
    pub sample_rate: Option<SamplingRate>,
    /// Expected records per noisy batch, instead of --sample-rate; needs the number of records.
    #[arg(long, value_name = "B", value_parser = positive, allow_negative_numbers = true)]
    pub batch_size: Option<u64>,
    /// Number of noisy steps; sgd: of ordinary steps [default: 1000, unless epochs are given or assumed].
    #[arg(long, value_name = "T", value_parser = steps_if_any, allow_negative_numbers = true)]
    pub steps: Option<u64>,
    /// Passes over the records, instead of --steps: E times 1/q steps, each rounded up, as in a loader that keeps its
    /// last, smaller batch (1/q rounded down if each record is in one batch, as with --sampler shuffled) [default: 8
    /// of a prepared corpus].
    #[arg(long, value_name = "E", value_parser = positive_number, allow_negative_numbers = true, conflicts_with_all = excluded("epochs"))]
    pub epochs: Option<f64>,
    /// Sampling method of batches [default: poisson].
    #[arg(long, value_enum, value_name = "HOW")]
    pub sampler: Option<Sampler>,
    /// Maximum records in a batch.
    #[arg(long, value_name = "M", help = of_samplers("Maximum records in a batch", "max_batch"),
          value_parser = positive, allow_negative_numbers = true)]
    pub max_batch: Option<u64>,
    /// Steps per epoch, instead of `sample_rate`.
    #[arg(long, value_name = "T", help = of_samplers("Steps per epoch, instead of --sample-rate", "epoch_steps"),
          value_parser = step_count, allow_negative_numbers = true,
          conflicts_with_all = excluded("epoch_steps"))]
    pub epoch_steps: Option<u64>,
    /// Number of these steps that each record is in.
    #[arg(long, value_name = "K", help = of_samplers("Number of these steps that each record is in", "selected"),
          value_parser = step_count, allow_negative_numbers = true)]
    pub selected: Option<u64>,
}

/// How `jft` uses the redacted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FirstPhaseKind {
    /// Ordinary fine-tuning on all of it.
    #[default]
    Direct,
    /// Ordinary fine-tuning on screened records (--screened).
    Screened,
    /// Noise as given by --first-sigma, or found for --first-epsilon by the estimate that a secret is met only as often as
    /// tokens are missed (--token-miss).
    LightNoise,
    /// Noise as given by --first-sigma, or found for --first-epsilon as if the policy found nothing.
    ConservativeLightNoise,
}

/// What is assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// The policy finds every secret in full, whatever its content, and no content makes its record a duplicate.
    Caught,
    /// Which records were screened does not depend on secrets.
    Screening,
}

/// Whether a promise covers a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// No promise covers the text.
    Public,
    /// A promise should cover the text.
    #[default]
    Private,
}

/// What single recipes need besides noise and batches.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct RecipeArgs {
    /// crt: passes over the public side per epoch [default: 1]; they cost no privacy.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub public_passes: Option<u64>,
    /// jft: use of the redacted text [default: direct].
    #[arg(long, value_enum)]
    pub first_phase: Option<FirstPhaseKind>,
    /// jft: passes over the redacted text [default: 1].
    #[arg(long, value_name = "E", value_parser = positive)]
    pub first_epochs: Option<u64>,
    /// jft: noise of the first phase, with light noise.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true)]
    pub first_sigma: Option<NoiseMultiplier>,
    /// jft: target ε to calibrate the noise of the first phase to, with light noise, as if it ran alone, instead of
    /// --first-sigma; at --delta and for replacing one record. With --token-miss it is the paper's estimate, at the
    /// sampling rate times HIGH; what is promised is accounted for at the full rate.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true, conflicts_with_all = excluded("first_epsilon"))]
    pub first_epsilon: Option<Epsilon>,
    /// jft: lower and upper bound on the share of tokens the policy misses, with light noise.
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub token_miss: Vec<MissRate>,
    /// jft: file with the ids of the screened records, one per line, as in train.jsonl.
    #[arg(long, value_name = "FILE")]
    pub screened: Option<PathBuf>,
    /// sdp: noise of each released state, relative to --state-norm.
    #[arg(long, value_name = "S", value_parser = quantity::<NoiseMultiplier>, allow_negative_numbers = true)]
    pub state_sigma: Option<NoiseMultiplier>,
    /// sdp: norm to which a released state is clipped [default: 1].
    #[arg(long, value_name = "C", value_parser = positive_number, allow_negative_numbers = true)]
    pub state_norm: Option<f64>,
    /// sdp: maximum states that one record releases per pass; counted in a prepared corpus.
    #[arg(long, value_name = "N")]
    pub states: Option<u64>,
    /// protect: file from `account protect --weights`: rates, batch, steps, noise and promises; examples are ids of
    /// train.jsonl.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// protect: file of which record contains which secret, as for `account protect`.
    #[arg(long, value_name = "FILE")]
    pub incidence: Option<PathBuf>,
    /// jft, sdp: assumptions to make, and to write into the manifest.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub assume: Vec<Assumption>,
    /// Whether the held-out text that --patience and --decay plateau use is public or private [default: private].
    #[arg(long, value_enum)]
    pub held_out_is: Option<Whose>,
    /// Stop when held-out text has not become likelier for this many epochs. Noisy steps count as planned; unless
    /// --held-out-is public, nothing is promised.
    #[arg(long, value_name = "EPOCHS", value_parser = positive)]
    pub patience: Option<u64>,
    /// Seed of noise and batches, for tests: the run is then not private and promises nothing.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// How well secrets are redacted.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct RedactionArgs {
    /// Assumed share of secrets that the redaction policy misses.
    #[arg(long, value_name = "G", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub gamma: Option<MissRate>,
    /// Number of hand-labelled secrets, a simple random sample: a measured miss rate instead of --gamma.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true,
          group = "sample",
          requires = "missed", conflicts_with_all = excluded("labelled"))]
    pub labelled: Option<u64>,
    /// File of labelled secrets, a simple random sample, one JSON object per line: measured rates of both policies
    /// instead of --gamma.
    #[arg(long, value_name = "FILE", group = "sample", conflicts_with_all = excluded("labels"))]
    pub labels: Option<PathBuf>,
    /// Number of labelled secrets that the policy missed.
    #[arg(long, value_name = "M", value_parser = whole, allow_negative_numbers = true,
          requires = "labelled", conflicts_with_all = excluded("missed"))]
    pub missed: Option<u64>,
    /// Confidence of the measured miss rates [default: 0.95].
    #[arg(long, value_name = "C", value_parser = quantity::<Confidence>, allow_negative_numbers = true, requires = "sample")]
    pub confidence: Option<Confidence>,
    /// Share of secrets that the conservative policy (what counts as private) misses.
    #[arg(long, value_name = "D2", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub conservative_miss: Option<MissRate>,
    /// Share of secrets that both policies miss [default: 0 where every record is trained on with
    /// noise, else the smaller of the two].
    #[arg(long, value_name = "J", value_parser = quantity::<MissRate>, allow_negative_numbers = true)]
    pub joint_miss: Option<MissRate>,
}

/// σ, or that no noise is added.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
pub enum Sigma {
    /// σ = 0, for the weights of `protect` alone.
    Zero,
    /// Noise standard deviation over clipping norm.
    Noise(NoiseMultiplier),
}

impl Sigma {
    /// Returns σ, if noise is added.
    #[must_use]
    pub const fn noise(self) -> Option<NoiseMultiplier> {
        match self {
            Self::Zero => None,
            Self::Noise(sigma) => Some(sigma),
        }
    }
}

impl TryFrom<f64> for Sigma {
    type Error = reticent_accounting::Error;
    fn try_from(value: f64) -> reticent_accounting::Result<Self> {
        match value {
            0.0 => Ok(Self::Zero),
            value => NoiseMultiplier::new(value).map(Self::Noise),
        }
    }
}

/// Noise: given, or found for an ε, and how it falls.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct NoiseArgs {
    /// Noise standard deviation over clipping norm; for protect, at least that of --weights, or 0 for its weights
    /// without noise, which promises nothing.
    #[arg(long, value_name = "S", value_parser = quantity::<Sigma>, allow_negative_numbers = true)]
    pub sigma: Option<Sigma>,
    /// dpsgd, crt, jft: target ε to calibrate the noise to, at --delta and for replacing one record, instead of
    /// --sigma.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true)]
    pub epsilon: Option<Epsilon>,
    /// How it falls.
    #[command(flatten)]
    pub decay: NoiseDecayArgs,
}

/// How noise decreases.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct NoiseDecayArgs {
    /// dpsgd, crt, jft: factor on sigma after every --noise-decay-every epochs, in (0, 1); accounted for.
    #[arg(long, value_name = "FACTOR", value_parser = decay_factor, allow_negative_numbers = true)]
    pub noise_decay: Option<f64>,
    /// Epochs between noise reductions [default: 1].
    #[arg(long, value_name = "EPOCHS", value_parser = positive, allow_negative_numbers = true, requires = "noise_decay")]
    pub noise_decay_every: Option<u64>,
}

/// Parses the factor of a schedule, in (0, 1).
///
/// # Errors
/// Returns an error for any other number.
pub fn decay_factor(text: &str) -> Result<f64, String> {
    number_within(text, "a number in (0, 1)", |factor| {
        factor > 0.0 && factor < 1.0
    })
}

/// Parses a recipe by its name.
pub fn recipe() -> impl TypedValueParser<Value = Recipe> {
    PossibleValuesParser::new(Recipe::ALL.map(Recipe::name)).try_map(|name| name.parse::<Recipe>())
}

/// Parses the name of the unit: what one record is.
///
/// # Errors
/// Returns an error if the text is not a unit name.
pub fn unit(text: &str) -> Result<UnitName, String> {
    UnitName::new(text).map_err(|error| error.to_string())
}

/// Parses a whole number of at least 0.
///
/// # Errors
/// Returns an error for any other text.
pub fn whole(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a non-negative whole number, got {text:?}"))
}
