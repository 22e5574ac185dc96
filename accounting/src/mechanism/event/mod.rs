//! Reads and writes the event descriptions of Google's `dp_accounting` for Python.
//!
//! The library has no JSON format of its own; its `DpEvent.to_named_tuple` lists module, class and
//! fields. Two shapes are read: objects (`{"module_name": "dp_accounting.dp_event", "class_name":
//! "GaussianDpEvent", "noise_multiplier": 1.1}`, with the tuple's own names), and the bare lists that
//! Python's `json.dumps` makes of named tuples (values in the order of the fields). Events are
//! written as objects.

mod exact;
mod into_event;
mod into_mechanism;

#[cfg(test)]
pub(super) use exact::{reciprocal_below, truth_above};
pub use into_event::to_event;

use super::Mechanism;
use super::json::{kind, refused, typed};
use crate::quantity::error::{Result, join};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Delta, Epsilon, MeanRepetitions, NoiseMultiplier, Probability, RepetitionShape, SamplingRate,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The module that contains the classes.
const MODULE: &str = "dp_accounting.dp_event";

/// Defines the events in one place: the type with its reader and writer, and the order of the fields.
macro_rules! events {
    ($($class:ident { $($(#[$meta:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// An event, tagged with the name of its class.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "class_name", deny_unknown_fields)]
        #[expect(clippy::enum_variant_names, reason = "the names of the library's classes")]
        enum Event {
            $($class { $($(#[$meta])* $field: $type),* }),*
        }

        impl Event {
            /// Returns the name of the event's class.
            const fn class(&self) -> &'static str {
                match self {
                    $(Self::$class { .. } => stringify!($class)),*
                }
            }
        }

        /// Classes and their fields, in order.
        const FIELDS: &[(&str, &[&str])] = &[$((stringify!($class), &[$(stringify!($field)),*])),*];
    };
}

// Classes and fields of version 0.6.0, and the five that the library's repository had added by
// 2026: epsilon-delta, discrete Gaussian, exponential mechanism, permute-and-flip, random allocation.
events! {
    NoOpDpEvent {}
    NonPrivateDpEvent {}
    UnsupportedDpEvent {}
    RandomizedResponseDpEvent { noise_parameter: Probability, num_buckets: u32 }
    EpsilonDeltaDpEvent { epsilon: Epsilon, delta: Delta }
    GaussianDpEvent { noise_multiplier: f64 }
    LaplaceDpEvent { noise_multiplier: f64 }
    DiscreteLaplaceDpEvent { noise_parameter: NoiseMultiplier, sensitivity: u32 }
    DiscreteGaussianDpEvent {
        sigma: NoiseMultiplier,
        #[serde(default = "one")]
        sensitivity: u32,
        dimension: Option<u64>,
    }
    SelfComposedDpEvent { event: Box<Event>, count: u64 }
    ComposedDpEvent { events: Vec<Event> }
    PoissonSampledDpEvent { sampling_probability: Probability, event: Box<Event> }
    SampledWithReplacementDpEvent { source_dataset_size: u64, sample_size: u64, event: Box<Event> }
    SampledWithoutReplacementDpEvent { source_dataset_size: u64, sample_size: u64, event: Box<Event> }
    SingleEpochTreeAggregationDpEvent { noise_multiplier: f64, step_counts: Value }
    RepeatAndSelectDpEvent { event: Box<Event>, mean: MeanRepetitions, shape: RepetitionShape }
    MixtureOfGaussiansDpEvent {
        standard_deviation: NoiseMultiplier,
        sensitivities: Vec<f64>,
        sampling_probs: Vec<Probability>,
    }
    ZCDpEvent {
        rho: f64,
        #[serde(default)]
        xi: f64,
    }
    ExponentialMechanismDpEvent { epsilon: Epsilon }
    PermuteAndFlipDpEvent { epsilon: Epsilon }
    TruncatedSubsampledGaussianDpEvent {
        dataset_size: u64,
        sampling_probability: SamplingRate,
        truncated_batch_size: u64,
        noise_multiplier: NoiseMultiplier,
    }
    RandomAllocationDpEvent { event: Box<Event>, num_selected: u64, num_steps: u64 }
}

const fn one() -> u32 {
    1
}

/// Returns whether a document is meant as an event, in either shape.
pub(crate) fn is_event(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("class_name"),
        Value::Array(items) => {
            matches!(items.get(1), Some(Value::String(class)) if class.ends_with("DpEvent"))
        }
        _ => false,
    }
}

/// Reads an event. An event that is only a promise (ε, δ) is read as one for `neighbours`.
pub(crate) fn read(value: &Value, neighbours: Neighbours) -> Result<Mechanism> {
    let event: Event = typed(&named(value, "")?, "", &["event", "events"])?;
    into_mechanism::mechanism(&event, neighbours)
}

/// Normalises an event at every level: lists become objects, and members that only identify an event
/// of this library are checked and dropped.
fn named(value: &Value, place: &str) -> Result<Value> {
    let member = |(key, value): (&str, &Value)| -> Result<Option<(String, Value)>> {
        let at = join(place, key);
        match (key, value) {
            // A class of the same name in another library may mean something else.
            ("module_name", Value::String(module)) if module == MODULE => Ok(None),
            ("module_name", other) => {
                let why = match other {
                    Value::String(module) => format!("must be {MODULE:?}, got {module:?}"),
                    other => format!("must be {MODULE:?}, got {}", kind(other)),
                };
                Err(refused(&at, &why))
            }
            ("_fields", _) => Ok(None),
            (key, value) => Ok(Some((key.to_owned(), named(value, &at)?))),
        }
    };
    let object = |members: &mut dyn Iterator<Item = (&str, &Value)>| -> Result<Value> {
        let members = members.filter_map(|pair| member(pair).transpose());
        Ok(Value::Object(members.collect::<Result<Map<_, _>>>()?))
    };
    match value {
        Value::Object(members) if is_event(value) => {
            object(&mut members.iter().map(|(key, value)| (key.as_str(), value)))
        }
        Value::Array(items) if is_event(value) => {
            let class = items[1].as_str().unwrap_or_default();
            let known = FIELDS.iter().find(|(name, _)| *name == class);
            let fields = known.map_or(&[][..], |(_, fields)| fields);
            let mut names = vec!["module_name".to_owned(), "class_name".to_owned()];
            names.extend(fields.iter().map(|field| (*field).to_owned()));
            // Values without a name are named by their position, and the error about them shows it.
            names.extend((names.len()..items.len()).map(|i| format!("[{i}]")));
            object(&mut names.iter().map(String::as_str).zip(items))
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let items = items.map(|(i, item)| named(item, &join(place, &format!("[{i}]"))));
            Ok(Value::Array(items.collect::<Result<_>>()?))
        }
        other => Ok(other.clone()),
    }
}
