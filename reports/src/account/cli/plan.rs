//! What runs and what is asked about it.

use super::values::{NeighboursArg, group};
use crate::account::mechanism::Export;
use crate::contract::{positive, quantity};
use crate::plan::args::{NoiseArgs, RecipeArgs, RedactionArgs, Schedule, Sigma, recipe, unit};
use crate::plan::{PlanRequest, SecretsRequest};
use clap::Args;
use reticent_accounting::training::Recipe;
use reticent_accounting::{Delta, Epsilon, GroupSize, Probability, Tolerance, UnitName};
use std::path::PathBuf;

/// What runs: DP-SGD by its numbers, or a mechanism from a file.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RunArgs {
    /// Noise standard deviation over clipping norm; 0 for the weights of protect without noise, which
    /// promise nothing.
    #[arg(long, value_name = "S", value_parser = quantity::<Sigma>, allow_negative_numbers = true)]
    pub sigma: Option<Sigma>,
    /// Number of records that noise covers; of a prepared corpus it is known.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub dataset_size: Option<u64>,
    /// Batches.
    #[command(flatten)]
    pub schedule: Schedule,
    /// A mechanism from a JSON file instead of --sigma: ours, one in a manifest.json, or an event of
    /// Google's dp_accounting; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sigma", "dataset_size", "Schedule"])]
    pub mechanism: Option<PathBuf>,
}

impl RunArgs {
    /// The plan that these arguments ask for: DP-SGD on every record.
    #[must_use]
    pub fn request(&self) -> PlanRequest {
        PlanRequest {
            records: self.dataset_size,
            noise: NoiseArgs {
                sigma: self.sigma,
                epsilon: None,
            },
            schedule: self.schedule.clone(),
            ..PlanRequest::default()
        }
    }
}

/// What is asked about it.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct QuestionArgs {
    /// The slack of every (epsilon, delta) promise [default: 1e-6, or less than one over the records].
    #[arg(long, value_name = "D", value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Ask for the delta at this epsilon instead of the epsilon at --delta.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true, conflicts_with = "delta")]
    pub at_epsilon: Option<Epsilon>,
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
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true, conflicts_with = "at_epsilon")]
    pub max_epsilon: Option<Epsilon>,
    /// Draw delta against epsilon into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write what runs as JSON for other programs, and answer nothing. --delta belongs to it only with
    /// --epsilon.
    #[arg(long, value_enum, value_name = "AS", conflicts_with_all = [
        "max_epsilon", "plot", "at_epsilon", "group", "unit", "prior", "gdp", "tolerance", "RedactionArgs"])]
    pub export: Option<Export>,
}

/// The plan to account for.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PlanArgs {
    /// What runs.
    #[command(flatten)]
    pub run: RunArgs,
    /// dpsgd, crt, jft: the epsilon to find the noise for, at --delta and for the replacement of one
    /// record, instead of --sigma. The delta at an epsilon is asked for with --at-epsilon.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true,
          conflicts_with = "mechanism")]
    pub epsilon: Option<Epsilon>,
    /// A corpus that `audit prepare` made: sizes, copies and misses come from it. The answer is a
    /// page to sign; the flags that say what runs are those of `audit train`.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "mechanism", "dataset_size", "neighbours", "at_epsilon", "plot", "gdp"])]
    pub prepared: Option<PathBuf>,
    /// sgd, dpsgd, crt, sdp, jft or protect [default: crt for a prepared corpus, else dpsgd]. With
    /// it the answer is a page to sign.
    #[arg(long, value_parser = recipe(), value_name = "RECIPE", conflicts_with_all = [
        "mechanism", "neighbours", "at_epsilon", "plot", "gdp"])]
    pub recipe: Option<Recipe>,
    /// A checkpoint of ours to go on from, whose promise then continues; as --model of audit train.
    #[arg(long, value_name = "MODEL", conflicts_with = "mechanism")]
    pub model: Option<PathBuf>,
    /// All text that the folder of --model was trained on is declared public: needed for weights
    /// of ours whose manifest.json is lost.
    #[arg(long)]
    pub declared_public: bool,
    /// What single recipes need.
    #[command(flatten)]
    pub of_recipe: RecipeArgs,
    /// What is asked.
    #[command(flatten)]
    pub question: QuestionArgs,
    /// What is done with the answer.
    #[command(flatten)]
    pub outcome: OutcomeArgs,
}

impl PlanArgs {
    /// Whether the answer is a page.
    #[must_use]
    pub const fn is_page(&self) -> bool {
        self.prepared.is_some() || self.recipe.is_some()
    }

    /// The plan that these arguments ask for.
    #[must_use]
    pub fn request(&self) -> PlanRequest {
        let question = &self.question;
        let default = self.prepared.is_some().then_some(Recipe::Crt);
        let run = self.run.request();
        PlanRequest {
            recipe: self.recipe.or(default),
            unit: question.unit.clone(),
            delta: question.delta,
            tolerance: question.tolerance,
            prepared: self.prepared.clone(),
            noise: NoiseArgs {
                epsilon: self.epsilon,
                ..run.noise.clone()
            },
            of_recipe: self.of_recipe.clone(),
            model: self.model.clone(),
            declared_public: self.declared_public,
            secrets: SecretsRequest {
                records: question.group,
                redaction: question.redaction.clone(),
                prior: question.prior,
                ..SecretsRequest::default()
            },
            ..run
        }
    }
}
