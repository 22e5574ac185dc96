//! How the audit command treats files on disk between and after runs.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_backends::checkpoint::FolderLock;
use reticent_proofs_tests::commands::{ok, refused, run, said};
use std::path::Path;

const MODEL: &str = "--model gpt2 --layers 1 --width 8 --heads 1";

/// A small corpus with canaries.
fn corpus(home: &Path) {
    ok(
        home,
        "simulate customers --dialogues 6 --seed 3 --out data.jsonl",
    );
    ok(
        home,
        "prepare data.jsonl --policy customers --unit turn --max-tokens 64 --canaries 3x2 --seed 0 --out prepared",
    );
}

/// A14, A15: a manifest is authenticated by its owner's key, and it is said where it is not; weights
/// of ours without it are taken for nobody's model unless their text is declared public.
#[test]
fn manifests_are_authenticated_and_missed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    corpus(home);
    let train = format!("train prepared {MODEL} --recipe dpsgd --sigma 1 --epochs 1 --out ckpt");
    ok(home, &train);
    let exposure = "exposure --model ckpt --canaries 3x2";
    assert!(!ok(home, exposure).contains("not authenticated"));
    let code = home.join("ckpt.owner/manifest.code");
    let kept = std::fs::read(&code).unwrap();
    std::fs::remove_file(&code).unwrap();
    for format in ["text", "json"] {
        let said = ok(home, &format!("{exposure} --format {format}"));
        assert!(said.contains("not authenticated"), "{said}");
        let said = ok(home, &format!("report --model ckpt --format {format}"));
        assert!(said.contains("not authenticated"), "{said}");
    }
    std::fs::write(&code, &kept[1..]).unwrap();
    refused(
        home,
        exposure,
        &["--model", "ckpt/manifest.json", "its owner"],
    );
    std::fs::write(&code, &kept).unwrap();
    let manifest = home.join("ckpt/manifest.json");
    let whole = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, whole.replace("\"turn\"", "\"document\"")).unwrap();
    refused(home, exposure, &["--model", "ckpt/manifest.json"]);
    std::fs::remove_file(&manifest).unwrap();
    let next = "train prepared --model ckpt --recipe dpsgd --sigma 1 --epochs 1 --out next";
    refused(
        home,
        next,
        &[
            "--model",
            "ckpt",
            "nothing is promised",
            "--declared-public",
        ],
    );
    // The weights themselves say that a recipe protected their text.
    let public = format!("{next} --declared-public");
    refused(
        home,
        &public,
        &["--declared-public", "ckpt", "dpsgd", "manifest.json"],
    );
    // A run of sgd protected none, but may have met the same canaries.
    ok(
        home,
        &format!("train prepared {MODEL} --recipe sgd --epochs 1 --out open"),
    );
    std::fs::remove_file(home.join("open/manifest.json")).unwrap();
    let public = public.replace("--model ckpt", "--model open");
    refused(
        home,
        &public.replace(" --declared-public", ""),
        &[
            "--model",
            "open",
            "nothing is promised",
            "give --declared-public",
        ],
    );
    ok(home, &public);
    let next = std::fs::read_to_string(home.join("next/manifest.json")).unwrap();
    assert!(next.contains("\"declared_public\": true"), "{next}");
    assert!(next.contains("\"manifest_missing\": true"), "{next}");
    for folder in ["next", "then"] {
        if folder == "then" {
            let then = "train prepared --model next --recipe dpsgd --sigma 1 --epochs 1 --out then";
            ok(home, then);
        }
        let page = said(home, &format!("exposure --model {folder} --canaries 3x2"));
        assert!(
            page.contains("in how many records of the earlier run a canary was is not known"),
            "{page}"
        );
    }
    // Nor is that known of what was trained on it, whatever its own manifest says.
    ok(
        home,
        "simulate customers --dialogues 6 --seed 4 --out plain.jsonl",
    );
    let plain = "prepare plain.jsonl --policy customers --unit turn --max-tokens 64 --out plain";
    ok(home, plain);
    let on = "--model open --declared-public --recipe sgd --epochs 1 --out on";
    ok(home, &format!("train plain {on}"));
    refused(
        home,
        &public
            .replace("--model open", "--model on")
            .replace("--out next", "--out x"),
        &["--declared-public", "on", "may have met canaries"],
    );
    let said = ok(home, "report --model ckpt");
    assert!(said.contains("nothing is promised"), "{said}");
    std::fs::write(&manifest, whole).unwrap();
    refused(
        home,
        &public
            .replace("--model open", "--model ckpt")
            .replace("--out next", "--out third"),
        &["--declared-public", "manifest.json"],
    );
}

/// What an abandoned run released stands beside a new run of its name, whichever of its own epochs the new run keeps.
#[test]
fn checkpoints_of_an_abandoned_run_are_in_the_way_of_a_new_one() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    corpus(home);
    let train = format!("train prepared {MODEL} --recipe dpsgd --sigma 1 --epochs 3 --out r");
    ok(home, &format!("{train} --keep-every 1"));
    for folder in ["r", "r.owner"] {
        std::fs::remove_dir_all(home.join(folder)).unwrap();
    }
    std::fs::rename(home.join("r-epoch-1"), home.join("elsewhere")).unwrap();
    let again = train.replace("--sigma 1", "--sigma 2");
    for keep in ["", " --keep-every 3"] {
        refused(
            home,
            &format!("{again}{keep}"),
            &["--out", "r-epoch-2", "account compose"],
        );
    }
    std::fs::rename(home.join("r-epoch-2"), home.join("away")).unwrap();
    ok(home, &again);
}

/// A17, A18: if two runs use one folder, the second ends at once; a run that diverges writes no
/// checkpoint and keeps its state.
#[test]
fn runs_that_collide_or_diverge_end_with_an_error() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    corpus(home);
    let train = format!("train prepared {MODEL} --recipe dpsgd --sigma 1 --epochs 1");
    let lock = FolderLock::take(&home.join("ckpt")).unwrap();
    refused(
        home,
        &format!("{train} --out ckpt"),
        &["--out", "ckpt", "another process"],
    );
    drop(lock);
    for rate in ["1e30", "1e38"] {
        let out = format!("dead-{rate}");
        let line = format!("{train} --private-learning-rate {rate} --out {out}");
        let output = run(home, &line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("not finite"), "{error}");
        assert!(!home.join(&out).exists() && output.stdout.is_empty());
        assert!(home.join(format!("{out}.state/ledger.jsonl")).is_file());
    }
}
