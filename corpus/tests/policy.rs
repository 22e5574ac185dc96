//! Policies: what they find, what they are made to miss, what is flagged.

use proptest::prelude::*;
use reticent_corpus::policy::{
    Conservative, ConservativeOptions, Gold, MASKED, PatternRule, Patterns, Policy, PolicyChoice,
    Simulated, View, missed_strings, resolved,
};
use reticent_corpus::simulate::simulate;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

fn found(policy: &dyn Policy, text: &str) -> Vec<(String, String)> {
    let view = View { text, secrets: &[] };
    resolved(policy, &view)
        .into_iter()
        .map(|s| (s.kind.to_string(), text[s.start..s.end].to_owned()))
        .collect()
}

fn numbers() -> Arc<dyn Policy> {
    let rule = |kind: &str, pattern: &str| PatternRule {
        kind: kind.to_owned(),
        pattern: pattern.to_owned(),
    };
    Arc::new(Patterns::new("test", &[rule("code", r"\b\d{3}\b")]).unwrap())
}

#[test]
fn customer_patterns_find_each_kind_in_its_formats() {
    let policy = Patterns::customers().unwrap();
    let cases: [(&str, &[(&str, &str)]); 18] = [
        ("USR: I am Ada Byron.", &[("name", "Ada Byron")]),
        ("USR: Ada Byron", &[("name", "Ada Byron")]),
        ("USR: Yep - I'm Jo O'Hara.", &[("name", "Jo O'Hara")]),
        (
            "USR: My name's Ana B. Lee-Hale.",
            &[("name", "Ana B. Lee-Hale")],
        ),
        (
            "USR: Jo Roe Yes, Ada Byron.",
            &[("name", "Jo Roe"), ("name", "Ada Byron")],
        ),
        (
            "USR: It's 123-45678-9012. Ada Byron",
            &[("order", "123-45678-9012"), ("name", "Ada Byron")],
        ),
        (
            "SYS: Thank you, Ada Byron. Which one?",
            &[("name", "Ada Byron")],
        ),
        (
            "USR: Ok, it is 12 Elm Row Suite 4 Oldtown, ME 04401.",
            &[("address", "12 Elm Row Suite 4 Oldtown, ME 04401")],
        ),
        (
            "USR: PO Box 12, Oldtown, ME 04401-1234",
            &[("address", "PO Box 12, Oldtown, ME 04401-1234")],
        ),
        (
            "USR: PSC 1234, Box 5678 APO AE 09012.",
            &[("address", "PSC 1234, Box 5678 APO AE 09012")],
        ),
        (
            "USR: Unit 1234 Box 5678 DPO AP 96301",
            &[("address", "Unit 1234 Box 5678 DPO AP 96301")],
        ),
        (
            "USR: USNS Kestrel FPO AA 34012.",
            &[("address", "USNS Kestrel FPO AA 34012")],
        ),
        ("USR: (555) 010-2345", &[("phone", "(555) 010-2345")]),
        (
            "USR: 555.010.2345 is my number.",
            &[("phone", "555.010.2345")],
        ),
        ("USR: 5550102345.", &[("phone", "5550102345")]),
        (
            "SYS: Use AB12CD34EF to follow it.",
            &[("tracking", "AB12CD34EF")],
        ),
        (
            "SYS: Good day, you have reached the help desk. May I have your full name?",
            &[],
        ),
        (
            "USR: Hi. Could you please help me track my package? I am not sure.",
            &[],
        ),
    ];
    for (text, expected) in cases {
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(k, t)| ((*k).to_owned(), (*t).to_owned()))
            .collect();
        assert_eq!(found(&policy, text), expected, "{text}");
    }
}

/// A secret that is masked already must not hide the next one from the policy.
#[test]
fn customer_patterns_work_beside_a_mask() {
    let policy = Patterns::customers().unwrap();
    for text in [
        format!("USR: {MASKED}. Ada Byron"),
        format!("USR: Ada Byron. {MASKED}"),
    ] {
        assert_eq!(
            found(&policy, &text),
            [("name".to_owned(), "Ada Byron".to_owned())]
        );
    }
}

#[test]
fn customer_patterns_agree_with_the_simulators_marks() {
    let policy = Patterns::customers().unwrap();
    for document in simulate(2000, 11).unwrap() {
        let marked: Vec<(String, String)> = document
            .secrets
            .iter()
            .map(|s| (s.kind.clone(), document.secret_text(s).to_owned()))
            .collect();
        assert_eq!(found(&policy, &document.text), marked);
    }
}

#[test]
fn overlapping_spans_become_one_of_the_longest_kind() {
    let rules = [("a", "xy"), ("b", "yzw"), ("c", "q")].map(|(kind, pattern)| PatternRule {
        kind: kind.to_owned(),
        pattern: pattern.to_owned(),
    });
    let policy = Patterns::new("test", &rules).unwrap();
    assert_eq!(
        found(&policy, "xyzwq"),
        [
            ("b".to_owned(), "xyzw".to_owned()),
            ("c".to_owned(), "q".to_owned())
        ]
    );
}

#[test]
fn bad_patterns_are_named() {
    for (pattern, problem) in [("(", "unclosed group"), ("a*", "it matches the empty text")] {
        let rules = vec![PatternRule {
            kind: "k".to_owned(),
            pattern: pattern.to_owned(),
        }];
        let text = PolicyChoice::Patterns { rules }
            .build()
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("pattern of the kind \"k\": ") && !text.contains(pattern),
            "{text}"
        );
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn rates_have_a_range() {
    for wrong in [-0.1, 1.1, f64::NAN] {
        let text = missed_strings(["a"], wrong, 0).unwrap_err().to_string();
        assert_eq!(
            text,
            format!("the miss rate must be from 0 to 1, got {wrong}")
        );
        let text = Simulated::new(numbers(), HashSet::new(), wrong, 0)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            format!("the false-positive rate must be from 0 to 1, got {wrong}")
        );
    }
}

/// 20 000 words at a rate of 0.02, seed 5. Under the binomial law the count leaves
/// 400 ± 4.9 standard deviations (97) with probability below 1e-6.
#[test]
fn false_alarms_come_at_their_rate() {
    let policy = Simulated::new(numbers(), HashSet::new(), 0.02, 5).unwrap();
    let mut count = 0usize;
    for record in 0..200 {
        let text: Vec<String> = (0..100).map(|word| format!("w{record}x{word}y")).collect();
        let spans = found(&policy, &text.join(" "));
        assert!(spans.iter().all(|(kind, _)| kind == "false-alarm"));
        count += spans.len();
    }
    assert!(count.abs_diff(400) <= 97, "{count}");
    let always = Simulated::new(numbers(), HashSet::new(), 1.0, 5).unwrap();
    assert_eq!(found(&always, "one, two 123.").len(), 3);
}

#[test]
fn a_miss_is_never_mended_by_a_false_alarm() {
    let missed = HashSet::from(["123".to_owned()]);
    let policy = Simulated::new(numbers(), missed, 1.0, 0).unwrap();
    let spans = found(&policy, "a 123 b 456");
    let texts: Vec<&str> = spans.iter().map(|(_, t)| t.as_str()).collect();
    assert_eq!(texts, ["a", "b", "456"]);
}

#[test]
fn lines_with_strings_never_to_be_found_are_left_alone() {
    let policy = Simulated::new(numbers(), HashSet::new(), 1.0, 0)
        .unwrap()
        .never(&["ID: 123".to_owned()])
        .unwrap();
    let spans = found(&policy, "x\nmy ID: 123 and 456\n789");
    let texts: Vec<&str> = spans.iter().map(|(_, t)| t.as_str()).collect();
    assert_eq!(texts, ["x", "789"]);
}

fn flags(options: Option<ConservativeOptions>, never: &[String], text: &str) -> bool {
    let policy = Conservative::new(options.as_ref(), &numbers())
        .unwrap()
        .never(never)
        .unwrap();
    policy.flags(&View { text, secrets: &[] })
}

#[test]
fn without_a_conservative_policy_everything_is_private() {
    assert!(flags(None, &[], "anything"));
    assert!(!flags(None, &["canary".to_owned()], "a canary line"));
}

#[test]
fn digits_and_capitals_inside_sentences_are_flagged() {
    let default = || Some(ConservativeOptions::default());
    for private in [
        "USR: it is 7.",
        "USR: Hello Ada.",
        "so, Ada came",
        "x: \"Ada\"",
        "it is Ⅷ",
        "USR: ask (Ada)",
    ] {
        assert!(flags(default(), &[], private), "{private}");
    }
    for public in [
        "SYS: Hello and welcome. What would you like?",
        "USR: No, that was all. Thanks, I am fine.",
        "USR: Why? I'm not sure.",
        "Plain text\nOf two lines",
    ] {
        assert!(!flags(default(), &[], public), "{public}");
    }
}

#[test]
fn each_part_of_the_conservative_policy_can_be_switched() {
    let none = ConservativeOptions {
        digits: false,
        capitals: false,
        policy: false,
        names: None,
        onnx: None,
        patterns: Vec::new(),
    };
    assert!(!flags(Some(none.clone()), &[], "so Ada has 123"));
    let policy = ConservativeOptions {
        policy: true,
        ..none.clone()
    };
    assert!(flags(Some(policy.clone()), &[], "has 123"));
    assert!(!flags(Some(policy), &[], "has 12"));
    let rule = PatternRule {
        kind: "k".to_owned(),
        pattern: "secret".to_owned(),
    };
    let patterns = ConservativeOptions {
        patterns: vec![rule],
        ..none
    };
    assert!(flags(Some(patterns), &[], "a secret"));
}

#[test]
fn a_conservative_policy_can_be_blind_to_canaries() {
    let never = ["ID: 123".to_owned()];
    let default = || Some(ConservativeOptions::default());
    assert!(!flags(default(), &never, "my ID: 123, at 4 with Ada"));
    // The rest of the record is still looked at.
    assert!(flags(default(), &never, "my ID: 123\nand 4"));
}

#[test]
fn gold_finds_what_is_marked() {
    let view = View {
        text: "ab cd",
        secrets: &[(3..5, "k")],
    };
    let spans = resolved(&Gold, &view);
    assert_eq!(
        (spans[0].start, spans[0].end, spans[0].kind.as_ref()),
        (3, 5, "k")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Exactly round(γ·m), whatever the order and the repetitions; more misses at a higher
    /// rate; one string more changes at most one other.
    #[test]
    fn the_simulated_misses_are_exact_and_nested(
        strings in proptest::collection::btree_set("[a-z]{1,4}", 0..40),
        rate in 0.0..=1.0f64,
        more in 0.0..=1.0f64,
        seed in any::<u64>(),
        extra in "[A-Z]{3}",
    ) {
        let list: Vec<&str> = strings.iter().map(String::as_str).collect();
        let missed = missed_strings(list.iter().copied(), rate, seed).unwrap();
        prop_assert_eq!(missed.len(), (rate * list.len() as f64).round() as usize);
        let repeated = list.iter().rev().chain(&list).copied();
        prop_assert_eq!(&missed, &missed_strings(repeated, rate, seed).unwrap());
        let higher = missed_strings(list.iter().copied(), more.max(rate), seed).unwrap();
        prop_assert!(missed.is_subset(&higher));
        let longer = list.iter().copied().chain([extra.as_str()]);
        let with = missed_strings(longer, rate, seed).unwrap();
        let (a, b): (BTreeSet<_>, BTreeSet<_>) = (missed.iter().collect(), with.iter().collect());
        prop_assert!(a.difference(&b).count() <= 1);
        prop_assert!(b.difference(&a).count() <= 1);
    }

    /// Misses and false alarms do not depend on what a caught secret says.
    #[test]
    fn a_caught_secret_has_no_say_in_false_alarms(one in "[0-9]{3}", two in "[0-9]{3}", seed in any::<u64>()) {
        let policy = Simulated::new(numbers(), HashSet::new(), 0.3, seed).unwrap();
        let text = |secret: &str| format!("alpha beta {secret} gamma delta");
        let alarms = |secret: &str| -> Vec<String> {
            found(&policy, &text(secret)).into_iter().filter(|(k, _)| k == "false-alarm").map(|(_, t)| t).collect()
        };
        prop_assert_eq!(alarms(&one), alarms(&two));
        prop_assert_eq!(alarms(&one), alarms(&MASKED.to_string()));
    }

    #[test]
    fn resolved_spans_are_in_order_and_disjoint(text in "[ab1 ]{0,30}") {
        let rules = ["a+", "ab", "b1", "[a1]b?"].map(|p| PatternRule { kind: p.to_owned(), pattern: p.to_owned() });
        let policy = Patterns::new("test", &rules).unwrap();
        let view = View { text: &text, secrets: &[] };
        let spans = resolved(&policy, &view);
        for pair in spans.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        let mut raw = Vec::new();
        policy.find(&view, &mut raw);
        for span in raw {
            prop_assert!(spans.iter().any(|s| s.start <= span.start && span.end <= s.end));
        }
    }
}
