//! Parses complete JSON objects: no duplicate keys, and no more memory than a record may use.

use super::LINE_LIMIT;
use super::shape::Object;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;

/// The memory of an object with up to four members, and of any other value besides its text, in bytes.
const OBJECT: u64 = 512;
const VALUE: u64 = 128;
/// The memory limit for the values of one object: this many times the longest line, plus a number of bytes.
const TIMES: u64 = 2;
const SLACK: u64 = 1 << 20;

/// The beginnings of our own error messages, which quote nothing.
pub(crate) const TWICE: &str = "a key stands twice in one object, and one of the two would be lost";
pub(crate) const TOO_MANY: &str = "its values are too many: in memory they take more than";

/// Parses the JSON object of a line. Keys must be unique, in nested objects too.
///
/// ```
/// use reticent_corpus::read::whole_object;
/// assert!(whole_object(br#"{"a": {"b": 1}}"#).is_ok());
/// let twice = whole_object(br#"{"a": {"b": 1, "b": 2}}"#).unwrap_err();
/// assert!(twice.to_string().starts_with("a key stands twice in one object"));
/// ```
///
/// # Errors
/// Returns an error if the text is not JSON or not an object, an object contains a key twice, or the values take too
/// much memory.
pub fn whole_object(json: &[u8]) -> serde_json::Result<Map<String, Value>> {
    object_of(json, LINE_LIMIT)
}

/// Does the same for lines of at most `longest` bytes.
pub(super) fn object_of(json: &[u8], longest: u64) -> serde_json::Result<Object> {
    let limit = TIMES.saturating_mul(longest).saturating_add(SLACK);
    let left = Cell::new(limit);
    let mut reader = serde_json::Deserializer::from_slice(json);
    let seed = Tree { left: &left, limit };
    let value = seed.deserialize(&mut reader)?;
    reader.end()?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(serde_json::Error::custom("must be an object")),
    }
}

/// A value to parse, and the memory left for it.
#[derive(Clone, Copy)]
struct Tree<'l> {
    left: &'l Cell<u64>,
    limit: u64,
}

impl Tree<'_> {
    fn spend<E: Error>(self, bytes: u64) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| {
            E::custom(format!("{TOO_MANY} the {} bytes of a record", self.limit))
        })?);
        Ok(())
    }

    fn one<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.spend(VALUE)?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.one(value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.one(value)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.one(value)
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.one(value)
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.one(())
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len() as u64)?;
        self.one(value)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.spend(VALUE)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.spend(OBJECT)?;
        let mut object = Object::new();
        while let Some(key) = members.next_key::<String>()? {
            self.spend(key.len() as u64)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(TWICE));
            }
            let value = members.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_those_of_the_parser() {
        let json =
            br#"{"b": [1, -2, 2.5, 1e300, null, true, "\u00e9\n", {}], "a": {"x": {"y": []}}}"#;
        let plain: Object = serde_json::from_slice(json).unwrap();
        let found = object_of(json, 1).unwrap();
        assert_eq!(found, plain);
        assert!(found.keys().eq(plain.keys()));
        for wrong in ["[1]", "{} {}", "{\"a\": }", "1"] {
            assert!(whole_object(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn small_values_count_what_they_take() {
        let line = |count: usize| format!("{{\"a\": [{}1]}}", "{},".repeat(count));
        assert!(object_of(line(2000).as_bytes(), 9000).is_ok());
        let error = object_of(line(2100).as_bytes(), 9000)
            .unwrap_err()
            .to_string();
        let said =
            "its values are too many: in memory they take more than the 1066576 bytes of a record";
        assert!(error.starts_with(said), "{error}");
        // Long texts take what they are.
        let text = format!("{{\"a\": \"{}\"}}", "x".repeat(2_000_000));
        assert!(object_of(text.as_bytes(), 2_000_100).is_ok());
    }
}
