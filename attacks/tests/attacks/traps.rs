//! Validity traps seen in other tools, those that no other test of this folder names.

use crate::membership::level;
use crate::models::{Bigram, ByBatch, Levels, Toy, Uniform};
use crate::search::{digits, quiet};
use reticent_attacks::exposure::{Sampling, sampled_exposures};
use reticent_attacks::extract::{SecretCase, reconstruct};
use reticent_attacks::membership::digit_mutations;
use reticent_attacks::search::{
    CandidateTree, SearchOptions, Target, flat_ranks, search_ranks, tie_tolerance,
};
use reticent_backends::AGREEMENT;
use reticent_corpus::Unit;
use reticent_corpus::canary::{CanaryOptions, CanaryPlan, Carriers, CopyFate, Spec};
use reticent_corpus::policy::{PatternRule, PolicyChoice};
use reticent_corpus::prepare::{CanarySight, PrepareOptions, Preparer};
use reticent_corpus::simulate::simulate;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

fn plan(canaries: u32, template: &str, distinct: bool, seed: u64) -> CanaryPlan {
    let options = CanaryOptions {
        template: template.parse().unwrap(),
        distinct,
        seed,
        ..CanaryOptions::new(Spec::new(canaries, 1).unwrap())
    };
    CanaryPlan::new(&options, Unit::Turn, &simulate(5, 0).unwrap()).unwrap()
}

/// T1: a generator that sorts after a duplicate and keeps the lowest draws secrets from the low
/// half alone. 300 of 1000 distinct secrets, 40 seeds: 12 000 draws without replacement, whose
/// share below the middle has a standard deviation of 0.0038 at most; 0.48 to 0.52 is left with
/// probability 1e-7. The same for each tenth: mean 1200, deviation 28 at most, five deviations.
#[test]
fn secrets_are_uniform_with_and_without_duplicates() {
    for distinct in [true, false] {
        let mut tenths = [0_u32; 10];
        for seed in 0..40 {
            let plan = plan(300, "My ID is: {digits:3}", distinct, seed);
            let mut secrets: Vec<&str> = plan.canaries.iter().map(|c| c.secret.as_str()).collect();
            for secret in &secrets {
                tenths[usize::from(secret.as_bytes()[0] - b'0')] += 1;
            }
            assert!(secrets.windows(2).any(|w| w[0] > w[1]), "not in order");
            secrets.sort_unstable();
            secrets.dedup();
            assert_eq!(secrets.len() == 300, distinct, "seed {seed}");
        }
        let low: u32 = tenths[..5].iter().sum();
        assert!((5760..=6240).contains(&low), "{distinct}: {low}");
        let even = tenths.iter().all(|n| n.abs_diff(1200) < 160);
        assert!(even, "{distinct}: {tenths:?}");
    }
    // Neighbours of a text: 600 of 999, many duplicates on the way.
    let near = digit_mutations("ID 500", 600, 1).unwrap();
    let low = near.iter().filter(|t| t.as_str() < "ID 500").count();
    assert!((260..=340).contains(&low), "{low}"); // mean 300, deviation 8
}

/// T11: packing several copies into one training unit changes what one record is. No record of
/// ours holds two copies without being counted once, and places are random, not evenly spaced:
/// the gaps between neighbouring copies vary as those of uniform places do (their coefficient of
/// variation is near 1; evenly spaced copies have 0).
#[test]
fn a_record_is_one_unit_and_places_are_random() {
    let documents = simulate(200, 1).unwrap();
    for unit in [Unit::Turn, Unit::Dialogue] {
        let options = PrepareOptions {
            unit,
            canaries: Some(CanaryOptions::new(Spec::new(5, 20).unwrap())),
            ..PrepareOptions::default()
        };
        let prepared = Preparer::new(&documents, &options).unwrap().run().unwrap();
        let preflight = prepared.facts.canaries.as_ref().unwrap();
        assert!(preflight.passes(), "{preflight}");
        for canary in 0..5 {
            let mut records: Vec<u64> = preflight
                .copies
                .iter()
                .filter(|c| c.canary == canary)
                .filter_map(|c| c.record)
                .collect();
            records.sort_unstable();
            let all = records.len();
            records.dedup();
            assert_eq!(preflight.survivors(canary), records.len() as u64);
            match unit {
                Unit::Turn => assert_eq!(records.len(), all, "one copy a turn"),
                _ => assert!(records.len() <= all),
            }
        }
    }
    let plan = CanaryPlan::new(
        &CanaryOptions::new(Spec::new(10, 20).unwrap()),
        Unit::Turn,
        &documents,
    )
    .unwrap();
    let order: BTreeMap<&str, usize> = documents
        .iter()
        .enumerate()
        .map(|(i, d)| (d.id.as_str(), i))
        .collect();
    let mut places: Vec<usize> = plan
        .canaries
        .iter()
        .flat_map(|c| &c.insertions)
        .map(|i| order[i.document.as_str()] * 100 + i.line as usize)
        .collect();
    places.sort_unstable();
    let gaps: Vec<f64> = places.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!(variance.sqrt() / mean > 0.7, "{}", variance.sqrt() / mean);
}

/// T12: a canary whose loss was masked, cut off or deduplicated away was never trained on, and an
/// audit of it would say "clean". The pre-flight says which copies are left, so that no audit
/// counts them.
#[test]
fn canaries_without_loss_do_not_pass() {
    let documents = simulate(60, 2).unwrap();
    let with = |change: fn(&mut PrepareOptions)| {
        let mut options = PrepareOptions {
            canaries: Some(CanaryOptions::new(Spec::new(3, 4).unwrap())),
            ..PrepareOptions::default()
        };
        change(&mut options);
        let prepared = Preparer::new(&documents, &options).unwrap().run().unwrap();
        prepared.facts.canaries.unwrap()
    };
    assert!(with(|_| ()).passes());
    let cut = with(|o| o.max_tokens = Some(12));
    assert!(!cut.passes() && cut.count(CopyFate::Truncated) == 12);
    assert!((0..3).all(|canary| cut.survivors(canary) == 0));
    assert_eq!(cut.reached(), 0);
    let masked = with(|o| {
        o.canary_sight = CanarySight::Ordinary;
        o.policy.policy = PolicyChoice::Patterns {
            rules: vec![PatternRule {
                kind: "id".to_owned(),
                pattern: r"\b\d{6}\b".to_owned(),
            }],
        };
    });
    assert!(
        !masked.passes() && masked.count(CopyFate::Masked) == 12,
        "{masked}"
    );
    let alike = with(|o| {
        if let Some(canaries) = &mut o.canaries {
            canaries.carriers = Carriers::Same;
        }
    });
    assert!(alike.count(CopyFate::Deduplicated) == 9 && alike.survivors(0) == 1);
}

/// T13: a rank does not depend on how many candidates are scored at once, and noise of the size
/// that batching makes (below the tolerance) moves no candidate past a canary: it counts as a
/// tie, against the canary.
#[test]
fn ranks_do_not_depend_on_the_batch() {
    let positions: Vec<Vec<Vec<u32>>> = vec![(0..10).map(|t| vec![t]).collect(); 3];
    let tree = CandidateTree::new(&positions).unwrap();
    let targets: Vec<Target> = (0..4_u32)
        .map(|i| Target {
            context: vec![1, 2],
            secret: vec![i, 9 - i, (3 * i) % 10],
        })
        .collect();
    let mut go = |_: &reticent_attacks::search::Progress| ControlFlow::Continue(());
    for levels in [Levels::Smooth, Levels::Coarse] {
        let mut all = Vec::new();
        for batch in [1, 7, 256, 5000] {
            let mut model = Toy::new(Bigram::random(10, levels, 6));
            let options = SearchOptions {
                batch,
                ..SearchOptions::default()
            };
            let searched = search_ranks(&mut model, &tree, &targets, &options, &mut go).unwrap();
            let flat = flat_ranks(&mut model, &tree, &targets, &options).unwrap();
            assert_eq!(searched.counts, flat);
            all.push(searched.counts);
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }
    // Equal scores but for noise of 1e-7: everything is a tie, nothing outranks a canary.
    let mut noisy = Toy::new(Uniform::noisy(10, 1e-7));
    let options = SearchOptions {
        tie_tolerance: 1e-5,
        ..SearchOptions::default()
    };
    let ranking = search_ranks(&mut noisy, &tree, &targets, &options, &mut go).unwrap();
    for count in ranking.counts {
        assert_eq!((count.below, count.ties), (0, 999));
        assert_eq!(count.rank_max(), 1000);
    }
}

/// T13 where the batch decides: a canary's own path is scored in smaller batches than its candidates, and a model that
/// prefers nothing, but says a little more in small batches, ranked every canary first.
#[test]
fn what_batches_alone_make_is_no_leak() {
    let tree = digits(3);
    let targets: Vec<Target> = (0..4)
        .map(|i| Target {
            context: vec![1, 2],
            secret: vec![i, 9 - i, 3],
        })
        .collect();
    // What sums round to, and what a model behind a command may differ by.
    for (more, rounding) in [(1e-6, 0.0), (0.009, AGREEMENT)] {
        let mut model = ByBatch { more, rounding };
        let options = SearchOptions {
            tie_tolerance: tie_tolerance(&model, 3),
            ..SearchOptions::default()
        };
        let found = search_ranks(&mut model, &tree, &targets, &options, &mut quiet()).unwrap();
        for count in found.counts {
            assert_eq!((count.below, count.ties), (0, 999), "{more}");
        }
        // The last batch of the sample is a small one.
        let sampling = Sampling {
            sample: 510,
            batch: 64,
            seed: 1,
        };
        let mut go = |_: u64| ControlFlow::Continue(());
        let found =
            sampled_exposures(&mut model, &tree, &targets, sampling, level(0.95), &mut go).unwrap();
        for found in found {
            assert_eq!((found.sample, found.at_or_below), (510, 510), "{more}");
            assert!(found.at_most.get().is_infinite(), "{more}");
        }
        // 16 candidates, and 4 in a batch of their own.
        let candidates: Vec<Vec<u32>> = (0..20).map(|number| tree.candidate(number)).collect();
        let case = SecretCase {
            id: "s".to_owned(),
            context: vec![1, 2],
            secret: candidates[19].clone(),
            candidates,
            prior: 0.05,
            posterior: 0.5,
            group: 0,
            number: 0,
        };
        let mut go = |_: usize| ControlFlow::Continue(());
        let found = reconstruct(&mut model, &[case], 0.05, 80, &mut go).unwrap();
        assert_eq!(found.ranks, [("s".to_owned(), 20)], "{more}");
    }
}
