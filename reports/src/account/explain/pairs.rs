//! The dominating pair of each kind of step, as formulas, and how each sampler is treated.

use crate::number::described;
use crate::plan::UNIT;
use crate::plan::sampler::words;
use reticent_accounting::{Mechanism, Neighbours, Query, Sampling};

/// The laws with and without the records, as formulas.
#[derive(
    Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub(crate) struct Pair {
    /// With the records (their first contents, under replace).
    pub(crate) with: String,
    /// Without them (with other contents, under replace).
    pub(crate) without: String,
}

/// The shape of the noise around a point.
#[derive(Debug, Clone, Copy)]
enum Noise {
    Gaussian(f64),
    Laplace(f64),
}

impl Noise {
    fn around(self, centre: &str) -> String {
        match self {
            Self::Gaussian(sigma) => format!("N({centre}, {}²)", described(sigma)),
            Self::Laplace(scale) => format!("Lap({centre}, {})", described(scale)),
        }
    }
}

/// Returns the dominating pair of one step for a question; `None` if the two distributions have no
/// single formula.
pub(super) fn pair(step: &Mechanism, query: Query) -> Option<Pair> {
    let noise = match step {
        Mechanism::Gaussian { noise_multiplier }
        | Mechanism::SubsampledGaussian {
            noise_multiplier, ..
        }
        | Mechanism::PoissonBinomialGaussian {
            noise_multiplier, ..
        }
        | Mechanism::MixtureOfGaussians {
            noise_multiplier, ..
        } => Noise::Gaussian(noise_multiplier.get()),
        Mechanism::Laplace { scale } | Mechanism::SubsampledLaplace { scale, .. } => {
            Noise::Laplace(scale.get())
        }
        _ => return None,
    };
    if let Some((rate, sampling)) = step.batches() {
        return batch(noise, rate.get(), sampling, query);
    }
    let (weight, at, law) = match step {
        Mechanism::PoissonBinomialGaussian { rates, .. } => {
            let law = format!("K the sum of {} draws with the given rates", rates.len());
            ("P(K = j)", "j", law)
        }
        Mechanism::MixtureOfGaussians { sensitivities, .. } => {
            let many = sensitivities.len();
            let law = format!("{many} sensitivities c with the given probabilities");
            ("p_i", "c_i", law)
        }
        _ => return Some(point(noise, query.group.get(), query.neighbours)),
    };
    Some(random(noise, weight, at, &law, query.neighbours))
}

/// Returns noise around a fixed shift of k.
fn point(noise: Noise, k: u32, neighbours: Neighbours) -> Pair {
    let without = match neighbours {
        Neighbours::Replace => noise.around(&format!("-{k}")),
        Neighbours::AddRemove | Neighbours::ZeroOut => noise.around("0"),
    };
    Pair {
        with: noise.around(&k.to_string()),
        without,
    }
}

/// Returns noise around a random shift.
fn random(noise: Noise, weight: &str, at: &str, law: &str, neighbours: Neighbours) -> Pair {
    let sum = |sign: &str| format!("Σ {weight}·{}, {law}", noise.around(&format!("{sign}{at}")));
    let without = match neighbours {
        Neighbours::Replace => sum("-"),
        Neighbours::AddRemove | Neighbours::ZeroOut => noise.around("0"),
    };
    Pair {
        with: sum(""),
        without,
    }
}

fn batch(noise: Noise, rate: f64, sampling: Sampling, query: Query) -> Option<Pair> {
    let k = query.group.get();
    match sampling {
        Sampling::Poisson if rate >= 1.0 => Some(point(noise, k, query.neighbours)),
        Sampling::Poisson if k == 1 => {
            let (out, inside) = (described(1.0 - rate), described(rate));
            let mixed = |at: &str| {
                format!(
                    "{out}·{} + {inside}·{}",
                    noise.around("0"),
                    noise.around(at)
                )
            };
            let without = match query.neighbours {
                Neighbours::Replace => mixed("-1"),
                Neighbours::AddRemove | Neighbours::ZeroOut => noise.around("0"),
            };
            Some(Pair {
                with: mixed("1"),
                without,
            })
        }
        Sampling::Poisson => {
            let law = format!("K ~ Binomial({k}, {})", described(rate));
            Some(random(noise, "P(K = j)", "j", &law, query.neighbours))
        }
        Sampling::Shuffled => Some(point(noise, k, query.neighbours)),
        // Their laws are no formula of one step.
        _ => None,
    }
}

/// Returns how a step is accounted for, if its formula doesn't say everything.
pub(super) fn treatment(step: &Mechanism) -> &'static str {
    match step {
        Mechanism::SubsampledGaussian {
            sampling,
            sampling_rate,
            ..
        }
        | Mechanism::SubsampledLaplace {
            sampling,
            sampling_rate,
            ..
        } => words(*sampling, *sampling_rate, UNIT).status,
        Mechanism::Gaussian { .. } | Mechanism::Laplace { .. } => {
            "every record takes part in every step; the pair is exact"
        }
        Mechanism::PoissonBinomialGaussian { .. } | Mechanism::MixtureOfGaussians { .. } => {
            "the sensitivity is random with a known law; the pair is exact"
        }
        Mechanism::DiscreteGaussian { .. } | Mechanism::DiscreteLaplace { .. } => {
            "two laws on the integers, shifted against each other; every value is an atom"
        }
        Mechanism::RandomisedResponse { .. } => {
            "three outcomes: the true category, the other one, any further"
        }
        Mechanism::ExponentialMechanism { .. } => {
            "an upper bound from the range of its loss, which never spans more than epsilon; the lower end is of the \
             worst mechanism of that kind, in a single step"
        }
        Mechanism::PureDp { .. } => {
            "the worst mechanism with this epsilon: a randomised response with two categories"
        }
        Mechanism::ApproxDp { .. } => {
            "the worst mechanism with this epsilon and delta: everything is revealed with chance delta, otherwise a randomised \
             response with two categories"
        }
        Mechanism::Zcdp { rho, .. } if rho.get() <= 0.0 => {
            "pure differential privacy, as its Rényi divergences rise with no order: a randomised response with two categories"
        }
        Mechanism::Zcdp { .. } | Mechanism::RenyiDp { .. } => {
            "only its Rényi divergences are known: they add up with those of the other steps, and say nothing from below"
        }
        Mechanism::RepeatAndSelect { .. } => {
            "an upper bound: Rényi divergences of a single run, and what the random number of runs adds to them"
        }
        Mechanism::NonPrivate { .. } => "nothing bounds what it tells",
        Mechanism::Estimated { .. } => "never becomes a bound",
        Mechanism::Repeat { .. } | Mechanism::Sequence { .. } => "step by step",
    }
}
