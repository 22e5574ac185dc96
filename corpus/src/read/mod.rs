//! Readers of corpora, as streams and as untrusted input: JSON Lines, plain text, CSV,
//! Parquet, dialogues; compressed with gzip or Zstandard; one file or a folder of them.

mod chat;
#[cfg(feature = "parquet")]
mod columns;
mod dialogues;
mod documents;
mod files;
mod format;
mod generation;
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
pub use columns::{ParquetRow, ParquetRows, field_list, field_name};
pub use files::corpus_files;
pub(crate) use files::{corpus_sizes, regular};
#[cfg(feature = "workers")]
pub(crate) use rendering::Rendering;
pub use shape::last_answer;
pub(crate) use shape::{Joined, Object, any_name, each_text};
pub use whole::whole_object;
pub(crate) use whole::{TOO_MANY, TWICE};

pub(crate) use documents::Place;
pub use documents::{Documents, ReadOptions, made_up_number, read_documents, read_readable};

/// Longest line, row, block or dialogue read where nothing else is said, in bytes: 64 MiB. A
/// longer one is an error, not a memory problem.
pub const LINE_LIMIT: u64 = 64 << 20;

/// U+FEFF at the beginning of a file in UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// What marks of a document stand under.
const MARKS: [&str; 2] = ["secrets", "masked"];

/// Why a table is refused that has marks beside its text: it would be read as if nothing were marked.
fn marks_in_a_table(columns: &[&str], taken: &[Option<&str>]) -> Option<String> {
    let marks = MARKS.iter().filter(|name| !taken.contains(&Some(**name)));
    let name = marks.into_iter().find(|name| columns.contains(name))?;
    Some(format!(
        "the column {name} is there, and marks are read of JSON Lines alone; convert the file, or rename the column"
    ))
}

/// A document as its reader gives it.
struct Entry {
    /// Its place in the file, counted from 1: line, row or dialogue.
    number: u64,
    document: crate::document::Document,
    /// What the field that was asked for holds.
    values: Vec<String>,
    /// The whole object, where it is not `text` that holds its text.
    object: Option<Whole>,
}

/// An object as it was read.
struct Whole {
    object: Object,
    /// Whether a number in it is another one than in the file.
    rounded: bool,
    /// Columns of a table that it could not take in.
    left_out: Vec<String>,
}
