//! `training.toml`: a training plan in a file.
//!
//! ```toml
//! schema = 1
//! recipe = "crt"               # sgd, dpsgd, crt, sdp, jft or protect
//! unit = "turn"                # what one record is
//! delta = 1e-5                 # default 1e-6, or 0.1/N for N records if that is smaller
//!
//! [data]
//! prepared = "prepared/"       # from `audit prepare`, relative to this file; or:
//! private = 60000              # records that noise covers
//!
//! [training]                   # what `audit train` takes as flags, with the same names
//! sigma = 1.1                  # noise deviation over clipping norm; or epsilon = 4
//! batch_size = 256             # expected; or sample_rate = 0.004
//! epochs = 20                  # or steps = 4000
//! sampler = "poisson"
//!
//! [optimizer]                  # how weights move: no promise depends on it
//! learning_rate = 20           # of ordinary steps, and optimizer = "sgd", ordinary_batch_size = 256
//! private_learning_rate = 0.1  # of noisy ones, and clip = 1
//!
//! [secrets]
//! records = 3                  # records that one secret is trained on in, at most
//! records_before = 20          # the same before deduplication
//! labels = "labels.jsonl"      # labelled secrets; or gamma = 0.1, joint_miss = 0.001
//! confidence = 0.95
//! prior = 1e-6                 # chance of guessing a secret beforehand
//! candidates = 1000000         # contents a secret can have
//! canaries = 10                # planted secrets
//! canary_copies = 20           # records that differ if one of them does; default: records
//! everything_private = false   # no conservative policy: every record is trained on with noise
//!
//! [first_phase]                # of jft
//! kind = "direct"              # direct, screened, light-noise or conservative-light-noise
//! every_content_caught = true
//! length_and_kind_hidden = true
//! screening_ignores_secrets = true
//! # or, with noise: sigma, sample_rate, steps or epochs, and miss = [0.003, 0.012] for the paper's estimate
//! ```

use super::Optimization;
use super::args::{
    Assumption, FirstPhaseKind, NoiseArgs, NoiseDecayArgs, RecipeArgs, RedactionArgs, Schedule,
    Sigma, Whose,
};
use super::request::{Origin, PlanRequest, SecretsRequest, unambiguous};
use super::sampler::Sampler;
use crate::contract::read_toml;
use anyhow::{Context, Result, bail};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::Recipe;
use reticent_accounting::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, NoiseMultiplier, Probability, SamplingRate,
    Tolerance, UnitName,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingFile {
    /// 1.
    pub schema: u32,
    /// The method.
    pub recipe: Recipe,
    /// What one record is.
    pub unit: Option<UnitName>,
    /// Delta of every promise.
    pub delta: Option<Delta>,
    /// Relative width of every number.
    pub tolerance: Option<Tolerance>,
    /// The training data.
    #[serde(default)]
    pub data: Data,
    /// How.
    #[serde(default)]
    pub training: Training,
    /// How weights move.
    #[serde(default)]
    pub optimizer: Optimization,
    /// What to keep secret.
    #[serde(default)]
    pub secrets: Secrets,
    /// The first phase of `jft`.
    pub first_phase: Option<FirstPhase>,
}

/// The training data.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// A prepared corpus.
    pub prepared: Option<PathBuf>,
    /// Records covered by noise.
    pub private: Option<u64>,
}

/// How: the flags of `audit train` that say what runs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    pub sigma: Option<Sigma>,
    pub epsilon: Option<Epsilon>,
    pub noise_decay: Option<f64>,
    pub noise_decay_every: Option<u64>,
    pub batch_size: Option<u64>,
    pub sample_rate: Option<SamplingRate>,
    pub steps: Option<u64>,
    pub epochs: Option<f64>,
    pub sampler: Option<Sampler>,
    pub max_batch: Option<u64>,
    pub epoch_steps: Option<u64>,
    pub selected: Option<u64>,
    pub public_passes: Option<u64>,
    pub state_sigma: Option<NoiseMultiplier>,
    pub state_norm: Option<f64>,
    pub states: Option<u64>,
    pub weights: Option<PathBuf>,
    pub incidence: Option<PathBuf>,
    pub assume: Vec<Assumption>,
    pub held_out_is: Option<Whose>,
    pub patience: Option<u64>,
    pub seed: Option<u64>,
    pub model: Option<PathBuf>,
    pub declared_public: bool,
}

/// What to keep secret.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Maximum training records with one secret.
    pub records: Option<GroupSize>,
    /// The same before deduplication, for comparison.
    pub records_before: Option<GroupSize>,
    /// Labelled secrets.
    pub labels: Option<PathBuf>,
    /// Confidence of the measured rates.
    pub confidence: Option<Confidence>,
    /// Assumed γ.
    pub gamma: Option<MissRate>,
    /// Assumed η.
    pub joint_miss: Option<MissRate>,
    /// Chance of guessing a secret before training.
    pub prior: Option<Probability>,
    /// Contents a secret can have.
    pub candidates: Option<u64>,
    /// Planted secrets.
    pub canaries: Option<u64>,
    /// Records that differ if one of them does.
    pub canary_copies: Option<u64>,
    /// Whether every record is trained on with noise.
    pub everything_private: Option<bool>,
}

/// The first phase of `jft`: without noise under three conditions, or with noise.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstPhase {
    /// How the redacted text is used.
    pub kind: Option<FirstPhaseKind>,
    /// Passes over it.
    pub epochs: Option<u64>,
    /// Every secret, whatever its content, is redacted in full.
    pub every_content_caught: Option<bool>,
    /// The mask reveals neither length nor kind.
    pub length_and_kind_hidden: Option<bool>,
    /// Screening does not depend on secrets.
    pub screening_ignores_secrets: Option<bool>,
    /// The ids of the screened records.
    pub screened: Option<PathBuf>,
    /// σ of a noised first phase.
    pub sigma: Option<NoiseMultiplier>,
    /// Target ε to calibrate that σ to, as if the phase ran alone; with `miss` by the paper's estimate.
    pub epsilon: Option<Epsilon>,
    /// Its sampling rate; that of the second phase if absent.
    pub sample_rate: Option<SamplingRate>,
    /// Its steps.
    pub steps: Option<u64>,
    /// Interval of the miss rate per token, for the paper's estimate.
    pub miss: Option<(MissRate, MissRate)>,
}

impl TrainingFile {
    /// Reads and checks a file. Paths inside it are relative to it.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is not TOML, or holds a key or value that is not allowed.
    /// The message shows line, key, value and allowed range.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::contract::read_named_text(path)?;
        let mut file: Self = read_toml(&text, &path.display().to_string())?;
        if file.schema != 1 {
            bail!("{}: schema must be 1, got {}", path.display(), file.schema);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let inside = [
            &mut file.data.prepared,
            &mut file.secrets.labels,
            &mut file.training.weights,
            &mut file.training.incidence,
        ];
        for place in inside.into_iter().flatten() {
            *place = folder.join(&place);
        }
        if let Some(model) = &mut file.training.model {
            unambiguous(model, folder)
                .with_context(|| format!("{}: training.model", path.display()))?;
            if folder.join(&*model).is_dir() {
                *model = folder.join(&*model);
            }
        }
        if let Some(screened) = file.first_phase.as_mut().and_then(|f| f.screened.as_mut()) {
            *screened = folder.join(&*screened);
        }
        Ok(file)
    }

    /// Returns the request that the file makes.
    #[must_use]
    pub fn request(self) -> PlanRequest {
        let (training, secrets) = (self.training, self.secrets);
        let first_given = self.first_phase.is_some();
        let first = self.first_phase.unwrap_or_default();
        let noised = first.sigma.is_some() || first.epsilon.is_some();
        let kind = first.kind.or(match (noised, first.miss) {
            (true, Some(_)) => Some(FirstPhaseKind::LightNoise),
            (true, None) => Some(FirstPhaseKind::ConservativeLightNoise),
            (false, _) => None,
        });
        let holds = |condition: Option<bool>| condition.unwrap_or(false);
        let conditions = [
            first.every_content_caught,
            first.length_and_kind_hidden,
            first.screening_ignores_secrets,
        ];
        let first_alike = conditions
            .iter()
            .any(Option::is_some)
            .then_some(RedactedAlike {
                every_content_caught: holds(first.every_content_caught),
                length_and_kind_hidden: holds(first.length_and_kind_hidden),
                screening_ignores_secrets: holds(first.screening_ignores_secrets),
            });
        PlanRequest {
            origin: Origin::File,
            recipe: Some(self.recipe),
            unit: self.unit,
            delta: self.delta,
            tolerance: self.tolerance,
            prepared: self.data.prepared,
            records: self.data.private,
            noise: NoiseArgs {
                sigma: training.sigma,
                epsilon: training.epsilon,
                decay: NoiseDecayArgs {
                    noise_decay: training.noise_decay,
                    noise_decay_every: training.noise_decay_every,
                },
            },
            schedule: Schedule {
                sample_rate: training.sample_rate,
                batch_size: training.batch_size,
                steps: training.steps,
                epochs: training.epochs,
                sampler: training.sampler,
                max_batch: training.max_batch,
                epoch_steps: training.epoch_steps,
                selected: training.selected,
            },
            of_recipe: RecipeArgs {
                public_passes: training.public_passes,
                first_phase: kind,
                first_epochs: first.epochs,
                first_sigma: first.sigma,
                first_epsilon: first.epsilon,
                token_miss: first
                    .miss
                    .map_or_else(Vec::new, |(low, high)| vec![low, high]),
                screened: first.screened,
                state_sigma: training.state_sigma,
                state_norm: training.state_norm,
                states: training.states,
                weights: training.weights,
                incidence: training.incidence,
                assume: training.assume,
                held_out_is: training.held_out_is,
                patience: training.patience,
                seed: training.seed,
            },
            optimization_of_file: self.optimizer.given(),
            optimization: self.optimizer,
            first_rate: first.sample_rate,
            first_steps: first.steps,
            first_alike,
            first_given,
            model: training.model,
            declared_public: training.declared_public,
            secrets: SecretsRequest {
                records: secrets.records,
                records_before: secrets.records_before,
                redaction: RedactionArgs {
                    gamma: secrets.gamma,
                    labels: secrets.labels,
                    confidence: secrets.confidence,
                    joint_miss: secrets.joint_miss,
                    ..RedactionArgs::default()
                },
                prior: secrets.prior,
                candidates: secrets.candidates,
                canaries: secrets.canaries,
                canary_copies: secrets.canary_copies,
                everything_private: secrets.everything_private,
            },
        }
    }
}
