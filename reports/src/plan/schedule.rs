//! Batches: how they are drawn, how many there are, and which share of the records each holds.

use super::args::Schedule;
use super::request::PlanRequest;
use super::sampler::Sampler;
use super::uses::value_name;
use anyhow::{Context, Result, bail};
use reticent_accounting::training::{NoisySteps, Stated, StepDecay, steps_of_epochs};
use reticent_accounting::{Neighbours, NoiseMultiplier, Sampling, SamplingRate, Steps};

/// What is assumed if batches are not specified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defaults {
    /// For a prepared corpus, the defaults of the trainer: a tenth of the records, eight epochs.
    Corpus,
    /// For a question without a corpus: a hundredth of the records, a thousand steps.
    Question,
    /// For a plan file without a corpus: nothing.
    None,
}

impl Defaults {
    /// Returns the sampling rate.
    #[must_use]
    pub const fn sample_rate(self) -> Option<f64> {
        match self {
            Self::Corpus => Some(0.1),
            Self::Question => Some(0.01),
            Self::None => None,
        }
    }

    /// Returns the number of epochs.
    #[must_use]
    pub const fn epochs(self) -> Option<u64> {
        match self {
            Self::Corpus => Some(8),
            Self::Question | Self::None => None,
        }
    }

    const fn steps(self) -> Option<u64> {
        match self {
            Self::Question => Some(1000),
            Self::Corpus | Self::None => None,
        }
    }
}

/// Returns the neighbours that are assumed: those for which the sampler can be accounted.
#[must_use]
pub fn assumed_neighbours(sampler: Option<Sampler>) -> Neighbours {
    let draw = sampler.unwrap_or_default().example().draw();
    match draw.epoch {
        // Replacement keeps the fixed batch size.
        None if draw.fixed_size => Neighbours::Replace,
        // One more record would change every batch.
        Some(_) if !draw.independent => Neighbours::ZeroOut,
        _ => Neighbours::AddRemove,
    }
}

/// The neighbours that are assumed, in help texts.
pub(crate) const ASSUMED_NEIGHBOURS: &str =
    "add-remove; zero-out with --sampler shuffled; replace with --sampler without-replacement";

/// Returns noisy steps at σ on batches of `records` records.
///
/// # Errors
/// Returns an error if a batch is larger than the data, if there are more steps than can be counted,
/// if an option belongs to another sampler, or if a value without a default is missing.
pub fn noisy_steps(
    request: &PlanRequest,
    noise_multiplier: Stated<NoiseMultiplier>,
    records: Option<u64>,
    defaults: Defaults,
) -> Result<NoisySteps> {
    let given = &request.schedule;
    let sampler = given.sampler.unwrap_or_default();
    fitting(request, sampler)?;
    let sampling = sampling(request, sampler, records)?;
    let sampling_rate = rate(request, records, defaults)?;
    let (share, steps_per_epoch) =
        of_epoch(given, *sampling_rate, defaults).with_context(|| request.name("sample_rate"))?;
    let sampling_rate = sampling_rate.with(share);
    let steps = steps(request, steps_per_epoch, defaults)?;
    let noise_decay = noise_decay(request, steps_per_epoch, *steps)?;
    Ok(NoisySteps {
        noise_multiplier,
        sampling: Stated::or_assumed(
            given.sampler.map(|_| sampling),
            request.name("sampler"),
            sampling,
        ),
        sampling_rate,
        steps_per_epoch,
        steps,
        noise_decay,
    })
}

/// Returns `noisy`, which `request` describes, at another sampling rate: epochs, and with them how the noise falls,
/// follow the rate.
///
/// # Errors
/// Returns an error as [`noisy_steps`] does.
pub fn at_rate(
    request: &PlanRequest,
    noisy: &NoisySteps,
    rate: SamplingRate,
    records: Option<u64>,
    defaults: Defaults,
) -> Result<NoisySteps> {
    let mut request = request.clone();
    request.schedule.sample_rate = Some(rate);
    request.schedule.batch_size = None;
    request.schedule.epoch_steps = None;
    noisy_steps(&request, noisy.noise_multiplier.clone(), records, defaults)
}

/// Returns how σ falls over `steps` steps.
fn noise_decay(
    request: &PlanRequest,
    steps_per_epoch: u64,
    steps: Steps,
) -> Result<Option<StepDecay>> {
    let noise = &request.noise.decay;
    let Some(factor) = noise.noise_decay else {
        return Ok(None);
    };
    let every = noise.noise_decay_every.unwrap_or(1);
    if every == 0 {
        bail!(request.said("`noise_decay_every`: must lie in [1, inf), got 0"));
    }
    let decay = StepDecay::new(factor, every.saturating_mul(steps_per_epoch))
        .with_context(|| request.name("noise_decay"))?;
    let levels = steps.get().div_ceil(decay.every());
    if levels > StepDecay::MOST_LEVELS {
        bail!(request.said(&format!(
            "`noise_decay_every`: must leave at most {} different noise multipliers, \
             got {levels} in {} steps",
            StepDecay::MOST_LEVELS,
            steps.get()
        )));
    }
    Ok(Some(decay))
}

/// Returns the number of steps, for `steps_per_epoch` steps an epoch.
///
/// # Errors
/// Returns an error if there are more steps than can be counted, or if a value without a default is
/// missing.
pub fn steps(
    request: &PlanRequest,
    steps_per_epoch: u64,
    defaults: Defaults,
) -> Result<Stated<Steps>> {
    let given = &request.schedule;
    let counted = |epochs: f64, by: &str| {
        steps_of_epochs(epochs, steps_per_epoch).with_context(|| request.name(by))
    };
    Ok(
        match (
            given.steps,
            given.epochs,
            defaults.epochs(),
            defaults.steps(),
        ) {
            (Some(0), ..) if defaults == Defaults::Corpus => {
                bail!(request.said("`steps`: must be a positive whole number, got 0"))
            }
            (Some(steps), ..) => Stated::given(Steps::new(steps), request.name("steps")),
            (None, Some(epochs), ..) => {
                Stated::given(counted(epochs, "epochs")?, request.name("epochs"))
            }
            (None, None, Some(epochs), _) => Stated::assumed(counted(epochs as f64, "epochs")?),
            (None, None, None, Some(steps)) => Stated::assumed(Steps::new(steps)),
            (None, None, None, None) => bail!(request.said("`epochs`: is needed, or `steps`")),
        },
    )
}

/// Returns the epochs of a run that has no record to draw: those that its steps would be of a corpus with some, so
/// that a script can name the same steps for every corpus.
///
/// # Errors
/// Returns an error as [`rate`] and [`steps`] do.
pub fn epochs_without_records(request: &PlanRequest, defaults: Defaults) -> Result<u64> {
    let given = &request.schedule;
    let steps_per_epoch = match (given.batch_size, given.sample_rate) {
        // Any batch is all of no records.
        (Some(_), None) => 1,
        _ => {
            let found = of_epoch(given, *rate(request, None, defaults)?, defaults);
            found.with_context(|| request.name("sample_rate"))?.1
        }
    };
    let steps = steps(request, steps_per_epoch, defaults)?;
    Ok(steps.get().div_ceil(steps_per_epoch))
}

/// Refuses options that belong to another sampler.
fn fitting(request: &PlanRequest, sampler: Sampler) -> Result<()> {
    let given = &request.schedule;
    for (key, value) in [
        ("max_batch", given.max_batch),
        ("selected", given.selected),
        ("epoch_steps", given.epoch_steps),
    ] {
        if let Some(value) = value
            && !sampler.takes(key)
        {
            bail!(request.said(&format!(
                "`{key}`: applies only to `sampler` {}, got {value}",
                Sampler::named("or", |s| s.takes(key))
            )));
        }
    }
    match given.selected.zip(given.epoch_steps) {
        Some((selected, steps)) if !(1..=steps).contains(&selected) => {
            bail!(request.said(&format!(
                "`selected`: must lie in [1, {steps}] (the steps of an epoch), got {selected}"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns q: as given, or the batch size over the number of records.
///
/// # Errors
/// Returns an error if a batch is larger than the records, or if a value without a default is missing.
pub fn rate(
    request: &PlanRequest,
    records: Option<u64>,
    defaults: Defaults,
) -> Result<Stated<SamplingRate>> {
    let (given, name) = (&request.schedule, |key: &str| request.name(key));
    if let Some(steps) = given.epoch_steps {
        let share = given.selected.unwrap_or(1) as f64 / steps as f64;
        let rate = SamplingRate::new(share).with_context(|| name("epoch_steps"))?;
        return Ok(Stated::given(rate, name("epoch_steps")));
    }
    Ok(match (given.sample_rate, given.batch_size, records) {
        (Some(_), Some(_), _) => bail!(request.said(
            "`sample_rate` and `batch_size`: give one of them; both say how large a \
             noisy batch is, and records of an \
             ordinary step are --ordinary-batch-size of audit train"
        )),
        // For a corpus, a rate below one record is a mistake: an epoch would have more steps than
        // records.
        (Some(rate), None, Some(records))
            if defaults == Defaults::Corpus && rate.get() * (records as f64) < 0.5 =>
        {
            bail!(request.said(&format!(
                "`sample_rate`: must lie in [1/{records}, 1], one of the {records} \
                 records it draws from, got {rate}"
            )))
        }
        (Some(rate), None, _) => Stated::given(rate, name("sample_rate")),
        (None, Some(_), None) => {
            bail!(request.said("`private`: is needed with `batch_size`"))
        }
        (None, Some(batch), Some(records)) if batch == 0 || batch > records => {
            bail!(request.said(&format!(
                "`batch_size`: must lie in [1, {records}] (the records that noise \
                 covers), got {batch}"
            )))
        }
        (None, Some(batch), Some(records)) => {
            Stated::given(SamplingRate::of_share(batch, records)?, name("batch_size"))
        }
        (None, None, _) => match defaults.sample_rate() {
            Some(rate) => Stated::assumed(SamplingRate::new(rate)?),
            None => bail!(request.said("`batch_size`: is needed, or `sample_rate`")),
        },
    })
}

/// Returns the share of the records in a batch for q, and the steps of an epoch.
///
/// Our trainer draws each record into one of ⌊1/q⌋ batches, so that each is expected to hold their reciprocal share, which
/// is larger than q where 1/q is no whole number. Of another loader only q is known.
///
/// # Errors
/// Returns an error for a rate of 0 where steps are drawn or counted by epochs, or trained.
pub fn of_epoch(
    given: &Schedule,
    rate: SamplingRate,
    defaults: Defaults,
) -> Result<(SamplingRate, u64)> {
    let sampler = given.sampler.unwrap_or_default();
    let by_epochs = given.epochs.is_some() || sampler.takes("epoch_steps");
    if rate.get() <= 0.0 && (by_epochs || defaults == Defaults::Corpus) {
        bail!("must lie in (0, 1], got 0: at a rate of 0 there are no epochs");
    }
    let steps = per_epoch(given, sampler, rate);
    let share = match (sampler, defaults) {
        (Sampler::BallsInBins, Defaults::Corpus) => SamplingRate::of_share(1, steps)?,
        _ => rate,
    };
    Ok((share, steps))
}

/// Returns an upper bound on the steps of an epoch, since a loader that keeps the last, smaller batch
/// takes ⌈1/q⌉. If each record is used once an epoch, the number of epochs matters, and the accountant
/// assumes the fewest steps that an epoch may have, ⌊1/q⌋.
fn per_epoch(given: &Schedule, sampler: Sampler, rate: SamplingRate) -> u64 {
    match (given.epoch_steps, sampler.example().draw().epoch) {
        (Some(steps), _) => steps,
        (None, Some((_, None))) => Steps::whole_per_epoch(rate).get(),
        (None, _) => Steps::per_epoch(rate).get(),
    }
}

/// Returns the sampler with its parameters.
fn sampling(request: &PlanRequest, sampler: Sampler, records: Option<u64>) -> Result<Sampling> {
    let given = &request.schedule;
    sampler.sampling(|option| {
        let (value, key, also) = match option {
            "max_batch" => (given.max_batch, option, ""),
            "private" => (records, option, ""),
            "selected" => (given.selected, option, ", and `epoch_steps`"),
            _ => (given.epoch_steps, "selected", ", and `epoch_steps`"),
        };
        value.with_context(|| {
            let name = value_name(sampler);
            request.said(&format!("`{key}`: is needed with `sampler` {name}{also}"))
        })
    })
}

#[cfg(test)]
mod tests;
