//! Documents of an earlier version, written at commit bddd9d7, are still read; what is refused says why.
#![cfg(feature = "audit")]

use crate::common::{account, audit};
use std::path::Path;

fn old() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/documents-bddd9d7"
    ))
}
#[test]
fn documents_around_a_mechanism_compose() {
    for file in [
        "mechanism.json",
        "dp-event.json",
        "guarantees.json",
        "curve.json",
        "explanation.json",
        "training-run.json",
    ] {
        let line = format!("compose {file} --format json");
        account::ok(old(), &line);
    }
    // The same run in four forms has one promise.
    let of = |file: &str| {
        let line = format!("compose {file} --format csv");
        account::ok(old(), &line)
    };
    assert_eq!(of("mechanism.json"), of("dp-event.json"));
}

#[test]
fn audits_are_compared_and_drawn() {
    for line in [
        "diff exposure.json exposure.json",
        "diff membership.json membership.json",
        "diff extraction.json extraction.json",
        "diff report.json report.json",
        "figure exposure.json --x exposure --y exposure-mean --format json",
        "membership --scores scores.csv",
        "policy data.jsonl --policy policy.json",
    ] {
        audit::ok(old(), line);
    }
    // Nothing sealed it.
    let sheet = "screen data.jsonl --policy customers --sheet sheet.jsonl";
    assert!(audit::refused(old(), sheet).contains("line 1 does not have the seal"));
}

#[test]
fn labels_and_protections_are_read() {
    for line in [
        "--sigma 1.1 --labels labels.jsonl",
        "protect --incidence pairs.csv --secrets secrets.csv --batch-size 1 --steps 10 --dataset-size 20",
    ] {
        account::ok(old(), line);
    }
}

/// Its ids said nothing of its text: a promise about another text would have been taken for one about this.
#[test]
fn a_prepared_corpus_is_to_be_prepared_again() {
    let line = "train prepared --recipe crt --sigma 1.1 --epochs 1 --out ckpt";
    assert!(audit::refused(old(), line).contains("prepare it again"));
    for line in [
        "--prepared prepared --recipe crt --sigma 1.1 --batch-size 16 --epochs 1",
        "plan training.toml",
    ] {
        assert!(account::refused(old(), line).contains("prepare it again"));
    }
    assert!(!old().join("ckpt").exists());
}

/// Weights named no promises: nobody could tell whether they were kept.
#[test]
fn weights_without_promises_are_refused() {
    let fresh = tempfile::tempdir().unwrap();
    let prepared = fresh.path().join("prepared");
    let prepared = prepared.display();
    let line = format!("prepare data.jsonl --policy customers --unit turn --out {prepared}");
    audit::ok(old(), &line);
    let line = format!(
        "train {prepared} --recipe protect --weights weights.csv --incidence pairs.csv --out {prepared}.out"
    );
    let said = audit::refused(old(), &line);
    assert!(
        said.contains("is not what `account protect --weights` writes"),
        "{said}"
    );
}
