use super::*;
use crate::verdict::{Measurement, Promise, Terms, judge};
use reticent_accounting::{Confidence, Delta, Epsilon, Neighbours, Notion, Probability, UnitName};
use reticent_attacks::{Draw, RankAudit, RankCount, Ranking, Work};
use reticent_corpus::Unit;

/// Ten canaries with these numbers of better candidates.
fn finding(below: [u64; 10]) -> ExposureFinding {
    let ranking = Ranking {
        counts: below
            .map(|below| RankCount {
                candidates: 1_000_000,
                nll: 3.25,
                below,
                ties: 0,
                unresolved: 0,
            })
            .to_vec(),
        work: Work {
            positions_scored: 3_000,
            positions_flat: 60_000_000,
            seconds: 0.5,
        },
    };
    let names: Vec<_> = (0..10).map(|i| (format!("canary-{i}"), 20)).collect();
    let audit = RankAudit {
        thresholds: vec![10],
        confidence: Confidence::new(0.95).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
        draw: Draw::Distinct,
        unit: Unit::Turn,
        copies: 20,
    };
    ExposureFinding::new(&ranking, &names, &audit, 0.0).unwrap()
}

fn leaking() -> ExposureReport {
    ExposureReport::new(finding([0; 10]))
}

fn quiet() -> ExposureReport {
    ExposureReport::new(finding([
        301_110, 51_999, 709_999, 498_999, 88_122, 929_999, 609_999, 243_999, 800_000, 376_999,
    ]))
}

#[test]
fn the_document_has_the_keys_of_the_contract() {
    let json: serde_json::Value =
        serde_json::from_str(&leaking().to_json(Inputs::new()).unwrap()).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["type"], "exposure");
    assert_eq!(json["candidates"], 1_000_000);
    for key in ["id", "copies", "nll", "rank", "exposure", "p_value"] {
        assert!(json["canaries"][0].get(key).is_some(), "{key}");
    }
    for key in ["max", "mean", "median", "null_max_mean", "p_max", "p_mean"] {
        assert!(json["summary"].get(key).is_some(), "{key}");
    }
    for key in [
        "lower",
        "confidence",
        "neighbours",
        "unit",
        "copies",
        "method",
        "assumes",
    ] {
        assert!(json["epsilon"].get(key).is_some(), "{key}");
    }
    for key in ["positions_scored", "positions_flat", "seconds"] {
        assert!(json["work"].get(key).is_some(), "{key}");
    }
    assert!(json.get("secrets").is_none());
}

#[test]
fn secrets_are_masked_unless_shown() {
    let mut report = leaking();
    let html = report.to_html("sgd").unwrap();
    assert!(report.to_text().contains(MASKED_SECRET) && html.contains(MASKED_SECRET));
    report.secrets = Some(BTreeMap::from([("canary-3".into(), "341752".into())]));
    let (text, html) = (report.to_text(), report.to_html("sgd").unwrap());
    assert!(text.contains("341752") && html.contains("341752"));
}

#[test]
fn a_maximum_never_stands_without_its_null() {
    for report in [leaking(), quiet()] {
        let text = report.to_text();
        let maximum = text.lines().find(|l| l.starts_with("maximum")).unwrap();
        assert!(
            maximum.contains("4.23") && maximum.contains("7.61"),
            "{maximum}"
        );
        let html = report.to_html("m").unwrap();
        assert!(html.contains("95 % of the maxima of 10 such canaries lie below"));
    }
    assert!(page_of(&leaking()).contains("The model leaks"));
    assert!(page_of(&quiet()).contains("No leak of these 10 canaries was seen"));
}

fn page_of(report: &ExposureReport) -> String {
    report.to_html("m").unwrap()
}

#[test]
fn canaries_that_leak_together_are_not_called_chance() {
    // The largest exposure, 5.3 bits, is usual for ten; the mean, 3.3 bits, is not.
    let report = ExposureReport::new(finding([
        25_000, 40_000, 45_000, 65_000, 94_000, 106_000, 179_000, 272_000, 300_000, 310_000,
    ]));
    assert_eq!(Leak::of(&report.finding.summary), Leak::Together);
    assert!(page_of(&report).contains("The model leaks a little"));
    assert_eq!(Leak::of(&leaking().finding.summary), Leak::Single);
    assert_eq!(Leak::of(&quiet().finding.summary), Leak::Unseen);
}

#[test]
fn a_limit_is_passed_by_what_is_certain_only() {
    assert_eq!(leaking().exit(None), Exit::Finished);
    assert_eq!(leaking().exit(Some(19.9)), Exit::Exceeded);
    assert_eq!(leaking().exit(Some(20.0)), Exit::Finished);
    assert_eq!(quiet().exit(Some(10.0)), Exit::Finished);
}

#[test]
fn a_contradicted_promise_is_exit_one_and_an_alarm() {
    let mut report = leaking();
    let bound = &report.finding.epsilon;
    let terms = Terms {
        released: "m".into(),
        notion: Notion::GroupDp,
        neighbours: Neighbours::Replace,
        unit: UnitName::new("turn").unwrap(),
        delta: bound.delta,
        group: bound.copies,
    };
    let promise = Promise {
        terms: terms.clone(),
        at_most: Upper::new(Epsilon::new(2.0).unwrap()),
        mistakes: vec![],
    };
    let measured = Measurement {
        terms,
        at_least: bound.lower,
        false_alarm: Probability::new(0.05).unwrap(),
    };
    report.verdict = Some(judge(&promise, &measured).unwrap());
    assert_eq!(report.exit(None), Exit::Exceeded);
    assert!(
        report
            .to_text()
            .contains("verdict: contradicted: noise is missing")
    );
    assert!(page_of(&report).contains("role=\"alert\""));
}
