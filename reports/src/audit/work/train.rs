//! `audit train`: a recipe on a prepared corpus, to a checkpoint.

use super::material::Material;
use super::model::{Beginning, dropout_of};
use super::options::{inputs, options};
use super::promise::{DELTA, Met, guarantees};
use crate::audit::cli::Train;
use crate::contract::{
    Envelope, Exit, Format, Inputs, Interrupt, Interrupted, OutputFolder, Progress, print,
};
use crate::number::{grouped, nearest, rounded_up};
use anyhow::{Context, Result, ensure};
use reticent_accounting::{Convention, Delta, Guarantee, Mechanism, Notion, UnitName};
use reticent_backends::{
    Checkpoint, Corpus, Device, Dropout, Error, FolderLock, Initial, Manifest, Model, Owner,
    Recipe, Schedule, Surroundings, TrainOptions, Trained, erase_finished, free_for, open,
    state_folder, train_on,
};
use reticent_corpus::{Prepared, Unit};
use serde::Serialize;
use std::path::Path;

/// Momentum of private steps.
pub(super) const MOMENTUM: f64 = 0.9;
/// Seed of the starting weights; they depend on nothing else.
pub(super) const INITIAL_SEED: u64 = 0;

/// What is trained, on what, and how.
pub(super) struct Job<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) corpus: Corpus<'a>,
    pub(super) options: &'a TrainOptions,
    pub(super) model: &'a Model,
    pub(super) initial: &'a Initial,
}

impl Job<'_> {
    /// Trains from these weights, with a progress line.
    pub(super) fn train(
        &self,
        weights: Vec<Vec<f32>>,
        device: Device,
        surroundings: &Surroundings<'_>,
        what: &str,
    ) -> std::result::Result<Trained, Error> {
        let model = open(self.model, weights, device)?;
        let total = Schedule::of(self.options, &self.corpus)?.total();
        let progress = Progress::of(total, what, "steps");
        train_on(model, self.options, &self.corpus, surroundings, &mut |at| {
            progress.at(at.step)
        })
    }

    /// Writes checkpoint and owner's folder; gives what the checkpoint says ran.
    pub(super) fn save(&self, folder: &Path, trained: &Trained) -> Result<Mechanism> {
        let recipe = self.options.recipe;
        let prepared = self.prepared;
        let mut manifest = Manifest::of(recipe, prepared, trained, self.initial.clone());
        let mechanism = manifest.mechanism.clone();
        if let (Some(plan), Some(preflight)) = (&prepared.plan, &prepared.facts.canaries) {
            let met = met(recipe, preflight, plan.canaries.len() as u64);
            manifest.canaries =
                Some(Owner::open_or_create(folder)?.keep(plan, met.records, met.public)?);
        }
        Checkpoint::save(
            folder,
            self.model,
            trained.trainer.weights(),
            &prepared.tokenizer,
            manifest,
        )?;
        Owner::open_or_create(folder)?.authenticate(folder)?;
        Ok(mechanism)
    }
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

/// Rates of dropout, and who asked for them.
#[derive(Serialize)]
struct Dropped {
    #[serde(flatten)]
    rates: Dropout,
    asked_by: &'static str,
}

impl Dropped {
    fn of(rates: Dropout, asked: &Train) -> Option<Self> {
        let asked_by = if asked.dropout.is_some() {
            "--dropout"
        } else {
            "the model's folder"
        };
        (!rates.is_none()).then_some(Self { rates, asked_by })
    }

    fn text(&self) -> String {
        let Dropout {
            embedding,
            attention,
            hidden,
        } = self.rates;
        let [embedding, attention, hidden] =
            [embedding, attention, hidden].map(|rate| nearest(rate, 3));
        format!(
            "dropout in training, asked for by {}: {embedding} of embedded tokens, {attention} of \
             attention's probabilities, {hidden} of what blocks give",
            self.asked_by
        )
    }
}

/// A warm-up longer than the run would never reach the learning rates that were asked for.
fn warmup_fits(options: &TrainOptions, corpus: &Corpus<'_>) -> Result<()> {
    let total = Schedule::of(options, corpus)?.total();
    let warmup = options.learning_rates.warmup;
    ensure!(
        warmup <= total,
        "--warmup: must lie in [0, {total}], the steps of this run, got {warmup}"
    );
    Ok(())
}

#[derive(Serialize)]
struct Shown {
    out: String,
    recipe: Recipe,
    mechanism: Mechanism,
    guarantees: Vec<Guarantee>,
    /// What a paper estimates where it has no bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    estimates: Vec<Mechanism>,
    seeded: bool,
    /// Perplexity of the held-out text after each epoch of the last phase; no guarantee covers it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_out_perplexity: Vec<f64>,
    /// What training passes dropped; absent where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<Dropped>,
}

pub(super) fn run(asked: &Train, format: Format, interrupt: &Interrupt) -> Result<Exit> {
    let noise = asked.noise()?;
    asked.within_limits()?;
    // before anything is read: of two runs for one folder the second ends here
    let _lock = match asked.out.parent() {
        // what is wrong with the place is said below
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => None,
        _ => Some(FolderLock::take(&asked.out).context("--out")?),
    };
    let erased = erase_finished(&asked.out).context("--out")?;
    free_for(&asked.out).with_context(|| {
        if erased {
            "--out: the run into it is finished, and what was left of its state is now erased"
        } else {
            "--out"
        }
    })?;
    OutputFolder::probe(&asked.out).context("--out")?;
    let prepared = Prepared::load(&asked.prepared).context("PREPARED")?;
    let mut options = options(asked, noise, &prepared)?;
    let material = Material::of(asked, &options, &prepared)?;
    let Beginning {
        model,
        weights,
        initial,
        dropout,
    } = Beginning::asked(&asked.start, asked.recipe, &prepared, INITIAL_SEED)?;
    options.dropout = match asked.dropout {
        Some(rate) => dropout_of(&model, rate)?,
        None => dropout,
    };
    warmup_fits(&options, &material.corpus(&prepared))?;
    let job = Job {
        prepared: &prepared,
        corpus: material.corpus(&prepared),
        options: &options,
        model: &model,
        initial: &initial,
    };
    let surroundings = Surroundings::resumable(state_folder(&asked.out), interrupt.flag());
    let what = format!("training {}", options.recipe);
    let mut trained = match job.train(weights, asked.device.into(), &surroundings, &what) {
        Ok(trained) => trained,
        Err(Error::Interrupted { .. }) => {
            let resume = Some("the same arguments".to_owned());
            return Err(Interrupted { resume }.into());
        }
        Err(error @ Error::Device { .. }) => return Err(error).context("--device"),
        Err(error @ Error::Precision { .. }) => return Err(error).context("--precision"),
        Err(error @ (Error::Io { .. } | Error::State { .. })) => {
            return Err(error).context("--out");
        }
        Err(error) => return Err(error.into()),
    };
    let mechanism = job.save(&asked.out, &trained).context("--out")?;
    trained.erase_state()?;
    let shown = Shown {
        out: asked.out.display().to_string(),
        recipe: options.recipe,
        guarantees: promised(
            options.recipe,
            &mechanism,
            prepared.training.unit,
            asked.delta.map_or_else(|| Delta::new(DELTA), Ok)?,
        )?,
        mechanism,
        estimates: trained.estimates,
        seeded: trained.seeded,
        held_out_perplexity: trained.held_out.iter().map(|loss| loss.exp()).collect(),
        dropout: Dropped::of(trained.dropout, asked),
    };
    let inputs = inputs(asked, &options)?;
    let text = match format {
        Format::Json => Envelope::new("training", inputs, &shown).to_text()?,
        Format::Text => summary(&shown, &inputs),
    };
    print(&text)?;
    Ok(Exit::Finished)
}

/// What the recipe promises, in its own notion: of one record, of what the policy finds in one,
/// or of all records of one secret.
fn promised(
    recipe: Recipe,
    mechanism: &Mechanism,
    unit: Unit,
    delta: Delta,
) -> Result<Vec<Guarantee>> {
    let mut rows = guarantees(mechanism, unit, 1, delta)?;
    for row in &mut rows {
        match recipe {
            Recipe::Jft | Recipe::Sdp => row.notion = Notion::SelectiveDp,
            Recipe::Protect => row.unit = UnitName::new("secret")?,
            Recipe::Sgd | Recipe::Dpsgd | Recipe::Crt => {}
        }
    }
    Ok(rows)
}

/// Why nothing is promised, where a part of the run protects nothing.
fn bare(mechanism: &Mechanism) -> Option<&str> {
    match mechanism {
        Mechanism::NonPrivate { why } => Some(why),
        Mechanism::Sequence { parts } => parts.iter().find_map(bare),
        Mechanism::Repeat { each, .. } => bare(each),
        _ => None,
    }
}

fn summary(shown: &Shown, inputs: &Inputs) -> String {
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
        let whose = match g.notion {
            Notion::SelectiveDp => format!("what the policy finds in one {}", g.unit),
            _ => format!("one {}", g.unit),
        };
        lines.push(format!(
            "ε ({}, {whose}, {convention}, δ = {}) {said}",
            g.neighbours,
            nearest(g.delta.map_or(DELTA, Delta::get), 2)
        ));
    }
    if let Some(why) = bare(&shown.mechanism) {
        lines.push(format!("because {why}"));
    }
    if !shown.estimates.is_empty() {
        lines.push("The manifest also holds the paper's estimate, which is no bound.".into());
    }
    if !shown.held_out_perplexity.is_empty() {
        let all = shown.held_out_perplexity.iter().map(|p| nearest(*p, 4));
        lines.push(format!(
            "perplexity of the held-out text by epoch: {} (no guarantee covers it)",
            all.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.extend(shown.dropout.as_ref().map(Dropped::text));
    lines.extend(inputs.assumed_line());
    if shown.seeded {
        lines.push("A fixed seed made the noise: this model is NOT private.".into());
    }
    lines.join("\n")
}
