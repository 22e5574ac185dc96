//! Checkpoint folders: what is saved is loaded, and nothing damaged is accepted.

use crate::check;
use reticent_accounting::training::{
    Base, CompletedRun, Recipe, Run, Stated, TrainingPlan, outside_text,
};
use reticent_accounting::{Mechanism, UnitName};
use reticent_backends::checkpoint::{Checkpoint, Initial, Manifest, Owner, Phase, weights_digest};
use reticent_backends::engine::{lstm, open};
use reticent_backends::hugging_face::Beside;
use reticent_backends::model::LstmConfig;
use reticent_backends::run::{Surroundings, Trained, train};
use reticent_backends::trainer::{LearningRates, OptimizerSpec};
use reticent_backends::{Device, Error, TrainOptions};
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::prepare::{PrepareOptions, Prepared, Stability, Stage, prepare};
use reticent_corpus::simulate::simulate;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn prepared() -> Prepared {
    let canaries = CanaryOptions::new("3x2".parse().unwrap());
    prepare(
        &simulate(4, 1).unwrap(),
        &PrepareOptions {
            canaries: Some(canaries),
            ..Default::default()
        },
    )
    .unwrap()
}

/// A run of one epoch without protection, finished.
fn finished(prepared: &Prepared) -> (LstmConfig, Trained) {
    let config = LstmConfig {
        vocabulary: prepared.tokenizer.vocabulary_size(),
        embedding: 4,
        hidden: 5,
    };
    let run = Run::Sgd {
        epochs: Stated::given(1, "test"),
        steps: None,
    };
    let unit = UnitName::new(prepared.training.unit.to_string()).unwrap();
    let optimizer = OptimizerSpec::Sgd {
        learning_rate: 0.1,
        momentum: 0.0,
    };
    let options = TrainOptions {
        learning_rates: LearningRates::CONSTANT,
        ..TrainOptions::new(TrainingPlan::new(run, unit), 8, optimizer).seeded(Some(0))
    };
    let model = lstm(&config, config.starting_weights(0), Device::Cpu).unwrap();
    let stop = AtomicBool::new(false);
    let trained = train(
        model,
        &options,
        &prepared.training,
        &Surroundings::in_memory(&stop),
        &mut |_| {},
    )
    .unwrap();
    (config, trained)
}

fn save(folder: &Path) -> Prepared {
    let prepared = prepared();
    let (config, trained) = finished(&prepared);
    let mut manifest = Manifest::of(&prepared, &trained.ran, Initial::Random { seed: 0 }).unwrap();
    let owner = Owner::open_or_create(folder).unwrap();
    let seal = owner
        .keep(prepared.plan.as_ref().unwrap(), 2, 0, 1)
        .unwrap();
    manifest.canaries = Some(seal);
    Checkpoint::save(
        folder,
        &config.into(),
        trained.trainer.weights(),
        &prepared.tokenizer,
        &Beside::default(),
        manifest,
        Some(&owner),
    )
    .unwrap();
    prepared
}

#[test]
fn what_is_saved_is_loaded() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("ckpt");
    let prepared = save(&folder);
    let checkpoint = Checkpoint::load(&folder).unwrap();
    let phases = &checkpoint.manifest.phases;
    assert!(matches!(phases[..], [Phase::Unprotected { .. }]) && checkpoint.manifest.seeded);
    assert!(checkpoint.manifest.not_covered[0].contains("not private"));
    let mut model = open(&checkpoint.model, checkpoint.weights.clone(), Device::Cpu).unwrap();
    assert!(
        model
            .score(&[checkpoint.tokenizer.frame("USR: hello").unwrap()])
            .is_ok()
    );
    // the seal opens with the owner's key and no other plan fits it
    let owner = Owner::open(&folder).unwrap();
    let plan = prepared.plan.unwrap();
    let seal = checkpoint.manifest.canaries.clone().unwrap();
    assert_eq!(owner.digest(&plan).unwrap(), seal.digest);
    let mut other = plan.clone();
    other.seed += 1;
    assert_ne!(owner.digest(&other).unwrap(), seal.digest);
    // nor is the plan replaced by another
    let kept = std::fs::read(owner.plan_path()).unwrap();
    let refused = owner.keep(&other, 2, 0, 1).unwrap_err().to_string();
    assert!(
        refused.contains("the canary plan of another model"),
        "{refused}"
    );
    assert!(Owner::has_room_for(Some(&other), &folder).is_err());
    assert!(Owner::has_room_for(None, &folder).is_err());
    assert_eq!(std::fs::read(owner.plan_path()).unwrap(), kept);
    assert_eq!(owner.keep(&plan, 2, 0, 1).unwrap(), seal);
    // nothing of the secrets lies in the checkpoint
    for entry in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for canary in &plan.canaries {
            let secret = canary.secret.as_bytes();
            assert!(
                !bytes.windows(secret.len()).any(|w| w == secret),
                "a canary lies in the checkpoint"
            );
        }
    }
    // an occupied folder is never written over
    let again = Checkpoint::save(
        &folder,
        &checkpoint.model,
        &checkpoint.weights,
        &checkpoint.tokenizer,
        &Beside::default(),
        checkpoint.manifest.clone(),
        Some(&owner),
    );
    assert!(matches!(again, Err(Error::Io { .. })));
}

#[cfg(unix)]
#[test]
fn the_owners_files_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    save(&home.path().join("ckpt"));
    let owner = home.path().join("ckpt.owner");
    assert_eq!(
        owner.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    for name in ["key", "canaries.json"] {
        assert_eq!(
            owner.join(name).metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn damage_is_named_and_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("ckpt");
    save(&folder);
    let expect = |file: &str, damage: &dyn Fn(&mut Vec<u8>), words: &str| {
        let path = folder.join(file);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let Err(error) = Checkpoint::load(&folder) else {
            panic!("{file} with {words} was accepted")
        };
        let text = error.to_string();
        assert!(text.contains(file) && text.contains(words), "{text}");
        std::fs::write(&path, &whole).unwrap();
    };
    expect(
        "model.safetensors",
        &|b| b.truncate(b.len() / 2),
        "not a whole safetensors file",
    );
    expect(
        "model.safetensors",
        &|b| b.truncate(3),
        "not a whole safetensors file",
    );
    expect(
        "model.safetensors",
        &|b| {
            let n = b.len();
            b[n - 3] ^= 1;
        },
        "tampered",
    );
    expect(
        "model.safetensors",
        &|b| {
            let n = b.len();
            b[n - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        },
        "finite",
    );
    expect("manifest.json", &|b| b.truncate(b.len() / 2), "EOF");
    expect("manifest.json", &|b| *b = b"{}".to_vec(), "missing field");
    expect(
        "config.json",
        &|b| {
            *b = String::from_utf8_lossy(b)
                .replace("reticent-lstm", "gpt2")
                .into_bytes()
        },
        "tampered",
    );
    expect(
        "config.json",
        &|b| {
            *b = String::from_utf8_lossy(b)
                .replace("\"hidden_size\": 5", "\"hidden_size\": 99999999")
                .into_bytes()
        },
        "tampered",
    );
    expect("tokenizer.json", &|b| b.truncate(40), "tokenizer.json");
    assert!(Checkpoint::load(&folder).is_ok());
    std::fs::remove_file(folder.join("model.safetensors")).unwrap();
    assert!(matches!(Checkpoint::load(&folder), Err(Error::Io { .. })));
}

#[test]
fn the_manifest_fits_its_published_schema() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("ckpt");
    save(&folder);
    let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    check::fits("manifest", &text);
    for (key, value) in [("surprise", true.into()), ("recipe", "magic".into())] {
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        manifest[key] = value;
        let problems = check::problems("manifest.schema.json", &manifest.to_string());
        assert!(!problems.is_empty(), "{key}");
    }
}

/// Whether the input holds masked spans is a function of the private text.
#[test]
fn published_stages_do_not_say_whether_the_text_has_masks() {
    let without = prepared();
    let (_, trained) = finished(&without);
    let mut with = without.clone();
    for stage in &mut with.facts.stages {
        if stage.stage == Stage::Deduplicate {
            stage.all_copies = Stability::Bounded(2);
        }
    }
    assert_ne!(with.facts.stages, without.facts.stages);
    let published = [&without, &with].map(|prepared| {
        let initial = Initial::Random { seed: 0 };
        Manifest::of(prepared, &trained.ran, initial)
            .unwrap()
            .stages
    });
    assert_eq!(published[0], published[1]);
    assert_eq!(published[0], with.facts.stages, "the larger number");
}

/// A checkpoint that is trained on keeps the promises of what it was, its seed included.
#[test]
fn what_ran_before_composes() {
    let prepared = prepared();
    let (_, mut trained) = finished(&prepared);
    let before = Mechanism::dp_sgd(
        reticent_accounting::NoiseMultiplier::new(1.0).unwrap(),
        reticent_accounting::SamplingRate::new(0.1).unwrap(),
        reticent_accounting::Steps::new(7),
    );
    let weights = weights_digest(trained.trainer.weights());
    let continued = |mechanism: &Mechanism, seeded| Initial::Continued {
        weights: weights.clone(),
        recipe: Recipe::Dpsgd,
        mechanism: Box::new(mechanism.clone()),
        seeded,
    };
    let pretrained = Initial::Pretrained {
        weights: weights.clone(),
        declared_public: false,
        has_manifest: false,
        manifest_missing: false,
    };
    trained.ran.plan.seeded = false;
    let ran = trained.mechanism();
    assert!(matches!(ran, Mechanism::NonPrivate { .. }));
    assert!(Manifest::of(&prepared, &trained.ran, pretrained.clone()).is_err());
    trained.ran.plan.base = Some(Base::Unstated);
    let fresh = Manifest::of(&prepared, &trained.ran, pretrained.clone()).unwrap();
    assert_eq!((&fresh.mechanism, fresh.seeded), (&ran, false));
    // where it began is said by the plan and by the manifest, and compared
    assert_eq!(
        fresh.not_covered.first().map(String::as_str),
        outside_text(Some(Base::Unstated), false).next()
    );
    trained.ran.plan.base = Some(Base::DeclaredPublic);
    assert!(Manifest::of(&prepared, &trained.ran, pretrained.clone()).is_err());
    let set_aside = Initial::Pretrained {
        weights: weights.clone(),
        declared_public: true,
        has_manifest: true,
        manifest_missing: false,
    };
    assert!(Manifest::of(&prepared, &trained.ran, set_aside.clone()).is_err());
    trained.ran.plan.base = Some(Base::DeclaredPublicRun);
    assert!(Manifest::of(&prepared, &trained.ran, set_aside).is_ok());
    trained.ran.plan.base = None;
    assert!(Manifest::of(&prepared, &trained.ran, continued(&before, false)).is_err());
    for seeded in [false, true] {
        trained.ran.plan.seeded = seeded;
        trained.ran.plan.continues = Some(Stated::given(
            CompletedRun {
                recipe: Some(Recipe::Dpsgd),
                ..CompletedRun::of(before.clone())
            },
            "test",
        ));
        assert!(Manifest::of(&prepared, &trained.ran, pretrained.clone()).is_err());
        let better = Mechanism::Sequence { parts: vec![] };
        assert!(Manifest::of(&prepared, &trained.ran, continued(&better, seeded)).is_err());
        let manifest = Manifest::of(&prepared, &trained.ran, continued(&before, seeded)).unwrap();
        match (seeded, &manifest.mechanism) {
            (false, Mechanism::Sequence { parts }) => {
                assert_eq!(*parts, [before.clone(), ran.clone()]);
            }
            (true, Mechanism::Sequence { parts }) => {
                let [Mechanism::NonPrivate { .. }, rest @ ..] = &parts[..] else {
                    panic!("{parts:?}")
                };
                assert_eq!(*rest, [before.clone(), ran.clone()]);
            }
            (_, other) => panic!("{other:?}"),
        }
        assert_eq!(manifest.plan.mechanism(), manifest.mechanism);
        assert_eq!(manifest.seeded, seeded);
        let again = Manifest::from_json(&manifest.to_json().unwrap()).unwrap();
        assert_eq!(again, manifest);
    }
}

#[test]
fn the_digest_of_weights_knows_every_value_and_where_tensors_end() {
    let digest = |w: &[&[f32]]| {
        let weights: Vec<Vec<f32>> = w.iter().map(|t| t.to_vec()).collect();
        weights_digest(&weights)
    };
    let one = digest(&[&[1.0, 2.0], &[3.0]]);
    assert_eq!(one.len(), 64);
    assert_eq!(one, digest(&[&[1.0, 2.0], &[3.0]]));
    for other in [
        digest(&[&[1.0], &[2.0, 3.0]]),
        digest(&[&[1.0, 2.0], &[-3.0]]),
    ] {
        assert_ne!(one, other);
    }
}
