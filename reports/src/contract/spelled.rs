//! A serializer that spells infinity `"inf"`, anywhere inside any value.
//!
//! JSON has no infinity, and the JSON library writes `null` in its place: an empty promise would
//! read as a missing one. [`Spelled`] wraps a serializer and every value below it; NaN is an error.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Converts a value to JSON, with infinity spelled.
///
/// # Errors
/// Returns an error if a number is NaN or JSON can't represent a type.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<serde_json::Value> {
    value.serialize(Spelled(serde_json::value::Serializer))
}

/// A serializer that spells infinity; also the wrapper of its compound states.
pub(super) struct Spelled<S>(pub(super) S);

/// A value that will be serialised through [`Spelled`].
struct Inner<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for Inner<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(Spelled(serializer))
    }
}

macro_rules! pass_on {
    ($($method:ident($($argument:ident: $kind:ty),*)),*) => {
        $(fn $method(self, $($argument: $kind),*) -> Result<S::Ok, S::Error> {
            self.0.$method($($argument),*)
        })*
    };
}

macro_rules! begin {
    ($($method:ident($($argument:ident: $kind:ty),*) -> $begun:ident),*) => {
        $(fn $method(self, $($argument: $kind),*) -> Result<Self::$begun, S::Error> {
            self.0.$method($($argument),*).map(Spelled)
        })*
    };
}

impl<S: Serializer> Serializer for Spelled<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Spelled<S::SerializeSeq>;
    type SerializeTuple = Spelled<S::SerializeTuple>;
    type SerializeTupleStruct = Spelled<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Spelled<S::SerializeTupleVariant>;
    type SerializeMap = Spelled<S::SerializeMap>;
    type SerializeStruct = Spelled<S::SerializeStruct>;
    type SerializeStructVariant = Spelled<S::SerializeStructVariant>;

    pass_on!(
        serialize_bool(value: bool), serialize_i8(value: i8), serialize_i16(value: i16),
        serialize_i32(value: i32), serialize_i64(value: i64), serialize_u8(value: u8),
        serialize_u16(value: u16), serialize_u32(value: u32), serialize_u64(value: u64),
        serialize_char(value: char), serialize_str(value: &str), serialize_bytes(value: &[u8]),
        serialize_none(), serialize_unit(), serialize_unit_struct(name: &'static str),
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str)
    );
    begin!(
        serialize_seq(length: Option<usize>) -> SerializeSeq,
        serialize_tuple(length: usize) -> SerializeTuple,
        serialize_tuple_struct(name: &'static str, length: usize) -> SerializeTupleStruct,
        serialize_tuple_variant(
            name: &'static str, index: u32, variant: &'static str, length: usize
        ) -> SerializeTupleVariant,
        serialize_map(length: Option<usize>) -> SerializeMap,
        serialize_struct(name: &'static str, length: usize) -> SerializeStruct,
        serialize_struct_variant(
            name: &'static str, index: u32, variant: &'static str, length: usize
        ) -> SerializeStructVariant
    );

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        self.serialize_f64(value.into())
    }
    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        if value.is_nan() {
            Err(S::Error::custom("a number came out as NaN"))
        } else if value.is_finite() {
            self.0.serialize_f64(value)
        } else {
            self.0
                .serialize_str(if value > 0.0 { "inf" } else { "-inf" })
        }
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.0.serialize_some(&Inner(value))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_newtype_struct(name, &Inner(value))
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0
            .serialize_newtype_variant(name, index, variant, &Inner(value))
    }
}

macro_rules! sequence {
    ($($kind:ident::$method:ident),*) => {
        $(impl<S: $kind> $kind for Spelled<S> {
            type Ok = S::Ok;
            type Error = S::Error;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                self.0.$method(&Inner(value))
            }
            fn end(self) -> Result<S::Ok, S::Error> { self.0.end() }
        })*
    };
}
sequence!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! record {
    ($($kind:ident),*) => {
        $(impl<S: $kind> $kind for Spelled<S> {
            type Ok = S::Ok;
            type Error = S::Error;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                self.0.serialize_field(key, &Inner(value))
            }
            fn end(self) -> Result<S::Ok, S::Error> { self.0.end() }
        })*
    };
}
record!(SerializeStruct, SerializeStructVariant);

impl<S: SerializeMap> SerializeMap for Spelled<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.0.serialize_key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.0.serialize_value(&Inner(value))
    }
    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

/// A number of our JSON files that may be infinite: `2.5`, `"inf"` or `"-inf"`.
///
/// ```
/// use reticent_reports::contract::{Number, to_json};
/// let back: Number = serde_json::from_value(to_json(&Number(f64::INFINITY))?)?;
/// assert!(back.0.is_infinite());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Number(pub f64);

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // Any number without a wrapper in our documents may be infinite.
        f64::json_schema(generator)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Spelled(serializer).serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Finite(f64),
            Spelled(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Finite(value) => Ok(Self(value)),
            Either::Spelled(text) if text == "inf" => Ok(Self(f64::INFINITY)),
            Either::Spelled(text) if text == "-inf" => Ok(Self(f64::NEG_INFINITY)),
            Either::Spelled(text) => Err(serde::de::Error::custom(format!(
                "a number must be finite, \"inf\" or \"-inf\", got {text:?}"
            ))),
        }
    }
}

/// Returns a value as a person wrote it.
pub(crate) fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            crate::number::shortest(number.as_f64().unwrap_or(f64::NAN))
        }
        other => other.to_string(),
    }
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        number.0
    }
}
impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_accounting::{Bounds, Epsilon};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(serde::Serialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Empty { epsilon: f64 },
    }

    #[test]
    fn infinity_is_spelled_at_every_depth() {
        let infinite = f64::INFINITY;
        assert_eq!(to_json(&infinite).unwrap(), json!("inf"));
        assert_eq!(to_json(&-infinite).unwrap(), json!("-inf"));
        assert_eq!(
            to_json(&Some(vec![(1.0, infinite)])).unwrap(),
            json!([[1.0, "inf"]])
        );
        assert_eq!(
            to_json(&BTreeMap::from([("a", [infinite])])).unwrap(),
            json!({"a": ["inf"]})
        );
        assert_eq!(
            to_json(&Tagged::Empty { epsilon: infinite }).unwrap(),
            json!({"kind": "Empty", "epsilon": "inf"})
        );
    }

    #[test]
    fn a_bound_of_another_crate_is_spelled_too() {
        let bounds = Bounds::at_most(Epsilon::new(f64::INFINITY).unwrap());
        assert_eq!(to_json(&bounds).unwrap(), json!({"upper": "inf"}));
    }

    #[test]
    fn not_a_number_is_an_error() {
        assert!(to_json(&[1.0, f64::NAN]).is_err());
    }

    #[test]
    fn other_words_are_no_numbers() {
        assert!(serde_json::from_str::<Number>("\"infinite\"").is_err());
        assert_eq!(serde_json::from_str::<Number>("3").unwrap(), Number(3.0));
    }
}
