//! Any mechanism reads back; no document panics.

use super::NEIGHBOURS;
use super::{rate, read, repeat, sigma};
use crate::mechanism::{Mechanism, Sampling, to_event};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Delta, Divergence, Epsilon, MeanRepetitions, Order, Probability, RepetitionShape,
};
use proptest::prelude::*;
use serde_json::Value;

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
        (1u64..9, 9u64..99)
            .prop_map(|(selected, steps)| Sampling::RandomAllocation { selected, steps }),
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
    let divergence =
        || prop_oneof![0.0f64..9.0, Just(f64::INFINITY)].prop_map(|d| Divergence::new(d).unwrap());
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
        (divergence(), divergence(), neighbours()).prop_map(|(rho, xi, neighbours)| {
            Mechanism::Zcdp {
                rho,
                xi,
                neighbours,
            }
        }),
        (prop::collection::vec(divergence(), 1..4), neighbours()).prop_map(
            |(divergences, neighbours)| Mechanism::RenyiDp {
                orders: (0..divergences.len())
                    .map(|i| Order::new(1.5 + i as f64).unwrap())
                    .collect(),
                divergences,
                neighbours,
            }
        ),
        ".{0,20}".prop_map(|why| Mechanism::NonPrivate { why }),
    ]
}

fn mechanisms() -> impl Strategy<Value = Mechanism> {
    leaves().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            (0u64..1 << 53, inner.clone()).prop_map(|(times, each)| repeat(times, each)),
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|parts| Mechanism::Sequence { parts }),
            (
                inner.clone(),
                1.0f64..99.0,
                prop_oneof![0.0f64..9.0, Just(f64::INFINITY)]
            )
                .prop_map(|(each, mean, shape)| Mechanism::RepeatAndSelect {
                    each: Box::new(each),
                    mean: MeanRepetitions::new(mean).unwrap(),
                    shape: RepetitionShape::new(shape).unwrap(),
                }),
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
            prop::sample::select(vec![
                "type",
                "gaussian",
                "subsampled-gaussian",
                "mixture-of-gaussians",
                "randomised-response",
                "approx-dp",
                "zcdp",
                "renyi-dp",
                "orders",
                "divergences",
                "repeat-and-select",
                "mean",
                "shape",
                "rho",
                "non-private",
                "repeat",
                "sequence",
                "estimated",
                "checkpoint",
                "training",
                "inputs",
                "seeded",
                "vocabulary",
                "sensitivities",
                "probabilities",
                "inner",
                "why",
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
    /// What is written is read, by the type's own reader and by ours.
    #[test]
    fn every_mechanism_reads_back(mechanism in mechanisms()) {
        let text = serde_json::to_string(&mechanism).unwrap();
        prop_assert_eq!(serde_json::from_str::<Mechanism>(&text).unwrap(), mechanism.clone());
        prop_assert_eq!(read(&text), Ok(mechanism.clone()), "{}", text);
        if let Ok(event) = to_event(&mechanism, NEIGHBOURS) {
            prop_assert!(read(&event.to_string()).is_ok(), "{}", event);
        }
    }

    /// Documents that are read say nothing that the mechanism doesn't: written again they are the same.
    #[test]
    fn no_json_panics(document in documents()) {
        if let Ok(mechanism) = read(&document.to_string()) {
            let text = serde_json::to_string(&mechanism).unwrap();
            prop_assert_eq!(read(&text), Ok(mechanism));
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = read(&text);
    }
}
