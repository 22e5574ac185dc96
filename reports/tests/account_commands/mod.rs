//! `account curve`, `compose`, `explain` and `calibrate --solve`, from outside.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod answers;
mod descriptions;
mod errors;
mod help;
mod printed;
mod samplers;

use crate::common::{account, stderr, stdout};
use std::path::Path;

/// Runs a line that must end well and gives what it prints.
pub(crate) fn fine(folder: &Path, line: &str) -> String {
    let output = account::run(folder, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "{line}: {}", stderr(&output));
    stdout(&output)
}

/// Runs an export that must end well and gives what it prints. What was not authenticated is said on stderr, and nothing
/// else.
pub(crate) fn exported(folder: &Path, line: &str) -> String {
    let output = account::run(folder, line);
    let (text, errors) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{line}: {errors}");
    let doubts = errors
        .lines()
        .all(|line| line.starts_with("inputs not authenticated: "));
    assert!(
        doubts && text.contains("\"not_authenticated\"") != errors.is_empty(),
        "{line}: {errors}"
    );
    text
}

pub(crate) fn json(folder: &Path, line: &str) -> serde_json::Value {
    serde_json::from_str(&fine(folder, &format!("{line} --format json"))).unwrap()
}

/// A folder with mechanisms in every form.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("plain.json", r#"{"type":"gaussian","noise_multiplier":5}"#),
        (
            "steps.json",
            r#"{"type":"repeat","times":1000,"each":{"type":"subsampled-gaussian","noise_multiplier":1.1,
                "sampling_rate":0.01,"sampling":"poisson"}}"#,
        ),
        (
            "event.json",
            r#"["dp_accounting.dp_event","SelfComposedDpEvent",["dp_accounting.dp_event","PoissonSampledDpEvent",0.01,
                ["dp_accounting.dp_event","GaussianDpEvent",1.1]],1000]"#,
        ),
        (
            "manifest.json",
            r#"{"schema":1,"type":"checkpoint","unit":"turn","vocabulary":"bytes","seeded":false,
                "plan":{"run":{"recipe":"mechanism","mechanism":{"type":"gaussian","noise_multiplier":5}},
                "unit":{"value":"turn","provenance":{"from":"given","by":"x"}},
                "delta":{"value":1e-6,"provenance":{"from":"given","by":"x"}},"unauthenticated_corpus":false},
                "mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
        ),
        (
            "seeded.json",
            r#"{"schema":1,"type":"checkpoint","unit":"turn","vocabulary":"bytes","seeded":true,
                "plan":{"run":{"recipe":"mechanism","mechanism":{"type":"gaussian","noise_multiplier":5}},
                "unit":{"value":"turn","provenance":{"from":"given","by":"x"}},
                "delta":{"value":1e-6,"provenance":{"from":"given","by":"x"}},"unauthenticated_corpus":false},
                "mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
        ),
        (
            "dialogues.json",
            r#"{"unit":"dialogue","mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
        ),
        (
            "broken.json",
            r#"{"type":"repeat","times":3,"each":{"type":"gaussian","noise_multiplier":-1}}"#,
        ),
        (
            "twice.json",
            r#"{"type":"gaussian","noise_multiplier":5,"noise_multiplier":50}"#,
        ),
        ("nan.json", r#"{"type":"gaussian","noise_multiplier":NaN}"#),
        (
            "flip.json",
            r#"{"class_name":"PermuteAndFlipDpEvent","epsilon":0.1}"#,
        ),
        (
            "fixed.json",
            r#"{"type":"subsampled-gaussian","noise_multiplier":1,"sampling_rate":0.1,"sampling":"with-replacement"}"#,
        ),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::fs::write(folder.path().join("bytes.json"), b"{\"type\":\"\xff\"}").unwrap();
    folder
}
