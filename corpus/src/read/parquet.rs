//! Parquet files with a column `text`, perhaps `id`.

use super::format::Raw;
use super::{Entry, ReadOptions};
use crate::document::Document;
use crate::error::{Error, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A column chunk that says it unpacks to more than this is refused: 1 GiB.
const CHUNK: i64 = 1 << 30;

pub(super) struct Rows {
    path: PathBuf,
    rows: RowIter<'static>,
    columns: Vec<String>,
    limit: u64,
    field: Option<String>,
    number: u64,
    about: About,
    read: Arc<AtomicU64>,
    told: u64,
}

/// Sizes, for progress.
struct About {
    rows: u64,
    bytes: u64,
}

impl Rows {
    pub(super) fn open(
        path: &Path,
        raw: Raw,
        options: &ReadOptions,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let field = options.field.clone();
        let (rows, columns, about) = guarded(path, "metadata", || open(raw, field.as_deref()))?;
        Ok(Self {
            path: path.to_path_buf(),
            rows,
            columns,
            limit: options.longest,
            field,
            number: 0,
            about,
            read,
            told: 0,
        })
    }

    /// Rows read, as a share of the file's bytes.
    fn tell(&mut self) {
        let all = u128::from(self.about.rows.max(1));
        let at = u128::from(self.number.min(self.about.rows)) * u128::from(self.about.bytes) / all;
        let at = u64::try_from(at).unwrap_or(self.about.bytes);
        self.read
            .fetch_add(at.saturating_sub(self.told), Ordering::Relaxed);
        self.told = self.told.max(at);
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        self.number += 1;
        self.tell();
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
        if text.len() as u64 > self.limit {
            return Err(wrong(format!(
                "the row is longer than {} bytes, the most that is read",
                self.limit
            )));
        }
        let values = match self.field.as_deref().and_then(cell) {
            Some(value) => values(&value).ok_or_else(|| {
                wrong("the field must be text, a whole number, or a list of them".to_owned())
            })?,
            None => Vec::new(),
        };
        Ok(Some(Entry {
            number: self.number,
            document: Document::new(id, text),
            values,
        }))
    }
}

type Opened = (RowIter<'static>, Vec<String>, About);

fn said(error: parquet::errors::ParquetError) -> String {
    error.to_string()
}

fn open(raw: Raw, field: Option<&str>) -> std::result::Result<Opened, String> {
    let (reader, bytes): (Box<dyn FileReader>, u64) = match raw {
        Raw::File(file) => {
            let bytes = file.metadata().map_or(0, |about| about.len());
            (
                Box::new(SerializedFileReader::new(file).map_err(said)?),
                bytes,
            )
        }
        Raw::Bytes(bytes) => {
            let length = bytes.len() as u64;
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(said)?;
            (Box::new(reader), length)
        }
    };
    let about = About {
        rows: u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0),
        bytes,
    };
    bounded(reader.as_ref())?;
    let wanted: Vec<&str> = ["text", "id"].into_iter().chain(field).collect();
    let schema = reader.metadata().file_metadata().schema();
    let kept: Vec<TypePtr> = schema
        .get_fields()
        .iter()
        .filter(|f| wanted.contains(&f.name()))
        .cloned()
        .collect();
    let columns: Vec<String> = kept.iter().map(|f| f.name().to_owned()).collect();
    for needed in std::iter::once("text").chain(field) {
        if !columns.iter().any(|c| c == needed) {
            let there: Vec<&str> = schema.get_fields().iter().map(|f| f.name()).collect();
            return Err(format!("no column {needed}; there are {there:?}"));
        }
    }
    let projection = Type::group_type_builder(schema.name())
        .with_fields(kept)
        .build()
        .map_err(said)?;
    let rows = RowIter::from_file_into(reader)
        .project(Some(Arc::unwrap_or_clone(Arc::new(projection))))
        .map_err(said)?;
    Ok((rows, columns, about))
}

/// Refuses column chunks that say they unpack to too much.
fn bounded(reader: &dyn FileReader) -> std::result::Result<(), String> {
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
    Ok(())
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

/// One value, or those of a list; empty text is none.
fn values(field: &Field) -> Option<Vec<String>> {
    let list = match field {
        Field::Null => &[],
        Field::ListInternal(list) => list.elements(),
        one => std::slice::from_ref(one),
    };
    let named: Option<Vec<String>> = list.iter().map(name).collect();
    named.map(|all| all.into_iter().filter(|v| !v.is_empty()).collect())
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
