//! A law as nodes that serve every complex order up to a bound: Gauss–Legendre points on stretches
//! short enough for p^s q^(1−s), with what is known of both densities on each stretch.
//!
//! On a piece both densities are positive sums of exponentials over a common base. At x + ib such
//! a sum M obeys |M(x+ib)| ≤ M(x), |M(x+ib)|² ≥ M(x)²(1 − b²V) and
//! |arg M(x+ib) − bE| ≤ asin(b²V/2), E the logarithmic slope and V its derivative, as in
//! `contour::strip`. That bounds the integrand on a Bernstein ellipse around a stretch.

use super::{Law, Node, Piece, Shape};
use crate::contour::strip::{arcsine, half_ln_shrinkage};
use crate::error::{Error, Result};
use crate::grid::quadrature::finest;

/// More stretches than these are an error, not a wait.
const MOST: usize = 6000;
/// Ellipses that are tried.
const ELLIPSES: [f64; 9] = [2.0, 3.0, 4.5, 6.5, 10.0, 16.0, 30.0, 60.0, 150.0];

/// What nodes are to serve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    /// Real parts of s from 0 up to here.
    pub(crate) order: f64,
    /// Imaginary parts up to here.
    pub(crate) turn: f64,
    /// ln of the relative error allowed on each stretch.
    pub(crate) ln_goal: f64,
    /// ln of the P-mass left out beyond infinite ends.
    pub(crate) ln_cut: f64,
}

/// One stretch of a piece.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    /// Its nodes.
    pub(crate) nodes: std::ops::Range<usize>,
    pub(crate) half: f64,
    /// The loss at both ends.
    pub(crate) loss: (f64, f64),
    /// ln q and the loss in the middle.
    pub(crate) ln_second: f64,
    pub(crate) middle: f64,
    /// Logarithmic slopes of p and of q at both ends; they increase but for the base.
    pub(crate) first_slope: (f64, f64),
    pub(crate) second_slope: (f64, f64),
    /// How fast the base's slope falls: 1 for Gaussians.
    pub(crate) bell: f64,
}

/// Bounds that hold on a whole piece.
#[derive(Debug, Clone, Copy)]
struct Bends {
    /// V of both densities.
    first: f64,
    second: f64,
    bell: f64,
}

/// The logarithmic slopes in the middle of a stretch.
#[derive(Debug, Clone, Copy)]
struct Slopes {
    loss: f64,
    second: f64,
}

impl Stretch {
    /// Both ends of the slope of the loss.
    pub(crate) fn loss_slope(&self) -> (f64, f64) {
        (
            self.first_slope.0 - self.second_slope.1,
            self.first_slope.1 - self.second_slope.0,
        )
    }

    /// A bound on |d ln f_c/dx| for f_c = p^c q^(1−c), c ≥ 0.
    pub(crate) fn steepness(&self, c: f64) -> f64 {
        let larger = |(a, b): (f64, f64)| a.abs().max(b.abs());
        // The base's slope may lie between those at the ends, whatever the sums' do.
        let base = 2.0 * self.bell * self.half;
        larger(self.second_slope) + base + c * larger(self.loss_slope())
    }

    /// ln f_c in the middle.
    pub(crate) fn ln_density(&self, c: f64) -> f64 {
        self.ln_second + c * self.middle
    }

    /// How much the slopes of both sums rise over the stretch, together.
    pub(crate) fn rise(&self) -> f64 {
        let base = 2.0 * self.bell * self.half;
        let of = |(a, b): (f64, f64)| (b - a + base).max(0.0);
        of(self.first_slope) + of(self.second_slope)
    }
}

impl Law {
    /// Nodes for `served`, the atoms first, and the stretches that the others lie on.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when there would be too many.
    pub(crate) fn serving(&self, served: Served) -> Result<(Vec<Node>, Vec<Stretch>)> {
        let mut nodes = self.atom_nodes();
        let mut stretches = Vec::new();
        for piece in &self.pieces {
            piece.stretches(served, &mut nodes, &mut stretches)?;
        }
        Ok((nodes, stretches))
    }
}

impl Piece {
    fn stretches(
        &self,
        served: Served,
        nodes: &mut Vec<Node>,
        stretches: &mut Vec<Stretch>,
    ) -> Result<()> {
        let (from, to) = self.ends(served.ln_cut);
        let bends = self.bends();
        let (mut left, mut half) = (from, 0.5 * (to - from));
        while left < to {
            if stretches.len() >= MOST {
                return Err(too_many());
            }
            half = (2.0 * half).min(0.5 * (to - left));
            let slopes = |half: f64| Slopes {
                loss: self.point(left + half).slope,
                second: self.second_slope(left + half),
            };
            while bends.ln_error(half, slopes(half), served) > served.ln_goal {
                half *= 0.7;
                if !(half > 1e-9 * (1.0 + left.abs())) {
                    return Err(too_many());
                }
            }
            // A sliver at the end would only cost nodes.
            let right = if to - left <= 2.0 * half * (1.0 + 1e-12) {
                to
            } else {
                left + 2.0 * half
            };
            let first = nodes.len();
            self.at_rule(left, right, finest(), &mut |node| nodes.push(node))?;
            stretches.push(self.stretch_between(left, right, first..nodes.len()));
            left = right;
        }
        Ok(())
    }

    fn stretch_between(&self, left: f64, right: f64, nodes: std::ops::Range<usize>) -> Stretch {
        let half = 0.5 * (right - left);
        let middle = self.point(left + half);
        let slope = |density: &super::Density, x: f64| density.log_slope(self.shape, x, left);
        Stretch {
            nodes,
            half,
            loss: (self.point(left).loss, self.point(right).loss),
            ln_second: self.shape.ln_base(left + half) + middle.second.ln + self.ln_weight,
            middle: middle.loss,
            first_slope: (slope(&self.first, left), slope(&self.first, right)),
            second_slope: (slope(&self.second, left), slope(&self.second, right)),
            bell: self.bends().bell,
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
            bell: if self.shape == Shape::Gaussian { 1.0 } else { 0.0 },
        }
    }
}

impl Bends {
    /// ln of a bound on the rule's error for ∫ p^s q^(1−s), relative to the integral of its modulus on the real
    /// axis (Trefethen, Theorem 19.3), at the best of some ellipses.
    fn ln_error(&self, half: f64, slopes: Slopes, served: Served) -> f64 {
        let Served { order, turn, .. } = served;
        let both = self.first + self.second;
        let steep = |reach: f64| {
            let bend = self.bell + self.second + order * both;
            slopes.second.abs() + order * slopes.loss.abs() + reach * bend
        };
        let count = 2.0 * finest().nodes.len() as f64;
        let at = |rho: f64| {
            let (a, b) = (0.5 * half * (rho + 1.0 / rho), 0.5 * half * (rho - 1.0 / rho));
            let square = b * b;
            if square * self.first.max(self.second) > 0.95 {
                return f64::INFINITY;
            }
            let turned = b * (slopes.loss.abs() + a * both)
                + arcsine(0.5 * square * self.first)
                + arcsine(0.5 * square * self.second);
            let shrunk = (order - 1.0).max(0.0) * half_ln_shrinkage(square * self.second);
            let growth = a * steep(a) + 0.5 * self.bell * square + turn * turned + shrunk;
            let rule = (32.0f64 / 15.0).ln() - count * rho.ln() - (-1.0 / (rho * rho)).ln_1p();
            growth + half * steep(half) + rule
        };
        ELLIPSES.into_iter().map(at).fold(f64::INFINITY, f64::min)
    }
}

fn too_many() -> Error {
    Error::NotCertified {
        what: "the loss of one step",
        why: "its densities are too steep at this order".into(),
    }
}
