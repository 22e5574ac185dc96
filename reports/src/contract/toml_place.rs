//! A TOML text as its type reads it, and where it is wrong, without any of its texts.

use anyhow::{Result, anyhow};
use reticent_accounting::number;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of a file.
///
/// # Errors
/// What is no TOML or not of the type, and decimals that would be read as other numbers: the file's name, line and key.
pub fn read_toml<T: DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    let at =
        |span: Option<Range<usize>>, why: &str| anyhow!("{name}, {}: {why}", place(text, span));
    let read = toml::from_str(text).map_err(|error| at(error.span(), error.message()))?;
    let table = DeTable::parse(text).map_err(|error| at(error.span(), error.message()))?;
    match table.get_ref().values().find_map(misread) {
        Some((span, why)) => Err(at(Some(span), &why)),
        None => Ok(read),
    }
}

/// Where a decimal stands that would be read as another number, and why.
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

/// The line of an error, and the key on it: `line 2, recipe`.
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

/// The line of an error, counted from 1.
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
}
