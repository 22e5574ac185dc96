//! Serializes infinity as the string "inf" in JSON, which has no number for it.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_nan() {
        Err(S::Error::custom("a number came out as NaN"))
    } else if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        serializer.serialize_str(if *value > 0.0 { "inf" } else { "-inf" })
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Word(String),
    }
    match Either::deserialize(deserializer)? {
        Either::Number(value) => Ok(value),
        Either::Word(word) if word == "inf" => Ok(f64::INFINITY),
        Either::Word(word) if word == "-inf" => Ok(f64::NEG_INFINITY),
        Either::Word(word) => Err(D::Error::custom(format!(
            "expected a number, \"inf\" or \"-inf\", got {word:?}"
        ))),
    }
}
