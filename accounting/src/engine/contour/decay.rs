//! Upper bounds on the decay of the characteristic function of the tilted loss.
//!
//! There are two bounds, each useless where the other works. Where phases are large, the line of
//! integration is bent into the complex plane. Where they are small but the steps are many, |φ(y)|² =
//! 1 − E[1 − cos y(L − L')] loses the contribution of a window of losses.

use super::partition::{CellPartition, Cells, Slopes};
use crate::numeric::special::{LANES, above_zero, arcsine, exp, half_ln_shrinkage};

/// A bound on the rounding errors of a sum over cells.
const ROUNDING: f64 = 1e-14;
/// The number of halvings in the search for the middle of scattered losses.
const HALVINGS: usize = 12;

/// Bounds on |φ(c + iy)|/φ(c) for one pair at one order c.
pub(crate) struct Decay<'a> {
    partition: &'a CellPartition,
    c: f64,
    /// Lower and upper bounds on the mass of each cell under the tilted law.
    least: Vec<f64>,
    most: Vec<f64>,
    /// ln of a bound on the mass beyond the first and the last cell.
    ln_tails: [f64; 2],
    beyond: [Slopes; 2],
    /// Slopes of arg M₊ and arg M₋ together, and the cost of the modulus of M₋.
    mean: Vec<f64>,
    cost: Vec<f64>,
    /// The median loss of the tilted law.
    centre: f64,
    /// Heights of the path at the boundaries of cells.
    path: Vec<f64>,
    /// The contribution of each cell to the bound.
    terms: Vec<f64>,
    /// The index of the entry of [`PATHS`] that was better last time.
    better: usize,
}

/// The paths that are tried: the least turn for which the path leaves the axis, and its largest
/// steepness.
const PATHS: [(f64, f64); 2] = [(0.05, 0.35), (0.3, 1.0)];

impl<'a> Decay<'a> {
    /// Creates bounds at order c, given ln φ(c).
    pub(crate) fn new(partition: &'a CellPartition, c: f64, ln_moment: f64) -> Self {
        let (ln_mass, swing) = partition.cells.ln_masses(c);
        let cells = &partition.cells;
        let count = cells.len();
        let mut decay = Self {
            partition,
            c,
            least: vec![0.0; count],
            most: vec![0.0; count],
            ln_tails: [
                partition.ln_tail(0, c, -1.0) - ln_moment,
                partition.ln_tail(partition.boundaries.len() - 1, c, 1.0) - ln_moment,
            ],
            beyond: [partition.slopes_beyond(-1.0), partition.slopes_beyond(1.0)],
            mean: vec![0.0; count],
            cost: vec![0.0; count],
            centre: 0.0,
            path: vec![0.0; count + 1],
            terms: vec![0.0; count],
            better: 0,
        };
        let (plus, minus) = (&cells.plus_mean.0[..count], &cells.minus_mean.0[..count]);
        let excess = (c - 1.0).max(0.0);
        for j in 0..count {
            decay.least[j] = exp(ln_mass[j] - ln_moment - swing[j]);
            decay.most[j] = exp(ln_mass[j] - ln_moment + swing[j]);
            decay.mean[j] = plus[j] + minus[j];
            decay.cost[j] = 1.0 + excess * cells.minus_variance[j];
        }
        let half: f64 = 0.5 * decay.least.iter().sum::<f64>();
        let mut below = 0.0;
        let middle = decay.least.iter().position(|mass| {
            below += mass;
            below >= half
        });
        decay.centre = partition.loss[middle.unwrap_or(0)];
        decay
    }

    /// Returns a bound on |φ(c + iy')|/φ(c) for every |y'| ≥ y.
    ///
    /// The line of integration is bent to x + ib(x), with b chosen per cell and changing slowly. The
    /// integrand turns by y times the change of the argument of M₊/M₋, and therefore decays. Stops as
    /// soon as the bound is at most `enough`.
    pub(crate) fn bent(&mut self, y: f64, enough: f64) -> f64 {
        let mut best: f64 = 1.0;
        let mut better = self.better;
        for path in [self.better, 1 - self.better] {
            let (least_turn, steepness) = PATHS[path];
            self.lay_path(y, least_turn, steepness);
            let bound = self.along_path(y);
            if bound < best {
                (best, better) = (bound, path);
            }
            if best <= enough {
                break;
            }
        }
        self.better = better;
        best
    }

    /// Chooses heights b ≥ 0 at the boundaries: per cell near the best b of −ybE + b²(yV + V' + 1)/2
    /// with V' the cost of the modulus of M₋, zero where nothing can be gained, and changing by at
    /// most `steepness` per unit.
    fn lay_path(&mut self, y: f64, least_turn: f64, steepness: f64) {
        let cells = &self.partition.cells;
        let count = cells.len();
        let (plus, minus) = (
            &cells.plus_variance[..count],
            &cells.minus_variance[..count],
        );
        let (mean, cost) = (&self.mean[..count], &self.cost[..count]);
        let height = &cells.height[..count];
        // Beyond the ends nothing is gained: leave the axis only as far as it costs little.
        let excess = (self.c - 1.0).max(0.0);
        let end = |slopes: &Slopes| {
            let cost = 1.0 + excess * slopes.minus_variance;
            slopes.height().min((15.0 / cost).sqrt())
        };
        let path = &mut self.path[..=count];
        for j in 0..count {
            let turned = y * mean[j];
            let best = turned / (cost[j] + y * (plus[j] + minus[j]));
            let best = if best < height[j] { best } else { height[j] };
            path[j] = if turned < least_turn { 0.0 } else { best };
        }
        path[count] = end(&self.beyond[1]);
        let mut wish = path[0];
        path[0] = wish.min(end(&self.beyond[0]));
        // Each boundary is as high as the lower of its cells, and the slope from its neighbour,
        // allow.
        let widths = |j: usize| cells.right[j] - cells.left[j];
        for j in 1..=count {
            let own = path[j];
            path[j] = own.min(wish).min(path[j - 1] + steepness * widths(j - 1));
            wish = own;
        }
        for j in (0..count).rev() {
            path[j] = path[j].min(path[j + 1] + steepness * widths(j));
        }
    }

    fn along_path(&mut self, y: f64) -> f64 {
        let excess = (self.c - 1.0).max(0.0);
        let path = &self.path;
        let count = path.len() - 1;
        let ends = (&path[..count], &path[1..]);
        bending(
            &self.partition.cells,
            &self.mean,
            ends,
            y,
            excess,
            &mut self.terms,
        );
        weigh(&self.least, &self.most, &mut self.terms);
        let mut total = 1.0 + sum(&self.terms);
        for (end, b) in [(0, path[0]), (1, path[count])] {
            let growth = 0.5 * b * b + self.beyond[end].ln_shrinkage(self.c, b);
            total += (self.ln_tails[end] + growth).exp();
        }
        // Infinite if the bound doesn't hold.
        if total < 1.0 {
            (total + ROUNDING).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    /// Returns a bound on |φ(c + iy)|/φ(c) for y in [`low`, `high`].
    ///
    /// For L, L' independent, 1 − |φ|² = E[1 − cos y(L − L')]. If both lie in a window of width
    /// Z/`high`, they contribute at least (sin(Z/2)/(Z/2))² y²/2 · (L − L')²; in total, that factor
    /// times y² · m · S, with m the window's mass and S = ∫ (L − mean)² over it.
    pub(crate) fn window(&self, low: f64, high: f64) -> f64 {
        let loss = &self.partition.loss;
        let mut most: f64 = 0.0;
        for phase in [1.5, 3.0] {
            let reach = 0.5 * phase / high;
            let first = loss.partition_point(|l| *l < self.centre - reach);
            let last = loss.partition_point(|l| *l <= self.centre + reach);
            if last < first + 2 {
                continue;
            }
            let (cells, ends) = (&self.least[first..last - 1], &loss[first..last]);
            let sine = f64::sin(0.5 * phase) / (0.5 * phase);
            let total = sum(cells);
            let masses = cells.iter().zip(ends.windows(2));
            let masses = masses.map(|(mass, l)| (*mass, (l[0], l[1])));
            let scatter = least_scatter(masses, (ends[0], ends[ends.len() - 1]), HALVINGS);
            most = most.max(sine * sine * low * low * total * scatter);
        }
        above_zero(1.0 - most * (1.0 - ROUNDING)).sqrt()
    }
}

/// Computes the relative change of |f| on each cell by bending to heights between `ends`, times the
/// length of the bent line; infinite if the argument of M₊/M₋ would turn backwards.
fn bending(
    cells: &Cells,
    mean: &[f64],
    ends: (&[f64], &[f64]),
    y: f64,
    excess: f64,
    change: &mut [f64],
) {
    let count = change.len();
    let (from, to) = (&cells.left[..count], &cells.right[..count]);
    let (left, right) = (&ends.0[..count], &ends.1[..count]);
    let (plus, minus) = (
        &cells.plus_variance[..count],
        &cells.minus_variance[..count],
    );
    let mean = &mean[..count];
    for j in 0..count {
        let (a, b) = (left[j], right[j]);
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        // A lower bound on arg M₊(x+ib) − arg M₋(x+ib); concave in b, so least at an end. If it is
        // negative, the bound wouldn't hold for larger y.
        let turn = |b: f64| {
            let square = 0.5 * b * b;
            b * mean[j] - arcsine(square * plus[j]) - arcsine(square * minus[j])
        };
        let (at_low, at_high) = (turn(low), turn(high));
        let turn = if at_low < at_high { at_low } else { at_high };
        let slope = (high - low) / (to[j] - from[j]);
        let square = high * high;
        let exponent = 0.5 * square - y * turn + excess * half_ln_shrinkage(square * minus[j]);
        let grown = exp(exponent) * (1.0 + slope * slope).sqrt() - 1.0;
        change[j] = if turn < 0.0 { f64::INFINITY } else { grown };
    }
}

/// Multiplies each change by the upper bound on the mass if it is growth, and by the lower bound if
/// it is decay.
fn weigh(least: &[f64], most: &[f64], change: &mut [f64]) {
    for (change, (least, most)) in change.iter_mut().zip(least.iter().zip(most)) {
        let (least, most) = (*least, *most);
        *change *= if *change > 0.0 { most } else { least };
    }
}

fn sum(terms: &[f64]) -> f64 {
    let (lanes, rest) = terms.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for terms in lanes {
        for i in 0..LANES {
            sums[i] += terms[i];
        }
    }
    sums.iter().chain(rest).sum()
}

/// Returns a lower bound on min_m ∫ (L − m)², m between `low` and `high`, given masses and the
/// intervals that contain their losses. More halvings make it tighter.
pub(super) fn least_scatter(
    masses: impl Iterator<Item = (f64, (f64, f64))> + Clone,
    (mut low, mut high): (f64, f64),
    halvings: usize,
) -> f64 {
    // The squared distance of m from each interval; convex in m with this slope.
    let scatter = |m: f64| {
        masses
            .clone()
            .fold((0.0, 0.0), |(sum, slope), (mass, (from, to))| {
                let distance = if m < from {
                    m - from
                } else {
                    (m - to).max(0.0)
                };
                (
                    sum + mass * distance * distance,
                    slope + 2.0 * mass * distance,
                )
            })
    };
    for _ in 0..halvings {
        let middle = 0.5 * (low + high);
        if scatter(middle).1 < 0.0 {
            low = middle
        } else {
            high = middle
        }
    }
    let (value, slope) = scatter(low);
    // The tangent at `low` bounds the minimum, which lies between the two.
    (value + slope.min(0.0) * (high - low)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contour::samples::{characteristic, pairs};

    #[test]
    fn decay_bounds_the_characteristic_function_from_there_on() {
        for (pair, times) in pairs()
            .into_iter()
            .flat_map(|pair| [(pair.clone(), 1.0), (pair, 1e4)])
        {
            let partition = CellPartition::new(&pair, times, 4.0, -70.0).unwrap();
            for c in [0.5, 1.5, 4.0] {
                let moment = characteristic(&pair, c, 0.0).0;
                let mut decay = Decay::new(&partition, c, moment.ln());
                for y in [1.0, 5.0, 20.0, 80.0] {
                    let bound = decay.bent(y, 0.0);
                    for further in [1.0, 1.1, 1.5, 3.0] {
                        let (re, im) = characteristic(&pair, c, y * further);
                        let share = re.hypot(im) / moment;
                        assert!(
                            share <= bound + 1e-12,
                            "{share} > {bound} at c = {c}, y = {y}"
                        );
                    }
                }
                assert!(decay.bent(80.0, 0.0) < 0.97, "decay at c = {c}");
            }
        }
    }

    #[test]
    fn the_window_bounds_the_characteristic_function_across_its_block() {
        for (pair, times) in pairs()
            .into_iter()
            .flat_map(|pair| [(pair.clone(), 1.0), (pair, 1e4)])
        {
            let partition = CellPartition::new(&pair, times, 4.0, -70.0).unwrap();
            for c in [0.5, 1.5, 4.0] {
                let moment = characteristic(&pair, c, 0.0).0;
                let decay = Decay::new(&partition, c, moment.ln());
                for y in [0.1, 0.5, 2.0, 20.0] {
                    let bound = decay.window(y, 1.25 * y);
                    for further in [1.0, 1.1, 1.25] {
                        let (re, im) = characteristic(&pair, c, y * further);
                        let share = re.hypot(im) / moment;
                        assert!(
                            share <= bound + 1e-12,
                            "{share} > {bound} at c = {c}, y = {y}"
                        );
                    }
                }
                assert!(decay.window(0.5, 0.6) < 1.0 - 1e-7);
            }
        }
    }
}
