//! Bounds on δ(ε) without an inversion or a grid: Chernoff's bound, plain addition, and single events.

use super::on_grid::UNKNOWN;
use super::solver::Solver;
use crate::engine::grid::moments::LN_NOTHING;
use crate::loss::Pair;
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{ln_add_exp, ln_difference, ln_one_minus_exp};

/// Probabilities below e^this are approximated by their sum over the steps.
const LN_SMALLEST: f64 = -600.0;

impl Solver {
    /// Returns Chernoff and plain addition as the upper end, and the window or a single step as the lower end.
    pub(crate) fn coarse(&mut self, epsilon: f64) -> LnBounds {
        let missing = self.mass_beyond().1;
        let mut lower = self.simple_event(epsilon).max(self.mass_beyond().0.ln());
        let added = self.added_up(epsilon);
        let ready = self.cumulants_for(epsilon).is_ok() || self.cumulants(1.0).is_ok();
        let by_moments = match (&self.cumulants, ready) {
            (Some(cumulants), true) => {
                lower = lower.max(cumulants.window(epsilon));
                let upper = cumulants.chernoff(epsilon).0;
                ln_add_exp(upper, missing.ln())
            }
            _ => 0.0,
        };
        let mut upper = by_moments.min(added);
        if self.needs_grid() {
            // The cumulants of laws may not be charted that far out.
            let ln_delta = self
                .ln_delta_by_moments(epsilon)
                .map_or(0.0, |found| found.0);
            upper = upper.min(ln_add_exp(ln_delta, missing.ln()));
        }
        LnBounds {
            lower,
            middle: 0.5 * (lower + upper),
            upper,
        }
    }

    /// Returns ln of an upper bound on δ(ε), for pairs and laws: each of the T steps satisfies ε/T with its own
    /// δ, and the guarantees add up.
    pub(crate) fn added_up(&self, epsilon: f64) -> f64 {
        if epsilon < 0.0 {
            return 0.0;
        }
        let plain =
            (self.loss.gaussian > 0.0).then(|| (Pair::gaussian(self.loss.gaussian.sqrt()), 1));
        let steps = || plain.iter().chain(&self.loss.parts);
        let laws = || self.loss.laws.iter();
        let count: f64 = (steps().map(|(_, times)| *times as f64))
            .chain(laws().map(|(_, times)| *times as f64))
            .sum();
        let share = epsilon / count * (1.0 - 1e-14);
        let of_pairs = steps().map(|(pair, times)| (pair.ln_delta_of_one_step(share).upper, times));
        // What can't be computed counts as one.
        let of_laws = laws().map(|(law, times)| {
            let ends = law.ln_delta(share, LN_NOTHING).unwrap_or(UNKNOWN);
            (ends.upper, times)
        });
        let each = of_pairs
            .chain(of_laws)
            .map(|(ln, times)| (*times as f64).ln() + ln + 1e-14);
        each.fold(f64::NEG_INFINITY, ln_add_exp).min(0.0)
    }

    /// Returns ln of a lower bound on δ(ε): an adversary who sees only one of the steps sees less, and so does
    /// one who only learns whether every step, or any step, came out above a threshold.
    pub(crate) fn simple_event(&self, epsilon: f64) -> f64 {
        let plain = Pair::gaussian(self.loss.gaussian.sqrt());
        let mut best = plain.ln_delta_of_one_step(epsilon).lower;
        for (pair, _) in &self.loss.parts {
            best = best.max(pair.ln_delta_of_one_step(epsilon).lower);
            // A single step beyond ε, if most steps lose almost nothing.
            best = best.max(self.any_step_above(pair.crossing(epsilon).1, epsilon));
            // A threshold that no step of many exceeds by chance.
            let rare = epsilon + (self.loss.steps() as f64).ln();
            best = best.max(self.any_step_above(pair.crossing(rare).1, epsilon));
        }
        let all = self.every_step.get_or_init(|| {
            let thresholds = (-16..=16).map(|half| 0.5 * f64::from(half));
            thresholds.map(|x| self.ln_events(x).1).collect()
        });
        all.iter()
            .map(|(first, second)| ln_difference(*first, epsilon + second))
            .fold(best, f64::max)
    }

    /// Returns ln(P(B) − e^ε Q(B)) for B = {x > threshold} at one step or more.
    fn any_step_above(&self, threshold: f64, epsilon: f64) -> f64 {
        let (first, second) = self.ln_events(threshold).0;
        ln_difference(first, epsilon + second)
    }

    /// Returns a lower end of ln P(B) and an upper end of ln Q(B), for B = {at least one step is above the
    /// threshold} and for B = {every step is}.
    pub(super) fn ln_events(&self, threshold: f64) -> ((f64, f64), (f64, f64)) {
        // ln of the probability that no step is above.
        let (mut none, mut none_without) = (0.0, 0.0);
        // ln of the sum of the probabilities of the steps.
        let mut sum_without = f64::NEG_INFINITY;
        let (mut every, mut every_without) = (0.0, 0.0);
        for (pair, times) in &self.loss.parts {
            let times = *times as f64;
            let [(p, p_error), (q, q_error)] = pair.ln_tails(threshold);
            every += times * (p - p_error);
            every_without += times * (q + q_error);
            none += times * ln_one_minus_exp((p - p_error).min(0.0));
            none_without += times * ln_one_minus_exp((q + q_error).min(0.0));
            sum_without = ln_add_exp(sum_without, times.ln() + q + q_error);
        }
        // Room for the rounding errors of tiny probabilities.
        let chance = |none: f64, room: f64| (-(none * (1.0 + room)).exp_m1()).ln();
        // A probability that underflows to zero still counts next to e^ε.
        let any_without = if sum_without < LN_SMALLEST {
            sum_without * (1.0 - 1e-14)
        } else {
            chance(none_without, 1e-13)
        };
        ((chance(none, -1e-13), any_without), (every, every_without))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{
        Divergence, Epsilon, NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance,
    };

    /// Laws whose losses no grid and no contour reaches: δ was one where ε at δ = 1e-5 was 0.0034.
    #[test]
    fn far_out_laws_are_known_by_their_moments_and_step_by_step() {
        let cut_down = |sigma: f64, rate: f64, times: u64, (max_batch, records): (u64, u64)| {
            Mechanism::Repeat {
                times: Steps::new(times),
                each: Box::new(Mechanism::SubsampledGaussian {
                    noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
                    sampling_rate: SamplingRate::new(rate).unwrap(),
                    sampling: Sampling::TruncatedPoisson { max_batch, records },
                }),
            }
        };
        let loss = |run: &Mechanism, neighbours| {
            PrivacyLoss::of(run, Query::single(neighbours), Direction::Remove).unwrap()
        };
        let delta = |run: &Mechanism, neighbours, epsilon: f64| {
            let at = Epsilon::new(epsilon).unwrap();
            let of = loss(run, neighbours).delta(at, Tolerance::DEFAULT);
            of.unwrap().bounds.upper.unwrap().get().get()
        };
        // By moments: Rényi's bound is 2.6e-253, where losses are spread far wider than plain addition sees.
        let many = cut_down(510.79, 0.51454, 674, (1, 5));
        for (run, epsilon) in [(&many, 6.0), (&cut_down(1749.0, 1.0, 8, (5, 10)), 4.2)] {
            assert!(delta(run, Neighbours::AddRemove, epsilon) < 1e-250);
            let mut solver = Solver::new(&loss(run, Neighbours::AddRemove));
            let by_moments = solver.ln_delta_by_moments(epsilon).unwrap().0;
            assert!(solver.coarse(epsilon).upper <= by_moments + 1e-9);
        }
        // Each of nine steps keeps 0.0525 with a chance below 1e-200; as moments see it, with 0.0023.
        let few = cut_down(5.6063, 2.6003e-4, 9, (235, 8461));
        assert!(delta(&few, Neighbours::AddRemove, 0.4728) < 1e-199);
        // Hölder's inequality, beside 1.7e-19 by plain addition.
        let rare = cut_down(542.22, 4.1251e-8, 15_836, (2, 303));
        let prior = Probability::new(1.67e-33).unwrap();
        let of = loss(&rare, Neighbours::Replace).blow_up(prior, Tolerance::DEFAULT);
        assert!(of.unwrap().bounds.upper.unwrap().get().get() < 1.8e-33);
        // Where only moments are stated all mass counts as missing.
        let stated = Mechanism::Zcdp {
            rho: Divergence::new(0.1).unwrap(),
            xi: Divergence::new(0.0).unwrap(),
            neighbours: Neighbours::AddRemove,
        };
        let stated = loss(&stated, Neighbours::AddRemove);
        assert!(Solver::new(&stated).added_up(1.0) >= 0.0);
        // Where grids do reach, plain addition is no smaller.
        let laplace = Mechanism::Repeat {
            times: Steps::new(12),
            each: Box::new(Mechanism::SubsampledLaplace {
                scale: NoiseMultiplier::new(0.7).unwrap(),
                sampling_rate: SamplingRate::new(0.05).unwrap(),
                sampling: Sampling::Poisson,
            }),
        };
        for epsilon in [0.0, 0.3, 1.0, 2.5] {
            let mut solver = Solver::new(&loss(&laplace, Neighbours::Replace));
            let added = solver.added_up(epsilon);
            let ends = solver.ln_delta(epsilon, 1e-7).unwrap().0;
            assert!(ends.lower <= added && ends.upper <= solver.coarse(epsilon).upper);
        }
    }

    /// One step in 19 000 is drawn and then shows itself: e^ε takes a chance of e^−1380 from the event.
    #[test]
    fn chances_that_vanish_as_numbers_still_count() {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(0.019_576_183_887_564_49).unwrap(),
            SamplingRate::new(9.094_956_160_134_984e-9).unwrap(),
            Steps::new(5758),
        );
        for neighbours in [Neighbours::Replace, Neighbours::AddRemove] {
            let loss = PrivacyLoss::of(&run, Query::single(neighbours), Direction::Remove).unwrap();
            let solver = Solver::new(&loss);
            for epsilon in [1340.0, 1355.0, 1356.529, 1370.0] {
                let event = solver.simple_event(epsilon);
                let union = loss.parts[0].0.ln_delta_of_one_step(epsilon).upper + 5758f64.ln();
                assert!(event <= union + 1e-3, "{epsilon} {event} {union}");
                assert!(event >= union - 1e-3, "{epsilon} {event} {union}");
            }
        }
    }
}
