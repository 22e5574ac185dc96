//! `audit train`: trains a recipe on a prepared corpus and writes a checkpoint.

use crate::account::plan_page::promises::in_order;
use crate::account::plan_page::{
    PlannedRun, first_promise, guarantees, headline, secrets_named, sigma_found,
};
use crate::account::secrets::SecretPosteriors;
use crate::account::words::{
    PREMISES, REMARKS, about_delta, about_outside_text, of_redacted_secrets, promises_nothing,
};
use crate::audit::args::Train;
use crate::audit::exposure::tokens_to_rank;
use crate::audit::owner_key::load_prepared;
use crate::audit::train::left::{epochs_beside, place_of_epoch, refuse_unseen};
use crate::audit::train::log::{Line, Log};
use crate::audit::train::material::Material;
use crate::audit::train::model::{Beginning, FreshAdapter};
use crate::audit::train::options::{inputs, options};
use crate::audit::train::other_run::{is_no_provenance, other_options};
use crate::audit::train::tensorboard::Events;
use crate::audit::train::trained_on::TrainedOn;
use crate::audit::train::workers::{connect, of_environment};
use crate::contract::{Envelope, Exit, Interrupt, Interrupted, OutputFolder, Progress, note};
use crate::number::{count_of, grouped, nearest, shortest};
use crate::page::{Output, Page, Section};
use crate::plan::{
    PlanRequest, PreparedFacts, build, counted_line, granted_line, inputs as plan_inputs,
    redaction, unauthenticated,
};
use anyhow::{Context, Result};
use reticent_accounting::training::{
    Base, CHOICE_OF_RECORDS, INCIDENCE, NUMBER_OF_RECORDS, Recipe, Run, TrainingPlan,
};
use reticent_accounting::{Epsilon, Guarantee, Mechanism, Neighbours, Tolerance, Upper};
use reticent_backends::checkpoint::{
    Checkpoint, FolderLock, Manifest, Owner, erase_finished, free_for, state_folder, weights_digest,
};
use reticent_backends::engine::open;
use reticent_backends::model::{Head, LoraSpec, Model};
use reticent_backends::run::{
    Classified, Epoch, Ran, Surroundings, TrainProgress, Trained, train_on, train_together,
};
use reticent_backends::trainer::Dropout;
use reticent_backends::{Collective, Corpus, Device, Error, Schedule, TrainOptions};
use reticent_corpus::LossOn;
use reticent_corpus::canary::CanaryPlan;
use reticent_corpus::prepare::Prepared;
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// The momentum of private steps by gradient descent.
pub(in crate::audit) const MOMENTUM: f64 = 0.9;
/// The default seed of the initial weights, which depend on nothing else.
pub(in crate::audit) const INITIAL_SEED: u64 = 0;

/// What is trained, on what, and how.
pub(in crate::audit) struct Job<'a> {
    pub(in crate::audit) prepared: &'a Prepared,
    pub(in crate::audit) corpus: Corpus<'a>,
    pub(in crate::audit) options: &'a TrainOptions,
    /// What it starts from, without the weights.
    pub(in crate::audit) from: &'a Beginning,
    /// For `protect`, the secrets for which the run is certified, for the owner of each checkpoint.
    pub(in crate::audit) assignment: Option<&'a [u8]>,
}

impl Job<'_> {
    /// Trains from these weights, with a progress line.
    pub(in crate::audit) fn train(
        &self,
        weights: Vec<Vec<f32>>,
        device: Device,
        surroundings: &Surroundings<'_>,
        what: &str,
        seen: &mut dyn FnMut(&TrainProgress),
        workers: Option<Box<dyn Collective>>,
    ) -> std::result::Result<Trained, Error> {
        let mut model = open(&self.from.model, weights, device)?;
        if let Some(FreshAdapter { lora, start, .. }) = &self.from.adapter {
            model.adapt(lora.clone(), start.clone())?;
        }
        let total = Schedule::of(self.options, &self.corpus)?.total();
        let progress = Progress::of(total, what, "steps");
        let mut at = |at: TrainProgress| {
            progress.at(at.step);
            seen(&at);
        };
        let (options, corpus) = (self.options, &self.corpus);
        match workers {
            Some(workers) => train_together(model, options, corpus, surroundings, workers, &mut at),
            None => train_on(model, options, corpus, surroundings, &mut at),
        }
    }

    /// Returns the plan of the canaries that the run meets, if any.
    fn planted(&self) -> Option<&CanaryPlan> {
        let stated = self.options.plan.secrets.canaries.as_ref();
        self.prepared.plan.as_ref().filter(|_| stated.is_some())
    }

    /// Returns why `audit exposure` can't rank the canaries that the run meets, if it can't.
    fn unranked(&self) -> Result<Option<String>> {
        let Some(plan) = self.planted() else {
            return Ok(None);
        };
        let model = &self.from.model;
        if model.predicts_next_token().is_err() {
            return Ok(Some(
                "`audit exposure` can't rank these canaries: it needs the likelihood of a text, and this model predicts no next token"
                    .to_owned(),
            ));
        }
        let Some(most) = model.context() else {
            return Ok(None);
        };
        let needed = tokens_to_rank(plan, &self.prepared.tokenizer)?;
        Ok((most < needed).then(|| {
            format!(
                "a canary's line has {needed} tokens before the last one of its secret, and the model reads at most {most} at once: `audit exposure` can't rank these canaries; it could with a --context of {needed}"
            )
        }))
    }

    /// Writes what the owner keeps of a checkpoint, then the checkpoint itself, so that after a kill at any time an
    /// existing checkpoint has all its codes.
    pub(in crate::audit) fn save(
        &self,
        folder: &Path,
        owner: &Owner,
        ran: &Ran,
        weights: &[Vec<f32>],
    ) -> Result<()> {
        let prepared = self.prepared;
        let Beginning {
            model,
            initial,
            beside,
            adapter,
            ..
        } = self.from;
        let mut manifest = Manifest::of(prepared, ran, initial.clone())?;
        if let (Some(plan), Some(canaries)) = (&prepared.plan, &ran.plan.secrets.canaries) {
            let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
            // Only CRT trains on a public side.
            let open = match ran.plan.run {
                Run::Crt { .. } => small(canaries.on_public_side),
                _ => 0,
            };
            let found = prepared.facts.canaries.as_ref();
            let found = found.context("prepared.json: `canaries` is missing")?;
            let (records, reached) = (small(canaries.records), small(found.reached()));
            manifest.canaries = Some(owner.keep(plan, records, open, reached)?);
        }
        owner.keep_records(prepared)?;
        if let Some(secrets) = self.assignment {
            owner.keep_secrets(secrets)?;
        }
        let (tokenizer, owner) = (&prepared.tokenizer, Some(owner));
        match adapter {
            None => Checkpoint::save(folder, model, weights, tokenizer, beside, manifest, owner)?,
            Some(FreshAdapter { lora, base, .. }) => {
                let on = (model, lora, base.as_str());
                Checkpoint::save_adapter(folder, on, weights, tokenizer, beside, manifest, owner)?;
            }
        }
        Ok(())
    }
}

/// Opens the owner's folder of a checkpoint that is about to be written, with the key of another checkpoint of the run
/// if that has one. If the checkpoint's path is taken, the folder belongs to another model and is not changed.
pub(in crate::audit) fn owner_of_new(folder: &Path, other: Option<&Path>) -> Result<Owner> {
    free_for(folder)?;
    Ok(match other {
        Some(other) => Owner::open_or_create_beside(folder, other)?,
        None => Owner::open_or_create(folder)?,
    })
}

/// Rates of dropout, and what set them.
#[derive(Serialize, JsonSchema)]
struct Dropped {
    #[serde(flatten)]
    rates: Dropout,
    asked_by: &'static str,
}

impl Dropped {
    fn of(rates: Dropout, request: &PlanRequest) -> Option<Self> {
        let asked_by = if request.optimization.dropout.is_some() {
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

#[derive(Serialize, JsonSchema)]
pub(crate) struct Body {
    out: String,
    recipe: Recipe,
    mechanism: Mechanism,
    /// ε of the first promise, as `account plan` gives it.
    headline: Upper<Epsilon>,
    guarantees: Vec<Guarantee>,
    /// Of protect: what is promised for each secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretPosteriors>,
    /// Why nothing is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    /// Whether records have classes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    labelled: bool,
    /// The model of others that the run began from, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Base>,
    /// What a paper estimates if it has no bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    estimates: Vec<Mechanism>,
    seeded: bool,
    /// Whose messages carried loss; absent if every token did.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_on: Option<LossOn>,
    /// What is to be said of an earlier run and a corpus that are not authenticated.
    #[serde(skip)]
    caveats: Vec<&'static str>,
    /// Held-out texts that are said to be public and are trained on.
    #[serde(skip)]
    trained_on: Option<TrainedOn>,
    /// Whether the preparation drew something over all documents.
    #[serde(skip)]
    draws: bool,
    /// Perplexity of the held-out text (of an encoder: of its masked tokens) after each epoch of the last phase; no
    /// guarantee covers it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_out_perplexity: Vec<f64>,
    /// Of a classifier: how the held-out text was classified after each of these epochs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_out_classes: Vec<Classified>,
    /// Of a classifier: the names of its classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
    /// What training passes dropped; absent if nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<Dropped>,
    /// The trained adapter; the guarantees are for its training, not its base's.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<TrainedAdapter>,
    /// Records longer than the model's context: each is several windows, clipped as one record. No guarantee covers
    /// this count.
    #[serde(skip_serializing_if = "crate::contract::is_zero")]
    in_windows: u64,
    /// Of a classifier: records longer than the model's context, of which only the beginning and the last token were
    /// read. No guarantee covers this count.
    #[serde(skip_serializing_if = "crate::contract::is_zero")]
    shortened: u64,
}

/// The trained adapter, and its base.
#[derive(Serialize, JsonSchema)]
struct TrainedAdapter {
    #[serde(flatten)]
    spec: LoraSpec,
    /// The folder of the base, whose own weights were unchanged.
    base: String,
    /// How many values were trained.
    parameters: usize,
}

impl TrainedAdapter {
    fn of(adapter: &FreshAdapter) -> Self {
        Self {
            spec: adapter.lora.spec().clone(),
            base: adapter.base.clone(),
            parameters: adapter.start.iter().map(Vec::len).sum(),
        }
    }

    fn text(&self) -> String {
        let LoraSpec {
            rank,
            alpha,
            targets,
        } = &self.spec;
        format!(
            "A LoRA adapter of rank {rank} (alpha {}) on {} of {}: {} parameters.",
            shortest(*alpha),
            targets.join(", "),
            self.base,
            grouped(self.parameters as u64)
        )
    }
}

/// Returns the number of records that are longer than the model's context.
fn too_long(model: &Model, prepared: &Prepared) -> u64 {
    let Some(context) = model.context() else {
        return 0;
    };
    let records = prepared.training.records.iter();
    records.filter(|r| r.tokens.len() > context).count() as u64
}

/// Locks --out, so that the second of two runs on one folder ends here, and erases what a finished run left.
fn claim(train: &Train) -> Result<Option<FolderLock>> {
    // The lock would lie elsewhere than beside the folder.
    reticent_disk::refuse_alias(&train.out)
        .with_context(|| format!("--out: {}", train.out.display()))?;
    let lock = match train.out.parent() {
        // A problem with the path is reported below.
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
    Ok(lock)
}

pub(in crate::audit) fn run(train: &Train, output: Output, interrupt: &Interrupt) -> Result<Exit> {
    let request = train.request()?;
    train.within_limits(&request)?;
    let workers = of_environment(&train.workers)?;
    // Only worker 0 writes files.
    let leads = workers.as_ref().is_none_or(|workers| workers.rank == 0);
    // Connect before anything else can fail: the others end with this worker, and not after the time for which they wait.
    let mut collective = workers.as_ref().map(connect).transpose()?;
    if let Some(collective) = &mut collective {
        interrupt.unless_raised(refuse_unseen(&train.out, collective.as_mut()))?;
    }
    // Lock before anything is read.
    let _lock = if leads { claim(train)? } else { None };
    let folder = request.prepared.as_deref();
    let folder = folder.with_context(|| format!("{}: is needed", request.name("prepared")))?;
    let prepared = load_prepared(folder).context("PREPARED")?;
    let facts = PreparedFacts::of_folder(&prepared, folder).context("PREPARED")?;
    // Account before anything is trained.
    let plan = build(&request, Some(&facts))?;
    plan.run
        .trainable()
        .with_context(|| request.name("sampler"))?;
    let tolerance = Tolerance::DEFAULT;
    plan.guarantees(tolerance)
        .context("the plan can't be accounted for, so nothing is trained")?;
    let redacted = redaction(&request, plan.secrets.everything_private)?;
    let of_plan = plan_inputs(&request, &plan, redacted.as_ref())?;
    if prepared.options.loss_on.is_some() && prepared.facts.loss_tokens == 0 {
        anyhow::bail!(
            "PREPARED: no token of {} is the assistant's, so there is nothing to learn",
            folder.display()
        );
    }
    let not_compared = facts.not_compared(plan.secrets.labels.as_ref())?;
    let mut material = Material::of(train, &request, &plan, (&prepared, &facts))?;
    let mut options = options(train, &request, plan, &prepared)?;
    let mut from = Beginning::args(&train.model_of(&request), &request, &options, &prepared)?;
    let (weights, model) = (std::mem::take(&mut from.weights), &from.model);
    options.dropout = match request.optimization.dropout {
        Some(rate) => Dropout::all(rate).context("--dropout")?.of(model),
        None => from
            .dropout
            .clone()
            .map_err(anyhow::Error::msg)
            .context("--model")?,
    };
    material.mask(model, &prepared).context("--model")?;
    let steps = Schedule::of(&options, &material.corpus(&prepared))?.total();
    let fits = options.learning_rates.fit(steps);
    fits.with_context(|| request.name("warmup"))?;
    let job = Job {
        prepared: &prepared,
        corpus: material.corpus(&prepared),
        options: &options,
        from: &from,
        assignment: material.assignment.as_deref(),
    };
    if let Some(why) = job.unranked()?.filter(|_| leads) {
        note(&why);
    }
    let state = state_folder(&train.out);
    let keep = Keep {
        out: &train.out,
        every: request.optimization.keep_every,
        job: &job,
        log: RefCell::new(Log::new(&state)),
        events: RefCell::new(match &train.tensorboard {
            Some(folder) if leads => Some(Events::create(folder).context("--tensorboard")?),
            _ => None,
        }),
        tolerance,
    };
    if leads {
        keep.has_room(&train.out).context("--out")?;
        keep.free(&state)?;
    }
    let failed = RefCell::new(None);
    let at_epoch = |epoch: Epoch<'_>| {
        keep.at_epoch(&epoch).map_err(|error| {
            failed.replace(Some(error));
            std::io::Error::other("the end of an epoch could not be kept")
        })
    };
    let surroundings = if leads {
        Surroundings {
            at_epoch: Some(&at_epoch),
            ..Surroundings::resumable(state, interrupt.flag())
        }
    } else {
        Surroundings::in_memory(interrupt.flag())
    };
    let what = match &workers {
        Some(workers) if workers.world > 1 => format!(
            "training {}, worker {} of {}",
            request.recipe(),
            workers.rank,
            workers.world
        ),
        _ => format!("training {}", request.recipe()),
    };
    let mut unwritten = None;
    let mut seen = |at: &TrainProgress| {
        if !leads {
            return;
        }
        let written = keep.write(&Line::of_step(at));
        unwritten = unwritten.take().or(written.err());
    };
    let trained = job.train(
        weights,
        train.device,
        &surroundings,
        &what,
        &mut seen,
        collective,
    );
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let mut trained = match trained {
        Ok(trained) => trained,
        Err(error) if is_interrupted(&error, interrupt) => {
            let resume = Some("the same arguments");
            return Err(Interrupted { resume }.into());
        }
        Err(error @ Error::Device { .. }) => return Err(error).context("--device"),
        Err(error @ Error::Precision { .. }) => return Err(error).context("--precision"),
        Err(Error::OtherRun { path, mut differ }) => {
            let said = other_options(&request, &differ);
            if said.is_some() {
                differ.retain(is_no_provenance);
            }
            let refused = Err(Error::OtherRun { path, differ }).context("--out");
            return match said {
                Some(said) => refused.context(said),
                None => refused,
            };
        }
        Err(error @ (Error::Io { .. } | Error::State { .. })) => {
            return Err(error).context("--out");
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(error) = unwritten {
        return Err(error).context("--out: the log of the run");
    }
    if !leads {
        note("done; worker 0 writes the model");
        return Ok(Exit::Finished);
    }
    let first = keep.first();
    let owner = owner_of_new(&train.out, first.as_deref()).context("--out")?;
    keep.log.into_inner().keep(&owner).context("--out")?;
    let weights = trained.trainer.weights();
    job.save(&train.out, &owner, &trained.ran, weights)
        .context("--out")?;
    trained.erase_state()?;
    let run = PlannedRun {
        plan: trained.ran.plan.clone(),
        request: request.clone(),
        tolerance,
        inputs: inputs(train, &request, of_plan, &options)?,
        corpus: Some(facts),
        not_compared,
    };
    let guarantees = run.plan.guarantees(tolerance)?;
    let long = too_long(model, &prepared);
    let (in_windows, shortened) = match model.head() {
        Head::Classes(_) => (0, long),
        Head::NextToken | Head::MaskedToken => (long, 0),
    };
    let shown = Body {
        out: train.out.display().to_string(),
        recipe: request.recipe(),
        headline: headline(&run, &guarantees)?,
        guarantees,
        mechanism: trained.mechanism(),
        secrets: SecretPosteriors::of(&trained.ran.plan, &trained.mechanism())?,
        because: trained.ran.plan.unprotected(),
        labelled: trained.ran.plan.has_classes(),
        base: trained.ran.plan.base(),
        estimates: trained.ran.estimates,
        seeded: trained.ran.plan.seeded,
        loss_on: prepared.options.loss_on,
        caveats: unauthenticated(&trained.ran.plan),
        trained_on: material.trained_on(),
        draws: prepared.options.draws(),
        held_out_perplexity: match model.head() {
            Head::Classes(_) => Vec::new(),
            Head::NextToken | Head::MaskedToken => {
                trained.ran.held_out.iter().map(|loss| loss.exp()).collect()
            }
        },
        held_out_classes: trained.ran.classified,
        classes: match &prepared.options.labels {
            Some(labels) => labels.classes.clone(),
            None => Vec::new(),
        },
        dropout: Dropped::of(trained.ran.dropout, &request),
        adapter: from.adapter.as_ref().map(TrainedAdapter::of),
        in_windows,
        shortened,
    };
    output.answer(
        &Envelope::new("training", run.inputs.clone(), &shown),
        &page(&shown, &run)?,
    )
}

/// Returns whether a run ended because the user wants to stop, who may have stopped another worker first.
fn is_interrupted(error: &Error, interrupt: &Interrupt) -> bool {
    match error {
        Error::Interrupted { .. } => true,
        Error::Worker(_) => interrupt.raised(),
        _ => false,
    }
}

/// What is written during a run: its log, and the checkpoints of epochs.
struct Keep<'a> {
    out: &'a Path,
    every: Option<u64>,
    job: &'a Job<'a>,
    log: RefCell<Log>,
    events: RefCell<Option<Events>>,
    tolerance: Tolerance,
}

impl Keep<'_> {
    /// Returns the path of the first of these checkpoints.
    fn first(&self) -> Option<PathBuf> {
        self.every.map(|every| place_of_epoch(self.out, every))
    }

    /// Checks that the owner's folder of a checkpoint accepts the plan of this run.
    fn has_room(&self, place: &Path) -> Result<()> {
        Ok(Owner::has_room_for(self.job.planted(), place)?)
    }

    /// Checks that the paths for epochs are free: no plan of another model where a checkpoint is due, and for a new run no
    /// checkpoint of any epoch, which would pass for its own. A resumed run recognises its own checkpoints by their
    /// weights when it reaches them.
    fn free(&self, state: &Path) -> Result<()> {
        let is_new = free_for(state).is_ok();
        for epoch in epochs_beside(self.out)? {
            let place = place_of_epoch(self.out, epoch);
            let due = self.every.is_some_and(|every| epoch.is_multiple_of(every));
            let flag = if due { "--keep-every" } else { "--out" };
            if is_new {
                free_for(&place).with_context(|| {
                    format!(
                        "{flag}: an earlier run left a checkpoint; move or remove it. What was released counts: account \
                         compose says what its manifest and that of the new run promise together"
                    )
                })?;
            }
            if due {
                self.has_room(&place).context(flag)?;
            }
        }
        Ok(())
    }

    /// Writes a line to all logs.
    fn write(&self, line: &Line) -> std::io::Result<()> {
        if let Some(events) = &mut *self.events.borrow_mut() {
            events.write(line)?;
        }
        self.log.borrow_mut().write(line)
    }

    fn at_epoch(&self, epoch: &Epoch<'_>) -> Result<()> {
        let line = Line::of_epoch(epoch, self.tolerance)?;
        self.write(&line).context("--out: the log of the run")?;
        // The last one is --out itself.
        let due = self
            .every
            .is_some_and(|every| epoch.number.is_multiple_of(every));
        if !due || epoch.last {
            return Ok(());
        }
        let place = place_of_epoch(self.out, epoch.number);
        // A resumed run reaches this checkpoint again, with the same weights.
        if let Ok((_, written)) = Checkpoint::trained(&place)
            && weights_digest(&written) == weights_digest(epoch.weights)
        {
            return Ok(());
        }
        let first = self.first();
        owner_of_new(&place, first.as_deref())
            .and_then(|owner| (self.job).save(&place, &owner, &epoch.ran, epoch.weights))
            .context("--keep-every")
    }
}

/// The most lines of the short text: a model that isn't private, or a secret that isn't covered, has to be said beside the
/// guarantees.
const LINES: usize = 22;

/// Returns a page with the first promise in a sentence, then all guarantees.
fn page(shown: &Body, run: &PlannedRun) -> Result<Page> {
    let mut title = format!("{}: trained by {}", shown.out, shown.recipe);
    if shown.recipe.is_private() {
        title.push_str(&format!(", delta {}", shortest(run.plan.delta.get())));
    }
    let rows = guarantees(&in_order(run, &shown.guarantees));
    let page = Page::new(title, first_promise(run, &shown.guarantees)?)
        .lines(LINES)
        .answer(Section::table("Guarantees", rows));
    let mut premises: Vec<String> = Vec::new();
    if shown.seeded {
        premises.push("A fixed seed made the noise: this model is NOT private.".into());
    }
    if promises_nothing(&run.inputs).is_none() {
        premises.extend(about_delta(&run.inputs));
    }
    premises.extend(of_redacted_secrets(&shown.guarantees));
    premises.extend(granted_line(&run.plan));
    premises.extend(shown.caveats.iter().map(|&said| said.to_owned()));
    // What a short text has no room for is the end of this list.
    let mut notes: Vec<String> = secrets_named(run).into_iter().collect();
    if let Some(LossOn::Assistant) = shown.loss_on {
        notes.push(
            "Loss is on the assistant's messages alone, in training and on held-out text; the rest of a record is read, \
             and covered as it is."
                .into(),
        );
    }
    notes.extend(about_outside_text(
        run.plan.base(),
        run.plan.held_out_public(),
    ));
    notes.extend(shown.trained_on.map(TrainedOn::text));
    notes.extend(run.not_compared.clone());
    if !shown.held_out_perplexity.is_empty() {
        let all = shown.held_out_perplexity.iter().map(|p| nearest(*p, 4));
        notes.push(format!(
            "Perplexity of the held-out text by epoch: {} (no guarantee covers it).",
            all.collect::<Vec<_>>().join(", ")
        ));
    }
    if !shown.classes.is_empty() {
        notes.push(format!(
            "A classifier of {}.{}",
            count_of(shown.classes.len() as u64, "class"),
            classes_covered(&run.plan)
        ));
    }
    if !shown.held_out_classes.is_empty() {
        let all = |of: fn(&Classified) -> f64| {
            let each = shown.held_out_classes.iter().map(|c| nearest(of(c), 4));
            each.collect::<Vec<_>>().join(", ")
        };
        notes.push(format!(
            "Of the held-out text by epoch (no guarantee covers it): accuracy {}; macro-F1 {}.",
            all(|c| c.accuracy),
            all(|c| c.macro_f1)
        ));
    }
    if shown.shortened > 0 {
        notes.push(format!(
            "{} longer than the model's context (no guarantee covers this count): of each only the beginning and the last \
             token were read.",
            count_of(shown.shortened, "record")
        ));
    }
    if shown.in_windows > 0 {
        notes.push(format!(
            "{} longer than the model's context (no guarantee covers this count): trained on in windows{}.",
            count_of(shown.in_windows, "record"),
            match shown.recipe.is_private() {
                true => ", clipped as one record",
                false => "",
            }
        ));
    }
    notes.extend(counted_line(&run.plan));
    if run.plan.continues.is_some() {
        notes.extend(sigma_found(run).map(|found| found.trim().to_owned()));
    }
    let rows = &shown.guarantees;
    let of_presence = rows
        .iter()
        .any(|row| row.neighbours == Neighbours::AddRemove);
    let chosen = of_presence && shown.draws;
    let protects = run.plan.run.recipe() == Some(Recipe::Protect);
    let not_covered = [
        protects.then_some(INCIDENCE),
        of_presence.then_some(NUMBER_OF_RECORDS),
        chosen.then_some(CHOICE_OF_RECORDS),
    ];
    let not_covered = not_covered
        .into_iter()
        .flatten()
        .map(|said| format!("{said}."));
    let mut page = page
        .decides(Section::notes(PREMISES, premises))
        .answer(Section::notes(REMARKS, notes));
    if let Some(secrets) = &shown.secrets {
        page = page
            .answer(Section::text("", secrets.sentences()))
            .answer(Section::table("Of each secret", secrets.table()));
    }
    Ok(page
        .section(Section::notes("About this run", about_the_run(shown, run)))
        .section(Section::notes(
            "What the numbers mean and do not cover",
            not_covered,
        )))
}

/// Describes what ran beyond the recipe.
fn about_the_run(shown: &Body, run: &PlannedRun) -> Vec<String> {
    let mut notes = Vec::new();
    if let Mechanism::Repeat { times, .. } = &shown.mechanism {
        notes.push(format!("Private steps: {}.", grouped(times.get())));
    }
    notes.extend(shown.adapter.as_ref().map(TrainedAdapter::text));
    notes.extend(shown.dropout.as_ref().map(Dropped::text));
    if !shown.estimates.is_empty() {
        notes.push("The manifest also holds the paper's estimate, which is no bound.".into());
    }
    notes.extend(run.inputs.assumed_line());
    notes
}

/// Describes what a run promises about the classes of records.
fn classes_covered(plan: &TrainingPlan) -> &'static str {
    if plan.run.recipe() == Some(Recipe::Sgd) {
        ""
    } else if plan.within_a_class() {
        " No policy redacts a class: it stands beside redacted text in steps without noise. What is promised of a \
         redacted secret is promised between records of one class, and nothing of a class."
    } else {
        " A record's class is part of it and covered as its text is."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    /// Ctrl-C reaches all workers of a terminal: one that first sees another one end had failed.
    #[test]
    fn a_worker_that_is_gone_after_an_interruption_is_no_failure() {
        let interrupt = Interrupt::default();
        let gone = Error::Worker("worker 0 is gone".into());
        assert!(!is_interrupted(&gone, &interrupt));
        interrupt.flag().store(true, Ordering::SeqCst);
        assert!(is_interrupted(&gone, &interrupt));
        assert!(!is_interrupted(
            &Error::Unsuitable(String::new()),
            &interrupt
        ));
    }
}
