//! One step's law moved to grid lines, so that the new pair dominates the law (above) or is
//! dominated by it (below).
//!
//! Above: a cell's mass goes to both its ends with its P- and Q-mass kept, a spread of the
//! likelihood ratio (connect the dots). Below: mass on both sides of a line is merged so that the
//! merged ratio is the line's, which is post-processing; what finds no partner goes to the line
//! below with its P-mass kept and its Q-mass raised. Both err by the square of the spacing.

use super::ruler::{Lines, Ruler};
use crate::error::{Error, Result};
use crate::law::{Law, Node};
use crate::special::{ROUND, ln_add_exp};

/// How far a law's mass may be from one: sums of millions of terms.
const MASS_ERROR: f64 = 1e-9;
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

/// What lies in one cell, all in units of e^scale: Q-mass, ∫(e^{l − v} − 1)dQ and
/// ∫(e^h − e^{l − v})dQ for the line v below and width h.
#[derive(Debug, Clone, Copy)]
struct Cell {
    scale: f64,
    mass: f64,
    rise: f64,
    fall: f64,
}

impl Cell {
    const EMPTY: Self = Self {
        scale: f64::NEG_INFINITY,
        mass: 0.0,
        rise: 0.0,
        fall: 0.0,
    };

    fn add(&mut self, ln_mass: f64, t: f64, width: f64) {
        if ln_mass > self.scale + 200.0 || self.scale == f64::NEG_INFINITY {
            let factor = (self.scale - ln_mass).exp();
            self.mass *= factor;
            self.rise *= factor;
            self.fall *= factor;
            self.scale = ln_mass;
        }
        let mass = (ln_mass - self.scale).exp();
        self.mass += mass;
        self.rise += mass * t.exp_m1();
        self.fall += mass * t.exp() * (width - t).exp_m1();
    }

    /// Where between its lines the cell's ratio lies.
    fn level(&self) -> f64 {
        let both = self.rise + self.fall;
        if both > 0.0 { self.rise / both } else { 0.0 }
    }

    /// The share of its mass that a cell should merge over its upper line so that both
    /// sides of both its lines balance, given its neighbours.
    ///
    /// With shares f_i to the right, the bound after cell i balances when
    /// (1 − f_{i+1})·rise_{i+1} = f_i·fall_i e^{−h_i}; where masses change slowly, f = 1/(1 + r) with r the geometric mean of
    /// the ratios at both lines leaves a third-order rest.
    fn share_up(left: (&Self, f64), here: (&Self, f64), right: &Self) -> f64 {
        let ratio = |(below, width): (&Self, f64), above: &Self| {
            below.scale + below.fall.ln() - width - above.scale - above.rise.ln()
        };
        let mean = 0.5 * (ratio(left, here.0) + ratio(here, right));
        if mean.is_nan() {
            here.0.level()
        } else {
            1.0 / (1.0 + mean.exp())
        }
    }
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
        let (mut above, mut below) = (Cells::new(ruler), Cells::new(ruler));
        let lines = ruler.lines;
        let farthest = [ruler.bounds.first(), ruler.bounds.last()]
            .into_iter()
            .flatten()
            .map(|bound| lines.at(*bound).abs())
            .fold(lines.origin.abs(), f64::max);
        let line_error = 4.0 * ROUND * farthest;
        let dropped = self.spread(ln_cut, Some(ruler), &mut |node: Node| {
            if node.is_atom {
                let settled = above.settle(node.loss, node.ln_second + node.weight_error, slack)
                    && below.settle(node.loss, node.ln_second - node.weight_error, slack);
                if settled {
                    return;
                }
            }
            let error = node.loss_error + line_error;
            above.add(node.loss + error, node.ln_second + node.weight_error);
            below.add(node.loss - error, node.ln_second - node.weight_error);
        })?;
        let tails = if dropped == f64::NEG_INFINITY {
            0.0
        } else {
            (dropped.exp() * (1.0 + 1e-9)).max(f64::MIN_POSITIVE)
        };
        let brackets = Brackets {
            above: above.spread_apart(self.infinite + self.missing + tails),
            below: below.merged(self.infinite * (1.0 - 1e-12)),
        };
        // Nothing may have been lost above, nor found below, whatever the reason.
        let mass = |side: &Lattice| side.moment(1.0).0.exp() + side.infinite;
        let allowed = MASS_ERROR + 2.0 * above.nudge;
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
    fn new(ruler: &'r Ruler) -> Self {
        Self {
            ruler,
            cells: vec![Cell::EMPTY; ruler.bounds.len().saturating_sub(1)],
            on_lines: Vec::new(),
            nudge: 0.0,
        }
    }

    fn width(&self, cell: usize) -> f64 {
        (self.ruler.bounds[cell + 1] - self.ruler.bounds[cell]) as f64 * self.ruler.lines.spacing
    }

    fn add(&mut self, loss: f64, ln_mass: f64) {
        if ln_mass == f64::NEG_INFINITY {
            return;
        }
        let lines = self.ruler.lines;
        let after = self.ruler.bounds.partition_point(|b| lines.at(*b) <= loss);
        let cell = after.clamp(1, self.cells.len()) - 1;
        let width = self.width(cell);
        let t = (loss - lines.at(self.ruler.bounds[cell])).clamp(0.0, width);
        self.cells[cell].add(ln_mass, t, width);
    }

    /// Puts an atom on the line it lies on, up to rounding or `slack`; `false` when there is none.
    fn settle(&mut self, loss: f64, ln_mass: f64, slack: f64) -> bool {
        let lines = self.ruler.lines;
        let index = ((loss - lines.origin) / lines.spacing).round();
        let off = (loss - (lines.origin + index * lines.spacing)).abs();
        let size = loss.abs() + lines.origin.abs() + (index * lines.spacing).abs();
        if off > slack.max(16.0 * ROUND * size) || index.is_nan() || index.abs() > 1e15 {
            return false;
        }
        self.on_lines.push((index as i64, ln_mass));
        self.nudge = self.nudge.max(off + 8.0 * ROUND * size);
        true
    }

    fn lattice(&self, mut weights: Vec<(i64, f64)>, infinite: f64) -> Lattice {
        weights.extend(&self.on_lines);
        weights.retain(|(_, w)| *w > f64::NEG_INFINITY);
        weights.sort_by_key(|(index, _)| *index);
        Lattice {
            lines: self.ruler.lines,
            weights,
            infinite,
            nudge: self.nudge,
        }
    }

    /// Each cell to both its ends.
    fn spread_apart(&self, infinite: f64) -> Lattice {
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

    /// Both sides of each bound merged as far as they balance, [`Cell::share_up`] of the cell
    /// below with the rest of the cell above.
    fn merged(&self, infinite: f64) -> Lattice {
        let at = |index: Option<usize>| match index.and_then(|i| self.cells.get(i).map(|c| (i, c)))
        {
            Some((i, cell)) => (cell, self.width(i)),
            None => (&Cell::EMPTY, 0.0),
        };
        let shares: Vec<f64> = (0..self.cells.len())
            .map(|i| Cell::share_up(at(i.checked_sub(1)), at(Some(i)), at(Some(i + 1)).0))
            .collect();
        let mut weights: Vec<(i64, f64)> = (self.ruler.bounds.iter())
            .map(|bound| (*bound, f64::NEG_INFINITY))
            .collect();
        let mut put = |bound: usize, scale: f64, mass: f64| {
            if mass > 0.0 {
                let ln = scale + mass.ln() - CELL_ERROR;
                weights[bound].1 = ln_add_exp(weights[bound].1, ln);
            }
        };
        for bound in 0..=self.cells.len() {
            let ((left, width), (right, _)) = (at(bound.checked_sub(1)), at(Some(bound)));
            let from_left = bound.checked_sub(1).map_or(0.0, |i| shares[i]);
            let from_right = 1.0 - shares.get(bound).copied().unwrap_or(1.0);
            // What the left lacks and the right has too much of, in P-mass over e^v, as logarithms.
            let lacking = left.scale + (from_left * left.fall).ln() - width;
            let spare = right.scale + (from_right * right.rise).ln();
            let share = |most: f64, wanted: f64| {
                if wanted == f64::NEG_INFINITY {
                    0.0
                } else {
                    (wanted - most).exp().min(1.0)
                }
            };
            // On a line already (nothing lacking, nothing spare), all of it stays.
            let used_left = if left.fall * from_left <= 0.0 {
                1.0
            } else {
                share(lacking, spare)
            };
            let used_right = if right.rise * from_right <= 0.0 {
                1.0
            } else {
                share(spare, lacking)
            };
            put(bound, left.scale, used_left * from_left * left.mass);
            put(bound, right.scale, used_right * from_right * right.mass);
            // The rest keeps its P-mass on the line below.
            if let Some(below) = bound.checked_sub(1) {
                let rest = (1.0 - used_left) * from_left;
                put(below, left.scale, rest * (left.mass + left.rise));
            }
            let rest = (1.0 - used_right) * from_right;
            put(bound, right.scale, rest * (right.mass + right.rise));
        }
        self.lattice(weights, infinite)
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
