//! The composed law around a tilt, from above and from below, and δ(ε) from it.

use super::cells::Lattice;
use super::layout::{Layout, MODEST};
use super::moments::Moments;
use super::side::{Pieces, Side, Window};
use crate::engine::{ErrorEnds, ErrorSource, ErrorTerm};
use crate::loss::loss_grid::LossGrid;
use crate::numeric::interval::LnBounds;
use crate::quantity::error::{Error, Result};
use std::f64::consts::TAU;

/// The largest addition of a cell to ln of the moments that bound what lies outside the window.
const GROWTH: f64 = 1e-5;
/// The part of the most cells up to which they are as narrow as the mass off the lines asks for.
const FEW: usize = 4;
/// The most cells times components of the densities in them.
const MOST_WORK: usize = 1 << 22;
/// The number of cells that is allowed in any case.
const FEWEST_CELLS: usize = 1 << 13;
/// How often lines are moved apart because there are too many cells.
const MOST_TRIES: usize = 12;
/// The work of the smallest grid, in quarters of a second.
const LEAST_WORK: f64 = 0.1;
/// More cells than this, of all distinct steps together, don't fit into 50 MB.
const MOST_CELLS: usize = 3 << 16;

/// Both measures under the tilt θ, reusable for every ε near the one they were made for.
#[derive(Debug)]
pub(crate) struct Convolution {
    theta: f64,
    above: Side,
    below: Side,
    /// Whether a finer grid is possible.
    pub(crate) refinable: bool,
    /// The grid's spacing and length.
    pub(crate) spacing: f64,
    pub(crate) length: usize,
    /// The work, in units of about a quarter of a second of processor time.
    pub(crate) work: f64,
}

/// The requirements of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The tilt.
    pub(crate) theta: f64,
    /// The relative accuracy of δ.
    pub(crate) relative: f64,
    /// The approximate ln δ.
    pub(crate) ln_delta: f64,
    /// The ratio of the spacing to the one that should suffice.
    pub(crate) finer: f64,
    /// The cost that is allowed.
    pub(crate) effort: Effort,
}

/// The cost that a grid may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As much as memory allows: no other engine can handle the law.
    Full,
    /// A second engine's answer, in about a second.
    Modest,
}

impl Effort {
    /// Returns the number of cells for each of `steps` distinct steps with `components` components in
    /// total.
    fn cells(self, steps: usize, components: usize) -> usize {
        let (cells, work) = match self {
            Self::Full => (MOST_CELLS, MOST_WORK),
            Self::Modest => (MOST_CELLS / 4, MOST_WORK / 16),
        };
        cells.min(work / components.max(1)).max(FEWEST_CELLS) / steps.max(1)
    }

    /// Returns how often fewer cells are tried in exchange for more frequencies.
    const fn tries(self) -> usize {
        match self {
            Self::Full => 4,
            Self::Modest => 2,
        }
    }
}

impl Convolution {
    /// Composes the steps of `moments` as `wanted`.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if a step has too many cells.
    pub(crate) fn new(moments: &Moments, wanted: Wanted) -> Result<Self> {
        let steps = moments.steps.as_slice();
        let theta = wanted.theta;
        let ln_goal = wanted.relative.ln() - 10.0;
        let (right, right_order) = moments.reach(theta, ln_goal, 1.0);
        let (left, left_order) = moments.reach(theta, ln_goal, -1.0);
        let here = moments.at(theta);
        let total: f64 = steps.iter().map(|(_, times)| *times as f64).sum();
        let ln_cut = wanted.ln_delta.min(0.0) + ln_goal - total.ln();
        let span = left + right;
        let rows = Rows {
            moments,
            wanted,
            ln_cut,
            orders: [left_order, right_order],
        };
        // The peaks of the gain and of the tilted law determine the sum.
        let distance = theta - 1.0;
        let spread = here.second + 1.0 / (theta * theta) + 1.0 / (distance * distance);
        let window = Window {
            centre: here.first + 0.5 * (right - left),
            orders: [left_order, right_order],
            ln_goal: (1e-2 * wanted.relative).ln(),
            goal: 1e-2 * wanted.relative / (theta * distance * (TAU * spread).sqrt()),
        };
        if let Some(found) = Self::in_a_band(&rows, &window, span)? {
            return Ok(found);
        }
        let wish = Layout::laid_out(moments, wanted, span)?;
        if wanted.effort == Effort::Modest && !wish.refinable && !wish.exact {
            return Err(Error::NotCertified {
                what: "the grid",
                why: "a second opinion would need too many lines".into(),
            });
        }
        let (grid, laid) = rows.fitting(wish)?;
        let side = |laid: Laid| Side::new(&parts(&laid), theta, &grid, &window);
        let above = side(laid.above)?;
        let below = side(rows.laid(laid.below)?)?;
        let work = work(&above, &below);
        Ok(Self {
            theta,
            above,
            below,
            refinable: grid.refinable,
            spacing: grid.spacing,
            length: grid.length as usize,
            work,
        })
    }

    /// Composes on lines as close as requested, by the lowest frequencies; `None` if a short grid
    /// suffices, or if too many frequencies matter.
    fn in_a_band(rows: &Rows<'_>, window: &Window, span: f64) -> Result<Option<Self>> {
        let Some(mut wish) = Layout::fine(rows.moments, rows.wanted, span) else {
            return Ok(None);
        };
        // Fewer cells leave room for more frequencies.
        for _ in 0..rows.wanted.effort.tries() {
            let (layout, laid) = rows.fitting(wish)?;
            if layout.length <= MODEST {
                break;
            }
            if let Some(found) = Self::by_frequencies(rows, laid, &layout, window)? {
                return Ok(Some(found));
            }
            if layout.exact {
                break;
            }
            wish = layout.coarser(rows.moments, rows.wanted.theta, 3.0);
        }
        Ok(None)
    }

    fn by_frequencies(
        rows: &Rows<'_>,
        laid: BothLaid,
        layout: &Layout,
        window: &Window,
    ) -> Result<Option<Self>> {
        let theta = rows.wanted.theta;
        let side = |laid: Laid| Side::in_a_band(&parts(&laid), theta, layout, window);
        let Some(above) = side(laid.above)? else {
            return Ok(None);
        };
        let Some(below) = side(rows.laid(laid.below)?)? else {
            return Ok(None);
        };
        let length = above.cells();
        let work = work(&above, &below);
        Ok(Some(Self {
            theta,
            above,
            below,
            refinable: layout.refinable,
            spacing: layout.spacing,
            length,
            work,
        }))
    }

    /// Returns ln δ(ε), near the ε that it was made for.
    pub(crate) fn value(&self, epsilon: f64) -> LnBounds {
        let upper = self.above.ln_delta(epsilon, self.theta, 1.0);
        let lower = self.below.ln_delta(epsilon, self.theta, -1.0);
        LnBounds {
            lower,
            middle: if lower.is_finite() {
                0.5 * (lower + upper)
            } else {
                upper
            },
            upper,
        }
    }

    /// Returns whether the window begins above `epsilon`.
    #[cfg(test)]
    pub(super) fn begins_above(&self, epsilon: f64) -> bool {
        self.above.begins_above(epsilon)
    }

    /// Returns every error at `epsilon`, relative to δ: the larger of both sides.
    pub(crate) fn errors(&self, epsilon: f64) -> Vec<ErrorTerm> {
        let above = self.above.pieces(epsilon, self.theta, 1.0);
        let below = self.below.pieces(epsilon, self.theta, -1.0);
        let whole = |side: &Side, pieces: &Pieces| {
            pieces.sum.max(0.0) + (side.infinite.ln() - pieces.ln_front).exp()
        };
        let (high, low) = (whole(&self.above, &above), whole(&self.below, &below));
        let larger = |pick: fn(&Pieces) -> f64| (pick(&above) / high).max(pick(&below) / low);
        let moved = (above.ln_front - below.ln_front + (high / low).ln()).exp_m1();
        let both = |source, relative: f64| ErrorTerm {
            source,
            ends: ErrorEnds::Both,
            relative: if relative.is_nan() {
                f64::INFINITY
            } else {
                relative.max(0.0)
            },
        };
        vec![
            both(ErrorSource::Discretisation, moved),
            both(ErrorSource::Transform, larger(|pieces| pieces.transform)),
            both(ErrorSource::WrapAround, larger(|pieces| pieces.outside)),
            both(ErrorSource::Summation, larger(|pieces| pieces.rounding)),
            both(
                ErrorSource::Front,
                larger(|pieces| pieces.front * pieces.sum.max(0.0)),
            ),
        ]
    }

    /// Returns the tilt.
    pub(crate) const fn order(&self) -> f64 {
        self.theta
    }
}

/// The data needed to put the law of every step on lines.
struct Rows<'m> {
    moments: &'m Moments,
    wanted: Wanted,
    ln_cut: f64,
    /// Orders whose Chernoff bounds limit what lies beyond the window.
    orders: [f64; 2],
}

/// Each step's law on its lines, with its count.
type Laid = Vec<(Lattice, u64)>;

/// One step's law from below.
enum Below {
    Laid(Lattice),
    /// To be put into these cells with this slack after the side above is finished: two laws of that
    /// many atoms take too much memory.
    Later(LossGrid, f64),
}

/// Both sides.
#[derive(Default)]
struct BothLaid {
    above: Laid,
    below: Vec<Below>,
}

impl Rows<'_> {
    /// Returns the laws on the lines of `layout`, or on those of the finest coarser layout that
    /// doesn't have too many cells.
    fn fitting(&self, mut layout: Layout) -> Result<(Layout, BothLaid)> {
        let mut factor = 1.0;
        for _ in 0..MOST_TRIES {
            factor *= 1.25;
            match self.brackets(&layout) {
                Err(_) if !layout.exact => {
                    layout = layout.coarser(self.moments, self.wanted.theta, factor)
                }
                found => return Ok((layout, found?)),
            }
        }
        Ok((layout, self.brackets(&layout)?))
    }

    fn brackets(&self, layout: &Layout) -> Result<BothLaid> {
        let steps = self.moments.steps.as_slice();
        // Of all laws before any is put into its cells, which takes longer and is in vain if one has too many.
        let grids: Vec<(LossGrid, f64)> = (0..steps.len())
            .map(|part| self.loss_grid(part, layout))
            .collect::<Result<_>>()?;
        let mut laid = BothLaid::default();
        for ((law, times), (loss_grid, slack)) in steps.iter().zip(grids) {
            if law.has_many_atoms() {
                let above = law.bracket_above(&loss_grid, self.ln_cut, slack)?;
                laid.above.push((above, *times));
                laid.below.push(Below::Later(loss_grid, slack));
            } else {
                let both = law.brackets(&loss_grid, self.ln_cut, slack)?;
                laid.above.push((both.above, *times));
                laid.below.push(Below::Laid(both.below));
            }
        }
        Ok(laid)
    }

    /// Returns the cells of one step's law, and how far its atoms may lie off the lines.
    fn loss_grid(&self, part: usize, layout: &Layout) -> Result<(LossGrid, f64)> {
        let steps = self.moments.steps.as_slice();
        let components = steps.iter().map(|(law, _)| law.components()).max();
        let most = (self.wanted.effort).cells(steps.len(), components.unwrap_or(0));
        let (theta, (law, times)) = (self.wanted.theta, &steps[part]);
        let lines = layout.lines(law, self.moments, (part, theta));
        // Moving every loss by this little changes δ by a small share of what is allowed.
        let slack = 0.02 * self.wanted.relative / (theta * *times as f64);
        let off_lines = |order: f64| {
            let meets = |loss| lines.meets(loss, slack);
            self.moments.tilted(part, order, meets)
        };
        let tilted = off_lines(theta);
        let allowed = tilted.allowance(layout.spacing);
        let mut masses = vec![(tilted, allowed)];
        // The moments that bound what lies outside the window mustn't grow by much either.
        for order in self.orders {
            let there = off_lines(order);
            let growth = *times as f64 * order * (order - 1.0);
            let allowed = there.whole * GROWTH / growth.abs().max(1.0);
            masses.push((there, allowed));
        }
        // Where nearly everything gathers at a few lines, cells between them cost in proportion to the little that is left,
        // and few of them are enough to keep it.
        let apart = self.moments.apart(part, theta, lines);
        let allowed = apart.allowance(layout.spacing);
        masses.push((apart, allowed));
        let range = law.loss_range(self.ln_cut);
        let grid = LossGrid::new(lines, range, &masses, most / FEW)
            .or_else(|_| LossGrid::new(lines, range, &masses[..masses.len() - 1], most))?;
        Ok((grid, slack))
    }

    /// Returns every law from below.
    fn laid(&self, below: Vec<Below>) -> Result<Laid> {
        let steps = self.moments.steps.iter();
        let each = steps.zip(below).map(|((law, times), below)| {
            let lattice = match below {
                Below::Laid(lattice) => lattice,
                Below::Later(loss_grid, slack) => {
                    law.bracket_below(&loss_grid, self.ln_cut, slack)?
                }
            };
            Ok((lattice, *times))
        });
        each.collect()
    }
}

/// Returns the work of both sides, and of moving every step's law to its lines.
fn work(above: &Side, below: &Side) -> f64 {
    LEAST_WORK + above.work + below.work
}

fn parts(laid: &Laid) -> Vec<(&Lattice, u64)> {
    laid.iter().map(|(lattice, n)| (lattice, *n)).collect()
}
