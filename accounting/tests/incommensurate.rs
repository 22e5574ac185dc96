//! Outcomes that no grid suits, against a double sum over binomials.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use proptest::prelude::*;
use reticent_accounting::{
    Direction, Epsilon, Mechanism, Neighbours, PrivacyLoss, Query, Steps, Tolerance,
};

/// `times` steps that are known to be `epsilon`-private, nothing more.
fn pure(epsilon: f64, times: u32) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(u64::from(times)),
        each: Box::new(Mechanism::PureDp {
            epsilon: Epsilon::new(epsilon).unwrap(),
            neighbours: Neighbours::AddRemove,
        }),
    }
}

/// Losses of the composed steps with their P-mass.
fn outcomes(epsilon: f64, times: u32) -> Vec<(f64, f64)> {
    let (likely, rare) = (1.0 / (1.0 + (-epsilon).exp()), 1.0 / (1.0 + epsilon.exp()));
    let mut choose = 1.0;
    (0..=times)
        .map(|k| {
            let mass = choose * likely.powi(k as i32) * rare.powi((times - k) as i32);
            choose *= f64::from(times - k) / f64::from(k + 1);
            (epsilon * (2.0 * f64::from(k) - f64::from(times)), mass)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Both ends of δ(ε), at tolerances from coarse to fine: what is moved to lines is made up for.
    #[test]
    fn two_guarantees_compose_to_a_double_sum(
        one in 0.05f64..1.0, other in 0.05f64..1.0, times in 1u32..12, more in 1u32..12,
        spot in 0.0f64..1.2, decades in 2i32..8,
    ) {
        let run = Mechanism::Sequence { parts: vec![pure(one, times), pure(other, more)] };
        let size = (one * one * f64::from(times) + other * other * f64::from(more)).sqrt();
        let epsilon = 1.5 * spot * size;
        let mut truth = 0.0;
        for (a, p) in outcomes(one, times) {
            for (b, q) in outcomes(other, more) {
                truth += p * q * -(epsilon - a - b).exp_m1().min(0.0);
            }
        }
        let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove).unwrap();
        let tolerance = Tolerance::new(10f64.powi(-decades)).unwrap();
        let ends = loss.delta(Epsilon::new(epsilon).unwrap(), tolerance).unwrap().bounds;
        let (low, high) = (ends.lower.unwrap().get().get(), ends.upper.unwrap().get().get());
        prop_assert!(low <= truth * (1.0 + 1e-12) && truth * (1.0 - 1e-12) <= high, "{low:e} {truth:e} {high:e}");
        prop_assert!(high - low <= 0.02 * high + 1e-15, "{low:e} {truth:e} {high:e}");
    }
}
