//! What the blow-up says about ranks, membership and redacted secrets.

use super::finite::{
    blow_up, cells, gaussian, law, loss, mix, phi, probability, query, rate, tight,
};
use proptest::prelude::*;
use reticent_accounting::reconstruction::ceiling::{
    at_least_ceiling, best_exposure_ceiling, exposure_ceiling, rank_ceiling,
};
use reticent_accounting::reconstruction::membership::area_ceiling;
use reticent_accounting::reconstruction::redacted::{MissedBy, guess_ceiling};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{Direction, Neighbours, PrivacyLoss, Probability, Upper};

const CONTENTS: usize = 6;

fn pair(sigma: f64, neighbours: Neighbours) -> PrivacyLoss {
    loss(&gaussian(sigma), query(neighbours, 1), Direction::Remove)
}

/// A law for each content, and a score of each content at each outcome, with ties.
fn ranked() -> impl Strategy<Value = (f64, Vec<Vec<f64>>, Vec<Vec<u8>>)> {
    (
        0.3f64..2.0,
        proptest::collection::vec(-1.0f64..1.0, CONTENTS),
        proptest::collection::vec(-3.0f64..3.0, 7),
        proptest::collection::vec(proptest::collection::vec(0u8..4, CONTENTS), 8),
    )
        .prop_map(|(sigma, moves, mut cuts, scores)| {
            cuts.sort_by(f64::total_cmp);
            let runs = moves.iter().map(|x| cells(*x, sigma, &cuts)).collect();
            (sigma, runs, scores)
        })
}

/// The rank of a content at its worst among ties.
fn rank(scores: &[u8], content: usize) -> usize {
    scores.iter().filter(|s| **s >= scores[content]).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A secret uniform on N, ties at their worst: P(rank ≤ t) ≤ B(t/N), and P(exposure ≥ e) ≤ B(2^−e).
    #[test]
    fn ranks_and_exposures_stay_below_their_ceilings((sigma, runs, scores) in ranked(), t in 1usize..CONTENTS) {
        let among = |most: f64| -> f64 {
            (0..CONTENTS).map(|i| {
                let hits = runs[i].iter().enumerate().filter(|(y, _)| rank(&scores[*y], i) as f64 <= most);
                hits.map(|(_, p)| p).sum::<f64>() / CONTENTS as f64
            }).sum()
        };
        let zero_out = pair(sigma, Neighbours::ZeroOut);
        let ceiling = rank_ceiling(&zero_out, CONTENTS as u64, t as u64, tight()).unwrap();
        prop_assert!(among(t as f64) <= ceiling.get().get() + 1e-12);
        let bits = (CONTENTS as f64 / t as f64).log2();
        let ceiling = exposure_ceiling(&zero_out, bits, tight()).unwrap();
        prop_assert!(among(CONTENTS as f64 * (-bits).exp2() + 1e-9) <= ceiling.get().get() + 1e-12);
    }

    /// Secrets drawn distinct in one space: given the others, N − m + 1 candidates are left.
    #[test]
    fn distinct_secrets_have_fewer_candidates((sigma, runs, scores) in ranked(), t in 1u64..5, other in 0usize..CONTENTS) {
        let left: Vec<usize> = (0..CONTENTS).filter(|i| *i != other).collect();
        let hit: f64 = left.iter().map(|i| {
            let hits = runs[*i].iter().enumerate().filter(|(y, _)| rank(&scores[*y], *i) as u64 <= t);
            hits.map(|(_, p)| p).sum::<f64>() / left.len() as f64
        }).sum();
        let ceiling = rank_ceiling(&pair(sigma, Neighbours::ZeroOut), left.len() as u64, t, tight()).unwrap();
        prop_assert!(hit <= ceiling.get().get() + 1e-12);
    }

    /// At least v of m, however the hits depend on each other: Σ B_j / v.
    #[test]
    fn hits_need_no_independence(joint in law(16), hits in 1usize..5) {
        // A joint law over which of four secrets are hit.
        let each: Vec<Upper<Probability>> = (0..4).map(|j| {
            let p: f64 = (0..16usize).filter(|set| set >> j & 1 == 1).map(|set| joint[set]).sum();
            Upper::new(probability(p.min(1.0)))
        }).collect();
        let truth: f64 = (0..16usize).filter(|set| set.count_ones() as usize >= hits).map(|set| joint[set]).sum();
        prop_assert!(truth <= at_least_ceiling(&each, hits).unwrap().get().get() + 1e-12);
    }

    /// Any membership attack's ROC curve stays below B, its area below the ceiling.
    #[test]
    fn membership_attacks_stay_below_the_trade_off(sigma in 0.4f64..3.0, move_by in -1.0f64..1.0, mut cuts in proptest::collection::vec(-4.0f64..4.0, 1..9), x in 0.001f64..0.999) {
        cuts.sort_by(f64::total_cmp);
        let (with, without) = (cells(move_by, sigma, &cuts), cells(0.0, sigma, &cuts));
        let add_remove = pair(sigma, Neighbours::AddRemove);
        let ceiling = add_remove.true_positive_rate(probability(x), tight()).unwrap().bounds.upper.unwrap();
        prop_assert!(blow_up(&with, &without, x) <= ceiling.get().get() + 1e-12);
        // Trapezia under the best ROC curve.
        let area: f64 = (0..1000).map(|i| {
            let at = |i: u32| blow_up(&with, &without, f64::from(i) / 1000.0);
            0.5 * (at(i) + at(i + 1)) / 1000.0
        }).sum();
        prop_assert!(area <= area_ceiling(&add_remove, 50, tight()).unwrap().get().get() + 1e-9);
    }

    /// Redacted secrets: which contents are missed is known to the adversary, or chance.
    #[test]
    fn guesses_of_a_redacted_secret_stay_below_their_ceilings(
        sigma in 0.4f64..3.0,
        moves in proptest::collection::vec(-1.0f64..1.0, CONTENTS),
        fate in proptest::collection::vec(0u8..3, CONTENTS),
        gamma in 0.0f64..1.0,
        share in 0.0f64..1.0,
        t in 1usize..CONTENTS,
        mut cuts in proptest::collection::vec(-3.0f64..3.0, 1..8),
    ) {
        cuts.sort_by(f64::total_cmp);
        // The mask has a gradient too: replace.
        let masked = cells(-1.0, sigma, &cuts);
        let outcomes = masked.len();
        let n = CONTENTS as f64;
        let replaced = pair(sigma, Neighbours::Replace);
        // The best list at each outcome, and content given away where both policies miss.
        let best = |laws: &[Vec<f64>], given: f64| -> f64 {
            given + (0..outcomes).map(|y| {
                let mut column: Vec<f64> = laws.iter().map(|law| law[y] / n).collect();
                column.sort_by(|a, b| b.total_cmp(a));
                column[..t.min(column.len())].iter().sum::<f64>()
            }).sum::<f64>()
        };
        let missed: Vec<Vec<f64>> = moves.iter().map(|x| cells(*x, sigma, &cuts)).collect();
        // By content: caught, missed and flagged, or given away.
        let hidden: Vec<Vec<f64>> = fate.iter().zip(&missed).filter(|(f, _)| **f < 2)
            .map(|(f, run)| if *f == 0 { masked.clone() } else { run.clone() }).collect();
        let (eta, private) = (fate.iter().filter(|f| **f == 2).count(), fate.iter().filter(|f| **f == 1).count());
        let redaction = Redaction::new(rate((eta + private) as f64 / n), rate(eta as f64 / n)).unwrap();
        let ceiling = guess_ceiling(&replaced, redaction, CONTENTS as u64, t as u64, MissedBy::Content, tight()).unwrap();
        let truth = best(&hidden, eta as f64 / n).min(1.0);
        prop_assert!(truth <= ceiling.get().get() + 1e-9, "{truth} {ceiling:?}");
        // By chance: every content alike.
        let eta = gamma * share;
        let laws: Vec<Vec<f64>> = missed.iter().map(|run| mix(&[(1.0 - gamma, &masked), (gamma - eta, run)])).collect();
        let redaction = Redaction::new(rate(gamma), rate(eta)).unwrap();
        let ceiling = guess_ceiling(&replaced, redaction, CONTENTS as u64, t as u64, MissedBy::Chance, tight()).unwrap();
        let truth = best(&laws, eta).min(1.0);
        prop_assert!(truth <= ceiling.get().get() + 1e-9, "{truth} {ceiling:?}");
    }
}

/// Tight: one content in ten is missed and the adversary knows which. Guess it when the outcome
/// says so and any other one otherwise: t/N + γ·TV.
#[test]
fn a_known_miss_gains_the_total_variation() {
    let (sigma, n) = (1.3, 10u64);
    let redaction = Redaction::single_policy(rate(0.1));
    let replaced = pair(sigma, Neighbours::Replace);
    let ceiling = guess_ceiling(&replaced, redaction, n, 1, MissedBy::Content, tight()).unwrap();
    let total_variation = phi(1.0 / sigma) - phi(-1.0 / sigma);
    let truth = 0.1 + 0.1 * total_variation;
    assert!(
        (ceiling.get().get() / truth - 1.0).abs() < 1e-8,
        "{ceiling:?} {truth}"
    );
    // Misses by chance amplify instead, and nothing missed leaves the prior.
    let chance = guess_ceiling(&replaced, redaction, n, 1, MissedBy::Chance, tight()).unwrap();
    assert!(chance.get() < ceiling.get());
    let none = Redaction::single_policy(rate(0.0));
    for by in [MissedBy::Content, MissedBy::Chance] {
        let left = guess_ceiling(&replaced, none, n, 1, by, tight()).unwrap();
        assert!((left.get().get() - 0.1).abs() < 1e-12);
    }
    assert!(guess_ceiling(&replaced, none, n, 11, MissedBy::Chance, tight()).is_err());
}

/// Tight: the Gaussian attack attains the membership ceilings; AUC = Φ(μ/√2).
#[test]
fn the_gaussian_attack_attains_the_membership_ceilings() {
    let add_remove = pair(0.8, Neighbours::AddRemove);
    let cut = 2.0;
    let ceiling = add_remove
        .true_positive_rate(probability(phi(-cut)), tight())
        .unwrap()
        .bounds
        .upper
        .unwrap();
    assert!((ceiling.get().get() / phi(1.25 - cut) - 1.0).abs() < 1e-8);
    let area = area_ceiling(&add_remove, 400, tight()).unwrap().get().get();
    let truth = phi(1.25 / std::f64::consts::SQRT_2);
    assert!(area >= truth && area < truth + 1e-3, "{area} {truth}");
    assert!(area_ceiling(&add_remove, 0, tight()).is_err());
}

/// Trap: 1 − (1−B)^m for the maximum of m. A run that reveals one random secret of m attains the sum.
#[test]
fn one_random_secret_of_m_attains_the_sum() {
    let (m, each) = (10usize, 0.1);
    // Secret j is revealed with probability 1/m, never together with another.
    let bounds = vec![Upper::new(probability(each)); m];
    let truth = m as f64 * each;
    assert!((at_least_ceiling(&bounds, 1).unwrap().get().get() - truth).abs() < 1e-12);
    assert!(1.0 - (1.0 - each).powi(m as i32) < 0.66);
    // At least v: v secrets hit at once with probability Σ B/v, otherwise none.
    let five = at_least_ceiling(&bounds, 5).unwrap();
    assert!((five.get().get() - 0.2).abs() < 1e-12);
    assert!(at_least_ceiling(&bounds, 0).is_err());
}

/// More copies, more canaries and more bits, in order; after deduplication one copy is left.
#[test]
fn exposure_ceilings_are_ordered() {
    let run = super::finite::dp_sgd(2.0, 0.01, 500);
    let of = |copies| loss(&run, query(Neighbours::ZeroOut, copies), Direction::Remove);
    let level = probability(0.95);
    let bits = |copies, canaries| {
        *best_exposure_ceiling(&of(copies), canaries, level, tight())
            .unwrap()
            .get()
    };
    let (one, ten, copies) = (bits(1, 1), bits(1, 10), bits(20, 10));
    assert!(one < ten && ten < copies, "{one} {ten} {copies}");
    // Without training: m·2^−bits = 0.05.
    let nothing = loss(
        &reticent_accounting::Mechanism::Sequence { parts: Vec::new() },
        query(Neighbours::ZeroOut, 1),
        Direction::Remove,
    );
    let null = *best_exposure_ceiling(&nothing, 10, level, tight())
        .unwrap()
        .get();
    assert!(null >= 200f64.log2() && null < 200f64.log2() + 1e-4);
    // The bits it gives keep the promise, a little fewer do not.
    let at = |bits| {
        at_least_ceiling(&[exposure_ceiling(&of(20), bits, tight()).unwrap(); 10], 1).unwrap()
    };
    assert!(at(copies).get().get() <= 0.05 && at(copies - 1e-3).get().get() > 0.05);
    assert!(exposure_ceiling(&of(1), -1.0, tight()).is_err());
    assert!(best_exposure_ceiling(&of(1), 0, level, tight()).is_err());
}
