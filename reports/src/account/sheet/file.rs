//! `training.toml`: a training plan on paper.
//!
//! ```toml
//! schema = 1
//! recipe = "crt"               # dpsgd, crt, jft, sdp or sgd
//! unit = "turn"                # what one record is
//! delta = 1e-5                 # default 1e-5
//!
//! [data]
//! prepared = "prepared/"       # from `audit prepare`, relative to this file; or:
//! private = 60000              # records of the private side
//!
//! [training]
//! sigma = 1.1                  # noise deviation over clipping norm
//! batch_size = 256             # expected; or sample_rate = 0.004
//! epochs = 20                  # or steps = 4000
//!
//! [secrets]
//! records = 3                  # records that one secret is trained on in, at most
//! records_before = 20          # the same before deduplication
//! labels = "labels.jsonl"      # labelled secrets; or gamma = 0.1, joint_miss = 0.001
//! confidence = 0.95
//! prior = 1e-6                 # chance of guessing a secret beforehand
//! candidates = 1000000         # contents a secret can have
//! canaries = 10                # planted secrets
//! everything_private = false   # no conservative policy: every record is trained on with noise
//!
//! [first_phase]                # of jft
//! every_content_caught = true
//! length_and_kind_hidden = true
//! screening_ignores_secrets = true
//! # or, with noise: sigma, sample_rate, steps, and miss = [0.003, 0.012] for the paper's estimate
//! ```

use crate::account::cli::PlanArgs;
use anyhow::{Context, Result, bail};
use reticent_accounting::{
    Confidence, Delta, GroupSize, MissRate, NoiseMultiplier, Probability, SamplingRate, Tolerance,
    UnitName,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A training method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Recipe {
    /// Ordinary optimisation of every record: no protection.
    Sgd,
    /// DP-SGD on every record.
    Dpsgd,
    /// Noise only where the policy finds something sensitive; the rest in the open.
    Sdp,
    /// Confidentially redacted training.
    Crt,
    /// Just fine-tune twice.
    Jft,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFile {
    /// 1.
    pub schema: u32,
    /// The method.
    pub recipe: Recipe,
    /// What one record is.
    pub unit: Option<UnitName>,
    /// The slack of every promise.
    pub delta: Option<Delta>,
    /// Relative width of every number.
    pub tolerance: Option<Tolerance>,
    /// What is trained on.
    #[serde(default)]
    pub data: Data,
    /// How.
    #[serde(default)]
    pub training: Training,
    /// What is to be kept secret.
    #[serde(default)]
    pub secrets: Secrets,
    /// The first phase of `jft`.
    pub first_phase: Option<FirstPhase>,
}

/// What is trained on.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// A prepared corpus.
    pub prepared: Option<PathBuf>,
    /// Records of the private side.
    pub private: Option<u64>,
}

/// How.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// σ; not needed for `sgd`.
    pub sigma: Option<NoiseMultiplier>,
    /// Expected records per noisy step.
    pub batch_size: Option<u64>,
    /// q instead.
    pub sample_rate: Option<SamplingRate>,
    /// Noisy steps.
    pub steps: Option<u64>,
    /// Passes over the private side instead.
    pub epochs: Option<f64>,
}

/// What is to be kept secret.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Records that one secret is trained on in, at most.
    pub records: Option<GroupSize>,
    /// The same before deduplication, for comparison.
    pub records_before: Option<GroupSize>,
    /// Labelled secrets.
    pub labels: Option<PathBuf>,
    /// Confidence of the measured rates.
    pub confidence: Option<Confidence>,
    /// γ, assumed.
    pub gamma: Option<MissRate>,
    /// η, assumed.
    pub joint_miss: Option<MissRate>,
    /// Chance of guessing a secret beforehand.
    pub prior: Option<Probability>,
    /// Contents a secret can have.
    pub candidates: Option<u64>,
    /// Planted secrets.
    pub canaries: Option<u64>,
    /// Whether every record is trained on with noise.
    pub everything_private: Option<bool>,
}

/// The first phase of `jft`: without noise under three conditions, or with noise.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstPhase {
    /// Every secret, whatever its content, is redacted from end to end.
    #[serde(default)]
    pub every_content_caught: bool,
    /// The mask tells neither length nor kind.
    #[serde(default)]
    pub length_and_kind_hidden: bool,
    /// Screening does not depend on secrets.
    #[serde(default)]
    pub screening_ignores_secrets: bool,
    /// σ of a noised first phase.
    pub sigma: Option<NoiseMultiplier>,
    /// Its sampling rate.
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
    /// A file that can't be read, is no TOML, or holds a key or value that does not belong; the
    /// message shows line, key, value and allowed range.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut file: Self = toml::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_end()))
            .with_context(|| path.display().to_string())?;
        if file.schema != 1 {
            bail!("{}: schema must be 1, got {}", path.display(), file.schema);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let inside = [&mut file.data.prepared, &mut file.secrets.labels];
        for place in inside.into_iter().flatten() {
            *place = folder.join(&place);
        }
        Ok(file)
    }

    /// The file that arguments beside --prepared would be.
    #[must_use]
    pub fn of_arguments(folder: &Path, arguments: &PlanArgs) -> Self {
        let (run, question) = (&arguments.run, &arguments.question);
        let redaction = &question.redaction;
        Self {
            schema: 1,
            recipe: arguments.recipe.unwrap_or(Recipe::Crt),
            unit: question.unit.clone(),
            delta: question.delta,
            tolerance: question.tolerance,
            data: Data {
                prepared: Some(folder.to_owned()),
                private: None,
            },
            training: Training {
                sigma: run.sigma,
                batch_size: run.schedule.batch_size,
                sample_rate: run.schedule.sample_rate,
                steps: run.schedule.steps,
                epochs: run.schedule.epochs,
            },
            secrets: Secrets {
                records: question.group,
                labels: redaction.labels.clone(),
                confidence: redaction.confidence,
                gamma: redaction.gamma,
                // What one policy misses bounds what both do.
                joint_miss: redaction.joint_miss.or(redaction.conservative_miss),
                prior: question.prior,
                ..Secrets::default()
            },
            first_phase: None,
        }
    }
}
