//! Converts an event to the mechanism that it describes.

use super::Event;
use super::exact::{reciprocal_below, truth_above};
use crate::mechanism::json::refused;
use crate::mechanism::validate::{mixture, whole};
use crate::mechanism::{Mechanism, Sampling};
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Divergence, MOST_COUNT, NoiseMultiplier, Probability, SamplingRate, Steps};

/// Attributes an error about a value to its field.
fn of<T>(field: &str, found: Result<T>) -> Result<T> {
    found.map_err(|error| error.within(field))
}

/// Returns the mechanism of an event. An event that only promises ε, δ or ρ is read as a promise
/// for `neighbours`.
pub(super) fn mechanism(event: &Event, neighbours: Neighbours) -> Result<Mechanism> {
    let below = |event: &Event, field: &str| of(field, mechanism(event, neighbours));
    Ok(match event {
        Event::NoOpDpEvent {} => nothing(),
        Event::NonPrivateDpEvent {} => Mechanism::open("a NonPrivateDpEvent"),
        Event::ComposedDpEvent { events } => {
            let parts = events.iter().enumerate();
            let parts = parts.map(|(i, event)| below(event, &format!("events[{i}]")));
            Mechanism::Sequence {
                parts: parts.collect::<Result<_>>()?,
            }
        }
        Event::SelfComposedDpEvent { event, count } => {
            whole("count", *count, 0, MOST_COUNT)?;
            below(event, "event")?.times(Steps::new(*count))
        }
        Event::PoissonSampledDpEvent {
            sampling_probability,
            event,
        } => {
            let rate = SamplingRate::new(sampling_probability.get());
            let rate = of("sampling_probability", rate)?;
            if rate.get() > 0.0 {
                of("event", sampled(event, rate, Sampling::Poisson))?
            } else {
                // Nothing is ever sampled, but the inner event is still read.
                below(event, "event")?;
                nothing()
            }
        }
        Event::SampledWithoutReplacementDpEvent {
            source_dataset_size,
            sample_size,
            event,
        } => {
            let rate = share(*sample_size, *source_dataset_size)?;
            of("event", sampled(event, rate, Sampling::WithoutReplacement))?
        }
        Event::SampledWithReplacementDpEvent {
            source_dataset_size,
            sample_size,
            event,
        } => {
            let rate = share(*sample_size, *source_dataset_size)?;
            of("event", sampled(event, rate, Sampling::WithReplacement))?
        }
        Event::RandomAllocationDpEvent {
            event,
            num_selected,
            num_steps,
        } => allocation(event, *num_selected, *num_steps)?,
        Event::TruncatedSubsampledGaussianDpEvent {
            dataset_size,
            sampling_probability,
            truncated_batch_size,
            noise_multiplier,
        } => {
            whole("truncated_batch_size", *truncated_batch_size, 1, MOST_COUNT)?;
            whole("dataset_size", *dataset_size, 1, MOST_COUNT)?;
            Mechanism::SubsampledGaussian {
                noise_multiplier: *noise_multiplier,
                sampling_rate: *sampling_probability,
                // The event's data set contains the neighbour's record, as ours does.
                sampling: Sampling::TruncatedPoisson {
                    max_batch: *truncated_batch_size,
                    records: *dataset_size,
                },
            }
        }
        Event::EpsilonDeltaDpEvent { epsilon, delta } if delta.get() <= 0.0 => Mechanism::PureDp {
            epsilon: *epsilon,
            neighbours,
        },
        Event::EpsilonDeltaDpEvent { epsilon, delta } => Mechanism::ApproxDp {
            epsilon: *epsilon,
            delta: *delta,
            neighbours,
        },
        Event::ExponentialMechanismDpEvent { epsilon } => Mechanism::ExponentialMechanism {
            epsilon: *epsilon,
            neighbours,
        },
        Event::ZCDpEvent { rho, xi } => Mechanism::Zcdp {
            rho: of("rho", Divergence::new(*rho))?,
            xi: of("xi", Divergence::new(*xi))?,
            neighbours,
        },
        Event::RepeatAndSelectDpEvent { event, mean, shape } => Mechanism::RepeatAndSelect {
            each: Box::new(below(event, "event")?),
            mean: *mean,
            shape: *shape,
        },
        other => noise(other)?,
    })
}

/// Converts events that add noise to a query.
fn noise(event: &Event) -> Result<Mechanism> {
    Ok(match event {
        Event::GaussianDpEvent { noise_multiplier } => match scale(*noise_multiplier)? {
            Some(noise_multiplier) => Mechanism::Gaussian { noise_multiplier },
            None => Mechanism::open("noise of scale zero"),
        },
        Event::LaplaceDpEvent { noise_multiplier } => match scale(*noise_multiplier)? {
            Some(scale) => Mechanism::Laplace { scale },
            None => Mechanism::open("noise of scale zero"),
        },
        Event::DiscreteLaplaceDpEvent {
            noise_parameter,
            sensitivity,
        } => {
            whole("sensitivity", (*sensitivity).into(), 1, u32::MAX.into())?;
            let scale = NoiseMultiplier::new(reciprocal_below(noise_parameter.get()));
            Mechanism::DiscreteLaplace {
                scale: of("noise_parameter", scale)?,
                sensitivity: *sensitivity,
            }
        }
        Event::DiscreteGaussianDpEvent {
            sigma,
            sensitivity,
            dimension,
        } => {
            if *dimension != Some(1) {
                let why = "must be 1: in more dimensions, or an unknown number, one coordinate does not stand for all";
                return Err(refused("dimension", why));
            }
            whole("sensitivity", (*sensitivity).into(), 1, u32::MAX.into())?;
            Mechanism::DiscreteGaussian {
                sigma: *sigma,
                sensitivity: *sensitivity,
            }
        }
        Event::RandomizedResponseDpEvent {
            noise_parameter,
            num_buckets,
        } => {
            whole("num_buckets", (*num_buckets).into(), 2, u32::MAX.into())?;
            let truth = truth_above(noise_parameter.get(), (*num_buckets).into());
            Mechanism::RandomisedResponse {
                truth: of("noise_parameter", Probability::new(truth))?,
                categories: *num_buckets,
            }
        }
        Event::MixtureOfGaussiansDpEvent {
            standard_deviation,
            sensitivities,
            sampling_probs,
        } => {
            mixture(
                ("sensitivities", sensitivities),
                ("sampling_probs", sampling_probs),
            )?;
            Mechanism::MixtureOfGaussians {
                noise_multiplier: *standard_deviation,
                sensitivities: sensitivities.clone(),
                probabilities: sampling_probs.clone(),
            }
        }
        other => return Err(without_counterpart(other, "")),
    })
}

fn without_counterpart(event: &Event, circumstance: &str) -> Error {
    let why = format!("{}{circumstance} has no counterpart here", event.class());
    refused("", &why)
}

/// Returns the scale of the noise; `None` if there is no noise.
fn scale(noise_multiplier: f64) -> Result<Option<NoiseMultiplier>> {
    if noise_multiplier.abs() <= 0.0 {
        return Ok(None);
    }
    of("noise_multiplier", NoiseMultiplier::new(noise_multiplier)).map(Some)
}

fn nothing() -> Mechanism {
    Mechanism::Sequence { parts: Vec::new() }
}

/// Returns the sample size divided by the number of records.
fn share(sample: u64, records: u64) -> Result<SamplingRate> {
    whole("source_dataset_size", records, 1, MOST_COUNT)?;
    whole("sample_size", sample, 1, records)?;
    of("sample_size", SamplingRate::of_share(sample, records))
}

/// Returns an epoch in which each record takes part `selected` times.
fn allocation(event: &Event, selected: u64, steps: u64) -> Result<Mechanism> {
    whole("num_steps", steps, 1, MOST_COUNT)?;
    whole("num_selected", selected, 1, steps)?;
    let rate = SamplingRate::new(selected as f64 / steps as f64);
    let sampling = match selected {
        1 => Sampling::BallsInBins,
        selected => Sampling::RandomAllocation { selected, steps },
    };
    let each = sampled(event, of("num_selected", rate)?, sampling);
    Ok(of("event", each)?.times(Steps::new(steps)))
}

/// Converts what runs on a batch: noise, or several Gaussians on the same batch. Several Gaussians
/// equal a single one, in which the squared distances between their means add up (a single query
/// after a change of axes).
fn sampled(event: &Event, rate: SamplingRate, sampling: Sampling) -> Result<Mechanism> {
    match event {
        Event::NoOpDpEvent {} => Ok(nothing()),
        Event::NonPrivateDpEvent {} => Ok(Mechanism::open("a NonPrivateDpEvent on a batch")),
        Event::GaussianDpEvent { .. } | Event::LaplaceDpEvent { .. } => Ok(match noise(event)? {
            Mechanism::Gaussian { noise_multiplier } => Mechanism::SubsampledGaussian {
                noise_multiplier,
                sampling_rate: rate,
                sampling,
            },
            Mechanism::Laplace { scale } => Mechanism::SubsampledLaplace {
                scale,
                sampling_rate: rate,
                sampling,
            },
            other => other,
        }),
        Event::ComposedDpEvent { .. } | Event::SelfComposedDpEvent { .. } => {
            let precision = precision(event)?;
            if precision <= 0.0 {
                return Ok(nothing());
            }
            if precision == f64::INFINITY {
                return Ok(Mechanism::open("noise of scale zero on a batch"));
            }
            // Rounded down by more than the rounding errors of the power.
            let sigma = precision.powf(-0.5) * (1.0 - 1e-14);
            Ok(Mechanism::SubsampledGaussian {
                noise_multiplier: NoiseMultiplier::new(sigma)?,
                sampling_rate: rate,
                sampling,
            })
        }
        other => Err(without_counterpart(other, " on a random batch")),
    }
}

/// Returns Σ 1/σ² over Gaussians on one batch, with every operation rounded up because there may be
/// very many.
fn precision(event: &Event) -> Result<f64> {
    match event {
        Event::NoOpDpEvent {} => Ok(0.0),
        Event::GaussianDpEvent { noise_multiplier } => Ok(match scale(*noise_multiplier)? {
            Some(sigma) => {
                let ratio = (1.0 / sigma.get()).next_up();
                (ratio * ratio).next_up()
            }
            None => f64::INFINITY,
        }),
        Event::SelfComposedDpEvent { event, count } => {
            whole("count", *count, 0, MOST_COUNT)?;
            let each = of("event", precision(event))?;
            Ok(if *count == 0 || each <= 0.0 {
                0.0
            } else {
                (each * *count as f64).next_up()
            })
        }
        Event::ComposedDpEvent { events } => {
            let mut sum = 0.0f64;
            for (i, event) in events.iter().enumerate() {
                let each = of(&format!("events[{i}]"), precision(event))?;
                if each > 0.0 {
                    sum = (sum + each).next_up();
                }
            }
            Ok(sum)
        }
        other => Err(without_counterpart(
            other,
            " with others on one random batch",
        )),
    }
}
