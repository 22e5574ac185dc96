//! Runs the built commands as a user does, and checks what is expected of them.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Returns the command `audit` in a folder, without input.
#[must_use]
pub fn audit(home: &Path) -> Command {
    let program = binary("audit");
    let mut command = Command::new(&program);
    command.current_dir(home).stdin(Stdio::null());
    // The tests' own key, not that of the user who runs them.
    command.env("RETICENT_OWNER_KEY", program.with_file_name("owner.key"));
    command
}

/// Runs `account` with a line of arguments and returns its output, whether or not it succeeds.
pub fn account_output(home: &Path, line: &str) -> Output {
    let program = binary("account");
    let mut command = Command::new(&program);
    command.env("RETICENT_OWNER_KEY", program.with_file_name("owner.key"));
    let words = line.split_whitespace();
    command.args(words).current_dir(home).output().unwrap()
}

/// Returns the output of a line of `account` that must succeed.
pub fn account(home: &Path, line: &str) -> String {
    let output = account_output(home, line);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "account {line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the path of a built binary. `cargo test --workspace` puts it next to the folder of the
/// test programs.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join(name);
    assert!(
        path.is_file(),
        "{} is not built: run cargo test --workspace, or cargo build -p reticent-reports first",
        path.display()
    );
    path
}

/// Runs `audit` with a line of arguments.
#[must_use]
pub fn run(home: &Path, line: &str) -> Output {
    audit(home).args(line.split_whitespace()).output().unwrap()
}

/// Returns the output of a line of `audit` that must succeed.
pub fn ok(home: &Path, line: &str) -> String {
    let output = run(home, line);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "audit {line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the output of a line of `audit` without its line breaks.
pub fn said(home: &Path, line: &str) -> String {
    let text = ok(home, line);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sends a signal to a process, as `-INT`.
pub fn signal(process: &Child, signal: &str) {
    let id = process.id().to_string();
    let kill = Command::new("kill").args([signal, &id]).status();
    assert!(kill.unwrap().success());
}

/// Runs a line that must exit with 2, name these words, print no data and leave nothing behind.
pub fn refused(home: &Path, line: &str, words: &[&str]) {
    let before = listing(home);
    let output = run(home, line);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "audit {line}: {error}");
    for word in words {
        assert!(
            error.contains(word),
            "audit {line}: {word:?} is not in {error}"
        );
    }
    assert!(output.stdout.is_empty(), "audit {line} printed data");
    assert_eq!(listing(home), before, "audit {line} left something behind");
}

/// Returns the names in a folder, sorted.
#[must_use]
pub fn listing(home: &Path) -> Vec<String> {
    let names = std::fs::read_dir(home)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
