//! Passes over corpora of any size: batches of documents, worked on by several threads, their
//! results in order; memory does not grow with the text.

mod incidence;
mod ordered;
mod redact;
mod words;

pub use incidence::{Incidence, SecretList, Sense, Sensed};
pub use redact::{Redacted, Redaction, RedactionOptions, RedactionState, redacted_text};
pub use words::DocumentFrequencies;

use crate::document::Document;
use crate::error::{Result, range};
use crate::policy::{Policy, Span, View, resolved};
use crate::read::Documents;
use crate::split::UnitText;
use crate::unit::Unit;
pub(crate) use ordered::ordered;
use std::cell::Cell;
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

/// Goes through a corpus once. `emit` is given what `work` makes of each batch, in order, and how
/// many bytes of the files had been read with that batch; when it says no, nothing more is read, and what
/// was under way is dropped.
fn pass<T: Send>(
    documents: &mut Documents,
    threads: usize,
    work: impl Fn(&[(Document, Vec<String>)]) -> Result<T> + Sync,
    mut emit: impl FnMut(T, u64) -> Result<bool>,
) -> Result<()> {
    let stopped = Cell::new(false);
    ordered(
        checked_threads(threads)?,
        || {
            if stopped.get() {
                return Ok(None);
            }
            let batch = batch(documents)?;
            let read = documents.bytes_read();
            Ok((!batch.is_empty()).then_some((batch, read)))
        },
        |(batch, read)| (work(&batch), read),
        |(made, read)| {
            let made = made?;
            if !stopped.get() {
                stopped.set(!emit(made, read)?);
            }
            Ok(())
        },
    )
}

/// The next documents: at least one, and no more once they hold a batch of text.
fn batch(documents: &mut Documents) -> Result<Vec<(Document, Vec<String>)>> {
    let mut out = Vec::new();
    let mut bytes = 0;
    while bytes < BATCH {
        let Some(document) = documents.next().transpose()? else {
            break;
        };
        bytes += document.text.len() + 64;
        let values = documents.values().to_vec();
        out.push((document, values));
    }
    Ok(out)
}

/// What a unit is called: by its document's id, with its number behind a `#` where units are
/// parts of documents.
fn name(document: &Document, unit: Unit, index: usize) -> String {
    match unit {
        Unit::Document | Unit::Dialogue => document.id.clone(),
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
