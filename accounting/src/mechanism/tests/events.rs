//! Events of the reference library, against what it wrote and computed itself.

use super::{NEIGHBOURS, batch, rate, read, repeat, sigma};
use crate::guarantee::Plan;
use crate::mechanism::{Mechanism, Sampling, to_event};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Delta, Divergence, Epsilon, MeanRepetitions, Probability, RepetitionShape, UnitName,
};
use serde_json::{Value, json};

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
            "zcdp",
            Mechanism::Zcdp {
                rho: Divergence::new(0.1).unwrap(),
                xi: Divergence::ZERO,
                neighbours: NEIGHBOURS,
            },
        ),
        (
            "repeat-and-select",
            Mechanism::RepeatAndSelect {
                each: Box::new(Mechanism::Gaussian {
                    noise_multiplier: sigma(1.0),
                }),
                mean: MeanRepetitions::new(3.0).unwrap(),
                shape: RepetitionShape::new(1.0).unwrap(),
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
        {"class_name": "PermuteAndFlipDpEvent", "epsilon": 1}]});
    assert_eq!(
        read(&inside.to_string()).unwrap_err(),
        "events[1]: PermuteAndFlipDpEvent has no counterpart here"
    );
}

/// Our ε is between our two ends; the library's, pessimistic on a grid, lies at most a little above.
#[test]
fn both_accountants_say_the_same_of_an_event() {
    for name in [
        "gaussian",
        "laplace",
        "discrete-laplace",
        "mixture",
        "poisson",
        "poisson-laplace",
        "dp-sgd",
        "sequence",
        "nested",
    ] {
        let event = event(name);
        for relation in ["add-remove", "zero-out"] {
            let theirs = event["epsilon"][relation].as_f64().unwrap();
            let mechanism = read(&event["object"].to_string()).unwrap();
            let mut plan = Plan::new(
                mechanism,
                UnitName::new("record").unwrap(),
                Delta::new(1e-5).unwrap(),
            );
            if relation == "zero-out" {
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
        let ours = serde_json::to_string(&mechanism).unwrap();
        assert_eq!(read(&ours), Ok(mechanism.clone()), "{ours}");
        let Ok(theirs) = to_event(&mechanism, NEIGHBOURS) else {
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
    use crate::mechanism::event::{reciprocal_below, truth_above};
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
    // Out and in again, as much truth as before, also where hardly anybody lies.
    for truth in [0.25, 0.5, 0.8125, 0.9, 1.0 - 1e-9, 1.0 - 1e-15, 1.0] {
        let mechanism = Mechanism::RandomisedResponse {
            truth: Probability::new(truth).unwrap(),
            categories: 4,
        };
        let event = to_event(&mechanism, NEIGHBOURS).unwrap();
        let Mechanism::RandomisedResponse { truth: back, .. } = read(&event.to_string()).unwrap()
        else {
            panic!("{event}");
        };
        assert!(
            back.get() >= truth && back.get() <= truth + 1e-15,
            "{truth} {back}"
        );
    }
}

#[test]
fn what_an_event_cannot_say_is_refused() {
    let refused = |mechanism: &Mechanism| to_event(mechanism, NEIGHBOURS).unwrap_err().to_string();
    assert!(refused(&batch(1.0, 0.1, Sampling::Shuffled)).contains("shuffled"));
    assert!(refused(&batch(1.0, 0.1, Sampling::WithoutReplacement)).contains("fixed size"));
    let guess = Mechanism::Estimated {
        inner: Box::new(batch(1.0, 0.1, Sampling::Poisson)),
        why: "a guess".into(),
    };
    assert!(refused(&repeat(3, guess)).contains("a guess"));
    let infinite = Mechanism::PureDp {
        epsilon: Epsilon::new(f64::INFINITY).unwrap(),
        neighbours: NEIGHBOURS,
    };
    assert!(refused(&infinite).contains("infinite"));
    // An event has no neighbours: read again it would promise what it never did.
    let replaced = Mechanism::PureDp {
        epsilon: Epsilon::new(1.0).unwrap(),
        neighbours: Neighbours::Replace,
    };
    assert!(refused(&repeat(3, replaced.clone())).contains("a promise for replace"));
    assert!(to_event(&replaced, Neighbours::Replace).is_ok());
}

#[test]
fn promises_take_the_neighbours_that_are_asked() {
    let event =
        json!({"class_name": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 0.0}).to_string();
    let found = crate::training::read(&event, Neighbours::Replace).unwrap();
    let epsilon = Epsilon::new(1.0).unwrap();
    assert_eq!(
        found.mechanism,
        Mechanism::PureDp {
            epsilon,
            neighbours: Neighbours::Replace
        }
    );
}

/// Batches that hold nobody release nothing about anybody; what was to run on them has to be readable.
#[test]
fn a_rate_of_zero_draws_nothing() {
    let event = |inner: Value| json!({"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.0, "event": inner});
    let gaussian = json!({"class_name": "GaussianDpEvent", "noise_multiplier": 3.0});
    let nothing = Mechanism::Sequence { parts: Vec::new() };
    assert_eq!(read(&event(gaussian).to_string()).unwrap(), nothing);
    let broken = json!({"class_name": "GaussianDpEvent", "noise_multiplier": -3.0});
    assert!(read(&event(broken).to_string()).is_err());
}

#[test]
fn many_gaussians_on_a_batch_are_never_less_than_they_are() {
    // 1/3² a thousand times over is not exact, nor is any partial sum.
    let one = json!({"class_name": "GaussianDpEvent", "noise_multiplier": 3.0});
    for (inner, many) in [
        (
            json!({"class_name": "ComposedDpEvent", "events": vec![one.clone(); 9000]}),
            9000.0,
        ),
        (
            json!({"class_name": "SelfComposedDpEvent", "event": one, "count": 7}),
            7.0,
        ),
    ] {
        let event = json!({"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.1, "event": inner});
        let Mechanism::SubsampledGaussian {
            noise_multiplier, ..
        } = read(&event.to_string()).unwrap()
        else {
            panic!("{event}")
        };
        // σ² n ≤ 3² with a fused product, so exactly.
        let found = noise_multiplier.get();
        assert!((found * found).mul_add(many, -9.0) <= 0.0, "{found}");
        assert!(found * found * many > 9.0 * (1.0 - 1e-10), "{found}");
    }
}
