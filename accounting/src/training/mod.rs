//! Training runs before, during and after their execution, described by one type whatever the source of the
//! description.
//!
//! A [`TrainingPlan`] is filled from flags, a plan file, a prepared corpus, the manifest of a checkpoint or a mechanism
//! file; each value records which. [`TrainingPlan::mechanism`] is the only place where a recipe becomes a
//! [`Mechanism`], so the promise made before a run, the run itself and the manifest read back afterwards can't differ.

mod completed;
mod document;
mod guarantees;
mod inputs;
mod protected;
mod recipe;
mod secrets;
mod stated;

pub use crate::guarantee::Subject;
pub use completed::CompletedRun;
pub use document::{Document, Planted, read};
pub use recipe::{
    FirstPhase, MOST_DRAWN, NoisySteps, Recipe, Run, SelectiveSteps, StepDecay, WeightedSteps,
    dominating_rates, released_states,
};
pub use secrets::{Canaries, LabelledRates, Secrets};
pub use stated::{Provenance, Stated};

use crate::guarantee::calibrate::{Target, calibrate_noise};
use crate::loss::Query;
use crate::mechanism::Mechanism;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Delta, Epsilon, NoiseMultiplier, Steps, Tolerance, UnitName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What no promise covers, whatever runs.
pub const UNCOVERED: &[&str] = &[
    "settings, steps, checkpoints or seeds chosen by looking at results on the same data (tuning): compose all runs, or \
     account for the choice",
    "early stopping by results on private text, whether or not they are published",
    "metrics and loss curves computed on private text, if they are published",
    "a tokenizer, vocabulary, policy, detector or normalisation fitted on private text",
    "reports that say who was missed, and other functions of the private text, if they are published",
    "other models trained on the same text, unless their runs are composed with this one, and what is known from elsewhere",
    "batches that are drawn otherwise than stated, or divided by what was drawn; norms in half precision",
    "floating-point noise: the analysis is of real numbers; and keys or seeds that get known",
];

/// What a promise to a secret leaves out, where records have weights.
const PREPARATION: &str = "preparation: the promise is about the records that are trained on; where duplicates are removed, \
     another secret may leave other records";

/// What a promise to the secrets of an incidence leaves out.
pub const INCIDENCE: &str =
    "the incidence: a secret that it does not name, or a record of one that it leaves out";

/// Returns what no promise of a run of this recipe covers; `draws`: where its preparation holds documents out or plants
/// canaries.
#[must_use]
pub fn uncovered(recipe: Option<Recipe>, draws: bool) -> Vec<&'static str> {
    let mut list = UNCOVERED.to_vec();
    if recipe.is_some_and(Recipe::is_private) {
        list.push(NUMBER_OF_RECORDS);
        if draws {
            list.push(CHOICE_OF_RECORDS);
        }
    }
    if recipe == Some(Recipe::Protect) {
        list.extend([INCIDENCE, PREPARATION]);
    }
    list
}

/// What a promise of a record's presence leaves out, wherever steps are divided by their expected batch.
pub const NUMBER_OF_RECORDS: &str = "the number of records: the divisor of a step, and with it the scale of the noise, \
     follows from it, so it counts as public; present or absent holds among runs with the same divisor, contribution \
     zeroed or not (zero-out) without that condition";

/// What a promise of a record's presence leaves out, where a preparation holds documents out or plants canaries.
pub const CHOICE_OF_RECORDS: &str = "the choice of records: which documents are held out, and where canaries are planted, is \
     drawn over all documents; present or absent is of a record that is trained on, while that choice stays";

/// Why a seeded run has no promise.
pub(crate) const SEEDED: &str = "a fixed seed drew batches and noise";

/// Why a run whose vocabulary leaks has no promise.
pub(crate) const PUBLISHED_VOCABULARY: &str =
    "the vocabulary was built from private text and is published with the model";

/// Why a stage without bounded stability leaves no promise.
const UNBOUNDED: &str = "deduplication has no bounded stability: one record of the input can change any \
                         number of training records";

/// Why a run without noise has no promise.
const NOISELESS: &str = "no noise was added";

/// Early stopping on held-out text. Private steps count as planned; unless the text is declared
/// public, its length tells of it and nothing is promised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Epochs without gain after which the run stops.
    pub patience: Stated<u64>,
    /// Whether the held-out text is declared public.
    pub public: Stated<bool>,
}

/// Records on each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// |D_pub|.
    pub public: u64,
    /// |D_pri|, points that are only a mask included.
    pub private: u64,
}

/// A model of others that training begins from. No promise covers the text behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "BaseModel")]
pub enum Base {
    /// Nothing is stated of its text.
    Unstated,
    /// All text behind it was declared public.
    DeclaredPublic,
    /// The same of a run of ours, whose manifest was set aside.
    DeclaredPublicRun,
    /// The same of a run of ours that protected nothing, whose manifest is missing: whether it met canaries is not known.
    DeclaredPublicUnknownRun,
}

impl Base {
    /// Returns what a promise leaves out.
    const fn not_covered(self) -> &'static str {
        match self {
            Self::Unstated => {
                "the base model: the promise is of this training, not of the base's own"
            }
            Self::DeclaredPublic => {
                "the base model: all text behind it was declared public; nothing is promised to a record in that text"
            }
            Self::DeclaredPublicRun => {
                "the base model, declared public by the user although it has a manifest: all text behind it was declared \
                 public; nothing is promised to a record in that text"
            }
            Self::DeclaredPublicUnknownRun => {
                "the base model, which audit train wrote and whose manifest.json is missing: all text behind it was \
                 declared public; nothing is promised to a record in that text"
            }
        }
    }
}

/// What a promise leaves out that rests on held-out text.
const HELD_OUT_TEXT: &str = "the held-out text by whose loss training stops or its learning rates fall: it was declared public, \
     without which nothing is promised; nothing is promised to a record in that text";

/// Returns what a promise leaves out of the text around a run: that behind its base model, and held-out text that was
/// declared public.
pub fn outside_text(
    base: Option<Base>,
    held_out_public: bool,
) -> impl Iterator<Item = &'static str> {
    let base = base.map(Base::not_covered);
    let held_out = held_out_public.then_some(HELD_OUT_TEXT);
    base.into_iter().chain(held_out)
}

/// A training run.
///
/// ```
/// use reticent_accounting::training::{NoisySteps, Run, TrainingPlan};
/// use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps, UnitName};
/// let private = NoisySteps::poisson(1.1, 0.01, 10)?;
/// let plan = TrainingPlan::new(Run::Dpsgd { private }, UnitName::new("turn")?);
/// let (sigma, rate) = (NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?);
/// assert_eq!(plan.mechanism(), Mechanism::dp_sgd(sigma, rate, Steps::new(1000)));
/// // A fixed seed makes noise and batches known: nothing is promised.
/// let seeded = TrainingPlan { seeded: true, ..plan };
/// assert!(seeded.unprotected().is_some());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingPlan {
    /// The recipe and its constants.
    pub run: Run,
    /// What one record is.
    pub unit: Stated<UnitName>,
    /// Records on each side, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Stated<Sizes>>,
    /// The δ of every promise.
    pub delta: Stated<Delta>,
    /// The run that this one goes on from: both compose, as if on the same records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Stated<CompletedRun>>,
    /// The model of others that it begins from, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Whether the published vocabulary was built from private text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub vocabulary_leaks: bool,
    /// Whether a stage of the preparation has no bounded stability: one record of the input may
    /// change any number of training records, so no guarantee passes through it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unbounded_stability: bool,
    /// Whether what is known of the records is taken from a prepared folder that no owner's key authenticated: whoever could
    /// write the folder may have changed it consistently.
    pub unauthenticated_corpus: bool,
    /// Whether records have classes. No policy redacts them, so that what redaction promises is promised between records of
    /// one class.
    #[serde(default, skip_serializing_if = "is_false")]
    pub labelled: bool,
    /// Early stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// Whether the held-out text is declared public by whose loss the learning rates fall; absent where none decides that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates_by_public_text: Option<Stated<bool>>,
    /// Whether a fixed seed draws batches and noise.
    #[serde(default, skip_serializing_if = "is_false")]
    pub seeded: bool,
    /// Whether the noise that the recipe states is left out: for weights without noise, and to show
    /// what an audit finds where it is missing. Nothing is promised then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noiseless: bool,
    /// What is to be kept secret.
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub secrets: Secrets,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl TrainingPlan {
    /// Returns the default δ of a promise: 1e-6, or 0.1/N for N records if that is smaller.
    ///
    /// ```
    /// use reticent_accounting::training::TrainingPlan;
    /// assert!((TrainingPlan::default_delta(None).get() - 1e-6).abs() < 1e-18);
    /// assert!((TrainingPlan::default_delta(Some(4_000_000)).get() - 2.5e-8).abs() < 1e-18);
    /// ```
    #[must_use]
    pub fn default_delta(records: Option<u64>) -> Delta {
        let share = records.map_or(1.0, |n| 0.1 / n.max(1) as f64);
        Delta::clamped(share.min(1e-6))
    }

    /// Creates a plan with nothing else known: the default δ, not seeded, no secrets.
    #[must_use]
    pub fn new(run: Run, unit: UnitName) -> Self {
        Self {
            run,
            unit: Stated::given(unit, "unit"),
            sizes: None,
            delta: Stated::assumed(Self::default_delta(None)),
            continues: None,
            base: None,
            vocabulary_leaks: false,
            unbounded_stability: false,
            unauthenticated_corpus: false,
            labelled: false,
            stopping: None,
            rates_by_public_text: None,
            seeded: false,
            noiseless: false,
            secrets: Secrets::default(),
        }
    }

    /// Returns the mechanism to account for: the earlier run, what the recipe releases, and every part that leaves no
    /// promise.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        let mut parts = Vec::new();
        if self.seeded {
            parts.push(Mechanism::open(SEEDED));
        }
        if self.vocabulary_leaks {
            parts.push(Mechanism::open(PUBLISHED_VOCABULARY));
        }
        if self.unbounded_stability {
            parts.push(Mechanism::open(UNBOUNDED));
        }
        let earlier = self.continues.as_ref();
        let recipe = self.run.recipe();
        parts.extend(earlier.map(|earlier| earlier.carried(recipe)));
        if self.noiseless {
            parts.push(Mechanism::open(NOISELESS));
        } else {
            parts.extend(self.run.mechanisms());
        }
        if self.stopping.as_ref().is_some_and(|rule| !*rule.public) {
            parts.push(Mechanism::open(
                "when to stop was decided by the loss of held-out text that is not public",
            ));
        }
        if self
            .rates_by_public_text
            .as_ref()
            .is_some_and(|public| !**public)
        {
            parts.push(Mechanism::open(
                "how learning rates fell was decided by the loss of held-out text that is not public",
            ));
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => Mechanism::Sequence { parts },
        }
    }

    /// Returns this run as a completed one that released `mechanism` and in which `canary_records` records differ if a
    /// canary does, where that number is known.
    #[must_use]
    pub fn completed(&self, mechanism: Mechanism, canary_records: Option<u64>) -> CompletedRun {
        CompletedRun {
            recipe: self.run.recipe(),
            mechanism,
            secret_records: self.secret_records(),
            canary_records: canary_records
                .zip(self.earlier_canary_records())
                .map(|(a, b)| a.max(b)),
            everything_private: self.everything_private(),
            labelled: self.has_classes(),
            authenticated: false,
            base: self.base(),
            held_out_public: self.held_out_public(),
        }
    }

    /// Returns the most records that differ in an earlier run if a canary does: 0 if there was none, `None` if it is
    /// unknown.
    #[must_use]
    pub fn earlier_canary_records(&self) -> Option<u64> {
        match (&self.continues, self.base) {
            (Some(earlier), _) => earlier.canary_records,
            (None, Some(Base::DeclaredPublicUnknownRun)) => None,
            (None, _) => Some(0),
        }
    }

    /// Whether every record is trained on with noise, in the runs that it continues too.
    fn everything_private(&self) -> bool {
        let before = self.continues.as_ref();
        self.secrets.everything_private && before.is_none_or(|run| run.narrower().is_none())
    }

    /// As [`CompletedRun::narrower`], with the runs that it continues.
    #[must_use]
    pub fn narrower(&self) -> Option<Recipe> {
        completed::narrower(self.run.recipe(), self.everything_private())
    }

    /// Whether its records have classes, or those of a run that it goes on from.
    #[must_use]
    pub fn has_classes(&self) -> bool {
        self.labelled || self.continues.as_ref().is_some_and(|run| run.labelled)
    }

    /// Returns the base model that this run, or one of the runs that it continues, began from.
    #[must_use]
    pub fn base(&self) -> Option<Base> {
        self.base
            .or_else(|| self.continues.as_ref().and_then(|run| run.base))
    }

    /// Whether this run, or one of the runs that it continues, stopped or lowered its learning rates by the loss of held-out
    /// text that was declared public. If that text was private, nothing is promised.
    #[must_use]
    pub fn held_out_public(&self) -> bool {
        let stopping = self.stopping.as_ref().is_some_and(|rule| *rule.public);
        let rates = (self.rates_by_public_text.as_ref()).is_some_and(|public| **public);
        let before = self.continues.as_ref();
        stopping || rates || before.is_some_and(|run| run.held_out_public)
    }

    /// Returns why nothing is promised, if a part of the run protects nothing.
    #[must_use]
    pub fn unprotected(&self) -> Option<String> {
        fn find(mechanism: &Mechanism) -> Option<&str> {
            match mechanism {
                Mechanism::NonPrivate { why } => Some(why),
                Mechanism::Sequence { parts } => parts.iter().find_map(find),
                Mechanism::Repeat { each, .. } => find(each),
                _ => None,
            }
        }
        find(&self.mechanism()).map(str::to_owned)
    }

    /// Returns the part of the plan that a checkpoint may publish: without values measured in the private text, except
    /// the sampling rate and the other numbers that the mechanism needs.
    #[must_use]
    pub fn published(&self) -> Self {
        Self {
            sizes: None,
            secrets: self.secrets.published(),
            ..self.clone()
        }
    }

    /// Returns the number of records on both sides, where it is known.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        self.sizes
            .as_ref()
            .map(|sizes| sizes.public.saturating_add(sizes.private))
    }

    /// Returns the smallest σ, to 1e-4, with which the noisy steps of the run keep ε at δ for the replacement of one
    /// record. Anything else that the run releases isn't included.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a recipe that releases more than one run of DP-SGD, and the errors of
    /// [`calibrate_noise`].
    pub fn calibrated(&self, epsilon: Epsilon, delta: Delta) -> Result<NoiseMultiplier> {
        let second = matches!(
            self.run,
            Run::Jft {
                first: FirstPhase::LightNoise { .. },
                ..
            }
        );
        let noisy = match self.run.noisy() {
            Some(noisy) if !second => noisy.clone(),
            _ => {
                return Err(Error::Unsupported {
                    what: "noise from an epsilon for this recipe".into(),
                    why:
                        "what it releases is no run of DP-SGD alone; give the noise, and see what \
                          it promises"
                            .into(),
                });
            }
        };
        let target = Target::Epsilon {
            query: Query::single(Neighbours::Replace),
            epsilon,
            delta,
        };
        let run = |sigma| noisy.with_noise(sigma).mechanism();
        Ok(calibrate_noise(run, target, Tolerance::new(1e-4)?)?.answer)
    }
}

/// Returns T for `epochs` epochs of n steps, rounded up: a partial epoch counts step by step.
///
/// # Errors
/// Returns [`Error::OutOfRange`] if `epochs` isn't positive or amounts to more than 2^53 steps.
pub fn steps_of_epochs(epochs: f64, steps_per_epoch: u64) -> Result<Steps> {
    let steps = (epochs * steps_per_epoch as f64).ceil();
    if epochs > 0.0 && steps <= (1u64 << 53) as f64 {
        return Ok(Steps::new(steps as u64));
    }
    Err(Error::out_of_range(
        "epochs",
        "(0, inf), of at most 2^53 steps",
        epochs,
    ))
}
