//! Passes over corpora of any size: batches of documents are processed by several threads, with results in order, and
//! memory does not grow with the text.

mod incidence;
mod json;
mod ordered;
mod redact;
mod words;

pub(crate) use incidence::{Found, elsewhere};
pub use incidence::{FoundSecrets, Incidence, SecretList, Sense, Sensed, mark_found};
pub use redact::{
    RedactFiles, RedactTo, Redaction, RedactionOptions, RedactionState, redacted_object,
    redacted_text,
};
pub use words::DocumentFrequencies;

use crate::document::Document;
use crate::error::{Result, within};
use crate::prepare::found;
use crate::read::{Documents, Object};
use crate::unit::Unit;
pub(crate) use ordered::until;
use std::num::NonZeroUsize;

/// The size of a batch's text, in bytes: large enough that the cost of handing it over is negligible.
const BATCH: usize = 1 << 20;

/// Returns the default number of threads: the number of cores.
#[must_use]
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Checks a number of threads.
///
/// # Errors
/// Returns an error if the number is 0 or above 1024.
pub(crate) fn checked_threads(threads: usize) -> Result<usize> {
    within("the number of threads", threads, 1..=1024)
}

/// A document with its other data.
struct Read {
    document: Document,
    /// The values of the requested field.
    values: Vec<String>,
    /// The whole object, if its text is not under `text`.
    object: Option<Object>,
    /// Columns of a table that the object could not represent.
    left_out: Vec<String>,
    /// Whether the id says the document's place in its file and nothing else.
    generated_id: bool,
}

/// Makes one pass over a corpus. `emit` receives the result of `work` for each batch, in order, and the number of bytes
/// of the files that had been read with that batch. If it returns false, nothing more is read, and the batches in
/// progress are dropped.
fn pass<T: Send>(
    documents: &mut Documents,
    threads: usize,
    work: impl Fn(&[Read]) -> Result<T> + Sync,
    emit: impl FnMut(T, u64) -> Result<bool>,
) -> Result<()> {
    until(
        checked_threads(threads)?,
        || {
            let batch = batch(documents, u64::MAX)?;
            let read = documents.bytes_read();
            Ok((!batch.is_empty()).then_some((batch, read)))
        },
        |batch| work(&batch),
        emit,
    )?;
    Ok(())
}

/// Returns the next documents: at least one, no more once they contain a batch of text, and at most `most`.
fn batch(documents: &mut Documents, most: u64) -> Result<Vec<Read>> {
    let mut out = Vec::new();
    let mut bytes = 0;
    while bytes < BATCH && (out.len() as u64) < most {
        let Some(document) = documents.next().transpose()? else {
            break;
        };
        bytes += document.text.len() + 64;
        let values = documents.values().to_vec();
        let object = documents.take_object();
        let left_out = documents.take_left_out();
        let generated_id = documents.has_generated_id();
        out.push(Read {
            document,
            values,
            object,
            left_out,
            generated_id,
        });
    }
    Ok(out)
}

/// Returns the name of a unit: its document's id, followed by `#` and its number if units are parts of documents.
fn name(document: &Document, unit: Unit, index: usize) -> String {
    match unit {
        Unit::Document | Unit::Dialogue | Unit::User => document.id.clone(),
        Unit::Turn | Unit::Sentence => format!("{}#{index}", document.id),
    }
}
