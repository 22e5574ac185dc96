//! Samplers: their names, their parameters and what is said of them.

use super::uses::value_name;
use crate::number::{described, grouped, plural};
use clap::ValueEnum;
use reticent_accounting::{Sampling, SamplingRate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;

/// How batches are drawn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Poisson subsampling: each record independently at every step; what most accountants assume.
    #[default]
    Poisson,
    /// Like Poisson, randomly truncated to --max-batch; an upper and a lower bound.
    TruncatedPoisson,
    /// A fresh subset of fixed size at every step; for replace.
    WithoutReplacement,
    /// A list of fixed size that may repeat records; refused, since no certified bound is known.
    #[value(hide = true)]
    WithReplacement,
    /// Each record once per epoch, in batches of a random order, as in ordinary loaders; for zero-out and replace,
    /// without privacy amplification.
    Shuffled,
    /// Each record once per epoch, in a step drawn for it alone; an upper and a lower bound.
    BallsInBins,
    /// Each record in --selected of every --epoch-steps; an upper and a lower bound.
    RandomAllocation,
}

impl From<Sampling> for Sampler {
    fn from(sampling: Sampling) -> Self {
        match sampling {
            Sampling::Poisson => Self::Poisson,
            Sampling::TruncatedPoisson { .. } => Self::TruncatedPoisson,
            Sampling::WithoutReplacement => Self::WithoutReplacement,
            Sampling::WithReplacement => Self::WithReplacement,
            Sampling::Shuffled => Self::Shuffled,
            Sampling::BallsInBins => Self::BallsInBins,
            Sampling::RandomAllocation { .. } => Self::RandomAllocation,
        }
    }
}

impl Sampler {
    /// Returns the sampler with its parameters, for which `number` is called with the name of the option.
    pub(super) fn sampling<E>(
        self,
        number: impl Fn(&'static str) -> Result<u64, E>,
    ) -> Result<Sampling, E> {
        Ok(match self {
            Self::Poisson => Sampling::Poisson,
            Self::TruncatedPoisson => Sampling::TruncatedPoisson {
                max_batch: number("max_batch")?,
                records: number("private")?,
            },
            Self::WithoutReplacement => Sampling::WithoutReplacement,
            Self::WithReplacement => Sampling::WithReplacement,
            Self::Shuffled => Sampling::Shuffled,
            Self::BallsInBins => Sampling::BallsInBins,
            Self::RandomAllocation => Sampling::RandomAllocation {
                selected: number("selected")?,
                steps: number("epoch_steps")?,
            },
        })
    }

    /// Returns the sampler with all parameters 1.
    pub(crate) fn example(self) -> Sampling {
        let Ok(sampling) = self.sampling(|_| Ok::<_, Infallible>(1));
        sampling
    }

    /// Returns whether an option applies that some samplers need. The steps of an epoch also stand for the sampling rate.
    pub(crate) fn takes(self, option: &str) -> bool {
        let needs = |needed| if needed == option { Err(()) } else { Ok(1) };
        let by_epoch = || self.example().draw().epoch.is_some();
        self.sampling(needs).is_err() || option == "epoch_steps" && by_epoch()
    }

    /// Names the samplers that fit: `shuffled, balls-in-bins or random-allocation`.
    pub(crate) fn named(conjunction: &str, fits: impl Fn(Self) -> bool) -> String {
        let fitting = Self::value_variants().iter().filter(|s| fits(**s));
        let names: Vec<String> = fitting.map(|sampler| value_name(*sampler)).collect();
        match names.split_last() {
            Some((last, others @ [_, ..])) => format!("{} {conjunction} {last}", others.join(", ")),
            _ => names.concat(),
        }
    }
}

/// What is said of a sampler.
pub(crate) struct Words {
    /// Its batches.
    pub(crate) batches: String,
    /// What a loader has to do.
    pub(crate) loader: String,
    /// How it is accounted for: exactly or by a bound, and by which.
    pub(crate) status: &'static str,
}

/// Returns what is said of a sampler of records called `unit`.
pub(crate) fn words(sampling: Sampling, rate: SamplingRate, unit: &str) -> Words {
    let rate = described(rate.get());
    let units = plural(unit);
    match sampling {
        Sampling::Poisson => Words {
            batches: format!("Poisson batches of rate {rate}"),
            loader: format!(
                "Each noisy batch is drawn at random, every {unit} on its own with the stated sampling rate"
            ),
            status: "each record is drawn independently, so that it is in the batch with this probability in every step; the \
             pair is exact",
        },
        Sampling::TruncatedPoisson { max_batch, records } => Words {
            batches: format!(
                "Poisson batches of rate {rate}, cut down to {max_batch} of {records} records"
            ),
            loader: format!(
                "Each noisy batch is drawn at random, every {unit} on its own with the stated sampling rate, and a \
                 batch of more than {} is cut down to so many at random; there are {} {units}",
                grouped(max_batch),
                grouped(records)
            ),
            status: "an upper bound: the adversary learns when a batch was full, and then the record, if it is used, takes \
             the place of another (sensitivity 2); the lower end is of a record among others that contribute nothing",
        },
        Sampling::WithoutReplacement => Words {
            batches: format!("batches of fixed size, a share {rate} of the records"),
            loader: format!(
                "Each noisy batch is a fresh subset of fixed size, the stated share of all {units}, and every such \
                 subset is equally likely"
            ),
            status: "fixed-size batches keep their size, so the neighbours are replace; exact for one step of one record, \
             otherwise an upper bound",
        },
        Sampling::WithReplacement => Words {
            batches: format!("batches of fixed size, drawn with replacement, a share {rate}"),
            loader: format!(
                "Each noisy batch is a list of fixed size, the stated share of all {units}, and each place in it is \
                 drawn at random from all of them"
            ),
            status: "not covered: a record can come up several times in one batch",
        },
        Sampling::Shuffled => Words {
            batches: format!("shuffled batches, a share {rate} each"),
            loader: format!(
                "In each epoch the {units} are in random order and dealt out to noisy batches of the stated share \
                 each, so that every {unit} is in one of them"
            ),
            status: "an upper bound: the adversary learns in which step of the epoch the record is, so an epoch costs one \
             step without amplification, and Poisson accounting would promise too much; the lower end is of places \
             drawn for each record alone",
        },
        Sampling::BallsInBins => Words {
            batches: format!("batches by balls in bins, a share {rate} each"),
            loader: format!(
                "In each epoch every {unit} is in one noisy batch, drawn at random for it alone among the batches of \
                 the epoch, each of which is equally likely"
            ),
            status: "the mean of the likelihood ratios of an epoch's steps, its law taken from above and from below; for \
             replacements and groups, once the step is known, an epoch costs one step without amplification",
        },
        Sampling::RandomAllocation { selected, steps } => Words {
            batches: format!(
                "batches by random allocation, each record in {selected} of every {steps} steps"
            ),
            loader: format!(
                "In each epoch of {} noisy batches every {unit} is in {}, drawn at random for it alone, and every \
                 choice is equally likely",
                grouped(steps),
                grouped(selected)
            ),
            status: "an upper bound: the adversary learns a part of the epoch for each time that the record is used, with one \
             place in it; the lower end is of who sees only the sum over the epoch",
        },
    }
}
