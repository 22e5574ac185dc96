//! Parquet files with a column `text`, perhaps `id`.

use crate::document::Document;
use crate::error::{Error, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A column chunk that says it unpacks to more than this is refused: 1 GiB.
const CHUNK: i64 = 1 << 30;

pub(super) struct Rows {
    path: PathBuf,
    rows: RowIter<'static>,
    columns: Vec<String>,
    number: u64,
}

impl Rows {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::Read {
            path: path.to_path_buf(),
            source,
        })?;
        let (rows, columns) = guarded(path, "metadata", || open(file))?;
        Ok(Self {
            path: path.to_path_buf(),
            rows,
            columns,
            number: 0,
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<(u64, Document)>> {
        self.number += 1;
        let place = format!("row {}", self.number);
        let rows = &mut self.rows;
        let row = guarded(&self.path, &place, || {
            rows.next().transpose().map_err(|error| error.to_string())
        })?;
        let Some(row) = row else {
            return Ok(None);
        };
        let wrong = |problem: String| Error::Place {
            path: self.path.clone(),
            place: place.clone(),
            problem,
        };
        let cell = |name: &str| {
            self.columns
                .iter()
                .position(|c| c == name)
                .map(|at| field(&row, at))
        };
        let text = match cell("text") {
            Some(Field::Null) | None => String::new(),
            Some(value) => name(&value).ok_or_else(|| {
                wrong(format!("text must be text in UTF-8, got {}", kind(&value)))
            })?,
        };
        let id = match cell("id") {
            Some(Field::Null) | None => format!("row-{}", self.number),
            Some(value) => name(&value).ok_or_else(|| {
                wrong(format!(
                    "id must be text or a whole number, got {}",
                    kind(&value)
                ))
            })?,
        };
        Ok(Some((self.number, Document::new(id, text))))
    }
}

type Opened = (RowIter<'static>, Vec<String>);

fn open(file: File) -> std::result::Result<Opened, String> {
    let said = |error: parquet::errors::ParquetError| error.to_string();
    let reader = SerializedFileReader::new(file).map_err(said)?;
    for group in reader.metadata().row_groups() {
        for column in group.columns() {
            let size = column.uncompressed_size();
            if !(0..=CHUNK).contains(&size) {
                return Err(format!(
                    "column {} unpacks to {size} bytes; from 0 to {CHUNK} are read",
                    column.column_path()
                ));
            }
        }
    }
    let schema = reader.metadata().file_metadata().schema();
    let kept: Vec<TypePtr> = schema
        .get_fields()
        .iter()
        .filter(|f| ["text", "id"].contains(&f.name()))
        .cloned()
        .collect();
    let columns: Vec<String> = kept.iter().map(|f| f.name().to_owned()).collect();
    if !columns.iter().any(|c| c == "text") {
        let there: Vec<&str> = schema.get_fields().iter().map(|f| f.name()).collect();
        return Err(format!("no column text; there are {there:?}"));
    }
    let projection = Type::group_type_builder(schema.name())
        .with_fields(kept)
        .build()
        .map_err(said)?;
    let rows = RowIter::from_file_into(Box::new(reader))
        .project(Some(Arc::unwrap_or_clone(Arc::new(projection))))
        .map_err(said)?;
    Ok((rows, columns))
}

/// Runs what reads a file made by somebody else; the library's panics are errors of the file.
fn guarded<T>(
    path: &Path,
    place: &str,
    read: impl FnOnce() -> std::result::Result<T, String>,
) -> Result<T> {
    let outcome = catch_unwind(AssertUnwindSafe(read));
    let problem = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(problem)) => problem,
        Err(_) => "it contradicts itself".to_owned(),
    };
    Err(Error::Place {
        path: path.to_path_buf(),
        place: place.to_owned(),
        problem: format!("cannot read as Parquet: {problem}"),
    })
}

fn field(row: &Row, column: usize) -> Field {
    let found = row.get_column_iter().nth(column);
    found.map_or(Field::Null, |(_, field)| field.clone())
}

fn name(field: &Field) -> Option<String> {
    Some(match field {
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).ok()?,
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        _ => return None,
    })
}

fn kind(field: &Field) -> &'static str {
    match field {
        Field::Bytes(_) => "bytes that are none",
        Field::Bool(_) => "a truth value",
        Field::Float(_) | Field::Double(_) => "a number with a point",
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => "a list or group",
        _ => "another type",
    }
}
