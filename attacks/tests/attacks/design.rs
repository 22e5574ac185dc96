//! What a planned audit is expected to prove, against audits whose every candidate is scored.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Delta};
use reticent_attacks::Draw;
use reticent_attacks::evalue::{Beliefs, PlannedAudit};
use reticent_attacks::exposure::{EpsilonMethod, RankAudit};
use reticent_attacks::search::RankCount;
use reticent_corpus::Unit;

fn planned(candidates: u64, canaries: u64, delta: f64) -> PlannedAudit {
    let rank = RankAudit {
        thresholds: RankAudit::planned_thresholds(candidates, 1),
        confidence: Confidence::new(0.95).unwrap(),
        delta: Delta::new(delta).unwrap(),
        draw: Draw::Independent,
        unit: Unit::Turn,
        copies: 1,
    };
    PlannedAudit::new(rank, candidates, canaries).unwrap()
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// An audit as it runs: every candidate has a score of its own, and beliefs follow from NLLs.
fn realised(audit: &PlannedAudit, mu: f64, seed: u64) -> f64 {
    let (candidates, canaries) = audit.of();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut counts, mut guesses) = (Vec::new(), Vec::new());
    for _ in 0..canaries {
        let mut nlls: Vec<f64> = (0..candidates).map(|_| -mu * normal(&mut random)).collect();
        nlls[0] -= mu * mu;
        counts.push(RankCount {
            candidates,
            nll: nlls[0],
            below: nlls[1..].iter().filter(|nll| **nll < nlls[0]).count() as u64,
            ties: 0,
            unresolved: 0,
        });
        let each = audit.by_evalue.tempers.iter().map(|temper| {
            let belief = temper.beliefs(&nlls).unwrap();
            Beliefs::full(&belief, audit.by_evalue.pool)
                .unwrap()
                .guess(belief[0])
                .unwrap()
        });
        guesses.push(each.collect());
    }
    audit.bound(&counts, &guesses).unwrap().lower.get().get()
}

/// Predicted against realised: means of 20 audits each, seeds 0 to 19 (the two draw other scores).
/// They differ by sampling, 4 standard errors of either, and by 3 % of 1 + ε for the candidates that
/// are not drawn one by one.
#[test]
fn predicted_against_realised() {
    for (mu, candidates, canaries, delta) in [
        (1.0, 100, 100, 0.0),
        (2.0, 1_000, 60, 1e-6),
        (3.0, 1_000, 60, 0.0),
        (3.0, 1_000, 10, 1e-6),
    ] {
        let audit = planned(candidates, canaries, delta);
        let predicted = audit.predict(mu, 20).unwrap();
        let bounds: Vec<f64> = (0..20)
            .map(|seed| realised(&audit, mu, 100 + seed))
            .collect();
        let mean = bounds.iter().sum::<f64>() / 20.0;
        let variance = bounds.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / 19.0;
        let allowed = 4.0 * (2.0 * variance / 20.0).sqrt() + 0.03 * (1.0 + mean);
        let said = predicted.mean.get().get();
        assert!(
            (said - mean).abs() <= allowed,
            "μ {mu}, N {candidates}, m {canaries}: {said} predicted, {mean} found ± {allowed}"
        );
        // The quick estimate orders plans: within a fifth of 1 + ε.
        let quick = audit.expected(mu, 0).unwrap().get().get();
        assert!(
            (quick - mean).abs() <= 0.2 * (1.0 + mean),
            "{quick} for {mean}"
        );
        assert!(said <= audit.provable().unwrap().get().get());
        assert!(predicted.tenth.get() <= predicted.mean.get());
        assert!(predicted.mean.get() <= predicted.ninetieth.get());
    }
}

/// The optimum moves with the leak: N = 100 proves more than N = 2 at μ = 1, N = 1000 at μ = 3.
#[test]
fn the_best_number_of_candidates_moves() {
    let expected = |mu: f64, candidates: u64| {
        let audit = planned(candidates, 100, 0.0);
        audit.expected(mu, 1).unwrap().get().get()
    };
    assert!(expected(1.0, 100) > expected(1.0, 2));
    assert!(expected(3.0, 1_000) > 2.0 * expected(3.0, 2));
    assert!(expected(0.0, 100) <= 0.0);
}

#[test]
fn a_shift_has_its_total_variation() {
    // 2 Φ(1/2) − 1 = .3829.
    assert!((PlannedAudit::shift_of(0.382_924_922_548_026) - 1.0).abs() < 1e-9);
    assert!(PlannedAudit::shift_of(0.0).abs() < 1e-12);
    assert!(PlannedAudit::shift_of(1.0) > 10.0);
}

/// Power rises with the leak, and is none where the promise can't be contradicted.
#[test]
fn power() {
    let audit = planned(1_000, 60, 1e-6);
    assert_eq!(audit.decides(), EpsilonMethod::EValue);
    let level = |epsilon| reticent_accounting::Epsilon::new(epsilon).unwrap();
    let power = |mu: f64, promised: f64| audit.power(mu, level(promised), 20).unwrap().get().get();
    assert!(power(3.0, 2.0) > 0.9 && power(1.0, 4.0) < 0.2);
    assert!(power(8.0, 60.0) <= 0.0);
    // A share of no runs is no power.
    assert!(audit.predict(1.0, 0).is_err() && audit.power(3.0, level(2.0), 0).is_err());
    assert!(audit.power(f64::NAN, level(2.0), 1).is_err() && audit.expected(f64::NAN, 1).is_err());
}

/// A bound that is shown beside a verdict has the verdict's pool, whatever its own confidence: planned, shown and tested one by
/// one, the most that it can prove is the same. By itself it would have another pool: 300 canaries of 10⁴ candidates
/// would prove 12.3035 at most, where they prove 12.3078.
#[test]
fn a_bound_at_another_confidence_has_the_pool_of_the_verdict() {
    let mut others = 0;
    for (candidates, canaries) in [(100, 100), (1000, 100), (1000, 1000), (10_000, 300)] {
        let alone = planned(candidates, canaries, 1e-6);
        let strict = PlannedAudit::new(
            RankAudit {
                confidence: Confidence::new(0.9995).unwrap(),
                ..alone.by_rank.clone()
            },
            candidates,
            canaries,
        )
        .unwrap();
        let shown = strict.at(alone.by_rank.confidence);
        assert_eq!(shown.by_evalue.pool, strict.by_evalue.pool);
        assert_eq!(shown.decides(), strict.decides());
        assert_eq!(shown.by_rank, alone.by_rank);
        let most = |audit: &PlannedAudit| audit.by_evalue.provable().unwrap().get().get();
        others += u32::from(most(&shown) > most(&alone));
        if (candidates, canaries) == (10_000, 300) {
            assert!((most(&shown) - 12.307_838).abs() < 1e-6);
            assert!((most(&alone) - 12.303_543).abs() < 1e-6);
        }
    }
    assert_eq!(others, 3);
}
