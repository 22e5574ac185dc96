//! The prepared folder: complete or absent, and checked when it is read.

use crate::prepare_shared::draws;
use reticent_corpus::Error;
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::{ConservativeOptions, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, Prepared, TokenizerChoice, prepare};
use reticent_corpus::read::read_documents;
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn sample() -> Prepared {
    let options = PrepareOptions {
        canaries: Some(CanaryOptions::new("2x3".parse().unwrap())),
        held_out: 0.25,
        policy: PolicyOptions {
            miss_rate: 0.1,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    prepare(&simulate(20, 0).unwrap(), &options).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn same(one: &Prepared, other: &Prepared) {
    assert_eq!(one.training, other.training);
    assert_eq!(one.points, other.points);
    assert_eq!(one.documents, other.documents);
    assert_eq!(one.held_out_documents, other.held_out_documents);
    assert_eq!(one.texts, other.texts);
    assert_eq!(one.held_out, other.held_out);
    assert_eq!(one.held_out_texts, other.held_out_texts);
    assert_eq!(one.facts, other.facts);
    assert_eq!(one.options, other.options);
    assert_eq!(one.plan, other.plan);
    assert_eq!(
        one.tokenizer.to_json().unwrap(),
        other.tokenizer.to_json().unwrap()
    );
}

/// Wherever the disk fails, the folder that is replaced stays, or the new one has its name.
#[test]
#[cfg(debug_assertions)]
fn a_failing_disk_leaves_the_old_folder_or_the_new_one() {
    use reticent_disk::failing;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let [old, new] = [0, 1]
        .map(|seed| prepare(&simulate(5, seed).unwrap(), &PrepareOptions::default()).unwrap());
    let facts = || std::fs::read(folder.join("prepared.json")).unwrap();
    new.write(&folder, false, None).unwrap();
    let new_facts = facts();
    let mut failures = 0;
    loop {
        old.write(&folder, true, None).unwrap();
        let old_facts = facts();
        failing::after(Some(failures));
        let written = new.write(&folder, true, None);
        failing::after(None);
        let there = facts();
        assert!(there == old_facts || there == new_facts, "{failures}");
        Prepared::load(&folder, None).unwrap();
        if written.is_ok() {
            assert!(there == new_facts && failures > 4);
            break;
        }
        failures += 1;
    }
    assert_eq!(names(place.path()), ["prepared"]);
}

#[test]
fn what_is_written_is_what_is_read() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let prepared = sample();
    prepared.write(&folder, false, None).unwrap();
    assert_eq!(
        names(&folder),
        [
            "canaries.json",
            "held-out.jsonl",
            "prepared.json",
            "records.jsonl",
            "test.jsonl",
            "tokenizer.json",
            "train.jsonl"
        ]
    );
    same(&prepared, &Prepared::load(&folder, None).unwrap());
    // The text for other trainers is a corpus like any other.
    let documents = read_documents(&folder.join("train.jsonl")).unwrap();
    assert_eq!(documents.len(), prepared.training.records.len());
    assert!(documents.iter().any(|d| d.text.contains("<MASK>")));
    // Nothing is left beside the folder.
    assert_eq!(names(place.path()), ["prepared"]);
}

#[test]
fn files_that_are_not_needed_are_not_there() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let plain = PrepareOptions {
        tokenizer: TokenizerChoice::Bytes,
        ..PrepareOptions::default()
    };
    let prepared = prepare(&simulate(3, 0).unwrap(), &plain).unwrap();
    prepared.write(&folder, false, None).unwrap();
    assert_eq!(
        names(&folder),
        [
            "prepared.json",
            "records.jsonl",
            "tokenizer.json",
            "train.jsonl"
        ]
    );
    same(&prepared, &Prepared::load(&folder, None).unwrap());
}

#[test]
fn a_pretrained_tokenizer_travels_with_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tokenizer.json");
    // Our characters under another added token: no longer recognised as ours.
    let json = Tokenizer::characters()
        .to_json()
        .unwrap()
        .replace("<UNK>", "<unk>");
    std::fs::write(&path, json).unwrap();
    let tokenizer = TokenizerChoice::File {
        path,
        origin: Origin::DeclaredPublic,
    };
    let options = PrepareOptions {
        tokenizer,
        ..PrepareOptions::default()
    };
    let prepared = prepare(&simulate(3, 0).unwrap(), &options).unwrap();
    let folder = place.path().join("prepared");
    prepared.write(&folder, false, None).unwrap();
    let read = Prepared::load(&folder, None).unwrap();
    assert_eq!(read.tokenizer.origin(), Origin::DeclaredPublic);
    assert_eq!(read.training, prepared.training);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    sample().write(&folder, false, None).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for name in names(&folder) {
        assert_eq!(mode(&folder.join(&name)), 0o600, "{name}");
    }
}

#[test]
fn a_folder_in_use_is_not_touched() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let prepared = sample();
    // An empty folder may be taken.
    std::fs::create_dir(&folder).unwrap();
    prepared.write(&folder, false, None).unwrap();
    let before = std::fs::read(folder.join("prepared.json")).unwrap();
    let error = prepared.write(&folder, false, None).unwrap_err();
    assert!(matches!(error, Error::Occupied { .. }), "{error}");
    assert_eq!(std::fs::read(folder.join("prepared.json")).unwrap(), before);
    // With force it is replaced as a whole.
    let other = prepare(&simulate(3, 1).unwrap(), &PrepareOptions::default()).unwrap();
    other.write(&folder, true, None).unwrap();
    same(&other, &Prepared::load(&folder, None).unwrap());
    assert_eq!(names(place.path()), ["prepared"]);
    // Force replaces prepared folders and nothing else.
    let home = place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("letter.txt"), "dear").unwrap();
    assert!(matches!(
        prepared.write(&home, true, None),
        Err(Error::Occupied { .. })
    ));
    assert!(matches!(
        prepared.write(&home.join("letter.txt"), true, None),
        Err(Error::Output { .. })
    ));
    assert_eq!(names(&home), ["letter.txt"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named_and_nothing_stays() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    for folder in [file.join("prepared"), place.path().join("none/prepared")] {
        let error = sample().write(&folder, false, None).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert!(
            error.to_string().starts_with(&folder.display().to_string()),
            "{error}"
        );
    }
    assert_eq!(names(place.path()), ["file"]);
}

#[test]
fn every_file_is_needed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    sample().write(&folder, false, None).unwrap();
    for name in names(&folder) {
        let path = folder.join(&name);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let text = Prepared::load(&folder, None).unwrap_err().to_string();
        assert!(text.contains(&name), "{name}: {text}");
        // Cut in half.
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let text = Prepared::load(&folder, None).unwrap_err().to_string();
        assert!(text.contains(&name), "{name}: {text}");
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(Prepared::load(&folder, None).is_ok());
    assert!(matches!(
        Prepared::load(place.path(), None),
        Err(Error::Read { .. })
    ));
}

#[test]
fn tampering_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    sample().write(&folder, false, None).unwrap();
    let cases: [(&str, &str, &str, &str); 16] = [
        (
            "prepared.json",
            "\"schema\": 1",
            "\"schema\": 9",
            "schema: 9, expected 1",
        ),
        (
            "prepared.json",
            "\"type\": \"preparation\"",
            "\"type\": \"x\"",
            "type: x, expected preparation",
        ),
        (
            "prepared.json",
            "\"held_out\": 0.25",
            "\"held_out\": 2.5",
            "the share of documents held out",
        ),
        (
            "prepared.json",
            "\"unit\": \"turn\"",
            "\"unit\": \"sentence\"",
            "facts.unit: turn, expected sentence",
        ),
        (
            "prepared.json",
            "\"mask_only\": ",
            "\"mask_only\": 1",
            "points that are only a mask",
        ),
        (
            "prepared.json",
            "\"single_copy\": 2",
            "\"single_copy\": 3",
            "facts.stages: not those of the options",
        ),
        (
            "prepared.json",
            "\"loss_tokens\": ",
            "\"loss_tokens\": 1",
            "tokens that carry loss",
        ),
        (
            "prepared.json",
            "\"vocabulary\": \"characters\"",
            "\"vocabulary\": \"bytes\"",
            "facts.vocabulary: Bytes, which options.tokenizer does not give",
        ),
        (
            "tokenizer.json",
            "{",
            "{ ",
            "it is not the tokenizer that prepared.json has the SHA-256 of",
        ),
        (
            "records.jsonl",
            "[97,",
            "[7,",
            "line 1: a record that does not begin with the beginning of text",
        ),
        (
            "records.jsonl",
            ",98]",
            ",100]",
            "line 1: token 100; the vocabulary has 100 tokens",
        ),
        (
            "records.jsonl",
            "\"point\":0",
            "\"point\":9999",
            "line 1: point 9999; points rise and stay below",
        ),
        (
            "records.jsonl",
            "\"document\":0",
            "\"document\":9999",
            "line 1: document 9999; they do not fall and stay below",
        ),
        (
            "held-out.jsonl",
            "\"document\":0",
            "\"document\":1",
            "line 2: document 0; they do not fall and stay below",
        ),
        (
            "records.jsonl",
            "\"private\"",
            "\"public\"",
            "public records: 1, expected 0",
        ),
        (
            "train.jsonl",
            "\"private\"",
            "\"public\"",
            "line 1: its side is not that of its record",
        ),
    ];
    for (name, from, to, message) in cases {
        let path = folder.join(name);
        let before = std::fs::read_to_string(&path).unwrap();
        assert!(before.contains(from), "{name} has no {from}");
        std::fs::write(&path, before.replacen(from, to, 1)).unwrap();
        let text = Prepared::load(&folder, None).unwrap_err().to_string();
        assert!(
            text.contains(name)
                || text.contains("tokenizer.json")
                || text.contains("records.jsonl"),
            "{text}"
        );
        assert!(text.contains(message), "{text} does not say {message}");
        std::fs::write(&path, before).unwrap();
    }
    let path = folder.join("canaries.json");
    let plan = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, plan.replacen("\"copies\": 3", "\"copies\": 2", 1)).unwrap();
    let text = Prepared::load(&folder, None).unwrap_err().to_string();
    assert!(
        text.contains("3 insertions; the plan has 2 copies of it"),
        "{text}"
    );
}

#[test]
fn a_plan_of_other_secrets_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let prepared = sample();
    prepared.write(&folder, false, None).unwrap();
    let other = CanaryOptions {
        seed: 1,
        ..CanaryOptions::new("2x3".parse().unwrap())
    };
    let other = PrepareOptions {
        canaries: Some(other),
        ..prepared.options
    };
    let other = prepare(&simulate(20, 0).unwrap(), &other).unwrap();
    let plan = other.plan.unwrap().to_json().unwrap();
    std::fs::write(folder.join("canaries.json"), plan).unwrap();
    let text = Prepared::load(&folder, None).unwrap_err().to_string();
    assert!(
        text.contains("copy 0 of canary 0 is not in record"),
        "{text}"
    );
}

#[test]
fn a_plan_that_does_not_belong_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    let plain = prepare(&simulate(3, 0).unwrap(), &PrepareOptions::default()).unwrap();
    plain.write(&folder, false, None).unwrap();
    let plan = sample().plan.unwrap().to_json().unwrap();
    std::fs::write(folder.join("canaries.json"), plan).unwrap();
    let text = Prepared::load(&folder, None).unwrap_err().to_string();
    assert!(
        text.contains("prepared.json knows of no canaries"),
        "{text}"
    );
}

const OWNER: [u8; 32] = [7; 32];

/// Without redaction, with canaries that the policy does not see.
fn unredacted() -> PrepareOptions {
    PrepareOptions {
        redact: false,
        canaries: Some(CanaryOptions::new("2x3".parse().unwrap())),
        ..PrepareOptions::default()
    }
}

/// Writes a folder, once with the owner's key and once without.
fn written(place: &Path, options: &PrepareOptions) -> [(PathBuf, Option<[u8; 32]>); 2] {
    let made = prepare(&simulate(20, 0).unwrap(), options).unwrap();
    [("with", Some(OWNER)), ("without", None)].map(|(name, owner)| {
        let folder = place.join(name);
        made.write(&folder, false, owner).unwrap();
        let read = Prepared::load(&folder, owner).unwrap();
        assert_eq!(read.authenticated, owner.is_some());
        same(&made, &read);
        (folder, owner)
    })
}

/// Alters the lines of a file, or its only value.
fn edit(folder: &Path, name: &str, mut alter: impl FnMut(usize, &mut Value)) {
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = match name.ends_with(".jsonl") {
        true => text.lines().collect(),
        false => vec![&text],
    };
    let altered = lines.into_iter().enumerate().map(|(number, line)| {
        let mut value = serde_json::from_str(line).unwrap();
        alter(number, &mut value);
        format!("{value}\n")
    });
    let altered: String = altered.collect();
    std::fs::write(&path, altered).unwrap();
}

/// What an altered folder is refused with: by its code, and by what it contradicts itself in.
fn refused(options: &PrepareOptions, alter: impl Fn(&Path), contradiction: &str) {
    let place = tempfile::tempdir().unwrap();
    for (folder, owner) in written(place.path(), options) {
        alter(&folder);
        let error = Prepared::load(&folder, owner).unwrap_err().to_string();
        let said = match owner {
            Some(_) => "prepared.code: the folder was edited after it was prepared",
            None => contradiction,
        };
        assert!(error.contains(said), "{error} does not say {said}");
    }
}

#[test]
fn no_byte_changes_under_the_owners_key() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    sample().write(&folder, false, Some(OWNER)).unwrap();
    let all = names(&folder);
    assert!(all.contains(&"prepared.code".to_owned()) && all.len() == 8);
    let load = |owner| Prepared::load(&folder, owner).map_err(|error| error.to_string());
    assert!(load(Some(OWNER)).unwrap().authenticated);
    // Where the key is not, the folder is read, and said to be unknown.
    assert!(!load(None).unwrap().authenticated);
    let edited =
        "the folder was edited after it was prepared, or prepared under another owner's key";
    assert!(load(Some([8; 32])).unwrap_err().contains(edited));
    // Of a file manager, and of somebody.
    std::fs::write(folder.join(".DS_Store"), "").unwrap();
    assert!(load(Some(OWNER)).is_ok());
    std::fs::write(folder.join("notes"), "").unwrap();
    let error = load(Some(OWNER)).unwrap_err();
    assert!(
        error.contains("no preparation writes a file of this name"),
        "{error}"
    );
    std::fs::remove_file(folder.join("notes")).unwrap();
    for name in all {
        let path = folder.join(&name);
        let bytes = std::fs::read(&path).unwrap();
        for place in [0, bytes.len() / 2, bytes.len() - 2] {
            let mut other = bytes.clone();
            other[place] ^= 1;
            std::fs::write(&path, other).unwrap();
            let error = load(Some(OWNER)).unwrap_err();
            assert!(error.contains(edited), "{name}, byte {place}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = load(Some(OWNER)).unwrap_err();
        let said = match name.as_str() {
            "prepared.code" => "it is not there, so nothing authenticates the folder",
            "prepared.json" => "prepared.json",
            _ => edited,
        };
        assert!(error.contains(said), "{name}: {error}");
        std::fs::write(&path, &bytes).unwrap();
    }
    for owner in [Some(OWNER), None] {
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        let error = load(owner).unwrap_err();
        assert!(
            error.contains("config.json: no preparation writes"),
            "{error}"
        );
        std::fs::remove_file(folder.join("config.json")).unwrap();
    }
    // Its owner may vouch for it again.
    edit(&folder, "prepared.json", |_, _| {});
    assert!(load(Some(OWNER)).unwrap_err().contains(edited));
    reticent_corpus::prepare::seal_folder(&folder, OWNER).unwrap();
    assert!(load(Some(OWNER)).unwrap().authenticated);
}

/// Text that a policy found was trained on in the open after its ranges were removed.
#[test]
fn sensitive_ranges_belong_to_their_records() {
    refused(
        &unredacted(),
        |folder| {
            let mut removed = 0;
            edit(folder, "records.jsonl", |_, line| {
                let line = line.as_object_mut().unwrap();
                removed += usize::from(line.remove("sensitive").is_some());
            });
            assert!(removed > 10);
        },
        "its id is not that of its text and its record",
    );
}

/// A record that the conservative policy flagged was trained on without noise after it had changed places with a public
/// one.
#[test]
fn sides_belong_to_their_records() {
    // What the policy misses is flagged and has no mask.
    let options = PrepareOptions {
        policy: PolicyOptions {
            miss_rate: 0.3,
            ..PolicyOptions::default()
        },
        conservative: Some(ConservativeOptions::default()),
        ..PrepareOptions::default()
    };
    let places = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("train.jsonl")).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        ["public", "private"].map(|side| {
            let is = |line: &Value| {
                line["side"] == side && !line["text"].as_str().unwrap().contains("<MASK>")
            };
            lines.iter().position(is).unwrap()
        })
    };
    refused(
        &options,
        |folder| {
            let [public, private] = places(folder);
            for name in ["records.jsonl", "train.jsonl"] {
                edit(folder, name, |number, line| {
                    if number == public {
                        line["side"] = "private".into();
                    } else if number == private {
                        line["side"] = "public".into();
                    }
                });
            }
        },
        "its id is not that of its text and its record",
    );
    // One with a mask can't be public whatever its id.
    refused(
        &options,
        |folder| {
            let mask = Tokenizer::characters().mask();
            edit(folder, "records.jsonl", |_, line| {
                if line["tokens"].as_array().unwrap().contains(&mask.into()) {
                    line["side"] = "public".into();
                }
            });
        },
        "a record with a mask on the public side",
    );
}

type Change = fn(&mut Value);

/// Counts that a guarantee is computed from, each with what it contradicts.
#[test]
fn facts_agree_with_each_other() {
    let gold = PrepareOptions {
        policy: PolicyOptions {
            miss_rate: 0.3,
            ..PolicyOptions::default()
        },
        conservative: Some(ConservativeOptions::default()),
        ..PrepareOptions::default()
    };
    let near = PrepareOptions {
        duplicates: Deduplication::Near {
            shingle: 5,
            bands: 16,
            rows: 4,
            similarity: 0.8,
        },
        ..PrepareOptions::default()
    };
    let cases: [(&PrepareOptions, Change, &str); 11] = [
        (
            &gold,
            |sheet| {
                let secrets = &mut sheet["facts"]["secrets"];
                for count in ["missed", "missed_by_both", "public"] {
                    secrets["all"][count] = 0.into();
                }
                secrets["most_records"] = 0.into();
            },
            "masked and missed add up to distinct",
        ),
        (
            &gold,
            |sheet| {
                let secrets = &mut sheet["facts"]["secrets"];
                secrets["all"]["masked"] = secrets["all"]["distinct"].clone();
                for count in ["missed", "missed_by_both", "public"] {
                    secrets["all"][count] = 0.into();
                }
                secrets["most_records"] = 0.into();
            },
            "which is not the sum over the kinds",
        ),
        (
            &gold,
            |sheet| sheet["facts"]["secrets"]["most_records"] = 0.into(),
            "facts.secrets.most_records: 0;",
        ),
        (
            &gold,
            |sheet| sheet["facts"]["private"] = 1_118_000.into(),
            "do not add up to",
        ),
        (
            &gold,
            |sheet| sheet["facts"]["not_examined"] = 1_118_000.into(),
            "facts.not_examined: 1118000, expected at most",
        ),
        (
            &unredacted(),
            |sheet| sheet["facts"]["uncaught"] = 0.into(),
            "facts.uncaught: 0; 6 copies of canaries stand in records.jsonl",
        ),
        (
            &near,
            |sheet| {
                let stages = sheet["facts"]["stages"].as_array_mut().unwrap();
                for stage in stages {
                    stage["all_copies"] = 1.into();
                }
                sheet["stability"]["all_copies"] = 1.into();
            },
            "facts.stages: not those of the options",
        ),
        (
            &near,
            |sheet| sheet["facts"]["secrets"]["most_records"] = 100_000.into(),
            "facts.secrets.most_records: 100000;",
        ),
        (
            &gold,
            |sheet| sheet["stability"]["all_copies"] = 3.into(),
            "stability is not the product",
        ),
        (
            &gold,
            |sheet| {
                drop(
                    sheet["options"]
                        .as_object_mut()
                        .unwrap()
                        .remove("conservative"),
                )
            },
            "missing field `conservative`",
        ),
        (
            &gold,
            |sheet| sheet["facts"]["held_out_documents"] = 1.into(),
            "held-out.jsonl",
        ),
    ];
    for (options, change, contradiction) in cases {
        refused(
            options,
            |folder| edit(folder, "prepared.json", |_, sheet| change(sheet)),
            contradiction,
        );
    }
}

/// A vocabulary that was built from the private text stays one.
#[test]
fn the_vocabulary_is_that_of_the_options() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tokenizer.json");
    let json = Tokenizer::characters().to_json().unwrap();
    std::fs::write(&path, json.replace("<UNK>", "<unk>")).unwrap();
    let options = PrepareOptions {
        tokenizer: TokenizerChoice::File {
            path,
            origin: Origin::Leaks,
        },
        ..PrepareOptions::default()
    };
    refused(
        &options,
        |folder| {
            edit(folder, "prepared.json", |_, sheet| {
                sheet["facts"]["vocabulary"] = "pretrained".into();
            });
        },
        "facts.vocabulary: Pretrained, which options.tokenizer does not give",
    );
}

/// The guarantee for planted secrets is that of a group of the records which hold one.
#[test]
fn copies_of_canaries_are_where_they_are_said_to_be() {
    let options = PrepareOptions {
        canaries: Some(CanaryOptions::new("2x3".parse().unwrap())),
        ..PrepareOptions::default()
    };
    let cases: [(Change, &str); 6] = [
        (
            |copies| {
                for copy in copies.as_array_mut().unwrap() {
                    if copy["copy"] != 0 {
                        copy["fate"] = "deduplicated".into();
                        let copy = copy.as_object_mut().unwrap();
                        copy.remove("record");
                        copy.remove("side");
                    }
                }
            },
            "prepared.json accounts for 0. The folder was edited",
        ),
        (
            |copies| {
                let first = copies[0].clone();
                copies[1]["record"] = first["record"].clone();
                copies[1]["side"] = first["side"].clone();
            },
            "prepared.json accounts for 0. The folder was edited",
        ),
        (
            |copies| {
                copies[1].as_object_mut().unwrap().remove("record");
            },
            "copy 1 of canary 0: prepared.json must give a record and its side",
        ),
        (
            |copies| copies[1]["parts"] = serde_json::json!([0]),
            "copy 1 of canary 0: prepared.json must give a record and its side",
        ),
        (
            |copies| {
                copies[1]["fate"] = "truncated".into();
                copies[1].as_object_mut().unwrap().remove("record");
                copies[1]["parts"] = serde_json::json!([1_000_000]);
            },
            "copy 1 of canary 0: no part of it can be in record 1000000",
        ),
        (
            |copies| drop(copies.as_array_mut().unwrap().remove(1)),
            "are not the copies of the plan, one by one",
        ),
    ];
    for (change, contradiction) in cases {
        refused(
            &options,
            |folder| {
                edit(folder, "prepared.json", |_, sheet| {
                    change(&mut sheet["facts"]["canaries"]["copies"]);
                });
            },
            contradiction,
        );
    }
}

/// Alters a folder at random, as often as `RETICENT_DAMAGE_COUNT` says (60), drawn from `RETICENT_DAMAGE_SEED` (23). The
/// owner's key refuses all of it; without the key the outcome is an error or a folder that is said to be unknown.
/// `scripts/damage` runs it too.
#[test]
fn no_alteration_of_a_folder_is_trusted() {
    let of = |name: &str, otherwise| {
        std::env::var(name).map_or(otherwise, |value| value.parse::<u64>().unwrap())
    };
    let count = of("RETICENT_DAMAGE_COUNT", 60);
    let mut draw = draws(of("RETICENT_DAMAGE_SEED", 23));
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("prepared");
    sample().write(&folder, false, Some(OWNER)).unwrap();
    let names = names(&folder);
    for number in 0..count {
        let name = &names[draw(names.len())];
        let path = folder.join(name);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let (at, kind) = (draw(bytes.len()), draw(5));
        match kind {
            0 => bytes[at] ^= 1 << draw(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, b"0159,{}"[draw(7)]),
            3 => bytes[at] = b"0123456789"[draw(10)],
            _ => {
                let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
                let without = draw(lines.len());
                bytes = [&lines[..without], &lines[without + 1..]].concat().concat();
            }
        }
        // White space around the code says nothing.
        if bytes.trim_ascii() == whole.trim_ascii() {
            continue;
        }
        std::fs::write(&path, bytes).unwrap();
        let said = format!("alteration {number}, kind {kind} of {name} at {at}");
        let error = Prepared::load(&folder, Some(OWNER))
            .expect_err(&said)
            .to_string();
        assert!(error.contains("prepared.code"), "{said}: {error}");
        if let Ok(read) = Prepared::load(&folder, None) {
            assert!(!read.authenticated, "{said}");
        }
        std::fs::write(&path, whole).unwrap();
    }
}
