//! Oracles that share no code with the crate: plain quadrature, and convolution on a grid with
//! every loss rounded up or down.

use crate::oracle_sweep::oracle::fourier::{power, transform};
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Query, SamplingRate, Steps, Tolerance,
};

/// A question about DP-SGD, as plain numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) rate: f64,
    pub(crate) sigma: f64,
    pub(crate) steps: u64,
    pub(crate) group: u32,
    pub(crate) neighbours: Neighbours,
    pub(crate) direction: Direction,
}

impl Case {
    pub(crate) fn loss(&self) -> PrivacyLoss {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(self.sigma).unwrap(),
            SamplingRate::new(self.rate).unwrap(),
            Steps::new(self.steps),
        );
        let query = Query {
            neighbours: self.neighbours,
            group: GroupSize::new(self.group).unwrap(),
        };
        PrivacyLoss::of(&run, query, self.direction).unwrap()
    }

    /// Both ends of δ(ε).
    pub(crate) fn delta(&self, epsilon: f64, tolerance: f64) -> (f64, f64) {
        let answer = self.loss().delta(
            Epsilon::new(epsilon).unwrap(),
            Tolerance::new(tolerance).unwrap(),
        );
        let bounds = answer.unwrap().bounds;
        (
            bounds.lower.unwrap().get().get(),
            bounds.upper.unwrap().get().get(),
        )
    }

    /// Both ends of ε(δ).
    pub(crate) fn epsilon(&self, delta: f64, tolerance: f64) -> (f64, f64) {
        let answer = self.loss().epsilon(
            Delta::new(delta).unwrap(),
            Tolerance::new(tolerance).unwrap(),
        );
        let bounds = answer.unwrap().bounds;
        (
            bounds.lower.unwrap().get().get(),
            bounds.upper.unwrap().get().get(),
        )
    }

    /// Densities of both laws at x (in units of the clipping norm), straight from their definition.
    pub(crate) fn densities(&self, x: f64) -> (f64, f64) {
        let mixture = |sign: f64| {
            let k = f64::from(self.group);
            let mut weight = (1.0 - self.rate).powf(k);
            let mut sum = 0.0;
            for j in 0..=self.group {
                let j = f64::from(j);
                let z = (x - sign * j) / self.sigma;
                let choose = if self.rate >= 1.0 {
                    f64::from(u8::from(j >= k))
                } else {
                    weight
                };
                sum += choose * (-0.5 * z * z).exp();
                weight *= (k - j) / (j + 1.0) * self.rate / (1.0 - self.rate);
            }
            sum / (self.sigma * std::f64::consts::TAU.sqrt())
        };
        let z = x / self.sigma;
        let plain = (-0.5 * z * z).exp() / (self.sigma * std::f64::consts::TAU.sqrt());
        match (self.neighbours, self.direction) {
            (Neighbours::Replace, _) => (mixture(1.0), mixture(-1.0)),
            (_, Direction::Remove) => (mixture(1.0), plain),
            (_, Direction::Add) => (plain, mixture(1.0)),
        }
    }

    /// Where both laws live.
    pub(crate) fn support(&self) -> (f64, f64) {
        let reach = f64::from(self.group) + 12.0 * self.sigma;
        (-reach, reach)
    }
}

/// ∫ f by Simpson's rule with `count` (even) intervals.
pub(crate) fn simpson(f: impl Fn(f64) -> f64, from: f64, to: f64, count: usize) -> f64 {
    let step = (to - from) / count as f64;
    let weight = |i: usize| match i {
        0 => 1.0,
        i if i == count => 1.0,
        i if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=count)
        .map(|i| weight(i) * f(from + step * i as f64))
        .sum::<f64>()
        * step
        / 3.0
}

/// δ(ε) of one step: ∫ (p − e^ε q)₊, the kink located first.
pub(crate) fn delta_of_one_step(case: &Case, epsilon: f64) -> f64 {
    let (low, high) = case.support();
    let excess = |x: f64| {
        let (p, q) = case.densities(x);
        p - epsilon.exp() * q
    };
    // The sign changes once, upwards for a mixture first, downwards otherwise.
    let (mut a, mut b) = (low, high);
    let upwards = excess(b) > 0.0 || (excess(a) <= 0.0 && case.direction == Direction::Remove);
    for _ in 0..200 {
        let middle = 0.5 * (a + b);
        if (excess(middle) > 0.0) == upwards {
            b = middle
        } else {
            a = middle
        }
    }
    let (from, to) = if upwards { (b, high) } else { (low, a) };
    simpson(|x| excess(x).max(0.0), from, to, 8_000)
}

/// A law of losses under P on a grid of spacing `step`, rounded one way.
struct Grid {
    step: f64,
    /// Index of the first mass, in steps.
    first: i64,
    mass: Vec<f64>,
}

/// Both ends of δ(ε) of the composition: losses rounded down and up to a grid, convolved.
///
/// δ(ε) = E_P(1 − e^{ε−L})₊ rises with L, so rounding up bounds it from above. The rounding of
/// the transform is below 1e-14 and is added on the outside.
pub(crate) fn delta_by_convolution(case: &Case, epsilon: f64, step: f64) -> (f64, f64) {
    let end = |up: bool| {
        let grid = compose(&one_step(case, step, up), case.steps);
        let sum: f64 = grid
            .mass
            .iter()
            .enumerate()
            .map(|(i, mass)| {
                let loss = (grid.first + i as i64) as f64 * grid.step;
                mass * (-(epsilon - loss).exp_m1()).max(0.0)
            })
            .sum();
        sum
    };
    ((end(false) - 1e-13).max(0.0), end(true) + 1e-13)
}

fn one_step(case: &Case, step: f64, up: bool) -> Grid {
    let (low, high) = case.support();
    let count = 12_000;
    let width = (high - low) / f64::from(count);
    let loss = |x: f64| {
        let (p, q) = case.densities(x);
        if p > 0.0 && q > 0.0 {
            (p / q).ln()
        } else {
            f64::NAN
        }
    };
    let mut bins = std::collections::BTreeMap::<i64, f64>::new();
    for i in 0..count {
        let (a, b) = (low + width * f64::from(i), low + width * f64::from(i + 1));
        let mass = simpson(|x| case.densities(x).0, a, b, 2);
        let (la, lb) = (loss(a), loss(b));
        if mass < 1e-22 || la.is_nan() || lb.is_nan() {
            continue;
        }
        let index = if up {
            (la.max(lb) / step).ceil()
        } else {
            (la.min(lb) / step).floor()
        };
        *bins.entry(index as i64).or_default() += mass;
    }
    let first = *bins.keys().next().unwrap();
    let last = *bins.keys().next_back().unwrap();
    let mut mass = vec![0.0; (last - first + 1) as usize];
    for (index, weight) in bins {
        mass[(index - first) as usize] = weight;
    }
    Grid { step, first, mass }
}

/// The T-fold sum, by the Fourier transform's T-th power.
fn compose(one: &Grid, times: u64) -> Grid {
    let length = (one.mass.len() - 1) * times as usize + 1;
    let size = length.next_power_of_two();
    let mut data = vec![(0.0, 0.0); size];
    for (slot, mass) in data.iter_mut().zip(&one.mass) {
        slot.0 = *mass;
    }
    transform(&mut data, -1.0);
    for value in &mut data {
        *value = power(*value, times);
    }
    transform(&mut data, 1.0);
    let mass = data[..length].iter().map(|v| v.0 / size as f64).collect();
    Grid {
        step: one.step,
        first: one.first * times as i64,
        mass,
    }
}
