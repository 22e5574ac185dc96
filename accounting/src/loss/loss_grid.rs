//! Boundaries of grid cells: on grid lines, close together where the tilted law has its mass, far apart in its tails.

use crate::numeric::special::ROUND;
use crate::quantity::error::{Error, Result};

/// The number of cells that are checked one by one.
const NEAR: usize = 4;
/// The largest width of a cell: the ratio of its ends has to be finite.
const WIDEST: f64 = 1.0;

/// The grid lines origin + i·spacing of the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lines {
    pub(crate) origin: f64,
    pub(crate) spacing: f64,
}

impl Lines {
    /// Returns the line at `index`.
    pub(crate) fn at(&self, index: i64) -> f64 {
        self.origin + index as f64 * self.spacing
    }

    /// Returns whether `loss` lies on a line up to rounding or `slack`.
    pub(crate) fn meets(&self, loss: f64, slack: f64) -> bool {
        self.nearest(loss, slack).is_some()
    }

    /// Returns the line that `loss` lies on up to rounding or `slack`, and a bound on its distance.
    pub(crate) fn nearest(&self, loss: f64, slack: f64) -> Option<(i64, f64)> {
        let index = ((loss - self.origin) / self.spacing).round();
        let off = (loss - (self.origin + index * self.spacing)).abs();
        let size = loss.abs() + self.origin.abs() + (index * self.spacing).abs();
        let on = off <= slack.max(16.0 * ROUND * size) && index.abs() < 1e15;
        on.then_some((index as i64, off + 8.0 * ROUND * size))
    }

    /// Returns the last line at or below `loss`.
    pub(crate) fn below(&self, loss: f64) -> f64 {
        ((loss - self.origin) / self.spacing).floor()
    }
}

/// Lines, and the indices of those that bound cells, ascending.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LossGrid {
    pub(crate) lines: Lines,
    pub(crate) bounds: Vec<i64>,
}

impl LossGrid {
    /// Creates cells from `lowest` to `highest`, as wide as `masses` allow: for none of these may a cell have
    /// mass·width² above its allowance, unless it is one line wide.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if there would be more than `most_cells`.
    pub(crate) fn new(
        lines: Lines,
        (lowest, highest): (f64, f64),
        masses: &[(Cumulative, f64)],
        most_cells: usize,
    ) -> Result<Self> {
        let too_many = || Error::NotCertified {
            what: "the grid",
            why: "the loss of one step spans too many grid cells".into(),
        };
        let (first, last) = (lines.below(lowest) - 1.0, lines.below(highest) + 2.0);
        if !(first.abs() < 1e15 && last.abs() < 1e15) {
            return Err(too_many());
        }
        let (first, last) = (first as i64, last as i64);
        let most = (WIDEST / lines.spacing).log2().floor().clamp(0.0, 31.0) as u32;
        // Checks whether a cell from `here` on, this wide, has no more mass than allowed.
        let mut hints = vec![[0; 2]; masses.len()];
        let mut fits = |here: i64, doublings: u32| {
            let (left, right) = (lines.at(here), lines.at(here + (1i64 << doublings)));
            let square = (right - left) * (right - left);
            masses
                .iter()
                .zip(&mut hints)
                .all(|((law, allowed), hints)| {
                    let ends = (lowest, highest);
                    let low = law.up_to(left, ends, &mut hints[0]);
                    (law.up_to(right, ends, &mut hints[1]) - low) * square <= *allowed
                })
        };
        let mut bounds = vec![first];
        let (mut here, mut doublings) = (first, 0);
        while here < last {
            while doublings < most && fits(here, doublings + 1) {
                doublings += 1;
            }
            let beyond = |doublings: u32| here + (1i64 << doublings) > last;
            while doublings > 0 && (beyond(doublings) || !fits(here, doublings)) {
                doublings -= 1;
            }
            here += 1 << doublings;
            bounds.push(here);
            if bounds.len() > most_cells {
                return Err(too_many());
            }
        }
        Ok(Self { lines, bounds })
    }

    /// Returns the cell that contains `loss`, or the nearest one, searching from the cell `near` on.
    pub(crate) fn cell_of(&self, loss: f64, near: usize) -> usize {
        let last = self.bounds.len().max(2) - 2;
        let line = |i: usize| self.lines.at(self.bounds[i]);
        let mut cell = near.min(last);
        for _ in 0..NEAR {
            if cell > 0 && loss < line(cell) {
                cell -= 1;
            } else if cell < last && loss >= line(cell + 1) {
                cell += 1;
            } else {
                return cell;
            }
        }
        let after = self.bounds.partition_point(|b| self.lines.at(*b) <= loss);
        after.clamp(1, last + 1) - 1
    }

    /// Returns how far rounding may move a loss relative to the lines around `cell`.
    pub(crate) fn line_error(&self, cell: usize) -> f64 {
        let ends = [cell, cell + 1].map(|i| self.lines.at(self.bounds[i]).abs());
        4.0 * ROUND * (ends[0].max(ends[1]) + self.lines.origin.abs())
    }

    /// Creates a grid with a single line at `loss`, where intervals end.
    pub(crate) fn single(loss: f64) -> Self {
        Self {
            lines: Lines {
                origin: loss,
                spacing: 1.0,
            },
            bounds: vec![0],
        }
    }

    /// Returns the loss of the first bound above `loss`, searching from the bound `hint` on, and moves `hint` there.
    pub(crate) fn next(&self, loss: f64, hint: &mut usize) -> f64 {
        let at = |i: usize| {
            self.bounds
                .get(i)
                .map_or(f64::INFINITY, |b| self.lines.at(*b))
        };
        if *hint > 0 && at(*hint - 1) > loss {
            *hint = self.bounds.partition_point(|b| self.lines.at(*b) <= loss);
        }
        while at(*hint) <= loss {
            *hint += 1;
        }
        at(*hint)
    }

    /// Returns how far beyond a line, and its rounding error, the next one is searched for. A single line has none
    /// before it to pass, however small the losses are.
    pub(crate) fn nudge(&self) -> f64 {
        match self.bounds.len() {
            1 => 0.0,
            _ => 1e-9 * self.finest(),
        }
    }

    /// Returns the smallest width of a cell.
    pub(crate) fn finest(&self) -> f64 {
        self.lines.spacing
    }
}

/// The number of nodes over which a density is measured.
const STRETCH: usize = 8;

/// Losses in ascending order, each with the mass up to its middle, and the whole mass.
#[derive(Debug, Clone)]
pub(crate) struct Cumulative {
    pub(crate) below: Vec<(f64, f64)>,
    pub(crate) whole: f64,
}

impl Cumulative {
    /// Returns the mass of losses up to `loss`. Nodes represent the interval around them, and none lies outside `ends`.
    /// `hint` is the position of the previous answer.
    pub(crate) fn up_to(&self, loss: f64, ends: (f64, f64), hint: &mut usize) -> f64 {
        let reached = |i: usize| self.below.get(i).is_some_and(|(l, _)| *l <= loss);
        let mut after = *hint;
        for _ in 0..STRETCH {
            if after > 0 && !reached(after - 1) {
                after -= 1;
            } else if reached(after) {
                after += 1;
            } else {
                break;
            }
        }
        if after > 0 && !reached(after - 1) || reached(after) {
            after = self.below.partition_point(|(l, _)| *l <= loss);
        }
        *hint = after;
        let (from, low) = after
            .checked_sub(1)
            .map_or((ends.0, 0.0), |i| self.below[i]);
        let (to, high) = self
            .below
            .get(after)
            .copied()
            .unwrap_or((ends.1, self.whole));
        let share = ((loss - from) / (to - from)).clamp(0.0, 1.0);
        low + (high - low) * if share.is_nan() { 0.0 } else { share }
    }

    /// Returns how much mass·width² a cell may have so that all cells cost the whole mass times spacing² and are as few
    /// as possible: the same for each cell, which makes widths w ∝ f^{−1/3} for the density f, and N = ∫ dl/w cells.
    pub(crate) fn allowance(&self, spacing: f64) -> f64 {
        let mut cells = 0.0;
        for stretch in self.below.chunks(STRETCH) {
            let (Some((from, low)), Some((to, high))) = (stretch.first(), stretch.last()) else {
                continue;
            };
            let mass = (high - low) / self.whole;
            cells += mass.cbrt() * (to - from).max(spacing).powf(2.0 / 3.0);
        }
        self.whole * spacing.powi(3) / cells.powf(1.5).max(spacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_fine_where_the_law_is() {
        let lines = Lines {
            origin: 0.1,
            spacing: 0.01,
        };
        // A standard normal, more or less.
        let below: Vec<(f64, f64)> = (-800..=800)
            .map(|i| {
                let x = f64::from(i) * 0.01;
                (x, 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2))
            })
            .collect();
        let tilted = Cumulative { below, whole: 1.0 };
        let allowed = tilted.allowance(0.01);
        let loss_grid = LossGrid::new(lines, (-8.0, 8.0), &[(tilted, allowed)], 2000).unwrap();
        let width = |x: f64| {
            let mut hint = 0;
            let next = loss_grid.next(x, &mut hint);
            next - lines.at(loss_grid.bounds[hint - 1])
        };
        assert!((width(0.0) - 0.01).abs() < 1e-9 && width(6.0) > 0.05);
        assert!(loss_grid.bounds.len() < 1000 && loss_grid.bounds.windows(2).all(|b| b[0] < b[1]));
        assert!(lines.at(loss_grid.bounds[0]) < -8.0);
        assert!(lines.at(loss_grid.bounds[loss_grid.bounds.len() - 1]) > 8.0);
    }
}
