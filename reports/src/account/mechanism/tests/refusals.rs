//! Documents that hold a mechanism, and what is refused with which words.

use super::{ASKED, read, sigma};
use crate::account::mechanism::parse;
use reticent_accounting::{Mechanism, UnitName};
use serde_json::{Value, json};

#[test]
fn documents_that_hold_a_mechanism() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    let plain = Mechanism::Gaussian {
        noise_multiplier: sigma(2.0),
    };
    let manifest = json!({"schema": 1, "type": "checkpoint", "unit": "turn", "mechanism": inner, "seeded": false, "vocabulary": "bytes"});
    let (found, unit) = parse(&manifest.to_string(), ASKED).unwrap();
    assert_eq!(
        (&found, unit),
        (&plain, Some(UnitName::new("turn").unwrap()))
    );
    let own = json!({"schema": 1, "type": "guarantees", "inputs": {"unit": "dialogue"}, "mechanism": inner});
    assert_eq!(
        parse(&own.to_string(), ASKED).unwrap().1,
        Some(UnitName::new("dialogue").unwrap())
    );
    // What leaves nothing of a promise stays with the mechanism.
    for (key, value, said) in [
        ("seeded", json!(true), "fixed seed"),
        ("vocabulary", json!("leaks"), "vocabulary"),
    ] {
        let mut bare = manifest.clone();
        bare[key] = value;
        let Mechanism::Sequence { parts } = read(&bare.to_string()).unwrap() else {
            panic!("{key}")
        };
        assert!(matches!(&parts[1], Mechanism::NonPrivate { why } if why.contains(said)));
    }
    // Documents about a run say it among their inputs.
    let mut about = own.clone();
    about["inputs"]["seeded"] = json!(true);
    let Mechanism::Sequence { parts } = read(&about.to_string()).unwrap() else {
        panic!("inputs.seeded")
    };
    assert!(matches!(&parts[1], Mechanism::NonPrivate { why } if why.contains("fixed seed")));
    about["inputs"]["seeded"] = json!("yes");
    let refused = parse(&about.to_string(), ASKED).unwrap_err().to_string();
    assert!(
        refused.contains("inputs.seeded: must be true or false"),
        "{refused}"
    );
}

#[test]
fn refusals_say_where_and_why() {
    let leaf = |key: &str, value: Value| {
        let mut leaf = json!({"type": "subsampled-gaussian", "noise_multiplier": 1.0, "sampling_rate": 0.1, "sampling": "poisson"});
        leaf[key] = value;
        json!({"type": "repeat", "times": 10, "each": {"type": "sequence", "parts": [leaf]}})
            .to_string()
    };
    let deep = "[".repeat(200);
    for (text, said) in [
        ("", "not JSON"),
        (
            "{\"type\":\"gaussian\",\"noise_multiplier\":NaN}",
            "NaN is no JSON number",
        ),
        (
            "{\"type\":\"gaussian\",\"noise_multiplier\":1e999}",
            "not JSON",
        ),
        (deep.as_str(), "recursion limit"),
        (
            "{\"type\":\"gaussian\",\"type\":\"laplace\"}",
            "key \"type\" appears twice",
        ),
        ("[1,2,3]", "must be an object"),
        ("{\"sigma\":1}", "neither a mechanism"),
        (
            "{\"type\":\"dp-sgd\"}",
            "type: unknown mechanism \"dp-sgd\"; known are gaussian",
        ),
        ("{\"type\":\"gaussian\"}", "lacks \"noise_multiplier\""),
        // Not a document around a single step.
        (
            "{\"type\":\"repeat\",\"times\":9,\"mechanism\":{\"type\":\"gaussian\",\"noise_multiplier\":1}}",
            "mechanism: unknown key",
        ),
        (
            "{\"class_name\":\"MagicDpEvent\"}",
            "class_name: unknown event class \"MagicDpEvent\"",
        ),
        (
            "{\"class_name\":\"GaussianDpEvent\",\"sigma\":1}",
            "sigma: unknown key",
        ),
        (
            "[\"dp_accounting.dp_event\",\"GaussianDpEvent\",1,2]",
            "[3]: unknown key",
        ),
        (
            "[\"dp_accounting.dp_event\",\"GaussianDpEvent\"]",
            "lacks \"noise_multiplier\"",
        ),
        (
            "{\"class_name\":\"DiscreteGaussianDpEvent\",\"sigma\":1,\"sensitivity\":1,\"dimension\":null}",
            "dimension: must be 1",
        ),
        (
            "{\"mechanism\":{\"type\":\"gaussian\",\"noise_multiplier\":-1}}",
            "mechanism.noise_multiplier: noise multiplier must lie in (0, inf), got -1",
        ),
    ] {
        let why = read(text).unwrap_err();
        assert!(why.contains(said), "{text}: {why}");
    }
    for (key, value, said) in [
        (
            "noise_multiplier",
            json!(0),
            "each.parts[0].noise_multiplier: noise multiplier must lie in (0, inf), got 0",
        ),
        (
            "noise_multiplier",
            json!("much"),
            "each.parts[0].noise_multiplier: must be a number, got \"much\"",
        ),
        (
            "sampling_rate",
            json!(2),
            "each.parts[0].sampling_rate: sampling rate must lie in (0, 1], got 2",
        ),
        (
            "sampling",
            json!("lottery"),
            "each.parts[0].sampling: must be poisson, ",
        ),
        (
            "sampling",
            json!({"truncated-poisson": {"max_batch": 0, "records": 5}}),
            "max_batch: must be a whole number in [1, ",
        ),
        ("clip", json!(1), "each.parts[0].clip: unknown key"),
    ] {
        let why = read(&leaf(key, value)).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    for (mixture, said) in [
        (
            json!({"sensitivities": [0, 1], "probabilities": [1.0]}),
            "probabilities: must be as many",
        ),
        (
            json!({"sensitivities": [1, 0], "probabilities": [0.5, 0.5]}),
            "sensitivities: must ascend",
        ),
        (
            json!({"sensitivities": [-1, 0], "probabilities": [0.5, 0.5]}),
            "sensitivities: must lie in [0, inf), got -1",
        ),
        (
            json!({"sensitivities": [0, 1], "probabilities": [0.5, 0.4]}),
            "probabilities: must add up to 1, got 0.9",
        ),
    ] {
        let mut text = mixture;
        text["type"] = json!("mixture-of-gaussians");
        text["noise_multiplier"] = json!(1.0);
        let why = read(&text.to_string()).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn too_much_is_refused() {
    let many = json!({"type": "poisson-binomial-gaussian", "noise_multiplier": 1.0, "rates": vec![0.1; 10_001]});
    assert!(
        read(&many.to_string())
            .unwrap_err()
            .contains("rates: must have at most 10000 numbers")
    );
    let parts = vec![json!({"type": "gaussian", "noise_multiplier": 1.0}); 10_001];
    let long = json!({"type": "sequence", "parts": parts});
    assert!(
        read(&long.to_string())
            .unwrap_err()
            .contains("at most 10000 objects")
    );
}

/// What one mechanism is put into: passing over any of these keys would make ε too small.
#[test]
fn no_key_beside_a_mechanism_is_passed_over() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    let manifest = json!({"schema": 1, "type": "checkpoint", "unit": "turn", "mechanism": inner, "seeded": false, "vocabulary": "bytes"});
    let with = |key: &str, value: Value| {
        let mut edited = manifest.clone();
        edited[key] = value;
        edited
    };
    let without = |key: &str| {
        let mut edited = manifest.clone();
        edited.as_object_mut().unwrap().remove(key);
        edited
    };
    assert!(read(&manifest.to_string()).is_ok());
    for (text, said) in [
        (
            json!({"type": "Repeat", "times": 237, "mechanism": inner}),
            "type: must be that of a mechanism",
        ),
        (
            json!({"type": "dp-sgd", "steps": 237, "mechanism": inner}),
            "got \"dp-sgd\"",
        ),
        (
            json!({"type": 7, "mechanism": inner}),
            "type: must be a text, got a number",
        ),
        (
            json!({"count": 237, "mechanism": inner}),
            "count: unknown key; allowed are schema, unit, mechanism",
        ),
        (
            json!({"mechanism": inner, "mechanisms": [inner]}),
            "mechanisms: unknown key",
        ),
        (
            json!({"schema": 2, "mechanism": inner}),
            "schema: must be a whole number in [1, 1], got 2",
        ),
        (with("steps", json!(237)), "steps: unknown key"),
        (with("schema", json!(2)), "schema: must be"),
        (
            with("seeded", json!("true")),
            "seeded: must be true or false, got a text",
        ),
        (
            with("seeded", json!(1)),
            "seeded: must be true or false, got a number",
        ),
        (
            with("vocabulary", json!("Leaks")),
            "vocabulary: must be bytes, ",
        ),
        (
            with("vocabulary", json!(null)),
            "vocabulary: must be a text",
        ),
        (
            with("neighbours", json!("replace")),
            "neighbours: must be add-remove or zero-out",
        ),
        (without("seeded"), "lacks \"seeded\""),
        (without("vocabulary"), "lacks \"vocabulary\""),
        (
            json!({"type": "subsampled-gaussian", "noise_multiplier": 1, "sampling_rate": 0.1, "sampling": {
                "truncated-poisson": {"max_batch": 10, "records": 100},
                "random-allocation": {"selected": 1, "steps": 10}}}),
            "sampling: must be truncated-poisson or random-allocation, got both",
        ),
        (
            json!({"module_name": "my.events", "class_name": "GaussianDpEvent", "noise_multiplier": 1}),
            "module_name: must be \"dp_accounting.dp_event\", got \"my.events\"",
        ),
        (
            json!({"class_name": "EpsilonDeltaDpEvent", "epsilon": 1, "delta": -1e-5}),
            "delta: delta must lie in [0, 1], got -0.00001",
        ),
    ] {
        let why = read(&text.to_string()).unwrap_err();
        assert!(why.contains(said), "{text}: {why}");
    }
}

#[test]
fn the_manifest_is_the_one_of_the_schema() {
    use crate::account::mechanism::document::{MANIFEST_KEYS, VOCABULARIES};
    let schema: Value =
        serde_json::from_str(include_str!("../../../../../schemas/manifest.schema.json")).unwrap();
    let mut told: Vec<&str> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut known = MANIFEST_KEYS.to_vec();
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known);
    assert_eq!(
        schema["properties"]["vocabulary"]["enum"],
        json!(VOCABULARIES)
    );
}
