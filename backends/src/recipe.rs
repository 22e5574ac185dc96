//! Recipes: which records which optimiser sees, with which noise, as data.

use crate::clip::{Clip, Clipping};
use crate::error::{Error, Result};
use crate::manifest::Phase;
use crate::optimizer::OptimizerSpec;
use crate::trainer::{PrivateRecords, PublicRecords, all_private, split, unprotected};
use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps};
use reticent_corpus::TrainingSet;
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
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sgd => "sgd",
            Self::Dpsgd => "dpsgd",
            Self::Crt => "crt",
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
    /// Whether the learning rates fall linearly to zero over the epochs.
    pub decay: bool,
    /// Seed of the starting weights, which depend on nothing else.
    pub initial_seed: u64,
    /// A fixed seed for noise, batches and shuffles: repeatable, and therefore not private.
    pub seed: Option<u64>,
}

fn positive(what: &'static str, value: u64, most: u64, range: &'static str) -> Result<()> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(Error::OutOfRange {
            what,
            range,
            value: value as f64,
        })
    }
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
        Ok(self)
    }
}

/// A recipe laid out on a training set: the records of each side and the steps of each epoch.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(crate) public: PublicRecords,
    pub(crate) private: Option<(PrivateRecords, SamplingRate)>,
    /// Ordinary steps of an epoch, all passes together.
    pub(crate) public_steps: u64,
    pub(crate) public_passes: u64,
    pub(crate) private_steps: u64,
    pub(crate) epochs: u64,
    protected: bool,
}

impl Schedule {
    /// Lays options out on a training set.
    ///
    /// # Errors
    /// An empty side that the recipe needs, or a private batch larger than the private side.
    pub fn new(options: &TrainOptions, set: &TrainingSet) -> Result<Self> {
        let nothing = TrainingSet {
            unit: set.unit,
            records: Vec::new(),
            mask_only: 0,
        };
        let (public, private) = match options.recipe {
            Recipe::Sgd => (unprotected(set), None),
            Recipe::Dpsgd => (split(&nothing).0, Some(all_private(set))),
            Recipe::Crt => {
                let (public, private) = split(set);
                (public, Some(private))
            }
        };
        if public.is_empty() && private.as_ref().is_none_or(PrivateRecords::is_empty) {
            return Err(Error::Unsuitable(
                "the training set has no record with loss".into(),
            ));
        }
        let private = private.filter(|p| p.size() > 0);
        let private = match (private, &options.private) {
            (Some(records), Some(constants)) => {
                let rate = constants.batch_size as f64 / records.size() as f64;
                if rate > 1.0 {
                    return Err(Error::Unsuitable(format!(
                        "private batch size must lie in [1, {}] (the records of the private side), got {}",
                        records.size(),
                        constants.batch_size
                    )));
                }
                Some((records, SamplingRate::new(rate)?))
            }
            (None, _) | (Some(_), None) => None,
        };
        let private_steps = private
            .as_ref()
            .map_or(0, |(_, q)| (1.0 / q.get()).round().max(1.0) as u64);
        let public_passes = if options.recipe == Recipe::Crt {
            options.public_passes
        } else {
            1
        };
        Ok(Self {
            public_steps: public_passes * (public.len() as u64).div_ceil(options.batch_size),
            public_passes,
            public,
            private,
            private_steps,
            epochs: options.epochs,
            protected: options.recipe != Recipe::Sgd,
        })
    }

    /// Steps of the whole run, both sides.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.epochs * (self.public_steps + self.private_steps)
    }

    /// Private steps of the whole run.
    #[must_use]
    pub const fn planned_private_steps(&self) -> u64 {
        self.epochs * self.private_steps
    }

    /// q, if there is a private side.
    #[must_use]
    pub fn sampling_rate(&self) -> Option<SamplingRate> {
        self.private.as_ref().map(|(_, q)| *q)
    }

    /// What ran, given the private steps the ledger counts.
    ///
    /// # Errors
    /// Never for validated options.
    pub fn phases(
        &self,
        options: &TrainOptions,
        private_steps: u64,
        margin: f64,
    ) -> Result<Vec<Phase>> {
        let mut phases = Vec::new();
        if !self.public.is_empty() {
            let steps = self.epochs * self.public_steps;
            let (batch_size, optimizer) = (options.batch_size, options.optimizer);
            phases.push(if self.protected {
                Phase::Public {
                    steps,
                    batch_size,
                    optimizer,
                }
            } else {
                Phase::Unprotected {
                    steps,
                    batch_size,
                    optimizer,
                }
            });
        }
        if let (Some((_, rate)), Some(p)) = (&self.private, &options.private) {
            phases.push(Phase::Private {
                steps: private_steps,
                noise_multiplier: p.noise_multiplier,
                sampling_rate: rate.get(),
                expected_batch: p.batch_size as f64,
                clipping_norm: p.clipping_norm,
                clipping: p.clipping,
                clipping_margin: margin,
                optimizer: p.optimizer,
            });
        }
        Ok(phases)
    }

    /// The mechanism of these phases, for the accountant.
    ///
    /// # Errors
    /// Never for validated options.
    pub fn mechanism(phases: &[Phase]) -> Result<Mechanism> {
        let mut parts = Vec::new();
        for phase in phases {
            match phase {
                // sees no record that differs between neighbours, as long as both policies together miss nothing
                Phase::Public { .. } => {}
                Phase::Unprotected { .. } => {
                    parts.push(Mechanism::NonPrivate {
                        why: "records were trained on without clipping or noise".into(),
                    });
                }
                Phase::Private {
                    steps,
                    noise_multiplier,
                    sampling_rate,
                    ..
                } => parts.push(Mechanism::dp_sgd(
                    NoiseMultiplier::new(*noise_multiplier)?,
                    SamplingRate::new(*sampling_rate)?,
                    Steps::new(*steps),
                )),
            }
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Mechanism::Sequence { parts },
        })
    }
}
