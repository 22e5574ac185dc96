//! Reading corpora: what is accepted, and what each bad input says.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; the lint exempts test functions only"
)]

use proptest::prelude::*;
use reticent_corpus::{Document, read_documents};
use std::path::PathBuf;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn read(name: &str, bytes: &[u8]) -> Result<Vec<Document>, String> {
    let place = Place::new();
    let path = place.file(name, bytes);
    read_documents(&path).map_err(|error| {
        let text = error.to_string();
        let shown = path.display().to_string();
        assert!(text.starts_with(&shown), "{text} does not name {shown}");
        text[shown.len()..].to_owned()
    })
}

#[test]
fn json_lines_with_ids_of_three_kinds_and_characters_as_offsets() {
    let text = r#"{"id":"a","text":"naïve Bob","secrets":[{"start":6,"end":9,"kind":"name"}],"other":1}

{"id":7,"text":"x"}
{"text":"y\nz"}
"#;
    let documents = read("x.jsonl", text.as_bytes()).unwrap();
    let ids: Vec<&str> = documents.iter().map(|d| d.id.as_str()).collect();
    assert_eq!(ids, ["a", "7", "line-4"]);
    assert_eq!(documents[0].secret_text(&documents[0].secrets[0]), "Bob");
    assert_eq!(documents[2].text, "y\nz");
}

#[test]
fn plain_text_is_cut_at_blank_lines() {
    let documents = read("x.txt", b"a\nb\n\n \nc\r\n").unwrap();
    let found: Vec<(&str, &str)> = documents
        .iter()
        .map(|d| (d.id.as_str(), d.text.as_str()))
        .collect();
    assert_eq!(found, [("block-1", "a\nb"), ("block-5", "c")]);
}

#[test]
fn every_bad_input_names_the_place_and_the_value() {
    let cases: [(&str, &[u8], &str); 15] = [
        (
            "e.jsonl",
            b"",
            ": empty corpus: no document with text in it",
        ),
        (
            "e.txt",
            b"\n \n",
            ": empty corpus: no document with text in it",
        ),
        (
            "e.jsonl",
            b"{\"text\":\" \"}",
            ": empty corpus: no document with text in it",
        ),
        (
            "x.jsonl",
            b"{\"text\":\"a\"}\n{\"text\":",
            ", line 2: invalid JSON: EOF while parsing a value at column 8",
        ),
        (
            "x.jsonl",
            b"{\"id\":\"a\"}",
            ", line 1: invalid JSON: missing field `text` at column 10",
        ),
        (
            "x.jsonl",
            b"[1]",
            ", line 1: a list; each line must be an object {\"id\",\"text\"}",
        ),
        (
            "x.txt",
            b"ok\nab\xffc",
            ", line 2: invalid UTF-8: byte 0xff at position 3 of the line",
        ),
        (
            "x.jsonl",
            b"{\"text\":\"\xc3\"}",
            ", line 1: invalid UTF-8: byte 0xc3 at position 10 of the line",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","secrets":[{"start":1,"end":4,"kind":"k"}]}"#,
            ", line 1: document \"d\": secret span 0 is 1..4; the text has 3 characters, so its end must be at most 3",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","secrets":[{"start":2,"end":2,"kind":"k"}]}"#,
            ", line 1: document \"d\": secret span 0 is 2..2; its start must be below its end",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","masked":[{"start":0,"end":2},{"start":1,"end":3}]}"#,
            ", line 1: document \"d\": masked span 1 is 1..3; it must not begin before 2, where the one before it ends",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","secrets":[{"start":-1,"end":2,"kind":"k"}]}"#,
            ", line 1: invalid JSON: invalid value: integer `-1`, expected usize at column 45",
        ),
        (
            "x.jsonl",
            b"{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}",
            ", line 2: id \"a\" is already that of line 1; ids must be unique",
        ),
        (
            "x.jsonl",
            b"\x1f\x8b\x08\x00",
            ", line 1: the file is compressed (gzip); decompress it first",
        ),
        (
            "x.txt",
            b"PK\x03\x04zzz",
            ", line 1: the file is compressed (zip); decompress it first",
        ),
    ];
    for (name, bytes, message) in cases {
        assert_eq!(read(name, bytes).unwrap_err(), message);
    }
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    let place = Place::new();
    let missing = place.0.path().join("none.jsonl");
    let text = read_documents(&missing).unwrap_err().to_string();
    assert!(
        text.contains("none.jsonl: cannot read: No such file"),
        "{text}"
    );
    let text = read_documents(place.0.path()).unwrap_err().to_string();
    assert!(text.contains("cannot read: Is a directory"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the bytes: documents or an error, never a panic.
    #[test]
    fn any_bytes_end_in_documents_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in ["x.jsonl", "x.txt"] {
            if let Ok(documents) = read(name, &bytes) {
                for document in documents {
                    prop_assert!(document.validate().is_ok());
                }
            }
        }
    }

    /// The same for lines that are nearly right.
    #[test]
    fn any_spans_end_in_documents_or_an_error(
        text in "\\PC{0,20}",
        spans in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..4),
    ) {
        let mut document = Document::new("d", text);
        for (start, end) in spans {
            document = document.with_secret(start.into(), end.into(), "k");
        }
        let line = serde_json::to_string(&document).unwrap();
        match read("x.jsonl", line.as_bytes()) {
            Ok(read) => prop_assert_eq!(&read[0], &document),
            Err(_) => prop_assert!(
                document.validate().is_err() || document.text.trim().is_empty()
            ),
        }
    }
}
