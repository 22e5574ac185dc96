//! Measures a policy by hand: a simple random sample of records, and what the policy does to the secrets that a person
//! marked in them.

mod judge;

pub use judge::{FoundSpan, Judged, PolicyJudge, SecretFate, Words};

use crate::dedup::Seen;
use crate::document::{Document, Masked, Offsets, Secret};
use crate::error::{Result, range};
use crate::policy::{Dictionary, DictionaryOptions};
use crate::random::{Choices, Purpose, digest};
use crate::split::units;
use crate::unit::Unit;

/// Returns the records of a corpus as separate documents with their marked secrets, split as in
/// [`crate::prepare::prepare`]. A record's id is that of its document if it is the whole document, else
/// `DOCUMENT:NUMBER`.
///
/// # Errors
/// Returns an error if spans do not fit their text.
pub fn screening_records(documents: &[Document], unit: Unit) -> Result<Vec<Document>> {
    let mut out = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        for cut in units(document, number, unit)? {
            let offsets = Offsets::new(&cut.text);
            let whole = matches!(unit, Unit::Document | Unit::Dialogue | Unit::User);
            let id = if whole {
                document.id.clone()
            } else {
                format!("{}:{}", document.id, cut.index)
            };
            out.push(Document {
                id,
                secrets: cut
                    .secrets
                    .iter()
                    .map(|s| Secret {
                        start: offsets.character(s.range.start),
                        end: offsets.character(s.range.end),
                        kind: s.kind.to_owned(),
                    })
                    .collect(),
                masked: cut
                    .masked
                    .iter()
                    .map(|m| Masked {
                        start: offsets.character(m.start),
                        end: offsets.character(m.end),
                    })
                    .collect(),
                label: cut.label,
                answers: None,
                text: cut.text.into_owned(),
            });
        }
    }
    Ok(out)
}

/// Keeps the first of all records with the same text, and returns the number of records dropped. Preparation drops them
/// by their text alone, so a sample does not count them.
///
/// ```
/// use reticent_corpus::{Document, screening::distinct_records};
/// let records = [("a", "hello"), ("b", "call 1"), ("c", "hello")];
/// let records = records.map(|(id, text)| Document::new(id, text)).to_vec();
/// let (distinct, dropped) = distinct_records(records);
/// assert_eq!((&*distinct[1].id, distinct.len(), dropped), ("b", 2, 1));
/// ```
#[must_use]
pub fn distinct_records(mut records: Vec<Document>) -> (Vec<Document>, u64) {
    let before = records.len();
    let mut seen = Seen::new();
    records.retain(|record| seen.insert(digest(record.text.as_bytes())));
    let dropped = before - records.len();
    (records, dropped as u64)
}

/// Returns, for each text, the first record that contains it with no letter or digit at its ends, in any form that a
/// [`Dictionary`] matches; `None` if there is none.
///
/// Every text has at most one such record, however many records contain it. A text that is counted only in that record
/// is therefore as likely as any other to be in a random sample of records.
///
/// # Errors
/// Returns an error if a text consists only of white space, or there are too many texts.
pub fn first_records(records: &[Document], texts: &[String]) -> Result<Vec<Option<usize>>> {
    let mut first = vec![None; texts.len()];
    if texts.is_empty() {
        return Ok(first);
    }
    let words = Dictionary::new(&DictionaryOptions {
        kind: "secret".to_owned(),
        words: texts.to_vec(),
        case_sensitive: true,
        whole_words: true,
    })?;
    for (at, record) in records.iter().enumerate() {
        for (text, ..) in words.occurrences(&record.text) {
            first[text].get_or_insert(at);
        }
    }
    Ok(first)
}

/// Draws a simple random sample without replacement: `count` of `total` records in random order. It depends only on
/// these two numbers and the seed, and not on any text, policy or threshold.
///
/// Any part of the sample that is fixed beforehand, such as its first hundred records, is also a simple random sample.
///
/// # Errors
/// Returns an error if no record is to be drawn, or more than there are.
pub fn draw_sample(total: usize, count: usize, seed: u64) -> Result<Vec<usize>> {
    if !(1..=total).contains(&count) {
        return Err(range(
            "the size of the sample",
            count,
            format!("from 1 to {total}, the number of records"),
        ));
    }
    Ok(Choices::new(seed, Purpose::Labels).distinct(total, count))
}
