//! Bad input to `audit`: exit code 2, one line that names argument, value and range, and
//! nothing half-written.
#![cfg(feature = "audit")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::audit::{self, ok as fine};
use crate::common::{names, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// Runs a command line that must be refused with these words, and must leave the folder as it was.
fn refused(folder: &Path, line: &str, says: &[&str]) {
    // Tests share a folder: what one command is about to leave is not another's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = names(folder);
    let (code, printed, message) = audit::ended(folder, line);
    assert_eq!((code, printed.as_str()), (2, ""), "{line}: {message}");
    assert!(message.starts_with("error: "), "{line}: {message}");
    assert!(!message.contains("panicked"), "{line}: {message}");
    for words in says {
        assert!(message.contains(words), "{line}: no {words:?} in {message}");
    }
    assert_eq!(names(folder), before, "{line}: something was left");
}

/// A folder with a corpus, a preparation with canaries and one without, and a model of each.
fn trained() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path();
            fine(at, "simulate customers --dialogues 12 --out data.jsonl");
            fine(
                at,
                "prepare data.jsonl --policy customers --canaries 2x3 --seed 0 --out planted",
            );
            fine(at, "prepare data.jsonl --policy customers --out bare");
            for name in ["planted", "bare"] {
                let out = format!("{name}-model");
                fine(
                    at,
                    &format!("train {name} --recipe sgd --epochs 1 --seed 1 --out {out}"),
                );
            }
            folder
        })
        .path()
}

/// Before anything is trained or drawn: the checkpoint could not take the place of the link.
#[cfg(unix)]
#[test]
fn a_checkpoint_is_not_written_to_a_link() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    copy_folder(&trained().join("bare"), &at.join("bare"));
    std::fs::create_dir(at.join("empty")).unwrap();
    std::os::unix::fs::symlink("empty", at.join("link")).unwrap();
    for out in ["link", "link/"] {
        let line = format!("train bare --recipe sgd --epochs 1 --out {out}");
        refused(at, &line, &["--out", "it is a link"]);
    }
}

/// No folder can be renamed onto such a path: the run was finished by then, and its model lost.
#[test]
fn a_folder_is_written_under_its_own_name() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    copy_folder(&trained().join("bare"), &at.join("bare"));
    std::fs::copy(trained().join("data.jsonl"), at.join("data.jsonl")).unwrap();
    std::fs::create_dir(at.join("empty")).unwrap();
    for out in ["empty/.", "new/.", ".", "empty/.."] {
        for line in [
            "train bare --recipe sgd --epochs 1",
            "prepare data.jsonl --policy customers",
        ] {
            let line = format!("{line} --out {out}");
            refused(at, &line, &["--out", "must end in a name"]);
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for name in names(from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// A copy of the trained model with its owner's folder, free to be damaged.
fn model_copy() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["planted-model", "planted-model.owner"] {
        copy_folder(&trained().join(name), &folder.path().join(name));
    }
    let model = folder.path().join("planted-model");
    (folder, model)
}

#[test]
fn a_corpus_that_cannot_be_read_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("empty.jsonl"), "").unwrap();
    std::fs::write(at.join("blank.txt"), " \n\n \n").unwrap();
    std::fs::write(at.join("torn.jsonl"), "{\"text\":\"a\"}\n{\"text\":\n").unwrap();
    std::fs::write(
        at.join("bytes.jsonl"),
        b"{\"text\":\"a\"}\n{\"text\":\"\xff\"}\n",
    )
    .unwrap();
    for (file, says) in [
        ("missing.jsonl", &["missing.jsonl", "cannot read"][..]),
        ("empty.jsonl", &["empty corpus"]),
        ("blank.txt", &["empty corpus"]),
        ("torn.jsonl", &["torn.jsonl", "line 2"]),
        ("bytes.jsonl", &["bytes.jsonl", "line 2", "UTF-8"]),
    ] {
        refused(at, &format!("prepare {file} --out o"), says);
        refused(at, &format!("demo {file} --out o"), says);
    }
    // A file that is written again, too.
    let line = "plant bytes.jsonl --canaries 2x2 --out o";
    refused(at, line, &["bytes.jsonl", "line 2", "iconv"]);
    for folder in [".", ".."] {
        let line = format!("plant {folder} --canaries 2x2 --out o");
        refused(at, &line, &["FILE", "it is a folder"]);
    }
}

#[test]
fn numbers_out_of_range_are_refused_before_any_work() {
    let at = trained();
    for (line, says) in [
        (
            "prepare data.jsonl --out o --canaries 10x0",
            "from 1 to 10000",
        ),
        (
            "prepare data.jsonl --out o --miss-rate 1.1",
            "[0, 1], got 1.1",
        ),
        (
            "prepare data.jsonl --out o --miss-rate -1",
            "[0, 1], got -1",
        ),
        (
            "prepare data.jsonl --out o --miss-rate NaN",
            "[0, 1], got NaN",
        ),
        (
            "prepare data.jsonl --out o --held-out 1",
            "must be a number in [0, 1), got \"1\"",
        ),
        (
            "prepare data.jsonl --out o --max-tokens 2",
            "must be a whole number in [3, inf), got \"2\"",
        ),
        (
            "train planted --recipe dpsgd --sigma 0 --out o",
            "--sigma: noise multiplier must lie in (0, inf), got 0",
        ),
        (
            "train planted --recipe crt --sigma -2 --out o",
            "(0, inf), got -2",
        ),
        ("train planted --recipe crt --out o", "--sigma"),
        (
            "train planted --recipe crt --sigma 1 --sample-rate 0 --out o",
            "--sample-rate: must lie in",
        ),
        (
            "train planted --recipe crt --epsilon 1 --delta 2 --out o",
            "[0, 1], got 2",
        ),
        (
            "train planted --recipe sgd --sigma 1 --out o",
            "adds no noise",
        ),
        (
            "train planted --recipe sgd --learning-rate 0 --out o",
            "(0, inf), got \"0\"",
        ),
        (
            "train planted --recipe sgd --learning-rate NaN --out o",
            "(0, inf), got \"NaN\"",
        ),
        (
            "train planted --recipe crt --sigma 1 --private-learning-rate -1 --out o",
            "(0, inf), got \"-1\"",
        ),
        (
            "train planted --recipe crt --sigma 1 --clip 0 --out o",
            "(0, inf), got \"0\"",
        ),
        (
            "train planted --recipe crt --sigma 1 --clip 1e-13 --out o",
            "--clip: must be a number in [1e-12, inf), got 0.0000000000001",
        ),
        (
            "train planted --recipe dpsgd --sigma 1 --epochs 200 --clip-decay 0.01 --out o",
            "(--clip-decay) must lie in [1e-12, inf), got 0",
        ),
        (
            "train planted --recipe crt --sigma 1 --sample-rate 1.5 --out o",
            "[0, 1], got 1.5",
        ),
        (
            "train planted --recipe sgd --ordinary-batch-size 0 --out o",
            "must be a positive whole number, got \"0\"",
        ),
        (
            "train planted --recipe sgd --ordinary-batch-size 99999999 --out o",
            "--ordinary-batch-size: must lie in [1, 16777216], got 99999999",
        ),
        (
            "train planted --recipe sgd --epochs 1000001 --out o",
            "--epochs: must lie in (0, 1000000], got 1000001",
        ),
        (
            "train planted --recipe crt --sigma 1 --public-passes 1001 --out o",
            "--public-passes: must lie in [1, 1000], got 1001",
        ),
        (
            "train planted --recipe crt --sigma 1 --private-optimizer adamw --weight-decay 1.5 --out o",
            "--weight-decay: must lie in (0, 1], got 1.5",
        ),
        (
            "train planted --recipe sgd --decay quadratic --out o",
            "[possible values: constant, linear, cosine, plateau]",
        ),
        (
            "train planted --recipe sgd --decay plateau --out o",
            "--decay: needs --held-out, the text to watch",
        ),
        (
            "train planted --recipe dpsgd --sigma 1 --noise-decay 1 --out o",
            "must be a number in (0, 1), got \"1\"",
        ),
        (
            "train planted --recipe dpsgd --sigma 1 --epochs 2000 --noise-decay 0.999 --out o",
            "--noise-decay-every: must leave at most 1000 different noise multipliers, got 2000",
        ),
        (
            "train planted --recipe dpsgd --sigma 1 --augmentations 4 --out o",
            "they need dropout",
        ),
        (
            "train planted --recipe dpsgd --sigma 1 --augmentations 2000 --dropout 0.1 --out o",
            "--augmentations: must lie in [1, 1024], got 2000",
        ),
        (
            "train planted --recipe sgd --epochs 1 --warmup 99999 --out o",
            "--warmup: the warm-up must lie in [0, ",
        ),
        (
            "train planted --recipe sgd --precision half --out o",
            "[possible values: single, bf16]",
        ),
        (
            "train planted --recipe crt --sigma 1 --precision bf16 --out o",
            "--precision: this device computes in single precision only, got bf16",
        ),
        (
            "train planted --recipe sgd --dropout 1 --out o",
            "[0, 1), got \"1\"",
        ),
        (
            "train planted --recipe sgd --dropout NaN --out o",
            "[0, 1), got \"NaN\"",
        ),
        (
            "exposure --model planted-model --canaries 10x0",
            "from 1 to 10000",
        ),
        (
            "exposure --model planted-model --max-exposure -1",
            "[0, 1074]",
        ),
    ] {
        refused(at, line, &[says]);
    }
}

#[test]
fn fewer_candidates_than_canaries_cannot_be_planted() {
    let at = trained();
    let line = "prepare data.jsonl --out o --canaries 11x1 --canary-format ID:{digits:1}";
    refused(at, line, &["11", "10"]);
    for command in ["prepare", "plant"] {
        let line =
            format!("{command} data.jsonl --out o --canaries 10x1 --canary-format ID:{{digits:1}}");
        refused(
            at,
            &line,
            &["take all 10 candidates", "--independent-secrets"],
        );
    }
}

#[test]
fn blank_text_takes_no_canary() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::write(at.join("blank.jsonl"), "{\"text\": \"\"}\n").unwrap();
    for command in ["prepare", "plant"] {
        let line = format!("{command} blank.jsonl --canaries 2x2 --out o");
        refused(at, &line, &["no document with text in it"]);
    }
}

#[test]
fn a_plan_must_be_the_stored_one() {
    let at = trained();
    refused(
        at,
        "exposure --model planted-model --canaries 10x20",
        &["--canaries", "2x3", "10x20"],
    );
    refused(
        at,
        "exposure --model bare-model --canaries 2x3",
        &["no canaries", "audit plant"],
    );
    let other = tempfile::tempdir().unwrap();
    let plan = other.path().join("canaries.json");
    let stored = at.join("planted-model.owner/canaries.json");
    let text = std::fs::read_to_string(stored).unwrap();
    std::fs::write(&plan, text.replacen("\"seed\": 0", "\"seed\": 1", 1)).unwrap();
    refused(
        at,
        &format!(
            "exposure --model planted-model --canary-file {}",
            plan.display()
        ),
        &["--canary-file"],
    );
}

#[test]
fn a_damaged_checkpoint_is_refused_not_read() {
    let (folder, model) = model_copy();
    let line = "exposure --model planted-model";
    let weights = model.join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    refused(folder.path(), line, &["--model", "model.safetensors"]);
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] ^= 0x40;
    std::fs::write(&weights, &flipped).unwrap();
    refused(folder.path(), line, &["--model", "model.safetensors"]);
    std::fs::write(&weights, &whole).unwrap();
    for name in ["manifest.json", "config.json", "tokenizer.json"] {
        let path = model.join(name);
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        refused(folder.path(), line, &["--model", name]);
        std::fs::remove_file(&path).unwrap();
        refused(folder.path(), line, &["--model", name]);
        std::fs::write(&path, &text).unwrap();
    }
    fine(folder.path(), line);
    refused(
        folder.path(),
        "exposure --model nowhere",
        &["--model", "nowhere"],
    );
}

#[test]
fn a_place_that_cannot_be_written_is_found_out_before_the_work() {
    let at = trained();
    for command in [
        "prepare data.jsonl",
        "train planted --recipe sgd --epochs 1",
        "demo data.jsonl",
    ] {
        for (out, says) in [
            ("no/such/place", "no/such"),
            ("data.jsonl", "data.jsonl"),
            ("planted", "planted"),
        ] {
            refused(at, &format!("{command} --out {out}"), &["--out", says]);
        }
    }
}

#[test]
fn training_data_that_is_no_preparation_is_refused() {
    let at = trained();
    for (folder, says) in [("nowhere", "nowhere"), ("planted-model", "planted-model")] {
        refused(
            at,
            &format!("train {folder} --recipe sgd --out o"),
            &["PREPARED", says],
        );
    }
    refused(
        at,
        "train data.jsonl --recipe sgd --out o",
        &[
            "PREPARED",
            "a prepared corpus is a folder with prepared.json",
        ],
    );
    refused(
        at,
        "prepare planted --out o",
        &["DATA", "a prepared corpus", "name the text"],
    );
}

/// Starts a command, interrupts it once something new lies in the folder, and gives what it said.
#[cfg(unix)]
fn interrupted(folder: &Path, line: &str) -> String {
    let before = names(folder);
    let child = audit::command(folder)
        .args(line.split_whitespace())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while names(folder) == before {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    stderr(&output)
}

#[cfg(unix)]
#[test]
fn an_interrupted_training_goes_on_with_the_same_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    copy_folder(&trained().join("planted"), &at.join("planted"));
    let line = "train planted --recipe crt --sigma 1 --epochs 60 --seed 3 --out model";
    let said = interrupted(at, line);
    assert!(said.contains("resumable"), "{said}");
    assert!(!at.join("model").exists(), "no half-written checkpoint");
    fine(at, line);
    assert_eq!(names(at), ["model", "model.owner", "planted"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_demo_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let said = interrupted(folder.path(), "demo --dialogues 60");
    assert!(said.contains("nothing was written"), "{said}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}
