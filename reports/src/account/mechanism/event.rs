//! The event descriptions of Google's `dp_accounting` for Python, in and out.
//!
//! The library has no JSON of its own; its `DpEvent.to_named_tuple` names module, class and
//! fields. Two shapes are read: objects (`{"module_name": "dp_accounting.dp_event",
//! "class_name": "GaussianDpEvent", "noise_multiplier": 1.1}`, the tuple's own names), and the
//! bare lists that Python's `json.dumps` makes of named tuples (values in the order of the
//! fields). Objects are written. Classes and fields are those of version 0.6.0, and the five
//! that its repository had added by 2026 (epsilon-delta, discrete Gaussian, exponential
//! mechanism, permute-and-flip, random allocation).

use super::json::{Node, Refused};
use super::own::{MOST, mixture};
use crate::account::schedule::share_above;
use reticent_accounting::{
    Delta, Mechanism, Neighbours, NoiseMultiplier, Probability, Sampling, SamplingRate, Steps,
};
use serde_json::{Map, Value};

type Result<T> = std::result::Result<T, Refused>;

/// The module that the classes live in.
pub(super) const MODULE: &str = "dp_accounting.dp_event";

/// Classes and their fields, in order.
pub(super) const CLASSES: [(&str, &[&str]); 22] = [
    ("NoOpDpEvent", &[]),
    ("NonPrivateDpEvent", &[]),
    ("UnsupportedDpEvent", &[]),
    (
        "RandomizedResponseDpEvent",
        &["noise_parameter", "num_buckets"],
    ),
    ("EpsilonDeltaDpEvent", &["epsilon", "delta"]),
    ("GaussianDpEvent", &["noise_multiplier"]),
    ("LaplaceDpEvent", &["noise_multiplier"]),
    (
        "DiscreteLaplaceDpEvent",
        &["noise_parameter", "sensitivity"],
    ),
    (
        "DiscreteGaussianDpEvent",
        &["sigma", "sensitivity", "dimension"],
    ),
    ("SelfComposedDpEvent", &["event", "count"]),
    ("ComposedDpEvent", &["events"]),
    ("PoissonSampledDpEvent", &["sampling_probability", "event"]),
    (
        "SampledWithReplacementDpEvent",
        &["source_dataset_size", "sample_size", "event"],
    ),
    (
        "SampledWithoutReplacementDpEvent",
        &["source_dataset_size", "sample_size", "event"],
    ),
    (
        "SingleEpochTreeAggregationDpEvent",
        &["noise_multiplier", "step_counts"],
    ),
    ("RepeatAndSelectDpEvent", &["event", "mean", "shape"]),
    (
        "MixtureOfGaussiansDpEvent",
        &["standard_deviation", "sensitivities", "sampling_probs"],
    ),
    ("ZCDpEvent", &["rho", "xi"]),
    ("ExponentialMechanismDpEvent", &["epsilon"]),
    ("PermuteAndFlipDpEvent", &["epsilon"]),
    (
        "TruncatedSubsampledGaussianDpEvent",
        &[
            "dataset_size",
            "sampling_probability",
            "truncated_batch_size",
            "noise_multiplier",
        ],
    ),
    (
        "RandomAllocationDpEvent",
        &["event", "num_selected", "num_steps"],
    ),
];

/// Whether a document is meant as an event, in either shape.
pub(super) fn is_event(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("class_name"),
        Value::Array(items) => {
            matches!(items.get(1), Some(Value::String(class)) if class.ends_with("DpEvent"))
        }
        _ => false,
    }
}

/// Lists become objects, all the way down; everything else stays.
pub(super) fn named(value: &Value) -> Value {
    match value {
        Value::Array(items) if is_event(value) => {
            let class = items[1].as_str().unwrap_or_default();
            let fields = CLASSES
                .iter()
                .find(|(name, _)| *name == class)
                .map_or(&[][..], |(_, fields)| fields);
            let names = ["module_name", "class_name"]
                .into_iter()
                .chain(fields.iter().copied());
            // What has no name keeps its place as one, and is refused by it.
            let extra = (names.clone().count()..items.len()).map(|i| format!("[{i}]"));
            let names = names.map(str::to_owned).chain(extra);
            Value::Object(names.zip(items.iter().map(named)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(named).collect()),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| (key.clone(), named(value));
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// Reads an event with names at `place`. An event that is only a promise (ε, δ) is taken to be
/// one for `neighbours`, which its own description leaves to the accountant.
pub(super) fn mechanism(value: &Value, place: String, neighbours: Neighbours) -> Result<Mechanism> {
    Reader { neighbours }.event(value, place)
}

struct Reader {
    neighbours: Neighbours,
}

/// An event's node and class, with unknown keys refused.
fn open(value: &Value, place: String) -> Result<(Node<'_>, &str)> {
    let node = Node::new(value, place)?;
    let class = node.text("class_name")?;
    let Some((_, fields)) = CLASSES.iter().find(|(name, _)| *name == class) else {
        return Err(node.refuse_key("class_name", format!("unknown event class {class:?}")));
    };
    let mut keys = vec!["module_name", "class_name", "_fields"];
    keys.extend(*fields);
    node.only(&keys)?;
    // Another library's class of the same name may mean something else.
    if node.get("module_name").is_some() && !node.text("module_name")?.ends_with("dp_event") {
        let why = format!("must be {MODULE:?}, got {:?}", node.text("module_name")?);
        return Err(node.refuse_key("module_name", why));
    }
    Ok((node, class))
}

impl Reader {
    fn event(&self, value: &Value, place: String) -> Result<Mechanism> {
        let (node, class) = open(value, place)?;
        match class {
            "NoOpDpEvent" => Ok(Mechanism::Sequence { parts: Vec::new() }),
            "NonPrivateDpEvent" => Ok(non_private("a NonPrivateDpEvent")),
            "ComposedDpEvent" => {
                let events = node.list("events")?.iter().enumerate();
                let parts = events
                    .map(|(i, event)| self.event(event, format!("{}[{i}]", node.at("events"))));
                Ok(Mechanism::Sequence {
                    parts: parts.collect::<Result<_>>()?,
                })
            }
            "SelfComposedDpEvent" => {
                let times = Steps::new(node.whole("count", 0, MOST)?);
                let each = Box::new(self.event(node.value("event")?, node.at("event"))?);
                Ok(Mechanism::Repeat { times, each })
            }
            // Nothing is ever drawn.
            "PoissonSampledDpEvent"
                if node.quantity::<Probability>("sampling_probability")?.get() <= 0.0 =>
            {
                self.event(node.value("event")?, node.at("event"))?;
                Ok(Mechanism::Sequence { parts: Vec::new() })
            }
            "PoissonSampledDpEvent" => sampled(
                &node,
                node.quantity("sampling_probability")?,
                Sampling::Poisson,
            ),
            "SampledWithoutReplacementDpEvent" => {
                sampled(&node, share(&node)?, Sampling::WithoutReplacement)
            }
            "SampledWithReplacementDpEvent" => {
                sampled(&node, share(&node)?, Sampling::WithReplacement)
            }
            "EpsilonDeltaDpEvent" if node.quantity::<Delta>("delta")?.get() <= 0.0 => {
                Ok(Mechanism::PureDp {
                    epsilon: node.quantity("epsilon")?,
                    neighbours: self.neighbours,
                })
            }
            "EpsilonDeltaDpEvent" => Ok(Mechanism::ApproxDp {
                epsilon: node.quantity("epsilon")?,
                delta: node.quantity("delta")?,
                neighbours: self.neighbours,
            }),
            "ExponentialMechanismDpEvent" => Ok(Mechanism::ExponentialMechanism {
                epsilon: node.quantity("epsilon")?,
                neighbours: self.neighbours,
            }),
            _ => noise(&node, class),
        }
    }
}

/// Events that add noise to a query.
fn noise(node: &Node<'_>, class: &str) -> Result<Mechanism> {
    Ok(match class {
        "GaussianDpEvent" | "LaplaceDpEvent" if node.number("noise_multiplier")?.abs() <= 0.0 => {
            non_private("noise of scale zero")
        }
        "GaussianDpEvent" => Mechanism::Gaussian {
            noise_multiplier: node.quantity("noise_multiplier")?,
        },
        "LaplaceDpEvent" => Mechanism::Laplace {
            scale: node.quantity("noise_multiplier")?,
        },
        "DiscreteLaplaceDpEvent" => {
            let parameter: NoiseMultiplier = node.quantity("noise_parameter")?;
            Mechanism::DiscreteLaplace {
                scale: node.checked("noise_parameter", reciprocal_below(parameter.get()))?,
                sensitivity: node.whole("sensitivity", 1, u32::MAX.into())? as u32,
            }
        }
        "DiscreteGaussianDpEvent" => {
            if node.get("dimension").and_then(Value::as_u64) != Some(1) {
                let why = "must be 1: in more dimensions, or an unknown number, one coordinate does not stand for all";
                return Err(node.refuse_key("dimension", why));
            }
            let sensitivity = match node.get("sensitivity") {
                Some(_) => node.whole("sensitivity", 1, u32::MAX.into())? as u32,
                None => 1,
            };
            Mechanism::DiscreteGaussian {
                sigma: node.quantity("sigma")?,
                sensitivity,
            }
        }
        "RandomizedResponseDpEvent" => {
            let categories = node.whole("num_buckets", 2, u32::MAX.into())? as u32;
            let lie: reticent_accounting::Probability = node.quantity("noise_parameter")?;
            let truth =
                node.checked("noise_parameter", truth_above(lie.get(), categories.into()))?;
            Mechanism::RandomisedResponse { truth, categories }
        }
        "MixtureOfGaussiansDpEvent" => mixture(
            node,
            "standard_deviation",
            "sensitivities",
            "sampling_probs",
        )?,
        "TruncatedSubsampledGaussianDpEvent" => {
            let max_batch = node.whole("truncated_batch_size", 1, MOST)?;
            // The event's data set has the neighbour's record in it, as ours.
            let records = node.whole("dataset_size", 1, MOST)?;
            Mechanism::SubsampledGaussian {
                noise_multiplier: node.quantity("noise_multiplier")?,
                sampling_rate: node.quantity("sampling_probability")?,
                sampling: Sampling::TruncatedPoisson { max_batch, records },
            }
        }
        "RandomAllocationDpEvent" => allocation(node)?,
        other => return Err(node.refuse(format!("{other} has no counterpart here"))),
    })
}

/// An epoch in which each record takes part so many times.
fn allocation(node: &Node<'_>) -> Result<Mechanism> {
    let steps = node.whole("num_steps", 1, MOST)?;
    let selected = node.whole("num_selected", 1, steps)?;
    let rate = node.checked("num_selected", selected as f64 / steps as f64)?;
    let sampling = match selected {
        1 => Sampling::BallsInBins,
        selected => Sampling::RandomAllocation { selected, steps },
    };
    Ok(Mechanism::Repeat {
        times: Steps::new(steps),
        each: Box::new(sampled(node, rate, sampling)?),
    })
}

fn non_private(why: &str) -> Mechanism {
    Mechanism::NonPrivate {
        why: why.to_owned(),
    }
}

/// Sample size over records, rounded up: a larger rate is on the safe side.
fn share(node: &Node<'_>) -> Result<SamplingRate> {
    let records = node.whole("source_dataset_size", 1, MOST)?;
    let sample = node.whole("sample_size", 1, records)?;
    node.checked("sample_size", share_above(sample, records))
}

/// What runs on a batch: noise, or several Gaussians on the same batch, which are one with the
/// distances between their means added in squares (a single query after a change of axes).
fn sampled(outer: &Node<'_>, rate: SamplingRate, sampling: Sampling) -> Result<Mechanism> {
    let (node, class) = open(outer.value("event")?, outer.at("event"))?;
    match class {
        "NoOpDpEvent" => Ok(Mechanism::Sequence { parts: Vec::new() }),
        "NonPrivateDpEvent" => Ok(non_private("a NonPrivateDpEvent on a batch")),
        "LaplaceDpEvent" => Ok(match noise(&node, class)? {
            Mechanism::Laplace { scale } => Mechanism::SubsampledLaplace {
                scale,
                sampling_rate: rate,
                sampling,
            },
            other => other,
        }),
        "GaussianDpEvent" => Ok(match noise(&node, class)? {
            Mechanism::Gaussian { noise_multiplier } => Mechanism::SubsampledGaussian {
                noise_multiplier,
                sampling_rate: rate,
                sampling,
            },
            other => other,
        }),
        "ComposedDpEvent" | "SelfComposedDpEvent" => {
            let precision = precision(outer.value("event")?, outer.at("event"))?;
            if precision <= 0.0 {
                return Ok(Mechanism::Sequence { parts: Vec::new() });
            }
            if precision == f64::INFINITY {
                return Ok(non_private("noise of scale zero on a batch"));
            }
            // Rounded down by more than the power's roundings.
            let sigma = precision.powf(-0.5) * (1.0 - 1e-14);
            Ok(Mechanism::SubsampledGaussian {
                noise_multiplier: outer.checked("event", sigma)?,
                sampling_rate: rate,
                sampling,
            })
        }
        other => Err(node.refuse(format!("{other} on a random batch has no counterpart here"))),
    }
}

/// Σ 1/σ² over Gaussians on one batch, every rounding upwards: there may be very many.
fn precision(value: &Value, place: String) -> Result<f64> {
    let (node, class) = open(value, place)?;
    match class {
        "NoOpDpEvent" => Ok(0.0),
        "GaussianDpEvent" => match noise(&node, class)? {
            Mechanism::Gaussian { noise_multiplier } => {
                let ratio = (1.0 / noise_multiplier.get()).next_up();
                Ok((ratio * ratio).next_up())
            }
            _ => Ok(f64::INFINITY),
        },
        "SelfComposedDpEvent" => {
            let count = node.whole("count", 0, MOST)?;
            let each = precision(node.value("event")?, node.at("event"))?;
            Ok(if count == 0 || each <= 0.0 {
                0.0
            } else {
                (each * count as f64).next_up()
            })
        }
        "ComposedDpEvent" => {
            let mut sum = 0.0f64;
            for (i, event) in node.list("events")?.iter().enumerate() {
                let each = precision(event, format!("{}[{i}]", node.at("events")))?;
                if each > 0.0 {
                    sum = (sum + each).next_up();
                }
            }
            Ok(sum)
        }
        other => Err(node.refuse(format!(
            "{other} with others on one random batch has no counterpart here"
        ))),
    }
}

/// 1/x, rounded down.
pub(super) fn reciprocal_below(x: f64) -> f64 {
    let found = 1.0 / x;
    if found.mul_add(x, -1.0) > 0.0 {
        found.next_down()
    } else {
        found
    }
}

/// 1 − p + p/k: the chance of the true category when a uniform one replaces it with chance p;
/// rounded up unless it is exact, as more truth is less privacy.
pub(super) fn truth_above(lie: f64, categories: f64) -> f64 {
    let product = lie * (categories - 1.0);
    let quotient = product / categories;
    let truth = 1.0 - quotient;
    let errors = [
        lie.mul_add(categories - 1.0, -product),
        (-quotient).mul_add(categories, product),
        (1.0 - truth) - quotient,
    ];
    let exact = errors.iter().all(|error| error.abs() <= 0.0);
    if exact {
        truth
    } else {
        truth.next_up().next_up().min(1.0)
    }
}

/// An event as an object.
pub(super) fn object(
    class: &str,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
) -> Value {
    let mut members = Map::new();
    members.insert("module_name".into(), MODULE.into());
    members.insert("class_name".into(), class.into());
    members.extend(
        fields
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value)),
    );
    Value::Object(members)
}
