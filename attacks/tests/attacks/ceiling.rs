//! The ceiling test: what it may claim, and when it must not.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Probability, Upper};
use reticent_attacks::exposure::{
    CeilingAt, CeilingOutcome, ceiling_test, exposure_ceiling, prior_mass,
};
use reticent_attacks::search::RankCount;
use reticent_attacks::{Draw, Error};

fn count(rank: u64) -> RankCount {
    RankCount {
        candidates: 1_000,
        nll: 1.0,
        below: rank - 1,
        ties: 0,
        unresolved: 0,
    }
}

fn promise(threshold: u64, each: f64, canaries: usize) -> CeilingAt {
    CeilingAt {
        threshold,
        bounds: vec![Upper::new(Probability::new(each).unwrap()); canaries],
    }
}

/// Canaries that training never met are within no threshold: with one of four, the least p-value is four times that of all.
#[test]
fn canaries_that_training_never_met_contradict_nothing() {
    let test = ceiling_test(&[count(500); 4], &[promise(1, 1e-4, 4)], 2e-4).unwrap();
    assert_eq!(test.outcome, CeilingOutcome::NotContradicted);
    let one = test.clone().reaching(1);
    assert_eq!(one.outcome, CeilingOutcome::CouldNotContradict);
    assert!((one.least_p_value - 4.0 * test.least_p_value).abs() < 1e-12);
    assert_eq!(test.clone().reaching(4), test);
    // What contradicts all the same is no less likely than the least.
    let first = ceiling_test(&[count(1); 4], &[promise(1, 1e-4, 4)], 2e-4).unwrap();
    let mistaken = first.reaching(1);
    assert_eq!(mistaken.outcome, CeilingOutcome::Contradicted);
    assert!((mistaken.least_p_value - mistaken.p_value).abs() < 1e-15);
}

/// A mechanism that reveals one random secret of m keeps B = 1/m each; one hit is no evidence
/// against it. 1 − (1−B)^m would call it contradicted at any level above (1−1/m)^m.
#[test]
fn one_random_secret_of_m_is_no_contradiction() {
    let mut counts = vec![count(500); 10];
    counts[4] = count(1);
    let test = ceiling_test(&counts, &[promise(1, 0.1, 10)], 0.5).unwrap();
    assert_eq!(test.outcome, CeilingOutcome::NotContradicted);
    assert!((test.p_value - 1.0).abs() < 1e-12);
}

#[test]
fn golden_and_the_mean_over_thresholds() {
    let counts = [count(1), count(1), count(3), count(900)];
    let test = ceiling_test(&counts, &[promise(1, 1e-4, 4), promise(10, 1e-3, 4)], 1e-3).unwrap();
    let hits: Vec<u64> = test.thresholds.iter().map(|p| p.hits).collect();
    assert_eq!(hits, [2, 3]);
    assert!((test.thresholds[0].p_value - 2e-4).abs() < 1e-15);
    assert!((test.thresholds[1].p_value - 4e-3 / 3.0).abs() < 1e-15);
    // E = (2/4e-4 + 3/4e-3)/2 = 2875; Bonferroni over the two would say 4e-4.
    assert!((test.p_value - 1.0 / 2_875.0).abs() < 1e-14);
    assert_eq!(test.outcome, CeilingOutcome::Contradicted);
    let test = ceiling_test(&counts, &[promise(1, 1e-4, 4)], 1.9e-4).unwrap();
    assert_eq!(test.outcome, CeilingOutcome::NotContradicted);
}

#[test]
fn no_hit_no_evidence() {
    let test = ceiling_test(&[count(7); 3], &[promise(1, 0.0, 3)], 1e-3).unwrap();
    assert!((test.p_value - 1.0).abs() < 1e-15);
    // A promise of exactly zero is contradicted by a single hit.
    let test = ceiling_test(&[count(1)], &[promise(1, 0.0, 1)], 1e-3).unwrap();
    assert_eq!(test.outcome, CeilingOutcome::Contradicted);
}

#[test]
fn what_is_refused() {
    let counts = [count(1)];
    assert!(matches!(
        ceiling_test(&counts, &[promise(1, 0.1, 2)], 1e-3),
        Err(Error::WrongCount {
            got: 2,
            wanted: 1,
            ..
        })
    ));
    assert!(ceiling_test(&[], &[promise(1, 0.1, 0)], 1e-3).is_err());
    assert!(ceiling_test(&counts, &[], 1e-3).is_err());
    let said = ceiling_test(&counts, &[promise(1, 0.1, 1)], 0.0)
        .unwrap_err()
        .to_string();
    assert_eq!(said, "alpha must lie in (0, 1), got 0");
}

#[test]
fn prior_mass_of_the_top() {
    let mass = |draw| prior_mass(10, 1_000, 10, draw).unwrap().get();
    assert!((mass(Draw::Independent) - 0.01).abs() < 1e-15);
    assert!((mass(Draw::Distinct) - 10.0 / 991.0).abs() < 1e-15);
}

/// Closed form for one secret under pure ε: at most log2(1 + 19 e^ε) at 95 %, and no looser
/// than one rank.
#[test]
fn ceiling_of_pure_epsilon() {
    for epsilon in [0.0_f64, 0.5, 2.0, 5.0] {
        let n = 1_000_000_u64;
        let ceiling = exposure_ceiling::<Error>(n, 1, Draw::Independent, 0.95, |mass| {
            let odds = epsilon.exp() * mass.get() / (1.0 - mass.get());
            Ok(Upper::new(odds / (1.0 + odds)))
        })
        .unwrap();
        let exact = (1.0 + 19.0 * epsilon.exp()).log2();
        assert!(*ceiling.get() <= exact + 1e-12);
        assert!(*ceiling.get() > exact - 0.01, "{} {exact}", ceiling.get());
    }
    // A promise that promises nothing: the exposure may be log2 N.
    let all = exposure_ceiling::<Error>(1_000, 3, Draw::Distinct, 0.95, |_| Ok(Upper::new(3.0)));
    assert!((all.unwrap().get() - 1_000_f64.log2()).abs() < 1e-12);
}

proptest! {
    /// False alarms, exactly: for any joint law of hits, with the true hit rates as promise,
    /// P(contradicted) ≤ α.
    #[test]
    fn never_more_false_alarms_than_alpha(m in 1_usize..5, alpha in 0.01..0.9_f64, seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // A random law over the 2^m patterns of "rank 1" against "rank 500".
        let weights: Vec<f64> = (0..1_usize << m).map(|_| random.random::<f64>().powi(8)).collect();
        let total: f64 = weights.iter().sum();
        let rate = |j: usize| -> f64 {
            let hit = weights.iter().enumerate().filter(|(pattern, _)| pattern >> j & 1 == 1);
            (hit.map(|(_, w)| w).sum::<f64>() / total).min(1.0)
        };
        let bounds = (0..m).map(|j| Upper::new(Probability::new(rate(j)).unwrap())).collect();
        let promise = CeilingAt { threshold: 1, bounds };
        let mut alarm = 0.0;
        for (pattern, weight) in weights.iter().enumerate() {
            let counts: Vec<RankCount> =
                (0..m).map(|j| count(if pattern >> j & 1 == 1 { 1 } else { 500 })).collect();
            let test = ceiling_test(&counts, std::slice::from_ref(&promise), alpha).unwrap();
            if test.outcome == CeilingOutcome::Contradicted {
                alarm += weight / total;
            }
        }
        prop_assert!(alarm <= alpha + 1e-9, "{alarm} > {alpha}");
    }
}

proptest! {
    /// The mean over thresholds: for any joint law of three ranks, with the true hit rates as
    /// promise at both thresholds, P(contradicted) ≤ α; and it is never weaker than Bonferroni.
    #[test]
    fn several_thresholds_keep_the_level(m in 1_usize..4, alpha in 0.01..0.9_f64, seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let ranks = [1, 5, 500];
        let patterns = 3_usize.pow(m as u32);
        let weights: Vec<f64> = (0..patterns).map(|_| random.random::<f64>().powi(8)).collect();
        let total: f64 = weights.iter().sum();
        let rank = |pattern: usize, j: usize| ranks[pattern / 3_usize.pow(j as u32) % 3];
        let promises = [1, 10].map(|threshold| {
            let bounds = (0..m).map(|j| {
                let hit = weights.iter().enumerate().filter(|(p, _)| rank(*p, j) <= threshold);
                let rate = (hit.map(|(_, w)| w).sum::<f64>() / total).min(1.0);
                Upper::new(Probability::new(rate).unwrap())
            });
            CeilingAt { threshold, bounds: bounds.collect() }
        });
        let mut alarm = 0.0;
        for (pattern, weight) in weights.iter().enumerate() {
            let counts: Vec<RankCount> = (0..m).map(|j| count(rank(pattern, j))).collect();
            let test = ceiling_test(&counts, &promises, alpha).unwrap();
            let bonferroni = test.thresholds.iter().map(|p| p.p_value).fold(1.0, f64::min) * 2.0;
            prop_assert!(test.p_value <= bonferroni.min(1.0) + 1e-9);
            if test.outcome == CeilingOutcome::Contradicted {
                alarm += weight / total;
            }
        }
        prop_assert!(alarm <= alpha + 1e-9, "{alarm} > {alpha}");
    }
}
