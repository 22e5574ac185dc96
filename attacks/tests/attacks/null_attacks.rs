//! What 1000 models without anything to find show to shadow models and to extraction. Limits and
//! their error rates as in `null_simulations`.

use crate::membership::{level, normal};
use crate::null_simulations::{LIMIT, excludes, normals, rate};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reticent_attacks::extract::strata;
use reticent_attacks::membership::{
    Lira, Rate, ScoreSet, Shadows, Spread, blind_baseline, lira, logit_of_confidence, rmia,
};

/// Records a side.
const RECORDS: usize = 30;

/// Mean ln p of every record under a model that saw none of them, and under eight shadow models,
/// four of which were trained on it and find it likelier by `learnt`.
fn audit(rng: &mut ChaCha8Rng, learnt: f64) -> (Vec<f64>, Vec<Shadows>) {
    let confidence = |x: f64| -(-x).exp().ln_1p();
    (0..2 * RECORDS)
        .map(|_| {
            let own = 1.5 * normal(rng);
            let mut four = |by: f64| {
                (0..4)
                    .map(|_| confidence(own + by + 0.5 * normal(rng)))
                    .collect()
            };
            let shadows = Shadows {
                inside: four(learnt),
                outside: four(0.0),
            };
            (confidence(own + 0.5 * normal(rng)), shadows)
        })
        .unzip()
}

/// LiRA in its variants, as the command forms its scores.
#[test]
fn shadow_models_of_a_model_that_saw_nothing() {
    for (seed, learnt) in [(101, 0.0), (102, 1.0)] {
        for (variant, spread) in [
            (Lira::Online, Spread::Shared),
            (Lira::Online, Spread::PerRecord),
            (Lira::Offline, Spread::Shared),
        ] {
            let alarms = rate(seed, |rng| {
                let (targets, shadows) = audit(rng, learnt);
                let logit = |ln_p: &f64| logit_of_confidence(*ln_p);
                let shadows: Vec<Shadows> = shadows
                    .iter()
                    .map(|s| Shadows {
                        inside: s.inside.iter().map(logit).collect(),
                        outside: s.outside.iter().map(logit).collect(),
                    })
                    .collect();
                let targets: Vec<f64> = targets.iter().map(logit).collect();
                let mut scores = lira(&targets, &shadows, variant, spread).unwrap();
                let others = scores.split_off(RECORDS);
                let set = ScoreSet::new(scores, others).unwrap();
                excludes(&set.area(level(0.95), 0).unwrap().bounds, 0.5)
            });
            assert!(alarms <= LIMIT, "{variant:?} {spread:?} {learnt}: {alarms}");
        }
    }
}

/// RMIA with all records as its population.
#[test]
fn relative_ratios_of_a_model_that_saw_nothing() {
    let alarms = rate(103, |rng| {
        let (targets, shadows) = audit(rng, 1.0);
        let population: Vec<(f64, f64)> = targets
            .iter()
            .zip(&shadows)
            .map(|(target, shadow)| {
                let sum: f64 = shadow.outside.iter().map(|ln_p| ln_p.exp()).sum();
                (*target, (sum / 4.0).ln())
            })
            .collect();
        let mut scores: Vec<f64> = population
            .iter()
            .map(|record| rmia(*record, &population, 1.0, 1.0).unwrap())
            .collect();
        let others = scores.split_off(RECORDS);
        let set = ScoreSet::new(scores, others).unwrap();
        excludes(&set.area(level(0.95), 0).unwrap().bounds, 0.5)
    });
    assert!(alarms <= LIMIT, "{alarms}");
}

/// Shares of passages, of all and by number of copies, at small and middling truths.
#[test]
fn intervals_of_shares() {
    for (seed, truth) in [(104, 0.01), (105, 0.3), (106, 0.9)] {
        let misses = rate(seed, |rng| {
            let hits = (0..80).filter(|_| rng.random_bool(truth)).count() as u64;
            excludes(&Rate::of(hits, 80, level(0.95)).unwrap().bounds, truth)
        });
        assert!(misses <= LIMIT, "{truth}: {misses}");
        let misses = rate(seed, |rng| {
            let extracted: Vec<bool> = (0..80).map(|_| rng.random_bool(truth)).collect();
            let copies: Vec<u64> = (0..80).map(|i| if i < 20 { 5 } else { 1 }).collect();
            let found = strata(&extracted, None, &copies, level(0.95)).unwrap();
            excludes(&found[1].beyond_baseline.bounds, truth)
        });
        assert!(misses <= LIMIT, "{truth}, a stratum of 20: {misses}");
    }
}

/// The draws of these tests are what they claim to be: a leak of the same size is found.
#[test]
fn a_model_that_saw_its_members_is_found() {
    let found = rate(107, |rng| {
        let inside: Vec<f64> = normals(rng, RECORDS, 1.0);
        let set = ScoreSet::new(inside, normals(rng, RECORDS, 0.0)).unwrap();
        excludes(&set.area(level(0.95), 0).unwrap().bounds, 0.5)
    });
    assert!(found > 0.9, "{found}");
}

/// Twenty-four documents a side, ten texts each that share a word of theirs: the texts alone tell
/// nothing, and the 120 that are judged a side are no 120 pieces of evidence.
#[test]
fn texts_of_one_document_are_one_piece_of_evidence() {
    let words = ["order", "parcel", "street", "refund", "call", "invoice"];
    let alarms = rate(108, |rng| {
        let mut texts = |first: usize| -> Vec<(String, usize)> {
            (first..first + 24)
                .flat_map(|document| {
                    let own = words[rng.random_range(0..words.len())];
                    (0..10)
                        .map(|_| {
                            let other = words[rng.random_range(0..words.len())];
                            (format!("{own} {other} {own}"), document)
                        })
                        .collect::<Vec<_>>()
                })
                .collect()
        };
        let (members, others) = (texts(0), texts(24));
        let found = blind_baseline(&members, &others, level(0.95), 5).unwrap();
        found.shifted
    });
    assert!(alarms <= LIMIT, "{alarms}");
}
