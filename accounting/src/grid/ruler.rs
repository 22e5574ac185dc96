//! Where cells end: on grid lines, close together where the tilted law is, far apart in its tails.

use crate::error::{Error, Result};

/// More cells than this are an error, not a wait.
const MOST_CELLS: usize = 2_000_000;
/// Cells widen where less than this share of the tilted law lies beyond.
const DENSE: f64 = 1e-3;
/// No cell is wider than this: its ends' ratio has to be a number.
const WIDEST: f64 = 1.0;

/// Grid lines origin + i·spacing of the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lines {
    pub(crate) origin: f64,
    pub(crate) spacing: f64,
}

impl Lines {
    /// The line at `index`.
    pub(crate) fn at(&self, index: i64) -> f64 {
        self.origin + index as f64 * self.spacing
    }

    /// The last line at or below `loss`.
    pub(crate) fn below(&self, loss: f64) -> f64 {
        ((loss - self.origin) / self.spacing).floor()
    }
}

/// Lines and the indices of those that bound cells, ascending.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ruler {
    pub(crate) lines: Lines,
    pub(crate) bounds: Vec<i64>,
}

impl Ruler {
    /// Cells from `lowest` to `highest`; `tilted` holds losses in ascending order with the
    /// tilted mass up to each, and the whole.
    ///
    /// Spreading mass m within a cell of w lines costs m·w²: with w growing like the cube root of
    /// one over the mass beyond, all tails together cost about as much as the middle.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when there would be too many cells.
    pub(crate) fn new(
        lines: Lines,
        (lowest, highest): (f64, f64),
        (tilted, whole): (&[(f64, f64)], f64),
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
        let below = |loss: f64| {
            let after = tilted.partition_point(|(l, _)| *l <= loss);
            let (from, low) = after.checked_sub(1).map_or((lowest, 0.0), |i| tilted[i]);
            let (to, high) = tilted.get(after).copied().unwrap_or((highest, whole));
            // Nodes stand for the stretch around them: in between, proportionally.
            let share = ((loss - from) / (to - from)).clamp(0.0, 1.0);
            let share = if share.is_nan() { 0.0 } else { share };
            (low + (high - low) * share) / whole
        };
        let most = (WIDEST / lines.spacing).log2().floor().clamp(0.0, 60.0) as u32;
        // A cell from `here` on so wide may have this much mass in it, and beyond its ends.
        let fits = |here: i64, doublings: u32| {
            let (left, right) = (
                below(lines.at(here)),
                below(lines.at(here + (1 << doublings))),
            );
            let mass = (right - left)
                .max(left.min(1.0 - left))
                .max(right.min(1.0 - right));
            mass * f64::from(1u32 << doublings.min(31)).powi(3) <= DENSE
        };
        let mut bounds = vec![first];
        let (mut here, mut doublings) = (first, 0);
        while here < last {
            while doublings < most.min(31) && fits(here, doublings + 1) {
                doublings += 1;
            }
            while doublings > 0 && !fits(here, doublings) {
                doublings -= 1;
            }
            here += 1 << doublings;
            bounds.push(here);
            if bounds.len() > MOST_CELLS {
                return Err(too_many());
            }
        }
        Ok(Self { lines, bounds })
    }

    /// One line only, at `loss`: stretches end there.
    pub(crate) fn single(loss: f64) -> Self {
        Self {
            lines: Lines {
                origin: loss,
                spacing: 1.0,
            },
            bounds: vec![0],
        }
    }

    /// The loss of the first bound above `loss`, from the bound `hint` on, which is moved there.
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

    /// The smallest width of a cell.
    pub(crate) fn finest(&self) -> f64 {
        self.lines.spacing
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
        let tilted: Vec<(f64, f64)> = (-800..=800)
            .map(|i| {
                let x = f64::from(i) * 0.01;
                (x, 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2))
            })
            .collect();
        let ruler = Ruler::new(lines, (-8.0, 8.0), (&tilted, 1.0)).unwrap();
        let width = |x: f64| {
            let mut hint = 0;
            let next = ruler.next(x, &mut hint);
            next - lines.at(ruler.bounds[hint - 1])
        };
        assert!((width(0.0) - 0.01).abs() < 1e-9 && width(6.0) > 0.05);
        assert!(ruler.bounds.len() < 1000 && ruler.bounds.windows(2).all(|b| b[0] < b[1]));
        assert!(lines.at(ruler.bounds[0]) < -8.0);
        assert!(lines.at(ruler.bounds[ruler.bounds.len() - 1]) > 8.0);
    }
}
