//! Interrupted runs: the same weights bit by bit, each private step counted once.

use reticent_accounting::training::{NoisySteps, Run, Stated, TrainingPlan};
use reticent_accounting::{Mechanism, SamplingRate, UnitName};
use reticent_backends::engine::{lstm, open};
use reticent_backends::model::{Family, Head, LstmConfig, Model, TransformerConfig};
use reticent_backends::run::{Surroundings, Trained, train, train_on};
use reticent_backends::trainer::{Dropout, Masking, OptimizerSpec, Trainer};
use reticent_backends::{Corpus, Device, Error, PrivateOptions, Recipe, TrainOptions};
use reticent_corpus::TrainingSet;
use reticent_corpus::policy::ConservativeOptions;
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn corpus() -> TrainingSet {
    let options = PrepareOptions {
        conservative: Some(ConservativeOptions::default()),
        ..Default::default()
    };
    prepare(&simulate(12, 5).unwrap(), &options)
        .unwrap()
        .training
}

fn options(recipe: Recipe, seed: Option<u64>) -> TrainOptions {
    let set = corpus();
    let noisy = |records| {
        let rate = SamplingRate::of_share(8, records).unwrap();
        NoisySteps::poisson(1.0, rate.get(), 2).unwrap()
    };
    let private = set.private_size();
    let run = match recipe {
        Recipe::Crt => Run::Crt {
            private: Some(noisy(private)),
            public_passes: Stated::given(2, "test"),
            epochs: 2,
        },
        _ => Run::Dpsgd {
            private: noisy(set.public_size() + private),
        },
    };
    let unit = UnitName::new(set.unit.to_string()).unwrap();
    let ordinary = OptimizerSpec::Adam {
        learning_rate: 1e-3,
    };
    let private = OptimizerSpec::Sgd {
        learning_rate: 0.1,
        momentum: 0.9,
    };
    TrainOptions {
        private: Some(PrivateOptions::new(1.0, private)),
        dropout: Dropout {
            embedding: 0.1,
            attention: 0.1,
            hidden: 0.2,
        },
        initial_seed: 3,
        ..TrainOptions::new(TrainingPlan::new(run, unit), 4, ordinary).seeded(seed)
    }
}

fn model() -> Box<dyn Trainer> {
    let config = LstmConfig {
        vocabulary: 100,
        embedding: 8,
        hidden: 12,
    };
    lstm(&config, config.starting_weights(3), Device::Cpu).unwrap()
}

fn run(options: &TrainOptions, state: Option<&Path>, stop_at: u64) -> Result<Trained, Error> {
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: state.map(Path::to_path_buf),
        snapshot_every: Duration::from_millis(5),
        stop: &stop,
        at_epoch: None,
    };
    train(model(), options, &corpus(), &surroundings, &mut |p| {
        stop.store(p.step >= stop_at, Ordering::Relaxed)
    })
}

fn bits(trained: &Trained) -> Vec<u32> {
    trained
        .trainer
        .weights()
        .iter()
        .flatten()
        .map(|w| w.to_bits())
        .collect()
}

fn counted(trained: &Trained) -> u64 {
    let plan = TrainingPlan {
        seeded: false,
        ..trained.ran.plan.clone()
    };
    match plan.mechanism() {
        Mechanism::Repeat { times, .. } => times.get(),
        other => panic!("one private phase expected, got {other:?}"),
    }
}

#[test]
fn an_interrupted_run_ends_in_the_same_weights_and_counts_each_step_once() {
    for recipe in [Recipe::Crt, Recipe::Dpsgd] {
        let options = options(recipe, Some(11));
        let whole = run(&options, None, u64::MAX).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        for stop_at in [1, 7, 30] {
            let interrupted = run(&options, Some(&state), stop_at);
            assert!(
                matches!(interrupted, Err(Error::Interrupted { .. })),
                "at {stop_at}"
            );
        }
        let mut resumed = run(&options, Some(&state), u64::MAX).unwrap();
        assert_eq!(bits(&resumed), bits(&whole), "{recipe}");
        assert_eq!(resumed.ran.plan, whole.ran.plan);
        assert!(resumed.ran.plan.seeded && counted(&resumed) > 20);
        resumed.erase_state().unwrap();
        assert!(!state.exists());
    }
}

#[test]
fn a_state_folder_of_another_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = options(Recipe::Crt, Some(1));
    assert!(run(&first, Some(folder.path()), 5).is_err());
    let mut other = first.clone();
    if let Some(noisy) = other.plan.run.noisy_mut() {
        let epoch = noisy.steps_per_epoch;
        noisy.steps.value = reticent_accounting::Steps::new(3 * epoch);
    }
    let Err(error) = run(&other, Some(folder.path()), u64::MAX) else {
        panic!("accepted")
    };
    assert!(
        matches!(&error, Error::OtherRun { .. })
            && error
                .to_string()
                .contains("(other plan.run.private.steps.value"),
        "{error}"
    );
}

/// Re-runs this test program as a child that trains until it is killed.
#[cfg(unix)]
#[test]
fn sigkill_then_resume_gives_the_same_bits() {
    const STATE: &str = "RETICENT_TEST_STATE";
    let options = options(Recipe::Crt, Some(12));
    if let Some(state) = std::env::var_os(STATE) {
        // the child: slow enough to be killed in the middle
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings {
            state: Some(state.into()),
            snapshot_every: Duration::from_millis(20),
            stop: &stop,
            at_epoch: None,
        };
        let slow = &mut |_| std::thread::sleep(Duration::from_millis(4));
        train(model(), &options, &corpus(), &surroundings, slow).unwrap();
        return;
    }
    let whole = run(&options, None, u64::MAX).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    for pause in [60, 150, 90] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resume::sigkill_then_resume_gives_the_same_bits"])
            .env(STATE, &state)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // wait until it has begun to spend, then let it run a little
        while !state
            .join("ledger.jsonl")
            .metadata()
            .is_ok_and(|m| m.len() > 0)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
    }
    let resumed = run(&options, Some(&state), u64::MAX).unwrap();
    assert_eq!(bits(&resumed), bits(&whole));
    assert_eq!(counted(&resumed), counted(&whole));
}

/// The state folder knows which weights its run began with.
#[test]
fn other_starting_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let set = corpus();
    let config = LstmConfig {
        vocabulary: 100,
        embedding: 8,
        hidden: 12,
    };
    let run = |weights: u64, stop_at: u64| {
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings {
            state: Some(folder.path().join("state")),
            snapshot_every: Duration::ZERO,
            stop: &stop,
            at_epoch: None,
        };
        let model = lstm(&config, config.starting_weights(weights), Device::Cpu).unwrap();
        let options = options(Recipe::Crt, Some(1));
        train(model, &options, &set, &surroundings, &mut |at| {
            stop.store(at.step >= stop_at, Ordering::Relaxed);
        })
    };
    assert!(matches!(run(3, 2), Err(Error::Interrupted { .. })));
    let Err(error) = run(4, u64::MAX) else {
        panic!("another model went on with the run")
    };
    assert!(
        error.to_string().contains("other starting weights"),
        "{error}"
    );
    assert!(run(3, u64::MAX).is_ok());
}

/// A text that has one class and is longer than the model reads: its beginning and the token that ends it, wherever it is
/// read.
#[test]
fn a_long_text_with_a_class_is_read_to_its_last_token() {
    let mut long = corpus();
    for (number, record) in (0..).zip(&mut long.records) {
        record.label = Some(number % 2);
        let last = record.tokens.len() - 1;
        record.tokens.splice(last..last, 3..12);
    }
    let mut short = long.clone();
    for record in &mut short.records {
        let last = record.tokens.pop().unwrap();
        record.tokens.truncate(7);
        record.tokens.push(last);
    }
    let labels = [0, 1, 0];
    for family in [Family::Bert, Family::Gpt2] {
        let model = Model::from(TransformerConfig {
            head: Head::Classes(2),
            ..TransformerConfig::new(family, 100, 8, 1, 2, 8)
        });
        for recipe in [Recipe::Crt, Recipe::Dpsgd] {
            let trained = |set: &TrainingSet| {
                let texts: Vec<Vec<u32>> =
                    set.records[..3].iter().map(|r| r.tokens.clone()).collect();
                let corpus = Corpus {
                    held_out: Some(&texts),
                    held_out_labels: Some(&labels),
                    ..Corpus::plain(set)
                };
                let fresh = open(&model, model.starting_weights(3), Device::Cpu).unwrap();
                let stop = AtomicBool::new(false);
                let surroundings = Surroundings::in_memory(&stop);
                let options = options(recipe, Some(4));
                train_on(fresh, &options, &corpus, &surroundings, &mut |_| {}).unwrap()
            };
            let (whole, by_hand) = (trained(&long), trained(&short));
            assert_eq!(bits(&whole), bits(&by_hand), "{family:?} {recipe}");
            assert_eq!(whole.ran.held_out, by_hand.ran.held_out);
        }
    }
}

/// Which tokens are masked follows from the step, so that a run that goes on masks what it would have masked; which carry
/// loss is in the corpus.
#[test]
fn every_head_resumes_with_the_same_masks_and_figures() {
    let mut labelled = corpus();
    for (number, record) in (0..).zip(&mut labelled.records) {
        record.label = Some(number % 2);
    }
    let mut answers = corpus();
    for record in answers.records.iter_mut().step_by(2) {
        record.ignored.push(1..record.tokens.len() / 2 + 1);
    }
    let ignored: Vec<_> = answers
        .records
        .iter()
        .take(6)
        .map(|r| r.ignored.clone())
        .collect();
    let masking = Masking::new(100, 99, vec![97, 98, 99]).unwrap();
    let texts = labelled.records.iter().take(6).map(|r| r.tokens.clone());
    let (texts, labels): (Vec<Vec<u32>>, [u32; 6]) = (texts.collect(), [0, 1, 0, 1, 0, 1]);
    let options = options(Recipe::Dpsgd, Some(4));
    for head in [Head::MaskedToken, Head::Classes(2), Head::NextToken] {
        let (family, set) = match head {
            Head::NextToken => (Family::Gpt2, &answers),
            Head::MaskedToken | Head::Classes(_) => (Family::Bert, &labelled),
        };
        let model = Model::from(TransformerConfig {
            head,
            ..TransformerConfig::new(family, 100, 8, 1, 2, 128)
        });
        let corpus = Corpus {
            held_out: Some(&texts),
            held_out_ignored: (head == Head::NextToken).then_some(&ignored),
            held_out_labels: (head != Head::NextToken).then_some(&labels),
            masking: Some(&masking),
            ..Corpus::plain(set)
        };
        let go = |state: Option<&Path>, stop_at: u64| {
            let stop = AtomicBool::new(false);
            let surroundings = Surroundings {
                state: state.map(Path::to_path_buf),
                snapshot_every: Duration::ZERO,
                stop: &stop,
                at_epoch: None,
            };
            let fresh = open(&model, model.starting_weights(3), Device::Cpu).unwrap();
            train_on(fresh, &options, &corpus, &surroundings, &mut |p| {
                stop.store(p.step >= stop_at, Ordering::Relaxed);
            })
        };
        let whole = go(None, u64::MAX).unwrap();
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        for stop_at in [3, whole.ran.phases[0].private_steps().unwrap() - 1] {
            assert!(matches!(
                go(Some(&state), stop_at),
                Err(Error::Interrupted { .. })
            ));
        }
        let resumed = go(Some(&state), u64::MAX).unwrap();
        assert_eq!(bits(&resumed), bits(&whole), "{head:?}");
        assert_eq!(resumed.ran.held_out, whole.ran.held_out, "{head:?}");
        assert_eq!(resumed.ran.classified, whole.ran.classified, "{head:?}");
        let figures = whole.ran.classified.len();
        assert_eq!(figures, if head == Head::Classes(2) { 2 } else { 0 });
        if head == Head::NextToken {
            // The held-out loss is of what carries loss, and not of the rest.
            let mut model = whole.trainer;
            let (mut total, mut count) = (0.0, 0);
            for (scores, ignored) in model.score(&texts).unwrap().iter().zip(&ignored) {
                let predicted = (1..)
                    .zip(scores)
                    .filter(|(at, _)| !ignored.iter().any(|r| r.contains(at)));
                for (_, score) in predicted {
                    total -= score.log_probability;
                    count += 1;
                }
            }
            let last = whole.ran.held_out.last().unwrap();
            assert!((total / f64::from(count) - last).abs() < 1e-9, "{last}");
        }
    }
}
