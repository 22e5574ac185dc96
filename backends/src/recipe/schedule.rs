//! A recipe laid out on a training set: stages, their records, their steps.

use super::{FirstPhaseKind, PrivateOptions, Recipe, TrainOptions};
use crate::clip::Clipping;
use crate::error::{Error, Result};
use crate::material::Corpus;
use crate::random::Rates;
use crate::segments::{SelectiveRecords, selective};
use crate::trainer::{
    PrivateRecords, PublicRecords, all_private, redacted, redacted_private, split, unprotected,
};
use reticent_accounting::{SamplingRate, Steps};
use reticent_corpus::{TokenId, TrainingSet};
use std::ops::Range;

/// What one stage of a recipe does, over and over.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Ordinary steps in a fresh order every pass.
    Public {
        records: PublicRecords,
        passes: u64,
        batch_size: u64,
    },
    /// Private steps on Poisson batches.
    Private {
        records: PrivateRecords,
        rates: Rates,
        constants: Constants,
    },
    /// Selective steps, each record once an epoch.
    Selective {
        records: SelectiveRecords,
        constants: Constants,
        /// Records per step.
        batch_size: u64,
    },
}

/// The constants of a private stage, before the engine's margin is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants {
    pub(crate) noise_multiplier: f64,
    pub(crate) clipping_norm: f64,
    pub(crate) clipping: Clipping,
    pub(crate) expected_batch: f64,
}

impl Constants {
    fn of(options: &PrivateOptions) -> Self {
        Self {
            noise_multiplier: options.noise_multiplier,
            clipping_norm: options.clipping_norm,
            clipping: options.clipping,
            expected_batch: options.batch_size as f64,
        }
    }
}

/// A stage: what it does, how often, with which optimiser.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) work: Work,
    /// Steps of one epoch.
    pub(crate) steps: u64,
    /// 0: the ordinary optimiser; 1: the private one.
    pub(crate) optimizer: usize,
    /// A target that carries no loss.
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

    pub(crate) const fn is_private(&self) -> bool {
        !matches!(self.work, Work::Public { .. })
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

    fn private(records: PrivateRecords, rate: SamplingRate, constants: Constants) -> Self {
        let rates = Rates::uniform(rate, records.len());
        let work = Work::Private {
            records,
            rates,
            constants,
        };
        Self::new(work, Steps::per_epoch(rate).get(), 1)
    }
}

/// Epochs of one or more stages in turn.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) epochs: u64,
    pub(crate) stages: Range<usize>,
}

/// Where a step of the whole run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stage: usize,
    /// The round it is in.
    pub(crate) round: usize,
    /// Epoch within the stage's round, from 0.
    pub(crate) epoch: u64,
    /// Epochs of that round.
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
    /// Lays options out on a training set.
    ///
    /// # Errors
    /// As [`Schedule::of`].
    pub fn new(options: &TrainOptions, set: &TrainingSet) -> Result<Self> {
        Self::of(options, &Corpus::plain(set))
    }

    /// Lays options out on a training set and what is known of it.
    ///
    /// # Errors
    /// An empty side that the recipe needs, a private batch larger than the private side,
    /// spans or rates that are missing or do not fit the records.
    pub fn of(options: &TrainOptions, corpus: &Corpus<'_>) -> Result<Self> {
        let mut schedule = Self {
            stages: Vec::new(),
            rounds: Vec::new(),
        };
        match options.recipe {
            Recipe::Sgd => schedule.round(options.epochs, vec![everything(options, corpus.set)]),
            Recipe::Dpsgd => {
                let private = private(options, all_private(corpus.set))?;
                schedule.round(options.epochs, private.into_iter().collect());
            }
            Recipe::Crt => {
                let (public, records) = split(corpus.set);
                let public = Stage::public(public, options.public_passes, options.batch_size);
                let private = private(options, records)?;
                schedule.round(
                    options.epochs,
                    Some(public).into_iter().chain(private).collect(),
                );
            }
            Recipe::Sdp => schedule.round(options.epochs, vec![selectively(options, corpus)?]),
            Recipe::Jft => {
                if let Some(first) = &options.first_phase {
                    let stage = first_phase(options, &first.kind, corpus)?;
                    schedule.round(first.epochs, vec![stage]);
                }
                let second = private(options, all_private(corpus.set))?;
                schedule.round(options.epochs, second.into_iter().collect());
            }
            Recipe::Protect => schedule.round(options.epochs, vec![protected(options, corpus)?]),
        }
        if schedule.stages.iter().all(|stage| stage.steps == 0) {
            return Err(Error::Unsuitable(
                "the training set has no record with loss".into(),
            ));
        }
        Ok(schedule)
    }

    fn round(&mut self, epochs: u64, stages: Vec<Stage>) {
        let from = self.stages.len();
        let mut index = self.planned_private_steps();
        for mut stage in stages {
            stage.first_index = index;
            if stage.is_private() {
                index += epochs * stage.steps;
            }
            self.stages.push(stage);
        }
        let stages = from..self.stages.len();
        self.rounds.push(Round { epochs, stages });
    }

    /// Steps of the whole run, all stages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rounds.iter().map(|r| r.epochs * self.epoch(r)).sum()
    }

    /// Private steps of the whole run.
    #[must_use]
    pub fn planned_private_steps(&self) -> u64 {
        let private = |r: &Round| {
            let stages = self.stages[r.stages.clone()].iter();
            stages
                .filter(|s| s.is_private())
                .map(|s| s.steps)
                .sum::<u64>()
        };
        self.rounds.iter().map(|r| r.epochs * private(r)).sum()
    }

    /// The sampling rate of the last stage with Poisson batches: of the records that are drawn
    /// most often, where rates differ.
    #[must_use]
    pub fn sampling_rate(&self) -> Option<SamplingRate> {
        self.stages
            .iter()
            .rev()
            .find_map(|stage| match &stage.work {
                Work::Private { rates, .. } => rates.largest(),
                Work::Public { .. } | Work::Selective { .. } => None,
            })
    }

    /// Steps of one epoch of a round.
    fn epoch(&self, round: &Round) -> u64 {
        self.stages[round.stages.clone()]
            .iter()
            .map(|s| s.steps)
            .sum()
    }

    /// How many epochs a stage is in.
    pub(crate) fn epochs_of(&self, stage: usize) -> u64 {
        let round = self.rounds.iter().find(|r| r.stages.contains(&stage));
        round.map_or(0, |r| r.epochs)
    }

    /// The stage and epoch of a step of the whole run.
    pub(crate) fn place(&self, position: u64) -> Option<Place> {
        let mut left = position;
        for (number, round) in self.rounds.iter().enumerate() {
            let epoch = self.epoch(round);
            if left < round.epochs * epoch {
                let mut offset = left % epoch;
                for stage in round.stages.clone() {
                    if offset < self.stages[stage].steps {
                        return Some(Place {
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
            left = left.saturating_sub(round.epochs * epoch);
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

/// q = B / |D_pri|.
fn rate(batch_size: u64, records: &PrivateRecords) -> Result<SamplingRate> {
    let rate = batch_size as f64 / records.size() as f64;
    if rate > 1.0 {
        return Err(Error::Unsuitable(format!(
            "private batch size must lie in [1, {}] (the records of the private side), got {batch_size}",
            records.size()
        )));
    }
    Ok(SamplingRate::new(rate)?)
}

fn private(options: &TrainOptions, records: PrivateRecords) -> Result<Option<Stage>> {
    match &options.private {
        Some(constants) if records.size() > 0 => {
            let rate = rate(constants.batch_size, &records)?;
            Ok(Some(Stage::private(
                records,
                rate,
                Constants::of(constants),
            )))
        }
        _ => Ok(None),
    }
}

fn constants(options: &TrainOptions) -> Result<PrivateOptions> {
    options.private.ok_or_else(|| {
        Error::Unsuitable(format!(
            "recipe {} needs the constants of its private side",
            options.recipe
        ))
    })
}

fn needs<'a, T>(options: &TrainOptions, what: &str, given: Option<&'a T>) -> Result<&'a T> {
    given.ok_or_else(|| Error::Unsuitable(format!("recipe {} needs {what}", options.recipe)))
}

fn selectively(options: &TrainOptions, corpus: &Corpus<'_>) -> Result<Stage> {
    let sensitive = needs(
        options,
        "the sensitive tokens of each record",
        corpus.sensitive,
    )?;
    let private = constants(options)?;
    let records = selective(corpus.set, sensitive);
    // a batch is one of an epoch's parts: its size is not random, and nothing is amplified
    let batch_size = private.batch_size;
    let steps = (records.len() as u64).div_ceil(batch_size);
    let work = Work::Selective {
        records,
        constants: Constants::of(&private),
        batch_size,
    };
    Ok(Stage::new(work, steps, 1))
}

fn protected(options: &TrainOptions, corpus: &Corpus<'_>) -> Result<Stage> {
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
    let rates = Rates::each(given.rates().to_vec())?;
    // an epoch is as many steps as draw |D| records on average, at the batch size asked for
    let steps = Steps::per_epoch(rate(private.batch_size, &records)?).get();
    let work = Work::Private {
        records,
        rates,
        constants: Constants::of(&private),
    };
    Ok(Stage::new(work, steps, 1))
}

fn first_phase(
    options: &TrainOptions,
    kind: &FirstPhaseKind,
    corpus: &Corpus<'_>,
) -> Result<Stage> {
    let sensitive = needs(
        options,
        "the sensitive tokens of each record",
        corpus.sensitive,
    )?;
    let leave_out = Some(sensitive.mask());
    let stage = match kind {
        FirstPhaseKind::Direct => {
            let records = redacted(corpus.set, sensitive, None)?;
            Stage::public(records, 1, options.batch_size)
        }
        FirstPhaseKind::Screened { records } => {
            let records = redacted(corpus.set, sensitive, Some(records))?;
            Stage::public(records, 1, options.batch_size)
        }
        FirstPhaseKind::LightNoise {
            noise_multiplier,
            batch_size,
            ..
        }
        | FirstPhaseKind::ConservativeLightNoise {
            noise_multiplier,
            batch_size,
        } => {
            let records = redacted_private(corpus.set, sensitive)?;
            let constants = Constants {
                noise_multiplier: *noise_multiplier,
                expected_batch: *batch_size as f64,
                ..Constants::of(&constants(options)?)
            };
            Stage {
                optimizer: 0,
                ..Stage::private(records.clone(), rate(*batch_size, &records)?, constants)
            }
        }
    };
    Ok(Stage { leave_out, ..stage })
}
