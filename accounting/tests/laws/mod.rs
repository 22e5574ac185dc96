//! Every mechanism, sampler, neighbours and direction on the grid, against composition of plain
//! lists of outcomes that share no code with it.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

mod compositions;
mod rules;

use proptest::prelude::*;
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Order,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

/// Outcomes of one step as (P-mass, Q-mass), about.
type Outcomes = Vec<(f64, f64)>;

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

fn noise(x: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(x).unwrap()
}

fn rate(x: f64) -> SamplingRate {
    SamplingRate::new(x).unwrap()
}

fn bounds(
    run: &Mechanism,
    neighbours: Neighbours,
    direction: Direction,
    epsilon: f64,
) -> (f64, f64) {
    let loss = PrivacyLoss::of(run, Query::single(neighbours), direction).unwrap();
    let tolerance = Tolerance::new(1e-6).unwrap();
    let answer = loss
        .delta(Epsilon::new(epsilon).unwrap(), tolerance)
        .unwrap();
    let ends = answer.bounds;
    (
        ends.lower.unwrap().get().get(),
        ends.upper.unwrap().get().get(),
    )
}

/// Two densities on a fine mesh; masses by the midpoint rule.
fn mesh(first: impl Fn(f64) -> f64, second: impl Fn(f64) -> f64) -> Outcomes {
    let (from, to, count) = (-40.0, 40.0, 80_000);
    let step = (to - from) / f64::from(count);
    (0..count)
        .map(|i| from + step * (f64::from(i) + 0.5))
        .map(|x| (first(x) * step, second(x) * step))
        .collect()
}

fn laplace(x: f64, centre: f64, scale: f64) -> f64 {
    (-(x - centre).abs() / scale).exp() / (2.0 * scale)
}

fn gaussian(x: f64, centre: f64, sigma: f64) -> f64 {
    let z = (x - centre) / sigma;
    (-0.5 * z * z).exp() / (sigma * std::f64::consts::TAU.sqrt())
}

/// (least, most) δ(ε) of `times` steps: losses rounded down and up to a mesh, convolved.
fn composed(step: &Outcomes, times: u32, epsilon: f64) -> (f64, f64) {
    const WIDTH: f64 = 2e-3;
    let side = |up: bool| {
        let mut law: std::collections::BTreeMap<i64, f64> = std::collections::BTreeMap::new();
        let mut infinite = 0.0;
        for (p, q) in step {
            if *p <= 0.0 {
                continue;
            }
            if *q <= 0.0 {
                infinite += p;
                continue;
            }
            // An outcome on the mesh, up to rounding, stays there.
            let loss = (p / q).ln() / WIDTH;
            let index = if (loss - loss.round()).abs() < 1e-9 {
                loss.round()
            } else if up {
                loss.ceil()
            } else {
                loss.floor()
            };
            *law.entry(index as i64).or_default() += p;
        }
        let mut whole = std::collections::BTreeMap::from([(0i64, 1.0)]);
        let mut finite = 1.0;
        for _ in 0..times {
            let mut next = std::collections::BTreeMap::new();
            for (a, p) in &whole {
                for (b, q) in &law {
                    if p * q > 1e-18 {
                        *next.entry(a + b).or_insert(0.0) += p * q;
                    }
                }
            }
            whole = next;
            finite *= 1.0 - infinite;
        }
        let excess =
            |(index, p): (&i64, &f64)| p * -(epsilon - *index as f64 * WIDTH).exp_m1().min(0.0);
        whole.iter().map(excess).sum::<f64>() + 1.0 - finite
    };
    (side(false), side(true))
}

/// Both ends agree with the lists: 2e-6 covers the mesh's own masses.
fn agree(
    run: &Mechanism,
    neighbours: Neighbours,
    direction: Direction,
    step: &Outcomes,
    times: u32,
    epsilon: f64,
) {
    let (low, high) = bounds(run, neighbours, direction, epsilon);
    let (least, most) = composed(step, times, epsilon);
    assert!(low <= high, "{low} {high} {run:?}");
    assert!(
        low <= most * 1.0001 + 2e-6,
        "{low} above {most}: {run:?} {direction:?} at {epsilon}"
    );
    assert!(
        high >= least * 0.9999 - 2e-6,
        "{high} below {least}: {run:?} {direction:?} at {epsilon}"
    );
    assert!(
        high - low <= 1e-5 * high + 1e-15 || low <= 0.0,
        "{low} {high} {run:?}"
    );
}

fn swapped(step: &Outcomes, direction: Direction) -> Outcomes {
    match direction {
        Direction::Remove => step.clone(),
        Direction::Add => step.iter().map(|(p, q)| (*q, *p)).collect(),
    }
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Remove), Just(Direction::Add)]
}
