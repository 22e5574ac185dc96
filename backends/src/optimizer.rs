//! Post-processing of gradients into weight updates, on the host in f32 with f64 scalars.

use crate::error::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Values per parallel block.
const BLOCK: usize = 1 << 15;

/// Which optimiser, with its constants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
}

impl OptimizerSpec {
    /// Checks the constants.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn validated(self) -> Result<Self> {
        let (rate, momentum) = match self {
            Self::Sgd {
                learning_rate,
                momentum,
            } => (learning_rate, momentum),
            Self::Adam { learning_rate } => (learning_rate, 0.0),
        };
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
        let second = if matches!(spec, OptimizerSpec::Adam { .. }) {
            zeros()
        } else {
            Vec::new()
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
                    for ((w, v), g) in w.iter_mut().zip(v).zip(g) {
                        *v = momentum * *v + g;
                        *w -= rate * *v;
                    }
                }
            }
            OptimizerSpec::Adam { learning_rate } => {
                let t = self.steps.min(1 << 30) as i32;
                let first_correction = 1.0 - BETA1.powi(t);
                let second_correction = (1.0 - BETA2.powi(t)).sqrt();
                let rate =
                    (learning_rate * self.scale * second_correction / first_correction) as f32;
                let epsilon = (EPSILON * second_correction) as f32;
                let (b1, b2) = (BETA1 as f32, BETA2 as f32);
                for (((w, m), v), g) in weights
                    .iter_mut()
                    .zip(&mut self.first)
                    .zip(&mut self.second)
                    .zip(gradients)
                {
                    let blocks = w
                        .par_chunks_mut(BLOCK)
                        .zip(m.par_chunks_mut(BLOCK))
                        .zip(v.par_chunks_mut(BLOCK));
                    blocks
                        .zip(g.par_chunks(BLOCK))
                        .for_each(|(((w, m), v), g)| {
                            for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
                                *m = b1 * *m + (1.0 - b1) * g;
                                *v = b2 * *v + (1.0 - b2) * g * g;
                                *w -= rate * *m / (v.sqrt() + epsilon);
                            }
                        });
                }
            }
        }
    }
}
