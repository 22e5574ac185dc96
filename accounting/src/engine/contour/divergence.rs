//! The Kullback–Leibler divergence of one step, K'(1) = E_P[L], with a bound on its error.

use super::cumulants::PairNodes;
use super::nodes::Nodes;
use super::partition::CellPartition;
use crate::numeric::special::{ln_add_exp, ln_mills_above};

impl PairNodes {
    /// Returns E_P[L] of one step with a bound on its error.
    pub(crate) fn divergence(&self, nodes: &Nodes) -> (f64, f64) {
        let (value, rounding) = nodes.divergence();
        let (left, right) = self.span;
        let tails = ln_add_exp(
            self.partition.ln_loss_tail(left, -1.0),
            self.partition.ln_loss_tail(right, 1.0),
        );
        let spacing = nodes.spacing;
        let outside = (tails + spacing.ln_1p()).exp();
        (
            value,
            rounding + outside + self.partition.loss_trapezoid_error(spacing),
        )
    }
}

impl CellPartition {
    /// Returns ln of a bound on ∫ f_1 |L| beyond a boundary: |L| grows by at most its steepest
    /// slope S per unit, and u ≤ e^u.
    pub(super) fn ln_loss_tail(&self, boundary: usize, sign: f64) -> f64 {
        let at = &self.boundaries[boundary];
        let steepest = self.pair.first.farthest() + self.pair.second.farthest();
        let slope = if sign > 0.0 {
            self.pair.first.farthest()
        } else {
            -self.pair.first.nearest()
        };
        let size = (at.ln_plus - at.ln_minus).abs() + steepest;
        size.ln() + at.ln_density(1.0) + ln_mills_above(sign * at.x - slope - 1.0)
    }
}
