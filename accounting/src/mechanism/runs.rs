//! Which steps of a mechanism follow one another in one run. It matters where a sampler draws batches for a whole
//! epoch: runs that end within an epoch are not one run of all their steps.

use super::{Mechanism, Sampling};
use crate::quantity::{SamplingRate, Steps};

/// The most kinds of steps for which runs are compared kind by kind, because each kind is searched for among all
/// others. Runs with more kinds are compared as written.
const MOST_KINDS: usize = 1000;

/// Runs of consecutive steps of one kind. Each run begins with an epoch of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Runs<'a> {
    /// The step, which is neither a repetition nor a sequence.
    pub step: &'a Mechanism,
    /// The number of steps of each run; 1 where every step draws its batch afresh.
    pub length: u64,
    /// The number of runs; `None` if it doesn't fit into 64 bits.
    pub times: Option<u64>,
}

impl Runs<'_> {
    /// Returns the number of steps of all runs together; `None` if it doesn't fit into 64 bits.
    #[must_use]
    pub fn steps(&self) -> Option<u64> {
        self.times?.checked_mul(self.length)
    }

    /// Returns whether the runs of both have the same step and length. Steps that protect nothing are the same, whatever
    /// their reasons.
    fn is_alike(&self, other: &Self) -> bool {
        let bare = self.protects_nothing() && other.protects_nothing();
        (self.step == other.step || bare) && self.length == other.length
    }

    const fn protects_nothing(&self) -> bool {
        matches!(self.step, Mechanism::NonPrivate { .. })
    }

    /// Returns the step with Poisson sampling, if each run is a single step of an epoch in which the places of each
    /// record are drawn for it alone. Whether a record is in that step is independent of all others, so the batch is a
    /// Poisson batch.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, NoiseMultiplier, Sampling, SamplingRate};
    /// let step = |sampling| Ok::<_, reticent_accounting::Error>(Mechanism::SubsampledGaussian {
    ///     noise_multiplier: NoiseMultiplier::new(1.1)?,
    ///     sampling_rate: SamplingRate::new(0.25)?,
    ///     sampling,
    /// });
    /// let bins = step(Sampling::BallsInBins)?;
    /// assert_eq!(bins.runs()[0].as_poisson(), Some(step(Sampling::Poisson)?));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn as_poisson(&self) -> Option<Mechanism> {
        if self.length != 1 {
            return None;
        }
        let (rate, sampling) = self.step.batches()?;
        let draw = sampling.draw();
        let (selected, steps) = draw.epoch.filter(|_| draw.independent)?;
        let (least, most) = sampling.steps_of_epoch(rate)?;
        if least != most {
            // How many steps the epoch has is not known.
            return None;
        }
        let share = SamplingRate::new(selected as f64 / steps.unwrap_or(most) as f64).ok()?;
        let is_share = (rate.get() / share.get() - 1.0).abs() <= 1e-9;
        let mut step = self.step.clone();
        if let Mechanism::SubsampledGaussian {
            sampling_rate,
            sampling,
            ..
        }
        | Mechanism::SubsampledLaplace {
            sampling_rate,
            sampling,
            ..
        } = &mut step
        {
            (*sampling_rate, *sampling) = (share, Sampling::Poisson);
        }
        is_share.then_some(step)
    }
}

impl Sampling {
    /// Returns the least and the largest number of steps of an epoch, as far as the rate determines it; `None` if each
    /// step draws its batch afresh.
    pub(crate) fn steps_of_epoch(self, rate: SamplingRate) -> Option<(u64, u64)> {
        if let (_, Some(steps)) = self.draw().epoch? {
            return Some((steps.max(1), steps.max(1)));
        }
        // The rate is a rounded reciprocal.
        let inverse = 1.0 / rate.get();
        let most = (inverse * (1.0 - 1e-12)).ceil().max(1.0);
        let whole = (inverse - most).abs() <= 1e-9 * most;
        let least = if whole { most } else { most - 1.0 };
        Some((least.max(1.0) as u64, most as u64))
    }
}

impl Mechanism {
    /// Returns the least and the largest number of steps of an epoch, if this is a step whose sampler draws by epochs.
    fn steps_of_epoch(&self) -> Option<(u64, u64)> {
        let (rate, sampling) = self.batches()?;
        sampling.steps_of_epoch(rate)
    }

    /// Returns the rate and the sampler of a step on random batches.
    #[must_use]
    pub const fn batches(&self) -> Option<(SamplingRate, Sampling)> {
        match self {
            Self::SubsampledGaussian {
                sampling_rate,
                sampling,
                ..
            }
            | Self::SubsampledLaplace {
                sampling_rate,
                sampling,
                ..
            } => Some((*sampling_rate, *sampling)),
            _ => None,
        }
    }

    /// Returns whether this is a step whose sampler draws batches for a whole epoch.
    #[must_use]
    pub fn draws_by_epochs(&self) -> bool {
        self.steps_of_epoch().is_some()
    }

    /// Returns whether this is a step whose batches hold no record: its rate is 0. A sampler that draws by epochs has
    /// each record in some of its batches, so it has no such rate.
    pub(crate) fn draws_nobody(&self) -> bool {
        let none = |(rate, _): (SamplingRate, Sampling)| rate.get() <= 0.0;
        self.batches().is_some_and(none) && !self.draws_by_epochs()
    }

    /// Returns this mechanism run `times` times, each time as a run of its own: a step whose sampler draws by epochs
    /// begins a new epoch each time.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, NoiseMultiplier, Sampling, SamplingRate, Steps};
    /// let step = Mechanism::SubsampledGaussian {
    ///     noise_multiplier: NoiseMultiplier::new(1.1)?,
    ///     sampling_rate: SamplingRate::new(0.25)?,
    ///     sampling: Sampling::BallsInBins,
    /// };
    /// let epoch = Mechanism::Repeat { times: Steps::new(4), each: Box::new(step.clone()) };
    /// assert!(!step.repeated(Steps::new(4)).is_same_run(&epoch));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn repeated(self, times: Steps) -> Self {
        let each = match self.draws_by_epochs() {
            true => self.times(Steps::new(1)),
            false => self,
        };
        each.times(times)
    }

    /// Returns the steps of the mechanism in order, with the runs that they are part of. A repetition of a step is one
    /// run; a repetition of anything else, and each part of a sequence, is a run of its own. Steps whose batches hold no
    /// record are left out: they release nothing.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(50));
    /// let twice = run.repeated(Steps::new(2));
    /// assert_eq!(twice.runs()[0].steps(), Some(100));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn runs(&self) -> Vec<Runs<'_>> {
        let mut found = Vec::new();
        self.add_runs(Some(1), &mut found);
        found
    }

    fn add_runs<'a>(&'a self, times: Option<u64>, found: &mut Vec<Runs<'a>>) {
        match self {
            Self::Repeat { times: none, .. } if none.get() == 0 => {}
            step if step.draws_nobody() => {}
            Self::Repeat {
                times: length,
                each,
            } if each.draws_by_epochs() => found.push(Runs {
                step: each,
                length: length.get(),
                times,
            }),
            Self::Repeat { times: more, each } => {
                let times = times.and_then(|times| times.checked_mul(more.get()));
                each.add_runs(times, found);
            }
            Self::Sequence { parts } => {
                parts.iter().for_each(|part| part.add_runs(times, found));
            }
            step => found.push(Runs {
                step,
                length: 1,
                times,
            }),
        }
    }

    /// Returns whether both describe the same run: the same steps equally often, however they are nested and ordered, in
    /// the same runs where a sampler draws by epochs, and whatever reasons are given where nothing is protected.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps};
    /// let run = |steps| Ok::<_, reticent_accounting::Error>(Mechanism::dp_sgd(
    ///     NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(steps)));
    /// let twice = run(50)?.repeated(Steps::new(2));
    /// assert!(twice.is_same_run(&run(100)?) && !twice.is_same_run(&run(101)?));
    /// let seeded = twice.clone().unprotected("a fixed seed drew the noise");
    /// assert!(seeded.is_same_run(&twice.clone().unprotected("seeded")) && !seeded.is_same_run(&twice));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn is_same_run(&self, other: &Self) -> bool {
        match (self.kinds(), other.kinds()) {
            (Some(own), Some(others)) => {
                let among = |kind: &Runs<'_>| {
                    let same = |other: &Runs<'_>| kind.times == other.times && kind.is_alike(other);
                    others.iter().any(same)
                };
                own.len() == others.len() && own.iter().all(among)
            }
            _ => self == other,
        }
    }

    /// Returns whether this is the run that is `stated`, as [`Self::is_same_run`] compares them, but for parts that protect
    /// nothing, of which there may be more; with `others`, for other runs too.
    pub(crate) fn is_run_as_stated(&self, stated: &Self, others: bool) -> bool {
        let (Some(own), Some(stated_kinds)) = (self.kinds(), stated.kinds()) else {
            return self == stated;
        };
        let all_there = stated_kinds.iter().all(|kind| {
            let fits = |own: &Runs<'_>| {
                own.is_alike(kind) && (own.protects_nothing() || own.times >= kind.times)
            };
            own.iter().any(fits)
        });
        let nothing_else = own.iter().all(|own| {
            let fits = |kind: &Runs<'_>| kind.times == own.times && kind.is_alike(own);
            own.protects_nothing() || stated_kinds.iter().any(fits)
        });
        all_there && (others || nothing_else)
    }

    /// Returns each kind of run once, with the number of such runs; runs of whole epochs are counted by epochs. `None`
    /// if there are more than [`MOST_KINDS`] kinds, or if a number doesn't fit into 64 bits.
    fn kinds(&self) -> Option<Vec<Runs<'_>>> {
        let mut kinds: Vec<Runs<'_>> = Vec::new();
        for mut runs in self.runs() {
            if let Some((least, most)) = runs.step.steps_of_epoch()
                && least == most
                && runs.length.is_multiple_of(most)
            {
                runs.times = runs.times?.checked_mul(runs.length / most);
                runs.length = most;
            }
            let same = |known: &&mut Runs<'_>| known.is_alike(&runs);
            let more = runs.times?;
            if let Some(known) = kinds.iter_mut().find(same) {
                known.times = Some(known.times?.checked_add(more)?);
            } else if kinds.len() == MOST_KINDS {
                return None;
            } else {
                kinds.push(runs);
            }
        }
        Some(kinds)
    }
}
