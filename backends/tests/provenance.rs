//! What a checkpoint says of itself is compared: mechanism and phases with the plan, files with digests, weights
//! with their manifest.

use crate::common::{options, set};
use reticent_accounting::{Mechanism, NoiseMultiplier, SamplingRate, Steps};
use reticent_backends::checkpoint::{
    Authentication, Checkpoint, Initial, Manifest, Owner, Pretrained, owner_folder,
};
use reticent_backends::engine::open;
use reticent_backends::hugging_face::Beside;
use reticent_backends::model::{Family, Model, TransformerConfig};
use reticent_backends::run::{Surroundings, train_on};
use reticent_backends::{Corpus, Device, Error, Recipe};
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;
use reticent_disk::hexadecimal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A checkpoint of a small GPT-2.
fn checkpoint(recipe: Recipe, seed: Option<u64>) -> (tempfile::TempDir, PathBuf) {
    let prepared = prepare(&simulate(2, 1).unwrap(), &PrepareOptions::default()).unwrap();
    let vocabulary = prepared.tokenizer.vocabulary_size();
    let model = Model::from(TransformerConfig::new(
        Family::Gpt2,
        vocabulary,
        8,
        1,
        2,
        16,
    ));
    let options = options(recipe).seeded(seed);
    let set = set(4, 8, 1);
    let stop = AtomicBool::new(false);
    let trainer = open(&model, model.starting_weights(1), Device::Cpu).unwrap();
    let around = Surroundings::in_memory(&stop);
    let run = train_on(
        trainer,
        &options,
        &Corpus::plain(&set),
        &around,
        &mut |_| {},
    )
    .unwrap();
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    let initial = Initial::Random { seed: 1 };
    let manifest = Manifest::of(&prepared, &run.ran, initial).unwrap();
    let weights = run.trainer.weights();
    Checkpoint::save(
        &out,
        &model,
        weights,
        &prepared.tokenizer,
        &Beside::default(),
        manifest,
        None,
    )
    .unwrap();
    (home, out)
}

/// The scale of the noise in the weights tells the number of records, which a promise of presence takes for public.
#[test]
fn the_number_of_records_is_not_covered_by_noise() {
    for recipe in [Recipe::Sgd, Recipe::Dpsgd, Recipe::Crt] {
        let (_home, out) = checkpoint(recipe, None);
        let said = Checkpoint::load(&out).unwrap().manifest.not_covered;
        let names = said
            .iter()
            .any(|line| line.starts_with("the number of records: "));
        assert_eq!(names, recipe != Recipe::Sgd, "{recipe}: {said:?}");
        // Nothing was held out, and no canary planted.
        assert!(!said.join("").contains("the choice of records"), "{said:?}");
    }
}

/// What a folder says of its tokenizer and of generation goes on with the weights that were trained on from it.
#[test]
fn settings_of_the_folder_go_on_with_its_weights() {
    let (home, out) = checkpoint(Recipe::Sgd, None);
    let settings = [
        ("tokenizer_config.json", r#"{"pad_token": "<pad>"}"#),
        ("generation_config.json", r#"{"eos_token_id": [1, 2]}"#),
        ("chat_template.jinja", "{{ messages }}"),
    ];
    for (name, text) in settings {
        std::fs::write(out.join(name), text).unwrap();
    }
    let loaded = Pretrained::load(&out).unwrap();
    let on = home.path().join("on");
    Checkpoint::save(
        &on,
        &loaded.model,
        &loaded.weights,
        &loaded.tokenizer,
        &Beside::of(&out).unwrap(),
        loaded.manifest.unwrap(),
        None,
    )
    .unwrap();
    for (name, text) in settings {
        assert_eq!(std::fs::read_to_string(on.join(name)).unwrap(), text);
    }
    assert_eq!(Checkpoint::load(&on).unwrap().weights, loaded.weights);
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn write(path: &Path, value: &Value) {
    std::fs::write(path, serde_json::to_string_pretty(value).unwrap()).unwrap();
}

fn refused(folder: &Path) -> String {
    match Checkpoint::load(folder) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

/// One private step of much noise.
fn better() -> Value {
    let better = Mechanism::dp_sgd(
        NoiseMultiplier::new(500.0).unwrap(),
        SamplingRate::new(0.01).unwrap(),
        Steps::new(1),
    );
    serde_json::to_value(better).unwrap()
}

/// Rewrites a checkpoint as whoever knows its format can: `edit` changes the manifest, and the digests and, where the
/// weights stay `marked`, their mark follow.
fn rewritten(folder: &Path, marked: bool, edit: &dyn Fn(&mut Value)) {
    let path = folder.join("manifest.json");
    let mut manifest = read(&path);
    edit(&mut manifest);
    manifest["weights"] = "".into();
    let blank = serde_json::to_string_pretty(&manifest).unwrap();
    let weights = folder.join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    match marked {
        true => {
            let mark = hexadecimal(&Sha256::digest(blank));
            header["__metadata__"]["reticent.manifest"] = mark.into();
        }
        false => header["__metadata__"] = json!({ "format": "pt" }),
    }
    let mut header = serde_json::to_vec(&header).unwrap();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut new = (header.len() as u64).to_le_bytes().to_vec();
    new.extend(header);
    new.extend(&bytes[8 + length..]);
    std::fs::write(&weights, &new).unwrap();
    manifest["weights"] = hexadecimal(&Sha256::digest(&new)).into();
    write(&path, &manifest);
}

/// A14: every field of a manifest, altered alone, is refused by the file's name.
#[test]
fn every_field_of_a_manifest_is_covered() {
    let (_home, out) = checkpoint(Recipe::Dpsgd, None);
    let path = out.join("manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let manifest = read(&path);
    for key in manifest.as_object().unwrap().keys() {
        let mut edited = manifest.clone();
        edited[key] = match &manifest[key] {
            Value::Bool(b) => (!b).into(),
            Value::Number(_) => 2.into(),
            Value::String(s) if key == "vocabulary" => {
                assert_ne!(s, "pretrained");
                "pretrained".into()
            }
            Value::String(s) if key == "unit" => {
                if s == "turn" { "document" } else { "turn" }.into()
            }
            Value::String(s) => format!("{s}0").into(),
            Value::Array(_) => json!([]),
            other => {
                let mut other = other.clone();
                other.as_object_mut().unwrap().clear();
                other
            }
        };
        if key == "mechanism" {
            edited[key] = better();
        }
        write(&path, &edited);
        let error = refused(&out);
        let file = if key == "weights" {
            "out"
        } else {
            "manifest.json"
        };
        assert!(error.contains(file), "{key}: {error}");
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(Checkpoint::load(&out).is_ok());
}

/// A14: the mechanism that counts is the one that follows from the plan; a fixed seed leaves nothing of it.
#[test]
fn a_mechanism_that_does_not_follow_from_the_plan_is_refused() {
    const SIGMA: &str = "noise_multiplier";
    for seed in [None, Some(3)] {
        let (_home, out) = checkpoint(Recipe::Dpsgd, seed);
        let ours = Checkpoint::load(&out).unwrap().manifest;
        assert_eq!(ours.plan.mechanism(), ours.mechanism);
        let path = out.join("manifest.json");
        let whole = read(&path);
        type Edit = fn(&mut Value);
        let edits: [(Edit, &str); 4] = [
            (|m| m["mechanism"] = better(), "mechanism"),
            (|m| m["phases"][0][SIGMA] = 500.0.into(), "phases"),
            (
                |m| m["plan"]["run"]["private"][SIGMA]["value"] = 500.0.into(),
                "mechanism",
            ),
            (
                |m| m["plan"]["seeded"] = (!m["seeded"].as_bool().unwrap()).into(),
                "seeded",
            ),
        ];
        for (edit, key) in edits {
            let mut edited = whole.clone();
            edit(&mut edited);
            assert_ne!(edited, whole);
            write(&path, &edited);
            let error = refused(&out);
            let said = format!("{key}: is not what its plan says");
            assert!(
                error.contains("manifest.json") && error.contains(&said),
                "{error}"
            );
        }
    }
    // The words of a reason are none of the mechanism.
    let (_home, out) = checkpoint(Recipe::Dpsgd, Some(3));
    let ours = Checkpoint::load(&out).unwrap().manifest.mechanism;
    rewritten(&out, true, &|m| {
        m["mechanism"]["parts"][0]["why"] = "seeded".into();
    });
    assert_eq!(Checkpoint::load(&out).unwrap().manifest.mechanism, ours);
}

/// A14: what every manifest states, none may leave out; nor may its weights lose their mark.
#[test]
fn a_manifest_without_plan_digests_or_mark_is_refused() {
    for key in ["plan", "digests", "course", "phases", "mechanism"] {
        let (_home, out) = checkpoint(Recipe::Dpsgd, None);
        rewritten(&out, true, &|m| {
            m.as_object_mut().unwrap().remove(key).unwrap();
        });
        let error = refused(&out);
        assert!(
            error.contains(&format!("missing field `{key}`")),
            "{key}: {error}"
        );
    }
    let (_home, out) = checkpoint(Recipe::Dpsgd, None);
    rewritten(&out, true, &|_| {});
    assert!(Checkpoint::load(&out).is_ok());
    rewritten(&out, false, &|_| {});
    let error = refused(&out);
    assert!(
        error.contains("not the manifest that these weights were written with"),
        "{error}"
    );
}

/// Phases that the recipe doesn't have, a second one of a kind, and another rule of early stopping are not what any plan
/// says.
#[test]
fn phases_beside_those_of_the_recipe_are_refused() {
    let (_home, out) = checkpoint(Recipe::Dpsgd, None);
    let path = out.join("manifest.json");
    let whole = read(&path);
    let own = whole["phases"][0].clone();
    let alike = json!({"every_content_caught": false, "length_and_kind_hidden": true, "screening_ignores_secrets": true});
    let redacted = json!({"side": "redacted", "steps": 1000, "batch_size": 4, "screened": false, "alike": alike,
        "optimizer": own["optimizer"]});
    let public =
        json!({"side": "public", "steps": 100_000, "batch_size": 4, "optimizer": own["optimizer"]});
    let stopped =
        |public: bool| json!({"side": "stopped", "epochs": 1, "patience": 2, "public": public});
    let (by_public, by_private) = (&stopped(true), &stopped(false));
    let given =
        |value: Value| json!({"value": value, "provenance": {"from": "given", "by": "test"}});
    for (rule, phases) in [
        (None, &[][..]),
        (None, &[&redacted, &own][..]),
        (None, &[&own, &own][..]),
        (None, &[&public, &own][..]),
        (None, &[&own, by_public, by_private][..]),
        (None, &[&own, by_private][..]),
        (Some(true), &[&own][..]),
        (Some(true), &[by_public, &own][..]),
        (Some(true), &[&own, by_public, by_public][..]),
        (Some(true), &[&own, by_private][..]),
    ] {
        let mut edited = whole.clone();
        if let Some(public) = rule {
            edited["plan"]["stopping"] =
                json!({"patience": given(2.into()), "public": given(public.into())});
        }
        edited["phases"] = json!(phases);
        write(&path, &edited);
        let error = refused(&out);
        assert!(error.contains("phases: "), "{error}");
    }
}

/// A14: `config.json` and `tokenizer.json` are covered, whatever would still load.
#[test]
fn every_file_is_covered_by_a_digest() {
    let (_home, out) = checkpoint(Recipe::Crt, None);
    for (name, from, to) in [
        ("config.json", "\"bos_token_id\"", "\"bos_token\""),
        ("config.json", "1e-5", "1e-4"),
        ("config.json", "1e-05", "1e-04"),
        ("tokenizer.json", "\n", " \n"),
    ] {
        let path = out.join(name);
        let whole = std::fs::read_to_string(&path).unwrap();
        let edited = whole.replacen(from, to, 1);
        let edited = if edited == whole {
            format!("{whole} ")
        } else {
            edited
        };
        std::fs::write(&path, edited).unwrap();
        let error = refused(&out);
        assert!(
            error.contains(name) && error.contains("tampered"),
            "{error}"
        );
        std::fs::write(&path, whole).unwrap();
    }
}

/// A14: a forgery that is consistent is noticed where the owner's key is at hand, and only there.
#[test]
fn a_consistent_forgery_is_found_by_the_owners_key() {
    let (home, out) = checkpoint(Recipe::Dpsgd, None);
    let at = |folder: &Path| Checkpoint::load(folder).map(|c| c.authentication);
    assert_eq!(at(&out).unwrap(), Authentication::NoKey);
    let owner = Owner::open_or_create(&out).unwrap();
    assert_eq!(at(&out).unwrap(), Authentication::NotAuthenticated);
    let loaded = Pretrained::load(&out).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    Checkpoint::save(
        &out,
        &loaded.model,
        &loaded.weights,
        &loaded.tokenizer,
        &Beside::default(),
        loaded.manifest.unwrap(),
        Some(&owner),
    )
    .unwrap();
    assert_eq!(at(&out).unwrap(), Authentication::Authenticated);
    rewritten(&out, true, &|m| {
        m["plan"]["run"]["private"]["noise_multiplier"]["value"] = 500.0.into();
        m["phases"][0]["noise_multiplier"] = 500.0.into();
        m["mechanism"]["each"]["noise_multiplier"] = 500.0.into();
    });
    let error = at(&out).unwrap_err().to_string();
    assert!(
        error.contains("manifest.json") && error.contains("not the one that its owner"),
        "{error}"
    );
    let away = home.path().join("away");
    std::fs::rename(owner_folder(&out), away).unwrap();
    assert_eq!(at(&out).unwrap(), Authentication::NoKey);
}

/// A15: weights that a run of ours wrote say so without their manifest.
#[test]
fn weights_without_their_manifest_are_recognised() {
    let (_home, out) = checkpoint(Recipe::Sgd, None);
    let whole = Pretrained::load(&out).unwrap();
    assert!(whole.manifest.is_some() && whole.mark.is_none());
    std::fs::remove_file(out.join("manifest.json")).unwrap();
    assert!(matches!(Checkpoint::load(&out), Err(Error::Io { .. })));
    let bare = Pretrained::load(&out).unwrap();
    assert!(bare.manifest.is_none());
    assert_eq!(bare.mark.unwrap().recipe, "sgd");
    // under another name they are still the same weights
    let shard = "model-00001-of-00001.safetensors";
    std::fs::rename(out.join("model.safetensors"), out.join(shard)).unwrap();
    let tensors = safetensors_names(&out.join(shard));
    let map: serde_json::Map<String, Value> = tensors
        .into_iter()
        .map(|name| (name, shard.into()))
        .collect();
    write(
        &out.join("model.safetensors.index.json"),
        &json!({ "metadata": {}, "weight_map": map }),
    );
    assert_eq!(Pretrained::load(&out).unwrap().mark.unwrap().recipe, "sgd");
    // An LSTM is ours, and is not read without its manifest.
    std::fs::write(
        out.join("config.json"),
        "{\"model_type\": \"reticent-lstm\"}",
    )
    .unwrap();
    let error = Pretrained::load(&out).unwrap_err().to_string();
    assert!(
        error.contains("without manifest.json, which says what ran"),
        "{error}"
    );
}

fn safetensors_names(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let names = header.as_object().unwrap().keys();
    names.filter(|n| *n != "__metadata__").cloned().collect()
}
