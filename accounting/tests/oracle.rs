//! Engines against oracles that share no code with them.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use crate::common::{Case, delta_by_convolution, delta_of_one_step, simpson};
use proptest::prelude::*;
use reticent_accounting::{Direction, Neighbours};

fn question() -> impl Strategy<Value = (Neighbours, Direction)> {
    prop_oneof![
        Just((Neighbours::AddRemove, Direction::Remove)),
        Just((Neighbours::AddRemove, Direction::Add)),
        Just((Neighbours::ZeroOut, Direction::Remove)),
        Just((Neighbours::Replace, Direction::Remove)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// One step against quadrature in x. Simpson's rule with 20 000 intervals errs by less than
    /// 1e-9 relatively where δ is above 1e-9.
    #[test]
    fn one_step_matches_quadrature(
        rate in 0.001f64..1.0,
        sigma in 0.4f64..6.0,
        group in 1u32..5,
        (neighbours, direction) in question(),
        epsilon in 0.0f64..3.0,
    ) {
        let case = Case { rate, sigma, steps: 1, group, neighbours, direction };
        let truth = delta_of_one_step(&case, epsilon);
        let (low, high) = case.delta(epsilon, 1e-9);
        let slack = 1e-8 * truth + 1e-15;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low} {truth} {high} {case:?}");
        // Where almost nothing is left, the two tails of the closed form cancel.
        prop_assert!(high - low <= 1e-9 * high + 1e-16);
    }

    /// A handful of steps against convolution with losses rounded both ways.
    #[test]
    fn composition_meets_the_convolution(
        rate in 0.01f64..0.9,
        sigma in 0.7f64..4.0,
        steps in 2u64..40,
        (neighbours, direction) in question(),
        spot in 0.1f64..2.5,
    ) {
        let case = Case { rate, sigma, steps, group: 1, neighbours, direction };
        // About `spot` standard deviations out.
        let epsilon = spot * rate / sigma * (steps as f64).sqrt() * if neighbours == Neighbours::Replace { 2.0 } else { 1.0 };
        let (least, most) = delta_by_convolution(&case, epsilon, (2e-4 * epsilon).max(1e-4));
        let (low, high) = case.delta(epsilon, 1e-6);
        prop_assert!(low <= high, "{low} {high} {case:?} at {epsilon}");
        prop_assert!(low <= most * (1.0 + 1e-9), "{low} above {most}: {case:?} at {epsilon}");
        prop_assert!(high >= least * (1.0 - 1e-9), "{high} below {least}: {case:?} at {epsilon}");
    }

    /// Two steps of a group against a nested integral.
    #[test]
    fn two_steps_match_a_nested_integral(
        rate in 0.05f64..0.6,
        sigma in 0.8f64..3.0,
        group in 1u32..4,
        (neighbours, direction) in question(),
        epsilon in 0.05f64..1.5,
    ) {
        let case = Case { rate, sigma, steps: 2, group, neighbours, direction };
        let single = Case { steps: 1, ..case };
        // δ_2(ε) = ∫ p(x) δ_1(ε − L(x)) dx; negative arguments of δ_1 are fine.
        let (from, to) = case.support();
        let inner = |x: f64| {
            let (p, q) = case.densities(x);
            if p < 1e-20 || q <= 0.0 { 0.0 } else { p * coarse_delta(&single, epsilon - (p / q).ln()) }
        };
        let truth = simpson(inner, from, to, 800);
        let (low, high) = case.delta(epsilon, 1e-6);
        let slack = 5e-5 * truth + 1e-9;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low} {truth} {high} {case:?} at {epsilon}");
    }
}

/// ∫ (p − e^ε q)₊ for any real ε, by the midpoint rule.
fn coarse_delta(case: &Case, epsilon: f64) -> f64 {
    let (from, to) = case.support();
    let count = 1600;
    let step = (to - from) / f64::from(count);
    (0..count)
        .map(|i| {
            let (p, q) = case.densities(from + step * (f64::from(i) + 0.5));
            (p - epsilon.exp() * q).max(0.0) * step
        })
        .sum()
}
