//! Arguments of `account` without a command.

use crate::account::mechanism::Export;
use crate::account::question::{QuestionArgs, RunArgs};
use crate::contract::{limit, quantity};
use crate::plan::args::{NoiseArgs, RecipeArgs, recipe};
use crate::plan::{DecayArg, Optimization, PlanRequest, SecretsRequest};
use clap::Args;
use reticent_accounting::Epsilon;
use reticent_accounting::training::Recipe;
use std::path::PathBuf;

/// What is done with the answer.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct OutcomeArgs {
    /// Exit 1 if the epsilon of the first row (of the group row with --group) is above this.
    #[arg(long, value_name = "E", value_parser = limit, allow_negative_numbers = true, conflicts_with = "at_epsilon")]
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
    /// How the learning rates fall, as --decay of audit train: only a plateau of text that is not public changes a promise.
    #[arg(long, value_enum, value_name = "SHAPE", conflicts_with = "mechanism")]
    pub decay: Option<DecayArg>,
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
            optimization: Optimization {
                decay: self.decay,
                ..Optimization::default()
            },
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
