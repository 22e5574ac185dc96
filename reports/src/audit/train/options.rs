//! The options of a run, from its arguments.

use crate::audit::args::{ClippingArg, Course, DecayArg, OptimizerArg, PrivateArgs, Train};
use crate::audit::train::material::screened;
use crate::audit::train::run::{INITIAL_SEED, MOMENTUM};
use crate::audit::train::uses::by_recipe;
use crate::contract::Inputs;
use crate::plan::PlanRequest;
use anyhow::{Context, Result};
use reticent_accounting::training::{FirstPhase, Recipe, Run, TrainingPlan};
use reticent_backends::{
    Clipping, Decay, Dropout, LearningRates, OptimizerSpec, PrivateOptions, TrainOptions,
};
use reticent_corpus::Prepared;

// What the help of `audit train` says where an option is absent.
const BATCH_SIZE: u64 = 8;
const LEARNING_RATE: f64 = 4e-3;
const PRIVATE_LEARNING_RATE: f64 = 0.06;
const CLIPPING_NORM: f64 = 1.0;
const WEIGHT_DECAY: f64 = 0.01;

/// The options of the backends crate for a plan.
pub(in crate::audit) fn options(
    train: &Train,
    request: &PlanRequest,
    plan: TrainingPlan,
    prepared: &Prepared,
) -> Result<TrainOptions> {
    let recipe = request.recipe();
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
    Ok(TrainOptions {
        plan,
        batch_size: train.ordinary_batch_size.unwrap_or(BATCH_SIZE),
        optimizer: OptimizerSpec::Adam {
            learning_rate: train.learning_rate.unwrap_or(LEARNING_RATE),
        },
        private: recipe.is_private().then(|| PrivateOptions {
            clipping_norm: train.private.clip.unwrap_or(CLIPPING_NORM),
            clipping: clipping(train.private.clipping.unwrap_or_default()),
            optimizer: private_optimizer(&train.private),
        }),
        state_norm: (recipe == Recipe::Sdp).then_some(norm),
        screened,
        precision: train.precision.into(),
        dropout: Dropout::NONE,
        learning_rates: learning_rates(&train.course),
        initial_seed: INITIAL_SEED,
        seed: request.of_recipe.seed,
    })
}

/// Every setting of the run, and which of them the user left to us.
pub(in crate::audit) fn inputs(
    train: &Train,
    of_plan: Inputs,
    options: &TrainOptions,
) -> serde_json::Result<Inputs> {
    let mut inputs = of_plan
        .given_path("plan", train.plan.as_deref())?
        .given("options", options)?;
    let used = |key: &str| {
        let recipe = options.plan.run.recipe();
        let users = by_recipe(train);
        let users = users.iter().find(|(known, ..)| *known == key);
        users.is_some_and(|(_, _, users)| recipe.is_some_and(|recipe| users.contains(&recipe)))
    };
    if used("ordinary_batch_size") {
        let given = train.ordinary_batch_size;
        inputs = inputs.or_assumed("ordinary_batch_size", given, BATCH_SIZE)?;
    }
    for (key, given, default) in [
        ("learning_rate", train.learning_rate, LEARNING_RATE),
        ("clip", train.private.clip, CLIPPING_NORM),
        (
            "private_learning_rate",
            train.private.private_learning_rate,
            PRIVATE_LEARNING_RATE,
        ),
    ] {
        if used(key) {
            inputs = inputs.or_assumed(key, given, default)?;
        }
    }
    Ok(inputs)
}

const fn learning_rates(args: &Course) -> LearningRates {
    LearningRates {
        decay: match args.decay {
            DecayArg::Constant => Decay::Constant,
            DecayArg::Linear => Decay::Linear,
            DecayArg::Cosine => Decay::Cosine,
        },
        warmup: args.warmup,
    }
}

const fn clipping(args: ClippingArg) -> Clipping {
    match args {
        ClippingArg::Flat => Clipping::Flat,
        ClippingArg::PerLayer => Clipping::PerLayer,
        ClippingArg::Automatic => Clipping::Automatic { stability: 0.01 },
    }
}

fn private_optimizer(given: &PrivateArgs) -> OptimizerSpec {
    let learning_rate = given.private_learning_rate.unwrap_or(PRIVATE_LEARNING_RATE);
    match given.private_optimizer.unwrap_or_default() {
        OptimizerArg::Sgd => OptimizerSpec::Sgd {
            learning_rate,
            momentum: MOMENTUM,
        },
        OptimizerArg::Adam => OptimizerSpec::Adam { learning_rate },
        OptimizerArg::Adamw => OptimizerSpec::AdamW {
            learning_rate,
            weight_decay: given.weight_decay.unwrap_or(WEIGHT_DECAY),
        },
    }
}
