//! A training plan as requested, before missing values are filled in.

use super::Optimization;
use super::args::{NoiseArgs, RecipeArgs, RedactionArgs, Schedule};
use anyhow::{Result, ensure};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::Recipe;
use reticent_accounting::{Delta, GroupSize, Probability, SamplingRate, Tolerance, UnitName};
use std::path::{Path, PathBuf};

/// The source of a request, which decides how messages name its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// The command line.
    #[default]
    Flags,
    /// A plan file.
    File,
}

/// What is known about the secrets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SecretsRequest {
    /// The most records of one secret.
    pub records: Option<GroupSize>,
    /// The most records of one secret before deduplication.
    pub records_before: Option<GroupSize>,
    /// Miss rates.
    pub redaction: RedactionArgs,
    /// The probability of guessing a secret beforehand.
    pub prior: Option<Probability>,
    /// The number of contents that a secret can have.
    pub candidates: Option<u64>,
    /// The number of planted secrets.
    pub canaries: Option<u64>,
    /// The copies of each planted secret.
    pub canary_copies: Option<u64>,
    /// Whether no record is trained on without noise.
    pub everything_private: Option<bool>,
}

/// A training plan as requested.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanRequest {
    /// The source of the request.
    pub origin: Origin,
    /// The recipe; DP-SGD on every record if none is named.
    pub recipe: Option<Recipe>,
    /// What one record is.
    pub unit: Option<UnitName>,
    /// The δ of every promise.
    pub delta: Option<Delta>,
    /// The relative width of every number.
    pub tolerance: Option<Tolerance>,
    /// A prepared corpus.
    pub prepared: Option<PathBuf>,
    /// The number of records trained on with noise, if there is no prepared corpus.
    pub records: Option<u64>,
    /// σ or ε.
    pub noise: NoiseArgs,
    /// The batches.
    pub schedule: Schedule,
    /// The options of single recipes.
    pub of_recipe: RecipeArgs,
    /// The optimiser's options.
    pub optimization: Optimization,
    /// The optimiser's options that are set in the file.
    pub optimization_of_file: Vec<&'static str>,
    /// The sampling rate of `jft`'s first phase, which only files can set.
    pub first_rate: Option<SamplingRate>,
    /// The number of steps of the first phase.
    pub first_steps: Option<u64>,
    /// The conditions under which redacted text has no privacy cost.
    pub first_alike: Option<RedactedAlike>,
    /// Whether the file has a section about the first phase.
    pub first_given: bool,
    /// The folder of a model to start from.
    pub model: Option<PathBuf>,
    /// Whether all text behind that model is declared public.
    pub declared_public: bool,
    /// What is known about the secrets.
    pub secrets: SecretsRequest,
}

/// Whether an option has a value.
trait Given {
    fn is_given(&self) -> bool;
}

impl<T> Given for Option<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }
}

impl<T> Given for Vec<T> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

/// Lists options by their keys, each with whether it was given.
macro_rules! options {
    ($($of:expr => $($key:ident),+;)+) => {
        [$($((stringify!($key), $of.$key.is_given())),+),+]
    };
}

/// Whether a model is named that starts with fresh weights, as `audit train` reads the name: a folder of that name is
/// `./gpt2`.
fn is_fresh(model: &Path) -> bool {
    matches!(model.to_str(), Some("lstm" | "gpt2" | "bert"))
}

/// Checks that a model in this folder is not also a fresh one's name, which would mean another base.
///
/// # Errors
/// Returns an error for the name of a fresh model that is a folder's there too.
pub(super) fn unambiguous(model: &Path, there: &Path) -> Result<()> {
    let name = model.display();
    ensure!(
        !is_fresh(model) || !there.join(model).is_dir(),
        "{name} is the name of a fresh model, and of a folder here; write ./{name} for the folder, or rename it"
    );
    Ok(())
}

impl PlanRequest {
    /// Returns the keys of the options that were given and that a recipe, a kind of first phase or another option may
    /// leave without effect.
    #[must_use]
    pub fn given(&self) -> Vec<&'static str> {
        let options = options! {
            self.noise => sigma, epsilon;
            self.noise.decay => noise_decay;
            self.schedule => sample_rate, batch_size, steps, epochs, sampler, max_batch, epoch_steps;
            self.schedule => selected;
            self.of_recipe => public_passes, first_phase, first_epochs, first_sigma, first_epsilon, token_miss;
            self.of_recipe => screened, state_sigma, state_norm, states, weights, incidence, assume, patience;
            self.of_recipe => held_out_is;
            self => first_rate, first_steps;
            self.secrets => everything_private;
            self.secrets.redaction => gamma, labelled, labels, missed, confidence, joint_miss;
            self.secrets.redaction => conservative_miss;
        };
        let given = options
            .into_iter()
            .filter_map(|(key, given)| given.then_some(key));
        given.chain(self.optimization.given()).collect()
    }

    /// Returns the name of a value as the user who gave it knows it.
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

    /// Returns a message whose keys, in backticks, are replaced by what they are called in the request.
    #[must_use]
    pub fn said(&self, message: &str) -> String {
        let parts = message.split('`').enumerate();
        let named = parts.map(|(at, part)| match at % 2 {
            0 => part.to_owned(),
            _ => self.name(part),
        });
        named.collect()
    }

    /// Returns the folder to start from; the fresh models have none.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.model.as_deref().filter(|model| !is_fresh(model))
    }

    /// Returns the recipe.
    #[must_use]
    pub fn recipe(&self) -> Recipe {
        self.recipe.unwrap_or(Recipe::Dpsgd)
    }
}
