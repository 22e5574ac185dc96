//! All documents of a user as one.

use super::Place;
use reticent_corpus::read::{Documents, ReadOptions};
use reticent_corpus::{Document, Result};

fn by_user(name: &str, bytes: &[u8]) -> Vec<Result<Document>> {
    let place = Place::new();
    let options = ReadOptions {
        user: Some("author".to_owned()),
        ..ReadOptions::default()
    };
    Documents::with(&place.file(name, bytes), &options)
        .unwrap()
        .collect()
}

#[test]
fn a_users_documents_are_one_wherever_they_stand() {
    let lines = r#"{"id":"1","author":"u","text":"naïve Ada","secrets":[{"start":6,"end":9,"kind":"name"}]}
{"id":"2","author":"v","text":"other"}
{"id":"3","author":"u","text":"call Bob now","secrets":[{"start":5,"end":8,"kind":"name"}],"masked":[{"start":9,"end":12}]}
{"id":"4","author":7,"text":"a number is a user too"}
{"id":"5","author":"v","text":"more"}
"#;
    let all: Vec<Document> = by_user("a.jsonl", lines.as_bytes())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let texts: Vec<(&str, &str)> = all.iter().map(|d| (&*d.id, &*d.text)).collect();
    assert_eq!(
        texts,
        [
            ("u", "naïve Ada\ncall Bob now"),
            ("v", "other\nmore"),
            ("7", "a number is a user too"),
        ]
    );
    let secrets: Vec<String> = all[0]
        .secrets
        .iter()
        .map(|secret| all[0].secret_text(secret).to_owned())
        .collect();
    assert_eq!(secrets, ["Ada", "Bob"]);
    assert_eq!((all[0].masked[0].start, all[0].masked[0].end), (19, 22));
    all.iter().for_each(|document| document.validate().unwrap());
}

#[test]
fn a_truth_value_is_no_user() {
    let all = by_user("a.jsonl", b"{\"author\":true,\"text\":\"x\"}\n");
    let error = all.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(
        error.contains("author must be text or a number, got a truth value"),
        "{error}"
    );
}

/// A table of numbers with a gap writes 1.0 for 1. One user as two would halve what a user's promise costs.
#[test]
fn a_whole_number_is_one_user_however_it_is_written() {
    let line = |user: &str| format!("{{\"author\":{user},\"text\":\"x\"}}\n");
    let lines = ["1", "1.0", "\"1\"", "1e0", "-0.0", "0"].map(line).concat();
    let all: Vec<Document> = by_user("a.jsonl", lines.as_bytes())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let users: Vec<&str> = all.iter().map(|d| &*d.id).collect();
    assert_eq!(users, ["1", "0"]);
    for number in ["1.5", "1e20", "1e300", "9007199254740992.0"] {
        let error = by_user("a.jsonl", line(number).as_bytes()).remove(0);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(
                "author says whose it is and must be a whole number or a text, got a fraction, or a number beyond 2^53"
            ),
            "{error}"
        );
        assert!(!error.contains(number), "{error}");
    }
}

/// One user as many would divide what a user's promise costs by their number.
#[test]
fn spellings_of_a_user_are_one_user() {
    let names = [
        "Ada@x.org",
        "ada@x.org",
        "ADA@X.ORG",
        "ada@x.org\u{200b}",
        " ada@x.org ",
        "bob@x.org",
        "Zoe\u{308}",
        "zo\u{eb}",
    ];
    let line = |name: &str| format!("{}\n", serde_json::json!({"author": name, "text": "x"}));
    let lines: String = names.map(line).concat();
    let all: Vec<Document> = by_user("a.jsonl", lines.as_bytes())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let users: Vec<(&str, usize)> = all.iter().map(|d| (&*d.id, d.text.len())).collect();
    assert_eq!(
        users,
        [("Ada@x.org", 9), ("bob@x.org", 1), ("Zoe\u{308}", 3)]
    );
    let nobody = by_user("a.jsonl", line("\u{200b}").as_bytes()).remove(0);
    assert!(nobody.unwrap_err().to_string().contains("`author`"));
}

#[test]
fn columns_say_whose_a_row_is() {
    let rows = b"author,text\nu,one\nv,two\n\" u\",three\n";
    let texts: Vec<String> = by_user("a.csv", rows)
        .into_iter()
        .map(|d| d.unwrap().text)
        .collect();
    assert_eq!(texts, ["one\nthree", "two"]);
    let tabs = b"author\ttext\nu\tone, \"two\"\n";
    let found = by_user("a.tsv", tabs).remove(0).unwrap();
    assert_eq!((&*found.id, &*found.text), ("u", "one, \"two\""));
}

#[test]
fn it_is_known_of_how_many_documents_a_user_is_made() {
    let options = ReadOptions {
        user: Some("author".to_owned()),
        ..ReadOptions::default()
    };
    let rows = b"author,text\nu,one\nv,two\nu,three\n".to_vec();
    let mut documents = Documents::from_bytes("a.csv".as_ref(), rows, &options);
    let mut joined = Vec::new();
    while let Some(document) = documents.next() {
        joined.push((document.unwrap().id, documents.joined()));
    }
    assert_eq!(joined, [("u".to_owned(), 2), ("v".to_owned(), 1)]);
}

/// A record of nobody would be a unit that no guarantee is about.
#[test]
fn a_record_of_nobody_is_refused_without_its_content() {
    for (nobody, place) in [
        (r#"{"id":"secret-2","text":"hidden"}"#, "line 2"),
        (
            r#"{"id":"secret-2","author":" ","text":"hidden"}"#,
            "line 2",
        ),
        (
            r#"{"id":"secret-2","author":["u","v"],"text":"hidden"}"#,
            "line 2",
        ),
        (
            r#"{"id":"secret-2","author":["u"],"text":"hidden"}"#,
            "got a list",
        ),
        (
            r#"{"id":"secret-2","author":["u",""],"text":"hidden"}"#,
            "got a list",
        ),
        (
            r#"{"id":"secret-2","author":null,"text":"hidden"}"#,
            "line 2",
        ),
    ] {
        let lines = format!("{{\"id\":\"1\",\"author\":\"u\",\"text\":\"one\"}}\n{nobody}\n");
        let refused: Vec<String> = by_user("a.jsonl", lines.as_bytes())
            .into_iter()
            .filter_map(|read| Some(read.err()?.to_string()))
            .collect();
        assert_eq!(refused.len(), 1);
        assert!(
            refused[0].contains(place) && refused[0].contains("`author`"),
            "{refused:?}"
        );
        assert!(!refused[0].contains("hidden") && !refused[0].contains("secret-2"));
    }
    let plain = by_user("a.txt", b"one\n\ntwo\n");
    assert!(plain.iter().any(Result::is_err));
}
