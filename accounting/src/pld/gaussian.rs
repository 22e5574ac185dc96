//! One step in closed form: δ(ε) is a finite sum of normal tails. A composition of plain
//! Gaussians is one step too.

use super::mixture::{Mixture, Pair};
use crate::interval::LnBounds;
use crate::special::{ROUND, ln_add_exp, ln_normal_tail};

impl Pair {
    /// N(μ, 1) against N(0, 1): what a composition of plain Gaussians amounts to.
    pub(crate) fn gaussian(distance: f64) -> Self {
        Self {
            first: Mixture::standard(distance),
            second: Mixture::standard(0.0),
        }
    }

    /// The largest and smallest value that the loss comes near: infinite when a law reaches
    /// farther than the other.
    pub(crate) fn loss_range(&self) -> (f64, f64) {
        let end = |positive: &Mixture, negative: &Mixture| {
            if positive.farthest() > 0.0 || negative.nearest() > 0.0 {
                f64::INFINITY
            } else {
                // Only components at 0 are left far out.
                positive.ln_nearest_weight() - negative.ln_nearest_weight()
            }
        };
        (
            end(&self.first, &self.second),
            -end(&self.second, &self.first),
        )
    }

    /// δ(ε) = P(x > x*) − e^ε Q(x > x*), where the increasing loss crosses ε at x*.
    ///
    /// Bound: both ends; any threshold gives a lower bound, and a bracket of x* an upper one.
    pub(crate) fn ln_delta_of_one_step(&self, epsilon: f64) -> LnBounds {
        let (highest, lowest) = self.loss_range();
        if epsilon >= highest {
            return LnBounds::exactly(f64::NEG_INFINITY);
        }
        if epsilon < lowest {
            // P − e^ε Q is positive everywhere.
            let (whole, missing) = (-epsilon.exp_m1(), self.first.missing());
            let ends = LnBounds {
                lower: (whole - missing).max(0.0).ln(),
                middle: whole.ln(),
                upper: whole.ln(),
            };
            return ends.widened(4.0 * ROUND);
        }
        let (low, high) = self.crossing(epsilon);
        let excess = |first_from: f64, second_from: f64, side: f64| {
            let (first, first_error) = self.first.ln_tail(first_from);
            let (second, second_error) = self.second.mirrored_ln_tail(second_from);
            let second = second + epsilon;
            let error =
                first_error + ((second - first).exp()) * (second_error + ROUND * epsilon.abs());
            first + (-(second - first).exp_m1() + side * error).max(0.0).ln()
        };
        let middle = 0.5 * (low + high);
        LnBounds {
            lower: excess(middle, middle, -1.0),
            middle: excess(middle, middle, 0.0),
            upper: ln_add_exp(excess(low, high, 1.0), self.first.missing().ln()),
        }
    }

    /// ln P(x > threshold) and ln Q(x > threshold), each with a bound on its rounding error.
    pub(crate) fn ln_tails(&self, threshold: f64) -> [(f64, f64); 2] {
        [
            self.first.ln_tail(threshold),
            self.second.mirrored_ln_tail(threshold),
        ]
    }

    /// A bracket of the point where the loss crosses ε, a few roundings wide.
    fn crossing(&self, epsilon: f64) -> (f64, f64) {
        let side = |x: f64| {
            let (plus, minus) = (self.first.ratio(x), self.second.ratio(-x));
            let (loss, error) = (plus.ln - minus.ln, plus.error + minus.error);
            let error = error + 2.0 * ROUND * (plus.ln.abs() + minus.ln.abs() + epsilon.abs());
            (loss + error < epsilon, loss - error > epsilon)
        };
        let (mut low, mut high) = (-1.0, 1.0);
        while !side(low).0 && low > -1e9 {
            low *= 2.0;
        }
        while !side(high).1 && high < 1e9 {
            high *= 2.0;
        }
        // Largest x surely below, smallest x surely above.
        let search = |mut inside: f64, mut outside: f64, holds: &dyn Fn(f64) -> bool| {
            for _ in 0..120 {
                let middle = 0.5 * (inside + outside);
                if middle.to_bits() == inside.to_bits() || middle.to_bits() == outside.to_bits() {
                    break;
                }
                if holds(middle) {
                    inside = middle
                } else {
                    outside = middle
                }
            }
            inside
        };
        let below = search(low, high, &|x| side(x).0);
        let above = search(high, below, &|x| side(x).1);
        (below, above)
    }
}

impl Mixture {
    /// ln Σ w_k P(N(κ_k, 1) > x), and a bound on its rounding error.
    fn ln_tail(&self, x: f64) -> (f64, f64) {
        self.ln_tail_signed(x, 1.0)
    }

    /// ln Σ w_k P(N(−κ_k, 1) > x), and a bound on its rounding error.
    fn mirrored_ln_tail(&self, x: f64) -> (f64, f64) {
        self.ln_tail_signed(x, -1.0)
    }

    fn ln_tail_signed(&self, x: f64, sign: f64) -> (f64, f64) {
        let mut total = f64::NEG_INFINITY;
        let mut terms = Vec::new();
        for (position, ln_weight) in self.components() {
            let z = x - sign * position;
            let term = ln_weight + ln_normal_tail(z);
            total = ln_add_exp(total, term);
            terms.push((
                term,
                3.0 * z * z + 2.0 * position.abs() * z.abs() + 2.0 * ln_weight.abs(),
            ));
        }
        let error = terms
            .iter()
            .map(|(term, size)| (term - total).exp() * (size + 12.0))
            .sum::<f64>();
        (total, ROUND * (error + 2.0 * total.abs()))
    }
}
