//! K(θ) = Σ T_i ln E_Q e^{θL_i} of the law itself, by quadrature: for choosing the tilt, the
//! spacing and the window. Nothing here is certified, nothing needs to be.

use crate::error::Result;
use crate::law::Law;
use crate::pld::PrivacyLoss;

/// Distances of the tilt from its pole that are tried.
const TILTS: (f64, f64) = (1e-7, 1e7);

/// The distinct steps, and the nodes of each with its count.
#[derive(Debug)]
pub(crate) struct Moments {
    pub(crate) steps: Vec<(Law, u64)>,
    parts: Vec<(Vec<(f64, f64)>, f64)>,
}

/// K and its first two derivatives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Derivatives {
    pub(crate) value: f64,
    pub(crate) first: f64,
    pub(crate) second: f64,
}

/// Every distinct step of a loss as a law, plain Gaussians as one step.
pub(crate) fn steps(loss: &PrivacyLoss) -> Vec<(Law, u64)> {
    let mut steps = loss.laws.clone();
    steps.extend(loss.parts.iter().map(|(pair, n)| (Law::of_pair(pair), *n)));
    if loss.gaussian > 0.0 {
        let whole = crate::pld::Pair::gaussian(loss.gaussian.sqrt());
        steps.push((Law::of_pair(&whole), 1));
    }
    steps
}

impl Moments {
    pub(crate) fn new(steps: Vec<(Law, u64)>, ln_cut: f64) -> Result<Self> {
        let mut parts = Vec::with_capacity(steps.len());
        for (law, times) in &steps {
            let mut nodes = Vec::new();
            law.spread(ln_cut, None, &mut |node| {
                if node.ln_second > f64::NEG_INFINITY {
                    nodes.push((node.ln_second, node.loss));
                }
            })?;
            parts.push((nodes, *times as f64));
        }
        Ok(Self { steps, parts })
    }

    /// The losses of a part in ascending order, each with the tilted mass up to its middle, and
    /// the whole.
    pub(crate) fn tilted(&self, part: usize, theta: f64) -> (Vec<(f64, f64)>, f64) {
        let nodes = &self.parts[part].0;
        let top = nodes
            .iter()
            .fold(f64::NEG_INFINITY, |top, (w, l)| top.max(w + theta * l));
        let mut tilted: Vec<(f64, f64)> = nodes
            .iter()
            .map(|(w, l)| (*l, (w + theta * l - top).exp()))
            .collect();
        tilted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        for (_, mass) in &mut tilted {
            let own = *mass;
            *mass = sum + 0.5 * own;
            sum += own;
        }
        (tilted, sum)
    }

    /// K, K', K'' at θ.
    pub(crate) fn at(&self, theta: f64) -> Derivatives {
        let mut total = Derivatives::default();
        for (nodes, times) in &self.parts {
            let top = nodes
                .iter()
                .fold(f64::NEG_INFINITY, |top, (w, l)| top.max(w + theta * l));
            let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
            let centre = nodes.first().map_or(0.0, |(_, l)| *l);
            for (w, l) in nodes {
                let term = (w + theta * l - top).exp();
                let from = l - centre;
                sum += term;
                first += term * from;
                second += term * from * from;
            }
            let mean = first / sum;
            total.value += times * (top + f64::ln(sum));
            total.first += times * (mean + centre);
            total.second += times * (second / sum - mean * mean).max(0.0);
        }
        total
    }

    /// The tilt θ > 1 at which K(θ) − ε(θ − 1) − ln θ(θ − 1) is least, within limits.
    pub(crate) fn tilt(&self, epsilon: f64) -> f64 {
        let rises = |distance: f64| {
            let theta = 1.0 + distance;
            self.at(theta).first - epsilon - 1.0 / theta - 1.0 / distance > 0.0
        };
        1.0 + Self::bisect(rises)
    }

    /// The tilt at which δ, by the saddle-point approximation, is e^`ln_delta`, and the ε there.
    pub(crate) fn tilt_for_delta(&self, ln_delta: f64) -> (f64, f64) {
        let place = |distance: f64| {
            let theta = 1.0 + distance;
            let k = self.at(theta);
            let epsilon = k.first - 1.0 / theta - 1.0 / distance;
            let spread = k.second + 1.0 / (theta * theta) + 1.0 / (distance * distance);
            let ln = k.value
                - epsilon * distance
                - (theta * distance).ln()
                - 0.5 * (std::f64::consts::TAU * spread).ln();
            (epsilon, ln)
        };
        let distance = Self::bisect(|distance| place(distance).1 < ln_delta);
        (1.0 + distance, place(distance).0)
    }

    /// About ln δ(ε) by the saddle-point approximation at θ.
    pub(crate) fn ln_delta_at(&self, theta: f64, epsilon: f64) -> f64 {
        let (k, distance) = (self.at(theta), theta - 1.0);
        let spread = k.second + 1.0 / (theta * theta) + 1.0 / (distance * distance);
        let ln = k.value - epsilon * distance - (theta * distance).ln();
        (ln - 0.5 * (std::f64::consts::TAU * spread).ln()).min(0.0)
    }

    /// The order at which the tail Q(L > t), by the saddle-point approximation, is e^`ln_tail`,
    /// with t.
    pub(crate) fn order_for_tail(&self, ln_tail: f64) -> (f64, f64) {
        let place = |order: f64| {
            let k = self.at(order);
            let t = k.first - 1.0 / order;
            let spread = std::f64::consts::TAU * (k.second + 1.0 / (order * order));
            (t, k.value - order * t - order.ln() - 0.5 * spread.ln())
        };
        let order = Self::bisect(|order| place(order).1 < ln_tail);
        (order, place(order).0)
    }

    /// Where, on a logarithmic scale, an increasing condition becomes true.
    fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
        let (mut low, mut high) = (TILTS.0.ln(), TILTS.1.ln());
        while high - low > 1e-3 {
            let middle = 0.5 * (low + high);
            if holds(f64::exp(middle)) {
                high = middle
            } else {
                low = middle
            }
        }
        f64::exp(0.5 * (low + high))
    }

    /// How far beyond the tilted mean, on the side of `sign`, at most e^`ln_mass` of the tilted
    /// law is left, with the order whose Chernoff bound says so.
    pub(crate) fn reach(&self, theta: f64, ln_mass: f64, sign: f64) -> (f64, f64) {
        let here = self.at(theta);
        let wanted = -ln_mass;
        // With D(τ) = K(θ+τ) − K(θ) − τK'(θ), distance (wanted + D)/|τ| suffices; the best τ has
        // τK'(θ+τ) − K(θ+τ) + K(θ) = wanted, increasing in |τ|.
        let enough = |step: f64| {
            let there = self.at(theta + sign * step);
            sign * step * there.first - there.value + here.value >= wanted
        };
        let step = Self::bisect(enough);
        let there = self.at(theta + sign * step);
        let excess = there.value - here.value - sign * step * here.first;
        ((wanted + excess) / step, theta + sign * step)
    }
}
