//! Which laws a mechanism may come down to, read from the papers and not from the accountant.
//!
//! A run has some instances that certainly exist (their δ is a lower end of the truth) and some pairs
//! that certainly dominate it (upper ends); where the worst case is known, one pair is both.

use super::batches::{at, binomial, mirrored, poisson_binomial, truncated_sum};
use super::pairs::{
    Mixture, Noise, allocated, both_ways, chain, on_integers, response, rising, two_losses,
};
use super::step::Step;
use reticent_accounting::{Direction, Mechanism, Neighbours, Query, Sampling};

/// Steps with how often each is run.
pub(crate) type Parts = Vec<(Step, u64)>;

/// What is known of one leaf of a mechanism.
struct Leaf {
    below: Vec<(Step, u64)>,
    above: Vec<(Step, u64)>,
}

/// What is known of a run.
pub(crate) struct Truth {
    /// Instances.
    pub(crate) below: Vec<Parts>,
    /// Dominating pairs.
    pub(crate) above: Vec<Parts>,
    /// Everything is Gaussian: the distance between the means.
    pub(crate) gaussian: Option<f64>,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) query: Query,
    pub(crate) direction: Direction,
    /// Into how many cells a density is cut.
    pub(crate) cells: usize,
}

impl Truth {
    /// `None` where this oracle has nothing to say.
    pub(crate) fn of(run: &Mechanism, question: Question) -> Option<Self> {
        let mut leaves = Vec::new();
        unfold(run, 1, &mut leaves);
        let mut square = Some(0.0);
        for (leaf, times) in &leaves {
            square = match leaf {
                Mechanism::Gaussian { noise_multiplier } => {
                    let distance = question.sensitivity() / noise_multiplier.get();
                    square.map(|sum: f64| sum + distance * distance * *times as f64)
                }
                _ => None,
            };
        }
        if let Some(square) = square {
            return Some(Self {
                below: Vec::new(),
                above: Vec::new(),
                gaussian: Some(square.sqrt()),
            });
        }
        let known = leaves
            .iter()
            .map(|(leaf, times)| question.leaf(leaf, *times));
        let known: Vec<Leaf> = known.collect::<Option<_>>()?;
        let all = |side: fn(&Leaf) -> &Vec<(Step, u64)>| -> Vec<Parts> {
            let most = known.iter().map(|leaf| side(leaf).len()).max().unwrap_or(0);
            let choice = |i: usize| {
                let one = |leaf: &Leaf| {
                    let side = side(leaf);
                    side.get(i.min(side.len().max(1) - 1)).cloned()
                };
                known.iter().filter_map(one).collect()
            };
            (0..most).map(choice).collect()
        };
        let bounded = known.iter().all(|leaf| !leaf.above.is_empty());
        Some(Self {
            below: all(|leaf| &leaf.below),
            above: if bounded {
                all(|leaf| &leaf.above)
            } else {
                Vec::new()
            },
            gaussian: None,
        })
    }
}

fn unfold<'m>(run: &'m Mechanism, times: u64, leaves: &mut Vec<(&'m Mechanism, u64)>) {
    match run {
        Mechanism::Repeat { times: inner, each } => unfold(each, times * inner.get(), leaves),
        Mechanism::Sequence { parts } => parts.iter().for_each(|part| unfold(part, times, leaves)),
        leaf => leaves.push((leaf, times)),
    }
}

fn exactly(step: Step, times: u64) -> Option<Leaf> {
    Some(Leaf {
        below: vec![(step.clone(), times)],
        above: vec![(step, times)],
    })
}

impl Question {
    fn group(&self) -> f64 {
        f64::from(self.query.group.get())
    }

    fn replace(&self) -> bool {
        self.query.neighbours == Neighbours::Replace
    }

    /// How far the sum moves at most, in clipping norms.
    fn sensitivity(&self) -> f64 {
        self.group() * if self.replace() { 2.0 } else { 1.0 }
    }

    /// A step in the direction asked: `step` has the law with the record first.
    fn turned(&self, step: Step) -> Step {
        match self.direction {
            Direction::Remove => step,
            Direction::Add => step.swapped(0.0),
        }
    }

    /// The records' shifts against none, or against the opposite ones.
    fn shifts(&self, noise: Noise, scale: f64, with: &Mixture) -> Step {
        let without = if self.replace() {
            mirrored(with)
        } else {
            at(0.0)
        };
        self.turned(rising(noise, with, &without, scale, self.cells))
    }

    fn leaf(&self, leaf: &Mechanism, times: u64) -> Option<Leaf> {
        let group = self.query.group.get();
        match leaf {
            Mechanism::Gaussian { noise_multiplier } => {
                let with = binomial(group, 1.0);
                exactly(
                    self.shifts(Noise::Gaussian, noise_multiplier.get(), &with),
                    times,
                )
            }
            Mechanism::Laplace { scale } => exactly(
                self.shifts(Noise::Laplace, scale.get(), &binomial(group, 1.0)),
                times,
            ),
            Mechanism::SubsampledGaussian {
                noise_multiplier: scale,
                sampling_rate: rate,
                sampling,
            } => self.sampled((Noise::Gaussian, scale.get()), rate.get(), *sampling, times),
            Mechanism::SubsampledLaplace {
                scale,
                sampling_rate: rate,
                sampling,
            } => self.sampled((Noise::Laplace, scale.get()), rate.get(), *sampling, times),
            Mechanism::PoissonBinomialGaussian {
                noise_multiplier,
                rates,
            } => {
                let rates: Vec<f64> = rates.iter().map(|rate| rate.get()).collect();
                let with = poisson_binomial(&rates);
                exactly(
                    self.shifts(Noise::Gaussian, noise_multiplier.get(), &with),
                    times,
                )
            }
            Mechanism::MixtureOfGaussians {
                noise_multiplier,
                sensitivities,
                probabilities,
            } => {
                let weights = probabilities.iter().map(|p| p.get());
                let with: Mixture = weights.zip(sensitivities.iter().copied()).collect();
                exactly(
                    self.shifts(Noise::Gaussian, noise_multiplier.get(), &with),
                    times,
                )
            }
            Mechanism::DiscreteGaussian { sigma, sensitivity } => {
                let (sigma, shift) = (sigma.get(), f64::from(*sensitivity) * self.sensitivity());
                let ln = |x: f64| -0.5 * (x / sigma).powi(2);
                // As far as Rényi orders of eleven look; beyond 36 deviations masses are no numbers.
                let wanted = 12.5 * sigma + 12.0 * shift + 2.0;
                let reach = wanted.min(36.0 * sigma - shift).max(12.5 * sigma + 2.0);
                let beyond = (reach < wanted).then_some(f64::INFINITY);
                let comb = shift / (sigma * sigma);
                exactly(on_integers(ln, shift, (reach, beyond), comb), times)
            }
            Mechanism::DiscreteLaplace { scale, sensitivity } => {
                let (scale, shift) = (scale.get(), f64::from(*sensitivity) * self.sensitivity());
                let ln = |x: f64| -x.abs() / scale;
                // Losses are shift − 2i over the scale.
                let reach = (80.0 * scale + 2.0, None);
                exactly(on_integers(ln, shift, reach, 2.0 / scale), times)
            }
            Mechanism::RandomisedResponse { truth, categories } => self.replace().then(|| Leaf {
                below: vec![(
                    response(truth.get(), f64::from(*categories)),
                    times * u64::from(group),
                )],
                above: vec![(
                    response(truth.get(), f64::from(*categories)),
                    times * u64::from(group),
                )],
            }),
            Mechanism::PureDp {
                epsilon,
                neighbours,
            } => {
                let steps = self.steps_between(*neighbours)?;
                exactly(chain(epsilon.get(), 0.0, steps), times)
            }
            Mechanism::ApproxDp {
                epsilon,
                delta,
                neighbours,
            } => {
                let steps = self.steps_between(*neighbours)?;
                exactly(chain(epsilon.get(), delta.get(), steps), times)
            }
            Mechanism::ExponentialMechanism {
                epsilon,
                neighbours,
            } => {
                let range = epsilon.get() * self.steps_between(*neighbours)? as f64;
                let instance = |i: u32| (two_losses(range * f64::from(i) / 16.0, range), times);
                Some(Leaf {
                    below: (4..15).step_by(2).map(instance).collect(),
                    above: vec![(chain(range, 0.0, 1), times)],
                })
            }
            _ => None,
        }
    }

    /// One record changed in a promise about adding or removing is two of those steps if it is replaced.
    fn steps_between(&self, stated: Neighbours) -> Option<usize> {
        let each = match (stated, self.query.neighbours) {
            (stated, asked) if stated == asked => 1,
            (Neighbours::AddRemove, Neighbours::Replace) => 2,
            _ => return None,
        };
        Some(each * self.query.group.get() as usize)
    }

    fn sampled(
        &self,
        (noise, scale): (Noise, f64),
        rate: f64,
        sampling: Sampling,
        times: u64,
    ) -> Option<Leaf> {
        match sampling {
            Sampling::Poisson => {
                let with = binomial(self.query.group.get(), rate);
                exactly(self.shifts(noise, scale, &with), times)
            }
            Sampling::WithoutReplacement => self
                .replace()
                .then(|| self.fixed_batches(noise, scale, rate, times)),
            Sampling::TruncatedPoisson { max_batch, records } => {
                Some(self.truncated((noise, scale), rate, (max_batch, records), times))
            }
            Sampling::BallsInBins | Sampling::Shuffled => {
                let bins = (1.0 / rate).round() as u64;
                let noise = (noise, scale);
                self.allocation(noise, (1, bins), times, sampling == Sampling::Shuffled)
            }
            Sampling::RandomAllocation { selected, steps } => {
                self.allocation((noise, scale), (selected, steps), times, false)
            }
            Sampling::WithReplacement => None,
        }
    }

    /// Drawn for the record alone and all others zero: the mean over its places. That is the worst case
    /// for one record, present or absent, whose steps are drawn for it alone (Chua et al. 2024). What is
    /// told where the record is dominates everything.
    fn allocation(
        &self,
        (noise, scale): (Noise, f64),
        (selected, bins): (u64, u64),
        times: u64,
        shuffled: bool,
    ) -> Option<Leaf> {
        if bins > 3 || !times.is_multiple_of(bins) {
            return None;
        }
        let epochs = times / bins;
        let alone = allocated(
            noise,
            scale,
            bins as usize,
            selected as usize,
            self.replace(),
        );
        let alone = (self.turned(alone), epochs);
        let told = self.shifts(noise, scale, &binomial(self.query.group.get(), 1.0));
        let told = (told, epochs * selected);
        let mut above = vec![told];
        if !shuffled && !self.replace() && self.query.group.get() == 1 {
            above.push(alone.clone());
        }
        Some(Leaf {
            below: vec![alone],
            above,
        })
    }

    /// A batch of fixed size holds the record with chance q. All others equal to what replaces it, at
    /// the far end: the sum moves by 2 or not at all, one way or the other; all others zero: it moves
    /// by 1 against −1. No instance does worse than both directions of the first at once (Balle, Barthe
    /// and Gaboardi 2018, Theorem 9, and the same in reverse; Zhu, Dong and Wang 2022 compose it).
    fn fixed_batches(&self, noise: Noise, scale: f64, rate: f64, times: u64) -> Leaf {
        let sampled = |place: f64| -> Mixture {
            let both = vec![(1.0 - rate, 0.0), (rate, place)];
            both.into_iter().filter(|(mass, _)| *mass > 0.0).collect()
        };
        let far = rising(noise, &sampled(2.0), &at(0.0), scale, self.cells);
        let opposite = rising(noise, &sampled(1.0), &sampled(-1.0), scale, self.cells);
        Leaf {
            below: vec![(far.swapped(0.0), times), (far, times), (opposite, times)],
            above: vec![(both_ways(noise, rate, 2.0, scale, self.cells), times)],
        }
    }

    /// All others at −1, 0 or 1. From above: the record is used with a chance of at most q, and then
    /// at most stands in for another one, so the sum moves by at most 2; without the record at all the
    /// other law is the batch it would displace somebody from.
    fn truncated(
        &self,
        (noise, scale): (Noise, f64),
        rate: f64,
        (max_batch, records): (u64, u64),
        times: u64,
    ) -> Leaf {
        let others = records - 1;
        let law = |others_at: f64, record_at: Option<f64>| -> Mixture {
            truncated_sum(rate, max_batch, others, others_at, record_at)
        };
        let cells = self.cells / 4;
        let mut below = Vec::new();
        for others_at in [0.0, -1.0, 1.0] {
            let with = law(others_at, Some(1.0));
            let without = match self.query.neighbours {
                Neighbours::AddRemove => law(others_at, None),
                Neighbours::ZeroOut => law(others_at, Some(0.0)),
                Neighbours::Replace => law(others_at, Some(-1.0)),
            };
            let step = rising(noise, &with, &without, scale, cells);
            below.push((self.turned(step), times));
        }
        let above = if self.query.neighbours == Neighbours::AddRemove {
            let with: Mixture = vec![(1.0 - rate, 0.0), (rate, 2.0)];
            let with = with.into_iter().filter(|(mass, _)| *mass > 0.0).collect();
            self.turned(rising(noise, &with, &at(0.0), scale, self.cells))
        } else {
            both_ways(noise, rate, 2.0, scale, self.cells)
        };
        Leaf {
            below,
            above: vec![(above, times)],
        }
    }
}
