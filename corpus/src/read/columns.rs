//! Rows of a Parquet file through some of its columns, read as untrusted input.

use super::format::Raw;
use super::source::{GROWTH, SLACK};
use super::{pages, shape};
use crate::error::{Error, Result};
use crate::quiet::quietly;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A row group whose wanted columns say that they unpack to more than this is refused: 1 GiB. A page may be as large as
/// that, and one of each column is in memory at once.
const GROUP: i64 = 1 << 30;
/// What a row counts for beside what it holds: one takes about as long as so many bytes, and compressed nothing.
const ROW: u64 = 256;

/// A Parquet file with the columns that are wanted, row by row.
///
/// The library's panics are errors of the file, and what a row group or a page says it
/// unpacks to is bounded before anything is unpacked: 1 GiB of a group's wanted columns, and of a page 250 times
/// its size and 64 MiB. What the rows hold in all, 256 bytes of each and of each value of a list besides, is bounded in the same way by the file's size.
pub struct ParquetRows {
    path: PathBuf,
    rows: RowIter<'static>,
    columns: Vec<String>,
    /// Every column of the file.
    there: Vec<String>,
    /// Looks at the pages of a row group.
    check: Check,
    /// Rows of each row group that is still to be entered.
    groups: std::iter::Enumerate<std::vec::IntoIter<u64>>,
    /// Rows left of the group that was entered last.
    left: u64,
    number: u64,
    pub(super) rows_in_all: u64,
    pub(super) bytes: u64,
    /// Bytes that the rows so far hold: a dictionary may say a long text again and again.
    emitted: u64,
}

impl std::fmt::Debug for ParquetRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetRows")
            .field("path", &self.path)
            .field("columns", &self.columns)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

type Check = Box<dyn Fn(usize) -> std::result::Result<(), String> + Send>;

/// One row, with its number counted from 1.
#[derive(Debug)]
pub struct ParquetRow {
    row: Row,
    /// Counted from 1.
    pub number: u64,
}

impl ParquetRow {
    /// What a column holds, by its index; none where it holds nothing.
    #[must_use]
    pub fn field(&self, column: usize) -> Option<&Field> {
        let (_, field) = self.row.get_column_iter().nth(column)?;
        Some(field).filter(|field| !matches!(field, Field::Null))
    }
}

impl ParquetRows {
    /// Opens a file for some of its columns; those that are not there are left out.
    ///
    /// # Errors
    /// A file that cannot be read or is no Parquet, and one with none of the columns.
    pub fn open(path: &Path, wanted: &[&str]) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::Read {
            path: path.to_path_buf(),
            source,
        })?;
        Self::begin(path, Raw::File(file), wanted, (&[], false))
    }

    /// The same with columns that are wanted `instead` of the first one where that is not there, or with `all` where one
    /// of them is.
    pub(super) fn begin(
        path: &Path,
        raw: Raw,
        wanted: &[&str],
        instead: (&[&str], bool),
    ) -> Result<Self> {
        guarded(path, "metadata", || match raw {
            Raw::File(file) => {
                let again = file.try_clone().map_err(|e| e.to_string())?;
                Self::of(path, file, again, (wanted, instead))
            }
            Raw::Stream(_) => Err("a stream has no end to look at first; name a file".to_owned()),
            Raw::Bytes(bytes) => {
                let bytes = bytes::Bytes::from(bytes);
                Self::of(path, bytes.clone(), bytes, (wanted, instead))
            }
        })
    }

    fn of<R: ChunkReader + 'static>(
        path: &Path,
        file: R,
        again: R,
        (wanted, (instead, all)): (&[&str], (&[&str], bool)),
    ) -> std::result::Result<Self, String> {
        let bytes = file.len();
        let reader = SerializedFileReader::new(file).map_err(said)?;
        let about = reader.metadata().file_metadata();
        let rows_in_all = u64::try_from(about.num_rows()).unwrap_or(0);
        let schema = about.schema();
        let first = |field: &TypePtr| wanted.first() == Some(&field.name());
        let instead = match schema.get_fields().iter().any(first) {
            true => &[],
            false => instead,
        };
        let is_instead = |field: &TypePtr| instead.contains(&field.name());
        let all = all && schema.get_fields().iter().any(is_instead);
        let is_wanted =
            |field: &&TypePtr| all || wanted.contains(&field.name()) || is_instead(field);
        let kept: Vec<TypePtr> = schema
            .get_fields()
            .iter()
            .filter(is_wanted)
            .cloned()
            .collect();
        let columns: Vec<String> = kept.iter().map(|field| field.name().to_owned()).collect();
        let fields = schema.get_fields().iter();
        let there: Vec<String> = fields.map(|field| field.name().to_owned()).collect();
        if columns.is_empty() {
            let wanted = match instead {
                [] => wanted.join(" or "),
                _ => shape::SHAPES.to_owned(),
            };
            return Err(none(&wanted, &there));
        }
        let projection = Type::group_type_builder(schema.name())
            .with_fields(kept)
            .build()
            .map_err(said)?;
        bounded(reader.metadata(), &columns)?;
        readable(reader.metadata(), &columns)?;
        let groups = reader.metadata().row_groups().iter();
        let groups: Vec<u64> = groups
            .map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
            .collect();
        let about = reader.metadata().clone();
        let names = columns.clone();
        let check: Check = Box::new(move |group| pages(&again, &about, group, &names));
        let rows = RowIter::from_file_into(Box::new(reader))
            .project(Some(projection))
            .map_err(said)?;
        Ok(Self {
            path: path.to_path_buf(),
            rows,
            columns,
            there,
            check,
            groups: groups.into_iter().enumerate(),
            left: 0,
            number: 0,
            rows_in_all,
            bytes,
            emitted: 0,
        })
    }

    /// The columns that are kept, in the file's order.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The index of a column, among those kept.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The same, or an error that names it.
    ///
    /// # Errors
    /// A column that is not there.
    pub fn needed(&self, name: &str) -> Result<usize> {
        self.column(name).ok_or_else(|| self.lacks(name))
    }

    /// That none of these columns is there.
    pub(super) fn lacks(&self, wanted: &str) -> Error {
        wrong(&self.path, "metadata", &none(wanted, &self.there))
    }

    /// Refuses marks in a table of texts.
    pub(super) fn without_marks(&self, taken: &[Option<&str>]) -> Result<()> {
        let there: Vec<&str> = self.there.iter().map(String::as_str).collect();
        super::marks_in_a_table(&there, taken).map_or(Ok(()), |problem| {
            Err(wrong(&self.path, "metadata", &problem))
        })
    }

    /// The next row.
    ///
    /// # Errors
    /// What cannot be read, with the number of the row.
    pub fn next_row(&mut self) -> Result<Option<ParquetRow>> {
        self.number += 1;
        let number = self.number;
        let (rows, groups, left) = (&mut self.rows, &mut self.groups, &mut self.left);
        let row = guarded(&self.path, &format!("row {number}"), || {
            while *left == 0
                && let Some((group, rows)) = groups.next()
            {
                (self.check)(group)?;
                *left = rows;
            }
            *left = left.saturating_sub(1);
            rows.next().transpose().map_err(said)
        })?;
        if let Some(row) = &row {
            let fields = row.get_column_iter().map(|(_, field)| held(field));
            self.emitted = fields.fold(self.emitted.saturating_add(ROW), u64::saturating_add);
            if self.emitted > GROWTH.saturating_mul(self.bytes).saturating_add(SLACK) {
                let problem = format!(
                    "the rows of its {} bytes hold more than {} bytes by then, {ROW} of each row besides its text; at most {GROWTH} times as many and {SLACK} are read (write it again without a dictionary and uncompressed if it is sound)",
                    self.bytes, self.emitted
                );
                return Err(wrong(&self.path, &format!("row {number}"), &problem));
            }
        }
        Ok(row.map(|row| ParquetRow { row, number }))
    }
}

/// Refuses what is compressed by a library that is not built in, and says how it is converted.
fn readable(about: &ParquetMetaData, wanted: &[String]) -> std::result::Result<(), String> {
    use Compression::{GZIP, SNAPPY, UNCOMPRESSED};
    for column in about.row_groups().iter().flat_map(|group| group.columns()) {
        let compression = column.compression();
        let read = matches!(compression, UNCOMPRESSED | SNAPPY | GZIP(_));
        if !read && is_of(column, wanted) {
            return Err(format!(
                "column {} is compressed with {}; snappy and gzip are read. Convert it: python -c \"import pyarrow.parquet as p; p.write_table(p.read_table('IN.parquet'), 'OUT.parquet', compression='snappy')\"",
                column.column_path(),
                compression
                    .to_string()
                    .split('(')
                    .next()
                    .unwrap_or_default()
                    .to_lowercase()
            ));
        }
    }
    Ok(())
}

/// How many bytes a field holds, those of lists and groups included.
fn held(field: &Field) -> u64 {
    match field {
        Field::Str(text) => text.len() as u64,
        Field::Bytes(bytes) => bytes.len() as u64,
        Field::ListInternal(list) => list.elements().iter().map(held).sum(),
        Field::Group(row) => row.get_column_iter().map(|(_, field)| held(field)).sum(),
        Field::MapInternal(map) => {
            let entries = map.entries().iter();
            entries.map(|(key, value)| held(key) + held(value)).sum()
        }
        _ => 8,
    }
}

/// Whether a column chunk is of a column that is wanted.
fn is_of(column: &ColumnChunkMetaData, wanted: &[String]) -> bool {
    let name = column.column_path().parts().first();
    name.is_some_and(|name| wanted.contains(name))
}

/// Refuses row groups that say their wanted columns unpack to too much.
fn bounded(about: &ParquetMetaData, wanted: &[String]) -> std::result::Result<(), String> {
    for (number, group) in about.row_groups().iter().enumerate() {
        let mut all = 0i64;
        for column in group.columns().iter().filter(|c| is_of(c, wanted)) {
            let size = column.uncompressed_size();
            all = all.saturating_add(size);
            if !(0..=GROUP).contains(&size) || all > GROUP {
                return Err(format!(
                    "row group {} unpacks to {} bytes with column {}; from 0 to {GROUP} are read (write it again with fewer rows in a group: row_group_size of pyarrow's write_table)",
                    number + 1,
                    if size < 0 { size } else { all },
                    column.column_path()
                ));
            }
        }
    }
    Ok(())
}

/// Looks at the pages of a row group's columns that are wanted, and refuses lists that hold too much for the size of the
/// file: a row is there as a whole before it is counted.
fn pages<R: ChunkReader>(
    file: &R,
    about: &ParquetMetaData,
    group: usize,
    wanted: &[String],
) -> std::result::Result<(), String> {
    let most = GROWTH.saturating_mul(file.len()).saturating_add(SLACK);
    let number = group + 1;
    let group = about.row_group(group);
    let rows = u64::try_from(group.num_rows()).unwrap_or(0);
    let mut elements = 0u64;
    for column in group
        .columns()
        .iter()
        .filter(|column| is_of(column, wanted))
    {
        let values = pages::checked(file, column)?;
        elements = elements.saturating_add(values.saturating_sub(rows));
        if elements.saturating_mul(ROW) > most {
            return Err(format!(
                "row group {number} says it has {elements} values more than rows with column {}; of such, {ROW} bytes each, at most {GROWTH} times as many as the file's and {SLACK} are read (write it again without a dictionary and uncompressed if it is sound)",
                column.column_path()
            ));
        }
    }
    Ok(())
}

fn none(wanted: &str, there: &[String]) -> String {
    format!("no column {wanted}; there are {there:?}")
}

fn said(error: ParquetError) -> String {
    match error {
        ParquetError::General(problem) => problem,
        other => other.to_string(),
    }
}

/// Runs what reads a file made by somebody else; the library's panics are errors of the file.
fn guarded<T>(
    path: &Path,
    place: &str,
    read: impl FnOnce() -> std::result::Result<T, String>,
) -> Result<T> {
    let problem = match quietly(read) {
        Some(Ok(value)) => return Ok(value),
        Some(Err(problem)) => problem,
        None => "it contradicts itself".to_owned(),
    };
    Err(wrong(path, place, &problem))
}

fn wrong(path: &Path, place: &str, problem: &str) -> Error {
    Error::Place {
        path: path.to_path_buf(),
        place: place.to_owned(),
        problem: format!("cannot read as Parquet: {problem}"),
    }
}

/// A name: text in UTF-8, or a whole number.
#[must_use]
pub fn field_name(field: &Field) -> Option<String> {
    Some(match field {
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).ok()?.to_owned(),
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        _ => return None,
    })
}

/// The elements of a list, or the one value.
#[must_use]
pub fn field_list(field: &Field) -> &[Field] {
    match field {
        Field::ListInternal(list) => list.elements(),
        one => std::slice::from_ref(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::metadata::{FileMetaData, RowGroupMetaData};
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;
    use std::sync::Arc;

    /// Columns that fit one by one are refused together, and what is not wanted counts for nothing.
    #[test]
    fn a_row_group_is_bounded_by_all_that_is_read_of_it() {
        let schema =
            "message m { required binary text; required binary id; required binary image; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let schema = Arc::new(SchemaDescriptor::new(schema));
        let about = |sizes: [i64; 3]| {
            let columns = schema.columns().iter().zip(sizes).map(|(column, size)| {
                ColumnChunkMetaData::builder(Arc::clone(column))
                    .set_total_uncompressed_size(size)
                    .build()
                    .unwrap()
            });
            let group = RowGroupMetaData::builder(Arc::clone(&schema))
                .set_num_rows(1)
                .set_column_metadata(columns.collect())
                .build()
                .unwrap();
            let file = FileMetaData::new(1, 1, None, None, Arc::clone(&schema), None);
            ParquetMetaData::new(file, vec![group])
        };
        let wanted = ["text".to_owned(), "id".to_owned()];
        for (sizes, read) in [
            ([GROUP, 0, i64::MAX], true),
            ([GROUP / 2, GROUP / 2, 0], true),
            ([GROUP / 2, GROUP / 2 + 1, 0], false),
            ([GROUP + 1, 0, 0], false),
            ([GROUP, -1, 0], false),
            ([i64::MAX, i64::MAX, 0], false),
        ] {
            assert_eq!(bounded(&about(sizes), &wanted).is_ok(), read, "{sizes:?}");
        }
    }
}
