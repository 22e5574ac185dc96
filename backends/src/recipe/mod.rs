//! Recipes: which optimiser sees which records. The plan states what each recipe releases.

mod schedule;

pub use schedule::Schedule;
pub(crate) use schedule::{Constants, Stage, StepPosition, Work, estimates};

use crate::error::{Error, Result, below_one};
use crate::model::{Head, Model, in_range};
use crate::privacy::clip::{Clip, Clipping};
use crate::trainer::Precision;
use crate::trainer::dropout::Dropout;
use crate::trainer::learning_rate::{Decay, LearningRates};
use crate::trainer::optimizer::OptimizerSpec;
use reticent_accounting::training::{FirstPhase, Recipe, Run, StepDecay, TrainingPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How noisy steps clip and move weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrivateOptions {
    /// C.
    pub clipping_norm: f64,
    /// How C falls, in steps of the (last) phase with noise; it stays where this is absent. In the first phase of `jft`
    /// it falls after as many epochs as in the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_decay: Option<StepDecay>,
    /// How C is kept.
    pub clipping: Clipping,
    /// How often each record is read in a step, with dropout masks of its own each time; the mean of the gradients is
    /// clipped as one. Source: De et al. 2022, augmentation multiplicity.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub augmentations: u32,
    /// How weights move.
    pub optimizer: OptimizerSpec,
}

impl PrivateOptions {
    /// Returns flat clipping to a norm that stays, of records that are read once in a step.
    #[must_use]
    pub const fn new(clipping_norm: f64, optimizer: OptimizerSpec) -> Self {
        Self {
            clipping_norm,
            clip_decay: None,
            clipping: Clipping::Flat,
            augmentations: 1,
            optimizer,
        }
    }
}

pub(crate) const fn once() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) const fn is_once(augmentations: &u32) -> bool {
    *augmentations == 1
}

/// The most augmentations of a record in a step.
const MOST_AUGMENTATIONS: usize = 1024;

/// A training run: its plan, and what the plan leaves open because no promise depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainOptions {
    /// What is run and accounted for.
    pub plan: TrainingPlan,
    /// Records per ordinary step.
    pub batch_size: u64,
    /// How ordinary steps move weights.
    pub optimizer: OptimizerSpec,
    /// Noisy steps; needed by every recipe but `sgd`.
    pub private: Option<PrivateOptions>,
    /// `sdp`: to which a released h, and c, is clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_norm: Option<f64>,
    /// `jft`: the numbers of the records that someone has screened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screened: Option<Vec<u32>>,
    /// In what precision training passes compute their products.
    #[serde(default, skip_serializing_if = "Precision::is_single")]
    pub precision: Precision,
    /// What training passes drop.
    #[serde(default, skip_serializing_if = "Dropout::is_none")]
    pub dropout: Dropout,
    /// Share that a moving average of the weights keeps of itself at each step of the last phase, in [0, 1); the average
    /// is what the run ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// How the learning rates rise and fall, over each phase's epochs.
    pub learning_rates: LearningRates,
    /// Seed of the starting weights, which depend on nothing else.
    pub initial_seed: u64,
    /// A fixed seed for noise, batches and shuffles: repeatable, and therefore not private; the
    /// plan says so.
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
    /// Returns the options of a plan without a fixed seed, private side, dropout and average.
    #[must_use]
    pub fn new(plan: TrainingPlan, batch_size: u64, optimizer: OptimizerSpec) -> Self {
        Self {
            plan,
            batch_size,
            optimizer,
            private: None,
            state_norm: None,
            screened: None,
            precision: Precision::Single,
            dropout: Dropout::NONE,
            average: None,
            learning_rates: LearningRates::default(),
            initial_seed: 0,
            seed: None,
        }
    }

    /// Sets the seed, and that the plan says so.
    #[must_use]
    pub fn seeded(mut self, seed: Option<u64>) -> Self {
        self.plan.seeded = seed.is_some();
        self.seed = seed;
        self
    }

    /// Returns the recipe of the plan.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for a plan that is known only by its mechanism.
    pub fn recipe(&self) -> Result<Recipe> {
        let recipe = self.plan.run.recipe();
        recipe.ok_or_else(|| Error::Unsuitable("a mechanism alone can't be trained".into()))
    }

    /// Checks all options.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`], or [`Error::Unsuitable`] for a plan that can't be trained or that contradicts the
    /// other options.
    pub fn validated(self) -> Result<Self> {
        self.plan.run.trainable()?;
        let recipe = self.recipe()?;
        positive("batch size", self.batch_size, 1 << 24, "[1, 16777216]")?;
        self.optimizer.validated()?;
        if matches!(self.optimizer, OptimizerSpec::AdamBc { .. }) {
            return Err(Error::Unsuitable(
                "ordinary steps have no noise to take off Adam's second moment".into(),
            ));
        }
        if let Some(share) = self.average {
            below_one("average of weights", share)?;
        }
        self.dropout.validated()?;
        match &self.private {
            None if recipe.is_private() => {
                return Err(Error::Unsuitable(format!(
                    "recipe {recipe} needs the constants of its private side"
                )));
            }
            None => {}
            Some(p) => {
                Clip::new(p.clipping_norm, 0.0)?.by(p.clipping)?;
                p.optimizer.validated()?;
                let (count, range) = (u64::from(p.augmentations), "[1, 1024]");
                positive("augmentations", count, MOST_AUGMENTATIONS, range)?;
                if count > 1 && recipe == Recipe::Sdp {
                    return Err(Error::Unsuitable(
                        "recipe sdp reads each record once in a step, got several augmentations"
                            .into(),
                    ));
                }
            }
        }
        if (self.learning_rates.decay == Decay::Plateau) != self.plan.rates_by_public_text.is_some()
        {
            return Err(Error::Unsuitable(
                "the plan must say whether held-out text decides how learning rates fall".into(),
            ));
        }
        if recipe == Recipe::Sdp && !self.precision.is_single() {
            return Err(Error::Unsuitable(format!(
                "precision must be single for recipe sdp, whose states pass the host in f32, got {}",
                self.precision
            )));
        }
        if self.plan.seeded != self.seed.is_some() {
            return Err(Error::Unsuitable(
                "the plan must say whether a fixed seed draws batches and noise".into(),
            ));
        }
        self.extras(recipe)?;
        Ok(self)
    }

    /// Checks that several augmentations of a record can differ in this model: by the tokens that an encoder masks, or by
    /// what the model drops.
    pub(crate) fn augmented(&self, model: &Model) -> Result<()> {
        let alike = self.dropout.of(model).is_none() && model.head() != Head::MaskedToken;
        if alike && self.private.is_some_and(|p| p.augmentations > 1) {
            return Err(Error::Unsuitable(
                "augmentations of a record differ in what dropout leaves out: they need dropout"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Checks the options that only some recipes have: present where needed, absent elsewhere.
    fn extras(&self, recipe: Recipe) -> Result<()> {
        let belongs = |what: &str, needed: bool, given: bool| match (needed, given) {
            (true, false) => Err(Error::Unsuitable(format!("recipe {recipe} needs {what}"))),
            (false, true) => Err(Error::Unsuitable(format!(
                "{what} does not belong to this run of recipe {recipe}"
            ))),
            _ => Ok(()),
        };
        let states = recipe == Recipe::Sdp;
        belongs("the norm of its states", states, self.state_norm.is_some())?;
        if let Some(norm) = self.state_norm {
            Clip::new(norm, 0.0)?;
        }
        let screened = match &self.plan.run {
            Run::Jft {
                first: FirstPhase::Ordinary { screened, .. },
                ..
            } => *screened,
            _ => false,
        };
        belongs("screened records", screened, self.screened.is_some())
    }
}
