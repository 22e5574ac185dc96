//! Templates and specifications.

use super::template;
use reticent_corpus::canary::{CanaryTemplate, Spec};

#[test]
fn templates_count_their_candidates() {
    let cases: [(&str, u128); 6] = [
        ("My ID is: {digits:6}", 1_000_000),
        ("name {letters:4}", 456_976),
        ("code {upper:1}{digits:2}-{list:red|blue|green}.", 7_800),
        ("x {list:only}", 1),
        ("x {letters:27}", 26u128.pow(27)),
        ("x {digits:1} and {digits:1}", 100),
    ];
    for (text, candidates) in cases {
        assert_eq!(template(text).candidates(), candidates, "{text}");
    }
    let two = template("Call {digits:2} or {list:a|b}!");
    assert_eq!((two.prefix(), two.suffix()), ("Call ", "!"));
    assert!(two.matches("07 or b"));
    for wrong in ["07 or c", "7 or b", "07 or b!", "", "07 or"] {
        assert!(!two.matches(wrong), "{wrong}");
    }
    assert_eq!(CanaryTemplate::default(), template("My ID is: {digits:6}"));
}

#[test]
fn bad_templates_say_what_is_wrong() {
    let cases = [
        ("", "it has no field; give one such as {digits:6}"),
        ("plain", "it has no field; give one such as {digits:6}"),
        (
            "{digits:6}",
            "it needs literal text before its first field, to score the secret in",
        ),
        (
            "x {digits}",
            "field {digits} has no colon; write {digits:6}",
        ),
        (
            "x {digits:0}",
            "digits takes a number from 1 to 64, got \"0\"",
        ),
        (
            "x {letters:65}",
            "letters takes a number from 1 to 64, got \"65\"",
        ),
        (
            "x {upper:-1}",
            "upper takes a number from 1 to 64, got \"-1\"",
        ),
        (
            "x {words:2}",
            "unknown field \"words\"; there are digits, letters, upper and list",
        ),
        ("x {list:}", "item 1 of the list is empty"),
        ("x {list:a||b}", "item 2 of the list is empty"),
        (
            "x {list:ab|a}",
            "list item \"a\" begins list item \"ab\"; no item may begin another",
        ),
        (
            "x {list:a|a}",
            "list item \"a\" begins list item \"a\"; no item may begin another",
        ),
        ("x {digits:3", "a { without its }"),
        ("x} {digits:3}", "a } without its {"),
        ("x {digits:60}", "it has more than 2^128 candidates"),
        (
            "x\n{digits:3}",
            "a canary is one line; it must not contain a line break",
        ),
        (
            "<MASK> {digits:3}",
            "it contains a special token such as <MASK>",
        ),
    ];
    for (text, problem) in cases {
        let error = text.parse::<CanaryTemplate>().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("canary template {text:?}: {problem}")
        );
    }
}

#[test]
fn specifications_have_a_range() {
    let spec: Spec = "10x20".parse().unwrap();
    assert_eq!(
        (spec.canaries(), spec.copies(), spec.to_string().as_str()),
        (10, 20, "10x20")
    );
    let cases = [
        (
            "10x0",
            "the number of copies of a canary must be from 1 to 10000, got 0",
        ),
        (
            "0x20",
            "the number of canaries must be from 1 to 10000, got 0",
        ),
        (
            "1x10001",
            "the number of copies of a canary must be from 1 to 10000, got 10001",
        ),
        (
            "20000x1",
            "the number of canaries must be from 1 to 10000, got 20000",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(text.parse::<Spec>().unwrap_err().to_string(), message);
    }
    let text = "10000x101".parse::<Spec>().unwrap_err().to_string();
    assert_eq!(
        text,
        "the number of inserted lines must be at most 1000000, got 1010000"
    );
    for junk in [
        "",
        "x",
        "10",
        "10x",
        "x20",
        "10x20x30",
        "-1x2",
        "1.5x2",
        "+1x2",
        "10 x 20",
        "99999999999x1",
    ] {
        let text = junk.parse::<Spec>().unwrap_err().to_string();
        assert!(
            text.contains("CANARIESxCOPIES") && text.contains(&format!("{junk:?}")),
            "{text}"
        );
    }
}
