//! Both ends of δ and ε for runs that lose far more than their loss varies, from moments of P of small order.
//!
//! With K(s) = ln E_P e^{sL} of the composed loss, s > 0 and 0 < d ≤ 1
//!
//!   δ(ε) ≤ P(L > ε) ≤ e^{K(s) − sε},   1 − δ(ε) = E_P min(1, e^{ε − L}) ≤ E_P e^{d(ε − L)} = e^{K(−d) + dε},
//!
//! and, solved for ε,
//!
//!   ε(δ) ≤ (K(s) − ln δ)/s,   ε(δ) ≥ (ln(1 − δ) − K(−d))/d.
//!
//! A pair of mixtures has L = A − B, the logarithms of two sums of exponentials, both convex. On a cell of a
//! component's deviation z, a chord of one and a tangent of the other give a line above L, or below it. The
//! exponential of its multiple is convex, so the cell's mass and mean bound its share of the moment.

use super::solver::Solver;
use crate::loss::{LossDistribution, Pair};
use crate::numeric::latest::Latest;
use crate::numeric::search::minimiser_to;
use crate::numeric::special::{ln_add_exp, ln_normal_tail};
use std::cell::RefCell;
use std::rc::Rc;

/// Cells of a deviation: of this width out to the first end, twice as wide out to the second.
const WIDTH: f64 = 0.25;
const ENDS: (f64, f64) = (8.0, 39.0);
/// A bound on the normal mass beyond the second end.
const BEYOND: f64 = f64::MIN_POSITIVE;
/// Steps with more components, or more atoms, than this aren't considered.
const MOST_COMPONENTS: usize = 1024;
const MOST_ATOMS: usize = 1 << 17;
/// Relative room for the rounding errors of a term, and of a place in a cell.
const ROOM: f64 = 1e-13;
const PLACE: f64 = 1e-10;
/// The same for a cell's mass, and for losses, whose slopes are rounded too.
const MASS: f64 = 1e-12;
/// The range of orders that are tried.
const ORDERS: (f64, f64) = (1e-13, 1.0);

/// The most intervals that are kept for the next question.
const MOST_KEPT: usize = 1 << 15;

thread_local! {
    static LATEST: RefCell<Latest<Pair, Vec<Stretch>>> = const { RefCell::new(Latest::new()) };
}

/// P-mass between two losses, with a mean place between them; a single loss for an atom.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    mass: f64,
    /// The relative error of the mass.
    error: f64,
    /// Losses at both ends of the lines above and below the loss.
    above: [f64; 2],
    below: [f64; 2],
    /// The position of the mean, as a share of the interval.
    place: f64,
}

impl Stretch {
    /// Returns an upper bound on E[e^{sL} − 1] on this interval.
    fn moment(&self, s: f64) -> f64 {
        let ends = if s > 0.0 { self.above } else { self.below };
        // Moved towards the larger end.
        let place = if (ends[1] > ends[0]) == (s > 0.0) {
            (self.place + PLACE).min(1.0)
        } else {
            (self.place - PLACE).max(0.0)
        };
        let [from, to] = ends.map(|loss| (s * loss).exp_m1());
        let farthest = ends[0].abs().max(ends[1].abs());
        let room = self.error + ROOM * (1.0 + s.abs() * farthest);
        self.mass * ((1.0 - place) * from + place * to + room * from.abs().max(to.abs()))
    }
}

/// The intervals of each kind of step, with its count.
#[derive(Debug)]
pub(crate) struct Concentration {
    parts: Vec<(Rc<Vec<Stretch>>, f64)>,
    gaussian: f64,
    /// The P-mass on none of the intervals.
    missing: f64,
    /// Whether lower ends of losses are known.
    whole: bool,
}

impl Concentration {
    /// Returns `None` if a step is neither a pair of few components nor consists of atoms alone.
    fn of(solver: &Solver) -> Option<Self> {
        let loss = &solver.loss;
        let (mut parts, mut missing) = (Vec::new(), solver.mass_beyond().1);
        let mut whole = true;
        for (pair, times) in &loss.parts {
            let times = *times as f64;
            let components = pair.first.components().count() + pair.second.components().count();
            if components > MOST_COMPONENTS {
                return None;
            }
            // Mass missing from the second law would lower a loss.
            whole &= pair.second.missing() <= 0.0;
            missing += 2.0 * times * BEYOND;
            parts.push((known_stretches(pair), times));
        }
        for (law, times) in &loss.laws {
            if !law.pieces.is_empty() || law.atoms.len() > MOST_ATOMS || law.stated.is_some() {
                return None;
            }
            let times = *times as f64;
            // Atoms that underflow to zero amount to less than this, as do cells of pairs.
            missing += 2.0 * times * BEYOND;
            parts.push((Rc::new(stretches_of_law(law)), times));
        }
        missing += loss.rounded_away();
        Some(Self {
            parts,
            gaussian: loss.gaussian,
            missing,
            whole,
        })
    }

    /// Returns an upper end of K(s), for s of either sign.
    fn ln_moment(&self, s: f64) -> f64 {
        let plain = 0.5 * self.gaussian * (s + s * s);
        let each = self.parts.iter().map(|(stretches, times)| {
            // Σ mass is at most one.
            let sum: f64 = stretches.iter().map(|stretch| stretch.moment(s)).sum();
            times * (sum + ROOM * sum.abs()).max(-1.0).ln_1p()
        });
        let whole = plain + each.sum::<f64>();
        whole + ROOM * (whole.abs() + plain.abs())
    }

    /// Returns the value, at the best order, of a bound that falls and then rises.
    fn best(bound: impl Fn(f64) -> f64) -> f64 {
        let at = |ln: f64| bound(ln.exp());
        let ln = minimiser_to(at, ORDERS.0.ln(), ORDERS.1.ln(), 1e-4);
        at(ln)
    }

    /// Returns ln of an upper end of δ(ε).
    fn ln_delta_above(&self, epsilon: f64) -> f64 {
        let exponent = Self::best(|s| {
            let ln = self.ln_moment(s);
            ln - s * epsilon + ROOM * (ln.abs() + s * epsilon.abs())
        });
        if exponent.is_nan() {
            0.0
        } else {
            ln_add_exp(exponent, self.missing.ln()).min(0.0)
        }
    }

    /// Returns ln of a lower end of δ(ε) for a run that attains its pairs.
    fn ln_delta_below(&self, epsilon: f64) -> f64 {
        if !self.whole {
            return f64::NEG_INFINITY;
        }
        let exponent = Self::best(|d| {
            let ln = self.ln_moment(-d);
            ln + d * epsilon + ROOM * (ln.abs() + d * epsilon.abs())
        });
        let rest = exponent.exp() * (1.0 + ROOM) + self.missing;
        // NaN counts as no bound.
        if rest < 1.0 {
            (-rest).ln_1p() - f64::EPSILON
        } else {
            f64::NEG_INFINITY
        }
    }

    /// Returns an upper end of ε(δ).
    fn upper(&self, delta: f64) -> f64 {
        let ln_delta = (delta - self.missing).ln();
        let bound = Self::best(|s| (self.ln_moment(s) - ln_delta) / s);
        if bound.is_nan() {
            f64::INFINITY
        } else {
            bound.max(0.0) * (1.0 + ROOM)
        }
    }

    /// Returns a lower end of ε(δ) for a run that attains its pairs.
    fn lower(&self, delta: f64) -> f64 {
        if !self.whole {
            return 0.0;
        }
        let ln_rest = (-delta - self.missing).ln_1p();
        let bound = -Self::best(|d| (self.ln_moment(-d) - ln_rest) / d);
        // NaN if nothing is left.
        if bound > 0.0 {
            bound * (1.0 - ROOM)
        } else {
            0.0
        }
    }
}

impl Solver {
    /// Returns both ends of ε(δ) from moments of small order; `None` if some step isn't covered.
    pub(super) fn epsilon_by_concentration(&mut self, delta: f64) -> Option<(f64, f64)> {
        let moments = self.concentration()?;
        Some((moments.lower(delta), moments.upper(delta)))
    }

    /// Returns both ends of ln δ(ε), for any real ε, in the same way.
    pub(super) fn ln_delta_by_concentration(&mut self, epsilon: f64) -> Option<(f64, f64)> {
        let moments = self.concentration()?;
        Some((
            moments.ln_delta_below(epsilon),
            moments.ln_delta_above(epsilon),
        ))
    }

    /// Returns the moments, prepared once.
    fn concentration(&mut self) -> Option<&Concentration> {
        if self.loss.unbounded || self.loss.is_stated() {
            return None;
        }
        if self.concentration.is_none() {
            self.concentration = Some(Concentration::of(self));
        }
        self.concentration.as_ref().and_then(Option::as_ref)
    }
}

/// Returns cells of the standard normal law: both ends, mass, and mean as a share of the interval.
fn cells() -> Vec<(f64, f64, f64, f64)> {
    let mut places = vec![0.0];
    let mut place = 0.0;
    while place < ENDS.1 {
        place += if place < ENDS.0 { WIDTH } else { 2.0 * WIDTH };
        places.push(place);
    }
    let density = |z: f64| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    let right = places.windows(2).map(|ends| {
        let (from, to) = (ends[0], ends[1]);
        let mass = ln_normal_tail(from).exp() - ln_normal_tail(to).exp();
        let mean = if mass > 0.0 {
            (density(from) - density(to)) / mass
        } else {
            from
        };
        let share = ((mean - from) / (to - from)).clamp(0.0, 1.0);
        (from, to, mass.max(0.0), share)
    });
    let right: Vec<_> = right.collect();
    let left = right
        .iter()
        .map(|(from, to, mass, share)| (-to, -from, *mass, 1.0 - share));
    left.chain(right.iter().copied()).collect()
}

/// Returns the intervals of a pair, those of the latest ones as they were.
fn known_stretches(pair: &Pair) -> Rc<Vec<Stretch>> {
    let before = LATEST.with_borrow_mut(|latest| latest.find(|other| other == pair));
    before.unwrap_or_else(|| {
        let found = Rc::new(stretches_of_pair(pair));
        LATEST.with_borrow_mut(|latest| {
            latest.keep(pair.clone(), Rc::clone(&found), MOST_KEPT, Vec::len);
        });
        found
    })
}

fn stretches_of_pair(pair: &Pair) -> Vec<Stretch> {
    let cells = cells();
    let mut stretches = Vec::new();
    for (position, ln_weight) in pair.first.components() {
        for (from, to, mass, place) in &cells {
            let mass = mass * ln_weight.exp();
            if mass <= 0.0 {
                continue;
            }
            let (x0, x1) = (position + from, position + to);
            let middle = 0.5 * (x0 + x1);
            let first = [x0, x1, middle].map(|x| pair.first.ratio(x));
            let second = [x0, x1, middle].map(|x| pair.second.ratio(-x));
            let half = 0.5 * (x1 - x0);
            // Both logarithms are convex in x: chords lie above, tangents below; the slope of B is −(mean at
            // −x).
            let tangent = |side: f64| {
                let (a, b) = (&first[2], &second[2]);
                [
                    a.ln + a.mean * side - a.error,
                    b.ln - b.mean * side - b.error,
                ]
            };
            let room = |loss: f64| MASS * (1.0 + loss.abs());
            let at = |i: usize, side: f64| {
                let [a, b] = tangent(side);
                let above = first[i].ln + first[i].error - b;
                let below = a - second[i].ln - second[i].error;
                (above + room(above), below - room(below))
            };
            let ends = [at(0, -half), at(1, half)];
            stretches.push(Stretch {
                mass,
                error: MASS,
                above: ends.map(|end| end.0),
                below: ends.map(|end| end.1),
                place: *place,
            });
        }
    }
    stretches
}

fn stretches_of_law(law: &LossDistribution) -> Vec<Stretch> {
    let atoms = law.atoms.iter().map(|atom| {
        let size = 1.0 + atom.ln_second.abs() + atom.loss.abs() + law.roundings;
        let error = 8.0 * f64::EPSILON * size + atom.loss_error;
        Stretch {
            mass: (atom.ln_second + atom.loss).exp(),
            error,
            above: [atom.loss + atom.loss_error; 2],
            below: [atom.loss - atom.loss_error; 2],
            place: 0.5,
        }
    });
    atoms.filter(|stretch| stretch.mass > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{Delta, NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance};

    fn repeat(times: u64, each: Mechanism) -> Mechanism {
        Mechanism::Repeat {
            times: Steps::new(times),
            each: Box::new(each),
        }
    }

    fn noise(sigma: f64) -> NoiseMultiplier {
        NoiseMultiplier::new(sigma).unwrap()
    }

    /// On both sides of what the engines certify, in both directions, for pairs, lattices and Gaussians.
    #[test]
    fn moments_of_small_order_lie_around_the_engines() {
        let sampled = |sigma: f64, rate: f64| Mechanism::SubsampledGaussian {
            noise_multiplier: noise(sigma),
            sampling_rate: SamplingRate::new(rate).unwrap(),
            sampling: crate::Sampling::Poisson,
        };
        let mixture = Mechanism::MixtureOfGaussians {
            noise_multiplier: noise(0.7),
            sensitivities: vec![0.0, 1.0, 3.0],
            probabilities: [0.2, 0.5, 0.3]
                .map(|p| Probability::new(p).unwrap())
                .to_vec(),
        };
        let runs = [
            repeat(900, sampled(1.0, 0.4)),
            repeat(300, mixture),
            repeat(
                400,
                Mechanism::DiscreteGaussian {
                    sigma: noise(1.3),
                    sensitivity: 2,
                },
            ),
            repeat(
                50,
                Mechanism::Gaussian {
                    noise_multiplier: noise(0.8),
                },
            ),
        ];
        for run in &runs {
            for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
                for direction in Direction::BOTH {
                    let query = Query::single(neighbours);
                    let loss = PrivacyLoss::of(run, query, direction).unwrap();
                    let mut solver = Solver::new(&loss);
                    for delta in [1e-12, 1e-3, 0.3, 0.9] {
                        let (low, high) = solver.epsilon_by_concentration(delta).unwrap();
                        let found = solver.epsilon(delta, 1e-6).unwrap();
                        let truth = (found.lower.unwrap(), found.upper);
                        assert!(
                            low <= truth.1 * (1.0 + 1e-9) && high >= truth.0 * (1.0 - 1e-9),
                            "{low} {truth:?} {high} {run:?} {neighbours:?} {direction:?} {delta}"
                        );
                        let (low, high) = solver.ln_delta_by_concentration(found.upper).unwrap();
                        let ends = solver.ln_delta(found.upper, 1e-6).unwrap().0;
                        assert!(
                            low <= ends.upper + 1e-9 && high >= ends.lower - 1e-9,
                            "{low} {ends:?} {high} {run:?} {neighbours:?} {direction:?} {delta}"
                        );
                        // Chernoff's bound at the best order: within what a deviation of the loss explains.
                        assert!(
                            delta > 0.5 || high <= 1.6 * truth.1 + 1.0,
                            "{truth:?} {high} {run:?}"
                        );
                    }
                }
            }
        }
    }

    /// δ and ε speak alike of losses that neither engine reaches: δ(1e6) was one half where ε(1e-5) was 270 000.
    #[test]
    fn far_out_deltas_know_what_epsilons_know() {
        let run = Mechanism::dp_sgd(
            noise(0.004),
            SamplingRate::new(0.01).unwrap(),
            Steps::new(100),
        );
        for direction in Direction::BOTH {
            let query = Query::single(Neighbours::AddRemove);
            let loss = PrivacyLoss::of(&run, query, direction).unwrap();
            let tolerance = Tolerance::DEFAULT;
            for delta in [1e-5, 0.3] {
                let at = Delta::new(delta).unwrap();
                let epsilon = loss.epsilon(at, tolerance).unwrap().bounds;
                let ends = [*epsilon.lower.unwrap().get(), *epsilon.upper.unwrap().get()];
                let [below, above] = ends.map(|epsilon| {
                    let of = loss.delta(epsilon, tolerance).unwrap().bounds;
                    (of.lower.unwrap().get().get(), of.upper.unwrap().get().get())
                });
                // ε is known more closely than δ.
                assert!(above.1 <= delta * 1.01, "{above:?} {delta}");
                assert!(below.1 >= delta && above.0 <= delta, "{below:?} {above:?}");
            }
        }
    }

    /// Far components, where neither engine reaches: both ends lie a few deviations around the mean loss.
    #[test]
    fn far_components_are_known_to_a_few_deviations() {
        let run = repeat(
            7000,
            Mechanism::MixtureOfGaussians {
                noise_multiplier: noise(0.02),
                sensitivities: vec![6.0, 7.0],
                probabilities: [0.4, 0.6].map(|p| Probability::new(p).unwrap()).to_vec(),
            },
        );
        let query = Query::single(Neighbours::ZeroOut);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let (low, high) = Solver::new(&loss).epsilon_by_concentration(1e-5).unwrap();
        // κ²/2 of 300 and 350, less what is known beforehand of the choice between them.
        let (a, b) = (45_000.0, 61_250.0);
        let entropy = -(0.4 * f64::ln(0.4) + 0.6 * f64::ln(0.6));
        let mean = 7000.0 * (0.4 * a + 0.6 * b - entropy);
        // Of the choice, and of κz.
        let variance = 0.24 * (b - a) * (b - a) + 0.4 * 9e4 + 0.6 * 350.0 * 350.0;
        let deviation = (7000.0 * variance).sqrt();
        assert!(
            low > mean - 0.1 * deviation && low < mean + 5.0 * deviation,
            "{low} {mean}"
        );
        assert!(
            high > mean + 3.0 * deviation && high < mean + 6.0 * deviation,
            "{high} {mean}"
        );
    }
}
