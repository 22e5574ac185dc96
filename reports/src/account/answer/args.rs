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

/// What to do with the answer.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct OutcomeArgs {
    /// Exit with 1 if epsilon in the first row exceeds this, that of --group; on a page to sign, if any epsilon that is
    /// promised to a record or to one secret does. The answer names larger ones that are not judged, such as of canaries.
    #[arg(long, value_name = "E", value_parser = limit, allow_negative_numbers = true, conflicts_with = "at_epsilon")]
    pub max_epsilon: Option<Epsilon>,
    /// Plot delta against epsilon to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write the mechanism as JSON for other programs instead of an answer. Takes --delta only with --epsilon.
    #[arg(long, value_enum, value_name = "AS", conflicts_with_all = [
        "max_epsilon", "plot", "at_epsilon", "group", "prior", "gdp", "tolerance", "RedactionArgs"])]
    pub export: Option<Export>,
}

/// The plan to account for.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PlanArgs {
    /// What runs.
    #[command(flatten)]
    pub run: RunArgs,
    /// dpsgd, crt, jft: target epsilon to calibrate the noise to, at --delta and for replacing one record, instead of
    /// --sigma. For the delta at an epsilon, use --at-epsilon.
    #[arg(long, value_name = "E", value_parser = quantity::<Epsilon>, allow_negative_numbers = true,
          conflicts_with = "mechanism")]
    pub epsilon: Option<Epsilon>,
    /// Corpus from `audit prepare`, which supplies sizes, copies and misses. The answer is a page to sign; the flags
    /// that describe the run are as for `audit train`.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "mechanism", "dataset_size", "neighbours", "at_epsilon", "plot", "gdp"])]
    pub prepared: Option<PathBuf>,
    /// Training recipe [default: crt for a prepared corpus, else dpsgd]. If given, the answer is a page to sign,
    /// with both neighbouring relations: --neighbours is for an answer without --recipe.
    #[arg(long, value_parser = recipe(), value_name = "RECIPE", conflicts_with_all = [
        "mechanism", "neighbours", "at_epsilon", "plot", "gdp"])]
    pub recipe: Option<Recipe>,
    /// Reticent checkpoint to continue from; its promise carries over. As --model of audit train.
    #[arg(long, value_name = "MODEL", conflicts_with = "mechanism")]
    pub model: Option<PathBuf>,
    /// Declare public all text that the --model folder was trained on; needed for the weights of a Reticent run of sgd
    /// on public text, even if its manifest.json is lost, and refused for other recipes.
    #[arg(long)]
    pub declared_public: bool,
    /// Options of single recipes.
    #[command(flatten)]
    pub of_recipe: RecipeArgs,
    /// Learning-rate schedule, as --decay of audit train; only plateau on text that is not public changes a promise.
    #[arg(long, value_enum, value_name = "SHAPE", conflicts_with = "mechanism")]
    pub decay: Option<DecayArg>,
    /// What is asked.
    #[command(flatten)]
    pub question: QuestionArgs,
    /// What to do with the answer.
    #[command(flatten)]
    pub outcome: OutcomeArgs,
}

impl PlanArgs {
    /// Returns whether the answer is a page.
    #[must_use]
    pub const fn is_page(&self) -> bool {
        self.prepared.is_some() || self.recipe.is_some()
    }

    /// Returns the keys of a project's defaults that are not taken: the unit if a prepared corpus has its own, and prior
    /// where each secret has its own.
    pub(in crate::account) fn excluded(&self) -> Vec<&'static str> {
        let unit = self.prepared.as_ref().map(|_| "unit");
        let prior = (self.recipe == Some(Recipe::Protect)).then_some("prior");
        unit.into_iter().chain(prior).collect()
    }

    /// Returns the plan that these arguments describe.
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
