//! Each recipe runs, sees what it should, and says what it was.
#![cfg(feature = "cpu")]
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod common;

use common::{MASK, models, options, secret_rates, sensitive, set, spans, trained, weights};
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::{
    Delta, Direction, GroupSize, Mechanism, MissRate, Neighbours, PrivacyLoss, Query, SamplingRate,
    Steps, Tolerance,
};
use reticent_backends::{
    Corpus, FirstPhase, FirstPhaseKind, Phase, Recipe, Schedule, Sensitive, TrainOptions, Trained,
    unprotected,
};
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

fn jft(kind: FirstPhaseKind) -> TrainOptions {
    TrainOptions {
        first_phase: Some(FirstPhase { epochs: 3, kind }),
        ..options(Recipe::Jft)
    }
}

fn steps_of(mechanism: &Mechanism) -> u64 {
    match mechanism {
        Mechanism::Repeat { times, .. } => times.get(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn selective_training_releases_gradients_and_states_in_full() {
    let set = set(0, 10, 0);
    let spans = sensitive(&set);
    let run = trained(&options(Recipe::Sdp), &corpus(&set, &spans));
    let [
        Phase::Selective {
            steps,
            passes,
            states,
            ..
        },
    ] = run.phases[..]
    else {
        panic!("{:?}", run.phases)
    };
    // ten records by three: four parts an epoch, two epochs; one span with ordinary text behind it
    assert_eq!((steps, passes, states), (8, 2, 2));
    let Mechanism::Sequence { parts } = &run.mechanism else {
        panic!("{:?}", run.mechanism)
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
    assert!((epsilon(&run.mechanism) / epsilon(&one) - 1.0).abs() < 1e-2);
}

#[test]
fn selective_training_with_a_missed_secret_promises_nothing() {
    let set = set(0, 10, 0);
    let missed = Sensitive::new(&set, spans(&set), MASK, MISSED).unwrap();
    let run = trained(&options(Recipe::Sdp), &corpus(&set, &missed));
    assert!(matches!(run.mechanism, Mechanism::NonPrivate { .. }));
    assert!(epsilon(&run.mechanism).is_infinite());
}

#[test]
fn direct_fine_tuning_costs_its_second_phase_or_everything() {
    let set = set(0, 10, 0);
    let both = |alike| {
        let spans = Sensitive::new(&set, spans(&set), MASK, alike).unwrap();
        trained(&jft(FirstPhaseKind::Direct), &corpus(&set, &spans))
    };
    let alike = both(RedactedAlike::YES);
    assert!(matches!(alike.phases[0], Phase::Redacted { steps: 9, .. }));
    assert!(matches!(alike.phases[1], Phase::Private { steps: 6, .. }));
    assert_eq!(steps_of(&alike.mechanism), 6);
    assert!(epsilon(&alike.mechanism).is_finite() && alike.estimates.is_empty());
    assert!(epsilon(&both(MISSED).mechanism).is_infinite());
}

#[test]
fn the_first_phase_sees_redacted_text_without_the_loss_of_masks() {
    let here = set(0, 10, 0);
    let spans_here = sensitive(&here);
    // private steps that move nothing: what is left is the first phase
    let mut still = jft(FirstPhaseKind::Direct);
    if let Some(private) = &mut still.private {
        private.optimizer = reticent_backends::OptimizerSpec::Sgd {
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
    let records = vec![7, 2, 5];
    let screened = trained(
        &jft(FirstPhaseKind::Screened { records }),
        &corpus(&set, &spans),
    );
    assert!(matches!(
        screened.phases[0],
        Phase::Redacted {
            steps: 3,
            screened: true,
            ..
        }
    ));
    for records in [vec![2, 2], vec![10]] {
        let asked = jft(FirstPhaseKind::Screened { records });
        let error = Schedule::of(&asked, &corpus(&set, &spans)).unwrap_err();
        assert!(error.to_string().contains("[0, 10)"), "{error}");
    }
}

#[test]
fn light_noise_is_accounted_in_full_and_estimated_beside_it() {
    let set = set(0, 10, 0);
    let spans = sensitive(&set);
    let miss = (MissRate::new(0.01).unwrap(), MissRate::new(0.2).unwrap());
    let light = FirstPhaseKind::LightNoise {
        noise_multiplier: 0.4,
        batch_size: 4,
        miss,
    };
    let run = trained(&jft(light), &corpus(&set, &spans));
    let Mechanism::Sequence { parts } = &run.mechanism else {
        panic!("{:?}", run.mechanism)
    };
    // 1/q = 2.5 rounds to 3 steps, three epochs; the second phase 3 steps, two epochs
    assert_eq!(parts.iter().map(steps_of).collect::<Vec<_>>(), [9, 6]);
    assert!(epsilon(&run.mechanism).is_finite());
    assert_eq!(run.estimates.len(), 2);
    for (estimate, miss) in run.estimates.iter().zip([0.01, 0.2]) {
        let Mechanism::Sequence { parts } = estimate else {
            panic!("{estimate:?}")
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
    let conservative = FirstPhaseKind::ConservativeLightNoise {
        noise_multiplier: 0.6,
        batch_size: 4,
    };
    let run = trained(&jft(conservative), &corpus(&set, &spans));
    let share = MissRate::new(spans.share(&set).get()).unwrap();
    assert!(matches!(run.phases[0], Phase::LightNoise { miss, .. } if miss == (share, share)));
}

#[test]
fn protection_is_accounted_by_the_rates_of_secrets() {
    let set = set(2, 9, 1);
    let rates = secret_rates(11);
    let corpus = Corpus {
        rates: Some(&rates),
        ..Corpus::plain(&set)
    };
    let run = trained(&options(Recipe::Protect), &corpus);
    let [
        Phase::Weighted {
            steps,
            largest_rate,
            ref secret_rates,
            ..
        },
    ] = run.phases[..]
    else {
        panic!("{:?}", run.phases)
    };
    assert_eq!(steps, 2 * 4); // 12 points by 3
    assert!((largest_rate - 0.3).abs() < 1e-15);
    let Mechanism::Repeat { times, each } = &run.mechanism else {
        panic!("{:?}", run.mechanism)
    };
    let Mechanism::PoissonBinomialGaussian { rates: told, .. } = each.as_ref() else {
        panic!("{each:?}")
    };
    assert_eq!((times.get(), told), (8, secret_rates));
    // three records of a secret at rates up to these: more than one record of the largest
    assert_eq!(told.len(), 3);
    let single = Mechanism::dp_sgd(
        reticent_accounting::NoiseMultiplier::new(0.8).unwrap(),
        SamplingRate::new(0.3).unwrap(),
        Steps::new(8),
    );
    assert!(epsilon(&run.mechanism) > epsilon(&single));
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
        let error = Schedule::of(&options(recipe), &plain).unwrap_err();
        assert!(error.to_string().contains(lack), "{error}");
    }
    let without = TrainOptions {
        first_phase: None,
        ..options(Recipe::Jft)
    };
    assert!(
        without
            .validated()
            .unwrap_err()
            .to_string()
            .contains("first phase")
    );
    let with = TrainOptions {
        states: options(Recipe::Sdp).states,
        ..options(Recipe::Crt)
    };
    assert!(with.validated().unwrap_err().to_string().contains("sdp"));
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
    let run = |spans| trained(&options(Recipe::Sdp), &corpus(&set, spans));
    // every prediction of the second reads or predicts a sensitive token: no state is released
    for (spans, states) in [(&none, 0), (&all, 0)] {
        let phases = run(spans).phases;
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
        let asked = texts.iter().flat_map(|t| &t[1..]);
        let pairs = scores.iter().flatten().zip(asked);
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
    let mut asked = options(Recipe::Dpsgd);
    asked.epochs = 10;
    if let Some(private) = &mut asked.private {
        private.batch_size = 7;
    }
    let schedule = Schedule::new(&asked, &set).unwrap();
    let rate = schedule.sampling_rate().unwrap();
    assert_eq!(schedule.planned_private_steps(), 40);
    assert_eq!(Steps::for_epochs(10.0, rate), Some(Steps::new(40)));
    let run = trained(&asked, &Corpus::plain(&set));
    assert_eq!(steps_of(&run.mechanism), 40);
}
