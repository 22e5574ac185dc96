//! What the tests of the commands share.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The owner's key of the tests, which is not that of the user who runs them.
pub(crate) const KEY: [&str; 2] = [
    "RETICENT_OWNER_KEY",
    concat!(env!("CARGO_TARGET_TMPDIR"), "/owner.key"),
];

/// How tests run one of the commands.
macro_rules! command {
    ($name:ident, $path:expr) => {
        #[allow(dead_code, reason = "some builds have few tests of a command")]
        pub(crate) mod $name {
            use super::*;

            pub(crate) const PATH: &str = $path;

            /// The command in a folder, without arguments.
            pub(crate) fn command(folder: &Path) -> Command {
                let mut command = Command::new(PATH);
                command.current_dir(folder).env(KEY[0], KEY[1]);
                command
            }

            /// Runs a line, whose words are split at blanks, with this on stdin.
            pub(crate) fn fed(folder: &Path, line: &str, stdin: &str) -> Output {
                let mut child = command(folder)
                    .args(line.split_whitespace())
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                // A command that reads nothing may have closed its end.
                let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
                child.wait_with_output().unwrap()
            }

            /// Runs a line.
            pub(crate) fn run(folder: &Path, line: &str) -> Output {
                fed(folder, line, "")
            }

            /// How a line ends: the exit code, stdout and stderr.
            pub(crate) fn ended(folder: &Path, line: &str) -> (i32, String, String) {
                let output = run(folder, line);
                let code = output.status.code().unwrap();
                (code, stdout(&output), stderr(&output))
            }

            /// What a line prints that must end well.
            pub(crate) fn ok(folder: &Path, line: &str) -> String {
                let (code, printed, said) = ended(folder, line);
                assert_eq!(code, 0, "{line}: {said}");
                printed
            }

            /// The same in JSON.
            pub(crate) fn json(folder: &Path, line: &str) -> Value {
                serde_json::from_str(&ok(folder, &format!("{line} --format json"))).unwrap()
            }

            /// What a line says that must be refused.
            pub(crate) fn refused(folder: &Path, line: &str) -> String {
                let (code, _, said) = ended(folder, line);
                assert_eq!(code, 2, "{line}: {said}");
                said
            }
        }
    };
}

command!(account, env!("CARGO_BIN_EXE_account"));
#[cfg(feature = "findings")]
command!(audit, env!("CARGO_BIN_EXE_audit"));

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A document that fits its schema.
#[cfg(feature = "findings")]
pub(crate) fn checked(document: Value) -> Value {
    let schema = match document["type"].as_str().unwrap() {
        "training" => "training-run",
        kind => kind,
    };
    crate::check::fits(schema, &document.to_string());
    document
}

/// Text without line breaks.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The names in a folder, sorted.
#[cfg(feature = "findings")]
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
