//! What somebody asked for, before anything is filled in.

use super::Optimization;
use super::args::{NoiseArgs, RecipeArgs, RedactionArgs, Schedule};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::Recipe;
use reticent_accounting::{Delta, GroupSize, Probability, SamplingRate, Tolerance, UnitName};
use std::path::{Path, PathBuf};

/// Where a request comes from: how messages name its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// The command line.
    #[default]
    Flags,
    /// A plan file.
    File,
}

/// What is to be kept secret.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SecretsRequest {
    /// Records of one secret, at most.
    pub records: Option<GroupSize>,
    /// The same before deduplication.
    pub records_before: Option<GroupSize>,
    /// Miss rates.
    pub redaction: RedactionArgs,
    /// Chance of guessing a secret beforehand.
    pub prior: Option<Probability>,
    /// Contents a secret can have.
    pub candidates: Option<u64>,
    /// Planted secrets.
    pub canaries: Option<u64>,
    /// Copies of each.
    pub canary_copies: Option<u64>,
    /// Whether no record is trained on without noise.
    pub everything_private: Option<bool>,
}

/// A training plan as it was asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanRequest {
    /// Where it comes from.
    pub origin: Origin,
    /// The method; DP-SGD on every record where none is named.
    pub recipe: Option<Recipe>,
    /// What one record is.
    pub unit: Option<UnitName>,
    /// The δ of every promise.
    pub delta: Option<Delta>,
    /// Relative width of every number.
    pub tolerance: Option<Tolerance>,
    /// A prepared corpus.
    pub prepared: Option<PathBuf>,
    /// Records that noise covers, where there is no prepared corpus.
    pub records: Option<u64>,
    /// σ, or ε.
    pub noise: NoiseArgs,
    /// Batches.
    pub schedule: Schedule,
    /// What single recipes need.
    pub of_recipe: RecipeArgs,
    /// How weights move.
    pub optimization: Optimization,
    /// Its options that stand in the file.
    pub optimization_of_file: Vec<&'static str>,
    /// Of the first phase of `jft`, in files: q and T of its own, and what is known of the policy.
    pub first_rate: Option<SamplingRate>,
    /// T of the first phase.
    pub first_steps: Option<u64>,
    /// The conditions under which redacted text costs nothing.
    pub first_alike: Option<RedactedAlike>,
    /// Whether a file has a section about the first phase.
    pub first_given: bool,
    /// A folder to go on from.
    pub model: Option<PathBuf>,
    /// Whether all text behind that folder is declared public.
    pub declared_public: bool,
    /// What is to be kept secret.
    pub secrets: SecretsRequest,
}

impl PlanRequest {
    /// A value as whoever gave it would call it.
    #[must_use]
    pub fn name(&self, key: &str) -> String {
        match self.origin {
            Origin::Flags => {
                let flag = match key {
                    "records" => "group",
                    "private" => "dataset_size",
                    "first_rate" => "sample_rate",
                    "first_steps" => "first_epochs",
                    key => key,
                };
                format!("--{}", flag.replace('_', "-"))
            }
            Origin::File => {
                let section = match key {
                    "recipe" | "unit" | "delta" | "tolerance" => return key.to_owned(),
                    "prepared" | "private" => "data",
                    "records" | "records_before" | "gamma" | "joint_miss" | "labels"
                    | "confidence" | "prior" | "candidates" | "canaries" | "canary_copies"
                    | "everything_private" => "secrets",
                    "first_phase" => return "first_phase".to_owned(),
                    "first_sigma" => return "first_phase.sigma".to_owned(),
                    "first_epsilon" => return "first_phase.epsilon".to_owned(),
                    "first_rate" => return "first_phase.sample_rate".to_owned(),
                    "first_steps" => return "first_phase.steps".to_owned(),
                    "first_epochs" => return "first_phase.epochs".to_owned(),
                    "token_miss" => return "first_phase.miss".to_owned(),
                    "screened" => return "first_phase.screened".to_owned(),
                    key if Optimization::is_key(key) => {
                        let given = self.optimization.given().contains(&key);
                        if given && !self.optimization_of_file.contains(&key) {
                            return format!("--{}", key.replace('_', "-"));
                        }
                        "optimizer"
                    }
                    _ => "training",
                };
                format!("{section}.{key}")
            }
        }
    }

    /// The folder to go on from; a fresh model, `lstm`, `gpt2` or `bert`, has none.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        let model = self.model.as_deref()?;
        let fresh = !model.is_dir()
            && ["lstm", "gpt2", "bert"]
                .iter()
                .any(|name| model == Path::new(name));
        (!fresh).then_some(model)
    }

    /// The recipe.
    #[must_use]
    pub fn recipe(&self) -> Recipe {
        self.recipe.unwrap_or(Recipe::Dpsgd)
    }
}
