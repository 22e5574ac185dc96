//! Counts of a policy over marked text.

use super::*;
use crate::page::View;
use crate::schema::fits;
use reticent_corpus::policy::{ConservativeOptions, Level, PatternRule};
use reticent_corpus::simulate::simulate;
use reticent_corpus::{Document, Unit};

fn patterns(rules: &[(&str, &str)]) -> PolicyChoice {
    let rule = |(kind, pattern): &(&str, &str)| PatternRule {
        kind: (*kind).to_owned(),
        pattern: (*pattern).to_owned(),
    };
    PolicyChoice::Patterns {
        rules: rules.iter().map(rule).collect(),
    }
}

fn report(
    records: &[Document],
    policy: &PolicyChoice,
    conservative: Option<&ConservativeOptions>,
) -> PolicyReport {
    report_by(Unit::Document, records, policy, conservative)
}

fn report_by(
    unit: Unit,
    documents: &[Document],
    policy: &PolicyChoice,
    conservative: Option<&ConservativeOptions>,
) -> PolicyReport {
    let records = screening_records(documents, unit).unwrap();
    let judge = PolicyJudge::new(policy, conservative).unwrap();
    PolicyReport::of(&records, &judge, &Interrupt::default()).unwrap()
}

/// One that extends over three lines is one secret in one place, missed where any of its parts is.
#[test]
fn a_secret_of_several_records_counts_once() {
    let text = "at 12 Zork Lane\nFlat 9, Blubton\nQX1 9ZZ .";
    let documents = [
        Document::new("a", text).with_secret(3, 39, "address"),
        Document::new("b", "by Flat 9, Blubton").with_secret(3, 18, "address"),
    ];
    let counts = |rules: &[(&str, &str)], unit| {
        let policy = patterns(rules);
        let found = &report_by(
            unit,
            &documents,
            &policy,
            Some(&ConservativeOptions::default()),
        );
        let of = found.marked["address"].clone();
        let places = (of.secrets, of.covered, of.caught);
        (places, of.distinct, of.distinct_missed)
    };
    for unit in [Unit::Turn, Unit::Document] {
        assert_eq!(counts(&[], unit), ((2, 0, 0), 2, 2), "{unit}");
    }
    let first = [("a", "12 Zork Lane"), ("a", "Flat 9, Blubton")];
    assert_eq!(counts(&first, Unit::Turn), ((2, 1, 1), 2, 1));
    let all = [first[0], first[1], ("a", "QX1 9ZZ")];
    assert_eq!(counts(&all, Unit::Turn), ((2, 2, 2), 2, 0));
}

/// A place that nobody marked still shows the secret, unless spans cover all of it.
#[test]
fn a_text_that_is_left_without_a_mark_is_missed() {
    let first = ("code", "first (?<secret>code-1)");
    for (text, rules, missed) in [
        ("first code-1 then code-1", &[first][..], 1),
        ("first code-1 then code-12", &[first], 0),
        (
            "first code-1 then code-1",
            &[first, ("k", "then (?<secret>code)")],
            1,
        ),
        (
            "first code-1 then code-1",
            &[first, ("k", "then (?<secret>code-1)")],
            0,
        ),
    ] {
        let record = Document::new("a", text).with_secret(6, 12, "code");
        let found = report(&[record], &patterns(rules), None);
        let of = &found.marked["code"];
        let counts = (of.covered, of.caught, of.distinct_missed);
        assert_eq!(counts, (1, 1 - missed, missed), "{text} {rules:?}");
    }
}

/// A secret missed in one of its places is missed; one that is missed where the record is
/// flagged is not missed by both.
#[test]
fn secrets_are_counted_by_text_and_places_apart() {
    let records = [
        Document::new("a", "ask Ada at noon").with_secret(4, 7, "name"),
        Document::new("b", "so Ada said").with_secret(3, 6, "name"),
        Document::new("c", "Bob has 12").with_secret(0, 3, "name"),
        Document::new("d", "nothing in it"),
    ];
    let digits = ConservativeOptions {
        digits: true,
        capitals: false,
        policy: false,
        names: None,
        onnx: None,
        patterns: Vec::new(),
    };
    let report = report(
        &records,
        &patterns(&[("person", "ask (?<secret>Ada)"), ("person", "noon")]),
        Some(&digits),
    );
    assert_eq!(
        (report.records, report.redacted, report.flagged),
        (4, 1, Some(1))
    );
    let names = &report.marked["name"];
    assert_eq!(
        (
            names.secrets,
            names.caught,
            names.distinct,
            names.distinct_missed
        ),
        (3, 1, 2, 2)
    );
    assert_eq!(
        (names.distinct_missed_by_both, names.eta),
        (Some(1), Some(0.5))
    );
    let found = &report.found["person"];
    assert_eq!(
        (found.spans, found.records, found.right, found.precision),
        (2, 1, Some(1), Some(0.5))
    );
    assert_eq!(
        (report.words.all, report.words.redacted, report.words.missed),
        (13, 2, 2)
    );
}

#[test]
fn text_and_document_say_the_same_and_fit_the_schema() {
    let documents = simulate(30, 1).unwrap();
    for policy in [
        PolicyChoice::Customers,
        PolicyChoice::Level {
            level: Level::HighEntity,
            least: 0.5,
        },
    ] {
        let conservative = ConservativeOptions::default();
        let mut report = report_by(Unit::Turn, &documents, &policy, Some(&conservative));
        report.coverage = coverage(&policy).unwrap();
        let inputs = Inputs::new().given("policy", &policy).unwrap();
        let json = Envelope::new("policy", inputs, &report).to_text().unwrap();
        fits("policy", &json);
        let text = report.to_page().to_text(View::full());
        assert!(
            text.contains("marked secrets") && text.contains("recall"),
            "{text}"
        );
        let levels = !report.coverage.is_empty();
        // In the words of `audit prepare`.
        assert_eq!(text.contains("\nby grammar: "), levels, "{text}");
        assert_eq!(report.coverage.len(), if levels { 18 } else { 0 });
    }
    // Without a conservative policy, nothing is missed by both.
    let alone = report(&documents, &PolicyChoice::Customers, None).to_page();
    assert!(!alone.to_text(View::full()).contains("by both"));
    let unmarked = report(&[Document::new("a", "Ada")], &PolicyChoice::Nothing, None);
    assert!(
        unmarked
            .to_page()
            .to_text(View::full())
            .contains("audit screen")
            && unmarked.marked.is_empty()
    );
}
