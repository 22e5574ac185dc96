//! Many steps of the same discrete Gaussian noise: their sum is a single such noise, √T times as wide.
//!
//! For T steps of N_Z(0, σ²), each moved by s, only the sum n of the outcomes distinguishes both laws, with loss L(n) =
//! s(2n − Ts)/2σ², so that δ(ε) = Σ Q(n) (e^{L(n)} − e^ε)₊. By completing the square, the sum of two discrete Gaussians
//! of variances a and b has at n the mass of N_Z(0, a + b) times Σ_k e^{−(k − na/(a + b))²/2v}, v = ab/(a + b). By
//! Poisson's summation, this factor is a constant times 1 ± e_v, e_v = 2 Σ_{j ≥ 1} e^{−2π²vj²}. Step by step v is at
//! least σ²/2, so that after T steps
//!
//!   Q(n) ∈ e^{±τ} N_Z(n; 0, Tσ²),   τ = 5 (T − 1) e^{−π²σ²},
//!
//! and δ(ε) lies within e^{±τ} of that of the one step of N_Z(0, Tσ²) moved by Ts. Its δ is added up where there
//! are few outcomes. Where there are many it lies between those of two Gaussians: rounding N(m, w − 2) to whole
//! numbers, each with a chance ∝ e^{−(n − y)²/4}, gives N_Z(m, w) within e^{±η}, and adding N(0, 2) to N_Z(m, w)
//! gives N(m, w + 2) within e^{±η}, η = 4e^{−4π²}, both by the same summation. With P and Q off by e^{±η} each,
//!
//!   e^{−η} H_{αe^{2η}}(N(μ₋) ‖ N) ≤ H_α ≤ e^η H_{αe^{−2η}}(N(μ₊) ‖ N),   μ_± = Ts/√(Tσ² ∓ 2),
//!
//! since no processing adds to a divergence.

use super::atoms::{Atoms, WholeNumbers};
use super::gaussian::ln_blow_up_of_gaussian;
use crate::loss::{Pair, PrivacyLoss};
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{LN_SQRT_TAU, ROUND, ln_add_exp, ln_normal_tail, ln_one_minus_exp};
use crate::numeric::sum::Sum;
use std::f64::consts::PI;

/// Narrower noise, or sums, lie on too few whole numbers for this method: η holds from a variance of 64 on.
const NARROWEST: f64 = 2.5;
const NARROWEST_SUM: f64 = 8.0;
/// Sums of noise wider than this are only bounded by the two Gaussians.
const WIDEST: f64 = 1e5;
/// Whole numbers up to this one, and up to twice as much, are exact.
const MOST: f64 = (1u64 << 51) as f64;
/// The variance that is subtracted and added.
const MOVED: f64 = 2.0;
/// η, rounded up, with room for the rounding errors of both variances.
const OFF: f64 = 1e-16;
/// The share of a sum that may be left out.
const LEFT_OUT: f64 = 1e-18;
/// Room for the rounding errors of the exponents of relevant terms, at most 50, and of the sum.
const SUM: f64 = 512.0 * ROUND;

/// The composed loss of T steps of discrete Gaussian noise of one width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntegerNoise {
    /// s.
    shift: f64,
    /// Ts.
    distance: f64,
    /// 1/2σ².
    spread: f64,
    /// Tσ².
    variance: f64,
    /// τ.
    off: f64,
}

/// Sums over the outcomes from some whole number on.
struct Above {
    /// Σ P(n) and Σ P(n)(1 − e^{t − L(n)})₊, as logarithms.
    first: LnBounds,
    excess: LnBounds,
}

impl IntegerNoise {
    /// Returns `loss` as such a run, if it is one.
    pub(crate) fn of(loss: &PrivacyLoss) -> Option<Self> {
        let ([(law, steps)], []) = (loss.laws.as_slice(), loss.parts.as_slice()) else {
            return None;
        };
        let Atoms::Whole(WholeNumbers::Gaussian { shift, spread, .. }) = &law.atoms else {
            return None;
        };
        let alone = loss.gaussian <= 0.0 && !loss.unbounded && law.stated.is_none();
        let alone = alone
            && law.pieces.is_empty()
            && law.infinite <= 0.0
            && (*steps > 1 || !law.is_listed());
        let (n, variance) = (*steps as f64, 0.5 / spread);
        let off = 5.0 * (n - 1.0) * (-PI * PI * variance).exp();
        let noise = Self {
            shift: *shift,
            distance: n * shift,
            spread: *spread,
            variance: n * variance,
            off,
        };
        let exact = noise.distance < MOST || noise.is_wide();
        let broad = variance >= NARROWEST * NARROWEST
            && noise.variance >= NARROWEST_SUM * NARROWEST_SUM
            && off <= ROUND;
        (alone && exact && broad).then_some(noise)
    }

    /// Returns whether there are too many outcomes to add up.
    fn is_wide(&self) -> bool {
        self.variance > WIDEST * WIDEST
    }

    /// Returns the loss of a sum.
    fn loss_at(&self, n: f64) -> f64 {
        (2.0 * n - self.distance) * self.shift * self.spread
    }

    /// Returns 1/2Tσ².
    fn rate(&self) -> f64 {
        0.5 / self.variance
    }

    /// Returns ln δ(ε), for any real ε; adds up the outcomes if the two Gaussians are more than `width` apart.
    pub(crate) fn ln_delta(&self, epsilon: f64, width: f64) -> LnBounds {
        let between = self.ln_delta_between(epsilon);
        let place = 0.5 * (self.distance + epsilon / (self.shift * self.spread));
        let exact = place.abs() < MOST && self.distance < MOST;
        if between.width() <= width || self.is_wide() || !exact {
            return between;
        }
        // Starts one before: what a rounding error of the place leaves out is negligible.
        let ends = self.above(place.floor() - 1.0, epsilon).excess;
        ends.meet(between)
    }

    /// Returns the same from the two Gaussians.
    pub(crate) fn ln_delta_between(&self, epsilon: f64) -> LnBounds {
        let off = 2.0 * OFF + 4.0 * ROUND * epsilon.abs();
        self.between(|distance, sign| {
            Pair::gaussian(distance).ln_delta_of_one_step(epsilon - sign * off)
        })
    }

    /// Returns both ends from the two Gaussians: the upper end (a sign of 1) from those farther apart, the lower end
    /// (−1) from those closer together.
    fn between(&self, ln: impl Fn(f64, f64) -> LnBounds) -> LnBounds {
        let at = |moved: f64, sign: f64| {
            let distance = self.distance / (self.variance + moved).sqrt();
            ln(distance * (1.0 + sign * 16.0 * ROUND), sign)
        };
        let (above, below) = (at(-MOVED, 1.0), at(MOVED, -1.0));
        let room = OFF + self.off;
        LnBounds {
            lower: below.lower - room,
            middle: 0.5 * (above.middle + below.middle),
            upper: (above.upper + room).min(0.0),
        }
    }

    /// Returns the sums over the outcomes from `least` on, with the gain over t. An outcome before them is added if a
    /// rounding error may place it above.
    fn above(&self, least: f64, t: f64) -> Above {
        let off = |loss: f64| 8.0 * ROUND * (t.abs() + loss.abs());
        let gain = |n: f64, sign: f64| {
            let loss = self.loss_at(n);
            -(t - loss - sign * off(loss)).min(0.0).exp_m1()
        };
        self.sums(self.distance, least, &|n| (gain(n, -1.0), gain(n, 1.0)))
    }

    /// Returns ln Q(n ≥ least).
    fn second_tail(&self, least: f64) -> LnBounds {
        self.sums(0.0, least, &|_| (1.0, 1.0)).first
    }

    /// Returns sums of the noise around `centre` from `least` on, and of its products with both ends of a `gain`.
    fn sums(&self, centre: f64, least: f64, gain: &dyn Fn(f64) -> (f64, f64)) -> Above {
        let rate = self.rate();
        let start = least.max(centre);
        let deep = start - centre;
        // Relative to the first term.
        let term = |away: f64| (-(away - deep) * (away + deep) * rate).exp();
        let (mut first, mut low, mut high) = (Sum::default(), Sum::default(), Sum::default());
        let mut left_out = 0.0;
        // First outwards, then inwards down to `least`; terms fall both ways, and so does their ratio.
        for (from, step) in [(start, 1.0), (start - 1.0, -1.0)] {
            let mut n = from;
            while n >= least {
                let away = n - centre;
                let here = term(away);
                let (less, more) = gain(n);
                first.add(here);
                low.add(here * less);
                high.add(here * more);
                // ln of the ratio of the next term to this one.
                let fall = -(2.0 * step * away + 1.0) * rate;
                let rest = here / -fall.exp_m1();
                // Numbers that underflow aren't zero.
                if fall < 0.0 && rest <= (LEFT_OUT * low.value()).max(f64::MIN_POSITIVE) {
                    left_out += rest.max(f64::MIN_POSITIVE);
                    break;
                }
                n += step;
            }
        }
        // Σ e^{−n²/2w} equals √(2πw) to far more digits than a double has.
        let ln_start = -deep * deep * rate - 0.5 * self.variance.ln() - LN_SQRT_TAU;
        let error = SUM + 16.0 * ROUND * (1.0 + ln_start.abs()) + self.off;
        let ends = |low: f64, high: f64| {
            LnBounds {
                lower: ln_start + low.ln(),
                middle: ln_start + (0.5 * (low + high)).ln(),
                upper: ln_start + high.ln(),
            }
            .widened(error)
        };
        Above {
            first: ends(first.value(), first.value() + left_out),
            excess: ends(low.value(), high.value() + left_out),
        }
    }

    /// Returns ln B(x), x = e^`ln_x`: the largest sums of Q-mass x, the last of them in part; from the two Gaussians if
    /// these are no farther apart than `width`.
    pub(crate) fn ln_blow_up(&self, ln_x: f64, width: f64) -> LnBounds {
        let between = self.ln_blow_up_between(ln_x);
        if between.width() <= width || self.is_wide() || self.distance >= MOST {
            return between;
        }
        // The first outcome whose tail is no more than x.
        let farthest = (self.variance.sqrt() * (2.0 + (-2.0 * ln_x).max(0.0).sqrt())).ceil();
        let (mut low, mut high) = (-farthest, farthest);
        while high - low > 1.0 {
            let middle = (0.5 * (low + high)).floor();
            // The integral of a whole number begins one half before it.
            if ln_normal_tail((middle - 0.5) / self.variance.sqrt()) > ln_x {
                low = middle;
            } else {
                high = middle;
            }
        }
        let near = [low - 1.0, low, high, high + 1.0];
        let upper = near
            .map(|n| {
                let t = self.loss_at(n);
                let room = 8.0 * ROUND * (t.abs() + ln_x.abs() + 1.0);
                ln_add_exp(self.above(n, t).excess.upper, t + ln_x) + room
            })
            .into_iter()
            .fold(between.upper, f64::min);
        let lower = near
            .map(|n| self.ln_of_test(n, ln_x))
            .into_iter()
            .fold(between.lower, f64::max);
        LnBounds {
            lower,
            middle: 0.5 * (lower + upper),
            upper,
        }
    }

    /// Returns ln P of a test with Q-mass at most e^`ln_x`: all sums beyond n, and a part of n.
    fn ln_of_test(&self, n: f64, ln_x: f64) -> f64 {
        let beyond = self.second_tail(n + 1.0).upper;
        if beyond >= ln_x {
            return f64::NEG_INFINITY;
        }
        let sure = self.sums(self.distance, n + 1.0, &|_| (1.0, 1.0)).first;
        // The rest of x, at most the whole of the outcome, times its likelihood ratio.
        let left = ln_x + ln_one_minus_exp(beyond - ln_x);
        let whole = -n * n * self.rate() - 0.5 * self.variance.ln() - LN_SQRT_TAU;
        let t = self.loss_at(n);
        let room = 1e-13 * (1.0 + t.abs() + ln_x.abs() + whole.abs()) + self.off;
        ln_add_exp(sure.lower, left.min(whole) + t - room)
    }

    /// Returns ln B(x) from the two Gaussians.
    fn ln_blow_up_between(&self, ln_x: f64) -> LnBounds {
        let off = OFF + self.off + 4.0 * ROUND * ln_x.abs();
        self.between(|distance, sign| ln_blow_up_of_gaussian(ln_x + sign * off, distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Direction, Query};
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::{GroupSize, NoiseMultiplier, Steps};

    fn noise(sigma: f64, sensitivity: u32, steps: u64) -> IntegerNoise {
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(Mechanism::DiscreteGaussian {
                sigma: NoiseMultiplier::new(sigma).unwrap(),
                sensitivity,
            }),
        };
        let query = Query {
            neighbours: Neighbours::AddRemove,
            group: GroupSize::ONE,
        };
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        IntegerNoise::of(&loss).unwrap()
    }

    /// Beside an outcome that gains nothing the next one is below the smallest number: it was taken for none, δ was at most 0,
    /// and contradicted what both Gaussians say.
    #[test]
    fn outcomes_below_the_smallest_number_are_some() {
        for (sigma, sensitivity, steps, epsilon) in [
            (16.731_804_711_378_427, 5, 2, 7_611.432_057_055_34),
            (16.73, 1, 2, 2e3),
            (100.0, 5, 3, 1e5),
            (3.0, 1, 100, 1e5),
        ] {
            let noise = noise(sigma, sensitivity, steps);
            let ends = noise.ln_delta(epsilon, 0.0).consistent().unwrap();
            // The first outcome beyond gains at most all of its mass, and about a share of its loss' step.
            let place = 0.5 * (noise.distance + epsilon / (noise.shift * noise.spread));
            let n = place.floor() + 1.0;
            let away = n - noise.distance;
            let mass = -away * away * noise.rate() - 0.5 * noise.variance.ln() - LN_SQRT_TAU;
            let gain = -(epsilon - noise.loss_at(n)).exp_m1();
            let truth = mass + gain.ln();
            let room = 1e-12 * truth.abs();
            assert!(ends.lower <= truth + room, "{ends:?} {truth}");
            assert!(ends.upper >= truth - room, "{ends:?} {truth}");
        }
    }

    /// (L, P, Q) of every sum, by convolving the noise of each step with that of the steps before.
    fn convolved(sigma: f64, sensitivity: u32, steps: u64) -> Vec<(f64, f64, f64)> {
        let reach = (13.0 * sigma) as i64;
        let mass = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
        let one: Vec<f64> = (-reach..=reach).map(mass).collect();
        let mut all = vec![1.0];
        for _ in 0..steps {
            let mut next = vec![0.0; all.len() + one.len() - 1];
            for (i, a) in all.iter().enumerate() {
                for (j, b) in one.iter().enumerate() {
                    next[i + j] += a * b;
                }
            }
            all = next;
        }
        let total: f64 = all.iter().sum();
        let at = |x: i64| {
            let index = usize::try_from(x + reach * steps as i64).ok();
            index.and_then(|i| all.get(i)).map_or(0.0, |p| p / total)
        };
        let s = f64::from(sensitivity);
        let (shift, n) = (i64::from(sensitivity) * steps as i64, steps as f64);
        let span = reach * steps as i64 + shift;
        (-span..=span)
            .map(|x| {
                let loss = s * (2.0 * x as f64 - n * s) / (2.0 * sigma * sigma);
                (loss, at(x - shift), at(x))
            })
            .collect()
    }

    /// Sums of a few steps against their convolution: δ, and B by the largest losses first.
    #[test]
    fn a_sum_of_noise_is_the_convolution_of_its_steps() {
        for (sigma, sensitivity, steps) in [(5.0, 3, 3), (12.5, 1, 4), (14.0, 9, 1)] {
            let noise = noise(sigma, sensitivity, steps);
            let all = convolved(sigma, sensitivity, steps);
            let mu = (steps as f64).sqrt() * f64::from(sensitivity) / sigma;
            for place in [-3.0, -0.5, 0.0, 0.01, 1.3, 4.0] {
                let epsilon = mu * (place + 0.5 * mu);
                let excess = |(_, p, q): &(f64, f64, f64)| (p - epsilon.exp() * q).max(0.0);
                let truth: f64 = all.iter().map(excess).sum();
                let between = noise.ln_delta(epsilon, f64::INFINITY);
                assert!(between.lower <= truth.ln() && truth.ln() <= between.upper);
                let found = noise.ln_delta(epsilon, 0.0);
                let off = found.middle - truth.ln();
                assert!(found.width() < 2e-12 && off.abs() < 1e-9, "{epsilon} {off}");
            }
            for x in [1e-9, 1e-4, 0.03, 0.8] {
                let (mut first, mut second) = (0.0, 0.0);
                for (_, p, q) in all.iter().rev().filter(|(.., q)| *q > 0.0) {
                    let part = ((x - second) / q).clamp(0.0, 1.0);
                    (first, second) = (first + part * p, second + part * q);
                }
                let found = noise.ln_blow_up(f64::ln(x), 0.0);
                let off = found.middle - f64::ln(first);
                assert!(
                    found.width() < 2e-11 && off.abs() < 1e-8,
                    "{x} {found:?} {off}"
                );
            }
        }
    }

    /// Wide sums lie between two Gaussians, which are close: one step of σ = 300 added up without the noise's
    /// own constants.
    #[test]
    fn wide_noise_lies_between_two_gaussians() {
        let (sigma, s) = (300.0f64, 40u32);
        let noise = noise(sigma, s, 1);
        let mass = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
        let total: f64 = (-12_000..=12_000).map(mass).sum();
        for epsilon in [-0.3f64, 0.0, 1e-3, 0.1, 0.6] {
            let gain = |x: i64| (mass(x - i64::from(s)) - epsilon.exp() * mass(x)).max(0.0);
            let truth = (-12_000..=12_000).map(gain).sum::<f64>() / total;
            let between = noise.ln_delta_between(epsilon);
            assert!(between.lower <= truth.ln() && truth.ln() <= between.upper);
            assert!(between.width() < 3e-3, "{epsilon} {between:?}");
            assert!(between.width() > 1e-6 || epsilon < 0.0);
        }
    }

    /// 130 million steps at σ = 3808.6 (the sweep's question 188 of seed 20261131): 4e-6 of δ were unknown.
    #[test]
    fn millions_of_steps_keep_their_digits() {
        let noise = noise(3_808.632_948_666_073, 29, 131_294_550);
        let ends = noise.ln_delta(4_027.489_833_338_849_6, 1e-9);
        assert!(ends.width() < 1e-9, "{ends:?}");
        // By mpmath with 30 digits: N(Ts, Tσ²) against N(0, Tσ²).
        assert!((ends.middle.exp() / 5.395_893_742_188_28e-3 - 1.0).abs() < 1e-9);
    }
}
