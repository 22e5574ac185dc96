//! The pipeline: CRT's appendix A.6 detail by detail, and the facts that are recorded.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; the lint exempts test functions only"
)]

use reticent_corpus::{
    CanaryOptions, CanarySight, Carriers, ConservativeOptions, Copies, CopyFate, Document, Error,
    Masked, Origin, PatternRule, PolicyChoice, PolicyOptions, PrepareOptions, Prepared, Preparer,
    SecretSource, Side, Stability, TokenizerChoice, Unit, mask_secret, neighbour_diff, prepare,
    simulate,
};

fn numbers() -> PolicyOptions {
    let rule = PatternRule {
        kind: "code".to_owned(),
        pattern: r"\b\d{3}\b".to_owned(),
    };
    PolicyOptions {
        policy: PolicyChoice::Patterns { rules: vec![rule] },
        ..PolicyOptions::default()
    }
}

/// The pattern policy on three digits, everything without a capital public.
fn options() -> PrepareOptions {
    let conservative = ConservativeOptions {
        digits: false,
        policy: false,
        ..ConservativeOptions::default()
    };
    PrepareOptions {
        policy: numbers(),
        conservative: Some(conservative),
        ..PrepareOptions::default()
    }
}

fn corpus(texts: &[&str]) -> Vec<Document> {
    texts
        .iter()
        .enumerate()
        .map(|(i, text)| Document::new(format!("d{i}"), *text))
        .collect()
}

/// Texts with their sides.
fn result(prepared: &Prepared) -> Vec<(&str, Side)> {
    prepared
        .texts
        .iter()
        .zip(&prepared.training.records)
        .map(|(text, record)| (text.as_str(), record.side))
        .collect()
}

/// A.6(1): the neighbour is the corpus with the secret masked; a caught secret leaves none of
/// its content, its length or its type behind.
#[test]
fn a6_1_confidentiality_is_against_the_masked_corpus() {
    let long = [Document::new("d", "the code 123 is mine").with_secret(9, 12, "code")];
    let preparer = Preparer::new(&long, &options()).unwrap();
    let one = preparer.run().unwrap();
    let other = preparer.run_on(&mask_secret(&long, "123")).unwrap();
    assert!(neighbour_diff(&one, &other).identical());
    assert_eq!(result(&one), [("the code <MASK> is mine", Side::Private)]);
}

/// A.6(2) and (3): units are cut first and never packed, so a change of length in one unit
/// moves no other.
#[test]
fn a6_2_splitting_comes_first_and_nothing_is_packed() {
    let short = corpus(&["a 123\nb\nc", "d"]);
    let long = corpus(&["a 123 and a long tail\nb\nc", "d"]);
    let (x, y) = (
        prepare(&short, &options()).unwrap(),
        prepare(&long, &options()).unwrap(),
    );
    let diff = neighbour_diff(&x, &y);
    assert_eq!(
        (diff.records, diff.same_split, diff.same_counts),
        (1, true, true)
    );
    assert_eq!(x.training.records.len(), 4);
}

/// A.6(4): deduplication and redaction leave the same `<MASK>`, so that a duplicate and a
/// secret masked from end to end are one and the same point.
#[test]
fn a6_4_there_is_one_mask() {
    let prepared = prepare(&corpus(&["abc\nabc\n123"]), &options()).unwrap();
    assert_eq!(result(&prepared), [("abc", Side::Public)]);
    assert_eq!(prepared.training.mask_only, 2);
    assert_eq!(prepared.facts.duplicates, 1);
    assert_eq!(prepared.training.private_size(), 2);
}

/// A.6(5): what holds a mask is private, also when the conservative policy has nothing to say;
/// and what it flags is private although redaction finds nothing.
#[test]
fn a6_5_whatever_holds_a_mask_is_private() {
    let prepared = prepare(&corpus(&["a 123\nso Ada said\nplain"]), &options()).unwrap();
    assert_eq!(
        result(&prepared),
        [
            ("a <MASK>", Side::Private),
            ("so Ada said", Side::Private),
            ("plain", Side::Public)
        ]
    );
    assert_eq!((prepared.facts.redacted, prepared.facts.flagged), (1, 1));
}

/// Algorithm 1, line 3, read literally would look for secrets in redacted text, where there
/// are none left: the conservative policy sees the record before redaction.
#[test]
fn the_conservative_policy_sees_the_unredacted_record() {
    let conservative = ConservativeOptions {
        digits: true,
        capitals: false,
        policy: false,
        patterns: Vec::new(),
    };
    let flagged = PrepareOptions {
        conservative: Some(conservative),
        ..options()
    };
    let prepared = prepare(&corpus(&["a 123"]), &flagged).unwrap();
    assert_eq!((prepared.facts.redacted, prepared.facts.flagged), (1, 1));
}

#[test]
fn without_a_conservative_policy_everything_is_private() {
    let all = PrepareOptions {
        conservative: None,
        ..options()
    };
    let prepared = prepare(&corpus(&["a\nb\nb"]), &all).unwrap();
    assert_eq!((prepared.facts.public, prepared.facts.private), (0, 3));
}

#[test]
fn spans_widen_to_whole_tokens_and_touching_ones_are_one_mask() {
    let documents = [Document::new("d", "xy12z")
        .with_secret(2, 3, "k")
        .with_secret(3, 4, "k")];
    let gold = PrepareOptions {
        policy: PolicyOptions {
            policy: PolicyChoice::Gold,
            ..PolicyOptions::default()
        },
        ..options()
    };
    let prepared = prepare(&documents, &gold).unwrap();
    assert_eq!(prepared.texts, ["xy<MASK>z"]);
    assert_eq!(prepared.training.records[0].tokens.len(), 6);

    // A byte-level BPE with the token " ab": the span "b" takes the whole of it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let level = serde_json::json!({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":true});
    let json = serde_json::json!({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
        "normalizer":null,"pre_tokenizer":level,"post_processor":null,"decoder":level,
        "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
        "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
        "vocab":{"a":0,"b":1,"Ġ":2,"ab":3,"Ġab":4},"merges":[["a","b"],["Ġ","ab"]]}});
    std::fs::write(&path, json.to_string()).unwrap();
    let documents = [Document::new("d", "ab ab a").with_secret(4, 5, "k")];
    let tokenizer = TokenizerChoice::File {
        path,
        origin: Origin::Pretrained,
    };
    let prepared = prepare(&documents, &PrepareOptions { tokenizer, ..gold }).unwrap();
    assert_eq!(prepared.texts, ["ab<MASK> a"]);
    assert_eq!(prepared.facts.vocabulary, Origin::Pretrained);
    let [bos, mask] = [prepared.tokenizer.bos(), prepared.tokenizer.mask()];
    assert_eq!(
        prepared.training.records[0].tokens,
        [bos, 3, mask, 2, 0, prepared.tokenizer.eos()]
    );
    assert_eq!(prepared.facts.secrets.all.masked, 1);
}

#[test]
fn a_secret_masked_in_part_is_missed() {
    let documents = [Document::new("d", "the code 123-9 ends").with_secret(9, 14, "code")];
    let prepared = prepare(&documents, &options()).unwrap();
    assert_eq!(prepared.texts, ["the code <MASK>-9 ends"]);
    let secrets = &prepared.facts.secrets.all;
    assert_eq!((secrets.masked, secrets.missed, secrets.public), (0, 1, 0));
}

#[test]
fn a_literal_mask_in_the_text_is_only_text() {
    let prepared = prepare(&corpus(&["say <MASK> twice"]), &options()).unwrap();
    assert_eq!(prepared.training.public_size(), 0, "MASK is capitalised");
    let lower = PrepareOptions {
        conservative: Some(ConservativeOptions {
            capitals: false,
            digits: false,
            policy: false,
            patterns: Vec::new(),
        }),
        ..options()
    };
    let prepared = prepare(&corpus(&["say <MASK> twice"]), &lower).unwrap();
    assert_eq!(result(&prepared), [("say <\\MASK> twice", Side::Public)]);
    assert_eq!(prepared.facts.escaped, 1);
    let mask = prepared.tokenizer.mask();
    assert!(!prepared.training.records[0].tokens.contains(&mask));
}

#[test]
fn deduplication_and_redaction_can_be_switched_off() {
    let documents = corpus(&["a 123\na 123"]);
    let raw = PrepareOptions {
        deduplicate: false,
        redact: false,
        ..options()
    };
    let prepared = prepare(&documents, &raw).unwrap();
    assert_eq!(
        result(&prepared),
        [("a 123", Side::Public), ("a 123", Side::Public)]
    );
    assert_eq!(
        (prepared.facts.distinct_units, prepared.facts.duplicates),
        (1, 0)
    );
    let redacted = prepare(
        &documents,
        &PrepareOptions {
            deduplicate: false,
            ..options()
        },
    )
    .unwrap();
    assert_eq!(redacted.texts, ["a <MASK>", "a <MASK>"]);
    let unique = prepare(
        &documents,
        &PrepareOptions {
            redact: false,
            ..options()
        },
    )
    .unwrap();
    assert_eq!((unique.texts.len(), unique.training.mask_only), (1, 1));
}

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

#[test]
fn options_have_ranges() {
    let documents = corpus(&["a"]);
    let cases = [
        (
            PrepareOptions {
                held_out: 1.0,
                ..options()
            },
            "the share of documents held out must be at least 0 and below 1, got 1",
        ),
        (
            PrepareOptions {
                held_out: f64::NAN,
                ..options()
            },
            "the share of documents held out must be at least 0 and below 1, got NaN",
        ),
        (
            PrepareOptions {
                max_tokens: Some(2),
                ..options()
            },
            "the longest record in tokens must be at least 3, got 2",
        ),
        (
            PrepareOptions {
                policy: PolicyOptions {
                    miss_rate: 1.5,
                    ..numbers()
                },
                ..options()
            },
            "the miss rate must be from 0 to 1, got 1.5",
        ),
        (
            PrepareOptions {
                policy: PolicyOptions {
                    false_positive_rate: -1.0,
                    ..numbers()
                },
                ..options()
            },
            "the false-positive rate must be from 0 to 1, got -1",
        ),
    ];
    for (options, message) in cases {
        assert_eq!(
            prepare(&documents, &options).unwrap_err().to_string(),
            message
        );
    }
    for empty in [vec![], corpus(&["", " \n"])] {
        let error = prepare(&empty, &options()).unwrap_err();
        assert!(matches!(error, Error::Empty(_)), "{error}");
    }
    let bad = [Document::new("x", "ab").with_secret(0, 3, "k")];
    assert!(matches!(prepare(&bad, &options()), Err(Error::Span { .. })));
}

fn canaries(spec: &str, carriers: Carriers, sight: CanarySight) -> PrepareOptions {
    let planned = CanaryOptions {
        carriers,
        ..CanaryOptions::new(spec.parse().unwrap())
    };
    PrepareOptions {
        canaries: Some(planned),
        canary_sight: sight,
        ..PrepareOptions::default()
    }
}

#[test]
fn copies_with_varying_carriers_survive_and_others_do_not() {
    let documents = simulate(50, 0).unwrap();
    let varied = prepare(
        &documents,
        &canaries("3x20", Carriers::Vary, CanarySight::default()),
    )
    .unwrap();
    let preflight = varied.facts.canaries.as_ref().unwrap();
    assert!(preflight.passes());
    assert_eq!(preflight.to_string(), "60 of 60 copies survive");
    assert!((0..3).all(|canary| preflight.survivors(canary) == 20));
    let plan = varied.plan.as_ref().unwrap();
    for copy in &preflight.copies {
        assert!(copy.in_context);
        assert_eq!(copy.side, Some(Side::Private));
        let canary = &plan.canaries[copy.canary as usize];
        let record = &varied.training.records[copy.record.unwrap() as usize];
        let text = varied.tokenizer.decode(&record.tokens);
        assert_eq!(text, canary.insertions[copy.copy as usize].text);
    }
    let same = prepare(
        &documents,
        &canaries("3x20", Carriers::Same, CanarySight::default()),
    )
    .unwrap();
    let preflight = same.facts.canaries.as_ref().unwrap();
    assert!(!preflight.passes());
    assert_eq!(
        preflight.to_string(),
        "3 of 60 copies survive; 57 removed by deduplication"
    );
    assert!((0..3).all(|canary| preflight.survivors(canary) == 1));
}

#[test]
fn the_pre_flight_names_the_stage_that_removed_a_copy() {
    let documents = simulate(50, 0).unwrap();
    let rule = PatternRule {
        kind: "id".to_owned(),
        pattern: r"\b\d{6}\b".to_owned(),
    };
    let mut seen = canaries("2x5", Carriers::Vary, CanarySight::Ordinary);
    seen.policy.policy = PolicyChoice::Patterns { rules: vec![rule] };
    let preflight = prepare(&documents, &seen).unwrap().facts.canaries.unwrap();
    assert_eq!(
        preflight.to_string(),
        "0 of 10 copies survive; 10 masked by the redaction policy"
    );

    let mut unseen = seen.clone();
    unseen.canary_sight = CanarySight::MissedByPolicy;
    assert!(
        prepare(&documents, &unseen)
            .unwrap()
            .facts
            .canaries
            .unwrap()
            .passes()
    );

    let mut short = canaries("2x5", Carriers::Vary, CanarySight::default());
    short.max_tokens = Some(20);
    let preflight = prepare(&documents, &short).unwrap().facts.canaries.unwrap();
    assert_eq!(preflight.count(CopyFate::Truncated), 10);
    // "USR: My ID is: " and six digits behind the beginning of text.
    short.max_tokens = Some(22);
    assert!(
        prepare(&documents, &short)
            .unwrap()
            .facts
            .canaries
            .unwrap()
            .passes()
    );

    // A boundary inside the secret.
    let mut split = canaries("1x3", Carriers::Vary, CanarySight::default());
    split.unit = Unit::Sentence;
    split.canaries.as_mut().unwrap().template = "Say {digits:2}. Then {digits:2}".parse().unwrap();
    let preflight = prepare(&documents, &split).unwrap().facts.canaries.unwrap();
    assert_eq!(
        preflight.to_string(),
        "0 of 3 copies survive; 3 cut apart by a unit's boundary"
    );

    // In a dialogue other text stands before the canary.
    let mut dialogue = canaries("1x3", Carriers::Vary, CanarySight::default());
    dialogue.unit = Unit::Dialogue;
    let preflight = prepare(&documents, &dialogue)
        .unwrap()
        .facts
        .canaries
        .unwrap();
    assert!(preflight.passes());
    assert_eq!(
        preflight.to_string(),
        "3 of 3 copies survive, 3 of them behind other text than they are scored behind"
    );
}

#[test]
fn canaries_can_be_missed_by_both_policies() {
    let documents = simulate(50, 0).unwrap();
    for conservative in [None, Some(ConservativeOptions::default())] {
        for (sight, side) in [
            (CanarySight::MissedByPolicy, Side::Private),
            (CanarySight::MissedByBoth, Side::Public),
        ] {
            let options = PrepareOptions {
                conservative: conservative.clone(),
                ..canaries("2x5", Carriers::Vary, sight)
            };
            let prepared = prepare(&documents, &options).unwrap();
            let preflight = prepared.facts.canaries.as_ref().unwrap();
            assert!(preflight.passes());
            assert!(
                preflight.copies.iter().all(|c| c.side == Some(side)),
                "{sight:?}"
            );
            // Canaries are not among the secrets that are counted.
            assert_eq!(prepared.facts.secrets.all.missed, 0);
        }
    }
}

#[test]
fn stability_is_recorded_and_multiplied() {
    let documents = corpus(&["a"]);
    let facts = prepare(&documents, &options()).unwrap().facts;
    assert_eq!(facts.stability(Copies::All), Stability::Bounded(1));
    assert_eq!(facts.stability(Copies::Single), Stability::Bounded(2));
    let kept = PrepareOptions {
        deduplicate: false,
        ..options()
    };
    let facts = prepare(&documents, &kept).unwrap().facts;
    assert_eq!(facts.stability(Copies::Single), Stability::Bounded(1));
    let mut masked = corpus(&["ab"]);
    masked[0].masked = vec![Masked { start: 0, end: 1 }];
    let facts = prepare(&masked, &options()).unwrap().facts;
    assert_eq!(facts.stability(Copies::All), Stability::Bounded(2));
    assert_eq!(
        Stability::Bounded(2).then(Stability::Unbounded),
        Stability::Unbounded
    );
    assert_eq!(
        Stability::Bounded(u64::MAX).then(Stability::Bounded(2)),
        Stability::Unbounded
    );
    let json = serde_json::to_string(&[Stability::Bounded(3), Stability::Unbounded]).unwrap();
    assert_eq!(json, r#"[3,"unbounded"]"#);
    let back: Vec<Stability> = serde_json::from_str(&json).unwrap();
    assert_eq!(back, [Stability::Bounded(3), Stability::Unbounded]);
    assert!(serde_json::from_str::<Stability>("\"large\"").is_err());
}

/// CRT's Proposition 7 with a single copy: {s, s} gives {s, M}, {s′, s} gives {s′, s}: two
/// records differ. With both copies together it is one.
#[test]
fn one_copy_of_two_changes_two_records() {
    let text = "my pin is 12\nmy pin is 12";
    let both = [Document::new("d", text)
        .with_secret(10, 12, "pin")
        .with_secret(23, 25, "pin")];
    let preparer = Preparer::new(
        &both,
        &PrepareOptions {
            conservative: None,
            ..options()
        },
    )
    .unwrap();
    let run = preparer.run().unwrap();
    let mut single = both.clone();
    single[0].masked = vec![Masked { start: 10, end: 12 }];
    let diff = neighbour_diff(&run, &preparer.run_on(&single).unwrap());
    assert_eq!(
        (diff.records, diff.same_split, diff.same_counts),
        (2, true, true)
    );
    let diff = neighbour_diff(&run, &preparer.run_on(&mask_secret(&both, "12")).unwrap());
    assert_eq!(
        (diff.records, diff.same_split, diff.same_counts),
        (1, true, true)
    );
}

/// Where the input holds the masked version already, one distinct unit changes two records.
#[test]
fn masks_in_the_input_cost_a_factor_of_two() {
    let mut documents = [Document::new("d", "pin 12\npin 34").with_secret(4, 6, "pin")];
    documents[0].masked = vec![Masked { start: 11, end: 13 }];
    let preparer = Preparer::new(
        &documents,
        &PrepareOptions {
            conservative: None,
            ..options()
        },
    )
    .unwrap();
    let run = preparer.run().unwrap();
    let diff = neighbour_diff(
        &run,
        &preparer.run_on(&mask_secret(&documents, "12")).unwrap(),
    );
    assert_eq!(diff.records, 2);
    assert_eq!(run.facts.stability(Copies::All), Stability::Bounded(2));
}

#[test]
fn other_numbers_of_points_are_not_aligned() {
    let (one, two) = (corpus(&["a\nb"]), corpus(&["a\nb\nc"]));
    let diff = neighbour_diff(
        &prepare(&one, &options()).unwrap(),
        &prepare(&two, &options()).unwrap(),
    );
    assert!(!diff.aligned && !diff.identical() && !diff.same_split);
    assert_eq!(diff.records, 3);
}
