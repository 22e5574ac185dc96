//! The tagger that ships, the policies made of it, and what its reader refuses.

use super::{found, spans};
use reticent_corpus::Error;
use reticent_corpus::policy::{
    Conservative, ConservativeOptions, EntityKind, Names, PolicyChoice, Role, RoleTag, Tagger,
    Threshold, View,
};
use reticent_corpus::tagger::TaggerModel;
use sha2::{Digest, Sha256};
use std::sync::Arc;

fn shipped() -> Arc<TaggerModel> {
    TaggerModel::shipped().unwrap()
}

/// Made-up sentences, so that none of them was trained on: the tags are facts of English.
#[test]
fn plain_sentences_are_tagged_as_a_reader_would() {
    let model = shipped();
    let words = [
        "Yesterday",
        "Thomas",
        "Bell",
        "sold",
        "the",
        "old",
        "house",
        "to",
        "a",
        "friend",
        "from",
        "Chicago",
        ".",
    ];
    let tags = model.tag_words(&words);
    let speech: Vec<&str> = tags.iter().map(|t| t.part_of_speech()).collect();
    assert_eq!(
        speech,
        [
            "NOUN", "PROPN", "PROPN", "VERB", "DET", "ADJ", "NOUN", "ADP", "DET", "NOUN", "ADP",
            "PROPN", "PUNCT"
        ]
    );
    let roles: Vec<&str> = tags.iter().map(|t| t.role_label()).collect();
    // The head of a name of two words is its first, as in the treebank.
    assert_eq!(
        (roles[1], roles[6], roles[9], roles[11]),
        ("SUBJECT", "OBJECT", "OBJECT", "OBJECT")
    );
    let names: Vec<&str> = tags.iter().map(|t| t.name_label()).collect();
    assert_eq!(
        (names[1], names[2], names[3], names[11]),
        ("B-PER", "I-PER", "O", "B-LOC")
    );
    for tag in tags {
        for sum in [
            tag.speech.iter().sum::<f32>(),
            tag.name.iter().sum(),
            tag.role.iter().sum(),
        ] {
            assert!((sum - 1.0).abs() < 1e-3);
        }
    }
}

/// CRT's appendix A.4: one model, two thresholds; what the tight one masks the loose one
/// covers, and a word in between is flagged and not masked.
#[test]
fn two_thresholds_over_one_model_nest() {
    let text = "Then Priya Nair asked Acme about the Riverside job, and Olaf said no to the Polish firm in Lower Wick; please call alice about it.";
    let at = |least| spans(&Names::new(shipped(), least).unwrap(), text);
    let covers = |least| {
        let found = at(least);
        (0..text.len())
            .filter(|b| found.iter().any(|s| s.start <= *b && *b < s.end))
            .collect::<Vec<_>>()
    };
    let levels = [0.9, 0.5, Names::LEAST, Names::CONSERVATIVE, 0.02].map(covers);
    for pair in levels.windows(2) {
        assert!(pair[0].iter().all(|byte| pair[1].contains(byte)));
    }
    assert!(levels[0].len() < levels[4].len() && !levels[1].is_empty());
    for span in at(Names::LEAST) {
        assert!(span.score >= Names::LEAST && span.score <= 1.0 && &*span.source == "names");
    }
    // The general threshold over the loose policy drops what the tight one has not.
    let narrow = Threshold::new(Arc::new(Names::new(shipped(), 0.02).unwrap()), 0.5).unwrap();
    for span in spans(&narrow, text) {
        assert!(span.score >= 0.5);
        // No word in it is less sure than the threshold.
        assert!(
            (span.start..span.end)
                .all(|byte| text.as_bytes()[byte] == b' ' || levels[1].contains(&byte))
        );
    }
    // Words below 0.02 are not reported, so a lower threshold would promise more than it finds.
    for least in [1.5, 0.01] {
        assert!(Names::new(shipped(), least).is_err());
    }
}

/// Says `one` with 0.9 and `two` with 0.3.
#[derive(Debug)]
struct Fixed;

impl Tagger for Fixed {
    fn tag(&self, text: &str, found: &mut Vec<RoleTag>) {
        for (word, score) in [("one", 0.9), ("two", 0.3)] {
            let at = text.find(word).unwrap();
            found.push(RoleTag {
                range: at..at + 3,
                role: Role::Entity(EntityKind::Person),
                score,
            });
        }
    }
}

#[test]
fn a_name_is_as_sure_as_its_least_sure_word() {
    let names = Names::new(Arc::new(Fixed), 0.1).unwrap();
    let found = spans(&names, "say one two");
    assert_eq!(found.len(), 1);
    assert!((found[0].start, found[0].end) == (4, 11) && (found[0].score - 0.3).abs() < 1e-6);
    // What stands apart is apart.
    assert_eq!(spans(&names, "say one, two").len(), 2);
    assert_eq!(
        spans(&Names::new(Arc::new(Fixed), 0.5).unwrap(), "say one two").len(),
        1
    );
}

#[test]
fn the_conservative_policy_flags_what_may_be_a_name() {
    let only = |names| ConservativeOptions {
        digits: false,
        capitals: false,
        policy: false,
        names,
        onnx: None,
        patterns: Vec::new(),
    };
    let base = PolicyChoice::Nothing.build().unwrap();
    let flags = |names, text: &str| {
        Conservative::new(Some(&only(names)), &base)
            .unwrap()
            .flags(&View { text, secrets: &[] })
    };
    assert!(flags(
        Some(Names::CONSERVATIVE),
        "please call alice about it"
    ));
    assert!(flags(Some(Names::CONSERVATIVE), "We met Alice there."));
    assert!(!flags(Some(Names::CONSERVATIVE), "It is on the table."));
    assert!(!flags(None, "We met Alice there."));
}

#[test]
fn names_are_a_policy_by_name_with_its_kinds() {
    let policy = PolicyChoice::Names {
        least: Names::LEAST,
    }
    .build()
    .unwrap();
    assert_eq!(
        found(policy.as_ref(), "Send it to Mary Watson in Boston."),
        [("person", "Mary Watson"), ("loc", "Boston")].map(|(k, t)| (k.to_owned(), t.to_owned()))
    );
    let json = r#"{"type":"names"}"#;
    assert_eq!(
        serde_json::from_str::<PolicyChoice>(json).unwrap(),
        PolicyChoice::Names { least: 0.3 }
    );
}

/// Any text at all: spans on boundaries of characters, scores in [0, 1], no panic.
#[test]
fn any_text_is_tagged_without_harm() {
    let long = "Word ".repeat(3000);
    let texts = [
        "",
        " ",
        "\u{fffc}",
        "é😀\u{301}’s",
        "'''",
        "....!!??",
        "@",
        "http://",
        "A\u{0}B\r\n\rC",
        &long,
    ];
    for text in texts {
        let mut tags = Vec::new();
        shipped().tag(text, &mut tags);
        let mut names = Vec::new();
        shipped().names(text, &mut names);
        tags.retain(|tag| matches!(tag.role, Role::Entity(_)));
        assert_eq!(names, tags, "{text:?}");
        for tag in tags {
            assert!(text.get(tag.range).is_some());
            assert!((0.0..=1.001).contains(&tag.score));
        }
    }
}

/// Accents that stand by themselves, as some systems write them, are part of their letters.
#[test]
fn names_are_found_however_their_accents_are_written() {
    use unicode_normalization_alignments::UnicodeNormalization;
    let policy = PolicyChoice::General.build().unwrap();
    for text in [
        "Please contact José Núñez in Madrid.",
        "Please contact Şükrü Öztürk today.",
        "Send it to Nguyễn Thị Minh Khai.",
        "Zoë Müller wrote to François Côté.",
    ] {
        let apart: String = text.nfd().map(|(c, _)| c).collect();
        let composed = found(policy.as_ref(), text);
        let same = found(policy.as_ref(), &apart).into_iter();
        let same: Vec<_> = same
            .map(|(kind, name)| (kind, name.nfc().map(|(c, _)| c).collect::<String>()))
            .collect();
        assert!(!composed.is_empty(), "{text}");
        assert_eq!(same, composed, "{text}");
    }
    for text in [
        "\u{301}",
        "\u{301}Mary Watson",
        "Mary Watson\u{301}\u{301} x\u{301}",
        "\u{301}\u{323} é",
    ] {
        for span in spans(policy.as_ref(), text) {
            assert!(!text[span.end..].starts_with('\u{301}'), "{text:?}");
        }
    }
}

/// Sums of words and pairs that were met before are what they are without: the same names in any order of texts, by
/// many threads, and word by word.
#[test]
fn names_are_the_same_with_and_without_words_met_before() {
    let documents = reticent_corpus::simulate::simulate(60, 3).unwrap();
    let entities = |model: &TaggerModel, text: &str| {
        let mut tags = Vec::new();
        model.tag(text, &mut tags);
        tags.retain(|tag| matches!(tag.role, Role::Entity(_)));
        tags
    };
    let model = shipped();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (model, documents) = (&model, &documents);
            scope.spawn(move || {
                for at in 0..documents.len() {
                    let text = &documents[(at * 7 + thread) % documents.len()].text;
                    let mut names = Vec::new();
                    model.names(text, &mut names);
                    assert_eq!(names, entities(model, text));
                }
            });
        }
    });
    // More different words than are kept.
    let many: String = (0..40_000).map(|n| format!("Word{n} of Paris. ")).collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    model.names(&many, &mut first);
    model.names(&many, &mut second);
    assert_eq!(first, entities(&model, &many));
    assert_eq!(first, second);
}

fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let digest = Sha256::digest(&body);
    body.extend(digest);
    body
}

#[test]
fn a_model_that_is_damaged_is_refused() {
    let bytes = shipped().to_bytes();
    let refused = |bytes: &[u8]| match TaggerModel::from_bytes(bytes) {
        Err(Error::Tagger(problem)) => problem,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a damaged model was read"),
    };
    assert!(refused(b"").contains("digest"));
    assert!(refused(&bytes[..bytes.len() - 1]).contains("digest"));
    let mut flipped = bytes.clone();
    flipped[5000] ^= 1;
    assert!(refused(&flipped).contains("digest"));
    // With a digest of its own the content is checked all the same.
    let body = &bytes[..bytes.len() - 32];
    let with = |at: usize, new: &[u8]| {
        let mut body = body.to_vec();
        body[at..at + new.len()].copy_from_slice(new);
        sealed(body)
    };
    assert!(refused(&with(0, b"X")).contains("RTAGGER3"));
    assert!(refused(&with(8, &18u32.to_le_bytes())).contains("17 labels"));
    assert!(refused(&with(12, &u32::MAX.to_le_bytes())).contains("features"));
    assert!(refused(&with(12, &4_000_000u32.to_le_bytes())).contains("bytes wanted"));
    assert!(refused(&with(16, &f32::NAN.to_le_bytes())).contains("scale"));
    assert!(refused(&with(20, &1e9f32.to_le_bytes())).contains("transition"));
    let hashes = 20 + 18 * 17 * 4;
    let features = u32::from_le_bytes(body[12..16].try_into().unwrap()) as usize;
    let mut equal = body.to_vec();
    let mut beyond = body.to_vec();
    for plane in 0..4 {
        equal[hashes + plane * features + 1] = 0;
        beyond[hashes + plane * features + 1] = 255;
    }
    assert!(refused(&sealed(equal)).contains("rise"));
    assert!(refused(&sealed(beyond)).contains("rise"));
    assert!(refused(&sealed(body[..body.len() - 1].to_vec())).contains("bytes wanted"));
    assert!(refused(&sealed([body, &[0]].concat())).contains("too many"));
}

/// The card names the file it describes.
#[test]
fn the_card_is_that_of_the_model() {
    let card = include_str!("../../models/tagger.md");
    let digest: String = Sha256::digest(shipped().to_bytes())
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert!(card.contains(&digest), "the card does not have {digest}");
}
