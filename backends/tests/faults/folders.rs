//! Faults of what a run leaves behind: manifests, digests, keys, ledgers.

use crate::common::{model, noisy, options, set, trained, weights};
use reticent_accounting::Mechanism;
use reticent_accounting::training::{Run, TrainingPlan};
use reticent_backends::checkpoint::{Checkpoint, Initial, Manifest, Owner};
use reticent_backends::hugging_face::Beside;
use reticent_backends::model::LstmConfig;
use reticent_backends::run::{Surroundings, Trained, train_on};
use reticent_backends::{Corpus, Error, Recipe};
use reticent_corpus::TrainingSet;
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::prepare::{PrepareOptions, Prepared, prepare};
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use reticent_disk::hexadecimal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn prepared() -> Prepared {
    let canaries = CanaryOptions::new("3x2".parse().unwrap());
    let options = PrepareOptions {
        canaries: Some(canaries),
        ..Default::default()
    };
    prepare(&simulate(4, 1).unwrap(), &options).unwrap()
}

fn config(prepared: &Prepared) -> LstmConfig {
    LstmConfig {
        vocabulary: prepared.tokenizer.vocabulary_size(),
        embedding: 4,
        hidden: 5,
    }
}

/// A short run on a prepared corpus; its state lies in `state` if given.
fn short(prepared: &Prepared, seed: Option<u64>, state: Option<&Path>) -> Trained {
    let config = config(prepared);
    let model = reticent_backends::engine::lstm(
        &config,
        config.starting_weights(1),
        reticent_backends::Device::Cpu,
    );
    let stop = AtomicBool::new(false);
    let surroundings = Surroundings {
        state: state.map(Path::to_path_buf),
        snapshot_every: Duration::ZERO,
        stop: &stop,
        at_epoch: None,
    };
    let mut options = options(Recipe::Dpsgd);
    let set = &prepared.training;
    let records = set.public_size() + set.private_size();
    let unit = reticent_accounting::UnitName::new(set.unit.to_string()).unwrap();
    let private = noisy(0.8, 40, records, 1);
    options.plan = TrainingPlan::new(Run::Dpsgd { private }, unit);
    let options = options.seeded(seed);
    let corpus = Corpus::plain(&prepared.training);
    train_on(
        model.unwrap(),
        &options,
        &corpus,
        &surroundings,
        &mut |_| {},
    )
    .unwrap()
}

fn manifest(prepared: &Prepared, trained: &Trained) -> Manifest {
    Manifest::of(prepared, &trained.ran, Initial::Random { seed: 1 }).unwrap()
}

/// Faults 12, 19 and 21: what no guarantee covers is said in the manifest, and for which
/// neighbours the sensitivity was set.
#[test]
fn the_manifest_says_what_no_guarantee_covers() {
    let prepared = prepared();
    let made = manifest(&prepared, &short(&prepared, Some(1), None));
    let said = made.not_covered.join("\n");
    for what in [
        "floating-point",
        "metrics",
        "tuning",
        "fixed seed",
        "checkpoints",
        "early stopping by results on private text, whether or not they are published",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
    assert_eq!(made.neighbours, reticent_accounting::Neighbours::AddRemove);
    let unseeded = manifest(&prepared, &short(&prepared, None, None));
    assert!(!unseeded.seeded && !unseeded.not_covered.join("").contains("fixed seed"));
}

/// A vocabulary of two words.
const WORDS: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":2,"content":"<|endoftext|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{"a":0,"b":1,"<|endoftext|>":2},"merges":[]}}"#;

/// Fault 23: a vocabulary built from private text is itself a release without noise.
#[test]
fn a_vocabulary_that_leaks_costs_everything() {
    let mut prepared = prepared();
    let mut trained = short(&prepared, None, None);
    let infinite = |m: &Mechanism| match m {
        Mechanism::Sequence { parts } => parts
            .iter()
            .any(|p| matches!(p, Mechanism::NonPrivate { .. })),
        _ => false,
    };
    assert!(!infinite(&manifest(&prepared, &trained).mechanism));
    prepared.tokenizer = Tokenizer::from_json(WORDS, Origin::Leaks).unwrap();
    // a plan that says otherwise than the corpus makes no manifest
    let error = Manifest::of(&prepared, &trained.ran, Initial::Random { seed: 1 }).unwrap_err();
    assert!(error.to_string().contains("vocabulary"), "{error}");
    trained.ran.plan.vocabulary_leaks = true;
    let made = manifest(&prepared, &trained);
    assert!(infinite(&made.mechanism), "{:?}", made.mechanism);
    assert!(made.not_covered[0].starts_with("the vocabulary: "));
}

/// Fault 24: a digest of private text that anyone can compute lets anyone try candidates.
#[test]
fn digests_are_keyed_by_their_owner() {
    let prepared = prepared();
    let plan = prepared.plan.as_ref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let digest = |name: &str| {
        let owner = Owner::open_or_create(&folder.path().join(name)).unwrap();
        owner.digest(plan).unwrap()
    };
    assert_ne!(digest("a"), digest("b"), "two owners, one plan");
    assert_eq!(digest("a"), digest("a"));
}

fn every_file(folder: &Path, work: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            every_file(&path, work);
        } else {
            work(&path, &std::fs::read(&path).unwrap());
        }
    }
}

/// Fault 25: when a run is done and its checkpoint written, its key is nowhere: not in the
/// checkpoint, not in the owner's folder, not beside them.
#[test]
fn nothing_of_the_key_is_left_behind() {
    let prepared = prepared();
    let home = tempfile::tempdir().unwrap();
    let (state, out) = (home.path().join("out.state"), home.path().join("out"));
    let mut trained = short(&prepared, None, Some(&state));
    let stored = std::fs::read_to_string(state.join("key.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let key: Vec<u8> = serde_json::from_value(stored["key"].clone()).unwrap();
    let mut made = manifest(&prepared, &trained);
    let plan = prepared.plan.as_ref().unwrap();
    let owner = Owner::open_or_create(&out).unwrap();
    made.canaries = Some(owner.keep(plan, 2, 0, 1).unwrap());
    let weights = trained.trainer.weights();
    Checkpoint::save(
        &out,
        &config(&prepared).into(),
        weights,
        &prepared.tokenizer,
        &Beside::default(),
        made,
        Some(&owner),
    )
    .unwrap();
    trained.erase_state().unwrap();
    let forms = [
        key.clone(),
        hexadecimal(&key).into_bytes(),
        serde_json::to_vec(&key).unwrap(),
    ];
    let mut files = 0;
    every_file(home.path(), &mut |path, bytes| {
        files += 1;
        for form in &forms {
            let found = bytes.windows(form.len()).any(|w| w == form.as_slice());
            assert!(!found, "{}", path.display());
        }
    });
    assert!(files >= 5, "{files} files were read");
    assert!(!state.exists());
}

/// Fault 26: a step that is replayed repeats its noise, so it must repeat its batch. A state
/// folder is refused to a run on other records, under the old key as under any.
#[test]
fn other_records_never_meet_the_old_noise() {
    let folder = tempfile::tempdir().unwrap();
    let run = |set: &TrainingSet, stop_at: u64| {
        let stop = AtomicBool::new(false);
        let surroundings = Surroundings {
            state: Some(folder.path().join("state")),
            snapshot_every: Duration::ZERO,
            stop: &stop,
            at_epoch: None,
        };
        let options = options(Recipe::Dpsgd).seeded(None);
        let corpus = Corpus::plain(set);
        train_on(model(), &options, &corpus, &surroundings, &mut |at| {
            stop.store(at.step >= stop_at, Ordering::Relaxed);
        })
    };
    let here = set(0, 12, 0);
    assert!(matches!(run(&here, 3), Err(Error::Interrupted { .. })));
    let mut other = here.clone();
    other.records[5].tokens[2] = 9 - other.records[5].tokens[2];
    let Err(error) = run(&other, u64::MAX) else {
        panic!("other records met the old noise")
    };
    assert!(error.to_string().contains("(other records)"), "{error}");
    assert!(run(&here, u64::MAX).is_ok());
}

/// Fault 10: what a fixed seed drew is said to be drawn by a fixed seed, and two runs without
/// one share nothing.
#[test]
fn only_a_secret_key_makes_a_run_private() {
    let set = set(0, 12, 0);
    let run = |seed| {
        let options = options(Recipe::Dpsgd).seeded(seed);
        trained(&options, &Corpus::plain(&set))
    };
    assert!(run(Some(0)).ran.plan.seeded);
    let (one, other) = (run(None), run(None));
    assert!(!one.ran.plan.seeded && !other.ran.plan.seeded);
    assert_ne!(weights(&one), weights(&other));
    let mut unsaid = options(Recipe::Dpsgd).seeded(Some(0));
    unsaid.plan.seeded = false;
    assert!(unsaid.validated().is_err());
}
