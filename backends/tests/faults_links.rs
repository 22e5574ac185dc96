//! `FAULTS.md` against the sources: every test and mutant it names exists.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The parts of a cell between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Rows of the table: fault, tests, mutants.
fn rows(text: &str) -> Vec<(&str, Vec<&str>, Vec<&str>)> {
    let cells = text.lines().filter_map(|line| {
        let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<&str> = inside.split(" | ").collect();
        (cells.len() == 4 && !cells[0].starts_with("---") && cells[0] != "fault").then_some(cells)
    });
    cells.map(|c| (c[0], quoted(c[2]), quoted(c[3]))).collect()
}

/// Whether a file defines a test: a function below a `#[test]`, properties included.
fn is_test(link: &str) -> bool {
    let Some((path, name)) = link.rsplit_once("::") else {
        return false;
    };
    let Ok(text) = std::fs::read_to_string(root().join(path)) else {
        return false;
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let before = &lines[at.saturating_sub(3)..at];
        line.starts_with(&begins) && before.contains(&"#[test]")
    })
}

/// Everything wrong with the table.
fn problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (fault, tests, mutants) in rows(text) {
        if !seen.insert(fault.to_owned()) {
            problems.push(format!("{fault}: twice"));
        }
        if tests.is_empty() || mutants.is_empty() {
            problems.push(format!("{fault}: no test, or no mutant"));
        }
        let missing = tests.into_iter().filter(|t| !is_test(t));
        problems.extend(missing.map(|t| format!("{fault}: there is no test {t}")));
        let patch = |m: &&str| root().join("mutants").join(format!("{m}.patch"));
        let missing = mutants.into_iter().filter(|m| !patch(m).is_file());
        problems.extend(missing.map(|m| format!("{fault}: there is no mutant {m}")));
    }
    // those of gradients, sampling, noise, ledger and recipes, and four of the checkpoint
    for fault in 1..=26 {
        if !seen.contains(&fault.to_string()) {
            problems.push(format!("{fault}: not listed"));
        }
    }
    problems
}

#[test]
fn every_test_and_mutant_of_the_table_exists() {
    let text = std::fs::read_to_string(root().join("backends/FAULTS.md")).unwrap();
    assert_eq!(problems(&text), Vec::<String>::new());
}

#[test]
fn a_missing_link_is_noticed() {
    let here = "backends/tests/faults_links.rs";
    let row = |test: &str, mutant: &str| format!("| 5 | what | `{here}::{test}` | `{mutant}` |");
    let found = |text: &str, part: &str| problems(text).iter().any(|p| p.starts_with(part));
    let good = row("a_missing_link_is_noticed", "no-clipping");
    assert!(!found(&good, "5:") && found(&good, "26: not listed"));
    assert!(found(&row("rows", "no-clipping"), "5: there is no test"));
    assert!(found(
        &row("a_missing_link_is_noticed", "nothing"),
        "5: there is no mutant nothing"
    ));
    assert!(found(&format!("{good}\n{good}"), "5: twice"));
    assert!(found(
        "| 5 | what |  | `no-clipping` |",
        "5: no test, or no mutant"
    ));
}
