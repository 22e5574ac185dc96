//! Documents that hold a mechanism, and what is refused with which words.

use super::{NEIGHBOURS, read, sigma};
use crate::mechanism::Mechanism;
use crate::quantity::UnitName;
use crate::training::read as parse;
use serde_json::{Value, json};

fn given(value: impl Into<Value>) -> Value {
    json!({"value": value.into(), "provenance": {"from": "given", "by": "test"}})
}

/// The manifest of a run of which only the mechanism is known.
fn manifest(inner: &Value) -> Value {
    let plan = json!({"run": {"recipe": "mechanism", "mechanism": inner}, "unit": given("turn"), "delta": given(1e-6),
        "unauthenticated_corpus": false});
    json!({"schema": 1, "type": "checkpoint", "unit": "turn", "seeded": false, "vocabulary": "bytes", "plan": plan,
        "mechanism": inner})
}

#[test]
fn documents_that_hold_a_mechanism() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    let plain = Mechanism::Gaussian {
        noise_multiplier: sigma(2.0),
    };
    let found = parse(&manifest(&inner).to_string(), NEIGHBOURS).unwrap();
    assert_eq!(
        (&found.mechanism, found.unit),
        (&plain, Some(UnitName::new("turn").unwrap()))
    );
    let own = json!({"schema": 1, "type": "guarantees", "inputs": {"unit": "dialogue"}, "mechanism": inner});
    assert_eq!(
        parse(&own.to_string(), NEIGHBOURS).unwrap().unit,
        Some(UnitName::new("dialogue").unwrap())
    );
    // Of a curve over noise, rate or steps the mechanism is that of its first point.
    let curve = |over: &str| {
        json!({"schema": 1, "type": "curve", "inputs": {"over": over}, "mechanism": inner})
            .to_string()
    };
    assert_eq!(parse(&curve("gamma"), NEIGHBOURS).unwrap().mechanism, plain);
    assert_eq!(
        parse(&curve("steps"), NEIGHBOURS).unwrap_err().to_string(),
        "mechanism: a curve over steps holds another mechanism at each of its points"
    );
    // What leaves nothing of a promise stays with the mechanism.
    for (key, value, said) in [
        ("seeded", json!(true), "fixed seed"),
        ("vocabulary", json!("leaks"), "vocabulary"),
    ] {
        let of = |inner: &Value| {
            let mut manifest = manifest(inner);
            manifest[key] = value.clone();
            read(&manifest.to_string()).unwrap()
        };
        let open = of(&inner);
        // The document of a run states it in its mechanism too: it stood there twice.
        let stated = serde_json::to_value(&open).unwrap();
        assert_eq!(of(&stated), open);
        // Not if that part runs zero times.
        let never = json!({"type": "repeat", "times": 0, "each": stated});
        assert!(matches!(of(&never), Mechanism::Sequence { .. }));
        let Mechanism::Sequence { parts } = open else {
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
    let refused = parse(&about.to_string(), NEIGHBOURS)
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("inputs.seeded: invalid type: string \"yes\", expected a boolean"),
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
        ("[1,2,3]", "class, fields), got another list"),
        ("{\"sigma\":1}", "neither a mechanism"),
        (
            "{\"type\":\"dp-sgd\"}",
            "type: unknown variant `dp-sgd`, expected one of `gaussian`",
        ),
        (
            "{\"type\":\"gaussian\"}",
            "missing field `noise_multiplier`",
        ),
        // Not a document around a single step.
        (
            "{\"type\":\"repeat\",\"times\":9,\"mechanism\":{\"type\":\"gaussian\",\"noise_multiplier\":1}}",
            "mechanism: unknown field `mechanism`",
        ),
        (
            "{\"class_name\":\"MagicDpEvent\"}",
            "class_name: unknown variant `MagicDpEvent`",
        ),
        (
            "{\"class_name\":\"GaussianDpEvent\",\"sigma\":1}",
            "sigma: unknown field `sigma`, expected `noise_multiplier`",
        ),
        (
            "[\"dp_accounting.dp_event\",\"GaussianDpEvent\",1,2]",
            "[3]: unknown field `[3]`, expected `noise_multiplier`",
        ),
        (
            "[\"dp_accounting.dp_event\",\"GaussianDpEvent\"]",
            "missing field `noise_multiplier`",
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
            "each.parts[0].noise_multiplier: invalid value: string \"much\", expected a number or \"inf\"",
        ),
        (
            "sampling_rate",
            json!(2),
            "each.parts[0].sampling_rate: sampling rate must lie in [0, 1], got 2",
        ),
        (
            "sampling",
            json!("lottery"),
            "each.parts[0].sampling: unknown variant `lottery`, expected one of `poisson`, ",
        ),
        (
            "sampling",
            json!({"truncated-poisson": {"max_batch": 0, "records": 5}}),
            "each.parts[0].sampling.truncated-poisson.max_batch: must be a whole number in [1, ",
        ),
        (
            "clip",
            json!(1),
            "each.parts[0].clip: unknown field `clip`, expected one of `noise_multiplier`, ",
        ),
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

/// A rate of 1e-400 was read as none at all, and promised ε = 0. Zero itself is a number, and texts are none.
#[test]
fn decimals_that_would_be_read_as_other_numbers_are_refused() {
    let event = |rate: &str| {
        format!(
            "{{\"class_name\":\"PoissonSampledDpEvent\",\"sampling_probability\":{rate},\
             \"event\":{{\"class_name\":\"GaussianDpEvent\",\"noise_multiplier\":1}}}}"
        )
    };
    for rate in ["1e-400", "0.3E-330", "0.0009e-999", "2e-324"] {
        let refused = read(&event(rate)).unwrap_err();
        let said = format!("{rate} is too small for a number: must be 0 or at least 5e-324");
        assert!(refused.contains(&said), "{refused}");
    }
    // A rate just above one was read as one.
    let refused = read(&event("1.0000000000000001")).unwrap_err();
    assert!(
        refused.ends_with("got 1.0000000000000001, which would be read as 1"),
        "{refused}"
    );
    let half = read("{\"type\":\"repeat\",\"times\":9007199254740990.5,\"each\":{}}").unwrap_err();
    assert!(half.contains("got 9007199254740990.5, which"), "{half}");
    // Each by its place in the document, whatever texts and numbers come before.
    let sequence = |last: &str| {
        let first = "{\"type\":\"repeat\",\"times\":1e2,\"each\":{\"type\":\"gaussian\",\"noise_multiplier\":-0.0}}";
        let noted = "{\"type\":\"non-private\",\"why\":\"\\\"1e-400\"}";
        let last = format!(
            "{{\"type\":\"poisson-binomial-gaussian\",\"rates\":[0.5, {last}],\"noise_multiplier\":1}}"
        );
        format!("{{\"type\":\"sequence\",\"parts\":[{first},{noted},{last}]}}")
    };
    let refused = read(&sequence("1e-400")).unwrap_err();
    assert!(
        refused.contains("parts[2].rates[1]: 1e-400 is too small"),
        "{refused}"
    );
    // What is no count, with the range.
    for (times, got) in [("1.5", "1.5"), ("-1", "-1"), ("1e300", "1e300")] {
        let text = format!(
            "{{\"type\":\"repeat\",\"times\":{times},\"each\":{{\"type\":\"gaussian\",\"noise_multiplier\":1}}}}"
        );
        let refused = read(&text).unwrap_err();
        let said = format!("times: must be a whole number in [0, 18446744073709551615], got {got}");
        assert!(refused.ends_with(&said), "{refused}");
    }
    for rate in ["0", "0.0", "0e-400", "5e-324", "1e-300"] {
        read(&event(rate)).unwrap();
    }
    let noted = read("{\"type\":\"non-private\",\"why\":\"\\\"1e-400\\\\\"}").unwrap();
    assert!(matches!(noted, Mechanism::NonPrivate { .. }));
}

/// What one mechanism is put into: passing over any of these keys would make ε too small.
#[test]
fn no_key_beside_a_mechanism_is_passed_over() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    let manifest = manifest(&inner);
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
            "type: unknown variant `Repeat`, expected one of `gaussian`, ",
        ),
        (
            json!({"type": "dp-sgd", "steps": 237, "mechanism": inner}),
            "type: unknown variant `dp-sgd`",
        ),
        (
            json!({"type": 7, "mechanism": inner}),
            "type: invalid type: integer `7`",
        ),
        (
            json!({"count": 237, "mechanism": inner}),
            "count: unknown key; allowed are schema, unit, recipe, labelled, base, held_out_public, dataset_size, not_authenticated, delta, canary_records, canary_records_unknown, mechanism",
        ),
        (
            json!({"mechanism": inner, "mechanisms": [inner]}),
            "mechanisms: unknown key",
        ),
        (
            json!({"dataset_size": 0, "mechanism": inner}),
            "dataset_size: must lie in [1, inf), got 0",
        ),
        (
            json!({"schema": 2, "mechanism": inner}),
            "schema: must be 1, got 2",
        ),
        (with("steps", json!(237)), "steps: unknown key"),
        (with("schema", json!(2)), "schema: must be"),
        (
            with("seeded", json!("true")),
            "seeded: invalid type: string \"true\", expected a boolean",
        ),
        (
            with("seeded", json!(1)),
            "seeded: invalid type: integer `1`, expected a boolean",
        ),
        (
            with("vocabulary", json!("Leaks")),
            "vocabulary: unknown variant `Leaks`, expected one of `bytes`, ",
        ),
        (with("vocabulary", json!(null)), "vocabulary: "),
        (
            with("neighbours", json!("replace")),
            "neighbours: must be add-remove or zero-out",
        ),
        (without("seeded"), "missing field `seeded`"),
        (without("vocabulary"), "missing field `vocabulary`"),
        (without("plan"), "plan: is missing"),
        (
            json!({"type": "subsampled-gaussian", "noise_multiplier": 1, "sampling_rate": 0.1, "sampling": {
                "truncated-poisson": {"max_batch": 10, "records": 100},
                "random-allocation": {"selected": 1, "steps": 10}}}),
            "sampling: ",
        ),
        (
            json!({"module_name": "my.events", "class_name": "GaussianDpEvent", "noise_multiplier": 1}),
            "module_name: must be \"dp_accounting.dp_event\", got \"my.events\"",
        ),
        (
            json!({"module_name": "my.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 1}),
            "module_name: must be \"dp_accounting.dp_event\", got \"my.dp_event\"",
        ),
        (
            json!(["evil_dp_event", "GaussianDpEvent", 1]),
            "module_name: must be \"dp_accounting.dp_event\", got \"evil_dp_event\"",
        ),
        (
            json!({"unit": "turn", "recipe": "sgd", "mechanism": {"type": "gaussian", "noise_multiplier": 2}}),
            "mechanism: must be non-private beside the recipe sgd",
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

/// A manifest may grow; what makes its meaning unclear is refused all the same.
#[test]
fn a_manifest_may_have_more_keys() {
    let mut manifest = manifest(&json!({"type": "gaussian", "noise_multiplier": 2.0}));
    let plain = read(&manifest.to_string());
    for key in ["authentication", "config", "tokenizer"] {
        manifest[key] = json!({"anything": [1, "two", null]});
    }
    assert_eq!(read(&manifest.to_string()), plain);
    for kind in [
        "checkpoint",
        "guarantees",
        "curve",
        "explanation",
        "training",
    ] {
        manifest["type"] = json!(kind);
        for key in ["count", "times", "repeat", "runs", "steps", "epochs"] {
            let mut edited = manifest.clone();
            edited[key] = json!(3);
            let why = read(&edited.to_string()).unwrap_err();
            assert!(why.starts_with(&format!("{key}: unknown key; ")), "{why}");
        }
    }
}

/// A mechanism of one step beside inputs of a thousand was read as one step.
#[test]
fn inputs_state_what_the_mechanism_beside_them_does() {
    let run = |times: u64, sigma: f64, rate: f64| {
        json!({"schema": 1, "type": "guarantees", "inputs": {"sigma": 1.1, "sample_rate": 0.01, "steps": 1000},
            "mechanism": {"type": "repeat", "times": times, "each": {"type": "subsampled-gaussian",
                "noise_multiplier": sigma, "sampling_rate": rate, "sampling": "poisson"}}})
    };
    assert!(read(&run(1000, 1.1, 0.01).to_string()).is_ok());
    let mut once = run(1, 1.1, 0.01);
    once["mechanism"] = once["mechanism"]["each"].take();
    let nested = |outer: u64, inner: u64| {
        let mut nested = run(inner, 1.1, 0.01);
        nested["mechanism"] =
            json!({"type": "repeat", "times": outer, "each": nested["mechanism"]});
        nested
    };
    let mut parts = nested(2, 1);
    parts["mechanism"] =
        json!({"type": "sequence", "parts": [parts["mechanism"], parts["mechanism"]]});
    assert!(read(&nested(10, 100).to_string()).is_ok());
    let with = |mechanism: Value| {
        let mut edited = run(1000, 1.1, 0.01);
        edited["mechanism"] = mechanism;
        edited
    };
    let steps = |times: u64, sigma: f64| run(times, sigma, 0.01)["mechanism"].clone();
    let repeat = |times: u64, each: Value| json!({"type": "repeat", "times": times, "each": each});
    let sequence = |parts: Value| json!({"type": "sequence", "parts": parts});
    let mut in_bins = run(1000, 1.1, 0.01);
    in_bins["mechanism"]["each"]["sampling"] = "balls-in-bins".into();
    for edited in [
        run(1, 1.1, 0.01),
        run(1000, 2.2, 0.01),
        run(1000, 1.1, 0.001),
        run(0, 1.1, 0.01),
        run(1000, 1.1, 0.0),
        once,
        nested(3, 1),
        nested(1000, 1000),
        parts,
        in_bins,
        with(repeat(1000, repeat(0, steps(1, 1.1)))),
        with(repeat(0, repeat(1000, steps(1, 1.1)))),
        with(sequence(json!([]))),
        with(sequence(json!([steps(1, 1.1), steps(1, 50.0)]))),
        with(sequence(json!([
            steps(1000, 1.1),
            steps(0, 1.1),
            steps(1, 50.0)
        ]))),
        with(sequence(json!([steps(999, 1.1), steps(1, 1.2)]))),
        with(json!({"type": "gaussian", "noise_multiplier": 90.0})),
        with(json!({"type": "pure-dp", "epsilon": 0.01, "neighbours": "add-remove"})),
        with(json!({"type": "estimated", "inner": steps(1000, 1.1), "why": "a rate"})),
        with(
            json!({"type": "repeat-and-select", "each": steps(1, 1.1), "mean": 2.0, "shape": 1.0}),
        ),
        with(json!({"type": "non-private", "why": "nothing"})),
    ] {
        let why = read(&edited.to_string()).unwrap_err();
        assert!(
            why.starts_with("mechanism: is not what the inputs"),
            "{edited}: {why}"
        );
    }
    // The same run in other words, and what takes from its promise.
    let open = json!({"type": "non-private", "why": "the vocabulary leaks"});
    for same in [
        sequence(json!([steps(400, 1.1), steps(0, 9.0), steps(600, 1.1)])),
        sequence(json!([sequence(json!([repeat(1, steps(1000, 1.1))]))])),
        sequence(json!([open, steps(1000, 1.1)])),
    ] {
        assert!(read(&with(same.clone()).to_string()).is_ok(), "{same}");
    }
}

/// A document as `account` and `audit train` write it.
fn stating(inputs: &Value, mechanism: &Value) -> Value {
    json!({"schema": 1, "type": "training", "inputs": inputs, "mechanism": mechanism})
}

fn changed(value: &Value, key: &str, to: Value) -> Value {
    let mut changed = value.clone();
    match to {
        Value::Null => drop(changed.as_object_mut().unwrap().remove(key)),
        to => changed[key] = to,
    }
    changed
}

fn sampled(times: u64, sigma: f64, rate: f64, sampling: &Value) -> Value {
    json!({"type": "repeat", "times": times, "each": {"type": "subsampled-gaussian",
        "noise_multiplier": sigma, "sampling_rate": rate, "sampling": sampling}})
}

/// Inputs from which steps and rate follow were not compared with them, nor were sampler and recipe.
#[test]
fn what_the_inputs_state_of_a_run_agrees() {
    let refused = |inputs: &Value, mechanism: &Value, place: &str| {
        let text = stating(inputs, mechanism).to_string();
        let why = read(&text).expect_err(&text);
        assert!(why.starts_with(place), "{place}: {why}");
    };
    let taken = |inputs: &Value, mechanism: &Value| {
        let text = stating(inputs, mechanism).to_string();
        assert!(read(&text).is_ok(), "{text}: {:?}", read(&text));
    };
    let not_it = "mechanism: is not what";
    // By batches and epochs.
    let run = sampled(705, 1.1, 256.0 / 60_000.0, &json!("poisson"));
    let inputs = json!({"batch_size": 256, "dataset_size": 60_000, "epochs": 3.0, "sigma": 1.1,
        "sampler": "poisson", "sample_rate": 256.0 / 60_000.0, "steps": 705});
    taken(&inputs, &run);
    for derived in ["steps", "sample_rate"] {
        taken(&changed(&inputs, derived, Value::Null), &run);
    }
    let by_epochs = changed(&inputs, "steps", Value::Null);
    for (key, to, place) in [
        (
            "epochs",
            json!(20),
            "inputs.steps: must be 4700, as inputs.epochs",
        ),
        ("epochs", json!(0), "inputs.epochs: epochs must lie"),
        ("batch_size", json!(512), "inputs.sample_rate: must be"),
        (
            "batch_size",
            json!(60_001),
            "inputs.batch_size: sampling rate",
        ),
        ("dataset_size", json!(600), "inputs.sample_rate: must be"),
        ("dataset_size", json!(0), "inputs.dataset_size: must lie"),
        ("sample_rate", json!(0.004), "inputs.sample_rate: must be"),
        ("steps", json!(706), "inputs.steps: must be"),
        ("sigma", Value::Null, "inputs.sigma: is missing"),
        ("sigma", json!(0), "inputs.sigma: noise multiplier"),
        ("sigma", json!(1.2), not_it),
        ("sampler", json!("shuffled"), "inputs.steps: must be 702"),
        ("sampler", json!("odd"), "inputs.sampler: unknown variant"),
        ("recipe", json!("sgd"), not_it),
        ("noise_decay", json!({"factor": 0.5, "every": 235}), not_it),
        ("patience", json!(3), not_it),
        ("decay", json!("plateau"), not_it),
        (
            "private_records",
            json!(1),
            "inputs.private_records: must be 60000",
        ),
    ] {
        refused(&changed(&inputs, key, to), &run, place);
    }
    refused(&changed(&by_epochs, "epochs", json!(20)), &run, not_it);
    refused(
        &changed(&by_epochs, "epochs", Value::Null),
        &run,
        "inputs.steps: is missing",
    );
    for (key, to) in [
        ("noise_decay", json!({"factor": 0.5, "every": 705})),
        ("recipe", json!("dpsgd")),
        ("private_records", json!(60_000)),
    ] {
        taken(&changed(&inputs, key, to), &run);
    }
    // Public held-out text leaves the promise.
    let public = changed(&inputs, "held_out_public", json!(true));
    taken(&changed(&public, "patience", json!(3)), &run);
    // Samplers with numbers of their own.
    let inputs = json!({"sigma": 1.1, "sampler": "truncated-poisson", "sample_rate": 0.01, "steps": 20,
        "max_batch": 50, "dataset_size": 1000});
    let cut = |most: u64, records: u64| {
        let sampling = json!({"truncated-poisson": {"max_batch": most, "records": records}});
        sampled(20, 1.1, 0.01, &sampling)
    };
    taken(&inputs, &cut(50, 1000));
    let of_corpus = changed(&inputs, "dataset_size", Value::Null);
    taken(
        &changed(&of_corpus, "private_records", json!(1000)),
        &cut(50, 1000),
    );
    for other in [
        cut(51, 1000),
        cut(50, 100_000),
        sampled(20, 1.1, 0.01, &json!("poisson")),
    ] {
        refused(&inputs, &other, not_it);
    }
    let inputs = json!({"sigma": 1.1, "sampler": "random-allocation", "sample_rate": 0.2, "steps": 20,
        "epochs": 2, "selected": 2, "epoch_steps": 10});
    let allocated = |selected: u64, steps: u64| {
        let sampling = json!({"random-allocation": {"selected": selected, "steps": steps}});
        sampled(20, 1.1, 0.2, &sampling)
    };
    taken(&inputs, &allocated(2, 10));
    refused(&inputs, &allocated(1, 5), not_it);
    refused(
        &changed(&inputs, "selected", json!(1)),
        &allocated(2, 10),
        "inputs.sample_rate: must be 0.1",
    );
    // Rounded up, as the rate of a share is.
    let third = (1.0f64 / 3.0).next_up();
    let inputs = json!({"sigma": 1.1, "sampler": "balls-in-bins", "sample_rate": third, "steps": 6,
        "epochs": 2, "batch_size": 3, "private_records": 10});
    taken(&inputs, &sampled(6, 1.1, third, &json!("balls-in-bins")));
    refused(
        &inputs,
        &sampled(6, 1.1, 0.3, &json!("balls-in-bins")),
        not_it,
    );
}

/// The parts of runs that are more than steps of one kind.
#[test]
fn runs_of_every_recipe_are_compared_with_their_inputs() {
    let (poisson, not_it) = (json!("poisson"), "mechanism: is not what");
    let steps = |times: u64, sigma: f64, rate: f64| sampled(times, sigma, rate, &poisson);
    let sequence = |parts: Value| json!({"type": "sequence", "parts": parts});
    let plain = |times: u64, sigma: f64| {
        json!({"type": "repeat", "times": times,
            "each": {"type": "gaussian", "noise_multiplier": sigma}})
    };
    let open = json!({"type": "non-private", "why": "no noise"});
    let weighted = |times: u64, sigma: f64| {
        json!({"type": "repeat", "times": times, "each":
            {"type": "poisson-binomial-gaussian", "noise_multiplier": sigma, "rates": [0.1, 0.2]}})
    };
    let caught = json!({"every_content_caught": true, "length_and_kind_hidden": true,
        "screening_ignores_secrets": true});
    let of = |more: Value| {
        let mut inputs =
            json!({"sigma": 1.1, "sampler": "poisson", "sample_rate": 0.1, "steps": 20});
        for (key, value) in more.as_object().unwrap() {
            inputs[key] = value.clone();
        }
        inputs
    };
    let decay = of(json!({"noise_decay": {"factor": 0.5, "every": 10}}));
    let sdp = json!({"recipe": "sdp", "sigma": 2.0, "state_sigma": 5.0, "states": 4, "steps": 200, "passes": 2,
        "every_content_caught": true});
    let jft = of(json!({"recipe": "jft", "redacted_alike": caught}));
    let noised = of(
        json!({"recipe": "jft", "first_sigma": 3.0, "first_sample_rate": 0.2, "first_steps": 5}),
    );
    let protect = json!({"recipe": "protect", "sigma": 1.1, "steps": 20});
    let crt = json!({"recipe": "crt", "private_records": 0, "public_records": 9});
    let nothing = sequence(json!([]));
    for (inputs, own, others) in [
        (
            decay,
            sequence(json!([steps(10, 1.1, 0.1), steps(10, 0.55, 0.1)])),
            vec![
                steps(20, 1.1, 0.1),
                sequence(json!([steps(10, 1.1, 0.1)])),
                sequence(json!([steps(15, 1.1, 0.1), steps(5, 0.55, 0.1)])),
            ],
        ),
        (
            sdp.clone(),
            sequence(json!([plain(2, 2.0), plain(8, 5.0)])),
            vec![
                plain(2, 2.0),
                sequence(json!([plain(2, 2.0), plain(7, 5.0)])),
                sequence(json!([plain(1, 2.0), plain(8, 5.0)])),
                nothing.clone(),
            ],
        ),
        (
            changed(&sdp, "every_content_caught", json!(false)),
            open.clone(),
            vec![sequence(json!([plain(2, 2.0), plain(8, 5.0)]))],
        ),
        (
            jft.clone(),
            steps(20, 1.1, 0.1),
            vec![steps(10, 1.1, 0.1), nothing.clone()],
        ),
        (
            changed(
                &jft,
                "redacted_alike",
                changed(&caught, "length_and_kind_hidden", json!(false)),
            ),
            sequence(json!([open, steps(20, 1.1, 0.1)])),
            vec![steps(20, 1.1, 0.1)],
        ),
        (
            noised,
            sequence(json!([steps(5, 3.0, 0.2), steps(20, 1.1, 0.1)])),
            vec![
                steps(20, 1.1, 0.1),
                sequence(json!([steps(4, 3.0, 0.2), steps(20, 1.1, 0.1)])),
            ],
        ),
        (
            protect.clone(),
            weighted(20, 1.1),
            vec![
                weighted(2, 1.1),
                weighted(20, 2.0),
                steps(20, 1.1, 0.1),
                nothing.clone(),
            ],
        ),
        (
            changed(&protect, "sigma", json!(0.0)),
            open.clone(),
            vec![weighted(20, 1.1)],
        ),
        (
            of(json!({"recipe": "crt"})),
            steps(20, 1.1, 0.1),
            vec![nothing.clone()],
        ),
        (crt, nothing.clone(), vec![steps(20, 1.1, 0.1)]),
        (
            json!({"recipe": "sgd", "passes": 3}),
            json!({"type": "repeat", "times": 3, "each": open}),
            vec![
                steps(20, 1.1, 0.1),
                json!({"type": "repeat", "times": 0, "each": open}),
            ],
        ),
        // Beside what it goes on from, which the inputs don't state.
        (
            of(json!({"model": "before"})),
            sequence(json!([steps(30, 1.1, 0.1), plain(1, 9.0)])),
            vec![steps(19, 1.1, 0.1), plain(1, 9.0), nothing],
        ),
    ] {
        let taken = stating(&inputs, &own).to_string();
        assert!(read(&taken).is_ok(), "{taken}: {:?}", read(&taken));
        for other in others {
            let text = stating(&inputs, &other).to_string();
            let why = read(&text).expect_err(&text);
            assert!(why.starts_with(not_it), "{text}: {why}");
        }
    }
    // The rates of protect are stated in the plan among a run's settings alone, and so is what it goes on from.
    let secret_rates = given(json!([0.1, 0.2]));
    let run = json!({"recipe": "protect", "weighted": {"noise_multiplier": given(1.1), "batch": given(4.0),
        "steps_per_epoch": 10, "steps": given(20), "secret_rates": secret_rates}});
    let plan = json!({"run": run, "unit": given("turn"), "delta": given(1e-6), "unauthenticated_corpus": false});
    let planned = changed(&protect, "options", json!({"plan": plan}));
    let mut rarer = weighted(20, 1.1);
    rarer["each"]["rates"] = json!([0.001]);
    assert!(read(&stating(&planned, &weighted(20, 1.1)).to_string()).is_ok());
    // Documents of training state members of the plan that it leaves out itself.
    let mut stated = plan.clone();
    stated["secrets"] = json!({"everything_private": false});
    let stated = changed(&protect, "options", json!({"plan": stated}));
    assert!(read(&stating(&stated, &weighted(20, 1.1)).to_string()).is_ok());
    for (key, other) in [("unit", json!("person")), ("delta", json!(1e-2))] {
        let other = changed(&planned, key, other);
        let why = read(&stating(&other, &weighted(20, 1.1)).to_string()).unwrap_err();
        assert!(why.contains(&format!("inputs.{key}: must be ")), "{why}");
    }
    assert!(read(&stating(&protect, &rarer).to_string()).is_ok());
    let why = read(&stating(&planned, &rarer).to_string()).unwrap_err();
    assert_eq!(why, "mechanism: is not what inputs.options.plan releases");
    // A recipe that is stated in the inputs alone is that of the document.
    let text = stating(&jft, &steps(20, 1.1, 0.1)).to_string();
    let found = parse(&text, NEIGHBOURS).unwrap();
    assert_eq!(found.recipe, Some(crate::training::Recipe::Jft));
}

/// What one record is, how many are asked about, and of how many was read from one of two places.
#[test]
fn documents_agree_with_their_inputs() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    for (key, own, stated) in [
        ("unit", json!("turn"), json!("dialogue")),
        ("group", json!(1), json!(3)),
        ("dataset_size", json!(10), json!(1_000_000)),
        ("recipe", json!("dpsgd"), json!("crt")),
    ] {
        let mut text = stating(&json!({key: stated}), &inner);
        text[key] = own;
        let why = read(&text.to_string()).unwrap_err();
        let said = format!(
            "{key}: must be {}, as inputs.{key} says",
            stated.to_string().replace('"', "")
        );
        assert!(why.starts_with(&said), "{why}");
        let stated = text["inputs"][key].clone();
        text[key] = stated;
        let same = read(&text.to_string());
        // Without its own numbers, crt had no private side.
        assert_eq!(same.is_ok(), key != "recipe", "{key}: {same:?}");
    }
}

/// Records that nobody has made a δ one of few records.
#[test]
fn no_records_are_refused() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    let records =
        |of: Value| parse(&stating(&of, &inner).to_string(), NEIGHBOURS).map(|read| read.records);
    for (of, key) in [
        (json!({"dataset_size": 0}), "dataset_size"),
        (json!({"private_records": 0}), "private_records"),
        (
            json!({"private_records": 0, "public_records": 9}),
            "private_records",
        ),
        (json!({"public_records": 0}), "public_records"),
    ] {
        let why = records(of).unwrap_err().to_string();
        assert_eq!(why, format!("inputs.{key}: must lie in [1, inf), got 0"));
    }
    assert_eq!(
        records(json!({"private_records": 9, "public_records": 0})).unwrap(),
        Some(9)
    );
}

/// A canary may have been in more records of the run that a manifest's goes on from, or in an unknown number.
#[test]
fn records_of_canaries_are_those_of_earlier_runs_too() {
    use crate::training::{CompletedRun, NoisySteps, Run, Stated, TrainingPlan};
    let read = |text: Value| {
        let found = parse(&text.to_string(), NEIGHBOURS).unwrap();
        (found.canary_records, found.canary_records_unknown)
    };
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    assert_eq!(read(inner.clone()), (0, false));
    assert_eq!(read(json!({"mechanism": inner})), (0, false));
    let bare = json!({"mechanism": inner, "canary_records": 7, "canary_records_unknown": true});
    assert_eq!(read(bare), (7, true));
    let private = NoisySteps::poisson(1.5, 0.1, 2).unwrap();
    let unit = crate::UnitName::new("turn").unwrap();
    let earlier: Mechanism = serde_json::from_value(inner).unwrap();
    for (before, expected) in [
        (Some(200), (200, false)),
        (Some(3), (20, false)),
        (None, (20, true)),
    ] {
        let run = CompletedRun {
            canary_records: before,
            ..CompletedRun::of(earlier.clone())
        };
        let plan = TrainingPlan {
            continues: Some(Stated::given(run, "test")),
            ..TrainingPlan::new(
                Run::Dpsgd {
                    private: private.clone(),
                },
                unit.clone(),
            )
        };
        let manifest = json!({"schema": 1, "type": "checkpoint", "unit": "turn", "seeded": false, "vocabulary": "bytes",
            "plan": plan, "mechanism": plan.mechanism(), "canaries": {"canaries": 4, "records": 20, "on_public_side": 0}});
        assert_eq!(read(manifest), expected);
    }
}

/// The plan beside a mechanism is compared with it.
#[test]
fn a_manifest_says_what_its_plan_releases() {
    use crate::training::{NoisySteps, Run, TrainingPlan};
    let private = NoisySteps::poisson(1.5, 0.1, 2).unwrap();
    let unit = crate::UnitName::new("turn").unwrap();
    let plan = TrainingPlan::new(Run::Dpsgd { private }, unit);
    let manifest = |plan: &TrainingPlan, mechanism: Value| {
        json!({"schema": 1, "type": "checkpoint", "unit": "turn", "seeded": plan.seeded, "vocabulary": "bytes",
            "plan": plan, "mechanism": mechanism})
    };
    let own = serde_json::to_value(plan.mechanism()).unwrap();
    assert_eq!(
        read(&manifest(&plan, own.clone()).to_string()).unwrap(),
        plan.mechanism()
    );
    let other = json!({"type": "gaussian", "noise_multiplier": 50.0});
    let why = read(&manifest(&plan, other).to_string()).unwrap_err();
    assert!(why.starts_with("mechanism: is not what the plan"), "{why}");
    let seeded = TrainingPlan {
        seeded: true,
        ..plan.clone()
    };
    assert!(read(&manifest(&seeded, own).to_string()).is_err());
}

/// The model of others is named by where the run began; what continues the run keeps it.
#[test]
fn a_manifest_names_its_base_by_where_the_run_began() {
    use crate::training::{Base, NoisySteps, Run, TrainingPlan};
    let private = NoisySteps::poisson(1.5, 0.1, 2).unwrap();
    let plan = TrainingPlan::new(Run::Dpsgd { private }, UnitName::new("turn").unwrap());
    let manifest = json!({"schema": 1, "type": "checkpoint", "unit": "turn", "seeded": false, "vocabulary": "bytes",
        "recipe": "dpsgd", "mechanism": plan.mechanism(), "plan": plan});
    for (initial, base) in [
        (
            json!({"from": "pretrained", "weights": "aa"}),
            Some(Base::Unstated),
        ),
        (
            json!({"from": "pretrained", "weights": "aa", "declared_public": true}),
            Some(Base::DeclaredPublic),
        ),
        (
            json!({"from": "pretrained", "weights": "aa", "declared_public": true, "has_manifest": true}),
            Some(Base::DeclaredPublicRun),
        ),
        (
            json!({"from": "pretrained", "weights": "aa", "declared_public": true, "manifest_missing": true}),
            Some(Base::DeclaredPublicUnknownRun),
        ),
        (json!({"from": "random", "seed": 3}), None),
    ] {
        let mut manifest = manifest.clone();
        manifest["initial"] = initial.clone();
        let found = parse(&manifest.to_string(), NEIGHBOURS).unwrap();
        assert_eq!(found.base, base, "{initial}");
        // What a run met whose manifest is missing is not known.
        let unknown = base == Some(Base::DeclaredPublicUnknownRun);
        assert_eq!(found.canary_records_unknown, unknown, "{initial}");
        assert_eq!(found.completed().base, base, "{initial}");
    }
}

/// What an answer or a training run says of canaries is read, and silence about a run that may go on
/// from another is no knowledge.
#[test]
fn records_of_canaries_are_read_from_answers() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    for (inputs, expected) in [
        (json!({}), (0, false)),
        (json!({"files": ["manifest.json"]}), (0, true)),
        (json!({"model": "before"}), (0, true)),
        (
            json!({"model": "before", "canary_records": 7, "canary_records_unknown": false}),
            (7, false),
        ),
        (json!({"canary_records_unknown": true}), (0, true)),
    ] {
        for kind in ["training", "guarantees"] {
            let text = json!({"schema": 1, "type": kind, "inputs": inputs, "mechanism": inner});
            let found = parse(&text.to_string(), NEIGHBOURS).unwrap();
            let found = (found.canary_records, found.canary_records_unknown);
            assert_eq!(found, expected, "{text}");
        }
    }
}

#[test]
fn a_plan_says_whether_its_corpus_was_authenticated() {
    use crate::training::{NoisySteps, Run, TrainingPlan};
    let private = NoisySteps::poisson(1.5, 0.1, 2).unwrap();
    let plan = TrainingPlan::new(Run::Dpsgd { private }, UnitName::new("turn").unwrap());
    let mut written = serde_json::to_value(&plan).unwrap();
    let read = |value: &Value| serde_json::from_value::<TrainingPlan>(value.clone());
    assert_eq!(read(&written).unwrap(), plan);
    written
        .as_object_mut()
        .unwrap()
        .remove("unauthenticated_corpus")
        .unwrap();
    let why = read(&written).unwrap_err().to_string();
    assert_eq!(why, "missing field `unauthenticated_corpus`");
}

/// A certificate of lower rates, or of a cell of more records than the coarsest, says little of the run beside it.
#[test]
fn secrets_of_other_rates_than_the_manifest_states_are_refused() {
    let read = |own: Value, cells: Value| {
        let rates = json!([0.1, 0.1]);
        let step =
            json!({"type": "poisson-binomial-gaussian", "noise_multiplier": 1.0, "rates": rates});
        let weighted = json!({"noise_multiplier": given(1.0), "batch": given(4.0),
            "steps_per_epoch": 10, "steps": given(100), "secret_rates": given(rates),
            "secrets": {"own": own, "cells": cells, "classes": [[1, 1e-6, 1e-3, 0]]}});
        let plan = json!({"run": {"recipe": "protect", "weighted": weighted},
            "unit": given("turn"), "delta": given(1e-6), "unauthenticated_corpus": false});
        let manifest = json!({"schema": 1, "type": "checkpoint", "unit": "turn", "seeded": false,
            "vocabulary": "bytes", "recipe": "protect", "plan": plan,
            "mechanism": {"type": "repeat", "times": 100, "each": step}});
        read(&manifest.to_string())
    };
    let none = || json!([]);
    assert!(read(json!([[1e-6, [[0.1, 2]]]]), none()).is_ok());
    assert!(read(none(), json!([[1e-6, 16, 1.0]])).is_ok());
    for (own, cells) in [
        (json!([[1e-6, [[0.0001, 1]]]]), none()),
        (json!([[1e-6, [[0.1, 1]]]]), none()),
        (json!([[1e-6, [[0.1, 4_000_000]]]]), none()),
        (none(), json!([[1e-6, 400_000_000, 1.0]])),
    ] {
        let why = read(own, cells).unwrap_err();
        assert_eq!(
            why,
            "plan.run.weighted.secrets: are not those that secret_rates dominates"
        );
    }
}

/// Whole numbers have the ranges of the reader in its schema.
#[test]
fn the_schema_has_the_ranges_of_the_reader() {
    fn of<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
        let within = value
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values);
        for inner in within.chain(value.as_array().into_iter().flatten()) {
            found.extend(inner.get(key).filter(|inner| inner["type"] == "integer"));
            of(inner, key, found);
        }
    }
    let schema: Value =
        serde_json::from_str(include_str!("../../../../schemas/mechanism.schema.json")).unwrap();
    for (key, least, most) in [
        ("sensitivity", 1, u64::from(u32::MAX)),
        ("categories", 2, u64::from(u32::MAX)),
        ("max_batch", 1, 1 << 53),
        ("records", 1, 1 << 53),
        ("selected", 1, 1 << 53),
        ("steps", 1, 1 << 53),
    ] {
        let mut found = Vec::new();
        of(&schema, key, &mut found);
        assert!(!found.is_empty(), "{key}");
        for range in found {
            assert_eq!(
                (&range["minimum"], &range["maximum"]),
                (&json!(least), &json!(most)),
                "{key}"
            );
        }
    }
}

/// The names of vocabularies are those of the manifest's schema.
#[test]
fn every_vocabulary_of_a_manifest_is_known() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../schemas/manifest.schema.json")).unwrap();
    let names = schema["$defs"]["Origin"]["oneOf"].as_array().unwrap();
    assert!(!names.is_empty());
    for name in names.iter().map(|name| &name["const"]) {
        let mut manifest = manifest(&json!({"type": "gaussian", "noise_multiplier": 2.0}));
        manifest["vocabulary"] = name.clone();
        assert!(read(&manifest.to_string()).is_ok(), "{name}");
    }
}

/// A unit that was only assumed is nobody's word.
#[test]
fn an_assumed_unit_is_not_taken_over() {
    let document = |assumed: Value| {
        let text = json!({"schema": 1, "type": "guarantees", "inputs": {"unit": "record", "assumed": assumed},
            "mechanism": {"type": "gaussian", "noise_multiplier": 2.0}});
        parse(&text.to_string(), NEIGHBOURS).unwrap().unit
    };
    assert_eq!(document(json!(["unit", "delta"])), None);
    assert_eq!(
        document(json!(["delta"])),
        Some(UnitName::new("record").unwrap())
    );
}

/// The type's reader would take these: a list in place of an object, a number in place of a name.
#[test]
fn other_shapes_of_the_same_are_refused() {
    let batch = |sampling: Value| json!({"type": "subsampled-gaussian", "noise_multiplier": 1, "sampling_rate": 0.1, "sampling": sampling});
    for (document, said) in [
        (
            json!({"type": "repeat", "times": 3, "each": ["gaussian", 5]}),
            "each: must be an object, got a list",
        ),
        (
            json!({"type": "repeat", "times": 3, "each": {"type": 0, "noise_multiplier": 5}}),
            "each.type: ",
        ),
        (
            batch(json!({"truncated-poisson": [20, 1000]})),
            "sampling.truncated-poisson: must be an object, got a list",
        ),
        (
            batch(json!({"truncated-poisson": {"max_batch": 20, "records": 1000, "more": 1}})),
            "sampling: unknown field `more`",
        ),
        (
            batch(json!({"poisson": null})),
            "sampling: must be a text, got an object",
        ),
        (
            json!({"class_name": "SelfComposedDpEvent", "count": 3, "event": ["GaussianDpEvent", 5]}),
            "event: must be an object, got a list",
        ),
    ] {
        let why = read(&document.to_string()).unwrap_err();
        assert!(why.starts_with(said), "{document}: {why}");
    }
    // Python writes 3.0 for a count that was computed.
    let text = r#"{"type":"repeat","times":3.0,"each":{"type":"gaussian","noise_multiplier":5}}"#;
    let whole = read(&text.replace("3.0", "3")).unwrap();
    assert_eq!(read(text), Ok(whole));
    assert!(
        read(&text.replace("3.0", "3.5"))
            .unwrap_err()
            .starts_with("times: ")
    );
}

/// Beside the first fault of a deep document nothing else is blamed.
#[test]
fn the_innermost_fault_is_named() {
    let mut parts = vec![json!({"type": "gaussian", "noise_multiplier": 5}); 40];
    parts[23] = json!({"type": "repeat", "times": 2, "each": {"type": "approx-dp", "epsilon": 1,
        "delta": 2, "neighbours": "replace"}});
    for (document, said) in [
        (
            json!({"mechanism": {"type": "sequence", "parts": parts}}),
            "mechanism.parts[23].each.delta: delta must lie in [0, 1], got 2",
        ),
        (
            json!({"type": "estimated", "why": "x", "inner": {"type": "gaussian"}}),
            "inner: missing field `noise_multiplier`",
        ),
        (
            json!({"type": "discrete-gaussian", "sigma": 1, "sensitivity": 0}),
            "sensitivity: must be a whole number in [1, 4294967295], got 0",
        ),
        (
            json!({"type": "sequence", "parts": [{"type": "randomised-response", "truth": 0.5, "categories": 1}]}),
            "parts[0].categories: must be a whole number in [2, 4294967295], got 1",
        ),
        (
            json!({"type": "repeat", "times": 1u64 << 54, "each": {"type": "gaussian", "noise_multiplier": 5}}),
            "times: must be a whole number in [0, 9007199254740992], got 18014398509481984",
        ),
        (
            json!({"class_name": "ComposedDpEvent", "events": [
                {"class_name": "SelfComposedDpEvent", "count": 3, "event": {"class_name": "GaussianDpEvent", "noise_multiplier": -1}}]}),
            "events[0].event.noise_multiplier: noise multiplier must lie in (0, inf), got -1",
        ),
        (
            json!([
                "dp_accounting.dp_event",
                "PoissonSampledDpEvent",
                2,
                ["dp_accounting.dp_event", "GaussianDpEvent", 1]
            ]),
            "sampling_probability: probability must lie in [0, 1], got 2",
        ),
    ] {
        let why = read(&document.to_string()).unwrap_err();
        assert_eq!(why, said);
    }
}
