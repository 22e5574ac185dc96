//! The trapezoid rule in x, and K on the real axis, accurate relatively even if it is tiny.

use super::partition::too_wide;
use crate::loss::{Node, Pair};
use crate::numeric::special::{EXP_ERROR, LANES, LN_SQRT_TAU, ROUND, exp, exp_second_order};
use crate::numeric::sum::Sum;
use crate::quantity::error::Result;

/// More nodes than this are an error rather than a long wait.
const MOST_NODES: f64 = 150_000.0;

/// ln of the weight of a missing node, whose exponential is zero in every calculation.
const NO_WEIGHT: f64 = -1e6;

/// Equally spaced nodes with the weight of Q and the loss at each, padded to a whole number of lanes with nodes
/// of no weight.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    pub(crate) spacing: f64,
    /// ln(h·N(x)·M₋(x)).
    ln_weight: Vec<f64>,
    /// A bound on the rounding error of `ln_weight`.
    weight_error: Vec<f64>,
    /// L(x) = ln M₊(x) − ln M₋(x).
    loss: Vec<f64>,
    /// A bound on the rounding error of `loss`.
    loss_error: Vec<f64>,
    /// Weight times e^L − 1 − L.
    base: Vec<f64>,
    /// The mass missing from P.
    missing: f64,
    /// Whether Q, and P except for its missing mass, have all their mass here.
    complete: bool,
}

/// K at a real order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// K(c).
    pub(crate) ln: f64,
    /// A bound on the rounding error of `ln`.
    pub(crate) rounding: f64,
}

/// K and its derivatives at a real order, without a bound on their errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rough {
    /// K(c).
    pub(crate) ln: f64,
    /// K'(c).
    pub(crate) first: f64,
    /// K''(c).
    pub(crate) second: f64,
}

/// The tilted weights ρ_j ∝ e^{cL_j} Q_j, summing to one, with their losses.
#[derive(Debug, Clone)]
pub(crate) struct Tilted {
    pub(crate) weight: Vec<f64>,
    pub(crate) loss: Vec<f64>,
    /// Σ ρ_j |L_j| times the relative error of the term, in units of one rounding.
    pub(crate) first_error: f64,
    /// 2 Σ ρ_j times the relative error of the term, in units of one rounding.
    pub(crate) flat_error: f64,
}

impl Tilted {
    /// Returns Σ ρ_j |L_j|.
    pub(crate) fn speed(&self) -> f64 {
        let terms = self.weight.iter().zip(&self.loss);
        terms.map(|(w, l)| w * l.abs()).sum()
    }
}

impl Nodes {
    /// Creates nodes from `left` to `right`.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if there would be too many.
    pub(crate) fn new(pair: &Pair, left: f64, right: f64, spacing: f64) -> Result<Self> {
        let count = ((right - left) / spacing).ceil() + 1.0;
        if count.is_nan() || count > MOST_NODES {
            return Err(too_wide());
        }
        let count = count as usize;
        let mut nodes = Self {
            spacing,
            ln_weight: Vec::with_capacity(count + LANES),
            weight_error: Vec::with_capacity(count + LANES),
            loss: Vec::with_capacity(count + LANES),
            loss_error: Vec::with_capacity(count + LANES),
            base: Vec::with_capacity(count + LANES),
            missing: pair.first.missing(),
            complete: true,
        };
        let ln_spacing = spacing.ln() - LN_SQRT_TAU;
        for index in 0..count {
            nodes.push(pair, left + index as f64 * spacing, ln_spacing);
        }
        nodes.fill();
        Ok(nodes)
    }

    /// Creates the nodes of a law, which aren't equally spaced; `complete` if both laws have all their mass
    /// there, except for the mass `missing` from P.
    pub(crate) fn of_law(all: &[Node], complete: bool, missing: f64) -> Self {
        let of = |part: fn(&Node) -> f64| -> Vec<f64> { all.iter().map(part).collect() };
        let base = |node: &Node| second_order(node.ln_second, node.ln_second.exp(), node.loss);
        let mut nodes = Self {
            spacing: 0.0,
            ln_weight: of(|node| node.ln_second),
            weight_error: of(|node| node.weight_error),
            loss: of(|node| node.loss),
            loss_error: of(|node| node.loss_error),
            base: all.iter().map(base).collect(),
            missing,
            complete,
        };
        nodes.fill();
        nodes
    }

    /// Fills the last lanes with nodes of no weight.
    fn fill(&mut self) {
        let filled = self.loss.len().next_multiple_of(LANES);
        self.ln_weight.resize(filled, NO_WEIGHT);
        for zeros in [
            &mut self.weight_error,
            &mut self.loss,
            &mut self.loss_error,
            &mut self.base,
        ] {
            zeros.resize(filled, 0.0);
        }
    }

    /// Returns the loss of node j and its mass under the law tilted to c, given K(c).
    pub(crate) fn tilted_mass(&self, j: usize, c: f64, ln_moment: f64) -> (f64, f64) {
        let loss = self.loss[j];
        (loss, (self.ln_weight[j] + c * loss - ln_moment).exp())
    }

    /// Returns a bound on the relative rounding error of every mass under the law tilted to c.
    pub(crate) fn mass_error(&self, c: f64) -> f64 {
        let errors = self.weight_error.iter().zip(&self.loss_error);
        let worst = errors
            .map(|(weight, loss)| weight + c * loss)
            .fold(0.0, f64::max);
        let steepest = self
            .loss
            .iter()
            .fold(0.0, |most, l| f64::max(most, l.abs()));
        worst + ROUND * (8.0 + 4.0 * c * steepest)
    }

    /// Returns a bound on the rounding error of the loss of node j.
    pub(crate) fn loss_error(&self, j: usize) -> f64 {
        self.loss_error[j]
    }

    fn push(&mut self, pair: &Pair, x: f64, ln_spacing: f64) {
        let (plus, minus) = (pair.first.ratio(x), pair.second.ratio(-x));
        let ln_weight = ln_spacing - 0.5 * x * x + minus.ln;
        let loss = plus.ln - minus.ln;
        self.ln_weight.push(ln_weight);
        self.weight_error
            .push(ROUND * (6.0 + x * x + 2.0 * minus.ln.abs()) + minus.error);
        self.loss.push(loss);
        self.loss_error
            .push(plus.error + minus.error + ROUND * loss.abs());
        self.base
            .push(second_order(ln_weight, ln_weight.exp(), loss));
    }

    pub(crate) fn len(&self) -> usize {
        self.loss.len()
    }

    /// Returns every other node with twice the weight, for [`Nodes::rough`] only: half the digits of the
    /// quadrature.
    pub(crate) fn thinned(&self) -> Self {
        let every_other = |values: &[f64]| values.iter().step_by(2).copied().collect::<Vec<_>>();
        let mut thin = Self {
            spacing: 2.0 * self.spacing,
            ln_weight: every_other(&self.ln_weight),
            loss: every_other(&self.loss),
            weight_error: Vec::new(),
            loss_error: Vec::new(),
            base: Vec::new(),
            missing: self.missing,
            complete: self.complete,
        };
        for ln_weight in &mut thin.ln_weight {
            *ln_weight += std::f64::consts::LN_2;
        }
        let filled = thin.loss.len().next_multiple_of(LANES);
        thin.ln_weight.resize(filled, NO_WEIGHT);
        thin.loss.resize(filled, 0.0);
        thin
    }

    /// Returns the nodes in lanes: ln weight and loss.
    fn lanes(&self) -> impl Iterator<Item = (&[f64; LANES], &[f64; LANES])> {
        let (weights, _) = self.ln_weight.as_chunks();
        let (losses, _) = self.loss.as_chunks();
        weights.iter().zip(losses)
    }

    /// Returns the largest exponent ln weight + cL.
    fn top(&self, c: f64) -> f64 {
        let mut top = [f64::NEG_INFINITY; LANES];
        for (w, l) in self.lanes() {
            for i in 0..LANES {
                let exponent = w[i] + c * l[i];
                top[i] = if exponent > top[i] { exponent } else { top[i] };
            }
        }
        top.into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns K and its first derivatives with one exponential for each node, for searches. K is off by a few
    /// roundings of 1, whereas [`Nodes::moment`] keeps the digits of a tiny K.
    pub(crate) fn rough(&self, c: f64) -> Rough {
        let top = self.top(c);
        let mut sums = [[0.0; LANES]; 3];
        for (w, l) in self.lanes() {
            for i in 0..LANES {
                let term = exp(w[i] + c * l[i] - top);
                let first = term * l[i];
                sums[0][i] += term;
                sums[1][i] += first;
                sums[2][i] += first * l[i];
            }
        }
        let [mass, first, second] = sums.map(|lanes| lanes.iter().sum::<f64>());
        let (first, second) = (first / mass, second / mass);
        Rough {
            ln: top + mass.ln(),
            first,
            second: (second - first * first).max(0.0),
        }
    }

    /// Returns ln of an upper bound on Σ e^{…}, including rounding but not quadrature errors.
    pub(crate) fn ceiling(&self, c: f64) -> f64 {
        let top = self.top(c);
        let (mut mass, mut off, mut most) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let (weights, _) = self.weight_error.as_chunks::<LANES>();
        let (losses, _) = self.loss_error.as_chunks::<LANES>();
        for ((w, l), (dw, dl)) in self.lanes().zip(weights.iter().zip(losses)) {
            for i in 0..LANES {
                let (steep, exponent) = (c * l[i], w[i] + c * l[i]);
                let term = exp(exponent - top);
                let rounding = steep.abs() + 2.0 * exponent.abs() + (exponent - top).abs();
                let error = dw[i] + c * dl[i] + ROUND * rounding;
                mass[i] += term;
                off[i] += term * error;
                most[i] = if error > most[i] { error } else { most[i] };
            }
        }
        // Beyond this the bound would be worthless, and e^x ≤ 1 + 2x below wouldn't hold.
        if most.iter().any(|error| *error > 1.0) {
            return f64::INFINITY;
        }
        let [mass, off] = [mass, off].map(|lanes| lanes.iter().sum::<f64>());
        let sums = self.len() as f64 / LANES as f64 + 2.0 * LANES as f64;
        let relative = 2.0 * (off / mass + EXP_ERROR + ROUND * sums);
        let ln = top + mass.ln();
        ln + relative + 4.0 * ROUND * (top.abs() + ln.abs() + 1.0)
    }

    /// Returns K(c) = ln(1 + E_Q[e^{cL} − 1 − cL − c(e^L − 1 − L)] − c·missing), or ln Σ e^{…} if that would
    /// overflow.
    pub(crate) fn moment(&self, c: f64) -> Moment {
        let top = self.top(c);
        let (ln, rounding) = if self.complete && top < 300.0 {
            self.small_moment(c)
        } else {
            self.large_moment(c, top)
        };
        Moment { ln, rounding }
    }

    fn small_moment(&self, c: f64) -> (f64, f64) {
        let (mut sum, mut error) = (Sum::default(), 0.0);
        for j in 0..self.loss.len() {
            let (w, l) = (self.ln_weight[j], self.loss[j]);
            let weight = w.exp();
            let beyond = (c - 1.0) * l;
            let (first, second, size, sensitive);
            if l.abs() > 0.5 {
                // e^{cL} − 1 − c(e^L − 1) = e^L(e^{(c−1)L} − 1) − (c − 1)(e^L − 1): at orders near one both
                // terms are small where e^{cL} and ce^L, or cL, are large.
                let grown = (w + l).exp();
                first = if beyond > 1.0 {
                    // The first factor may vanish, and the second overflow.
                    (w + c * l).exp() - grown
                } else {
                    grown * beyond.exp_m1()
                };
                second = (c - 1.0) * (grown - weight);
                size = first.abs() + (c - 1.0).abs() * (grown + weight);
                sensitive = c * first.abs();
            } else {
                first = second_order(w, weight, c * l);
                second = c * self.base[j];
                size = first + second;
                sensitive = c * ((w + c * l).exp() - (w + l).exp()).abs();
            }
            sum.add(first);
            sum.add(-second);
            // The weight's error affects both terms together; the errors of their other factors are
            // independent.
            let rounding = 8.0 + 2.0 * (w.abs() + l.abs() + (c * l).abs());
            error += (first - second).abs() * self.weight_error[j]
                + size * ROUND * rounding
                + sensitive * self.loss_error[j];
        }
        sum.add(-c * self.missing);
        let change = sum.value();
        let error = error + 4.0 * ROUND * change.abs();
        (
            change.ln_1p(),
            error / (1.0 + change) + 2.0 * ROUND * change.ln_1p().abs(),
        )
    }

    fn large_moment(&self, c: f64, top: f64) -> (f64, f64) {
        let (mut sum, mut error) = (0.0, 0.0);
        for j in 0..self.loss.len() {
            let exponent = self.ln_weight[j] + c * self.loss[j];
            let term = (exponent - top).exp();
            sum += term;
            let each = self.weight_error[j]
                + c * self.loss_error[j]
                + ROUND * (8.0 + 2.0 * exponent.abs() + self.loss.len() as f64);
            error += term * each;
        }
        (top + f64::ln(sum), error / sum + 2.0 * ROUND * top.abs())
    }

    /// Returns the tilted weights at c, given K(c).
    pub(crate) fn tilted(&self, c: f64, ln_moment: f64) -> Tilted {
        let mut tilted = Tilted {
            weight: Vec::with_capacity(self.len()),
            loss: self.loss.clone(),
            first_error: 0.0,
            flat_error: 0.0,
        };
        for j in 0..self.loss.len() {
            let (w, l) = (self.ln_weight[j], self.loss[j]);
            let weight = (w + c * l - ln_moment).exp();
            let relative =
                self.weight_error[j] + c * self.loss_error[j] + ROUND * (8.0 + (c * l).abs());
            tilted.weight.push(weight);
            tilted.first_error += weight * (l.abs() * relative + self.loss_error[j]) / ROUND;
            tilted.flat_error += 2.0 * weight * relative / ROUND;
        }
        tilted
    }

    /// Returns ∫ f_{c+iy} by the plain rule.
    #[cfg(test)]
    pub(crate) fn transform(&self, c: f64, y: f64) -> (f64, f64) {
        let (mut re, mut im) = (Sum::default(), Sum::default());
        for (w, l) in self.ln_weight.iter().zip(&self.loss) {
            let size = (w + c * l).exp();
            re.add(size * (y * l).cos());
            im.add(size * (y * l).sin());
        }
        (re.value(), im.value())
    }

    /// Returns E_P[L] by the same rule, and a bound on its rounding error.
    pub(crate) fn divergence(&self) -> (f64, f64) {
        let (mut sum, mut error) = (Sum::default(), 0.0);
        for j in 0..self.loss.len() {
            let (w, l) = (self.ln_weight[j], self.loss[j]);
            let weight = (w + l).exp();
            sum.add(weight * l);
            let relative =
                self.weight_error[j] + self.loss_error[j] + ROUND * (8.0 + 2.0 * l.abs());
            error += weight * (l.abs() * relative + self.loss_error[j]);
        }
        (sum.value(), error)
    }
}

/// Returns weight·(e^z − 1 − z) with weight = e^`ln_weight`, without overflow of e^z alone.
fn second_order(ln_weight: f64, weight: f64, z: f64) -> f64 {
    if z.abs() < 0.5 {
        weight * exp_second_order(z)
    } else {
        (ln_weight + z).exp() - weight * (1.0 + z)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Mixture;

    fn remove(rate: f64, shift: f64) -> Pair {
        Pair {
            first: Mixture::binomial(1, rate, shift).unwrap(),
            second: Mixture::point(0.0).unwrap(),
        }
    }

    #[test]
    fn integer_orders_match_the_binomial_sum() {
        // K(n) = ln Σ_j C(n,j) (1−q)^{n−j} q^j e^{j(j−1)κ²/2}.
        for (q, kappa) in [(0.01, 1.0 / 1.1), (1e-6, 1.0), (0.3, 2.0)] {
            let nodes = Nodes::new(&remove(q, kappa), -14.0, 30.0, 0.02).unwrap();
            for n in [2u64, 3, 5] {
                let mut change = 0.0;
                for j in 0..=n {
                    let weight = crate::numeric::special::ln_binomial_pmf(j, n, q).exp();
                    let square = (j * j.saturating_sub(1)) as f64 * 0.5 * kappa * kappa;
                    change += weight * square.exp_m1();
                }
                let moment = nodes.moment(n as f64);
                let expected = f64::ln_1p(change);
                assert!(
                    (moment.ln / expected - 1.0).abs() < 1e-11,
                    "q = {q}, order {n}"
                );
                assert!((moment.ln - expected).abs() < moment.rounding + 1e-14 * expected);
            }
        }
    }

    /// Two Gaussians far apart: K(c) = c(c − 1)κ²/2. Large losses cancel at orders near one, and what is stated
    /// of their roundings is a small share of K all the same.
    #[test]
    fn moments_at_orders_near_one_keep_their_digits() {
        let shift = 20.0;
        let pair = Pair {
            first: Mixture::point(shift).unwrap(),
            second: Mixture::point(0.0).unwrap(),
        };
        let nodes = Nodes::new(&pair, -14.0, shift + 16.0, 0.02).unwrap();
        for beyond in [1e-7, 1e-5, 1e-3, -1e-5, -1e-3] {
            let c = 1.0 + beyond;
            let expected = 0.5 * c * (c - 1.0) * shift * shift;
            let moment = nodes.moment(c);
            let off = (moment.ln - expected).abs();
            assert!(
                off <= moment.rounding + 1e-14 * expected.abs(),
                "{beyond}: {off:e} {moment:?}"
            );
            assert!(
                moment.rounding <= 1e-11 * expected.abs(),
                "{beyond}: {moment:?}"
            );
        }
    }

    #[test]
    fn both_forms_of_the_moment_agree() {
        let nodes = Nodes::new(&remove(0.2, 2.0), -14.0, 40.0, 0.02).unwrap();
        let (small, e1) = nodes.small_moment(6.0);
        let (large, e2) = nodes.large_moment(6.0, nodes.top(6.0));
        assert!(
            (small - large).abs() <= e1 + e2,
            "{small} {large} {e1} {e2}"
        );
    }
}
