//! The audit command from text to finding, run as a user does, and its errors for bad input.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{account_output, audit, ok, refused, signal};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const PREPARE: &str = "prepare data.jsonl --policy customers --unit turn --conservative digits,capitals,policy --canaries 3x4 --seed 0 --out prepared";
const TRAIN: &str = "train prepared --epochs 1 --ordinary-batch-size 16 --seed 5";

#[test]
fn from_text_to_finding() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    ok(
        home,
        "simulate customers --dialogues 12 --seed 3 --out data.jsonl",
    );
    let said = ok(home, PREPARE);
    assert!(said.contains("12 of 12 copies reach training"), "{said}");
    let said = ok(home, &format!("{TRAIN} --recipe crt --sigma 1 --out crt"));
    assert!(said.contains("NOT private"), "{said}");
    assert!(home.join("crt.owner/canaries.json").is_file() && !home.join("crt.state").exists());
    assert!(
        !home.join("crt/canaries.json").exists(),
        "the plan stays with its owner"
    );

    // Nothing holds for the whole of a record if a part of it was learned without noise.
    for command in ["explain", "curve"] {
        let line = format!("{command} --mechanism crt/manifest.json");
        let output = account_output(home, &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(said.contains("nothing holds for the whole"), "{said}");
    }
    let json: Value = serde_json::from_str(&ok(
        home,
        "exposure --model crt --canaries 3x4 --format json",
    ))
    .unwrap();
    assert_eq!(
        (json["type"].as_str(), json["schema"].as_u64()),
        (Some("exposure"), Some(1))
    );
    assert_eq!(json["candidates"], 1_000_000);
    assert_eq!(json["canaries"].as_array().unwrap().len(), 3);
    assert!(
        json["summary"]["null_max_mean"].is_number()
            || json["summary"]["max"]["null_mean"].is_number()
    );
    assert_eq!(json["epsilon"]["neighbours"], "replace");
    assert!(json["work"]["positions_scored"].as_u64() < json["work"]["positions_flat"].as_u64());
    // a fixed seed drew the noise: nothing is promised
    let why = json["no_verdict"].as_str().unwrap();
    assert!(
        why.contains("a fixed seed") && json["ceiling"].is_null(),
        "{why}"
    );

    let json: Value = serde_json::from_str(&ok(
        home,
        "perplexity --model crt --data data.jsonl --format json",
    ))
    .unwrap();
    assert!(json["perplexity"].as_f64().unwrap() > 1.0);

    // the same seeded run gives the same weights, killed or not
    let mut child = audit(home)
        .args(format!("{TRAIN} --recipe crt --sigma 1 --out again").split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ledger = home.join("again.state/ledger.jsonl");
    while !ledger.metadata().is_ok_and(|m| m.len() > 0) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    if !home.join("again").exists() {
        ok(home, &format!("{TRAIN} --recipe crt --sigma 1 --out again"));
    }
    // the header names the manifest, in which the owner's seal differs
    let bytes = |folder: &str| -> Vec<u8> {
        let bytes = std::fs::read(home.join(folder).join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(
        bytes("crt") == bytes("again"),
        "the same weights, bit by bit"
    );
    let phases = |folder: &str| -> Value {
        let text = std::fs::read_to_string(home.join(folder).join("manifest.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["phases"].clone()
    };
    assert_eq!(
        phases("crt"),
        phases("again"),
        "each private step counts once"
    );

    bad_models(home);
}

/// Checks models that must be refused, using the files that [`from_text_to_finding`] made.
fn bad_models(home: &Path) {
    refused(
        home,
        "exposure --model crt --canaries 10x20",
        &["--canaries", "3x4", "10x20"],
    );
    refused(
        home,
        "exposure --model nowhere --canaries 3x4",
        &["--model", "nowhere", "no such folder"],
    );
    refused(
        home,
        &format!("{TRAIN} --recipe crt --sigma 1 --out crt"),
        &["--out", "not an empty folder"],
    );
    let weights = home.join("again/model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 3]).unwrap();
    refused(
        home,
        "exposure --model again",
        &["--model", "model.safetensors", "not a whole"],
    );
    let mut tampered = whole.clone();
    let last = tampered.len() - 2;
    tampered[last] ^= 1;
    std::fs::write(&weights, &tampered).unwrap();
    refused(home, "exposure --model again", &["--model", "tampered"]);
    std::fs::write(&weights, &whole).unwrap();
    // another plan than the one that is sealed
    let plan = home.join("again.owner/canaries.json");
    let other = std::fs::read_to_string(&plan)
        .unwrap()
        .replacen("\"seed\": 0", "\"seed\": 1", 1);
    std::fs::write(home.join("other.json"), other).unwrap();
    refused(
        home,
        "exposure --model again --canary-file other.json",
        &["--canary-file"],
    );
    // no canaries at all
    ok(home, "prepare data.jsonl --policy customers --out plain");
    ok(
        home,
        "train plain --epochs 1 --ordinary-batch-size 64 --seed 1 --recipe sgd --out bare",
    );
    refused(
        home,
        "exposure --model bare --canaries 10x20",
        &["--model", "no canaries", "audit plant"],
    );
}

#[test]
fn bad_input_ends_with_2_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(home.join(name), bytes).unwrap();
    write("empty.jsonl", b"");
    write(
        "broken.jsonl",
        b"{\"id\":\"a\",\"text\":\"USR: hello\"}\n{\"id\": oops}\n",
    );
    write("latin.jsonl", b"{\"id\":\"a\",\"text\":\"caf\xe9\"}\n");
    write("good.jsonl", b"{\"id\":\"a\",\"text\":\"USR: hello there\\nSYS: good day\"}\n{\"id\":\"b\",\"text\":\"USR: bye\"}\n");
    for (line, words) in [
        (
            "prepare nowhere.jsonl --out p",
            vec!["DATA", "nowhere.jsonl"],
        ),
        ("prepare empty.jsonl --out p", vec!["DATA", "empty.jsonl"]),
        (
            "prepare broken.jsonl --out p",
            vec!["DATA", "broken.jsonl", "2"],
        ),
        (
            "prepare latin.jsonl --out p",
            vec!["DATA", "latin.jsonl", "UTF-8", "1"],
        ),
        (
            "prepare good.jsonl --out p --canaries 10x0",
            vec!["--canaries", "from 1 to 10000", "got 0"],
        ),
        (
            "prepare good.jsonl --out p --canaries 20x1 --canary-format Code:{digits:1}",
            vec!["10", "20"],
        ),
        (
            "prepare good.jsonl --out p --miss-rate 1.5",
            vec!["--miss-rate", "[0, 1]", "1.5"],
        ),
        ("prepare good.jsonl --out /proc/nowhere/p", vec!["--out"]),
        (
            "train nowhere --recipe sgd --out c",
            vec!["PREPARED", "nowhere"],
        ),
        (
            "train nowhere --recipe crt --sigma 0 --out c",
            vec!["--sigma", "(0, inf)", "got 0"],
        ),
        (
            "train nowhere --recipe crt --sigma -1 --out c",
            vec!["--sigma", "(0, inf)", "-1"],
        ),
        (
            "demo nowhere.jsonl --out d",
            vec!["FILE.jsonl", "nowhere.jsonl"],
        ),
        ("demo --out /proc/nowhere/d", vec!["--out"]),
        (
            "demo --device cuda:0 --dialogues 20 --arms sgd --out d",
            vec!["--device", "cuda:0"],
        ),
    ] {
        refused(home, line, &words);
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_130_and_the_same_command_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    ok(
        home,
        "simulate customers --dialogues 30 --seed 1 --out data.jsonl",
    );
    ok(
        home,
        "prepare data.jsonl --policy customers --conservative digits,capitals,policy --out prepared",
    );
    let line = "train prepared --epochs 2 --recipe crt --sigma 1 --seed 2 --out ckpt";
    let child = audit(home)
        .args(line.split_whitespace())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !home.join("ckpt.state/key.json").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("same command again"), "{error}");
    assert!(!home.join("ckpt").exists());
    ok(home, line);
    assert!(home.join("ckpt/manifest.json").is_file() && !home.join("ckpt.state").exists());
}
