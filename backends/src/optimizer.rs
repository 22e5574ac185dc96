//! Post-processing of gradients into weight updates, on the host in f32 with f64 scalars.

use crate::error::{Error, Result};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

impl OptimizerSpec {
    /// Checks the constants.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
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
        };
        if !(0.0..=1.0).contains(&decay) {
            return Err(Error::OutOfRange {
                what: "weight decay",
                range: "[0, 1]",
                value: decay,
            });
        }
        if !(rate > 0.0 && rate.is_finite()) {
            return Err(Error::OutOfRange {
                what: "learning rate",
                range: "(0, inf)",
                value: rate,
            });
        }
        if !(0.0..1.0).contains(&momentum) {
            return Err(Error::OutOfRange {
                what: "momentum",
                range: "[0, 1)",
                value: momentum,
            });
        }
        Ok(self)
    }
}

/// Turns a gradient into a change of the weights.
pub trait Update: Send {
    /// Changes the weights in place; gradients come in the same order and shapes.
    fn update(&mut self, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]);
}

/// An optimiser with its state, which a snapshot stores.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    spec: OptimizerSpec,
    steps: u64,
    first: Vec<Vec<f32>>,
    second: Vec<Vec<f32>>,
    scale: f64,
}

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl Optimizer {
    /// A fresh optimiser for parameters of these lengths.
    #[must_use]
    pub fn new(spec: OptimizerSpec, lengths: &[usize]) -> Self {
        let zeros = || lengths.iter().map(|n| vec![0.0; *n]).collect::<Vec<_>>();
        let second = match spec {
            OptimizerSpec::Adam { .. } | OptimizerSpec::AdamW { .. } => zeros(),
            OptimizerSpec::Sgd { .. } => Vec::new(),
        };
        Self {
            spec,
            steps: 0,
            first: zeros(),
            second,
            scale: 1.0,
        }
    }
    /// Scales the learning rate (a schedule fixed beforehand).
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }
    /// Steps taken, first and second moments: what a snapshot stores.
    #[must_use]
    pub fn state(&self) -> (u64, &[Vec<f32>], &[Vec<f32>]) {
        (self.steps, &self.first, &self.second)
    }
    /// Restores what [`Self::state`] gave.
    ///
    /// # Errors
    /// [`Error::Shape`] where a length does not fit.
    pub fn restore(
        &mut self,
        steps: u64,
        first: Vec<Vec<f32>>,
        second: Vec<Vec<f32>>,
    ) -> Result<()> {
        let lengths = |x: &[Vec<f32>]| x.iter().map(Vec::len).collect::<Vec<_>>();
        for (have, new) in [(&self.first, &first), (&self.second, &second)] {
            if lengths(have) != lengths(new) {
                return Err(Error::Shape {
                    name: "optimiser state".into(),
                    expected: lengths(have),
                    actual: lengths(new),
                });
            }
        }
        self.steps = steps;
        self.first = first;
        self.second = second;
        Ok(())
    }
}

impl Update for Optimizer {
    fn update(&mut self, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        self.steps += 1;
        match self.spec {
            OptimizerSpec::Sgd {
                learning_rate,
                momentum,
            } => {
                let (rate, momentum) = ((learning_rate * self.scale) as f32, momentum as f32);
                for ((w, v), g) in weights.iter_mut().zip(&mut self.first).zip(gradients) {
                    let values = w.par_iter_mut().zip(v).zip(g);
                    values.with_min_len(BLOCK).for_each(|((w, v), g)| {
                        *v = momentum * *v + g;
                        *w -= rate * *v;
                    });
                }
            }
            OptimizerSpec::Adam { learning_rate } => {
                self.adam(learning_rate, 0.0, weights, gradients)
            }
            OptimizerSpec::AdamW {
                learning_rate,
                weight_decay,
            } => self.adam(learning_rate, weight_decay, weights, gradients),
        }
    }
}

impl Optimizer {
    fn adam(&mut self, rate: f64, decay: f64, weights: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
        let t = self.steps.min(1 << 30) as i32;
        let first_correction = 1.0 - BETA1.powi(t);
        let second_correction = (1.0 - BETA2.powi(t)).sqrt();
        let keep = (1.0 - rate * self.scale * decay) as f32;
        let rate = (rate * self.scale * second_correction / first_correction) as f32;
        let epsilon = (EPSILON * second_correction) as f32;
        let (b1, b2) = (BETA1 as f32, BETA2 as f32);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((w, (m, v)), g) in weights.iter_mut().zip(moments).zip(gradients) {
            let moments = m.par_chunks_mut(BLOCK).zip(v.par_chunks_mut(BLOCK));
            let blocks = w.par_chunks_mut(BLOCK).zip(moments);
            blocks
                .zip(g.par_chunks(BLOCK))
                .for_each(|((w, (m, v)), g)| {
                    for ((w, (m, v)), g) in w.iter_mut().zip(m.iter_mut().zip(v)).zip(g) {
                        *m = b1 * *m + (1.0 - b1) * g;
                        *v = b2 * *v + (1.0 - b2) * g * g;
                        *w = keep * *w - rate * *m / (v.sqrt() + epsilon);
                    }
                });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The update rules written down in f64, weight by weight.
    fn by_hand(spec: OptimizerSpec, gradients: &[f64], start: f64) -> f64 {
        let (mut w, mut m, mut v) = (start, 0.0, 0.0);
        for (t, g) in (1..).zip(gradients) {
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
            }
        }
        w
    }

    #[test]
    fn every_optimiser_moves_weights_by_its_rule() {
        let gradients = [0.5, -1.25, 3.0, 0.0, 0.125];
        for spec in [
            OptimizerSpec::Sgd {
                learning_rate: 0.1,
                momentum: 0.9,
            },
            OptimizerSpec::Adam { learning_rate: 0.1 },
            OptimizerSpec::AdamW {
                learning_rate: 0.1,
                weight_decay: 0.3,
            },
        ] {
            let mut optimizer = Optimizer::new(spec.validated().unwrap(), &[1]);
            let mut weights = vec![vec![2.0f32]];
            for g in gradients {
                optimizer.update(&mut weights, &[vec![g as f32]]);
            }
            let expected = by_hand(spec, &gradients, 2.0);
            let error = (f64::from(weights[0][0]) - expected).abs();
            assert!(error < 1e-5, "{spec:?}: {error}");
        }
        let bad = OptimizerSpec::AdamW {
            learning_rate: 0.1,
            weight_decay: 1.5,
        };
        assert!(bad.validated().unwrap_err().to_string().contains("1.5"));
    }
}
