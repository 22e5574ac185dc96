//! What training sees: tokenised records, each on the public or the private side.

use crate::answers::LossOn;
use crate::unit::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Index of a token in the vocabulary.
pub type TokenId = u32;

/// Which optimiser may see a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Neither masked nor flagged: ordinary optimisation.
    Public,
    /// Contains `<MASK>` or was flagged by the conservative policy: private optimisation only.
    Private,
}

/// One record: beginning-of-text, content, end-of-text. Loss falls on every token but the first and those that are ignored.
/// A record that was cut to length has no end-of-text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Which optimiser may see it.
    pub side: Side,
    /// The tokens, specials included.
    pub tokens: Vec<TokenId>,
    /// Where the policy found something and the text was left as it is: ranges of `tokens`,
    /// ascending, none touching the next. Empty in redacted text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<Range<usize>>,
    /// The class of the whole record, where records have one: its number among the names that were declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<u32>,
    /// What is read and carries no loss: ranges of `tokens`, ascending, none touching the next. Empty where every token
    /// behind the first is learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<Range<usize>>,
}

impl Record {
    /// Returns the number of tokens that carry loss.
    #[must_use]
    pub fn loss_tokens(&self) -> u64 {
        crate::answers::learned(self.tokens.len(), &self.ignored)
    }
}

/// Returns 64 bits, in hexadecimal, of the SHA-256 of what training makes of a record: its side, class, sensitive ranges
/// and, if loss is restricted to part of the text, ignored ranges, then its text and tokens.
///
/// The digest ends the record's id. A statement about an id in another file, such as which secrets the record contains,
/// therefore does not apply to a different record with the same number.
pub(crate) fn content_digest(
    text: &str,
    record: &Record,
    loss_on: Option<LossOn>,
) -> [u8; CONTENT_DIGEST] {
    let mut hash = Sha256::new();
    let mut number = |number: u64| hash.update(number.to_le_bytes());
    // Each part is preceded by its length or by whether it is there, so that no two records give the same bytes.
    number(match record.side {
        Side::Public => 0,
        Side::Private => 1,
    });
    match record.label {
        None => number(0),
        Some(label) => {
            number(1);
            number(label.into());
        }
    }
    number(loss_on.is_some().into());
    let ignored = loss_on.map(|_| &record.ignored);
    for ranges in std::iter::once(&record.sensitive).chain(ignored) {
        number(ranges.len() as u64);
        for range in ranges {
            number(range.start as u64);
            number(range.end as u64);
        }
    }
    number(text.len() as u64);
    hash.update(text);
    in_bytes(&record.tokens, |bytes| hash.update(bytes));
    let mut out = [0; CONTENT_DIGEST];
    for (digits, byte) in out.as_chunks_mut().0.iter_mut().zip(hash.finalize()) {
        *digits = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    }
    out
}

/// The hexadecimal digits of a [`content_digest`].
pub(crate) const CONTENT_DIGEST: usize = 16;

/// Passes the tokens as little-endian bytes to `each`, 256 tokens at a time: most records are short.
pub(crate) fn in_bytes(tokens: &[TokenId], mut each: impl FnMut(&[u8])) {
    let mut buffer = [[0; 4]; 256];
    for tokens in tokens.chunks(buffer.len()) {
        for (bytes, token) in buffer.iter_mut().zip(tokens) {
            *bytes = token.to_le_bytes();
        }
        each(buffer[..tokens.len()].as_flattened());
    }
}

/// Returns the id of a record in `train.jsonl` and `test.jsonl`: `unit-NUMBER-DIGEST`. The digest is 64 bits of the
/// SHA-256 of its side, class, sensitive ranges, text, tokens and, if loss is restricted to part of the text, ignored
/// ranges.
///
/// ```
/// use reticent_corpus::{LossOn, Record, Side, record_id};
/// let record = Record { side: Side::Private, tokens: vec![1, 7, 2], sensitive: vec![1..2], label: None, ignored: vec![] };
/// let id = record_id(3, "ab", &record, None);
/// assert_eq!(id.len(), "unit-3-".len() + 16);
/// assert_ne!(id, record_id(3, "ab", &record, Some(LossOn::Assistant)));
/// for other in [
///     Record { side: Side::Public, ..record.clone() },
///     Record { tokens: vec![1, 8, 2], ..record.clone() },
///     Record { sensitive: vec![], ..record.clone() },
///     Record { label: Some(0), ..record.clone() },
/// ] {
///     assert_ne!(id, record_id(3, "ab", &other, None));
/// }
/// ```
#[must_use]
pub fn record_id(number: u64, text: &str, record: &Record, loss_on: Option<LossOn>) -> String {
    let mut id = Vec::new();
    put_id(&mut id, number, &content_digest(text, record, loss_on));
    // The digest is text, and so is what stands before it.
    String::from_utf8(id).unwrap_or_default()
}

/// Appends the id for a number and a digest.
pub(crate) fn put_id(out: &mut Vec<u8>, number: u64, digest: &[u8]) {
    out.extend_from_slice(b"unit-");
    put_number(out, number);
    out.push(b'-');
    out.extend_from_slice(digest);
}

/// Appends a number in decimal.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    // A vector takes whatever is written to it.
    let _ = serde_json::to_writer(out, &number);
}

/// Returns whether an id has the form of [`record_id`].
pub(crate) fn is_record_id(id: &str) -> bool {
    let parts = id.strip_prefix("unit-").and_then(|id| id.split_once('-'));
    parts.is_some_and(|(number, digest)| {
        number.parse::<u64>().is_ok()
            && digest.len() == CONTENT_DIGEST
            && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns the first sensitive or ignored range that is out of place. Ranges must be ascending and non-empty, start
/// after the beginning of text, end inside the record's `tokens`, and not touch each other.
///
/// ```
/// use reticent_corpus::misplaced;
/// assert_eq!(misplaced(&[1..3, 4..6], 6), None);
/// assert_eq!(misplaced(&[1..3, 3..6], 6), Some(&(3..6))); // it touches the one before
/// assert_eq!(misplaced(&[1..usize::MAX], 6), Some(&(1..usize::MAX)));
/// ```
#[must_use]
pub fn misplaced(ranges: &[Range<usize>], tokens: usize) -> Option<&Range<usize>> {
    let mut least = 1; // after the beginning of text
    ranges.iter().find(|range| {
        let wrong = range.start < least || range.is_empty() || range.end > tokens;
        least = range.end.saturating_add(1);
        wrong
    })
}

/// The training set: records in corpus order, and how many further private points are only `<MASK>`.
///
/// A point that is only `<MASK>` carries no loss and is not stored, but it counts in the size
/// of the private side, and so in the sampling rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingSet {
    /// What one record is.
    pub unit: Unit,
    /// The records that carry loss.
    pub records: Vec<Record>,
    /// Private points that are only `<MASK>`.
    pub mask_only: u64,
}

impl TrainingSet {
    /// Iterates over the records of one side, in corpus order.
    pub fn side(&self, side: Side) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |r| r.side == side)
    }
    /// |D_pri|: private records plus the points that are only `<MASK>`.
    #[must_use]
    pub fn private_size(&self) -> u64 {
        self.side(Side::Private).count() as u64 + self.mask_only
    }
    /// |D_pub|.
    #[must_use]
    pub fn public_size(&self) -> u64 {
        self.side(Side::Public).count() as u64
    }
}
