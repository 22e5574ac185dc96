//! The options of a run, from its arguments.

use super::material::screened;
use super::promise::DELTA;
use super::train::{INITIAL_SEED, MOMENTUM};
use crate::audit::cli::{
    ClippingArg, Course, DecayArg, FirstPhaseArg, Noise, OptimizerArg, Recipe as RecipeArg,
    RecipeArgs, Train, Whose,
};
use crate::contract::Inputs;
use anyhow::{Context, Result, bail};
use reticent_accounting::calibrate::{Target, calibrate_noise};
use reticent_accounting::{
    Delta, Epsilon, GroupSize, Mechanism, Neighbours, Query, SamplingRate, Steps, Tolerance,
};
use reticent_backends::{
    Clipping, Decay, Dropout, FirstPhase, FirstPhaseKind, LearningRates, OptimizerSpec,
    PrivateOptions, Recipe, Schedule, StateOptions, Stopping, TrainOptions,
};
use reticent_corpus::Prepared;
use serde_json::Value;

// What the help of `audit train` says where an option is absent.
const EPOCHS: u64 = 8;
const BATCH_SIZE: u64 = 8;
const PUBLIC_PASSES: u64 = 1;
const SAMPLE_RATE: f64 = 0.1;
const LEARNING_RATE: f64 = 4e-3;
const PRIVATE_LEARNING_RATE: f64 = 0.06;
const CLIPPING_NORM: f64 = 1.0;
const WEIGHT_DECAY: f64 = 0.01;

impl From<RecipeArg> for Recipe {
    fn from(recipe: RecipeArg) -> Self {
        match recipe {
            RecipeArg::Sgd => Self::Sgd,
            RecipeArg::Dpsgd => Self::Dpsgd,
            RecipeArg::Crt => Self::Crt,
            RecipeArg::Sdp => Self::Sdp,
            RecipeArg::Jft => Self::Jft,
            RecipeArg::Protect => Self::Protect,
        }
    }
}

/// Records that a private step draws on average.
fn private_batch(asked: &Train, prepared: &Prepared) -> Result<u64> {
    let set = &prepared.training;
    let side = match asked.recipe {
        RecipeArg::Crt => set.private_size(),
        _ => set.private_size() + set.public_size(),
    };
    let rate = asked.sample_rate.map_or(SAMPLE_RATE, SamplingRate::get);
    let batch = rate * side as f64;
    // rounded up to one record, it would be another rate than the one that was asked for
    if asked.sample_rate.is_some() && batch < 0.5 && side > 0 {
        bail!(
            "--sample-rate: must lie in [1/{side}, 1], one of the {side} records it draws from, got {rate}"
        );
    }
    Ok(batch.round().max(1.0) as u64)
}

/// The options of the backends crate; calibrates σ where ε was asked for.
pub(super) fn options(asked: &Train, noise: Noise, prepared: &Prepared) -> Result<TrainOptions> {
    let mut options = TrainOptions {
        recipe: asked.recipe.into(),
        epochs: asked.epochs.unwrap_or(EPOCHS),
        public_passes: asked.public_passes.unwrap_or(PUBLIC_PASSES),
        batch_size: asked.batch_size.unwrap_or(BATCH_SIZE),
        optimizer: OptimizerSpec::Adam {
            learning_rate: asked.learning_rate.unwrap_or(LEARNING_RATE),
        },
        private: None,
        first_phase: None,
        states: None,
        precision: asked.precision.into(),
        dropout: Dropout::NONE,
        learning_rates: learning_rates(&asked.course),
        stopping: stopping(&asked.course),
        initial_seed: INITIAL_SEED,
        seed: asked.seed,
    };
    if let Noise::None = noise {
        return Ok(options);
    }
    let batch = private_batch(asked, prepared)?;
    let private = |sigma| PrivateOptions {
        noise_multiplier: sigma,
        clipping_norm: asked.clip.unwrap_or(CLIPPING_NORM),
        clipping: clipping(asked.of_recipe.clipping.unwrap_or_default()),
        batch_size: batch,
        optimizer: private_optimizer(asked),
    };
    let sigma = match noise {
        Noise::Sigma(sigma) => sigma.get(),
        Noise::Calibrated { epsilon, delta } => {
            // The same private steps, whatever comes before them.
            let plain = TrainOptions {
                recipe: match options.recipe {
                    Recipe::Jft => Recipe::Dpsgd,
                    other => other,
                },
                private: Some(private(1.0)),
                ..options.clone()
            };
            let schedule = Schedule::new(&plain, &prepared.training)?;
            let rate = schedule
                .sampling_rate()
                .context("the private side is empty: there is nothing to calibrate")?;
            let steps = Steps::new(schedule.planned_private_steps());
            calibrated(epsilon, delta, rate, steps).context("--epsilon")?
        }
        Noise::None => 1.0,
    };
    options.private = Some(private(sigma));
    match asked.recipe {
        RecipeArg::Jft => options.first_phase = Some(first_phase(asked, batch, prepared)?),
        RecipeArg::Sdp => options.states = Some(states(&asked.of_recipe)?),
        _ => {}
    }
    Ok(options)
}

/// What was asked, every setting of the run, and which of those that decide what it promises and how well it
/// learns the user left to us.
pub(super) fn inputs(asked: &Train, options: &TrainOptions) -> serde_json::Result<Inputs> {
    let rate = asked.sample_rate.map(SamplingRate::get);
    let mut inputs = Inputs::new()
        .given("prepared", asked.prepared.display().to_string())?
        .given("options", options)?
        .or_assumed("epochs", asked.epochs, EPOCHS)?;
    if options.private.is_some() {
        inputs = inputs.or_assumed("delta", asked.delta.map(Delta::get), DELTA)?;
    }
    let number = |given: Option<f64>, default: f64| (given.map(Value::from), Value::from(default));
    let count = |given: Option<u64>, default: u64| (given.map(Value::from), Value::from(default));
    for (name, (given, default)) in [
        ("batch_size", count(asked.batch_size, BATCH_SIZE)),
        ("public_passes", count(asked.public_passes, PUBLIC_PASSES)),
        ("learning_rate", number(asked.learning_rate, LEARNING_RATE)),
        ("sample_rate", number(rate, SAMPLE_RATE)),
        ("clip", number(asked.clip, CLIPPING_NORM)),
        (
            "private_learning_rate",
            number(asked.private_learning_rate, PRIVATE_LEARNING_RATE),
        ),
    ] {
        if asked.uses(&flag(name)) {
            inputs = inputs.or_assumed(name, given, default)?;
        }
    }
    Ok(inputs)
}

/// The option that an input is given by.
fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

const fn learning_rates(asked: &Course) -> LearningRates {
    LearningRates {
        decay: match asked.decay {
            DecayArg::Constant => Decay::Constant,
            DecayArg::Linear => Decay::Linear,
            DecayArg::Cosine => Decay::Cosine,
        },
        warmup: asked.warmup,
    }
}

fn stopping(asked: &Course) -> Option<Stopping> {
    asked.patience.map(|patience| Stopping {
        patience,
        public: asked.held_out_is == Whose::Public,
    })
}

const fn clipping(asked: ClippingArg) -> Clipping {
    match asked {
        ClippingArg::Flat => Clipping::Flat,
        ClippingArg::PerLayer => Clipping::PerLayer,
        ClippingArg::Automatic => Clipping::Automatic { stability: 0.01 },
    }
}

fn private_optimizer(asked: &Train) -> OptimizerSpec {
    let learning_rate = asked.private_learning_rate.unwrap_or(PRIVATE_LEARNING_RATE);
    match asked.of_recipe.private_optimizer.unwrap_or_default() {
        OptimizerArg::Sgd => OptimizerSpec::Sgd {
            learning_rate,
            momentum: MOMENTUM,
        },
        OptimizerArg::Adam => OptimizerSpec::Adam { learning_rate },
        OptimizerArg::Adamw => OptimizerSpec::AdamW {
            learning_rate,
            weight_decay: asked.of_recipe.weight_decay.unwrap_or(WEIGHT_DECAY),
        },
    }
}

fn states(asked: &RecipeArgs) -> Result<StateOptions> {
    let sigma = asked
        .state_sigma
        .context("--state-sigma: the recipe sdp releases states; give their noise, in (0, inf)")?;
    Ok(StateOptions {
        noise_multiplier: sigma.get(),
        norm: asked.state_norm.unwrap_or(1.0),
    })
}

fn first_phase(asked: &Train, batch_size: u64, prepared: &Prepared) -> Result<FirstPhase> {
    let given = &asked.of_recipe;
    let kind = given.first_phase.unwrap_or_default();
    let noise = || {
        let sigma = given.first_sigma.map(|s| s.get());
        sigma.context("--first-sigma: light noise needs it, in (0, inf)")
    };
    let kind = match kind {
        FirstPhaseArg::Direct => FirstPhaseKind::Direct,
        FirstPhaseArg::Screened => {
            let path = given.screened.as_deref();
            let path = path.context("--screened: --first-phase screened needs the file of ids")?;
            FirstPhaseKind::Screened {
                records: screened(path, prepared).context("--screened")?,
            }
        }
        FirstPhaseArg::LightNoise => {
            let &[low, high] = given.token_miss.as_slice() else {
                bail!(
                    "--token-miss: light noise needs both ends of the miss rate, LOW,HIGH in [0, 1], got {} numbers",
                    given.token_miss.len()
                );
            };
            FirstPhaseKind::LightNoise {
                noise_multiplier: noise()?,
                batch_size,
                miss: (low, high),
            }
        }
        FirstPhaseArg::ConservativeLightNoise => FirstPhaseKind::ConservativeLightNoise {
            noise_multiplier: noise()?,
            batch_size,
        },
    };
    Ok(FirstPhase {
        epochs: given.first_epochs.unwrap_or(1),
        kind,
    })
}

/// σ for the replacement of one record, on the safe side.
fn calibrated(epsilon: Epsilon, delta: Delta, rate: SamplingRate, steps: Steps) -> Result<f64> {
    let query = Query {
        neighbours: Neighbours::Replace,
        group: GroupSize::ONE,
    };
    let run = |sigma| Mechanism::dp_sgd(sigma, rate, steps);
    let target = Target::Epsilon {
        query,
        epsilon,
        delta,
    };
    Ok(calibrate_noise(run, target, Tolerance::new(1e-4)?)?
        .answer
        .get())
}
