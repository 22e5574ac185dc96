//! The head on top of the last layer, forward and backward.

use super::arithmetic::{
    add_outer, add_rows, add_to_rows, cap, cap_slope, product, product_transposed,
};
use super::norm::NormTrace;
use super::transformer::Pass;
use crate::model::HeadLayout;

/// The values that the head's backward pass needs.
pub(super) enum HeadTrace {
    NextToken {
        hidden: Vec<f64>,
    },
    MaskedToken {
        hidden: Vec<f64>,
        transformed: Vec<f64>,
        norm: Option<NormTrace>,
        normed: Vec<f64>,
    },
    Classes {
        /// The row from which the classes are predicted.
        at: usize,
        read: Vec<f64>,
        pooled: Vec<f64>,
    },
}

impl Pass<'_> {
    /// Logits from hidden rows by a matrix `[d, V]`, or by the token embedding `[V, d]`.
    fn project(&self, projection: Option<usize>, hidden: &[f64]) -> Vec<f64> {
        let (d, v) = (self.c.width, self.c.vocabulary);
        match projection {
            Some(matrix) => product(hidden, &self.w[matrix], d, v),
            None => product_transposed(hidden, &self.w[self.layout.token_embedding], d),
        }
    }

    fn project_backward(
        &self,
        projection: Option<usize>,
        hidden: &[f64],
        d_logits: &[f64],
        gradient: &mut [Vec<f64>],
    ) -> Vec<f64> {
        let (d, v) = (self.c.width, self.c.vocabulary);
        match projection {
            Some(matrix) => {
                add_outer(hidden, d_logits, d, v, &mut gradient[matrix]);
                product_transposed(d_logits, &self.w[matrix], v)
            }
            None => {
                let table = self.layout.token_embedding;
                add_outer(d_logits, hidden, v, d, &mut gradient[table]);
                product(d_logits, &self.w[table], v, d)
            }
        }
    }

    pub(super) fn head(&self, hidden: Vec<f64>, tokens: &[u32]) -> (Vec<f64>, HeadTrace) {
        let d = self.c.width;
        match &self.layout.head {
            HeadLayout::NextToken { projection, bias } => {
                let mut logits = self.project(*projection, &hidden);
                if let Some(bias) = bias {
                    add_to_rows(&self.w[*bias], &mut logits);
                }
                let scaling = self.c.switches.multipliers.logits;
                logits
                    .iter_mut()
                    .for_each(|l| *l = cap(*l / scaling, self.c.logit_cap));
                (logits, HeadTrace::NextToken { hidden })
            }
            HeadLayout::MaskedToken {
                transform,
                norm,
                projection,
                bias,
            } => {
                let transformed = self.linear(*transform, &hidden, d);
                let act = self.c.activation;
                let activated = transformed.iter().map(|x| act.value(*x)).collect();
                let (normed, norm) = self.norm(Some(*norm), activated);
                let mut logits = self.project(*projection, &normed);
                add_to_rows(&self.w[*bias], &mut logits);
                let trace = HeadTrace::MaskedToken {
                    hidden,
                    transformed,
                    norm,
                    normed,
                };
                (logits, trace)
            }
            HeadLayout::Classes { dense, output } => {
                let at = self.c.class_position(tokens);
                let read = hidden[at * d..(at + 1) * d].to_vec();
                let pooled = match dense {
                    Some(dense) => self
                        .linear(*dense, &read, d)
                        .into_iter()
                        .map(f64::tanh)
                        .collect(),
                    None => read.clone(),
                };
                let logits = self.linear(*output, &pooled, d);
                (logits, HeadTrace::Classes { at, read, pooled })
            }
        }
    }

    pub(super) fn head_backward(
        &self,
        trace: &HeadTrace,
        logits: &[f64],
        mut d_logits: Vec<f64>,
        rows: usize,
        gradient: &mut [Vec<f64>],
    ) -> Vec<f64> {
        let d = self.c.width;
        match (&self.layout.head, trace) {
            (HeadLayout::NextToken { projection, bias }, HeadTrace::NextToken { hidden }) => {
                let scaling = self.c.switches.multipliers.logits;
                for (d, logit) in d_logits.iter_mut().zip(logits) {
                    *d *= cap_slope(*logit, self.c.logit_cap) / scaling;
                }
                if let Some(bias) = bias {
                    add_rows(&d_logits, &mut gradient[*bias]);
                }
                self.project_backward(*projection, hidden, &d_logits, gradient)
            }
            (
                HeadLayout::MaskedToken {
                    transform,
                    norm: at,
                    projection,
                    bias,
                },
                HeadTrace::MaskedToken {
                    hidden,
                    transformed,
                    norm,
                    normed,
                },
            ) => {
                add_rows(&d_logits, &mut gradient[*bias]);
                let d_y = self.project_backward(*projection, normed, &d_logits, gradient);
                let mut d_y = self.norm_backward(Some(*at), norm, d_y, gradient);
                for (d, x) in d_y.iter_mut().zip(transformed) {
                    *d *= self.c.activation.slope(*x);
                }
                self.linear_backward(*transform, hidden, &d_y, d, gradient)
            }
            (HeadLayout::Classes { dense, output }, HeadTrace::Classes { at, read, pooled }) => {
                let mut d_y = self.linear_backward(*output, pooled, &d_logits, d, gradient);
                if let Some(dense) = dense {
                    for (d, y) in d_y.iter_mut().zip(pooled) {
                        *d *= 1.0 - y * y;
                    }
                    d_y = self.linear_backward(*dense, read, &d_y, d, gradient);
                }
                let mut d_x = vec![0.0; rows * d];
                d_x[at * d..(at + 1) * d].copy_from_slice(&d_y);
                d_x
            }
            _ => unreachable!("the trace came from this layout"),
        }
    }
}
