//! Streaming passes: the same result whatever the number of threads and wherever they stop.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; the lint exempts test functions only"
)]

use proptest::prelude::*;
use reticent_corpus::{
    DetectorOptions, Document, Documents, Incidence, PatternRule, PolicyChoice, PolicyOptions,
    PrepareOptions, ReadOptions, Redacted, Redaction, RedactionOptions, RedactionState, SecretList,
    Sense, TokenizerChoice, Unit, prepare, simulate,
};
use std::collections::BTreeMap;

fn lines(documents: &[Document]) -> Vec<u8> {
    let lines: Vec<String> = documents
        .iter()
        .map(|d| serde_json::to_string(d).unwrap() + "\n")
        .collect();
    lines.concat().into_bytes()
}

fn stream(bytes: &[u8]) -> Documents {
    Documents::from_bytes("x.jsonl".as_ref(), bytes.to_vec(), &ReadOptions::default())
}

fn options(unit: Unit, policy: PolicyChoice) -> RedactionOptions {
    RedactionOptions {
        unit,
        policy,
        deduplicate: true,
    }
}

/// The whole pass, or as far as `stop` documents.
fn pass(
    bytes: &[u8],
    options: &RedactionOptions,
    threads: usize,
    from: Option<RedactionState>,
    stop: u64,
) -> (Vec<Redacted>, RedactionState) {
    let mut documents = stream(bytes);
    let mut redaction = Redaction::new(options, threads).unwrap();
    if let Some(state) = from {
        redaction.resume(&mut documents, state).unwrap();
    }
    let mut out = Vec::new();
    redaction
        .run(&mut documents, |kept, state, _| {
            out.extend_from_slice(kept);
            Ok(state.documents < stop)
        })
        .unwrap();
    (out, redaction.state().clone())
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
            let (units, state) = pass(
                &lines(&documents),
                &options(unit, policy.clone()),
                2,
                None,
                u64::MAX,
            );
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

/// Wherever a pass stops and goes on, and with however many threads: the same units.
#[test]
fn a_pass_that_stopped_goes_on_as_if_it_had_not() {
    let bytes = lines(&simulate(40, 1).unwrap());
    let options = options(Unit::Turn, PolicyChoice::Customers);
    let (whole, end) = pass(&bytes, &options, 1, None, u64::MAX);
    assert_eq!(end.documents, 40);
    assert!(end.duplicates > 10 && end.redacted > 10);
    for threads in [1, 2, 5] {
        assert_eq!(
            pass(&bytes, &options, threads, None, u64::MAX),
            (whole.clone(), end.clone())
        );
        for stop in [1, 7, 39] {
            let (mut first, state) = pass(&bytes, &options, threads, None, stop);
            assert_eq!(state.documents, stop);
            let (rest, last) = pass(&bytes, &options, threads, Some(state), u64::MAX);
            first.extend(rest);
            assert_eq!((&first, &last), (&whole, &end));
        }
    }
    let mut other = stream(&bytes[..bytes.iter().position(|b| *b == b'\n').unwrap()]);
    let error = Redaction::new(&options, 1)
        .unwrap()
        .resume(&mut other, end)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the documents done before must be at most as many as there are, got 40"
    );
}

#[test]
fn a_bad_document_ends_a_pass_with_its_place() {
    let mut documents = stream(b"{\"text\":\"a\"}\n{\"text\":1}\n");
    let mut redaction = Redaction::new(&options(Unit::Turn, PolicyChoice::Customers), 2).unwrap();
    let error = redaction
        .run(&mut documents, |_, _, _| Ok(true))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("x.jsonl, line 2: invalid JSON"),
        "{error}"
    );
    let none = Redaction::new(&options(Unit::Turn, PolicyChoice::Customers), 0).unwrap_err();
    assert_eq!(
        none.to_string(),
        "the number of threads must be from 1 to 1024, got 0"
    );
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

const NOTES: &str = "{\"id\":\"a\",\"text\":\"Call 555 or 777.\\nCall 555!\",\"author\":\"Ada\"}\n{\"id\":\"b\",\"text\":\"Ada King met Ada.\",\"author\":[\"Bob\",\"Eve\"]}\n";

#[test]
fn incidence_from_a_policy_a_list_a_field_and_words() {
    let rule = PatternRule {
        kind: "code".to_owned(),
        pattern: r"\d{3}".to_owned(),
    };
    let policy = PolicyChoice::Patterns { rules: vec![rule] }
        .build()
        .unwrap();
    let list = ["King", "Ada King", "Ada", "da", "555"].map(str::to_owned);
    let list = SecretList::new(list.to_vec()).unwrap();
    let words = ["ada", "call"].map(str::to_owned).into_iter().collect();
    let cases: [(Sense, [&[&str]; 3]); 4] = [
        (
            Sense::Policy(policy),
            [&["code:555", "code:777"], &["code:555"], &[]],
        ),
        // Overlapping ones too; a part of a word is none.
        (
            Sense::List(list),
            [
                &["secret:555"],
                &["secret:555"],
                &["secret:Ada", "secret:Ada King", "secret:King"],
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

#[test]
fn a_list_marks_its_places_apart_from_each_other_and_from_what_is_there() {
    let list = ["Ada", "Ada King", "King"].map(str::to_owned).to_vec();
    let list = SecretList::new(list).unwrap();
    let document = Document::new("d", "é Ada King, Ada; King Ada").with_secret(17, 21, "name");
    let marked = list.mark(&document, "listed");
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
                .filter(|s| text.split(' ').any(|word| word == s))
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
