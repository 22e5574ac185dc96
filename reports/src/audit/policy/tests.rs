//! Counts of a policy over marked text.

use super::*;
use crate::page::View;
use crate::schema::problems;
use reticent_corpus::Unit;
use reticent_corpus::policy::{ConservativeOptions, Level, PatternRule};
use reticent_corpus::simulate::simulate;

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
    let judge = PolicyJudge::new(policy, conservative).unwrap();
    PolicyReport::of(records, &judge, &Interrupt::default()).unwrap()
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
    let records = screening_records(&simulate(30, 1).unwrap(), Unit::Turn).unwrap();
    for policy in [
        PolicyChoice::Customers,
        PolicyChoice::Level {
            level: Level::HighEntity,
            least: 0.5,
        },
    ] {
        let mut report = report(&records, &policy, Some(&ConservativeOptions::default()));
        report.coverage = coverage(&policy).unwrap();
        let inputs = Inputs::new().given("policy", &policy).unwrap();
        let json = Envelope::new("policy", inputs, &report).to_text().unwrap();
        assert_eq!(problems("policy.schema.json", &json), Vec::<String>::new());
        let text = report.to_page().to_text(View::full());
        assert!(
            text.contains("marked secrets") && text.contains("recall"),
            "{text}"
        );
        let levels = !report.coverage.is_empty();
        assert_eq!(text.contains("entities by grammar"), levels);
        assert_eq!(report.coverage.len(), if levels { 18 } else { 0 });
    }
    let unmarked = report(&[Document::new("a", "Ada")], &PolicyChoice::Nothing, None);
    assert!(
        unmarked
            .to_page()
            .to_text(View::full())
            .contains("audit screen")
            && unmarked.marked.is_empty()
    );
}
