//! The line cut into cells, with bounds that hold on each whole cell.
//!
//! One step integrates f_s(x) = N(x) M₊(x)^s M₋(x)^{1−s}, where P = N·M₊ and Q = N·M₋. A cell stores ln M± at
//! its midpoint, the slopes at its ends (monotone in between) and bounds on the second derivatives. Nothing
//! here depends on s.

use crate::loss::{Mixture, Pair};
use crate::numeric::special::{LN_SQRT_TAU, above_zero, ln_mills_above, ln_sum_exp};
use crate::quantity::error::{Error, Result};

/// Returns the width below which cells aren't halved: few steps need all of the decay that can be proved for
/// one step.
fn least_width(times: f64) -> f64 {
    if times < 100.0 { 0.125 } else { 0.3 }
}
/// More cells than this are an error rather than a long wait.
const MOST_CELLS: usize = 60_000;

/// ln M₊, ln M₋ and their slopes at one point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellBoundary {
    pub(crate) x: f64,
    pub(crate) ln_plus: f64,
    pub(crate) ln_minus: f64,
    /// d ln M₊/dx, increasing in x.
    pub(crate) plus_mean: f64,
    /// −d ln M₋/dx, decreasing in x.
    pub(crate) minus_mean: f64,
}

impl CellBoundary {
    fn at(pair: &Pair, x: f64) -> Self {
        let (plus, minus) = (pair.first.ratio(x), pair.second.ratio(-x));
        Self {
            x,
            ln_plus: plus.ln,
            ln_minus: minus.ln,
            plus_mean: plus.mean,
            minus_mean: minus.mean,
        }
    }

    /// Returns ln f_c(x) for real c.
    pub(crate) fn ln_density(&self, c: f64) -> f64 {
        -0.5 * self.x * self.x - LN_SQRT_TAU + c * self.ln_plus + (1.0 - c) * self.ln_minus
    }
}

/// Bounds on the first two derivatives of ln M₊ and ln M₋ over an interval of the line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slopes {
    /// The smallest and the largest slope of ln M₊ on the cell.
    pub(crate) plus_mean: (f64, f64),
    /// The smallest and the largest slope of −ln M₋ on the cell.
    pub(crate) minus_mean: (f64, f64),
    /// The largest second derivative of ln M₊ on the cell.
    pub(crate) plus_variance: f64,
    /// The largest second derivative of ln M₋ on the cell.
    pub(crate) minus_variance: f64,
}

/// One cell [left, right] of the line.
#[derive(Debug, Clone, Copy)]
struct Cell {
    left: f64,
    right: f64,
    middle: CellBoundary,
    slopes: Slopes,
}

impl Cell {
    fn between(pair: &Pair, left: &CellBoundary, right: &CellBoundary) -> Self {
        let reach = 0.5 * (right.x - left.x);
        let middle = CellBoundary::at(pair, left.x + reach);
        let variance = |side: &Mixture, x: f64, mean: f64, low: f64, high: f64| {
            // Bhatia–Davis: Var ≤ (max − mean)(mean − min), for any mean on the cell.
            let by_mean = (side.farthest() - low) * (high - side.nearest());
            let near = side.variance_near(x, mean, reach);
            above_zero(by_mean.min(near).min(side.most_variance()))
        };
        let x = middle.x;
        let slopes = Slopes {
            plus_mean: (left.plus_mean, right.plus_mean),
            minus_mean: (right.minus_mean, left.minus_mean),
            plus_variance: variance(
                &pair.first,
                x,
                middle.plus_mean,
                left.plus_mean,
                right.plus_mean,
            ),
            minus_variance: variance(
                &pair.second,
                -x,
                middle.minus_mean,
                right.minus_mean,
                left.minus_mean,
            ),
        };
        Self {
            left: left.x,
            right: right.x,
            middle,
            slopes,
        }
    }
}

/// The cells, with each quantity in its own vector, so that loops over cells can be vectorised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    pub(crate) left: Vec<f64>,
    pub(crate) right: Vec<f64>,
    /// ln N(x) at the midpoint, plus the logarithm of the width.
    ln_bell: Vec<f64>,
    /// ln M₊ and ln M₋ at the midpoint.
    ln_plus: Vec<f64>,
    ln_minus: Vec<f64>,
    /// The fields of [`Slopes`].
    pub(crate) plus_mean: (Vec<f64>, Vec<f64>),
    pub(crate) minus_mean: (Vec<f64>, Vec<f64>),
    pub(crate) plus_variance: Vec<f64>,
    pub(crate) minus_variance: Vec<f64>,
    /// [`Slopes::height`].
    pub(crate) height: Vec<f64>,
}

impl Cells {
    fn push(&mut self, cell: &Cell) {
        let (middle, slopes) = (&cell.middle, &cell.slopes);
        let width = cell.right - cell.left;
        self.left.push(cell.left);
        self.right.push(cell.right);
        self.ln_bell
            .push(-0.5 * middle.x * middle.x - LN_SQRT_TAU + width.ln());
        self.ln_plus.push(middle.ln_plus);
        self.ln_minus.push(middle.ln_minus);
        self.plus_mean.0.push(slopes.plus_mean.0);
        self.plus_mean.1.push(slopes.plus_mean.1);
        self.minus_mean.0.push(slopes.minus_mean.0);
        self.minus_mean.1.push(slopes.minus_mean.1);
        self.plus_variance.push(slopes.plus_variance);
        self.minus_variance.push(slopes.minus_variance);
        self.height.push(slopes.height());
    }

    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// Returns ln of f_c at the midpoint of each cell times its width, and the largest difference of ln f_c
    /// from its midpoint value on the cell: |d ln f_c/dx| times half the width.
    pub(crate) fn ln_masses(&self, c: f64) -> (Vec<f64>, Vec<f64>) {
        let count = self.len();
        let (mut ln_mass, mut swing) = (vec![0.0; count], vec![0.0; count]);
        let (left, right) = (&self.left[..count], &self.right[..count]);
        let (bell, plus) = (&self.ln_bell[..count], &self.ln_plus[..count]);
        let minus = &self.ln_minus[..count];
        let (plus_low, plus_high) = (&self.plus_mean.0[..count], &self.plus_mean.1[..count]);
        let (minus_low, minus_high) = (&self.minus_mean.0[..count], &self.minus_mean.1[..count]);
        for j in 0..count {
            ln_mass[j] = bell[j] + c * plus[j] + (1.0 - c) * minus[j];
            let (a, b) = ((c - 1.0) * minus_low[j], (c - 1.0) * minus_high[j]);
            let (least, most) = if a < b { (a, b) } else { (b, a) };
            let low = (-right[j] + c * plus_low[j] + least).abs();
            let high = (-left[j] + c * plus_high[j] + most).abs();
            let slope = if low > high { low } else { high };
            swing[j] = slope * 0.5 * (right[j] - left[j]);
        }
        (ln_mass, swing)
    }
}

/// The cells of one pair, with both tails.
#[derive(Debug, Clone)]
pub(crate) struct CellPartition {
    pub(crate) pair: Pair,
    pub(crate) cells: Cells,
    /// The boundaries of the cells, one more than cells.
    pub(crate) boundaries: Vec<CellBoundary>,
    /// The loss at the boundaries.
    pub(crate) loss: Vec<f64>,
    /// The distance from the real axis up to which the bounds hold along the whole line.
    pub(crate) height: f64,
}

impl CellPartition {
    /// Creates cells for `times` steps, until both tails of f_c, c ∈ {0, 1, `order`}, weigh at most
    /// e^`ln_tail` each.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if that takes too many cells.
    pub(crate) fn new(pair: &Pair, times: f64, order: f64, ln_tail: f64) -> Result<Self> {
        let start = (-2.0 * ln_tail).sqrt() - 2.0;
        let orders = [0.0, 1.0, order];
        let reach = |sign: f64| -> Result<f64> {
            let mut x = start.max(4.0);
            while x < 1e7 {
                let boundary = CellBoundary::at(pair, sign * x);
                if orders
                    .iter()
                    .all(|c| ln_tail_beyond(pair, &boundary, *c, sign) <= ln_tail)
                {
                    return Ok(x);
                }
                x += f64::max(0.5, 0.03 * x);
            }
            Err(too_wide())
        };
        let (left, right) = (-reach(-1.0)?, reach(1.0)?);
        let mut partition = Self {
            pair: pair.clone(),
            cells: Cells::default(),
            boundaries: vec![CellBoundary::at(pair, left)],
            loss: Vec::new(),
            height: 0.0,
        };
        let width = ((right - left) / 600.0).clamp(least_width(times), 0.5);
        let count = ((right - left) / width).ceil();
        if count > MOST_CELLS as f64 {
            return Err(too_wide());
        }
        for index in 1..=count as usize {
            let x = left + (right - left) * index as f64 / count;
            let to = CellBoundary::at(pair, x);
            partition.extend(to, 10)?;
        }
        let loss = |boundary: &CellBoundary| boundary.ln_plus - boundary.ln_minus;
        partition.loss = partition.boundaries.iter().map(loss).collect();
        partition.height = partition.least_height();
        Ok(partition)
    }

    /// Appends the interval up to `to`, halved where the slopes change too much.
    fn extend(&mut self, to: CellBoundary, depth: u32) -> Result<()> {
        let from = self.boundaries[self.boundaries.len() - 1];
        if depth > 0 && self.needs_halving(&from, &to) {
            let middle = CellBoundary::at(&self.pair, 0.5 * (from.x + to.x));
            self.extend(middle, depth - 1)?;
            return self.extend(to, depth - 1);
        }
        if self.cells.len() >= MOST_CELLS {
            return Err(too_wide());
        }
        self.cells.push(&Cell::between(&self.pair, &from, &to));
        self.boundaries.push(to);
        Ok(())
    }

    fn needs_halving(&self, from: &CellBoundary, to: &CellBoundary) -> bool {
        let rough = |side: &Mixture, low: f64, high: f64| {
            let range = side.farthest() - side.nearest();
            let negligible =
                high - side.nearest() < 1e-30 * range || side.farthest() - low < 1e-13 * range;
            !negligible && range * (to.x - from.x) > 0.7 && high - low > 0.05 * (1.0 + low)
        };
        rough(&self.pair.first, from.plus_mean, to.plus_mean)
            || rough(&self.pair.second, to.minus_mean, from.minus_mean)
    }

    /// Returns bounds on the slopes beyond the last cell, to the left (`sign` −1) or right (+1).
    pub(crate) fn slopes_beyond(&self, sign: f64) -> Slopes {
        let (plus, minus) = (&self.pair.first, &self.pair.second);
        let boundary = &self.boundaries[if sign > 0.0 {
            self.boundaries.len() - 1
        } else {
            0
        }];
        // Beyond an end, the mean lies between the boundary's and the extreme position; Bhatia–Davis bounds
        // the variance.
        let (plus_mean, minus_mean) = if sign > 0.0 {
            (
                (boundary.plus_mean, plus.farthest()),
                (minus.nearest(), boundary.minus_mean),
            )
        } else {
            (
                (plus.nearest(), boundary.plus_mean),
                (boundary.minus_mean, minus.farthest()),
            )
        };
        let variance = |side: &Mixture, mean: (f64, f64)| {
            let by_mean = (side.farthest() - mean.0) * (mean.1 - side.nearest());
            above_zero(by_mean.min(side.most_variance()))
        };
        Slopes {
            plus_mean,
            minus_mean,
            plus_variance: variance(plus, plus_mean),
            minus_variance: variance(minus, minus_mean),
        }
    }

    /// Returns the innermost interval, as two boundaries, outside which f_c weighs at most e^`ln_tail` on
    /// each side for every one of `orders`.
    pub(crate) fn span(&self, orders: &[f64], ln_tail: f64) -> (usize, usize) {
        let light = |boundary: usize, sign: f64| {
            orders
                .iter()
                .all(|c| self.ln_tail(boundary, *c, sign) <= ln_tail)
        };
        let last = self.boundaries.len() - 1;
        // Tail bounds shrink outwards, so bisect on each side of the middle.
        let search = |mut light_at: usize, mut heavy_at: usize, sign: f64| {
            while light_at.abs_diff(heavy_at) > 1 {
                let between = usize::midpoint(light_at, heavy_at);
                if light(between, sign) {
                    light_at = between
                } else {
                    heavy_at = between
                }
            }
            light_at
        };
        (search(0, last, -1.0), search(last, 0, 1.0))
    }

    /// Returns ln of a rough value of ∫ f_c, from the midpoints of the cells.
    pub(crate) fn rough_ln_moment(&self, c: f64) -> f64 {
        ln_sum_exp(&self.cells.ln_masses(c).0)
    }

    /// Returns ln of a bound on ∫ f_c beyond the boundary with this index, to the left (`sign` −1) or right
    /// (+1).
    pub(crate) fn ln_tail(&self, boundary: usize, c: f64, sign: f64) -> f64 {
        ln_tail_beyond(&self.pair, &self.boundaries[boundary], c, sign)
    }
}

/// Returns ln of a bound on the integral of f_c, c ≥ 0, beyond `boundary`.
///
/// ln M₊ and ln M₋ are convex, so beyond the boundary each is bounded by a line: with the steepest possible
/// slope if its exponent is positive, and with the slope at the boundary if its exponent is negative. What
/// remains is a Gaussian integral. If both exponents are positive, Hölder's inequality bounds it by
/// P(beyond)^c Q(beyond)^{1−c}.
fn ln_tail_beyond(pair: &Pair, boundary: &CellBoundary, c: f64, sign: f64) -> f64 {
    let by_slopes = ln_tail_by_slopes(pair, boundary, c, sign);
    if c > 1.0 {
        return by_slopes;
    }
    let tails = if sign > 0.0 {
        pair.ln_tails(boundary.x)
    } else {
        pair.ln_tails_below(boundary.x)
    };
    let [first, second] = tails.map(|(ln, error)| ln + error);
    // A part of order 0 contributes nothing, even for a tail that underflows to zero.
    let part = |weight: f64, ln: f64| if weight > 0.0 { weight * ln } else { 0.0 };
    by_slopes.min(part(c, first) + part(1.0 - c, second))
}

fn ln_tail_by_slopes(pair: &Pair, boundary: &CellBoundary, c: f64, sign: f64) -> f64 {
    let slope = |plus: f64| {
        if sign > 0.0 {
            let minus = if c <= 1.0 {
                pair.second.nearest()
            } else {
                boundary.minus_mean
            };
            c * plus + (c - 1.0) * minus
        } else {
            let minus = if c <= 1.0 {
                pair.second.farthest()
            } else {
                boundary.minus_mean
            };
            -c * pair.first.nearest() + (1.0 - c) * minus
        }
    };
    let bounded =
        |at: &CellBoundary, slope: f64| at.ln_density(c) + ln_mills_above(sign * at.x - slope);
    let steepest = slope(pair.first.farthest());
    let direct = bounded(boundary, steepest);
    if sign < 0.0 || steepest < boundary.x {
        return direct;
    }
    // The steepest slope is reached only far out: use the slope up to there, and the bound beyond.
    let far = CellBoundary::at(pair, steepest + 9.0);
    let far_slope = c * pair.first.farthest()
        + (c - 1.0)
            * if c <= 1.0 {
                pair.second.nearest()
            } else {
                far.minus_mean
            };
    let staged = crate::numeric::special::ln_add_exp(
        bounded(boundary, slope(far.plus_mean)),
        bounded(&far, far_slope),
    );
    direct.min(staged)
}

pub(crate) fn too_wide() -> Error {
    Error::NotCertified {
        what: "the loss of one step",
        why: "its moments at this order spread over too wide a range".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contour::samples::pairs;

    /// ∫ f_c over [from, to] by a fine midpoint rule.
    fn integral(pair: &Pair, c: f64, from: f64, to: f64) -> f64 {
        let count = 20_000;
        let step = (to - from) / f64::from(count);
        (0..count)
            .map(|i| {
                CellBoundary::at(pair, from + (f64::from(i) + 0.5) * step)
                    .ln_density(c)
                    .exp()
                    * step
            })
            .sum()
    }

    #[test]
    fn tails_are_bounded_on_both_sides_for_every_order() {
        for pair in pairs() {
            for c in [0.0, 0.3, 1.0, 1.7, 4.0] {
                for x in [-3.0, -1.0, 2.0, 5.0] {
                    let boundary = CellBoundary::at(&pair, x);
                    let right = integral(&pair, c, x, x + 60.0);
                    assert!(right <= ln_tail_beyond(&pair, &boundary, c, 1.0).exp() * (1.0 + 1e-5));
                    let left = integral(&pair, c, x - 60.0, x);
                    assert!(left <= ln_tail_beyond(&pair, &boundary, c, -1.0).exp() * (1.0 + 1e-5));
                }
            }
        }
    }

    #[test]
    fn cells_bound_density_and_curvature_inside() {
        for pair in pairs() {
            let partition = CellPartition::new(&pair, 1.0, 6.0, -60.0).unwrap();
            for index in (0..partition.cells.len()).step_by(5) {
                let (left, width) = (
                    partition.cells.left[index],
                    partition.cells.right[index] - partition.cells.left[index],
                );
                for part in 0..=4 {
                    let x = left + width * f64::from(part) / 4.0;
                    let boundary = CellBoundary::at(&pair, x);
                    for c in [0.2, 1.0, 6.0] {
                        let (mass, swing) = partition.cells.ln_masses(c);
                        let off = (boundary.ln_density(c) + width.ln() - mass[index]).abs();
                        assert!(off <= swing[index] + 1e-12);
                    }
                    let step = 1e-4;
                    let up = CellBoundary::at(&pair, x + step);
                    let down = CellBoundary::at(&pair, x - step);
                    let plus = (up.plus_mean - down.plus_mean) / (2.0 * step);
                    let minus = (down.minus_mean - up.minus_mean) / (2.0 * step);
                    // The points just outside the cell's ends cost a little.
                    assert!(plus <= partition.cells.plus_variance[index] * 1.01 + 1e-9);
                    assert!(minus <= partition.cells.minus_variance[index] * 1.01 + 1e-9);
                }
            }
        }
    }

    #[test]
    fn tiny_noise_does_not_blow_up_the_chart() {
        let with = Mixture::binomial(1, 0.01, 100.0).unwrap();
        let partition = CellPartition::new(
            &Pair {
                first: with,
                second: Mixture::point(0.0).unwrap(),
            },
            1.0,
            1.2,
            -60.0,
        )
        .unwrap();
        assert!(partition.cells.len() < 5_000, "{}", partition.cells.len());
    }
}
