//! What the tests of the commands share.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a program in a folder, with words split at blanks and something on stdin.
pub(crate) fn run(program: &str, folder: &Path, line: &str, stdin: &str) -> Output {
    let mut child = Command::new(program)
        .args(line.split_whitespace())
        .current_dir(folder)
        .env(
            "RETICENT_OWNER_KEY",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/owner.key"),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may have closed its end.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}
