//! δ(ε) of runs in which a drawn record always shows itself: there is so little noise that a step's outcome lies either
//! where it would without the record or far from it.
//!
//! A step of chance q compares p = (1 − q) φ(x) + q φ(x − κ) with φ(x). With a < b between the two bells, p ≤ (1 − q)
//! e^t φ(x) below a and p ≤ q e^η φ(x − κ) from b on. If the mass of p in between counts as missing, k loud outcomes
//! lose as much as one Gaussian at distance κ√k does, and the others almost nothing. With π_k the binomial
//! probabilities and H of N(κ√k, 1) against N(0, 1),
//!
//!   δ(ε) ≤ Σ_k π_k e^{(T − k)t + kη} H(ε − (T − k)(ln(1 − q) + t) − k(ln q + η)) + T P(a ≤ x < b),
//!
//! since all of the line, instead of outcomes from b on, only adds to a positive part. An adversary who learns each
//! outcome from b on, and of the others only that they aren't, sees less. There p ≥ q φ(x − κ), all k draws are loud but
//! for a chance of kΦ(b − κ), and the others have masses of at least (1 − q)Φ(b) and of Φ(b), so that
//!
//!   δ(ε) ≥ Σ_k π_k Φ(b)^{T − k} (H(ε − (T − k) ln(1 − q) − k ln q) − kΦ(b − κ))₊.
//!
//! In the other direction, no step loses more than −ln(1 − q), and each loses at least t less with a chance of Φ(a):
//!
//!   Φ(a)^T (1 − e^ε (1 − q)^T e^{Tt})₊ ≤ δ(ε) ≤ (1 − e^ε (1 − q)^T)₊.

use super::solver::Solver;
use crate::loss::Pair;
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{
    ROUND, ln_add_exp, ln_binomial_pmf, ln_difference, ln_normal_tail, ln_one_minus_exp,
};

/// Relative room for the rounding errors of the masses in between.
const ROOM: f64 = 1e-6;
/// The relative error of binomial probabilities, per unit of their logarithm.
const PMF_ERROR: f64 = 1e-14;
/// ln of the share of a run's steps that a and b leave to the other bell.
const DEPTH: f64 = 34.0;
/// The largest κ whose square has all digits that matter.
const FARTHEST: f64 = 1e4;
/// The most draws expected, and the most that are added up one by one.
const MOST_DRAWS: (f64, u64) = (200.0, 4000);
/// ln of the share of δ from which on more draws are bounded together.
const LN_LITTLE: f64 = -45.0;

/// A run of equal steps whose draws all show themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct FarHits {
    steps: u64,
    distance: f64,
    /// Whether the law with the record is the first one.
    with_first: bool,
    /// ln(1 − q) and ln q.
    ln_miss: f64,
    ln_hit: f64,
    /// t and η.
    excess: (f64, f64),
    /// ln Φ(b) and ln Φ(b − κ), in the other direction ln Φ(a).
    ln_quiet: f64,
    ln_hidden: f64,
    /// ln of the mass that counts as missing.
    pub(super) ln_missing: f64,
}

impl Solver {
    /// Returns the run as one whose draws all show themselves, if it is.
    pub(super) fn far_hits(&self) -> Option<FarHits> {
        let [(pair, steps)] = self.loss.parts.as_slice() else {
            return None;
        };
        let alone = self.loss.gaussian <= 0.0 && self.loss.laws.is_empty();
        let (with_first, with) = match (pair.first.is_standard(), pair.second.is_standard()) {
            (false, true) => (true, &pair.first),
            (true, false) => (false, &pair.second),
            _ => return None,
        };
        // What a law lacks isn't among the sums below.
        if !alone || with.missing() > 0.0 {
            return None;
        }
        let mut components = with.components();
        let ((zero, ln_miss), (distance, ln_hit)) = (components.next()?, components.next()?);
        if components.next().is_some() || zero != 0.0 {
            return None;
        }
        let (times, rate) = (*steps as f64, ln_hit.exp());
        let many = with_first && times * rate > MOST_DRAWS.0;
        if rate > 0.5 || many || distance > FARTHEST {
            return None;
        }
        // κx − κ²/2 + ln(q/(1 − q)): how much more likely a draw is than none.
        let odds = |x: f64| distance * (x - 0.5 * distance) + ln_hit - ln_miss;
        let centre = 0.5 * distance + (ln_miss - ln_hit) / distance;
        let reach = (DEPTH + times.ln()) / distance;
        let (a, b) = (centre - reach, centre + reach);
        if !(a > 0.0 && b < distance) {
            return None;
        }
        let hidden = ln_normal_tail(distance - b) + ROOM;
        let between = match with_first {
            true => ln_add_exp(ln_normal_tail(a), ln_hit + hidden),
            false => ln_normal_tail(a),
        };
        Some(FarHits {
            steps: *steps,
            distance,
            with_first,
            ln_miss,
            ln_hit,
            excess: ((odds(a) + ROOM).exp(), (ROOM - odds(b)).exp()),
            ln_quiet: ln_normal_tail(if with_first { -b } else { -a }),
            ln_hidden: hidden,
            ln_missing: times.ln() + between + ROOM,
        })
    }
}

impl FarHits {
    /// Returns ln δ(ε), for any real ε.
    pub(super) fn ln_delta(&self, epsilon: f64) -> LnBounds {
        if !self.with_first {
            return self.ln_delta_of_none(epsilon);
        }
        let (times, rate) = (self.steps as f64, self.ln_hit.exp());
        let (mut lower, mut upper) = (f64::NEG_INFINITY, self.ln_missing);
        for k in 0..=self.steps {
            let (hits, others) = (k as f64, (self.steps - k) as f64);
            let ln_chance = ln_binomial_pmf(k, self.steps, rate);
            let (quiet, loud) = (others * self.excess.0, hits * self.excess.1);
            // Of both weights' logarithms, and of the binomial probability.
            let digits = 16.0 * ROUND * (1.0 + self.ln_hit.abs()) * (1.0 + hits + times * rate);
            let error = digits + PMF_ERROR * (1.0 + ln_chance.abs());
            let gain = epsilon - others * self.ln_miss - hits * self.ln_hit;
            let moved = digits + 16.0 * ROUND * (epsilon.abs() + gain.abs());
            let most = self.ln_excess(hits, gain - quiet - loud - moved, 1.0).upper;
            upper = ln_add_exp(upper, ln_chance + error + quiet + loud + most);
            let least = self.ln_excess(hits, gain + moved, -1.0).lower;
            let least = match k {
                0 => least,
                _ => ln_difference(least, hits.ln() + self.ln_hidden),
            };
            lower = ln_add_exp(lower, ln_chance - error + others * self.ln_quiet + least);
            // Each further draw is less than half as likely as the one before.
            let ratio = others / (hits + 1.0) * rate / self.ln_miss.exp();
            let ln_rest = ln_chance + error + times * self.excess.0 + 2.0 * loud + 1e-3;
            if ratio < 0.499 && (ln_rest <= upper + LN_LITTLE || k >= MOST_DRAWS.1) {
                upper = ln_add_exp(upper, ln_rest);
                break;
            }
        }
        let upper = (upper + 1e-14).min(0.0);
        let lower = lower - 1e-14;
        LnBounds {
            lower,
            middle: 0.5 * (lower.max(upper - 1.0) + upper),
            upper,
        }
    }

    /// Returns ln δ(ε) of the law without the record against the one with it.
    fn ln_delta_of_none(&self, epsilon: f64) -> LnBounds {
        let times = self.steps as f64;
        let gain = epsilon + times * self.ln_miss;
        let moved = 16.0 * ROUND * (1.0 + epsilon.abs() + times * self.ln_miss.abs());
        let positive = |gain: f64| self.ln_excess(0.0, gain, 0.0);
        let upper = (positive(gain - moved).upper + 1e-14).min(0.0);
        let least = positive(gain + moved + times * self.excess.0).lower;
        let lower = least + times * self.ln_quiet * (1.0 + ROOM) - 1e-14;
        LnBounds {
            lower,
            middle: 0.5 * (lower.max(upper - 1.0) + upper),
            upper,
        }
    }

    /// Returns ln H of k loud outcomes, with the rounding error of their distance on the side of `sign`.
    fn ln_excess(&self, hits: f64, epsilon: f64, sign: f64) -> LnBounds {
        if hits <= 0.0 {
            let ln = if epsilon < 0.0 {
                ln_one_minus_exp(epsilon)
            } else {
                f64::NEG_INFINITY
            };
            return LnBounds::exactly(ln).widened(4.0 * ROUND);
        }
        let distance = self.distance * hits.sqrt() * (1.0 + sign * f64::EPSILON);
        Pair::gaussian(distance).ln_delta_of_one_step(epsilon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{
        Delta, Epsilon, NoiseMultiplier, Probability, SamplingRate, Steps, Tolerance,
    };

    fn loss(sigma: f64, rate: f64, steps: u64, direction: Direction) -> PrivacyLoss {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(),
            SamplingRate::new(rate).unwrap(),
            Steps::new(steps),
        );
        PrivacyLoss::of(&run, Query::single(Neighbours::ZeroOut), direction).unwrap()
    }

    /// Two steps at q = 0.01 and κ = 25: δ(ε) = ∫ p(x) δ'(ε − l(x)) dx, with δ' of one step in closed form, by mpmath's
    /// quadrature of 25 digits.
    #[test]
    fn sums_over_draws_are_the_integral_over_one_step() {
        let known = [
            (Direction::Remove, 5.0, 0.0199),
            (Direction::Remove, 250.0, 0.019_672_327_760_436_72),
            (Direction::Remove, 307.0, 0.009_963_791_434_538_01),
            (Direction::Remove, 400.0, 0.000_101_957_655_181_602_4),
            (Direction::Remove, 620.0, 0.000_044_144_584_918_433_3),
            (Direction::Remove, 700.0, 7.994_116_729_631_057e-7),
            (Direction::Add, 0.001, 0.018_919_409_786_609_155),
            (Direction::Add, 0.02, 0.000_100_666_639_776_630_47),
        ];
        for (direction, epsilon, truth) in known {
            let solver = Solver::new(&loss(0.04, 0.01, 2, direction));
            let ends = solver.far_hits().unwrap().ln_delta(epsilon);
            let truth = f64::ln(truth);
            assert!(
                ends.lower <= truth + 1e-12 && truth - 1e-12 <= ends.upper,
                "{epsilon} {ends:?} {truth}"
            );
            assert!(ends.width() < 1e-10, "{epsilon} {ends:?}");
        }
    }

    /// So many draws that the contour follows them.
    #[test]
    fn sums_over_draws_agree_with_the_contour() {
        let loss = loss(0.05, 0.2, 500, Direction::Remove);
        let mut solver = Solver::new(&loss);
        let hits = solver.far_hits().unwrap();
        for epsilon in [14_000.0, 20_000.0, 24_000.0] {
            let ends = hits.ln_delta(epsilon);
            let other = solver.ln_delta_by_contour(epsilon, 1e-9).unwrap();
            assert!(
                ends.lower <= other.upper && other.lower <= ends.upper,
                "{epsilon} {ends:?} {other:?}"
            );
            assert!(ends.width() < 1e-8, "{epsilon} {ends:?}");
        }
        // The noise of too many steps reaches the other bell.
        assert!(
            Solver::new(&self::loss(0.2, 0.01, 2, Direction::Remove))
                .far_hits()
                .is_none()
        );
        // The second record's draws, which the law leaves out, count elsewhere.
        let step = Mechanism::PoissonBinomialGaussian {
            noise_multiplier: NoiseMultiplier::new(0.001).unwrap(),
            rates: [0.3, 1e-300]
                .map(|rate| SamplingRate::new(rate).unwrap())
                .to_vec(),
        };
        let query = Query::single(Neighbours::ZeroOut);
        let rare = PrivacyLoss::of(&step, query, Direction::Remove).unwrap();
        assert!(Solver::new(&rare).far_hits().is_none(), "{rare:?}");
    }

    /// Questions of a sweep whose ends were 3e-3 and 2e-5 apart, and a guess.
    #[test]
    fn rare_draws_that_show_themselves_are_known_closely() {
        let tolerance = Tolerance::new(1e-9).unwrap();
        let three = loss(
            0.019_932_150_196_779_23,
            1.264_626_935_315_171_3e-5,
            275,
            Direction::Remove,
        );
        let none = loss(
            0.030_614_786_961_575_13,
            1.198_468_777_246_280_2e-9,
            63_496_998,
            Direction::Add,
        );
        for (loss, delta) in [
            (&three, 4.834_105_467_525_882e-9),
            (&none, 2.012_619_669_145_329e-8),
        ] {
            let found = loss.epsilon(Delta::new(delta).unwrap(), tolerance).unwrap();
            let (low, high) = (found.bounds.low().unwrap(), found.bounds.high().unwrap());
            assert!(high - low <= 1e-9 * high, "{found:?}");
            // δ at both ends lies on both sides.
            let at = |epsilon: f64| {
                let epsilon = Epsilon::new(epsilon).unwrap();
                loss.delta(epsilon, tolerance).unwrap().bounds
            };
            assert!(at(low).high().unwrap() >= delta && at(high).low().unwrap() <= delta);
        }
        let prior = Probability::new(1e-12).unwrap();
        let guess = three.blow_up(prior, tolerance).unwrap();
        let (low, high) = (guess.bounds.low().unwrap(), guess.bounds.high().unwrap());
        assert!(high - low <= 1e-9 * high && high <= 1.0, "{guess:?}");
        // Whoever is drawn at all is found out: 1 − (1 − q)^T.
        let drawn = -(275.0 * (-1.264_626_935_315_171_3e-5f64).ln_1p()).exp_m1();
        assert!((high / drawn - 1.0).abs() < 1e-6, "{high} {drawn}");
    }
}
