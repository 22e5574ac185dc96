//! Optimisers: post-processing of gradients into weight updates, on the host in f32 with f64 scalars.

use crate::error::{Error, Result, below_one, positive, ranged};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::OnceLock;

/// Values per parallel block.
const BLOCK: usize = 1 << 15;

/// Which optimiser, with its constants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OptimizerSpec {
    /// w ← w − lr·v, v ← momentum·v + g.
    Sgd {
        /// Step size.
        learning_rate: f64,
        /// Share of the last velocity that is kept, in [0, 1).
        momentum: f64,
    },
    /// Adam (Kingma & Ba 2015) with bias correction and ε = 1e-8.
    Adam {
        /// Step size.
        learning_rate: f64,
    },
    /// Adam with decoupled decay, w ← (1 − lr·λ) w before each step. Source: Loshchilov & Hutter 2019.
    AdamW {
        /// Step size.
        learning_rate: f64,
        /// λ, in [0, 1].
        weight_decay: f64,
    },
    /// Adam on noised gradients: the noise's share of the second moment is taken off it before the root. The step is
    /// lr·m̂/√max(v̂ − Φ̂, γ), where Φ̂ averages the variances Φ = (σC/B)² of a coordinate of the noised means as v̂ averages
    /// their squares; it is Φ while σC stays. Source: Tang, Shpilevskiy & Lécuyer 2024 (DP-AdamBC).
    AdamBc {
        /// Step size.
        learning_rate: f64,
        /// γ, the least second moment that is divided by.
        floor: f64,
    },
}

impl OptimizerSpec {
    /// Checks the constants.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a constant outside its range.
    pub fn validated(self) -> Result<Self> {
        let (rate, momentum, decay) = match self {
            Self::Sgd {
                learning_rate,
                momentum,
            } => (learning_rate, momentum, 0.0),
            Self::Adam { learning_rate } => (learning_rate, 0.0, 0.0),
            Self::AdamW {
                learning_rate,
                weight_decay,
            } => (learning_rate, 0.0, weight_decay),
            Self::AdamBc {
                learning_rate,
                floor,
            } => {
                positive("least second moment", floor)?;
                (learning_rate, 0.0, 0.0)
            }
        };
        let share = (0.0..=1.0).contains(&decay);
        ranged("weight decay", "[0, 1]", decay, share)?;
        positive("learning rate", rate)?;
        below_one("momentum", momentum)?;
        Ok(self)
    }
}

/// Turns gradients into updates of the weights.
pub trait Update: Send {
    /// Updates the weights in place; gradients have the same order and shapes.
    fn update(&mut self, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]);
    /// Sets the standard deviation of the noise in each value of the next gradient.
    fn noised(&mut self, _deviation: f64) {}
    /// Returns this update as an optimiser whose steps a device can take, or `None` if it is another kind.
    #[doc(hidden)]
    fn as_optimizer(&mut self) -> Option<&mut Optimizer> {
        None
    }
}

/// State that a snapshot stores beside the weights: a number of steps, and values shaped like the weights.
pub(crate) trait Moments {
    /// Returns the steps taken, the first and the second moments.
    fn state(&self) -> (u64, &[Vec<f32>], &[Vec<f32>]);
    /// Restores the result of [`Self::state`].
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a length does not fit.
    fn restore(&mut self, steps: u64, first: Vec<Vec<f32>>, second: Vec<Vec<f32>>) -> Result<()>;
}

/// Checks that new values have the lengths of the present ones.
fn same_lengths(have: &[Vec<f32>], new: &[Vec<f32>]) -> Result<()> {
    let lengths = |x: &[Vec<f32>]| x.iter().map(Vec::len).collect::<Vec<_>>();
    if lengths(have) == lengths(new) {
        return Ok(());
    }
    Err(Error::Shape {
        name: "optimiser state".into(),
        expected: lengths(have),
        actual: lengths(new),
    })
}

/// Moments on a device.
pub(crate) trait DeviceMoments: Any + Send + Sync + std::fmt::Debug {
    /// Returns their values: first moments, second moments.
    fn download(&self) -> [Vec<Vec<f32>>; 2];
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Both moments, on the host, or on a device with a copy once the host has asked for one.
#[derive(Debug)]
enum Kept {
    Host([Vec<Vec<f32>>; 2]),
    Device {
        moments: Box<dyn DeviceMoments>,
        copy: OnceLock<[Vec<Vec<f32>>; 2]>,
    },
}

impl Kept {
    fn get(&self) -> &[Vec<Vec<f32>>; 2] {
        match self {
            Self::Host(moments) => moments,
            Self::Device { moments, copy } => copy.get_or_init(|| moments.download()),
        }
    }
    /// Moves the moments to the host, where they stay.
    fn on_host(&mut self) -> &mut [Vec<Vec<f32>>; 2] {
        if let Self::Device { moments, copy } = self {
            let moments = copy.take().unwrap_or_else(|| moments.download());
            *self = Self::Host(moments);
        }
        match self {
            Self::Host(moments) => moments,
            Self::Device { .. } => unreachable!("just brought to the host"),
        }
    }
}

/// One step of an optimiser in f32, as described at [`Optimizer`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    Sgd { rate: f32, momentum: f32 },
    Adam(AdamRule),
}

/// w ← keep·w − rate·m/(√v + ε).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamRule {
    pub(crate) rate: f32,
    pub(crate) keep: f32,
    pub(crate) epsilon: f32,
}

/// An optimiser with its state, which a snapshot stores.
#[derive(Debug)]
pub struct Optimizer {
    spec: OptimizerSpec,
    steps: u64,
    kept: Kept,
    scale: f64,
    /// Φ of the next gradient.
    noise_variance: f64,
}

/// The shares of the first and the second moment that are kept.
pub(crate) const BETA1: f64 = 0.9;
pub(crate) const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl Optimizer {
    /// A fresh optimiser for parameters of these lengths.
    #[must_use]
    pub fn new(spec: OptimizerSpec, lengths: &[usize]) -> Self {
        let zeros = || lengths.iter().map(|n| vec![0.0; *n]).collect::<Vec<_>>();
        let (first, second) = match spec {
            OptimizerSpec::Adam { .. } | OptimizerSpec::AdamW { .. } => (zeros(), zeros()),
            // The last value is the average of Φ.
            OptimizerSpec::AdamBc { .. } => (zeros(), [zeros(), vec![vec![0.0]]].concat()),
            OptimizerSpec::Sgd { momentum, .. } if momentum > 0.0 => (zeros(), Vec::new()),
            OptimizerSpec::Sgd { .. } => (Vec::new(), Vec::new()),
        };
        Self {
            spec,
            steps: 0,
            kept: Kept::Host([first, second]),
            scale: 1.0,
            noise_variance: 0.0,
        }
    }
    /// Returns an optimiser without state, which no step uses.
    pub(crate) fn idle(spec: OptimizerSpec) -> Self {
        Self::new(spec, &[])
    }
    /// Scales the learning rate (a schedule fixed beforehand).
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }
}

/// Returns the bias corrections by which the moments are divided at a step, because they start at zero.
fn corrections(step: u64) -> (f64, f64) {
    let t = step.min(1 << 30) as i32;
    (1.0 - BETA1.powi(t), 1.0 - BETA2.powi(t))
}

impl Moments for Optimizer {
    fn state(&self) -> (u64, &[Vec<f32>], &[Vec<f32>]) {
        let [first, second] = self.kept.get();
        (self.steps, first, second)
    }
    fn restore(&mut self, steps: u64, first: Vec<Vec<f32>>, second: Vec<Vec<f32>>) -> Result<()> {
        let [old_first, old_second] = self.kept.get();
        same_lengths(old_first, &first)?;
        same_lengths(old_second, &second)?;
        self.steps = steps;
        self.kept = Kept::Host([first, second]);
        Ok(())
    }
}

impl Update for Optimizer {
    fn update(&mut self, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        self.steps += 1;
        if let OptimizerSpec::AdamBc {
            learning_rate,
            floor,
        } = self.spec
        {
            return self.adam_bc(learning_rate, floor, weights, gradients);
        }
        match self.rule(self.steps) {
            Some(Rule::Sgd { rate, momentum }) => self.sgd((rate, momentum), weights, gradients),
            Some(Rule::Adam(AdamRule {
                rate,
                keep,
                epsilon,
            })) => self.by_moments(weights, gradients, |w, m, v| {
                *w = keep * *w - rate * m / (v.sqrt() + epsilon);
            }),
            None => {} // AdamBC, above
        }
    }
    fn noised(&mut self, deviation: f64) {
        self.noise_variance = deviation * deviation;
    }
    fn as_optimizer(&mut self) -> Option<&mut Optimizer> {
        Some(self)
    }
}

impl Optimizer {
    /// Returns the rule of a step, if f32 suffices for it: for all optimisers but AdamBC.
    fn rule(&self, step: u64) -> Option<Rule> {
        let adam = |rate: f64, decay: f64| {
            let (first_correction, second_correction) = corrections(step);
            let second_correction = second_correction.sqrt();
            Rule::Adam(AdamRule {
                rate: (rate * self.scale * second_correction / first_correction) as f32,
                keep: (1.0 - rate * self.scale * decay) as f32,
                epsilon: (EPSILON * second_correction) as f32,
            })
        };
        match self.spec {
            OptimizerSpec::Sgd {
                learning_rate,
                momentum,
            } => Some(Rule::Sgd {
                rate: (learning_rate * self.scale) as f32,
                momentum: momentum as f32,
            }),
            OptimizerSpec::Adam { learning_rate } => Some(adam(learning_rate, 0.0)),
            OptimizerSpec::AdamW {
                learning_rate,
                weight_decay,
            } => Some(adam(learning_rate, weight_decay)),
            OptimizerSpec::AdamBc { .. } => None,
        }
    }

    /// Begins a step that a device takes. Returns its rule and the moments, which `upload` moves to the device if they
    /// are not there yet; `None` for an optimiser whose steps need f64.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines use it"))]
    pub(crate) fn on_device<T: DeviceMoments>(
        &mut self,
        upload: impl FnOnce(&[Vec<Vec<f32>>; 2]) -> T,
    ) -> Option<(Rule, &mut T)> {
        let rule = self.rule(self.steps + 1)?;
        self.steps += 1;
        let known = match &mut self.kept {
            Kept::Device { moments, .. } => moments.as_any_mut().is::<T>(),
            Kept::Host(_) => false,
        };
        if !known {
            let moments = Box::new(upload(self.kept.on_host()));
            self.kept = Kept::Device {
                moments,
                copy: OnceLock::new(),
            };
        }
        let Kept::Device { moments, copy } = &mut self.kept else {
            unreachable!("just moved there");
        };
        copy.take();
        let moments = moments.as_any_mut().downcast_mut();
        Some((rule, moments.expect("of this type, or just made")))
    }

    fn sgd(
        &mut self,
        (rate, momentum): (f32, f32),
        weights: &mut [Vec<f32>],
        gradients: &[Vec<f32>],
    ) {
        let [first, _] = self.kept.on_host();
        if first.is_empty() {
            for (w, g) in weights.iter_mut().zip(gradients) {
                let values = w.par_iter_mut().zip(g).with_min_len(BLOCK);
                values.for_each(|(w, g)| *w -= rate * g);
            }
            return;
        }
        for ((w, v), g) in weights.iter_mut().zip(first).zip(gradients) {
            let values = w.par_iter_mut().zip(v).zip(g);
            values.with_min_len(BLOCK).for_each(|((w, v), g)| {
                *v = momentum * *v + g;
                *w -= rate * *v;
            });
        }
    }

    fn adam_bc(&mut self, rate: f64, floor: f64, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        let (first_correction, second_correction) = corrections(self.steps);
        let rate = rate * self.scale / first_correction;
        let (b2, variance) = (BETA2 as f32, self.noise_variance as f32);
        let [_, second] = self.kept.on_host();
        let mut noise = 0.0;
        if let Some(average) = second.last_mut().and_then(|values| values.first_mut()) {
            // In f32 as v, so that both round alike.
            *average = b2 * *average + (1.0 - b2) * variance;
            noise = f64::from(*average) / second_correction;
        }
        self.by_moments(weights, gradients, |w, m, v| {
            // v̂ − Φ̂ cancels: in f64
            let second = (f64::from(v) / second_correction - noise).max(floor);
            *w -= (rate * f64::from(m) / second.sqrt()) as f32;
        });
    }

    /// Updates both moments with the gradients, and each weight with its moments.
    fn by_moments(
        &mut self,
        weights: &mut [Vec<f32>],
        gradients: &[Vec<f32>],
        step: impl Fn(&mut f32, f32, f32) + Sync,
    ) {
        let (b1, b2) = (BETA1 as f32, BETA2 as f32);
        let [first, second] = self.kept.on_host();
        let moments = first.iter_mut().zip(second);
        for ((w, (m, v)), g) in weights.iter_mut().zip(moments).zip(gradients) {
            let moments = m.par_chunks_mut(BLOCK).zip(v.par_chunks_mut(BLOCK));
            let blocks = w.par_chunks_mut(BLOCK).zip(moments);
            blocks
                .zip(g.par_chunks(BLOCK))
                .for_each(|((w, (m, v)), g)| {
                    for ((w, (m, v)), g) in w.iter_mut().zip(m.iter_mut().zip(v)).zip(g) {
                        *m = b1 * *m + (1.0 - b1) * g;
                        *v = b2 * *v + (1.0 - b2) * g * g;
                        step(w, *m, *v);
                    }
                });
        }
    }
}

/// An exponential moving average of the weights during a run. It is post-processing of released weights, so it costs no
/// privacy. After step t, from 1, the average keeps min(decay, t/(t + 9)) of itself, so that the starting weights are
/// soon forgotten.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Average {
    decay: f64,
    steps: u64,
    weights: Vec<Vec<f32>>,
}

impl Average {
    pub(crate) fn new(decay: f64, weights: &[Vec<f32>]) -> Self {
        Self {
            decay,
            steps: 0,
            weights: weights.to_vec(),
        }
    }
    /// Adds the weights after a step to the average.
    pub(crate) fn take(&mut self, weights: &[Vec<f32>]) {
        self.steps += 1;
        let t = self.steps as f64;
        let take = (1.0 - self.decay.min(t / (t + 9.0))) as f32;
        for (average, new) in self.weights.iter_mut().zip(weights) {
            let values = average.par_iter_mut().zip(new).with_min_len(BLOCK);
            values.for_each(|(average, new)| *average += take * (new - *average));
        }
    }
    /// Returns the average.
    pub(crate) fn weights(&self) -> &[Vec<f32>] {
        &self.weights
    }
}

impl Moments for Average {
    fn state(&self) -> (u64, &[Vec<f32>], &[Vec<f32>]) {
        (self.steps, &self.weights, &[])
    }
    fn restore(&mut self, steps: u64, first: Vec<Vec<f32>>, second: Vec<Vec<f32>>) -> Result<()> {
        same_lengths(&self.weights, &first)?;
        same_lengths(&[], &second)?;
        self.steps = steps;
        self.weights = first;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The update rules written down in f64, weight by weight.
    fn by_hand(spec: OptimizerSpec, gradients: &[f64], start: f64, noise: &[f64]) -> f64 {
        let (mut w, mut m, mut v, mut phi) = (start, 0.0, 0.0, 0.0);
        for (t, (g, noise)) in (1..).zip(gradients.iter().zip(noise)) {
            match spec {
                OptimizerSpec::Sgd {
                    learning_rate,
                    momentum,
                } => {
                    m = momentum * m + g;
                    w -= learning_rate * m;
                }
                OptimizerSpec::Adam { learning_rate }
                | OptimizerSpec::AdamW { learning_rate, .. } => {
                    if let OptimizerSpec::AdamW { weight_decay, .. } = spec {
                        w -= learning_rate * weight_decay * w;
                    }
                    m = BETA1 * m + (1.0 - BETA1) * g;
                    v = BETA2 * v + (1.0 - BETA2) * g * g;
                    let (m, v) = (m / (1.0 - BETA1.powi(t)), v / (1.0 - BETA2.powi(t)));
                    w -= learning_rate * m / (v.sqrt() + EPSILON);
                }
                OptimizerSpec::AdamBc {
                    learning_rate,
                    floor,
                } => {
                    m = BETA1 * m + (1.0 - BETA1) * g;
                    v = BETA2 * v + (1.0 - BETA2) * g * g;
                    phi = BETA2 * phi + (1.0 - BETA2) * noise * noise;
                    let (m, v) = (m / (1.0 - BETA1.powi(t)), (v - phi) / (1.0 - BETA2.powi(t)));
                    w -= learning_rate * m / v.max(floor).sqrt();
                }
            }
        }
        w
    }

    #[test]
    fn every_optimiser_moves_weights_by_its_rule() {
        let gradients = [0.5, -1.25, 3.0, 0.0, 0.125];
        // The second moment keeps the noise of earlier steps where it falls.
        let noise = [0.5, 0.5, 0.5, 0.1, 0.1];
        for spec in [
            OptimizerSpec::Sgd {
                learning_rate: 0.1,
                momentum: 0.9,
            },
            OptimizerSpec::Sgd {
                learning_rate: 0.1,
                momentum: 0.0,
            },
            OptimizerSpec::AdamBc {
                learning_rate: 0.1,
                floor: 1e-3,
            },
            OptimizerSpec::Adam { learning_rate: 0.1 },
            OptimizerSpec::AdamW {
                learning_rate: 0.1,
                weight_decay: 0.3,
            },
        ] {
            let mut optimizer = Optimizer::new(spec.validated().unwrap(), &[1]);
            let mut weights = vec![vec![2.0f32]];
            for (g, noise) in gradients.into_iter().zip(noise) {
                optimizer.noised(noise);
                optimizer.update(&mut weights, &[vec![g as f32]]);
            }
            let expected = by_hand(spec, &gradients, 2.0, &noise);
            let error = (f64::from(weights[0][0]) - expected).abs();
            assert!(error < 1e-5, "{spec:?}: {error}");
        }
        let bad = OptimizerSpec::AdamW {
            learning_rate: 0.1,
            weight_decay: 1.5,
        };
        assert!(bad.validated().unwrap_err().to_string().contains("1.5"));
    }

    /// The starting weights fade at once, and a long run's average is that of the last 1/(1 − decay) steps.
    #[test]
    fn an_average_follows_the_weights() {
        let mut average = Average::new(0.9, &[vec![100.0]]);
        average.take(&[vec![1.0]]);
        assert!((average.weights()[0][0] - 10.9).abs() < 1e-5); // kept 1/10
        let mut by_hand = 10.9;
        for t in 2..200u32 {
            let (w, t) = (f64::from(t % 7), f64::from(t));
            let keep = 0.9f64.min(t / (t + 9.0));
            by_hand = keep * by_hand + (1.0 - keep) * w;
            average.take(&[vec![w as f32]]);
        }
        assert!((f64::from(average.weights()[0][0]) - by_hand).abs() < 1e-4);
        let (steps, kept, none) = average.state();
        let mut restored = Average::new(0.9, &[vec![0.0]]);
        restored
            .restore(steps, kept.to_vec(), none.to_vec())
            .unwrap();
        assert_eq!(restored, average);
        assert!(restored.restore(1, Vec::new(), Vec::new()).is_err());
    }
}
