//! Mechanisms from strangers: what is read, what is refused and in which words, and that
//! nothing panics.

use super::{Export, event_of, export, own, parse};
use proptest::prelude::*;
use reticent_accounting::{
    Delta, Epsilon, Mechanism, Neighbours, NoiseMultiplier, Plan, Probability, Sampling,
    SamplingRate, Steps, UnitName,
};
use serde_json::{Value, json};

const ASKED: Neighbours = Neighbours::AddRemove;

fn read(text: &str) -> Result<Mechanism, String> {
    parse(text, ASKED)
        .map(|(mechanism, _)| mechanism)
        .map_err(|refused| refused.to_string())
}

fn sigma(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn rate(value: f64) -> SamplingRate {
    SamplingRate::new(value).unwrap()
}

fn batch(noise: f64, share: f64, sampling: Sampling) -> Mechanism {
    Mechanism::SubsampledGaussian {
        noise_multiplier: sigma(noise),
        sampling_rate: rate(share),
        sampling,
    }
}

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

/// Events written by the library itself, both shapes; the file says how.
fn library() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("events.json")).unwrap();
    file["events"].as_array().unwrap().clone()
}

fn event(name: &str) -> Value {
    let all = library();
    all.into_iter().find(|event| event["name"] == name).unwrap()
}

#[test]
fn events_of_the_library_are_read_in_both_shapes() {
    let gaussian = |value| Mechanism::Gaussian {
        noise_multiplier: sigma(value),
    };
    let nothing = Mechanism::Sequence { parts: vec![] };
    for (name, expected) in [
        ("no-op", nothing.clone()),
        ("gaussian", gaussian(2.0)),
        ("laplace", Mechanism::Laplace { scale: sigma(1.5) }),
        ("poisson", batch(1.1, 0.01, Sampling::Poisson)),
        ("dp-sgd", repeat(1000, batch(1.1, 0.01, Sampling::Poisson))),
        (
            "truncated",
            batch(
                1.1,
                0.01,
                Sampling::TruncatedPoisson {
                    max_batch: 20,
                    records: 1000,
                },
            ),
        ),
        (
            "without-replacement",
            batch(1.0, 0.01, Sampling::WithoutReplacement),
        ),
        (
            "with-replacement",
            batch(1.0, 0.01, Sampling::WithReplacement),
        ),
        (
            "sequence",
            Mechanism::Sequence {
                parts: vec![
                    repeat(50, batch(2.0, 0.05, Sampling::Poisson)),
                    gaussian(8.0),
                    nothing,
                ],
            },
        ),
        (
            "randomised-response",
            Mechanism::RandomisedResponse {
                truth: Probability::new(0.8125).unwrap(),
                categories: 4,
            },
        ),
        (
            "poisson-laplace",
            Mechanism::SubsampledLaplace {
                scale: sigma(2.0),
                sampling_rate: rate(0.1),
                sampling: Sampling::Poisson,
            },
        ),
    ] {
        for shape in ["object", "list"] {
            let text = event(name)[shape].to_string();
            assert_eq!(read(&text), Ok(expected.clone()), "{name} as {shape}");
        }
    }
    let non_private = read(&event("non-private")["object"].to_string()).unwrap();
    assert!(matches!(non_private, Mechanism::NonPrivate { .. }));
}

#[test]
fn several_gaussians_on_one_batch_are_one() {
    let read = read(&event("poisson-several")["list"].to_string()).unwrap();
    let Mechanism::SubsampledGaussian {
        noise_multiplier, ..
    } = read
    else {
        panic!("{read:?}")
    };
    // 1/9 + 4/16 of a noise deviation squared, and never less noise than that.
    let exact = (1.0f64 / 9.0 + 0.25).powf(-0.5);
    let found = noise_multiplier.get() / exact;
    assert!(found <= 1.0 && found > 1.0 - 1e-13, "{found}");
}

#[test]
fn what_has_no_counterpart_is_refused_by_name() {
    for (name, class) in [
        ("unsupported", "UnsupportedDpEvent"),
        ("tree", "SingleEpochTreeAggregationDpEvent"),
        ("repeat-and-select", "RepeatAndSelectDpEvent"),
        ("zcdp", "ZCDpEvent"),
    ] {
        for shape in ["object", "list"] {
            let why = read(&event(name)[shape].to_string()).unwrap_err();
            assert_eq!(why, format!("{class} has no counterpart here"), "{shape}");
        }
    }
    let flip = json!({"class_name": "PermuteAndFlipDpEvent", "epsilon": 1.0});
    assert!(
        read(&flip.to_string())
            .unwrap_err()
            .contains("PermuteAndFlipDpEvent")
    );
    let inside = json!({"class_name": "ComposedDpEvent", "events": [
        {"class_name": "GaussianDpEvent", "noise_multiplier": 1},
        {"class_name": "ZCDpEvent", "rho": 0.1, "xi": 0}]});
    assert_eq!(
        read(&inside.to_string()).unwrap_err(),
        "events[1]: ZCDpEvent has no counterpart here"
    );
}

/// Our ε is between our two ends; the library's, pessimistic on a grid, lies at most a little above.
#[test]
fn both_accountants_say_the_same_of_an_event() {
    for name in ["gaussian", "poisson", "dp-sgd", "sequence", "nested"] {
        let event = event(name);
        for asked in ["add-remove", "zero-out"] {
            let theirs = event["epsilon"][asked].as_f64().unwrap();
            let mechanism = read(&event["object"].to_string()).unwrap();
            let mut plan = Plan::new(
                mechanism,
                UnitName::new("record").unwrap(),
                Delta::new(1e-5).unwrap(),
            );
            if asked == "zero-out" {
                plan.neighbours = Neighbours::ZeroOut;
            }
            let ours = plan.epsilon().unwrap();
            let (low, high) = (
                ours.lower.unwrap().get().get(),
                ours.upper.unwrap().get().get(),
            );
            assert!(theirs >= low * (1.0 - 1e-6), "{name}: {theirs} < {low}");
            assert!(theirs <= high * 1.002, "{name}: {theirs} > {high}");
        }
    }
}

#[test]
fn what_is_written_reads_back() {
    for event in library() {
        let Ok(mechanism) = read(&event["object"].to_string()) else {
            continue;
        };
        let ours = export(&mechanism, Export::Mechanism).unwrap();
        assert_eq!(read(&ours), Ok(mechanism.clone()), "{ours}");
        let Ok(theirs) = event_of(&mechanism) else {
            // The library wants the sizes of such batches, we keep their ratio.
            assert!(
                event["name"].as_str().unwrap().ends_with("replacement"),
                "{event}"
            );
            continue;
        };
        match read(&theirs.to_string()).unwrap() {
            // The reason is not part of an event.
            Mechanism::NonPrivate { .. } => {
                assert!(matches!(mechanism, Mechanism::NonPrivate { .. }))
            }
            back => assert_eq!(rounded(&back), rounded(&mechanism), "{theirs}"),
        }
    }
}

/// With reciprocals and shares of truth to a few roundings.
fn rounded(mechanism: &Mechanism) -> Mechanism {
    let near = |x: f64| format!("{x:.12e}").parse().unwrap();
    match mechanism {
        Mechanism::DiscreteLaplace { scale, sensitivity } => Mechanism::DiscreteLaplace {
            scale: sigma(near(scale.get())),
            sensitivity: *sensitivity,
        },
        Mechanism::RandomisedResponse { truth, categories } => Mechanism::RandomisedResponse {
            truth: Probability::new(near(truth.get())).unwrap(),
            categories: *categories,
        },
        other => other.clone(),
    }
}

#[test]
fn rounding_never_promises_more() {
    use super::event::{reciprocal_below, truth_above};
    for i in 1..2000 {
        let a = 0.001 * f64::from(i);
        // b·a ≤ 1 exactly: the fused product is rounded once.
        assert!(reciprocal_below(a).mul_add(a, -1.0) <= 0.0, "{a}");
        assert!(reciprocal_below(a) * a > 1.0 - 1e-15);
        for k in [2.0, 3.0, 7.0] {
            let lie = (a / 2.0).min(1.0);
            let truth = truth_above(lie, k);
            assert!(
                truth >= 1.0 - lie * (k - 1.0) / k - 1e-16
                    && truth < 1.0 - lie * (k - 1.0) / k + 1e-15
            );
        }
    }
    assert!((truth_above(0.5, 2.0) - 0.75).abs() <= 0.0);
}

#[test]
fn what_an_event_cannot_say_is_told() {
    let told = |mechanism: &Mechanism| event_of(mechanism).unwrap_err();
    assert!(told(&batch(1.0, 0.1, Sampling::Shuffled)).contains("shuffled"));
    assert!(told(&batch(1.0, 0.1, Sampling::WithoutReplacement)).contains("fixed size"));
    let guess = Mechanism::Estimated {
        inner: Box::new(batch(1.0, 0.1, Sampling::Poisson)),
        why: "a guess".into(),
    };
    assert!(told(&repeat(3, guess)).contains("a guess"));
    let infinite = Mechanism::PureDp {
        epsilon: Epsilon::new(f64::INFINITY).unwrap(),
        neighbours: ASKED,
    };
    assert!(told(&infinite).contains("infinite"));
}

#[test]
fn promises_take_the_neighbours_that_are_asked() {
    let event =
        json!({"class_name": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 0.0}).to_string();
    let (found, _) = parse(&event, Neighbours::Replace).unwrap();
    let epsilon = Epsilon::new(1.0).unwrap();
    assert_eq!(
        found,
        Mechanism::PureDp {
            epsilon,
            neighbours: Neighbours::Replace
        }
    );
}

#[test]
fn documents_that_hold_a_mechanism() {
    let inner = json!({"type": "gaussian", "noise_multiplier": 2.0});
    let plain = Mechanism::Gaussian {
        noise_multiplier: sigma(2.0),
    };
    let manifest = json!({"schema": 1, "type": "checkpoint", "unit": "turn", "mechanism": inner, "seeded": false});
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

/// One of each kind of leaf.
fn leaves() -> impl Strategy<Value = Mechanism> {
    let noise = || (1e-3f64..1e3).prop_map(sigma);
    let share = || (1e-6f64..1.0).prop_map(rate);
    let sampling = prop_oneof![
        Just(Sampling::Poisson),
        Just(Sampling::WithoutReplacement),
        Just(Sampling::WithReplacement),
        Just(Sampling::Shuffled),
        Just(Sampling::BallsInBins),
        (1u64..99, 1u64..99)
            .prop_map(|(max_batch, records)| Sampling::TruncatedPoisson { max_batch, records }),
    ];
    let neighbours = || {
        prop_oneof![
            Just(Neighbours::AddRemove),
            Just(Neighbours::ZeroOut),
            Just(Neighbours::Replace)
        ]
    };
    let epsilon =
        || prop_oneof![0.0f64..50.0, Just(f64::INFINITY)].prop_map(|e| Epsilon::new(e).unwrap());
    let chance = || (0.0f64..=1.0).prop_map(|p| Probability::new(p).unwrap());
    prop_oneof![
        noise().prop_map(|noise_multiplier| Mechanism::Gaussian { noise_multiplier }),
        (noise(), share(), sampling.clone()).prop_map(
            |(noise_multiplier, sampling_rate, sampling)| {
                Mechanism::SubsampledGaussian {
                    noise_multiplier,
                    sampling_rate,
                    sampling,
                }
            }
        ),
        (noise(), share(), sampling).prop_map(|(scale, sampling_rate, sampling)| {
            Mechanism::SubsampledLaplace {
                scale,
                sampling_rate,
                sampling,
            }
        }),
        (noise(), prop::collection::vec(share(), 1..4)).prop_map(|(noise_multiplier, rates)| {
            Mechanism::PoissonBinomialGaussian {
                noise_multiplier,
                rates,
            }
        }),
        noise().prop_map(|noise_multiplier| Mechanism::MixtureOfGaussians {
            noise_multiplier,
            sensitivities: vec![0.0, 1.5],
            probabilities: vec![
                Probability::new(0.75).unwrap(),
                Probability::new(0.25).unwrap()
            ],
        }),
        noise().prop_map(|scale| Mechanism::Laplace { scale }),
        (noise(), 1u32..9)
            .prop_map(|(sigma, sensitivity)| Mechanism::DiscreteGaussian { sigma, sensitivity }),
        (noise(), 1u32..9)
            .prop_map(|(scale, sensitivity)| Mechanism::DiscreteLaplace { scale, sensitivity }),
        (chance(), 2u32..9)
            .prop_map(|(truth, categories)| Mechanism::RandomisedResponse { truth, categories }),
        (epsilon(), neighbours()).prop_map(|(epsilon, neighbours)| {
            Mechanism::ExponentialMechanism {
                epsilon,
                neighbours,
            }
        }),
        (epsilon(), neighbours()).prop_map(|(epsilon, neighbours)| Mechanism::PureDp {
            epsilon,
            neighbours
        }),
        (epsilon(), 0.0f64..1.0, neighbours()).prop_map(|(epsilon, delta, neighbours)| {
            Mechanism::ApproxDp {
                epsilon,
                delta: Delta::new(delta).unwrap(),
                neighbours,
            }
        }),
        ".{0,20}".prop_map(|why| Mechanism::NonPrivate { why }),
    ]
}

fn mechanisms() -> impl Strategy<Value = Mechanism> {
    leaves().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            (0u64..1 << 53, inner.clone()).prop_map(|(times, each)| repeat(times, each)),
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|parts| Mechanism::Sequence { parts }),
            (inner, ".{0,9}").prop_map(|(inner, why)| Mechanism::Estimated {
                inner: Box::new(inner),
                why
            }),
        ]
    })
}

/// Any JSON, with the words that mechanisms use among its keys and texts.
fn documents() -> impl Strategy<Value = Value> {
    let word = || {
        prop_oneof![
            prop::sample::select(own::KINDS.to_vec()).prop_map(str::to_owned),
            prop::sample::select(vec![
                "type",
                "each",
                "times",
                "parts",
                "noise_multiplier",
                "sampling_rate",
                "sampling",
                "poisson",
                "inf",
                "mechanism",
                "class_name",
                "event",
                "events",
                "count",
                "SelfComposedDpEvent",
                "ComposedDpEvent",
                "GaussianDpEvent",
                "PoissonSampledDpEvent",
                "sampling_probability",
                "truncated-poisson",
                "unit",
            ])
            .prop_map(str::to_owned),
            ".{0,6}",
        ]
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Our reader and the accountant's own agree on every mechanism.
    #[test]
    fn every_mechanism_reads_back(mechanism in mechanisms()) {
        let text = export(&mechanism, Export::Mechanism).unwrap();
        prop_assert_eq!(serde_json::from_str::<Mechanism>(&text).unwrap(), mechanism.clone());
        prop_assert_eq!(read(&text), Ok(mechanism.clone()), "{}", text);
        if let Ok(event) = event_of(&mechanism) {
            prop_assert!(read(&event.to_string()).is_ok(), "{}", event);
        }
        prop_assert!(!super::words::line(&mechanism).is_empty());
    }

    #[test]
    fn no_json_panics(document in documents()) {
        let _ = read(&document.to_string());
    }

    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = read(&text);
    }
}
