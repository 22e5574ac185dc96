//! The trapezoid rule in x, and K on the real axis with relative accuracy when it is tiny.

use super::chart::too_wide;
use crate::error::Result;
use crate::pld::Pair;
use crate::special::{LN_SQRT_TAU, ROUND, exp_second_order};

/// More nodes than this are an error, not a wait.
const MOST_NODES: f64 = 150_000.0;

/// A compensated sum: error two roundings of the total plus second-order terms.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, term: f64) {
        let next = self.total + term;
        self.lost += if self.total.abs() >= term.abs() {
            (self.total - next) + term
        } else {
            (term - next) + self.total
        };
        self.total = next;
    }
    pub(crate) fn value(&self) -> f64 {
        self.total + self.lost
    }
}

/// Equally spaced nodes with the weight of Q and the loss at each.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    pub(crate) spacing: f64,
    /// ln(h·N(x)·M₋(x)).
    ln_weight: Vec<f64>,
    /// Bound on the rounding error of `ln_weight`.
    weight_error: Vec<f64>,
    /// L(x) = ln M₊(x) − ln M₋(x).
    loss: Vec<f64>,
    /// Bound on the rounding error of `loss`.
    loss_error: Vec<f64>,
    /// Weight times e^L − 1 − L.
    base: Vec<f64>,
    /// Mass missing from P.
    missing: f64,
}

/// K and its derivatives at a real order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// K(c).
    pub(crate) ln: f64,
    /// K'(c).
    pub(crate) first: f64,
    /// K''(c).
    pub(crate) second: f64,
    /// Bound on the rounding error of `ln`.
    pub(crate) rounding: f64,
}

/// The tilted weights ρ_j ∝ e^{cL_j} Q_j, summing to one, with their losses.
#[derive(Debug, Clone)]
pub(crate) struct Tilted {
    pub(crate) weight: Vec<f64>,
    pub(crate) loss: Vec<f64>,
    /// Σ ρ_j |L_j| times the relative error of the term, over one rounding.
    pub(crate) first_error: f64,
    /// 2 Σ ρ_j times the relative error of the term, over one rounding.
    pub(crate) flat_error: f64,
}

impl Nodes {
    /// Nodes from `left` to `right`.
    ///
    /// # Errors
    /// [`crate::Error::NotCertified`] when there would be too many.
    pub(crate) fn new(pair: &Pair, left: f64, right: f64, spacing: f64) -> Result<Self> {
        let count = ((right - left) / spacing).ceil() + 1.0;
        if count.is_nan() || count > MOST_NODES {
            return Err(too_wide());
        }
        let count = count as usize;
        let mut nodes = Self {
            spacing,
            ln_weight: Vec::with_capacity(count),
            weight_error: Vec::with_capacity(count),
            loss: Vec::with_capacity(count),
            loss_error: Vec::with_capacity(count),
            base: Vec::with_capacity(count),
            missing: pair.first.missing(),
        };
        for index in 0..count {
            nodes.push(pair, left + index as f64 * spacing);
        }
        Ok(nodes)
    }

    fn push(&mut self, pair: &Pair, x: f64) {
        let (plus, minus) = (pair.first.ratio(x), pair.second.ratio(-x));
        let ln_weight = self.spacing.ln() - LN_SQRT_TAU - 0.5 * x * x + minus.ln;
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

    /// Largest exponent ln weight + cL.
    fn top(&self, c: f64) -> f64 {
        self.ln_weight
            .iter()
            .zip(&self.loss)
            .fold(f64::NEG_INFINITY, |top, (w, l)| top.max(w + c * l))
    }

    /// K(c) = ln(1 + E_Q[e^{cL} − 1 − cL − c(e^L − 1 − L)] − c·missing), or ln Σ e^{…} when that
    /// would overflow.
    pub(crate) fn moment(&self, c: f64) -> Moment {
        let top = self.top(c);
        let (ln, rounding) = if top < 300.0 {
            self.small_moment(c)
        } else {
            self.large_moment(c, top)
        };
        let (mut first, mut second) = (0.0, 0.0);
        for (w, l) in self.ln_weight.iter().zip(&self.loss) {
            let weight = (w + c * l - ln).exp();
            first += weight * l;
            second += weight * l * l;
        }
        // Shifted second moment would be exact; the saddle needs three digits of it.
        Moment {
            ln,
            first,
            second: (second - first * first).max(0.0),
            rounding,
        }
    }

    fn small_moment(&self, c: f64) -> (f64, f64) {
        let (mut sum, mut error) = (Sum::default(), 0.0);
        for j in 0..self.loss.len() {
            let (w, l) = (self.ln_weight[j], self.loss[j]);
            let weight = w.exp();
            let term = second_order(w, weight, c * l);
            sum.add(term);
            sum.add(-c * self.base[j]);
            let size = term + c * self.base[j];
            let sensitive = c * ((w + c * l).exp() - (w + l).exp()).abs();
            error += size * (self.weight_error[j] + ROUND * (8.0 + 2.0 * (c * l).abs()))
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

    /// The tilted weights at c, given K(c).
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

    /// ∫ f_{c+iy} by the plain rule.
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

    /// E_P[L] by the same rule, and a bound on its rounding error.
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

/// weight·(e^z − 1 − z) with weight = e^`ln_weight`, without overflow of e^z alone.
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
    use crate::pld::Mixture;

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
                    let weight = crate::special::ln_binomial_pmf(j, n, q).exp();
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
