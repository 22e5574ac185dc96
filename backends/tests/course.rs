//! The course of a run: learning rates as declared, early stopping and what it costs.

use crate::common;
use crate::common::{for_epochs, given, model, options, set, unseeded, weights};
use reticent_accounting::Mechanism;
use reticent_accounting::training::Stopping;
use reticent_backends::checkpoint::Phase;
use reticent_backends::model::{Family, Head};
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::trainer::{
    Decay, Dropout, LearningRates, Optimizer, OptimizerSpec, unprotected,
};
use reticent_backends::{Corpus, Error, Recipe, TrainOptions};
use reticent_corpus::TokenId;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Three whole batches by a schedule are three steps at the declared shares of the rate.
#[test]
fn steps_take_the_declared_share_of_the_learning_rate() {
    let set = set(10, 0, 0);
    let (records, all) = (unprotected(&set), (0..10).collect::<Vec<u32>>());
    let rate = |share: f64| OptimizerSpec::Sgd {
        learning_rate: 0.3 * share,
        momentum: 0.0,
    };
    for (learning_rates, shares) in [
        (LearningRates::CONSTANT, [1.0, 1.0, 1.0]),
        (LearningRates::default(), [1.0, 2.0 / 3.0, 1.0 / 3.0]),
        (
            LearningRates {
                decay: Decay::Cosine,
                warmup: 2,
            },
            [0.5, 0.75, 0.25],
        ),
    ] {
        let settings = TrainOptions {
            batch_size: 10,
            optimizer: rate(1.0),
            learning_rates,
            ..for_epochs(options(Recipe::Sgd), 3)
        };
        let run = common::trained(&settings, &Corpus::plain(&set));
        let mut by_hand = model();
        let lengths: Vec<usize> = by_hand.parameters().iter().map(|p| p.len()).collect();
        for share in shares {
            let (gradient, _) = by_hand.public_gradient(&records.batch(&all)).unwrap();
            let mut step = Optimizer::new(rate(share), &lengths);
            by_hand.apply_public(gradient, &mut step).unwrap();
        }
        let (ours, hand) = (run.trainer.weights(), by_hand.weights());
        for (x, y) in ours.iter().flatten().zip(hand.iter().flatten()) {
            assert!((x - y).abs() < 1e-6, "{learning_rates:?}: {x} against {y}");
        }
    }
}

/// Augmentations of a record differ by the tokens that an encoder masks, or by what this model drops.
#[test]
fn augmentations_that_would_be_alike_are_refused() {
    let run = |trainer, dropout| {
        let mut settings = for_epochs(options(Recipe::Dpsgd), 1);
        settings.dropout = dropout;
        if let Some(private) = &mut settings.private {
            private.augmentations = 2;
        }
        common::run_until(trainer, &settings, None, u64::MAX)
    };
    let of_attention = Dropout {
        attention: 0.2,
        ..Dropout::NONE
    };
    let (name, gpt2) = common::models()[2];
    assert_eq!(name, "gpt2");
    let encoder = common::headed(Family::Bert, Head::MaskedToken);
    assert!(run(encoder, Dropout::NONE).is_ok() && run(gpt2(), of_attention).is_ok());
    // An LSTM has no attention.
    let classifier = common::headed(Family::Bert, Head::Classes(2));
    for (trainer, dropout) in [
        (model(), Dropout::NONE),
        (model(), of_attention),
        (classifier, Dropout::NONE),
    ] {
        let error = run(trainer, dropout).err().unwrap().to_string();
        assert!(error.contains("they need dropout"), "{error}");
    }
}

fn held_out() -> Vec<Vec<TokenId>> {
    (0..5)
        .map(|i| (0..7).map(|t| (i * 3 + t * t) % 10).collect())
        .collect()
}

/// Ten epochs of steps so long that the text soon becomes less likely.
fn stopping(recipe: Recipe, public: bool) -> TrainOptions {
    let mut settings = for_epochs(options(recipe), 10);
    settings.plan.stopping = Some(Stopping {
        patience: given(2),
        public: given(public),
    });
    if let Some(private) = &mut settings.private {
        private.optimizer = OptimizerSpec::Sgd {
            learning_rate: 4.0,
            momentum: 0.0,
        };
    }
    settings
}

fn run(
    settings: &TrainOptions,
    held_out: &[Vec<TokenId>],
    surroundings: &Surroundings<'_>,
) -> Trained {
    let set = set(4, 8, 1);
    let corpus = Corpus {
        held_out: Some(held_out),
        ..Corpus::plain(&set)
    };
    train_on(model(), settings, &corpus, surroundings, &mut |_| {}).unwrap()
}

/// The loss of the last model, as the run says it.
fn loss(run: &mut Trained, held_out: &[Vec<TokenId>]) -> f64 {
    let scores = run.trainer.score(held_out).unwrap();
    let all: Vec<f64> = scores.iter().flatten().map(|s| s.log_probability).collect();
    -all.iter().sum::<f64>() / all.len() as f64
}

/// Rates fall to a quarter after each epoch that made held-out text no likelier; text that is not declared public leaves
/// no promise.
#[test]
fn rates_fall_on_plateaus_of_text_that_is_declared_public() {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::in_memory(&stop);
    let text = held_out();
    let settings = |public: Option<bool>, decay| {
        let mut settings = stopping(Recipe::Dpsgd, true);
        settings.plan.stopping = None;
        settings.plan.rates_by_public_text = public.map(given);
        settings.learning_rates = LearningRates { decay, warmup: 0 };
        settings
    };
    let constant = run(&settings(None, Decay::Constant), &text, &surroundings);
    for public in [true, false] {
        let ran = run(
            &settings(Some(public), Decay::Plateau),
            &text,
            &surroundings,
        )
        .ran;
        let (plan, mechanism) = (&ran.plan, unseeded(&ran.plan));
        let open = matches!(&mechanism, Mechanism::Sequence { parts } if parts.iter().any(|part| {
            matches!(part, Mechanism::NonPrivate { why } if why.contains("held-out text that is not public"))
        }));
        assert_eq!(open, !public, "{mechanism:?}");
        assert!(plan.rates_by_public_text.is_some());
    }

    // Alike up to the first epoch without a gain, and a quarter of the step after it.
    let plateau = run(&settings(Some(true), Decay::Plateau), &text, &surroundings);
    let (a, b) = (&constant.ran.held_out, &plateau.ran.held_out);
    let first =
        (1..a.len()).find(|e| a[*e] >= a[..*e].iter().copied().fold(f64::INFINITY, f64::min));
    let first = first.unwrap();
    assert!(first + 1 < a.len() && a[..=first] == b[..=first]);
    assert_ne!(a[first + 1].to_bits(), b[first + 1].to_bits());

    for (public, decay) in [(None, Decay::Plateau), (Some(true), Decay::Linear)] {
        let error = settings(public, decay).validated().unwrap_err().to_string();
        assert!(error.contains("learning rates"), "{error}");
    }
}

#[test]
fn a_run_stops_early_and_counts_what_it_had_planned() {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::in_memory(&stop);
    let text = held_out();
    for recipe in [Recipe::Dpsgd, Recipe::Crt] {
        let mut stopped = run(&stopping(recipe, true), &text, &surroundings);
        let epochs = stopped.ran.held_out.len();
        assert!((3..10).contains(&epochs), "{recipe}: {epochs}");
        let best = stopped
            .ran
            .held_out
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        assert!((stopped.ran.held_out[epochs - 3] - best).abs() < 1e-12);
        let last = loss(&mut stopped, &text);
        assert!((last - stopped.ran.held_out[epochs - 1]).abs() < 1e-9);
        // as a run that never stops, though fewer steps were taken
        let mut without = stopping(recipe, true);
        without.plan.stopping = None;
        let whole = run(&without, &text, &surroundings);
        assert_eq!(whole.ran.held_out.len(), 10);
        assert_eq!(whole.ran.held_out[..epochs], stopped.ran.held_out);
        assert_eq!(whole.mechanism(), stopped.mechanism(), "{recipe}");
        let said = Phase::Stopped {
            epochs: epochs as u64,
            patience: 2,
            public: true,
        };
        let (last, before) = stopped.ran.phases.split_last().unwrap();
        assert_eq!((last, before), (&said, &whole.ran.phases[..]));
    }
}

/// Held-out text is scored by the weights that the run ends with, and scoring moves no weight.
#[test]
fn held_out_text_is_scored_by_the_average_of_the_weights() {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::in_memory(&stop);
    let text = held_out();
    let mut settings = stopping(Recipe::Dpsgd, true);
    settings.plan.stopping = None;
    settings.average = Some(0.9);
    let mut averaged = run(&settings, &text, &surroundings);
    let last = *averaged.ran.held_out.last().unwrap();
    assert!((loss(&mut averaged, &text) - last).abs() < 1e-6);
    let unseen = common::trained(&settings, &Corpus::plain(&set(4, 8, 1)));
    assert_eq!(weights(&averaged), weights(&unseen));
}

/// The last step of a run that stops early has its own number, and not that of the last planned step.
#[test]
fn a_run_that_stops_early_counts_the_steps_that_it_took() {
    let (set, text) = (set(4, 8, 1), held_out());
    let corpus = Corpus {
        held_out: Some(&text),
        ..Corpus::plain(&set)
    };
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::in_memory(&stop);
    let (mut steps, mut total) = (Vec::new(), 0);
    let settings = stopping(Recipe::Dpsgd, true);
    train_on(model(), &settings, &corpus, &surroundings, &mut |at| {
        steps.push(at.step);
        total = at.total;
    })
    .unwrap();
    let last = steps.len() as u64;
    assert!(last < total, "{last} of {total}");
    assert_eq!(steps, (1..=last).collect::<Vec<u64>>());
}

#[test]
fn stopping_by_text_that_is_not_public_promises_nothing() {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::in_memory(&stop);
    let stopped = run(&stopping(Recipe::Dpsgd, false), &held_out(), &surroundings);
    let bare = |m: &Mechanism| matches!(m, Mechanism::NonPrivate { .. });
    assert!(match &unseeded(&stopped.ran.plan) {
        Mechanism::Sequence { parts } => parts.iter().any(bare),
        other => bare(other),
    });
    let (set, home) = (set(4, 8, 1), tempfile::tempdir().unwrap());
    let nothing = train_on(
        model(),
        &stopping(Recipe::Dpsgd, true),
        &Corpus::plain(&set),
        &Surroundings::resumable(home.path().join("state"), &stop),
        &mut |_| {},
    );
    let error = nothing.err().unwrap().to_string();
    assert!(error.contains("held-out"), "{error}");
    let left = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 0, "a state of a run that never began");
}

/// Interrupted after each step of the first epochs, a run stops at the same epoch with the same weights.
#[test]
fn a_resumed_run_stops_where_an_uninterrupted_one_does() {
    let (settings, text) = (stopping(Recipe::Dpsgd, true), held_out());
    let never = AtomicBool::new(false);
    let whole = run(&settings, &text, &Surroundings::in_memory(&never));
    let home = tempfile::tempdir().unwrap();
    let set = set(4, 8, 1);
    let corpus = Corpus {
        held_out: Some(&text),
        ..Corpus::plain(&set)
    };
    let once = |folder: &Path| {
        let stop = AtomicBool::new(false);
        let mut surroundings = Surroundings::resumable(folder.to_path_buf(), &stop);
        surroundings.snapshot_every = Duration::MAX;
        train_on(model(), &settings, &corpus, &surroundings, &mut |_| {
            stop.store(true, Ordering::Relaxed);
        })
    };
    let resumed = loop {
        match once(&home.path().join("state")) {
            Ok(resumed) => break resumed,
            Err(Error::Interrupted { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(resumed.ran.held_out, whole.ran.held_out);
    assert_eq!(weights(&resumed), weights(&whole));
    assert_eq!(resumed.ran.plan, whole.ran.plan);
}
