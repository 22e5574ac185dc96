//! δ(ε) where one step alone decides: records that are hardly ever drawn, at an ε far above what all
//! other steps add up to.
//!
//! An outcome is loud where its loss exceeds half of ε, and runs are told apart by their loud steps, so
//! that their shares of δ add up. Runs without one have at most Chernoff's bound of the quiet outcomes.
//! Runs with one or more have, for each step that is loud, at most
//!
//!   ∫ p(x) δ'(ε − l(x)) dx,  x loud, δ' the profile of the T − 1 other steps,
//!
//! and runs with exactly one no less than that with δ' lowered by the chance that another step is loud.
//! δ' is convex in α = e^ε: on a cell of x a chord bounds it from above, its value at the mean of α from
//! below, and with α(x) = e^ε q(x)/p(x) both integrals are masses of P and Q.

use super::solver::Solver;
use crate::engine::contour::kernel::Kernel;
use crate::loss::Pair;
use crate::numeric::interval::LnBounds;
use crate::numeric::special::ln_add_exp;

/// Relative room for the roundings of masses, losses and sums.
const ROOM: f64 = 1e-9;
/// Deviations of the other steps within which their profile is followed, below and above none.
const NEAR: f64 = 12.0;
const ABOVE: f64 = 40.0;
/// Within so many deviations evenly.
const INNER: f64 = 3.0;
/// Cells per deviation, and per e-fold of what a single step loses.
const CELLS: (f64, f64) = (5.0, 70.0);
/// Deviations of this share of that e-fold are passed over from below.
const FEW: f64 = 0.015;
/// How exactly the profile of the others is asked for.
const GOAL: f64 = 1e-4;
/// The ratio of distances of tilts from their pole up to which a grid serves another place.
const NEARBY: f64 = 1.2;
/// Sums outside [this, 1/this] may have lost terms to underflow.
const SMALLEST: f64 = 1e-200;
/// ln of masses below which nothing is told apart any more.
const LN_SMALLEST: f64 = -600.0;
/// From one cell to the next where nothing is followed.
const RATIO: f64 = 1.4;

/// Cells of quiet outcomes.
const QUIET: usize = 1500;
/// Where they begin: below, a step only ever loses less than nothing.
const LEAST: f64 = -12.0;
/// Products of order and loss at which quiet runs are bounded, and their ratio.
const ORDERS: (f64, f64, f64) = (1.0, 2000.0, 1.15);

/// Quiet outcomes in cells: Q-mass and the largest |P/Q − 1| of each, rounded up.
struct Quiet(Vec<(f64, f64)>);

impl Quiet {
    fn new(pair: &Pair, end: f64) -> Self {
        let step = (end - LEAST) / QUIET as f64;
        let tail = |x: f64| pair.ln_tails(x)[1];
        let gain = |x: f64| pair.loss(x).exp_m1().abs() * (1.0 + ROOM) + 8.0 * f64::EPSILON;
        // Below the first one.
        let mut cells = vec![(1.0, gain(f64::MIN).max(gain(LEAST)))];
        cells[0].0 -= (tail(LEAST).0 - tail(LEAST).1).exp();
        let mut left = LEAST;
        for i in 1..=QUIET {
            let right = if i < QUIET {
                LEAST + step * i as f64
            } else {
                end
            };
            let ((from, above), (to, below)) = (tail(left), tail(right));
            let mass = (from + above).exp() - (to - below).exp();
            cells.push((
                mass.max(f64::MIN_POSITIVE) * (1.0 + ROOM),
                gain(left).max(gain(right)),
            ));
            left = right;
        }
        Self(cells)
    }

    /// About E_Q[(P/Q − 1)²].
    fn second_moment(&self) -> f64 {
        self.0.iter().map(|(mass, gain)| mass * gain * gain).sum()
    }

    /// ln of what runs of so many quiet steps add to δ(ε) at most: Chernoff's bound at the best order,
    /// E_Q[(P/Q)^c] ≤ 1 + E_Q[ψ(P/Q − 1)] with ψ(u) = (1 + u)^c − 1 − cu ≥ 0 rising with |u| on each
    /// side, larger for u than for −u; on quiet outcomes the mean of u is no more than zero.
    fn ln_delta(&self, count: f64, epsilon: f64) -> f64 {
        let mut best = 0.0f64;
        let mut product = ORDERS.0;
        while product < ORDERS.1 {
            let order = 2.0 + product / epsilon;
            let excess = |gain: f64| {
                let rise = order * gain.ln_1p();
                if order * gain < 1e-4 {
                    0.5 * order * order * gain * gain * (order * gain).exp()
                } else {
                    rise.exp_m1() - order * gain
                }
            };
            let sum: f64 = self.0.iter().map(|(mass, gain)| mass * excess(*gain)).sum();
            let ln = count * (sum * (1.0 + ROOM)).ln_1p() - epsilon * (order - 1.0)
                + Kernel::Excess.ln_chernoff(order);
            best = best.min(ln + ROOM * (1.0 + epsilon * order));
            product *= ORDERS.2;
        }
        best
    }
}

impl Solver {
    /// ln δ(ε) of a run of many equal steps, one of which decides; `None` for other runs.
    pub(super) fn ln_delta_of_one_hit(&self, epsilon: f64) -> Option<LnBounds> {
        let [(pair, times)] = self.loss.parts.as_slice() else {
            return None;
        };
        let plain = self.loss.gaussian <= 0.0 && self.loss.laws.is_empty();
        if !plain
            || *times < 2
            || epsilon.is_nan()
            || epsilon <= 0.0
            || !pair.second.is_standard()
            || self.has_groups()
        {
            return None;
        }
        let count = *times as f64;
        let loud = pair.crossing(0.5 * epsilon).0;
        let quiet = Quiet::new(pair, loud);
        let ln_quiet = quiet.ln_delta(count, epsilon);
        let deviation = (count * quiet.second_moment()).sqrt();

        let mut others = self.loss.clone();
        others.parts[0].1 -= 1;
        let mut others = self.derived(&others);
        let fall = |at: f64| pair.ln_delta_of_one_step(at).middle;
        let scale = 1e-3 * epsilon / (fall(epsilon) - fall(1.001 * epsilon));
        let (inner, near) = (INNER * deviation, NEAR * deviation);
        let finest = (deviation / CELLS.0).max(scale / CELLS.1);
        if !(inner > 0.0 && inner < 0.25 * epsilon && finest.is_finite()) {
            return None;
        }
        // Below it no run loses: δ' is 1 − α there.
        let least = (count - 1.0) * pair.loss(f64::MIN) * (1.0 + ROOM);
        // ε less the loss of a loud step, falling: geometric down to `inner`, even down to −`inner`, and on.
        let mut places: Vec<f64> = Vec::new();
        let mut place = inner;
        while place < 0.5 * epsilon {
            places.push(place);
            place *= RATIO;
        }
        places.reverse();
        let cells = (2.0 * inner / finest).ceil().max(1.0);
        let step = 2.0 * inner / cells;
        places.extend((1..=cells as usize).map(|i| inner - step * i as f64));
        while let Some(last) = places
            .last()
            .copied()
            .filter(|last| *last > least.max(-near))
        {
            places.push(RATIO * last);
        }
        // What others lose hardly matters to a single step.
        let followed_below = deviation > FEW * scale;

        let ln_least = others.coarse(0.0).lower;
        let mut cut = others.cut_below(ln_least, 0.1 * GOAL);
        let mut other = |place: f64| {
            if place <= least {
                let ln = (-place.exp_m1()).ln();
                return LnBounds::exactly(ln).widened(ROOM);
            }
            let place = place - ROOM * deviation;
            if place <= ABOVE * deviation {
                others.followed(place, &mut cut)
            } else {
                // A step is loud for this too, or all are quiet.
                let loud = pair.crossing(0.5 * place).0;
                let [(tail, error), _] = pair.ln_tails(loud);
                let quiet = Quiet::new(pair, loud).ln_delta(count, place);
                let either = ln_add_exp(quiet, count.ln() + tail + error) + ROOM;
                let coarse = others.coarse(place);
                LnBounds {
                    upper: coarse.upper.min(either),
                    ..coarse
                }
            }
        };
        // P-mass, e^ε Q-mass and δ' from both sides.
        let [(ln_unit, _), _] = pair.ln_tails(pair.crossing(epsilon).1);
        let tails = |x: f64| {
            let [(p, p_error), (q, q_error)] = pair.ln_tails(x);
            // In units of the mass beyond ε, so that nothing that matters vanishes.
            let end =
                |ln: f64, error: f64| [(ln - error - ln_unit).exp(), (ln + error - ln_unit).exp()];
            (end(p, p_error), end(q + epsilon, q_error))
        };
        let another = (count * (pair.ln_tails(loud)[0].0 + ROOM).exp()).min(1.0);
        let (mut upper, mut lower) = (0.0, 0.0);
        let mut left = (0.5 * epsilon, tails(loud));
        let mut left_value = other(left.0).upper.exp().clamp(f64::MIN_POSITIVE, 1.0);
        for place in places {
            let here = tails(pair.crossing(epsilon - place).0);
            let value = other(place).upper.exp().clamp(f64::MIN_POSITIVE, 1.0);
            let between =
                |a: [f64; 2], b: [f64; 2]| [(a[0] - b[1]).max(0.0), (a[1] - b[0]).max(0.0)];
            let p = between(left.1.0, here.0);
            let q = between(left.1.1, here.1);
            // The chord falls from `value` at the smaller α to `left_value` at the larger.
            let (low, high) = (place.exp(), left.0.exp());
            let slope = ((left_value - value) / (high - low)).min(0.0);
            upper += (value * p[1] + slope * (q[0] - low * p[1])).clamp(0.0, value * p[1]);
            if p[0] > 0.0 && left.0 <= ABOVE * deviation {
                let mean = (q[1] / p[0]).ln().min(left.0);
                let known = if followed_below {
                    other(mean + 2.0 * ROOM * deviation).lower.exp()
                } else {
                    -mean.exp_m1()
                };
                lower += p[0] * (known - another).max(0.0);
            }
            (left, left_value) = ((place, here), value);
        }
        // From there on α falls to zero, where δ' is one.
        let ([p_low, p_high], [q_low, q_high]) = left.1;
        let slope = (left_value - 1.0) / left.0.exp();
        upper += (p_high + slope * q_low).clamp(0.0, p_high);
        lower += (p_low - q_high - another * p_high).max(0.0);
        if !(SMALLEST..=1.0 / SMALLEST).contains(&upper) || ln_unit < LN_SMALLEST {
            return None;
        }
        let upper = ln_add_exp(ln_unit + (count * upper).ln() + ROOM, ln_quiet + ROOM).min(0.0);
        let lower = ln_unit + (count * lower).ln() - ROOM;
        Some(LnBounds {
            lower,
            middle: 0.5 * (lower.max(upper - 1.0) + upper),
            upper,
        })
    }

    /// ln δ(ε) near what the run adds up to, by whatever engine certifies it without far outcomes.
    fn followed(&mut self, epsilon: f64, cut: &mut Option<Self>) -> LnBounds {
        let mut best = self.coarse(epsilon);
        let solver = cut.as_mut().unwrap_or(self);
        if let Some(ends) = solver.ln_delta_by_contour(epsilon, GOAL) {
            best = best.meet(ends);
        }
        if best.width() <= 4.0 * GOAL {
            return best;
        }
        // A grid that was laid for a tilt nearby says what another one would.
        let wanted = solver.tilt(epsilon).unwrap_or(f64::NAN);
        if let Some(kept) = &solver.kept {
            best = best.meet(kept.value(epsilon));
            let moved = (wanted - 1.0) / (kept.order() - 1.0);
            if best.width() <= 4.0 * GOAL || (1.0 / NEARBY..NEARBY).contains(&moved) {
                return best;
            }
        }
        solver.keeps_long = true;
        if let Ok(ends) = solver.new_grid_ln_delta(epsilon, GOAL) {
            best = best.meet(ends);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

    /// The upper end lies above an event that is certified by other means, without which it would be
    /// raised to that event unnoticed.
    #[test]
    fn one_step_decides_no_less_than_an_event() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(1.015).unwrap(),
            SamplingRate::new(1.47e-7).unwrap(),
            Steps::new(130),
        );
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let solver = Solver::new(&loss);
        for epsilon in [1e-3, 1.0] {
            let event = solver.simple_event(epsilon);
            let ends = solver.ln_delta_of_one_hit(epsilon).unwrap();
            assert!(ends.upper >= event - 1e-6, "{ends:?} {event}");
        }
    }
}
