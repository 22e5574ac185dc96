//! One step of any mechanism as two laws on the line, which the grid engine integrates.
//!
//! A [`LossDistribution`] is a dominating pair (P, Q) cut into [`Piece`]s, on which both laws have densities
//! that are sums of Gaussians or of exponentials, and [`Atom`]s. Pieces and atoms are disjoint outcomes, so
//! a law that first tells the adversary which of several pairs applies (truncated batches) is the weighted
//! union of their pieces.

mod allocation;
mod atoms;
mod binomial;
mod closed;
mod counted;
mod density;
mod discrete;
mod discretise;
mod gaussian;
mod integer_noise;
mod listed;
pub(crate) mod loss_grid;
mod mechanisms;
mod mixture;
mod overlap;
mod privacy_loss;
mod sampling;
pub(crate) mod stated;
mod stretches;
mod tails;

pub(crate) use atoms::{Atoms, WholeNumbers};
pub(crate) use closed::{range_divergence, range_moment};
pub(crate) use counted::CountedLoss;
pub(crate) use density::{Density, Shape};
pub(crate) use discretise::Node;
pub(crate) use gaussian::ln_blow_up_of_gaussian;
pub(crate) use mechanisms::{Fold, fold};
pub use mixture::{Mixture, Pair};
pub(crate) use overlap::Overlap;
pub use privacy_loss::{Direction, PrivacyLoss, Query, losses};
pub(crate) use privacy_loss::{product_of, sum_of_squares};
pub(crate) use stated::Stated;
pub(crate) use stretches::{Mask, Served, Stretch};

use crate::numeric::special::{ROUND, ln_add_exp};

/// The most atoms to which a grid's spacing is fitted.
pub(crate) const MOST_GAPS: usize = 8;

/// An interval of the line on which the loss doesn't decrease.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) shape: Shape,
    /// The left end; `None` is −∞.
    pub(crate) from: Option<f64>,
    /// The right end; `None` is +∞.
    pub(crate) to: Option<f64>,
    pub(crate) first: Density,
    pub(crate) second: Density,
    /// ln of a factor on both densities.
    pub(crate) ln_weight: f64,
}

/// An outcome of loss `loss` and Q-mass e^`ln_second`; its P-mass is e^loss times that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Atom {
    pub(crate) loss: f64,
    /// A bound on the distance of the loss from its true value.
    pub(crate) loss_error: f64,
    pub(crate) ln_second: f64,
}

impl Atom {
    /// Creates an atom whose loss is known to a few roundings.
    fn new(loss: f64, ln_second: f64) -> Self {
        Self {
            loss,
            loss_error: 8.0 * ROUND * loss.abs(),
            ln_second,
        }
    }
}

/// The compositions for which some mechanism of the law's kind attains the law's own δ(ε), so that lower
/// ends are meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attained {
    /// None: the pair is only a bound.
    Never,
    /// One step: each ε is attained by its own instance.
    OneStep,
    /// Any composition.
    Always,
}

/// A comb that contains all losses of the atoms: origin + i·spacing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comb {
    pub(crate) origin: f64,
    pub(crate) spacing: f64,
}

impl Comb {
    /// Returns whether `lines` are the lines of this comb.
    pub(crate) const fn is(self, lines: loss_grid::Lines) -> bool {
        self.origin.to_bits() == lines.origin.to_bits()
            && self.spacing.to_bits() == lines.spacing.to_bits()
    }
}

/// One step's dominating pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LossDistribution {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) atoms: Atoms,
    /// The P-mass where Q has none.
    pub(crate) infinite: f64,
    /// The P-mass that was left out: for upper ends its loss is infinite, for lower ends it is absent.
    pub(crate) missing: f64,
    /// The comb of the atoms, if there is nothing else.
    pub(crate) comb: Option<Comb>,
    pub(crate) attained: Attained,
    /// (s/σ)² of a discrete Gaussian: K(c) ≤ v c(c − 1)/2 for c ≥ 1.
    pub(crate) variance: Option<f64>,
    /// ε, if each mechanism that the law bounds has two outcomes, of loss t and t − ε.
    pub(crate) range: Option<f64>,
    /// The largest finite loss, if it was stated and is therefore exact.
    pub(crate) stated_loss: Option<f64>,
    /// P- and Q-mass of the outcomes that were cut off a pair; the first is included in the missing mass.
    pub(crate) cut: Option<(f64, f64)>,
    /// Additional rounding errors in the masses of atoms.
    pub(crate) roundings: f64,
    /// Whether masses were rounded inwards, so that they add up to less than one.
    pub(crate) short: bool,
    /// All that is known about a step without a law. Its whole mass counts as missing.
    pub(crate) stated: Option<Stated>,
}

impl LossDistribution {
    /// Creates a law that consists of atoms only.
    pub(crate) fn of_atoms(atoms: impl Into<Atoms>, comb: Option<Comb>) -> Self {
        Self {
            pieces: Vec::new(),
            atoms: atoms.into(),
            infinite: 0.0,
            missing: 0.0,
            comb,
            attained: Attained::Always,
            variance: None,
            range: None,
            stated_loss: None,
            cut: None,
            roundings: 0.0,
            short: false,
            stated: None,
        }
    }

    /// Creates the law of a pair of Gaussian mixtures.
    pub(crate) fn of_pair(pair: &Pair) -> Self {
        Self {
            pieces: vec![Piece {
                shape: Shape::Gaussian,
                from: None,
                to: None,
                first: Density::of_mixture(&pair.first, 1.0),
                second: Density::of_mixture(&pair.second, -1.0),
                ln_weight: 0.0,
            }],
            missing: pair.first.missing(),
            ..Self::of_atoms(Atoms::default(), None)
        }
    }

    /// Creates the law of a pair of Gaussian mixtures without the outcomes below `start` and beyond `end`.
    pub(crate) fn of_pair_within(pair: &Pair, start: Option<f64>, end: f64) -> Self {
        let mut law = Self::of_pair(pair);
        for piece in &mut law.pieces {
            (piece.from, piece.to) = (start, Some(end));
            piece.first = piece.first.within(start, Some(end));
            piece.second = piece.second.within(start, Some(end));
        }
        let above = |tails: [(f64, f64); 2]| tails.map(|(ln, error)| (ln + error).exp());
        let beyond = above(pair.ln_tails(end));
        let below = start.map_or([0.0; 2], |start| above(pair.ln_tails_below(start)));
        let [first, second] = [beyond[0] + below[0], beyond[1] + below[1]];
        law.missing += first;
        law.cut = Some((first, second));
        law
    }

    /// Returns the supremum of the loss where both laws have mass, rounded up; infinite if one law reaches
    /// farther than the other.
    pub(crate) fn largest_loss(&self) -> f64 {
        if self.infinite > 0.0 || self.missing > 0.0 {
            return f64::INFINITY;
        }
        self.largest_finite_loss()
    }

    /// Returns the same without the outcomes that only the first law has, and without what was left out.
    pub(crate) fn largest_finite_loss(&self) -> f64 {
        if let Some(stated) = self.stated_loss {
            return stated;
        }
        let pieces = self.pieces.iter().map(|piece| match piece.to {
            Some(_) => piece.losses(-1.0).1,
            None => f64::INFINITY,
        });
        let atoms = self.atoms.iter().map(|atom| atom.loss);
        let most = pieces.chain(atoms).fold(f64::NEG_INFINITY, f64::max);
        most + 1e-13 * most.abs()
    }

    /// Returns whether both laws have exactly mass one where the loss is finite. Laws that are only bounds
    /// are rounded outwards, and so are their masses. What was cut off a pair counts as an error.
    pub(crate) fn is_whole(&self) -> bool {
        let exact = self.attained == Attained::Always && !self.pieces.is_empty();
        let taken = self.cut.map_or(0.0, |(first, _)| first);
        exact && self.infinite <= 0.0 && self.missing <= taken
    }

    /// Returns an `ln_cut` at which cut tails matter little to the moment of order c.
    pub(crate) fn cut_for(&self, order: f64) -> f64 {
        // Under e^{cL}, a Gaussian piece moves by (c − 1) times the distance of its laws.
        let farthest = self
            .pieces
            .iter()
            .filter(|piece| piece.to.is_none() || piece.from.is_none());
        let moved = farthest
            .map(|piece| (order - 1.0) * (piece.first.range().1 - piece.second.range().0))
            .fold(0.0, f64::max);
        -0.5 * (moved + 14.0).powi(2)
    }

    /// Returns ln of a bound on E_Q e^{cL} beyond infinite ends that were cut at `ln_cut`.
    ///
    /// To the right P ≤ N(κ) for its largest κ, and Q ≥ w N(κ') for each component, so that P^c Q^{1−c} ≤
    /// w^{1−c} e^{c(c−1)(κ−κ')²/2} N(cκ + (1−c)κ'); to the left likewise.
    pub(crate) fn ln_moment_beyond(&self, order: f64, ln_cut: f64) -> f64 {
        self.ln_moment_beyond_masked(order, ln_cut, None)
    }

    /// Returns the same for the outcomes that a mask lets count, except where the mask keeps nothing.
    pub(crate) fn ln_moment_beyond_masked(
        &self,
        order: f64,
        ln_cut: f64,
        mask: Option<Mask>,
    ) -> f64 {
        let pieces = self
            .pieces
            .iter()
            .map(|piece| piece.ln_moment_beyond(order, ln_cut, mask));
        pieces.fold(f64::NEG_INFINITY, ln_add_exp)
    }

    /// Returns ln of the P- and of the Q-mass beyond infinite ends that were cut at `ln_cut`.
    pub(crate) fn ln_masses_beyond(&self, ln_cut: f64) -> (f64, f64) {
        let none = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let masses = self
            .pieces
            .iter()
            .map(|piece| piece.ln_masses_beyond(ln_cut));
        masses.fold(none, |sum, each| {
            (ln_add_exp(sum.0, each.0), ln_add_exp(sum.1, each.1))
        })
    }

    /// Returns the largest number of components of the densities of a piece, first and second together.
    pub(crate) fn components(&self) -> usize {
        let of = |piece: &Piece| piece.first.components().len() + piece.second.components().len();
        self.pieces.iter().map(of).max().unwrap_or(0)
    }

    /// Returns a loss that lines of this spacing should meet: the comb's origin if all its losses are on lines then, or
    /// the loss of the heavy atom from which the other heavy atoms, weighted by the tilt θ, lie on lines or the least
    /// above them. For lower ends, an atom just below a line falls by a whole spacing, and one just above a line by
    /// almost nothing.
    pub(crate) fn atom_origin(&self, theta: f64, spacing: f64) -> f64 {
        if let Some(comb) = self.comb {
            let lines = comb.spacing / spacing;
            if lines.to_bits() == lines.round().to_bits() {
                return comb.origin;
            }
        }
        let heavy = self.heaviest(MOST_GAPS + 1);
        let exponent = |atom: &Atom| atom.ln_second + theta * atom.loss;
        let top = heavy.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let fall = |origin: f64| {
            let of = |atom: &Atom| {
                let lines = (atom.loss - origin) / spacing;
                let above = lines - lines.floor();
                (exponent(atom) - top).exp() * if above > 1.0 - 1e-9 { 0.0 } else { above }
            };
            heavy.iter().map(of).sum::<f64>()
        };
        let origins = heavy.iter().map(|atom| atom.loss);
        origins
            .min_by(|a, b| fall(*a).total_cmp(&fall(*b)))
            .unwrap_or(0.0)
    }

    /// Returns distances that grid lines should divide, each with the number of times that it occurs: the comb's spacing,
    /// or the distances of the heaviest atoms from the heaviest one.
    pub(crate) fn atom_gaps(&self) -> Vec<(f64, f64)> {
        if let Some(comb) = self.comb {
            return vec![(
                comb.spacing,
                self.atoms.len().saturating_sub(1).max(1) as f64,
            )];
        }
        let heavy = self.heaviest(MOST_GAPS);
        let origin = heavy.first().map_or(0.0, |atom| atom.loss);
        let gaps = heavy.iter().map(|atom| (atom.loss - origin).abs());
        gaps.filter(|gap| *gap > 0.0)
            .map(|gap| (gap, 1.0))
            .collect()
    }

    /// Returns so many atoms in descending order of the larger of their two masses; the first of equal ones come first.
    fn heaviest(&self, count: usize) -> Vec<Atom> {
        let weight = |atom: &Atom| atom.ln_second.max(atom.ln_second + atom.loss);
        let mut heavy: Vec<(f64, Atom)> = Vec::with_capacity(count + 1);
        for atom in self.atoms.iter() {
            let own = weight(&atom);
            let place = heavy.partition_point(|(other, _)| other.total_cmp(&own).is_ge());
            if place < count {
                heavy.truncate(count - 1);
                heavy.insert(place, (own, atom));
            }
        }
        heavy.into_iter().map(|(_, atom)| atom).collect()
    }

    /// Returns this law with probability e^`ln_weight`, known to the adversary; the rest of the probability
    /// belongs to another law.
    pub(crate) fn scaled(mut self, ln_weight: f64) -> Self {
        if ln_weight == f64::NEG_INFINITY {
            self.pieces.clear();
            self.atoms = Atoms::default();
        }
        for piece in &mut self.pieces {
            piece.ln_weight += ln_weight;
        }
        for atom in self.atoms.listed() {
            atom.ln_second += ln_weight;
        }
        self.infinite *= ln_weight.exp();
        self.stated_loss = None;
        self.variance = None;
        self.range = None;
        self.cut = None;
        self.missing *= ln_weight.exp();
        self.comb = None;
        self
    }

    /// Returns the infinite mass for lower ends; the mass was rounded up when the law was made.
    pub(crate) fn infinite_at_least(&self) -> f64 {
        self.infinite * (1.0 - 1e-12)
    }

    /// Returns the disjoint union with another law.
    pub(crate) fn joined(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        self.atoms.listed().extend(other.atoms.iter());
        self.roundings = self.roundings.max(other.roundings);
        self.infinite += other.infinite;
        self.short |= other.short;
        self.variance = None;
        self.range = None;
        self.stated_loss = None;
        self.cut = None;
        self.missing += other.missing;
        self.comb = None;
        self.attained = self.attained.min(other.attained);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sorting all of them does, equal ones in their order.
    #[test]
    fn the_heaviest_atoms_come_in_their_order() {
        let atoms: Vec<Atom> = (0..200)
            .map(|i| {
                Atom::new(
                    f64::from(i),
                    -f64::from(i * 37 % 61) - f64::from(i % 2) * 5.0,
                )
            })
            .collect();
        let weight = |atom: &Atom| atom.ln_second.max(atom.ln_second + atom.loss);
        let mut sorted = atoms.clone();
        sorted.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let law = LossDistribution::of_atoms(atoms, None);
        for count in [1, 2, 9, 200, 300] {
            let all = law.heaviest(count);
            assert_eq!(all, sorted[..count.min(200)]);
        }
    }
}
