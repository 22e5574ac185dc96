//! The manifest: what ran, stored beside the weights. Nothing in it is an unaccounted function of the private text.

use crate::error::{Error, Result};
use crate::model::{LoraSpec, TransformerConfig};
use crate::privacy::clip::Clipping;
use crate::recipe::{is_once, once};
use crate::trainer::Precision;
use crate::trainer::dropout::Dropout;
use crate::trainer::learning_rate::{Decay, LearningRates};
use crate::trainer::optimizer::OptimizerSpec;
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{
    Base, FirstPhase, NoisySteps, Planted, Recipe, Run, StepDecay, TrainingPlan,
};
use reticent_accounting::{
    Mechanism, MissRate, Neighbours, NoiseMultiplier, Sampling, SamplingRate,
};
use reticent_corpus::prepare::StageStability;
use reticent_corpus::tokenize::Origin;
use reticent_corpus::{LossOn, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One phase of training, as it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "side", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Phase {
    /// Ordinary optimisation of records on the public side.
    Public {
        /// Steps taken.
        steps: u64,
        /// Records per step.
        batch_size: u64,
        /// How weights moved.
        optimizer: OptimizerSpec,
    },
    /// Ordinary optimisation of records that hold secrets: no protection.
    Unprotected {
        /// Steps taken.
        steps: u64,
        /// Records per step.
        batch_size: u64,
        /// How weights moved.
        optimizer: OptimizerSpec,
    },
    /// The last phase was to end when the held-out text had not become likelier for so many
    /// epochs. Steps are counted as planned; unless the text is public nothing is promised.
    Stopped {
        /// Epochs of the last phase that were run.
        epochs: u64,
        /// Epochs without gain after which it was to stop.
        patience: u64,
        /// Whether the held-out text is declared public.
        public: bool,
    },
    /// Clipped, noised optimisation of records on the private side.
    Private {
        /// Private steps released, each counted once.
        steps: u64,
        /// σ.
        noise_multiplier: f64,
        /// q.
        sampling_rate: f64,
        /// How batches were drawn.
        #[serde(default = "poisson", skip_serializing_if = "is_poisson")]
        sampling: Sampling,
        /// The fixed expected batch size that divides the noised sum.
        expected_batch: f64,
        /// C.
        clipping_norm: f64,
        /// How C was kept.
        clipping: Clipping,
        /// η, by which norms were lifted before clipping.
        clipping_margin: f64,
        /// How σ fell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        noise_decay: Option<StepDecay>,
        /// How C fell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip_decay: Option<StepDecay>,
        /// How often each record was read in a step, its gradients clipped as one.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        augmentations: u32,
        /// How weights moved.
        optimizer: OptimizerSpec,
    },
    /// Ordinary optimisation of redacted text, `<MASK>` out of the loss: the first phase of
    /// JFT. Costs nothing if both contents of a secret are redacted alike.
    Redacted {
        /// Steps taken.
        steps: u64,
        /// Records per step.
        batch_size: u64,
        /// Whether only records were used in which someone had looked for misses.
        screened: bool,
        /// What is known of the policy.
        alike: RedactedAlike,
        /// How weights moved.
        optimizer: OptimizerSpec,
    },
    /// Clipped, lightly noised optimisation of redacted text: the first phase of JFT. Accounted
    /// in full; the papers' figure by the miss rate is an estimate.
    LightNoise {
        /// Private steps released, each counted once.
        steps: u64,
        /// σ.
        noise_multiplier: f64,
        /// q.
        sampling_rate: f64,
        /// How batches were drawn.
        #[serde(default = "poisson", skip_serializing_if = "is_poisson")]
        sampling: Sampling,
        /// The fixed expected batch size that divides the noised sum.
        expected_batch: f64,
        /// C.
        clipping_norm: f64,
        /// How C was kept.
        clipping: Clipping,
        /// η, by which norms were lifted before clipping.
        clipping_margin: f64,
        /// How C fell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip_decay: Option<StepDecay>,
        /// How often each record was read in a step, its gradients clipped as one.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        augmentations: u32,
        /// Both ends of the miss rate per token, where they were given. The share of sensitive tokens is a function of
        /// the private text and isn't published.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        miss: Option<(MissRate, MissRate)>,
        /// How weights moved.
        optimizer: OptimizerSpec,
    },
    /// Clipped, noised optimisation with a sampling rate for every record.
    Weighted {
        /// Private steps released, each counted once.
        steps: u64,
        /// σ.
        noise_multiplier: f64,
        /// The largest rate of any record.
        largest_rate: f64,
        /// Rates that dominate those of the records of every secret.
        secret_rates: Vec<SamplingRate>,
        /// The fixed expected batch size that divides the noised sum.
        expected_batch: f64,
        /// C.
        clipping_norm: f64,
        /// How C was kept.
        clipping: Clipping,
        /// η, by which norms were lifted before clipping.
        clipping_margin: f64,
        /// How C fell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip_decay: Option<StepDecay>,
        /// How often each record was read in a step, its gradients clipped as one.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        augmentations: u32,
        /// How weights moved.
        optimizer: OptimizerSpec,
    },
    /// Selective DP-SGD: every record once a pass, in parts of a fixed size.
    Selective {
        /// Selective steps released, each counted once.
        steps: u64,
        /// Passes in which a record can have been used.
        passes: u64,
        /// Records per step, and the fixed divisor of the noised sum.
        batch_size: u64,
        /// σ of the gradient of the sensitive predictions.
        noise_multiplier: f64,
        /// C.
        clipping_norm: f64,
        /// How C was kept.
        clipping: Clipping,
        /// η, by which norms were lifted before clipping.
        clipping_margin: f64,
        /// How C fell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip_decay: Option<StepDecay>,
        /// Noise of a released state over its norm.
        state_noise_multiplier: f64,
        /// To which h, and c, was clipped.
        state_norm: f64,
        /// The most states that one record releases in a pass.
        states: u64,
        /// What is known of the policy.
        alike: RedactedAlike,
        /// How ordinary gradients moved weights.
        ordinary_optimizer: OptimizerSpec,
        /// How noised gradients moved weights.
        optimizer: OptimizerSpec,
    },
}

const fn poisson() -> Sampling {
    Sampling::Poisson
}

fn is_poisson(sampling: &Sampling) -> bool {
    *sampling == Sampling::Poisson
}

impl Phase {
    /// Returns the number of noisy steps that were released, or `None` for a phase without noise.
    #[must_use]
    pub const fn private_steps(&self) -> Option<u64> {
        match self {
            Self::Private { steps, .. }
            | Self::LightNoise { steps, .. }
            | Self::Weighted { steps, .. }
            | Self::Selective { steps, .. } => Some(*steps),
            Self::Public { .. }
            | Self::Unprotected { .. }
            | Self::Redacted { .. }
            | Self::Stopped { .. } => None,
        }
    }

    /// Returns steps, σ, q, sampler and decay of noisy steps on sampled batches.
    const fn sampled(&self) -> Option<(u64, f64, f64, Sampling, Option<StepDecay>)> {
        match self {
            Self::Private {
                steps,
                noise_multiplier,
                sampling_rate,
                sampling,
                noise_decay,
                ..
            } => Some((
                *steps,
                *noise_multiplier,
                *sampling_rate,
                *sampling,
                *noise_decay,
            )),
            Self::LightNoise {
                steps,
                noise_multiplier,
                sampling_rate,
                sampling,
                ..
            } => Some((*steps, *noise_multiplier, *sampling_rate, *sampling, None)),
            _ => None,
        }
    }
}

/// Returns whether the phases are those of a plan: each in its place, none beside them, and each says of its noise, its
/// batches and its policy what the plan does.
fn are_planned(plan: &TrainingPlan, phases: &[Phase]) -> bool {
    let (ran, stopped) = match phases {
        [
            ran @ ..,
            Phase::Stopped {
                patience, public, ..
            },
        ] => (ran, Some((*patience, *public))),
        ran => (ran, None),
    };
    let rule = plan.stopping.as_ref();
    let open = |phase: &Phase| matches!(phase, Phase::Public { steps, .. } if *steps > 0);
    if stopped != rule.map(|rule| (*rule.patience, *rule.public))
        || plan.secrets.everything_private && ran.iter().any(open)
    {
        return false;
    }
    let sigma = |planned: NoiseMultiplier| match plan.noiseless {
        true => 0.0,
        false => planned.get(),
    };
    let same = |stated: f64, planned: f64| stated.to_bits() == planned.to_bits();
    let is = |phase: &Phase, steps: &NoisySteps| {
        let planned = (
            steps.steps.get(),
            sigma(*steps.noise_multiplier),
            steps.sampling_rate.get(),
            *steps.sampling,
            steps.noise_decay,
        );
        phase.sampled() == Some(planned)
    };
    match (&plan.run, ran) {
        (Run::Sgd { .. }, [Phase::Unprotected { .. }])
        | (Run::Crt { private: None, .. }, [] | [Phase::Public { .. }]) => true,
        (Run::Dpsgd { private }, [last @ Phase::Private { .. }])
        | (
            Run::Crt {
                private: Some(private),
                ..
            },
            [last @ Phase::Private { .. }] | [Phase::Public { .. }, last @ Phase::Private { .. }],
        ) => is(last, private),
        (
            Run::Sdp { selective },
            [
                Phase::Selective {
                    steps,
                    passes,
                    noise_multiplier,
                    state_noise_multiplier,
                    states,
                    alike,
                    ..
                },
            ],
        ) => {
            // A pass may have fewer steps than the plan counts, all passes as many.
            let of_pass = steps.div_ceil((*passes).max(1)).max(1);
            [*passes, steps.div_ceil(of_pass)] == [selective.passes(); 2]
                && *steps <= selective.steps.get()
                && same(*noise_multiplier, sigma(*selective.noise_multiplier))
                && same(
                    *state_noise_multiplier,
                    selective.state_noise_multiplier.get(),
                )
                && *states == *selective.states
                && alike.every_content_caught == *selective.every_content_caught
        }
        (Run::Jft { first, second }, [before, last @ Phase::Private { .. }]) => {
            let is_first = match (first, before) {
                (
                    FirstPhase::Ordinary {
                        screened, alike, ..
                    },
                    Phase::Redacted {
                        screened: used,
                        alike: known,
                        ..
                    },
                ) => (screened, &alike.value) == (used, known),
                (
                    FirstPhase::LightNoise { steps, token_miss },
                    light @ Phase::LightNoise { miss, .. },
                ) => is(light, steps) && miss == token_miss,
                _ => false,
            };
            is_first && is(last, second)
        }
        (
            Run::Protect { weighted },
            [
                Phase::Weighted {
                    steps,
                    noise_multiplier,
                    secret_rates,
                    ..
                },
            ],
        ) => {
            let planned = (weighted.steps.get(), sigma(*weighted.noise_multiplier));
            (*steps, *noise_multiplier) == planned && *secret_rates == *weighted.secret_rates
        }
        _ => false,
    }
}

/// Where the starting weights came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Initial {
    /// Random, from this seed and nothing else.
    Random {
        /// The seed.
        seed: u64,
    },
    /// A model that others trained, before and without this text, or one that counts as theirs.
    Pretrained {
        /// Digest of its weights.
        weights: String,
        /// Whether all text behind it was declared public.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        declared_public: bool,
        /// Whether the weights had a manifest, that of a run of sgd, which was set aside because all text behind them
        /// was declared public.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        has_manifest: bool,
        /// Whether the weights are those of a run of sgd of ours whose manifest is missing, all text behind them being
        /// declared public.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        manifest_missing: bool,
    },
    /// A checkpoint of ours. What it promised goes on: both runs compose, as if they had used
    /// the same records.
    Continued {
        /// Digest of its weights.
        weights: String,
        /// How it was trained.
        recipe: Recipe,
        /// What ran.
        mechanism: Box<Mechanism>,
        /// Whether a fixed seed made its randomness.
        seeded: bool,
    },
}

impl Initial {
    /// Returns the digest of the weights that training started from, if they came from a folder.
    #[must_use]
    pub fn weights(&self) -> Option<&str> {
        match self {
            Self::Random { .. } => None,
            Self::Pretrained { weights, .. } | Self::Continued { weights, .. } => Some(weights),
        }
    }

    /// Returns the foreign base model of these weights, if there is one.
    #[must_use]
    pub const fn base(&self) -> Option<Base> {
        match self {
            Self::Pretrained {
                declared_public: true,
                has_manifest,
                manifest_missing,
                ..
            } => Some(match (*has_manifest, *manifest_missing) {
                (_, true) => Base::DeclaredPublicUnknownRun,
                (true, false) => Base::DeclaredPublicRun,
                (false, false) => Base::DeclaredPublic,
            }),
            Self::Pretrained { .. } => Some(Base::Unstated),
            Self::Random { .. } | Self::Continued { .. } => None,
        }
    }
}

/// What no promise rests on, but whoever trains such a model again has to know.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Course {
    /// Epochs of the last phase, as planned.
    pub epochs: u64,
    /// How learning rates moved.
    pub learning_rates: LearningRates,
    /// Share that the moving average of the weights kept of itself at each step of the last phase; absent where the
    /// weights are those of the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// In what precision training passes computed their products.
    #[serde(default, skip_serializing_if = "Precision::is_single")]
    pub precision: Precision,
}

/// The canaries the model was trained with, sealed: only the owner's key opens the digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CanarySeal {
    /// How many canaries.
    pub canaries: u32,
    /// Copies of each.
    pub copies: u32,
    /// Most records of the training set that differ if one canary's secret does.
    pub records: u32,
    /// Copies that were trained on the public side, because both policies missed them.
    pub on_public_side: u32,
    /// Canaries of whose secrets a record of the training set holds a token; training learns nothing of the others.
    pub reached: u32,
    /// HMAC-SHA256 of the plan under the owner's key, hexadecimal.
    pub digest: String,
}

impl CanarySeal {
    /// Returns how the run met the canaries.
    #[must_use]
    pub fn planted(&self) -> Planted {
        Planted {
            canaries: self.canaries.into(),
            records: self.records.into(),
            on_public_side: self.on_public_side.into(),
        }
    }
}

/// SHA-256 of the files beside the weights, hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// Of `config.json`, or of `adapter_config.json`.
    pub config: String,
    /// Of `tokenizer.json`.
    pub tokenizer: String,
}

/// The content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format: 1.
    pub schema: u32,
    /// `checkpoint`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which recipe ran.
    pub recipe: Recipe,
    /// What one record is.
    pub unit: Unit,
    /// Where the vocabulary comes from.
    pub vocabulary: Origin,
    /// The stages before training, each with its stability where the text holds masked spans.
    pub stages: Vec<StageStability>,
    /// Where the starting weights came from.
    pub initial: Initial,
    /// The neighbours for which the sensitivity is the clipping norm; for replace it is twice that.
    pub neighbours: Neighbours,
    /// The plan as it ran.
    pub plan: TrainingPlan,
    /// What ran, phase by phase.
    pub phases: Vec<Phase>,
    /// What the plan releases, for the accountant; compared, never believed.
    pub mechanism: Mechanism,
    /// What the papers estimate where they do not bound, if anything; never an upper bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<Mechanism>,
    /// Whether a fixed seed made the randomness: then nothing here is private.
    pub seeded: bool,
    /// What training passes dropped.
    #[serde(default, skip_serializing_if = "Dropout::is_none")]
    pub dropout: Dropout,
    /// Epochs and learning rates.
    pub course: Course,
    /// The adapter that was trained, where the weights that training began with stayed as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<LoraSpec>,
    /// The architecture of the model that the adapter goes on; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Box<TransformerConfig>>,
    /// The ids of the beginning and the end of text with which an adapter was trained; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<[u32; 2]>,
    /// Whose messages of a conversation carried loss; absent where every token did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_on: Option<LossOn>,
    /// The most tokens of a record that were trained on; absent where all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// SHA-256 of `model.safetensors`, or of `adapter_model.safetensors`, hexadecimal.
    pub weights: String,
    /// Of the files beside it.
    pub digests: Digests,
    /// The canaries, if any were planted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<CanarySeal>,
    /// What the guarantee does not cover.
    pub not_covered: Vec<String>,
}

impl Manifest {
    /// Parses and checks a manifest.
    ///
    /// # Errors
    /// Returns an error unless the JSON is a manifest of schema 1.
    pub fn from_json(json: &str) -> std::result::Result<Self, String> {
        let manifest: Self = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if manifest.schema != 1 || manifest.kind != "checkpoint" {
            return Err(format!(
                "is `{}` of schema {}, expected `checkpoint` of schema 1",
                manifest.kind, manifest.schema
            ));
        }
        manifest.dropout.validated().map_err(|e| e.to_string())?;
        manifest.consistent()
    }

    /// Compares everything that the manifest states twice.
    pub(crate) fn consistent(mut self) -> std::result::Result<Self, String> {
        let plan = &self.plan;
        let mechanism = plan.mechanism();
        let differs = |key: &str| Err(format!("{key}: is not what its plan says: tampered with"));
        let continued = match &self.initial {
            Initial::Continued {
                recipe, mechanism, ..
            } => Some((Some(*recipe), &**mechanism)),
            Initial::Random { .. } | Initial::Pretrained { .. } => None,
        };
        let earlier = plan.continues.as_ref();
        if plan.base != self.initial.base()
            || earlier.map(|run| (run.recipe, &run.mechanism)) != continued
        {
            return differs("initial");
        }
        if plan.run.recipe() != Some(self.recipe) {
            return differs("recipe");
        }
        if plan.unit.as_str() != self.unit.to_string() {
            return differs("unit");
        }
        if plan.seeded != self.seeded {
            return differs("seeded");
        }
        if plan.vocabulary_leaks != (self.vocabulary == Origin::Leaks) {
            return differs("vocabulary");
        }
        if !mechanism.is_same_run(&self.mechanism) {
            return differs("mechanism");
        }
        if let Run::Protect { weighted } = &plan.run
            && !weighted.dominates_its_secrets()
        {
            return Err(
                "plan: its secrets are not those that secret_rates dominates: tampered with"
                    .to_owned(),
            );
        }
        let decided = self.course.learning_rates.decay == Decay::Plateau;
        if plan.rates_by_public_text.is_some() != decided {
            return differs("course");
        }
        if !are_planned(plan, &self.phases) {
            return differs("phases");
        }
        self.mechanism = mechanism;
        Ok(self)
    }

    /// Returns the foreign base model, which no guarantee covers, if there is one.
    #[must_use]
    pub fn base(&self) -> Option<Base> {
        self.initial.base().or(self.plan.base())
    }

    /// Returns the manifest as JSON.
    ///
    /// # Errors
    /// Returns the serialiser's error, which does not occur in practice.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(Error::engine)
    }
}
