//! Ends that were missing: guesses after plain Gaussians, Rényi rows of truncated batches, and the
//! confidence that a sample of finitely many supports.

use reticent_accounting::confidentiality::{Label, LabelledSecrets};
use reticent_accounting::statistics::LabelledSample;
use reticent_accounting::{
    Confidence, Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

fn repeated(each: Mechanism, times: u64) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

/// An answer that is always the true one, or with two categories never, tells any two contents apart. It had no lower ends.
#[test]
fn a_certain_response_has_both_ends() {
    let certain = |truth: f64, categories| Mechanism::RandomisedResponse {
        truth: Probability::new(truth).unwrap(),
        categories,
    };
    let noisy = Mechanism::Gaussian {
        noise_multiplier: NoiseMultiplier::new(3.0).unwrap(),
    };
    let of = |run: &Mechanism, group| {
        let query = Query::replace(GroupSize::new(group).unwrap());
        PrivacyLoss::of(run, query, Direction::Remove).unwrap()
    };
    let mixed = Mechanism::Sequence {
        parts: vec![noisy, certain(1.0, 3)],
    };
    for run in [
        certain(1.0, 2),
        certain(1.0, 3),
        certain(0.0, 2),
        repeated(certain(1.0, 3), 5),
        mixed,
    ] {
        for group in [1, 3] {
            let loss = of(&run, group);
            let epsilon = loss
                .epsilon(Delta::new(0.5).unwrap(), Tolerance::DEFAULT)
                .unwrap();
            assert_eq!(epsilon.looseness, None, "{run:?}");
            assert!(epsilon.bounds.lower.unwrap().get().get().is_infinite());
            let delta = loss
                .delta(Epsilon::new(50.0).unwrap(), Tolerance::DEFAULT)
                .unwrap();
            assert!(delta.bounds.lower.unwrap().get().get() >= 1.0, "{run:?}");
            for x in [0.0, 1e-6, 0.5] {
                let guess = loss.blow_up(Probability::new(x).unwrap(), Tolerance::DEFAULT);
                let lower = guess.unwrap().bounds.lower.unwrap();
                assert!(lower.get().get() >= 1.0, "{run:?} {x}");
            }
        }
    }
}

/// Ten records in thirty plain Gaussians: B(x) = Φ(Φ⁻¹(x) + μ) with μ = 10√30/σ. The lower end was the
/// prior itself beside an upper end of one.
#[test]
fn guesses_after_plain_gaussians_are_a_closed_form() {
    for (sigma, prior) in [
        (0.3, 1e-6),
        (1.0, 7e-7),
        (3.0, 1e-300),
        (10.0, 1e-6),
        (500.0, 0.9),
    ] {
        let noise_multiplier = NoiseMultiplier::new(sigma).unwrap();
        let run = repeated(Mechanism::Gaussian { noise_multiplier }, 30);
        let query = Query {
            neighbours: Neighbours::ZeroOut,
            group: GroupSize::new(10).unwrap(),
        };
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let prior = Probability::new(prior).unwrap();
        let ends = loss.blow_up(prior, Tolerance::DEFAULT).unwrap().bounds;
        let (low, high) = (
            ends.lower.unwrap().get().get(),
            ends.upper.unwrap().get().get(),
        );
        assert!(
            low <= high && high - low <= 1e-9 * high,
            "{sigma}: {low} {high}"
        );
        // The tests themselves: half-lines from z on, by the tail's own series.
        let tail = |z: f64| 0.5 * libm::erfc(z / std::f64::consts::SQRT_2);
        let (mut left, mut right) = (-40.0f64, 40.0);
        for _ in 0..200 {
            let middle = 0.5 * (left + right);
            if tail(middle) > prior.get() {
                left = middle
            } else {
                right = middle
            }
        }
        let truth = tail(right - 10.0 * 30f64.sqrt() / sigma);
        assert!((high / truth - 1.0).abs() < 1e-9, "{sigma}: {high} {truth}");
    }
}

/// The best order of a law that ends somewhere has no end itself: lower ones have to do.
#[test]
fn renyi_rows_of_truncated_batches_are_finite() {
    for (sigma, steps) in [(0.5, 1), (1.0, 1), (1.0, 2), (4.0, 1), (4.0, 10)] {
        let each = Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
            sampling_rate: SamplingRate::new(0.01).unwrap(),
            sampling: Sampling::TruncatedPoisson {
                max_batch: 20,
                records: 1000,
            },
        };
        let run = repeated(each, steps);
        let delta = Delta::new(1e-6).unwrap();
        for direction in Direction::BOTH {
            let query = Query::single(Neighbours::AddRemove);
            let loss = PrivacyLoss::of(&run, query, direction).unwrap();
            let renyi = loss.epsilon_by_rdp(delta).unwrap().0.get().get();
            let own = loss
                .epsilon(delta, Tolerance::new(1e-4).unwrap())
                .unwrap()
                .bounds;
            let own = own.upper.unwrap().get().get();
            // Looser than the law's own end, and not absurdly so.
            assert!(
                renyi >= own * (1.0 - 1e-3),
                "{sigma} {steps} {direction:?}: {renyi} {own}"
            );
            assert!(
                renyi <= 30.0 * own + 1.0,
                "{sigma} {steps} {direction:?}: {renyi} {own}"
            );
        }
    }
}

/// A hypergeometric count has the lighter tail only beyond the middle.
#[test]
fn samples_of_finitely_many_support_no_low_confidence() {
    let label = |i| Label {
        kind: "any".into(),
        missed: i < 20,
        missed_by_conservative: Some(false),
        secret: None,
        place: None,
        records: None,
        population: None,
        measured_for: None,
    };
    let labels = LabelledSecrets::gather((0..200).map(label)).unwrap();
    let sample = LabelledSample {
        labelled: 200,
        missed: 20,
    };
    for low in [0.01, 0.5, 0.7499] {
        let confidence = Confidence::new(low).unwrap();
        let why = labels.rates(confidence).unwrap_err().to_string();
        assert!(
            why.contains("[0.75, 1)") && why.contains(&low.to_string()),
            "{why}"
        );
        assert!(sample.miss_rate(confidence).is_err());
    }
    let confidence = Confidence::new(0.75).unwrap();
    assert!(labels.rates(confidence).is_ok() && sample.miss_rate(confidence).is_ok());
}

/// The best order of very many steps lies next to one, where none was tried: the row was infinite.
#[test]
fn renyi_rows_of_very_many_steps_are_finite() {
    for (scale, steps) in [(0.6184, 417_271_542), (0.4735, 101_191_004)] {
        let each = Mechanism::Laplace {
            scale: NoiseMultiplier::new(scale).unwrap(),
        };
        let query = Query::single(Neighbours::ZeroOut);
        let loss = PrivacyLoss::of(&repeated(each, steps), query, Direction::Add).unwrap();
        let delta = Delta::new(8e-6).unwrap();
        let renyi = loss.epsilon_by_rdp(delta).unwrap().0.get().get();
        // E L = 1/b − 1 + e^{−1/b} a step, and the steps' spread is next to nothing beside it.
        let mean = steps as f64 * (1.0 / scale - 1.0 + (-1.0 / scale).exp());
        assert!(
            renyi > mean && renyi < 1.01 * mean,
            "{scale}: {renyi} {mean}"
        );
    }
}
