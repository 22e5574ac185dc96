//! Reads JSON from outside: its size is bounded, repeated keys are refused, and every error names its place.

use crate::quantity::count_of;
use crate::quantity::decimal::{number, whole_number};
use crate::quantity::error::{Error, Result, join};
use serde::Serialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};
use std::cell::RefCell;

/// The most objects in one document.
const OBJECTS: usize = 10_000;

/// The keys that name the variant of an object.
const VARIANT_NAMES: [&str; 2] = ["type", "class_name"];

/// Creates the error for what lies at `place`. Keys and values of the document are shown without control characters and
/// truncated.
pub(crate) fn refused(place: &str, why: &str) -> Error {
    const LONGEST: usize = 600;
    let plain = |text: &str| -> String {
        let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut plain: String = visible.take(LONGEST).collect();
        if text.chars().nth(LONGEST).is_some() {
            plain.push('…');
        }
        plain
    };
    Error::Document {
        place: plain(place),
        why: plain(why),
    }
}

/// Parses JSON. Refuses a repeated key in one object, more than 128 levels, and a decimal that would be read as another
/// number: a rate or a δ of zero promises more than was stated. Decimals that are counts become integers.
///
/// ```
/// use reticent_accounting::mechanism::json_value;
/// assert_eq!(json_value("{\"steps\": 3.0}")?["steps"], 3);
/// assert!(json_value("{\"steps\": 3, \"steps\": 4}").is_err());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns an error that says where the text is refused.
pub fn json_value(text: &str) -> Result<Value> {
    let places = RefCell::new(Vec::new());
    let root = Tree {
        place: String::new(),
        numbers: &places,
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    let tree = root.deserialize(&mut reader);
    let tree = tree
        .and_then(|tree| reader.end().map(|()| tree))
        .map_err(|error| refused("", &explain(&error, text)))?;
    let mut written = numbers(text).zip(places.into_inner());
    if let Some((place, why)) =
        written.find_map(|(written, place)| number(written).err().map(|why| (place, why)))
    {
        return Err(refused(&place, &why));
    }
    Ok(tree)
}

/// Parses a document: [`json_value`] of at most 10 000 objects.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let tree = json_value(text)?;
    if objects(&tree) > OBJECTS {
        let why = format!("must have at most {OBJECTS} objects");
        return Err(refused("", &why));
    }
    Ok(tree)
}

/// Returns the numbers of a valid document, as written.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| c == '"' || c.is_ascii_digit())?;
            rest = &rest[start..];
            if let Some(inside) = rest.strip_prefix('"') {
                let mut escaped = false;
                let end = inside.find(|c: char| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                })?;
                rest = &inside[end + 1..];
                continue;
            }
            let end = rest.find(|c: char| !(c.is_ascii_digit() || ".eE+-".contains(c)));
            let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            return Some(number);
        }
    })
}

fn objects(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(objects).sum(),
        Value::Object(members) => 1 + members.values().map(objects).sum::<usize>(),
        _ => 0,
    }
}

fn explain(error: &serde_json::Error, text: &str) -> String {
    if error.is_data() {
        return error.to_string();
    }
    let mut lines = text.lines();
    let line = lines.nth(error.line().saturating_sub(1)).unwrap_or("");
    let odd = ["NaN", "Infinity"]
        .into_iter()
        .find(|word| line.contains(word));
    match odd {
        Some(word) => format!("not JSON: {error} ({word} is no JSON number)"),
        None => format!("not JSON: {error}"),
    }
}

/// Deserialises a value as `T` and refuses it if anything in the document was left unread.
///
/// The reader of the type buffers its input and can't say where it stopped. The place of a failure is therefore
/// searched for afterwards: in the innermost value of the same type that fails on its own (`inner` lists the keys under
/// which such values lie), it is the member without which the failure changes.
pub(crate) fn typed<T: DeserializeOwned + Serialize>(
    value: &Value,
    place: &str,
    inner: &[&str],
) -> Result<T> {
    let found: T = lenient(value, place, inner)?;
    let written = serde_json::to_value(&found).map_err(|error| refused(place, &error.to_string()));
    unread(value, &written?, place)?;
    Ok(found)
}

/// Like `typed`, but ignores members of the document that the type doesn't know.
pub(crate) fn lenient<T: DeserializeOwned>(
    value: &Value,
    place: &str,
    inner: &[&str],
) -> Result<T> {
    let Value::Object(members) = value else {
        let why = format!("must be an object, got {}", kind(value));
        return Err(refused(place, &why));
    };
    let error = match T::deserialize(value) {
        Ok(found) => return Ok(found),
        Err(error) => error.to_string(),
    };
    for key in inner {
        let at = join(place, key);
        match members.get(*key) {
            Some(Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    lenient::<T>(item, &join(&at, &format!("[{i}]")), inner)?;
                }
            }
            Some(child) => {
                lenient::<T>(child, &at, inner)?;
            }
            None => {}
        }
    }
    let culprit = culprit::<T>(members, &error).unwrap_or_default();
    let why = whole_number(&error).unwrap_or(error);
    Err(refused(&join(place, culprit), &why))
}

/// Returns the member to which an error belongs.
fn culprit<'a, T: DeserializeOwned>(
    members: &'a Map<String, Value>,
    error: &str,
) -> Option<&'a str> {
    // Each member takes one try; no type here has this many.
    const MOST: usize = 64;
    if members.len() > MOST || error.starts_with("missing field") {
        return None;
    }
    // Without the name of its variant nothing can be read, so that member is blamed only if no other is.
    let keys = members.keys().map(String::as_str);
    let (names, fields): (Vec<_>, Vec<_>) = keys.partition(|key| VARIANT_NAMES.contains(key));
    fields.into_iter().chain(names).find(|key| {
        let mut others = members.clone();
        others.remove(*key);
        let without = serde_json::from_value::<T>(Value::Object(others));
        without.err().is_none_or(|other| other.to_string() != error)
    })
}

/// Refuses values that the reader of the type accepted in a different shape than it writes (a list for an object, a
/// number for a name), and keys that it ignored.
fn unread(given: &Value, written: &Value, place: &str) -> Result<()> {
    match (given, written) {
        (Value::Object(given), Value::Object(written)) => {
            for (key, value) in given {
                let at = join(place, key);
                let known = written.get(key);
                unread(
                    value,
                    known.ok_or_else(|| refused(&at, "unknown key"))?,
                    &at,
                )?;
            }
            Ok(())
        }
        (Value::Array(given), Value::Array(written)) => {
            let pairs = given.iter().zip(written).enumerate();
            for (i, (given, written)) in pairs {
                unread(given, written, &join(place, &format!("[{i}]")))?;
            }
            Ok(())
        }
        _ if kind(given) == kind(written) => Ok(()),
        _ => {
            let why = format!("must be {}, got {}", kind(written), kind(given));
            Err(refused(place, &why))
        }
    }
}

/// Returns the kind of a JSON value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A seed for the value at `place`: refuses repeated keys in its objects and records the places of its numbers, in the
/// order of the document.
struct Tree<'n> {
    place: String,
    numbers: &'n RefCell<Vec<String>>,
}

impl Tree<'_> {
    fn member(&self, key: &str) -> Self {
        Self {
            place: join(&self.place, key),
            ..*self
        }
    }

    fn number(self, value: Value) -> Value {
        self.numbers.borrow_mut().push(self.place);
        value
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(self.number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(self.number(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        // Python writes a computed count as 3.0.
        Ok(self.number(count_of(value).map_or_else(|| value.into(), Value::from)))
    }
    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.member(&format!("[{}]", list.len())))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("key {key:?} appears twice")));
            }
            let value = members.next_value_seed(self.member(&key))?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
