//! The options of a run, taken from its arguments.

use crate::audit::args::Train;
use crate::audit::train::material::screened;
use crate::audit::train::run::{INITIAL_SEED, MOMENTUM};
use crate::contract::Inputs;
use crate::plan::{
    ClippingArg, DecayArg, Optimization, OptimizerArg, PlanRequest, PrivateOptimizerArg, USERS,
};
use anyhow::{Context, Result};
use reticent_accounting::training::{FirstPhase, Recipe, Run, StepDecay, TrainingPlan};
use reticent_backends::privacy::Clipping;
use reticent_backends::trainer::{Decay, Dropout, LearningRates, OptimizerSpec};
use reticent_backends::{PrivateOptions, TrainOptions};
use reticent_corpus::prepare::Prepared;

// The defaults as stated in the help of `audit train`.
const BATCH_SIZE: u64 = 8;
const LEARNING_RATE: f64 = 4e-3;
const PRIVATE_LEARNING_RATE: f64 = 0.06;
const CLIPPING_NORM: f64 = 1.0;
const WEIGHT_DECAY: f64 = 0.01;
const SECOND_MOMENT_FLOOR: f64 = 5e-8;

/// Returns the options of the backends crate for a plan.
pub(in crate::audit) fn options(
    train: &Train,
    request: &PlanRequest,
    plan: TrainingPlan,
    prepared: &Prepared,
) -> Result<TrainOptions> {
    let (recipe, given) = (request.recipe(), &request.optimization);
    let norm = request.of_recipe.state_norm.unwrap_or(1.0);
    let screened = match (&plan.run, &request.of_recipe.screened) {
        (
            Run::Jft {
                first: FirstPhase::Ordinary { screened: true, .. },
                ..
            },
            Some(path),
        ) => Some(screened(path, prepared).with_context(|| request.name("screened"))?),
        _ => None,
    };
    let steps_per_epoch = plan.run.steps_per_epoch().unwrap_or(1);
    Ok(TrainOptions {
        plan,
        batch_size: given.ordinary_batch_size.unwrap_or(BATCH_SIZE),
        optimizer: ordinary_optimizer(given),
        private: match recipe.is_private() {
            true => Some(PrivateOptions {
                clipping_norm: given.clip.unwrap_or(CLIPPING_NORM),
                clip_decay: clip_decay(given, steps_per_epoch)
                    .with_context(|| request.name("clip_decay"))?,
                clipping: clipping(given.clipping.unwrap_or_default()),
                augmentations: given.augmentations.map_or(Ok(1), u32::try_from)?,
                optimizer: private_optimizer(given),
            }),
            false => None,
        },
        state_norm: (recipe == Recipe::Sdp).then_some(norm),
        screened,
        precision: train.precision,
        dropout: Dropout::NONE,
        average: given.average,
        learning_rates: learning_rates(given),
        initial_seed: given.initial_seed.unwrap_or(INITIAL_SEED),
        seed: request.of_recipe.seed,
    })
}

/// Returns every setting of the run, and which of them the user left open.
pub(in crate::audit) fn inputs(
    train: &Train,
    request: &PlanRequest,
    of_plan: Inputs,
    options: &TrainOptions,
) -> serde_json::Result<Inputs> {
    let given = &request.optimization;
    let mut inputs = of_plan
        .given_path("plan", train.plan.as_deref())?
        .given("options", options)?;
    let used = |key: &str| {
        let recipe = options.plan.run.recipe();
        let users = USERS.iter().find(|(known, _)| *known == key);
        users.is_some_and(|(_, users)| recipe.is_some_and(|recipe| users.contains(&recipe)))
    };
    if used("ordinary_batch_size") {
        let size = given.ordinary_batch_size;
        inputs = inputs.or_assumed("ordinary_batch_size", size, BATCH_SIZE)?;
    }
    for (key, value, default) in [
        ("learning_rate", given.learning_rate, LEARNING_RATE),
        ("clip", given.clip, CLIPPING_NORM),
        (
            "private_learning_rate",
            given.private_learning_rate,
            PRIVATE_LEARNING_RATE,
        ),
    ] {
        if used(key) {
            inputs = inputs.or_assumed(key, value, default)?;
        }
    }
    Ok(inputs)
}

fn learning_rates(given: &Optimization) -> LearningRates {
    LearningRates {
        decay: match given.decay.unwrap_or_default() {
            DecayArg::Constant => Decay::Constant,
            DecayArg::Linear => Decay::Linear,
            DecayArg::Cosine => Decay::Cosine,
            DecayArg::Plateau => Decay::Plateau,
        },
        warmup: given.warmup.unwrap_or(0),
    }
}

/// Returns how the clipping norm falls, in epochs of `steps_per_epoch` steps.
fn clip_decay(
    given: &Optimization,
    steps_per_epoch: u64,
) -> reticent_accounting::Result<Option<StepDecay>> {
    let every = given.clip_decay_every.unwrap_or(1);
    let decay = |factor| StepDecay::new(factor, every.saturating_mul(steps_per_epoch));
    given.clip_decay.map(decay).transpose()
}

const fn clipping(args: ClippingArg) -> Clipping {
    match args {
        ClippingArg::Flat => Clipping::Flat,
        ClippingArg::PerLayer => Clipping::PerLayer,
        ClippingArg::Automatic => Clipping::Automatic { stability: 0.01 },
    }
}

fn ordinary_optimizer(given: &Optimization) -> OptimizerSpec {
    let learning_rate = given.learning_rate.unwrap_or(LEARNING_RATE);
    match given.optimizer.unwrap_or_default() {
        OptimizerArg::Sgd => OptimizerSpec::Sgd {
            learning_rate,
            momentum: given.momentum.unwrap_or(0.0),
        },
        OptimizerArg::Adam => OptimizerSpec::Adam { learning_rate },
        OptimizerArg::Adamw => OptimizerSpec::AdamW {
            learning_rate,
            weight_decay: given.weight_decay.unwrap_or(WEIGHT_DECAY),
        },
    }
}

fn private_optimizer(given: &Optimization) -> OptimizerSpec {
    let learning_rate = given.private_learning_rate.unwrap_or(PRIVATE_LEARNING_RATE);
    match given.private_optimizer.unwrap_or_default() {
        PrivateOptimizerArg::Sgd => OptimizerSpec::Sgd {
            learning_rate,
            momentum: given.private_momentum.unwrap_or(MOMENTUM),
        },
        PrivateOptimizerArg::Adam => OptimizerSpec::Adam { learning_rate },
        PrivateOptimizerArg::Adamw => OptimizerSpec::AdamW {
            learning_rate,
            weight_decay: given.weight_decay.unwrap_or(WEIGHT_DECAY),
        },
        PrivateOptimizerArg::AdamBc => OptimizerSpec::AdamBc {
            learning_rate,
            floor: given.second_moment_floor.unwrap_or(SECOND_MOMENT_FLOOR),
        },
    }
}
