//! Closed form of one step: δ(ε) is a finite sum of normal tails. A composition of plain Gaussians is one
//! step too.

use super::mixture::{Mixture, Pair};
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{
    LN_SQRT_TAU, ROUND, above_zero, ln_add_exp, ln_difference, ln_mills_ratio, ln_normal_tail,
};

/// Beyond any crossing; the product of two such numbers is still finite.
const FARTHEST: f64 = 1e150;
/// A distance at which the crossing of two densities has too few digits.
const FAR: f64 = 1e6;
/// Rounding errors of a shift up to this size matter only to first order.
const SMALL_SHIFT: f64 = 1e-3;

impl Pair {
    /// Returns N(μ, 1) against N(0, 1), which is equivalent to a composition of plain Gaussians.
    pub(crate) fn gaussian(distance: f64) -> Self {
        Self {
            first: Mixture::standard(distance),
            second: Mixture::standard(0.0),
        }
    }

    /// Returns the largest and the smallest value that the loss approaches: infinite if one law reaches
    /// farther than the other.
    pub(crate) fn loss_range(&self) -> (f64, f64) {
        let end = |positive: &Mixture, negative: &Mixture| {
            if positive.farthest() > 0.0 || negative.nearest() > 0.0 {
                f64::INFINITY
            } else {
                // Far out, only components at 0 are left.
                positive.ln_nearest_weight() - negative.ln_nearest_weight()
            }
        };
        (
            end(&self.first, &self.second),
            -end(&self.second, &self.first),
        )
    }

    /// Returns δ(ε) = P(x > x*) − e^ε Q(x > x*), where the increasing loss crosses ε at x*.
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
        if let Some(ends) = self
            .gaussian_distance()
            .and_then(|mu| far_gaussian(mu, epsilon))
        {
            return ends;
        }
        let (low, high) = self.crossing(epsilon);
        let middle = 0.5 * (low + high);
        let [(first, first_error), (second, second_error)] = self.ln_tails(middle);
        let second = second + epsilon;
        let error = first_error + (second - first).exp() * (second_error + ROUND * epsilon.abs());
        let excess = |error: f64| first + (-(second - first).exp_m1() + error).max(0.0).ln();
        let most = first + above_zero(-(second - first).exp_m1() + error).ln();
        // Between middle and x*, the integrand p − e^ε q is p times at most e^η − 1, where η is the
        // distance of the loss from ε there.
        let loss_low = self.loss_at(low).0 - self.loss_at(low).1;
        let loss_high = self.loss_at(high).0 + self.loss_at(high).1;
        let missed =
            (epsilon - loss_low).max(loss_high - epsilon).exp_m1().ln() + self.ln_mass(low, high);
        LnBounds {
            lower: excess(-error),
            middle: excess(0.0),
            upper: ln_add_exp(ln_add_exp(most, missed), self.first.missing().ln()),
        }
    }

    /// Returns ln of a bound on the first law's mass between two points.
    fn ln_mass(&self, low: f64, high: f64) -> f64 {
        let beyond = self.first.ln_tail(low).0 + 1e-12;
        let width = high - low;
        if width * (self.first.farthest() + low.abs() + 1.0) > 0.1 {
            return beyond;
        }
        // On an interval this short, the density changes by less than e^{0.1}.
        let density = self.first.ratio(low).ln - 0.5 * low * low - LN_SQRT_TAU;
        beyond.min(density + 0.2 + width.ln())
    }

    /// Returns L(x) and a bound on its rounding error.
    fn loss_at(&self, x: f64) -> (f64, f64) {
        let (plus, minus) = (self.first.ratio(x), self.second.ratio(-x));
        let rounding = 2.0 * ROUND * (plus.ln.abs() + minus.ln.abs());
        (plus.ln - minus.ln, plus.error + minus.error + rounding)
    }

    /// Returns ln P(x > threshold) and ln Q(x > threshold), each with a bound on its rounding error.
    pub(crate) fn ln_tails(&self, threshold: f64) -> [(f64, f64); 2] {
        [
            self.first.ln_tail(threshold),
            self.second.mirrored_ln_tail(threshold),
        ]
    }

    /// Returns ln P(x ≤ threshold) and ln Q(x ≤ threshold), each with a bound on its rounding error.
    pub(crate) fn ln_tails_below(&self, threshold: f64) -> [(f64, f64); 2] {
        [
            self.first.mirrored_ln_tail(-threshold),
            self.second.ln_tail(-threshold),
        ]
    }

    /// Returns a bracket of the point where the loss crosses ε, a few roundings wide.
    pub(crate) fn crossing(&self, epsilon: f64) -> (f64, f64) {
        let side = |x: f64| {
            let (loss, error) = self.loss_at(x);
            let error = error + 2.0 * ROUND * epsilon.abs();
            (loss + error < epsilon, loss - error > epsilon)
        };
        if let Some(ends) = self.near_crossing(epsilon)
            && side(ends.0).0
            && side(ends.1).1
        {
            return ends;
        }
        let (mut low, mut high) = (-1.0, 1.0);
        while !side(low).0 && low > -FARTHEST {
            low *= 2.0;
        }
        while !side(high).1 && high < FARTHEST {
            high *= 2.0;
        }
        // The largest x surely below, and the smallest x surely above.
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

impl Pair {
    /// Returns L(x), without a bound on its error.
    pub(crate) fn loss(&self, x: f64) -> f64 {
        self.first.ratio(x).ln - self.second.ratio(-x).ln
    }

    /// Returns the point where the loss crosses ε, by Newton's method, minus and plus a few roundings.
    fn near_crossing(&self, epsilon: f64) -> Option<(f64, f64)> {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut x = 0.0;
        for _ in 0..60 {
            let (plus, minus) = (self.first.ratio(x), self.second.ratio(-x));
            let (above, slope) = (plus.ln - minus.ln - epsilon, plus.mean + minus.mean);
            let newton = x - above / slope;
            if (newton - x).abs() <= 1e-9 * (1.0 + x.abs()) {
                // Newton's next step would be of the size of a rounding error.
                let rounding = 4.0 * ROUND * (plus.ln.abs() + minus.ln.abs() + epsilon.abs());
                let error = (plus.error + minus.error + rounding) / slope;
                let reach = 2.0 * error + 8.0 * ROUND * newton.abs() + 1e-15;
                return Some((newton - reach, newton + reach));
            }
            if above < 0.0 {
                low = x
            } else {
                high = x
            }
            x = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            if !x.is_finite() {
                break;
            }
        }
        None
    }
}

/// Returns ln δ(ε) of N(μ, 1) against N(0, 1) in the tail: with z = ε/μ − μ/2 and the Mills ratio R, δ =
/// φ(z)(R(z) − R(z + μ)), since e^ε φ(z + μ) = φ(z).
///
/// Source: Balle and Wang 2018, rewritten so that nothing but the Mills ratios cancels; where these
/// nearly cancel, the general form is used.
fn far_gaussian(mu: f64, epsilon: f64) -> Option<LnBounds> {
    let z = epsilon / mu - 0.5 * mu;
    if z.is_nan() {
        return None;
    }
    // z is off by two rounding errors of its parts.
    let shift = 3.0 * ROUND * (epsilon / mu + mu);
    if shift > SMALL_SHIFT || mu > FAR && z <= 1.0 {
        return Some(farther_gaussian(mu, z, shift));
    }
    if z <= 1.0 {
        return None;
    }
    let (near, far) = (ln_mills_ratio(z), ln_mills_ratio(z + mu));
    let difference = -(far - near).exp_m1();
    if z <= 5.0 && difference < 0.01 {
        return None;
    }
    let value = -0.5 * z * z - LN_SQRT_TAU + near + difference.ln();
    // A Mills ratio is off by a few roundings; below 5 by z²/2 more from the tail and as many from the
    // square, and ln R by one more.
    let error = z * shift
        + ROUND
            * (z * z
                + (16.0 + 2.0 * z.min(5.0).powi(2) + 2.0 * near.abs()) / difference
                + 2.0 * value.abs()
                + 8.0);
    Some(LnBounds::exactly(value).widened(error + shift / difference))
}

/// Returns the same if the error `shift` of z isn't small, or if μ is so large that only the first law
/// counts: δ(z) = P(X > z) − φ(z) R(z + μ) falls in z and is at most P(X > z).
fn farther_gaussian(mu: f64, z: f64, shift: f64) -> LnBounds {
    // A tail above one half is off by no more than a few roundings.
    let roundings = |z: f64| ROUND * (3.0 * z.max(0.0).powi(2) + 16.0);
    let (near, far) = (z - shift, z + shift);
    let second = -0.5 * far * far - LN_SQRT_TAU + ln_mills_ratio(far + mu);
    let (first, error) = (ln_normal_tail(far), roundings(far));
    LnBounds {
        lower: ln_difference(first - error, second + error),
        middle: ln_normal_tail(z),
        upper: (ln_normal_tail(near) + roundings(near)).min(0.0),
    }
}

/// Returns ln Φ(Φ⁻¹(x) + μ): half-lines are the best tests between N(μ, 1) and N(0, 1).
pub(crate) fn ln_blow_up_of_gaussian(ln_x: f64, distance: f64) -> LnBounds {
    let error = |ln: f64| 1e-13 * (1.0 + ln.abs());
    // Tails fall: find the last point whose tail is surely no less than x, and the first one whose tail
    // is surely no more.
    let (mut low, mut high) = (-40.0, 40.0 + (-2.0 * ln_x).sqrt());
    let (mut inner, mut outer) = (low, high);
    for _ in 0..200 {
        let middle = 0.5 * (inner + outer);
        let ln = ln_normal_tail(middle);
        if ln - error(ln) >= ln_x {
            (inner, low) = (middle, middle);
        } else {
            outer = middle;
        }
    }
    inner = low;
    for _ in 0..200 {
        let middle = 0.5 * (inner + high);
        let ln = ln_normal_tail(middle);
        if ln + error(ln) <= ln_x {
            high = middle;
        } else {
            inner = middle;
        }
    }
    let tail = |place: f64| {
        let moved = place - distance;
        (ln_normal_tail(moved), moved)
    };
    // A rounding error of the difference moves the tail by its slope, relatively at most 1 + |z|.
    let slope = |(ln, moved): (f64, f64)| {
        error(ln) + 2.0 * f64::EPSILON * (distance + 1.0) * (1.0 + moved.max(0.0))
    };
    let (below, above) = (tail(high), tail(low));
    LnBounds {
        lower: below.0 - slope(below),
        middle: 0.5 * (below.0 + above.0),
        upper: (above.0 + slope(above)).min(0.0),
    }
}

impl Mixture {
    /// Returns ln Σ w_k P(N(κ_k, 1) > x) and a bound on its rounding error.
    pub(crate) fn ln_tail(&self, x: f64) -> (f64, f64) {
        self.ln_tail_signed(x, 1.0)
    }

    /// Returns ln Σ w_k P(N(−κ_k, 1) > x) and a bound on its rounding error.
    pub(crate) fn mirrored_ln_tail(&self, x: f64) -> (f64, f64) {
        self.ln_tail_signed(x, -1.0)
    }

    fn ln_tail_signed(&self, x: f64, sign: f64) -> (f64, f64) {
        let mut total = f64::NEG_INFINITY;
        let mut terms = Vec::new();
        // The normal tail is log-concave, so the terms fall ever faster if the weights do.
        let near = self.near(|k| {
            let (position, ln_weight) = self.component(k);
            ln_weight + ln_normal_tail(x - sign * position)
        });
        for k in near.0 {
            let (position, ln_weight) = self.component(k);
            let z = x - sign * position;
            let term = ln_weight + ln_normal_tail(z);
            total = ln_add_exp(total, term);
            terms.push((
                term,
                // The last term is of second order: z is off by one rounding of a position.
                3.0 * z * z
                    + 2.0 * position.abs() * z.abs()
                    + 2.0 * ln_weight.abs()
                    + ROUND * position * position,
            ));
        }
        let error = terms
            .iter()
            .map(|(term, size)| (term - total).exp() * (size + 12.0))
            .sum::<f64>();
        (total, ROUND * (error + 2.0 * total.abs()))
    }
}
