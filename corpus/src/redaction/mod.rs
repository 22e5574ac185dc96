//! Passes over corpora of any size: batches of documents, worked on by several threads, their
//! results in order; memory does not grow with the text.

mod incidence;
mod ordered;
mod redact;
mod words;

pub use incidence::{Incidence, SecretList, Sense, Sensed};
pub use redact::{
    RedactFiles, RedactTo, Redaction, RedactionOptions, RedactionState, redacted_text,
};
pub use words::DocumentFrequencies;

use crate::document::Document;
use crate::error::{Result, range};
use crate::policy::{Policy, Span, View, resolved};
use crate::read::{Documents, Object};
use crate::split::UnitText;
use crate::unit::Unit;
pub(crate) use ordered::until;
use std::num::NonZeroUsize;

/// Text of one batch, in bytes: enough that handing it over costs nothing.
const BATCH: usize = 1 << 20;

/// How many threads work when nothing is said: as many as there are cores.
#[must_use]
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// # Errors
/// No thread, or more than 1024.
pub(crate) fn checked_threads(threads: usize) -> Result<usize> {
    if (1..=1024).contains(&threads) {
        Ok(threads)
    } else {
        Err(range("the number of threads", threads, "from 1 to 1024"))
    }
}

/// A document, with what was read beside it.
struct Read {
    document: Document,
    /// What the field that was asked for holds.
    values: Vec<String>,
    /// The whole object, where it is not `text` that holds its text.
    object: Option<Object>,
    /// Columns of a table that it could not take in.
    left_out: Vec<String>,
}

/// Goes through a corpus once. `emit` is given what `work` makes of each batch, in order, and how
/// many bytes of the files had been read with that batch; when it says no, nothing more is read, and what
/// was under way is dropped.
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

/// The next documents: at least one, no more once they hold a batch of text, and at most so many.
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
        out.push(Read {
            document,
            values,
            object,
            left_out,
        });
    }
    Ok(out)
}

/// What a unit is called: by its document's id, with its number behind a `#` where units are
/// parts of documents.
fn name(document: &Document, unit: Unit, index: usize) -> String {
    match unit {
        Unit::Document | Unit::Dialogue | Unit::User => document.id.clone(),
        Unit::Turn | Unit::Sentence => format!("{}#{index}", document.id),
    }
}

/// The policy's spans in a unit in which nothing is masked.
fn found(unit: &UnitText<'_>, policy: &dyn Policy) -> Vec<Span> {
    let secrets: Vec<(std::ops::Range<usize>, &str)> = unit
        .secrets
        .iter()
        .map(|secret| (secret.range.clone(), secret.kind))
        .collect();
    resolved(
        policy,
        &View {
            text: &unit.text,
            secrets: &secrets,
        },
    )
}
