//! Parquet files, read row by row through the projected columns.

use super::{Gathered, Place};
use anyhow::{Result, bail};
use reticent_corpus::read::{ParquetRows, field_list, field_name};
use std::path::Path;

/// Reads columns (example, secret); with `field`, each row is an example and the field holds its
/// secrets.
pub(super) fn read(path: &Path, field: Option<&str>, into: &mut Gathered) -> Result<()> {
    let key = field.unwrap_or("secret");
    let mut rows = ParquetRows::open(path, &["example", "id", key])?;
    let secret = rows.needed(key)?;
    let example = match field {
        None => Some(rows.needed("example")?),
        Some(_) => rows.column("example").or_else(|| rows.column("id")),
    };
    while let Some(row) = rows.next_row()? {
        let line = row.number;
        let place = Place { path, line };
        let given = example.map(|column| row.field(column).and_then(field_name));
        let given = match given {
            Some(None) => bail!("{place}: example must be text or a whole number"),
            Some(Some(name)) if name.is_empty() => {
                bail!("{place}: the example has no name; it must not be empty")
            }
            given => given.flatten(),
        };
        let example = into.name(given.as_deref(), field.is_some(), place)?;
        into.enter(&example, None, place)?;
        for value in row.field(secret).map_or(&[][..], field_list) {
            match field_name(value) {
                Some(secret) => into.enter(&example, Some(&secret), place)?,
                None => bail!("{place}: {key} must be text, a whole number, or a list of them"),
            }
        }
    }
    Ok(())
}
