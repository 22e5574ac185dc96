use super::*;
use crate::contract::to_json;
use proptest::prelude::*;
use reticent_accounting::{
    Bounds, Convention, Delta, Epsilon, GroupSize, Guarantee, Method, MissRate, Neighbours, Notion,
    UnitName,
};

fn terms() -> Terms {
    Terms {
        released: "checkpoint".into(),
        notion: Notion::GroupDp,
        neighbours: Neighbours::Replace,
        unit: UnitName::new("turn").unwrap(),
        delta: Delta::new(1e-5).unwrap(),
        group: 20,
        prior: None,
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
        provable: Upper::new(epsilon(30.0)),
        power: Vec::new(),
    }
}

#[test]
fn equal_bounds_do_not_contradict() {
    let verdict = judge(&promise(2.0), &measurement(2.0)).unwrap();
    assert!(!verdict.is_contradicted());
    assert_eq!(verdict.exit(), Exit::Finished);
    assert_eq!(
        verdict.to_string(),
        "not contradicted (measured at least 2.000, promised at most 2.000; false-alarm rate 0.0010; \
         this audit can prove 30.00 at most)"
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
    assert_eq!(json["outcome"], "could-not-contradict");
}

#[test]
fn every_part_of_the_terms_must_agree() {
    type Change = fn(&mut Terms);
    let changes: [(Field, Change); 7] = [
        (Field::Released, |t| t.released.push('2')),
        (Field::Notion, |t| t.notion = Notion::Dp),
        (Field::Neighbours, |t| t.neighbours = Neighbours::AddRemove),
        (Field::Unit, |t| t.unit = UnitName::new("dialogue").unwrap()),
        (Field::Delta, |t| t.delta = Delta::new(0.0).unwrap()),
        (Field::Group, |t| t.group = 1),
        (Field::Prior, |t| t.prior = Some(Probability::ONE)),
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

/// Where a mistake lets canaries through that training is said not to have met, more is measured than those that it met can
/// prove: the verdict contradicted itself, and `audit diff` refused it.
#[test]
fn what_is_proved_is_no_more_than_what_can_be() {
    let measured = Measurement {
        provable: Upper::new(epsilon(0.45)),
        ..measurement(6.0)
    };
    let verdict = judge(&promise(2.0), &measured).unwrap();
    assert!(verdict.is_contradicted() && verdict.could_contradict());
    assert!((verdict.provable() - 6.0).abs() < 1e-12);
    let kept = judge(&promise(7.0), &measured).unwrap();
    assert!(!kept.could_contradict());
}

/// Finding B1: a promise above all that the audit can prove is not "not contradicted".
#[test]
fn a_verdict_says_what_the_audit_could_have_said() {
    let audited = |at_most: f64, provable: f64| {
        let measured = Measurement {
            provable: Upper::new(epsilon(provable)),
            power: vec![Power {
                noise: 0.5,
                chance: Estimate::new(Probability::new(0.25).unwrap()),
            }],
            ..measurement(0.0)
        };
        judge(&promise(at_most), &measured).unwrap()
    };
    let verdict = audited(234.9, 12.1);
    assert!(!verdict.could_contradict() && !verdict.is_contradicted());
    let said = verdict.to_string();
    assert!(
        said.starts_with("this audit could not have contradicted the promise"),
        "{said}"
    );
    assert!(
        said.contains("this audit can prove 12.10 at most)"),
        "{said}"
    );
    let json = to_json(&verdict).unwrap();
    assert_eq!(json["outcome"], "could-not-contradict");
    assert_eq!(json["provable"], 12.1);
    let verdict = audited(2.0, 12.1);
    let said = verdict.to_string();
    assert!(said.starts_with("not contradicted ("), "{said}");
    assert!(
        said.contains("estimated power 0.25 at 0.5 of the noise"),
        "{said}"
    );
    assert_eq!(to_json(&verdict).unwrap()["outcome"], "not-contradicted");
    // What can be proved at most is not above it: equal is no contradiction either.
    assert!(!audited(12.1, 12.1).could_contradict());
}

/// That of a group of 20 records.
pub(crate) fn guarantee() -> Guarantee {
    Guarantee {
        about: None,
        notion: Notion::GroupDp,
        neighbours: Neighbours::Replace,
        same_class: false,
        convention: Convention::Definition,
        unit: UnitName::new("turn").unwrap(),
        method: Method::Pld,
        base: None,
        looseness: None,
        engine: None,
        epsilon: Some(Bounds::between(epsilon(1.9), epsilon(2.0))),
        delta: Some(Delta::new(1e-5).unwrap()),
        by_direction: None,
        delta_bounds: None,
        delta_by_direction: None,
        order: None,
        group: Some(GroupSize::new(20).unwrap()),
        gamma: None,
        missed_by_both: None,
        confidence: None,
        prior: None,
        posterior: None,
        mu: None,
        regret: None,
    }
}

#[test]
fn a_guarantee_is_a_promise_with_the_upper_end_of_its_epsilon() {
    let promise = Promise::of("checkpoint", &guarantee()).unwrap();
    assert_eq!(promise.terms, terms());
    assert_eq!(*promise.at_most.get(), epsilon(2.0));
}

#[test]
fn what_bounds_no_audit_is_no_promise() {
    type Change = fn(&mut Guarantee);
    let changes: [(NoPromise, Change); 6] = [
        (NoPromise::PapersConvention, |g| {
            g.convention = Convention::Paper
        }),
        (NoPromise::Bayesian, |g| {
            g.notion = Notion::BayesianConfidentiality
        }),
        (NoPromise::NoUpperEnd, |g| g.epsilon = None),
        (NoPromise::NoUpperEnd, |g| {
            g.epsilon = Some(Bounds::at_least(epsilon(1.0)))
        }),
        (NoPromise::NoDelta, |g| g.delta = None),
        (NoPromise::Amplified, |g| {
            g.gamma = Some(MissRate::new(0.1).unwrap())
        }),
    ];
    for (why, change) in changes {
        let mut guarantee = guarantee();
        change(&mut guarantee);
        assert_eq!(Promise::of("checkpoint", &guarantee).unwrap_err(), why);
    }
}
