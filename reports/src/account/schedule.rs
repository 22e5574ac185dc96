//! Batches by their numbers: how they are drawn, how often, and how large a share of the records.

use super::cli::{Sampler, Schedule};
use crate::contract::Inputs;
use anyhow::{Context, Result, bail};
use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Sampling, SamplingRate, Steps};

/// Assumed when neither a sampling rate nor sizes are given.
pub const SAMPLE_RATE: f64 = 0.01;
/// Assumed when neither steps nor epochs are given.
pub const STEPS: u64 = 1000;

/// The most steps that can be counted exactly.
const MOST_STEPS: f64 = (1u64 << 53) as f64;

/// Noisy steps on batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batches {
    /// q: the share of the records, or each one's probability, to be in a batch.
    pub rate: SamplingRate,
    /// T.
    pub steps: Steps,
    /// How they are drawn.
    pub sampling: Sampling,
}

impl Batches {
    /// Gaussian noise on them.
    #[must_use]
    pub fn run(self, noise_multiplier: NoiseMultiplier) -> Mechanism {
        Mechanism::Repeat {
            times: self.steps,
            each: Box::new(Mechanism::SubsampledGaussian {
                noise_multiplier,
                sampling_rate: self.rate,
                sampling: self.sampling,
            }),
        }
    }
}

/// The neighbours that are assumed: those that the sampler has an answer for.
#[must_use]
pub const fn assumed_neighbours(sampler: Option<Sampler>) -> Neighbours {
    match sampler {
        // One record more would move every batch.
        Some(Sampler::Shuffled) => Neighbours::ZeroOut,
        // A batch of fixed size keeps it.
        Some(Sampler::WithoutReplacement | Sampler::WithReplacement) => Neighbours::Replace,
        _ => Neighbours::AddRemove,
    }
}

/// The batches, however they were given.
///
/// # Errors
/// A batch larger than the data, more steps than can be counted, and an option of another sampler.
pub fn batches(given: &Schedule, inputs: Inputs) -> Result<(Batches, Inputs)> {
    let sampler = given.sampler.unwrap_or_default();
    fitting(given, sampler)?;
    let inputs = inputs.or_assumed("sampler", given.sampler, sampler)?;
    let (rate, inputs) = rate(given, inputs)?;
    let (steps, inputs) = match given.epochs {
        Some(epochs) => {
            let steps = (epochs * per_epoch(given, sampler, rate) as f64).ceil();
            if steps.is_nan() || steps > MOST_STEPS {
                bail!("--epochs: must make at most 2^53 steps, got {epochs:?}");
            }
            let inputs = inputs.given("epochs", epochs)?;
            (steps as u64, inputs.given("steps", steps as u64)?)
        }
        None => {
            let steps = given.steps.unwrap_or(STEPS);
            (steps, inputs.or_assumed("steps", given.steps, steps)?)
        }
    };
    let inputs = inputs
        .given("max_batch", given.max_batch)?
        .given("selected", given.selected)?
        .given("epoch_steps", given.epoch_steps)?;
    let batches = Batches {
        rate,
        steps: Steps::new(steps),
        sampling: sampling(given, sampler)?,
    };
    Ok((batches, inputs))
}

/// Refuses what another sampler would need, and what this one lacks.
fn fitting(given: &Schedule, sampler: Sampler) -> Result<()> {
    let truncated = sampler == Sampler::TruncatedPoisson;
    if let Some(most) = given.max_batch
        && !truncated
    {
        bail!("--max-batch: belongs to --sampler truncated-poisson, got {most}");
    }
    if truncated && given.max_batch.is_none() {
        bail!("--max-batch: is needed with --sampler truncated-poisson");
    }
    if truncated && given.dataset_size.is_none() {
        bail!("--dataset-size: is needed with --sampler truncated-poisson");
    }
    if let (Some(size), None, false) = (given.dataset_size, given.batch_size, truncated) {
        bail!("--dataset-size: belongs to --batch-size or --sampler truncated-poisson, got {size}");
    }
    let allocated = sampler == Sampler::RandomAllocation;
    if let Some(selected) = given.selected
        && !allocated
    {
        bail!("--selected: belongs to --sampler random-allocation, got {selected}");
    }
    if allocated && (given.selected.is_none() || given.epoch_steps.is_none()) {
        bail!("--selected: is needed with --sampler random-allocation, and --epoch-steps");
    }
    let by_epoch = allocated || matches!(sampler, Sampler::Shuffled | Sampler::BallsInBins);
    match given.epoch_steps {
        Some(steps) if !by_epoch => bail!(
            "--epoch-steps: belongs to --sampler shuffled, balls-in-bins or random-allocation, got {steps}"
        ),
        Some(steps) if given.selected.is_some_and(|selected| selected > steps) => bail!(
            "--selected: must lie in [1, {steps}] (the steps of an epoch), got {}",
            given.selected.unwrap_or_default()
        ),
        _ => Ok(()),
    }
}

fn rate(given: &Schedule, inputs: Inputs) -> Result<(SamplingRate, Inputs)> {
    if let Some(steps) = given.epoch_steps {
        let share = given.selected.unwrap_or(1) as f64 / steps as f64;
        let rate = SamplingRate::new(share).context("--epoch-steps")?;
        return Ok((rate, inputs.given("sample_rate", rate)?));
    }
    let (rate, inputs) = match (given.batch_size, given.dataset_size) {
        (Some(_), None) => bail!("--dataset-size: is needed with --batch-size"),
        (Some(batch), Some(size)) => {
            if batch > size {
                bail!("--batch-size: must lie in [1, dataset size {size}], got {batch}");
            }
            let rate = SamplingRate::new(share_above(batch, size)).context("--batch-size")?;
            let inputs = inputs
                .given("batch_size", batch)?
                .given("dataset_size", size)?;
            (rate, inputs.given("sample_rate", rate)?)
        }
        (None, size) => {
            let rate = given
                .sample_rate
                .map_or_else(|| SamplingRate::new(SAMPLE_RATE), Ok)?;
            let inputs = inputs.given("dataset_size", size)?;
            (
                rate,
                inputs.or_assumed("sample_rate", given.sample_rate, rate)?,
            )
        }
    };
    Ok((rate, inputs))
}

/// The steps of an epoch: at most, since a loader that keeps the last, smaller batch takes ⌈1/q⌉. Where
/// each record has one turn an epoch, what counts is the epochs, and the accountant takes the fewest
/// steps that one may have, ⌊1/q⌋.
fn per_epoch(given: &Schedule, sampler: Sampler, rate: SamplingRate) -> u64 {
    let one_turn = matches!(sampler, Sampler::Shuffled | Sampler::BallsInBins);
    match (given.epoch_steps, given.batch_size, given.dataset_size) {
        (Some(steps), ..) => steps,
        _ if one_turn => ((1.0 / rate.get()) * (1.0 + 1e-12)).floor().max(1.0) as u64,
        (None, Some(batch), Some(size)) => size.div_ceil(batch),
        // The rate may be a rounded reciprocal.
        _ => ((1.0 / rate.get()) * (1.0 - 1e-12)).ceil().max(1.0) as u64,
    }
}

fn sampling(given: &Schedule, sampler: Sampler) -> Result<Sampling> {
    let missing = |flag: &str| anyhow::anyhow!("{flag}: is needed with this --sampler");
    Ok(match sampler {
        Sampler::Poisson => Sampling::Poisson,
        Sampler::TruncatedPoisson => Sampling::TruncatedPoisson {
            max_batch: given.max_batch.ok_or_else(|| missing("--max-batch"))?,
            records: given
                .dataset_size
                .ok_or_else(|| missing("--dataset-size"))?,
        },
        Sampler::WithoutReplacement => Sampling::WithoutReplacement,
        Sampler::WithReplacement => Sampling::WithReplacement,
        Sampler::Shuffled => Sampling::Shuffled,
        Sampler::BallsInBins => Sampling::BallsInBins,
        Sampler::RandomAllocation => Sampling::RandomAllocation {
            selected: given.selected.ok_or_else(|| missing("--selected"))?,
            steps: given.epoch_steps.ok_or_else(|| missing("--epoch-steps"))?,
        },
    })
}

/// A share of a whole, rounded up: a larger rate is on the safe side.
#[must_use]
pub(super) fn share_above(part: u64, whole: u64) -> f64 {
    let (part, whole) = (part as f64, whole as f64);
    let share = part / whole;
    if share.mul_add(whole, -part) >= 0.0 {
        share
    } else {
        share.next_up().min(1.0)
    }
}

#[cfg(test)]
mod tests;
