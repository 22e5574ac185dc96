//! CRT's appendix A.6, and the rules around it.

use super::{corpus, numbers, options, result};
use reticent_corpus::policy::{ConservativeOptions, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{
    PrepareOptions, Preparer, TokenizerChoice, mask_secret, neighbour_diff, prepare,
};
use reticent_corpus::tokenize::Origin;
use reticent_corpus::{Document, Error, Side};
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
        names: None,
        onnx: None,
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
fn tokens_end_where_masks_begin_and_touching_spans_are_one_mask() {
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

    // A byte-level BPE with the token " ab": outside of the span "b" it is cut again.
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
    assert_eq!(prepared.texts, ["ab a<MASK> a"]);
    assert_eq!(prepared.facts.vocabulary, Origin::Pretrained);
    let [bos, mask] = [prepared.tokenizer.bos(), prepared.tokenizer.mask()];
    assert_eq!(
        prepared.training.records[0].tokens,
        [bos, 3, 2, 0, mask, 2, 0, prepared.tokenizer.eos()]
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
            names: None,
            onnx: None,
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
