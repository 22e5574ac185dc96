//! Runs a recipe: the order of steps, snapshots, resumption, and the summary from the ledger at the end.

mod side;
mod together;
mod watch;

use crate::checkpoint::manifest::{Course, Phase};
use crate::checkpoint::state::{RunIdentity, State};
use crate::collective::Collective;
use crate::error::{Error, Result};
use crate::material::Corpus;
use crate::model::Head;
use crate::privacy::ledger::Ledger;
use crate::privacy::random::{ChaChaNoise, NoNoise, Noise, RunKey};
use crate::privacy::step::LANES;
use crate::recipe::{Schedule, StepPosition, TrainOptions, estimates};
use crate::trainer::dropout::{Dropout, Masks};
use crate::trainer::masking::{Masking, TokenMasks};
use crate::trainer::optimizer::{Average, Moments, Optimizer, OptimizerSpec};
use crate::trainer::{Added, Precision, PublicBatch, Trainer};
use reticent_accounting::training::TrainingPlan;
use reticent_accounting::{Mechanism, Steps};
use reticent_corpus::{TokenId, TrainingSet};
pub(crate) use side::Workers;
use side::{Seen, Side};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
pub use together::check_world;
pub(crate) use together::own_key;
pub use watch::Classified;
use watch::{HeldOut, Watch};

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainProgress {
    /// Steps finished, ordinary and private.
    pub step: u64,
    /// Total steps of the run.
    pub total: u64,
    /// The current epoch, from 1.
    pub epoch: u64,
    /// Whether the last step was private.
    pub private: bool,
    /// Mean loss of the batch of an ordinary step, in nats per token.
    pub loss: Option<f64>,
    /// What a private step added: the size of its batch, and how many of its examples were clipped. No guarantee covers
    /// these numbers.
    pub added: Option<Added>,
}

/// The end of an epoch of the last phase.
#[derive(Debug)]
pub struct Epoch<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Steps finished, ordinary and private.
    pub step: u64,
    /// Whether the run ends with this epoch.
    pub last: bool,
    /// The weights after the epoch; their moving average where the run ends with one.
    pub weights: &'a [Vec<f32>],
    /// What had run when the epoch ended.
    pub ran: Ran,
}

/// A callback for the end of each epoch.
pub type AtEpoch<'a> = dyn Fn(Epoch<'_>) -> std::io::Result<()> + 'a;

/// The surroundings of a run: its state folder, its stop flag and its callback.
pub struct Surroundings<'a> {
    /// The folder of key, ledger and snapshots; without one the run can't be resumed.
    pub state: Option<PathBuf>,
    /// How often a snapshot is taken.
    pub snapshot_every: Duration,
    /// Set from outside to stop the run.
    pub stop: &'a AtomicBool,
    /// Called at the end of each epoch of the last phase, before a snapshot is taken. After a crash in between it is
    /// called again with the same weights.
    pub at_epoch: Option<&'a AtEpoch<'a>>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("state", &self.state)
            .field("snapshot_every", &self.snapshot_every)
            .finish_non_exhaustive()
    }
}

impl<'a> Surroundings<'a> {
    /// A run in memory, which stores nothing and can't be resumed.
    #[must_use]
    pub const fn in_memory(stop: &'a AtomicBool) -> Self {
        Self {
            state: None,
            snapshot_every: Duration::MAX,
            stop,
            at_epoch: None,
        }
    }
    /// A run that can be resumed from this folder.
    #[must_use]
    pub const fn resumable(state: PathBuf, stop: &'a AtomicBool) -> Self {
        Self {
            state: Some(state),
            snapshot_every: Duration::from_secs(10),
            stop,
            at_epoch: None,
        }
    }
}

/// A finished run.
pub struct Trained {
    /// The trained model.
    pub trainer: Box<dyn Trainer>,
    /// What ran.
    pub ran: Ran,
    state: Option<State>,
}

/// What has run, for the manifest.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The plan as it ran: steps taken beyond the planned ones are counted.
    pub plan: TrainingPlan,
    /// The phases that ran, in order.
    pub phases: Vec<Phase>,
    /// Estimates from a paper where it has no bound (JFT's light noise); never an upper bound.
    pub estimates: Vec<Mechanism>,
    /// The dropout of training passes.
    pub dropout: Dropout,
    /// The epochs and learning rates.
    pub course: Course,
    /// Mean loss of the held-out text after each epoch of the last phase, in nats per predicted token (for a
    /// classifier, per record), by the moving average of the weights where the run ends with one. No guarantee covers
    /// it, and no checkpoint stores it.
    pub held_out: Vec<f64>,
    /// For a classifier, how well the held-out records were classified after each of these epochs. Reported and stored
    /// as [`Self::held_out`].
    pub classified: Vec<Classified>,
}

impl Trained {
    /// Returns the mechanism of what was released, for the accountant.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.ran.plan.mechanism()
    }

    /// Erases key, ledger and snapshots. Call it once the checkpoint is on disk.
    ///
    /// # Errors
    /// Returns an error if the folder can't be removed.
    pub fn erase_state(&mut self) -> Result<()> {
        self.state.take().map_or(Ok(()), State::erase)
    }
}

/// Trains `trainer` by a recipe that needs only the training set, from the start or from the last snapshot.
///
/// # Errors
/// As [`train_on`].
pub fn train(
    trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    set: &TrainingSet,
    surroundings: &Surroundings<'_>,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<Trained> {
    train_on(
        trainer,
        options,
        &Corpus::plain(set),
        surroundings,
        progress,
    )
}

/// Trains `trainer` by a recipe, from the start or from the last snapshot.
///
/// Returns an error if an option is out of range, if the training set is unsuitable, if the state folder belongs to
/// another run, if a file can't be written, or if the engine fails; [`Error::Interrupted`] after `stop`.
pub fn train_on(
    trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    surroundings: &Surroundings<'_>,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<Trained> {
    let workers = Workers::alone();
    run(trainer, options, corpus, surroundings, progress, workers)
}

/// Like [`train_on`], with several workers. Each worker calls this function with the same options, corpus and weights,
/// and with its own collective. Private steps are shared: a record belongs to one worker, and rank 0 alone adds the
/// noise, once, and keeps key, ledger and snapshots. Ordinary and selective steps are computed by every worker. The
/// weights are bit-identical for 1, 2, 4 and 8 workers; they differ from those of [`train_on`] by the order of sums.
///
/// # Errors
/// As [`train_on`]; [`crate::Error::Worker`] if the number of workers does not divide 8, if a worker is gone, or if one
/// would train something else.
pub fn train_together(
    trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    surroundings: &Surroundings<'_>,
    collective: Box<dyn Collective>,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<Trained> {
    let workers = Workers::together(collective);
    run(trainer, options, corpus, surroundings, progress, workers)
}

fn run(
    mut trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    corpus: &Corpus<'_>,
    surroundings: &Surroundings<'_>,
    progress: &mut dyn FnMut(TrainProgress),
    mut workers: Workers,
) -> Result<Trained> {
    let options = options.clone().validated()?;
    let schedule = Schedule::of(&options, corpus)?;
    options.learning_rates.fit(schedule.total())?;
    // Before a state folder is created.
    let held_out = held_out(corpus, &options, trainer.as_ref())?;
    if trainer.adapter().is_none() && trainer.parameters() != trainer.model().parameters() {
        return Err(Error::Unsuitable(
            "the engine has other parameters than the architecture that it names; a checkpoint could not be read again"
                .into(),
        ));
    }
    options.augmented(&trainer.model())?;
    trainer.compute_in(options.precision)?;
    let weights = crate::checkpoint::weights::weights_digest(trainer.weights());
    let identity = RunIdentity {
        options: &options,
        corpus,
        weights: &weights,
        model: &trainer.model(),
        adapter: trainer.adapter(),
        lanes: if workers.lanes { LANES } else { 1 },
        device: trainer.device_kind(),
        margin: trainer.norm_margin(),
        schedule: &schedule,
    };
    check_world(workers.collective.world())?;
    // Before a state folder is created.
    workers.agree(identity)?;
    let own = surroundings.state.as_deref().filter(|_| workers.leads());
    let state = own
        .map(|folder| State::open(folder, identity))
        .transpose()?;
    let key = workers.key(state.as_ref().map(|state| &state.key), options.seed)?;
    let noiseless = options.plan.noiseless;
    let mut run = Run::new(
        trainer,
        options,
        schedule,
        held_out,
        state,
        key,
        &|key| match noiseless {
            true => Box::new(NoNoise),
            false => Box::new(ChaChaNoise::new(key.clone())),
        },
    )?;
    run.workers = workers;
    run.catch_up()?;
    run.finish(corpus, surroundings, progress)?;
    run.into_trained(corpus)
}

/// Returns the held-out text of a corpus, and how its tokens and those of training are masked.
pub(crate) fn held_out(
    corpus: &Corpus<'_>,
    options: &TrainOptions,
    trainer: &dyn Trainer,
) -> Result<(HeldOut, Option<Masking>)> {
    let head = trainer.model().head();
    if head == Head::MaskedToken && corpus.masking.is_none() {
        return Err(Error::Unsuitable(
            "an encoder that tells masked tokens needs to know how they are masked".into(),
        ));
    }
    if head != Head::NextToken && corpus.set.records.iter().any(|r| !r.ignored.is_empty()) {
        return Err(Error::Unsuitable(
            "a model that predicts no next token learns records as they are; some of these have tokens without loss"
                .into(),
        ));
    }
    let masking = corpus.masking.filter(|_| head == Head::MaskedToken);
    let held_out = HeldOut::of(corpus, head, trainer.context())?;
    let plan = &options.plan;
    let watches = plan.stopping.is_some() || plan.rates_by_public_text.is_some();
    if watches && held_out.is_empty() {
        return Err(Error::Unsuitable(
            "early stopping, and a decay on a plateau, need held-out text to watch".into(),
        ));
    }
    Ok((held_out, masking.cloned()))
}

/// A weight larger than this is out of proportion for a useful model, though one such weight alone proves nothing.
const ORDINARY_WEIGHT: f32 = 1e3;

pub(crate) struct Run {
    pub(crate) trainer: Box<dyn Trainer>,
    options: TrainOptions,
    pub(crate) schedule: Schedule,
    state: Option<State>,
    key: RunKey,
    memory: Ledger,
    /// The ordinary optimiser, and that of noised gradients.
    optimizers: [Optimizer; 2],
    average: Option<Average>,
    /// By stage.
    sides: Vec<Side>,
    position: u64,
    held_out: HeldOut,
    masking: Option<Masking>,
    watch: Watch,
    pub(crate) workers: Workers,
}

impl Run {
    pub(crate) fn new(
        mut trainer: Box<dyn Trainer>,
        options: TrainOptions,
        mut schedule: Schedule,
        (held_out, masking): (HeldOut, Option<Masking>),
        state: Option<State>,
        key: RunKey,
        noise: &dyn Fn(&RunKey) -> Box<dyn Noise>,
    ) -> Result<Self> {
        for stage in &mut schedule.stages {
            stage.shorten(trainer.context());
        }
        let lengths: Vec<usize> = trainer
            .parameters()
            .iter()
            .map(crate::trainer::Parameter::len)
            .collect();
        let spec: OptimizerSpec = options.private.map_or(options.optimizer, |p| p.optimizer);
        // A snapshot stores no optimiser state that no step uses.
        let used = |number: usize| {
            let mut stages = schedule.stages.iter();
            stages.any(|stage| stage.optimizer == number || stage.uses_both())
        };
        let optimizer = |number, spec| match used(number) {
            true => Optimizer::new(spec, &lengths),
            false => Optimizer::idle(spec),
        };
        let mut public = optimizer(0, options.optimizer);
        let mut private = optimizer(1, spec);
        let mut average = options
            .average
            .map(|share| Average::new(share, trainer.weights()));
        let restored = match &state {
            Some(state) => {
                let mut kept: Vec<&mut dyn Moments> = vec![&mut public, &mut private];
                kept.extend(average.as_mut().map(|a| a as &mut dyn Moments));
                state.restore(trainer.as_mut(), &mut kept)?
            }
            None => None,
        };
        let (position, watch) = match restored {
            Some((position, held_out)) => (position, Watch::read(&held_out)?),
            None => (0, Watch::default()),
        };
        let margin = trainer.norm_margin();
        let stages = schedule.stages.iter().enumerate();
        let sides = stages
            .map(|(number, stage)| Side::new(number, stage, &options, &key, margin, noise(&key)))
            .collect::<Result<_>>()?;
        Ok(Self {
            trainer,
            options,
            schedule,
            memory: Ledger::in_memory(),
            state,
            key,
            optimizers: [public, private],
            average,
            sides,
            position,
            held_out,
            masking,
            watch,
            workers: Workers::alone(),
        })
    }

    pub(crate) fn finish(
        &mut self,
        corpus: &Corpus<'_>,
        surroundings: &Surroundings<'_>,
        progress: &mut dyn FnMut(TrainProgress),
    ) -> Result<()> {
        let total = self.schedule.total();
        let mut stored = Instant::now();
        let mut every = surroundings.snapshot_every;
        while let Some(place) = self.schedule.place(self.position) {
            if surroundings.stop.load(Ordering::Relaxed) {
                self.store()?;
                return Err(Error::Interrupted {
                    steps: self.position,
                });
            }
            let seen = match self.step(place) {
                Err(gone @ Error::Worker(_)) if self.schedule.stages[place.stage].is_shared() => {
                    // A shared step moves the weights only after the last exchange, so they are those of the step before.
                    // Taken again, it repeats its batch and its noise.
                    self.store()?;
                    return Err(gone);
                }
                seen => seen?,
            };
            self.alive()?;
            if let Some(average) = &mut self.average
                && place.round + 1 == self.schedule.rounds.len()
            {
                average.take(self.trainer.weights());
            }
            self.position += 1;
            let ended = self.ends_an_epoch(place);
            let step = self.position;
            if ended && self.stops()? {
                self.position = total;
            }
            progress(TrainProgress {
                step,
                total,
                epoch: place.epoch + 1,
                private: self.schedule.stages[place.stage].is_private(),
                loss: seen.loss,
                added: seen.added,
            });
            if let (true, Some(at_epoch)) = (ended, surroundings.at_epoch) {
                let weights = match &self.average {
                    Some(average) => average.weights(),
                    None => self.trainer.weights(),
                };
                at_epoch(Epoch {
                    number: place.epoch + 1,
                    step,
                    last: self.position == total,
                    weights,
                    ran: self.ran(corpus, Some(place.epoch + 1))?,
                })
                .map_err(|source| Error::Io {
                    path: surroundings.state.clone().unwrap_or_default(),
                    source,
                })?;
            }
            if stored.elapsed() >= every {
                let began = Instant::now();
                self.store()?;
                stored = Instant::now();
                // Snapshots take at most a twentieth of the time, unless every step is to have one.
                if !every.is_zero() {
                    every = surroundings.snapshot_every.max(20 * (stored - began));
                }
            }
        }
        self.store()
    }

    fn store(&self) -> Result<()> {
        let [public, private] = &self.optimizers;
        let mut kept: Vec<&dyn Moments> = vec![public, private];
        kept.extend(self.average.as_ref().map(|a| a as &dyn Moments));
        match &self.state {
            Some(state) => state.save(
                (self.position, &self.watch.note()?),
                self.trainer.as_ref(),
                &kept,
            ),
            None => Ok(()),
        }
    }

    /// Returns whether the step just taken was the last of an epoch of the last phase.
    fn ends_an_epoch(&self, place: StepPosition) -> bool {
        let next = self.schedule.place(self.position);
        place.round + 1 == self.schedule.rounds.len()
            && next.is_none_or(|next| (next.round, next.epoch) != (place.round, place.epoch))
    }

    /// Scores the held-out text, if there is any, by the weights that the run would end with, and returns whether it
    /// should stop.
    fn stops(&mut self) -> Result<bool> {
        if self.held_out.is_empty() {
            return Ok(false);
        }
        let patience = self.options.plan.stopping.as_ref();
        let patience = patience.map(|rule| *rule.patience);
        let own = match &self.average {
            Some(average) => {
                let own = self.trainer.weights().to_vec();
                self.trainer.set_weights(average.weights().to_vec())?;
                Some(own)
            }
            None => None,
        };
        let stops = self.watch.after_epoch(
            self.trainer.as_mut(),
            (&self.held_out, self.masking.as_ref()),
            patience,
        )?;
        if let Some(own) = own {
            self.trainer.set_weights(own)?;
        }
        Ok(stops)
    }

    fn step(&mut self, place: StepPosition) -> Result<Seen> {
        let rates = self.options.learning_rates;
        let scale = rates.scale(self.position, place.epoch, place.epochs)
            * rates.left_by(&self.watch.losses);
        self.optimizers.iter_mut().for_each(|o| o.set_scale(scale));
        let stage = &self.schedule.stages[place.stage];
        self.trainer.leave_out(stage.leave_out)?;
        let masks = Masks::new(&self.key, self.position, self.options.dropout);
        self.trainer.drop_out(masks)?;
        if let Some(masking) = &self.masking {
            let masked = TokenMasks::new(&self.key, self.position, masking);
            self.trainer.mask_tokens(Some(masked))?;
        }
        let ledger = self
            .state
            .as_mut()
            .map_or(&mut self.memory, |s| &mut s.ledger);
        let seen = self.sides[place.stage].step(
            stage,
            place,
            self.trainer.as_mut(),
            &mut self.optimizers,
            ledger,
            &mut self.workers,
        )?;
        if !stage.is_shared() {
            // Where nothing is shared, a missing worker would go unnoticed.
            self.workers.meet(self.trainer.as_ref())?;
        }
        Ok(seen)
    }

    /// Fails if the model has diverged, before a snapshot of it is taken.
    ///
    /// The decision depends only on the weights, which were released anyway: on their values and, if one is out of
    /// proportion, on the model's scores of a fixed sequence that is nobody's text.
    fn alive(&mut self) -> Result<()> {
        let dead = |what: &str| Error::Diverged {
            step: self.position + 1,
            what: what.to_owned(),
        };
        let largest = self
            .trainer
            .largest_weight()
            .ok_or_else(|| dead("a weight"))?;
        if largest <= ORDINARY_WEIGHT {
            return Ok(());
        }
        let vocabulary = self.trainer.vocabulary_size() as u32;
        let most = self.trainer.context().unwrap_or(3).min(3) as u32;
        let text: Vec<TokenId> = (0..vocabulary.min(most)).collect();
        let (loss, what) = match self.trainer.model().head() {
            Head::NextToken => {
                let scores = self.trainer.score(&[text])?;
                let scores = scores.iter().flatten().map(|s| s.log_probability);
                let loss = -scores.clone().sum::<f64>() / scores.count().max(1) as f64;
                (loss, "the perplexity of any text")
            }
            Head::MaskedToken => {
                // Long enough that at least one of its tokens is chosen.
                let most = self.trainer.context().map_or(64, |most| most.min(64)) as u32;
                let text = (0..most).map(|i| i % vocabulary).collect();
                let masked = TokenMasks::held_out(&Masking::new(vocabulary as usize, 0, vec![])?);
                let batch = [text];
                let batch = PublicBatch::held_out(0, &batch);
                let (nll, count) = self.trainer.masked_loss(&batch, &masked)?;
                (nll / count.max(1) as f64, "the perplexity of any text")
            }
            Head::Classes(_) => {
                let classes = self.trainer.classify(&[&text])?;
                let largest = classes.iter().flatten().copied().reduce(f64::max);
                let wrong = classes.iter().flatten().any(|ln| ln.is_nan());
                let loss = if wrong {
                    f64::NAN
                } else {
                    -largest.unwrap_or(f64::NAN)
                };
                (loss, "the loss of any class")
            }
        };
        if loss.exp().is_finite() {
            Ok(())
        } else {
            Err(dead(what))
        }
    }

    /// Returns what has run after `epochs` epochs of the last phase; with `None`, after all of them as planned.
    fn ran(&self, corpus: &Corpus<'_>, epochs: Option<u64>) -> Result<Ran> {
        let ledger = self.state.as_ref().map_or(&self.memory, |s| &s.ledger);
        let mut phases = Vec::new();
        let mut plan = self.options.plan.clone();
        if let Some(epochs) = epochs {
            plan.run.cut(epochs);
        }
        for (number, (stage, side)) in self.schedule.stages.iter().zip(&self.sides).enumerate() {
            let length = self.schedule.length_after(number, epochs);
            let phase = side.phase(stage, length, &self.options, corpus, ledger)?;
            if let Some(steps) = phase.as_ref().and_then(Phase::private_steps) {
                plan.run.count(stage.optimizer == 0, Steps::new(steps));
            }
            phases.extend(phase);
        }
        if let Some(rule) = &plan.stopping {
            phases.push(Phase::Stopped {
                epochs: self.watch.losses.len() as u64,
                patience: *rule.patience,
                public: *rule.public,
            });
        }
        let last = self.schedule.rounds.last();
        Ok(Ran {
            estimates: estimates(&plan)?,
            phases,
            plan,
            dropout: self.options.dropout,
            course: Course {
                epochs: last.map_or(0, |round| round.epochs),
                learning_rates: self.options.learning_rates,
                average: self.options.average,
                precision: self.options.precision,
            },
            held_out: self.watch.losses.clone(),
            classified: self.watch.classified.clone(),
        })
    }

    fn into_trained(mut self, corpus: &Corpus<'_>) -> Result<Trained> {
        self.trainer.leave_out(None)?;
        self.trainer.drop_out(None)?;
        self.trainer.mask_tokens(None)?;
        self.trainer.compute_in(Precision::Single)?;
        if let Some(average) = &self.average {
            self.trainer.set_weights(average.weights().to_vec())?;
        }
        let ran = self.ran(corpus, None)?;
        Ok(Trained {
            ran,
            trainer: self.trainer,
            state: self.state,
        })
    }
}
