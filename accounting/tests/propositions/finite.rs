//! Finite laws, their divergences and blow-ups, and channels cut from Gaussians.

use proptest::prelude::*;
use reticent_accounting::pld::{Profile, ProfilePoint};
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Lower, Mechanism, MissRate, Neighbours, NoiseMultiplier,
    PrivacyLoss, Probability, Query, SamplingRate, Steps, Tolerance, Upper,
};

/// H_{e^ε}(P‖Q) over a finite alphabet.
pub(crate) fn excess(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    let scale = epsilon.exp();
    p.iter().zip(q).map(|(p, q)| (p - scale * q).max(0.0)).sum()
}

/// The larger direction.
pub(crate) fn both(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    excess(p, q, epsilon).max(excess(q, p, epsilon))
}

/// B(x) = max{P(E): Q(E) ≤ x} over randomised tests, exactly.
pub(crate) fn blow_up(p: &[f64], q: &[f64], x: f64) -> f64 {
    let mut order: Vec<usize> = (0..p.len()).collect();
    // The best test takes outcomes by falling likelihood ratio; p·q' against p'·q avoids 0/0.
    order.sort_by(|&a, &b| (p[b] * q[a]).total_cmp(&(p[a] * q[b])));
    let (mut left, mut sum) = (x, 0.0);
    for i in order {
        if q[i] <= left {
            left -= q[i];
            sum += p[i];
        } else {
            return sum + p[i] * left / q[i];
        }
    }
    sum
}

/// A random law; some weights are zero, so that atoms belong to one law only.
pub(crate) fn law(size: usize) -> impl Strategy<Value = Vec<f64>> {
    let weight = prop_oneof![3 => 0.01f64..1.0, 1 => Just(0.0)];
    proptest::collection::vec(weight, size).prop_map(|mut weights| {
        weights[0] += 0.01;
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    })
}

/// Σ weight · law.
pub(crate) fn mix(parts: &[(f64, &[f64])]) -> Vec<f64> {
    let mut sum = vec![0.0; parts[0].1.len()];
    for (weight, law) in parts {
        for (total, p) in sum.iter_mut().zip(*law) {
            *total += weight * p;
        }
    }
    sum
}

/// The law of two independent outcomes.
pub(crate) fn product(p: &[f64], q: &[f64]) -> Vec<f64> {
    p.iter()
        .flat_map(|a| q.iter().map(move |b| a * b))
        .collect()
}

/// Φ.
pub(crate) fn phi(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// What is left of N(mean, σ²) in the cells between `cuts` (ascending).
pub(crate) fn cells(mean: f64, sigma: f64, cuts: &[f64]) -> Vec<f64> {
    let mut boundaries = vec![f64::NEG_INFINITY];
    boundaries.extend_from_slice(cuts);
    boundaries.push(f64::INFINITY);
    let mass = |a: f64, b: f64| {
        let (a, b) = ((a - mean) / sigma, (b - mean) / sigma);
        if a > 0.0 {
            phi(-a) - phi(-b)
        } else {
            phi(b) - phi(a)
        }
    };
    boundaries
        .windows(2)
        .map(|w| mass(w[0], w[1]).max(0.0))
        .collect()
}

/// Every subset of `records` with its probability under independent sampling at `rate`.
pub(crate) fn subsets(records: usize, rate: f64) -> Vec<(f64, Vec<usize>)> {
    (0..1usize << records)
        .map(|bits| {
            let members: Vec<usize> = (0..records).filter(|i| bits >> i & 1 == 1).collect();
            let taken = members.len() as i32;
            let weight = rate.powi(taken) * (1.0 - rate).powi(records as i32 - taken);
            (weight, members)
        })
        .collect()
}

pub(crate) fn query(neighbours: Neighbours, group: u32) -> Query {
    Query {
        neighbours,
        group: GroupSize::new(group).unwrap(),
    }
}

pub(crate) fn dp_sgd(sigma: f64, rate: f64, steps: u64) -> Mechanism {
    Mechanism::dp_sgd(
        NoiseMultiplier::new(sigma).unwrap(),
        SamplingRate::new(rate).unwrap(),
        Steps::new(steps),
    )
}

pub(crate) fn gaussian(sigma: f64) -> Mechanism {
    Mechanism::Gaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
    }
}

pub(crate) fn loss(run: &Mechanism, query: Query, direction: Direction) -> PrivacyLoss {
    PrivacyLoss::of(run, query, direction).unwrap()
}

pub(crate) fn tight() -> Tolerance {
    Tolerance::new(1e-9).unwrap()
}

pub(crate) fn rate(value: f64) -> MissRate {
    MissRate::new(value).unwrap()
}

pub(crate) fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

pub(crate) fn delta(value: f64) -> Delta {
    Delta::new(value.clamp(0.0, 1.0)).unwrap()
}

pub(crate) fn epsilon(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

/// The upper end of δ(ε).
pub(crate) fn delta_of(loss: &PrivacyLoss, at: f64) -> f64 {
    let answer = loss.delta(epsilon(at), tight()).unwrap();
    answer.bounds.upper.unwrap().get().get()
}

/// The lower end of δ(ε).
pub(crate) fn least_delta_of(loss: &PrivacyLoss, at: f64) -> f64 {
    let answer = loss.delta(epsilon(at), tight()).unwrap();
    answer.bounds.lower.unwrap().get().get()
}

/// The upper end of ε(δ).
pub(crate) fn epsilon_of(loss: &PrivacyLoss, at: f64) -> f64 {
    let answer = loss.epsilon(delta(at), tight()).unwrap();
    answer.bounds.upper.unwrap().get().get()
}

/// The upper end of B(x).
pub(crate) fn blow_up_of(loss: &PrivacyLoss, x: f64) -> f64 {
    let answer = loss.blow_up(probability(x), tight()).unwrap();
    answer.bounds.upper.unwrap().get().get()
}

/// The profile of a finite pair at many ε, as if another tool had certified it.
pub(crate) fn profile(query: Query, p: &[f64], q: &[f64]) -> Profile {
    let points = (0..=60).map(|i| {
        let at = f64::from(i) * 0.1;
        let exact = Delta::new(both(p, q, at).min(1.0)).unwrap();
        ProfilePoint {
            epsilon: epsilon(at),
            delta_lower: Lower::new(exact),
            delta_upper: Upper::new(exact),
        }
    });
    Profile::from_points(query, points.collect()).unwrap()
}
