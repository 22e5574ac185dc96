//! `--mechanism` takes the same files in every command, and reads the same out of them.
#![cfg(feature = "audit")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::{account, audit, flat, stderr, stdout};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::sync::OnceLock;
use tempfile::TempDir;

/// Ends well, and prints this.
fn fine(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// A preparation with canaries, a model trained on it by DP-SGD, the same with a fixed seed, and
/// what ran in every form that our commands write.
fn trained() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path();
            for line in [
                "simulate customers --dialogues 14 --out in.jsonl",
                "prepare in.jsonl --policy customers --canaries 3x4 --canary-format Code:{digits:3} --seed 0 --out planted",
            ] {
                audit::ok(at, line);
            }
            const TRAIN: &str =
                "train planted --recipe dpsgd --sigma 4 --sample-rate 0.2 --epochs 1 --format json";
            let training = audit::ok(at, &format!("{TRAIN} --out ckpt"));
            std::fs::write(at.join("training.json"), training).unwrap();
            audit::ok(at, &format!("{TRAIN} --seed 7 --out seeded"));
            let noisy = TRAIN.replace("--sigma 4", "--sigma 400");
            audit::ok(at, &format!("{noisy} --out noisy"));
            let manifest = std::fs::read(at.join("ckpt/manifest.json")).unwrap();
            let manifest: Value = serde_json::from_slice(&manifest).unwrap();
            let mechanism = manifest["mechanism"].to_string();
            std::fs::write(at.join("own.json"), mechanism).unwrap();
            for (file, line) in [
                ("export.json", "compose own.json --export mechanism"),
                ("event.json", "compose own.json --export dp-event"),
                ("guarantees.json", "compose own.json --format json"),
                (
                    "curve.json",
                    "curve --mechanism own.json --at 1 --format json",
                ),
                (
                    "explanation.json",
                    "explain --mechanism own.json --format json",
                ),
            ] {
                std::fs::write(at.join(file), account::ok(at, line)).unwrap();
            }
            folder
        })
        .path()
}

fn exposure(folder: &Path, line: &str) -> Value {
    let mut found = audit::json(folder, &format!("exposure {line}"));
    // Seconds differ from run to run.
    found.as_object_mut().unwrap().remove("flat_sample");
    found
}

fn promised(report: &Value) -> Value {
    json!([report["verdict"], report["ceiling"], report["no_verdict"]])
}

/// A20: what one command writes, the other takes, with the promise that the checkpoint itself makes.
#[test]
fn exposure_takes_every_file_that_account_takes() {
    let at = trained();
    let own = exposure(at, "--model ckpt");
    assert!(own["ceiling"].is_object(), "{own}");
    for file in [
        "own.json",
        "export.json",
        "event.json",
        "guarantees.json",
        "curve.json",
        "explanation.json",
        "training.json",
        "ckpt/manifest.json",
    ] {
        account::ok(at, &format!("--mechanism {file}"));
        let other = exposure(at, &format!("--model ckpt --mechanism {file}"));
        assert_eq!(promised(&other), promised(&own), "{file}");
    }
}

/// A7: a run that a fixed seed made, or a model that publishes a private vocabulary, promises nothing
/// to any command. Beside the checkpoint of another run it withdraws nothing.
#[test]
fn a_document_that_promises_nothing_promises_nothing_anywhere() {
    let at = trained();
    let text = std::fs::read_to_string(at.join("ckpt/manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(&text).unwrap();
    manifest["vocabulary"] = json!("leaks");
    std::fs::write(at.join("leaking.json"), manifest.to_string()).unwrap();
    let nothing = r#"{"type": "non-private", "why": "the file says so"}"#;
    std::fs::write(at.join("nothing.json"), nothing).unwrap();
    for line in [
        "--model seeded",
        "--model seeded --mechanism seeded/manifest.json",
    ] {
        let report = exposure(at, line);
        let why = report["no_verdict"].as_str().unwrap_or_default();
        assert!(
            why.starts_with("nothing was promised: "),
            "{line}: {report}"
        );
        assert!(report["ceiling"].is_null() && report["verdict"].is_null());
    }
    for file in ["seeded/manifest.json", "leaking.json", "nothing.json"] {
        let said = audit::refused(at, &format!("exposure --model ckpt --mechanism {file}"));
        let words = format!("--mechanism: {file} says another run than ckpt/manifest.json");
        assert!(said.contains(&words), "{said}");
    }
    for file in ["seeded/manifest.json", "leaking.json"] {
        let document = account::json(at, &format!("compose {file}"));
        assert_eq!(document["guarantees"][0]["epsilon"]["upper"], "inf");
    }
}

/// A manifest says what it is under any name, and away from its checkpoint nobody vouches for it.
#[test]
fn a_manifest_is_not_authenticated_away_from_its_checkpoint() {
    const AWAY: &str = "not authenticated: read away from its checkpoint";
    let from = trained();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = std::fs::read_to_string(from.join("ckpt/manifest.json")).unwrap();
    std::fs::write(at.join("copy.json"), &text).unwrap();
    let mut pages = vec![
        account::run(at, "--mechanism copy.json"),
        account::run(at, "compose copy.json"),
        account::run(at, "explain --mechanism copy.json"),
        account::run(at, "curve --mechanism copy.json --at 1"),
        account::fed(at, "compose -", &text),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(from.join("ckpt/manifest.json"), at.join("link.json")).unwrap();
        pages.push(account::run(at, "compose link.json"));
    }
    for page in &pages {
        let page = flat(&fine(page));
        assert!(page.contains(AWAY), "{page}");
    }
    let (ckpt, copy) = (from.join("ckpt"), at.join("copy.json"));
    let line = format!("--model {} --mechanism {}", ckpt.display(), copy.display());
    let report = exposure(at, &line);
    assert!(
        report["manifest"].as_str().unwrap().contains(AWAY),
        "{report}"
    );
    // Beside the owner's folder its code is compared.
    for name in ["ckpt", "ckpt.owner"] {
        std::fs::create_dir(at.join(name)).unwrap();
        for entry in std::fs::read_dir(from.join(name)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), at.join(name).join(entry.file_name())).unwrap();
        }
    }
    let beside = at.join("ckpt/copy.json");
    std::fs::write(&beside, &text).unwrap();
    let page = account::ok(at, "compose ckpt/copy.json");
    assert!(!page.contains("not authenticated"), "{page}");
    let forged = text.replace("4.0", "40.0");
    assert_ne!(forged, text);
    std::fs::write(&beside, forged).unwrap();
    let said = account::refused(at, "compose ckpt/copy.json");
    let words = "not the one that its owner authenticated";
    assert!(said.contains(words), "{said}");
}

/// Whoever reads any page of a run sees what its promise rests on where the weights came from elsewhere.
#[test]
fn a_base_of_others_is_named_wherever_something_is_promised() {
    let from = trained();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let planted = from.join("planted");
    let planted = planted.display();
    let small = "--model gpt2 --layers 1 --width 16 --heads 2 --context 256";
    audit::ok(
        at,
        &format!("train {planted} --recipe sgd --epochs 1 {small} --out base"),
    );
    std::fs::remove_file(at.join("base/manifest.json")).unwrap();
    let noise = "--recipe dpsgd --sigma 4 --sample-rate 0.2 --epochs 1 --model base";
    audit::refused(at, &format!("train {planted} {noise} --out on"));
    let noise = format!("{noise} --declared-public");
    let words = "all text behind it was declared public";
    let train = audit::run(at, &format!("train {planted} {noise} --out on -v"));
    // The number of records counts as public, which presence is promised with alone.
    let present = fine(&train);
    assert!(present.contains("the number of records: "), "{present}");
    let pages = [
        train,
        account::run(at, &format!("--prepared {planted} {noise} -v")),
        account::run(at, "--mechanism on/manifest.json -v"),
        account::run(at, "compose on/manifest.json on/manifest.json -v"),
        account::run(at, "explain --mechanism on/manifest.json -v"),
        account::run(at, "curve --mechanism on/manifest.json --at 1 -v"),
        account::run(
            at,
            "calibrate --mechanism on/manifest.json --solve group --epsilon 9 -v",
        ),
        audit::run(
            at,
            "design --mechanism on/manifest.json --tokens 300 --digits 3 --copies-tried 1 -v",
        ),
        audit::run(at, "exposure --model on -v"),
        audit::run(at, "report --model on --format model-card"),
    ];
    for page in &pages {
        let page = flat(&fine(page));
        assert!(page.contains(words), "{page}");
    }
    // What goes on from it keeps it.
    let on = noise.replace("base --declared-public", "on");
    let further = flat(&audit::ok(
        at,
        &format!("train {planted} {on} --out further -v"),
    ));
    assert!(further.contains(words), "{further}");
}

/// What one record was in the earlier run it is in the plan that continues it, and in every document about it: a turn's
/// promise passed for one of dialogues.
#[test]
fn the_unit_of_an_earlier_run_is_kept() {
    let at = trained();
    let run = "--sigma 2 --sample-rate 0.1 --steps 10 --model ckpt";
    let plan = |unit: &str| {
        let path = at.join(format!("plan-{unit}.toml"));
        let text = format!(
            "schema = 1\nrecipe = \"dpsgd\"\nunit = \"{unit}\"\n[training]\nsigma = 2.0\nsample_rate = 0.1\nsteps = 10\nmodel = \"ckpt\"\n"
        );
        std::fs::write(path, text).unwrap();
        format!("plan plan-{unit}.toml")
    };
    for line in [
        format!("{run} --unit dialogue"),
        format!("--recipe dpsgd {run} --unit dialogue"),
        plan("dialogue"),
    ] {
        let said = account::refused(at, &line);
        let words = "unit: must be turn, what one record is in the earlier run of";
        assert!(said.contains(words), "{said}");
    }
    for line in [
        run.to_owned(),
        format!("--recipe dpsgd {run}"),
        plan("turn"),
    ] {
        let page = flat(&account::ok(at, &line));
        assert!(
            page.contains("one turn") && !page.contains("one record"),
            "{page}"
        );
    }
    for line in [run.to_owned(), format!("--recipe dpsgd {run}")] {
        let export = account::ok(at, &format!("{line} --export mechanism"));
        let export: Value = serde_json::from_str(&export).unwrap();
        assert_eq!(export["unit"], "turn", "{line}");
    }
    let curve = "curve --mechanism ckpt/manifest.json --what epsilon --at 1e-6";
    assert!(flat(&account::ok(at, curve)).contains("one turn"));
    let document = account::ok(at, &format!("{curve} --format json"));
    std::fs::write(at.join("turns.json"), document).unwrap();
    let said = account::refused(at, "--mechanism turns.json --unit dialogue");
    let words = "--unit: must be turn, what one record is in the file, got dialogue";
    assert!(said.contains(words), "{said}");
}

/// Whatever is made of a manifest that nobody vouches for says so: answers, their documents, exports and rows, and runs that
/// continue it.
#[test]
fn what_rests_on_an_unauthenticated_manifest_says_so() {
    const MARK: &str = "not authenticated";
    let from = trained();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // Without its owner's folder.
    std::fs::create_dir(at.join("away")).unwrap();
    for entry in std::fs::read_dir(from.join("ckpt")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), at.join("away").join(entry.file_name())).unwrap();
    }
    let manifest = "--mechanism away/manifest.json";
    for line in [
        format!("calibrate {manifest} --solve group --epsilon 9"),
        "--sigma 4 --sample-rate 0.1 --steps 9 --model away".to_owned(),
    ] {
        let page = flat(&account::ok(at, &line));
        assert!(page.contains(MARK), "{line}: {page}");
    }
    let design = format!("design {manifest} --tokens 300 --digits 3 --copies-tried 1");
    let page = flat(&audit::ok(at, &design));
    assert!(page.contains(MARK), "{page}");
    for (line, file) in [
        (format!("{manifest} --format json"), "answer.json"),
        (
            format!("curve {manifest} --at 1 --format json"),
            "curve.json",
        ),
        (format!("{manifest} --export mechanism"), "mechanism.json"),
        (
            "compose away/manifest.json --export mechanism".to_owned(),
            "composed.json",
        ),
    ] {
        std::fs::write(at.join(file), account::ok(at, &line)).unwrap();
        let page = flat(&account::ok(at, &format!("--mechanism {file} -v")));
        assert!(page.contains(MARK), "{file}: {page}");
    }
    for line in [
        format!("{manifest} --format csv"),
        format!("{manifest} --export dp-event"),
        "--mechanism answer.json --format csv".to_owned(),
    ] {
        let output = account::run(at, &line);
        fine(&output);
        assert!(
            stderr(&output).contains(MARK),
            "{line}: {}",
            stderr(&output)
        );
    }
    let output = account::run(from, "--mechanism ckpt/manifest.json --format csv");
    assert!(!stderr(&output).contains(MARK), "{}", stderr(&output));
    // One run later, and two.
    let planted = from.join("planted");
    let planted = planted.display();
    for (of, out) in [("away", "next"), ("next", "last")] {
        let line = "--recipe dpsgd --sigma 4 --sample-rate 0.2 --epochs 1 --delta 1e-5";
        let page = flat(&audit::ok(
            at,
            &format!("train {planted} {line} --model {of} --out {out} -v"),
        ));
        assert!(page.contains(MARK), "{page}");
        let page = flat(&account::ok(at, &format!("compose {out}/manifest.json -v")));
        assert!(page.contains("the manifest of the earlier run"), "{page}");
        let report = exposure(at, &format!("--model {out}"));
        let caveat = report["manifest"].as_str().unwrap();
        assert!(
            caveat.contains("the manifest of the earlier run"),
            "{report}"
        );
        // δ was given to the run.
        let of_report = audit::json(at, &format!("report --model {out}"));
        for inputs in [&report["inputs"], &of_report["inputs"]] {
            assert_eq!(inputs["delta"], 1e-5, "{inputs}");
            let assumed = inputs["assumed"].as_array().unwrap();
            assert!(assumed.iter().all(|name| name != "delta"), "{inputs}");
        }
        // An answer about it says of its canaries what the manifest says.
        let answer = account::json(at, &format!("compose {out}/manifest.json"));
        assert!(
            answer["inputs"]["canary_records"].as_u64() > Some(0),
            "{answer}"
        );
        assert_eq!(answer["inputs"]["canary_records_unknown"], false);
    }
}

/// No canary of three exceeds the ceiling, so that it lies above what three that no model ever saw stay below:
/// log2(3/0.05) bits. One of them would stay below log2(1/0.05).
#[test]
fn a_ceiling_is_one_of_all_canaries() {
    let report = exposure(trained(), "--model noisy");
    let bits = report["ceiling"]["exposure_at_most"].as_f64().unwrap();
    assert!(
        bits > 60f64.log2() - 0.1 && bits < 60f64.log2() + 1.0,
        "{bits}"
    );
}

#[test]
fn exposure_refuses_with_the_place_and_another_unit() {
    let at = trained();
    std::fs::write(
        at.join("broken.json"),
        r#"{"type":"repeat","times":3,"each":{"type":"gaussian","noise_multiplier":-1}}"#,
    )
    .unwrap();
    std::fs::write(
        at.join("dialogues.json"),
        r#"{"unit":"dialogue","mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
    )
    .unwrap();
    std::fs::write(
        at.join("another.json"),
        r#"{"type":"gaussian","noise_multiplier":50}"#,
    )
    .unwrap();
    // A model that promises nothing too.
    let said = audit::refused(at, "exposure --model seeded --mechanism another.json");
    let words = "--mechanism: another.json says another run than seeded/manifest.json";
    assert!(said.contains(words), "{said}");
    for (file, words) in [
        (
            "broken.json",
            "--mechanism: broken.json: each.noise_multiplier: noise multiplier must lie in (0, inf), got -1",
        ),
        (
            "dialogues.json",
            "--mechanism: one record is a dialogue in dialogues.json and a turn in the canary plan",
        ),
        (
            "another.json",
            "--mechanism: another.json says another run than ckpt/manifest.json",
        ),
    ] {
        let said = audit::refused(at, &format!("exposure --model ckpt --mechanism {file}"));
        assert!(said.contains(words), "{said}");
    }
}

/// An event's (ε, δ) says nothing of who is compared: that it is taken to be for those who are asked about is an assumption.
#[test]
fn promises_of_events_are_for_whom_they_are_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let event = json!({"class_name": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 1e-3});
    std::fs::write(at.join("event.json"), event.to_string()).unwrap();
    let own =
        json!({"type": "approx-dp", "epsilon": 1.0, "delta": 1e-3, "neighbours": "add-remove"});
    std::fs::write(at.join("own.json"), own.to_string()).unwrap();
    for (file, assumed) in [("event.json", true), ("own.json", false)] {
        let line = format!("--mechanism {file} --neighbours replace --at-epsilon 2 -v");
        let page = account::ok(at, &line);
        let words = "promise neighbours replace";
        assert_eq!(page.contains(words), assumed, "{file}: {page}");
    }
}
