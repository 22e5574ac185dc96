//! What is written against the published schemas, in both directions: every document fits,
//! and every key it has is described.

use crate::check::{self, fits};
use reticent_corpus::Masked;
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::{ConservativeOptions, PatternRule, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, prepare};
use reticent_corpus::simulate::simulate;

fn variants() -> Vec<PrepareOptions> {
    let rules = vec![PatternRule {
        kind: "k".to_owned(),
        pattern: "x+".to_owned(),
    }];
    let everything = PrepareOptions {
        canaries: Some(CanaryOptions::new("2x3".parse().unwrap())),
        conservative: Some(ConservativeOptions {
            patterns: rules.clone(),
            ..ConservativeOptions::default()
        }),
        policy: PolicyOptions {
            policy: PolicyChoice::Patterns { rules },
            ..PolicyOptions::default()
        },
        max_tokens: Some(64),
        held_out: 0.5,
        ..PrepareOptions::default()
    };
    let composed = r#"{"type":"threshold","least":0.5,"of":{"type":"at-least","count":1,"of":[
        {"type":"detectors","kinds":["card"],"countries":["gb"],"least":0.5},
        {"type":"dictionary","kind":"k","words":["w"]},
        {"type":"any","of":[{"type":"level","level":"low-entity"}]}]}}"#;
    let composed = PrepareOptions {
        duplicates: Deduplication::Bloom { bits: 8 },
        policy: PolicyOptions {
            policy: serde_json::from_str(composed).unwrap(),
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let stretches = PrepareOptions {
        duplicates: Deduplication::Substring { length: 20 },
        ..PrepareOptions::default()
    };
    vec![PrepareOptions::default(), everything, composed, stretches]
}

#[test]
fn every_file_of_a_prepared_folder_fits_its_schema() {
    let place = tempfile::tempdir().unwrap();
    for (number, options) in variants().into_iter().enumerate() {
        let folder = place.path().join(number.to_string());
        let prepared = prepare(&simulate(6, 0).unwrap(), &options).unwrap();
        prepared.write(&folder, false, None).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        fits("prepared", &read("prepared.json"));
        for (name, schema) in [
            ("records.jsonl", "prepared-record"),
            ("held-out.jsonl", "prepared-record"),
            ("train.jsonl", "prepared-text"),
            ("test.jsonl", "prepared-text"),
        ] {
            for line in read(name).lines() {
                fits(schema, line);
            }
        }
        if options.canaries.is_some() {
            fits("canaries", &read("canaries.json"));
        }
    }
}

#[test]
fn documents_fit_their_schema() {
    for mut document in simulate(5, 0).unwrap() {
        document.masked = vec![Masked { start: 0, end: 1 }];
        fits("corpus", &serde_json::to_string(&document).unwrap());
    }
}

#[test]
fn the_checker_sees_what_is_wrong() {
    for wrong in [
        "[]",
        "{}",
        r#"{"text":1}"#,
        r#"{"text":"a","other":1}"#,
        r#"{"text":"a","id":null}"#,
        r#"{"text":"a","secrets":[{"start":-1,"end":1,"kind":"k"}]}"#,
        r#"{"text":"a","masked":[{"start":0}]}"#,
    ] {
        assert!(
            !check::problems("corpus.schema.json", wrong).is_empty(),
            "{wrong}"
        );
    }
}
