//! The schedule of a recipe on a training set: its stages, their records and their steps.

use super::{PrivateOptions, TrainOptions};
use crate::error::{Error, Result};
use crate::material::Corpus;
use crate::privacy::clip::{Clip, Clipping, clipping_norm};
use crate::privacy::random::Rates;
use crate::privacy::segments::{SelectiveRecords, selective};
use crate::privacy::step::PrivateStep;
use crate::trainer::{
    PrivateRecords, PublicRecords, all_private, redacted, redacted_private, split, unprotected,
};
use reticent_accounting::confidentiality::LightNoise;
use reticent_accounting::training::{
    FirstPhase, NoisySteps, Run, SelectiveSteps, Sizes, StepDecay, TrainingPlan, WeightedSteps,
};
use reticent_accounting::{Mechanism, NoiseMultiplier, Sampling, SamplingRate};
use reticent_corpus::{TokenId, TrainingSet};
use std::ops::Range;

/// The repeated work of one stage of a recipe.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Ordinary steps, with the records in a fresh order in every pass.
    Public {
        records: PublicRecords,
        passes: u64,
        batch_size: u64,
    },
    /// Private steps on random batches.
    Private {
        records: PrivateRecords,
        rates: Rates,
        sampling: Sampling,
        constants: Constants,
    },
    /// Selective steps that use each record once per epoch.
    Selective {
        records: SelectiveRecords,
        constants: Constants,
        /// Records per step.
        batch_size: u64,
    },
}

/// The constants of a private stage, before the engine's norm margin is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants {
    /// σ of the first step.
    pub(crate) noise_multiplier: NoiseMultiplier,
    pub(crate) noise_decay: Option<StepDecay>,
    /// C of the first step.
    pub(crate) clipping_norm: f64,
    pub(crate) clip_decay: Option<StepDecay>,
    pub(crate) clipping: Clipping,
    pub(crate) expected_batch: f64,
    pub(crate) augmentations: u32,
}

impl Constants {
    fn of(
        options: &PrivateOptions,
        noise_multiplier: NoiseMultiplier,
        expected_batch: f64,
    ) -> Self {
        Self {
            noise_multiplier,
            noise_decay: None,
            clipping_norm: options.clipping_norm,
            clip_decay: options.clip_decay,
            clipping: options.clipping,
            expected_batch,
            augmentations: options.augmentations,
        }
    }

    /// Checks that clipping norms stay in their range over so many steps of the stage.
    fn last_for(&self, steps: u64) -> Result<()> {
        let Some(decay) = self.clip_decay else {
            return Ok(());
        };
        let norm = self.clipping_norm * decay.scale(steps.saturating_sub(1));
        clipping_norm("clipping norm at the last step (--clip-decay)", norm)
    }

    /// Returns the constants of one step of the stage, for an engine with this norm margin.
    pub(crate) fn at(&self, step: u64, margin: f64) -> Result<PrivateStep> {
        let share = self.clip_decay.map_or(1.0, |decay| decay.scale(step));
        Ok(PrivateStep {
            noise_multiplier: match self.noise_decay {
                Some(decay) => decay.of(self.noise_multiplier, step)?,
                None => self.noise_multiplier,
            },
            clip: Clip::new(self.clipping_norm * share, margin)?.by(self.clipping)?,
            expected_batch: self.expected_batch,
            augmentations: self.augmentations,
        })
    }
}

/// A stage: its work, its steps per epoch and its optimiser.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) work: Work,
    /// Steps of one epoch.
    pub(crate) steps: u64,
    /// 0: the ordinary optimiser; 1: the private one.
    pub(crate) optimizer: usize,
    /// A token that carries no loss as a target.
    pub(crate) leave_out: Option<TokenId>,
    /// Index of the first private step, in the ledger and in the streams of noise and batches.
    pub(crate) first_index: u64,
    /// Whether ordinary steps see records that nothing protects.
    pub(crate) unprotected: bool,
}

impl Stage {
    fn new(work: Work, steps: u64, optimizer: usize) -> Self {
        Self {
            work,
            steps,
            optimizer,
            leave_out: None,
            first_index: 0,
            unprotected: false,
        }
    }

    /// Returns whether one step updates the weights with both optimisers.
    pub(crate) const fn uses_both(&self) -> bool {
        matches!(self.work, Work::Selective { .. })
    }

    /// Whether workers share its steps; each takes all others by itself.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.work, Work::Private { .. })
    }

    pub(crate) const fn is_private(&self) -> bool {
        !matches!(self.work, Work::Public { .. })
    }

    /// Shortens records that have a class to the length that a model with this context reads.
    pub(crate) fn shorten(&mut self, context: Option<usize>) {
        match &mut self.work {
            Work::Public { records, .. } => records.shorten(context),
            Work::Private { records, .. } => records.shorten(context),
            // only language models have selective stages
            Work::Selective { .. } => {}
        }
    }

    fn public(records: PublicRecords, passes: u64, batch_size: u64) -> Self {
        let steps = passes * (records.len() as u64).div_ceil(batch_size);
        let work = Work::Public {
            records,
            passes,
            batch_size,
        };
        Self::new(work, steps, 0)
    }

    /// Returns a stage of noisy steps on random batches of these records.
    fn noisy(steps: &NoisySteps, records: PrivateRecords, options: &PrivateOptions) -> Self {
        let rate = *steps.sampling_rate;
        let batch = rate.get() * records.size() as f64;
        // Records without loss also count in a batch that is truncated, as in the accounting.
        let drawn = match *steps.sampling {
            Sampling::TruncatedPoisson { .. } => records.size() as usize,
            _ => records.len(),
        };
        let work = Work::Private {
            rates: Rates::uniform(rate, drawn),
            sampling: *steps.sampling,
            constants: Constants {
                noise_decay: steps.noise_decay,
                ..Constants::of(options, *steps.noise_multiplier, batch)
            },
            records,
        };
        Self::new(work, steps.steps_per_epoch, 1)
    }
}

/// Epochs of one or more consecutive stages.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) epochs: u64,
    pub(crate) stages: Range<usize>,
    /// Steps of the last stage that are omitted from the last epoch, if the plan fixes the total number of steps.
    cut: u64,
}

/// The position of a step in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepPosition {
    pub(crate) stage: usize,
    /// The round of the step.
    pub(crate) round: usize,
    /// Epoch within the stage's round, from 0.
    pub(crate) epoch: u64,
    /// The number of epochs of the round.
    pub(crate) epochs: u64,
    /// Step of the stage within its epoch.
    pub(crate) offset: u64,
}

/// A recipe laid out on a training set: the records of each stage and the steps of each epoch.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(crate) stages: Vec<Stage>,
    pub(crate) rounds: Vec<Round>,
}

impl Schedule {
    /// Builds the schedule of the options on a training set.
    ///
    /// # Errors
    /// As [`Schedule::of`].
    pub fn new(options: &TrainOptions, set: &TrainingSet) -> Result<Self> {
        Self::of(options, &Corpus::plain(set))
    }

    /// Builds the schedule of the options on a training set and what is known about it.
    ///
    /// # Errors
    /// Returns an error if a side that the recipe needs is empty, if a private batch is larger than the private side,
    /// if spans or rates are missing or do not fit the records, or if clipping norms fall out of their range.
    pub fn of(options: &TrainOptions, corpus: &Corpus<'_>) -> Result<Self> {
        let plan = &options.plan;
        plan.run.trainable()?;
        let mut schedule = Self {
            stages: Vec::new(),
            rounds: Vec::new(),
        };
        same_sizes(plan, corpus.set)?;
        match &plan.run {
            Run::Sgd { epochs, steps } => {
                let stage = everything(options, corpus.set);
                let epochs = steps
                    .as_ref()
                    .map_or(**epochs, |steps| steps.value.div_ceil(stage.steps.max(1)));
                schedule.round(epochs, vec![stage], steps.as_ref().map(|steps| steps.value));
            }
            Run::Dpsgd { private } => {
                let stage = noisy(options, private, all_private(corpus.set))?;
                schedule.round(private.epochs(), vec![stage], Some(private.steps.get()));
            }
            Run::Crt {
                private,
                public_passes,
                epochs,
            } => {
                let (public, records) = split(corpus.set);
                let mut stages = vec![Stage::public(public, **public_passes, options.batch_size)];
                match private {
                    Some(private) => {
                        stages.push(noisy(options, private, records)?);
                        schedule.round(private.epochs(), stages, Some(private.steps.get()));
                    }
                    None if records.size() == 0 => schedule.round(*epochs, stages, None),
                    None => {
                        return Err(Error::Unsuitable(format!(
                            "the plan has no private side, the training set has {} records on it",
                            records.size()
                        )));
                    }
                }
            }
            Run::Sdp { selective } => {
                let stage = selectively(options, selective, corpus)?;
                let steps = Some(selective.steps.get());
                schedule.round(selective.passes(), vec![stage], steps);
            }
            Run::Jft { first, second } => {
                schedule.first_phase(options, first, corpus)?;
                let stage = noisy(options, second, all_private(corpus.set))?;
                schedule.round(second.epochs(), vec![stage], Some(second.steps.get()));
            }
            Run::Protect { weighted } => {
                let stage = protected(options, weighted, corpus)?;
                let epochs = weighted.steps.get().div_ceil(stage.steps.max(1));
                schedule.round(epochs, vec![stage], Some(weighted.steps.get()));
            }
            Run::Mechanism { .. } => {}
        }
        if schedule.stages.iter().all(|stage| stage.steps == 0) {
            return Err(Error::Unsuitable(
                "the training set has no record with loss".into(),
            ));
        }
        // A run that could not take its last step takes none.
        for (number, stage) in schedule.stages.iter().enumerate() {
            match &stage.work {
                Work::Public { .. } => {}
                Work::Private { constants, .. } | Work::Selective { constants, .. } => {
                    constants.last_for(schedule.steps_of(number))?;
                }
            }
        }
        Ok(schedule)
    }

    /// Appends a round of these stages. `steps` is the total number of steps of the last stage, if it is fixed.
    fn round(&mut self, epochs: u64, stages: Vec<Stage>, steps: Option<u64>) {
        let from = self.stages.len();
        let mut index = self.planned_private_steps();
        let last = stages.last().map_or(0, |stage| stage.steps);
        let cut = steps.map_or(0, |steps| (epochs * last).saturating_sub(steps));
        for mut stage in stages {
            stage.first_index = index;
            if stage.is_private() {
                index += epochs * stage.steps;
            }
            self.stages.push(stage);
        }
        let stages = from..self.stages.len();
        self.rounds.push(Round {
            epochs,
            stages,
            cut,
        });
    }

    /// Appends the first fine-tuning of `jft`, on redacted text.
    fn first_phase(
        &mut self,
        options: &TrainOptions,
        first: &FirstPhase,
        corpus: &Corpus<'_>,
    ) -> Result<()> {
        let what = "the sensitive tokens of each record";
        let sensitive = needs(options, what, corpus.sensitive)?;
        let leave_out = Some(sensitive.mask());
        match first {
            FirstPhase::Ordinary { epochs, alike, .. } => {
                if sensitive.alike() != **alike {
                    return Err(Error::Unsuitable(
                        "the plan says otherwise than the corpus what the policy catches".into(),
                    ));
                }
                let records = redacted(corpus.set, sensitive, options.screened.as_deref())?;
                let stage = Stage::public(records, 1, options.batch_size);
                self.round(**epochs, vec![Stage { leave_out, ..stage }], None);
            }
            FirstPhase::LightNoise { steps, .. } => {
                let records = redacted_private(corpus.set, sensitive)?;
                let mut stage = Stage {
                    leave_out,
                    optimizer: 0,
                    ..noisy(options, steps, records)?
                };
                if let Work::Private { constants, .. } = &mut stage.work
                    && let (Some(decay), Some(last)) =
                        (constants.clip_decay, options.plan.run.steps_per_epoch())
                {
                    constants.clip_decay = Some(by_epochs(decay, [last, steps.steps_per_epoch])?);
                }
                self.round(steps.epochs(), vec![stage], Some(steps.steps.get()));
            }
        }
        Ok(())
    }

    /// Returns the steps of the whole run, over all stages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rounds.iter().map(|r| self.length(r)).sum()
    }

    /// Returns the steps of a round.
    fn length(&self, round: &Round) -> u64 {
        (round.epochs * self.epoch(round)).saturating_sub(round.cut)
    }

    /// Returns the private steps of the whole run.
    #[must_use]
    pub fn planned_private_steps(&self) -> u64 {
        let stages = self.stages.iter().enumerate();
        stages
            .filter(|(_, stage)| stage.is_private())
            .map(|(number, _)| self.steps_of(number))
            .sum()
    }

    /// Returns the steps of one epoch of a round.
    fn epoch(&self, round: &Round) -> u64 {
        self.stages[round.stages.clone()]
            .iter()
            .map(|s| s.steps)
            .sum()
    }

    /// Returns the number of epochs of a stage.
    pub(crate) fn epochs_of(&self, stage: usize) -> u64 {
        let round = self.rounds.iter().find(|r| r.stages.contains(&stage));
        round.map_or(0, |r| r.epochs)
    }

    /// Returns the steps of a stage in all its epochs.
    pub(crate) fn steps_of(&self, stage: usize) -> u64 {
        let round = self.rounds.iter().find(|r| r.stages.contains(&stage));
        round.map_or(0, |round| {
            let last = stage + 1 == round.stages.end;
            let steps = round.epochs * self.stages[stage].steps;
            steps.saturating_sub(if last { round.cut } else { 0 })
        })
    }

    /// Returns the epochs and steps of a stage if the last phase ended after `epochs` epochs; with `None`, all of them.
    pub(crate) fn length_after(&self, stage: usize, epochs: Option<u64>) -> (u64, u64) {
        let whole = (self.epochs_of(stage), self.steps_of(stage));
        let of_last = |round: &&Round| round.stages.contains(&stage);
        match (epochs, self.rounds.last().filter(of_last)) {
            (Some(epochs), Some(_)) => {
                let steps = epochs * self.stages[stage].steps;
                (whole.0.min(epochs), whole.1.min(steps))
            }
            _ => whole,
        }
    }

    /// Returns the stage and epoch of a step of the whole run.
    pub(crate) fn place(&self, position: u64) -> Option<StepPosition> {
        let mut left = position;
        for (number, round) in self.rounds.iter().enumerate() {
            let epoch = self.epoch(round);
            if left < self.length(round) {
                let mut offset = left % epoch;
                for stage in round.stages.clone() {
                    if offset < self.stages[stage].steps {
                        return Some(StepPosition {
                            stage,
                            round: number,
                            epoch: left / epoch,
                            epochs: round.epochs,
                            offset,
                        });
                    }
                    offset -= self.stages[stage].steps;
                }
            }
            left = left.saturating_sub(self.length(round));
        }
        None
    }
}

fn everything(options: &TrainOptions, set: &TrainingSet) -> Stage {
    Stage {
        unprotected: true,
        ..Stage::public(unprotected(set), 1, options.batch_size)
    }
}

/// Checks that a plan made for a corpus is used with the same numbers of records.
fn same_sizes(plan: &TrainingPlan, set: &TrainingSet) -> Result<()> {
    let found = Sizes {
        public: set.public_size(),
        private: set.private_size(),
    };
    match &plan.sizes {
        Some(planned) if planned.value != found => Err(Error::Unsuitable(format!(
            "the plan is for {} public and {} private records, the training set has {} and {}",
            planned.public, planned.private, found.public, found.private
        ))),
        _ => Ok(()),
    }
}

fn constants(options: &TrainOptions) -> Result<&PrivateOptions> {
    needs(
        options,
        "the constants of its private side",
        options.private.as_ref(),
    )
}

/// Returns a decay after as many epochs, where epochs have another number of steps: `to` instead of `from`.
fn by_epochs(decay: StepDecay, [from, to]: [u64; 2]) -> Result<StepDecay> {
    let every = u128::from(decay.every()) * u128::from(to) / u128::from(from.max(1));
    let every = u64::try_from(every).unwrap_or(u64::MAX).max(1);
    Ok(StepDecay::new(decay.factor(), every)?)
}

fn needs<'a, T>(options: &TrainOptions, what: &str, given: Option<&'a T>) -> Result<&'a T> {
    let recipe = options.recipe()?;
    given.ok_or_else(|| Error::Unsuitable(format!("recipe {recipe} needs {what}")))
}

fn noisy(options: &TrainOptions, steps: &NoisySteps, records: PrivateRecords) -> Result<Stage> {
    if records.size() == 0 {
        return Err(Error::Unsuitable(
            "the plan has noisy steps, the training set no private record".into(),
        ));
    }
    if steps.sampling_rate.get() <= 0.0 {
        return Err(Error::Unsuitable(
            "the plan has noisy steps at a sampling rate of 0, whose batches hold no record".into(),
        ));
    }
    if let Sampling::TruncatedPoisson {
        records: planned, ..
    } = *steps.sampling
        && planned != records.size()
    {
        return Err(Error::Unsuitable(format!(
            "the plan cuts batches of {planned} records, the training set has {}",
            records.size()
        )));
    }
    Ok(Stage::noisy(steps, records, constants(options)?))
}

fn selectively(
    options: &TrainOptions,
    plan: &SelectiveSteps,
    corpus: &Corpus<'_>,
) -> Result<Stage> {
    let what = "the sensitive tokens of each record";
    let sensitive = needs(options, what, corpus.sensitive)?;
    if corpus.set.records.iter().any(|r| !r.ignored.is_empty()) {
        return Err(Error::Unsuitable(
            "selective steps learn every token of a record; some of these carry no loss".into(),
        ));
    }
    let records = selective(corpus.set, sensitive);
    let states = records.most_states();
    if states > *plan.states {
        return Err(Error::Unsuitable(format!(
            "a record releases {states} states, the plan counts {}",
            *plan.states
        )));
    }
    if *plan.every_content_caught && !sensitive.alike().every_content_caught {
        return Err(Error::Unsuitable(
            "the plan says that the policy catches every content, the corpus does not".into(),
        ));
    }
    // A batch is one of an epoch's parts: its size is not random, and there is no amplification by sampling.
    let batch_size = (*plan.batch_size).max(1);
    let steps = (records.len() as u64).div_ceil(batch_size);
    if steps > plan.steps_per_epoch {
        return Err(Error::Unsuitable(format!(
            "a pass has {steps} steps, the plan counts {}",
            plan.steps_per_epoch
        )));
    }
    let private = constants(options)?;
    let work = Work::Selective {
        records,
        constants: Constants::of(private, *plan.noise_multiplier, batch_size as f64),
        batch_size,
    };
    Ok(Stage::new(work, steps, 1))
}

fn protected(options: &TrainOptions, plan: &WeightedSteps, corpus: &Corpus<'_>) -> Result<Stage> {
    let given = needs(options, "a sampling rate for each record", corpus.rates)?;
    let private = constants(options)?;
    let records = all_private(corpus.set);
    if given.rates().len() != records.len() {
        return Err(Error::Unsuitable(format!(
            "sampling rates must be given for each of the {} records, got {}",
            records.len(),
            given.rates().len()
        )));
    }
    if !dominated(given.dominating(), &plan.secret_rates) {
        return Err(Error::Unsuitable(
            "the records of a secret are drawn more often than the plan says".into(),
        ));
    }
    if let Some(classes) = &plan.secrets
        && !given.are_covered(classes)?
    {
        return Err(Error::Unsuitable(
            "a secret has another promise than the plan says, or is drawn more often".into(),
        ));
    }
    let work = Work::Private {
        rates: Rates::each(given.rates().to_vec())?,
        sampling: Sampling::Poisson,
        constants: Constants::of(private, *plan.noise_multiplier, *plan.batch),
        records,
    };
    Ok(Stage::new(work, plan.steps_per_epoch, 1))
}

/// Whether each rate is at most the one at its place; what has no place is a rate of zero.
fn dominated(rates: &[SamplingRate], most: &[SamplingRate]) -> bool {
    rates.len() <= most.len() && rates.iter().zip(most).all(|(rate, most)| rate <= most)
}

/// Returns what a paper estimates where it has no bound: JFT's light noise, at both ends of the given interval of the
/// miss rate, followed by the rest of the run.
///
/// # Errors
/// Returns an error if a constant is out of range.
pub(crate) fn estimates(plan: &TrainingPlan) -> Result<Vec<Mechanism>> {
    let Run::Jft {
        first:
            FirstPhase::LightNoise {
                steps,
                token_miss: Some(miss),
            },
        second,
    } = &plan.run
    else {
        return Ok(Vec::new());
    };
    if plan.noiseless || *steps.sampling != Sampling::Poisson {
        return Ok(Vec::new());
    }
    let light = LightNoise {
        noise_multiplier: *steps.noise_multiplier,
        sampling_rate: *steps.sampling_rate,
        steps: *steps.steps,
        miss: *miss,
        second: second.mechanism(),
    };
    let ends = light.mechanism()?.into_iter().map(|mechanism| {
        let end = TrainingPlan {
            run: Run::Mechanism { mechanism },
            ..plan.clone()
        };
        end.mechanism()
    });
    Ok(ends.collect())
}
