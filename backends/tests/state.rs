//! The state folder: what is lost, damaged or of another run is named and never resumed.

use crate::common::{VOCABULARY, model, options, run_until, secret_rates, sensitive, set, weights};
use reticent_accounting::NoiseMultiplier;
use reticent_accounting::training::Run as Plan;
use reticent_backends::checkpoint::Phase;
use reticent_backends::engine::open;
use reticent_backends::model::{Family, Model, TransformerConfig};
use reticent_backends::privacy::Clipping;
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::trainer::OptimizerSpec;
use reticent_backends::{Corpus, Device, Error, Recipe, TrainOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

type Run = Result<Trained, Error>;

/// A run of these options that is stopped after so many steps, with a snapshot after each.
fn run(settings: &TrainOptions, state: &Path, stop_at: u64) -> Run {
    run_until(model(), settings, Some(state), stop_at)
}

fn interrupted(settings: &TrainOptions, state: &Path, stop_at: u64) {
    let end = run(settings, state, stop_at);
    assert!(matches!(end, Err(Error::Interrupted { .. })));
}

fn refused(end: Run) -> String {
    match end {
        Ok(_) => panic!("it went on"),
        Err(error) => error.to_string(),
    }
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("out.state");
    (home, state)
}

fn sigma(settings: &TrainOptions, sigma: f64) -> TrainOptions {
    let mut other = settings.clone();
    let sigma = NoiseMultiplier::new(sigma).unwrap();
    match &mut other.plan.run {
        Plan::Sdp { selective } => selective.noise_multiplier.value = sigma,
        Plan::Protect { weighted } => weighted.noise_multiplier.value = sigma,
        run => {
            if let Some(noisy) = run.noisy_mut() {
                noisy.noise_multiplier.value = sigma;
            }
        }
    }
    other
}

const EVERY: [Recipe; 6] = [
    Recipe::Sgd,
    Recipe::Dpsgd,
    Recipe::Crt,
    Recipe::Sdp,
    Recipe::Jft,
    Recipe::Protect,
];

/// A11: with the key lost no run is resumed, neither the same nor one with more noise, another
/// recipe or another seed. What stands there is shown, and said to be unauthenticated.
#[test]
fn a_run_whose_key_is_lost_is_never_resumed() {
    for recipe in EVERY {
        let (_home, state) = home();
        let first = options(recipe).seeded(None);
        interrupted(&first, &state, 3);
        std::fs::remove_file(state.join("key.json")).unwrap();
        let others = [
            first.clone(),
            sigma(&first, 50.0),
            options(Recipe::Dpsgd),
            options(Recipe::Sgd),
            first.clone().seeded(Some(4)),
        ];
        for snapshot in ["is there", "is gone"] {
            for other in &others {
                let error = refused(run(other, &state, u64::MAX));
                for word in [
                    "key.json",
                    "unauthenticated",
                    "ε ≤ ∞",
                    "remove the state folder",
                ] {
                    assert!(
                        error.contains(word),
                        "{recipe}, snapshot {snapshot}: {error}"
                    );
                }
                assert!(
                    snapshot == "is gone" || error.contains("after step 3"),
                    "{error}"
                );
                assert!(error.contains("private steps of"), "{error}");
            }
            let _ = std::fs::remove_file(state.join("snapshot"));
        }
    }
}

/// A folder can't be renamed onto a link, which nobody waits for until the end of a training.
#[cfg(unix)]
#[test]
fn a_state_folder_is_no_link() {
    let (home, state) = home();
    std::fs::create_dir(home.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &state).unwrap();
    let error = refused(run(&options(Recipe::Sgd), &state, 3));
    assert!(error.contains("it is a link"), "{error}");
    let made = std::fs::read_dir(home.path().join("elsewhere")).unwrap();
    assert_eq!(made.count(), 0);
}

/// Whoever reads the key can compute the noise of all steps, so a state that others can read is not resumed.
#[cfg(unix)]
#[test]
fn a_state_that_others_can_read_is_refused() {
    let (_home, state) = home();
    let settings = options(Recipe::Dpsgd);
    interrupted(&settings, &state, 3);
    let open = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    let key = state.join("key.json");
    for (path, shared, private) in [(&key, 0o644, 0o600), (&state, 0o750, 0o700)] {
        open(path, shared);
        let error = refused(run(&settings, &state, u64::MAX));
        let chmod = format!("chmod {private:o}");
        for word in [&*path.to_string_lossy(), "others", &chmod] {
            assert!(error.contains(word), "{error}");
        }
        open(path, private);
    }
    assert!(run(&settings, &state, u64::MAX).is_ok());
}

/// Another option, seed or text than the run began with is refused, and named, without a word of
/// the text.
#[test]
fn what_differs_from_the_run_is_named() {
    let (_home, state) = home();
    let first = options(Recipe::Crt);
    interrupted(&first, &state, 3);
    let mut clipped = first.clone();
    if let Some(private) = &mut clipped.private {
        private.clipping = Clipping::PerLayer;
        private.optimizer = OptimizerSpec::Adam {
            learning_rate: 0.01,
        };
    }
    let unseeded = first.clone().seeded(None);
    for (other, words) in [
        (
            sigma(&first, 50.0),
            vec!["plan.run.private.noise_multiplier"],
        ),
        (
            clipped,
            vec!["private.clipping.type", "private.optimizer.type"],
        ),
        (unseeded, vec!["seed"]),
        (options(Recipe::Sgd), vec!["plan.run.recipe", "private"]),
    ] {
        let error = refused(run(&other, &state, u64::MAX));
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
    let other_text = {
        let set = set(4, 9, 1);
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings::resumable(state.clone(), &stop);
        let (spans, rates) = (sensitive(&set), secret_rates(13));
        let corpus = Corpus {
            sensitive: Some(&spans),
            rates: Some(&rates),
            ..Corpus::plain(&set)
        };
        train_on(model(), &first, &corpus, &surroundings, &mut |_| {})
    };
    let error = refused(other_text);
    assert!(error.contains("rates of records, records"), "{error}");
    assert!(run(&first, &state, u64::MAX).is_ok());
}

/// A11, seeded: two runs of one seed have one key, and still can't take each other's snapshot.
#[test]
fn a_snapshot_of_another_run_is_refused() {
    let (here, there) = (home(), home());
    let first = options(Recipe::Dpsgd);
    interrupted(&first, &here.1, 3);
    interrupted(&sigma(&first, 50.0), &there.1, 3);
    let take = |from: &Path| {
        std::fs::copy(from.join("snapshot"), here.1.join("snapshot")).unwrap();
    };
    take(&there.1);
    let error = refused(run(&first, &here.1, u64::MAX));
    assert!(
        error.contains("snapshot") && error.contains("plan.run.private.noise_multiplier"),
        "{error}"
    );
    let elsewhere = home();
    let unseeded = first.clone().seeded(None);
    interrupted(&unseeded, &elsewhere.1, 3);
    take(&elsewhere.1);
    let error = refused(run(&first, &here.1, u64::MAX));
    assert!(
        error.contains("snapshot") && error.contains("not what this run stored"),
        "{error}"
    );
}

/// A12: a ledger that became shorter than the snapshot saw it is an error that says what may have
/// been spent; one that is shorter without a snapshot is replayed under its key, and the whole plan
/// is counted.
#[test]
fn lost_ledger_lines_are_never_budget_gained() {
    for recipe in [Recipe::Dpsgd, Recipe::Crt, Recipe::Sdp, Recipe::Protect] {
        let (_home, state) = home();
        let settings = options(recipe);
        let (whole_home, whole_state) = home();
        let whole = run(&settings, &whole_state, u64::MAX).unwrap();
        drop(whole_home);
        interrupted(&settings, &state, 6);
        let ledger = state.join("ledger.jsonl");
        let text = std::fs::read_to_string(&ledger).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() > 2, "{recipe}");
        for kept in 0..lines.len() {
            let shorter: String = lines[..kept].iter().map(|l| format!("{l}\n")).collect();
            std::fs::write(&ledger, shorter).unwrap();
            let error = refused(run(&settings, &state, u64::MAX));
            assert!(error.contains("ledger.jsonl"), "{error}");
            assert!(error.contains("spent"), "{error}");
        }
        std::fs::remove_file(state.join("snapshot")).unwrap();
        std::fs::write(&ledger, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
        let again = run(&settings, &state, u64::MAX).unwrap();
        assert_eq!(again.ran.phases, whole.ran.phases, "{recipe}");
        assert_eq!(again.ran.plan, whole.ran.plan);
        assert_eq!(weights(&again), weights(&whole));
    }
}

/// A12 and early stopping: the plan is counted whatever was written.
#[test]
fn a_plan_that_was_begun_is_counted_whole() {
    let (_home, state) = home();
    let settings = options(Recipe::Sdp);
    let run = run(&settings, &state, u64::MAX).unwrap();
    let [Phase::Selective { steps, passes, .. }] = run.ran.phases[..] else {
        panic!("{:?}", run.ran.phases)
    };
    assert_eq!((steps, passes), (8, 2));
    let lines = std::fs::read_to_string(state.join("ledger.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 9, "{lines}");
    assert!(
        lines
            .lines()
            .skip(1)
            .all(|l| l.contains("gradient and states"))
    );
}

/// A13: every bit of a snapshot is covered.
#[test]
fn a_damaged_snapshot_is_refused() {
    let (_home, state) = home();
    let settings = options(Recipe::Dpsgd);
    interrupted(&settings, &state, 3);
    let path = state.join("snapshot");
    let whole = std::fs::read(&path).unwrap();
    let refuse = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = refused(run(&settings, &state, u64::MAX));
        assert!(error.contains("snapshot"), "{error}");
        assert!(
            error.contains("the ledger counts 3 private steps"),
            "{error}"
        );
    };
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refuse(&bytes);
        refuse(&whole[..at]);
    }
    refuse(&[whole.clone(), vec![0]].concat());
    std::fs::write(&path, &whole).unwrap();
    assert!(run(&settings, &state, u64::MAX).is_ok());
}

/// A18: two runs on one folder: the second fails at once and harms nothing.
#[test]
fn a_second_run_on_the_same_folder_fails_at_once() {
    let (_home, state) = home();
    let settings = options(Recipe::Dpsgd);
    let set = set(4, 8, 1);
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings::resumable(state.clone(), &stop);
    let corpus = Corpus::plain(&set);
    let mut errors = Vec::new();
    let first = train_on(model(), &settings, &corpus, &surroundings, &mut |_| {
        let second = train_on(model(), &settings, &corpus, &surroundings, &mut |_| {
            panic!("it took a step");
        });
        errors.push(refused(second));
    });
    let mut first = first.unwrap();
    assert!(errors.len() > 3);
    for error in errors {
        let named = error.contains("out.state") && error.contains("another process");
        assert!(named, "{error}");
    }
    first.erase_state().unwrap();
    assert!(!state.exists());
}

/// The text by which a model with a large weight is checked is one that the model can read.
#[test]
fn a_model_of_two_positions_goes_on_with_a_large_weight() {
    let config = TransformerConfig::new(Family::Gpt2, VOCABULARY, 8, 1, 2, 2);
    let model = Model::from(config);
    let mut weights = model.starting_weights(1);
    let parameters = model.parameters();
    let positions = parameters.iter().position(|p| p.name.contains("position"));
    weights[positions.unwrap()][0] = 2e3;
    let trainer = open(&model, weights, Device::Cpu).unwrap();
    let end = run_until(trainer, &options(Recipe::Dpsgd), None, u64::MAX);
    assert!(end.is_ok(), "{:?}", end.err());
}

/// A17: a run whose weights come to nothing stops at that step, keeps its last good snapshot and
/// never ends well.
#[test]
fn a_run_that_diverges_stops_and_keeps_its_state() {
    for recipe in EVERY {
        for rate in [1e30, 1e38] {
            let (_home, state) = home();
            let mut settings = options(recipe);
            let spec = OptimizerSpec::Sgd {
                learning_rate: rate,
                momentum: 0.0,
            };
            match &mut settings.private {
                Some(private) => private.optimizer = spec,
                None => settings.optimizer = spec,
            }
            let end = run(&settings, &state, u64::MAX);
            assert!(
                matches!(end, Err(Error::Diverged { .. })),
                "{recipe}, {rate}: {:?}",
                end.err()
            );
            for name in ["key.json", "ledger.jsonl"] {
                assert!(state.join(name).exists(), "{recipe}");
            }
        }
    }
}
