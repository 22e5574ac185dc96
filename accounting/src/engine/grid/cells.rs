//! Moves one step's law to grid lines, so that the new pair dominates the law (above) or is dominated by
//! it (below).
//!
//! Above: a cell's mass goes to both its ends with its P- and Q-mass preserved, which spreads the
//! likelihood ratio (connect the dots). Below: mass on both sides of a line is merged so that the merged
//! ratio is the line's, which is post-processing; mass without a partner goes to the line below with its
//! P-mass preserved and its Q-mass raised. The errors of both are of the order of the squared spacing.

use super::merge::{Cell, Merger};
use crate::loss::loss_grid::{Lines, LossGrid};
use crate::loss::{Attained, LossDistribution, Node};
use crate::numeric::special::{ROUND, ln_add_exp};
use crate::quantity::error::{Error, Result};

/// The largest deviation of a law's mass from one: sums of millions of terms.
const MASS_ERROR: f64 = 1e-9;
/// With more atoms than this, the rarest are left out.
const MANY: usize = 1 << 14;
/// The relative rounding error of a comb's origin and spacing.
const COMB: f64 = 8.0 * ROUND;
/// The relative rounding error of operations on a node's weight.
const CELL_ERROR: f64 = 32.0 * ROUND;

/// A measure on grid lines: Q-mass e^w at some lines, and P-mass e^loss times that.
#[derive(Debug, Clone)]
pub(crate) struct Lattice {
    pub(crate) lines: Lines,
    /// Indices of lines with w, ascending; a line may occur twice.
    pub(crate) weights: Vec<(i64, f64)>,
    /// P-mass of infinite loss.
    pub(crate) infinite: f64,
    /// The largest distance of an atom's loss from its line, except for the lines' own `stretch`.
    pub(crate) nudge: f64,
    /// The relative difference between the spacing and that of the comb of losses it represents.
    pub(crate) stretch: f64,
}

/// The law from above and from below.
#[derive(Debug, Clone)]
pub(crate) struct Brackets {
    pub(crate) above: Lattice,
    pub(crate) below: Lattice,
}

/// The cells between a grid's bounds, and the atoms that lie on lines already.
struct Cells<'r> {
    loss_grid: &'r LossGrid,
    /// 1 for cells from above, −1 for those from below.
    sign: f64,
    cells: Vec<Cell>,
    /// Q-mass of atoms on lines, as logarithms.
    on_lines: Vec<(i64, f64)>,
    nudge: f64,
    /// Whether the lines are those of the law's own comb.
    comb: bool,
    stretch: f64,
}

impl LossDistribution {
    /// Returns the smallest and the largest loss among the nodes.
    pub(crate) fn loss_range(&self, ln_cut: f64) -> (f64, f64) {
        let ends = self.pieces.iter().map(|piece| piece.losses(ln_cut));
        let atoms = self.atoms.iter().map(|atom| (atom.loss, atom.loss));
        ends.chain(atoms)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |range, ends| {
                (range.0.min(ends.0), range.1.max(ends.1))
            })
    }

    /// Returns the law in the cells of `loss_grid`, from above and from below. P-mass up to about
    /// e^`ln_cut` beyond the ends counts as infinite loss above and as nothing below. Atoms no farther
    /// than `slack` from a line are put on it.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if there would be too many nodes.
    pub(crate) fn brackets(
        &self,
        loss_grid: &LossGrid,
        ln_cut: f64,
        slack: f64,
    ) -> Result<Brackets> {
        let ([above, below], left_out) = self.gathered([1.0, -1.0], loss_grid, ln_cut, slack)?;
        Ok(Brackets {
            above: self.laid_above(above, left_out)?,
            below: self.laid_below(below)?,
        })
    }

    /// Returns the law of [`LossDistribution::brackets`] from above alone.
    ///
    /// # Errors
    /// As [`LossDistribution::brackets`].
    pub(crate) fn bracket_above(
        &self,
        loss_grid: &LossGrid,
        ln_cut: f64,
        slack: f64,
    ) -> Result<Lattice> {
        let ([above], left_out) = self.gathered([1.0], loss_grid, ln_cut, slack)?;
        self.laid_above(above, left_out)
    }

    /// Returns the law of [`LossDistribution::brackets`] from below alone.
    ///
    /// # Errors
    /// As [`LossDistribution::brackets`].
    pub(crate) fn bracket_below(
        &self,
        loss_grid: &LossGrid,
        ln_cut: f64,
        slack: f64,
    ) -> Result<Lattice> {
        let ([below], _) = self.gathered([-1.0], loss_grid, ln_cut, slack)?;
        self.laid_below(below)
    }

    /// Returns whether there are so many atoms that both sides at once take too much memory.
    pub(crate) fn has_many_atoms(&self) -> bool {
        self.atoms.len() > MANY
    }

    /// Returns cells for each sign, with every error on its side, and ln of a bound on the P-mass that
    /// isn't in any of them.
    fn gathered<'r, const N: usize>(
        &self,
        signs: [f64; N],
        loss_grid: &'r LossGrid,
        ln_cut: f64,
        slack: f64,
    ) -> Result<([Cells<'r>; N], f64)> {
        // Laws that are only bounds have their own combs.
        let exact = self.attained == Attained::Always;
        let comb = exact && self.comb.is_some_and(|comb| comb.is(loss_grid.lines));
        let mut all = signs.map(|sign| Cells::new(loss_grid, sign, comb));
        let mut near = 0;
        // If there are very many atoms, those left out are treated like the tails of a density.
        let rare = ln_cut - (self.atoms.len() as f64).ln();
        let (many, mut left_out) = (self.has_many_atoms(), None);
        let dropped = self.discretise(ln_cut, Some(loss_grid), &mut |node: Node| {
            let ln_first = node.ln_second + node.loss;
            if many && node.is_atom && ln_first < rare {
                *left_out.get_or_insert(0.0) += (ln_first - rare).exp();
                return;
            }
            if node.is_atom
                && all
                    .iter_mut()
                    .all(|cells| cells.put_on_a_line(&node, slack))
            {
                return;
            }
            near = loss_grid.cell_of(node.loss, near);
            for cells in &mut all {
                cells.add(&node, near);
            }
        })?;
        // Their errors are small compared with the room that `rare` leaves.
        let dropped = left_out.map_or(dropped, |sum: f64| {
            ln_add_exp(dropped, rare + (sum + ROUND).ln() + MASS_ERROR)
        });
        Ok((all, dropped))
    }

    fn laid_above(&self, cells: Cells<'_>, left_out: f64) -> Result<Lattice> {
        let tails = if left_out == f64::NEG_INFINITY {
            0.0
        } else {
            (left_out.exp() * (1.0 + 1e-9)).max(f64::MIN_POSITIVE)
        };
        let above = cells.spread_apart(self.infinite + self.missing + tails);
        // No mass may have been lost, for whatever reason.
        if above.whole() >= 1.0 - above.allowed() {
            Ok(above)
        } else {
            Err(not_kept())
        }
    }

    fn laid_below(&self, cells: Cells<'_>) -> Result<Lattice> {
        let below = cells.merged(self.infinite_at_least());
        // No mass may have been gained.
        if below.whole() <= 1.0 + below.allowed() {
            Ok(below)
        } else {
            Err(not_kept())
        }
    }
}

fn not_kept() -> Error {
    Error::NotCertified {
        what: "the grid",
        why: "the law's mass was not kept".into(),
    }
}

impl<'r> Cells<'r> {
    /// Creates empty cells.
    fn new(loss_grid: &'r LossGrid, sign: f64, comb: bool) -> Self {
        Self {
            loss_grid,
            sign,
            cells: vec![Cell::EMPTY; loss_grid.bounds.len().saturating_sub(1)],
            on_lines: Vec::new(),
            nudge: 0.0,
            comb,
            stretch: 0.0,
        }
    }

    fn width(&self, cell: usize) -> f64 {
        (self.loss_grid.bounds[cell + 1] - self.loss_grid.bounds[cell]) as f64
            * self.loss_grid.lines.spacing
    }

    /// Adds a node to the cell of its loss, which is close to the cell `near`.
    fn add(&mut self, node: &Node, near: usize) {
        let error = node.loss_error + self.loss_grid.line_error(near);
        let loss = node.loss + self.sign * error;
        let ln_mass = node.ln_second + self.sign * node.weight_error;
        if ln_mass == f64::NEG_INFINITY {
            return;
        }
        let lines = self.loss_grid.lines;
        let cell = self.loss_grid.cell_of(loss, near);
        let width = self.width(cell);
        let t = (loss - lines.at(self.loss_grid.bounds[cell])).clamp(0.0, width);
        self.cells[cell].add(ln_mass, t, width);
    }

    /// Puts an atom on the line it lies on, up to rounding or `slack`; returns `false` if there is none.
    fn put_on_a_line(&mut self, atom: &Node, slack: f64) -> bool {
        let lines = self.loss_grid.lines;
        let slack = if self.comb { 0.0 } else { slack };
        let Some((index, off)) = lines.nearest(atom.loss, slack) else {
            return false;
        };
        let ln_mass = atom.ln_second + self.sign * atom.weight_error;
        self.on_lines.push((index, ln_mass));
        // The losses of a comb are o + ks, and only o and s are rounded: the error of k steps is k times
        // that of s, however large single losses are.
        if self.comb && atom.loss_error <= COMB * atom.loss.abs() {
            self.nudge = self.nudge.max(COMB * lines.origin.abs());
            self.stretch = COMB;
        } else {
            self.nudge = self.nudge.max(off + atom.loss_error);
        }
        true
    }

    fn lattice(self, mut cells: Vec<(i64, f64)>, infinite: f64) -> Lattice {
        let mut weights = self.on_lines;
        weights.append(&mut cells);
        weights.retain(|(_, w)| *w > f64::NEG_INFINITY);
        weights.sort_unstable_by_key(|(index, _)| *index);
        Lattice {
            lines: self.loss_grid.lines,
            weights,
            infinite,
            nudge: self.nudge,
            stretch: self.stretch,
        }
    }

    /// Spreads each cell to both its ends.
    fn spread_apart(self, infinite: f64) -> Lattice {
        let mut weights: Vec<(i64, f64)> = (self.loss_grid.bounds.iter())
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

    /// Merges both sides of each bound as far as they balance.
    fn merged(self, infinite: f64) -> Lattice {
        let widths: Vec<f64> = (0..self.cells.len()).map(|i| self.width(i)).collect();
        let masses = Merger::new(&self.cells, &widths).masses();
        let weights = (self.loss_grid.bounds.iter())
            .zip(masses)
            .map(|(bound, ln)| (*bound, ln - CELL_ERROR));
        self.lattice(weights.collect(), infinite)
    }
}

impl Lattice {
    /// Returns the whole P-mass.
    fn whole(&self) -> f64 {
        self.moment(1.0).0.exp() + self.infinite
    }

    /// Returns the largest distance of a loss from its line.
    pub(crate) fn off(&self) -> f64 {
        let index = |weight: Option<&(i64, f64)>| weight.map_or(0, |weight| weight.0.abs());
        let farthest = index(self.weights.first()).max(index(self.weights.last()));
        self.nudge + self.stretch * farthest as f64 * self.lines.spacing
    }

    /// Returns the largest allowed deviation of the whole mass from one.
    fn allowed(&self) -> f64 {
        MASS_ERROR + 2.0 * self.off()
    }

    /// Returns K(θ) = ln Σ e^{w + θv} and K'(θ).
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
