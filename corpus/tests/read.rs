//! Reading corpora: what is accepted, and what each bad input says.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; the lint exempts test functions only"
)]

use proptest::prelude::*;
use reticent_corpus::{Document, Documents, ReadOptions, read_documents, read_readable};
use std::io::Write;
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
    let cases: [(&str, &[u8], &str); 22] = [
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
            ", line 1: cannot read: the gzip data ends too early, within the first 4 bytes of the file",
        ),
        (
            "x.txt",
            b"PK\x03\x04zzz",
            ", line 1: the file is compressed (zip); unpack it first",
        ),
        (
            "x.csv",
            b"id,txt\na,b\n",
            ", line 1: no column text; there are [\"id\", \"txt\"]",
        ),
        (
            "x.csv",
            b"text\nok\na\xffb\n",
            ", line 3: invalid UTF-8: byte 0xff at position 2 of field 1",
        ),
        (
            "x.json",
            b"[{\"dialogue_id\":\"d\",\"turns\":[{\"speaker\":\"USER\",\"utterance\":\"a\"}]},\n{\"dialogue_id\"",
            ", dialogue 2 (byte 81): the file ends inside it",
        ),
        (
            "x.json",
            b"[{\"dialogue_id\":\"d\"}]",
            ", dialogue 1 (byte 20): neither \"turns\" nor \"log\" in it",
        ),
        (
            "x.json",
            b"[7]",
            ", dialogue 1 (byte 2): a dialogue must be an object, not '7'",
        ),
        (
            "x.json",
            b"[{\"turns\":[]} {\"turns\":[]}]",
            ", dialogue 2 (byte 15): a comma must separate dialogues, not '{'",
        ),
        (
            "x.json",
            b"[{\"turns\":[]}] x",
            ", dialogue 2 (byte 16): 'x' behind the end",
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
    assert!(
        text.contains("folder: no file of documents in it"),
        "{text}"
    );
}

const LINES: &str = "{\"id\":\"a\",\"text\":\"one\"}\n{\"id\":\"b\",\"text\":\"two\"}\n";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn compressed_files_read_as_what_is_in_them() {
    let plain = read("x.jsonl", LINES.as_bytes()).unwrap();
    let (one, two) = LINES.split_at(26);
    for pack in [gzip, zstd] {
        let whole = pack(LINES.as_bytes());
        // Members and frames follow each other; one of somebody else's is skipped.
        let parts = [pack(one.as_bytes()), pack(two.as_bytes())].concat();
        for bytes in [&whole, &parts] {
            for name in ["x.jsonl.gz", "x.jsonl.zst", "x.jsonl"] {
                assert_eq!(read(name, bytes).unwrap(), plain, "{name}");
            }
        }
    }
    let skipped = [
        &b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..],
        &zstd(LINES.as_bytes()),
    ]
    .concat();
    assert_eq!(read("x.jsonl.zst", &skipped).unwrap(), plain);
}

/// At whatever byte the file ends: an error that says so, or all documents.
#[test]
fn truncated_files_are_errors() {
    for (pack, name) in [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (zstd, "zstd")] {
        let whole = pack(LINES.as_bytes());
        for length in 6..whole.len() {
            let error = read("x.jsonl", &whole[..length]).unwrap_err();
            assert!(
                error.contains(&format!("the {name} data ")),
                "{length}: {error}"
            );
            assert!(error.contains("of the file"), "{length}: {error}");
        }
    }
}

/// 200 MiB of zeros in 200 kB: stopped, with the sizes.
#[test]
fn a_decompression_bomb_is_an_error() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let line = [&[b' '; 4095][..], b"\n"].concat();
    for _ in 0..51_200 {
        encoder.write_all(&line).unwrap();
    }
    let error = read("x.jsonl", &encoder.finish().unwrap()).unwrap_err();
    assert!(
        error.contains("at most 250 times as many and 67108864 are read"),
        "{error}"
    );
    assert!(error.starts_with(", line "), "{error}");
}

#[test]
fn tables_have_a_text_and_perhaps_an_id() {
    let bytes = b"\xef\xbb\xbfid,text,other\na,\"one\r\ntwo\",x\nb,\"say \"\"hi\"\"\",y\n";
    let documents = read("x.csv", bytes).unwrap();
    let found: Vec<(&str, &str)> = documents
        .iter()
        .map(|d| (d.id.as_str(), d.text.as_str()))
        .collect();
    assert_eq!(found, [("a", "one\ntwo"), ("b", "say \"hi\"")]);
    assert_eq!(read("x.csv", b"text\na\n").unwrap()[0].id, "line-2");
}

/// MultiWOZ to 2.1 by `goal` and `log`, MultiWOZ 2.2 and SGD by `turns`.
#[test]
fn dialogues_become_lines_with_their_speakers() {
    let old = r#"{"A.json": {"goal": {"taxi": {}}, "log": [{"text": "I need a \"taxi\" } .", "metadata": {}}, {"text": "Where\nto ?", "metadata": {"x": [1]}}]},
        "B.json": {"goal": {}, "log": []}}"#;
    let new = r#"[{"dialogue_id": "A.json", "services": [], "turns": [
        {"speaker": "USER", "turn_id": "0", "utterance": "I need a \"taxi\" } .", "frames": []},
        {"speaker": "SYSTEM", "turn_id": "1", "utterance": "Where\nto ?"}]},
        {"dialogue_id": "B.json", "turns": []}]"#;
    let lines = |text: &str| -> Vec<(String, String)> {
        read("x.json", text.as_bytes())
            .unwrap()
            .into_iter()
            .map(|d| (d.id, d.text))
            .collect()
    };
    let expected = [
        (
            "A.json".to_owned(),
            "USR: I need a \"taxi\" } .\nSYS: Where to ?".to_owned(),
        ),
        ("B.json".to_owned(), String::new()),
    ];
    assert_eq!(lines(old), expected);
    assert_eq!(lines(new), expected);
    // Without line breaks, and compressed.
    let flat: String = old.replace('\n', " ");
    assert_eq!(lines(&flat), expected);
    assert_eq!(read("x.json.gz", &gzip(new.as_bytes())).unwrap().len(), 2);
    // JSON Lines may be called .json too.
    assert_eq!(read("x.json", LINES.as_bytes()).unwrap().len(), 2);
}

#[test]
fn documents_come_one_by_one_until_an_error() {
    let place = Place::new();
    let path = place.file(
        "x.jsonl",
        b"{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\n{\"text\":\"c\"}\n",
    );
    let read: Vec<bool> = Documents::open(&path).unwrap().map(|d| d.is_ok()).collect();
    assert_eq!(read, [true, true, false]);
}

/// Two sound files, two bad ones, and what is no corpus; a file of each folder below.
fn folder() -> Place {
    let place = Place::new();
    place.file(
        "b.jsonl",
        b"{\"text\":\"one\"}\n{\"id\":\"x\",\"text\":\"two\"}\n",
    );
    place.file("a.txt", b"three\n\nfour");
    place.file("bad.txt", b"ok\n\n\xff");
    place.file("cut.jsonl.gz", &gzip(LINES.as_bytes())[..30]);
    place.file(".hidden.txt", b"no");
    place.file("model.bin", b"\xff\xff");
    std::fs::create_dir(place.0.path().join("part")).unwrap();
    place.file("part/a.txt", b"five");
    place
}

/// The files of a folder come by name; a bad one harms no other, and every bad one is named.
#[test]
fn a_bad_file_of_a_folder_harms_no_other() {
    let place = folder();
    let (documents, errors) = read_readable(place.0.path(), &ReadOptions::default()).unwrap();
    let found: Vec<(&str, &str)> = documents
        .iter()
        .map(|d| (d.id.as_str(), d.text.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("a.txt/block-1", "three"),
            ("a.txt/block-3", "four"),
            ("b.jsonl/line-1", "one"),
            ("x", "two"),
            ("bad.txt/block-1", "ok"),
            ("part/a.txt/block-1", "five"),
        ]
    );
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2);
    assert!(
        errors[0].ends_with("bad.txt, line 3: invalid UTF-8: byte 0xff at position 1 of the line")
    );
    assert!(errors[1].contains("cut.jsonl.gz, line 1: cannot read: the gzip data ends too early"));
    // Left out without an error where that is asked for.
    let skip = ReadOptions {
        skip_unreadable: true,
        ..ReadOptions::default()
    };
    let mut stream = Documents::with(place.0.path(), &skip).unwrap();
    let sound: Vec<Document> = (&mut stream).map(Result::unwrap).collect();
    assert_eq!(sound, documents);
    let skipped: Vec<String> = stream.skipped().iter().map(ToString::to_string).collect();
    assert_eq!(skipped, errors);
    let all = read_documents(place.0.path()).unwrap_err().to_string();
    assert!(all.starts_with("2 files cannot be read:\n  "), "{all}");
    assert!(
        all.contains(&errors[0]) && all.contains(&errors[1]),
        "{all}"
    );
}

#[test]
fn an_id_may_not_come_back_in_another_file() {
    let place = Place::new();
    place.file("a.jsonl", b"{\"id\":\"x\",\"text\":\"one\"}\n");
    place.file("b.jsonl", b"\n{\"id\":\"x\",\"text\":\"two\"}\n");
    let text = read_documents(place.0.path()).unwrap_err().to_string();
    assert!(
        text.ends_with("b.jsonl, line 2: id \"x\" is already that of line 1 of file 1 of the folder; ids must be unique"),
        "{text}"
    );
}

#[test]
fn the_longest_line_is_a_choice() {
    let place = Place::new();
    for (name, text) in [
        ("x.txt", "short\n\nlonger than\ntwenty bytes\n"),
        ("x.jsonl", "{\"text\":\"a line of thirty bytes\"}\n"),
        ("x.json", "[{\"turns\":[{\"utterance\":\"a\"}]}]"),
    ] {
        let path = place.file(name, text.as_bytes());
        let within = |longest| {
            let options = ReadOptions {
                longest,
                ..ReadOptions::default()
            };
            read_readable(&path, &options).unwrap().1
        };
        assert!(within(64).is_empty(), "{name}");
        let error = within(20)[0].to_string();
        assert!(
            error.contains("longer than 20 bytes, the most that is read"),
            "{error}"
        );
    }
}

/// A field of metadata: one value, several, or none; and the same from bytes in memory.
#[test]
fn a_field_comes_beside_its_document() {
    let options = ReadOptions {
        field: Some("author".to_owned()),
        ..ReadOptions::default()
    };
    let cases: [(&str, &str, &[&[&str]]); 3] = [
        (
            "x.jsonl",
            "{\"text\":\"a\",\"author\":\"Ada\"}\n{\"text\":\"b\",\"author\":[\"Bob\",7,null]}\n{\"text\":\"c\"}\n",
            &[&["Ada"], &["Bob", "7"], &[]],
        ),
        ("x.csv", "author,text\nAda,a\n,b\n", &[&["Ada"], &[]]),
        ("x.json", "[{\"author\":3,\"turns\":[]}]", &[&["3"]]),
    ];
    for (name, text, expected) in cases {
        let mut documents =
            Documents::from_bytes(name.as_ref(), text.as_bytes().to_vec(), &options);
        let mut found = Vec::new();
        while let Some(document) = documents.next() {
            document.unwrap();
            found.push(documents.values().to_vec());
        }
        assert_eq!(found, expected, "{name}");
        assert_eq!(documents.bytes_read(), documents.size(), "{name}");
    }
    let mut wrong = Documents::from_bytes(
        "x.jsonl".as_ref(),
        b"{\"text\":\"a\",\"author\":{}}".to_vec(),
        &options,
    );
    let error = wrong.next().unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        "x.jsonl, line 1: author must be text, a number, or a list of them, got an object"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the bytes: documents or an error, never a panic.
    #[test]
    fn any_bytes_end_in_documents_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in ["x.jsonl", "x.txt", "x.csv", "x.json", "x.jsonl.gz"] {
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

/// Abstracts as arXiv's public metadata have them, other keys and all.
#[test]
fn an_abstract_is_read_where_there_is_no_text() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("arxiv.jsonl");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(
        "{\"id\":\"0704.0001\",\"title\":\"On x\",\"abstract\":\"  We show x.\\n\",\"versions\":[{\"version\":\"v1\"}]}\n\
         {\"id\":\"b\",\"abstract\":[1],\"text\":\"the text\"}\n",
    );
    let read = reticent_corpus::read_documents(&path).unwrap();
    let texts: Vec<&str> = read.iter().map(|d| d.text.as_str()).collect();
    assert_eq!(texts, ["  We show x.\n", "the text"]);
    assert_eq!(read[0].id, "0704.0001");
    write("{\"id\":\"a\",\"abstract\":[1]}\n");
    let refused = reticent_corpus::read_documents(&path).unwrap_err();
    assert!(
        refused.to_string().contains("line 1: the key abstract"),
        "{refused}"
    );
}
