//! Bounds off the real axis.
//!
//! At x + ia the ratio M = Σ w_k e^{κ_k z − κ_k²/2} satisfies |M(x+ia)| ≤ M(x),
//! |M(x+ia)|² ≥ M(x)²(1 − a²V) and |arg M(x+ia) − aE| ≤ asin(a²V/2), with E and V mean and
//! variance of κ under p_k ∝ w_k e^{κ_k x − κ_k²/2}. So M has no zero where a²V < 2, and f_s
//! is analytic there.

use super::chart::{Cell, Chart, Edge, Slopes};
use crate::special::ln_add_exp;
use std::f64::consts::PI;

/// Never leave the real axis farther than this: the Gaussian factor costs e^{a²/2}.
const HIGHEST: f64 = 8.0;

/// asin z ≤ z + (π/2 − 1) z³ on [0, 1]: (asin z − z)/z³ increases to its value at 1.
pub(super) fn arcsine(z: f64) -> f64 {
    z + (0.5 * PI - 1.0) * z * z * z
}

impl Slopes {
    /// The largest a for which the bounds above hold here, with a little room.
    pub(super) fn height(&self) -> f64 {
        (0.95 / self.plus_variance.max(self.minus_variance))
            .sqrt()
            .min(HIGHEST)
    }

    /// ln of a bound on |f_s(x+ia)|/f_c(x) without the Gaussian factor, |Im s| ≤ y.
    fn ln_growth(&self, c: f64, a: f64, y: f64) -> f64 {
        let square = a * a;
        let turn = a * (self.plus_mean.1 + self.minus_mean.1)
            + arcsine(0.5 * square * self.plus_variance)
            + arcsine(0.5 * square * self.minus_variance);
        y * turn + self.ln_shrinkage(c, a)
    }

    /// A bound on |L(x+ia) − L(x)|.
    fn change(&self, a: f64) -> f64 {
        let square = a * a;
        let modulus = -0.5 * (-square * self.plus_variance).ln_1p()
            - 0.5 * (-square * self.minus_variance).ln_1p();
        modulus + self.ln_growth(1.0, a, 1.0)
    }

    /// ln of a bound on |M₋(x+ia)/M₋(x)|^{1−c}: above 0 only when the exponent is negative.
    pub(super) fn ln_shrinkage(&self, c: f64, a: f64) -> f64 {
        if c > 1.0 && self.minus_variance > 0.0 {
            -0.5 * (c - 1.0) * (-a * a * self.minus_variance).ln_1p()
        } else {
            0.0
        }
    }
}

impl Chart {
    /// The largest shift a that is allowed along the whole line.
    fn height(&self) -> f64 {
        self.cells
            .iter()
            .map(|cell| cell.slopes.height())
            .fold(HIGHEST, f64::min)
            .min(self.slopes_beyond(-1.0).height())
            .min(self.slopes_beyond(1.0).height())
    }

    /// ln of a bound on ∫ |f_s(x ± ia)| dx for Re s = c and |Im s| ≤ y.
    fn ln_strip(&self, c: f64, a: f64, y: f64) -> f64 {
        let top = |cell: &Cell| {
            cell.middle.ln_density(c) + cell.swing(c) + cell.slopes.ln_growth(c, a, y)
        };
        let most = self.cells.iter().map(top).fold(f64::NEG_INFINITY, f64::max);
        let cells: f64 = self
            .cells
            .iter()
            .map(|cell| (top(cell) - most).exp() * cell.width())
            .sum();
        let mut total = most + cells.ln();
        for (edge, sign) in [(0, -1.0), (self.edges.len() - 1, 1.0)] {
            let growth = self.slopes_beyond(sign).ln_growth(c, a, y);
            total = ln_add_exp(total, self.ln_tail(edge, c, sign) + growth);
        }
        total + 0.5 * a * a
    }

    /// A bound on the error of the trapezoid rule for ∫ f_1 L at spacing `h`.
    ///
    /// Off the axis |L(x+ia)| is at most |L(x)| plus what modulus and argument of M₊ and M₋
    /// change by.
    pub(crate) fn loss_trapezoid_error(&self, h: f64) -> f64 {
        let mut best = f64::INFINITY;
        for a in self.shifts() {
            let mut total = 0.0;
            for (cell, ends) in self.cells.iter().zip(self.edges.windows(2)) {
                let loss = |edge: &Edge| (edge.ln_plus - edge.ln_minus).abs();
                let moved = loss(&ends[0]).max(loss(&ends[1])) + cell.slopes.change(a);
                let density = (cell.middle.ln_density(1.0) + cell.swing(1.0)).exp();
                total += density * cell.width() * moved;
            }
            for (edge, sign) in [(0, -1.0), (self.edges.len() - 1, 1.0)] {
                total += self.ln_loss_tail(edge, sign).exp()
                    * (1.0 + self.slopes_beyond(sign).change(a));
            }
            best = best.min(2.0 * total * (0.5 * a * a).exp() / (2.0 * PI * a / h).exp_m1());
        }
        best
    }

    /// The shifts to try: geometric, from the largest.
    fn shifts(&self) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(self.height()), |a| Some(a * 0.7)).take(28)
    }

    /// The widest spacing at which the trapezoid rule for ∫ f_s, Re s = c, |Im s| ≤ y, errs by
    /// at most e^`ln_error`: 2M/(e^{2πa/h} − 1) with M the integral along the shifted lines.
    pub(crate) fn spacing(&self, c: f64, y: f64, ln_error: f64) -> f64 {
        let mut best = 0.0;
        for a in self.shifts() {
            let excess = std::f64::consts::LN_2 + self.ln_strip(c, a, y) - ln_error;
            let spacing = 2.0 * PI * a / ln_add_exp(0.0, excess);
            if spacing < best {
                break;
            }
            best = f64::max(best, spacing);
        }
        best
    }

    /// ln of the trapezoid rule's error at spacing `h`, as in [`Chart::spacing`].
    pub(crate) fn ln_trapezoid_error(&self, c: f64, y: f64, h: f64) -> f64 {
        let mut best = f64::INFINITY;
        for a in self.shifts() {
            let rounds = 2.0 * PI * a / h;
            let denominator = if rounds > 30.0 {
                rounds
            } else {
                rounds.exp_m1().ln()
            };
            let error = std::f64::consts::LN_2 + self.ln_strip(c, a, y) - denominator;
            if error > best {
                break;
            }
            best = f64::min(best, error);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contour::nodes::Nodes;
    use crate::pld::{Mixture, Pair};

    fn pairs() -> Vec<Pair> {
        let with = Mixture::binomial(1, 0.1, 1.0).unwrap();
        let small = Mixture::binomial(1, 0.01, 2.0).unwrap();
        let group = Mixture::binomial(7, 0.05, 0.6).unwrap();
        let none = Mixture::point(0.0).unwrap();
        vec![
            Pair {
                first: with.clone(),
                second: none.clone(),
            },
            Pair {
                first: none.clone(),
                second: with.clone(),
            },
            Pair {
                first: small,
                second: none,
            },
            Pair {
                first: with.clone(),
                second: with,
            },
            Pair {
                first: group.clone(),
                second: group,
            },
        ]
    }

    /// φ(c+iy) by a trapezoid rule far finer than needed.
    fn characteristic(pair: &Pair, c: f64, y: f64) -> (f64, f64) {
        let nodes = Nodes::new(pair, -20.0, 45.0, 1e-2).unwrap();
        nodes.transform(c, y)
    }

    #[test]
    fn the_trapezoid_rule_errs_by_no_more_than_it_says() {
        for pair in pairs() {
            let chart = Chart::new(&pair, 4.0, -70.0).unwrap();
            for (c, y) in [(0.5, 0.0), (1.5, 3.0), (4.0, 0.0), (4.0, 10.0)] {
                let truth = characteristic(&pair, c, y);
                let spacing = chart.spacing(c, y, -6.0);
                let rough = Nodes::new(&pair, -20.0, 60.0, spacing)
                    .unwrap()
                    .transform(c, y);
                let error = (rough.0 - truth.0).hypot(rough.1 - truth.1);
                assert!(
                    error <= (-6.0f64).exp(),
                    "{error} at spacing {spacing}, c = {c}, y = {y}"
                );
                assert!(chart.ln_trapezoid_error(c, y, spacing) <= -5.99);
                // Not absurdly pessimistic either.
                assert!(
                    spacing > 0.02 / (1.0 + y),
                    "spacing {spacing}, c = {c}, y = {y}"
                );
            }
        }
    }
}
