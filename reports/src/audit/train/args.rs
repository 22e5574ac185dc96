//! Arguments of `audit train`.

use crate::audit::args::Course;
use crate::audit::args::PrivateArgs;
use crate::audit::args::{DeviceArg, ModelArg, PrecisionArg};
use crate::audit::train::uses;
use crate::contract::{positive, positive_number, quantity};
use crate::plan::args::{NoiseArgs, RecipeArgs, Schedule, recipe};
use crate::plan::{PlanRequest, TrainingFile};
use anyhow::{Context, Result, bail};
use clap::Args;
use reticent_accounting::Delta;
use reticent_accounting::training::Recipe;
use std::path::PathBuf;

/// Arguments of `audit train`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit train prepared/ --recipe crt --sigma 1.1 --epochs 10 --out ckpt/
  audit train --plan training.toml --out ckpt/")]
pub struct Train {
    /// A folder that `audit prepare` wrote; a plan file names its own.
    #[arg(
        value_name = "PREPARED",
        required_unless_present = "plan",
        conflicts_with = "plan"
    )]
    pub prepared: Option<PathBuf>,
    /// A plan file, as `account plan` reads it: it says what runs, and the flags that do are refused.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "recipe", "delta", "model", "declared_public", "NoiseArgs", "Schedule", "RecipeArgs"])]
    pub plan: Option<PathBuf>,
    /// The folder to write; it must not exist, or be empty. An interrupted run leaves DIR.state
    /// beside it: the same command again goes on from there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How to train: sgd, dpsgd, crt, sdp, jft or protect.
    #[arg(long, value_parser = recipe(), value_name = "RECIPE", required_unless_present = "plan")]
    pub recipe: Option<Recipe>,
    /// What to train.
    #[command(flatten)]
    pub start: Start,
    /// Where: cpu or cuda:NUMBER.
    #[arg(long, default_value_t)]
    pub device: DeviceArg,
    /// In what precision training passes multiply, on CUDA devices that have it. Norms, sums,
    /// noise, weights and scores stay in single and double precision.
    #[arg(long, value_enum, default_value_t)]
    pub precision: PrecisionArg,
    /// Noise.
    #[command(flatten)]
    pub noise: NoiseArgs,
    /// The δ of every promise, and of --epsilon [default: 1e-6, or less than one over the records].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// What single recipes need.
    #[command(flatten)]
    pub of_recipe: RecipeArgs,
    /// sgd, crt, jft: records of an ordinary step [default: 8].
    #[arg(long, value_name = "B", value_parser = positive)]
    pub ordinary_batch_size: Option<u64>,
    /// sgd, crt, sdp, jft: step size of ordinary steps (Adam) [default: 0.004]; --decay says how it
    /// falls.
    #[arg(long, value_name = "RATE", value_parser = positive_number, allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// How noisy steps clip and move weights.
    #[command(flatten)]
    pub private: PrivateArgs,
    /// Share of values that training passes drop: of embedded tokens, of attention's
    /// probabilities, of what each block gives. Absent, a folder's own rates hold (config.json, or
    /// the manifest of a checkpoint of ours), and a fresh model drops nothing.
    #[arg(long, value_name = "RATE", value_parser = dropped_share, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// The course of the run.
    #[command(flatten)]
    pub course: Course,
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

impl Train {
    /// What these arguments ask for, or the plan file they name.
    ///
    /// # Errors
    /// A plan file that can't be read, or an option that changes nothing in this run.
    pub fn request(&self) -> Result<PlanRequest> {
        let request = match &self.plan {
            Some(path) => TrainingFile::read(path).context("--plan")?.request(),
            None => PlanRequest {
                recipe: self.recipe,
                delta: self.delta,
                prepared: self.prepared.clone(),
                noise: self.noise.clone(),
                schedule: self.schedule.clone(),
                of_recipe: self.of_recipe.clone(),
                model: match &self.start.model {
                    ModelArg::Folder(folder) => Some(folder.clone()),
                    ModelArg::Lstm | ModelArg::Gpt2 => None,
                },
                declared_public: self.start.declared_public,
                ..PlanRequest::default()
            },
        };
        uses::all_used(self, &request)?;
        Ok(request)
    }

    /// Whether every number can be run at all; the message names argument, value and range.
    ///
    /// # Errors
    /// The first number that is too large.
    pub fn within_limits(&self, request: &PlanRequest) -> Result<()> {
        let of_recipe = &request.of_recipe;
        let epochs = request.schedule.epochs.unwrap_or(1.0);
        if epochs > 1e6 {
            bail!(
                "{}: must lie in (0, 1000000], got {epochs}",
                request.name("epochs")
            );
        }
        for (flag, value, most) in [
            (
                request.name("first_epochs"),
                of_recipe.first_epochs.unwrap_or(1),
                1_000_000,
            ),
            (
                request.name("public_passes"),
                of_recipe.public_passes.unwrap_or(1),
                1_000,
            ),
            (
                "--ordinary-batch-size".to_owned(),
                self.ordinary_batch_size.unwrap_or(1),
                1 << 24,
            ),
        ] {
            if value > most {
                bail!("{flag}: must lie in [1, {most}], got {value}");
            }
        }
        match self.private.weight_decay {
            Some(share) if share > 1.0 => {
                bail!("--weight-decay: must lie in (0, 1], got {share}")
            }
            _ => Ok(()),
        }
    }
}
