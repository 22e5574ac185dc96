//! Checks which optimiser sees which record, and which mechanism reaches the accountant.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; the lint exempts test functions only"
)]

use reticent_accounting::training::{NoisySteps, Run, Sizes, Stated, TrainingPlan};
use reticent_accounting::{Mechanism, SamplingRate, UnitName};
use reticent_backends::engine::lstm;
use reticent_backends::model::LstmConfig;
use reticent_backends::privacy::Clip;
use reticent_backends::run::{Surroundings, Trained, train};
use reticent_backends::trainer::{LearningRates, OptimizerSpec};
use reticent_backends::{Device, PrivateOptions, Recipe, Schedule, TrainOptions};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::sync::atomic::AtomicBool;

const CONFIG: LstmConfig = LstmConfig {
    vocabulary: 9,
    embedding: 5,
    hidden: 6,
};

/// Returns twelve public records and eight private ones; `shift` changes the content of the private
/// ones.
fn corpus(shift: u32) -> TrainingSet {
    let record = |side, i: u32, shift: u32| Record {
        side,
        tokens: (0..4 + i % 3)
            .map(|t| (i * 5 + t * 2 + shift) % 9)
            .collect(),
        sensitive: Vec::new(),
        label: None,
        ignored: Vec::new(),
    };
    let public = (0..12).map(|i| record(Side::Public, i, 0));
    let private = (12..20).map(|i| record(Side::Private, i, shift));
    TrainingSet {
        unit: Unit::Turn,
        records: public.chain(private).collect(),
        mask_only: 4,
    }
}

fn options(recipe: Recipe, private_rate: f64) -> TrainOptions {
    let noisy = |records| {
        let rate = SamplingRate::of_share(3, records).unwrap();
        NoisySteps::poisson(1.0, rate.get(), 3).unwrap()
    };
    // the private side: 8 records and 4 points that are only a mask
    let run = match recipe {
        Recipe::Crt => Run::Crt {
            private: Some(noisy(12)),
            public_passes: Stated::given(1, "test"),
            epochs: 3,
        },
        Recipe::Dpsgd => Run::Dpsgd { private: noisy(24) },
        _ => Run::Sgd {
            epochs: Stated::given(3, "test"),
            steps: None,
        },
    };
    let plan = TrainingPlan::new(run, UnitName::new("turn").unwrap());
    let ordinary = OptimizerSpec::Adam {
        learning_rate: 0.01,
    };
    let private = OptimizerSpec::Sgd {
        learning_rate: private_rate,
        momentum: 0.0,
    };
    TrainOptions {
        private: (recipe != Recipe::Sgd).then_some(PrivateOptions::new(1.0, private)),
        learning_rates: LearningRates::CONSTANT,
        initial_seed: 1,
        ..TrainOptions::new(plan, 5, ordinary).seeded(Some(7))
    }
}

fn trained(recipe: Recipe, private_rate: f64, shift: u32) -> Trained {
    let model = lstm(&CONFIG, CONFIG.starting_weights(1), Device::Cpu).unwrap();
    let stop = AtomicBool::new(false);
    train(
        model,
        &options(recipe, private_rate),
        &corpus(shift),
        &Surroundings::in_memory(&stop),
        &mut |_| {},
    )
    .unwrap()
}

/// Returns the released mechanism as if its randomness had not been drawn from a fixed seed.
fn unseeded(trained: &Trained) -> Mechanism {
    let plan = TrainingPlan {
        seeded: false,
        ..trained.ran.plan.clone()
    };
    plan.mechanism()
}

fn weights(trained: &Trained) -> Vec<f32> {
    trained.trainer.weights().concat()
}

/// Returns the largest difference between two models' weights.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.fold(0.0, |most, (x, y)| {
        (f64::from(*x) - f64::from(*y)).abs().max(most)
    })
}

/// A learning rate that moves no weight by more than this (clipped and noised gradients of
/// at most a few units over at most a few dozen steps).
const STILL: f64 = 1e-30;
const NOTHING: f64 = 1e-25;

/// If private steps move nothing, only the public steps have an effect, and they end in
/// the same weights whatever the private records contain.
#[test]
fn the_public_steps_of_crt_see_no_private_record() {
    let still = [0, 4].map(|shift| weights(&trained(Recipe::Crt, STILL, shift)));
    assert!(apart(&still[0], &still[1]) < NOTHING);
    let start = CONFIG.starting_weights(1).concat();
    assert!(apart(&still[0], &start) > 1e-3, "the public steps do train");
    let moved = [0, 4].map(|shift| weights(&trained(Recipe::Crt, 0.1, shift)));
    assert!(
        apart(&moved[0], &moved[1]) > 1e-3,
        "the comparison above can fail"
    );
}

#[test]
fn every_record_of_dpsgd_is_private() {
    let still = weights(&trained(Recipe::Dpsgd, STILL, 0));
    assert!(apart(&still, &CONFIG.starting_weights(1).concat()) < NOTHING);
}

#[test]
fn the_accountant_hears_what_ran() {
    let crt = trained(Recipe::Crt, 0.1, 0);
    let dpsgd = trained(Recipe::Dpsgd, 0.1, 0);
    // |D_pri| with the points that are only a mask: 12 of CRT, 24 of DP-SGD.
    for (run, size) in [(&crt, 12.0), (&dpsgd, 24.0_f64)] {
        let steps = 3 * (size / 3.0_f64).ceil() as u64;
        let mechanism = unseeded(run);
        let Mechanism::Repeat { times, each } = &mechanism else {
            panic!("{mechanism:?}")
        };
        assert_eq!(times.get(), steps);
        let Mechanism::SubsampledGaussian { sampling_rate, .. } = each.as_ref() else {
            panic!("{each:?}")
        };
        assert!((sampling_rate.get() - 3.0 / size).abs() < 1e-15);
    }
    let sgd = unseeded(&trained(Recipe::Sgd, 0.1, 0));
    assert!(matches!(&sgd, Mechanism::NonPrivate { .. }), "{sgd:?}");
}

/// A batch larger than its side is no sampling rate, and a plan for a larger side is refused.
#[test]
fn a_private_batch_larger_than_its_side_is_refused() {
    let error = SamplingRate::of_share(13, 12).unwrap_err().to_string();
    assert!(error.contains("(0, 1]"), "{error}");
    assert!(NoisySteps::poisson(1.0, 13.0 / 12.0, 3).is_err());
    let mut options = options(Recipe::Crt, 0.1);
    options.plan.sizes = Some(Stated::given(
        Sizes {
            public: 12,
            private: 13,
        },
        "test",
    ));
    let error = Schedule::new(&options, &corpus(0)).unwrap_err().to_string();
    assert!(
        error.contains("12 and 12") && error.contains("13"),
        "{error}"
    );
}

/// An account answers a rate of 0; a step divides by the records that it expects.
#[test]
fn steps_whose_batches_hold_no_record_are_not_trained() {
    let mut options = options(Recipe::Dpsgd, 0.1);
    let Run::Dpsgd { private } = &mut options.plan.run else {
        panic!("not dpsgd")
    };
    private.sampling_rate.value = SamplingRate::new(0.0).unwrap();
    let error = Schedule::new(&options, &corpus(0)).unwrap_err().to_string();
    assert!(error.contains("sampling rate of 0"), "{error}");
}

#[test]
fn a_gradient_that_is_not_finite_has_factor_zero() {
    let clip = Clip::new(1.0, 1e-5).unwrap();
    for norm in [f64::NAN, f64::INFINITY, f64::MAX * 2.0] {
        assert_eq!(clip.factor(norm).to_bits(), 0.0f32.to_bits());
    }
    assert!((clip.factor(0.25) - 1.0).abs() < f32::EPSILON);
}
