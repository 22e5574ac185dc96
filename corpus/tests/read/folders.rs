//! Folders of files, and single files that are none of a corpus.

use super::{LINES, Place, gzip};
use reticent_corpus::Document;
use reticent_corpus::read::{Documents, ReadOptions, read_documents, read_readable};

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
        errors[0].contains("bad.txt, line 3: invalid UTF-8: byte 0xff at position 1 of the line")
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
        text.ends_with("b.jsonl, line 2: its id is already that of line 1 of file 1 of the folder; ids must be unique"),
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

/// Folders that a link leads to are not gone into, so that there is no way around; a link to a file that is
/// away, or to itself, is a file that cannot be read.
#[cfg(unix)]
#[test]
fn links_end_somewhere_or_are_named() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let at = |name: &str| place.0.path().join(name);
    std::fs::create_dir(at("deep")).unwrap();
    place.file("deep/a.txt", b"one");
    symlink("..", at("deep/up")).unwrap();
    symlink("deep", at("folder.txt")).unwrap();
    symlink("deep/a.txt", at("b.txt")).unwrap();
    let texts = |documents: Vec<Document>| -> Vec<String> {
        documents
            .into_iter()
            .map(|d| d.id + " " + &d.text)
            .collect()
    };
    let expected = ["b.txt/block-1 one", "deep/a.txt/block-1 one"];
    assert_eq!(texts(read_documents(place.0.path()).unwrap()), expected);
    for (link, to) in [("c.txt", "away.txt"), ("d.jsonl", "d.jsonl")] {
        symlink(to, at(link)).unwrap();
        let error = read_documents(place.0.path()).unwrap_err().to_string();
        assert!(error.contains(&at(link).display().to_string()), "{error}");
        let skip = ReadOptions {
            skip_unreadable: true,
            ..ReadOptions::default()
        };
        let (documents, errors) = read_readable(place.0.path(), &skip).unwrap();
        assert_eq!(
            (texts(documents), errors.len()),
            (expected.map(String::from).to_vec(), 1)
        );
        std::fs::remove_file(at(link)).unwrap();
    }
}
