//! A preparation that was killed goes on where it was and writes the same bytes, or starts over.

use crate::prepare_shared;
use crate::prepare_shared::{files, near};
use reticent_corpus::Document;
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::PolicyChoice;
use reticent_corpus::prepare::{
    Phase, Preparation, PrepareFiles, PrepareOptions, Prepared, RestartCause,
};
use reticent_corpus::read::ReadOptions;
use reticent_corpus::simulate::simulate;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a preparation of `out` grows, and where a snapshot of it is put.
const HIDDEN: &str = ".preparing-out";
const SNAPSHOT: &str = "snapshot";

struct Scene {
    place: tempfile::TempDir,
    options: PrepareOptions,
}

impl Scene {
    /// A corpus of about so many batches, half of which are copies of the other half.
    fn new(dialogues: usize, options: PrepareOptions) -> Self {
        let place = tempfile::tempdir().unwrap();
        let scene = Self { place, options };
        scene.corpus(dialogues, 3);
        scene
    }

    fn corpus(&self, dialogues: usize, seed: u64) {
        let mut documents = simulate(dialogues / 2, seed).unwrap();
        // Characters outside the vocabulary are counted before and behind the stop.
        for document in documents.iter_mut().step_by(3) {
            document.text.push('é');
        }
        // Secrets of several records, on both sides of a stop.
        for at in (5..documents.len()).step_by(20) {
            let text = format!("USR: at {at} Zork Lane\nFlat 9, Blubton\nQX1 9ZZ .");
            let end = text.len() - 2;
            documents.insert(
                at,
                Document::new("cut", text).with_secret(8, end, "address"),
            );
        }
        let twice = documents.iter().chain(&documents).enumerate();
        let lines = twice.map(|(number, document)| {
            let mut document = document.clone();
            document.id = format!("{number}");
            serde_json::to_string(&document).unwrap() + "\n"
        });
        fs::write(self.at("data.jsonl"), lines.collect::<String>()).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn prepare(
        &self,
        out: &str,
        threads: usize,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> reticent_corpus::Result<Option<Preparation>> {
        let files = PrepareFiles {
            data: &self.at("data.jsonl"),
            reading: &ReadOptions::default(),
            options: &self.options,
            threads,
            pause: Duration::ZERO,
            owner: Some([7; 32]),
        };
        let made = files.write(&self.at(out), false, watch)?;
        Ok(made.map(|(made, _)| made))
    }

    /// The files of an undisturbed run.
    fn undisturbed(&self) -> BTreeMap<String, Vec<u8>> {
        let whole = self.at("whole");
        let made = self.prepare("whole", 2, &|_, _| true).unwrap().unwrap();
        assert_eq!(made.taken_up, None);
        let files = files(&whole);
        fs::remove_dir_all(&whole).unwrap();
        files
    }

    /// What lies on the disk when a process is killed at the `at`-th batch: what it wrote since the
    /// last checkpoint is there in part, and nothing is tidied up. False when it was done before.
    fn killed(&self, at: usize, threads: usize) -> bool {
        let batches = Cell::new(0);
        let stopped = self.prepare("out", threads, &|passage, _| {
            batches.set(batches.get() + usize::from(passage == Phase::Prepare));
            if passage == Phase::Prepare && batches.get() == at {
                copy(&self.at(HIDDEN), &self.at(SNAPSHOT));
                return false;
            }
            true
        });
        if stopped.unwrap().is_some() {
            return false;
        }
        fs::remove_dir_all(self.at(HIDDEN)).unwrap();
        fs::rename(self.at(SNAPSHOT), self.at(HIDDEN)).unwrap();
        true
    }

    /// To the end: how many documents had been done, and why it started over if it did.
    fn go_on(&self) -> (Option<u64>, Option<RestartCause>) {
        let restart = RefCell::new(None);
        let made = self.prepare("out", 2, &|passage, _| {
            if let Phase::Restart(cause) = passage {
                restart.replace(Some(cause));
            }
            true
        });
        let made = made.unwrap().unwrap();
        (made.taken_up, restart.into_inner())
    }

    /// The files of `out`, which is removed.
    fn out(&self) -> BTreeMap<String, Vec<u8>> {
        assert!(!self.at(HIDDEN).exists());
        let files = files(&self.at("out"));
        fs::remove_dir_all(self.at("out")).unwrap();
        files
    }

    /// Changes a file that a killed preparation left.
    fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.at(HIDDEN).join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn full() -> PrepareOptions {
    prepare_shared::full("5x20", [1, 20])
}

/// SplitMix64.
fn draw(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 33) as usize
}

/// 14 runs, each killed one to three times at batches drawn by seed 6, with one to four threads;
/// nothing random is asserted. At least 8 of them must have something to go on from.
#[test]
fn killed_anywhere_it_goes_on_to_the_same_bytes() {
    let others = |duplicates| PrepareOptions {
        duplicates,
        ..full()
    };
    let mut state = 6;
    let mut taken_up = 0;
    let all = PrepareOptions {
        deduplicate: false,
        ..full()
    };
    for (options, dialogues, runs) in [
        (full(), 3000, 6),
        (others(Deduplication::Bloom { bits: 8 }), 2000, 2),
        (others(Deduplication::Substring { length: 30 }), 2000, 2),
        (others(near(8, 0.8)), 1200, 2),
        (all, 2000, 2),
    ] {
        let scene = Scene::new(dialogues, options);
        let expected = scene.undisturbed();
        for _ in 0..runs {
            for _ in 0..=draw(&mut state) % 3 {
                if !scene.killed(1 + draw(&mut state) % 5, 1 + draw(&mut state) % 4) {
                    fs::remove_dir_all(scene.at("out")).unwrap();
                }
            }
            let (before, restart) = scene.go_on();
            assert_eq!(restart, None);
            taken_up += usize::from(before.is_some());
            assert!(scene.out() == expected, "{:?}", scene.options.duplicates);
        }
    }
    assert!(taken_up >= 8, "{taken_up}");
}

/// What was written after the last checkpoint ends anywhere, in the middle of a line too.
#[test]
fn a_torn_tail_is_cut_off() {
    let scene = Scene::new(2000, full());
    let expected = scene.undisturbed();
    assert!(scene.killed(3, 2));
    for name in ["records.jsonl", "train.jsonl", "held-out.jsonl"] {
        scene.edit(name, |bytes| bytes.extend(b"{\"point\":17,\"si"));
    }
    fs::write(scene.at(HIDDEN).join("progress.new"), "{\"identity\":{").unwrap();
    fs::write(scene.at(HIDDEN).join("tokenizer.json"), "{").unwrap();
    let (before, restart) = scene.go_on();
    assert!(before.is_some_and(|n| n > 0) && restart.is_none());
    assert!(scene.out() == expected);
}

/// Files that are shorter or other than they were at the checkpoint, and a checkpoint that is not
/// whole.
#[test]
fn damaged_parts_begin_anew() {
    type Change = fn(&mut Vec<u8>);
    let scene = Scene::new(2000, full());
    let expected = scene.undisturbed();
    let cut: Change = |bytes| bytes.truncate(1000);
    let flip: Change = |bytes| bytes[500] ^= 1;
    let changes: [(&str, Change); 6] = [
        ("records.jsonl", cut),
        ("test.jsonl", cut),
        ("train.jsonl", flip),
        ("held-out.jsonl", flip),
        ("progress.json", cut),
        ("progress.json", flip),
    ];
    for (name, change) in changes {
        assert!(scene.killed(3, 2));
        scene.edit(name, change);
        assert_eq!(
            scene.go_on(),
            (None, Some(RestartCause::NotAuthenticated)),
            "{name}"
        );
        assert!(scene.out() == expected, "{name}");
    }
    assert!(scene.killed(3, 2));
    fs::remove_file(scene.at(HIDDEN).join("train.jsonl")).unwrap();
    assert_eq!(scene.go_on(), (None, Some(RestartCause::NotAuthenticated)));
    assert!(scene.out() == expected);
}

/// What progress.json says, and its last line.
fn page(bytes: &[u8]) -> (&str, &str) {
    let text = std::str::from_utf8(bytes).unwrap().trim_end();
    text.rsplit_once('\n').unwrap()
}

/// Only the owner's key makes checksums that are accepted, since the finished folder is authenticated under it.
#[test]
fn what_was_edited_with_its_checksum_begins_anew() {
    let scene = Scene::new(2000, full());
    let expected = scene.undisturbed();
    assert!(scene.killed(3, 2));
    scene.edit("progress.json", |bytes| {
        let (counted, _) = page(bytes);
        let edited = counted.replace("\"missed_records\":1", "\"missed_records\":0");
        assert_ne!(counted, edited);
        let checksum = twox_hash::XxHash64::oneshot(0, edited.as_bytes());
        *bytes = format!("{edited}\n{checksum:016x}\n").into_bytes();
    });
    assert_eq!(scene.go_on(), (None, Some(RestartCause::NotAuthenticated)));
    // As would be what was left without the key, or by a version with other checksums.
    let said = RestartCause::NotAuthenticated.to_string();
    assert!(
        said.contains("another owner's key") && said.contains("another version"),
        "{said}"
    );
    assert!(scene.out() == expected);
}

#[test]
fn another_policy_begins_anew() {
    let mut scene = Scene::new(2000, full());
    assert!(scene.killed(3, 2));
    scene.options.policy.policy = PolicyChoice::Gold;
    assert_eq!(scene.go_on(), (None, Some(RestartCause::Options)));
    let gold = scene.out();
    assert!(gold == scene.undisturbed());
}

#[test]
fn other_options_begin_anew() {
    type Change = fn(&mut PrepareOptions);
    let changes: [Change; 4] = [
        |options| options.seed = 1,
        |options| options.max_tokens = None,
        |options| options.conservative = None,
        |options| options.held_out = 0.0,
    ];
    for change in changes {
        let mut scene = Scene::new(2000, full());
        assert!(scene.killed(3, 2));
        change(&mut scene.options);
        assert_eq!(scene.go_on(), (None, Some(RestartCause::Options)));
        let out = scene.out();
        assert!(out == scene.undisturbed());
    }
}

#[test]
fn another_corpus_begins_anew() {
    let scene = Scene::new(2000, full());
    assert!(scene.killed(3, 2));
    scene.corpus(2000, 4);
    assert_eq!(scene.go_on(), (None, Some(RestartCause::Corpus)));
    let out = scene.out();
    assert!(out == scene.undisturbed());
}

/// An error before it is known whether it can be taken up leaves it there.
#[test]
fn a_corpus_that_is_away_for_a_while_costs_nothing() {
    let scene = Scene::new(2000, full());
    let expected = scene.undisturbed();
    assert!(scene.killed(3, 2));
    fs::rename(scene.at("data.jsonl"), scene.at("away")).unwrap();
    scene.prepare("out", 2, &|_, _| true).unwrap_err();
    assert!(PrepareFiles::stopped(&scene.at("out")));
    fs::rename(scene.at("away"), scene.at("data.jsonl")).unwrap();
    let (before, restart) = scene.go_on();
    assert!(before.is_some() && restart.is_none());
    assert!(scene.out() == expected);
}

/// Who finds what was left cannot tell which secrets were masked: their digests are keyed by the
/// corpus.
#[test]
fn what_is_left_names_no_masked_secret() {
    let scene = Scene::new(2000, full());
    assert!(scene.killed(3, 2));
    let left = fs::read(scene.at(HIDDEN).join("progress.json")).unwrap();
    let (left, _) = page(&left);
    let left: serde_json::Value = serde_json::from_str(left).unwrap();
    let keys = left["done"]["secrets"].as_array().unwrap();
    assert!(keys.len() > 100);
    let data = fs::read_to_string(scene.at("data.jsonl")).unwrap();
    for line in data.lines().take(200) {
        let document: reticent_corpus::Document = serde_json::from_str(line).unwrap();
        let text: Vec<char> = document.text.chars().collect();
        for secret in &document.secrets {
            use sha1::{Digest, Sha1};
            let secret: String = text[secret.start..secret.end].iter().collect();
            let plain = serde_json::json!(Sha1::digest(secret.as_bytes()).to_vec());
            assert!(keys.iter().all(|entry| entry["key"] != plain));
        }
    }
}

/// The code is that of what was written, not of what lies on the disk when it is finished.
#[test]
fn what_is_edited_while_it_is_written_is_not_authenticated() {
    let scene = Scene::new(2000, PrepareOptions::default());
    let records = scene.at(HIDDEN).join("records.jsonl");
    let edited = Cell::new(false);
    let made = scene.prepare("out", 2, &|_, _| {
        let written = fs::read(&records).unwrap_or_default();
        if !edited.get() && !written.is_empty() {
            let text = String::from_utf8(written).unwrap();
            fs::write(&records, text.replacen("private", "prIvate", 1)).unwrap();
            edited.set(true);
        }
        true
    });
    assert!(made.unwrap().is_some() && edited.get());
    let error = Prepared::load(&scene.at("out"), Some([7; 32])).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("was edited after it was prepared"),
        "{error}"
    );
}
