//! JSON Lines.

use super::{Cell, Column, Place};
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
struct Objects<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    line: u64,
}

impl<'a> Objects<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let file = reticent_disk::open_file_or_pipe(path)
            .with_context(|| format!("{}: cannot read", path.display()))?;
        Ok(Self {
            path,
            reader: BufReader::new(file),
            line: 0,
        })
    }

    /// Returns the next object and its place; blank lines are skipped.
    fn next(&mut self) -> Result<Option<(Map<String, Value>, Place<'a>)>> {
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

/// Calls a function for each object with the values of these keys.
pub(super) fn rows<const N: usize>(
    path: &Path,
    keys: &[Column<'_>; N],
    mut each: impl FnMut(Place<'_>, [Cell<'_>; N]) -> Result<()>,
) -> Result<()> {
    let mut objects = Objects::open(path)?;
    while let Some((object, place)) = objects.next()? {
        let value = |key: &Column<'_>| key.names.iter().find_map(|name| object.get(*name));
        each(
            place,
            keys.each_ref()
                .map(|key| value(key).map_or(Cell::Absent, cell)),
        )?;
    }
    Ok(())
}

fn cell(value: &Value) -> Cell<'_> {
    match value {
        Value::Null => Cell::List(Vec::new()),
        Value::String(text) => Cell::Name(text.into()),
        // Any other number was read as a double, which several numbers share.
        Value::Number(number) if !number.is_f64() => Cell::Name(number.to_string().into()),
        Value::Number(number) => Cell::Number(number.to_string()),
        Value::Array(list) => Cell::List(list.iter().map(cell).collect()),
        Value::Bool(_) | Value::Object(_) => Cell::Other,
    }
}
