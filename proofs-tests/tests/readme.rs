//! Runs the commands of the README and of the book as a reader would.
//!
//! A block that begins with ` ```console ` holds commands (`$ …`), each followed by what it
//! prints. Words after `console` say how the block is tested:
//! - none: every command must succeed; its output may differ;
//! - `exact`: the output must be the one shown;
//! - `fails`: the message must be the one shown, and the command must exit with 1 or 2;
//! - `slow`: the command only parses its arguments (`--help` is added) and is not run.
//!
//! A block that begins with ` ```toml NAME` is written to that file, for the commands below it.
//!
//! `account` and `audit` are the built binaries; `cargo run … --bin NAME -- …` is the same.
//! All blocks of a page share one working folder, so that one command can read what another wrote.
//! Other programs are only allowed if they are on a short list, and are not run.

#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use reticent_proofs_tests::commands::binary;
use std::path::Path;
use std::process::{Command, Output};

/// Commands that a reader runs once and this test does not run.
const NOT_RUN: [&str; 4] = ["cargo install ", "cargo test", "cargo build", "git clone "];

/// Words of a command that prints more than an answer in brief.
const WHOLE: [&str; 5] = ["-v", "--verbose", "--help", "--format", "--export"];

/// The manner of a block that is a file: its command is the name, and it prints the text.
const FILE: &str = "file";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// The page and the line.
    place: String,
    command: String,
    prints: String,
    manner: String,
}

/// Returns the commands of every console block.
fn steps(page: &str, markdown: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut manner: Option<String> = None;
    for (number, line) in markdown.lines().enumerate() {
        if let Some(fence) = line.strip_prefix("```") {
            let file = fence.strip_prefix("toml ").filter(|_| manner.is_none());
            if let Some(name) = file {
                manner = Some(FILE.to_owned());
                steps.push(Step {
                    place: format!("{page}:{}", number + 1),
                    command: name.to_owned(),
                    prints: String::new(),
                    manner: FILE.to_owned(),
                });
                continue;
            }
            manner = match manner {
                Some(_) => None,
                None => Some(
                    fence
                        .strip_prefix("console")
                        .unwrap_or("other")
                        .trim()
                        .to_owned(),
                ),
            };
            continue;
        }
        match &manner {
            Some(how) if how != "other" => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step {
                    place: format!("{page}:{}", number + 1),
                    command: command.to_owned(),
                    prints: String::new(),
                    manner: how.clone(),
                }),
                None => {
                    if let Some(step) = steps.last_mut() {
                        step.prints.push_str(line);
                        step.prints.push('\n');
                    }
                }
            },
            _ => {}
        }
    }
    steps
}

/// Splits a command line into words; single and double quotes keep spaces.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Returns the binary and its arguments, if the command is one of ours.
fn ours(command: &str) -> Option<(String, Vec<String>)> {
    let command = command.split(" #").next().unwrap_or(command).trim();
    let all = words(command);
    if command.starts_with("cargo run ") {
        let name = all.iter().position(|w| w == "--bin")? + 1;
        let rest = all.iter().position(|w| w == "--")? + 1;
        return Some((all[name].clone(), all[rest..].to_vec()));
    }
    let name = all.first()?;
    ["account", "audit"]
        .contains(&name.as_str())
        .then(|| (name.clone(), all[1..].to_vec()))
}

fn run(step: &Step, folder: &Path) {
    if step.manner == FILE {
        std::fs::write(folder.join(&step.command), &step.prints).unwrap();
        return;
    }
    let Some((name, mut arguments)) = ours(&step.command) else {
        let known = NOT_RUN.iter().any(|known| step.command.starts_with(known));
        assert!(known, "{}: unknown program: {}", step.place, step.command);
        return;
    };
    if step.manner == "slow" {
        arguments.push("--help".to_owned());
    }
    let output = Command::new(binary(&name))
        .args(&arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("RETICENT_OWNER_KEY", folder.join("owner.key"))
        .output()
        .unwrap();
    judge(step, &output);
    // People want the answer first: fifteen lines, of training 22.
    let shown = String::from_utf8_lossy(&output.stdout).lines().count();
    let most = match arguments.first().map(String::as_str) {
        Some("train") => 22,
        _ => 15,
    };
    let whole = |word: &String| WHOLE.contains(&word.as_str());
    assert!(
        shown <= most || arguments.iter().any(whole),
        "{}: {}: {shown} lines",
        step.place,
        step.command
    );
}

fn judge(step: &Step, output: &Output) {
    let code = output.status.code();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let place = format!("{}: {}\n{stdout}{stderr}", step.place, step.command);
    match step.manner.as_str() {
        "" | "slow" => assert_eq!(code, Some(0), "{place}"),
        "exact" => {
            assert_eq!(code, Some(0), "{place}");
            assert_eq!(stdout.trim_end(), step.prints.trim_end(), "{place}");
        }
        "fails" => {
            assert!(matches!(code, Some(1 | 2)), "{place}");
            assert_eq!(stderr.trim_end(), step.prints.trim_end(), "{place}");
        }
        other => panic!("{}: unknown word after console: {other}", step.place),
    }
}

/// Tries every command of a page in its own folder, and returns their number.
fn tries(page: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let steps = steps(page, &std::fs::read_to_string(path).unwrap());
    let folder = tempfile::tempdir().unwrap();
    for step in &steps {
        run(step, folder.path());
    }
    steps.len()
}

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    assert!(tries("README.md") > 5, "the README shows few commands");
}

/// The summary names every page, and every page is tried.
#[test]
fn every_command_of_the_book_does_what_it_says() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src");
    let summary = std::fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    let mut pages = Vec::new();
    for folder in ["", "papers"] {
        for entry in std::fs::read_dir(source.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(page) = name.strip_suffix(".md").filter(|page| *page != "SUMMARY") else {
                continue;
            };
            let page = Path::new(folder).join(format!("{page}.md"));
            let page = page.to_str().unwrap();
            assert!(summary.contains(&format!("]({page})")), "{page}");
            pages.push(format!("docs/src/{page}"));
        }
    }
    let commands: usize = std::thread::scope(|all| {
        let tried: Vec<_> = pages.iter().map(|page| all.spawn(|| tries(page))).collect();
        tried.into_iter().map(|page| page.join().unwrap()).sum()
    });
    assert!(commands > 20, "the book shows few commands");
}

#[test]
fn blocks_are_read_with_their_manner_and_what_they_print() {
    let text = "a\n```console exact\n$ account x\none\ntwo\n$ audit y\n```\n```rust\n$ no\n```\n";
    let step = |line, command: &str, prints: &str| Step {
        place: format!("page:{line}"),
        command: command.into(),
        prints: prints.into(),
        manner: "exact".into(),
    };
    let expected = [step(3, "account x", "one\ntwo\n"), step(6, "audit y", "")];
    assert_eq!(steps("page", text), expected);
    let file = steps("page", "```toml a.toml\nb = 1\n```\n```toml\nc = 2\n```\n");
    assert_eq!(file.len(), 1);
    assert_eq!(
        (&*file[0].command, &*file[0].prints, &*file[0].manner),
        ("a.toml", "b = 1\n", FILE)
    );
}

#[test]
fn command_lines_are_cut_like_a_shell_does() {
    assert_eq!(words("a 'b c'  \"d e\"f ''"), ["a", "b c", "d ef", ""]);
    let cargo = ours("cargo run --release --bin audit -- demo --seed 1   # a remark");
    let demo = ["demo", "--seed", "1"].map(str::to_owned).to_vec();
    assert_eq!(cargo, Some(("audit".to_owned(), demo)));
    assert_eq!(ours("rm -rf /"), None);
}
