//! Reads selected columns of a Parquet file row by row, as untrusted input.

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

/// The largest size that a row group may declare for its selected columns when unpacked: 1 GiB. A page may be as large,
/// and one page of each column is in memory at a time.
const GROUP: i64 = 1 << 30;
/// The bytes that a row counts for in addition to its content: processing a row takes about as long as that many bytes,
/// and compressed it takes no space.
const ROW: u64 = 256;

/// Reads selected columns of a Parquet file row by row.
///
/// Panics of the library are reported as errors of the file. The declared unpacked sizes are bounded before anything is
/// unpacked: 1 GiB for the selected columns of a row group, and 250 times its size plus 64 MiB for a page. The total
/// content of the rows, plus 256 bytes for each row and for each list value, is bounded in the same way by the size of
/// the file.
pub struct ParquetRows {
    path: PathBuf,
    rows: RowIter<'static>,
    columns: Vec<String>,
    /// The names of all columns in the file.
    there: Vec<String>,
    /// Checks the pages of a row group.
    check: Check,
    /// The numbers of rows of the row groups that have not been entered yet.
    groups: std::iter::Enumerate<std::vec::IntoIter<u64>>,
    /// The number of rows left in the current group.
    left: u64,
    number: u64,
    pub(super) rows_in_all: u64,
    pub(super) bytes: u64,
    /// The size of the rows read so far: a dictionary can repeat a long text many times.
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

/// A row.
#[derive(Debug)]
pub struct ParquetRow {
    row: Row,
    /// The number of the row, from 1.
    pub number: u64,
}

impl ParquetRow {
    /// Returns the value of a column by index; `None` if it is null.
    #[must_use]
    pub fn field(&self, column: usize) -> Option<&Field> {
        let (_, field) = self.row.get_column_iter().nth(column)?;
        Some(field).filter(|field| !matches!(field, Field::Null))
    }
}

impl ParquetRows {
    /// Opens a file for some of its columns; missing columns are omitted.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not Parquet, or has none of the columns.
    pub fn open(path: &Path, wanted: &[&str]) -> Result<Self> {
        let file = File::open(path).map_err(Error::reading(path))?;
        Self::begin(path, Raw::File(file), wanted, (&[], false))
    }

    /// Opens a file with alternatives: if the first column is missing, the columns in `instead` are selected in its
    /// place, or all columns if the flag is set and one of them exists. Beside the first column they are selected if they
    /// may hold messages or a pair, which are read in rows without a text.
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
        let fields = schema.get_fields().iter();
        let there: Vec<&str> = fields.map(|field| field.name()).collect();
        let first = |field: &TypePtr| wanted.first() == Some(&field.name());
        let instead = match schema.get_fields().iter().any(first) && !shape::is_shape(&there) {
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
        let there: Vec<String> = there.into_iter().map(str::to_owned).collect();
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = columns.iter().find(|name| !names.insert(*name)) {
            return Err(format!("the column {twice} is there twice"));
        }
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

    /// Returns the selected columns, in the file's order.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the index of a column among the selected ones.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Returns the index of a column.
    ///
    /// # Errors
    /// Returns an error that names the column if it is missing.
    pub fn needed(&self, name: &str) -> Result<usize> {
        self.column(name).ok_or_else(|| self.lacks(name))
    }

    /// Returns the error that none of these columns exists.
    pub(super) fn lacks(&self, wanted: &str) -> Error {
        wrong(&self.path, "metadata", &none(wanted, &self.there))
    }

    /// Rejects marks in a table of texts.
    pub(super) fn without_marks(&self, taken: &[Option<&str>]) -> Result<()> {
        let there: Vec<&str> = self.there.iter().map(String::as_str).collect();
        super::marks_in_a_table(&there, taken).map_or(Ok(()), |problem| {
            Err(wrong(&self.path, "metadata", &problem))
        })
    }

    /// Reads the next row.
    ///
    /// # Errors
    /// Returns an error with the row's number if it cannot be read.
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

/// Rejects compression codecs that are not built in, and says how to convert the file.
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

/// Returns the size of a field in bytes, including nested lists and groups.
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

/// Returns whether a column chunk belongs to a selected column.
fn is_of(column: &ColumnChunkMetaData, wanted: &[String]) -> bool {
    let name = column.column_path().parts().first();
    name.is_some_and(|name| wanted.contains(name))
}

/// Rejects row groups whose selected columns declare too large an unpacked size.
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

/// Checks the pages of a row group's selected columns, and rejects lists with too many values for the size of the file.
/// A row is in memory as a whole before it is counted.
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

/// Calls a function that parses an untrusted file, and reports the library's panics as errors of the file.
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
    Error::place(path, place, format!("cannot read as Parquet: {problem}"))
}

/// Returns a field as a name: UTF-8 text or an integer.
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

/// Returns the elements of a list, or the single value.
#[must_use]
pub(super) fn field_list(field: &Field) -> &[Field] {
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
