//! δ(ε) if one step alone decides: for records that are hardly ever drawn, at an ε far above the sum of all other
//! steps.
//!
//! An outcome is loud if its loss exceeds a share of ε. Runs are distinguished by their loud steps, so that their
//! shares of δ add up. Runs without a loud step have at most Chernoff's bound of the quiet outcomes. Runs with one or
//! more have, for each step that is loud, at most
//!
//!   ∫ p(x) δ'(ε − l(x)) dx,  x loud, δ' the profile of the T − 1 other steps,
//!
//! and runs with exactly one have no less than that with δ' lowered by the part of runs with another loud step. δ' is
//! convex in α = e^ε: on a cell of x a chord bounds it from above, and by Jensen its value at the mean of α from
//! below, which the continued chords of the neighbouring cells bound in turn. With α(x) = e^ε q(x)/p(x) both integrals
//! are masses of P and Q. The places at which δ' is evaluated hardly depend on ε, so that a search over ε evaluates
//! most of them once.

use super::found::Found;
use super::minimum::Minimum;
use super::on_grid::MOST_WORK;
use super::solver::Solver;
use crate::engine::Engine;
use crate::engine::contour::inversion::Contour;
use crate::engine::contour::kernel::Kernel;
use crate::loss::Pair;
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{ROUND, ln_add_exp};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Relative room for the rounding errors of masses, losses and sums.
const ROOM: f64 = 1e-9;
/// The deviations of the other steps, below and above zero, within which their profile is evaluated.
const NEAR: f64 = 12.0;
const ABOVE: f64 = 40.0;
/// The number of deviations within which places are evenly spaced.
const INNER: f64 = 3.0;
/// Ratios of loss to ε from which outcomes are loud: with smaller ones, less of δ is left to quiet runs, and more runs
/// have several loud steps.
const LOUD: [f64; 3] = [HALF, 0.35, 0.2];
const HALF: f64 = 0.5;
/// The number of cells per deviation, and per e-fold of what a single step loses.
const CELLS: (f64, f64) = (10.0, 140.0);
/// Steps per octave to which deviations and cells are rounded, so that neighbouring ε share places.
const STEPS: f64 = 4.0;
/// The number of contours kept for other places.
const MOST_CONTOURS: usize = 3;
/// If the deviation is less than this share of that e-fold, it is ignored for lower ends.
const FEW: f64 = 0.015;
/// The precision at which the profile of the others is evaluated.
const GOAL: f64 = 1e-4;
/// The ratio of distances of tilts from their pole up to which a grid serves another place.
const NEARBY: f64 = 1.2;
/// Sums outside [this, 1/this] may have lost terms to underflow.
const SMALLEST: f64 = 1e-200;
/// ln of the mass below which nothing can be distinguished any more.
const LN_SMALLEST: f64 = -600.0;
/// The ratio of successive cells where the profile isn't evaluated.
const RATIO: f64 = 1.4;

/// The lowest place at which one step is considered, as a share of the upper end of ε, and the most places.
const FARTHEST_BELOW: f64 = 1e-8;
const MOST_PLACES: usize = 20;
/// The fewest places for a blow-up, the distance of the first two as a share of ε, and the distance of ends that may
/// be as close as possible.
const FEWEST_PLACES: usize = 6;
const STEP: f64 = 0.05;
const AS_DECIDED: f64 = 1e-2;
/// The farthest outcome considered, in deviations beyond the farthest component.
const FARTHEST: f64 = 38.0;
/// The number of places without a close engine after which kept results have to suffice.
const MOST_IN_VAIN: u32 = 24;
/// The work of a single δ, in the units of grids, and of each place at which the others' profile is new.
const WORK: (f64, f64) = (0.05, 0.01);
/// With more components in both laws, the work is larger.
const FEW_COMPONENTS: f64 = 12.0;
/// With more components than this, it isn't tried: far components are left out wherever it is known what matters.
const MOST_COMPONENTS: usize = 48;
/// The ratio of downward steps to a lower end, and their number.
const NEAR_BELOW: f64 = 0.8;
const DOWNWARDS: u32 = 8;
/// The number of steps outwards in the search for an end.
const OUTWARDS: usize = 4;
/// Quiet runs with a share of e^−this have little of δ.
const LITTLE: f64 = 3.0;
/// Ends of ln δ farther apart than this decide nothing.
const UNDECIDED: f64 = 1.0;
/// Within this distance of ln δ, a chord is trusted to meet it.
const NEAR_ENOUGH: f64 = 0.005;
/// Room in ln δ at both ends of ε.
const LEVEL: f64 = 1e-12;

/// The number of cells of quiet outcomes.
const QUIET: usize = 1500;
/// The start of these cells; below it, a step only has losses below zero.
const LEAST: f64 = -12.0;
/// Products of order and loss at which quiet runs are bounded, and their ratio.
const ORDERS: (f64, f64, f64) = (1.0, 2000.0, 1.15);

/// Quiet outcomes.
#[derive(Debug)]
struct Quiet {
    /// The Q-mass of each cell and its u = P/Q − 1 farthest from zero, rounded away from zero.
    cells: Vec<(f64, f64)>,
    /// Lower bounds on the Q-mass of loud outcomes and on their contribution to the mean of u.
    loud: (f64, f64),
    /// The Q-mass that is missing.
    lacking: f64,
}

impl Quiet {
    fn new(pair: &Pair, end: f64) -> Self {
        let step = (end - LEAST) / QUIET as f64;
        // Computed from small numbers: masses far below can't be obtained from differences of numbers near one.
        let tail = |x: f64, below: bool| match below {
            true => pair.second.ln_tail(-x),
            false => pair.second.mirrored_ln_tail(x),
        };
        let between = |from: (f64, f64), to: (f64, f64), below: bool| {
            let ((more, above), (less, under)) = if below { (to, from) } else { (from, to) };
            let mass = (more + above).exp() - (less - under).exp();
            mass.max(f64::MIN_POSITIVE) * (1.0 + ROOM)
        };
        let gain = |x: f64| {
            let gain = pair.loss(x).exp_m1();
            let room = gain.abs() * ROOM + 8.0 * f64::EPSILON;
            (gain - room).max(-1.0)..gain + room
        };
        // u rises with x, so the ends of a cell are its extremes. A cell around zero counts as above zero.
        let farthest = |left: &Range<f64>, right: &Range<f64>| {
            let (least, most) = (left.start, right.end);
            if most <= 0.0 { least } else { most.max(-least) }
        };
        // The cell below the first edge.
        let (all, error) = pair.ln_tails_below(LEAST)[1];
        let mut gain_before = gain(LEAST);
        let first = farthest(&gain(f64::MIN), &gain_before);
        let mut cells = vec![((all + error + ROOM).exp(), first)];
        // Each edge ends one cell and begins the next.
        let mut left = LEAST;
        let mut before = (tail(LEAST, true), true);
        for i in 1..=QUIET {
            let right = if i < QUIET {
                LEAST + step * i as f64
            } else {
                end
            };
            let below = right <= 0.0;
            let from = match before {
                (known, side) if side == below => known,
                _ => tail(left, below),
            };
            let (to, gain) = (tail(right, below), gain(right));
            cells.push((between(from, to, below), farthest(&gain_before, &gain)));
            (left, before, gain_before) = (right, (to, below), gain);
        }
        let [(p, p_error), (q, q_error)] = pair.ln_tails(end);
        let [least, most] = [(q - q_error).exp(), (q + q_error).exp()];
        let mean = ((p - p_error).exp() - most).max(0.0);
        Self {
            cells,
            loud: (least * (1.0 - ROOM), mean * (1.0 - ROOM)),
            lacking: pair.second.missing(),
        }
    }

    /// Returns approximately E_Q[u²].
    fn second_moment(&self) -> f64 {
        self.cells.iter().map(|(mass, u)| mass * u * u).sum()
    }

    /// Returns ln of an upper bound on what runs of `count` quiet steps add to δ(ε): Chernoff's bound at the best
    /// order, E_Q[(P/Q)^c; quiet] = Q(quiet) + c E_Q[u; quiet] + E_Q[ψ(u); quiet] with ψ(u) = (1 + u)^c − 1 − cu ≥ 0,
    /// which rises on both sides of zero, faster above. Over all outcomes E_Q[u] ≤ 0, except for mass that Q lacks, so
    /// the mean of the quiet ones is at most the negated mean of the loud ones.
    fn ln_delta(&self, count: f64, epsilon: f64) -> f64 {
        let mut best = 0.0f64;
        let mut product = ORDERS.0;
        while product < ORDERS.1 {
            let order = 2.0 + product / epsilon;
            let excess = |u: f64| {
                if order * u.abs() < 1e-4 {
                    // The third derivative is negative below zero, and small above.
                    let bend = (order * u).max(0.0).exp();
                    0.5 * order * order * u * u * bend
                } else {
                    (order * u.ln_1p()).exp_m1() - order * u
                }
            };
            let convex: f64 = self.cells.iter().map(|(mass, u)| mass * excess(*u)).sum();
            let lacking = order * self.lacking;
            let moment = convex * (1.0 + ROOM) - self.loud.0 - order * self.loud.1 + lacking;
            let ln = count * moment.max(-1.0).ln_1p() - epsilon * (order - 1.0)
                + Kernel::Excess.ln_chernoff(order);
            best = best.min(ln + ROOM * (1.0 + epsilon * order));
            product *= ORDERS.2;
        }
        best
    }
}

/// A run of many equal steps, one of which may decide.
#[derive(Debug)]
pub(crate) struct OneHit {
    pair: Pair,
    count: f64,
    /// The missing first-law mass of the whole run.
    missing: f64,
    /// The latest quiet outcomes, with their end.
    quiet: Option<(f64, Rc<Quiet>)>,
    others: Others,
}

/// All steps but one.
#[derive(Debug)]
struct Others {
    solver: Solver,
    /// The same without far outcomes, whose profile is evaluated, if it has any.
    cut: Option<Solver>,
    /// The latest contours along which the profile is known.
    contours: Vec<Contour>,
    /// The number of places that no engine could evaluate closely.
    in_vain: u32,
    /// Known values of the profile, by place and by the unit of its rounding.
    known: HashMap<(u64, u64), LnBounds>,
}

impl Solver {
    /// Returns the run as one of many equal steps, with what is known about it; `None` for other runs.
    fn one_hit(&mut self) -> Option<Box<OneHit>> {
        if let Some(hit) = self.hit.take() {
            return Some(hit);
        }
        let [(pair, times)] = self.loss.parts.as_slice() else {
            return None;
        };
        let plain = self.loss.gaussian <= 0.0 && self.loss.laws.is_empty();
        if !plain || *times < 2 {
            return None;
        }
        let mut others = self.loss.clone();
        others.parts[0].1 -= 1;
        Some(Box::new(OneHit {
            pair: pair.clone(),
            count: *times as f64,
            missing: self.loss.missing(),
            quiet: None,
            others: Others {
                solver: self.derived(&others),
                cut: None,
                contours: Vec::new(),
                in_vain: 0,
                known: HashMap::new(),
            },
        }))
    }

    /// Returns ln δ(ε) of the run as one of many equal steps; the work counts as that of grids.
    fn ask_one_hit(&self, hit: &mut OneHit, epsilon: f64) -> Option<LnBounds> {
        let work = self.grid_work.get();
        if work >= MOST_WORK {
            return None;
        }
        let components = hit.components();
        if components > MOST_COMPONENTS {
            return None;
        }
        let before = hit.others.known.len();
        let found = hit.ln_delta(epsilon);
        let places = (hit.others.known.len() - before) as f64;
        // The work is larger if outcomes have many components.
        let times = (components as f64 / FEW_COMPONENTS).max(1.0);
        let own = times * (WORK.0 + WORK.1 * places);
        self.grid_work.set(self.grid_work.get() + own);
        found
    }

    /// Returns both ends of ε(δ) if one step decides, starting from the known `ends`; `None` if none does, or only
    /// barely.
    pub(super) fn epsilon_of_one_hit(
        &mut self,
        ln_delta: f64,
        ends: &Found,
        tolerance: f64,
    ) -> Option<Found> {
        let mut run = self.one_hit()?;
        let found = self.epsilon_of_hit(&mut run, ln_delta, ends, tolerance);
        self.hit = Some(run);
        found
    }

    fn epsilon_of_hit(
        &self,
        run: &mut OneHit,
        ln_delta: f64,
        ends: &Found,
        tolerance: f64,
    ) -> Option<Found> {
        let (mut low, mut high) = (ends.lower.unwrap_or(0.0), ends.upper);
        let mut found = Found {
            lower: ends.lower,
            upper: high,
            engine: Engine::Contour,
        };
        // The highest place left of the root and the lowest right of it, as (ln ε, ln δ).
        let (mut left, mut right) = (None::<(f64, f64)>, None::<(f64, f64)>);
        let mut place = (low.max(high * FARTHEST_BELOW) * high).sqrt();
        let (mut calls, mut nearer) = (0, 0);
        let mut ask = |run: &mut OneHit, place: f64| {
            calls += 1;
            let at = self.ask_one_hit(run, place)?;
            if at.upper <= ln_delta - LEVEL {
                found.upper = found.upper.min(place);
            } else if at.lower >= ln_delta + LEVEL {
                found.lower = Some(found.lower.map_or(place, |lower| lower.max(place)));
            }
            (at.width() <= UNDECIDED && calls <= MOST_PLACES).then_some(at)
        };
        while high.is_finite() && high > low * (1.0 + tolerance) {
            if !run.decides(place, ln_delta) {
                // Everywhere below this, other runs are as likely.
                low = place;
                place = (low * high).sqrt();
                if high <= low * 1.01 {
                    break;
                }
                continue;
            }
            let Some(at) = ask(run, place) else {
                // If δ is lost among the smallest numbers, the root lies before this place.
                if run.is_beyond(place, ln_delta) && nearer < MOST_PLACES {
                    nearer += 1;
                    high = place;
                    place = (low.max(high * FARTHEST_BELOW) * high).sqrt();
                    continue;
                }
                break;
            };
            let point = (place.ln(), at.middle);
            if at.middle > ln_delta {
                (left, low) = (Some(point), place);
            } else {
                (right, high) = (Some(point), place);
            }
            let (Some(a), Some(b)) = (left, right) else {
                place = (low.max(high * FARTHEST_BELOW) * high).sqrt();
                continue;
            };
            let slope = (a.1 - b.1) / (b.0 - a.0);
            if a.0 >= b.0 || !slope.is_finite() {
                // Middles that don't fall decide nothing.
                break;
            }
            let off = point.1 - ln_delta;
            let root = point.0 + off / slope;
            if slope <= 0.0 || off.abs() > NEAR_ENOUGH {
                let inset = 0.02 * (b.0 - a.0);
                place = root.clamp(a.0 + inset, b.0 - inset).exp();
                continue;
            }
            // Move outwards until both ends are certified.
            let reach = (0.6 * at.width() + 0.1 * off.abs() + 4.0 * LEVEL) / slope;
            for side in [-1.0, 1.0] {
                let mut reach = reach.max(0.1 * tolerance);
                for _ in 0..OUTWARDS {
                    let place = (root + side * reach).exp();
                    let Some(at) = ask(run, place) else {
                        break;
                    };
                    let certified = if side > 0.0 {
                        at.upper <= ln_delta - LEVEL
                    } else {
                        at.lower >= ln_delta + LEVEL
                    };
                    if certified {
                        break;
                    }
                    reach *= 1.7;
                }
            }
            break;
        }
        // If other runs are as likely, those with one hit still give a lower end.
        let mut below = found.upper;
        for _ in 0..DOWNWARDS {
            if !below.is_finite() || found.lower.unwrap_or(0.0) >= NEAR_BELOW * below {
                break;
            }
            below *= NEAR_BELOW;
            let Some(at) = self.ask_one_hit(run, below) else {
                break;
            };
            if at.lower >= ln_delta + LEVEL {
                found.lower = Some(below);
            }
        }
        let better = found.upper < ends.upper || found.lower > ends.lower;
        better.then_some(found)
    }

    /// Returns ln B(x) in the same way, from δ around the ε that a single step exceeds with probability x under the
    /// second law.
    pub(super) fn ln_blow_up_of_one_hit(&mut self, ln_x: f64, goal: f64) -> Option<LnBounds> {
        let [(pair, times)] = self.loss.parts.as_slice() else {
            return None;
        };
        let ln_share = ln_x - (*times as f64).ln();
        let (mut low, mut high) = (0.0, FARTHEST + pair.first.farthest());
        while high - low > 1e-2 {
            let middle = 0.5 * (low + high);
            if pair.ln_tails(middle)[1].0 > ln_share {
                low = middle;
            } else {
                high = middle;
            }
        }
        let start = pair.loss(high);
        let mut minimum = Minimum::new(ln_x, STEP * start);
        let mut place = start;
        let mut before = f64::INFINITY;
        for i in 0..MOST_PLACES {
            let Some(ends) = self.ln_delta_of_one_hit(place) else {
                break;
            };
            minimum.add(place, ends);
            let width = minimum.ends().width();
            // Once places on all sides add little, the ends are as close as possible.
            let converged = i >= FEWEST_PLACES && width < AS_DECIDED && width > 0.9 * before;
            if width <= 2.0 * goal || converged {
                break;
            }
            before = width;
            let Some(next) = minimum.next().filter(|next| *next > 0.0) else {
                break;
            };
            place = next;
        }
        let ends = minimum.ends();
        ends.upper.is_finite().then_some(ends)
    }

    /// Returns ln δ(ε) of a run of many equal steps, one of which decides; `None` for other runs.
    pub(super) fn ln_delta_of_one_hit(&mut self, epsilon: f64) -> Option<LnBounds> {
        let mut hit = self.one_hit()?;
        let found = self.ask_one_hit(&mut hit, epsilon);
        self.hit = Some(hit);
        found
    }
}

impl OneHit {
    /// Returns the number of components of both laws of a step.
    fn components(&self) -> usize {
        let laws = [&self.pair.first, &self.pair.second];
        laws.iter().map(|law| law.components().count()).sum()
    }

    /// Returns whether single steps add up to less than δ there.
    fn is_beyond(&self, epsilon: f64, ln_delta: f64) -> bool {
        self.pair.ln_delta_of_one_step(epsilon).upper + self.count.ln() <= ln_delta - LITTLE
    }

    /// Returns the outcomes whose loss is no more than this, and their end.
    fn quiet(&mut self, loss: f64) -> (f64, Rc<Quiet>) {
        let end = self.pair.crossing(loss).0;
        match &self.quiet {
            Some((known, quiet)) if known.to_bits() == end.to_bits() => (end, Rc::clone(quiet)),
            _ => {
                let quiet = Rc::new(Quiet::new(&self.pair, end));
                self.quiet = Some((end, Rc::clone(&quiet)));
                (end, quiet)
            }
        }
    }

    /// Returns whether runs without a loud step have little of a δ of about this size.
    fn decides(&mut self, epsilon: f64, ln_delta: f64) -> bool {
        let quiet = self.quiet(HALF * epsilon).1;
        let deviation = (self.count * quiet.second_moment()).sqrt();
        deviation <= epsilon && quiet.ln_delta(self.count, epsilon) <= ln_delta - LITTLE
    }

    /// Returns ln δ(ε); `None` if nothing can be said.
    fn ln_delta(&mut self, epsilon: f64) -> Option<LnBounds> {
        if epsilon.is_nan() || epsilon <= 0.0 {
            return None;
        }
        // All shares use the same places.
        let quiet = self.quiet(LOUD[0] * epsilon).1;
        let deviation = (self.count * quiet.second_moment()).sqrt();
        let mut best: Option<LnBounds> = None;
        for share in LOUD {
            let Some(ends) = self.ln_delta_of_loud(epsilon, share, deviation) else {
                break;
            };
            best = Some(best.map_or(ends, |best| best.meet(ends)));
            if best.is_some_and(|best| best.width() <= GOAL) {
                break;
            }
        }
        best
    }

    /// Returns the same if outcomes are loud whose loss exceeds `share` of ε.
    fn ln_delta_of_loud(&mut self, epsilon: f64, share: f64, deviation: f64) -> Option<LnBounds> {
        let (loud, quiet) = self.quiet(share * epsilon);
        let (pair, count) = (&self.pair, self.count);
        let ln_quiet = quiet.ln_delta(count, epsilon);
        let fall = |at: f64| pair.ln_delta_of_one_step(at).middle;
        let scale = 1e-3 * epsilon / (fall(epsilon) - fall(1.001 * epsilon));
        if !(deviation > 0.0 && deviation < epsilon && scale > 0.0) {
            return None;
        }
        let unit = rounded_down(deviation);
        let (inner, near) = ((INNER * unit).min(0.4 * epsilon), NEAR * deviation);
        let finest = (unit / CELLS.0).max(rounded_down(scale) / CELLS.1);
        if !finest.is_finite() {
            return None;
        }
        // Below this no run has a loss: δ' is 1 − α there.
        let least = (count - 1.0) * pair.loss(f64::MIN) * (1.0 + ROOM);
        // ε minus the loss of a loud step, falling: geometric down to `inner`, even down to −`inner`, and beyond.
        let mut places: Vec<f64> = Vec::new();
        let mut place = inner;
        let farthest = (1.0 - share) * epsilon;
        while place < farthest {
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
        // The losses of the others hardly matter to a single step.
        let followed_below = deviation > FEW * scale;

        let others = &mut self.others;
        others.cut_off();
        let mut other = |place: f64| others.profile((pair, count), (place, unit), least);
        // P-mass, e^ε Q-mass and δ', from both sides.
        let [(ln_unit, _), _] = pair.ln_tails(pair.crossing(epsilon).1);
        if !(ln_unit.is_finite() && ln_unit >= LN_SMALLEST) {
            return None;
        }
        let tails = |x: f64| {
            let [(p, p_error), (q, q_error)] = pair.ln_tails(x);
            // In units of the mass beyond ε, so that nothing that matters vanishes.
            let end =
                |ln: f64, error: f64| [(ln - error - ln_unit).exp(), (ln + error - ln_unit).exp()];
            (end(p, p_error), end(q + epsilon, q_error))
        };
        // An upper bound on what runs with another loud step have in ∫ p(x) δ'(ε − l(x)) dx, for the masses of x: by
        // the same argument, count ∫ p δ''(y − l) with δ'' ≤ δ'(0) + (1 − e^{y − l})₊. Two losses of at least half of
        // ε leave nothing of y, so that this is linear in e^y; for others it is at most one.
        let at_zero = other(0.0).upper.exp().min(1.0);
        let [(p_loud, p_error), (q_loud, q_error)] = pair.ln_tails(loud);
        let p_loud = (p_loud + p_error).exp();
        // Room for the rounding errors of both products, which nearly cancel.
        let q_loud = if share < HALF {
            0.0
        } else {
            (q_loud - q_error).exp() * (1.0 - 32.0 * ROUND)
        };
        let another = |p: f64, q: f64| {
            let all = count * p_loud * p;
            (all * (1.0 + at_zero) - count * q_loud * q).clamp(0.0, all) * (1.0 + ROOM)
        };
        let mut edges = vec![(farthest, tails(loud))];
        edges.extend(
            places
                .iter()
                .map(|place| (*place, tails(pair.crossing(epsilon - place).0))),
        );
        let mut masses = edges.iter().flat_map(|(_, (p, q))| p.iter().chain(q));
        if !masses.all(|mass| mass.is_finite()) {
            return None;
        }
        // From the typical sum of the others outwards: failures far out mustn't use up the work of what matters.
        let mut order: Vec<usize> = (0..edges.len()).collect();
        order.sort_by(|i, j| edges[*i].0.abs().total_cmp(&edges[*j].0.abs()));
        let mut values = vec![(0.0, 1.0); edges.len()];
        let mut inside = 1.0f64;
        for i in order.iter().copied() {
            let place = edges[i].0;
            let ends = other(place);
            let mut upper = ends.upper.exp().clamp(f64::MIN_POSITIVE, 1.0);
            if place >= 0.0 {
                // The others' profile falls.
                inside = inside.min(upper);
                upper = inside;
            }
            // It falls by no more than the place rises.
            let lower = ends.lower.exp() * (1.0 - ROOM) - 4.0 * room_of(place, unit);
            values[i] = (lower.clamp(0.0, upper), upper);
        }
        let between = |a: [f64; 2], b: [f64; 2]| [(a[0] - b[1]).max(0.0), (a[1] - b[0]).max(0.0)];
        let (mut upper, mut lower) = (0.0, 0.0);
        // A cell lies between an edge and the one before.
        for i in 1..edges.len() {
            let (left, here) = (edges[i - 1], edges[i]);
            let (left_value, value) = (values[i - 1].1, values[i].1);
            let p = between(left.1.0, here.1.0);
            let q = between(left.1.1, here.1.1);
            // The chord falls from `value` at the smaller α to `left_value` at the larger one.
            let (low, high) = (here.0.exp(), left.0.exp());
            let slope = ((left_value - value) / (high - low)).min(0.0);
            upper += (value * p[1] + slope * (q[0] - low * p[1])).clamp(0.0, value * p[1]);
            if p[0] > 0.0 && left.0 <= ABOVE * deviation {
                let mean = (q[1] / p[0]).ln().min(left.0);
                let known = if followed_below {
                    let at = |i: usize| edges.get(i).map(|edge| (edge.0, values[i]));
                    let beyond = (i.checked_sub(2).and_then(at), at(i + 1));
                    let place = (mean + room_of(mean, unit)).min(left.0);
                    least_at(place, (at(i - 1), at(i)), beyond).max(-mean.exp_m1())
                } else {
                    -mean.exp_m1()
                };
                lower += (p[0] * known - another(p[1], q[0])).max(0.0);
            }
        }
        let (left, left_value) = (edges[edges.len() - 1], values[edges.len() - 1].1);
        // From there on, α falls to zero, where δ' is one.
        let ([p_low, p_high], [q_low, q_high]) = left.1;
        let slope = (left_value - 1.0) / left.0.exp();
        upper += (p_high + slope * q_low).clamp(0.0, p_high);
        lower += (p_low - q_high - another(p_high, q_low)).max(0.0);
        if !(SMALLEST..=1.0 / SMALLEST).contains(&upper) {
            return None;
        }
        let upper = ln_add_exp(ln_unit + (count * upper).ln() + ROOM, ln_quiet + ROOM);
        let upper = ln_add_exp(upper, self.missing.ln() + ROOM).min(0.0);
        // The mass missing from the first law may be missing from every δ' and δ'' above, for each loud step and each
        // pair.
        let lower = ln_unit + (count * lower).ln() - ROOM;
        let missing = self.missing * (1.0 + count * p_loud).powi(2);
        let missing = (missing.ln() + ROOM - lower).exp();
        let lower = lower + (-missing).max(-1.0).ln_1p();
        Some(LnBounds {
            lower,
            middle: 0.5 * (lower.max(upper - 1.0) + upper),
            upper,
        })
    }
}

/// Returns the largest of a few numbers per octave that isn't above this one.
fn rounded_down(number: f64) -> f64 {
    ((number.log2() * STEPS).floor() / STEPS).exp2().min(number)
}

/// Returns room for the rounding errors of a place if all others deviate by about `unit`.
fn room_of(place: f64, unit: f64) -> f64 {
    ROOM * (2.0 * unit + place.abs())
}

/// A place and both ends, there, of a convex falling function of e^place.
type Known = (f64, (f64, f64));

/// Returns a lower end of such a function at a place between two known ones, from these and the next ones on both
/// sides: the function falls, and a chord lies below it beyond its ends.
fn least_at(
    place: f64,
    (above, below): (Option<Known>, Option<Known>),
    (farther_above, farther_below): (Option<Known>, Option<Known>),
) -> f64 {
    let chord = |near: Option<Known>, far: Option<Known>| {
        let ((near, (low, _)), (far, (_, high))) = (near?, far?);
        // The share of the far place's distance, in e^place.
        let share = (place - near).exp_m1() / -(far - near).exp_m1();
        (share >= 0.0)
            .then_some((low * (1.0 + share) - high * share) * (1.0 - ROOM) - ROOM * share * high)
    };
    let falls = above.map_or(0.0, |(_, (low, _))| low);
    let chords = [chord(above, farther_above), chord(below, farther_below)];
    chords.into_iter().flatten().fold(falls, f64::max)
}

impl Others {
    /// Leaves out far outcomes whose mass matters nowhere, once.
    fn cut_off(&mut self) {
        if self.cut.is_none() {
            let ln_least = self.solver.coarse(0.0).lower;
            self.cut = self.solver.cut_below(ln_least, 0.1 * GOAL);
        }
    }

    /// Returns ln of their δ at a place, in units of about their deviation; 1 − α below `least`.
    fn profile(
        &mut self,
        (pair, count): (&Pair, f64),
        (place, unit): (f64, f64),
        least: f64,
    ) -> LnBounds {
        if place <= least {
            let ln = (-place.exp_m1()).ln();
            return LnBounds::exactly(ln).widened(ROOM);
        }
        let key = (place.to_bits(), unit.to_bits());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let moved = place - room_of(place, unit);
        let ends = if place <= ABOVE * unit {
            self.followed(moved)
        } else {
            // A step is loud for this purpose too, or all are quiet.
            let loud = pair.crossing(0.5 * moved).0;
            let [(tail, error), _] = pair.ln_tails(loud);
            let quiet = Quiet::new(pair, loud).ln_delta(count - 1.0, moved);
            let either = ln_add_exp(quiet, count.ln() + tail + error) + ROOM;
            let coarse = self.solver.coarse(moved);
            LnBounds {
                upper: coarse.upper.min(either),
                ..coarse
            }
        };
        self.known.insert(key, ends);
        ends
    }

    /// Returns ln δ(ε) near the typical sum of the run, by any engine that certifies it without far outcomes.
    fn followed(&mut self, epsilon: f64) -> LnBounds {
        let solver = match &mut self.cut {
            Some(cut) => cut,
            None => &mut self.solver,
        };
        let kept = solver.kept.as_ref().map(|kept| kept.value(epsilon));
        let close = |ends: &LnBounds| ends.width() <= 4.0 * GOAL;
        let tried = self.in_vain >= MOST_IN_VAIN;
        if let Some(ends) = kept.filter(|ends| tried || close(ends)) {
            return ends;
        }
        let along = self
            .contours
            .iter()
            .map(|contour| solver.read(contour, epsilon));
        if let Some(ends) = along.into_iter().find(close) {
            return ends;
        }
        let mut best = solver.coarse(epsilon);
        if !tried && let Some((ends, contour)) = solver.along_a_contour(epsilon, GOAL) {
            best = best.meet(ends);
            self.contours.truncate(MOST_CONTOURS - 1);
            self.contours.insert(0, contour);
        }
        if close(&best) {
            return best;
        }
        self.in_vain += 1;
        // A grid made for a nearby tilt gives the same as another one would.
        let wanted = solver.tilt(epsilon).unwrap_or(f64::NAN);
        if let (Some(ends), Some(kept)) = (kept, &solver.kept) {
            best = best.meet(ends);
            let moved = (wanted - 1.0) / (kept.order() - 1.0);
            if close(&best) || (1.0 / NEARBY..NEARBY).contains(&moved) {
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
    use crate::quantity::{GroupSize, NoiseMultiplier, SamplingRate, Steps};

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
        let mut solver = Solver::new(&loss);
        for epsilon in [1e-3, 1.0] {
            let event = solver.simple_event(epsilon);
            let ends = solver.ln_delta_of_one_hit(epsilon).unwrap();
            assert!(ends.upper >= event - 1e-6, "{ends:?} {event}");
        }
    }

    fn run(sigma: f64, rate: f64, steps: u64) -> Mechanism {
        Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(),
            SamplingRate::new(rate).unwrap(),
            Steps::new(steps),
        )
    }

    /// A search over ε asks for the profile of the others once.
    #[test]
    fn neighbouring_epsilons_share_what_is_known_of_the_others() {
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(&run(0.3, 1e-9, 1_000_000), query, Direction::Remove).unwrap();
        let mut solver = Solver::new(&loss);
        let mut places = |epsilon: f64| {
            let ends = solver.ln_delta_of_one_hit(epsilon).unwrap();
            assert!(ends.width() <= 5e-3, "{ends:?}");
            solver.hit.as_ref().unwrap().others.known.len()
        };
        let (first, second) = (places(0.72), places(0.725));
        assert!(second <= first + first / 5, "{first} {second}");
    }

    /// On a line in e^y the chords are all there is, with what is known of their ends; what bends lies above.
    #[test]
    fn continued_chords_bound_from_below() {
        type Ends = fn(f64) -> (f64, f64);
        let line = |y: f64| 0.9 - 0.5 * y.exp();
        let bend = |y: f64| 1.0 / (1.0 + y.exp());
        for place in [-0.29, -0.1, -0.01] {
            let around = |near: Ends, far: Ends| {
                let of = |ends: Ends| move |y: f64| Some((y, ends(y)));
                let (near, far) = (of(near), of(far));
                least_at(place, (near(0.0), near(-0.3)), (far(0.2), far(-0.7)))
            };
            let on_line = around(
                |y| (0.9 - 0.5 * y.exp(), 0.97 - 0.5 * y.exp()),
                |y| (0.83 - 0.5 * y.exp(), 0.9 - 0.5 * y.exp()),
            );
            assert!(
                on_line <= line(place) && on_line >= line(place) - 1e-8,
                "{place} {on_line}"
            );
            let exact: Ends = |y| (1.0 / (1.0 + y.exp()), 1.0 / (1.0 + y.exp()));
            let below = around(exact, exact);
            assert!(
                below < bend(place) && below > bend(place) - 0.01,
                "{place} {below}"
            );
        }
    }

    /// Both ends against a grid, where that certifies the same runs: second laws that are mixtures too, and
    /// several records.
    #[test]
    fn one_step_decides_as_a_grid_says() {
        for (sigma, rate, steps, group, epsilon) in [
            (0.7, 1e-3, 30, 1, 1.0),
            (0.3, 1e-5, 50, 1, 2.0),
            (0.3, 1e-5, 20, 3, 2.0),
        ] {
            for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
                let query = Query {
                    neighbours,
                    group: GroupSize::new(group).unwrap(),
                };
                let loss =
                    PrivacyLoss::of(&run(sigma, rate, steps), query, Direction::Remove).unwrap();
                let ends = Solver::new(&loss).ln_delta_of_one_hit(epsilon).unwrap();
                let truth = Solver::new(&loss).new_grid_ln_delta(epsilon, 1e-4).unwrap();
                assert!(ends.lower <= truth.upper, "{query:?} {ends:?} {truth:?}");
                assert!(ends.upper >= truth.lower, "{query:?} {ends:?} {truth:?}");
                assert!(ends.width() <= 2e-3, "{query:?} {ends:?}");
                assert!(truth.width() <= 2e-3, "{query:?} {truth:?}");
            }
        }
    }

    /// Steps that are loud by a small share of ε are often several, and each of those runs counts once.
    #[test]
    fn several_loud_steps_count_once() {
        let query = Query::single(Neighbours::AddRemove);
        for (sigma, rate, steps, epsilon) in [
            (0.4, 0.02, 20, 4.0),
            (0.3, 0.01, 40, 8.0),
            (0.3, 0.01, 40, 16.0),
            // Hardly any run gets there by one or two steps.
            (2.0, 0.5, 10, 1.5),
        ] {
            let loss = PrivacyLoss::of(&run(sigma, rate, steps), query, Direction::Remove).unwrap();
            let truth = Solver::new(&loss).new_grid_ln_delta(epsilon, 1e-4).unwrap();
            for share in LOUD {
                let mut hit = Solver::new(&loss).one_hit().unwrap();
                let ends = hit.ln_delta_of_loud(epsilon, share, 0.3).unwrap();
                assert!(ends.lower <= truth.upper, "{share} {ends:?} {truth:?}");
                assert!(ends.upper >= truth.lower, "{share} {ends:?} {truth:?}");
            }
        }
    }

    /// Where all outcomes are quiet, their bound is one of the whole run.
    #[test]
    fn quiet_runs_have_no_more_than_chernoff() {
        for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
            let query = Query::single(neighbours);
            let loss = PrivacyLoss::of(&run(1.0, 0.01, 1000), query, Direction::Remove).unwrap();
            let quiet = Quiet::new(&loss.parts[0].0, 12.0);
            for epsilon in [1.0, 2.0, 4.0] {
                let truth = Solver::new(&loss)
                    .ln_delta_by_contour(epsilon, 1e-6)
                    .unwrap();
                let bound = quiet.ln_delta(1000.0, epsilon);
                assert!(bound >= truth.lower, "{epsilon} {bound} {truth:?}");
                assert!(bound <= truth.upper + 6.0, "{epsilon} {bound} {truth:?}");
            }
        }
    }

    /// Records that are replaced, hardly ever drawn, at an ε that a single draw reaches: factors of 20 to
    /// 10^10 lay between the ends.
    #[test]
    fn replaced_records_that_are_hardly_ever_drawn_are_bounded_closely() {
        let query = Query::single(Neighbours::Replace);
        for rate in [3e-9, 3e-10, 1e-11] {
            let run = run(0.5, rate, 1_000_000);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let ends = Solver::new(&loss).ln_delta_of_one_hit(1e-3).unwrap();
            assert!(ends.width() <= 5e-3, "{rate} {ends:?}");
        }
    }

    /// ε(δ) where a single draw decides: factors of 3 to 6800 lay between the ends. The truths are sums over
    /// single large losses, by other means and to three digits.
    #[test]
    fn epsilon_of_records_that_are_hardly_ever_drawn_is_bounded_closely() {
        for (sigma, rate, steps, delta, truth) in [
            (0.3, 1e-9, 1_000_000, 1e-9, 0.7225),
            (0.4, 1e-9, 1_000_000, 1e-9, 1.886e-3),
            (0.5, 1e-8, 1_000_000, 1e-9, 1.491e-3),
            // Far out, where the search begins at a δ among the smallest numbers: by mpmath, as if the other
            // steps lost nothing.
            (
                1.749_284_045_711_337_9,
                4.794_786_907_829_102_5e-8,
                3263,
                3.218_981_950_441_431e-229,
                1.741_342_705_8,
            ),
            (
                2.239_625_609_854_644_8,
                5.582_950_225_765_393e-8,
                642_420,
                2.847_950_591_742_283_4e-211,
                0.055_153_541_76,
            ),
        ] {
            let query = Query::single(Neighbours::AddRemove);
            let run = run(sigma, rate, steps);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let found = Solver::new(&loss).epsilon(delta, 1e-6).unwrap();
            let lower = found.lower.unwrap();
            assert!(found.width() <= 1e-2 * found.upper, "{sigma} {found:?}");
            assert!(
                lower <= truth * 1.001 && found.upper >= truth * 0.999,
                "{sigma} {found:?}"
            );
        }
    }
}
