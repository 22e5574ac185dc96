//! What is accepted: formats, ids, fields.

use super::{LINES, Place, gzip, read};
use proptest::prelude::*;
use reticent_corpus::Document;
use reticent_corpus::read::{Documents, ReadOptions};

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

/// What pandas writes for a cell without a value; a blank text hides no others either.
#[test]
fn null_is_as_if_the_key_were_missing() {
    let text = r#"{"id":null,"text":"x","abstract":null,"secrets":null,"masked":null}
{"text":null,"messages":[{"role":"user","content":"y"}],"secrets":null,"masked":null}
{"text":null,"abstract":"z","prompt":null}
{"text":" ","prompt":"p","completion":"q"}
"#;
    let documents = read("x.jsonl", text.as_bytes()).unwrap();
    let found: Vec<(&str, &str)> = documents.iter().map(|d| (&*d.id, &*d.text)).collect();
    assert_eq!(
        found,
        [
            ("line-1", "x"),
            ("line-2", "USR: y"),
            ("line-3", "z"),
            ("line-4", "p\nq")
        ]
    );
    assert!(
        documents
            .iter()
            .all(|d| d.secrets.is_empty() && d.masked.is_empty())
    );
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
    // Names are text or whole numbers.
    let named = r#"[{"id":7,"turns":[{"utterance":"a"}]},{"dialogue_id":null,"turns":[]}]"#;
    let names: Vec<String> = lines(named).into_iter().map(|(id, _)| id).collect();
    assert_eq!(names, ["7", "dialogue-2"]);
}

/// Whether its line goes on behind what is looked at first, and whatever its keys are called.
#[test]
fn an_object_on_one_line_is_distinguished_from_an_object_of_dialogues() {
    let long = "x".repeat(70_000);
    let record = |first: &str| format!("{{{first},\"text\":\"{long}\"}}\n{{\"text\":\"b\"}}\n");
    let chat = r#"{"messages":[{"role":"user","content":"a"}],"meta":{"log":"x"}}"#.to_owned();
    let log = |before: &str, text: &str| {
        format!("{{\"A\":{{{before}\"log\":[{{\"text\":\"{text}\"}}]}},\"B\":{{\"log\":[]}}}}")
    };
    for (text, expected) in [
        (record("\"url\":\"x\""), vec![long.clone(), "b".to_owned()]),
        (
            record("\"warc\":{\"id\":1.5,\"log\":\"x\",\"turns\":2}"),
            vec![long.clone(), "b".to_owned()],
        ),
        (chat.clone(), vec!["USR: a".to_owned()]),
        (format!("{chat}\n{chat}"), vec!["USR: a".to_owned(); 2]),
        (
            log("\"goal\": {\"a\": [1, {}]} , ", &long),
            vec![format!("USR: {long}"), String::new()],
        ),
        (log("", "a"), vec!["USR: a".to_owned(), String::new()]),
    ] {
        for name in ["a.json", "-"] {
            let read = with(name, text.as_bytes(), &options(None, None)).0;
            assert_eq!(read, expected, "{name}");
        }
    }
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
    let read = reticent_corpus::read::read_documents(&path).unwrap();
    let texts: Vec<&str> = read.iter().map(|d| d.text.as_str()).collect();
    assert_eq!(texts, ["  We show x.\n", "the text"]);
    assert_eq!(read[0].id, "0704.0001");
    write("{\"id\":\"a\",\"abstract\":[1]}\n");
    let refused = reticent_corpus::read::read_documents(&path).unwrap_err();
    assert!(
        refused.to_string().contains("line 1: the key abstract"),
        "{refused}"
    );
}

fn with(name: &str, bytes: &[u8], options: &ReadOptions) -> (Vec<String>, Option<&'static str>) {
    let mut documents = Documents::from_bytes(name.as_ref(), bytes.to_vec(), options);
    let texts = documents.by_ref().map(|read| match read {
        Ok(document) => document.text,
        Err(error) => error.to_string(),
    });
    (texts.collect(), documents.stdin_format())
}

fn options(text: Option<&str>, separator: Option<&str>) -> ReadOptions {
    ReadOptions {
        text: text.map(str::to_owned),
        separator: separator.map(str::to_owned),
        ..ReadOptions::default()
    }
}

/// By its beginning, whatever mark is in front of that, and by whether a column is named.
#[test]
fn stdin_is_told_apart() {
    let plain = options(None, None);
    for mark in ["", "\u{feff}"] {
        let read = |text: &str, options: &ReadOptions| {
            with("-", format!("{mark}{text}").as_bytes(), options)
        };
        let line = "{\"text\":\"a\"}\n";
        assert_eq!(
            read(line, &plain),
            (vec!["a".to_owned()], Some("JSON Lines"))
        );
        let list = "[{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}]";
        assert_eq!(
            read(list, &plain),
            (vec!["USR: a".to_owned()], Some("JSON"))
        );
        let table = "id,body\n1,a\n";
        let named = options(Some("body"), None);
        assert_eq!(read(table, &named), (vec!["a".to_owned()], Some("CSV")));
        let all = (vec![table.trim_end().to_owned()], Some("plain text"));
        assert_eq!(read(table, &plain), all);
        for log in ["[INFO] a", "{name} a", "[7 a"] {
            let all = (vec![log.to_owned()], Some("plain text"));
            assert_eq!(read(log, &plain), all);
        }
    }
    assert_eq!(with("a.txt", b"a", &plain).1, None);
}

/// An option that no file heeds is refused with both names; in a folder one that does is enough.
#[test]
fn options_that_do_nothing_are_refused() {
    let separator = options(None, Some("--"));
    let field = options(Some("body"), None);
    let id = options(Some("id"), None);
    let broken = options(None, Some("\n---\n"));
    let csv = "id,body\n1,a\n";
    for (name, text, options, said) in [
        (
            "a.jsonl",
            "{\"text\":\"a\"}",
            &separator,
            "JSON Lines, in which --separator",
        ),
        (
            "-",
            "{\"text\":\"a\"}",
            &separator,
            "JSON Lines, in which --separator",
        ),
        ("a.csv", csv, &separator, "CSV, in which --separator"),
        (
            "a.txt",
            "a",
            &field,
            "plain text, which has no key or column for --text-field body",
        ),
        ("a.csv.gz", csv, &separator, "a.csv.gz, format: read as CSV"),
        // It would separate nothing.
        (
            "a.txt",
            "a\n---\nb",
            &broken,
            "a.txt, format: --separator: it is looked for within lines",
        ),
        // Nothing in an id is masked.
        ("a.csv", csv, &id, "a.csv, format: --text-field id"),
        (
            "-",
            "{\"id\":\"a\"}",
            &id,
            "-, format: --text-field id: ids are written as they are",
        ),
    ] {
        let found = with(name, text.as_bytes(), options).0;
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
    let place = Place::new();
    let lines = place.file("a.jsonl", b"{\"body\":\"a\"}\n");
    assert!(Documents::with(lines.parent().unwrap(), &separator).is_err());
    place.file("b.txt", b"b -- c");
    let both = options(Some("body"), Some("--"));
    let read = Documents::with(lines.parent().unwrap(), &both).unwrap();
    let texts: Vec<String> = read.map(|document| document.unwrap().text).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
}

#[test]
fn only_the_text_is_looked_for_by_the_option_that_names_it() {
    let field = options(Some("body"), None);
    let object = b"{\"body\":\"a\",\"text\":{\"x\":1}}";
    assert_eq!(with("a.jsonl", object, &field).0, ["a"]);
    let list = b"[{\"body\":\"a\",\"messages\":[{\"content\":\"b\"}]},{\"body\":\"c\",\"turns\":[]},{\"turns\":[]}]";
    for name in ["a.json", "-"] {
        let read = with(name, list, &field).0;
        assert_eq!(read[..2], ["a", "c"], "{name}");
        assert!(read[2].ends_with("no key body"), "{read:?}");
        let marked = b"[{\"body\":\"a\",\"masked\":[{\"start\":0,\"end\":1}]}]";
        let read = with(name, marked, &field).0;
        assert!(read[0].contains("masked counts the characters"), "{read:?}");
    }
    let user = ReadOptions {
        user: Some("nope".to_owned()),
        ..ReadOptions::default()
    };
    let found = with("a.csv", b"id,text\n1,a\n", &user).0;
    let said = "a.csv, line 1: no column nope among its 2; is it a header?";
    assert_eq!(found, [said]);
}
