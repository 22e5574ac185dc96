//! The contract of the `audit` command, from outside.
#![cfg(feature = "findings")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::{names, stderr};
use std::process::{Command, Output, Stdio};

fn audit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_audit"))
        .args(arguments)
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn help_is_data_and_a_usage_error_is_not() {
    let help = audit(&["--help"]);
    assert_eq!(code(&help), 0);
    assert!(!help.stdout.is_empty() && help.stderr.is_empty());
    for wrong in [
        vec![],
        vec!["membership"],
        vec!["extract"],
        vec!["train", "p"],
    ] {
        let output = audit(&wrong);
        assert_eq!(code(&output), 2, "{wrong:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_refused_value_is_one_line_with_argument_value_and_range() {
    let output = audit(&[
        "train", "p", "--out", "o", "--recipe", "crt", "--sigma", "0",
    ]);
    assert_eq!(code(&output), 2);
    assert_eq!(
        stderr(&output),
        "error: --sigma: noise multiplier must lie in (0, inf), got 0\n"
    );
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_audit"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_made_up_corpus_is_a_private_file_and_its_facts_are_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data.jsonl");
    let arguments = [
        "simulate",
        "customers",
        "--dialogues",
        "20",
        "--format",
        "json",
        "--out",
    ];
    let output = audit(&[&arguments[..], &[out.to_str().unwrap()]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["type"], "simulation");
    assert_eq!(json["inputs"]["dialogues"], 20);
    assert_eq!(stderr(&output), "", "no progress without a terminal");
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(text.lines().count(), 20);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(out.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// `-` is stdout where a command's data may go there, and no file's name.
#[test]
fn a_dash_is_stdout_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_audit"));
        command
            .current_dir(&folder)
            .args(arguments)
            .output()
            .unwrap()
    };
    let made = ["simulate", "customers", "--dialogues", "20"];
    let output = here(&[&made[..], &["--out", "-"]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 20);
    assert!(text.lines().all(|line| line.starts_with("{\"id\":")));
    assert!(
        stderr(&output).contains("20 dialogues"),
        "{}",
        stderr(&output)
    );
    std::fs::write(folder.path().join("data.jsonl"), text).unwrap();
    let output = here(&[
        "tokenizer",
        "data.jsonl",
        "--declared-public",
        "--size",
        "300",
        "--out",
        "-",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let bound = ["epsilon", "--counts", "1000,100,95", "--delta", "1e-5"];
    let output = here(&[&bound[..], &["--html", "-"]].concat());
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).starts_with("error: --html: "),
        "{}",
        stderr(&output)
    );
    assert_eq!(names(folder.path()), ["data.jsonl"]);
}

#[test]
fn an_unwritable_place_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/data.jsonl");
    let occupied = folder.path().to_path_buf();
    for (out, why) in [(missing, "there is no folder"), (occupied, "is a folder")] {
        let output = audit(&["simulate", "customers", "--out", out.to_str().unwrap()]);
        assert_eq!(code(&output), 2);
        assert!(
            stderr(&output).starts_with("error: --out: "),
            "{}",
            stderr(&output)
        );
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// Waits until the temporary file shows that the work has begun, then interrupts it.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_130_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data.jsonl");
    let child = Command::new(env!("CARGO_BIN_EXE_audit"))
        .args(["simulate", "customers", "--dialogues", "200000", "--out"])
        .arg(&out)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while names(folder.path()).is_empty() {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    // On a busy machine the safe point may come too late; nothing is left either way.
    assert!(stderr(&output).contains("interrupted"));
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// What two rates share of a confidence may round to one: the confidence that was given is named.
#[test]
fn a_confidence_that_cannot_be_shared_is_named_as_given() {
    let rates = ["epsilon", "--rates", "30,30,0,30", "--confidence"];
    let with = |confidence| audit(&[&rates[..], &[confidence]].concat());
    let output = with("0.9999999999999999");
    assert_eq!(code(&output), 2);
    let said = "must lie in (0, 1 - k/2^53], got 0.9999999999999999";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    assert_eq!(code(&with("0.999999999999")), 0);
}

/// A limit is passed (1), kept (0), or left open (2): the answer is printed whichever it is. An interval that holds the limit
/// keeps it.
#[test]
fn a_limit_that_is_left_open_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, members: u32, shift: u32| {
        let path = folder.path().join(name);
        let row = |i: u32| {
            let member = i % 2;
            format!("{i},{member},{}\n", i * 37 % 101 + shift * member)
        };
        let rows: String = (0..2 * members).map(row).collect();
        std::fs::write(&path, format!("id,member,score\n{rows}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (few, many, leak) = (
        write("few.csv", 3, 200),
        write("many.csv", 200, 0),
        write("leak.csv", 200, 200),
    );
    for (line, ends) in [
        (vec!["membership", "--scores", &few], 0),
        (vec!["membership", "--scores", &few, "--max-auc", "0.6"], 2),
        (
            vec!["membership", "--scores", &many, "--max-auc", "0.52"],
            0,
        ),
        (
            vec!["membership", "--scores", &many, "--max-auc", "0.999"],
            0,
        ),
        (
            vec![
                "membership",
                "--scores",
                &leak,
                "--lower-is-member",
                "--max-auc",
                "0.6",
            ],
            2,
        ),
        (
            vec!["epsilon", "--counts", "1000,100,5", "--max-epsilon", "1"],
            2,
        ),
        (
            vec!["epsilon", "--rates", "0,50,45,50", "--max-epsilon", "1"],
            2,
        ),
        (vec!["membership", "--scores", &leak, "--max-auc", "0.6"], 1),
        (
            vec!["epsilon", "--counts", "10,5,5", "--max-epsilon", "9"],
            2,
        ),
        (
            vec!["epsilon", "--counts", "1000,100,50", "--max-epsilon", "1"],
            0,
        ),
        (
            vec!["epsilon", "--counts", "1000,100,95", "--max-epsilon", "1"],
            1,
        ),
    ] {
        let output = audit(&line);
        assert_eq!(code(&output), ends, "{line:?}: {}", stderr(&output));
        assert!(!output.stdout.is_empty(), "{line:?}");
        let said = stderr(&output);
        assert_eq!(said.contains("is not known, since"), ends == 2, "{said}");
    }
}

/// A limit on a project's promises that such counts can't exceed is none on them; one that they can exceed judges them.
#[test]
fn a_limit_of_a_project_beyond_all_counts_is_left_unused() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project.toml");
    for (limit, ends) in [("8", 0), ("1", 1)] {
        std::fs::write(&project, format!("max_epsilon = {limit}\n")).unwrap();
        let project = project.to_str().unwrap();
        let counts = ["epsilon", "--counts", "1000,100,95", "--format", "json"];
        let output = audit(&[&counts[..], &["--config", project]].concat());
        assert_eq!(code(&output), ends, "{}", stderr(&output));
        let document = String::from_utf8(output.stdout).unwrap();
        assert_eq!(document.contains("max_epsilon"), ends == 1, "{document}");
    }
}
