//! Bad inputs, and what each is answered.

use super::read;
use reticent_corpus::read::{Documents, ReadOptions};

#[test]
fn every_bad_input_names_the_place_and_the_value() {
    let cases: [(&str, &[u8], &str); 36] = [
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
            "x.log",
            b"\n{\"text\":\"joe\\u0040example.com\"}\n",
            ", line 2: JSON in its lines and a name of plain text; name it FILE.jsonl, or give it by stdin (-)",
        ),
        (
            "x.csv",
            b"id,text,text\n1,a,b\n",
            ", line 1: the column text is there twice",
        ),
        (
            "x.json",
            b"[{\"text\":\"a\"}]",
            ", dialogue 1 (byte 13): a list is one of dialogues; records with a text stand one to a line (jq -c '.[]' writes them so)",
        ),
        (
            "x.jsonl",
            b"{\"text\":\"a\"}\n{\"text\":",
            ", line 2: invalid JSON: EOF while parsing a value at column 8",
        ),
        (
            "x.jsonl",
            b"{\"id\":\"a\"}",
            ", line 1: missing field `text`: it has none of text, messages, conversations, prompt and completion, or instruction and output (--text-field names another key)",
        ),
        (
            "x.jsonl",
            b"[1]",
            ", line 1: a list; each line must be an object {\"id\",\"text\"}",
        ),
        (
            "x.jsonl",
            b"{\"text\":{\"a\":1}}",
            ", line 1: the key text must hold text, got an object (--text-field names another key)",
        ),
        (
            "x.txt",
            b"ok\nab\xffc",
            ", line 2: invalid UTF-8: byte 0xff at position 3 of the line; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8 FILE > NEW",
        ),
        (
            "x.jsonl",
            b"{\"text\":\"\xc3\"}",
            ", line 1: invalid UTF-8: byte 0xc3 at position 10 of the line; convert it to UTF-8 from its encoding, for example iconv -f LATIN1 -t UTF-8 FILE > NEW",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","secrets":[{"start":1,"end":4,"kind":"k"}]}"#,
            ", line 1: secret span 0 is 1..4; the text has 3 characters, so its end must be at most 3",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","secrets":[{"start":2,"end":2,"kind":"k"}]}"#,
            ", line 1: secret span 0 is 2..2; its start must be below its end",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","masked":[{"start":0,"end":2},{"start":1,"end":3}]}"#,
            ", line 1: masked span 1 is 1..3; it must not begin before 2, where the one before it ends",
        ),
        (
            "x.jsonl",
            br#"{"id":"d","text":"abc","secrets":[{"start":-1,"end":2,"kind":"k"}]}"#,
            ", line 1: secrets: expected usize at column 45",
        ),
        (
            "x.jsonl",
            br#"{"id":"a\"{","text":"abc","masked":true,"secrets":[]}"#,
            ", line 1: masked: expected a sequence at column 39",
        ),
        (
            "x.jsonl",
            br#"{"text":"secrets\":[","secrets":[{"start":1,"end":2}],"masked":[]}"#,
            ", line 1: secrets: missing field `kind` at column 52",
        ),
        (
            "x.jsonl",
            b"{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}",
            ", line 2: its id is already that of line 1; ids must be unique",
        ),
        (
            "x.jsonl",
            b"{\"id\":1.0,\"text\":\"x\"}",
            ", line 1: expected an id that is text, or a whole number from -9223372036854775808 to 9223372036854775807 without a point or an exponent at column 9",
        ),
        (
            "x.jsonl",
            b"{\"id\":\"a\",\"id\":\"b\",\"text\":\"x\"}",
            ", line 1: duplicate field `id` at column 14",
        ),
        (
            "x.jsonl",
            br#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#,
            ", line 1: a key stands twice in one object, and one of the two would be lost at column 51",
        ),
        (
            "x.json",
            br#"[{"messages":[{"role":"user","content":"a"}],"messages":[]}]"#,
            ", dialogue 1 (byte 59): no dialogue: a key stands twice in one object, and one of the two would be lost at line 1 column 54 of it",
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
            "x.txt",
            b"PAR1\x15\x04\x15",
            ", line 1: the file is Parquet; give it by a name that ends in .parquet, as a stream has no end to look at first",
        ),
        (
            "x.csv",
            b"id,txt\na,b\n",
            ", line 1: no column text among its 2; is it a header? (--text-field names the column of the text)",
        ),
        (
            "x.csv",
            b"id;text\na;b\n",
            ", line 1: no column text among its 1; columns must be separated by commas (in .tsv by tabs), not by semicolons; convert it, for example with csvformat -d ';' FILE > NEW.csv (--text-field names the column of the text)",
        ),
        (
            "x.csv",
            b"id,text\r\n1,\"a\r\nb\"\r\n2,\xfc\r\n",
            ", line 4: invalid UTF-8: byte 0xfc at position 1 of field 2; convert it to UTF-8 from its encoding, for example iconv -f LATIN1 -t UTF-8 FILE > NEW",
        ),
        (
            "x.csv",
            b"id,text,secrets\na,b,[]\n",
            ", line 1: the column secrets is there, and marks are read of JSON Lines alone; convert the file, or rename the column",
        ),
        (
            "x.csv",
            b"text\nok\na\xffb\n",
            ", line 3: invalid UTF-8: byte 0xff at position 2 of field 1; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8 FILE > NEW",
        ),
        (
            "x.json",
            b"[{\"dialogue_id\":\"d\",\"turns\":[{\"speaker\":\"USER\",\"utterance\":\"a\"}]},\n{\"dialogue_id\"",
            ", dialogue 2 (byte 81): the file ends inside it",
        ),
        (
            "x.json",
            b"[{\"dialogue_id\":\"d\"}]",
            ", dialogue 1 (byte 20): none of turns, log, text, messages, conversations, prompt and completion, or instruction and output in it",
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

/// Marks of a record whose text is no single one would be of another text with another template.
#[test]
fn marks_without_their_text_are_refused() {
    let mark = r#""secrets":[{"start":0,"end":2,"kind":"pin"}]"#;
    for (name, text) in [
        (
            "a.jsonl",
            format!(r#"{{"messages":[{{"role":"user","content":"ab"}}],{mark}}}"#),
        ),
        (
            "a.jsonl",
            format!(r#"{{"prompt":"ab","completion":"c",{mark}}}"#),
        ),
        (
            "a.json",
            format!(r#"[{{"messages":[{{"role":"user","content":"ab"}}],{mark}}}]"#),
        ),
        (
            "a.jsonl",
            r#"{"prompt":"ab","completion":"c","masked":[{"start":0,"end":2}]}"#.to_owned(),
        ),
        (
            "a.jsonl",
            format!(r#"{{"text":"","messages":[{{"role":"user","content":"ab"}}],{mark}}}"#),
        ),
        (
            "a.json",
            format!(r#"[{{"turns":[{{"speaker":"USER","utterance":"ab"}}],{mark}}}]"#),
        ),
        (
            "a.json",
            r#"{"a":{"log":[{"text":"ab"}],"masked":[{"start":0,"end":2}]}}"#.to_owned(),
        ),
    ] {
        let error = read(name, text.as_bytes()).unwrap_err();
        assert!(
            error.contains("counts the characters of `text`"),
            "{text}: {error}"
        );
    }
    for (name, empty) in [
        (
            "a.jsonl",
            r#"{"prompt":"ab","completion":"c","secrets":[]}"#,
        ),
        (
            "a.json",
            r#"[{"turns":[{"utterance":"ab"}],"secrets":[],"masked":null}]"#,
        ),
    ] {
        assert!(read(name, empty.as_bytes()).is_ok(), "{empty}");
    }
}

/// Where the text is read as it stands, what is under a mask would be; the place is reported, and nothing of the text.
#[test]
fn masked_spans_are_refused_where_they_must_not_be() {
    let place = super::Place::new();
    let lines = "{\"text\":\"x\"}\n{\"id\":\"ada\",\"text\":\"a zork\",\"masked\":[{\"start\":2,\"end\":6}]}\n";
    let path = place.file("a.jsonl", lines.as_bytes());
    let options = ReadOptions {
        unmasked: true,
        ..ReadOptions::default()
    };
    let documents = Documents::with(&path, &options).unwrap();
    let said: Vec<String> = documents
        .filter_map(|d| Some(d.err()?.to_string()))
        .collect();
    let expected = format!(
        "{}, line 2: spans masked beforehand, and the text under them would be read; give the text as it came in, or as audit redact or audit prepare writes it",
        path.display()
    );
    assert_eq!(said, [expected]);
}
