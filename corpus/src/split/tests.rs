use super::*;
use crate::document::Masked;
use proptest::prelude::*;

fn texts(text: &str, unit: Unit) -> Vec<String> {
    let document = Document::new("d", text);
    units(&document, 0, unit)
        .unwrap()
        .iter()
        .map(|u| u.text.to_string())
        .collect()
}

#[test]
fn turns_are_lines_and_blank_ones_vanish() {
    assert_eq!(
        texts("a b.\n\n  \nc\r\n d", Unit::Turn),
        ["a b.", "c", " d"]
    );
    assert_eq!(texts("a\nb", Unit::Dialogue), ["a\nb"]);
    assert_eq!(texts("a\nb", Unit::Document), ["a\nb"]);
}

#[test]
fn sentences_end_at_stops_before_white_space() {
    assert_eq!(
        texts("One two. Three!  Four (five?) six.\nSeven", Unit::Sentence),
        ["One two.", "Three!", "Four (five?) six.", "Seven"]
    );
    assert_eq!(
        texts("He said \"no.\" Then 3.5 left.", Unit::Sentence),
        ["He said \"no.\"", "Then 3.5 left."]
    );
}

#[test]
fn abbreviations_and_initials_end_no_sentence() {
    assert_eq!(
        texts(
            "Dr. A. Vogel, 5 St. Mary Rd. No. 7 is it. Yes.",
            Unit::Sentence
        ),
        ["Dr. A. Vogel, 5 St. Mary Rd. No. 7 is it.", "Yes."]
    );
}

#[test]
fn spans_are_clipped_to_the_unit_and_marked_as_cut() {
    let document = Document::new("d", "ab\ncd").with_secret(1, 4, "k");
    let found = units(&document, 0, Unit::Turn).unwrap();
    assert_eq!(found[0].secrets[0].range, 1..2);
    assert_eq!(found[1].secrets[0].range, 0..1);
    assert!(found.iter().all(|u| u.secrets[0].cut.is_some()));
    assert!(found.iter().all(|u| u.secrets[0].text == "b\nc"));
}

/// A part is distinguished from an equal part of another secret, and from another part of its own; masked text reveals nothing.
#[test]
fn parts_of_secrets_are_told_apart() {
    let parts = |text: &str, masked: &[(usize, usize)]| -> Vec<[u8; 20]> {
        let mut document = Document::new("d", text).with_secret(0, text.len(), "k");
        let spans = masked.iter();
        document.masked = spans.map(|&(start, end)| Masked { start, end }).collect();
        let found = units(&document, 0, Unit::Turn).unwrap();
        found.iter().map(|u| u.secrets[0].cut.unwrap()).collect()
    };
    let one = parts("ab\nab\ncd", &[]);
    assert_ne!(one[0], one[1]);
    assert_eq!(one, parts("ab\nab\ncd", &[]));
    assert!(!parts("ab\nab\nce", &[]).contains(&one[0]));
    let hidden = parts("ab\nab\ncd", &[(6, 8)]);
    assert_eq!(hidden, parts("ab\nab\nxyz", &[(6, 9)]));
    assert_ne!(hidden, one);
}

#[test]
fn literal_specials_are_escaped_and_spans_follow() {
    let document = Document::new("d", "é <MASK> Bob <\\MASK> <b>").with_secret(9, 12, "name");
    let found = units(&document, 0, Unit::Turn).unwrap();
    assert_eq!(found[0].text, "é <\\MASK> Bob <\\\\MASK> <b>");
    assert_eq!(&found[0].text[found[0].secrets[0].range.clone()], "Bob");
    assert!(found[0].escaped());
}

/// Takes one backslash away from each escaped special.
fn unescape(text: &str) -> String {
    let pattern = regex::Regex::new(r"<\\(\\*(?:MASK|BOS|EOS|UNK|PAD)>)").unwrap();
    pattern.replace_all(text, "<$1").into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Escaping loses nothing and leaves no special behind.
    #[test]
    fn escaping_can_be_undone(parts in proptest::collection::vec(
        prop_oneof![Just("<"), Just(">"), Just("\\"), Just("MASK"), Just("<MASK>"), Just("EOS"), Just("a")],
        1..12,
    )) {
        let text = parts.concat();
        let document = Document::new("d", text.clone());
        let found = units(&document, 0, Unit::Document).unwrap();
        let escaped = found[0].text.to_string();
        prop_assert!(!escaped.contains("<MASK>") && !escaped.contains("<EOS>"));
        prop_assert_eq!(unescape(&escaped), text);
    }

    /// Every character outside white space is in exactly one unit, in order.
    #[test]
    fn splitting_loses_no_character(text in "[a-cA. !?\n\"']{0,60}") {
        for unit in [Unit::Turn, Unit::Sentence, Unit::Document] {
            let bare = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(bare(&texts(&text, unit).concat()), bare(&text));
        }
    }
}

/// Text of a prepared record becomes the units that it came from, with its masks apart from literal ones.
#[test]
fn prepared_text_is_restored() {
    for (text, restored, masked) in [
        (r"a <MASK> b", "a <MASK> b", vec![(2, 8)]),
        (r"é<MASK><\MASK>", "é<MASK><MASK>", vec![(1, 7)]),
        (r"<\MASK> <\\EOS> <x>", r"<MASK> <\EOS> <x>", vec![]),
        ("plain", "plain", vec![]),
    ] {
        let mut document = Document::new("d", text);
        restore(&mut document);
        let found: Vec<_> = document.masked.iter().map(|m| (m.start, m.end)).collect();
        assert_eq!((document.text.as_str(), found), (restored, masked));
        let records = crate::screening::screening_records(&[document], Unit::Document).unwrap();
        assert_eq!(records[0].prepared_text(), text);
    }
}
