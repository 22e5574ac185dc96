//! Each recipe runs, sees what it should, and says what it was.

use crate::common;
use crate::common::{
    MASK, given, jft, models, noisy, options, options_on, secret_rates, sensitive, set, spans,
    trained, unseeded, weights,
};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::training::{FirstPhase, Run};
use reticent_accounting::{
    Delta, Direction, GroupSize, Mechanism, MissRate, Neighbours, NoiseMultiplier, PrivacyLoss,
    Query, SamplingRate, Steps, Tolerance,
};
use reticent_backends::checkpoint::Phase;
use reticent_backends::run::Trained;
use reticent_backends::trainer::{OptimizerSpec, unprotected};
use reticent_backends::{Corpus, Recipe, Schedule, Sensitive, TrainOptions};
use reticent_corpus::TrainingSet;

const MISSED: RedactedAlike = RedactedAlike {
    every_content_caught: false,
    ..RedactedAlike::YES
};

fn corpus<'a>(set: &'a TrainingSet, sensitive: &'a Sensitive) -> Corpus<'a> {
    Corpus {
        sensitive: Some(sensitive),
        ..Corpus::plain(set)
    }
}

fn epsilon(mechanism: &Mechanism) -> f64 {
    let query = Query {
        neighbours: Neighbours::Replace,
        group: GroupSize::ONE,
    };
    let loss = PrivacyLoss::of(mechanism, query, Direction::Remove).unwrap();
    let delta = Delta::new(1e-5).unwrap();
    let answer = loss.epsilon(delta, Tolerance::new(1e-3).unwrap()).unwrap();
    answer.bounds.upper.map_or(f64::INFINITY, |u| u.get().get())
}

/// Three passes over redacted text without noise.
fn direct(alike: RedactedAlike, screened: bool) -> FirstPhase {
    FirstPhase::Ordinary {
        epochs: given(3),
        screened,
        alike: given(alike),
    }
}

fn steps_of(mechanism: &Mechanism) -> u64 {
    match mechanism {
        Mechanism::Repeat { times, .. } => times.get(),
        other => panic!("{other:?}"),
    }
}

/// Where a run adds no noise, DP-AdamBC takes none off the second moment: σ of the plan makes no difference.
#[test]
fn a_run_without_noise_takes_none_off_the_second_moment() {
    let run = |sigma| {
        let mut settings = options(Recipe::Dpsgd);
        settings.plan.noiseless = true;
        settings
            .plan
            .run
            .noisy_mut()
            .unwrap()
            .noise_multiplier
            .value = NoiseMultiplier::new(sigma).unwrap();
        if let Some(private) = &mut settings.private {
            private.optimizer = OptimizerSpec::AdamBc {
                learning_rate: 0.01,
                floor: 1e-8,
            };
        }
        weights(&trained(&settings, &Corpus::plain(&set(4, 8, 1))))
    };
    assert_eq!(run(1e-6), run(50.0));
}

#[test]
fn selective_training_releases_gradients_and_states_in_full() {
    let set = set(0, 10, 0);
    let spans = sensitive(&set);
    let run = trained(&options_on(Recipe::Sdp, &set), &corpus(&set, &spans));
    let mechanism = unseeded(&run.ran.plan);
    let [
        Phase::Selective {
            steps,
            passes,
            states,
            ..
        },
    ] = run.ran.phases[..]
    else {
        panic!("{:?}", run.ran.phases)
    };
    // ten records by three: four parts an epoch, two epochs; one span with ordinary text behind it
    assert_eq!((steps, passes, states), (8, 2, 2));
    let Mechanism::Sequence { parts } = &mechanism else {
        panic!("{mechanism:?}")
    };
    let sigma = |m: &Mechanism| match m {
        Mechanism::Repeat { each, times } => match each.as_ref() {
            Mechanism::Gaussian { noise_multiplier } => (times.get(), noise_multiplier.get()),
            other => panic!("amplified: {other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let found: Vec<(u64, f64)> = parts.iter().map(sigma).collect();
    assert_eq!(found, [(2, 0.8), (4, 1.3)]);
    // two passes at σ = 0.8 and four states at σ = 1.3 are one Gaussian of Σ 1/σ²
    let together = (2.0 / 0.64 + 4.0 / 1.69_f64).powf(-0.5);
    let one = Mechanism::Gaussian {
        noise_multiplier: reticent_accounting::NoiseMultiplier::new(together).unwrap(),
    };
    assert!((epsilon(&mechanism) / epsilon(&one) - 1.0).abs() < 1e-2);
}

#[test]
fn selective_training_with_a_missed_secret_promises_nothing() {
    let set = set(0, 10, 0);
    let missed = Sensitive::new(&set, spans(&set), MASK, MISSED).unwrap();
    let mut settings = options_on(Recipe::Sdp, &set);
    // a plan that says otherwise than the corpus is refused
    let error = Schedule::of(&settings, &corpus(&set, &missed)).unwrap_err();
    assert!(error.to_string().contains("every content"), "{error}");
    if let Run::Sdp { selective } = &mut settings.plan.run {
        selective.every_content_caught = given(false);
    }
    let mechanism = unseeded(&trained(&settings, &corpus(&set, &missed)).ran.plan);
    assert!(matches!(mechanism, Mechanism::NonPrivate { .. }));
    assert!(epsilon(&mechanism).is_infinite());
}

#[test]
fn direct_fine_tuning_costs_its_second_phase_or_everything() {
    let set = set(0, 10, 0);
    let both = |alike| {
        let spans = Sensitive::new(&set, spans(&set), MASK, alike).unwrap();
        trained(&jft(direct(alike, false), &set), &corpus(&set, &spans))
    };
    let alike = both(RedactedAlike::YES);
    assert!(matches!(
        alike.ran.phases[0],
        Phase::Redacted { steps: 9, .. }
    ));
    // 1/q = 3.3, rounded up, twice
    assert!(matches!(
        alike.ran.phases[1],
        Phase::Private { steps: 8, .. }
    ));
    let mechanism = unseeded(&alike.ran.plan);
    assert_eq!(steps_of(&mechanism), 8);
    assert!(epsilon(&mechanism).is_finite() && alike.ran.estimates.is_empty());
    assert!(epsilon(&unseeded(&both(MISSED).ran.plan)).is_infinite());
}

#[test]
fn the_first_phase_sees_redacted_text_without_the_loss_of_masks() {
    let here = set(0, 10, 0);
    let spans_here = sensitive(&here);
    // private steps that move nothing: what is left is the first phase
    let mut still = jft(direct(RedactedAlike::YES, false), &here);
    if let Some(private) = &mut still.private {
        private.optimizer = reticent_backends::trainer::OptimizerSpec::Sgd {
            learning_rate: 1e-30,
            momentum: 0.0,
        };
    }
    let mut there = here.clone();
    for (record, spans) in there.records.iter_mut().zip(spans(&here)) {
        for at in spans.into_iter().flatten() {
            record.tokens[at] = (record.tokens[at] + 5) % 10;
        }
    }
    let spans_there = sensitive(&there);
    let one = trained(&still, &corpus(&here, &spans_here));
    let other = trained(&still, &corpus(&there, &spans_there));
    assert_eq!(weights(&one), weights(&other));
    // nothing is learnt of the mask as a target: its bias in the head falls like that of any
    // token that never comes
    let bias = |run: &Trained| run.trainer.weights()[5][MASK as usize];
    let start = common::model().weights()[5][MASK as usize];
    assert!(bias(&one) < start, "{} against {start}", bias(&one));
}

#[test]
fn screening_uses_its_records_alone() {
    let set = set(0, 10, 0);
    let spans = sensitive(&set);
    let settings = |records: Vec<u32>| TrainOptions {
        screened: Some(records),
        ..jft(direct(RedactedAlike::YES, true), &set)
    };
    let screened = trained(&settings(vec![7, 2, 5]), &corpus(&set, &spans));
    assert!(matches!(
        screened.ran.phases[0],
        Phase::Redacted {
            steps: 3,
            screened: true,
            ..
        }
    ));
    for records in [vec![2, 2], vec![10]] {
        let error = Schedule::of(&settings(records), &corpus(&set, &spans)).unwrap_err();
        assert!(error.to_string().contains("[0, 10)"), "{error}");
    }
}

#[test]
fn light_noise_is_accounted_in_full_and_estimated_beside_it() {
    let set = set(0, 10, 0);
    let spans = sensitive(&set);
    let miss = (MissRate::new(0.01).unwrap(), MissRate::new(0.2).unwrap());
    let light = FirstPhase::LightNoise {
        steps: noisy(0.4, 4, 10, 3),
        token_miss: Some(miss),
    };
    let mut settings = jft(light, &set);
    let run = trained(&settings, &corpus(&set, &spans));
    let mechanism = unseeded(&run.ran.plan);
    let Mechanism::Sequence { parts } = &mechanism else {
        panic!("{mechanism:?}")
    };
    // 1/q = 2.5 is 3 steps, three epochs; the second phase 4 steps, two epochs
    assert_eq!(parts.iter().map(steps_of).collect::<Vec<_>>(), [9, 8]);
    // at the rates at which records were drawn, whatever the miss rate
    let rate = |part: &Mechanism| match part {
        Mechanism::Repeat { each, .. } => match each.as_ref() {
            Mechanism::SubsampledGaussian { sampling_rate, .. } => sampling_rate.get(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    for (part, expected) in parts.iter().zip([0.4, 0.3]) {
        assert!((rate(part) - expected).abs() < 1e-15, "{part:?}");
    }
    assert!(epsilon(&mechanism).is_finite());
    assert_eq!(run.ran.estimates.len(), 2);
    for (estimate, miss) in run.ran.estimates.iter().zip([0.01, 0.2]) {
        let Mechanism::Sequence { parts } = estimate else {
            panic!("{estimate:?}")
        };
        // the seed, the estimate and the second phase
        let [Mechanism::NonPrivate { .. }, Mechanism::Sequence { parts }] = &parts[..] else {
            panic!("{parts:?}")
        };
        let Mechanism::Estimated { inner, .. } = &parts[0] else {
            panic!("{parts:?}")
        };
        let Mechanism::Repeat { each, .. } = inner.as_ref() else {
            panic!("{inner:?}")
        };
        let Mechanism::SubsampledGaussian { sampling_rate, .. } = each.as_ref() else {
            panic!("{each:?}")
        };
        assert!((sampling_rate.get() - 0.4 * miss).abs() < 1e-15);
    }
    // Where the noise is left out there is none to estimate by.
    settings.plan.noiseless = true;
    let run = trained(&settings, &corpus(&set, &spans));
    assert!(run.ran.estimates.is_empty());
    let conservative = FirstPhase::LightNoise {
        steps: noisy(0.6, 4, 10, 3),
        token_miss: None,
    };
    let run = trained(&jft(conservative, &set), &corpus(&set, &spans));
    // The share of sensitive tokens is a function of the text: neither it nor what follows from it is published.
    assert!(matches!(
        run.ran.phases[0],
        Phase::LightNoise { miss: None, .. }
    ));
    assert!(run.ran.estimates.is_empty());
}

#[test]
fn protection_is_accounted_by_the_rates_of_secrets() {
    let set = set(2, 9, 1);
    let rates = secret_rates(11);
    let corpus = Corpus {
        rates: Some(&rates),
        ..Corpus::plain(&set)
    };
    let run = trained(&options_on(Recipe::Protect, &set), &corpus);
    let mechanism = unseeded(&run.ran.plan);
    let [
        Phase::Weighted {
            steps,
            largest_rate,
            ref secret_rates,
            ..
        },
    ] = run.ran.phases[..]
    else {
        panic!("{:?}", run.ran.phases)
    };
    assert_eq!(steps, 2 * 4); // 12 points by 3
    assert!((largest_rate - 0.3).abs() < 1e-15);
    let Mechanism::Repeat { times, each } = &mechanism else {
        panic!("{mechanism:?}")
    };
    let Mechanism::PoissonBinomialGaussian { rates, .. } = each.as_ref() else {
        panic!("{each:?}")
    };
    assert_eq!((times.get(), rates), (8, secret_rates));
    // three records of a secret at rates up to these: more than one record of the largest
    assert_eq!(rates.len(), 3);
    let single = Mechanism::dp_sgd(
        reticent_accounting::NoiseMultiplier::new(0.8).unwrap(),
        SamplingRate::new(0.3).unwrap(),
        Steps::new(8),
    );
    assert!(epsilon(&mechanism) > epsilon(&single));
}

#[test]
fn a_recipe_names_what_it_lacks() {
    let set = set(2, 9, 0);
    let plain = Corpus::plain(&set);
    for (recipe, lack) in [
        (Recipe::Sdp, "sensitive tokens"),
        (Recipe::Jft, "sensitive tokens"),
        (Recipe::Protect, "sampling rate"),
    ] {
        let error = Schedule::of(&options_on(recipe, &set), &plain).unwrap_err();
        assert!(error.to_string().contains(lack), "{error}");
    }
    let refused = |options: TrainOptions| options.validated().unwrap_err().to_string();
    let without = TrainOptions {
        state_norm: None,
        ..options(Recipe::Sdp)
    };
    let error = refused(without);
    assert!(error.contains("sdp") && error.contains("states"), "{error}");
    let without = TrainOptions {
        private: None,
        ..options(Recipe::Jft)
    };
    assert!(refused(without).contains("private side"));
    let unscreened = jft(direct(RedactedAlike::YES, true), &set);
    assert!(refused(unscreened).contains("needs screened records"));
    let with = TrainOptions {
        state_norm: Some(0.4),
        ..options(Recipe::Crt)
    };
    let error = refused(with);
    assert!(error.contains("crt") && error.contains("belong"), "{error}");
    let with = TrainOptions {
        screened: Some(vec![1]),
        ..options(Recipe::Jft)
    };
    assert!(refused(with).contains("belong"));
    for seed in [None, Some(1)] {
        let mut other = options(Recipe::Crt).seeded(seed);
        other.plan.seeded ^= true;
        assert!(refused(other).contains("seed"));
    }
}

#[test]
fn selective_training_without_sensitive_tokens_is_ordinary_training() {
    let set = set(0, 10, 0);
    let none = Sensitive::new(&set, vec![vec![]; 10], MASK, RedactedAlike::YES).unwrap();
    let all: Vec<_> = set
        .records
        .iter()
        .map(|r| Some(1..r.tokens.len()).into_iter().collect())
        .collect();
    let all = Sensitive::new(&set, all, MASK, RedactedAlike::YES).unwrap();
    let mut settings = options_on(Recipe::Sdp, &set);
    // a plan that counts no state is refused unless no record releases one
    if let Run::Sdp { selective } = &mut settings.plan.run {
        selective.states = given(0);
    }
    let run = |spans| trained(&settings, &corpus(&set, spans));
    // every prediction of the second reads or predicts a sensitive token: no state is released
    for (spans, states) in [(&none, 0), (&all, 0)] {
        let phases = run(spans).ran.phases;
        assert!(matches!(phases[0], Phase::Selective { states: s, .. } if s == states));
    }
    assert_ne!(weights(&run(&none)), weights(&run(&all)));
}

#[test]
fn every_model_leaves_a_token_out_of_the_loss() {
    let set = set(10, 0, 0);
    let records = unprotected(&set);
    let everything: Vec<u32> = (0..10).collect();
    let batch = records.batch(&everything);
    let texts: Vec<Vec<u32>> = set.records.iter().map(|r| r.tokens.clone()).collect();
    for (name, make) in models() {
        let mut model = make();
        let scores = model.score(&texts).unwrap();
        let settings = texts.iter().flat_map(|t| &t[1..]);
        let pairs = scores.iter().flatten().zip(settings);
        let kept: Vec<f64> = pairs
            .filter(|(_, token)| **token != 3)
            .map(|(score, _)| -score.log_probability)
            .collect();
        let expected = kept.iter().sum::<f64>() / kept.len() as f64;
        let (with, _) = model.public_gradient(&batch).unwrap();
        model.leave_out(Some(3)).unwrap();
        let (gradient, mean) = model.public_gradient(&batch).unwrap();
        assert!(
            (mean - expected).abs() < 1e-5,
            "{name}: {mean} against {expected}"
        );
        // along its own gradient the mean falls by the squared norm
        let norm = |g: &[Vec<f32>]| {
            let squares = g.iter().flatten().map(|x| f64::from(*x).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let step = 2e-3 / norm(&gradient);
        let before = model.weights().to_vec();
        let mut loss = |sign: f64| {
            let moved = before.iter().zip(&gradient).map(|(w, g)| {
                let pairs = w.iter().zip(g);
                pairs.map(|(w, g)| w + (sign * step) as f32 * g).collect()
            });
            model.set_weights(moved.collect()).unwrap();
            model.public_gradient(&batch).unwrap().1
        };
        let slope = (loss(1.0) - loss(-1.0)) / (2.0 * step) / norm(&gradient).powi(2);
        assert!((slope - 1.0).abs() < 2e-2, "{name}: {slope}");
        let apart = with.iter().flatten().zip(gradient.iter().flatten());
        let apart = apart.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        assert!(apart > 1e-6, "{name}: the token made no difference");
    }
}

#[test]
fn a_plan_counts_the_steps_that_training_takes() {
    // q = 7/25 = 0.28, 1/q = 3.57: four steps an epoch, forty in ten
    let set = set(0, 25, 0);
    let mut settings = options_on(Recipe::Dpsgd, &set);
    let private = noisy(0.8, 7, 25, 10);
    let rate = *private.sampling_rate;
    settings.plan.run = Run::Dpsgd { private };
    let schedule = Schedule::new(&settings, &set).unwrap();
    assert_eq!(schedule.planned_private_steps(), 40);
    assert_eq!(Steps::per_epoch(rate), Steps::new(4));
    let run = trained(&settings, &Corpus::plain(&set));
    let mechanism = unseeded(&run.ran.plan);
    assert_eq!(steps_of(&mechanism), 40);
    assert_eq!(mechanism, unseeded(&settings.plan));
    let Phase::Private {
        steps,
        expected_batch,
        ..
    } = run.ran.phases[0]
    else {
        panic!("{:?}", run.ran.phases)
    };
    assert_eq!(steps, 40);
    assert!((expected_batch - 7.0).abs() < 1e-12);
}
