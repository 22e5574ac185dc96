//! Reads the keys of an untrusted JSON object, each as one type, with errors that name the key.

use crate::error::{Error, Result, at};
use reticent_disk::read_regular;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Size of the largest JSON file that is read.
const LARGEST_JSON: u64 = 1 << 28;

/// Maximum number of texts in a list with repeats.
const MOST_TEXTS: usize = 1 << 10;

/// A JSON object from a file.
pub(super) struct Fields {
    path: PathBuf,
    /// The path inside the file, for messages.
    inside: String,
    map: Map<String, Value>,
}

/// Reads a small file completely.
pub(super) fn read_small(path: &Path) -> Result<Vec<u8>> {
    at(path, read_regular(path, LARGEST_JSON))
}

fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok())
}

impl Fields {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let refuse = |why: String| Error::checkpoint(path, why);
        let value: Value = serde_json::from_slice(&read_small(path)?)
            .map_err(|e| refuse(format!("not JSON: {e}")))?;
        Self::of(path, value)
    }

    /// Takes the keys of a parsed object; `path` is used in messages.
    pub(super) fn of(path: &Path, value: Value) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self {
                path: path.to_path_buf(),
                inside: String::new(),
                map,
            }),
            _ => Err(Error::checkpoint(path, "not a JSON object")),
        }
    }

    pub(super) fn bad(&self, why: impl std::fmt::Display) -> Error {
        Error::checkpoint(self.path.clone(), why.to_string())
    }

    /// Returns a key with its path inside the file, for messages.
    pub(super) fn whole_key(&self, key: &str) -> String {
        format!("{}{key}", self.inside)
    }

    fn wrong(&self, key: &str, wanted: &str, value: &Value) -> Error {
        let text = value.to_string();
        let shown: String = text.chars().take(60).collect();
        self.bad(format!(
            "{} must be {wanted}, got {shown}",
            self.whole_key(key)
        ))
    }

    /// Returns the value of a key; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// Returns whether a key is present; its value may be `null`.
    pub(super) fn named(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    fn lacks(&self, key: &str) -> Error {
        self.bad(format!("lacks {}", self.whole_key(key)))
    }

    /// Returns the value of a key as `read` reads it, if it is there; what can't be read is not what is `wanted`.
    fn read_if_there<'v, T>(
        &'v self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let value = self.get(key);
        let read = value.map(|v| read(v).ok_or_else(|| self.wrong(key, wanted, v)));
        read.transpose()
    }

    /// Returns the items of a list; empty if absent.
    fn list<'v, T>(
        &'v self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Result<Vec<T>> {
        let wrong = |v: &Value| self.wrong(key, wanted, v);
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let items = list.iter();
                items.map(|v| read(v).ok_or_else(|| wrong(v))).collect()
            }
            Some(other) => Err(wrong(other)),
        }
    }

    pub(super) fn size_if_there(&self, key: &str) -> Result<Option<usize>> {
        self.read_if_there(key, "a whole number", size)
    }

    pub(super) fn size(&self, key: &str) -> Result<usize> {
        self.size_if_there(key)?.ok_or_else(|| self.lacks(key))
    }

    pub(super) fn number_if_there(&self, key: &str) -> Result<Option<f64>> {
        self.read_if_there(key, "a number", Value::as_f64)
    }

    pub(super) fn number(&self, key: &str) -> Result<f64> {
        self.number_if_there(key)?.ok_or_else(|| self.lacks(key))
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let flag = self.read_if_there(key, "a truth value", Value::as_bool)?;
        Ok(flag.unwrap_or(default))
    }

    pub(super) fn text_if_there(&self, key: &str) -> Result<Option<&str>> {
        self.read_if_there(key, "a text", Value::as_str)
    }

    pub(super) fn text(&self, key: &str) -> Result<&str> {
        self.text_if_there(key)?.ok_or_else(|| self.lacks(key))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<&str>> {
        self.list(key, "a list of texts", Value::as_str)
    }

    /// Returns a list of whole numbers; empty if absent.
    pub(super) fn sizes(&self, key: &str) -> Result<Vec<usize>> {
        self.list(key, "a list of whole numbers", size)
    }

    /// Returns the texts of lists that are each followed by a repeat count: `[[["a", "b"], 2]]` is a, b, a, b.
    pub(super) fn repeated_texts(&self, key: &str) -> Result<Vec<String>> {
        let value = self.get(key).ok_or_else(|| self.lacks(key))?;
        let wrong = || self.wrong(key, "a list of pairs of texts and a number", value);
        let mut out = Vec::new();
        for part in value.as_array().ok_or_else(wrong)? {
            let (texts, times) = match part.as_array().map(Vec::as_slice) {
                Some([texts, times]) => (texts.as_array(), times.as_u64()),
                _ => return Err(wrong()),
            };
            let (texts, times) = texts
                .zip(times)
                .filter(|(texts, _)| !texts.is_empty())
                .ok_or_else(wrong)?;
            for _ in 0..times {
                for text in texts {
                    if out.len() >= MOST_TEXTS {
                        return Err(wrong());
                    }
                    out.push(text.as_str().ok_or_else(wrong)?.to_owned());
                }
            }
        }
        Ok(out)
    }

    /// Returns the nested object of a key.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self {
                path: self.path.clone(),
                inside: format!("{}{key}.", self.inside),
                map: map.clone(),
            })),
            Some(other) => Err(self.wrong(key, "an object", other)),
        }
    }

    /// Returns every key with its text.
    pub(super) fn all_texts(&self) -> Result<Vec<(&str, &str)>> {
        self.map
            .iter()
            .map(|(k, v)| {
                let text = v.as_str().ok_or_else(|| self.wrong(k, "a text", v))?;
                Ok((k.as_str(), text))
            })
            .collect()
    }

    /// Returns every key that is set: neither null nor false, and not an empty list or object.
    pub(super) fn set(&self) -> impl Iterator<Item = (&str, &Value)> {
        let set = |value: &Value| match value {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Number(_) | Value::String(_) => true,
        };
        let named = self.map.iter().map(|(key, value)| (key.as_str(), value));
        named.filter(move |(_, value)| set(value))
    }
}
