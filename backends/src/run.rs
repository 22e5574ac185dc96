//! Running a recipe: the order of steps, snapshots, resumption, and what the ledger says at the end.

use crate::clip::Clip;
use crate::collective::Local;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::manifest::Phase;
use crate::optimizer::{Optimizer, OptimizerSpec};
use crate::random::{ChaChaNoise, PoissonSampler, RunKey, Sampler, shuffled};
use crate::recipe::{PrivateOptions, Schedule, TrainOptions};
use crate::state::State;
use crate::step::{PrivateStep, Step};
use crate::trainer::{PrivateRecords, Trainer};
use reticent_accounting::{Mechanism, NoiseMultiplier};
use reticent_corpus::TrainingSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainProgress {
    /// Steps finished, both sides.
    pub step: u64,
    /// Steps of the whole run.
    pub total: u64,
    /// Epoch under way, from 1.
    pub epoch: u64,
    /// Whether the last step was private.
    pub private: bool,
}

/// What surrounds a run.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Where key, ledger and snapshots lie; without it nothing can be resumed.
    pub state: Option<PathBuf>,
    /// How often a snapshot is taken.
    pub snapshot_every: Duration,
    /// Set by whoever wants the run to stop.
    pub stop: &'a AtomicBool,
}

impl<'a> Surroundings<'a> {
    /// A run that leaves no trace and can't be resumed.
    #[must_use]
    pub const fn in_memory(stop: &'a AtomicBool) -> Self {
        Self {
            state: None,
            snapshot_every: Duration::MAX,
            stop,
        }
    }
    /// A run that can be resumed from this folder.
    #[must_use]
    pub const fn resumable(state: PathBuf, stop: &'a AtomicBool) -> Self {
        Self {
            state: Some(state),
            snapshot_every: Duration::from_secs(10),
            stop,
        }
    }
}

/// A finished run.
pub struct Trained {
    /// The model.
    pub trainer: Box<dyn Trainer>,
    /// What ran.
    pub phases: Vec<Phase>,
    /// The same for the accountant.
    pub mechanism: Mechanism,
    /// Whether a fixed seed made the randomness.
    pub seeded: bool,
    state: Option<State>,
}

impl Trained {
    /// Erases key, ledger and snapshots. Call it when the checkpoint is on disk.
    ///
    /// # Errors
    /// A folder that can't be removed.
    pub fn erase_state(&mut self) -> Result<()> {
        self.state.take().map_or(Ok(()), State::erase)
    }
}

/// Trains `trainer` by a recipe, from the start or from the last snapshot.
///
/// # Errors
/// Options out of range, a training set that does not suit, a state folder of another run, a
/// file that can't be written, [`Error::Interrupted`] after `stop`, or a failing engine.
pub fn train(
    trainer: Box<dyn Trainer>,
    options: &TrainOptions,
    set: &TrainingSet,
    surroundings: &Surroundings<'_>,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<Trained> {
    let options = options.clone().validated()?;
    let schedule = Schedule::new(&options, set)?;
    let state = surroundings
        .state
        .as_deref()
        .map(|folder| State::open(folder, &options, set))
        .transpose()?;
    let mut run = Run::new(trainer, options, schedule, state)?;
    run.finish(surroundings, progress)?;
    run.into_trained()
}

struct Run {
    trainer: Box<dyn Trainer>,
    options: TrainOptions,
    schedule: Schedule,
    state: Option<State>,
    key: RunKey,
    memory: Ledger,
    public: Optimizer,
    private: Optimizer,
    side: Option<PrivateSide>,
    order: (u64, Vec<u32>),
    position: u64,
}

struct PrivateSide {
    records: PrivateRecords,
    sampler: PoissonSampler,
    noise: ChaChaNoise,
    constants: PrivateStep,
}

impl PrivateSide {
    fn new(
        schedule: &Schedule,
        options: &PrivateOptions,
        key: &RunKey,
        margin: f64,
    ) -> Result<Option<Self>> {
        let Some((records, rate)) = &schedule.private else {
            return Ok(None);
        };
        Ok(Some(Self {
            sampler: PoissonSampler::new(key.clone(), *rate, records.len()),
            records: records.clone(),
            noise: ChaChaNoise::new(key.clone()),
            constants: PrivateStep {
                noise_multiplier: NoiseMultiplier::new(options.noise_multiplier)?,
                clip: Clip::new(options.clipping_norm, margin)?.by(options.clipping)?,
                expected_batch: options.batch_size as f64,
            },
        }))
    }
}

impl Run {
    fn new(
        mut trainer: Box<dyn Trainer>,
        options: TrainOptions,
        schedule: Schedule,
        state: Option<State>,
    ) -> Result<Self> {
        let key = match (&state, options.seed) {
            (Some(state), _) => state.key.clone(),
            (None, Some(seed)) => RunKey::from_seed(seed),
            (None, None) => RunKey::from_system()?,
        };
        let lengths: Vec<usize> = trainer
            .parameters()
            .iter()
            .map(crate::trainer::Parameter::len)
            .collect();
        let spec: OptimizerSpec = options.private.map_or(options.optimizer, |p| p.optimizer);
        let mut public = Optimizer::new(options.optimizer, &lengths);
        let mut private = Optimizer::new(spec, &lengths);
        let position = match &state {
            Some(state) => state.restore(trainer.as_mut(), &mut [&mut public, &mut private])?,
            None => 0,
        };
        let margin = trainer.norm_margin();
        let side = match &options.private {
            Some(constants) => PrivateSide::new(&schedule, constants, &key, margin)?,
            None => None,
        };
        let memory = Ledger::in_memory(&key.name());
        Ok(Self {
            trainer,
            options,
            schedule,
            state,
            key,
            memory,
            public,
            private,
            side,
            order: (u64::MAX, Vec::new()),
            position,
        })
    }

    fn finish(
        &mut self,
        surroundings: &Surroundings<'_>,
        progress: &mut dyn FnMut(TrainProgress),
    ) -> Result<()> {
        let total = self.schedule.total();
        let mut stored = Instant::now();
        while self.position < total {
            if surroundings.stop.load(Ordering::Relaxed) {
                self.store()?;
                return Err(Error::Interrupted {
                    steps: self.position,
                });
            }
            let private = self.step()?;
            self.position += 1;
            progress(TrainProgress {
                step: self.position,
                total,
                epoch: self.epoch(self.position - 1) + 1,
                private,
            });
            if stored.elapsed() >= surroundings.snapshot_every {
                self.store()?;
                stored = Instant::now();
            }
        }
        self.store()
    }

    const fn per_epoch(&self) -> u64 {
        self.schedule.public_steps + self.schedule.private_steps
    }

    const fn epoch(&self, position: u64) -> u64 {
        position / self.per_epoch()
    }

    fn store(&self) -> Result<()> {
        match &self.state {
            Some(state) => state.save(
                self.position,
                self.trainer.as_ref(),
                &[&self.public, &self.private],
            ),
            None => Ok(()),
        }
    }

    /// One step; says whether it was private.
    fn step(&mut self) -> Result<bool> {
        let epoch = self.epoch(self.position);
        let offset = self.position % self.per_epoch();
        let scale = if self.options.decay {
            1.0 - epoch as f64 / self.options.epochs as f64
        } else {
            1.0
        };
        if offset < self.schedule.public_steps {
            self.public.set_scale(scale);
            self.public_step(epoch, offset)?;
            Ok(false)
        } else {
            self.private.set_scale(scale);
            self.private_step(
                epoch * self.schedule.private_steps + offset - self.schedule.public_steps,
            )?;
            Ok(true)
        }
    }

    fn public_step(&mut self, epoch: u64, offset: u64) -> Result<()> {
        let each = self.schedule.public_steps / self.schedule.public_passes;
        let pass = epoch * self.schedule.public_passes + offset / each;
        if self.order.0 != pass {
            self.order = (pass, shuffled(&self.key, pass, self.schedule.public.len()));
        }
        let size = self.options.batch_size as usize;
        let from = (offset % each) as usize * size;
        let to = (from + size).min(self.order.1.len());
        let batch = self.schedule.public.batch(&self.order.1[from..to]);
        let (gradient, _) = self.trainer.public_gradient(&batch)?;
        self.trainer.apply_public(gradient, &mut self.public)
    }

    fn private_step(&mut self, index: u64) -> Result<()> {
        let side = self
            .side
            .as_mut()
            .ok_or_else(|| Error::Unsuitable("this recipe has no private side".into()))?;
        let batch = side.sampler.batch(index);
        let mut step = Step::begin(self.trainer.as_mut(), side.constants, index)?;
        step.add(&side.records.batch(&batch))?;
        let ledger = self
            .state
            .as_mut()
            .map_or(&mut self.memory, |s| &mut s.ledger);
        step.finish(&mut side.noise, &mut Local, &mut self.private, ledger)?;
        Ok(())
    }

    fn into_trained(self) -> Result<Trained> {
        let ledger = self.state.as_ref().map_or(&self.memory, |s| &s.ledger);
        let margin = self.trainer.norm_margin();
        let phases = self
            .schedule
            .phases(&self.options, ledger.private_steps(), margin)?;
        Ok(Trained {
            mechanism: Schedule::mechanism(&phases)?,
            phases,
            seeded: !self.key.is_secret(),
            trainer: self.trainer,
            state: self.state,
        })
    }
}
