//! Lower ends for runs whose two laws hardly overlap, from the sum of e^{cK} of a partition.
//!
//! For a partition of a step's outcomes into cells of P- and Q-mass p_i and q_i and 0 < c < 1, Hölder's
//! inequality gives E_Q[(P/Q)^c] ≤ Σ p_i^c q_i^{1−c} =: e^{k(c)}, and the bounds of independent steps
//! multiply: K(c) = Σ T k(c). From min(P, e^ε Q) ≤ P^c (e^ε Q)^{1−c}
//!
//!   H_{e^ε}(P‖Q) ≥ 1 − e^{K(c) + (1−c)ε},
//!
//! and, from the outcomes with a loss beyond t = (K(c) − ln x)/c, whose Q-mass is at most x,
//!
//!   B(x) ≥ 1 − e^{(K(c) − (1−c) ln x)/c}.

use super::solver::Solver;
use crate::loss::{LossDistribution, Pair, Piece, Shape};
use crate::numeric::search::minimiser_to;
use crate::numeric::special::{ln_add_exp, ln_one_minus_exp, ln_sum_exp};
use std::f64::consts::LN_2;

/// Relative room for the rounding errors of a mass.
const ROOM: f64 = 1e-12;
/// The same for a sum over the cells.
const SUM: f64 = 2e-13;
/// Cells of a pair of mixtures: this many per deviation, out to this many deviations beyond the outermost
/// components.
const FINENESS: f64 = 4.0;
const REACH: f64 = 5.0;
/// The ratio of a place's distance from the origin to the width of its cell.
const WIDER: f64 = 24.0;
/// The number of components around which cells are narrow.
const MOST_CENTRES: usize = 12;
/// The most cells of a pair; for atoms, neighbours share a cell.
const MOST_CELLS: usize = 512;
/// The least distance of an order from one.
const NEAREST: f64 = 1e-9;
/// Steps with more components than this aren't considered.
const MOST_COMPONENTS: usize = 2048;

/// Upper ends of ln of the P- and the Q-mass of the cells of each kind of step, with its count.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    parts: Vec<(Vec<(f64, f64)>, f64)>,
    /// The squared distance of plain Gaussians.
    gaussian: f64,
    /// The P-mass that may lie anywhere.
    missing: f64,
}

impl Partition {
    pub(super) fn of(solver: &Solver) -> Self {
        let loss = &solver.loss;
        let pairs = loss.parts.iter();
        let pairs = pairs.map(|(pair, times)| (cells_of_pair(pair), *times as f64));
        let laws = loss.laws.iter();
        let laws = laws.map(|(law, times)| (cells_of_law(law), *times as f64));
        let (least, most) = solver.mass_beyond();
        Self {
            parts: pairs.chain(laws).collect(),
            gaussian: loss.gaussian,
            missing: (most - least * (1.0 - ROOM)).max(0.0) + loss.rounded_away(),
        }
    }

    /// Returns an upper end of K(c), 0 < c < 1.
    fn ln_moment(&self, c: f64) -> f64 {
        let plain = -0.5 * c * (1.0 - c) * self.gaussian * (1.0 - ROOM);
        let each = self.parts.iter().map(|(cells, times)| {
            let terms = cells.iter().map(|(p, q)| c * p + (1.0 - c) * q);
            let sum = ln_sum_exp(&terms.collect::<Vec<_>>());
            // Each side is a measure of mass at most one.
            times * (sum + SUM * (1.0 + sum.abs())).min(0.0)
        });
        plain + each.sum::<f64>()
    }

    /// Returns e^{min over c}, rounded up, plus the mass that may lie anywhere; one minus this is a lower end.
    fn least(&self, exponent: impl Fn(f64, f64) -> f64) -> f64 {
        let at = |c: f64| exponent(c, self.ln_moment(c));
        let c = minimiser_to(at, 0.01, 0.99, 1e-3);
        let best = at(c).min(at(0.5));
        best.exp() * (1.0 + ROOM * (1.0 + best.abs())) + self.missing
    }
}

impl Solver {
    /// Returns ln of a lower bound on δ(ε), for any real ε, if the two laws hardly overlap.
    pub(super) fn ln_delta_nearly_one(&mut self, epsilon: f64) -> f64 {
        let Some(partition) = self.partition() else {
            return f64::NEG_INFINITY;
        };
        let rest = partition.least(|c, ln| {
            let line = (1.0 - c) * epsilon;
            ln + line + ROOM * (ln.abs() + line.abs())
        });
        (-rest.min(1.0)).ln_1p() - f64::EPSILON
    }

    /// Returns a lower end of ε(δ) in the same way: δ(ε) ≥ δ as long as (1 − c)ε ≤ ln(1 − δ) − K(c).
    pub(super) fn epsilon_nearly_one(&mut self, delta: f64) -> f64 {
        let Some(partition) = self.partition() else {
            return 0.0;
        };
        let ln_rest = (-delta - partition.missing).ln_1p();
        if ln_rest.is_nan() || ln_rest == f64::NEG_INFINITY {
            return 0.0;
        }
        let at = |distance: f64| {
            let ln = partition.ln_moment(1.0 - distance);
            (ln_rest - ln - ROOM * (ln_rest.abs() + ln.abs())) / distance
        };
        // Orders just below one, on a logarithmic scale.
        let ln = minimiser_to(|ln: f64| -at(ln.exp()), NEAREST.ln(), 0.0, 1e-3);
        at(ln.exp()) * (1.0 - ROOM)
    }

    /// Returns a lower bound on B(e^`ln_x`) in the same way.
    pub(crate) fn blow_up_nearly_one(&mut self, ln_x: f64) -> f64 {
        let Some(partition) = self.partition() else {
            return 0.0;
        };
        let rest = partition.least(|c, ln| {
            let line = -(1.0 - c) * ln_x;
            (ln + line + ROOM * (ln.abs() + line.abs())) / c
        });
        (1.0 - rest) * (1.0 - f64::EPSILON)
    }

    /// Returns the cells, computed once; `None` if nothing is attained.
    fn partition(&mut self) -> Option<&Partition> {
        if self.loss.bounds_only() || self.loss.unbounded || self.loss.is_stated() {
            return None;
        }
        if self.partition.is_none() {
            self.partition = Some(Partition::of(self));
        }
        self.partition.as_ref()
    }
}

/// Returns half-open intervals of outcomes; a single cell if there are very many components.
fn cells_of_pair(pair: &Pair) -> Vec<(f64, f64)> {
    let whole = vec![(0.0, 0.0)];
    let (first, second) = (&pair.first, &pair.second);
    let many = first.components().count() + second.components().count() > MOST_COMPONENTS;
    if many {
        return whole;
    }
    let mut cells = Vec::new();
    let mut before = [(0.0, 0.0); 2];
    for place in places_of_pair(pair) {
        let here = pair.ln_tails(place);
        cells.push(mass_between(before, here));
        before = here;
    }
    cells.push((before[0].0 + before[0].1, before[1].0 + before[1].1));
    // Mass missing from the second law may lie anywhere.
    let ln_missing = second.missing().ln();
    for (_, q) in &mut cells {
        *q = ln_add_exp(*q, ln_missing);
    }
    cells
}

/// Returns the boundaries of cells: evenly spaced around the heaviest components, wider with the distance
/// elsewhere.
fn places_of_pair(pair: &Pair) -> Vec<f64> {
    let (first, second) = (&pair.first, &pair.second);
    let (low, high) = (-second.farthest() - REACH, first.farthest() + REACH);
    let mut places = Vec::new();
    let mut place = low;
    while places.len() < MOST_CELLS && place < high {
        places.push(place);
        place += (1.0 / FINENESS).max(place.abs() / WIDER);
    }
    let mirrored = second.components().map(|(position, ln)| (-position, ln));
    let mut components: Vec<(f64, f64)> = first.components().chain(mirrored).collect();
    components.sort_by(|a, b| b.1.total_cmp(&a.1));
    let reach = (REACH * FINENESS) as i32;
    for (position, _) in components.into_iter().take(MOST_CENTRES) {
        places.extend((-reach..=reach).map(|i| position + f64::from(i) / FINENESS));
    }
    places.sort_by(f64::total_cmp);
    places.dedup_by(|b, a| *b - *a < 0.25 / FINENESS);
    places
}

/// Returns ln of the masses between two points from those beyond them, rounded up.
fn mass_between(from: [(f64, f64); 2], to: [(f64, f64); 2]) -> (f64, f64) {
    let of = |i: usize| {
        let (most, least) = (from[i].0 + from[i].1, to[i].0 - to[i].1);
        // Computed in logarithms: a mass that underflows to zero still counts to a small power.
        let between = most + ln_one_minus_exp((least - most).min(0.0));
        ln_add_exp(between, most + (4.0 * f64::EPSILON).ln())
    };
    (of(0), of(1))
}

fn cells_of_law(law: &LossDistribution) -> Vec<(f64, f64)> {
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let room = ROOM + f64::EPSILON * law.roundings;
    let together = law.atoms.len() / MOST_CELLS + 1;
    // Heavy atoms keep their own cells: there are few of them, and they decide.
    let heavy = -((1 + MOST_CELLS) as f64).ln();
    let mut alone = true;
    for (i, atom) in law.atoms.iter().enumerate() {
        let q = atom.ln_second + room * (1.0 + atom.ln_second.abs());
        let p = q + atom.loss + atom.loss_error;
        match cells.last_mut() {
            Some(last) if i % together > 0 && p < heavy && !alone => {
                *last = (ln_add_exp(last.0, p), ln_add_exp(last.1, q));
            }
            _ => cells.push((p, q)),
        }
        alone = p >= heavy;
    }
    for piece in &law.pieces {
        cells.extend(cells_of_piece(piece));
    }
    cells
}

/// Returns both halves of an interval between neighbouring kinks; any other piece as one cell of the largest
/// mass.
fn cells_of_piece(piece: &Piece) -> Vec<(f64, f64)> {
    let (Shape::Laplace, Some(from), Some(to)) = (piece.shape, piece.from, piece.to) else {
        return vec![(piece.ln_weight + ROOM, piece.ln_weight + ROOM)];
    };
    let middle = 0.5 * (from + to);
    let cell = |from: f64, to: f64| {
        let of = |density: &crate::loss::Density| {
            let room = ROOM + f64::EPSILON * density.roundings();
            let each = density.components().iter().map(|(position, ln)| {
                // On an interval without a kink, each component is an exponential, largest at one end.
                let near = (from - position).max(position - to).max(0.0);
                let far = (from - position).abs().max((to - position).abs());
                let size = 1.0 + ln.abs() + far + position.abs();
                ln - LN_2 - near + (-(-(to - from)).exp_m1()).ln() + room * size
            });
            each.fold(f64::NEG_INFINITY, ln_add_exp) + piece.ln_weight + ROOM
        };
        (of(&piece.first), of(&piece.second))
    };
    vec![cell(from, middle), cell(middle, to)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};
    use crate::{Epsilon, Probability, Tolerance};

    fn laplace(scale: f64, steps: u64) -> PrivacyLoss {
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(Mechanism::Laplace {
                scale: NoiseMultiplier::new(scale).unwrap(),
            }),
        };
        let query = Query::single(Neighbours::AddRemove);
        PrivacyLoss::of(&run, query, Direction::Remove).unwrap()
    }

    /// Never above what the engines certify, and near one where the overlap is small.
    #[test]
    fn the_overlap_of_cells_bounds_from_below() {
        let pairs = |sigma: f64, rate: f64, steps: u64, neighbours: Neighbours| {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(rate).unwrap(),
                Steps::new(steps),
            );
            PrivacyLoss::of(&run, Query::single(neighbours), Direction::Remove).unwrap()
        };
        let losses = [
            laplace(1.0, 60),
            laplace(3.0, 400),
            pairs(1.0, 0.2, 1000, Neighbours::AddRemove),
            pairs(0.5, 0.5, 60, Neighbours::Replace),
            pairs(2.0, 1.0, 200, Neighbours::AddRemove),
        ];
        for loss in &losses {
            let mut solver = Solver::new(loss);
            for epsilon in [-1.0, 0.0, 1.0, 10.0] {
                let bound = solver.ln_delta_nearly_one(epsilon);
                let truth = solver.ln_delta_of_pair(epsilon, 1e-9).unwrap().0;
                assert!(bound <= truth.upper, "{epsilon} {bound} {truth:?}");
            }
            let bound = solver.ln_delta_nearly_one(0.0);
            assert!(bound > -0.1, "{bound} {loss:?}");
            for x in [1e-6, 0.01, 0.5] {
                let bound = solver.blow_up_nearly_one(f64::ln(x));
                let prior = Probability::new(x).unwrap();
                let truth = loss.blow_up(prior, Tolerance::new(1e-6).unwrap()).unwrap();
                let upper = truth.bounds.upper.unwrap().get().get();
                assert!(bound <= upper, "{x} {bound} {upper}");
            }
        }
    }

    /// Neither the contour nor a grid tells such a δ from 0.9.
    #[test]
    fn runs_that_hide_nothing_have_delta_one_from_both_sides() {
        let tolerance = Tolerance::new(1e-6).unwrap();
        for loss in [laplace(0.13, 88_354_644), laplace(0.025, 8_596_633)] {
            let delta = loss.delta(Epsilon::new(0.01).unwrap(), tolerance).unwrap();
            let low = delta.bounds.lower.unwrap().get().get();
            assert!(low >= 1.0 - 1e-12, "{delta:?}");
            let prior = Probability::new(1e-46).unwrap();
            let guess = loss.blow_up(prior, tolerance).unwrap();
            let low = guess.bounds.lower.unwrap().get().get();
            assert!(low >= 1.0 - 1e-12, "{guess:?}");
        }
    }

    /// Far components: the Q-mass under them is zero as a number, and bounds the ratio all the same. What each
    /// step loses is known, so that ε = T·mean is just where δ passes from one to zero.
    #[test]
    fn masses_that_vanish_as_numbers_still_count() {
        let steps = 7000;
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(Mechanism::MixtureOfGaussians {
                noise_multiplier: NoiseMultiplier::new(0.02).unwrap(),
                sensitivities: vec![6.0, 7.0],
                probabilities: [0.4, 0.6].map(|p| Probability::new(p).unwrap()).to_vec(),
            }),
        };
        let query = Query::single(Neighbours::ZeroOut);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let mut solver = Solver::new(&loss);
        // κ²/2 with κ = 300 and 350, and the entropy of which of the two it was.
        let each = 0.4 * 300f64.powi(2) / 2.0
            + 0.6 * 350f64.powi(2) / 2.0
            + (0.4 * 0.4f64.ln() + 0.6 * 0.6f64.ln());
        let mean = steps as f64 * each;
        // Seven thousand choices deviate by 8000·√(0.24·7000) = 3.3e5 in the loss.
        let above = solver.ln_delta_nearly_one(1.01 * mean);
        assert!(above < -1.0, "{above}");
        let lower = solver.epsilon_nearly_one(1e-5);
        assert!(
            lower < 1.001 * mean && lower > 0.97 * mean,
            "{lower} {mean}"
        );
        let found = loss
            .epsilon(
                crate::Delta::new(1e-5).unwrap(),
                Tolerance::new(1e-3).unwrap(),
            )
            .unwrap();
        let upper = found.bounds.upper.unwrap().get().get();
        assert!(upper >= mean, "{found:?} {mean}");
    }
}
