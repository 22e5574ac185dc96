//! Our mechanisms as events of Google's `dp_accounting` for Python.

use super::event::{object, reciprocal_below, truth_above};
use super::own::MOST;
use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Sampling};
use serde_json::{Value, json};

/// The event of a mechanism, or the mechanism that has none and why.
///
/// What an event does not say is lost: neighbours (its accountant chooses, so a promise for others
/// than those asked about is refused), and why something is not private.
pub(super) fn event(mechanism: &Mechanism, asked: Neighbours) -> Result<Value, String> {
    Ok(match mechanism {
        Mechanism::Gaussian { noise_multiplier } => gaussian(*noise_multiplier),
        Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling,
        } => match sampling {
            Sampling::Poisson => sampled(sampling_rate.get(), gaussian(*noise_multiplier)),
            Sampling::TruncatedPoisson { max_batch, records } => object(
                "TruncatedSubsampledGaussianDpEvent",
                [
                    ("dataset_size", json!(records)),
                    ("sampling_probability", json!(sampling_rate)),
                    ("truncated_batch_size", json!(max_batch)),
                    ("noise_multiplier", json!(noise_multiplier)),
                ],
            ),
            other => return Err(sampler(*other)),
        },
        Mechanism::Laplace { scale } => laplace(*scale),
        Mechanism::SubsampledLaplace {
            scale,
            sampling_rate,
            sampling: Sampling::Poisson,
        } => sampled(sampling_rate.get(), laplace(*scale)),
        Mechanism::SubsampledLaplace { sampling, .. } => return Err(sampler(*sampling)),
        Mechanism::MixtureOfGaussians {
            noise_multiplier,
            sensitivities,
            probabilities,
        } => object(
            "MixtureOfGaussiansDpEvent",
            [
                ("standard_deviation", json!(noise_multiplier)),
                ("sensitivities", json!(sensitivities)),
                ("sampling_probs", json!(probabilities)),
            ],
        ),
        Mechanism::DiscreteGaussian { sigma, sensitivity } => object(
            "DiscreteGaussianDpEvent",
            [
                ("sigma", json!(sigma)),
                ("sensitivity", json!(sensitivity)),
                ("dimension", json!(1)),
            ],
        ),
        Mechanism::DiscreteLaplace { scale, sensitivity } => {
            // Their parameter is the reciprocal; rounded up, it promises no more than ours.
            let below = reciprocal_below(scale.get());
            let exact = below.mul_add(scale.get(), -1.0) >= 0.0;
            let parameter = if exact { below } else { below.next_up() };
            object(
                "DiscreteLaplaceDpEvent",
                [
                    ("noise_parameter", json!(parameter)),
                    ("sensitivity", json!(sensitivity)),
                ],
            )
        }
        Mechanism::RandomisedResponse { truth, categories } => {
            let k = f64::from(*categories);
            let mut lie = (1.0 - truth.get()) * k / (k - 1.0);
            // Down, by a rounding of the truth or two, until it reads back as no less than ours.
            for _ in 0..4 {
                if truth_above(lie, k) < truth.get() {
                    lie = (lie - f64::EPSILON).max(0.0);
                }
            }
            if lie > 1.0 {
                return Err("a randomised response that lies more often than by chance".into());
            }
            object(
                "RandomizedResponseDpEvent",
                [
                    ("noise_parameter", json!(lie)),
                    ("num_buckets", json!(categories)),
                ],
            )
        }
        other => return composed(other, asked),
    })
}

fn composed(mechanism: &Mechanism, asked: Neighbours) -> Result<Value, String> {
    Ok(match mechanism {
        Mechanism::ExponentialMechanism { neighbours, .. }
        | Mechanism::PureDp { neighbours, .. }
        | Mechanism::ApproxDp { neighbours, .. }
            if *neighbours != asked =>
        {
            return Err(format!(
                "a promise for {neighbours}, where {asked} is asked about (--neighbours),"
            ));
        }
        Mechanism::ExponentialMechanism { epsilon, .. } => object(
            "ExponentialMechanismDpEvent",
            [("epsilon", finite(epsilon.get())?)],
        ),
        Mechanism::PureDp { epsilon, .. } => promise(epsilon.get(), 0.0)?,
        Mechanism::ApproxDp { epsilon, delta, .. } => promise(epsilon.get(), delta.get())?,
        Mechanism::NonPrivate { .. } => object("NonPrivateDpEvent", []),
        Mechanism::Repeat { times, .. } if times.get() == 0 => object("NoOpDpEvent", []),
        Mechanism::Repeat { times, each } if allocation(each).is_some() => {
            let (event, selected, steps) = allocation(each).ok_or("a random allocation")?;
            if times.get() % steps != 0 {
                return Err(sampler(Sampling::BallsInBins));
            }
            let epoch = object(
                "RandomAllocationDpEvent",
                [
                    ("event", event),
                    ("num_selected", json!(selected)),
                    ("num_steps", json!(steps)),
                ],
            );
            match times.get() / steps {
                1 => epoch,
                epochs => object(
                    "SelfComposedDpEvent",
                    [("event", epoch), ("count", json!(epochs))],
                ),
            }
        }
        Mechanism::Repeat { times, each } => object(
            "SelfComposedDpEvent",
            [
                ("event", event(each, asked)?),
                ("count", json!(times.get())),
            ],
        ),
        Mechanism::Sequence { parts } if parts.is_empty() => object("NoOpDpEvent", []),
        Mechanism::Sequence { parts } => {
            let events = parts
                .iter()
                .map(|part| event(part, asked))
                .collect::<Result<Vec<_>, _>>()?;
            object("ComposedDpEvent", [("events", Value::Array(events))])
        }
        Mechanism::Estimated { why, .. } => return Err(format!("an estimate ({why})")),
        Mechanism::PoissonBinomialGaussian { .. } => {
            return Err("a group with unequal rates".into());
        }
        other => return Err(format!("{other:?}")),
    })
}

/// The noise of one step of a random allocation, with the places and steps of an epoch.
fn allocation(step: &Mechanism) -> Option<(Value, u64, u64)> {
    let (event, rate, sampling) = match step {
        Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling,
        } => (gaussian(*noise_multiplier), sampling_rate, sampling),
        Mechanism::SubsampledLaplace {
            scale,
            sampling_rate,
            sampling,
        } => (laplace(*scale), sampling_rate, sampling),
        _ => return None,
    };
    match sampling {
        Sampling::RandomAllocation { selected, steps } => Some((event, *selected, *steps)),
        Sampling::BallsInBins => {
            let steps = (1.0 / rate.get()).round();
            let whole = (1.0 / rate.get() / steps - 1.0).abs() < 1e-12 && steps < MOST as f64;
            whole.then_some((event, 1, steps as u64))
        }
        _ => None,
    }
}

fn gaussian(noise: NoiseMultiplier) -> Value {
    object("GaussianDpEvent", [("noise_multiplier", json!(noise))])
}

fn laplace(scale: NoiseMultiplier) -> Value {
    object("LaplaceDpEvent", [("noise_multiplier", json!(scale))])
}

fn sampled(rate: f64, event: Value) -> Value {
    object(
        "PoissonSampledDpEvent",
        [("sampling_probability", json!(rate)), ("event", event)],
    )
}

fn promise(epsilon: f64, delta: f64) -> Result<Value, String> {
    Ok(object(
        "EpsilonDeltaDpEvent",
        [("epsilon", finite(epsilon)?), ("delta", json!(delta))],
    ))
}

fn finite(epsilon: f64) -> Result<Value, String> {
    if epsilon.is_finite() {
        Ok(json!(epsilon))
    } else {
        Err("an infinite epsilon".into())
    }
}

fn sampler(sampling: Sampling) -> String {
    let name = match sampling {
        Sampling::WithoutReplacement | Sampling::WithReplacement => {
            return "batches of fixed size (the event wants the sizes, we keep their ratio)".into();
        }
        Sampling::Shuffled => "shuffled batches",
        Sampling::BallsInBins | Sampling::RandomAllocation { .. } => {
            return "a part of an epoch of a random allocation (its event stands for whole ones)"
                .into();
        }
        Sampling::Poisson | Sampling::TruncatedPoisson { .. } => "these batches",
    };
    name.into()
}
