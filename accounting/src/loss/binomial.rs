//! Many steps of two outcomes with opposite losses: the number of one of them is binomial.
//!
//! This is the composed worst case of ε-DP (Kairouz, Oh and Viswanath 2015) and of binary randomised
//! response. With n steps of loss ±l, F the number of outcomes of loss −l and r = 1/(1 + e^l),
//!
//!   δ(ε) = Σ_F P(F) (1 − e^{ε − (n − 2F)l})₊,   F ~ Bin(n, r) under P,
//!
//! as a sum of positive terms, outwards from the largest.

use crate::loss::PrivacyLoss;
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{
    ROUND, ln_add_exp, ln_binomial_pmf, ln_binomial_upper_tail, ln_one_minus_exp,
};

/// If the spread of the count, in outcomes, exceeds this, the sum takes too long.
const WIDEST: f64 = 1e6;
/// The share of a sum that may be left out.
const LEFT_OUT: f64 = 1e-18;
/// Room for the rounding errors of a probability, relative to 1 + |ln|.
const PMF: f64 = 1e-14;
/// Room for the rounding errors of the sum of a tail, relative to 1 + |ln|.
const TAIL: f64 = 1e-12;

/// The composed loss of n steps of two outcomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BinomialLoss {
    /// n.
    steps: u64,
    /// l > 0.
    loss: f64,
    /// r = 1/(1 + e^l).
    rare: f64,
    /// ln of the mass of finite loss over all steps, in each law.
    ln_finite: f64,
    /// ln of the P-mass of infinite loss over all steps.
    ln_infinite: f64,
}

/// Sums over the outcomes with a loss above some t.
struct Above {
    /// Σ P(F) and Σ P(F)(1 − e^{t − L}), as logarithms.
    first: LnBounds,
    excess: LnBounds,
}

impl BinomialLoss {
    /// Returns `loss` as such a run, if it is one.
    pub(crate) fn of(loss: &PrivacyLoss) -> Option<Self> {
        let ([(law, steps)], []) = (loss.laws.as_slice(), loss.parts.as_slice()) else {
            return None;
        };
        let alone = loss.gaussian <= 0.0 && !loss.unbounded && law.stated.is_none();
        if !alone || law.atoms.len() != 2 || !law.pieces.is_empty() || law.missing > 0.0 {
            return None;
        }
        let atoms: Vec<_> = law.atoms.iter().collect();
        let (low, high) = if atoms[0].loss < atoms[1].loss {
            (atoms[0], atoms[1])
        } else {
            (atoms[1], atoms[0])
        };
        let size = high.loss;
        let rare = 1.0 / (1.0 + size.exp());
        let ln_finite = (-law.infinite).ln_1p();
        let n = *steps as f64;
        // If both laws have the same mass of finite loss, both masses follow from the loss.
        let expected = [-size.exp().ln_1p(), -(-size).exp().ln_1p()];
        let near =
            |ln: f64, expected: f64| (ln - ln_finite - expected).abs() <= 1e-13 * (1.0 + ln.abs());
        let opposite = (low.loss + high.loss).abs() <= 4.0 * ROUND * size;
        let known = near(high.ln_second, expected[0]) && near(low.ln_second, expected[1]);
        let narrow = (n * rare).sqrt() < WIDEST;
        (opposite && known && narrow && size > 0.0 && rare > f64::MIN_POSITIVE).then(|| Self {
            steps: *steps,
            loss: size,
            rare,
            ln_finite: n * ln_finite,
            ln_infinite: (-(n * ln_finite).exp_m1()).ln(),
        })
    }

    /// Returns the loss of `rare` rare outcomes.
    fn loss_at(&self, rare: u64) -> f64 {
        (self.steps as f64 - 2.0 * rare as f64) * self.loss
    }

    /// Returns the largest number of rare outcomes with a loss above `t`.
    fn most(&self, t: f64) -> Option<u64> {
        let places = 0.5 * (self.steps as f64 - t / self.loss);
        if places.is_nan() || places <= 0.0 {
            return None;
        }
        Some(((places.ceil() - 1.0).max(0.0) as u64).min(self.steps))
    }

    /// Returns the sums over the outcomes with a loss above t: those with at most `most` rare outcomes.
    fn above(&self, most: u64, t: f64) -> Above {
        let n = self.steps as f64;
        let mode = ((n + 1.0) * self.rare).floor() as u64;
        let start = most.min(mode);
        let odds = self.rare / (1.0 - self.rare);
        // A rounding error relative to the size of the numbers in the loss.
        let off = 8.0 * ROUND * (t.abs() + self.loss_at(start).abs() + 1.0);
        let gain = |rare: u64, sign: f64| -(t - self.loss_at(rare) - sign * off).min(0.0).exp_m1();
        let (mut first, mut low, mut high, mut left_out) = (0.0, 0.0, 0.0, 0.0);
        let mut farthest = 0.0f64;
        let mut count = 0u64;
        let mut add = |rare: u64, term: f64| {
            first += term;
            low += term * gain(rare, -1.0);
            high += term * gain(rare, 1.0);
            farthest = farthest.max((rare as f64 - n * self.rare).abs());
            count += 1;
            first
        };
        // Terms fall away from the mode on both sides, and so does their ratio.
        let mut term = 1.0;
        let mut rare = start;
        loop {
            let sum = add(rare, term);
            if rare == 0 {
                break;
            }
            let ratio = rare as f64 / (n - rare as f64 + 1.0) / odds;
            term *= ratio;
            rare -= 1;
            if ratio < 1.0 && term < LEFT_OUT * sum * (1.0 - ratio) {
                left_out += term / (1.0 - ratio);
                break;
            }
        }
        (term, rare) = (1.0, start);
        while rare < most {
            let ratio = (n - rare as f64) / (rare as f64 + 1.0) * odds;
            term *= ratio;
            rare += 1;
            if ratio < 1.0 && term < LEFT_OUT * (1.0 - ratio) {
                left_out += term / (1.0 - ratio);
                break;
            }
            add(rare, term);
        }
        let ln_start = ln_binomial_pmf(start, self.steps, self.rare) + self.ln_finite;
        // The errors of the first term, of products and sums of that many terms, and of r itself, which
        // is a few roundings off.
        let error = PMF * (1.0 + ln_start.abs())
            + 8.0 * ROUND * count as f64
            + 8.0 * ROUND * farthest / (1.0 - self.rare);
        let ends = |low: f64, high: f64| {
            LnBounds {
                lower: ln_start + low.ln(),
                middle: ln_start + (0.5 * (low + high)).ln(),
                upper: (ln_start + high.ln()).min(0.0),
            }
            .widened(error)
        };
        Above {
            first: ends(first, first + left_out),
            excess: ends(low, high + left_out),
        }
    }

    /// Returns ln of the probability of an infinite loss. A logarithm has a rounding error relative to
    /// its size.
    fn ln_of_infinite(&self) -> LnBounds {
        let room = PMF + 4.0 * ROUND * self.ln_infinite.abs().min(1e3);
        LnBounds::exactly(self.ln_infinite).widened(room)
    }

    /// Returns ln δ(ε), for any real ε.
    pub(crate) fn ln_delta(&self, epsilon: f64) -> LnBounds {
        let infinite = self.ln_of_infinite();
        let Some(most) = self.most(epsilon) else {
            return infinite;
        };
        let excess = self.above(most, epsilon).excess;
        LnBounds {
            lower: ln_add_exp(excess.lower, infinite.lower),
            middle: ln_add_exp(excess.middle, infinite.middle),
            upper: ln_add_exp(excess.upper, infinite.upper).min(0.0),
        }
    }

    /// Returns ln B(x), x = e^`ln_x`: the most probable outcomes under P with Q-mass x, the last of them
    /// in part.
    pub(crate) fn ln_blow_up(&self, ln_x: f64) -> LnBounds {
        // The least of the lines H_t + e^t x lies at a loss t whose tail under Q has mass x.
        let line = |rare: u64| {
            let t = self.loss_at(rare);
            let room = 8.0 * ROUND * (t.abs() + ln_x.abs() + 1.0);
            let excess = self.ln_delta(t);
            LnBounds {
                lower: ln_add_exp(excess.lower, t + ln_x),
                middle: ln_add_exp(excess.middle, t + ln_x),
                upper: ln_add_exp(excess.upper, t + ln_x),
            }
            .widened(room)
        };
        let (mut low, mut high) = (0, self.steps);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.second_tail(middle).middle >= ln_x {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let near = [low.saturating_sub(1), low, (low + 1).min(self.steps)];
        let upper = near
            .map(|rare| line(rare).upper)
            .into_iter()
            .fold(0.0, f64::min);
        // The lower end comes from a single test: all outcomes before, and part of the one at which x is
        // reached.
        let lower = near
            .map(|rare| self.ln_of_test(rare, ln_x))
            .into_iter()
            .fold(ln_x, f64::max);
        LnBounds {
            lower,
            middle: 0.5 * (lower + upper),
            upper: upper.max(lower),
        }
    }

    /// Returns ln Q(at most `most` rare outcomes).
    fn second_tail(&self, most: u64) -> LnBounds {
        // Under Q, an outcome has loss l with probability r: at least n − most of them.
        let (n, hits) = (self.steps as f64, self.steps - most.min(self.steps));
        let tail = ln_binomial_upper_tail(hits, self.steps, self.rare) + self.ln_finite;
        // d ln tail/d ln r is the mean distance from nr beyond the threshold, divided by 1 − r.
        let mean = n * self.rare;
        let distance = (hits as f64 - mean).abs() + 2.0 * mean.sqrt() + 2.0;
        let error = TAIL * (1.0 + tail.abs()) + 8.0 * ROUND * distance / (1.0 - self.rare);
        LnBounds {
            lower: tail - error,
            middle: tail,
            upper: (tail + error).min(0.0),
        }
    }

    /// Returns ln P of a test with Q-mass at most e^`ln_x`: infinite losses, fewer than `rare` rare
    /// outcomes, and part of the outcomes with exactly `rare`.
    fn ln_of_test(&self, rare: u64, ln_x: f64) -> f64 {
        let sure = rare.checked_sub(1);
        let ln_sure = sure.map_or(f64::NEG_INFINITY, |most| self.second_tail(most).upper);
        if ln_sure > ln_x {
            return f64::NEG_INFINITY;
        }
        let first = sure.map_or(f64::NEG_INFINITY, |most| {
            self.above(most, self.loss_at(most)).first.lower
        });
        // The rest of x, at most the whole of the next outcome, times its likelihood ratio.
        let left = ln_x + ln_one_minus_exp(ln_sure - ln_x);
        let whole = ln_binomial_pmf(rare, self.steps, self.rare) + self.ln_finite;
        let t = self.loss_at(rare);
        let room = 1e-13 * (1.0 + t.abs() + ln_x.abs() + whole.abs());
        let part = (left + t).min(whole) - room;
        ln_add_exp(ln_add_exp(first, part), self.ln_of_infinite().lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::{Delta, Epsilon, Steps, Tolerance};

    fn pure(epsilon: f64, delta: f64, steps: u64) -> PrivacyLoss {
        let (epsilon, neighbours) = (Epsilon::new(epsilon).unwrap(), Neighbours::AddRemove);
        let each = if delta > 0.0 {
            let delta = Delta::new(delta).unwrap();
            Mechanism::ApproxDp {
                epsilon,
                delta,
                neighbours,
            }
        } else {
            Mechanism::PureDp {
                epsilon,
                neighbours,
            }
        };
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(each),
        };
        PrivacyLoss::of(
            &run,
            Query::single(Neighbours::AddRemove),
            Direction::Remove,
        )
        .unwrap()
    }

    /// Every outcome listed, with ln C(n, F) by additions of logarithms.
    fn listed(l: f64, infinite: f64, n: u64) -> Vec<(f64, f64, f64)> {
        let (r, mut ln_choose) = ((1.0 + l.exp()).recip(), 0.0);
        (0..=n)
            .map(|rare| {
                if rare > 0 {
                    ln_choose += ((n - rare + 1) as f64).ln() - (rare as f64).ln();
                }
                let (a, b) = ((n - rare) as f64, rare as f64);
                let finite = n as f64 * (-infinite).ln_1p();
                let p = (ln_choose + a * (-r).ln_1p() + b * r.ln() + finite).exp();
                let q = (ln_choose + b * (-r).ln_1p() + a * r.ln() + finite).exp();
                ((a - b) * l, p, q)
            })
            .collect()
    }

    #[test]
    fn a_binomial_sum_is_the_sum_over_outcomes() {
        for (l, infinite, n) in [
            (0.3, 0.0, 40),
            (1.7, 1e-4, 25),
            (0.01, 1e-9, 900),
            (9.0, 0.0, 8),
        ] {
            let binomial = BinomialLoss::of(&pure(l, infinite, n)).unwrap();
            let all = listed(l, infinite, n);
            let never = -(n as f64 * (-infinite).ln_1p()).exp_m1();
            for share in [-0.5f64, 0.0, 0.1, 0.35, 0.99] {
                let epsilon = share * n as f64 * l;
                let excess = |(_, p, q): &(f64, f64, f64)| (p - epsilon.exp() * q).max(0.0);
                let truth = never + all.iter().map(excess).sum::<f64>();
                let found = binomial.ln_delta(epsilon);
                assert!(found.upper - found.lower < 1e-10, "{found:?}");
                assert!(
                    (found.middle.exp() / truth - 1.0).abs() < 1e-9,
                    "{l} {n} {share}: {} {truth}",
                    found.middle.exp()
                );
            }
            // Neyman and Pearson: the largest ratios first, the last in part; infinite ones cost nothing.
            for x in [1e-12, 1e-5, 0.02, 0.7] {
                let (mut first, mut second) = (never, 0.0);
                for (_, p, q) in &all {
                    let part = ((x - second) / q).clamp(0.0, 1.0);
                    (first, second) = (first + part * p, second + part * q);
                }
                let found = binomial.ln_blow_up(f64::ln(x));
                let (low, high) = (found.lower.exp(), found.upper.exp());
                assert!(
                    low <= first * (1.0 + 1e-9) && first <= high * (1.0 + 1e-9),
                    "{l} {n} {x}: {low} {first} {high}"
                );
                assert!(high - low <= 1e-8 * high, "{l} {n} {x}: {low} {high}");
            }
        }
    }

    /// 6·10⁸ steps: a grid's roundings add up to 7e-6 of δ. By the normal approximation with its
    /// skewness, E = 898.2 (the sweep's question 155, seed 302).
    #[test]
    fn hundreds_of_millions_of_steps_keep_their_digits() {
        let loss = pure(0.001_657_355_001_514_929, 0.0, 603_410_241);
        let delta = Delta::new(0.041_829_070_661_104_6).unwrap();
        let found = loss.epsilon(delta, Tolerance::new(1e-9).unwrap()).unwrap();
        let (low, high) = (
            found.bounds.lower.unwrap().get().get(),
            found.bounds.upper.unwrap().get().get(),
        );
        assert!(high - low <= 1e-9 * high, "{low} {high}");
        // μ-GDP with μ² = Σ ε² tells as much: steps are tiny.
        let mu = 0.001_657_355_001_514_929 * 603_410_241f64.sqrt();
        let tail = |z: f64| crate::numeric::special::ln_normal_tail(z);
        let gdp = |e: f64| tail(e / mu - 0.5 * mu).exp() - (e + tail(e / mu + 0.5 * mu)).exp();
        assert!(
            (gdp(high) / delta.get() - 1.0).abs() < 1e-3,
            "{}",
            gdp(high)
        );
    }
}
