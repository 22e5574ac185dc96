//! Reads TOML into a type, with errors that give the position but quote nothing of the text.

use anyhow::{Result, anyhow};
use reticent_accounting::{Steps, number, whole_number};
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of a file. Counts may be written as people write them: `1e2` is 100.
///
/// # Errors
/// Returns an error, with the file's name, the line and the key, if the text is not TOML, is not of the type, or holds
/// a decimal that would be read as another number.
pub fn read_toml<T: DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    let at = |text: &str, span: Option<Range<usize>>, why: &str| {
        anyhow!("{name}, {}: {why}", place(text, span))
    };
    let table = DeTable::parse(text).map_err(|error| at(text, error.span(), error.message()))?;
    if let Some((span, why)) = table.get_ref().values().find_map(misread) {
        return Err(at(text, Some(span), &why));
    }
    let counted = with_counts(text, &table);
    toml::from_str(&counted).map_err(|error| {
        let message = error.message();
        let why = whole_number(message).unwrap_or_else(|| message.to_owned());
        at(&counted, error.span(), &why)
    })
}

/// Returns the text of a policy with counts as [`read_toml`] takes them; text that is not TOML is unchanged.
#[cfg(feature = "findings")]
#[must_use]
pub fn toml_with_counts(text: &str) -> String {
    DeTable::parse(text).map_or_else(|_| text.to_owned(), |table| with_counts(text, &table))
}

/// Returns the text with decimals that are counts written as whole numbers, each on its original line.
fn with_counts(text: &str, table: &Spanned<DeTable<'_>>) -> String {
    let mut found = Vec::new();
    for value in table.get_ref().values() {
        counts(value, &mut found);
    }
    found.sort_by_key(|(span, _)| span.start);
    let (mut out, mut end) = (String::new(), 0);
    for (span, count) in found {
        out.push_str(text.get(end..span.start).unwrap_or_default());
        out.push_str(&count.to_string());
        end = span.end;
    }
    out.push_str(text.get(end..).unwrap_or_default());
    out
}

/// Collects the positions and values of decimals that are counts.
fn counts(value: &Spanned<DeValue<'_>>, found: &mut Vec<(Range<usize>, u64)>) {
    match value.get_ref() {
        DeValue::Float(decimal) => {
            let count = number(decimal.as_str()).ok().and_then(Steps::of_number);
            found.extend(count.map(|count| (value.span(), count.get())));
        }
        DeValue::Array(items) => items.iter().for_each(|item| counts(item, found)),
        DeValue::Table(members) => members.values().for_each(|member| counts(member, found)),
        _ => {}
    }
}

/// Returns the position of a decimal that would be read as another number, and the reason.
fn misread(value: &Spanned<DeValue<'_>>) -> Option<(Range<usize>, String)> {
    match value.get_ref() {
        DeValue::Float(decimal) => {
            let why = number(decimal.as_str()).err()?;
            Some((value.span(), why))
        }
        DeValue::Array(items) => items.iter().find_map(misread),
        DeValue::Table(members) => members.values().find_map(misread),
        _ => None,
    }
}

/// Returns the line of an error and the key on it: `line 2, recipe`.
fn place(text: &str, span: Option<Range<usize>>) -> String {
    let line = line(text, span);
    let key = text
        .lines()
        .nth(line - 1)
        .and_then(|line| line.split_once('='));
    let key = key.map(|(key, _)| key.trim()).filter(|key| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !key.is_empty() && key.chars().all(plain)
    });
    match key {
        Some(key) => format!("line {line}, {key}"),
        None => format!("line {line}"),
    }
}

/// Returns the line of an error, counted from 1.
#[cfg(feature = "findings")]
#[must_use]
pub fn toml_line(text: &str, error: &toml::de::Error) -> usize {
    line(text, error.span())
}

fn line(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    before.matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_line_and_its_key_are_named() {
        let refused = |text: &str| {
            let read = read_toml::<BTreeMap<String, u8>>(text, "a.toml");
            read.unwrap_err().to_string()
        };
        let begins = |text: &str, place: &str| {
            let said = refused(text);
            assert!(said.starts_with(&format!("a.toml, {place}: ")), "{said}");
        };
        begins("a = 1\nb = \"secret = 3\"\n", "line 2, b");
        begins("a = 1\n\n\"a secret\" = \"b\"\n", "line 3");
        begins("a secret", "line 1");
    }

    /// A rate just above one would be read as one.
    #[test]
    fn decimals_that_no_double_stands_for_are_refused() {
        let read = |rate: &str| {
            let text = format!("[training]\nsigma = 2.5\nrates = [0.1, {{ b = {rate} }}]\n");
            read_toml::<toml::Table>(&text, "a.toml")
        };
        assert!(
            read("0.10000000000000001").is_ok() && read("1_0.5").is_ok() && read("inf").is_ok()
        );
        let said = read("1.0000000000000001").unwrap_err().to_string();
        assert!(
            said.starts_with("a.toml, line 3, rates: must have no more digits"),
            "{said}"
        );
    }

    /// The command line takes 1e2 steps, and so do files; what is no count is refused with its range.
    #[test]
    fn counts_are_written_as_people_write_them() {
        #[derive(Debug, serde::Deserialize, PartialEq)]
        struct Each {
            steps: u64,
            list: Vec<u32>,
            rate: f64,
        }
        let read = |steps: &str| {
            let text = format!("rate = 2.0\nlist = [1e3, 2,\n 3.0]\nsteps = {steps}\n");
            read_toml::<Each>(&text, "a.toml")
        };
        let list = vec![1000, 2, 3];
        for (steps, count) in [("1e2", 100), ("1_00.0", 100), ("7", 7), ("1e6", 1_000_000)] {
            let (steps, list) = (read(steps).unwrap(), list.clone());
            let expected = Each {
                steps: count,
                list,
                rate: 2.0,
            };
            assert_eq!(steps, expected);
        }
        let range = "must be a whole number in [0, 18446744073709551615], got";
        for steps in ["1.5", "-3", "1e300"] {
            let said = read(steps).unwrap_err().to_string();
            assert_eq!(said, format!("a.toml, line 4, steps: {range} {steps}"));
        }
        let said = read("36893488147419103232").unwrap_err().to_string();
        assert_eq!(
            said,
            format!("a.toml, line 4, steps: {range} 3.6893488147419103e19")
        );
        let said = read("\"secret\"").unwrap_err().to_string();
        assert_eq!(said, format!("a.toml, line 4, steps: {range} a text"));
    }
}
