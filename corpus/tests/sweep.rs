//! Streaming passes: the same result whatever the number of threads and wherever they stop.

use proptest::prelude::*;
use reticent_corpus::policy::{DetectorOptions, PatternRule, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{Phase, PrepareOptions, RestartCause, TokenizerChoice, prepare};
use reticent_corpus::read::{Documents, ReadOptions};
use reticent_corpus::redaction::{
    FoundSecrets, Incidence, RedactFiles, RedactTo, Redaction, RedactionOptions, RedactionState,
    SecretList, Sense, mark_found,
};
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Unit};
use serde::Deserialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

fn lines(documents: &[Document]) -> Vec<u8> {
    let lines: Vec<String> = documents
        .iter()
        .map(|d| serde_json::to_string(d).unwrap() + "\n")
        .collect();
    lines.concat().into_bytes()
}

fn options(unit: Unit, policy: PolicyChoice) -> RedactionOptions {
    RedactionOptions {
        unit,
        policy,
        deduplicate: true,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Line {
    id: String,
    text: String,
}

/// How one is redacted here: a checkpoint after every batch.
struct Redact<'a> {
    data: &'a Path,
    options: &'a RedactionOptions,
    threads: usize,
}

impl Redact<'_> {
    /// Into a file, until `go_on` says no.
    fn to(
        &self,
        out: &Path,
        go_on: &dyn Fn(Phase) -> bool,
    ) -> reticent_corpus::Result<Option<Redaction>> {
        let path = RedactTo::Path {
            path: out,
            force: false,
        };
        self.write(path, go_on)
    }

    fn write(
        &self,
        to: RedactTo<'_>,
        go_on: &dyn Fn(Phase) -> bool,
    ) -> reticent_corpus::Result<Option<Redaction>> {
        let files = RedactFiles {
            data: self.data,
            reading: &ReadOptions::default(),
            options: self.options,
            threads: self.threads,
            pause: Duration::ZERO,
        };
        files.write(to, &|phase, _| go_on(phase))
    }

    /// The whole of it, as a stream.
    fn whole(&self) -> (Vec<u8>, RedactionState) {
        let mut out = Vec::new();
        let made = self.write(RedactTo::Stream(&mut out, None), &|_| true);
        (out, made.unwrap().unwrap().state)
    }
}

fn parsed(bytes: &[u8]) -> Vec<Line> {
    let lines = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines.map(|l| serde_json::from_slice(l).unwrap()).collect()
}

/// Two of these documents make a batch: each document is 560 kB with something to mask in it.
fn long_corpus(documents: usize) -> Vec<u8> {
    let each = (0..documents).map(|n| {
        let turn = format!("USR: order {n} of mail{n}@example.org, please. ");
        let same = "SYS: write to ada@example.org\n".repeat(3);
        Document::new(format!("d{n}"), format!("{same}{}", turn.repeat(13_000)))
    });
    lines(&each.collect::<Vec<_>>())
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = names
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What streams out is what `prepare` makes of the same corpus, unit by unit.
#[test]
fn a_stream_redacts_as_prepare_does() {
    let mut documents = simulate(60, 3).unwrap();
    // A span that was masked beforehand hides what is under it from the policy.
    documents[0] = Document {
        masked: vec![reticent_corpus::Masked { start: 5, end: 9 }],
        ..documents[0].clone()
    };
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("x.jsonl");
    std::fs::write(&data, lines(&documents)).unwrap();
    for policy in [
        PolicyChoice::Customers,
        PolicyChoice::Gold,
        PolicyChoice::Detectors(DetectorOptions::default()),
    ] {
        for unit in [Unit::Turn, Unit::Sentence, Unit::Document] {
            let whole = prepare(
                &documents,
                &PrepareOptions {
                    unit,
                    tokenizer: TokenizerChoice::Bytes,
                    policy: PolicyOptions {
                        policy: policy.clone(),
                        ..PolicyOptions::default()
                    },
                    ..PrepareOptions::default()
                },
            )
            .unwrap();
            let redact = Redact {
                data: &data,
                options: &options(unit, policy.clone()),
                threads: 2,
            };
            let (bytes, state) = redact.whole();
            let units = parsed(&bytes);
            let texts: Vec<&str> = units.iter().map(|u| u.text.as_str()).collect();
            // Points that are only <MASK> need not be stored in a prepared corpus.
            let texts: Vec<&str> = texts.into_iter().filter(|t| *t != "<MASK>").collect();
            assert_eq!(texts, whole.texts, "{policy:?} {unit}");
            assert_eq!(state.units, whole.facts.units);
            assert_eq!(state.duplicates, whole.facts.duplicates);
            assert_eq!(state.documents, 60);
        }
    }
}

/// Wherever it stops and goes on, and with however many threads: the same bytes. What comes behind the last
/// checkpoint is dropped.
#[test]
fn a_redaction_that_stopped_goes_on_as_if_it_had_not() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("data.jsonl"), long_corpus(9)).unwrap();
    let options = options(Unit::Turn, detectors());
    let redact = |threads| {
        Redact {
            data: &place.path().join("data.jsonl"),
            options: &options,
            threads,
        }
        .whole()
    };
    let (whole, state) = redact(1);
    assert_eq!(redact(3), (whole.clone(), state.clone()));
    assert!(state.duplicates > 10 && state.redacted > 5, "{state:?}");
    for stop in [1, 2, 4] {
        let out = at(&format!("out-{stop}.jsonl"));
        let data = at("data.jsonl");
        let redact = |threads| Redact {
            data: &data,
            options: &options,
            threads,
        };
        let batches = Cell::new(0);
        let few = |_| {
            batches.set(batches.get() + 1);
            batches.get() < stop
        };
        assert!(redact(2).to(&out, &few).unwrap().is_none());
        assert!(!out.exists() && RedactFiles::stopped(&out));
        let hidden = at(&format!(".writing-out-{stop}.jsonl"));
        let mut torn = std::fs::read(hidden.join("output")).unwrap();
        assert!(whole.starts_with(&torn) && torn.len() < whole.len());
        torn.extend(b"torn");
        std::fs::write(hidden.join("output"), torn).unwrap();
        let made = redact(1).to(&out, &|_| true).unwrap().unwrap();
        let before = made.taken_up.unwrap();
        assert!(before.documents > 0 && before.documents < 9);
        assert_eq!(made.state, state);
        assert_eq!(std::fs::read(&out).unwrap(), whole);
        assert!(!hidden.exists());
    }
}

/// A link under the hidden name is in the way; nothing is at the output.
#[test]
#[cfg(unix)]
fn what_is_in_the_way_of_a_redaction_is_named() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("data.jsonl"), long_corpus(2)).unwrap();
    std::os::unix::fs::symlink(at("elsewhere"), at(".writing-out.jsonl")).unwrap();
    let options = options(Unit::Turn, detectors());
    let redact = Redact {
        data: &at("data.jsonl"),
        options: &options,
        threads: 1,
    };
    let refused = redact.to(&at("out.jsonl"), &|_| true).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains(".writing-out.jsonl"), "{refused}");
}

/// What is changed, how, the options of the second run, its input, and what it says.
type Change<'a> = (
    &'a str,
    &'a dyn Fn(),
    &'a RedactionOptions,
    &'a [u8],
    RestartCause,
);

/// What was read before has to be the same, byte by byte, not only as long: else it starts over and says why.
#[test]
fn a_resumed_redaction_knows_its_input_its_options_and_its_output() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (data, out) = (at("data.jsonl"), at("out.jsonl"));
    let bytes = long_corpus(6);
    let ours = options(Unit::Turn, detectors());
    let other = options(Unit::Turn, PolicyChoice::Customers);
    let hidden = at(".writing-out.jsonl");
    let edited = |name: &str| {
        let path = hidden.join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let mut changed = bytes.clone();
    let digit = changed.iter().position(|b| *b == b'@').unwrap();
    changed[digit + 1] = b'X';
    let cases: [Change<'_>; 4] = [
        ("input", &|| (), &ours, &changed, RestartCause::Corpus),
        ("options", &|| (), &other, &bytes, RestartCause::Options),
        (
            "output",
            &|| edited("output"),
            &ours,
            &bytes,
            RestartCause::Damaged,
        ),
        (
            "state",
            &|| edited("progress.json"),
            &ours,
            &bytes,
            RestartCause::Damaged,
        ),
    ];
    for (what, damage, then, now, cause) in cases {
        std::fs::write(&data, &bytes).unwrap();
        let redact = |options| Redact {
            data: &data,
            options,
            threads: 1,
        };
        let first = Cell::new(0);
        let stopped = redact(&ours).to(&out, &|_| {
            first.set(first.get() + 1);
            first.get() < 3
        });
        assert!(stopped.unwrap().is_none());
        damage();
        std::fs::write(&data, now).unwrap();
        let said = Cell::new(None);
        let go_on = |phase| {
            if let Phase::Restart(cause) = phase {
                said.set(Some(cause));
            }
            true
        };
        let made = redact(then).to(&out, &go_on).unwrap().unwrap();
        assert_eq!((said.get(), made.taken_up), (Some(cause), None), "{what}");
        // A redaction has neither an owner's key nor a tokenizer.
        let said = cause.to_string();
        assert!(
            !said.contains("owner") && !said.contains("tokenizer"),
            "{said}"
        );
        assert_eq!(
            std::fs::read(&out).unwrap(),
            redact(then).whole().0,
            "{what}"
        );
        std::fs::remove_file(&out).unwrap();
    }
}

/// A file is replaced only by force, and never through a link; what is read is never written; who is second waits
/// for nobody.
#[cfg(unix)]
#[test]
fn an_output_is_a_free_name_or_a_stream() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let data = at("data.jsonl");
    std::fs::write(
        &data,
        lines(&[Document::new("a", "write to ada@example.org")]),
    )
    .unwrap();
    let before = std::fs::read(&data).unwrap();
    let options = options(Unit::Turn, detectors());
    let redact = Redact {
        data: &data,
        options: &options,
        threads: 1,
    };
    std::fs::write(at("old"), "old").unwrap();
    std::fs::hard_link(&data, at("same")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    for (link, to) in [
        ("link", "old"),
        ("to-data", "data.jsonl"),
        ("nowhere", "no"),
    ] {
        std::os::unix::fs::symlink(at(to), at(link)).unwrap();
    }
    let there = names(place.path());
    for (name, words) in [
        ("old", "a file of that name exists"),
        ("link", "it is a link"),
        ("nowhere", "it is a link"),
        ("folder", "it is a folder"),
        ("data.jsonl", "one of the files that are read"),
        ("same", "one of the files that are read"),
        ("to-data", "one of the files that are read"),
    ] {
        for force in [false, true] {
            if force && name == "old" {
                continue;
            }
            let path = at(name);
            let to = RedactTo::Path { path: &path, force };
            let error = redact.write(to, &|_| true).unwrap_err().to_string();
            assert!(error.contains(words), "{name}: {error}");
            assert_eq!(names(place.path()), there, "{name}");
        }
    }
    assert_eq!(std::fs::read(&data).unwrap(), before);
    assert_eq!(std::fs::read(at("old")).unwrap(), b"old");

    // While one is at work another is refused, and the first ends as if nothing had been.
    let out = at("out");
    let refused = Cell::new(false);
    let go_on = |_| {
        let error = redact.to(&out, &|_| true).unwrap_err().to_string();
        refused.set(error.contains("another process is at work"));
        true
    };
    redact.to(&out, &go_on).unwrap().unwrap();
    assert!(refused.get());
    let line = b"{\"id\":\"a#0\",\"text\":\"write to <MASK>\"}\n";
    assert_eq!(std::fs::read(&out).unwrap(), line);

    let (path, force) = (at("old"), true);
    let to = RedactTo::Path { path: &path, force };
    redact.write(to, &|_| true).unwrap().unwrap();
    assert_eq!(std::fs::read(at("old")).unwrap(), line);
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(at("old")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Devices stay what they are.
    redact.to("/dev/null".as_ref(), &|_| true).unwrap().unwrap();
    assert!(!std::fs::symlink_metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_bad_document_ends_a_redaction_with_its_place_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("x.jsonl");
    std::fs::write(&data, "{\"text\":\"a\"}\n{\"text\":1}\n").unwrap();
    let redact = |threads| {
        Redact {
            data: &data,
            options: &options(Unit::Turn, PolicyChoice::Customers),
            threads,
        }
        .to(&place.path().join("out"), &|_| true)
        .unwrap_err()
        .to_string()
    };
    assert!(redact(2).contains("x.jsonl, line 2: the key text must hold text, got a number"));
    assert_eq!(names(place.path()), ["x.jsonl"]);
    assert_eq!(
        redact(0),
        "the number of threads must be from 1 to 1024, got 0"
    );
}

/// A number that a chat would be written with otherwise is refused; without masks too.
#[test]
fn numbers_of_chats_are_written_as_they_stood_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let chat =
        |n: &str| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"x\",\"n\":{n}}}]}}\n");
    for (name, n, kept) in [
        ("a.jsonl", "18446744073709551615", true),
        ("b.jsonl", "18446744073709551616", false),
        ("c.jsonl", "-2.5", true),
        ("d.json", "-9223372036854775809", false),
    ] {
        let data = place.path().join(name);
        let text = match name.ends_with('l') {
            true => chat(n),
            false => format!("[{}]", chat(n)),
        };
        std::fs::write(&data, text).unwrap();
        let out = place.path().join("out");
        let made = Redact {
            data: &data,
            options: &options(Unit::Document, PolicyChoice::Customers),
            threads: 1,
        }
        .to(&out, &|_| true);
        match made {
            Ok(_) => assert_eq!(std::fs::read_to_string(&out).unwrap(), chat(n), "{name}"),
            Err(error) => assert!(
                error
                    .to_string()
                    .contains("line 1: a whole number beyond 64 bits"),
                "{name}: {error}"
            ),
        }
        assert_eq!(std::fs::remove_file(&out).is_ok(), kept, "{name}");
    }
}

fn detectors() -> PolicyChoice {
    PolicyChoice::Detectors(DetectorOptions::default())
}

fn incidence(
    bytes: &[u8],
    unit: Unit,
    sense: &Sense,
    threads: usize,
) -> Vec<(String, Vec<String>)> {
    let mut out = Vec::new();
    let options = ReadOptions {
        field: Some("author".to_owned()),
        ..ReadOptions::default()
    };
    let mut documents = Documents::from_bytes("x.jsonl".as_ref(), bytes.to_vec(), &options);
    Incidence::each(&mut documents, unit, sense, threads, |found, _| {
        let secrets = found.secrets.iter();
        out.push((
            found.example,
            secrets
                .map(|s| format!("{}:{}", s.kind, s.secret))
                .collect(),
        ));
        Ok(true)
    })
    .unwrap();
    out
}

/// What patterns find in a corpus, by their kinds.
fn by_patterns(bytes: &[u8], rules: &[(&str, &str)]) -> Sense {
    let rules = rules.iter().map(|(kind, pattern)| PatternRule {
        kind: (*kind).to_owned(),
        pattern: (*pattern).to_owned(),
    });
    let rules = rules.collect();
    let policy = PolicyChoice::Patterns { rules }.build().unwrap();
    let options = ReadOptions::default();
    let mut documents = Documents::from_bytes("x.jsonl".as_ref(), bytes.to_vec(), &options);
    let found = FoundSecrets::find(&mut documents, Unit::Turn, policy, 2, |_| true);
    Sense::Policy(found.unwrap())
}

const NOTES: &str = "{\"id\":\"a\",\"text\":\"Call 555 or 777.\\nCall 555!\",\"author\":\"Ada\"}\n{\"id\":\"b\",\"text\":\"Ada King met Ada.\",\"author\":[\"Bob\",\"Eve\"]}\n";

#[test]
fn incidence_from_a_policy_a_list_a_field_and_words() {
    let policy = by_patterns(NOTES.as_bytes(), &[("code", r"\d{3}")]);
    let list = ["King", "ADA KING", "Ada", "da", "555"].map(str::to_owned);
    let list = SecretList::new(list.to_vec()).unwrap();
    let words = ["ada", "call"].map(str::to_owned).into_iter().collect();
    let cases: [(Sense, [&[&str]; 3]); 4] = [
        (policy, [&["code:555", "code:777"], &["code:555"], &[]]),
        // Overlapping ones too, in any case and inside longer words.
        (
            Sense::List(list),
            [
                &["secret:555"],
                &["secret:555"],
                &["secret:ADA KING", "secret:Ada", "secret:King", "secret:da"],
            ],
        ),
        (
            Sense::Field,
            [&["field:Ada"], &["field:Ada"], &["field:Bob", "field:Eve"]],
        ),
        (
            Sense::Words(words),
            [&["word:call"], &["word:call"], &["word:ada"]],
        ),
    ];
    for (sense, expected) in cases {
        for threads in [1, 4] {
            let found = incidence(NOTES.as_bytes(), Unit::Turn, &sense, threads);
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["a#0", "a#1", "b#0"]);
            let secrets: Vec<Vec<&str>> = found
                .iter()
                .map(|(_, secrets)| secrets.iter().map(String::as_str).collect())
                .collect();
            assert_eq!(secrets, expected);
            let whole = incidence(NOTES.as_bytes(), Unit::Document, &sense, threads);
            assert_eq!(whole[1], ("b".to_owned(), found[2].1.clone()));
        }
    }
}

/// A secret that a policy finds for the word before it stands in records without that word too, with its digits grouped, inside
/// what else the policy finds, and inside a longer word. Nothing that no policy finds becomes a secret.
#[test]
fn what_a_policy_finds_in_one_record_is_counted_in_all() {
    let bytes = lines(&[
        Document::new("a", "55501234 did not answer.\nCall 55501234 please."),
        Document::new("b", "It is 5550-1234, right? Not 55501235."),
        Document::new(
            "c",
            "Mail ada@example.org\nhttps://example.org/?m=ADA@example.org",
        ),
        Document::new("d", "x55501234x\nnothing"),
    ]);
    let rules = [
        ("phone", r"Call (?<secret>\d{8})"),
        ("mail", r"[a-z]+@[a-z.]+"),
        ("url", r"https://\S+"),
    ];
    let sense = by_patterns(&bytes, &rules);
    for threads in [1, 4] {
        let found = incidence(&bytes, Unit::Turn, &sense, threads);
        let found: Vec<Vec<&str>> = (found.iter())
            .map(|(_, secrets)| secrets.iter().map(String::as_str).collect())
            .collect();
        let (phone, mail) = ("phone:55501234", "mail:ada@example.org");
        let url = "url:https://example.org/?m=ADA@example.org";
        let expected: [&[&str]; 7] = [
            &[phone],
            &[phone],
            &[phone],
            &[mail],
            &[mail, url],
            &[phone],
            &[],
        ];
        assert_eq!(found, expected);
    }
}

/// In scripts without spaces nothing parts a name from what stands beside it; elsewhere an ending may follow it, and numbers
/// are grouped as one likes. Whole words are distinguished from parts.
#[test]
fn a_list_is_found_wherever_a_secret_can_stand() {
    for (secret, text, inside) in [
        ("王小明", "您好，我叫王小明，账号1。", false),
        ("山田太郎", "私は山田太郎です", false),
        ("김철수", "저는 김철수입니다", false),
        ("สมชาย", "ผมชื่อสมชายครับ", false),
        ("ສົມສັກ", "ຂ້ອຍຊື່ສົມສັກເດີ", false),
        ("មករា", "ខ្ញុំឈ្មោះមករាទេ", false),
        ("အောင်", "ကျွန်တော်အောင်ပါ", false),
        ("Ada", "我叫Ada吗", false),
        ("محمد", "قلت لمحمد", true),
        ("Anna Müller", "Anna Müllers Konto", true),
        ("Ann", "Ann's annual", false),
        ("Ann", "annual", true),
        ("4111111111111111", "4111 1111-1111.1111", false),
        ("4111 1111 1111 1111", "card4111111111111111", true),
        ("4111-1111", "4111\u{a0}1111", false),
        ("415-555-0123", "(415) 555-0123", false),
        ("415-555-0123", "415/555/0123", false),
        ("415-555-0123", "415_555_0123", false),
        ("415-555-0123", "+1(415)555.0123", true),
        ("(415) 555-0123", "415-555-0123", false),
        ("1.5-", "1.5-2", false),
    ] {
        let list = Sense::List(SecretList::new(vec![secret.to_owned()]).unwrap());
        let bytes = lines(&[Document::new("d", text)]);
        let options = ReadOptions::default();
        let mut documents = Documents::from_bytes("x.jsonl".as_ref(), bytes, &options);
        let mut found = Vec::new();
        Incidence::each(&mut documents, Unit::Turn, &list, 1, |one, _| {
            found.extend(one.secrets.into_iter().map(|s| (s.secret, s.inside)));
            Ok(true)
        })
        .unwrap();
        assert_eq!(found, [(secret.to_owned(), inside)], "{text}");
    }
}

/// A list marks a secret in the places where it is found: inside words, and however its digits are grouped.
#[test]
fn a_list_marks_every_place_of_a_secret() {
    for (secret, text, places) in [
        ("王小明", "您好，我叫王小明，账号1。", vec!["王小明"]),
        ("Müller", "Müllers Konto, MÜLLER", vec!["Müller", "MÜLLER"]),
        (
            "4111111111111111",
            "é 4111 1111-1111.1111",
            vec!["4111 1111-1111.1111"],
        ),
        (
            "(415) 555-0123",
            "(415) 555-0123, tel415/555/0123",
            vec!["(415) 555-0123", "415/555/0123"],
        ),
        ("[4111]", "no 4111", vec!["4111"]),
        // Without its brackets it would be each digit 1.
        ("[1]", "1 of [1], 213", vec!["[1]"]),
        ("Ada", "Bob", vec![]),
    ] {
        let list = SecretList::new(vec![secret.to_owned()]).unwrap();
        let (marked, occurring) = list.mark(&Document::new("d", text), "listed");
        marked.validate().unwrap();
        let texts: Vec<&str> = (marked.secrets.iter())
            .map(|secret| marked.secret_text(secret))
            .collect();
        assert_eq!(texts, places, "{text}");
        assert_eq!(occurring.len(), usize::from(!places.is_empty()));
        assert!(occurring.into_iter().eq(list.occurring(text).into_keys()));
    }
    // A whole word comes before a part of one that begins earlier.
    let list = ["12 34", "34567"].map(str::to_owned).to_vec();
    let list = SecretList::new(list).unwrap();
    let (marked, _) = list.mark(&Document::new("d", "12 34567"), "listed");
    let spans: Vec<(usize, usize)> = marked.secrets.iter().map(|s| (s.start, s.end)).collect();
    assert_eq!(spans, [(3, 8)]);
}

/// What a policy finds is marked where it finds it, also where a letter or underscore touches it.
#[test]
fn what_a_policy_finds_is_marked_in_its_place() {
    let policy = PolicyChoice::Detectors(DetectorOptions::default())
        .build()
        .unwrap();
    let document =
        Document::new("d", "é mail\r\nssn219-09-9999 x\n219-09-9999").with_secret(0, 1, "k");
    let marked = mark_found(&[document], Unit::Turn, policy.as_ref()).unwrap();
    marked[0].validate().unwrap();
    let texts: Vec<&str> = (marked[0].secrets.iter())
        .map(|secret| marked[0].secret_text(secret))
        .collect();
    assert_eq!(texts, ["é", "219-09-9999", "219-09-9999"]);
    // As a unit of several lines is prepared.
    let document = Document::new("d", "Card 4111 1111\n1111 1111 and mail ada@x.org");
    let marked = mark_found(&[document], Unit::Document, policy.as_ref()).unwrap();
    let texts: Vec<&str> = (marked[0].secrets.iter())
        .map(|secret| marked[0].secret_text(secret))
        .collect();
    assert_eq!(texts, ["4111 1111\n1111 1111", "ada@x.org"]);
}

/// What it finds anywhere comes first; elsewhere, a text has the kind with which it was found.
#[test]
fn what_a_policy_finds_is_marked_where_it_does_not_find_it() {
    let rules = [("name", "^Ada"), ("code", "^[0-9]+"), ("king", "Ada King")];
    let rules = rules.map(|(kind, pattern)| PatternRule {
        kind: kind.to_owned(),
        pattern: pattern.to_owned(),
    });
    let policy = PolicyChoice::Patterns {
        rules: rules.to_vec(),
    };
    let documents = [
        Document::new("a", "with Ada and 555, 5550"),
        Document::new("b", "Ada has it\n555 calls Ada King"),
    ];
    let marked = mark_found(&documents, Unit::Turn, policy.build().unwrap().as_ref()).unwrap();
    let spans = |document: &Document| -> Vec<(String, String)> {
        let secrets = document.secrets.iter();
        secrets
            .map(|s| (s.kind.clone(), document.secret_text(s).to_owned()))
            .collect()
    };
    let of = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    assert_eq!(spans(&marked[0]), [of("name", "Ada"), of("code", "555")]);
    assert_eq!(
        spans(&marked[1]),
        [of("name", "Ada"), of("code", "555"), of("king", "Ada King")]
    );
    let nothing = PolicyChoice::Nothing.build().unwrap();
    let nothing = mark_found(&documents, Unit::Turn, nothing.as_ref()).unwrap();
    assert_eq!(nothing, documents);
}

#[test]
fn a_list_marks_its_places_apart_from_each_other_and_from_what_is_there() {
    let list = ["Ada", "Ada King", "King"].map(str::to_owned).to_vec();
    let list = SecretList::new(list).unwrap();
    let document = Document::new("d", "é Ada King, Ada; King Ada").with_secret(17, 21, "name");
    let (marked, _) = list.mark(&document, "listed");
    marked.validate().unwrap();
    let spans: Vec<(usize, usize, &str)> = marked
        .secrets
        .iter()
        .map(|s| (s.start, s.end, s.kind.as_str()))
        .collect();
    assert_eq!(
        spans,
        [
            (2, 10, "listed"),
            (12, 15, "listed"),
            (17, 21, "name"),
            (22, 25, "listed")
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A list finds what a search for each secret finds.
    #[test]
    fn a_list_finds_what_a_plain_search_finds(
        text in "[ab ]{0,30}",
        secrets in proptest::collection::btree_set("[ab]{1,3}", 1..5),
    ) {
        let secrets: Vec<String> = secrets.into_iter().collect();
        let list = Sense::List(SecretList::new(secrets.clone()).unwrap());
        let mut expected: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        if !text.trim().is_empty() {
            let here: Vec<String> = secrets
                .into_iter()
                .filter(|s| text.contains(s.as_str()))
                .map(|s| format!("secret:{s}"))
                .collect();
            expected.insert(0, here);
        }
        let bytes = lines(&[Document::new("d", text)]);
        let found: Vec<Vec<String>> = incidence(&bytes, Unit::Turn, &list, 2)
            .into_iter()
            .map(|(_, secrets)| secrets)
            .collect();
        prop_assert_eq!(found, expected.into_values().collect::<Vec<_>>());
    }
}
