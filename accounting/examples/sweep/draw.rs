//! Runs of every kind, drawn over the whole range of their numbers.

#[path = "chance.rs"]
mod chance;

pub(crate) use chance::Chance;
use reticent_accounting::{
    Delta, Epsilon, Mechanism, Neighbours, NoiseMultiplier, Probability, Result, Sampling,
    SamplingRate, Steps,
};

impl Chance {
    fn noise(&mut self) -> Result<NoiseMultiplier> {
        NoiseMultiplier::new(self.decades(-2.0, 4.0))
    }

    fn rate(&mut self) -> Result<SamplingRate> {
        let rate = self.decades(-9.0, 0.0);
        SamplingRate::new(self.choose(&[rate, rate, rate, rate, rate.powf(0.2), 1.0]))
    }
}

/// What a run is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Poisson,
    Gaussian,
    Rates,
    Mixture,
    Fixed,
    Truncated,
    Allocated,
    Selected,
    Laplace,
    SampledLaplace,
    FixedLaplace,
    TruncatedLaplace,
    AllocatedLaplace,
    DiscreteGaussian,
    DiscreteLaplace,
    Response,
    Exponential,
    Pure,
    Approximate,
    Sequence,
}

impl Kind {
    pub(crate) const ALL: [Self; 20] = [
        Self::Poisson,
        Self::Gaussian,
        Self::Rates,
        Self::Mixture,
        Self::Fixed,
        Self::Truncated,
        Self::Allocated,
        Self::Selected,
        Self::Laplace,
        Self::SampledLaplace,
        Self::FixedLaplace,
        Self::TruncatedLaplace,
        Self::AllocatedLaplace,
        Self::DiscreteGaussian,
        Self::DiscreteLaplace,
        Self::Response,
        Self::Exponential,
        Self::Pure,
        Self::Approximate,
        Self::Sequence,
    ];

    /// Whether some of its losses are infinite, or its far tails are counted as such.
    pub(crate) const fn may_be_unbounded(self) -> bool {
        !matches!(
            self,
            Self::Poisson | Self::Gaussian | Self::Laplace | Self::DiscreteLaplace
        )
    }

    /// A run of about so many steps.
    pub(crate) fn run(
        self,
        chance: &mut Chance,
        neighbours: Neighbours,
        steps: u64,
    ) -> Result<Mechanism> {
        if self == Self::Sequence {
            let count = 2 + chance.word() % 3;
            let parts = (0..count).map(|_| {
                let kind = Self::ALL[(chance.word() % (Self::ALL.len() as u64 - 1)) as usize];
                let steps = chance.decades(0.0, (steps as f64).log10()) as u64;
                kind.run(chance, neighbours, steps)
            });
            let parts = parts.collect::<Result<_>>()?;
            return Ok(Mechanism::Sequence { parts });
        }
        Ok(Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(self.each(chance, neighbours)?),
        })
    }

    fn each(self, chance: &mut Chance, neighbours: Neighbours) -> Result<Mechanism> {
        Ok(match self {
            Self::Poisson => chance.sampled(Sampling::Poisson)?,
            Self::Fixed => chance.sampled(Sampling::WithoutReplacement)?,
            Self::Truncated => {
                let sampling = truncated(chance);
                chance.sampled(sampling)?
            }
            Self::Allocated => {
                let sampling = chance.choose(&[Sampling::Shuffled, Sampling::BallsInBins]);
                chance.sampled(sampling)?
            }
            Self::Selected => {
                let (sampling_rate, sampling) = selected(chance)?;
                Mechanism::SubsampledGaussian {
                    noise_multiplier: chance.noise()?,
                    sampling_rate,
                    sampling,
                }
            }
            Self::AllocatedLaplace => {
                let (sampling_rate, sampling) = selected(chance)?;
                Mechanism::SubsampledLaplace {
                    scale: chance.noise()?,
                    sampling_rate,
                    sampling,
                }
            }
            Self::Gaussian => Mechanism::Gaussian {
                noise_multiplier: chance.noise()?,
            },
            Self::Rates => {
                let count = chance.decades(0.0, 2.0) as usize;
                let rates = (0..count).map(|_| chance.rate());
                Mechanism::PoissonBinomialGaussian {
                    rates: rates.collect::<Result<_>>()?,
                    noise_multiplier: chance.noise()?,
                }
            }
            Self::Mixture => chance.mixture(20, -12.0, 2.0)?,
            Self::Laplace => Mechanism::Laplace {
                scale: chance.noise()?,
            },
            Self::SampledLaplace => chance.sampled_laplace(Sampling::Poisson)?,
            Self::FixedLaplace => chance.sampled_laplace(Sampling::WithoutReplacement)?,
            Self::TruncatedLaplace => {
                let sampling = truncated(chance);
                chance.sampled_laplace(sampling)?
            }
            Self::DiscreteGaussian => Mechanism::DiscreteGaussian {
                sigma: chance.noise()?,
                sensitivity: chance.decades(0.0, 2.0) as u32,
            },
            Self::DiscreteLaplace => Mechanism::DiscreteLaplace {
                scale: chance.noise()?,
                sensitivity: chance.decades(0.0, 2.0) as u32,
            },
            Self::Response => Mechanism::RandomisedResponse {
                truth: Probability::new(chance.between(0.0, 1.0))?,
                categories: 1 + chance.decades(0.01, 3.0) as u32,
            },
            Self::Exponential => Mechanism::ExponentialMechanism {
                epsilon: Epsilon::new(chance.decades(-4.0, 2.0))?,
                neighbours,
            },
            Self::Pure | Self::Sequence => Mechanism::PureDp {
                epsilon: Epsilon::new(chance.decades(-4.0, 2.0))?,
                neighbours,
            },
            Self::Approximate => Mechanism::ApproxDp {
                epsilon: Epsilon::new(chance.decades(-4.0, 2.0))?,
                delta: Delta::new(chance.decades(-30.0, -1.0))?,
                neighbours,
            },
        })
    }
}

/// Random allocation to some of up to 10^4 steps.
fn selected(chance: &mut Chance) -> Result<(SamplingRate, Sampling)> {
    let steps = chance.decades(0.0, 4.0) as u64;
    let several = chance.decades(0.0, (steps as f64).log10()) as u64;
    let selected = chance.choose(&[1, several]);
    let rate = SamplingRate::new(selected as f64 / steps as f64)?;
    Ok((rate, Sampling::RandomAllocation { selected, steps }))
}

fn truncated(chance: &mut Chance) -> Sampling {
    let records = chance.decades(0.0, 7.0) as u64;
    Sampling::TruncatedPoisson {
        max_batch: 1 + chance.decades(-1.0, (records as f64).log10()) as u64,
        records,
    }
}
