//! The finding as JSON, against its published schema.

use crate::check;
use crate::models::{Memoriser, Toy};
use crate::rank_audit;
use crate::search::{digits, quiet};
use reticent_attacks::evalue::PlannedAudit;
use reticent_attacks::exposure::{EpsilonMethod, ExposureFinding, RankAudit};
use reticent_attacks::search::{
    Ranking, SearchOptions, Target, sample_flat, search_beliefs, search_ranks,
};
use reticent_attacks::{Draw, Error};
use serde_json::{Value, json};

fn audit() -> RankAudit {
    RankAudit {
        draw: Draw::Distinct,
        ..rank_audit::audit(&[2, 20], 0.0)
    }
}

fn names(count: usize) -> Vec<(String, u64)> {
    (0..count).map(|i| (format!("canary-{i}"), 20)).collect()
}

fn ranking(budget: Option<u64>) -> Ranking {
    let tree = digits(4);
    let targets = [[1, 2, 3, 4], [5, 6, 7, 8], [0, 0, 9, 9]].map(|secret| Target {
        context: vec![10],
        secret: secret.to_vec(),
    });
    let mut toy = Toy::new(Memoriser {
        vocabulary: 11,
        texts: targets[..2]
            .iter()
            .map(|t| [&t.context[..], &t.secret].concat())
            .collect(),
    });
    let options = SearchOptions {
        budget,
        ..SearchOptions::default()
    };
    search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap()
}

/// The envelope that the reports crate puts around it.
fn document(finding: &ExposureFinding) -> Value {
    let mut value = serde_json::to_value(finding).unwrap();
    value["schema"] = json!(1);
    value["type"] = json!("exposure");
    value["says"] = json!("");
    value["planting"] = json!("planted");
    value["inputs"] = json!({"assumed": []});
    value
}

#[test]
fn a_finding_follows_the_schema_and_reads_back() {
    for budget in [None, Some(30)] {
        let ranking = ranking(budget);
        let mut finding = ExposureFinding::new(&ranking, &names(3), &audit(), 1e-5).unwrap();
        if budget.is_none() {
            let mut toy = Toy::new(Memoriser {
                vocabulary: 11,
                texts: vec![],
            });
            let sample = sample_flat(&mut toy, &digits(4), &[10], 50, 16).unwrap();
            finding.flat_sample = Some(sample);
        }
        let value = document(&finding);
        check::fits("exposure", &value.to_string());
        let back: ExposureFinding = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(back, finding);
        assert_eq!(
            value["canaries"][0]["rank"].get("mid").is_some(),
            budget.is_none()
        );
    }
}

#[test]
fn the_numbers_are_those_of_the_ranking() {
    let finding = ExposureFinding::new(&ranking(None), &names(3), &audit(), 0.0).unwrap();
    let value = document(&finding);
    assert_eq!(value["candidates"], 10_000);
    assert_eq!(value["canaries"][1]["id"], "canary-1");
    assert_eq!(
        value["canaries"][0]["rank"],
        json!({"min": 1, "mid": 1.5, "max": 2})
    );
    assert!((finding.canaries[0].p_value - 2e-4).abs() < 1e-15);
    assert!((finding.canaries[0].exposure.min - 5_000_f64.log2()).abs() < 1e-12);
    assert!((finding.summary.max().lower() - 5_000_f64.log2()).abs() < 1e-12);
    assert_eq!(
        (finding.epsilon.hits, finding.epsilon.threshold),
        (Some(2), Some(2))
    );
}

#[test]
fn an_infinite_cost_is_spelled() {
    let mut ranking = ranking(None);
    ranking.counts[2].nll = f64::INFINITY;
    let finding = ExposureFinding::new(&ranking, &names(3), &audit(), 0.0).unwrap();
    let value = document(&finding);
    assert_eq!(value["canaries"][2]["nll"], "inf");
    let back: ExposureFinding = serde_json::from_value(value).unwrap();
    assert_eq!(back, finding);
}

#[test]
fn names_must_fit() {
    let said = ExposureFinding::new(&ranking(None), &names(2), &audit(), 0.0);
    assert!(matches!(
        said,
        Err(Error::WrongCount {
            got: 2,
            wanted: 3,
            ..
        })
    ));
}

/// The bound that counts is that of the test that was fixed beforehand, whichever is larger, and the
/// document holds both.
#[test]
fn the_test_that_was_fixed_counts() {
    let tree = digits(4);
    let targets = [[1, 2, 3, 4], [5, 6, 7, 8], [0, 0, 9, 9]].map(|secret| Target {
        context: vec![10],
        secret: secret.to_vec(),
    });
    let mut toy = Toy::new(Memoriser {
        vocabulary: 11,
        texts: vec![[&targets[0].context[..], &targets[0].secret].concat()],
    });
    let planned = PlannedAudit::new(audit(), 10_000, 3).unwrap();
    let options = SearchOptions::default();
    let (ranking, guesses) = search_beliefs(
        &mut toy,
        &tree,
        &targets,
        &options,
        &planned.by_evalue,
        &mut quiet(),
    )
    .unwrap();
    assert_eq!(planned.decides(), EpsilonMethod::RankAudit);
    let mut bounds = Vec::new();
    for decides in [EpsilonMethod::RankAudit, EpsilonMethod::EValue] {
        let mut finding = ExposureFinding::new(&ranking, &names(3), &audit(), 0.0)
            .and_then(|f| f.beside_evalues(&planned, &guesses))
            .unwrap();
        finding.e_value.as_mut().unwrap().decides = decides;
        assert_eq!(finding.bound().method, decides);
        bounds.push(finding.bound().lower.get().get());
        let value = document(&finding);
        check::fits("exposure", &value.to_string());
        let back: ExposureFinding = serde_json::from_value(value).unwrap();
        assert_eq!(back, finding);
    }
    // Not vacuous: the two differ here.
    assert!((bounds[0] - bounds[1]).abs() > 0.1, "{bounds:?}");
}
