//! Exposure from samples of the candidates, and its extrapolation.

use crate::membership::{level, normal};
use crate::models::{Bigram, Levels, Toy};
use crate::search::quiet;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::exposure::{SampledExposure, Sampling, SkewNormal, sampled_exposures};
use reticent_attacks::search::{CandidateTree, SearchOptions, Target, search_ranks};
use std::ops::ControlFlow;

/// Skew-normal costs: ξ + ω (δ|u| + √(1 − δ²) v).
fn skewed(rng: &mut ChaCha8Rng, count: usize, law: &SkewNormal) -> Vec<f64> {
    let delta = law.shape / (1.0 + law.shape * law.shape).sqrt();
    (0..count)
        .map(|_| {
            let z = delta * normal(rng).abs() + (1.0 - delta * delta).sqrt() * normal(rng);
            law.location + law.scale * z
        })
        .collect()
}

/// Golden: 10 000 candidates with nothing below certify 11.7 bits, −log2(1 − 0.05^{1e-4}).
#[test]
fn a_sample_certifies_what_it_can() {
    let costs: Vec<f64> = (0..10_000).map(|i| 20.0 + f64::from(i)).collect();
    let found = SampledExposure::of(&costs, 10.0, 0.0, level(0.95)).unwrap();
    assert_eq!((found.sample, found.at_or_below), (10_000, 0));
    assert!((found.at_least.get() - 11.705_020).abs() < 1e-5);
    assert!(found.at_most.get().is_infinite());
    assert!((found.point.into_inner() - 10_001_f64.log2()).abs() < 1e-12);
    assert!(SampledExposure::of(&[], 1.0, 0.0, level(0.95)).is_err());
    for tolerance in [-1e-5, f64::NAN, f64::INFINITY] {
        assert!(SampledExposure::of(&costs, 10.0, tolerance, level(0.95)).is_err());
    }
    // What is not a number is neither below nor above: 1000 of them would certify 8.39 bits.
    for (costs, nll) in [([f64::NAN; 1000], 5.0), ([7.0; 1000], f64::NAN)] {
        assert!(SampledExposure::of(&costs, nll, 0.0, level(0.95)).is_err());
    }
    // A model that prefers nothing: its canary may be the last of those alike, or the first.
    let alike = SampledExposure::of(&[1.0; 100], 1.0, 0.0, level(0.95)).unwrap();
    assert!(*alike.at_least.get() <= 0.0 && alike.at_most.get().is_infinite());
    // And so are those whose difference is rounding, in either direction.
    for nll in [0.99, 1.01] {
        let close = SampledExposure::of(&[1.0; 100], nll, 0.02, level(0.95)).unwrap();
        assert!(*close.at_least.get() <= 0.0 && close.at_most.get().is_infinite());
    }
}

/// Both ends against the exact rank, on 1000 random models of 1000 candidates with a sample of 200:
/// each end may fail in 5 % of cases; 78 or more would come once in 1e4 for one end.
#[test]
fn ends_cover_the_exact_exposure() {
    let digit: Vec<Vec<u32>> = (0..10).map(|t| vec![t]).collect();
    let tree = CandidateTree::new(&vec![digit; 3]).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut wrong = [0, 0];
    for seed in 0..1000 {
        let mut model = Toy::new(Bigram::random(10, Levels::Smooth, seed));
        let target = Target {
            context: vec![1],
            secret: (0..3).map(|_| rng.random_range(0..10)).collect(),
        };
        let targets = [target];
        let options = SearchOptions::default();
        let exact = search_ranks(&mut model, &tree, &targets, &options, &mut quiet()).unwrap();
        let bits = 1000_f64.log2() - (exact.counts[0].rank_max() as f64).log2();
        let found = sampled_exposures(
            &mut model,
            &tree,
            &targets,
            Sampling {
                sample: 200,
                batch: 64,
                seed,
            },
            level(0.95),
            &mut |_| ControlFlow::Continue(()),
        )
        .unwrap();
        wrong[0] += u32::from(*found[0].at_least.get() > bits + 1e-9);
        wrong[1] += u32::from(*found[0].at_most.get() < bits - 1e-9);
        assert_eq!(model.alive(), 0);
    }
    assert!(wrong.iter().all(|w| *w < 78), "{wrong:?}");
}

/// Laws that are known: the fit finds them, and its exposure is within a tenth of the truth's.
#[test]
fn the_fit_finds_the_law() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for shape in [-3.0, 0.0, 1.5, 4.0] {
        let law = SkewNormal {
            shape,
            location: 30.0,
            scale: 4.0,
        };
        let costs = skewed(&mut rng, 20_000, &law);
        let fitted = SkewNormal::fit(&costs).unwrap();
        let mean = |l: &SkewNormal| {
            l.location
                + l.scale * l.shape / (1.0 + l.shape * l.shape).sqrt()
                    * (2.0 / std::f64::consts::PI).sqrt()
        };
        assert!((mean(&fitted) - mean(&law)).abs() < 0.1, "{fitted:?}");
        let at = mean(&law) - 12.0;
        let bits = |l: &SkewNormal| l.exposure(at).unwrap().into_inner();
        let ratio = bits(&fitted) / bits(&law);
        assert!((0.85..1.15).contains(&ratio), "{shape}: {ratio}");
    }
}

/// Two peaks, steps, too few, no spread: no law, and a reason.
#[test]
fn what_follows_no_law_is_refused() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let peaks: Vec<f64> = (0..5000)
        .map(|i| normal(&mut rng) + if i % 2 == 0 { 0.0 } else { 6.0 })
        .collect();
    let steps: Vec<f64> = (0..5000).map(|_| normal(&mut rng).round()).collect();
    for (costs, says) in [
        (peaks, "does not fit"),
        (steps, "discrete"),
        (vec![1.0; 10], "too few"),
        (vec![2.0; 2000], "spread"),
    ] {
        let why = SkewNormal::fit(&costs).unwrap_err();
        assert!(why.contains(says), "{why}");
        let found = SampledExposure::of(&costs, 0.5, 0.0, level(0.95)).unwrap();
        assert_eq!(found.fitted.unwrap_err(), why);
    }
}
