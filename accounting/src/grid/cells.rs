//! One step's law moved to grid lines, so that the new pair dominates the law (above) or is
//! dominated by it (below).
//!
//! Above: a cell's mass goes to both its ends with its P- and Q-mass kept, a spread of the
//! likelihood ratio (connect the dots). Below: mass on both sides of a line is merged so that the
//! merged ratio is the line's, which is post-processing; what finds no partner goes to the line
//! below with its P-mass kept and its Q-mass raised. Both err by the square of the spacing.

use super::merge::{Cell, Merger};
use super::ruler::{Lines, Ruler};
use crate::error::{Error, Result};
use crate::law::{Law, Node};
use crate::special::{ROUND, ln_add_exp};

/// How far a law's mass may be from one: sums of millions of terms.
const MASS_ERROR: f64 = 1e-9;
/// With more atoms than this the rarest are left out.
const MANY: usize = 1 << 14;
/// Relative rounding of what is done with a node's weight.
const CELL_ERROR: f64 = 32.0 * ROUND;

/// A measure on grid lines: Q-mass e^w at some lines, P-mass e^loss times that.
#[derive(Debug, Clone)]
pub(crate) struct Lattice {
    pub(crate) lines: Lines,
    /// Indices of lines with w, ascending; a line may come twice.
    pub(crate) weights: Vec<(i64, f64)>,
    /// P-mass of infinite loss.
    pub(crate) infinite: f64,
    /// How far at most an atom's loss lies from the line that it was put on.
    pub(crate) nudge: f64,
}

/// The law from above and from below.
#[derive(Debug, Clone)]
pub(crate) struct Brackets {
    pub(crate) above: Lattice,
    pub(crate) below: Lattice,
}

/// The cells between a ruler's bounds, and what lies on lines already.
struct Cells<'r> {
    ruler: &'r Ruler,
    cells: Vec<Cell>,
    /// Q-mass of atoms on lines, as logarithms.
    on_lines: Vec<(i64, f64)>,
    nudge: f64,
}

impl Law {
    /// Smallest and largest loss among the nodes.
    pub(crate) fn loss_range(&self, ln_cut: f64) -> (f64, f64) {
        let ends = self.pieces.iter().map(|piece| piece.losses(ln_cut));
        let atoms = self.atoms.iter().map(|atom| (atom.loss, atom.loss));
        ends.chain(atoms)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |range, ends| {
                (range.0.min(ends.0), range.1.max(ends.1))
            })
    }

    /// The law in the cells of `ruler`, from above and from below; P-mass up to about e^`ln_cut`
    /// beyond the ends counts as infinite loss above and as nothing below. Atoms no farther than
    /// `slack` from a line are put on it.
    ///
    /// # Errors
    /// [`crate::Error::NotCertified`] when there would be too many nodes.
    pub(crate) fn brackets(&self, ruler: &Ruler, ln_cut: f64, slack: f64) -> Result<Brackets> {
        let cells = || Cells::new(ruler, self.atoms.len());
        let (mut above, mut below) = (cells(), cells());
        let mut near = 0;
        // Of very many atoms those left out are like the tails of a density.
        let rare = ln_cut - (self.atoms.len() as f64).ln();
        let (many, mut left_out) = (self.atoms.len() > MANY, None);
        let dropped = self.spread(ln_cut, Some(ruler), &mut |node: Node| {
            let ln_first = node.ln_second + node.loss;
            if many && node.is_atom && ln_first < rare {
                *left_out.get_or_insert(0.0) += (ln_first - rare).exp();
                return;
            }
            if node.is_atom {
                let settled = above.settle(&node, node.weight_error, slack)
                    && below.settle(&node, -node.weight_error, slack);
                if settled {
                    return;
                }
            }
            near = ruler.cell_of(node.loss, near);
            let error = node.loss_error + ruler.line_error(near);
            above.add(node.loss + error, node.ln_second + node.weight_error, near);
            below.add(node.loss - error, node.ln_second - node.weight_error, near);
        })?;
        // Their errors are small beside the room that `rare` leaves.
        let dropped = left_out.map_or(dropped, |sum: f64| {
            ln_add_exp(dropped, rare + (sum + ROUND).ln() + MASS_ERROR)
        });
        let tails = if dropped == f64::NEG_INFINITY {
            0.0
        } else {
            (dropped.exp() * (1.0 + 1e-9)).max(f64::MIN_POSITIVE)
        };
        let brackets = Brackets {
            above: above.spread_apart(self.infinite + self.missing + tails),
            below: below.merged(self.infinite_at_least()),
        };
        // Nothing may have been lost above, nor found below, whatever the reason.
        let mass = |side: &Lattice| side.moment(1.0).0.exp() + side.infinite;
        let allowed = MASS_ERROR + 2.0 * brackets.above.nudge;
        let kept = mass(&brackets.above) >= 1.0 - allowed;
        if kept && mass(&brackets.below) <= 1.0 + allowed {
            Ok(brackets)
        } else {
            Err(Error::NotCertified {
                what: "the grid",
                why: "the law's mass was not kept".into(),
            })
        }
    }
}

impl<'r> Cells<'r> {
    /// No cells yet, and room for so many atoms.
    fn new(ruler: &'r Ruler, atoms: usize) -> Self {
        Self {
            ruler,
            cells: vec![Cell::EMPTY; ruler.bounds.len().saturating_sub(1)],
            on_lines: Vec::with_capacity(atoms),
            nudge: 0.0,
        }
    }

    fn width(&self, cell: usize) -> f64 {
        (self.ruler.bounds[cell + 1] - self.ruler.bounds[cell]) as f64 * self.ruler.lines.spacing
    }

    /// Into the cell of `loss`, which is close to the cell `near`.
    fn add(&mut self, loss: f64, ln_mass: f64, near: usize) {
        if ln_mass == f64::NEG_INFINITY {
            return;
        }
        let lines = self.ruler.lines;
        let cell = self.ruler.cell_of(loss, near);
        let width = self.width(cell);
        let t = (loss - lines.at(self.ruler.bounds[cell])).clamp(0.0, width);
        self.cells[cell].add(ln_mass, t, width);
    }

    /// Puts an atom on the line it lies on, up to rounding or `slack`; `false` when there is none.
    fn settle(&mut self, atom: &Node, error: f64, slack: f64) -> bool {
        let Some((index, off)) = self.ruler.lines.nearest(atom.loss, slack) else {
            return false;
        };
        self.on_lines.push((index, atom.ln_second + error));
        self.nudge = self.nudge.max(off + atom.loss_error);
        true
    }

    fn lattice(self, mut cells: Vec<(i64, f64)>, infinite: f64) -> Lattice {
        let mut weights = self.on_lines;
        weights.append(&mut cells);
        weights.retain(|(_, w)| *w > f64::NEG_INFINITY);
        weights.sort_unstable_by_key(|(index, _)| *index);
        Lattice {
            lines: self.ruler.lines,
            weights,
            infinite,
            nudge: self.nudge,
        }
    }

    /// Each cell to both its ends.
    fn spread_apart(self, infinite: f64) -> Lattice {
        let mut weights: Vec<(i64, f64)> = (self.ruler.bounds.iter())
            .map(|bound| (*bound, f64::NEG_INFINITY))
            .collect();
        for (i, cell) in self.cells.iter().enumerate() {
            if cell.mass <= 0.0 {
                continue;
            }
            let whole = self.width(i).exp_m1();
            let to = |part: f64| cell.scale + (part / whole).ln() + CELL_ERROR;
            weights[i].1 = ln_add_exp(weights[i].1, to(cell.fall));
            weights[i + 1].1 = ln_add_exp(weights[i + 1].1, to(cell.rise));
        }
        self.lattice(weights, infinite)
    }

    /// Both sides of each bound merged as far as they balance.
    fn merged(self, infinite: f64) -> Lattice {
        let widths: Vec<f64> = (0..self.cells.len()).map(|i| self.width(i)).collect();
        let masses = Merger::new(&self.cells, &widths).masses();
        let weights = (self.ruler.bounds.iter())
            .zip(masses)
            .map(|(bound, ln)| (*bound, ln - CELL_ERROR));
        self.lattice(weights.collect(), infinite)
    }
}

impl Lattice {
    /// K(θ) = ln Σ e^{w + θv} and K'(θ).
    pub(crate) fn moment(&self, theta: f64) -> (f64, f64) {
        let exponent = |(index, w): &(i64, f64)| w + theta * self.lines.at(*index);
        let top = self
            .weights
            .iter()
            .map(exponent)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut first) = (0.0, 0.0);
        for weight in &self.weights {
            let term = (exponent(weight) - top).exp();
            sum += term;
            first += term * self.lines.at(weight.0);
        }
        (top + f64::ln(sum), first / sum)
    }
}
