//! `audit train`: a recipe on a prepared corpus, to a checkpoint.

use crate::account::plan_page::promises::in_order;
use crate::account::plan_page::{PlannedRun, first_promise};
use crate::account::secrets::SecretPosteriors;
use crate::account::words::{neighbours, promise};
use crate::audit::args::{ModelArg, Start, Train};
use crate::audit::train::material::Material;
use crate::audit::train::model::{Beginning, dropout_of};
use crate::audit::train::options::{inputs, options};
use crate::contract::{
    Align, Envelope, Exit, Interrupt, Interrupted, OutputFolder, Progress, Table,
};
use crate::number::{grouped, nearest, rounded_up, shortest};
use crate::page::{Output, Page, Section};
use crate::plan::{PreparedFacts, build, inputs as plan_inputs, redaction, unauthenticated};
use anyhow::{Context, Result, ensure};
use reticent_accounting::training::{Recipe, Run};
use reticent_accounting::{Guarantee, Mechanism, Tolerance};
use reticent_backends::{
    Checkpoint, Corpus, Device, Dropout, Error, FolderLock, Initial, Manifest, Model, Owner,
    Schedule, Surroundings, TrainOptions, Trained, erase_finished, free_for, open, state_folder,
    train_on,
};
use reticent_corpus::Prepared;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Momentum of private steps.
pub(in crate::audit) const MOMENTUM: f64 = 0.9;
/// Seed of the starting weights; they depend on nothing else.
pub(in crate::audit) const INITIAL_SEED: u64 = 0;

/// What is trained, on what, and how.
pub(in crate::audit) struct Job<'a> {
    pub(in crate::audit) prepared: &'a Prepared,
    pub(in crate::audit) corpus: Corpus<'a>,
    pub(in crate::audit) options: &'a TrainOptions,
    pub(in crate::audit) model: &'a Model,
    pub(in crate::audit) initial: &'a Initial,
}

impl Job<'_> {
    /// Trains from these weights, with a progress line.
    pub(in crate::audit) fn train(
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

    /// Writes checkpoint and owner's folder.
    pub(in crate::audit) fn save(&self, folder: &Path, trained: &Trained) -> Result<()> {
        let prepared = self.prepared;
        let mut manifest = Manifest::of(prepared, trained, self.initial.clone())?;
        if let (Some(plan), Some(canaries)) = (&prepared.plan, &trained.plan.secrets.canaries) {
            let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
            // Only CRT trains a public side.
            let open = match trained.plan.run {
                Run::Crt { .. } => small(canaries.on_public_side),
                _ => 0,
            };
            let owner = Owner::open_or_create(folder)?;
            manifest.canaries = Some(owner.keep(plan, small(canaries.records), open)?);
        }
        Checkpoint::save(
            folder,
            self.model,
            trained.trainer.weights(),
            &prepared.tokenizer,
            manifest,
        )?;
        Owner::open_or_create(folder)?.authenticate(folder)?;
        Ok(())
    }
}

/// Rates of dropout, and who asked for them.
#[derive(Serialize, JsonSchema)]
struct Dropped {
    #[serde(flatten)]
    rates: Dropout,
    asked_by: &'static str,
}

impl Dropped {
    fn of(rates: Dropout, args: &Train) -> Option<Self> {
        let asked_by = if args.dropout.is_some() {
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

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body {
    out: String,
    recipe: Recipe,
    mechanism: Mechanism,
    guarantees: Vec<Guarantee>,
    /// Of protect: what is promised of each secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretPosteriors>,
    /// Why nothing is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    /// What a paper estimates where it has no bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    estimates: Vec<Mechanism>,
    seeded: bool,
    /// What is to be said of the manifest of an earlier run.
    #[serde(skip)]
    caveat: Option<&'static str>,
    /// Perplexity of the held-out text after each epoch of the last phase; no guarantee covers it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_out_perplexity: Vec<f64>,
    /// What training passes dropped; absent where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<Dropped>,
}

pub(in crate::audit) fn run(train: &Train, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let request = train.request()?;
    train.within_limits(&request)?;
    // before anything is read: of two runs for one folder the second ends here
    let _lock = match train.out.parent() {
        // what is wrong with the place is said below
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => None,
        _ => Some(FolderLock::take(&train.out).context("--out")?),
    };
    let erased = erase_finished(&train.out).context("--out")?;
    free_for(&train.out).with_context(|| {
        if erased {
            "--out: the run into it is finished, and what was left of its state is now erased"
        } else {
            "--out"
        }
    })?;
    OutputFolder::probe(&train.out).context("--out")?;
    let folder = request.prepared.as_deref();
    let folder = folder.with_context(|| format!("{}: is needed", request.name("prepared")))?;
    let facts = PreparedFacts::read(folder).context("PREPARED")?;
    // Accounted for before anything is trained.
    let plan = build(&request, Some(&facts))?;
    plan.run
        .trainable()
        .with_context(|| request.name("sampler"))?;
    let tolerance = Tolerance::DEFAULT;
    plan.guarantees(tolerance)
        .context("the plan can't be accounted for, so nothing is trained")?;
    let redacted = redaction(&request, plan.secrets.everything_private)?;
    let of_plan = plan_inputs(&request, &plan, redacted.as_ref())?;
    let prepared = Prepared::load(folder).context("PREPARED")?;
    let material = Material::of(train, &request, &plan, (&prepared, &facts))?;
    let mut options = options(train, &request, plan, &prepared)?;
    let start = Start {
        model: request.model.clone().map_or_else(
            || train.start.model.clone(),
            |folder| {
                folder
                    .to_string_lossy()
                    .parse()
                    .unwrap_or(ModelArg::Folder(folder))
            },
        ),
        declared_public: request.declared_public,
        ..train.start.clone()
    };
    let Beginning {
        model,
        weights,
        initial,
        dropout,
    } = Beginning::args(&start, &options.plan, &prepared, INITIAL_SEED)?;
    options.dropout = match train.dropout {
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
    let surroundings = Surroundings::resumable(state_folder(&train.out), interrupt.flag());
    let what = format!("training {}", request.recipe());
    let mut trained = match job.train(weights, train.device.into(), &surroundings, &what) {
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
    job.save(&train.out, &trained).context("--out")?;
    if let Some(secrets) = &material.assignment {
        let owner = Owner::open_or_create(&train.out).context("--out")?;
        owner.keep_secrets(secrets).context("--out")?;
    }
    trained.erase_state()?;
    let shown = Body {
        out: train.out.display().to_string(),
        recipe: request.recipe(),
        guarantees: trained.plan.guarantees(tolerance)?,
        mechanism: trained.mechanism(),
        secrets: SecretPosteriors::of(&trained.plan, &trained.mechanism())?,
        because: trained.plan.unprotected(),
        estimates: trained.estimates,
        seeded: trained.plan.seeded,
        caveat: unauthenticated(&trained.plan),
        held_out_perplexity: trained.held_out.iter().map(|loss| loss.exp()).collect(),
        dropout: Dropped::of(trained.dropout, train),
    };
    let run = PlannedRun {
        plan: trained.plan.clone(),
        tolerance,
        inputs: inputs(train, of_plan, &options)?,
    };
    output.answer(
        &Envelope::new("training", run.inputs.clone(), &shown),
        &page(&shown, &run)?,
    )?;
    Ok(Exit::Finished)
}

/// The first promise in a sentence, then all guarantees.
fn page(shown: &Body, run: &PlannedRun) -> Result<Page> {
    let title = format!("{}: trained by {}", shown.out, shown.recipe);
    let mut guarantees = Table::new([
        ("guarantee", Align::Left),
        ("neighbouring relation", Align::Left),
        ("δ", Align::Right),
        ("ε upper", Align::Right),
    ]);
    for row in in_order(run, &shown.guarantees) {
        let upper = row.epsilon.and_then(|bounds| bounds.upper);
        let upper = upper.map_or(f64::INFINITY, |upper| upper.get().get());
        guarantees.row([
            promise(row),
            neighbours(row).to_owned(),
            row.delta
                .map_or_else(String::new, |delta| shortest(delta.get())),
            rounded_up(upper, 6),
        ]);
    }
    let mut page = Page::new(title, first_promise(run, &shown.guarantees)?)
        .answer(Section::table("Guarantees", guarantees));
    if let Some(secrets) = &shown.secrets {
        page = page
            .answer(Section::text("", secrets.sentences()))
            .answer(Section::table("Of each secret", secrets.table()));
    }
    let mut notes: Vec<String> = Vec::new();
    if shown.seeded {
        notes.push("A fixed seed made the noise: this model is NOT private.".into());
    }
    if let Mechanism::Repeat { times, .. } = &shown.mechanism {
        notes.push(format!("Private steps: {}.", grouped(times.get())));
    }
    notes.extend(shown.caveat.map(str::to_owned));
    if !shown.estimates.is_empty() {
        notes.push("The manifest also holds the paper's estimate, which is no bound.".into());
    }
    if !shown.held_out_perplexity.is_empty() {
        let all = shown.held_out_perplexity.iter().map(|p| nearest(*p, 4));
        notes.push(format!(
            "Perplexity of the held-out text by epoch: {} (no guarantee covers it).",
            all.collect::<Vec<_>>().join(", ")
        ));
    }
    notes.extend(shown.dropout.as_ref().map(Dropped::text));
    notes.extend(run.inputs.assumed_line());
    Ok(page.answer(Section::notes("", notes)))
}
