//! Which laws a mechanism may come down to, read from the papers and not from the accountant.
//!
//! A run has some instances that certainly exist (their δ is a lower end of the truth) and some pairs
//! that certainly dominate it (upper ends); where the worst case is known, one pair is both.

use super::batches::{at, binomial, mirrored, poisson_binomial};
use super::finite::{any_two_losses, chain, on_integers, response, two_losses};
use super::pairs::{Mixture, Noise, rising};
use super::samplers::sampled;
use super::step::Step;
use reticent_accounting::{Direction, Mechanism, Neighbours, Query};

/// A step with how often it is run.
pub(crate) type Part = (Step, u64);
/// Steps that make a run.
pub(crate) type Parts = Vec<Part>;

/// What is known of one leaf of a mechanism.
#[derive(Default)]
pub(super) struct Leaf {
    /// The worst case, known exactly: then nothing else is needed.
    pub(super) exact: Option<Part>,
    /// What PROPOSITIONS.md says that the upper end rests on.
    pub(super) upper: Vec<Part>,
    /// What it says that the lower end rests on; with nothing here there is none.
    pub(super) lower: Vec<Part>,
    /// Instances besides.
    pub(super) below: Vec<Part>,
    /// Dominating pairs besides.
    pub(super) above: Vec<Part>,
}

/// What is known of a run: the same lists of whole runs.
#[derive(Default)]
pub(crate) struct Truth {
    /// Whether what dominates is attained, and so `upper` is `lower` too.
    pub(crate) exact: bool,
    pub(crate) upper: Vec<Parts>,
    pub(crate) lower: Vec<Parts>,
    pub(crate) below: Vec<Parts>,
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
                gaussian: Some(square.sqrt()),
                ..Self::default()
            });
        }
        let known = leaves
            .iter()
            .map(|(leaf, times)| question.leaf(leaf, *times));
        let known: Vec<Leaf> = known.collect::<Option<_>>()?;
        // Leaves about which one list says nothing are left out: good for lower ends.
        let all = |side: fn(&Leaf) -> &Vec<Part>| -> Vec<Parts> {
            let most = known.iter().map(|leaf| side(leaf).len()).max().unwrap_or(0);
            let most = most.max(usize::from(known.iter().all(|leaf| leaf.exact.is_some())));
            let choice = |i: usize| {
                let one = |leaf: &Leaf| {
                    let side = side(leaf);
                    let chosen = side.get(i.min(side.len().max(1) - 1));
                    chosen.or(leaf.exact.as_ref()).cloned()
                };
                known.iter().filter_map(one).collect()
            };
            (0..most).map(choice).collect()
        };
        let exact = known.iter().all(|leaf| leaf.exact.is_some());
        let complete = |side: fn(&Leaf) -> &Vec<Part>| {
            let covered = |leaf: &Leaf| leaf.exact.is_some() || !side(leaf).is_empty();
            if known.iter().all(covered) {
                all(side)
            } else {
                Vec::new()
            }
        };
        let if_open = |list: Vec<Parts>| if exact { Vec::new() } else { list };
        Some(Self {
            exact,
            upper: complete(|leaf| &leaf.upper),
            lower: if_open(all(|leaf| &leaf.lower)),
            below: if_open(all(|leaf| &leaf.below)),
            above: if_open(complete(|leaf| &leaf.above)),
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

pub(super) fn exactly(step: Step, times: u64) -> Option<Leaf> {
    Some(Leaf {
        exact: Some((step, times)),
        ..Leaf::default()
    })
}

impl Question {
    pub(super) fn group(&self) -> f64 {
        f64::from(self.query.group.get())
    }

    pub(super) fn replace(&self) -> bool {
        self.query.neighbours == Neighbours::Replace
    }

    /// How far the sum moves at most, in clipping norms.
    fn sensitivity(&self) -> f64 {
        self.group() * if self.replace() { 2.0 } else { 1.0 }
    }

    /// A step in the direction asked: `step` has the law with the record first.
    pub(super) fn turned(&self, step: Step) -> Step {
        match self.direction {
            Direction::Remove => step,
            Direction::Add => step.swapped(0.0),
        }
    }

    /// The records' shifts against none, or against the opposite ones.
    pub(super) fn shifts(&self, noise: Noise, scale: f64, with: &Mixture) -> Step {
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
            } => sampled(
                self,
                (Noise::Gaussian, scale.get()),
                rate.get(),
                *sampling,
                times,
            ),
            Mechanism::SubsampledLaplace {
                scale,
                sampling_rate: rate,
                sampling,
            } => sampled(
                self,
                (Noise::Laplace, scale.get()),
                rate.get(),
                *sampling,
                times,
            ),
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
            Mechanism::RandomisedResponse { truth, categories } => {
                let step = response(truth.get(), f64::from(*categories));
                let known = exactly(step, times * u64::from(group));
                known.filter(|_| self.replace())
            }
            Mechanism::PureDp {
                epsilon,
                neighbours,
            } => self.promised(epsilon.get(), 0.0, *neighbours, times),
            Mechanism::ApproxDp {
                epsilon,
                delta,
                neighbours,
            } => self.promised(epsilon.get(), delta.get(), *neighbours, times),
            Mechanism::ExponentialMechanism {
                epsilon,
                neighbours,
            } => {
                let range = epsilon.get() * self.steps_between(*neighbours)? as f64;
                let instance = |i: u32| (two_losses(range * f64::from(i) / 16.0, range), times);
                let worst = (any_two_losses(range, self.cells), times);
                // Of one step any point of the worst pair is an instance's.
                Some(Leaf {
                    lower: (times == 1).then(|| worst.clone()).into_iter().collect(),
                    upper: vec![worst],
                    below: (1..16).map(instance).collect(),
                    above: vec![(chain(range, 0.0, 1), times)],
                    ..Leaf::default()
                })
            }
            _ => None,
        }
    }

    /// A promise (ε, δ): of several steps between the two inputs the lemma (kε, δ(e^{kε} − 1)/(e^ε − 1)),
    /// and no lower end.
    fn promised(&self, epsilon: f64, delta: f64, stated: Neighbours, times: u64) -> Option<Leaf> {
        let steps = self.steps_between(stated)?;
        let exact = chain(epsilon, delta, steps);
        if steps == 1 {
            return exactly(exact, times);
        }
        let far = steps as f64 * epsilon;
        let total = delta * far.exp_m1() / epsilon.exp_m1();
        Some(Leaf {
            upper: (total < 1.0)
                .then(|| (chain(far, total, 1), times))
                .into_iter()
                .collect(),
            below: vec![(exact.clone(), times)],
            above: vec![(exact, times)],
            ..Leaf::default()
        })
    }

    /// One record changed in a promise about adding or removing is two of those steps if it is replaced.
    fn steps_between(&self, stated: Neighbours) -> Option<usize> {
        let each = match (stated, self.query.neighbours) {
            (stated, other) if stated == other => 1,
            (Neighbours::AddRemove, Neighbours::Replace) => 2,
            _ => return None,
        };
        Some(each * self.query.group.get() as usize)
    }
}
