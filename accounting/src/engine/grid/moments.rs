//! K(θ) = Σ T_i ln E_Q e^{θL_i} of the law itself, by quadrature: for choosing the tilt, the spacing and the window.
//! Nothing here is certified, nor needs to be.

use super::known::Nodes;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::loss::loss_grid::{Cumulative, Lines};
use crate::loss::{LossDistribution, MOST_GAPS, PrivacyLoss};
use crate::numeric::special::{LANES, exp, ln_add_exp};
use crate::quantity::error::Result;
use std::cell::Cell;
use std::rc::Rc;

/// ln of the mass left out of a step when its moments are computed: too little to matter to any δ.
pub(crate) const LN_NOTHING: f64 = -760.0;
/// The smallest and the largest distance of the tilt from its pole that are tried.
const TILTS: (f64, f64) = (1e-7, 1e7);
/// The largest distance for losses so small that they need a higher tilt.
const HIGHEST_TILT: f64 = 1e12;

/// The distinct steps, and the nodes of each, in order of their losses, with its count.
#[derive(Debug)]
pub(crate) struct Moments {
    pub(crate) steps: Vec<(LossDistribution, u64)>,
    parts: Vec<(Rc<Nodes>, f64)>,
    /// Whether tilts above the usual ones are tried.
    far: bool,
    /// Whether a search ended at the highest usual tilt.
    stopped: Cell<bool>,
}

/// Q-mass e^`ln_second` of loss `loss`.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightedLoss {
    ln_second: f64,
    pub(super) loss: f64,
    /// The loss of the atom that this node represents; NaN if it represents none.
    atom: f64,
}

impl WeightedLoss {
    const fn is_atom(&self) -> bool {
        !self.atom.is_nan()
    }

    /// Merges both into one node at their mean loss.
    fn join(&mut self, other: &Self) {
        self.ln_second = ln_add_exp(self.ln_second, other.ln_second);
        let share = (other.ln_second - self.ln_second).exp();
        self.loss += share * (other.loss - self.loss);
    }
}

/// Returns a loss v near `middle` with equal amounts on either side of it within `spacing`, in ∫(e^{l − v} − 1)dQ: if v
/// is a line, the mass that gathers around it finds its partners. The nodes are in order of their losses.
fn balanced(nodes: &[(&WeightedLoss, f64)], mut middle: f64, spacing: f64) -> f64 {
    let mut known = 0..0;
    for _ in 0..MIDDLES {
        let first = nodes.partition_point(|(node, _)| node.loss - middle < -spacing);
        let end = nodes.partition_point(|(node, _)| node.loss - middle <= spacing);
        let range = first..end.max(first);
        // Among the same nodes, v solves the equation already.
        if range == known {
            break;
        }
        let near = || nodes[range.clone()].iter().map(|(node, _)| node);
        let largest = near()
            .map(|n| n.ln_second)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut whole, mut rise) = (0.0, 0.0);
        for node in near() {
            let weight = exp(node.ln_second - largest);
            whole += weight;
            rise += weight * (node.loss - middle).exp_m1();
        }
        let moved = (rise / whole).ln_1p();
        if moved.is_nan() {
            break;
        }
        middle += moved;
        known = range;
    }
    middle
}

/// The most losses at which cumulative masses are kept.
const MOST_PLACES: usize = 1 << 14;
/// The most atoms of a law that are handled one by one.
const MOST_ATOMS: usize = 1 << 15;
/// Losses this close to a line, as a share of the spacing, are nearly on it.
const CLOSE: f64 = 1.0 / 32.0;
/// Crowds with less than this share of the law are light.
const LIGHT: f64 = 1e-3;
/// With fewer nodes than this and no atom, it isn't a crowd.
const FEWEST: usize = 4;
/// The number of iterations that find the middle of a crowd.
const MIDDLES: usize = 12;
/// The nodes of a block, a multiple of the lanes, and what e to the power of is negligible in a sum, however many terms
/// there are and however far apart their losses.
const BLOCK: usize = 512;
const NEGLIGIBLE: f64 = 200.0;
/// The middle of a crowd lies no farther than this many spacings from a node that isn't negligible, nor does a node that
/// it depends on: two for the window, one for each iteration and one for the last.
const FARTHER: f64 = 4.0 + MIDDLES as f64;
/// K and its first two derivatives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Derivatives {
    pub(crate) value: f64,
    pub(crate) first: f64,
    pub(crate) second: f64,
}

/// The sums of e^{θL}, and of that times L − centre and its square, over nodes, in units of e^top.
pub(super) struct Sums {
    pub(super) top: f64,
    pub(super) whole: f64,
    pub(super) first: f64,
    pub(super) second: f64,
}

impl Sums {
    /// Adds up nodes in parallel lanes.
    pub(super) fn of(nodes: &[WeightedLoss], theta: f64, centre: f64) -> Self {
        let exponent = |node: &WeightedLoss| node.ln_second + theta * node.loss;
        let tops: Vec<f64> = (nodes.chunks(BLOCK))
            .map(|block| {
                let (rows, rest) = block.as_chunks::<LANES>();
                let mut tops = [f64::NEG_INFINITY; LANES];
                for row in rows {
                    for (top, node) in tops.iter_mut().zip(row) {
                        let own = exponent(node);
                        *top = if own > *top { own } else { *top };
                    }
                }
                (tops.into_iter().chain(rest.iter().map(exponent)))
                    .fold(f64::NEG_INFINITY, f64::max)
            })
            .collect();
        let top = tops.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut whole, mut first, mut second) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for (block, own) in nodes.chunks(BLOCK).zip(tops) {
            if own < top - NEGLIGIBLE {
                continue;
            }
            let (rows, rest) = block.as_chunks::<LANES>();
            for row in rows {
                for (lane, node) in row.iter().enumerate() {
                    let (term, from) = (exp(exponent(node) - top), node.loss - centre);
                    whole[lane] += term;
                    first[lane] += term * from;
                    second[lane] += term * from * from;
                }
            }
            for (lane, node) in rest.iter().enumerate() {
                let (term, from) = (exp(exponent(node) - top), node.loss - centre);
                whole[lane] += term;
                first[lane] += term * from;
                second[lane] += term * from * from;
            }
        }
        let sum = |lanes: [f64; LANES]| lanes.iter().sum();
        Self {
            top,
            whole: sum(whole),
            first: sum(first),
            second: sum(second),
        }
    }
}

/// Returns the Q-masses of nodes times e^{θL}, the largest of which is one.
fn weights(nodes: &[WeightedLoss], theta: f64) -> Vec<f64> {
    let exponents = nodes.iter().map(|node| node.ln_second + theta * node.loss);
    let mut weights: Vec<f64> = exponents.collect();
    let top = (weights.iter().copied()).fold(f64::NEG_INFINITY, f64::max);
    for weight in &mut weights {
        *weight = exp(*weight - top);
    }
    weights
}

/// Returns every distinct step of a loss as a law, with plain Gaussians as one step.
pub(crate) fn steps(loss: &PrivacyLoss) -> Vec<(LossDistribution, u64)> {
    let mut steps = loss.laws.clone();
    steps.extend(
        loss.parts
            .iter()
            .map(|(pair, n)| (LossDistribution::of_pair(pair), *n)),
    );
    if loss.gaussian > 0.0 {
        let whole = crate::loss::Pair::gaussian(loss.gaussian.sqrt());
        steps.push((LossDistribution::of_pair(&whole), 1));
    }
    steps
}

/// Returns the nodes of a law without a mass of e^`ln_cut` far out, in order of their losses.
pub(super) fn nodes_of(law: &LossDistribution, ln_cut: f64) -> Result<Vec<WeightedLoss>> {
    let mut nodes: Vec<WeightedLoss> = Vec::new();
    // Very many atoms are neighbours on a comb, so a few of them are merged.
    let together = law.atoms.len() / MOST_ATOMS + 1;
    let mut seen = 0;
    law.discretise(ln_cut, None, &mut |node| {
        let place = WeightedLoss {
            ln_second: node.ln_second,
            loss: node.loss,
            atom: if node.is_atom { node.loss } else { f64::NAN },
        };
        let joins = node.is_atom && seen % together > 0;
        seen += 1;
        if node.ln_second == f64::NEG_INFINITY {
            return;
        }
        match nodes.last_mut() {
            Some(last) if joins => last.join(&place),
            _ => nodes.push(place),
        }
    })?;
    nodes.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    Ok(nodes)
}

impl Moments {
    pub(crate) fn new(steps: Vec<(LossDistribution, u64)>, ln_cut: f64) -> Result<Self> {
        if steps.iter().any(|(law, _)| law.stated.is_some()) {
            // There is no law to put on a grid.
            return Err(CumulantFunction::out_of_reach());
        }
        let of =
            |(law, times): &(LossDistribution, u64)| Ok((Nodes::of(law, ln_cut)?, *times as f64));
        let parts = steps.iter().map(of).collect::<Result<_>>()?;
        Ok(Self {
            steps,
            parts,
            far: false,
            stopped: Cell::new(false),
        })
    }

    /// Tries tilts above the usual ones from now on, or no longer.
    pub(crate) const fn look_far(&mut self, far: bool) {
        self.far = far;
    }

    /// Returns whether a search ended at the highest usual tilt since the last call.
    pub(crate) fn stopped_near(&self) -> bool {
        self.stopped.take()
    }

    /// Records that a search ended at the highest usual tilt.
    pub(crate) fn stop_near(&self) {
        self.stopped.set(true);
    }

    /// Returns the distribution of a part's tilted mass, except for atoms of which `on_a_line` says that they need no cell.
    pub(crate) fn tilted(
        &self,
        part: usize,
        theta: f64,
        on_a_line: impl Fn(f64) -> bool,
    ) -> Cumulative {
        self.tilted_where(part, theta, |node| {
            !(node.is_atom() && on_a_line(node.atom))
        })
    }

    /// Returns the distribution of a part's tilted mass that doesn't lie close to one of `lines`.
    pub(crate) fn apart(&self, part: usize, theta: f64, lines: Lines) -> Cumulative {
        let slack = CLOSE * lines.spacing;
        self.tilted_where(part, theta, |node| !lines.meets(node.loss, slack))
    }

    fn tilted_where(
        &self,
        part: usize,
        theta: f64,
        counts: impl Fn(&WeightedLoss) -> bool,
    ) -> Cumulative {
        let nodes = &self.parts[part].0.each;
        let mut below: Vec<(f64, f64)> = (nodes.iter().zip(weights(nodes, theta)))
            .filter(|(node, _)| counts(node))
            .map(|(node, weight)| (node.loss, weight))
            .collect();
        let mut whole = 0.0;
        for (_, mass) in &mut below {
            let own = *mass;
            *mass = whole + 0.5 * own;
            whole += own;
        }
        let step = below.len() / MOST_PLACES + 1;
        let below = below.into_iter().step_by(step).collect();
        Cumulative { below, whole }
    }

    /// Returns the places where most of the tilted law gathers within twice the `spacing`, the heaviest crowd first;
    /// light crowds are left out.
    pub(crate) fn crowds(&self, part: usize, theta: f64, spacing: f64) -> Vec<f64> {
        let all = &self.parts[part].0.each;
        let weights = weights(all, theta);
        let counts = |weight: &f64| *weight >= f64::exp(-NEGLIGIBLE);
        let ends = weights
            .iter()
            .position(counts)
            .zip(weights.iter().rposition(counts));
        let Some((first, last)) = ends else {
            return Vec::new();
        };
        let (low, high) = (
            all[first].loss - FARTHER * spacing,
            all[last].loss + FARTHER * spacing,
        );
        let from = all.partition_point(|node| node.loss < low);
        let to = all.partition_point(|node| node.loss <= high);
        let near = all[from..to].iter().zip(weights[from..to].iter().copied());
        let mut nodes: Vec<(&WeightedLoss, f64)> = near.collect();
        let whole: f64 = nodes.iter().map(|(_, weight)| weight).sum();
        let (mut crowds, mut tried) = (Vec::new(), 0);
        while tried <= MOST_GAPS {
            let (mut first, mut mass, mut best) = (0, 0.0, (0.0, 0..0));
            for (i, (node, weight)) in nodes.iter().enumerate() {
                mass += weight;
                while node.loss - nodes[first].0.loss > 2.0 * spacing {
                    mass -= nodes[first].1;
                    first += 1;
                }
                if mass > best.0 {
                    best = (mass, first..i + 1);
                }
            }
            let (mass, range) = best;
            if range.is_empty() || tried > 0 && mass < LIGHT * whole {
                break;
            }
            let middle = 0.5 * (nodes[range.start].0.loss + nodes[range.end - 1].0.loss);
            // A single node represents an interval of a density.
            let gathered =
                range.len() >= FEWEST || nodes[range.clone()].iter().any(|n| n.0.is_atom());
            if gathered || crowds.is_empty() {
                crowds.push(balanced(&nodes, middle, spacing));
            }
            nodes.drain(range);
            tried += 1;
        }
        crowds
    }

    /// Returns K, K', K'' at θ.
    pub(crate) fn at(&self, theta: f64) -> Derivatives {
        let mut total = Derivatives::default();
        for (nodes, times) in &self.parts {
            let each = nodes.at(theta);
            total.value += times * each.value;
            total.first += times * each.first;
            total.second += times * each.second;
        }
        total
    }

    /// Returns the tilt θ > 1 that minimises K(θ) − ε(θ − 1) − ln θ(θ − 1), within limits.
    pub(crate) fn tilt(&self, epsilon: f64) -> f64 {
        let rises = |distance: f64| {
            let theta = 1.0 + distance;
            self.at(theta).first - epsilon - 1.0 / theta - 1.0 / distance > 0.0
        };
        1.0 + self.bisect(rises)
    }

    /// Returns the tilt at which δ, by the saddle-point approximation, is e^`ln_delta`, and the ε there.
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
        let distance = self.bisect(|distance| place(distance).1 < ln_delta);
        (1.0 + distance, place(distance).0)
    }

    /// Returns whether a tilt is the least that is tried.
    pub(crate) fn is_least(theta: f64) -> bool {
        theta - 1.0 <= 1.01 * TILTS.0
    }

    /// Returns an approximate ln δ(ε) by the saddle-point approximation at θ.
    pub(crate) fn ln_delta_at(&self, theta: f64, epsilon: f64) -> f64 {
        let (k, distance) = (self.at(theta), theta - 1.0);
        let spread = k.second + 1.0 / (theta * theta) + 1.0 / (distance * distance);
        let ln = k.value - epsilon * distance - (theta * distance).ln();
        (ln - 0.5 * (std::f64::consts::TAU * spread).ln()).min(0.0)
    }

    /// Returns the order at which the tail Q(L > t), by the saddle-point approximation, is e^`ln_tail`, with t.
    pub(crate) fn order_for_tail(&self, ln_tail: f64) -> (f64, f64) {
        let place = |order: f64| {
            let k = self.at(order);
            let t = k.first - 1.0 / order;
            let spread = std::f64::consts::TAU * (k.second + 1.0 / (order * order));
            (t, k.value - order * t - order.ln() - 0.5 * spread.ln())
        };
        let order = self.bisect(|order| place(order).1 < ln_tail);
        (order, place(order).0)
    }

    /// Returns the point, on a logarithmic scale, where an increasing condition becomes true.
    fn bisect(&self, holds: impl Fn(f64) -> bool) -> f64 {
        let (mut low, mut high) = (TILTS.0.ln(), TILTS.1.ln());
        if !holds(TILTS.1) {
            if self.far {
                (low, high) = (high, HIGHEST_TILT.ln());
            } else {
                self.stop_near();
            }
        }
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

    /// Returns the distance beyond the tilted mean, on the side of `sign`, at which at most e^`ln_mass` of the tilted
    /// law is left, with the order whose Chernoff bound proves it.
    pub(crate) fn reach(&self, theta: f64, ln_mass: f64, sign: f64) -> (f64, f64) {
        let here = self.at(theta);
        let wanted = -ln_mass;
        // With D(τ) = K(θ+τ) − K(θ) − τK'(θ), distance (wanted + D)/|τ| suffices; the best τ has τK'(θ+τ) − K(θ+τ) +
        // K(θ) = wanted, increasing in |τ|.
        let enough = |step: f64| {
            let there = self.at(theta + sign * step);
            sign * step * there.first - there.value + here.value >= wanted
        };
        let step = self.bisect(enough);
        let there = self.at(theta + sign * step);
        let excess = there.value - here.value - sign * step * here.first;
        ((wanted + excess) / step, theta + sign * step)
    }
}
