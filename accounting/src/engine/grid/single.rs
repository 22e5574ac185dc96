//! One step: δ(ε) = ∫ (p − e^ε q)₊ by quadrature from the crossing on, exact to roundings.

use crate::loss::loss_grid::LossGrid;
use crate::loss::{LossDistribution, Node};
use crate::numeric::interval::LnBounds;
use crate::numeric::special::ln_one_minus_exp;
use crate::quantity::error::Result;

impl LossDistribution {
    /// ln δ(ε) of a single step, for any real ε.
    ///
    /// # Errors
    /// [`crate::Error::NotCertified`] when the densities are too steep for the quadrature.
    pub(crate) fn ln_delta(&self, epsilon: f64, ln_cut: f64) -> Result<LnBounds> {
        let loss_grid = LossGrid::single(epsilon);
        let mut terms: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let dropped = self.discretise(ln_cut, Some(&loss_grid), &mut |node: Node| {
            for (terms, sign) in terms.iter_mut().zip([1.0, -1.0]) {
                let gap = node.loss + sign * (node.loss_error + 2.0 * f64::EPSILON * epsilon.abs())
                    - epsilon;
                if gap > 0.0 {
                    let ln_first = node.ln_second + sign * node.weight_error + epsilon + gap;
                    terms.push(ln_first + ln_one_minus_exp(-gap));
                }
            }
        })?;
        let [above, below] = terms.map(|terms| ln_sum(&terms));
        let upper = crate::numeric::special::ln_add_exp(
            above,
            (self.infinite + self.missing + dropped.exp()).ln(),
        ) + 1e-15;
        let lower =
            crate::numeric::special::ln_add_exp(below, self.infinite_at_least().ln()) - 1e-15;
        Ok(LnBounds {
            lower,
            middle: if lower.is_finite() {
                0.5 * (lower + upper)
            } else {
                upper
            },
            upper: if above == f64::NEG_INFINITY
                && dropped == f64::NEG_INFINITY
                && self.infinite + self.missing <= 0.0
            {
                f64::NEG_INFINITY
            } else {
                upper
            },
        })
    }
}

/// ln Σ e^t.
fn ln_sum(terms: &[f64]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let mut sum = crate::numeric::sum::Sum::default();
    for term in terms {
        sum.add((term - top).exp());
    }
    top + sum.value().ln()
}
