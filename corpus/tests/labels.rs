//! Classes of documents, from a file to records and back from the folder.

use reticent_corpus::policy::{PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareFiles, PrepareOptions, Prepared, prepare};
use reticent_corpus::read::{ReadOptions, read_readable};
use reticent_corpus::screening::screening_records;
use reticent_corpus::{Document, Labels, Unit};
use std::time::Duration;

fn labels() -> Labels {
    Labels::new("mood", ["good", "bad"]).unwrap()
}

fn options(unit: Unit) -> PrepareOptions {
    PrepareOptions {
        unit,
        policy: PolicyOptions {
            policy: PolicyChoice::Customers,
            ..PolicyOptions::default()
        },
        held_out: 0.25,
        labels: Some(labels()),
        ..PrepareOptions::default()
    }
}

const LINES: &str = r#"{"id":"a","text":"USR: fine, call 415-555-0123\nUSR: thanks","mood":"good"}
{"id":"b","text":"USR: never again","mood":"bad","label":"of another key"}
{"id":"c","text":"USR: thanks","mood":"bad"}
{"id":"d","text":"USR: well","mood":"good"}
"#;

/// Each unit has the class of its document, redacted or not; one text in two classes is no copy.
#[test]
fn records_keep_the_class_of_their_document_in_memory_and_on_disk() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    std::fs::write(&data, LINES).unwrap();
    let reading = ReadOptions {
        labels: Some(labels()),
        ..ReadOptions::default()
    };
    let options = PrepareOptions {
        held_out: 0.0,
        ..options(Unit::Turn)
    };
    let (documents, _) = read_readable(&data, &reading).unwrap();
    let found: Vec<Option<u32>> = documents.iter().map(|d| d.label).collect();
    assert_eq!(found, [Some(0), Some(1), Some(1), Some(0)]);
    let made = prepare(&documents, &options).unwrap();
    let classes: Vec<Option<u32>> = made.training.records.iter().map(|r| r.label).collect();
    assert_eq!(classes, [Some(0), Some(0), Some(1), Some(1), Some(0)]);
    assert_eq!(made.facts.duplicates, 0);
    assert!(made.texts[0].contains("<MASK>"));
    let files = PrepareFiles {
        data: &data,
        reading: &reading,
        options: &options,
        threads: 2,
        pause: Duration::ZERO,
        owner: None,
    };
    let out = place.path().join("out");
    files.write(&out, false, &|_, _| true).unwrap().unwrap();
    let read = Prepared::load(&out, None).unwrap();
    assert_eq!(read.training, made.training);
    assert_eq!(read.options.labels, Some(labels()));
}

/// Lines of a prepared corpus are read back as its records: a mask is one token, a literal one is text, and a class is the
/// number that was written, also where another class is called by it.
#[test]
fn prepared_lines_are_read_back_as_their_records() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data.jsonl");
    let lines = r#"{"id":"a","text":"call 415-555-0123 or <MASK>","stars":"2"}
{"id":"b","text":"never again","stars":1}
{"id":"c","text":"well","stars":"3"}
"#;
    std::fs::write(&data, lines).unwrap();
    let labels = |field| Some(Labels::new(field, ["1", "2", "3"]).unwrap());
    let reading = ReadOptions {
        labels: labels("stars"),
        ..ReadOptions::default()
    };
    let options = PrepareOptions {
        held_out: 0.0,
        labels: labels("stars"),
        ..options(Unit::Document)
    };
    let (documents, _) = read_readable(&data, &reading).unwrap();
    let made = prepare(&documents, &options).unwrap();
    assert_eq!(made.texts[0], r"call <MASK> or <\MASK>");
    let out = place.path().join("out");
    made.write(&out, false, None).unwrap();
    let again = ReadOptions {
        labels: labels("label"),
        prepared: true,
        ..ReadOptions::default()
    };
    let (documents, _) = read_readable(&out.join("train.jsonl"), &again).unwrap();
    let read = screening_records(&documents, Unit::Document).unwrap();
    let read: Vec<_> = read
        .iter()
        .map(|record| {
            let tokens = made.tokenizer.frame_prepared(&record.prepared_text());
            (tokens.unwrap(), record.document.label)
        })
        .collect();
    let records = made.training.records.into_iter();
    let records: Vec<_> = records.map(|r| (r.tokens, r.label)).collect();
    assert_eq!(read, records);
    assert_eq!(read[0].1, Some(1));
    // Numbers denote nothing to whoever has another order of the classes.
    let by_name = ReadOptions {
        by_name: true,
        ..again
    };
    let (_, refused) = read_readable(&out.join("train.jsonl"), &by_name).unwrap();
    let refused = refused[0].to_string();
    assert!(refused.contains("name the prepared folder"), "{refused}");
    // Elsewhere such a line is text, as any other.
    let whole = ReadOptions::default();
    let (documents, _) = read_readable(&out.join("train.jsonl"), &whole).unwrap();
    assert!(documents[0].masked.is_empty());
}

fn classed(document: Document, class: u32) -> Document {
    Document {
        label: Some(class),
        ..document
    }
}

#[test]
fn held_out_records_have_classes_too() {
    let document = |number: u32| {
        let text = format!("USR: number {number} of them");
        classed(Document::new(format!("d{number}"), text), number % 2)
    };
    let documents: Vec<Document> = (0..8).map(document).collect();
    let made = prepare(&documents, &options(Unit::Document)).unwrap();
    assert_eq!(made.held_out.len(), 2);
    assert!(made.held_out.iter().all(|record| record.label.is_some()));
}

#[test]
fn documents_without_a_declared_class_are_refused() {
    let refused = |document: Document, options: &PrepareOptions| {
        prepare(&[document], options).unwrap_err().to_string()
    };
    let plain = Document::new("d", "USR: hello");
    let whole = PrepareOptions {
        held_out: 0.0,
        ..options(Unit::Turn)
    };
    assert!(refused(plain.clone(), &whole).contains("no class"));
    assert!(refused(classed(plain.clone(), 2), &whole).contains("classes are below 2"));
    let none = PrepareOptions {
        labels: None,
        ..whole
    };
    assert!(refused(classed(plain.clone(), 1), &none).contains("none are declared"));
    assert!(refused(plain, &options(Unit::User)).contains("a user"));
}
