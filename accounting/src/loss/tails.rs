//! Lower bounds on the probability that a step has a large loss, for events in which the losses of all
//! steps show the loss of a run.

use super::{Atom, Density, LossDistribution, Piece, Shape};
use crate::numeric::special::{ROUND, ln_add_exp};
use std::f64::consts::LN_2;

/// The most outcomes that are added up; laws with more have no such bounds.
const MOST: usize = 1 << 13;
/// The fewest and the most parts of a piece.
const PARTS: (usize, usize) = (4, 256);

/// Outcomes with a loss no less than `loss`, with both ends of ln of their P-mass.
#[derive(Debug, Clone, Copy)]
struct Cell {
    loss: f64,
    least: f64,
    most: f64,
}

impl LossDistribution {
    /// Returns ln of the P-mass of all outcomes, rounded down: zero unless masses were rounded inwards.
    pub(crate) fn ln_least_mass(&self) -> f64 {
        if !self.short {
            return 0.0;
        }
        let mut sum = self.infinite_at_least();
        for atom in self.atoms.iter() {
            let ln = atom.loss + atom.ln_second;
            let size = 16.0 + self.roundings + 8.0 * (atom.loss.abs() + atom.ln_second.abs());
            sum += (ln - ROUND * size - atom.loss_error).exp();
        }
        let count = self.atoms.len() as f64;
        // Pieces are left out, which is on the safe side.
        (sum * (1.0 - ROUND * count)).min(1.0).ln()
    }

    /// Returns losses in ascending order, each with ln of the P-mass of outcomes that lose no less,
    /// rounded down; `None` for laws with very many outcomes, or with Gaussian pieces.
    pub(crate) fn ln_tails(&self) -> Option<Vec<(f64, f64)>> {
        let parts = (MOST / (2 * self.pieces.len()).max(1)).clamp(PARTS.0, PARTS.1);
        if self.atoms.len() + parts * self.pieces.len() > MOST || self.stated.is_some() {
            return None;
        }
        let mut cells: Vec<Cell> = self
            .atoms
            .iter()
            .map(|atom| {
                let ln = atom.loss + atom.ln_second;
                let size = atom.loss.abs() + atom.ln_second.abs();
                let error = ROUND * (16.0 + self.roundings + 8.0 * size) + atom.loss_error;
                Cell {
                    loss: atom.loss - atom.loss_error,
                    least: ln - error,
                    most: ln + error,
                }
            })
            .collect();
        for piece in &self.pieces {
            cells.extend(piece.cells(parts)?);
        }
        cells.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        let room = 4.0 * ROUND * cells.len() as f64;
        let mut ln_above = self.infinite_at_least().ln();
        let mut tails: Vec<(f64, f64)> = (cells.iter().rev())
            .map(|cell| {
                ln_above = ln_add_exp(ln_above, cell.least);
                (cell.loss, ln_above - room)
            })
            .collect();
        tails.reverse();
        // For masses near one, the mass below is more accurate.
        let mut below = self.missing - self.ln_least_mass().exp_m1();
        for (tail, cell) in tails.iter_mut().zip(&cells) {
            if below < 0.5 {
                tail.1 = tail.1.max((-below * (1.0 + room)).ln_1p() - ROUND);
            }
            below += cell.most.exp();
        }
        Some(tails)
    }

    /// Returns the law without its rarest outcomes, of which both laws have at most `mass` together; `None` if none of
    /// its pieces is that rare, or if it has other than Laplace densities.
    pub(crate) fn without_rare(&self, mass: f64) -> Option<Self> {
        if self.cut.is_some() || self.stated.is_some() {
            return None;
        }
        // P- and Q-masses, rounded up; the pieces first.
        let up = |ln: f64, error: f64| match (ln + error).exp() {
            mass if mass.is_nan() => f64::INFINITY,
            mass => mass.max(f64::MIN_POSITIVE),
        };
        let of_piece = |piece: &Piece| {
            let (Shape::Laplace, Some(from), Some(to)) = (piece.shape, piece.from, piece.to) else {
                return None;
            };
            if from >= to {
                // Between kinks at −0 and 0.
                return Some([f64::MIN_POSITIVE; 2]);
            }
            Some([&piece.first, &piece.second].map(|density| {
                let (ln, error) = piece.ln_mass_between(density, from, to);
                up(ln, error)
            }))
        };
        let of_atom = |atom: Atom| {
            let size = 16.0 + self.roundings + 8.0 * (atom.loss.abs() + atom.ln_second.abs());
            let error = ROUND * size + atom.loss_error;
            Some([atom.loss + atom.ln_second, atom.ln_second].map(|ln| up(ln, error)))
        };
        let pieces = self.pieces.iter().map(of_piece);
        let masses: Vec<[f64; 2]> = pieces
            .chain(self.atoms.iter().map(of_atom))
            .collect::<Option<_>>()?;
        let mut order: Vec<usize> = (0..masses.len()).collect();
        let larger = |i: usize| masses[i][0].max(masses[i][1]);
        order.sort_by(|i, j| larger(*i).total_cmp(&larger(*j)));
        let (mut first, mut second, mut rare) = (0.0, 0.0, vec![false; masses.len()]);
        for i in order {
            let room = 1.0 + 1e-9;
            let (p, q) = (first + masses[i][0] * room, second + masses[i][1] * room);
            if p.max(q) > mass {
                break;
            }
            (first, second, rare[i]) = (p, q, true);
        }
        let (of_pieces, of_atoms) = rare.split_at(self.pieces.len());
        let is_rare = |(i, rare): (usize, &bool)| *rare && larger(i) > f64::MIN_POSITIVE;
        if !of_pieces.iter().enumerate().any(is_rare) {
            return None;
        }
        let mut law = self.clone();
        let mut flags = of_pieces.iter();
        law.pieces.retain(|_| flags.next() == Some(&false));
        let mut flags = of_atoms.iter();
        law.atoms.listed().retain(|_| flags.next() == Some(&false));
        law.missing += first;
        law.cut = Some((first, second));
        (law.comb, law.stated_loss) = (None, None);
        Some(law)
    }
}

impl Piece {
    /// Returns equal parts of an interval between neighbouring kinks, on which the loss doesn't
    /// decrease.
    fn cells(&self, parts: usize) -> Option<Vec<Cell>> {
        let (Shape::Laplace, Some(from), Some(to)) = (self.shape, self.from, self.to) else {
            return None;
        };
        let step = (to - from) / parts as f64;
        let boundaries = (0..parts).map(|i| from + step * i as f64);
        let ends = (1..parts).map(|i| from + step * i as f64).chain([to]);
        Some(
            boundaries
                .zip(ends)
                .map(|(left, right)| {
                    let point = self.point(left);
                    let (ln, error) = self.ln_mass_between(&self.first, left, right);
                    Cell {
                        loss: point.loss - 4.0 * point.error,
                        least: ln - error,
                        most: ln + error,
                    }
                })
                .collect(),
        )
    }

    /// Returns ln of the mass of either law between two points of such an interval, and a bound on its error.
    fn ln_mass_between(&self, density: &Density, left: f64, right: f64) -> (f64, f64) {
        let mut size = 0.0f64;
        let each = density.components().iter().map(|(position, ln)| {
            // Each component is an exponential here, largest at one end.
            let near = (left - position).max(position - right).max(0.0);
            let far = left.abs().max(right.abs()) + position.abs();
            size = size.max(1.0 + ln.abs() + far / (right - left).min(1.0));
            ln - LN_2 - near + (-(left - right).exp_m1()).ln()
        });
        let ln = each.fold(f64::NEG_INFINITY, ln_add_exp) + self.ln_weight;
        (
            ln,
            ROUND * (32.0 + density.roundings() + 16.0 * size + 2.0 * ln.abs()),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::loss::{Direction, Fold, Query, fold};
    use crate::{Mechanism, Neighbours, NoiseMultiplier, Sampling, SamplingRate};

    const RATE: f64 = 0.2;
    const SHIFT: f64 = 1.0 / 0.7;

    /// Density and P(X ≤ x) of Laplace noise, shifted with a chance.
    fn mixed(x: f64, rate: f64) -> (f64, f64) {
        let one = |x: f64| {
            let head = 0.5 * (-x.abs()).exp();
            (head, if x < 0.0 { head } else { 1.0 - head })
        };
        let (still, moved) = (one(x), one(x - SHIFT));
        let mix = |a: f64, b: f64| (1.0 - rate) * a + rate * b;
        (mix(still.0, moved.0), mix(still.1, moved.1))
    }

    /// Against the closed form of P(loss ≥ l): losses rise with x when the mixture comes first.
    #[test]
    fn tails_of_sampled_laplace_noise_are_those_of_the_closed_form() {
        let run = Mechanism::SubsampledLaplace {
            scale: NoiseMultiplier::new(0.7).unwrap(),
            sampling_rate: SamplingRate::new(RATE).unwrap(),
            sampling: Sampling::Poisson,
        };
        for direction in Direction::BOTH {
            let query = Query::single(Neighbours::AddRemove);
            let Fold::LossDistribution(law, _) = fold(&run, query, direction, (1, 1)).unwrap()
            else {
                panic!("a law");
            };
            let (first, second, sign) = match direction {
                Direction::Remove => (RATE, 0.0, 1.0),
                Direction::Add => (0.0, RATE, -1.0),
            };
            let loss = |x: f64| (mixed(x, first).0 / mixed(x, second).0).ln();
            let mut before = f64::NEG_INFINITY;
            for (least, ln) in law.ln_tails().unwrap() {
                // The first of equal losses has the mass of all.
                if least - before < 1e-9 {
                    continue;
                }
                before = least;
                let (mut low, mut high) = (-50.0 * sign, 50.0 * sign);
                for _ in 0..100 {
                    let middle = 0.5 * (low + high);
                    if loss(middle) >= least - 1e-12 {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
                let head = mixed(high, first).1;
                let truth = if sign > 0.0 { 1.0 - head } else { head };
                let truth = if loss(low) >= least - 1e-12 {
                    1.0
                } else {
                    truth
                };
                assert!(
                    (ln.exp() / truth - 1.0).abs() < 1e-6,
                    "{direction:?} {least} {} {truth}",
                    ln.exp()
                );
            }
        }
    }
}
