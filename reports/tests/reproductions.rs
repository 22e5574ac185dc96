//! Reproductions from outside: what lies in their folder, and what is refused.
#![cfg(feature = "audit")]

use crate::check;
use crate::common::audit::{ended, ok};
use serde_json::Value;

/// The check values of the papers come out, and a claim that fails is said to fail.
#[test]
fn figure_six_and_the_recall_are_judged_without_a_model() {
    let home = tempfile::tempdir().unwrap();
    let line = "reproduce crt --only fig6,a4 --out crt --format json";
    let stdout = ok(home.path(), line);
    let text = std::fs::read_to_string(home.path().join("crt/report.json")).unwrap();
    assert_eq!(text, stdout);
    check::fits("reproduction", &text);
    let report: Value = serde_json::from_str(&text).unwrap();
    let judged: Vec<(&str, &str)> = report["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| {
            let text = |key: &str| claim[key].as_str().unwrap();
            (text("id"), text("judgement"))
        })
        .collect();
    assert_eq!(
        judged,
        [
            ("amplified", "reproduced"),
            ("amplified-over-miss", "not-testable"),
            // 0.4 % off a number that is printed to six digits.
            ("notebook", "not-reproduced"),
            ("recall", "not-testable"),
        ]
    );
    let notebook = &report["claims"][2]["measured"][0]["points"][0];
    let value = notebook["values"][0].as_f64().unwrap();
    // The golden number has five digits; CONTRIBUTING's tolerance is relative.
    assert!((value / 0.37286 - 1.0).abs() < 1e-4, "{value}");
    let from = notebook["from"][0].as_str().unwrap();
    assert!(home.path().join("crt").join(from).exists(), "{from}");
    let html = std::fs::read_to_string(home.path().join("crt/report.html")).unwrap();
    assert!(
        html.contains("1 reproduced (1 computed by account alone), 1 not"),
        "{html}"
    );
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    for (line, says) in [
        (
            "reproduce crt --only fig9 --out r",
            "--only: must be of fig2, fig3",
        ),
        (
            "reproduce crt --data none --out r",
            "customersim/train.jsonl.gz",
        ),
        ("reproduce all --out r", "crt"),
    ] {
        let (code, stdout, stderr) = ended(home.path(), line);
        assert_eq!((code, stdout.as_str()), (2, ""), "{line}");
        assert!(stderr.contains(says), "{line}: {stderr}");
    }
    assert!(!home.path().join("r/report.json").exists());
}

/// Every cell failed, and the command ended with 0 and a sentence that did not say so.
#[test]
fn cells_that_fail_end_a_reproduction_with_2() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("nomodel")).unwrap();
    let line = "reproduce ours --only rank-delta --model ./nomodel --out ours --format json";
    let (code, stdout, stderr) = ended(home.path(), line);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("2 of the cells and questions failed"),
        "{stderr}"
    );
    check::fits("reproduction", &stdout);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["failed"].as_array().unwrap().len(), 2);
    assert_eq!(report["outcome"], "open");
    let says = report["says"].as_str().unwrap();
    assert!(says.contains("2 failed"), "{says}");
    assert_eq!(report["claims"][0]["judgement"], "not-testable");
}
