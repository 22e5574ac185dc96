//! Converts mechanisms to events of Google's `dp_accounting` for Python.

use super::exact::{lie_below, reciprocal_above};
use super::{Event, MODULE};
use crate::mechanism::json::refused;
use crate::mechanism::{Mechanism, Sampling};
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Delta, Divergence, Epsilon, MOST_COUNT, NoiseMultiplier, Probability, SamplingRate,
};
use serde_json::Value;

/// Converts a mechanism to an event of `dp_accounting`, for a question about `neighbours`.
///
/// Information that events can't express is lost: the neighbours (the accountant of that library
/// chooses them, so a promise for other neighbours is refused), and the reason why something isn't
/// private.
///
/// # Errors
/// Returns [`Error::Document`] with the part that has no counterpart and its place.
pub fn to_event(mechanism: &Mechanism, neighbours: Neighbours) -> Result<Value> {
    let event = event(mechanism, neighbours)?;
    let mut value = serde_json::to_value(event).map_err(|e| refused("", &e.to_string()))?;
    with_module(&mut value);
    Ok(value)
}

/// Adds the name of the module to every event.
fn with_module(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(with_module);
            members.insert("module_name".into(), MODULE.into());
        }
        Value::Array(items) => items.iter_mut().for_each(with_module),
        _ => {}
    }
}

fn without(what: &str) -> Error {
    let why = format!("dp_accounting has no event for {what}");
    refused("", &why)
}

fn event(mechanism: &Mechanism, neighbours: Neighbours) -> Result<Event> {
    Ok(match mechanism {
        Mechanism::Gaussian { noise_multiplier } => gaussian(*noise_multiplier),
        Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling,
        } => match sampling {
            Sampling::Poisson => poisson(*sampling_rate, gaussian(*noise_multiplier)),
            Sampling::TruncatedPoisson { max_batch, records } => {
                Event::TruncatedSubsampledGaussianDpEvent {
                    dataset_size: *records,
                    sampling_probability: *sampling_rate,
                    truncated_batch_size: *max_batch,
                    noise_multiplier: *noise_multiplier,
                }
            }
            other => return Err(sampler(*other)),
        },
        Mechanism::Laplace { scale } => laplace(*scale),
        Mechanism::SubsampledLaplace {
            scale,
            sampling_rate,
            sampling: Sampling::Poisson,
        } => poisson(*sampling_rate, laplace(*scale)),
        Mechanism::SubsampledLaplace { sampling, .. } => return Err(sampler(*sampling)),
        Mechanism::MixtureOfGaussians {
            noise_multiplier,
            sensitivities,
            probabilities,
        } => Event::MixtureOfGaussiansDpEvent {
            standard_deviation: *noise_multiplier,
            sensitivities: sensitivities.clone(),
            sampling_probs: probabilities.clone(),
        },
        Mechanism::DiscreteGaussian { sigma, sensitivity } => Event::DiscreteGaussianDpEvent {
            sigma: *sigma,
            sensitivity: *sensitivity,
            dimension: Some(1),
        },
        Mechanism::DiscreteLaplace { scale, sensitivity } => Event::DiscreteLaplaceDpEvent {
            // The library's parameter is the reciprocal; rounded up, it promises no more than ours.
            noise_parameter: NoiseMultiplier::new(reciprocal_above(scale.get()))?,
            sensitivity: *sensitivity,
        },
        Mechanism::RandomisedResponse { truth, categories } => {
            let lie = lie_below(truth.get(), (*categories).into());
            Event::RandomizedResponseDpEvent {
                noise_parameter: Probability::new(lie).map_err(|_| {
                    without("a randomised response that lies more often than by chance")
                })?,
                num_buckets: *categories,
            }
        }
        Mechanism::ExponentialMechanism {
            neighbours: own, ..
        }
        | Mechanism::PureDp {
            neighbours: own, ..
        }
        | Mechanism::ApproxDp {
            neighbours: own, ..
        }
        | Mechanism::Zcdp {
            neighbours: own, ..
        } if *own != neighbours => {
            let what = format!("a promise for {own}, where {neighbours} is asked about");
            return Err(without(&what));
        }
        Mechanism::ExponentialMechanism { epsilon, .. } => Event::ExponentialMechanismDpEvent {
            epsilon: finite(*epsilon)?,
        },
        Mechanism::PureDp { epsilon, .. } => Event::EpsilonDeltaDpEvent {
            epsilon: finite(*epsilon)?,
            delta: Delta::ZERO,
        },
        Mechanism::ApproxDp { epsilon, delta, .. } => Event::EpsilonDeltaDpEvent {
            epsilon: finite(*epsilon)?,
            delta: *delta,
        },
        Mechanism::Zcdp { rho, xi, .. } => {
            let finite = |of: Divergence| match of.get() {
                value if value.is_finite() => Ok(value),
                _ => Err(without("an infinite divergence")),
            };
            Event::ZCDpEvent {
                rho: finite(*rho)?,
                xi: finite(*xi)?,
            }
        }
        Mechanism::RenyiDp { .. } => return Err(without("Rényi divergences at some orders")),
        Mechanism::RepeatAndSelect { each, mean, shape } => Event::RepeatAndSelectDpEvent {
            event: Box::new(event(each, neighbours).map_err(|e| e.within("each"))?),
            mean: *mean,
            shape: *shape,
        },
        Mechanism::NonPrivate { .. } => Event::NonPrivateDpEvent {},
        Mechanism::Repeat { times, .. } if times.get() == 0 => Event::NoOpDpEvent {},
        Mechanism::Repeat { times, each } => match allocation(each) {
            Some(epoch) => epochs(epoch, times.get()).map_err(|e| e.within("each"))?,
            None => Event::SelfComposedDpEvent {
                event: Box::new(event(each, neighbours).map_err(|e| e.within("each"))?),
                count: times.get(),
            },
        },
        Mechanism::Sequence { parts } if parts.is_empty() => Event::NoOpDpEvent {},
        Mechanism::Sequence { parts } => {
            let events = parts.iter().enumerate().map(|(i, part)| {
                event(part, neighbours).map_err(|e| e.within(&format!("parts[{i}]")))
            });
            Event::ComposedDpEvent {
                events: events.collect::<Result<_>>()?,
            }
        }
        Mechanism::Estimated { why, .. } => return Err(without(&format!("an estimate ({why})"))),
        Mechanism::PoissonBinomialGaussian { .. } => {
            return Err(without("a group with unequal rates"));
        }
    })
}

/// The noise of one step of a random allocation, with the selected steps and all steps of an epoch.
struct Epoch {
    event: Event,
    selected: u64,
    steps: u64,
}

fn allocation(step: &Mechanism) -> Option<Epoch> {
    let (rate, sampling) = step.batches()?;
    let event = match step {
        Mechanism::SubsampledGaussian {
            noise_multiplier, ..
        } => gaussian(*noise_multiplier),
        Mechanism::SubsampledLaplace { scale, .. } => laplace(*scale),
        _ => return None,
    };
    let draw = sampling.draw();
    let (selected, steps) = draw.epoch.filter(|_| draw.independent)?;
    let by_rate = || {
        let steps = (1.0 / rate.get()).round();
        let whole = (1.0 / rate.get() / steps - 1.0).abs() < 1e-12 && steps < MOST_COUNT as f64;
        whole.then_some(steps as u64)
    };
    Some(Epoch {
        event,
        selected,
        steps: steps.or_else(by_rate)?,
    })
}

/// Returns the event for `times` steps of a random allocation, which must be whole epochs.
fn epochs(epoch: Epoch, times: u64) -> Result<Event> {
    if !times.is_multiple_of(epoch.steps) {
        return Err(sampler(Sampling::BallsInBins));
    }
    let one = Event::RandomAllocationDpEvent {
        event: Box::new(epoch.event),
        num_selected: epoch.selected,
        num_steps: epoch.steps,
    };
    Ok(match times / epoch.steps {
        1 => one,
        count => Event::SelfComposedDpEvent {
            event: Box::new(one),
            count,
        },
    })
}

fn gaussian(noise: NoiseMultiplier) -> Event {
    Event::GaussianDpEvent {
        noise_multiplier: noise.get(),
    }
}

fn laplace(scale: NoiseMultiplier) -> Event {
    Event::LaplaceDpEvent {
        noise_multiplier: scale.get(),
    }
}

fn poisson(rate: SamplingRate, event: Event) -> Event {
    Event::PoissonSampledDpEvent {
        sampling_probability: rate.into(),
        event: Box::new(event),
    }
}

fn finite(epsilon: Epsilon) -> Result<Epsilon> {
    if epsilon.get().is_finite() {
        Ok(epsilon)
    } else {
        Err(without("an infinite epsilon"))
    }
}

fn sampler(sampling: Sampling) -> Error {
    let draw = sampling.draw();
    without(match draw.epoch {
        None if draw.fixed_size => {
            "batches of fixed size (the event wants the sizes, we keep their ratio)"
        }
        None => "these batches",
        Some(_) if draw.independent => {
            "a part of an epoch of a random allocation (its event stands for whole ones)"
        }
        Some(_) => "shuffled batches",
    })
}
