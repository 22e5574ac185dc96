//! Merges mass on both sides of a line onto it, as far as the merged likelihood ratio is the line's.
//!
//! Each cell divides its mass between its two lines. Where densities jump or widths change, the shares that balance one
//! line unbalance the next, and so on, with alternating signs. Mass that goes one line farther breaks this chain: the
//! remainder shrinks by a third per line.

use crate::numeric::special::ln_add_exp;

/// The content of one cell, all in units of e^scale: Q-mass, ∫(e^{l − v} − 1)dQ and ∫(e^h − e^{l − v})dQ for the line v
/// below and width h.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) scale: f64,
    pub(super) mass: f64,
    pub(super) rise: f64,
    pub(super) fall: f64,
}

impl Cell {
    pub(super) const EMPTY: Self = Self {
        scale: f64::NEG_INFINITY,
        mass: 0.0,
        rise: 0.0,
        fall: 0.0,
    };

    pub(super) fn add(&mut self, ln_mass: f64, t: f64, width: f64) {
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

    /// Returns the position of the cell's ratio between its lines.
    fn level(&self) -> f64 {
        let both = self.rise + self.fall;
        if both > 0.0 { self.rise / both } else { 0.0 }
    }

    /// Returns what the cells below and above a bound offer each other there, scaled so that the larger is 1.
    fn weigh((below, width): (&Self, f64), above: &Self) -> (f64, f64) {
        let (a, c) = (
            below.scale + below.fall.ln() - width,
            above.scale + above.rise.ln(),
        );
        let top = a.max(c);
        if top.is_finite() {
            ((a - top).exp(), (c - top).exp())
        } else {
            (0.0, 0.0)
        }
    }

    /// Returns the share of its mass that a cell should merge over its upper line so that both sides of both its lines
    /// balance, given its neighbours.
    ///
    /// With shares f_i to the right, the bound after cell i balances if (1 − f_{i+1})·rise_{i+1} = f_i·fall_i e^{−h_i};
    /// if masses change slowly, f = 1/(1 + r) with r the geometric mean of the ratios at both lines leaves a
    /// third-order remainder.
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

/// The weight of the balance of a bound relative to a share's distance from its rough value.
const BALANCE: f64 = 1e3;

/// Returns the shares that leave the least mass without a partner, near the `rough` ones: with (a, c) what the cells
/// below and above a bound offer there, they minimise Σ (a f_i − c(1 − f_{i+1}))² over bounds plus Σ (f_i −
/// rough_i)²/[`BALANCE`] over cells.
fn balanced(mut rough: Vec<f64>, weighed: impl Fn(usize) -> (f64, f64)) -> Vec<f64> {
    let count = rough.len();
    let mut factors = Vec::with_capacity(count);
    let mut below = weighed(0);
    // Elimination in a tridiagonal, positive definite system, from the left.
    let (mut carried, mut before) = (0.0, 0.0);
    for (i, share) in rough.iter_mut().enumerate() {
        let above = weighed(i + 1);
        let diagonal = 1.0 / BALANCE + below.1 * below.1 + above.0 * above.0 - carried;
        let link = if i == 0 { 0.0 } else { below.0 * below.1 };
        let wanted = *share / BALANCE + below.1 * below.1 + above.0 * above.1;
        before = (wanted - link * before) / diagonal;
        *share = before;
        let next = above.0 * above.1;
        factors.push(next / diagonal);
        carried = next * next / diagonal;
        below = above;
    }
    for i in (0..count.saturating_sub(1)).rev() {
        rough[i] -= factors[i] * rough[i + 1];
    }
    for share in &mut rough {
        *share = share.clamp(0.0, 1.0);
    }
    rough
}

/// Cells between lines, and the division of each cell's mass.
pub(super) struct Merger<'c> {
    cells: &'c [Cell],
    widths: &'c [f64],
    /// The shares to the lines above and below each cell, and to the lines beyond those.
    shares: Vec<Shares>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    up: f64,
    down: f64,
    far_up: f64,
    far_down: f64,
}

/// A part of a cell's mass at a line: its Q-mass, and the difference of its P-mass from e^v times that, both divided by
/// e^v and in units of e^scale.
#[derive(Debug, Clone, Copy)]
struct Offer {
    cell: usize,
    scale: f64,
    mass: f64,
    gap: f64,
}

impl<'c> Merger<'c> {
    pub(super) fn new(cells: &'c [Cell], widths: &'c [f64]) -> Self {
        let at = |i: Option<usize>| match i.and_then(|i| cells.get(i).map(|c| (i, c))) {
            Some((i, cell)) => (cell, widths[i]),
            None => (&Cell::EMPTY, 0.0),
        };
        let rough: Vec<f64> = (0..cells.len())
            .map(|i| Cell::share_up(at(i.checked_sub(1)), at(Some(i)), at(Some(i + 1)).0))
            .collect();
        let weighed = |line: usize| Cell::weigh(at(line.checked_sub(1)), at(Some(line)).0);
        let shares = (balanced(rough, weighed).into_iter())
            .map(|up| Shares {
                up,
                down: 1.0 - up,
                ..Shares::default()
            })
            .collect();
        let mut merger = Self {
            cells,
            widths,
            shares,
        };
        for line in (0..=cells.len()).rev() {
            merger.turn_back(line);
            merger.reach_up(line);
        }
        for line in 0..cells.len().saturating_sub(1) {
            merger.reach_down(line);
        }
        merger
    }

    /// Returns the whole of a cell at the line above it, or at the one beyond.
    fn whole_below(&self, cell: usize, far: bool) -> Offer {
        let (at, width) = (&self.cells[cell], self.widths[cell]);
        let near = at.fall * (-width).exp();
        let gap = if far {
            let more = self.widths[cell + 1];
            near * (-more).exp() - at.mass * (-more).exp_m1()
        } else {
            near
        };
        Offer {
            cell,
            scale: at.scale,
            mass: at.mass,
            gap,
        }
    }

    /// Returns the whole of a cell at the line below it, or at the one beyond.
    fn whole_above(&self, cell: usize, far: bool) -> Offer {
        let at = &self.cells[cell];
        let gap = if far {
            let more = self.widths[cell - 1];
            at.rise * more.exp() + at.mass * more.exp_m1()
        } else {
            at.rise
        };
        Offer {
            cell,
            scale: at.scale,
            mass: at.mass,
            gap,
        }
    }

    /// Returns what is offered at a line from below and from above, each as near and far.
    fn offers(&self, line: usize) -> [[Option<Offer>; 2]; 2] {
        let share = |offer: Offer, share: f64| {
            (share > 0.0 && offer.mass > 0.0).then_some(Offer {
                mass: offer.mass * share,
                gap: offer.gap * share,
                ..offer
            })
        };
        let count = self.cells.len();
        let near_below = line.checked_sub(1);
        let far_below = line.checked_sub(2);
        let near_above = Some(line).filter(|i| *i < count);
        let far_above = Some(line + 1).filter(|i| *i < count);
        [
            [
                near_below.and_then(|i| share(self.whole_below(i, false), self.shares[i].up)),
                far_below.and_then(|i| share(self.whole_below(i, true), self.shares[i].far_up)),
            ],
            [
                near_above.and_then(|i| share(self.whole_above(i, false), self.shares[i].down)),
                far_above.and_then(|i| share(self.whole_above(i, true), self.shares[i].far_down)),
            ],
        ]
    }

    /// Returns ln of the total gap of offers.
    fn ln_gap(offers: &[Option<Offer>; 2]) -> f64 {
        let each = offers.iter().flatten();
        each.map(|offer| offer.scale + offer.gap.ln())
            .fold(f64::NEG_INFINITY, ln_add_exp)
    }

    /// If there is nothing at all above a line, moves the mass below it down instead.
    fn turn_back(&mut self, line: usize) {
        let alone = self.cells.get(line).is_none_or(|cell| cell.mass <= 0.0);
        if let Some(cell) = line.checked_sub(1).filter(|_| alone) {
            let shares = &mut self.shares[cell];
            (shares.up, shares.down) = (0.0, shares.up + shares.down);
        }
    }

    /// If more is offered from above, balances it with mass from the cell one farther below; what that cell doesn't
    /// have goes up instead.
    fn reach_up(&mut self, line: usize) {
        let [below, above] = self.offers(line).map(|side| Self::ln_gap(&side));
        if let Some(cell) = line.checked_sub(2) {
            let whole = self.whole_below(cell, true);
            let moved = missing(above, below, &whole).min(self.shares[cell].up);
            self.shares[cell].up -= moved;
            self.shares[cell].far_up += moved;
        }
        let [below, above] = self.offers(line).map(|side| Self::ln_gap(&side));
        if line < self.cells.len() && above > below {
            let whole = self.whole_above(line, false);
            let moved = missing(above, below, &whole).min(self.shares[line].down);
            self.shares[line].down -= moved;
            self.shares[line].up += moved;
        }
    }

    /// If more is offered from below, balances it with mass from the cell one farther above.
    fn reach_down(&mut self, line: usize) {
        let [below, above] = self.offers(line).map(|side| Self::ln_gap(&side));
        let cell = line + 1;
        let whole = self.whole_above(cell, true);
        let moved = missing(below, above, &whole).min(self.shares[cell].down);
        self.shares[cell].down -= moved;
        self.shares[cell].far_down += moved;
    }

    /// Returns ln of the Q-mass on every line.
    pub(super) fn masses(&self) -> Vec<f64> {
        let mut masses = vec![f64::NEG_INFINITY; self.cells.len() + 1];
        let mut put = |line: usize, scale: f64, mass: f64| {
            if mass > 0.0 {
                masses[line] = ln_add_exp(masses[line], scale + mass.ln());
            }
        };
        for line in 0..=self.cells.len() {
            let offers = self.offers(line);
            let [below, above] = offers.map(|side| Self::ln_gap(&side));
            for (side, own, other) in [(&offers[0], below, above), (&offers[1], above, below)] {
                // Mass that is on the line already stays there entirely.
                let used = if own == f64::NEG_INFINITY {
                    1.0
                } else {
                    (other - own).exp().min(1.0)
                };
                for offer in side.iter().flatten() {
                    put(line, offer.scale, used * offer.mass);
                    // The rest keeps its P-mass on the line below its cell.
                    let cell = &self.cells[offer.cell];
                    let rest = (1.0 - used) * offer.mass / cell.mass;
                    put(offer.cell, offer.scale, rest * (cell.mass + cell.rise));
                }
            }
        }
        masses
    }
}

/// Returns the share of a cell that compensates e^`more` − e^`less`.
fn missing(more: f64, less: f64, whole: &Offer) -> f64 {
    if more <= less || whole.gap <= 0.0 {
        return 0.0;
    }
    (more - whole.scale).exp() * -(less - more).exp_m1() / whole.gap
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Outcomes anywhere in cells of any widths, some of them empty: the merged law has the
        /// same P-mass, no less Q-mass, and for no t a larger E_Q (e^l − e^t)₊.
        #[test]
        fn what_is_merged_is_dominated(
            widths in prop::collection::vec(1u32..6, 1..12),
            outcomes in prop::collection::vec((0.0f64..1.0, -6.0f64..0.0), 1..40),
        ) {
            let widths: Vec<f64> = widths.iter().map(|w| 0.1 * f64::from(*w)).collect();
            let lines: Vec<f64> = std::iter::once(0.0)
                .chain(widths.iter().scan(0.0, |sum, w| { *sum += w; Some(*sum) }))
                .collect();
            let whole = lines[widths.len()];
            let mut cells = vec![Cell::EMPTY; widths.len()];
            let mut truth = Vec::new();
            for (share, ln_mass) in outcomes {
                let loss = share * whole;
                let cell = (lines.partition_point(|v| *v <= loss) - 1).min(cells.len() - 1);
                cells[cell].add(ln_mass, loss - lines[cell], widths[cell]);
                truth.push((loss, ln_mass.exp()));
            }
            let merged: Vec<(f64, f64)> = (Merger::new(&cells, &widths).masses().iter())
                .zip(&lines)
                // Cells keep their Q-mass over no line: losses count from the lowest.
                .map(|(ln, line)| (*line, ln.exp()))
                .collect();
            let above = |law: &[(f64, f64)], t: f64| -> f64 {
                law.iter().map(|(l, q)| q * (l.exp() - t.exp()).max(0.0)).sum()
            };
            let low = f64::NEG_INFINITY;
            prop_assert!((above(&merged, low) / above(&truth, low) - 1.0).abs() < 1e-12);
            for i in 0..=60 {
                let t = whole * f64::from(i) / 60.0;
                prop_assert!(above(&merged, t) <= above(&truth, t) * (1.0 + 1e-12) + 1e-14, "at {t}");
            }
        }
    }

    #[test]
    fn a_jump_leaves_nothing_over() {
        // Even mass from line 0 on, nothing below: shares would alternate forever.
        let width: f64 = 0.01;
        let mut cells = vec![Cell::EMPTY; 400];
        for cell in &mut cells {
            for i in 0..20 {
                cell.add(0.0, width * (f64::from(i) + 0.5) / 20.0, width);
            }
        }
        let masses = Merger::new(&cells, &[width; 400]).masses();
        let kept: f64 = masses.iter().map(|ln| ln.exp()).sum();
        // Q-mass that had to be raised, of 20 a cell: P-mass moved down by a line raises it by 1 %.
        assert!(kept - 8000.0 < 0.1, "{}", kept - 8000.0);
    }
}
