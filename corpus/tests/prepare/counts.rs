//! Misses, held-out text, lengths.

use super::{corpus, options};
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::policy::{PatternRule, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, Preparer, SecretSource, Selection, prepare};
use reticent_corpus::redaction::mark_found;
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Masked, Side, Unit};

#[test]
fn the_miss_rate_is_exact_on_the_simulator() {
    let documents = simulate(300, 2).unwrap();
    for rate in [0.0, 0.1, 0.5, 1.0] {
        let policy = PolicyOptions {
            miss_rate: rate,
            seed: 3,
            ..PolicyOptions::default()
        };
        let prepared = prepare(
            &documents,
            &PrepareOptions {
                policy,
                ..PrepareOptions::default()
            },
        )
        .unwrap();
        let all = prepared.facts.secrets.all;
        assert_eq!(prepared.facts.secrets.source, SecretSource::Gold);
        assert_eq!(all.missed, (rate * all.distinct as f64).round() as u64);
        assert_eq!(all.masked + all.missed, all.distinct);
        // Everything is private without a conservative policy.
        assert_eq!((all.missed_by_both, all.public), (0, 0));
        let kinds = &prepared.facts.secrets.by_kind;
        assert_eq!(
            kinds.values().map(|k| k.distinct).sum::<u64>(),
            all.distinct
        );
        assert_eq!(kinds.values().map(|k| k.missed).sum::<u64>(), all.missed);
    }
}

/// A record is masked whole where the policy cannot examine it. Whether another run examines it depends on the machine, so no
/// secret in it is caught.
#[test]
fn secrets_of_records_that_were_not_examined_are_missed() {
    // As if the policy ran out of time.
    let rule = PatternRule {
        kind: "not-examined".to_owned(),
        pattern: "^slow.*$|bob".to_owned(),
    };
    let options = PrepareOptions {
        unit: Unit::Turn,
        policy: PolicyOptions {
            policy: PolicyChoice::Patterns { rules: vec![rule] },
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let text = "slow ada\nslow bob\nhere bob\nhere eve";
    let marked = Document::new("d", text)
        .with_secret(5, 8, "name")
        .with_secret(23, 26, "name");
    let facts = prepare(&[marked], &options).unwrap().facts;
    assert_eq!((facts.not_examined, facts.mask_only), (2, 2));
    // The one in the record that was examined is caught.
    let all = facts.secrets.all;
    assert_eq!((all.distinct, all.missed, all.masked), (2, 1, 1));
    let facts = prepare(&[Document::new("d", text)], &options)
        .unwrap()
        .facts;
    let all = facts.secrets.all;
    assert_eq!((all.distinct, all.missed, all.masked), (3, 2, 1));
}

#[test]
fn without_marks_the_policys_own_finds_are_counted() {
    let mut documents = simulate(100, 2).unwrap();
    let marked: u64 = prepare(&documents, &PrepareOptions::default())
        .unwrap()
        .facts
        .secrets
        .all
        .distinct;
    for document in &mut documents {
        document.secrets.clear();
    }
    let policy = PolicyOptions {
        miss_rate: 0.2,
        ..PolicyOptions::default()
    };
    let facts = prepare(
        &documents,
        &PrepareOptions {
            policy,
            ..PrepareOptions::default()
        },
    )
    .unwrap()
    .facts;
    assert_eq!(facts.secrets.source, SecretSource::Detected);
    assert_eq!(facts.secrets.all.distinct, marked);
    assert_eq!(
        facts.secrets.all.missed,
        (0.2 * marked as f64).round() as u64
    );
}

/// What the policy found is as secret where else it stands in the record: there, masking it changes the record.
#[test]
fn what_was_found_counts_wherever_it_stands() {
    let documents = [
        "my name is zork . tell Zork that zork's late",
        "my name is blip .",
    ];
    let documents = documents.map(|text| Document::new(text, text));
    let choice = PolicyChoice::Patterns {
        rules: vec![PatternRule {
            kind: "name".to_owned(),
            pattern: "name is (?<secret>[a-z]+)".to_owned(),
        }],
    };
    let policy = choice.build().unwrap();
    let options = PrepareOptions {
        unit: Unit::Document,
        policy: PolicyOptions {
            policy: choice,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let facts = prepare(&documents, &options).unwrap().facts.secrets;
    let all = facts.all;
    assert_eq!(facts.source, SecretSource::Detected);
    assert_eq!((all.distinct, all.occurrences, all.missed), (3, 4, 2));
    let marked = mark_found(&documents, options.unit, policy.as_ref()).unwrap();
    let preparer = Preparer::new(&marked, &options).unwrap();
    let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
    assert_eq!(
        (found.distinct, found.all.missed, found.all.most_records),
        (all.distinct, all.missed, facts.most_records)
    );
}

#[test]
fn what_both_policies_miss_is_public_and_counted() {
    let documents = [
        Document::new("a", "pin 12\nthe pin 12 again\nSo Ada has 12")
            .with_secret(4, 6, "pin")
            .with_secret(15, 17, "pin")
            .with_secret(35, 37, "pin"),
    ];
    let facts = prepare(&documents, &options()).unwrap().facts;
    let all = facts.secrets.all;
    assert_eq!(
        (
            all.distinct,
            all.occurrences,
            all.missed,
            all.missed_by_both,
            all.public
        ),
        (1, 3, 1, 1, 1)
    );
    assert_eq!(facts.secrets.most_records, 3);
}

/// An address of three lines, with another first one.
fn address(id: &str, first: &str) -> Document {
    let before = "at ";
    let text = format!("{before}{first}\nflat 9, blubton\nquux 123 .");
    let end = text.len() - 2;
    Document::new(id, text).with_secret(before.len(), end, "address")
}

#[test]
fn documents_without_text_are_counted() {
    let documents = [Document::new("a", "my word"), Document::new("b", " \n")];
    let facts = prepare(&documents, &options()).unwrap().facts;
    let counts = (facts.documents, facts.blank_documents, facts.units);
    assert_eq!(counts, (2, 1, 1));
}

/// One secret in three records, whatever part of it a policy finds.
#[test]
fn a_secret_that_extends_over_several_records_is_one() {
    let documents = [address("a", "12 zork lane")];
    let facts = |options: &PrepareOptions| prepare(&documents, options).unwrap().facts;
    let counts = |options: &PrepareOptions| {
        let facts = facts(options);
        let all = facts.secrets.all;
        let secrets = (all.distinct, all.occurrences, all.missed);
        (secrets, facts.secrets.most_records, facts.cut_secrets)
    };
    // The policy knows numbers of three digits: the last line says that it found one there.
    assert_eq!(counts(&options()), ((1, 1, 1), 3, 1));
    let lines = |found: &str| {
        let rule = PatternRule {
            kind: "line".to_owned(),
            pattern: found.to_owned(),
        };
        let policy = PolicyOptions {
            policy: PolicyChoice::Patterns { rules: vec![rule] },
            ..PolicyOptions::default()
        };
        PrepareOptions {
            policy,
            ..options()
        }
    };
    assert_eq!(counts(&lines("12 zork lane")), ((1, 1, 1), 2, 1));
    let all = lines("12 zork lane|flat 9, blubton|quux 123");
    assert_eq!(counts(&all), ((1, 1, 0), 0, 1));
    let whole = PrepareOptions {
        unit: Unit::Document,
        ..options()
    };
    assert_eq!(counts(&whole), ((1, 1, 1), 1, 0));
    let copies = Preparer::new(&documents, &options())
        .unwrap()
        .copies()
        .unwrap();
    assert_eq!(copies.len(), 1);
    let copies = copies["12 zork lane\nflat 9, blubton\nquux 123"];
    assert_eq!((copies.before, copies.after), (1, 1));
    assert_eq!((copies.units_before, copies.units_after), (3, 3));
}

/// A copy has no record of its own; a line that another address has too is no copy.
#[test]
fn equal_parts_of_two_secrets_are_no_copies() {
    let documents = [
        address("a", "12 zork lane"),
        address("b", "12 zork lane"),
        address("c", "7 byron road"),
    ];
    let facts = prepare(&documents, &options()).unwrap().facts;
    let all = facts.secrets.all;
    assert_eq!((all.distinct, all.occurrences, all.missed), (2, 2, 2));
    assert_eq!((facts.secrets.most_records, facts.duplicates), (3, 3));
    assert_eq!(facts.cut_secrets, 2);
}

/// What the input left of a secret is trained on.
#[test]
fn a_secret_that_the_input_masks_in_part_counts() {
    let with_mask = |end| {
        let mut document = Document::new("a", "my word is zorkmid .").with_secret(11, 18, "word");
        document.masked = vec![Masked { start: 11, end }];
        let facts = prepare(&[document], &options()).unwrap().facts;
        (facts.secrets.all.distinct, facts.secrets.all.missed)
    };
    assert_eq!([12, 17, 18].map(with_mask), [(1, 1), (1, 1), (0, 0)]);
    // The lines of a secret that are masked hold nothing of it.
    let mut document = address("a", "12 zork lane");
    document.masked = vec![Masked { start: 3, end: 15 }];
    let facts = prepare(&[document], &options()).unwrap().facts;
    assert_eq!(
        (facts.secrets.all.occurrences, facts.secrets.most_records),
        (1, 2)
    );
}

/// A corpus may mark secrets of any kind, and a policy find them: only what was planted is a canary.
#[test]
fn a_secret_of_the_kind_canary_counts() {
    let documents = ["zorka", "zorkb"].map(|word| {
        let text = format!("the word is {word} .");
        Document::new(word, text).with_secret(12, 17, "canary")
    });
    let planted = PrepareOptions {
        canaries: Some(CanaryOptions::new("1x2".parse().unwrap())),
        ..options()
    };
    for options in [options(), planted] {
        let preparer = Preparer::new(&documents, &options).unwrap();
        let all = preparer.run().unwrap().facts.secrets.all;
        assert_eq!((all.distinct, all.missed), (2, 2));
        let found = preparer.neighbours(Selection::All, &|_, _| true).unwrap();
        assert_eq!((found.distinct, found.all.missed), (2, 2));
    }
    let rule = PatternRule {
        kind: "canary".to_owned(),
        pattern: "zork[a-z]".to_owned(),
    };
    let policy = PolicyOptions {
        policy: PolicyChoice::Patterns { rules: vec![rule] },
        miss_rate: 0.5,
        ..PolicyOptions::default()
    };
    let unmarked = documents.map(|d| Document::new(d.id, d.text));
    let found = PrepareOptions {
        policy,
        ..options()
    };
    let all = prepare(&unmarked, &found).unwrap().facts.secrets.all;
    assert_eq!((all.distinct, all.missed), (2, 1));
}

#[test]
fn held_out_text_is_redacted_and_not_deduplicated() {
    let lines = "same line\ncode 123";
    let documents = corpus(&[lines, lines, lines, lines]);
    let prepared = prepare(
        &documents,
        &PrepareOptions {
            held_out: 0.5,
            ..options()
        },
    )
    .unwrap();
    assert_eq!(
        (prepared.facts.documents, prepared.facts.held_out_documents),
        (2, 2)
    );
    assert_eq!(prepared.texts, ["same line", "code <MASK>"]);
    assert_eq!(
        prepared.held_out_texts,
        ["same line", "code <MASK>", "same line", "code <MASK>"]
    );
    assert_eq!(prepared.facts.held_out_records, 4);
    assert_eq!(prepared.facts.held_out_tokens, 2 * (10 + 7));
    assert_eq!(prepared.facts.loss_tokens, 10 + 7);
}

/// Characters outside the vocabulary, of records that are trained on; folders of ASCII alone stay as they were.
#[test]
fn unknown_characters_are_counted() {
    let of = |text: &str| prepare(&corpus(&[text]), &options()).unwrap().facts;
    let facts = of("Müller über\n病人");
    assert_eq!((facts.unknown_characters, facts.characters), (4, 13));
    assert!((facts.unknown_share() - 4.0 / 13.0).abs() < 1e-12);
    let facts = of("Mueller");
    assert_eq!((facts.unknown_characters, facts.unknown_share()), (0, 0.0));
    let json = serde_json::to_string(&facts).unwrap();
    assert!(!json.contains("unknown_characters"), "{json}");
}

#[test]
fn held_out_documents_depend_on_numbers_and_seed_only() {
    let chosen = |documents: &[Document], seed| -> Vec<String> {
        let options = PrepareOptions {
            held_out: 0.3,
            seed,
            ..options()
        };
        let preparer = Preparer::new(documents, &options).unwrap();
        preparer
            .held_out_documents()
            .iter()
            .map(|d| d.id.clone())
            .collect()
    };
    let one: Vec<Document> = (0..50)
        .map(|i| Document::new(format!("d{i}"), "x"))
        .collect();
    let other: Vec<Document> = (0..50)
        .map(|i| Document::new(format!("d{i}"), format!("y{i}")))
        .collect();
    assert_eq!(chosen(&one, 1).len(), 15);
    assert_eq!(chosen(&one, 1), chosen(&other, 1));
    assert_ne!(chosen(&one, 1), chosen(&one, 2));
}

/// The held-out share is missed at the same rate as the training share.
#[test]
fn secrets_held_out_are_missed_too() {
    let policy = PolicyOptions {
        miss_rate: 0.5,
        ..PolicyOptions::default()
    };
    let prepared = prepare(
        &simulate(200, 0).unwrap(),
        &PrepareOptions {
            policy,
            held_out: 0.5,
            ..PrepareOptions::default()
        },
    )
    .unwrap();
    let tracking = regex::Regex::new(r"\b[A-Z0-9]{10}\b").unwrap();
    let missed = prepared
        .held_out_texts
        .iter()
        .filter(|t| tracking.is_match(t))
        .count();
    assert!(missed > 20, "{missed}");
}

#[test]
fn records_are_cut_to_length_without_an_end() {
    let short = PrepareOptions {
        max_tokens: Some(6),
        ..options()
    };
    let prepared = prepare(&corpus(&["abc\nabcdefg\nabcdefg 123"]), &short).unwrap();
    let [bos, eos] = [prepared.tokenizer.bos(), prepared.tokenizer.eos()];
    let records = &prepared.training.records;
    assert_eq!(records[0].tokens.last(), Some(&eos));
    assert!(
        records[1..]
            .iter()
            .all(|r| r.tokens.len() == 6 && r.tokens[0] == bos && !r.tokens.contains(&eos))
    );
    // The mask was cut off, and the record stays private.
    assert_eq!(records[2].side, Side::Private);
    assert_eq!(prepared.facts.truncated, 2);
}

/// Text that is left as it is carries what the policy found; masking it gives the redacted record.
#[test]
fn unredacted_records_know_their_sensitive_tokens() {
    let documents = simulate(60, 5).unwrap();
    let policy = PolicyOptions {
        miss_rate: 0.3,
        ..PolicyOptions::default()
    };
    let with = |redact| {
        let options = PrepareOptions {
            policy: policy.clone(),
            redact,
            deduplicate: false,
            ..PrepareOptions::default()
        };
        prepare(&documents, &options).unwrap()
    };
    let (bare, redacted) = (with(false), with(true));
    let mask = bare.tokenizer.mask();
    let mut shown = Vec::new();
    for record in &bare.training.records {
        let mut tokens = Vec::new();
        let mut from = 0;
        for span in &record.sensitive {
            assert!(span.start >= 1 && span.start >= from);
            tokens.extend(&record.tokens[from..span.start]);
            tokens.push(mask);
            from = span.end;
        }
        tokens.extend(&record.tokens[from..]);
        // units that are only a mask are no records
        if tokens.len() > 3 || tokens[1] != mask {
            shown.push(tokens);
        }
    }
    let wanted = redacted.training.records.iter().map(|r| r.tokens.clone());
    assert_eq!(shown, wanted.collect::<Vec<_>>());
    assert!(
        redacted
            .training
            .records
            .iter()
            .all(|r| r.sensitive.is_empty())
    );
    // three in ten strings are missed, each at least once
    assert!(bare.facts.uncaught >= redacted.facts.secrets.all.missed);
    assert_eq!(redacted.facts.uncaught, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bare");
    bare.write(&path, false, None).unwrap();
    let again = reticent_corpus::prepare::Prepared::load(&path, None).unwrap();
    assert_eq!(again.training, bare.training);
    let records = path.join("records.jsonl");
    let text = std::fs::read_to_string(&records).unwrap();
    let broken = text.replacen("\"start\":", "\"start\":9000", 1);
    std::fs::write(&records, broken).unwrap();
    let error = reticent_corpus::prepare::Prepared::load(&path, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("sensitive range"), "{error}");
}
