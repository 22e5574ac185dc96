//! Represents a law by nodes that serve every complex order up to a bound: Gauss–Legendre points on intervals
//! ("stretches") short enough for p^s q^(1−s), with bounds on both densities on each interval.
//!
//! On a piece, both densities are positive sums of exponentials over a common base. At x + ib such a sum M
//! obeys |M(x+ib)| ≤ M(x), |M(x+ib)|² ≥ M(x)²(1 − b²V) and |arg M(x+ib) − bE| ≤ asin(b²V/2), where E is the logarithmic
//! slope and V its derivative, as in `contour::strip`. This bounds the integrand on a Bernstein ellipse around a
//! stretch.

use super::density::Weights;
use super::{LossDistribution, Node, Piece, Shape};
use crate::numeric::quadrature::finest;
use crate::numeric::special::{ROUND, above_zero, arcsine, half_ln_shrinkage, ln_normal_tail};
use crate::quantity::error::{Error, Result};
use std::f64::consts::LN_2;

/// More stretches than this are an error rather than a long wait.
const MOST: usize = 2500;
/// The same limit under a mask, which is steep.
const MOST_MASKED: usize = 6000;
/// The same for components far apart, each of which takes some sixty, and more where it is steep.
const MOST_FAR_APART: usize = 12_000;
/// The ellipses that are tried.
const ELLIPSES: [f64; 9] = [2.0, 3.0, 4.5, 6.5, 10.0, 16.0, 30.0, 60.0, 150.0];

/// The requirements that nodes have to serve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    /// The largest real part of s, from 0 on.
    pub(crate) order: f64,
    /// The largest imaginary part.
    pub(crate) turn: f64,
    /// ln of the relative error allowed on each stretch.
    pub(crate) ln_goal: f64,
    /// ln of the P-mass left out beyond infinite ends.
    pub(crate) ln_cut: f64,
    /// A factor on the densities.
    pub(crate) mask: Option<Mask>,
    /// ln of the P- and of the Q-mass of an event, if orders between 0 and 1 aren't needed: errors may then be small
    /// relative to ∫ p^c q^(1−c) as a whole, which is at least P^c Q^(1−c) at c ≥ 1, instead of on each stretch.
    pub(crate) event: Option<[f64; 2]>,
}

/// A smooth step Φ(u) or Φ(−u), u = (x − centre)/width: the probability with which an outcome counts.
///
/// Φ is entire, |Φ(u + iv)| ≤ e^{v²/2} Φ(u), and the slope of ln Φ is at most |u| + 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mask {
    pub(crate) centre: f64,
    pub(crate) width: f64,
    /// Whether the upper outcomes count.
    pub(crate) upper: bool,
    /// The number of widths beyond the centre, on the side that doesn't count, from which on nothing is kept.
    pub(crate) reach: f64,
}

impl Mask {
    /// Returns ln of the probability at x, and a bound on its rounding error.
    fn ln(&self, x: f64) -> (f64, f64) {
        let u = (x - self.centre) / self.width;
        let u = if self.upper { -u } else { u };
        let off = 4.0 * ROUND * (x.abs() + self.centre.abs()) / self.width;
        let ln = ln_normal_tail(u);
        (ln, (u.abs() + 1.0) * off + ROUND * (32.0 + 4.0 * ln.abs()))
    }

    /// Returns whether stretches end at a boundary, on the right for `sign` 1 and on the left for −1, rather than where
    /// the mask keeps nothing.
    pub(super) fn keeps(&self, boundary: f64, sign: f64) -> bool {
        (sign > 0.0) == self.upper || sign * (boundary - self.centre) <= self.reach * self.width
    }

    /// Returns ln of a bound on the integral, beyond a boundary, of a normal density about `mean` times the
    /// probability. The probability is at most e^{−u²/2} on the side that doesn't count, so that the product is normal
    /// again.
    pub(super) fn ln_beyond(&self, boundary: f64, sign: f64, mean: f64) -> f64 {
        let (far, from) = (sign * (mean - self.centre), sign * (boundary - self.centre));
        if (sign > 0.0) == self.upper || from < 0.0 {
            return f64::INFINITY;
        }
        let square = self.width * self.width;
        let spread = self.width / (1.0 + square).sqrt();
        let z = (from - far * square / (1.0 + square)) / spread;
        let ln = ln_normal_tail(z - 1e-9 * (1.0 + z.abs())) + spread.ln();
        ln - 0.5 * far * far / (1.0 + square) * (1.0 - 1e-12) + 1e-9
    }

    /// Returns an interval without the part that isn't kept.
    fn within(&self, (from, to): (f64, f64)) -> (f64, f64) {
        let end = self.reach * self.width;
        if self.upper {
            (from.max(self.centre - end), to)
        } else {
            (from, to.min(self.centre + end))
        }
    }
}

/// One stretch of a piece.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    /// Whether it begins where the stretch before it ends, on the same piece.
    pub(crate) follows: bool,
    /// The range of its nodes.
    pub(crate) nodes: std::ops::Range<usize>,
    pub(crate) half: f64,
    /// The loss at both ends.
    pub(crate) loss: (f64, f64),
    /// ln q and the loss at the midpoint.
    pub(crate) ln_second: f64,
    pub(crate) middle: f64,
    /// Logarithmic slopes of p and of q at both ends; they increase except for the base.
    pub(crate) first_slope: (f64, f64),
    pub(crate) second_slope: (f64, f64),
    /// The rate at which the slope of the base falls: 1 for Gaussians.
    pub(crate) bell: f64,
    /// Bounds on the variances of the positions under both sums.
    pub(crate) variances: (f64, f64),
}

/// Bounds that hold on a whole piece.
#[derive(Debug, Clone, Copy)]
struct Bends {
    /// V of both densities.
    first: f64,
    second: f64,
    bell: f64,
}

/// The logarithmic slopes at the midpoint of a stretch.
#[derive(Debug, Clone, Copy)]
struct Slopes {
    loss: f64,
    second: f64,
}

impl Stretch {
    /// Returns both ends of the slope of the loss.
    pub(crate) fn loss_slope(&self) -> (f64, f64) {
        // The base is common to both densities, but not to both ends.
        let base = 2.0 * self.bell * self.half;
        (
            self.first_slope.0 - self.second_slope.1 - base,
            self.first_slope.1 - self.second_slope.0 + base,
        )
    }

    /// Returns a bound on |d ln f_c/dx| for f_c = p^c q^(1−c), c ≥ 0.
    pub(crate) fn steepness(&self, c: f64) -> f64 {
        let larger = |(a, b): (f64, f64)| a.abs().max(b.abs());
        // The slope of the base may lie between those at the ends, whatever the slopes of the sums do.
        let base = 2.0 * self.bell * self.half;
        let apart = larger(self.second_slope) + base + c * larger(self.loss_slope());
        // Where q falls as steeply as the loss rises, the two hardly add up.
        let (first, second) = (self.first_slope, self.second_slope);
        let second = if c > 1.0 {
            (second.1, second.0)
        } else {
            second
        };
        let slope = |first: f64, second: f64| c * first + (1.0 - c) * second;
        let ends = (slope(first.0, second.0), slope(first.1, second.1));
        apart.min(larger(ends) + base * (c + (1.0 - c).abs()))
    }

    /// Returns ln f_c at the midpoint.
    pub(crate) fn ln_density(&self, c: f64) -> f64 {
        self.ln_second + c * self.middle
    }

    /// Returns the total rise of the slopes of both sums over the stretch.
    pub(crate) fn rise(&self) -> f64 {
        let base = 2.0 * self.bell * self.half;
        let of = |(a, b): (f64, f64)| above_zero(b - a + base);
        of(self.first_slope) + of(self.second_slope)
    }
}

impl LossDistribution {
    /// Returns nodes for `served`, the atoms first, and the stretches that contain the others.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if there would be too many.
    pub(crate) fn serving(&self, served: Served) -> Result<(Vec<Node>, Vec<Stretch>)> {
        let mut nodes = self.atom_nodes();
        let mut stretches = Vec::new();
        for piece in &self.pieces {
            piece.stretches(served, &mut nodes, &mut stretches)?;
        }
        Ok((nodes, stretches))
    }
}

impl LossDistribution {
    /// Returns the point where the loss of a law of one piece passes `loss`.
    pub(crate) fn place_of(&self, loss: f64) -> Option<f64> {
        let [piece] = self.pieces.as_slice() else {
            return None;
        };
        let (from, to) = piece.ends(-745.0);
        let (mut low, mut high) = (from, to);
        if piece.point(from).loss >= loss || piece.point(to).loss <= loss {
            return None;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if piece.point(middle).loss < loss {
                low = middle
            } else {
                high = middle
            }
        }
        Some(0.5 * (low + high))
    }
}

impl Piece {
    fn stretches(
        &self,
        served: Served,
        nodes: &mut Vec<Node>,
        stretches: &mut Vec<Stretch>,
    ) -> Result<()> {
        // All boundaries are computed before the first node: if there would be too many, no node is worth its time.
        let boundaries = self.boundaries(served, stretches.len())?;
        for (i, (left, right)) in boundaries.into_iter().enumerate() {
            let first = nodes.len();
            self.at_rule(left, right, finest(), &mut |mut node| {
                // No stretch ends at a crossing, for which there is room.
                node.loss_error *= 0.25;
                if let Some(mask) = served.mask {
                    let (ln, error) = mask.ln(node.place);
                    node.ln_second += ln;
                    node.weight_error += error;
                }
                nodes.push(node);
            })?;
            let nodes = first..nodes.len();
            stretches.push(Stretch {
                follows: i > 0,
                ..self.stretch_between(left, right, nodes)
            });
        }
        Ok(())
    }

    /// Returns both ends of each stretch, given that there are `before` others already.
    fn boundaries(&self, served: Served, before: usize) -> Result<Vec<(f64, f64)>> {
        let ends = self.ends(served.ln_cut);
        let (from, to) = served.mask.map_or(ends, |mask| mask.within(ends));
        let bends = self.bends();
        let most = match (served.mask, served.event) {
            (_, Some(_)) => MOST_FAR_APART,
            (Some(_), None) => MOST_MASKED,
            (None, None) => MOST,
        };
        let (mut left, mut half) = (from, 0.5 * (to - from));
        let mut boundaries = Vec::new();
        while left < to {
            if before + boundaries.len() >= most {
                return Err(too_many());
            }
            half = (2.0 * half).min(0.5 * (to - left));
            let slopes = |half: f64| Slopes {
                loss: self.point(left + half).slope,
                second: self.second_slope(left + half),
            };
            let is_met = |half: f64| {
                let middle = left + half;
                let near = |reach: f64| self.bends_near(bends, middle, reach);
                match served.event {
                    None => bends.meet((middle, half), slopes(half), served, near),
                    Some(event) => {
                        let point = self.point(middle);
                        let second = self.shape.ln_base(middle) + point.second.ln + self.ln_weight;
                        let at = (middle, half);
                        let density = (second, point.loss);
                        let steep = Slopes {
                            loss: point.slope,
                            second: self.second_slope(middle),
                        };
                        let weights = [&self.first, &self.second].map(|d| d.weights_at(middle));
                        let by_weights = |reach: f64| self.bends_by_weights(bends, &weights, reach);
                        bends.meet_as_a_whole(
                            at,
                            steep,
                            (served, event),
                            density,
                            (by_weights, near),
                        )
                    }
                }
            };
            while !is_met(half) {
                half *= 0.7;
                if half.is_nan() || half <= 1e-9 * (1.0 + left.abs()) {
                    return Err(too_many());
                }
            }
            // A sliver at the end would only cost nodes.
            let right = if to - left <= 2.0 * half * (1.0 + 1e-12) {
                to
            } else {
                left + 2.0 * half
            };
            boundaries.push((left, right));
            left = right;
        }
        Ok(boundaries)
    }

    fn stretch_between(&self, left: f64, right: f64, nodes: std::ops::Range<usize>) -> Stretch {
        let half = 0.5 * (right - left);
        let middle = self.point(left + half);
        let slope = |density: &super::Density, x: f64| density.log_slope(self.shape, x, left);
        Stretch {
            follows: false,
            nodes,
            half,
            loss: (self.point(left).loss, self.point(right).loss),
            ln_second: self.shape.ln_base(left + half) + middle.second.ln + self.ln_weight,
            middle: middle.loss,
            first_slope: (slope(&self.first, left), slope(&self.first, right)),
            second_slope: (slope(&self.second, left), slope(&self.second, right)),
            bell: self.bends().bell,
            variances: (
                self.variance(&self.first, (left, right)),
                self.variance(&self.second, (left, right)),
            ),
        }
    }

    /// Returns a bound on the variance of the positions under a sum on a stretch: by Bhatia and Davis it is at most
    /// (max − mean)(mean − min), and the mean increases.
    fn variance(&self, density: &super::Density, (left, right): (f64, f64)) -> f64 {
        if density.components().len() < 2 {
            return 0.0;
        }
        if self.shape == Shape::Laplace {
            return 1.0;
        }
        let (low, high) = density.range();
        let mean = |x: f64| density.mean_position(x);
        ((high - mean(left)) * (mean(right) - low)).clamp(0.0, 0.25 * (high - low) * (high - low))
            * (1.0 + 1e-9)
    }

    /// Returns bounds that hold within `reach` of x: if a record is hardly ever drawn, the position hardly varies
    /// there.
    fn bends_near(&self, whole: Bends, x: f64, reach: f64) -> Bends {
        if self.shape != Shape::Gaussian {
            return whole;
        }
        let ends = (x - reach, x + reach);
        Bends {
            first: whole.first.min(self.variance(&self.first, ends)),
            second: whole.second.min(self.variance(&self.second, ends)),
            ..whole
        }
    }

    /// Returns the smaller of these bounds and of those from the weights of the components nearby: between components
    /// far apart, the position hardly varies.
    fn bends_by_weights(&self, known: Bends, [first, second]: &[Weights; 2], reach: f64) -> Bends {
        if self.shape != Shape::Gaussian {
            return known;
        }
        Bends {
            first: known.first.min(first.variance_within(reach)),
            second: known.second.min(second.variance_within(reach)),
            ..known
        }
    }

    fn second_slope(&self, x: f64) -> f64 {
        self.second.log_slope(self.shape, x, x)
    }

    fn bends(&self) -> Bends {
        let of = |density: &super::Density| {
            if density.components().len() < 2 {
                return 0.0;
            }
            match self.shape {
                // Popoviciu: a quarter of the square of the range of slopes.
                Shape::Gaussian => {
                    let (low, high) = density.range();
                    0.25 * (high - low) * (high - low)
                }
                Shape::Laplace => 1.0,
            }
        };
        Bends {
            first: of(&self.first),
            second: of(&self.second),
            bell: if self.shape == Shape::Gaussian {
                1.0
            } else {
                0.0
            },
        }
    }
}

impl Bends {
    /// Returns whether one of the ellipses bounds the rule's error for ∫ p^s q^(1−s), relative to the integral of its
    /// modulus on the real axis, by the required error (Trefethen, Theorem 19.3). Uses the bounds for the whole piece,
    /// or those that hold `near` x as far as the ellipse reaches along the real axis, because all bounds on variances
    /// are only needed there.
    fn meet(
        self,
        at: (f64, f64),
        slopes: Slopes,
        served: Served,
        near: impl Fn(f64) -> Self,
    ) -> bool {
        let by = |rho: f64, bends: Self| {
            bends.ln_error_within(rho, at, slopes, served) <= served.ln_goal
        };
        // The error rises with both variances: if it is too large without any variance, the bounds near x aren't
        // computed.
        let flat = Self {
            first: 0.0,
            second: 0.0,
            ..self
        };
        ELLIPSES.into_iter().any(|rho| by(rho, self))
            || ELLIPSES
                .into_iter()
                .any(|rho| by(rho, flat) && by(rho, near(0.5 * at.1 * (rho + 1.0 / rho))))
    }

    /// Returns whether an ellipse bounds the rule's error by the required share of the integral over the stretch, or of
    /// the integral over the whole line, at order 0 and at every order from 1 on. Both bounds, as functions of the
    /// order, are convex, and the lower end of ln of the whole integral is linear, so that the ends suffice. Bounds on
    /// variances come from the weights of components and, if these are too large, also from the ends of the interval.
    fn meet_as_a_whole(
        self,
        at: (f64, f64),
        slopes: Slopes,
        (served, event): (Served, [f64; 2]),
        (second, loss): (f64, f64),
        (by_weights, by_ends): (impl Fn(f64) -> Self, impl Fn(f64) -> Self),
    ) -> bool {
        let (goal, ln_width) = (served.ln_goal - LN_2, (2.0 * at.1).ln());
        // Room for the rounding errors of exponents.
        let room = (MOST_FAR_APART as f64).ln() + 1.0 + 1e-12 * (second.abs() + loss.abs());
        let by = |rho: f64, bends: Self| {
            let is_met = |order: f64, whole: f64| {
                let steep = (slopes.second + order * slopes.loss).abs();
                let served = Served { order, ..served };
                let (growth, swing) = bends.ln_error_of(rho, at, (steep, slopes.loss), served);
                let on_its_own = growth + swing <= goal;
                let beside = second + order * loss + ln_width + growth <= goal - room + whole;
                (on_its_own, beside)
            };
            let from_one = [1.0, served.order]
                .map(|order| is_met(order, order * event[0] + (1.0 - order) * event[1]));
            let zero = is_met(0.0, 0.0);
            (zero.0 || zero.1)
                && (from_one.iter().all(|met| met.0) || from_one.iter().all(|met| met.1))
        };
        let flat = Self {
            first: 0.0,
            second: 0.0,
            ..self
        };
        ELLIPSES.into_iter().any(|rho| {
            let reach = 0.5 * at.1 * (rho + 1.0 / rho);
            by(rho, flat) && {
                let near = by_weights(reach);
                by(rho, near) || by(rho, near.least(by_ends(reach)))
            }
        })
    }

    /// Returns the smaller bounds on both variances.
    const fn least(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            second: self.second.min(other.second),
            ..self
        }
    }

    /// Returns ln of a bound on that error by the ellipse of one ρ.
    fn ln_error_within(self, rho: f64, at: (f64, f64), slopes: Slopes, served: Served) -> f64 {
        // Of all orders up to the largest one.
        let steep = slopes.second.abs() + served.order * slopes.loss.abs();
        let (growth, swing) = self.ln_error_of(rho, at, (steep, slopes.loss), served);
        growth + swing
    }

    /// Returns ln of a bound on the error by the ellipse of one ρ relative to the integrand at the midpoint times the
    /// width of the stretch, and ln of a bound on that relative to the integral of the modulus; `steep` is the
    /// magnitude of the logarithmic slope at the midpoint, and `loss` the slope of the loss.
    fn ln_error_of(
        self,
        rho: f64,
        (x, half): (f64, f64),
        (steep, loss): (f64, f64),
        served: Served,
    ) -> (f64, f64) {
        let Served { order, turn, .. } = served;
        let both = self.first + self.second;
        let (fade, sharp) = served.mask.map_or((0.0, 0.0), |mask| {
            let u = (x - mask.centre) / mask.width;
            (
                (u.abs() + 1.0) / mask.width,
                1.0 / (mask.width * mask.width),
            )
        });
        let steep = |reach: f64| {
            let bend = self.bell + self.second + order * both + sharp;
            steep + fade + reach * bend
        };
        let count = 2.0 * finest().nodes.len() as f64;
        let (a, b) = (
            0.5 * half * (rho + 1.0 / rho),
            0.5 * half * (rho - 1.0 / rho),
        );
        let square = b * b;
        if square * self.first.max(self.second) > 0.95 {
            return (f64::INFINITY, 0.0);
        }
        let turned = b * (loss.abs() + a * both)
            + arcsine(0.5 * square * self.first)
            + arcsine(0.5 * square * self.second);
        let shrunk = (order - 1.0).max(0.0) * half_ln_shrinkage(square * self.second);
        let growth = a * steep(a) + 0.5 * (self.bell + sharp) * square + turn * turned + shrunk;
        let rule = (32.0f64 / 15.0).ln() - count * rho.ln() - (-1.0 / (rho * rho)).ln_1p();
        (growth + rule, half * steep(half))
    }
}

fn too_many() -> Error {
    Error::NotCertified {
        what: "the loss of one step",
        why: "its densities are too steep at this order".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Mixture, Pair};

    /// Against the variance of the positions itself, at every place within reach, for records that are hardly ever drawn
    /// and for half of them; where nothing is reached and one record is all there is, the bound is half of it or better.
    #[test]
    fn positions_vary_no_more_than_is_said_near_a_place() {
        for (count, rate, shift) in [
            (1, 1e-8, 0.25),
            (1, 0.5, 2.0),
            (3, 1e-3, 1.5),
            (20, 0.2, 0.5),
        ] {
            let first = Mixture::binomial(count, rate, shift).unwrap();
            for second in [Mixture::point(0.0).unwrap(), first.clone()] {
                let pair = Pair {
                    first: first.clone(),
                    second,
                };
                let law = LossDistribution::of_pair(&pair);
                let piece = &law.pieces[0];
                let of = |density: &crate::loss::Density, x: f64| {
                    let exponent = |(k, w): &(f64, f64)| w + k * (x - 0.5 * k);
                    let all = density.components();
                    let top = all.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
                    let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
                    for component in all {
                        let weight = (exponent(component) - top).exp();
                        mass += weight;
                        mean += weight * component.0;
                        square += weight * component.0 * component.0;
                    }
                    square / mass - (mean / mass).powi(2)
                };
                let whole = piece.bends();
                for i in -40..=40 {
                    let x = 0.5 * f64::from(i);
                    for reach in [0.0, 0.1, 1.0, 6.0] {
                        let near = piece.bends_near(whole, x, reach);
                        for j in -4..=4 {
                            let there = x + 0.25 * f64::from(j) * reach;
                            let (a, b) = (of(&piece.first, there), of(&piece.second, there));
                            assert!(a <= near.first * (1.0 + 1e-9) + 1e-15, "{x} {reach} {a}");
                            assert!(b <= near.second * (1.0 + 1e-9) + 1e-15, "{x} {reach} {b}");
                        }
                        if reach <= 0.0 && count == 1 {
                            let a = of(&piece.first, x);
                            assert!(
                                near.first <= 2.0 * a + 1e-9 * shift * shift,
                                "{x} {a} {near:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}
