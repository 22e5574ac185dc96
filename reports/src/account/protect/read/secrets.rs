//! The table of secrets: id, prior, posterior and optionally kind.

use super::{Kind, Names, Place};
use anyhow::{Result, bail};
use reticent_accounting::Probability;
use reticent_accounting::protect::Secret;
use serde_json::Value;
use std::path::Path;

/// The promise for one secret.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Promise {
    /// Its prior and tolerated posterior.
    pub(crate) secret: Secret,
    /// The kind of secret; empty if not given.
    pub(crate) kind: String,
}

/// One row as text, with its place.
struct Entry<'a> {
    id: String,
    prior: Option<String>,
    posterior: Option<String>,
    kind: String,
    place: Place<'a>,
}

/// Reads a table of secrets: names, and promises in the same order. `field`: where the names are its values.
///
/// # Errors
/// Unreadable or malformed content, two secrets of one id, a prior or posterior out of range;
/// the message has file, line and value.
pub(crate) fn read_secrets(path: &Path, field: Option<&str>) -> Result<(Names, Vec<Promise>)> {
    let mut names = Names::of(field);
    let mut promises = Vec::new();
    let mut enter = |entry: Entry<'_>| -> Result<()> {
        let place = entry.place;
        if entry.id.is_empty() {
            bail!("{place}: id must not be empty");
        }
        if names.get(&entry.id).is_some() {
            // An id may be the secret itself.
            bail!("{place}: its id occurred before; ids must be unique");
        }
        let prior = number("prior", entry.prior.as_deref(), place)?;
        let posterior = number("posterior", entry.posterior.as_deref(), place)?;
        let secret = match Secret::new(prior, posterior) {
            Ok(secret) => secret,
            Err(error) => bail!("{place}: {error}"),
        };
        names.index(&entry.id)?;
        promises.push(Promise {
            secret,
            kind: entry.kind,
        });
        Ok(())
    };
    match Kind::of(path)? {
        Kind::Csv => from_csv(path, &mut enter)?,
        Kind::JsonLines => from_json_lines(path, &mut enter)?,
        #[cfg(feature = "parquet")]
        Kind::Parquet => from_parquet(path, &mut enter)?,
        #[cfg(not(feature = "parquet"))]
        Kind::Parquet => bail!(super::no_parquet(path)),
    }
    if promises.is_empty() {
        bail!("{}: there is no secret in it", path.display());
    }
    Ok((names, promises))
}

fn number(what: &str, text: Option<&str>, place: Place<'_>) -> Result<Probability> {
    let Some(text) = text else {
        bail!("{place}: no {what}");
    };
    let value = reticent_accounting::number(text.trim()).ok();
    match value.and_then(|value| Probability::new(value).ok()) {
        Some(probability) => Ok(probability),
        None => bail!("{place}: {what} must be a number in [0, 1]"),
    }
}

fn from_csv<'a>(path: &'a Path, enter: &mut impl FnMut(Entry<'a>) -> Result<()>) -> Result<()> {
    let mut rows = super::csv::Rows::open(path)?;
    let [id, prior, posterior] = [
        rows.needed(&["id", "secret"])?,
        rows.needed(&["prior"])?,
        rows.needed(&["posterior"])?,
    ];
    let kind = rows.column(&["kind"])?;
    while let Some((row, place)) = rows.next()? {
        enter(Entry {
            id: row[id].to_owned(),
            prior: Some(row[prior].to_owned()),
            posterior: Some(row[posterior].to_owned()),
            kind: kind.map_or_else(String::new, |column| row[column].to_owned()),
            place,
        })?;
    }
    Ok(())
}

fn from_json_lines<'a>(
    path: &'a Path,
    enter: &mut impl FnMut(Entry<'a>) -> Result<()>,
) -> Result<()> {
    use super::jsonl::{NAME, Objects, name};
    let mut objects = Objects::open(path)?;
    while let Some((object, place)) = objects.next()? {
        let text = |key: &str| object.get(key).and_then(name);
        let number = |key: &str| match object.get(key) {
            Some(Value::Number(number)) => Some(number.to_string()),
            other => other.and_then(name),
        };
        let id = match object.get("id") {
            Some(id) => match name(id) {
                Some(id) => id,
                None => bail!("{place}: id must be {NAME}"),
            },
            None => bail!("{place}: no key \"id\""),
        };
        enter(Entry {
            id,
            prior: number("prior"),
            posterior: number("posterior"),
            kind: text("kind").unwrap_or_default(),
            place,
        })?;
    }
    Ok(())
}

#[cfg(feature = "parquet")]
fn from_parquet<'a>(path: &'a Path, enter: &mut impl FnMut(Entry<'a>) -> Result<()>) -> Result<()> {
    use parquet::record::Field;
    use reticent_corpus::read::{ParquetRows, field_name};
    let mut rows = ParquetRows::open(path, &["id", "prior", "posterior", "kind"])?;
    let [id, prior, posterior] = [
        rows.needed("id")?,
        rows.needed("prior")?,
        rows.needed("posterior")?,
    ];
    let kind = rows.column("kind");
    let number = |field: &Field| match field {
        Field::Float(value) => Some(value.to_string()),
        Field::Double(value) => Some(value.to_string()),
        other => field_name(other),
    };
    while let Some(row) = rows.next_row()? {
        let text = |column| row.field(column).and_then(field_name).unwrap_or_default();
        enter(Entry {
            id: text(id),
            prior: row.field(prior).and_then(number),
            posterior: row.field(posterior).and_then(number),
            kind: kind.map(text).unwrap_or_default(),
            place: Place {
                path,
                line: row.number,
            },
        })?;
    }
    Ok(())
}
