//! Disks that are full at every write, and processes killed between two steps of erasing.

#[path = "../../../tests/common/mod.rs"]
#[expect(dead_code, reason = "the tests of folders use a part of it")]
#[expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]
mod common;

use super::*;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::description::version;
use crate::checkpoint::manifest::{Initial, Manifest};
use crate::checkpoint::owner::{Authentication, Owner};
use crate::hugging_face::Beside;
use crate::model::{LstmConfig, Model};
use crate::privacy::ledger::Planned;
use crate::run::{Surroundings, Trained, train_on};
use common::{for_epochs, options, set, trained, weights};
use reticent_accounting::training::Recipe;
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;
use reticent_disk::failing;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn run(options: &TrainOptions, state: &Path) -> Result<Trained> {
    let set = set(4, 8, 1);
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: Some(state.to_path_buf()),
        snapshot_every: Duration::ZERO,
        stop: &stop,
        at_epoch: None,
    };
    let corpus = Corpus::plain(&set);
    train_on(
        common::model(),
        options,
        &corpus,
        &surroundings,
        &mut |_| {},
    )
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}

/// Whichever write or sync is the first that fails, the run ends in an error that names the file,
/// and goes on from there to the same weights and the same count.
#[test]
fn a_full_disk_at_any_write_is_survived() {
    for recipe in [Recipe::Dpsgd, Recipe::Crt] {
        let settings = for_epochs(options(recipe), 1);
        let set = set(4, 8, 1);
        let whole = trained(&settings, &Corpus::plain(&set));
        let mut failures = 0;
        for writes in 0.. {
            let home = tempfile::tempdir().unwrap();
            let state = home.path().join("out.state");
            failing::after(Some(writes));
            let end = run(&settings, &state);
            failing::after(None);
            let Err(error) = end else { break };
            assert!(is_full(&error), "{recipe}, {writes}: {error}");
            assert!(error.to_string().contains("out.state"), "{error}");
            failures += 1;
            let mut again = run(&settings, &state).unwrap();
            assert_eq!(again.ran.phases, whole.ran.phases, "{recipe}, {writes}");
            assert_eq!(weights(&again), weights(&whole), "{recipe}, {writes}");
            again.erase_state().unwrap();
            let left = std::fs::read_dir(home.path()).unwrap().count();
            assert_eq!(left, 0, "{recipe}, {writes}");
        }
        assert!(failures > 40, "{recipe}: {failures}");
    }
}

/// A checkpoint is there and can be loaded, or is not there: whichever write fails.
#[test]
fn a_full_disk_leaves_no_half_of_a_checkpoint() {
    let prepared = prepare(&simulate(2, 1).unwrap(), &PrepareOptions::default()).unwrap();
    let config = LstmConfig {
        vocabulary: prepared.tokenizer.vocabulary_size(),
        ..common::CONFIG
    };
    let model = Model::from(config);
    let set = set(4, 8, 1);
    let run = trained(&options(Recipe::Crt), &Corpus::plain(&set));
    let initial = Initial::Random { seed: 1 };
    let manifest = Manifest::of(&prepared, &run.ran, initial).unwrap();
    let weights = model.starting_weights(1);
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    let owner = Owner::open_or_create(&out).unwrap();
    let mut failures = 0;
    for writes in 0.. {
        failing::after(Some(writes));
        let tokenizer = &prepared.tokenizer;
        let saved = Checkpoint::save(
            &out,
            &model,
            &weights,
            tokenizer,
            &Beside::default(),
            manifest.clone(),
            Some(&owner),
        );
        failing::after(None);
        let Err(error) = saved else { break };
        assert!(is_full(&error), "{writes}: {error}");
        // Where only its name could not be made to last.
        if out.exists() {
            let written = Checkpoint::load(&out).unwrap().authentication;
            assert_eq!(written, Authentication::Authenticated, "{writes}");
            std::fs::remove_dir_all(&out).unwrap();
        }
        assert_eq!(
            std::fs::read_dir(home.path()).unwrap().count(),
            1,
            "the owner's folder"
        );
        failures += 1;
    }
    assert!(failures >= 8, "{failures}");
    assert!(Checkpoint::load(&out).is_ok());
}

/// A18: killed after the checkpoint was written, or while its state was erased, a run leaves
/// nothing that the next start does not erase. The state of another run stays.
#[test]
fn a_finished_state_that_was_not_erased_is_recognised() {
    let prepared = prepare(&simulate(2, 1).unwrap(), &PrepareOptions::default()).unwrap();
    let config = LstmConfig {
        vocabulary: prepared.tokenizer.vocabulary_size(),
        ..common::CONFIG
    };
    let model = Model::from(config.clone());
    let set = set(4, 8, 1);
    let corpus = Corpus::plain(&set);
    let settings = options(Recipe::Dpsgd);
    let train = |state: &Path, seed| {
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings::resumable(state.to_path_buf(), &stop);
        let starting = config.starting_weights(seed);
        let trainer = crate::engine::lstm(&config, starting, crate::Device::Cpu).unwrap();
        train_on(trainer, &settings, &corpus, &surroundings, &mut |_| {}).unwrap()
    };
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    let state = state_folder(&out);
    assert!(!erase_finished(&out).unwrap());
    let run = train(&state, 1);
    let initial = Initial::Random { seed: 1 };
    let manifest = Manifest::of(&prepared, &run.ran, initial).unwrap();
    assert!(
        erase_finished(&out).is_err(),
        "the run still holds its state"
    );
    let trained = run.trainer.weights().to_vec();
    drop(run);
    assert!(!erase_finished(&out).unwrap(), "there is no checkpoint yet");
    assert!(state.exists());
    Checkpoint::save(
        &out,
        &model,
        &trained,
        &prepared.tokenizer,
        &Beside::default(),
        manifest,
        None,
    )
    .unwrap();
    // An earlier version described its run in another form.
    let (key, ledger, mut described) = authenticated(&state).unwrap();
    let planned: Vec<Planned> = serde_json::from_value(described["planned"].clone()).unwrap();
    let taken = ledger.private_steps();
    drop(ledger);
    described["engine"] = "another".into();
    let path = state.join(LEDGER);
    std::fs::remove_file(&path).unwrap();
    Ledger::create(&path, &key, &described, &planned).unwrap();
    let (mut ledger, _) = Ledger::open(&path, &key).unwrap();
    for index in 0..taken {
        ledger.record_private(index).unwrap();
    }
    let path = state.join(SNAPSHOT);
    let moment = Moment {
        run: described,
        ledger: ledger.standing(),
        ..Snapshot::open(&path, &key, "").unwrap().unwrap().moment
    };
    drop(ledger);
    let parameters = model.parameters();
    let tensors = parameters.iter().zip(&trained).map(|(p, values)| Stored {
        name: p.name.clone(),
        shape: p.shape.clone(),
        values,
    });
    save(&path, &key, &moment, &tensors.collect::<Vec<_>>()).unwrap();
    // killed here, and after each step of erasing
    for doomed in [state.clone(), sibling(&state, ERASED), sibling(&state, NEW)] {
        if doomed != state {
            std::fs::create_dir(&doomed).unwrap();
            std::fs::write(doomed.join(KEY), "a key").unwrap();
        }
        assert!(erase_finished(&out).unwrap(), "{}", doomed.display());
        assert!(!doomed.exists() && out.exists());
    }
    // another run into the same place
    drop(train(&state, 2));
    assert!(!erase_finished(&out).unwrap());
    assert!(state.join(KEY).exists());
}

/// What another version began has sums with other roundings. Its description may have another form too.
#[test]
fn a_state_of_another_version_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("out.state");
    let settings = options(Recipe::Dpsgd);
    drop(run(&settings, &state).unwrap());
    let (key, ledger, own) = authenticated(&state).unwrap();
    drop(ledger);
    let described = Description::read(&state, own.clone()).unwrap();
    let of = |version: &str| {
        let mut other = own.clone();
        other["version"] = version.into();
        other
    };
    let mut silent = own.clone();
    silent.as_object_mut().unwrap().shift_remove("version");
    let mut further = of("9.9.9");
    further["engine"] = "another".into();
    let refused = || run(&settings, &state).err().unwrap().to_string();
    let versions = |theirs: &str| {
        let ours = version();
        format!("version, {ours} here and {theirs} there")
    };
    let begin = |described_as: &serde_json::Value| {
        let path = state.join(LEDGER);
        std::fs::remove_file(&path).unwrap();
        Ledger::create(&path, &key, described_as, described.planned()).unwrap();
    };
    for (other, theirs) in [
        (of("0.0.0"), "0.0.0"),
        // The same release, built from other sources.
        (of(env!("CARGO_PKG_VERSION")), env!("CARGO_PKG_VERSION")),
        (silent, "an earlier one"),
        (further.clone(), "9.9.9"),
    ] {
        begin(&other);
        let error = refused();
        assert!(error.contains(&versions(theirs)), "{theirs}: {error}");
        assert!(error.contains("belongs to another run"), "{error}");
    }
    // A ledger of this version, and a snapshot of another version or schema beside it.
    begin(&own);
    let path = state.join(SNAPSHOT);
    let moment = Snapshot::open(&path, &key, "").unwrap().unwrap().moment;
    let beside = |moment: &Moment| {
        let tensor = Stored {
            name: "a".into(),
            shape: vec![1],
            values: &[0.0],
        };
        save(&path, &key, moment, &[tensor]).unwrap();
        refused()
    };
    for (run, theirs) in [(of("0.0.0"), "0.0.0"), (further, "9.9.9")] {
        let moment = moment.clone();
        let error = beside(&Moment { run, ..moment });
        assert!(error.contains(&versions(theirs)), "{theirs}: {error}");
    }
    let schema = 2;
    let error = beside(&Moment { schema, ..moment });
    assert!(error.contains("schema 2"), "{error}");
}

/// Another margin makes other factors, which the same noise must not meet.
#[test]
fn a_run_with_another_margin_of_norms_is_another_run() {
    let (settings, set) = (options(Recipe::Dpsgd), set(4, 8, 1));
    let corpus = Corpus::plain(&set);
    let schedule = Schedule::of(&settings, &corpus).unwrap();
    let model = Model::from(common::CONFIG);
    let key = RunKey::from_seed(1);
    let of = |margin| {
        let identity = RunIdentity {
            options: &settings,
            corpus: &corpus,
            weights: "",
            model: &model,
            adapter: None,
            lanes: 1,
            device: "cpu",
            margin,
            schedule: &schedule,
        };
        identity.description(&key).unwrap()
    };
    let differ = of(1e-5).differences(&of(2.5e-4));
    assert_eq!(differ.len(), 1, "{differ:?}");
    assert_eq!(differ[0].name, "margin of norms");
}
