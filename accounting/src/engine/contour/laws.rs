//! Steps of any law along the contour: nodes on intervals ("stretches") of its pieces, its atoms, and the
//! decay of its characteristic function.
//!
//! K(s) = ln(Σ_atoms + ∫ p^s q^(1−s)). The quadrature's error is a small share of the integral of the
//! modulus, for any order up to the one that the nodes were made for. Atoms don't decay: |φ| is at most
//! their share plus what the densities leave. This module is therefore for many steps with little mass in
//! atoms, or for steps next to others that decay. The grid handles the rest.

use super::nodes::Nodes;
use crate::loss::{LossDistribution, Mask, Served, Stretch};
use crate::numeric::special::ln_add_exp;
use crate::quantity::error::{Error, Result};

mod decay;
#[cfg(test)]
mod tests;

pub(crate) use decay::{LossDecay, Shifted};

/// ln of the P-mass beyond infinite ends that is too small to matter to any number.
const LN_NOTHING: f64 = -745.0;
/// Laws with more atoms are left to the grid, which merges close ones.
const MOST_ATOMS: usize = 1 << 15;
/// Room for the rounding errors of sums over nodes.
pub(super) const ROOM: f64 = 1e-9;

/// A law with the nodes for real orders up to a highest one.
#[derive(Debug, Clone)]
pub(crate) struct LossPartition {
    law: LossDistribution,
    stretches: Vec<Stretch>,
    /// The number of nodes that are atoms; they come first.
    atoms: usize,
    /// ln of the quadrature's relative error.
    ln_error: f64,
    ln_cut: f64,
    /// Whether both laws have all their mass where the loss is finite.
    complete: bool,
    mask: Option<Mask>,
}

impl LossPartition {
    /// Creates the partition and nodes for orders in [0, `order`] and imaginary parts up to `turn`, to a
    /// relative error of e^`ln_error` in addition to the tails.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if that takes too many nodes.
    pub(crate) fn new(
        law: &LossDistribution,
        order: f64,
        turn: f64,
        ln_error: f64,
    ) -> Result<(Self, Nodes)> {
        Self::masked(law, (order, turn), ln_error, None)
    }

    /// As [`LossPartition::new`], for the outcomes that a mask lets count, each with its probability.
    pub(crate) fn masked(
        law: &LossDistribution,
        (order, turn): (f64, f64),
        ln_error: f64,
        mask: Option<Mask>,
    ) -> Result<(Self, Nodes)> {
        if law.atoms.len() > MOST_ATOMS {
            return Err(Error::NotCertified {
                what: "the moments",
                why: "a step has too many outcomes".into(),
            });
        }
        let complete = law.is_whole() && mask.is_none();
        let served = Served {
            mask,
            order: order.max(1.0),
            turn,
            ln_goal: ln_error,
            ln_cut: law.cut_for(order).min(2.0 * ln_error).max(LN_NOTHING),
        };
        let (all, stretches) = law.serving(served)?;
        let nodes = Nodes::of_law(&all, complete);
        let partition = Self {
            law: law.clone(),
            atoms: law.atoms.len(),
            stretches,
            ln_error,
            ln_cut: served.ln_cut,
            complete,
            mask,
        };
        Ok((partition, nodes))
    }

    /// Creates the same for one order and imaginary parts up to `turn`.
    pub(crate) fn along(&self, order: f64, turn: f64, ln_error: f64) -> Result<(Self, Nodes)> {
        Self::new(&self.law, order, turn, ln_error)
    }

    /// Returns ln of a bound on the error of Σ for ∫ f_c, with e^`ln_moment` its value.
    pub(crate) fn ln_error(&self, c: f64, ln_moment: f64) -> f64 {
        ln_add_exp(self.ln_error + ln_moment, self.ln_tail(c))
    }

    /// Returns a bound on the error of K(c), given its computed value.
    pub(crate) fn moment_error(&self, c: f64, ln_moment: f64) -> f64 {
        let mut ln = self.ln_error(c, ln_moment);
        if self.complete {
            // The moment is computed from the masses of both laws, which are one.
            ln = ln_add_exp(ln, self.ln_error(0.0, 0.0) + (c - 1.0).abs().ln());
            ln = ln_add_exp(ln, self.ln_error(1.0, 0.0) + c.ln());
            // For a pair that was cut, they are one minus what was cut off.
            if let Some((first, second)) = self.law.cut {
                ln = ln_add_exp(ln, (c * first + (1.0 + c) * second).ln());
            }
        }
        let relative = (ln - ln_moment).exp();
        if relative < 0.5 {
            -(-relative).ln_1p()
        } else {
            f64::INFINITY
        }
    }

    /// Returns the approximate spread of the densities' losses under the law tilted to c.
    fn swing(&self, c: f64, ln_moment: f64) -> f64 {
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for stretch in &self.stretches {
            let weight = (stretch.ln_density(c) - ln_moment).exp() * stretch.half;
            for loss in [stretch.loss.0, stretch.loss.1] {
                mass += weight;
                first += weight * loss;
                second += weight * loss * loss;
            }
        }
        let mean = first / mass;
        (second / mass - mean * mean).max(0.0).sqrt()
    }

    /// Returns ln of a bound on ∫ f_c beyond infinite ends that were cut.
    pub(crate) fn ln_tail(&self, c: f64) -> f64 {
        ln_add_exp(self.ln_tail_of_law(c), self.ln_masked_away(c))
    }

    /// Returns ln of a bound on ∫ f_c where the mask lets almost nothing count: its probability there,
    /// times ∫ f_c ≤ e^{c(c−1)R²/2} for c ≥ 1 and positions at most R apart.
    fn ln_masked_away(&self, c: f64) -> f64 {
        let Some(mask) = self.mask else {
            return f64::NEG_INFINITY;
        };
        let whole = 0.5 * (c * (c - 1.0)).max(0.0) * self.reach() * self.reach();
        crate::numeric::special::ln_normal_tail(mask.reach) + whole + ROOM
    }

    /// Returns the largest distance between positions of both densities.
    fn reach(&self) -> f64 {
        reach(&self.law)
    }

    fn ln_tail_of_law(&self, c: f64) -> f64 {
        if c >= 1.0 {
            return self.law.ln_moment_beyond_masked(c, self.ln_cut, self.mask);
        }
        // Hölder: ∫ p^c q^(1−c) ≤ P^c Q^(1−c).
        let (first, second) = self.law.ln_masses_beyond(self.ln_cut);
        match (c > 0.0, first.max(second) > f64::NEG_INFINITY) {
            (_, false) => f64::NEG_INFINITY,
            (true, true) => c * first + (1.0 - c) * second,
            (false, true) => second,
        }
    }
}

/// Returns the largest distance between positions of both densities of a law.
pub(crate) fn reach(law: &LossDistribution) -> f64 {
    let far = law.pieces.iter().map(|piece| {
        let (a, b) = (piece.first.range(), piece.second.range());
        a.1.max(b.1) - a.0.min(b.0)
    });
    far.fold(0.0, f64::max)
}
