//! Steps of any law along the contour: nodes on intervals ("stretches") of its pieces, its atoms, and the
//! decay of its characteristic function.
//!
//! K(s) = ln(Σ_atoms + ∫ p^s q^(1−s)). The quadrature's error is a small share of the integral of the
//! modulus, for any order up to the one that the nodes were made for. Atoms don't decay: |φ| is at most
//! their share plus what the densities leave. This module is therefore for many steps with little mass in
//! atoms, or for steps next to others that decay. The grid handles the rest.

use super::nodes::Nodes;
use crate::loss::{LossDistribution, Mask, Pair, Served, Stretch};
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
    /// See [`Served::event`].
    event: Option<[f64; 2]>,
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

    /// As [`LossPartition::new`], but not for orders between 0 and 1, for pairs of Gaussian mixtures whose components
    /// lie so far apart that equally spaced nodes, as close as the closest singularity requires, would be too many.
    pub(crate) fn of_far_components(
        pair: &Pair,
        order: f64,
        turn: f64,
        ln_error: f64,
    ) -> Result<(Self, Nodes)> {
        let law = LossDistribution::of_pair(pair);
        let event = heavy_event(pair, order);
        Self::all(&law, (order, turn), ln_error, (None, Some(event)))
    }

    /// As [`LossPartition::new`], for the outcomes that a mask lets count, each with its probability.
    pub(crate) fn masked(
        law: &LossDistribution,
        (order, turn): (f64, f64),
        ln_error: f64,
        mask: Option<Mask>,
    ) -> Result<(Self, Nodes)> {
        Self::all(law, (order, turn), ln_error, (mask, None))
    }

    fn all(
        law: &LossDistribution,
        (order, turn): (f64, f64),
        ln_error: f64,
        (mask, event): (Option<Mask>, Option<[f64; 2]>),
    ) -> Result<(Self, Nodes)> {
        if law.atoms.len() > MOST_ATOMS {
            return Err(Error::NotCertified {
                what: "the moments",
                why: "a step has too many outcomes".into(),
            });
        }
        let ln_cut = law.cut_for(order).min(2.0 * ln_error).max(LN_NOTHING);
        // Ends lie beyond the first law, and have to lie beyond the second one too.
        let ln_cut = event.map_or(ln_cut, |_| {
            let reach = (-2.0 * ln_cut).sqrt() + self::reach(law);
            -0.5 * reach * reach
        });
        // What is missing from a mixture is known.
        let complete = event.is_some() || law.is_whole() && mask.is_none();
        let served = Served {
            mask,
            event,
            order: order.max(1.0),
            turn,
            ln_goal: ln_error,
            ln_cut,
        };
        let (all, stretches) = law.serving(served)?;
        let missing = event.map_or(0.0, |_| law.missing);
        let nodes = Nodes::of_law(&all, complete, missing);
        let partition = Self {
            law: law.clone(),
            atoms: law.atoms.len(),
            stretches,
            ln_error,
            ln_cut: served.ln_cut,
            complete,
            mask,
            event,
        };
        Ok((partition, nodes))
    }

    /// Creates the same for one order and imaginary parts up to `turn`.
    pub(crate) fn along(&self, order: f64, turn: f64, ln_error: f64) -> Result<(Self, Nodes)> {
        Self::all(&self.law, (order, turn), ln_error, (None, self.event))
    }

    /// Returns ln of a bound on the error of Σ for ∫ f_c, with e^`ln_moment` its value.
    pub(crate) fn ln_error(&self, c: f64, ln_moment: f64) -> f64 {
        if !self.serves(c) {
            return f64::INFINITY;
        }
        ln_add_exp(self.ln_error + ln_moment, self.ln_tail(c))
    }

    /// Returns whether the nodes serve order c.
    pub(crate) fn serves(&self, c: f64) -> bool {
        self.event.is_none() || c <= 0.0 || c >= 1.0
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

/// Returns ln of lower ends of the P- and of the Q-mass of an event that the law tilted to `order` makes likely: beyond
/// the position of one of the components.
fn heavy_event(pair: &Pair, order: f64) -> [f64; 2] {
    let places = pair.first.components().map(|(position, _)| position);
    let own = pair.second.components().map(|(position, _)| -position);
    let of = |place: f64| {
        let [(p, p_error), (q, q_error)] = pair.ln_tails(place);
        // The exponent of Q is negative at c > 1.
        [p - p_error, q + q_error]
    };
    let least = |event: &[f64; 2]| order * event[0] + (1.0 - order) * event[1] + event[0];
    let finite = |event: &[f64; 2]| event.iter().all(|ln| ln.is_finite());
    let events = places.chain(own).map(of).filter(finite);
    let best = events.max_by(|a, b| least(a).total_cmp(&least(b)));
    // Otherwise, everything.
    best.unwrap_or([(-pair.first.missing()).ln_1p(), 0.0])
}

/// Returns the largest distance between positions of both densities of a law.
pub(crate) fn reach(law: &LossDistribution) -> f64 {
    let far = law.pieces.iter().map(|piece| {
        let (a, b) = (piece.first.range(), piece.second.range());
        a.1.max(b.1) - a.0.min(b.0)
    });
    far.fold(0.0, f64::max)
}
