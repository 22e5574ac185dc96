//! Recipes: which records which optimiser sees, with which noise, as data.

mod phases;
mod schedule;

pub(crate) use phases::{estimates, mechanism};
pub use schedule::Schedule;
pub(crate) use schedule::{Constants, Place, Stage, Work};

use crate::clip::{Clip, Clipping};
use crate::dropout::Dropout;
use crate::error::{Error, Result};
use crate::learning_rate::LearningRates;
use crate::model::in_range;
use crate::optimizer::OptimizerSpec;
use crate::trainer::Precision;
use reticent_accounting::{MissRate, NoiseMultiplier};
use serde::{Deserialize, Serialize};

/// A training method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recipe {
    /// Ordinary optimisation of every record: no protection (ε infinite).
    Sgd,
    /// DP-SGD on every record.
    Dpsgd,
    /// Confidentially redacted training: by epochs, ordinary optimisation of the public side,
    /// then DP-SGD on the private side. Source: Zhao et al. 2022, Algorithm 1.
    Crt,
    /// Selective DP-SGD, for recurrent models: sensitive tokens by clipped and noised
    /// gradients and states, the others by ordinary ones. Source: Shi et al. 2021.
    Sdp,
    /// Just Fine-tune Twice: redacted text first, the original by DP-SGD second.
    /// Source: Shi et al. 2022.
    Jft,
    /// Secret protection: DP-SGD with a sampling rate for every record. Source: Ganesh et
    /// al. 2025 (Hush!), Algorithm 2.
    Protect,
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sgd => "sgd",
            Self::Dpsgd => "dpsgd",
            Self::Crt => "crt",
            Self::Sdp => "sdp",
            Self::Jft => "jft",
            Self::Protect => "protect",
        })
    }
}

/// The constants of the private side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateOptions {
    /// σ.
    pub noise_multiplier: f64,
    /// C.
    pub clipping_norm: f64,
    /// How C is kept.
    #[serde(default)]
    pub clipping: Clipping,
    /// Expected records per step; the sampling rate is this over |D_pri|.
    pub batch_size: u64,
    /// How weights move.
    pub optimizer: OptimizerSpec,
}

/// How `sdp` releases the state (h and c, each by itself) that leaves a sensitive segment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateOptions {
    /// Noise standard deviation over `norm`.
    pub noise_multiplier: f64,
    /// To which h, and c, is clipped.
    pub norm: f64,
}

/// The first fine-tuning of `jft`, on redacted text, with `<MASK>` out of the loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstPhase {
    /// Passes over the redacted text (in expectation, with noise).
    pub epochs: u64,
    /// What it uses, and how.
    pub kind: FirstPhaseKind,
}

/// What `jft` does with redacted text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FirstPhaseKind {
    /// An ordinary optimiser on all of it.
    Direct,
    /// An ordinary optimiser on records in which someone looked for misses and found none.
    Screened {
        /// Their numbers in the training set.
        records: Vec<u32>,
    },
    /// A private optimiser with little noise, sized by the share of tokens the detector misses.
    LightNoise {
        /// σ of this phase.
        noise_multiplier: f64,
        /// Expected records per step.
        batch_size: u64,
        /// Both ends of the interval of the miss rate per token.
        miss: (MissRate, MissRate),
    },
    /// The same for a detector of recall 0: the miss rate is the share of sensitive tokens.
    ConservativeLightNoise {
        /// σ of this phase.
        noise_multiplier: f64,
        /// Expected records per step.
        batch_size: u64,
    },
}

/// Early stopping: the last phase ends when the held-out text has not become likelier for so
/// many epochs.
///
/// Private steps are counted as planned, not as taken: when to stop is then a function of what
/// was released anyway. Unless the held-out text is public, the run promises nothing: its
/// length tells of that text, and no noise covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Epochs without gain after which it stops.
    pub patience: u64,
    /// Whether the held-out text is declared public: nobody's promise covers it.
    pub public: bool,
}

/// What to train, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainOptions {
    /// The method.
    pub recipe: Recipe,
    /// Passes over the data (in expectation, on the private side).
    pub epochs: u64,
    /// Passes over the public side within an epoch of `crt`; they cost no privacy.
    pub public_passes: u64,
    /// Records per ordinary step.
    pub batch_size: u64,
    /// How ordinary steps move weights.
    pub optimizer: OptimizerSpec,
    /// The private side; needed by every recipe but `sgd`.
    pub private: Option<PrivateOptions>,
    /// The first phase of `jft`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_phase: Option<FirstPhase>,
    /// The states of `sdp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<StateOptions>,
    /// In what precision training passes compute their products.
    #[serde(default, skip_serializing_if = "Precision::is_single")]
    pub precision: Precision,
    /// What training passes drop.
    #[serde(default, skip_serializing_if = "Dropout::is_none")]
    pub dropout: Dropout,
    /// How the learning rates rise and fall, over each phase's epochs.
    pub learning_rates: LearningRates,
    /// Whether the last phase may stop before its epochs are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// Seed of the starting weights, which depend on nothing else.
    pub initial_seed: u64,
    /// A fixed seed for noise, batches and shuffles: repeatable, and therefore not private.
    pub seed: Option<u64>,
}

fn positive(what: &'static str, value: u64, most: usize, range: &'static str) -> Result<()> {
    in_range(
        what,
        usize::try_from(value).unwrap_or(usize::MAX),
        1,
        most,
        range,
    )
}

impl TrainOptions {
    /// Checks every number.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], or [`Error::Unsuitable`] when a private recipe has no private side.
    pub fn validated(self) -> Result<Self> {
        positive("epochs", self.epochs, 1_000_000, "[1, 1000000]")?;
        positive("public passes", self.public_passes, 1_000, "[1, 1000]")?;
        positive("batch size", self.batch_size, 1 << 24, "[1, 16777216]")?;
        self.optimizer.validated()?;
        self.dropout.validated()?;
        if let Some(stopping) = self.stopping {
            positive("patience", stopping.patience, 1_000_000, "[1, 1000000]")?;
        }
        match (&self.private, self.recipe) {
            (None, Recipe::Sgd) => {}
            (None, recipe) => {
                return Err(Error::Unsuitable(format!(
                    "recipe {recipe} needs the constants of its private side"
                )));
            }
            (Some(p), _) => {
                NoiseMultiplier::new(p.noise_multiplier)?;
                Clip::new(p.clipping_norm, 0.0)?.by(p.clipping)?;
                positive("private batch size", p.batch_size, 1 << 24, "[1, 16777216]")?;
                p.optimizer.validated()?;
            }
        }
        if self.recipe == Recipe::Sdp && !self.precision.is_single() {
            return Err(Error::Unsuitable(format!(
                "precision must be single for recipe sdp, whose states pass the host in f32, got {}",
                self.precision
            )));
        }
        self.extras()?;
        Ok(self)
    }

    /// What one recipe alone needs, and the others do not know.
    fn extras(&self) -> Result<()> {
        let belongs = |what: &str, owner: Recipe, given: bool| match (self.recipe == owner, given) {
            (true, false) => Err(Error::Unsuitable(format!("recipe {owner} needs {what}"))),
            (false, true) => Err(Error::Unsuitable(format!(
                "{what} belongs to recipe {owner}, got {}",
                self.recipe
            ))),
            _ => Ok(()),
        };
        belongs("a first phase", Recipe::Jft, self.first_phase.is_some())?;
        belongs(
            "constants of its states",
            Recipe::Sdp,
            self.states.is_some(),
        )?;
        if let Some(states) = self.states {
            NoiseMultiplier::new(states.noise_multiplier)?;
            Clip::new(states.norm, 0.0)?;
        }
        let Some(first) = &self.first_phase else {
            return Ok(());
        };
        positive(
            "epochs of the first phase",
            first.epochs,
            1_000_000,
            "[1, 1000000]",
        )?;
        if let FirstPhaseKind::LightNoise {
            noise_multiplier,
            batch_size,
            ..
        }
        | FirstPhaseKind::ConservativeLightNoise {
            noise_multiplier,
            batch_size,
        } = &first.kind
        {
            NoiseMultiplier::new(*noise_multiplier)?;
            positive(
                "batch size of the first phase",
                *batch_size,
                1 << 24,
                "[1, 16777216]",
            )?;
        }
        Ok(())
    }
}
