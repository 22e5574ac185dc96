//! Arguments of `audit train`.

use crate::audit::args::{ModelArg, precision};
use crate::audit::train::uses;
use crate::contract::{positive, quantity, step_count};
use crate::plan::args::{NoiseArgs, RecipeArgs, Schedule, recipe};
use crate::plan::sampler::Sampler;
use crate::plan::{Optimization, PlanRequest, TrainingFile};
use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, ValueEnum};
use reticent_accounting::Delta;
use reticent_accounting::training::Recipe;
use reticent_backends::Device;
use reticent_backends::trainer::Precision;
use std::path::PathBuf;

/// The number of a worker and of all workers, in the environment of each, as set by torchrun.
pub(in crate::audit) const RANK: &str = "RANK";
pub(in crate::audit) const WORLD: &str = "WORLD_SIZE";

/// Arguments of `audit train`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    mut_args(on_a_corpus),
    after_help = "\
Examples:
  audit train prepared/ --recipe crt --sigma 1.1 --epochs 10 --out ckpt/
  audit train prepared/ --recipe dpsgd --sigma 1.1 --model base/ --lora-rank 16 --out adapter/
  audit train --plan training.toml --out ckpt/
  audit train --plan training.toml --worker-key worker.key --out ckpt/"
)]
pub struct Train {
    /// Folder from `audit prepare`; a plan file names its own.
    #[arg(
        value_name = "PREPARED",
        required_unless_present = "plan",
        conflicts_with = "plan"
    )]
    pub prepared: Option<PathBuf>,
    /// Plan file, as for `account plan`: it describes the run, and flags that do so are refused.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "recipe", "delta", "model", "declared_public", "NoiseArgs", "Schedule", "RecipeArgs"])]
    pub plan: Option<PathBuf>,
    /// Folder to write; it must be absent or empty. An interrupted run leaves DIR.state next to it; the same command
    /// resumes from there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Recipe: sgd, dpsgd, crt, sdp, jft or protect.
    #[arg(long, value_parser = recipe(), value_name = "RECIPE", required_unless_present = "plan")]
    pub recipe: Option<Recipe>,
    /// Model to train: lstm (the papers' single layer of 200), gpt2 or bert (an encoder that predicts masked tokens),
    /// freshly initialised, or a folder: a Hugging Face model as it is, or a Reticent checkpoint, whose promise
    /// carries over; with --lora-rank, an adapter on it is trained and the folder stays unchanged. On a corpus
    /// prepared with --label, a class head replaces a transformer's own.
    #[arg(long, value_name = "MODEL", default_value_t)]
    pub model: ModelArg,
    /// Declare public all text that the --model folder was trained on; needed for the weights of a Reticent run of sgd
    /// on public text, even if its manifest.json is lost, refused for other recipes, and written to the new manifest.
    #[arg(long)]
    pub declared_public: bool,
    /// Device: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is available.
    #[arg(long, default_value_t)]
    pub device: Device,
    /// Precision of products in training passes, on CUDA devices that have it. Norms, sums, noise, weights and scores
    /// stay in single and double precision.
    #[arg(long, value_parser = precision(), default_value_t)]
    pub precision: Precision,
    /// Noise.
    #[command(flatten)]
    pub noise: NoiseArgs,
    /// δ of every promise, and of --epsilon [default: 1e-6, or 0.1/N for N records if that is smaller].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// Options of single recipes.
    #[command(flatten)]
    pub of_recipe: RecipeArgs,
    /// How weights move.
    #[command(flatten)]
    pub optimization: Optimization,
    /// Folder from `audit prepare` with the same tokens, whose loss is shown after each epoch of the last phase; for
    /// a classifier, accuracy and macro-F1, by default on the documents that PREPARED held out. No guarantee covers
    /// these figures.
    #[arg(long, value_name = "PREPARED")]
    pub held_out: Option<PathBuf>,
    /// Also log loss, clipped share, perplexity (for a classifier, accuracy and macro-F1) and ε to this folder during
    /// the run, for TensorBoard. No guarantee covers these logs: protect the folder like the text.
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Several workers.
    #[command(flatten)]
    pub workers: Workers,
}

/// Describes the options that `account` has too as those of a run on a prepared corpus.
fn on_a_corpus(option: Arg) -> Arg {
    let help = match option.get_id().as_str() {
        "sample_rate" => {
            "Probability that a record is in a batch; for sdp, the share of records in each batch [default: 0.1]"
        }
        "batch_size" => {
            "Expected records per noisy batch, instead of --sample-rate; of ordinary steps, --ordinary-batch-size"
        }
        "steps" => {
            return option.value_parser(step_count).help(
                "Number of noisy steps; sgd: of ordinary steps [default: those of --epochs]",
            );
        }
        "epochs" => {
            "Passes over the records, instead of --steps: E times 1/q steps, each rounded up, as in a loader that keeps its \
             last, smaller batch (1/q rounded down if each record is in one batch, as with --sampler balls-in-bins) \
             [default: 8]"
        }
        "sampler" => return option.value_parser(drawn_samplers()),
        "epoch_steps" => "Steps per epoch, instead of --sample-rate, for --sampler balls-in-bins",
        // Of a sampler that is not drawn.
        "selected" => return option.hide(true),
        "states" => {
            "sdp: maximum states that one record releases per pass [default: counted in the corpus]"
        }
        _ => return option,
    };
    option.help(help)
}

/// Parses the samplers of `account`, of which those that the trainer draws are shown. The others are refused with the
/// reason.
fn drawn_samplers() -> impl TypedValueParser<Value = Sampler> {
    let shown = |sampler: &Sampler| {
        let drawn = sampler.example().is_trained();
        Some(sampler.to_possible_value()?.hide(!drawn))
    };
    PossibleValuesParser::new(Sampler::value_variants().iter().filter_map(shown))
        .try_map(|name| <Sampler as ValueEnum>::from_str(&name, false))
}

/// Workers of one run: the same command on each, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct Workers {
    /// File with the key that all workers of a run share, 64 hexadecimal digits: it encrypts and authenticates their
    /// traffic. Required if they are not all on one machine.
    #[arg(long, value_name = "FILE")]
    pub worker_key: Option<PathBuf>,
    /// Maximum silence of a worker; 600 if absent.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub worker_timeout: Option<u64>,
}

impl Train {
    /// Returns the model that the plan file or the flag names.
    #[must_use]
    pub fn model_of(&self, request: &PlanRequest) -> ModelArg {
        match &request.model {
            Some(model) => model
                .to_string_lossy()
                .parse()
                .unwrap_or_else(|_| ModelArg::Folder(model.clone())),
            None => self.model.clone(),
        }
    }

    /// Returns the request of these arguments, or of the plan file that they name.
    ///
    /// # Errors
    /// Returns an error if the plan file can't be read or an option has no effect in this run.
    pub fn request(&self) -> Result<PlanRequest> {
        let mut request = match &self.plan {
            Some(path) => TrainingFile::read(path).context("--plan")?.request(),
            None => PlanRequest {
                recipe: self.recipe,
                delta: self.delta,
                prepared: self.prepared.clone(),
                noise: self.noise.clone(),
                schedule: self.schedule.clone(),
                of_recipe: self.of_recipe.clone(),
                model: match &self.model {
                    ModelArg::Folder(folder) => Some(folder.clone()),
                    ModelArg::Lstm | ModelArg::Gpt2 | ModelArg::Bert => None,
                },
                declared_public: self.declared_public,
                ..PlanRequest::default()
            },
        };
        request.optimization.merge(&self.optimization)?;
        uses::all_used(self, &request)?;
        Ok(request)
    }

    /// Checks that every number can be run; the message names argument, value and range.
    ///
    /// # Errors
    /// Returns an error for the first number that is too large.
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
        ] {
            if value > most {
                bail!("{flag}: must lie in [1, {most}], got {value}");
            }
        }
        request.optimization.check(|key| request.name(key))
    }
}
