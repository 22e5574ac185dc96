//! Shadow models through the command: trained as the audited model's manifest says, or the report
//! says how they differ.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{ok, refused};
use serde_json::Value;
use std::path::Path;

fn json(home: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(home, &format!("{line} --format json"))).unwrap()
}

/// Documents in and out, the former prepared with canaries.
fn corpora(home: &Path) {
    ok(
        home,
        "simulate customers --dialogues 24 --seed 5 --out all.jsonl",
    );
    let all = std::fs::read_to_string(home.join("all.jsonl")).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    std::fs::write(home.join("in.jsonl"), lines[..12].join("\n")).unwrap();
    std::fs::write(home.join("out.jsonl"), lines[12..].join("\n")).unwrap();
    ok(
        home,
        "prepare in.jsonl --policy customers --conservative digits,policy --canaries 3x4 --seed 0 --out prepared",
    );
}

fn shadows(home: &Path, model: &str, more: &str) -> Value {
    let line = format!(
        "membership --model {model} --members in.jsonl --non-members out.jsonl --attack loss --shadows 2 {more}"
    );
    let found = json(home, &line);
    let rows = found["attacks"]["rows"].as_array().unwrap().iter();
    let names: Vec<&str> = rows.map(|a| a["attack"].as_str().unwrap()).collect();
    assert_eq!(names, ["loss", "lira", "rmia"]);
    found["attacks"]["shadows"].clone()
}

fn said(shadows: &Value) -> String {
    let differs = shadows["differs"].as_array().unwrap().iter();
    differs
        .map(|d| d.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("; ")
}

fn near(value: &Value, wanted: f64) {
    let got = value.as_f64().unwrap();
    assert!((got - wanted).abs() < 1e-2, "{got}, not {wanted}");
}

#[test]
fn shadow_models_are_trained_as_the_model_was() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    corpora(home);
    let noise = "--sigma 1.5 --clip 0.5 --sample-rate 0.2 --private-learning-rate 0.05 --seed 1";
    ok(
        home,
        &format!(
            "train prepared --recipe dpsgd {noise} --epochs 2 --dropout 0.2 --decay cosine --out dpsgd"
        ),
    );
    let found = shadows(home, "dpsgd", "");
    assert_eq!(said(&found), "");
    assert_eq!(found["recipe"], "dpsgd");
    assert_eq!((&found["models"], &found["epochs"]), (&2.into(), &2.into()));
    assert_eq!(found["learning_rates"]["decay"], "cosine");
    for (key, wanted) in [
        ("noise_multiplier", 1.5),
        ("clipping_norm", 0.5),
        ("sampling_rate", 0.2),
    ] {
        near(&found[key], wanted);
    }
    near(&found["optimizer"]["learning_rate"], 0.05);
    near(&found["dropout"]["hidden"], 0.2);

    // Explicit options take precedence, and are reported.
    let found = shadows(home, "dpsgd", "--shadow-epochs 1 --shadow-rate 0.01");
    near(&found["optimizer"]["learning_rate"], 0.01);
    assert_eq!(found["epochs"], 1);
    assert!(
        said(&found).contains("2 epochs, --shadow-epochs asks for 1"),
        "{found}"
    );

    // Batches of another sampler and a last epoch that was cut are imitated as far as Poisson batches can.
    let drawn = noise.replace(
        "--sample-rate 0.2",
        "--epoch-steps 5 --sampler balls-in-bins",
    );
    ok(
        home,
        &format!("train prepared --recipe dpsgd {drawn} --epochs 1 --average 0.9 --out bins"),
    );
    let course = std::fs::read_to_string(home.join("bins/manifest.json")).unwrap();
    let course: Value = serde_json::from_str(&course).unwrap();
    near(&course["course"]["average"], 0.9);
    assert!(said(&shadows(home, "bins", "")).contains("another sampler"));
    ok(
        home,
        &format!("train prepared --recipe dpsgd {noise} --steps 7 --out cut"),
    );
    let found = said(&shadows(home, "cut", ""));
    assert_eq!(
        found,
        "the model took 7 noisy steps, shadow models take 10: whole epochs"
    );

    // A public side can't be known here. Without a seed, so that something is promised.
    let noise = noise.replace(" --seed 1", "");
    ok(
        home,
        &format!("train prepared --recipe crt {noise} --epochs 1 --out crt"),
    );
    let found = shadows(home, "crt", "");
    assert_eq!(found["recipe"], "dpsgd");
    assert!(said(&found).contains("public side"), "{found}");
    assert!(found.get("dropout").is_none());

    // The requested δ is that of the promise next to the bound.
    let exposure = json(home, "exposure --model crt --delta 1e-4");
    assert!(exposure["verdict"].is_object(), "{exposure}");
}

#[test]
fn what_is_not_known_is_said() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    corpora(home);
    ok(
        home,
        "prepare in.jsonl --policy customers --max-tokens 64 --canaries 3x4 --seed 0 --out short",
    );
    let sizes = "--model gpt2 --layers 1 --width 16 --heads 2 --context 64";
    ok(
        home,
        &format!(
            "train short --recipe sgd {sizes} --epochs 1 --ordinary-batch-size 16 --seed 1 --out folder"
        ),
    );
    let known = shadows(home, "folder", "--unit turn");
    assert_eq!(
        (said(&known).as_str(), &known["batch_size"]),
        ("", &16.into())
    );
    std::fs::remove_file(home.join("folder/manifest.json")).unwrap();
    ok(
        home,
        &format!(
            "train short --recipe sgd {sizes} --epochs 1 --ordinary-batch-size 16 --seed 2 --out base"
        ),
    );
    let found = shadows(home, "folder", "--unit turn --reference base");
    for part in [
        "how the model was trained is not known",
        "4 are assumed",
        "where the model started from is not known",
    ] {
        assert!(said(&found).contains(part), "{part}: {found}");
    }
    // Its config.json names no dropout, which transformers reads as 0.1.
    assert_eq!(found["from"], "the reference");
    refused(
        home,
        "membership --model folder --members in.jsonl --non-members out.jsonl --shadow-epochs 1",
        &["--shadows"],
    );
}
