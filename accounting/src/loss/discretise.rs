//! Discretises a law into weighted nodes: Gauss–Legendre points on intervals that never cross a
//! grid line of the loss, so that sums over the nodes of a grid cell are integrals over the cell.

use super::density::Ratio;
use super::{Atom, LossDistribution, Mask, Piece, Shape};
use crate::loss::loss_grid::LossGrid;
use crate::numeric::quadrature::{Rule, rule};
use crate::numeric::special::{ROUND, ln_add_exp};
use crate::quantity::error::{Error, Result};

/// The largest width of an interval.
const WIDEST: f64 = 0.2;
/// More intervals than this plus two per cell are an error rather than a long wait.
const MOST_STRETCHES: usize = 24_000;
/// The relative error of a node's weight beyond that of the density: rule, width, quadrature.
const RULE_ERROR: f64 = 64.0 * ROUND;

/// A point mass of loss `loss` ± `loss_error` and Q-mass e^(`ln_second` ± `weight_error`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) loss: f64,
    pub(crate) ln_second: f64,
    pub(crate) loss_error: f64,
    pub(crate) weight_error: f64,
    /// Whether this is an atom of the law rather than a node of a quadrature.
    pub(crate) is_atom: bool,
    /// The node's position on the line; NaN for an atom.
    pub(crate) place: f64,
}

/// The loss at a point of a piece, with the values that nodes need.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossAtPoint {
    pub(super) loss: f64,
    pub(super) slope: f64,
    pub(super) error: f64,
    pub(super) second: Ratio,
}

impl LossDistribution {
    /// Sends every node to `sink`. The P-mass left out beyond the ends is at most the exponential
    /// of the returned logarithm, about e^`ln_cut`.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if there would be too many intervals.
    pub(crate) fn discretise(
        &self,
        ln_cut: f64,
        loss_grid: Option<&LossGrid>,
        sink: &mut dyn FnMut(Node),
    ) -> Result<f64> {
        for atom in self.atoms.iter() {
            sink(self.atom_node(&atom));
        }
        let mut dropped = f64::NEG_INFINITY;
        let mut count = 0;
        for piece in &self.pieces {
            dropped = ln_add_exp(
                dropped,
                piece.discretise(ln_cut, loss_grid, &mut count, sink)?,
            );
        }
        Ok(dropped)
    }

    fn atom_node(&self, atom: &Atom) -> Node {
        Node {
            loss: atom.loss,
            ln_second: atom.ln_second,
            loss_error: atom.loss_error,
            weight_error: ROUND * (16.0 + self.roundings + 8.0 * atom.ln_second.abs()),
            is_atom: true,
            place: f64::NAN,
        }
    }

    pub(super) fn atom_nodes(&self) -> Vec<Node> {
        let atoms = self.atoms.iter();
        atoms.map(|atom| self.atom_node(&atom)).collect()
    }
}

impl Piece {
    pub(super) fn ends(&self, ln_cut: f64) -> (f64, f64) {
        let (low, high) = self.first.range();
        let reach = self.shape.reach((ln_cut - self.ln_weight).min(-1.0));
        (
            self.from.unwrap_or(low - reach),
            self.to.unwrap_or(high + reach),
        )
    }

    /// Returns the losses at both ends.
    pub(crate) fn losses(&self, ln_cut: f64) -> (f64, f64) {
        let (from, to) = self.ends(ln_cut);
        (self.point(from).loss, self.point(to).loss)
    }

    fn discretise(
        &self,
        ln_cut: f64,
        loss_grid: Option<&LossGrid>,
        count: &mut usize,
        sink: &mut dyn FnMut(Node),
    ) -> Result<f64> {
        let (from, to) = self.ends(ln_cut);
        let ln_goal = (1e-2 * ROUND).ln()
            + loss_grid.map_or(0.0, |loss_grid| loss_grid.finest().min(1.0).ln());
        let most = MOST_STRETCHES + loss_grid.map_or(0, |loss_grid| 2 * loss_grid.bounds.len());
        let (mut left, mut hint) = (from, 0);
        let mut start = self.point(from);
        while left < to {
            *count += 1;
            if *count > most {
                return Err(Error::NotCertified {
                    what: "the grid",
                    why: "the loss of one step crosses too many grid lines".into(),
                });
            }
            let steepness = self.steepness(left);
            let widest = (left + WIDEST.min(2.0 / steepness)).min(to);
            let right = match loss_grid {
                Some(loss_grid) => {
                    // Starting on a line, search for the next one.
                    let room = 4.0 * start.error + 4.0 * ROUND * start.loss.abs();
                    let nudge = loss_grid.nudge() + room;
                    let next = loss_grid.next(start.loss + nudge, &mut hint);
                    let (x, point) = self.crossing((left, start), widest, next);
                    start = point;
                    x
                }
                None => widest,
            };
            self.nodes(left, right, steepness, ln_goal, sink)?;
            left = right;
        }
        Ok(self.ln_masses_beyond(ln_cut).0)
    }

    /// See [`LossDistribution::ln_moment_beyond`]; Laplace pieces have finite ends.
    pub(super) fn ln_moment_beyond(&self, order: f64, ln_cut: f64, mask: Option<Mask>) -> f64 {
        let (from, to) = self.ends(ln_cut);
        let range = self.first.range();
        let mut total = f64::NEG_INFINITY;
        for (end, boundary, far, sign) in [
            (self.to, to, range.1, 1.0),
            (self.from, from, range.0, -1.0),
        ] {
            let kept = mask.is_none_or(|mask| mask.keeps(boundary, sign));
            if end.is_some() || self.shape != Shape::Gaussian || !kept {
                continue;
            }
            let bound = |(position, ln_weight): &(f64, f64)| {
                let gap = far - position;
                let centre = order * far + (1.0 - order) * position;
                let plain = self.shape.ln_tail(sign * (boundary - centre));
                let tail = mask.map_or(plain, |mask| {
                    plain.min(mask.ln_beyond(boundary, sign, centre))
                });
                (1.0 - order) * ln_weight + 0.5 * order * (order - 1.0) * gap * gap + tail
            };
            let least = self
                .second
                .components()
                .iter()
                .map(bound)
                .fold(f64::INFINITY, f64::min);
            total = ln_add_exp(total, least + self.ln_weight + 1e-9);
        }
        total
    }

    /// Returns ln of the P- and of the Q-mass beyond infinite ends that were cut.
    pub(super) fn ln_masses_beyond(&self, ln_cut: f64) -> (f64, f64) {
        let (from, to) = self.ends(ln_cut);
        let of = |density: &super::Density| {
            let mut mass = f64::NEG_INFINITY;
            if self.from.is_none() {
                mass = ln_add_exp(mass, density.ln_head(self.shape, from));
            }
            if self.to.is_none() {
                mass = ln_add_exp(mass, density.ln_tail(self.shape, to));
            }
            mass + self.ln_weight + 1e-9
        };
        (of(&self.first), of(&self.second))
    }

    /// Returns the growth rate of the logarithms of both densities near x, per unit.
    fn steepness(&self, x: f64) -> f64 {
        match self.shape {
            Shape::Gaussian => {
                let ends = [self.first.range(), self.second.range()];
                let farthest = ends
                    .iter()
                    .map(|(low, high)| (x - low).abs().max((x - high).abs()))
                    .fold(0.0, f64::max);
                farthest + WIDEST
            }
            Shape::Laplace => 1.0,
        }
    }

    /// Returns an atom with the loss at x.
    pub(super) fn atom_at(&self, x: f64, ln_second: f64) -> Atom {
        let at = self.point(x);
        Atom {
            loss: at.loss,
            loss_error: 4.0 * at.error + 4.0 * ROUND * at.loss.abs(),
            ln_second,
        }
    }

    pub(super) fn point(&self, x: f64) -> LossAtPoint {
        let (first, second) = (
            self.first.ratio(self.shape, x),
            self.second.ratio(self.shape, x),
        );
        let loss = first.ln - second.ln;
        LossAtPoint {
            loss,
            slope: first.slope - second.slope,
            error: first.error + second.error + ROUND * loss.abs(),
            second,
        }
    }

    /// Returns the first point after `left` where the loss reaches `next`, or `widest`.
    fn crossing(
        &self,
        (left, start): (f64, LossAtPoint),
        widest: f64,
        next: f64,
    ) -> (f64, LossAtPoint) {
        let guess = left + (next - start.loss) / start.slope;
        if guess.is_nan() || guess >= widest {
            let end = self.point(widest);
            if end.loss <= next {
                return (widest, end);
            }
        }
        let (mut low, mut high) = (left, widest);
        let mut x = if guess > low && guess < high {
            guess
        } else {
            0.5 * (low + high)
        };
        let mut at = self.point(x);
        for _ in 0..60 {
            let gap = next - at.loss;
            if gap.abs() <= 2.0 * at.error + ROUND * next.abs() {
                break;
            }
            if gap > 0.0 {
                low = x
            } else {
                high = x
            }
            let newton = x + gap / at.slope;
            x = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            if x <= low || x >= high {
                break;
            }
            at = self.point(x);
        }
        if x > left {
            (x, at)
        } else {
            // Always advance, however flat the loss.
            let x = widest.min(left + 1e-12 * (1.0 + left.abs()));
            (x, self.point(x))
        }
    }

    fn nodes(
        &self,
        left: f64,
        right: f64,
        steepness: f64,
        ln_goal: f64,
        sink: &mut dyn FnMut(Node),
    ) -> Result<()> {
        let half = 0.5 * (right - left);
        if half <= 0.0 {
            return Ok(());
        }
        let rule = rule(half, steepness, ln_goal).ok_or_else(|| Error::NotCertified {
            what: "the grid",
            why: "the densities are too steep for the quadrature".into(),
        })?;
        self.at_rule(left, right, rule, sink)
    }

    /// Sends the nodes of `rule` between two points to `sink`.
    pub(super) fn at_rule(
        &self,
        left: f64,
        right: f64,
        rule: &Rule,
        sink: &mut dyn FnMut(Node),
    ) -> Result<()> {
        let half = 0.5 * (right - left);
        let (middle, ln_half) = (left + half, half.ln());
        for (node, weight) in &rule.nodes {
            let x = middle + half * node;
            let at = self.point(x);
            let base = self.shape.ln_base(x);
            let ln_second = base + at.second.ln + ln_half + weight.ln() + self.ln_weight;
            if !at.loss.is_finite() || ln_second.is_nan() {
                return Err(Error::NotCertified {
                    what: "the grid",
                    why: format!("the loss at {x} is not a number"),
                });
            }
            // A crossing may be off by the error of the loss there; counted twice for both ends.
            sink(Node {
                loss: at.loss,
                ln_second,
                loss_error: 4.0 * at.error + 4.0 * ROUND * at.loss.abs(),
                weight_error: at.second.error
                    + ROUND * (6.0 * base.abs() + 4.0 * ln_second.abs())
                    + RULE_ERROR,
                is_atom: false,
                place: x,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Sampling;
    use crate::{
        Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query, SamplingRate,
    };

    /// The outer atoms of sampled Laplace noise are differences of logarithms near ln ½, however
    /// small they are themselves: their true losses, ± ln(1 + q (e^(±1/b) − 1)), lie within the
    /// error that is stated.
    #[test]
    fn tiny_losses_of_atoms_lie_within_their_error() {
        for (b, q) in [
            (1.0, 1e-2),
            (1.0, 1e-6),
            (20.0, 1e-3),
            (0.3, 1e-9),
            (300.0, 1e-7),
        ] {
            let run = Mechanism::SubsampledLaplace {
                scale: NoiseMultiplier::new(b).unwrap(),
                sampling_rate: SamplingRate::new(q).unwrap(),
                sampling: Sampling::Poisson,
            };
            let query = Query::single(Neighbours::AddRemove);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let mut seen = 0;
            for (law, _) in &loss.laws {
                let mut check = |node: Node| {
                    if node.is_atom {
                        seen += 1;
                        let (far, near) = ((1.0f64 / b).exp_m1(), (-1.0f64 / b).exp_m1());
                        let truths = [(q * far).ln_1p(), (q * near).ln_1p()];
                        let off = |t: &f64| (node.loss - t).abs();
                        let off = truths.iter().map(off).fold(f64::INFINITY, f64::min);
                        assert!(
                            off <= node.loss_error,
                            "b {b} q {q}: {off} {}",
                            node.loss_error
                        );
                    }
                };
                law.discretise(-60.0, None, &mut check).unwrap();
            }
            assert!(seen >= 2, "b {b} q {q}: {seen} atoms");
        }
    }
}
