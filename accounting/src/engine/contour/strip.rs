//! Bounds off the real axis.
//!
//! At x + ia the ratio M = Σ w_k e^{κ_k z − κ_k²/2} satisfies |M(x+ia)| ≤ M(x),
//! |M(x+ia)|² ≥ M(x)²(1 − a²V) and |arg M(x+ia) − aE| ≤ asin(a²V/2), with E and V mean and
//! variance of κ under p_k ∝ w_k e^{κ_k x − κ_k²/2}. So M has no zero where a²V < 2, and f_s
//! is analytic there.

use super::partition::{CellPartition, Cells, Slopes};
use crate::numeric::special::{arcsine, half_ln_shrinkage, ln_add_exp, ln_sum_exp};
use std::f64::consts::PI;

/// The largest distance from the real axis: the Gaussian factor costs e^{a²/2}.
const HIGHEST: f64 = 8.0;
/// The number of shifts that are tried, each [`STEP`] times the one before.
const SHIFTS: usize = 28;
const STEP: f64 = 0.7;

impl Slopes {
    /// Returns the largest a for which the bounds above hold here, with a little room.
    pub(super) fn height(&self) -> f64 {
        (0.95 / self.plus_variance.max(self.minus_variance))
            .sqrt()
            .min(HIGHEST)
    }

    /// Returns ln of a bound on |f_s(x+ia)|/f_c(x) without the Gaussian factor, |Im s| ≤ y.
    fn ln_growth(&self, c: f64, a: f64, y: f64) -> f64 {
        let square = a * a;
        let turn = a * (self.plus_mean.1 + self.minus_mean.1)
            + arcsine(0.5 * square * self.plus_variance)
            + arcsine(0.5 * square * self.minus_variance);
        y * turn + self.ln_shrinkage(c, a)
    }

    /// Returns a bound on |L(x+ia) − L(x)|.
    fn change(&self, a: f64) -> f64 {
        let square = a * a;
        half_ln_shrinkage(square * self.plus_variance)
            + half_ln_shrinkage(square * self.minus_variance)
            + self.ln_growth(1.0, a, 1.0)
    }

    /// Returns ln of a bound on |M₋(x+ia)/M₋(x)|^{1−c}, which is above 0 only if the exponent is
    /// negative.
    pub(super) fn ln_shrinkage(&self, c: f64, a: f64) -> f64 {
        (c - 1.0).max(0.0) * half_ln_shrinkage(a * a * self.minus_variance)
    }
}

impl Cells {
    /// Adds [`Slopes::ln_growth`] of each cell to `exponents`.
    fn grow(&self, c: f64, a: f64, y: f64, exponents: &mut [f64]) {
        let count = exponents.len();
        let (plus, minus) = (&self.plus_mean.1[..count], &self.minus_mean.1[..count]);
        let plus_variance = &self.plus_variance[..count];
        let minus_variance = &self.minus_variance[..count];
        let (square, excess) = (a * a, (c - 1.0).max(0.0));
        for j in 0..count {
            let turn = a * (plus[j] + minus[j])
                + arcsine(0.5 * square * plus_variance[j])
                + arcsine(0.5 * square * minus_variance[j]);
            exponents[j] += y * turn + excess * half_ln_shrinkage(square * minus_variance[j]);
        }
    }

    fn slopes(&self, cell: usize) -> Slopes {
        Slopes {
            plus_mean: (self.plus_mean.0[cell], self.plus_mean.1[cell]),
            minus_mean: (self.minus_mean.0[cell], self.minus_mean.1[cell]),
            plus_variance: self.plus_variance[cell],
            minus_variance: self.minus_variance[cell],
        }
    }
}

/// A bound on ∫ |f_s(x ± ia)| dx at one order c for |Im s| ≤ y, for any shift a.
struct Strip<'a> {
    partition: &'a CellPartition,
    c: f64,
    y: f64,
    /// ln of a bound on f_c times the width, for each cell.
    ln_most: Vec<f64>,
    exponents: Vec<f64>,
    /// ln of a bound on the tails of f_c.
    tails: [(f64, Slopes); 2],
}

impl<'a> Strip<'a> {
    fn new(partition: &'a CellPartition, c: f64, y: f64) -> Self {
        let (mut ln_most, swing) = partition.cells.ln_masses(c);
        for (ln, swing) in ln_most.iter_mut().zip(&swing) {
            *ln += swing;
        }
        let tail = |boundary, sign| {
            (
                partition.ln_tail(boundary, c, sign),
                partition.slopes_beyond(sign),
            )
        };
        Self {
            exponents: Vec::with_capacity(ln_most.len()),
            ln_most,
            tails: [tail(0, -1.0), tail(partition.boundaries.len() - 1, 1.0)],
            partition,
            c,
            y,
        }
    }

    /// Returns ln of the bound at the shift a.
    fn ln_integral(&mut self, a: f64) -> f64 {
        self.exponents.clone_from(&self.ln_most);
        self.partition
            .cells
            .grow(self.c, a, self.y, &mut self.exponents);
        for (tail, slopes) in &self.tails {
            self.exponents
                .push(tail + slopes.ln_growth(self.c, a, self.y));
        }
        ln_sum_exp(&self.exponents) + 0.5 * a * a
    }

    /// Returns the least value of a function of the shift and the bound there, with the index of the
    /// best shift. Searches downhill from the shift with index `from`, and stops at a value that is at
    /// most `enough`.
    fn least(&mut self, from: usize, enough: f64, value: impl Fn(f64, f64) -> f64) -> (f64, usize) {
        let mut at = |index: usize| {
            let a = self.partition.shift(index);
            value(a, self.ln_integral(a))
        };
        let mut best = (at(from), from);
        for step in [1isize, -1] {
            let mut index = from;
            while best.0 > enough {
                let Some(next) = index.checked_add_signed(step).filter(|i| *i < SHIFTS) else {
                    break;
                };
                let value = at(next);
                if value > best.0 {
                    break;
                }
                best = (value, next);
                index = next;
            }
            if best.1 != from {
                break;
            }
        }
        best
    }
}

impl CellPartition {
    /// Returns the largest shift a that is allowed along the whole line.
    pub(super) fn least_height(&self) -> f64 {
        let cells = self.cells.height.iter().copied();
        cells
            .fold(HIGHEST, f64::min)
            .min(self.slopes_beyond(-1.0).height())
            .min(self.slopes_beyond(1.0).height())
    }

    /// Returns the shift to try with this index; shifts are geometric, from the largest.
    fn shift(&self, index: usize) -> f64 {
        self.height * STEP.powi(index as i32)
    }

    /// Returns a bound on the error of the trapezoid rule for ∫ f_1 L at spacing `h`.
    ///
    /// Off the axis, |L(x+ia)| is at most |L(x)| plus the change of modulus and argument of M₊ and M₋.
    pub(crate) fn loss_trapezoid_error(&self, h: f64) -> f64 {
        let mut best = f64::INFINITY;
        let (ln_mass, swing) = self.cells.ln_masses(1.0);
        for a in (0..SHIFTS).map(|index| self.shift(index)) {
            let mut total = 0.0;
            for cell in 0..self.cells.len() {
                let moved = self.loss[cell].abs().max(self.loss[cell + 1].abs())
                    + self.cells.slopes(cell).change(a);
                total += (ln_mass[cell] + swing[cell]).exp() * moved;
            }
            for (boundary, sign) in [(0, -1.0), (self.boundaries.len() - 1, 1.0)] {
                total += self.ln_loss_tail(boundary, sign).exp()
                    * (1.0 + self.slopes_beyond(sign).change(a));
            }
            best = best.min(2.0 * total * (0.5 * a * a).exp() / (2.0 * PI * a / h).exp_m1());
        }
        best
    }

    /// Returns the widest spacing at which the trapezoid rule for ∫ f_s, Re s = c, |Im s| ≤ y, errs by
    /// at most e^`ln_error`: 2M/(e^{2πa/h} − 1) with M the integral along the shifted lines. Searches
    /// for the shift from the one with index `from`, and returns the index of the best one.
    pub(crate) fn spacing(&self, c: f64, y: f64, ln_error: f64, from: usize) -> (f64, usize) {
        let (ln, best) = Strip::new(self, c, y).least(from, f64::NEG_INFINITY, |a, ln_integral| {
            let excess = std::f64::consts::LN_2 + ln_integral - ln_error;
            -(2.0 * PI * a / ln_add_exp(0.0, excess))
        });
        (-ln, best)
    }

    /// Returns ln of the trapezoid rule's error at spacing `h`, as in [`CellPartition::spacing`]; stops
    /// as soon as it is at most `enough`.
    pub(crate) fn ln_trapezoid_error(&self, c: f64, h: f64, from: usize, enough: f64) -> f64 {
        let error = |a: f64, ln_integral: f64| {
            let rounds = 2.0 * PI * a / h;
            let denominator = if rounds > 30.0 {
                rounds
            } else {
                rounds.exp_m1().ln()
            };
            std::f64::consts::LN_2 + ln_integral - denominator
        };
        Strip::new(self, c, 0.0).least(from, enough, error).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contour::nodes::Nodes;
    use crate::engine::contour::samples::{characteristic, pairs};

    #[test]
    fn the_bound_on_the_logarithm_is_above_and_near() {
        for i in 0..=950 {
            let z = f64::from(i) * 1e-3;
            let (bound, exact) = (half_ln_shrinkage(z), -0.5 * (-z).ln_1p());
            assert!(bound >= exact && bound <= 1.12 * exact, "z = {z}");
        }
    }

    #[test]
    fn the_trapezoid_rule_errs_by_no_more_than_it_says() {
        for (pair, times) in pairs()
            .into_iter()
            .flat_map(|pair| [(pair.clone(), 1.0), (pair, 1e4)])
        {
            let partition = CellPartition::new(&pair, times, 4.0, -70.0).unwrap();
            for (c, y) in [(0.5, 0.0), (1.5, 3.0), (4.0, 0.0), (4.0, 10.0)] {
                let truth = characteristic(&pair, c, y);
                let (spacing, best) = partition.spacing(c, y, -6.0, 0);
                let rough = Nodes::new(&pair, -20.0, 60.0, spacing)
                    .unwrap()
                    .transform(c, y);
                let error = (rough.0 - truth.0).hypot(rough.1 - truth.1);
                assert!(
                    error <= (-6.0f64).exp(),
                    "{error} at spacing {spacing}, c = {c}, y = {y}"
                );
                if y == 0.0 {
                    let error = partition.ln_trapezoid_error(c, spacing, best, f64::NEG_INFINITY);
                    assert!(error <= -5.99);
                }
                // Not absurdly pessimistic either.
                assert!(
                    spacing > 0.02 / (1.0 + y),
                    "spacing {spacing}, c = {c}, y = {y}"
                );
            }
        }
    }
}
