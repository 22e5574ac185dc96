//! Parquet files, row by row through the projected columns.

use super::{Gathered, Place};
use anyhow::{Context, Result, anyhow, bail};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A file, with the columns that are wanted.
pub(super) struct Rows<'a> {
    path: &'a Path,
    rows: RowIter<'static>,
    columns: Vec<String>,
    line: u64,
}

impl<'a> Rows<'a> {
    /// Opens a file for some of its columns.
    pub(super) fn open(path: &'a Path, wanted: &[&str]) -> Result<Self> {
        let place = || format!("{}: cannot read as Parquet", path.display());
        let file = File::open(path).with_context(|| format!("{}: cannot read", path.display()))?;
        let reader = SerializedFileReader::new(file).with_context(place)?;
        let schema = reader.metadata().file_metadata().schema();
        let kept: Vec<TypePtr> = schema
            .get_fields()
            .iter()
            .filter(|field| wanted.contains(&field.name()))
            .cloned()
            .collect();
        let columns = kept.iter().map(|field| field.name().to_owned()).collect();
        if kept.is_empty() {
            let there: Vec<&str> = schema.get_fields().iter().map(|f| f.name()).collect();
            bail!(
                "{}: no column {}; there are {there:?}",
                path.display(),
                wanted.join(" or ")
            );
        }
        let projection = Type::group_type_builder(schema.name())
            .with_fields(kept)
            .build()
            .with_context(place)?;
        let rows = RowIter::from_file_into(Box::new(reader))
            .project(Some(Arc::unwrap_or_clone(Arc::new(projection))))
            .with_context(place)?;
        Ok(Self {
            path,
            rows,
            columns,
            line: 0,
        })
    }

    /// The index of a column, among those kept.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The same, or an error that names it.
    pub(super) fn needed(&self, name: &str) -> Result<usize> {
        self.column(name).ok_or_else(|| {
            anyhow!(
                "{}: no column {name}; of those asked for there are {:?}",
                self.path.display(),
                self.columns
            )
        })
    }

    /// The next row; its place counts rows from 1.
    pub(super) fn next(&mut self) -> Result<Option<(Row, Place<'a>)>> {
        self.line += 1;
        let place = Place {
            path: self.path,
            line: self.line,
        };
        match self.rows.next() {
            None => Ok(None),
            Some(Ok(row)) => Ok(Some((row, place))),
            Some(Err(error)) => bail!("{place}: cannot read as Parquet: {error}"),
        }
    }
}

/// The value in one column.
pub(super) fn cell(row: &Row, column: usize) -> &Field {
    const NULL: &Field = &Field::Null;
    row.get_column_iter()
        .nth(column)
        .map_or(NULL, |(_, field)| field)
}

/// A name: text, or a whole number.
pub(super) fn name(field: &Field) -> Option<String> {
    Some(match field {
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).ok()?,
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::Byte(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        _ => return None,
    })
}

/// Columns (example, secret); with `field`, each row is an example and the field holds its secrets.
pub(super) fn read(path: &Path, field: Option<&str>, into: &mut Gathered) -> Result<()> {
    let key = field.unwrap_or("secret");
    let mut rows = Rows::open(path, &["example", "id", key])?;
    let secret = rows.needed(key)?;
    let example = match field {
        None => Some(rows.needed("example")?),
        Some(_) => rows.column("example").or_else(|| rows.column("id")),
    };
    while let Some((row, place)) = rows.next()? {
        let example = match example.map(|column| cell(&row, column)) {
            Some(value) => match name(value).filter(|name| !name.is_empty()) {
                Some(name) => name,
                None => bail!("{place}: example must be text or a whole number, got {value}"),
            },
            None => format!("line-{}", place.line),
        };
        into.enter(&example, None, place)?;
        let found = cell(&row, secret);
        let list = match found {
            Field::Null => &[],
            Field::ListInternal(list) => list.elements(),
            one => std::slice::from_ref(one),
        };
        for value in list {
            match name(value) {
                Some(secret) => into.enter(&example, Some(&secret), place)?,
                None => bail!(
                    "{place}: {key} must be text, a whole number, or a list of them, got {value}"
                ),
            }
        }
    }
    Ok(())
}
