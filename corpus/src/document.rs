//! A document with marked spans, as it is read from the input.

use crate::answers::Answers;
use crate::error::{Error, Result};
use crate::policy::MASKED;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A marked secret: characters `start..end` of the document's text.
///
/// Offsets count Unicode scalar values, as Python's do, from 0; `end` is exclusive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
    /// What it is: `name`, `address`, `phone`, `order`, `tracking`, or anything else.
    pub kind: String,
}

/// A span that was masked before it came to us: characters `start..end`.
///
/// The text under it is used to find token boundaries and for nothing else: no policy, no
/// deduplication and no record sees it. This is also how a neighbouring corpus is written
/// down, with one secret replaced by `<MASK>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Masked {
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
}

/// A document: text, and what is known about the secrets in it.
///
/// ```
/// use reticent_corpus::Document;
/// let document = Document::new("d", "USR: I am Ada Byron.").with_secret(10, 19, "name");
/// assert_eq!(document.secret_text(&document.secrets[0]), "Ada Byron");
/// document.validate()?;
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Unique in its corpus.
    pub id: String,
    /// The text; lines are separated by `\n`.
    pub text: String,
    /// Known secrets, in order and without overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Secret>,
    /// Spans masked beforehand, in order and without overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<Masked>,
    /// Its class, where [`crate::read::ReadOptions::labels`] says which there are: part of the document, and never redacted.
    // Read from a key of the input, whatever its name; not a key of a corpus file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub label: Option<u32>,
    /// What of its text is learned, where [`crate::read::ReadOptions::loss_on`] says whose messages are; all of it where nothing is said.
    // Set by a chat template; not a key of a corpus file either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub answers: Option<Answers>,
}

impl Document {
    /// Creates a document without marked spans.
    #[must_use]
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            text: text.into(),
            secrets: Vec::new(),
            masked: Vec::new(),
            label: None,
            answers: None,
        }
    }

    /// Returns the document with one more secret (characters `start..end`).
    #[must_use]
    pub fn with_secret(mut self, start: usize, end: usize, kind: impl Into<String>) -> Self {
        self.secrets.push(Secret {
            start,
            end,
            kind: kind.into(),
        });
        self
    }

    /// Returns the text of a secret, or an empty string if its span does not fit.
    #[must_use]
    pub fn secret_text(&self, secret: &Secret) -> &str {
        Offsets::new(&self.text)
            .bytes(secret.start, secret.end)
            .map_or("", |range| &self.text[range])
    }

    /// Checks that no span was masked beforehand: for work on the text as it stands, which would read what is under them.
    ///
    /// # Errors
    /// Returns [`Error::Span`].
    pub fn unmasked(&self) -> Result<()> {
        if self.masked.is_empty() {
            return Ok(());
        }
        Err(Error::Span {
            document: self.id.clone(),
            problem: "spans masked beforehand, and the text under them would be read; give the text as it came in, or as audit redact or audit prepare writes it".to_owned(),
        })
    }

    /// Returns the document as policies see it, with one [`MASKED`] in place of each span that was masked beforehand. One with
    /// marked secrets or answers besides is returned as it is.
    #[must_use]
    pub fn into_seen(self) -> Self {
        if self.masked.is_empty() || !self.secrets.is_empty() || self.answers.is_some() {
            return self;
        }
        let offsets = Offsets::new(&self.text);
        let masked = self.masked.iter();
        let masked = masked.filter_map(|mask| offsets.bytes(mask.start, mask.end));
        let masked = joined(masked.collect());
        Self {
            text: replaced(&self.text, &masked, MASKED.encode_utf8(&mut [0; 4])),
            masked: Vec::new(),
            ..self
        }
    }

    /// Checks that every span is non-empty, inside the text, in order and without overlap.
    ///
    /// # Errors
    /// Returns [`Error::Span`] with the offending numbers and the allowed range.
    pub fn validate(&self) -> Result<()> {
        let answers = self.answers.iter().flat_map(|answers| &answers.spans);
        let answers = answers.map(|span| (span.start, span.end));
        if self.secrets.is_empty() && self.masked.is_empty() && answers.clone().next().is_none() {
            return Ok(());
        }
        let length = self.text.chars().count();
        let secrets = self.secrets.iter().map(|s| (s.start, s.end));
        let masked = self.masked.iter().map(|s| (s.start, s.end));
        check("secret", length, secrets)
            .and_then(|()| check("masked", length, masked))
            .and_then(|()| check("answer", length, answers))
            .map_err(|problem| Error::Span {
                document: self.id.clone(),
                problem,
            })
    }
}

fn check(
    what: &str,
    length: usize,
    spans: impl Iterator<Item = (usize, usize)>,
) -> std::result::Result<(), String> {
    let mut last = 0;
    for (index, (start, end)) in spans.enumerate() {
        if start >= end {
            return Err(format!(
                "{what} span {index} is {start}..{end}; its start must be below its end"
            ));
        }
        if end > length {
            return Err(format!(
                "{what} span {index} is {start}..{end}; the text has {length} characters, so its end must be at most {length}"
            ));
        }
        if start < last {
            return Err(format!(
                "{what} span {index} is {start}..{end}; it must not begin before {last}, where the one before it ends"
            ));
        }
        last = end;
    }
    Ok(())
}

/// Sorts ranges and merges those that overlap or touch.
pub(crate) fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|range, last| {
        let meets = range.start <= last.end;
        if meets {
            last.end = last.end.max(range.end);
        }
        meets
    });
    ranges
}

/// Returns a text with something else in place of ranges of its bytes, which are in order and apart.
pub(crate) fn replaced(text: &str, ranges: &[Range<usize>], by: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        out.push_str(&text[from..range.start]);
        out.push_str(by);
        from = range.end;
    }
    out.push_str(&text[from..]);
    out
}

/// Returns a range of bytes, widened to whole characters and cut at the end of the text.
pub(crate) fn whole(text: &str, range: &Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

/// Maps character offsets to byte offsets; built once per document.
pub(crate) struct Offsets {
    /// The byte offset of every character and of the end; `None` for ASCII text, where the two agree.
    table: Option<Vec<usize>>,
    length: usize,
}

impl Offsets {
    pub(crate) fn new(text: &str) -> Self {
        let table = (!text.is_ascii()).then(|| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain(std::iter::once(text.len()))
                .collect()
        });
        Self {
            table,
            length: text.len(),
        }
    }

    /// Returns the byte range of characters `start..end`, if they are in the text.
    pub(crate) fn bytes(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let range = match &self.table {
            None => start..end,
            Some(table) => *table.get(start)?..*table.get(end)?,
        };
        (range.start <= range.end && range.end <= self.length).then_some(range)
    }

    /// Returns the character offset of a byte offset that lies on a character boundary.
    pub(crate) fn character(&self, byte: usize) -> usize {
        match &self.table {
            None => byte,
            Some(table) => table.partition_point(|&at| at < byte),
        }
    }
}
