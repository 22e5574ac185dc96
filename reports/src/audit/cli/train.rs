//! Arguments of `audit train` and `audit demo`.

use super::course::Course;
use super::recipe::{FirstPhaseArg, RecipeArgs};
use super::uses;
use super::values::{DeviceArg, ModelArg, PrecisionArg, Recipe};
use crate::contract::{positive, positive_number, quantity};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use reticent_accounting::{Delta, Epsilon, NoiseMultiplier, SamplingRate};
use reticent_corpus::Spec;
use std::path::PathBuf;

/// Arguments of `audit train`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Example:
  audit train prepared/ --recipe crt --sigma 1.1 --epochs 10 --out ckpt/")]
pub struct Train {
    /// A folder that `audit prepare` wrote.
    #[arg(value_name = "PREPARED")]
    pub prepared: PathBuf,
    /// The folder to write; it must not exist, or be empty. An interrupted run leaves DIR.state
    /// beside it: the same command again goes on from there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How to train.
    #[arg(long, value_enum)]
    pub recipe: Recipe,
    /// What to train.
    #[command(flatten)]
    pub start: Start,
    /// Where: cpu, cuda:NUMBER, or exact (double precision on one core, slow).
    #[arg(long, default_value_t)]
    pub device: DeviceArg,
    /// In what precision training passes multiply, on CUDA devices that have it. Norms, sums,
    /// noise, weights and scores stay in single and double precision.
    #[arg(long, value_enum, default_value_t)]
    pub precision: PrecisionArg,
    /// Passes over the data, in expectation where batches are random [default: 8].
    #[arg(long, value_name = "E", value_parser = positive)]
    pub epochs: Option<u64>,
    /// sgd, crt, jft: records per ordinary step [default: 8].
    #[arg(long, value_name = "B", value_parser = positive)]
    pub batch_size: Option<u64>,
    /// crt: passes over the public side within an epoch [default: 1]; they cost no privacy.
    #[arg(long, value_name = "K", value_parser = positive)]
    pub public_passes: Option<u64>,
    /// All but sgd: probability of each private record to be in a private batch [default: 0.1]; for
    /// sdp the share of the records in each batch.
    #[arg(long, value_name = "Q", value_parser = quantity::<SamplingRate>, allow_negative_numbers = true)]
    pub sample_rate: Option<SamplingRate>,
    /// All but sgd: noise standard deviation over clipping norm.
    #[arg(long, value_parser = quantity::<NoiseMultiplier>, conflicts_with = "epsilon", allow_negative_numbers = true)]
    pub sigma: Option<NoiseMultiplier>,
    /// dpsgd, crt, jft: the ε to calibrate the noise to, at --delta, for the replacement of one record.
    #[arg(long, value_parser = quantity::<Epsilon>, requires = "delta", allow_negative_numbers = true)]
    pub epsilon: Option<Epsilon>,
    /// The δ of --epsilon.
    #[arg(long, value_parser = quantity::<Delta>, requires = "epsilon", allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// All but sgd: norm to which each record's gradient is clipped [default: 1].
    #[arg(long, value_name = "C", value_parser = positive_number, allow_negative_numbers = true)]
    pub clip: Option<f64>,
    /// sgd, crt, sdp, jft: step size of ordinary steps (Adam) [default: 0.004]; --decay says how it
    /// falls.
    #[arg(long, value_name = "RATE", value_parser = positive_number, allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// All but sgd: step size of private steps [default: 0.06]; it falls in the same way.
    #[arg(long, value_name = "RATE", value_parser = positive_number, allow_negative_numbers = true)]
    pub private_learning_rate: Option<f64>,
    /// Share of values that training passes drop: of embedded tokens, of attention's
    /// probabilities, of what each block gives. Absent, a folder's own rates hold (config.json, or
    /// the manifest of a checkpoint of ours), and a fresh model drops nothing.
    #[arg(long, value_name = "RATE", value_parser = dropped_share, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// The course of the run.
    #[command(flatten)]
    pub course: Course,
    /// What single recipes need besides.
    #[command(flatten)]
    pub of_recipe: RecipeArgs,
    /// Fixes noise and batches, for tests: the run is then marked as not private.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// A rate of dropout.
fn dropped_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..1.0).contains(&rate) => Ok(rate),
        _ => Err(format!("must be a number in [0, 1), got {text:?}")),
    }
}

/// The model a run starts from.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Start {
    /// What to train: lstm (the papers' one layer of 200) or gpt2, both freshly drawn, or a folder:
    /// a Hugging Face model as it is, or a checkpoint of ours, whose promise then continues.
    #[arg(long, value_name = "MODEL", default_value_t)]
    pub model: ModelArg,
    /// All text that the folder of --model was trained on is declared public: needed for weights
    /// of ours whose manifest.json is lost, and written into the new manifest.
    #[arg(long)]
    pub declared_public: bool,
    /// Layers of a fresh gpt2 [default: 4].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub layers: Option<u64>,
    /// Width of a fresh gpt2, a multiple of its heads [default: 256].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=16384))]
    pub width: Option<u64>,
    /// Attention heads of a fresh gpt2 [default: 8].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub heads: Option<u64>,
    /// Longest text of a fresh gpt2, in tokens [default: 512]; at least the longest record.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(2..=1 << 20))]
    pub context: Option<u64>,
}

/// How much noise a recipe adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// None: the recipe is not private.
    None,
    /// This much.
    Sigma(NoiseMultiplier),
    /// As much as this ε needs at this δ.
    Calibrated {
        /// ε of the replacement of one record.
        epsilon: Epsilon,
        /// Its δ.
        delta: Delta,
    },
}

impl Train {
    /// Whether the first of two phases is noised too, and so has private batches.
    fn light_first(&self) -> bool {
        let phase = self.of_recipe.first_phase.unwrap_or_default();
        use FirstPhaseArg::{ConservativeLightNoise, LightNoise};
        self.recipe == Recipe::Jft && matches!(phase, LightNoise | ConservativeLightNoise)
    }

    /// Whether all that the recipe releases is one run of DP-SGD, so that ε decides its noise.
    fn calibrates(&self) -> bool {
        match self.recipe {
            Recipe::Dpsgd | Recipe::Crt => true,
            Recipe::Jft => !self.light_first(),
            Recipe::Sgd | Recipe::Sdp | Recipe::Protect => false,
        }
    }

    /// Whether this run uses an option that not every recipe uses.
    #[must_use]
    pub fn uses(&self, flag: &str) -> bool {
        if flag == "--batch-size" && self.light_first() {
            return false;
        }
        let listed = uses::by_recipe(self);
        listed
            .iter()
            .any(|(known, _, users)| *known == flag && users.contains(&self.recipe))
    }

    /// Whether every number can be run at all; the message names argument, value and range.
    ///
    /// # Errors
    /// The first number that is too large.
    pub fn within_limits(&self) -> Result<()> {
        let first = self.of_recipe.first_epochs.unwrap_or(1);
        let patience = self.course.patience.unwrap_or(1);
        for (flag, value, most) in [
            ("--epochs", self.epochs.unwrap_or(1), 1_000_000),
            ("--first-epochs", first, 1_000_000),
            ("--patience", patience, 1_000_000),
            ("--public-passes", self.public_passes.unwrap_or(1), 1_000),
            ("--batch-size", self.batch_size.unwrap_or(1), 1 << 24),
        ] {
            if value > most {
                bail!("{flag}: must lie in [1, {most}], got {value}");
            }
        }
        match self.of_recipe.weight_decay {
            Some(share) if share > 1.0 => {
                bail!("--weight-decay: must lie in (0, 1], got {share}")
            }
            _ => Ok(()),
        }
    }

    /// The noise these arguments ask for.
    ///
    /// # Errors
    /// A private recipe without noise, noise for one that adds none, or an option that changes
    /// nothing in this run.
    pub fn noise(&self) -> Result<Noise> {
        uses::all_used(self)?;
        let given = match (self.sigma, self.epsilon, self.delta) {
            (Some(sigma), _, _) => Noise::Sigma(sigma),
            (None, Some(epsilon), Some(delta)) => Noise::Calibrated { epsilon, delta },
            _ => Noise::None,
        };
        match (self.recipe.is_private(), given) {
            (true, Noise::None) => bail!(
                "--sigma: this recipe adds noise; give --sigma in (0, inf), or --epsilon with --delta"
            ),
            (false, Noise::Sigma(_)) => bail!("--sigma: the recipe sgd adds no noise"),
            (false, Noise::Calibrated { .. }) => bail!("--epsilon: the recipe sgd adds no noise"),
            (true, Noise::Calibrated { .. }) if !self.calibrates() => bail!(
                "--epsilon: what {} releases is no run of DP-SGD alone; give --sigma, and see the \
                 promise with `account compose` on the manifest",
                self.recipe.name()
            ),
            (_, noise) => Ok(noise),
        }
    }
}

/// An arm of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArmName {
    /// Ordinary training on redacted text.
    Sgd,
    /// The same on deduplicated text.
    SgdDedup,
    /// DP-SGD on everything.
    Dpsgd,
    /// Confidentially redacted training.
    Crt,
    /// The same where the conservative policy misses the canaries too.
    CrtMissed,
}

/// Arguments of `audit demo`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit demo
  audit demo data.jsonl --out my-demo/")]
pub struct Demo {
    /// The corpus, as for `audit prepare`; made up if absent.
    #[arg(value_name = "FILE.jsonl")]
    pub file: Option<PathBuf>,
    /// The folder to write; the first free of reticent-demo, reticent-demo-2, … if absent.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How many dialogues to make up, or to take from FILE at most.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub dialogues: Option<u64>,
    /// Canaries to plant: how many, and how often each.
    #[arg(long, value_name = "MxR", default_value = "10x20")]
    pub canaries: Spec,
    /// Which arms to run: sgd, sgd-dedup, dpsgd, crt, crt-missed; all if absent.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ARMS")]
    pub arms: Vec<ArmName>,
    /// Seed of the made-up corpus and of the canaries. Noise and batches are never seeded.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where: cpu, cuda:NUMBER, or exact (double precision on one core, slow).
    #[arg(long, default_value_t)]
    pub device: DeviceArg,
    /// Print the canaries' secrets instead of dots.
    #[arg(long)]
    pub show_secrets: bool,
}
