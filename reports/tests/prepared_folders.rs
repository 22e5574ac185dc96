//! What reads a prepared folder refuses an edited one, and says where nothing authenticates it.
#![cfg(feature = "findings")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::account::PATH as ACCOUNT;
use crate::common::audit::PATH as AUDIT;
use crate::common::{KEY, flat};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A prepared folder, and the key under which it was prepared.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for line in [
            "simulate customers --dialogues 12 --seed 5 --out data.jsonl",
            "prepare data.jsonl --policy customers --miss-rate 0.3 --seed 3 --canaries 2x3 --out p",
        ] {
            let output = home.with_key(AUDIT, line);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {error}");
        }
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, program: &str, line: &str, key: &Path) -> Output {
        Command::new(program)
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .env(KEY[0], key)
            .output()
            .unwrap()
    }

    fn with_key(&self, program: &str, line: &str) -> Output {
        self.run(program, line, &self.at("owner.key"))
    }

    /// As on a machine on which there is no key.
    fn without_key(&self, program: &str, line: &str) -> Output {
        let key = self.at("nowhere.key");
        let output = self.run(program, line, &key);
        assert!(!key.exists(), "{line}: reading makes no key");
        output
    }
}

const PLAN: &str = "--recipe dpsgd --sigma 1 --epochs 1";

fn readers() -> Vec<(&'static str, String)> {
    let account = format!("--prepared p {PLAN}");
    let incidence = "incidence p --policy customers --out found.csv".to_owned();
    let mut all = vec![(ACCOUNT, account), (AUDIT, incidence)];
    if cfg!(feature = "audit") {
        let model = "--model gpt2 --layers 1 --width 8 --heads 1 --seed 1 --out ckpt";
        all.push((AUDIT, format!("train p {PLAN} {model}")));
    }
    all
}

#[test]
fn every_reader_refuses_a_folder_that_was_edited() {
    let home = Home::new();
    let path = home.at("p/prepared.json");
    let written = std::fs::read_to_string(&path).unwrap();
    let mut sheet: Value = serde_json::from_str(&written).unwrap();
    sheet["facts"]["secrets"]["all"]["missed"] = 0.into();
    for (edited, contradiction) in [
        // What no reader uses.
        (written.replacen(' ', "", 1), None),
        (sheet.to_string(), Some("add up to distinct")),
        (
            written.replacen("\"private\": ", "\"private\": 1", 1),
            Some("do not add up to"),
        ),
    ] {
        assert_ne!(edited, written);
        std::fs::write(&path, edited).unwrap();
        for (program, line) in readers() {
            let output = home.with_key(program, &line);
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{line}: {error}");
            assert!(
                error.contains("prepared.code: the folder was edited after it was prepared"),
                "{line}: {error}"
            );
            if let Some(said) = contradiction {
                let output = home.without_key(program, &line);
                let error = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(2), "{line}: {error}");
                assert!(error.contains(said), "{line}: {error}");
            }
        }
    }
}

/// An answer that rests on the folder says so, and so does what was made from it.
#[test]
fn a_folder_without_its_owners_key_is_read_and_said_to_be_unknown() {
    let home = Home::new();
    let said = "The prepared corpus is not authenticated: the owner's key is not here; the folder's facts are taken as they stand.";
    let read = |output: Output| {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let text = String::from_utf8(output.stdout).unwrap();
        flat(&text)
    };
    let line = format!("--prepared p {PLAN} -v");
    assert!(read(home.without_key(ACCOUNT, &line)).contains(said));
    assert!(!read(home.with_key(ACCOUNT, &line)).contains("not authenticated"));
    let line = format!("--prepared p {PLAN} --format json");
    let document: Value = serde_json::from_str(&read(home.without_key(ACCOUNT, &line))).unwrap();
    assert_eq!(
        document["inputs"]["not_authenticated"],
        serde_json::json!(["p/prepared.json"])
    );
    if cfg!(feature = "audit") {
        let model = "--model gpt2 --layers 1 --width 8 --heads 1 --seed 1";
        let train = |out: &str| format!("train p {PLAN} {model} --out {out} -v");
        assert!(read(home.without_key(AUDIT, &train("unknown"))).contains(said));
        assert!(!read(home.with_key(AUDIT, &train("known"))).contains(said));
        let compose =
            |of: &str| read(home.with_key(ACCOUNT, &format!("compose {of}/manifest.json -v")));
        let behind = "the prepared corpus of the run was not authenticated";
        assert!(compose("unknown").contains(behind));
        assert!(!compose("known").contains(behind));
    }
}
