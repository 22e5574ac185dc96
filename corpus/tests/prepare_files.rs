//! Preparing files into a folder: what `prepare` and `write` make of the same documents in
//! memory, byte for byte, whatever the number of threads; all of it or nothing.

use crate::prepare_shared::{files, of_each_kind};
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::{DetectorOptions, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{Phase, Preparation, PrepareFiles, PrepareOptions, prepare};
use reticent_corpus::read::{ReadOptions, read_documents};
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Error, Masked, Unit};
use std::path::Path;
use std::time::Duration;

fn jsonl(documents: &[Document]) -> String {
    let lines = documents.iter();
    lines
        .map(|d| serde_json::to_string(d).unwrap() + "\n")
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn write(
    data: &Path,
    options: &PrepareOptions,
    threads: usize,
    out: &Path,
    watch: &dyn Fn(Phase, u64) -> bool,
) -> reticent_corpus::Result<Option<(Preparation, Vec<Error>)>> {
    let files = PrepareFiles {
        data,
        reading: &ReadOptions::default(),
        options,
        threads,
        pause: Duration::from_secs(10),
        owner: None,
    };
    files.write(out, false, watch)
}

fn made(data: &Path, options: &PrepareOptions, threads: usize, out: &Path) -> Preparation {
    write(data, options, threads, out, &|_, _| true)
        .unwrap()
        .unwrap()
        .0
}

/// As `prepare` and `write` in memory, with one, two and five threads.
fn same(data: &Path, options: &PrepareOptions) {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let prepared = prepare(&read_documents(data).unwrap(), options).unwrap();
    prepared.write(&at("memory"), false, None).unwrap();
    let expected = files(&at("memory"));
    for threads in [1, 2, 5] {
        let name = format!("files-{threads}");
        let made = made(data, options, threads, &at(&name));
        assert_eq!(made.facts, prepared.facts);
        assert!(
            files(&at(&name)) == expected,
            "{options:?}, {threads} threads"
        );
    }
    assert_eq!(
        names(place.path()),
        ["files-1", "files-2", "files-5", "memory"]
    );
}

fn with(policy: PolicyChoice) -> PrepareOptions {
    PrepareOptions {
        policy: PolicyOptions {
            policy,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    }
}

#[test]
fn a_folder_from_files_is_the_one_from_memory() {
    let place = tempfile::tempdir().unwrap();
    let marked = place.path().join("marked.jsonl");
    let mut documents = simulate(150, 3).unwrap();
    std::fs::write(&marked, jsonl(&documents)).unwrap();
    documents[3].masked = vec![Masked { start: 5, end: 9 }];
    let plain: Vec<Document> = documents
        .iter()
        .map(|d| Document {
            secrets: Vec::new(),
            ..d.clone()
        })
        .collect();
    let unmarked = place.path().join("unmarked.jsonl");
    std::fs::write(&unmarked, jsonl(&plain)).unwrap();
    let detectors = with(PolicyChoice::Detectors(DetectorOptions::default()));
    for options in of_each_kind().into_iter().chain([detectors]) {
        same(&marked, &options);
        same(&unmarked, &options);
    }
}

/// Many batches, of which the first takes far longest: each of its lines holds numbers that are
/// masked one by one to see whether they are caught. Those behind it are done before it is.
#[test]
fn batches_come_in_corpus_order_though_the_first_is_last_to_be_done() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.txt");
    let numbers: Vec<String> = (0..40).map(|n| format!("415-555-{:04}", 7 * n)).collect();
    let slow = (0..300).map(|line| format!("{line} {}\n", numbers.join(" and ")));
    let quick = (0..1800).map(|line| format!("line {line}{}\n", " of words".repeat(160)));
    // Some of the last are copies of the first.
    let copies = (0..300)
        .step_by(3)
        .map(|line| format!("{line} {}\n", numbers.join(" and ")));
    let blocks: Vec<String> = slow.chain(quick).chain(copies).collect();
    std::fs::write(&data, blocks.join("\n")).unwrap();
    same(&data, &with(PolicyChoice::Customers));
}

#[test]
fn what_a_killed_process_left_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    std::fs::write(&data, jsonl(&simulate(5, 0).unwrap())).unwrap();
    let left = place.path().join(".preparing-out");
    std::fs::create_dir_all(left.join("deeper")).unwrap();
    for name in ["lock", "records.jsonl", "train.jsonl", "deeper/x"] {
        std::fs::write(left.join(name), "half a line").unwrap();
    }
    let out = place.path().join("out");
    made(&data, &PrepareOptions::default(), 2, &out);
    assert_eq!(names(place.path()), ["data.jsonl", "out"]);
    let expected = [
        "prepared.json",
        "records.jsonl",
        "tokenizer.json",
        "train.jsonl",
    ];
    assert_eq!(names(&out), expected);
}

/// Killed while one folder takes the place of another, it left a folder that nothing removed.
#[test]
fn what_a_killed_replacement_left_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    std::fs::write(&data, jsonl(&simulate(5, 0).unwrap())).unwrap();
    let (out, old) = (place.path().join("out"), place.path().join(".replaced-out"));
    let options = PrepareOptions::default();
    let again = |force| {
        let prepared = prepare(&read_documents(&data).unwrap(), &options).unwrap();
        prepared.write(&out, force, None)
    };
    // Between the two renames, of a folder and of an empty one, and after them.
    made(&data, &options, 1, &out);
    let expected = files(&out);
    std::fs::rename(&out, &old).unwrap();
    again(false).unwrap();
    assert_eq!(names(place.path()), ["data.jsonl", "out"]);
    std::fs::rename(&out, &old).unwrap();
    std::fs::create_dir(&out).unwrap();
    again(false).unwrap();
    assert_eq!(names(place.path()), ["data.jsonl", "out"]);
    std::fs::create_dir(&old).unwrap();
    again(true).unwrap();
    assert_eq!(names(place.path()), ["data.jsonl", "out"]);
    // What is not ours stays, and so does what would be replaced.
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("mine"), "text").unwrap();
    let refused = again(true).unwrap_err().to_string();
    assert!(
        refused.contains(".replaced-out exists and is no prepared folder"),
        "{refused}"
    );
    assert_eq!(names(&old), ["mine"]);
    assert!(files(&out) == expected);
    std::fs::remove_dir_all(&out).unwrap();
    again(false).unwrap();
    assert_eq!(names(&old), ["mine"]);
}

#[test]
fn two_at_once_do_not_write_into_one_folder() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    std::fs::write(&data, jsonl(&simulate(5, 0).unwrap())).unwrap();
    let (out, options) = (place.path().join("out"), PrepareOptions::default());
    let second = std::cell::RefCell::new(None);
    let first = write(&data, &options, 1, &out, &|_, _| {
        let other = write(&data, &options, 1, &out, &|_, _| true);
        second.replace(Some(other.unwrap_err().to_string()));
        true
    });
    assert!(first.unwrap().is_some());
    let second = second.into_inner().unwrap();
    assert!(second.contains("another process is at work"), "{second}");
    assert_eq!(names(place.path()), ["data.jsonl", "out"]);
}

#[test]
fn stopped_or_refused_it_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    std::fs::write(&data, jsonl(&simulate(5, 0).unwrap())).unwrap();
    let options = PrepareOptions::default();
    let out = place.path().join("out");
    let every = PrepareOptions {
        duplicates: Deduplication::Substring { length: 30 },
        policy: PolicyOptions {
            miss_rate: 0.5,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    for at in [Phase::Secrets, Phase::Duplicates] {
        let stopped = write(&data, &every, 2, &out, &|passage, _| passage != at);
        assert!(stopped.unwrap().is_none(), "{at:?}");
        assert_eq!(names(place.path()), ["data.jsonl"]);
    }
    // What was prepared by then stays for the next one.
    let stopped = write(&data, &every, 2, &out, &|passage, _| {
        passage != Phase::Prepare
    });
    assert!(stopped.unwrap().is_none());
    assert_eq!(names(place.path()), [".preparing-out", "data.jsonl"]);
    assert_eq!(made(&data, &every, 2, &out).taken_up, Some(5));
    assert_eq!(names(place.path()), ["data.jsonl", "out"]);
    std::fs::remove_dir_all(&out).unwrap();
    // Spans that do not fit are found before anything is written under the name.
    let wrong = Document::new("a", "short").with_secret(2, 99, "name");
    std::fs::write(&data, jsonl(&[wrong])).unwrap();
    let refused = write(&data, &options, 2, &out, &|_, _| true).unwrap_err();
    assert!(refused.to_string().contains("99"), "{refused}");
    let none = write(&data, &options, 0, &out, &|_, _| true).unwrap_err();
    assert!(none.to_string().contains("from 1 to 1024, got 0"), "{none}");
    assert_eq!(names(place.path()), ["data.jsonl"]);
}

/// The corpus is read again after what the policy finds in it is known: then it must be the same.
#[test]
fn a_corpus_that_changes_meanwhile_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    let text = jsonl(&simulate(5, 0).unwrap());
    std::fs::write(&data, &text).unwrap();
    let mut options = PrepareOptions::default();
    options.policy.miss_rate = 0.5;
    let out = place.path().join("out");
    let changed = text.replacen("SYS: H", "SYS: h", 1);
    assert_ne!(changed, text);
    let refused = write(&data, &options, 2, &out, &|passage, _| {
        if passage == Phase::Secrets {
            std::fs::write(&data, &changed).unwrap();
        }
        true
    });
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Changed { .. }), "{refused}");
    assert_eq!(names(place.path()), ["data.jsonl"]);
}

#[test]
fn every_file_that_cannot_be_read_is_named_or_left_out() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("a.txt"), "my number is 415-555-0123\n").unwrap();
    std::fs::write(data.join("b.txt"), b"\xff\xfe\xfd").unwrap();
    std::fs::write(data.join("c.jsonl"), "[1]\n").unwrap();
    let options = PrepareOptions::default();
    let out = place.path().join("out");
    let refused = write(&data, &options, 2, &out, &|_, _| true)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("b.txt") && refused.contains("c.jsonl"),
        "{refused}"
    );
    let reading = ReadOptions {
        skip_unreadable: true,
        ..ReadOptions::default()
    };
    let files = PrepareFiles {
        data: &data,
        reading: &reading,
        options: &options,
        threads: 2,
        pause: Duration::ZERO,
        owner: None,
    };
    let (made, skipped) = files.write(&out, false, &|_, _| true).unwrap().unwrap();
    assert_eq!((made.facts.documents, skipped.len()), (1, 2));
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::remove_file(data.join("a.txt")).unwrap();
    let nothing = files
        .write(&out, false, &|_, _| true)
        .unwrap_err()
        .to_string();
    assert!(
        nothing.contains("b.txt") && nothing.contains("c.jsonl"),
        "{nothing}"
    );
}

/// All records of a user are one unit: one record of the training set, held out or not as a whole, a copy only of another
/// user's whole, and one record for each secret in them.
#[test]
fn a_user_is_one_unit_through_the_preparation() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    let mut lines = String::new();
    // User 3 says what user 2 says; lines of all users mix, and each says one sentence twice.
    for round in 0..3 {
        for user in 0..40 {
            let named = if user == 3 { 2 } else { user };
            let text = match round {
                0 | 1 => format!("I am number {named}."),
                _ => format!("Write to ada{named}@example.org or ada{named}@example.org"),
            };
            lines += &serde_json::json!({"id": format!("{round}-{user}"), "user": format!("u{user}"), "text": text})
                .to_string();
            lines.push('\n');
        }
    }
    std::fs::write(&data, lines).unwrap();
    let options = PrepareOptions {
        unit: Unit::User,
        held_out: 0.25,
        policy: PolicyOptions {
            policy: PolicyChoice::Detectors(DetectorOptions::default()),
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let reading = ReadOptions {
        user: Some("user".to_owned()),
        ..ReadOptions::default()
    };
    let out = place.path().join("out");
    let files = PrepareFiles {
        data: &data,
        reading: &reading,
        options: &options,
        threads: 2,
        pause: Duration::from_secs(10),
        owner: None,
    };
    let (made, _) = files.write(&out, false, &|_, _| true).unwrap().unwrap();
    let facts = &made.facts;
    assert_eq!(facts.unit, Unit::User);
    assert_eq!(
        (
            facts.documents + facts.held_out_documents,
            facts.held_out_documents
        ),
        (40, 10)
    );
    assert_eq!(facts.units, 30);
    // At most the pair of equal users, where neither is held out.
    assert!(facts.duplicates <= 1);
    // Of a user's three texts all stand in one record, the address masked in both places.
    let text = std::fs::read_to_string(out.join("train.jsonl")).unwrap();
    // A copy is a point, and no record of the training set.
    assert_eq!(text.lines().count() as u64, 30 - facts.duplicates);
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = record["text"].as_str().unwrap();
        let whole = text.matches("I am number").count() == 2 && text.matches("<MASK>").count() == 2;
        assert!(whole || text == "<MASK>", "{text}");
    }
    // Without the key the same corpus is 120 units of one document each.
    let apart = place.path().join("apart");
    let files = PrepareFiles {
        reading: &ReadOptions::default(),
        ..files
    };
    let (made, _) = files.write(&apart, false, &|_, _| true).unwrap().unwrap();
    assert_eq!(made.facts.documents + made.facts.held_out_documents, 120);
}
