//! JSON Lines.

use super::{Gathered, Place};
use crate::contract::json_problem;
use anyhow::{Context, Result, bail};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line that is read, in bytes.
const LINE_LIMIT: u64 = 64 << 20;

/// What a name may be, in words.
pub(super) const NAME: &str =
    "text or a whole number of at most 64 bits (put any other number in quotes)";

/// An object, and whether a key occurs twice in it: `serde_json` would keep the last of the two.
struct Members {
    object: Map<String, Value>,
    twice: bool,
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Members, A::Error> {
                let (mut object, mut twice) = (Map::new(), false);
                while let Some((key, value)) = members.next_entry()? {
                    twice |= object.insert(key, value).is_some();
                }
                Ok(Members { object, twice })
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A file, read object by object.
pub(super) struct Objects<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    line: u64,
}

impl<'a> Objects<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("{}: cannot read", path.display()))?;
        Ok(Self {
            path,
            reader: BufReader::new(file),
            line: 0,
        })
    }

    /// Returns the next object and its place; blank lines are skipped.
    pub(super) fn next(&mut self) -> Result<Option<(Map<String, Value>, Place<'a>)>> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = self.reader.by_ref().take(LINE_LIMIT + 1);
            let read = limited.read_until(b'\n', &mut bytes);
            self.line += 1;
            let place = Place {
                path: self.path,
                line: self.line,
            };
            read.with_context(|| format!("{place}: cannot read"))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if bytes.len() as u64 > LINE_LIMIT {
                bail!("{place}: the line is longer than {LINE_LIMIT} bytes, the most that is read");
            }
            let text = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(&bytes);
            if text.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(text) {
                Ok(Members { twice: true, .. }) => {
                    bail!("{place}: a key occurs twice in one object, and one value would be lost")
                }
                Ok(Members { object, .. }) => Ok(Some((object, place))),
                Err(error) => bail!("{place}: no JSON object: {}", json_problem(&error)),
            };
        }
    }
}

/// Returns a name: text, or a whole number as it is written. Any other number was read as a double, which
/// several numbers share.
pub(super) fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

/// Reads objects {example, secrets}; with `field`, each is an example and the field holds its secrets.
pub(super) fn read(path: &Path, field: Option<&str>, into: &mut Gathered) -> Result<()> {
    let mut objects = Objects::open(path)?;
    while let Some((object, place)) = objects.next()? {
        let given = object.get("example").or_else(|| object.get("id"));
        let given = match (given.map(name), field) {
            (Some(None), _) => bail!("{place}: example must be {NAME}"),
            (Some(Some(name)), _) if name.is_empty() => {
                bail!("{place}: the example has no name; it must not be empty")
            }
            (None, None) => bail!("{place}: no key \"example\""),
            (given, _) => given.flatten(),
        };
        let example = into.name(given.as_deref(), field.is_some(), place)?;
        let found = match (field, object.get("secrets"), object.get("secret")) {
            (Some(field), ..) => object.get(field).unwrap_or(&Value::Null),
            (None, Some(_), Some(_)) => {
                bail!("{place}: has both keys \"secrets\" and \"secret\"; give one of them")
            }
            (None, Some(found), None) | (None, None, Some(found)) => found,
            (None, None, None) => bail!("{place}: no key \"secrets\""),
        };
        enter(into, &example, found, field.unwrap_or("secrets"), place)?;
    }
    Ok(())
}

fn enter(
    into: &mut Gathered,
    example: &str,
    found: &Value,
    key: &str,
    place: Place<'_>,
) -> Result<()> {
    let one = std::slice::from_ref(found);
    let list = match found {
        Value::Null => &[],
        Value::Array(list) => list.as_slice(),
        _ => one,
    };
    into.enter(example, None, place)?;
    for value in list {
        match name(value) {
            Some(secret) => into.enter(example, Some(&secret), place)?,
            None => bail!("{place}: {key} must be a list of names or one: {NAME}"),
        }
    }
    Ok(())
}
