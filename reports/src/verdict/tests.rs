use super::*;
use crate::contract::to_json;
use proptest::prelude::*;
use reticent_accounting::{Delta, Epsilon, Neighbours};

fn terms() -> Terms {
    Terms {
        released: "checkpoint".into(),
        notion: "confidentiality".into(),
        neighbours: Neighbours::Replace,
        unit: "turn".into(),
        delta: Delta::new(1e-5).unwrap(),
        group: 20,
    }
}

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

fn promise(value: f64) -> Promise<Epsilon> {
    Promise {
        terms: terms(),
        at_most: Upper::new(epsilon(value)),
        mistakes: vec![
            (Mistake::MissedSecret, Upper::new(epsilon(f64::INFINITY))),
            (Mistake::UncountedCopies, Upper::new(epsilon(9.0))),
            (Mistake::SamplingRate, Upper::new(epsilon(4.0))),
        ],
    }
}

fn measurement(value: f64) -> Measurement<Epsilon> {
    Measurement {
        terms: terms(),
        at_least: Lower::new(epsilon(value)),
        false_alarm: Probability::new(1e-3).unwrap(),
    }
}

#[test]
fn equal_bounds_do_not_contradict() {
    let verdict = judge(&promise(2.0), &measurement(2.0)).unwrap();
    assert!(!verdict.is_contradicted());
    assert_eq!(verdict.exit(), Exit::Finished);
    assert_eq!(
        verdict.to_string(),
        "not contradicted (measured at least 2.000, promised at most 2.000; false-alarm rate 0.0010)"
    );
}

#[test]
fn a_contradiction_names_the_mistakes_that_would_explain_it_smallest_first() {
    let verdict = judge(&promise(2.0), &measurement(5.0)).unwrap();
    assert_eq!(verdict.exit(), Exit::Exceeded);
    assert_eq!(
        verdict.suspects(),
        [Mistake::UncountedCopies, Mistake::MissedSecret]
    );
    assert!(
        verdict.to_string().starts_with(
            "contradicted: more records carry the secret than were counted, or the policy missed"
        ),
        "{verdict}"
    );
}

#[test]
fn an_empty_promise_is_never_contradicted() {
    let verdict = judge(&promise(f64::INFINITY), &measurement(50.0)).unwrap();
    assert!(!verdict.is_contradicted());
    let json = to_json(&verdict).unwrap();
    assert_eq!(json["at_most"], "inf");
    assert_eq!(json["outcome"], "not contradicted");
}

#[test]
fn every_part_of_the_terms_must_agree() {
    type Change = fn(&mut Terms);
    let changes: [(Field, Change); 6] = [
        (Field::Released, |t| t.released.push('2')),
        (Field::Notion, |t| t.notion = "dp".into()),
        (Field::Neighbours, |t| t.neighbours = Neighbours::AddRemove),
        (Field::Unit, |t| t.unit = "dialogue".into()),
        (Field::Delta, |t| t.delta = Delta::new(0.0).unwrap()),
        (Field::Group, |t| t.group = 1),
    ];
    for (field, change) in changes {
        let mut measured = measurement(50.0);
        change(&mut measured.terms);
        let mismatch = judge(&promise(2.0), &measured).unwrap_err();
        assert_eq!(mismatch.field, field);
        assert!(mismatch.to_string().contains("not comparable"));
    }
}

#[test]
fn neighbouring_floats_of_delta_are_different_terms() {
    let mut measured = measurement(1.0);
    measured.terms.delta = Delta::new(1e-5_f64.next_up()).unwrap();
    assert!(judge(&promise(2.0), &measured).is_err());
}

proptest! {
    #[test]
    fn a_verdict_is_the_order_of_its_two_ends(upper in 0.0f64..20.0, lower in 0.0f64..20.0) {
        let verdict = judge(&promise(upper), &measurement(lower)).unwrap();
        prop_assert_eq!(verdict.is_contradicted(), lower > upper);
        prop_assert_eq!(verdict.suspects().is_empty(), lower <= upper);
    }
}
