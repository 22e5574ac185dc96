//! Messages about wrong JSON that quote nothing of the text, which may be private.

use super::unmarked;
use anyhow::{Context, Result, anyhow};
use reticent_accounting::{Steps, whole_number};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Reads the text of a file. Counts may be written as people write them: `1e2` is 100, as in TOML.
///
/// # Errors
/// Returns an error if the text is not JSON or not of the type. The message quotes nothing of the
/// text except a number that is not a count.
pub fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let error = match serde_json::from_str::<T>(text) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    match serde_json::from_str::<Value>(text).map(counted) {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(Some(why))) => Err(why),
        Ok(Err(None)) | Err(_) => Err(json_problem(&error)),
    }
}

/// Returns whether a count is 0, for fields that are written only otherwise.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
pub(crate) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Deserialises a value whose counts may be written as decimals.
///
/// # Errors
/// Returns the reason, with key and range, if a number that is not a count is the cause; otherwise
/// `None`.
pub(crate) fn counted<T: DeserializeOwned>(mut value: Value) -> Result<T, Option<String>> {
    let mut places = Vec::new();
    decimals(&mut value, "", &mut places);
    let refused = match T::deserialize(&value) {
        Ok(read) => return Ok(read),
        Err(refused) => refused.to_string(),
    };
    let why = whole_number(&refused).ok_or(None)?;
    // The number without which the value is accepted or fails for another reason.
    let culprit = places.into_iter().find(|place| {
        let mut other = value.clone();
        if let Some(number) = other.pointer_mut(place) {
            *number = Value::from(1);
        }
        let other = T::deserialize(&other).err();
        other.is_none_or(|other| other.to_string() != refused)
    });
    let key = culprit.map_or_else(String::new, |place| {
        format!("{}: ", place.trim_start_matches('/').replace('/', "."))
    });
    Err(Some(key + &why))
}

/// Turns decimals that are counts into whole numbers, and collects the positions of the other
/// decimals in `others`.
fn decimals(value: &mut Value, place: &str, others: &mut Vec<String>) {
    match value {
        Value::Number(number) if !number.is_u64() => {
            match number.as_f64().and_then(Steps::of_number) {
                Some(count) => *value = Value::from(count.get()),
                None => others.push(place.to_owned()),
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                decimals(item, &format!("{place}/{i}"), others);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                decimals(member, &format!("{place}/{key}"), others);
            }
        }
        _ => {}
    }
}

/// Returns the lines of a file with their numbers, without a byte-order mark. Each must be shorter than a number of bytes.
///
/// # Errors
/// Returns an error if the file can't be opened; the item of a line that can't be read is an error.
pub fn numbered_lines(
    path: &Path,
    longest: u64,
) -> Result<impl Iterator<Item = Result<(u64, String)>>> {
    let file =
        reticent_disk::open_file_or_pipe(path).with_context(|| path.display().to_string())?;
    let mut file = BufReader::new(file);
    Ok((1..).map_while(move |number| {
        let place = || format!("{}: line {number}", path.display());
        let mut line = String::new();
        let size = (&mut file).take(longest).read_line(&mut line);
        match size.with_context(place) {
            Ok(0) => None,
            Ok(size) if size as u64 >= longest => Some(Err(anyhow!(
                "{}: must be shorter than {longest} bytes",
                place()
            ))),
            read if number == 1 => Some(read.map(|_| (number, unmarked(line)))),
            read => Some(read.map(|_| (number, line))),
        }
    }))
}

/// Reads a line of a file.
///
/// # Errors
/// Returns an error, with the line, if it is not JSON or not of the type; it quotes nothing of the line.
pub fn read_json_line<T: DeserializeOwned>(path: &Path, number: u64, line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| {
        anyhow!(
            "{}: line {number}: {}",
            path.display(),
            json_problem(&error)
        )
    })
}

/// Returns the parser's message without values and keys of the text: the position, and what was
/// expected.
#[must_use]
pub fn json_problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    if !error.is_data() {
        return said; // about syntax alone
    }
    let ours = ["missing field", "duplicate field"];
    if ours.iter().any(|start| said.starts_with(start)) {
        return said;
    }
    expected(&said).unwrap_or_else(|| {
        let (line, column) = (error.line(), error.column());
        format!("unexpected value at line {line} column {column}")
    })
}

/// Returns what a parser expected, which is our own wording, without what it found.
fn expected(said: &str) -> Option<String> {
    let (_, expected) = said.rsplit_once(", expected ")?;
    Some(format!("expected {expected}"))
}

/// Like `json_problem`, for the message of another parser: the contents of its file are left out,
/// what was expected stays.
#[cfg(feature = "findings")]
pub(crate) fn without_content(said: &str) -> String {
    let quoting = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "unknown field",
    ];
    if !quoting.iter().any(|start| said.starts_with(start)) {
        return said.to_owned(); // about syntax, or a field of ours
    }
    expected(said).unwrap_or_else(|| "not what belongs there".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// As in TOML; what is no count is refused with its key and range.
    #[test]
    fn counts_are_written_as_people_write_them() {
        #[derive(Debug, Deserialize, PartialEq)]
        #[serde(tag = "type")]
        enum Each {
            Few {
                of: Vec<Self>,
                count: u64,
                least: f32,
            },
            None,
        }
        let read = |count: &str| {
            read_json::<Each>(&format!(
                "{{\"type\":\"Few\",\"count\":1,\"least\":0.5,\"of\":[{{\"type\":\"None\"}},{{\"type\":\"Few\",\"of\":[],\"least\":0.25,\"count\":{count}}}]}}"
            ))
        };
        for (count, number) in [("1e2", 100), ("3.0", 3), ("7", 7)] {
            let Ok(Each::Few { of, .. }) = read(count) else {
                panic!("{count}");
            };
            let inner = Each::Few {
                of: Vec::new(),
                count: number,
                least: 0.25,
            };
            assert_eq!(of[1], inner);
        }
        for count in ["1.5", "-3", "1e300"] {
            let said = read(count).unwrap_err();
            let range = "of.1.count: must be a whole number in [0, 18446744073709551615], got";
            assert_eq!(said, format!("{range} {count}"));
        }
        let said = read("\"123-45-6789\"").unwrap_err();
        assert_eq!(
            said,
            "must be a whole number in [0, 18446744073709551615], got a text"
        );
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        #[serde(rename = "missed")]
        _missed: bool,
    }

    #[test]
    fn nothing_of_the_text_is_repeated() {
        let secret = "123-45-6789";
        for (text, said) in [
            ("{\"missed\": \"123-45-6789\"}", "expected a boolean"),
            (
                "{\"missed\": \"a, expected 123-45-6789\"}",
                "expected a boolean",
            ),
            ("{\"123-45-6789\": true}", "expected `missed`"),
            ("{}", "missing field `missed`"),
            (
                "{\"missed\": true, \"missed\": true}",
                "duplicate field `missed`",
            ),
            ("{\"missed\": 123-45-6789}", "expected a boolean"),
            ("{\"missed\" 123-45-6789}", "line 1 column 11"),
        ] {
            let error = serde_json::from_str::<Line>(text).unwrap_err();
            let found = json_problem(&error);
            assert!(found.contains(said) && !found.contains(secret), "{found}");
        }
    }
}
