//! Measures a policy by hand: a simple random sample of records, and what the policy does to the secrets that a person
//! marked in them.

mod judge;

pub use judge::{FoundSpan, Judged, PolicyJudge, SecretFate, Words};

use crate::dedup::Seen;
use crate::document::{Document, Masked, Offsets, Secret, joined, replaced};
use crate::error::{Result, range};
use crate::policy::{Dictionary, DictionaryOptions};
use crate::prepare::text_key;
use crate::random::{Choices, Purpose};
use crate::split::units;
use crate::tokenize::MASK_TEXT;
use crate::unit::Unit;

/// A unit of a corpus on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreeningRecord {
    /// The unit as a document. Its id is that of its document if it is the whole document, else `DOCUMENT:NUMBER`.
    pub document: Document,
    /// For each of its secrets, in order, the secret that was marked.
    pub marked: Vec<Marked>,
    /// What preparation compares it by.
    key: [u8; 20],
}

/// A secret that was marked in a document, all of it or part of which is in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The number of the document, and where in it the secret begins. All parts of a secret have the same place.
    pub place: (usize, usize),
    /// The whole secret.
    pub text: String,
    /// Whether the record contains only part of it.
    pub cut: bool,
}

impl ScreeningRecord {
    /// Returns its text as a preparation writes it: `<MASK>` in place of what was masked beforehand.
    #[must_use]
    pub fn prepared_text(&self) -> String {
        let text = &self.document.text;
        let offsets = Offsets::new(text);
        let masked = self.document.masked.iter();
        let masked = masked.filter_map(|mask| offsets.bytes(mask.start, mask.end));
        replaced(text, &joined(masked.collect()), MASK_TEXT)
    }
}

/// Returns the records of a corpus with their marked secrets, split as in [`crate::prepare::prepare`].
///
/// # Errors
/// Returns an error if spans do not fit their text.
pub fn screening_records(documents: &[Document], unit: Unit) -> Result<Vec<ScreeningRecord>> {
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
            let marked = cut.secrets.iter().map(|secret| Marked {
                place: (cut.document, secret.at),
                text: secret.text.to_owned(),
                cut: secret.cut.is_some(),
            });
            let (marked, key) = (marked.collect(), text_key(&cut));
            let document = Document {
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
            };
            out.push(ScreeningRecord {
                document,
                marked,
                key,
            });
        }
    }
    Ok(out)
}

/// Keeps the first of all records that preparation takes for exact copies, and returns the number of records dropped.
///
/// ```
/// use reticent_corpus::{Document, Unit};
/// use reticent_corpus::screening::{distinct_records, screening_records};
/// let records = [("a", "hello"), ("b", "call 1"), ("c", "hello")];
/// let records = records.map(|(id, text)| Document::new(id, text));
/// let (distinct, dropped) = distinct_records(screening_records(&records, Unit::Document)?);
/// assert_eq!((&*distinct[1].document.id, distinct.len(), dropped), ("b", 2, 1));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[must_use]
pub fn distinct_records(mut records: Vec<ScreeningRecord>) -> (Vec<ScreeningRecord>, u64) {
    let before = records.len();
    let mut seen = Seen::new();
    records.retain(|record| seen.insert(record.key));
    let dropped = before - records.len();
    (records, dropped as u64)
}

/// Returns, for each text, the number of the first record that contains it with no letter or digit at its ends, in any
/// form that a [`Dictionary`] matches; `None` if there is none.
///
/// # Errors
/// Returns an error if a text consists only of white space, or there are too many texts.
pub fn first_records<'a>(
    records: impl IntoIterator<Item = &'a Document>,
    texts: &[String],
) -> Result<Vec<Option<usize>>> {
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
    for (at, record) in records.into_iter().enumerate() {
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
