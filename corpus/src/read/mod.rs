//! Readers for corpora, which are streamed and treated as untrusted input: JSON Lines, plain text, CSV, Parquet, and
//! dialogues; uncompressed or compressed with gzip or Zstandard; one file or a folder of files.

mod chat;
#[cfg(feature = "parquet")]
mod columns;
mod dialogues;
mod documents;
mod files;
mod format;
mod generation;
mod ids;
mod lines;
#[cfg(feature = "parquet")]
mod pages;
#[cfg(feature = "parquet")]
mod parquet;
mod python;
mod rendering;
mod scopes;
mod shape;
mod source;
mod table;
mod tags;
mod text;
mod users;
mod values;
mod whole;

pub use chat::ChatTemplate;
#[cfg(feature = "parquet")]
pub use columns::{ParquetRow, ParquetRows, field_name};
pub use files::corpus_files;
pub(crate) use files::{PlannedFile, planned_files, regular};
#[cfg(feature = "workers")]
pub(crate) use rendering::Rendering;
pub use shape::taught_text;
pub(crate) use shape::{Joined, Object, any_name, each_text, without_ids};
pub use whole::whole_object;
pub(crate) use whole::{TOO_MANY, TWICE};

pub(crate) use documents::Place;
pub use documents::{Documents, ReadOptions, read_documents, read_readable};

/// The default limit for a line, row, block or dialogue, in bytes: 64 MiB. A longer one is an error and never exhausts
/// memory.
pub const LINE_LIMIT: u64 = 64 << 20;

/// U+FEFF as encoded at the beginning of a UTF-8 file.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The keys of a document's marks.
const MARKS: [&str; 2] = ["secrets", "masked"];

/// Returns why a table with marks beside its text is rejected: it would be read as if nothing were marked.
fn marks_in_a_table(columns: &[&str], taken: &[Option<&str>]) -> Option<String> {
    let marks = MARKS.iter().filter(|name| !taken.contains(&Some(**name)));
    let name = marks.into_iter().find(|name| columns.contains(name))?;
    Some(format!(
        "the column {name} is there, and marks are read of JSON Lines alone; convert the file, or rename the column"
    ))
}

/// A document as its reader returns it.
struct Entry {
    /// Its place in the file, counted from 1: line, row or dialogue.
    number: u64,
    document: crate::document::Document,
    /// The values of the field that was asked for.
    values: Vec<String>,
    /// The whole object, if its text is not under `text`.
    object: Option<Whole>,
    /// Whether it is a line of `train.jsonl` or `test.jsonl` of a prepared corpus.
    prepared: bool,
}

impl Entry {
    /// Returns a document that has nothing besides.
    fn plain(number: u64, document: crate::document::Document) -> Self {
        Self {
            number,
            document,
            values: Vec::new(),
            object: None,
            prepared: false,
        }
    }
}

/// An object from the input.
struct Whole {
    object: Object,
    /// Whether a number in it differs from the one in the file because of rounding.
    rounded: bool,
    /// Columns of a table that the object could not represent.
    left_out: Vec<String>,
}

impl Whole {
    /// Returns an object with what its JSON text says of its numbers.
    fn of_json(object: Object, json: &[u8]) -> Self {
        Self {
            object,
            rounded: values::has_number_beyond_64_bits(json),
            left_out: Vec::new(),
        }
    }
}
