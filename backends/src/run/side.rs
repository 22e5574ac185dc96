//! One stage of a run with its sources of randomness: the sampler, the noise, the order of records.

use crate::checkpoint::manifest::Phase;
use crate::collective::{Collective, Local};
use crate::error::{Error, Result};
use crate::material::Corpus;
use crate::privacy::clip::Clip;
use crate::privacy::ledger::Ledger;
use crate::privacy::random::{Noise, RunKey, Sampler, sampler, shuffled};
use crate::privacy::step::{LANES, PrivateStep, StateRelease, Step, Tensors, lanes};
use crate::recipe::{Constants, Stage, StepPosition, TrainOptions, Work};
use crate::trainer::optimizer::Optimizer;
use crate::trainer::{Added, Trainer};
use reticent_accounting::SamplingRate;
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{FirstPhase, Run};
use std::ops::Range;

/// What a step reported.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) loss: Option<f64>,
    pub(super) added: Option<Added>,
}

/// The workers of a run. They share a batch by lanes; the single worker of `train_on` does not use lanes.
pub(crate) struct Workers {
    pub(super) collective: Box<dyn Collective>,
    pub(super) lanes: bool,
    /// Buffers of lanes.
    spare: Vec<Tensors>,
}

impl Workers {
    /// Returns a single worker, which sums a batch in the order it comes.
    pub(super) fn alone() -> Self {
        Self {
            lanes: false,
            ..Self::together(Box::new(Local))
        }
    }

    /// Returns one of the workers that share a run.
    pub(crate) fn together(collective: Box<dyn Collective>) -> Self {
        Self {
            collective,
            lanes: true,
            spare: Vec::new(),
        }
    }

    /// Returns the lanes of a batch that this worker adds.
    fn own(&self) -> Range<usize> {
        let each = LANES / self.collective.world();
        let first = each * self.collective.rank();
        first..first + each
    }
}

/// A stage's sources of randomness and its constants.
pub(super) struct Side {
    number: u64,
    key: RunKey,
    noise: Box<dyn Noise>,
    sampler: Option<Box<dyn Sampler>>,
    constants: Option<Constants>,
    /// The engine's margin η.
    margin: f64,
    states: Option<StateRelease>,
    /// The pass of the current order, and the order.
    order: (u64, Vec<u32>),
}

impl Side {
    pub(super) fn new(
        number: usize,
        stage: &Stage,
        options: &TrainOptions,
        key: &RunKey,
        margin: f64,
        noise: Box<dyn Noise>,
    ) -> Result<Self> {
        let mut side = Self {
            number: number as u64,
            key: key.clone(),
            noise,
            sampler: None,
            constants: None,
            margin,
            states: None,
            order: (u64::MAX, Vec::new()),
        };
        match &stage.work {
            Work::Public { .. } => {}
            Work::Private {
                rates,
                sampling,
                constants: c,
                ..
            } => {
                let epochs = (stage.first_index, stage.steps);
                side.sampler = Some(sampler(key, rates, *sampling, epochs)?);
                side.constants = Some(*c);
            }
            Work::Selective { constants: c, .. } => {
                side.constants = Some(*c);
                if let (Run::Sdp { selective }, Some(norm)) =
                    (&options.plan.run, options.state_norm)
                {
                    side.states = Some(StateRelease {
                        noise_multiplier: *selective.state_noise_multiplier,
                        clip: Clip::new(norm, margin)?,
                    });
                }
            }
        }
        Ok(side)
    }

    /// Returns the records of one part of a pass, in the pass's own order.
    fn part(&mut self, pass: u64, part: u64, records: usize, size: u64) -> Vec<u32> {
        if self.order.0 != pass {
            // no two stages share an order
            let stream = (self.number << 48) + pass;
            self.order = (pass, shuffled(&self.key, stream, records));
        }
        let from = (part * size) as usize;
        let to = (from + size as usize).min(records);
        self.order.1[from..to].to_vec()
    }

    /// Takes one step of the stage.
    pub(super) fn step(
        &mut self,
        stage: &Stage,
        place: StepPosition,
        trainer: &mut dyn Trainer,
        optimizers: &mut [Optimizer; 2],
        ledger: &mut Ledger,
        workers: &mut Workers,
    ) -> Result<Seen> {
        let number = place.epoch * stage.steps + place.offset;
        let index = stage.first_index + number;
        let (loss, added) = match &stage.work {
            Work::Public {
                records,
                passes,
                batch_size,
            } => {
                let each = stage.steps / passes;
                let pass = place.epoch * passes + place.offset / each;
                let part = self.part(pass, place.offset % each, records.len(), *batch_size);
                let batch = records.batch(&part).in_windows(trainer.context());
                let loss = trainer.public_step(&batch, &mut optimizers[stage.optimizer])?;
                if !loss.is_finite() {
                    return Err(Error::Diverged {
                        step: place.offset + place.epoch * stage.steps + 1,
                        what: "the loss of an ordinary batch".into(),
                    });
                }
                (Some(loss), None)
            }
            Work::Private { records, .. } => {
                let batch = self.sampler_mut()?.batch(index);
                let mut step = Step::begin(trainer, self.constants_at(number)?, index)?;
                if workers.lanes {
                    for lane in &lanes(records.batch(&batch))[workers.own()] {
                        step.add_lane(lane, &mut workers.spare)?;
                    }
                } else {
                    step.add(&records.batch(&batch))?;
                }
                let update = &mut optimizers[stage.optimizer];
                let collective = workers.collective.as_mut();
                let added = step.finish(self.noise.as_mut(), collective, update, ledger)?;
                (None, Some(added))
            }
            Work::Selective {
                records,
                batch_size,
                ..
            } => {
                let part = self.part(place.epoch, place.offset, records.len(), *batch_size);
                let (batch, states) = (records.batch(&part), self.states()?);
                let mut step = Step::begin(trainer, self.constants_at(number)?, index)?;
                let ordinary = step.add_selective(&batch, &states, self.noise.as_mut())?;
                let [public, private] = optimizers;
                // Every worker computes the whole step and draws the same noise for it.
                let added = step.finish(self.noise.as_mut(), &mut Local, private, ledger)?;
                trainer.apply_public(ordinary, public)?;
                (None, Some(added))
            }
        };
        Ok(Seen { loss, added })
    }

    fn sampler_mut(&mut self) -> Result<&mut (dyn Sampler + 'static)> {
        self.sampler.as_deref_mut().ok_or_else(no_private_side)
    }
    fn sampler(&self) -> Result<&dyn Sampler> {
        self.sampler.as_deref().ok_or_else(no_private_side)
    }
    /// Returns the constants of a step of the stage, counted from 0.
    fn constants_at(&self, step: u64) -> Result<PrivateStep> {
        let constants = self.constants.as_ref().ok_or_else(no_private_side)?;
        constants.at(step, self.margin)
    }
    fn states(&self) -> Result<StateRelease> {
        self.states.ok_or_else(no_private_side)
    }

    /// Returns the phase that this stage was, from its sampler, its constants and the ledger; `None` for a public stage
    /// without records.
    pub(super) fn phase(
        &self,
        stage: &Stage,
        (epochs, taken): (u64, u64),
        options: &TrainOptions,
        corpus: &Corpus<'_>,
        ledger: &Ledger,
    ) -> Result<Option<Phase>> {
        let indices = stage.first_index..stage.first_index + taken;
        // Planned steps count whether they were taken or not: a run that stops early decides by
        // what it released.
        let steps = ledger.private_steps_of(&indices).max(taken);
        match &stage.work {
            Work::Public {
                records,
                batch_size,
                ..
            } => Ok((!records.is_empty())
                .then(|| self.public_phase(stage, taken, *batch_size, options))),
            Work::Private { .. } => self.private_phase(stage, steps, options).map(Some),
            Work::Selective { .. } => {
                let Run::Sdp { selective } = &options.plan.run else {
                    return Err(no_private_side());
                };
                let (states, c) = (self.states()?, self.constants_at(0)?);
                Ok(Some(Phase::Selective {
                    steps,
                    passes: epochs,
                    batch_size: c.expected_batch as u64,
                    noise_multiplier: c.added(options),
                    clipping_norm: c.clip.norm(),
                    clipping: c.clip.kind(),
                    clipping_margin: c.clip.margin(),
                    clip_decay: self.constants.and_then(|c| c.clip_decay),
                    state_noise_multiplier: states.noise_multiplier.get(),
                    state_norm: states.clip.norm(),
                    // As planned, which may be more careful than the corpus needs.
                    states: *selective.states,
                    alike: RedactedAlike {
                        every_content_caught: *selective.every_content_caught,
                        ..sensitive(corpus)?.alike()
                    },
                    ordinary_optimizer: options.optimizer,
                    optimizer: private_optimizer(options),
                }))
            }
        }
    }

    fn public_phase(
        &self,
        stage: &Stage,
        steps: u64,
        batch_size: u64,
        options: &TrainOptions,
    ) -> Phase {
        let optimizer = options.optimizer;
        match &options.plan.run {
            _ if stage.unprotected => Phase::Unprotected {
                steps,
                batch_size,
                optimizer,
            },
            Run::Jft {
                first:
                    FirstPhase::Ordinary {
                        screened, alike, ..
                    },
                ..
            } => Phase::Redacted {
                steps,
                batch_size,
                screened: *screened,
                alike: **alike,
                optimizer,
            },
            _ => Phase::Public {
                steps,
                batch_size,
                optimizer,
            },
        }
    }

    fn private_phase(&self, stage: &Stage, steps: u64, options: &TrainOptions) -> Result<Phase> {
        let (rates, c) = (self.sampler()?.rates(), self.constants_at(0)?);
        let (noise_decay, clip_decay) = match self.constants {
            Some(c) => (c.noise_decay, c.clip_decay),
            None => (None, None),
        };
        let largest = rates.largest().map_or(0.0, SamplingRate::get);
        let sampling = match stage.work {
            Work::Private { sampling, .. } => sampling,
            _ => return Err(no_private_side()),
        };
        if let Run::Protect { weighted } = &options.plan.run {
            return Ok(Phase::Weighted {
                steps,
                noise_multiplier: c.added(options),
                largest_rate: largest,
                secret_rates: weighted.secret_rates.value.clone(),
                expected_batch: c.expected_batch,
                clipping_norm: c.clip.norm(),
                clipping: c.clip.kind(),
                clipping_margin: c.clip.margin(),
                clip_decay,
                augmentations: c.augmentations,
                optimizer: private_optimizer(options),
            });
        }
        // the first phase of `jft` steps with the ordinary optimiser
        Ok(match (&options.plan.run, stage.optimizer) {
            (
                Run::Jft {
                    first: FirstPhase::LightNoise { token_miss, .. },
                    ..
                },
                0,
            ) => Phase::LightNoise {
                steps,
                noise_multiplier: c.added(options),
                sampling_rate: largest,
                sampling,
                expected_batch: c.expected_batch,
                clipping_norm: c.clip.norm(),
                clipping: c.clip.kind(),
                clipping_margin: c.clip.margin(),
                clip_decay,
                augmentations: c.augmentations,
                miss: *token_miss,
                optimizer: options.optimizer,
            },
            _ => Phase::Private {
                steps,
                noise_multiplier: c.added(options),
                sampling_rate: largest,
                sampling,
                expected_batch: c.expected_batch,
                clipping_norm: c.clip.norm(),
                clipping: c.clip.kind(),
                clipping_margin: c.clip.margin(),
                noise_decay,
                clip_decay,
                augmentations: c.augmentations,
                optimizer: private_optimizer(options),
            },
        })
    }
}

fn no_private_side() -> Error {
    Error::Unsuitable("this stage has no private side".into())
}

fn sensitive<'a>(corpus: &Corpus<'a>) -> Result<&'a crate::material::Sensitive> {
    corpus.sensitive.ok_or_else(no_private_side)
}

fn private_optimizer(options: &TrainOptions) -> crate::trainer::optimizer::OptimizerSpec {
    options.private.map_or(options.optimizer, |p| p.optimizer)
}
