//! JSON Lines.

use super::{Gathered, Place};
use crate::contract::json_problem;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line read, in bytes.
const LINE_LIMIT: u64 = 64 << 20;

/// A file, object by object.
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

    /// The next object and where it is; blank lines are skipped.
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
                Ok(object) => Ok(Some((object, place))),
                Err(error) => bail!("{place}: no JSON object: {}", json_problem(&error)),
            };
        }
    }
}

/// A name: text, or a number as it is written.
pub(super) fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Objects {example, secrets}; with `field`, each is an example and the field holds its secrets.
pub(super) fn read(path: &Path, field: Option<&str>, into: &mut Gathered) -> Result<()> {
    let mut objects = Objects::open(path)?;
    while let Some((object, place)) = objects.next()? {
        let given = object.get("example").or_else(|| object.get("id"));
        let example = match (given, field) {
            (Some(value), _) => match name(value).filter(|name| !name.is_empty()) {
                Some(name) => name,
                None => bail!("{place}: example must be text or a number"),
            },
            (None, Some(_)) => format!("line-{}", place.line),
            (None, None) => bail!("{place}: no key \"example\""),
        };
        let found = match field {
            Some(field) => object.get(field).unwrap_or(&Value::Null),
            None => match object.get("secrets").or_else(|| object.get("secret")) {
                Some(found) => found,
                None => bail!("{place}: no key \"secrets\""),
            },
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
            None => bail!("{place}: {key} must be text, a number, or a list of them"),
        }
    }
    Ok(())
}
