//! JSON from strangers: bounded, without repeated keys, and every refusal says where.

use serde::Deserialize;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Why a document was refused: the place in it, then the reason. An empty place is the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Keys and indices that lead there, `each.noise_multiplier` or `parts[2]`.
    pub place: String,
    /// What is wrong.
    pub why: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colon = if self.place.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.place, self.why)
    }
}

impl std::error::Error for Refused {}

type Result<T> = std::result::Result<T, Refused>;

/// The most objects in a document, and numbers in a list.
const MOST: usize = 10_000;

/// Parses a document: no key twice in one object, no more than 128 levels, 10 000 objects.
///
/// # Errors
/// Text that is not JSON (NaN and Infinity are not), repeated keys, deep nesting, too much.
pub(super) fn parse(text: &str) -> Result<Value> {
    let whole = |why| Refused {
        place: String::new(),
        why,
    };
    let tree = serde_json::from_str::<Tree>(text).map_err(|error| whole(explain(&error, text)))?;
    if objects(&tree.0) > MOST {
        return Err(whole(format!("must have at most {MOST} objects")));
    }
    Ok(tree.0)
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
    let line = text
        .lines()
        .nth(error.line().saturating_sub(1))
        .unwrap_or("");
    let odd = ["NaN", "Infinity"]
        .into_iter()
        .find(|word| line.contains(word));
    match odd {
        Some(word) => format!("not JSON: {error} ({word} is no JSON number)"),
        None => format!("not JSON: {error}"),
    }
}

/// A value whose objects name no key twice.
struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Self)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
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
            let Tree(value) = members.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// An object of a document with the way that leads to it.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    members: &'a Map<String, Value>,
    place: String,
}

impl<'a> Node<'a> {
    /// The object at `place`.
    ///
    /// # Errors
    /// Anything else than an object.
    pub(super) fn new(value: &'a Value, place: String) -> Result<Self> {
        match value {
            Value::Object(members) => Ok(Self { members, place }),
            other => Err(Refused {
                place,
                why: format!("must be an object, got {}", kind(other)),
            }),
        }
    }

    /// Refuses this object.
    pub(super) fn refuse(&self, why: impl Into<String>) -> Refused {
        Refused {
            place: self.place.clone(),
            why: why.into(),
        }
    }

    /// Refuses a member.
    pub(super) fn refuse_key(&self, key: &str, why: impl Into<String>) -> Refused {
        Refused {
            place: self.at(key),
            why: why.into(),
        }
    }

    /// Where a member is.
    #[must_use]
    pub(super) fn at(&self, key: &str) -> String {
        if self.place.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.place)
        }
    }

    /// Refuses keys that are not in the list.
    ///
    /// # Errors
    /// The first such key.
    pub(super) fn only(&self, keys: &[&str]) -> Result<()> {
        match self
            .members
            .keys()
            .find(|key| !keys.contains(&key.as_str()))
        {
            None => Ok(()),
            Some(odd) => {
                Err(self.refuse_key(odd, format!("unknown key; allowed are {}", keys.join(", "))))
            }
        }
    }

    /// A member that may be absent.
    #[must_use]
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.members.get(key)
    }

    /// A member.
    ///
    /// # Errors
    /// An absent one.
    pub(super) fn value(&self, key: &str) -> Result<&'a Value> {
        self.get(key)
            .ok_or_else(|| self.refuse(format!("lacks {key:?}")))
    }

    /// A number of the accounting crate; `"inf"` is a number.
    ///
    /// # Errors
    /// Absent, no number, or out of its range.
    pub(super) fn quantity<T: TryFrom<f64, Error: std::fmt::Display>>(
        &self,
        key: &str,
    ) -> Result<T> {
        self.checked(key, self.number(key)?)
    }

    /// A computed number in the type of the accounting crate.
    ///
    /// # Errors
    /// Out of its range.
    pub(super) fn checked<T: TryFrom<f64, Error: std::fmt::Display>>(
        &self,
        key: &str,
        value: f64,
    ) -> Result<T> {
        T::try_from(value).map_err(|why| self.refuse_key(key, why.to_string()))
    }

    /// A number, `"inf"` included.
    ///
    /// # Errors
    /// Absent, or no number.
    pub(super) fn number(&self, key: &str) -> Result<f64> {
        number(self.value(key)?, || self.at(key))
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// Absent, or something else inside.
    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>> {
        let list = self.list(key)?;
        if list.len() > MOST {
            let why = format!("must have at most {MOST} numbers, got {}", list.len());
            return Err(self.refuse_key(key, why));
        }
        list.iter()
            .enumerate()
            .map(|(i, item)| number(item, || format!("{}[{i}]", self.at(key))))
            .collect()
    }

    /// A whole number within a range.
    ///
    /// # Errors
    /// Absent, fractional, or outside.
    pub(super) fn whole(&self, key: &str, least: u64, most: u64) -> Result<u64> {
        let value = self.value(key)?;
        // Python writes 3.0 for a count that was computed.
        let exact = |x: &f64| x.fract() == 0.0 && *x >= 0.0 && *x <= 9_007_199_254_740_992.0;
        let found = value
            .as_u64()
            .or_else(|| value.as_f64().filter(exact).map(|x| x as u64));
        found.filter(|n| (least..=most).contains(n)).ok_or_else(|| {
            self.refuse_key(
                key,
                format!(
                    "must be a whole number in [{least}, {most}], got {}",
                    short(value)
                ),
            )
        })
    }

    /// A text.
    ///
    /// # Errors
    /// Absent, or something else.
    pub(super) fn text(&self, key: &str) -> Result<&'a str> {
        let value = self.value(key)?;
        value
            .as_str()
            .ok_or_else(|| self.refuse_key(key, format!("must be a text, got {}", kind(value))))
    }

    /// A list.
    ///
    /// # Errors
    /// Absent, or something else.
    pub(super) fn list(&self, key: &str) -> Result<&'a [Value]> {
        match self.value(key)? {
            Value::Array(items) => Ok(items),
            other => Err(self.refuse_key(key, format!("must be a list, got {}", kind(other)))),
        }
    }
}

fn number(value: &Value, place: impl Fn() -> String) -> Result<f64> {
    let found = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text == "inf" => Some(f64::INFINITY),
        _ => None,
    };
    found.ok_or_else(|| Refused {
        place: place(),
        why: format!("must be a number, got {}", short(value)),
    })
}

/// What kind of JSON value it is.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The value itself when it is small, its kind otherwise.
fn short(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        other => kind(other).to_owned(),
    }
}
