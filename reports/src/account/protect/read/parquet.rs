//! Parquet files, read row by row through the projected columns.

use super::{Cell, Column, Place};
use anyhow::Result;
use parquet::record::Field;
use reticent_corpus::read::{ParquetRows, field_name};
use std::path::Path;

/// Calls a function for each row with the cells of these columns.
pub(super) fn rows<const N: usize>(
    path: &Path,
    columns: &[Column<'_>; N],
    mut each: impl FnMut(Place<'_>, [Cell<'_>; N]) -> Result<()>,
) -> Result<()> {
    let names: Vec<&str> = columns
        .iter()
        .flat_map(|column| column.names)
        .copied()
        .collect();
    let mut rows = ParquetRows::open(path, &names)?;
    let mut places = [None; N];
    for (place, column) in places.iter_mut().zip(columns) {
        *place = column.names.iter().find_map(|name| rows.column(name));
        if place.is_none() && column.needed {
            rows.needed(&column.names.join(" or "))?;
        }
    }
    while let Some(row) = rows.next_row()? {
        let line = row.number;
        let value = |at| row.field(at).map_or(Cell::List(Vec::new()), cell);
        each(
            Place { path, line },
            places.map(|at| at.map_or(Cell::Absent, value)),
        )?;
    }
    Ok(())
}

fn cell(field: &Field) -> Cell<'_> {
    match field {
        Field::ListInternal(list) => Cell::List(list.elements().iter().map(cell).collect()),
        Field::Float(value) => Cell::Number(value.to_string()),
        Field::Double(value) => Cell::Number(value.to_string()),
        other => field_name(other).map_or(Cell::Other, |name| Cell::Name(name.into())),
    }
}
