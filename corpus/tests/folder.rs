//! The prepared folder: complete or absent, and checked when it is read.

use reticent_corpus::Error;
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::policy::PolicyOptions;
use reticent_corpus::prepare::{PrepareOptions, Prepared, TokenizerChoice, prepare};
use reticent_corpus::read::read_documents;
use reticent_corpus::simulate::simulate;
use reticent_corpus::tokenize::{Origin, Tokenizer};
use std::path::Path;

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
    let cases: [(&str, &str, &str, &str); 14] = [
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
            "private records and mask-only points",
        ),
        (
            "prepared.json",
            "\"single_copy\": 2",
            "\"single_copy\": 3",
            "stability is not the product",
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
            "the vocabulary is Characters",
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
