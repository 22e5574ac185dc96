//! Dictionaries and policies made of policies.

use super::{found, spans};
use proptest::prelude::*;
use reticent_corpus::policy::{
    AtLeast, Dictionary, DictionaryOptions, PatternRule, Patterns, Policy, PolicyChoice, Span,
    Threshold, View,
};
use reticent_corpus::redaction::redacted_text;
use std::sync::Arc;

fn dictionary(words: &[&str], case_sensitive: bool, whole_words: bool) -> Dictionary {
    Dictionary::new(&DictionaryOptions {
        kind: "place".to_owned(),
        words: words.iter().map(|w| (*w).to_owned()).collect(),
        case_sensitive,
        whole_words,
    })
    .unwrap()
}

#[test]
fn a_dictionary_finds_whole_words_in_any_case_unless_told_otherwise() {
    let policy = dictionary(&["york", "A."], false, true);
    let texts: Vec<String> = found(&policy, "York, yorkshire, new-york; éyork a. b")
        .into_iter()
        .map(|(_, t)| t)
        .collect();
    assert_eq!(texts, ["York", "york", "a."]);
    assert_eq!(
        spans(&dictionary(&["york"], false, false), "yorkshire").len(),
        1
    );
    assert_eq!(spans(&dictionary(&["york"], true, true), "York").len(), 0);
}

/// However it is typed: composed or not, over a line break, with other quotation marks, escaped. An accent makes another
/// letter, and a mark behind a word continues it.
#[test]
fn a_dictionary_finds_words_however_they_are_typed() {
    let words = [
        "Zo\u{eb} O'Neil",
        "Ada \u{200b} King",
        "42 Rue",
        "\u{1f0}on",
    ];
    let policy = dictionary(&words, false, true);
    for (text, word) in [
        ("Ada \u{200b} King.", "Ada \u{200b} King"),
        ("Ada \u{200b}King", "Ada \u{200b}King"),
        ("\u{200b}J\u{30c}on x", "J\u{30c}on"),
        ("Zoe\u{200d}\u{308} O'Neil", "Zoe\u{200d}\u{308} O'Neil"),
        ("by Zoe\u{308} O\u{2019}NEIL.", "Zoe\u{308} O\u{2019}NEIL"),
        ("ZO\u{cb}\u{a0}O'Neil", "ZO\u{cb}\u{a0}O'Neil"),
        ("ada\r\n king", "ada\r\n king"),
        (r"a\nAda\u0020King\n", r"Ada\u0020King"),
        ("q=ada%20king&x", "ada%20king"),
        ("A\u{ad}da King", "A\u{ad}da King"),
        ("\u{ff14}2&nbsp;rue", "\u{ff14}2&nbsp;rue"),
    ] {
        assert_eq!(
            found(&policy, text),
            [("place".to_owned(), word.to_owned())]
        );
    }
    for text in [
        "Zoe O'Neil",
        "Adam King",
        "Ada King\u{301}",
        "Ada_King",
        "AdaKing",
    ] {
        assert!(found(&policy, text).is_empty(), "{text}");
    }
    let exact = dictionary(&["Ada King"], true, true);
    assert_eq!(spans(&exact, "ada king, Ada\tKing").len(), 1);
}

/// The first phrase must not swallow the beginning of the second.
#[test]
fn overlapping_words_are_all_found() {
    let policy = dictionary(&["new york", "york city"], false, true);
    assert_eq!(found(&policy, "in New York City now")[0].1, "New York City");
}

/// What is found is counted by its kind.
#[test]
fn a_kind_without_a_name_is_refused() {
    let rule = PatternRule {
        kind: String::new(),
        pattern: "ada".to_owned(),
    };
    let words = DictionaryOptions {
        kind: " ".to_owned(),
        words: vec!["ada".to_owned()],
        case_sensitive: false,
        whole_words: true,
    };
    let errors = [
        Patterns::new("patterns", &[rule]).unwrap_err(),
        Dictionary::new(&words).unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            "the kind of a pattern must be a name, got \"\"",
            "the kind of a dictionary must be a name, got \" \"",
        ]
    );
}

#[test]
fn an_empty_dictionary_or_word_is_named() {
    for (words, said) in [
        (
            vec![],
            "the number of words of a dictionary must be at least 1, got 0",
        ),
        (
            vec!["a", " "],
            "a word of a dictionary must be more than white space, got \" \" (number 2)",
        ),
    ] {
        let error = Dictionary::new(&DictionaryOptions {
            kind: "k".to_owned(),
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            case_sensitive: false,
            whole_words: true,
        })
        .unwrap_err();
        assert_eq!(error.to_string(), said);
    }
}

/// Spans given beforehand.
#[derive(Debug)]
struct Fixed(Vec<(usize, usize, f32)>);

impl Policy for Fixed {
    fn find(&self, _: &View<'_>, spans: &mut Vec<Span>) {
        spans.extend(self.0.iter().map(|&(start, end, score)| Span {
            start,
            end,
            kind: "k".into(),
            source: "fixed".into(),
            score,
        }));
    }
}

/// Forgets what it was given, and finds nothing.
#[derive(Debug)]
struct Clearing;

impl Policy for Clearing {
    fn find(&self, _: &View<'_>, spans: &mut Vec<Span>) {
        spans.clear();
    }
}

/// The text of what `policy` leaves of a record, by itself and inside of other policies.
fn left(policy: Fixed, text: &str) -> Vec<String> {
    let policy: Arc<dyn Policy> = Arc::new(policy);
    let nothing: Arc<dyn Policy> = Arc::new(Clearing);
    let all: Arc<dyn Policy> = Arc::new(Fixed(vec![(0, usize::MAX, 1.0)]));
    [
        policy.clone(),
        Arc::new(AtLeast::new(vec![policy.clone(), nothing], 1).unwrap()),
        Arc::new(AtLeast::new(vec![policy.clone(), all], 2).unwrap()),
        Arc::new(Threshold::new(policy, 0.5).unwrap()),
    ]
    .iter()
    .map(|policy| redacted_text(policy.as_ref(), text))
    .collect()
}

/// Spans of a policy of one's own are widened to characters and cut at the end; of one that names no place in the record
/// nothing is believed, and nothing of the record stays.
#[test]
fn spans_that_do_not_fit_mask_more_and_not_less() {
    let text = "name Zoë, 7 €";
    for (spans, masked) in [
        (vec![(5, 9, 0.9)], "name <MASK>, 7 €"),
        // The ends are inside of ë and of €.
        (vec![(5, 8, 0.9)], "name <MASK>, 7 €"),
        (vec![(8, 11, 0.9)], "name Zo<MASK>7 €"),
        (vec![(14, 15, 0.9)], "name Zoë, 7 <MASK>"),
        (vec![(13, 99, 0.9)], "name Zoë, 7 <MASK>"),
        (vec![(16, 99, 0.9), (3, 3, 0.9)], text),
        (vec![(9, 5, 0.9)], "<MASK>"),
        (vec![(99, 100, 0.9)], "<MASK>"),
        (vec![(5, 9, 0.9), (usize::MAX, 0, 0.1)], "<MASK>"),
    ] {
        let shown = format!("{spans:?}");
        assert_eq!(left(Fixed(spans), text), [masked; 4], "{shown}");
    }
}

/// A policy that changes the list it is given takes nothing from what the others found.
#[test]
fn no_policy_removes_what_another_found() {
    let clearing: Arc<dyn Policy> = Arc::new(Clearing);
    let fixed: Arc<dyn Policy> = Arc::new(Fixed(vec![(2, 4, 0.9)]));
    let over: Arc<dyn Policy> = Arc::new(Threshold::new(clearing.clone(), 0.5).unwrap());
    for others in [vec![fixed.clone(), clearing], vec![fixed, over]] {
        let any = AtLeast::new(others, 1).unwrap();
        assert_eq!(redacted_text(&any, TEXT), "01<MASK>456789");
    }
}

const TEXT: &str = "0123456789";

fn bytes(spans: &[Span]) -> Vec<bool> {
    (0..TEXT.len())
        .map(|at| spans.iter().any(|s| s.start <= at && at < s.end))
        .collect()
}

#[test]
fn the_score_of_an_agreement_is_that_of_its_least_sure_voter() {
    let policies: Vec<Arc<dyn Policy>> = vec![
        Arc::new(Fixed(vec![(0, 6, 0.9)])),
        Arc::new(Fixed(vec![(2, 8, 0.5)])),
        Arc::new(Fixed(vec![(2, 4, 0.7)])),
    ];
    let agreed = |count| {
        spans(&AtLeast::new(policies.clone(), count).unwrap(), TEXT)
            .iter()
            .map(|s| (s.start, s.end, s.score))
            .collect::<Vec<_>>()
    };
    assert_eq!(agreed(3), [(2, 4, 0.5)]);
    assert_eq!(agreed(2), [(2, 6, 0.7)]);
    for wrong in [0, 4] {
        let text = AtLeast::new(policies.clone(), wrong)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            format!(
                "how many policies must agree must be from 1 to 3, the number of policies, got {wrong}"
            )
        );
    }
}

/// Whatever the others find in it: another run may examine the record.
#[test]
fn a_record_that_one_policy_cannot_examine_is_found_whole() {
    let rule = PatternRule {
        kind: "not-examined".to_owned(),
        pattern: "^slow.*$".to_owned(),
    };
    let both = AtLeast::new(
        vec![
            Arc::new(Patterns::new("patterns", &[rule]).unwrap()),
            Arc::new(dictionary(&["ada"], false, true)),
        ],
        2,
    )
    .unwrap();
    let whole = ("not-examined".to_owned(), "slow ada".to_owned());
    assert_eq!(found(&both, "slow ada"), [whole]);
    assert!(found(&both, "here ada").is_empty());
}

#[test]
fn a_threshold_keeps_what_reaches_it_and_what_has_no_score() {
    let base: Arc<dyn Policy> = Arc::new(Fixed(vec![(0, 1, 0.5), (2, 3, 0.49), (4, 5, f32::NAN)]));
    let kept = spans(&Threshold::new(base.clone(), 0.5).unwrap(), TEXT);
    assert_eq!(kept.iter().map(|s| s.start).collect::<Vec<_>>(), [0, 4]);
    for wrong in [-0.1, 1.5, f32::NAN] {
        let text = Threshold::new(base.clone(), wrong).unwrap_err().to_string();
        assert_eq!(
            text,
            format!("the threshold must be from 0 to 1, got {wrong}")
        );
    }
}

#[test]
fn compositions_are_read_from_json() {
    let text = r#"{"type":"threshold","least":0.9,"of":{"type":"any","of":[
        {"type":"detectors","kinds":["email"]},
        {"type":"dictionary","kind":"name","words":["Ada"]},
        {"type":"level","level":"low-entity"}]}}"#;
    let choice: PolicyChoice = serde_json::from_str(text).unwrap();
    let policy = choice.build().unwrap();
    let kinds: Vec<String> = found(policy.as_ref(), "ask Ada at ada@example.org or Bob")
        .into_iter()
        .map(|(k, _)| k)
        .collect();
    // The tagger is sure enough of Bob.
    assert_eq!(kinds, ["name", "email", "person"]);
    let again = serde_json::to_string(&choice).unwrap();
    assert_eq!(
        serde_json::from_str::<PolicyChoice>(&again).unwrap(),
        choice
    );
    let wrong = r#"{"type":"detectors","kind":["email"]}"#;
    assert!(serde_json::from_str::<PolicyChoice>(wrong).is_err());
}

#[test]
fn policies_inside_policies_end() {
    let mut choice = PolicyChoice::Gold;
    for _ in 0..17 {
        choice = PolicyChoice::Any { of: vec![choice] };
    }
    let text = choice.build().unwrap_err().to_string();
    assert_eq!(
        text,
        "the depth of policies inside policies must be at most 16, got 17"
    );
    let nobody = PolicyChoice::All { of: vec![] };
    assert!(
        nobody
            .build()
            .unwrap_err()
            .to_string()
            .contains("must agree")
    );
}

fn fixed() -> impl Strategy<Value = Vec<(usize, usize, f32)>> {
    let span = (0..TEXT.len(), 1..5usize, 0.0..1.0f32);
    proptest::collection::vec(
        span.prop_map(|(s, l, p)| (s, (s + l).min(TEXT.len()), p)),
        0..4,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// A byte is masked exactly when so many policies cover it; any holds each, each holds all.
    #[test]
    fn agreement_is_counted_byte_by_byte(each in proptest::collection::vec(fixed(), 1..5)) {
        let policies: Vec<Arc<dyn Policy>> = each.iter().map(|f| Arc::new(Fixed(f.clone())) as Arc<dyn Policy>).collect();
        let covers: Vec<Vec<bool>> = policies.iter().map(|p| bytes(&spans(p.as_ref(), TEXT))).collect();
        for count in 1..=policies.len() {
            let policy = AtLeast::new(policies.clone(), count).unwrap();
            let expected: Vec<bool> = (0..TEXT.len())
                .map(|at| covers.iter().filter(|c| c[at]).count() >= count)
                .collect();
            prop_assert_eq!(bytes(&spans(&policy, TEXT)), expected);
        }
    }
}
