//! The table of secrets: id, prior, posterior and optionally kind.

use super::{Cell, Column, NAME, Names, Place, rows};
use anyhow::{Result, bail};
use reticent_accounting::Probability;
use reticent_accounting::protect::Secret;
use std::path::Path;

/// The promise for one secret.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Promise {
    /// Its prior and tolerated posterior.
    pub(crate) secret: Secret,
    /// The kind of secret; empty if not given.
    pub(crate) kind: String,
}

/// Reads a table of secrets: names, and promises in the same order. `field`: where the names are its values.
///
/// # Errors
/// Unreadable or malformed content, two secrets of one id, a prior or posterior out of range;
/// the message has file, line and value.
pub(crate) fn read_secrets(path: &Path, field: Option<&str>) -> Result<(Names, Vec<Promise>)> {
    let mut names = Names::of(field);
    let mut promises = Vec::new();
    let column = |names, needed| Column { names, needed };
    let columns = [
        column(&["id", "secret"][..], true),
        column(&["prior"], true),
        column(&["posterior"], true),
        column(&["kind"], false),
    ];
    rows(path, &columns, |place, [id, prior, posterior, kind]| {
        let id = match id {
            Cell::Absent => bail!("{place}: no key \"id\""),
            Cell::Name(id) => id,
            _ => bail!("{place}: id must be {NAME}"),
        };
        if id.is_empty() {
            bail!("{place}: id must not be empty");
        }
        if names.get(&id).is_some() {
            // An id may be the secret itself.
            bail!("{place}: its id occurred before; ids must be unique");
        }
        let prior = number("prior", prior, place)?;
        let posterior = number("posterior", posterior, place)?;
        let secret = match Secret::new(prior, posterior) {
            Ok(secret) => secret,
            Err(error) => bail!("{place}: {error}"),
        };
        names.index(&id)?;
        let kind = match kind {
            Cell::Name(kind) => kind.into_owned(),
            _ => String::new(),
        };
        promises.push(Promise { secret, kind });
        Ok(())
    })?;
    if promises.is_empty() {
        bail!("{}: there is no secret in it", path.display());
    }
    Ok((names, promises))
}

fn number(what: &str, cell: Cell<'_>, place: Place<'_>) -> Result<Probability> {
    let text = match cell {
        Cell::Name(text) => text,
        Cell::Number(text) => text.into(),
        _ => bail!("{place}: no {what}"),
    };
    let value = reticent_accounting::number(text.trim()).ok();
    match value.and_then(|value| Probability::new(value).ok()) {
        Some(probability) => Ok(probability),
        None => bail!("{place}: {what} must be a number in [0, 1]"),
    }
}
