//! How shadow models are trained: as the audited model was, as far as its manifest tells, with a list
//! of differences.

use crate::audit::args::OnModel;
use crate::audit::loaded_model::LoadedModel;
use crate::audit::membership::ShadowTraining;
use crate::audit::train::run::INITIAL_SEED;
use anyhow::{Context, Result};
use reticent_accounting::training::{NoisySteps, Recipe, Run, Stated, StepDecay, TrainingPlan};
use reticent_accounting::{Sampling, UnitName};
use reticent_backends::checkpoint::{Initial, Manifest, Phase, weights_digest};
use reticent_backends::trainer::{Decay, LearningRates, OptimizerSpec, Precision};
use reticent_backends::{PrivateOptions, TrainOptions};

/// The defaults for a model without a manifest: batch size, learning rate, epochs.
const BATCH: u64 = 8;
const RATE: f64 = 4e-3;
const EPOCHS: u64 = 4;

/// The options of every shadow model, and their description.
#[derive(Debug, Clone)]
pub(in crate::audit) struct Training {
    /// The number of pairs of models: the records on which one is trained are those that the other is
    /// not.
    pub(in crate::audit) pairs: u64,
    options: TrainOptions,
    pub(in crate::audit) seed: u64,
    pub(in crate::audit) summary: ShadowTraining,
}

/// The steps that a manifest declares, as far as shadow models can take the same.
struct Steps {
    batch_size: u64,
    optimizer: OptimizerSpec,
    private: Option<Private>,
}

struct Private {
    options: PrivateOptions,
    noise_multiplier: f64,
    noise_decay: Option<StepDecay>,
    rate: f64,
}

impl Training {
    /// Uses the audited model's own recipe and settings; arguments take precedence.
    pub(in crate::audit) fn of(
        model: &LoadedModel,
        reference: Option<&LoadedModel>,
        args: &OnModel,
        seed: u64,
    ) -> Result<Self> {
        let manifest = model.manifest.as_ref();
        let mut differs = Vec::new();
        let steps = match manifest.and_then(|m| steps(m, &mut differs)) {
            Some(steps) => steps,
            None => {
                differs.push(format!(
                    "how the model was trained is not known: ordinary steps of {BATCH} records by Adam are assumed"
                ));
                let optimizer = OptimizerSpec::Adam {
                    learning_rate: RATE,
                };
                Steps {
                    batch_size: BATCH,
                    optimizer,
                    private: None,
                }
            }
        };
        let adapted = manifest.is_some_and(|m| m.adapter.is_some());
        if args.of.adapter.is_some() || adapted {
            differs.push(
                "the adapter is a change of low rank, shadow models change every weight".to_owned(),
            );
        }
        let course = manifest.map(|m| m.course);
        let epochs = match (args.shadow_epochs, planned(manifest)) {
            (Some(args), Some(known)) if args != known => {
                differs.push(format!(
                    "the model had {known} epochs, --shadow-epochs asks for {args}"
                ));
                args
            }
            (Some(epochs), _) | (None, Some(epochs)) => epochs,
            (None, None) => {
                differs.push(format!(
                    "how many epochs the model had is not known: {EPOCHS} are assumed"
                ));
                EPOCHS
            }
        };
        let mut rates = course.map_or_else(LearningRates::default, |c| c.learning_rates);
        if rates.decay == Decay::Plateau {
            differs.push(
                "the model's learning rates fell by held-out text, those of shadow models stay"
                    .to_owned(),
            );
            rates.decay = Decay::Constant;
        }
        if rates.warmup > 0 {
            differs.push(format!(
                "the warm-up of {} steps is one of the shadow models' own, fewer steps",
                rates.warmup
            ));
        }
        let precision = course.map_or(Precision::Single, |c| c.precision);
        if !precision.is_single() {
            differs.push(format!(
                "the model's products were computed in {precision}, those of shadow models are in f32"
            ));
        }
        start(model, reference, &mut differs);
        let own = |optimizer| at_rate(optimizer, args.shadow_rate);
        let run = match &steps.private {
            Some(p) => {
                let private = NoisySteps {
                    noise_decay: p.noise_decay,
                    ..NoisySteps::poisson(p.noise_multiplier, p.rate, epochs)?
                };
                let taken = manifest.and_then(|m| m.phases.last()?.private_steps());
                let own = private.steps.get();
                if let Some(taken) = taken.filter(|taken| *taken != own)
                    && args.shadow_epochs.is_none()
                {
                    differs.push(format!(
                        "the model took {taken} noisy steps, shadow models take {own}: whole epochs"
                    ));
                }
                Run::Dpsgd { private }
            }
            None => Run::Sgd {
                epochs: Stated::given(epochs, "the model"),
                steps: None,
            },
        };
        let private = steps.private.map(|p| PrivateOptions {
            optimizer: own(p.options.optimizer),
            ..p.options
        });
        let rates_of_dropout = model.dropout.clone().map_err(anyhow::Error::msg);
        let rates_of_dropout = rates_of_dropout.context("--shadows: --model")?;
        let plan = TrainingPlan::new(run, UnitName::new("record")?);
        let optimizer = own(steps.optimizer);
        let options = TrainOptions {
            private,
            dropout: match reference.unwrap_or(model).weights() {
                Some((model, _)) => rates_of_dropout.of(model),
                None => rates_of_dropout,
            },
            learning_rates: rates,
            average: course.and_then(|c| c.average),
            initial_seed: INITIAL_SEED,
            ..TrainOptions::new(plan, steps.batch_size, optimizer).seeded(Some(seed))
        };
        let models = args.shadows.unwrap_or(0);
        Ok(Self {
            pairs: models / 2,
            summary: summarised(models, &options, epochs, reference.is_some(), differs),
            options,
            seed,
        })
    }

    /// Returns the options of one shadow model.
    pub(in crate::audit) fn of_number(&self, number: u64) -> TrainOptions {
        TrainOptions {
            seed: Some(self.seed.wrapping_add(number)),
            ..self.options.clone()
        }
    }
}

/// Returns the number of epochs of the model's training, if stated.
fn planned(manifest: Option<&Manifest>) -> Option<u64> {
    let manifest = manifest?;
    let stopped = manifest.phases.iter().find_map(|phase| match phase {
        Phase::Stopped { epochs, .. } => Some(*epochs),
        _ => None,
    });
    stopped.or(Some(manifest.course.epochs))
}

/// Returns the last phase and collects what it leaves out of the run.
fn steps(manifest: &Manifest, differs: &mut Vec<String>) -> Option<Steps> {
    let mut phases = manifest.phases.iter();
    let last = phases.rfind(|phase| !matches!(phase, Phase::Stopped { .. }))?;
    let ordinary = |batch_size: u64, optimizer: OptimizerSpec| Steps {
        batch_size,
        optimizer,
        private: None,
    };
    let found = match last {
        Phase::Public {
            batch_size,
            optimizer,
            ..
        }
        | Phase::Unprotected {
            batch_size,
            optimizer,
            ..
        } => ordinary(*batch_size, *optimizer),
        Phase::Private {
            sampling_rate,
            sampling,
            ..
        } => {
            if *sampling != Sampling::Poisson {
                differs.push(
                    "the model's batches were drawn by another sampler, those of shadow models are Poisson batches"
                        .to_owned(),
                );
            }
            noised(last, *sampling_rate)?
        }
        Phase::Weighted { steps, .. } => {
            let mean = (manifest.course.epochs as f64 / *steps as f64).min(1.0);
            differs.push(format!(
                "the model drew each record at a rate of its own, shadow models draw all at {mean:.3}"
            ));
            noised(last, mean)?
        }
        Phase::Selective {
            batch_size,
            ordinary_optimizer,
            ..
        } => {
            differs.push(
                "the model noised what its policy finds, shadow models train on everything without noise".to_owned(),
            );
            ordinary(*batch_size, *ordinary_optimizer)
        }
        Phase::Redacted { .. } | Phase::LightNoise { .. } | Phase::Stopped { .. } => return None,
    };
    for before in phases {
        let said = match before {
            Phase::Public { .. } => {
                "the model trained its public side without noise; which of these records that would be is not known here, so shadow models train on all of them with noise"
            }
            Phase::Redacted { .. } | Phase::LightNoise { .. } => {
                "the model trained on redacted text first, shadow models do not"
            }
            _ => continue,
        };
        differs.push(said.to_owned());
    }
    Some(found)
}

/// Returns noisy steps as in the phase, except for the rate.
fn noised(phase: &Phase, rate: f64) -> Option<Steps> {
    let (Phase::Private {
        noise_multiplier,
        clipping_norm,
        clipping,
        clip_decay,
        augmentations,
        optimizer,
        ..
    }
    | Phase::Weighted {
        noise_multiplier,
        clipping_norm,
        clipping,
        clip_decay,
        augmentations,
        optimizer,
        ..
    }) = phase
    else {
        return None;
    };
    let noise_decay = match phase {
        Phase::Private { noise_decay, .. } => *noise_decay,
        _ => None,
    };
    Some(Steps {
        batch_size: BATCH,
        optimizer: *optimizer,
        private: Some(Private {
            options: PrivateOptions {
                clipping_norm: *clipping_norm,
                clip_decay: *clip_decay,
                clipping: *clipping,
                augmentations: *augmentations,
                optimizer: *optimizer,
            },
            noise_multiplier: *noise_multiplier,
            noise_decay,
            rate,
        }),
    })
}

/// Compares where the weights start with where the model's weights started.
fn start(model: &LoadedModel, reference: Option<&LoadedModel>, differs: &mut Vec<String>) {
    let initial = model.manifest.as_ref().map(|m| &m.initial);
    let said = match (initial, reference) {
        (Some(Initial::Random { .. }), None) => return,
        (Some(Initial::Random { .. }), Some(_)) => {
            "the model started from fresh weights, shadow models start from the reference"
        }
        (
            Some(Initial::Pretrained { weights, .. } | Initial::Continued { weights, .. }),
            Some(base),
        ) => {
            let given = base.weights().map(|(_, w)| weights_digest(w));
            if given.as_ref() == Some(weights) {
                return;
            }
            "the reference is not what the model started from"
        }
        (Some(Initial::Pretrained { .. } | Initial::Continued { .. }), None) => {
            "the model went on from another one, shadow models start from fresh weights: name that one as --reference"
        }
        (None, None) => {
            "where the model started from is not known, shadow models start from fresh weights"
        }
        (None, Some(_)) => {
            "where the model started from is not known, shadow models start from the reference"
        }
    };
    differs.push(said.to_owned());
    let shape = |opened: &LoadedModel| opened.weights().map(|(model, _)| model.clone());
    if reference.is_some_and(|base| shape(base) != shape(model)) {
        differs.push("the reference has another architecture than the model".to_owned());
    }
}

fn at_rate(mut optimizer: OptimizerSpec, args: Option<f64>) -> OptimizerSpec {
    let (OptimizerSpec::Sgd { learning_rate, .. }
    | OptimizerSpec::Adam { learning_rate }
    | OptimizerSpec::AdamW { learning_rate, .. }
    | OptimizerSpec::AdamBc { learning_rate, .. }) = &mut optimizer;
    *learning_rate = args.unwrap_or(*learning_rate);
    optimizer
}

fn summarised(
    models: u64,
    options: &TrainOptions,
    epochs: u64,
    from_reference: bool,
    differs: Vec<String>,
) -> ShadowTraining {
    let noisy = options.plan.run.noisy();
    ShadowTraining {
        models,
        recipe: options.recipe().unwrap_or(Recipe::Sgd),
        from: if from_reference {
            "the reference"
        } else {
            "fresh weights"
        },
        epochs,
        batch_size: options.private.is_none().then_some(options.batch_size),
        sampling_rate: noisy.map(|steps| steps.sampling_rate.get()),
        noise_multiplier: noisy.map(|steps| steps.noise_multiplier.get()),
        clipping_norm: options.private.map(|p| p.clipping_norm),
        optimizer: options.private.map_or(options.optimizer, |p| p.optimizer),
        learning_rates: options.learning_rates,
        dropout: options.dropout,
        differs,
        spread: Vec::new(),
    }
}
