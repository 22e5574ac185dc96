//! Mechanisms in words.

use super::fold::{fold, times};
use crate::contract::in_one_line;
use crate::number::{count_of, described, grouped};
use crate::plan::UNIT;
use crate::plan::sampler::words;
use reticent_accounting::mechanism::Runs;
use reticent_accounting::training::NoisySteps;
use reticent_accounting::{Mechanism, Sampling};

/// The most characters that are shown of a reason in a file.
const LONGEST_REASON: usize = 120;

/// Describes what runs in one line: `1 000 × Gaussian noise 1.1 on Poisson batches of rate 0.01`.
#[must_use]
pub(crate) fn line(mechanism: &Mechanism) -> String {
    const SHOWN: usize = 4;
    let parts = fold(mechanism);
    if parts.is_empty() {
        return "nothing is released".into();
    }
    let mut line = parts
        .iter()
        .take(SHOWN)
        .map(part)
        .collect::<Vec<_>>()
        .join("; then ");
    if parts.len() > SHOWN {
        line.push_str(&format!(
            "; then {} more kinds of step",
            parts.len() - SHOWN
        ));
    }
    line
}

/// Describes DP-SGD's steps: their numbers, and how batches are drawn if not by Poisson subsampling.
pub(in crate::account) fn noisy_steps(noisy: &NoisySteps) -> String {
    let rate = *noisy.sampling_rate;
    // Of other batches, the rate is said with how they are drawn.
    let (poisson, others) = match *noisy.sampling {
        Sampling::Poisson => (
            format!("sampling rate {}, ", described(rate.get())),
            String::new(),
        ),
        sampling => (
            String::new(),
            format!(", {}", words(sampling, rate, UNIT).batches),
        ),
    };
    format!(
        "sigma {}{}, {poisson}{}{others}",
        described(noisy.noise_multiplier.get()),
        noisy.noise_decay.map_or_else(String::new, |decay| format!(
            " (times {} after every {})",
            decay.factor(),
            count_of(decay.every(), "step")
        )),
        count_of(noisy.steps.get(), "step"),
    )
}

fn part(part: &Runs<'_>) -> String {
    match times(part) {
        1 => each(part),
        times => format!("{} × {}", grouped(times), each(part)),
    }
}

/// Describes what runs as often as [`times`] says: a step, or a run of a part of an epoch or more.
#[must_use]
pub(crate) fn each(part: &Runs<'_>) -> String {
    let step = step(part.step);
    match part.times {
        Some(1) => step,
        _ if !part.step.draws_by_epochs() => step,
        _ => format!("a run of {} × {step}", grouped(part.length)),
    }
}

/// Describes one step.
#[must_use]
pub(crate) fn step(mechanism: &Mechanism) -> String {
    match mechanism {
        Mechanism::Gaussian { noise_multiplier } => {
            format!("Gaussian noise {}", described(noise_multiplier.get()))
        }
        Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate,
            sampling,
        } => format!(
            "Gaussian noise {} on {}",
            described(noise_multiplier.get()),
            words(*sampling, *sampling_rate, UNIT).batches,
        ),
        Mechanism::PoissonBinomialGaussian {
            noise_multiplier,
            rates,
        } => format!(
            "Gaussian noise {} on a group of {}, each with its own sampling rate",
            described(noise_multiplier.get()),
            count_of(rates.len() as u64, "record"),
        ),
        Mechanism::MixtureOfGaussians {
            noise_multiplier,
            sensitivities,
            ..
        } => format!(
            "Gaussian noise {} with a random sensitivity of {}",
            described(noise_multiplier.get()),
            count_of(sensitivities.len() as u64, "value"),
        ),
        Mechanism::Laplace { scale } => format!("Laplace noise {}", described(scale.get())),
        Mechanism::SubsampledLaplace {
            scale,
            sampling_rate,
            sampling,
        } => {
            format!(
                "Laplace noise {} on {}",
                described(scale.get()),
                words(*sampling, *sampling_rate, UNIT).batches
            )
        }
        Mechanism::DiscreteGaussian { sigma, sensitivity } => {
            format!(
                "discrete Gaussian noise {} on sensitivity {sensitivity}",
                described(sigma.get())
            )
        }
        Mechanism::DiscreteLaplace { scale, sensitivity } => {
            format!(
                "discrete Laplace noise {} on sensitivity {sensitivity}",
                described(scale.get())
            )
        }
        Mechanism::RandomisedResponse { truth, categories } => format!(
            "randomised response, the truth with probability {} among {categories}",
            described(truth.get()),
        ),
        Mechanism::ExponentialMechanism {
            epsilon,
            neighbours,
        } => {
            format!(
                "the exponential mechanism with epsilon {} ({neighbours})",
                described(epsilon.get())
            )
        }
        Mechanism::PureDp {
            epsilon,
            neighbours,
        } => {
            format!(
                "anything with epsilon {} ({neighbours})",
                described(epsilon.get())
            )
        }
        Mechanism::ApproxDp {
            epsilon,
            delta,
            neighbours,
        } => format!(
            "anything with epsilon {} and delta {} ({neighbours})",
            described(epsilon.get()),
            described(delta.get()),
        ),
        Mechanism::Zcdp {
            rho,
            xi,
            neighbours,
        } => {
            let offset = if xi.get() > 0.0 {
                format!("xi {} and ", described(xi.get()))
            } else {
                String::new()
            };
            format!(
                "anything with zCDP of {offset}rho {} ({neighbours})",
                described(rho.get())
            )
        }
        Mechanism::RenyiDp {
            orders, neighbours, ..
        } => format!(
            "anything with Rényi divergences stated at {} ({neighbours})",
            match orders.as_slice() {
                [order] => format!("order {}", described(order.get())),
                orders => format!("{} orders", orders.len()),
            }
        ),
        Mechanism::RepeatAndSelect { each, mean, shape } => format!(
            "the best of a random number of runs (mean {}, shape {}), each {}",
            described(mean.get()),
            described(shape.get()),
            line(each),
        ),
        Mechanism::NonPrivate { why } => {
            format!("no protection ({})", in_one_line(why, LONGEST_REASON))
        }
        Mechanism::Estimated { why, .. } => {
            format!(
                "an estimate, which is no bound ({})",
                in_one_line(why, LONGEST_REASON)
            )
        }
        // Neither is among the steps of a fold.
        Mechanism::Repeat { .. } | Mechanism::Sequence { .. } => line(mechanism),
    }
}
