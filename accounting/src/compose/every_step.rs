//! Lower ends from the event that every step has a large loss: with E the runs in which the loss of each
//! step is at least l_i, and l = Σ T_i l_i, Q(E) ≤ e^{−l} P(E), so that
//!
//!   δ(ε) ≥ P(E)(1 − e^{ε − l}),   B(x) ≥ min(P(E), x e^l).

use super::solver::Solver;
use crate::numeric::special::ln_one_minus_exp;

/// The number of events that are tried, and the ratio of the probabilities' logarithms from one to the
/// next.
const LEVELS: i32 = 48;
const LEVEL: f64 = 0.5;
/// Relative room for rounding errors.
const ROOM: f64 = 1e-12;

impl Solver {
    /// Returns a lower end of ε(δ); `None` if no event is likely enough.
    pub(crate) fn epsilon_of_every_step(&self, ln_delta: f64) -> Option<f64> {
        let lowers = self
            .likely_losses(-ln_delta)
            .into_iter()
            .filter_map(|(least, ln_mass)| {
                let share = ln_delta - ln_mass + ROOM * (1.0 + ln_mass.abs());
                let lower = least + ln_one_minus_exp(share.min(0.0)) - ROOM * least.abs();
                (share < 0.0 && lower > 0.0).then_some(lower)
            });
        lowers.max_by(f64::total_cmp)
    }

    /// Returns a lower end of ln δ(ε).
    pub(super) fn ln_delta_of_every_step(&self, epsilon: f64) -> f64 {
        let lowers = self
            .likely_losses(LN_SMALLEST)
            .into_iter()
            .map(|(least, ln_mass)| {
                let gap = epsilon - least + ROOM * (least.abs() + epsilon.abs());
                ln_mass + ln_one_minus_exp(gap.min(0.0)) - ROOM * (1.0 + ln_mass.abs())
            });
        lowers.fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns a lower end of ln B(x).
    pub(crate) fn ln_blow_up_of_every_step(&self, ln_x: f64) -> f64 {
        let lowers = self
            .likely_losses(-ln_x)
            .into_iter()
            .map(|(least, ln_mass)| {
                let slack = ROOM * (1.0 + ln_mass.abs() + least.abs());
                // If an event is larger than needed, a part of it suffices.
                ln_mass.min(ln_x + least) - slack
            });
        lowers.fold(ln_x, f64::max)
    }

    /// Returns pairs of the least loss of an event's outcomes and ln of the event's P-mass, for events
    /// that cost shares of `level` and for the largest loss of all; empty if a step has a Gaussian part,
    /// or very many outcomes.
    fn likely_losses(&self, level: f64) -> Vec<(f64, f64)> {
        if !self.loss.parts.is_empty() || self.loss.gaussian > 0.0 {
            return Vec::new();
        }
        let laws = self.loss.laws.iter();
        let tails = laws.map(|(law, times)| Some((law.ln_tails()?, *times as f64)));
        let Some(tails) = tails.collect::<Option<Vec<_>>>() else {
            return Vec::new();
        };
        let levels = (0..LEVELS).map(|i| LEVEL.powi(i) * level / tails.len() as f64);
        let event = |level: f64| {
            let (mut least, mut ln_mass) = (0.0, 0.0);
            for (tail, times) in &tails {
                let after = tail.partition_point(|(_, ln)| times * ln >= -level);
                let (loss, ln) = tail[after.checked_sub(1)?];
                least += times * loss;
                ln_mass += times * ln;
            }
            Some((least, ln_mass))
        };
        levels.chain([f64::INFINITY]).filter_map(event).collect()
    }
}

/// ln of the inverse of a δ that underflows to zero.
const LN_SMALLEST: f64 = 750.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

    /// No event says more than what the grid certifies from above, and the largest loss is attained.
    #[test]
    fn events_of_every_step_stay_below_the_engines() {
        for (steps, rate) in [(1, 1.0), (7, 1.0), (7, 0.3), (40, 0.6)] {
            let run = Mechanism::Repeat {
                times: Steps::new(steps),
                each: Box::new(Mechanism::SubsampledLaplace {
                    scale: NoiseMultiplier::new(0.8).unwrap(),
                    sampling_rate: SamplingRate::new(rate).unwrap(),
                    sampling: Sampling::Poisson,
                }),
            };
            let query = Query::single(Neighbours::AddRemove);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let mut solver = Solver::new(&loss);
            let most = solver.largest_loss();
            for share in [0.2, 0.6, 0.9, 0.999] {
                let epsilon = share * most;
                let event = solver.ln_delta_of_every_step(epsilon);
                let upper = solver.grid_ln_delta(epsilon, 1e-6).unwrap().upper;
                assert!(event <= upper + 1e-9, "{steps} {share} {event} {upper}");
                let found = solver.grid_epsilon(upper.exp(), 1e-6).unwrap().upper;
                let lower = solver.epsilon_of_every_step(upper).unwrap_or(0.0);
                assert!(
                    lower <= found * (1.0 + 1e-9),
                    "{steps} {share} {lower} {found}"
                );
            }
            for ln_x in [-0.1, -1.0, -10.0, -80.0] {
                let event = solver.ln_blow_up_of_every_step(ln_x);
                let upper = solver.grid_ln_blow_up(ln_x, 1e-6).unwrap().upper;
                assert!(event <= upper + 1e-9, "{steps} {ln_x} {event} {upper}");
            }
            let rare = solver.ln_blow_up_of_every_step(-200.0);
            assert!((rare + 200.0 - most).abs() < 1e-9, "{rare} {most}");
        }
    }
}
