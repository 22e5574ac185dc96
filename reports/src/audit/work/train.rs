//! `audit train`: a recipe on a prepared corpus, to a checkpoint.

use super::promise::{DELTA, Met, guarantees};
use crate::audit::cli::{ModelArg, Noise, Recipe as RecipeArg, Train};
use crate::contract::{
    Envelope, Exit, Format, Inputs, Interrupt, Interrupted, OutputFolder, Progress, print,
};
use crate::number::{grouped, nearest, rounded_up};
use anyhow::{Context, Result};
use reticent_accounting::calibrate::{Target, calibrate_noise};
use reticent_accounting::{
    Convention, Delta, GroupSize, Guarantee, Mechanism, Neighbours, Query, SamplingRate, Steps,
    Tolerance,
};
use reticent_backends::{
    Checkpoint, Clipping, Device, Error, Initial, LstmConfig, Manifest, OptimizerSpec, Owner,
    PrivateOptions, Recipe, Schedule, Surroundings, TrainOptions, Trained, free_for, lstm,
    state_folder, train,
};
use reticent_corpus::Prepared;
use serde::Serialize;
use std::path::Path;

/// Momentum of private steps.
pub(super) const MOMENTUM: f64 = 0.9;
/// Seed of the starting weights; they depend on nothing else.
pub(super) const INITIAL_SEED: u64 = 0;

impl From<RecipeArg> for Recipe {
    fn from(recipe: RecipeArg) -> Self {
        match recipe {
            RecipeArg::Sgd => Self::Sgd,
            RecipeArg::Dpsgd => Self::Dpsgd,
            RecipeArg::Crt => Self::Crt,
        }
    }
}

/// Trains with a progress line.
pub(super) fn with_progress(
    prepared: &Prepared,
    options: &TrainOptions,
    device: Device,
    surroundings: &Surroundings<'_>,
    what: &str,
) -> std::result::Result<Trained, Error> {
    let config = LstmConfig::paper(prepared.tokenizer.vocabulary_size());
    let model = lstm(
        &config,
        config.starting_weights(options.initial_seed),
        device,
    )?;
    let total = Schedule::new(options, &prepared.training)?.total();
    let progress = Progress::of(total, what, "steps");
    train(
        model,
        options,
        &prepared.training,
        surroundings,
        &mut |at| progress.at(at.step),
    )
}

/// Writes checkpoint and owner's folder.
pub(super) fn save(
    folder: &Path,
    prepared: &Prepared,
    options: &TrainOptions,
    trained: &Trained,
) -> Result<()> {
    let initial = Initial::Random {
        seed: options.initial_seed,
    };
    let mut manifest = Manifest::of(options.recipe, prepared, trained, initial);
    if let (Some(plan), Some(preflight)) = (&prepared.plan, &prepared.facts.canaries) {
        let met = met(options.recipe, preflight, plan.canaries.len() as u64);
        manifest.canaries =
            Some(Owner::open_or_create(folder)?.keep(plan, met.records, met.public)?);
    }
    let config = LstmConfig::paper(prepared.tokenizer.vocabulary_size());
    Ok(Checkpoint::save(
        folder,
        &config.into(),
        trained.trainer.weights(),
        &prepared.tokenizer,
        manifest,
    )?)
}

/// How a recipe met the canaries: only CRT trains a public side.
pub(super) fn met(recipe: Recipe, preflight: &reticent_corpus::Preflight, canaries: u64) -> Met {
    let met = Met::of(preflight, canaries);
    if recipe == Recipe::Crt {
        met
    } else {
        Met { public: 0, ..met }
    }
}

#[derive(Serialize)]
struct Shown {
    out: String,
    recipe: Recipe,
    mechanism: Mechanism,
    guarantees: Vec<Guarantee>,
    seeded: bool,
}

pub(super) fn run(asked: &Train, format: Format, interrupt: &Interrupt) -> Result<Exit> {
    let noise = asked.noise()?;
    free_for(&asked.out).context("--out")?;
    OutputFolder::probe(&asked.out).context("--out")?;
    let ModelArg::Lstm = asked.model;
    let prepared = Prepared::load(&asked.prepared).context("PREPARED")?;
    let options = options(asked, noise, &prepared)?;
    let surroundings = Surroundings::resumable(state_folder(&asked.out), interrupt.flag());
    let what = format!("training {}", options.recipe);
    let mut trained = match with_progress(
        &prepared,
        &options,
        asked.device.into(),
        &surroundings,
        &what,
    ) {
        Ok(trained) => trained,
        Err(Error::Interrupted { .. }) => {
            let resume = Some("the same arguments".to_owned());
            return Err(Interrupted { resume }.into());
        }
        Err(error @ Error::Device { .. }) => return Err(error).context("--device"),
        Err(error @ (Error::Io { .. } | Error::State { .. })) => {
            return Err(error).context("--out");
        }
        Err(error) => return Err(error.into()),
    };
    save(&asked.out, &prepared, &options, &trained).context("--out")?;
    trained.erase_state()?;
    let shown = Shown {
        out: asked.out.display().to_string(),
        recipe: options.recipe,
        guarantees: guarantees(&trained.mechanism, prepared.training.unit, 1)?,
        mechanism: trained.mechanism,
        seeded: trained.seeded,
    };
    let text = match format {
        Format::Json => {
            let inputs = Inputs::new()
                .given("prepared", asked.prepared.display().to_string())?
                .given("options", &options)?;
            Envelope::new("training", inputs, &shown).to_text()?
        }
        Format::Text => summary(&shown, prepared.training.unit),
    };
    print(&text)?;
    Ok(Exit::Finished)
}

/// The options of the backends crate; calibrates σ where ε was asked for.
fn options(asked: &Train, noise: Noise, prepared: &Prepared) -> Result<TrainOptions> {
    let mut options = TrainOptions {
        recipe: asked.recipe.into(),
        epochs: asked.epochs,
        public_passes: asked.public_passes,
        batch_size: asked.batch_size,
        optimizer: OptimizerSpec::Adam {
            learning_rate: asked.learning_rate,
        },
        private: None,
        first_phase: None,
        states: None,
        decay: true,
        initial_seed: INITIAL_SEED,
        seed: asked.seed,
    };
    if let Noise::None = noise {
        return Ok(options);
    }
    let size = prepared.training.private_size();
    let side = if options.recipe == Recipe::Crt {
        size
    } else {
        size + prepared.training.public_size()
    };
    let batch = (asked.sample_rate.get() * side as f64).round().max(1.0);
    let private = |sigma| PrivateOptions {
        noise_multiplier: sigma,
        clipping_norm: asked.clip,
        clipping: Clipping::Flat,
        batch_size: batch as u64,
        optimizer: OptimizerSpec::Sgd {
            learning_rate: asked.private_learning_rate,
            momentum: MOMENTUM,
        },
    };
    options.private = Some(private(1.0));
    let sigma = match noise {
        Noise::Sigma(sigma) => sigma.get(),
        Noise::Calibrated { epsilon, delta } => {
            let schedule = Schedule::new(&options, &prepared.training)?;
            let rate = schedule
                .sampling_rate()
                .context("the private side is empty: there is nothing to calibrate")?;
            let steps = Steps::new(schedule.planned_private_steps());
            calibrated(epsilon, delta, rate, steps).context("--epsilon")?
        }
        Noise::None => 1.0,
    };
    options.private = Some(private(sigma));
    Ok(options)
}

/// σ for the replacement of one record, on the safe side.
fn calibrated(
    epsilon: reticent_accounting::Epsilon,
    delta: Delta,
    rate: SamplingRate,
    steps: Steps,
) -> Result<f64> {
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

fn summary(shown: &Shown, unit: reticent_corpus::Unit) -> String {
    let mut lines = vec![format!("{}: trained by {}", shown.out, shown.recipe)];
    if let Mechanism::Repeat { times, .. } = &shown.mechanism {
        lines.push(format!("private steps {}", grouped(times.get())));
    }
    for g in &shown.guarantees {
        let convention = match g.convention {
            Convention::Definition => "definition",
            Convention::Paper => "papers' convention",
        };
        let upper = g
            .epsilon
            .and_then(|b| b.upper)
            .map_or(f64::INFINITY, |u| u.get().get());
        let said = if upper.is_finite() {
            format!("at most {}", rounded_up(upper, 5))
        } else {
            "infinite: nothing is promised".into()
        };
        lines.push(format!(
            "ε ({}, one {unit}, {convention}, δ = {}) {said}",
            g.neighbours,
            nearest(DELTA, 2)
        ));
    }
    if shown.seeded {
        lines.push("A fixed seed made the noise: this model is NOT private.".into());
    }
    lines.join("\n")
}
