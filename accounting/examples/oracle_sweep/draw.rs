//! Runs of every kind at random, of moderate numbers: what an oracle can compute in milliseconds.

#[path = "../sweep/chance.rs"]
mod chance;

pub(crate) use chance::Chance;
use reticent_accounting::{
    Delta, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Probability, Query, Result,
    Sampling, SamplingRate, Steps,
};

impl Chance {
    fn noise(&mut self) -> Result<NoiseMultiplier> {
        NoiseMultiplier::new(self.decades(-0.3, 0.9))
    }

    fn rate(&mut self) -> Result<SamplingRate> {
        let rate = self.decades(-3.0, 0.0);
        SamplingRate::new(self.choose(&[rate, rate, rate, rate, 1.0]))
    }
}

/// What a run is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gaussian,
    Poisson,
    Rates,
    Mixture,
    Fixed,
    Truncated,
    Laplace,
    SampledLaplace,
    FixedLaplace,
    TruncatedLaplace,
    DiscreteGaussian,
    DiscreteLaplace,
    Response,
    Exponential,
    Pure,
    Approximate,
    Allocated,
    Shuffled,
    AllocatedLaplace,
    Sequence,
}

/// A run and who asks about it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) run: Mechanism,
    pub(crate) query: Query,
    pub(crate) steps: u64,
}

impl Kind {
    pub(crate) const ALL: [Self; 20] = [
        Self::Gaussian,
        Self::Poisson,
        Self::Rates,
        Self::Mixture,
        Self::Fixed,
        Self::Truncated,
        Self::Laplace,
        Self::SampledLaplace,
        Self::FixedLaplace,
        Self::TruncatedLaplace,
        Self::DiscreteGaussian,
        Self::DiscreteLaplace,
        Self::Response,
        Self::Exponential,
        Self::Pure,
        Self::Approximate,
        Self::Allocated,
        Self::Shuffled,
        Self::AllocatedLaplace,
        Self::Sequence,
    ];

    /// Whether it takes groups of any size.
    fn takes_groups(self) -> bool {
        !matches!(
            self,
            Self::Rates | Self::Mixture | Self::Truncated | Self::TruncatedLaplace
        )
    }

    pub(crate) fn draw(self, chance: &mut Chance, neighbours: Neighbours) -> Result<Case> {
        let group = chance.choose(&[1, 1, 1, 2, 3]);
        let group = if self.takes_groups() { group } else { 1 };
        let query = Query {
            neighbours,
            group: GroupSize::new(group)?,
        };
        if self == Self::Sequence {
            let count = 2 + chance.word() % 2;
            let mut steps = 0;
            let parts = (0..count).map(|_| {
                let among = [
                    Self::Gaussian,
                    Self::Poisson,
                    Self::Laplace,
                    Self::SampledLaplace,
                    Self::Pure,
                    Self::DiscreteLaplace,
                ];
                let kind = chance.choose(&among);
                let times = chance.decades(0.0, 1.5) as u64;
                steps += times;
                Ok(repeat(times, kind.each(chance, query)?))
            });
            let parts = parts.collect::<Result<_>>()?;
            return Ok(Case {
                run: Mechanism::Sequence { parts },
                query,
                steps,
            });
        }
        if matches!(
            self,
            Self::Allocated | Self::Shuffled | Self::AllocatedLaplace
        ) {
            return self.epochs(chance, query);
        }
        let many = chance.decades(0.0, 2.5) as u64;
        let few = 1 + chance.word() % 20;
        let steps = chance.choose(&[1, few, few, many]);
        Ok(Case {
            run: repeat(steps, self.each(chance, query)?),
            query,
            steps,
        })
    }

    /// Some epochs of a few steps.
    fn epochs(self, chance: &mut Chance, query: Query) -> Result<Case> {
        let steps = chance.choose(&[2, 2, 3, 3, 4, 5, 7, 8]);
        let selected = chance.choose(&[1, 1, steps / 2, steps / 2, steps - 1]);
        let (sampling, selected) = if self == Self::Shuffled {
            (Sampling::Shuffled, 1)
        } else if selected == 1 && chance.choose(&[true, false]) {
            (Sampling::BallsInBins, 1)
        } else {
            (Sampling::RandomAllocation { selected, steps }, selected)
        };
        let sampling_rate = SamplingRate::new(selected as f64 / steps as f64)?;
        let each = if self == Self::AllocatedLaplace {
            Mechanism::SubsampledLaplace {
                scale: chance.noise()?,
                sampling_rate,
                sampling,
            }
        } else {
            Mechanism::SubsampledGaussian {
                noise_multiplier: chance.noise()?,
                sampling_rate,
                sampling,
            }
        };
        let once = 1 + chance.word() % 6;
        let steps = steps * chance.choose(&[1, once]);
        Ok(Case {
            run: repeat(steps, each),
            query,
            steps,
        })
    }

    fn each(self, chance: &mut Chance, query: Query) -> Result<Mechanism> {
        let stated = match query.neighbours {
            Neighbours::Replace => chance.choose(&[Neighbours::Replace, Neighbours::AddRemove]),
            own => own,
        };
        Ok(match self {
            Self::Gaussian
            | Self::Sequence
            | Self::Allocated
            | Self::Shuffled
            | Self::AllocatedLaplace => Mechanism::Gaussian {
                noise_multiplier: chance.noise()?,
            },
            Self::Poisson => chance.sampled(Sampling::Poisson)?,
            Self::Rates => {
                let count = 1 + chance.word() % 5;
                let rates = (0..count).map(|_| chance.rate());
                Mechanism::PoissonBinomialGaussian {
                    rates: rates.collect::<Result<_>>()?,
                    noise_multiplier: chance.noise()?,
                }
            }
            Self::Mixture => chance.mixture(4, -3.0, 1.0)?,
            Self::Fixed => chance.sampled(Sampling::WithoutReplacement)?,
            Self::Truncated => {
                let sampling = truncated(chance);
                chance.sampled(sampling)?
            }
            Self::Laplace => Mechanism::Laplace {
                scale: chance.noise()?,
            },
            Self::SampledLaplace => chance.sampled_laplace(Sampling::Poisson)?,
            Self::FixedLaplace => chance.sampled_laplace(Sampling::WithoutReplacement)?,
            Self::TruncatedLaplace => {
                let sampling = truncated(chance);
                chance.sampled_laplace(sampling)?
            }
            Self::DiscreteGaussian => {
                let sigma = chance.decades(-0.3, 1.5);
                let most = (0.5 * sigma).max(1.0) as u64;
                Mechanism::DiscreteGaussian {
                    sigma: NoiseMultiplier::new(sigma)?,
                    sensitivity: 1 + (chance.word() % most) as u32,
                }
            }
            Self::DiscreteLaplace => {
                let scale = chance.decades(-0.3, 1.3);
                let most = (2.0 * scale).max(1.0) as u64;
                Mechanism::DiscreteLaplace {
                    scale: NoiseMultiplier::new(scale)?,
                    sensitivity: 1 + (chance.word() % most) as u32,
                }
            }
            Self::Response => Mechanism::RandomisedResponse {
                truth: Probability::new(chance.between(0.02, 0.98))?,
                categories: 2 + (chance.decades(0.0, 2.0) as u32 - 1),
            },
            Self::Exponential => Mechanism::ExponentialMechanism {
                epsilon: Epsilon::new(chance.decades(-1.5, 0.4))?,
                neighbours: stated,
            },
            Self::Pure => Mechanism::PureDp {
                epsilon: Epsilon::new(chance.decades(-1.5, 0.4))?,
                neighbours: stated,
            },
            Self::Approximate => Mechanism::ApproxDp {
                epsilon: Epsilon::new(chance.decades(-1.5, 0.4))?,
                delta: Delta::new(chance.decades(-9.0, -2.0))?,
                neighbours: stated,
            },
        })
    }
}

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

/// Up to six records, most of which fit.
fn truncated(chance: &mut Chance) -> Sampling {
    let records = 1 + chance.word() % 6;
    Sampling::TruncatedPoisson {
        max_batch: 1 + chance.word() % records,
        records,
    }
}
