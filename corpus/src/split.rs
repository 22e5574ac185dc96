//! Splits documents into units. Splitting comes before everything else, and units are never packed,
//! so a change of length inside one unit moves no other.

use crate::document::{Document, Masked, Offsets};
use crate::error::Result;
use crate::random::digest;
use crate::tokenize::MASK_TEXT;
use crate::unit::Unit;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// One unit of a document, ready for the pipeline.
#[derive(Debug, Clone)]
pub(crate) struct UnitText<'a> {
    /// The document's number in its corpus.
    pub(crate) document: usize,
    /// The unit's number in its document; blank units are not counted.
    pub(crate) index: usize,
    /// The document's class.
    pub(crate) label: Option<u32>,
    /// The text, with literal specials escaped.
    pub(crate) text: Cow<'a, str>,
    /// Secrets that touch the unit, clipped to it, in bytes of `text`.
    pub(crate) secrets: Vec<MarkedSecret<'a>>,
    /// Masked spans that touch the unit, clipped to it, in bytes of `text`.
    pub(crate) masked: Vec<Range<usize>>,
    /// The ranges that are learned, clipped to the unit, in bytes of `text`; `None` if all of it is
    /// learned.
    pub(crate) answers: Option<Vec<Range<usize>>>,
    /// Whether the end of text is learned, if `answers` is given.
    pub(crate) end: bool,
}

impl UnitText<'_> {
    /// Returns whether a literal special token was escaped.
    pub(crate) fn escaped(&self) -> bool {
        matches!(self.text, Cow::Owned(_))
    }
}

/// A secret inside a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedSecret<'a> {
    pub(crate) range: Range<usize>,
    /// The byte of the document where the secret begins; it identifies the secret.
    pub(crate) at: usize,
    pub(crate) kind: &'a str,
    /// The whole secret as it is marked in the document, without escapes.
    pub(crate) text: &'a str,
    /// If the unit contains only part of the secret, the digest by which copies of the unit are distinguished from units with an
    /// equal part of another secret.
    pub(crate) cut: Option<[u8; 20]>,
}

/// Splits a document into its units and omits blank ones.
pub(crate) fn units(document: &Document, number: usize, unit: Unit) -> Result<Vec<UnitText<'_>>> {
    document.validate()?;
    let text = document.text.as_str();
    // Characters need not be counted if there are no spans.
    let plain =
        document.secrets.is_empty() && document.masked.is_empty() && document.answers.is_none();
    let offsets = Offsets::new(if plain { "" } else { text });
    let byte_span = |start, end| offsets.bytes(start, end).unwrap_or(0..0);
    let secrets: Vec<(Range<usize>, &str)> = document
        .secrets
        .iter()
        .map(|s| (byte_span(s.start, s.end), s.kind.as_str()))
        .collect();
    let masked: Vec<Range<usize>> = document
        .masked
        .iter()
        .map(|m| byte_span(m.start, m.end))
        .collect();
    let learned = document.answers.as_ref().map(|answers| {
        let spans = answers.spans.iter();
        spans
            .map(|span| byte_span(span.start, span.end))
            .collect::<Vec<Range<usize>>>()
    });
    let ranges = unit_ranges(text, unit);
    let mut out = Vec::with_capacity(ranges.len());
    // By the place of a cut secret, its digest and the number of its parts so far.
    let mut cuts: HashMap<usize, ([u8; 20], u64)> = HashMap::new();
    for source in ranges {
        let piece = &text[source.clone()];
        if piece.trim().is_empty() {
            continue;
        }
        let local = |r: &Range<usize>| clip(r, &source);
        let mut part = |secret: &Range<usize>| {
            let whole = || (unmasked_digest(text, secret, &masked), 0_u64);
            let (whole, number) = cuts.entry(secret.start).or_insert_with(whole);
            *number += 1;
            digest(&[&whole[..], &number.to_le_bytes()].concat())
        };
        let mut cut = UnitText {
            document: number,
            index: out.len(),
            label: document.label,
            text: Cow::Borrowed(piece),
            secrets: secrets
                .iter()
                .filter_map(|(range, kind)| {
                    let inside = local(range)?;
                    Some(MarkedSecret {
                        at: range.start,
                        text: &text[range.clone()],
                        cut: (inside.len() < range.len()).then(|| part(range)),
                        range: inside,
                        kind,
                    })
                })
                .collect(),
            masked: masked.iter().filter_map(local).collect(),
            answers: learned
                .as_ref()
                .map(|spans| spans.iter().filter_map(local).collect()),
            end: document.answers.as_ref().is_some_and(|answers| answers.end),
        };
        escape(&mut cut);
        out.push(cut);
    }
    Ok(out)
}

/// Returns the part of `range` inside `frame`, relative to the frame's start.
fn clip(range: &Range<usize>, frame: &Range<usize>) -> Option<Range<usize>> {
    let start = range.start.max(frame.start);
    let end = range.end.min(frame.end);
    (start < end).then(|| start - frame.start..end - frame.start)
}

/// Returns the digest of a secret, in which masked text is a mark, whatever it is.
fn unmasked_digest(text: &str, secret: &Range<usize>, masked: &[Range<usize>]) -> [u8; 20] {
    // This byte does not occur in text.
    const MASK: u8 = 0xff;
    let mut bytes = Vec::with_capacity(secret.len());
    let mut from = secret.start;
    let overlapping = |mask: &&Range<usize>| mask.start < secret.end && secret.start < mask.end;
    for mask in masked.iter().filter(overlapping) {
        bytes.extend_from_slice(&text.as_bytes()[from..mask.start.max(from)]);
        bytes.push(MASK);
        from = mask.end.min(secret.end);
    }
    bytes.extend_from_slice(&text.as_bytes()[from..secret.end]);
    digest(&bytes)
}

/// Returns the byte ranges of a text's units, in order.
pub(crate) fn unit_ranges(text: &str, unit: Unit) -> Vec<Range<usize>> {
    match unit {
        Unit::Dialogue | Unit::Document | Unit::User => std::iter::once(0..text.len()).collect(),
        Unit::Turn => lines(text),
        Unit::Sentence => lines(text)
            .into_iter()
            .flat_map(|line| sentences(text, line))
            .collect(),
    }
}

fn lines(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix('\n').unwrap_or(line);
        let body = body.strip_suffix('\r').unwrap_or(body);
        out.push(start..start + body.len());
        start += line.len();
    }
    out
}

/// Words after which a full stop does not end a sentence.
const ABBREVIATIONS: [&str; 28] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "ave", "apt", "no", "nr", "rd", "blvd", "ste", "jr",
    "sr", "vs", "etc", "inc", "ltd", "co", "dept", "fig", "e.g", "i.e", "u.s", "a.m", "p.m",
    "approx",
];

/// Returns the sentences of one line. A sentence ends after `.`, `!` or `?` (and closing quotes)
/// before white space, unless the word before the full stop is an abbreviation or a single capital
/// letter. White space between sentences belongs to neither.
fn sentences(text: &str, line: Range<usize>) -> Vec<Range<usize>> {
    let body = &text[line.clone()];
    let mut out = Vec::new();
    let mut start = 0;
    let mut after_stop: Option<usize> = None;
    for (at, c) in body.char_indices() {
        match c {
            '.' => after_stop = (!abbreviation(&body[start..at])).then_some(at + 1),
            '!' | '?' | '…' => after_stop = Some(at + c.len_utf8()),
            '"' | '\'' | '”' | '’' if after_stop == Some(at) => {
                after_stop = Some(at + c.len_utf8());
            }
            _ if c.is_whitespace() && after_stop == Some(at) => {
                out.push(start..at);
                start = at;
                after_stop = None;
            }
            _ => {}
        }
    }
    out.push(start..body.len());
    out.into_iter()
        .filter_map(|r| {
            let piece = &body[r.clone()];
            let lead = piece.len() - piece.trim_start().len();
            let kept = piece.trim();
            (!kept.is_empty())
                .then(|| line.start + r.start + lead..line.start + r.start + lead + kept.len())
        })
        .collect()
}

fn abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or("");
    let initial = word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
    initial || ABBREVIATIONS.contains(&word.to_ascii_lowercase().as_str())
}

/// Names whose bracketed form is one of our special tokens.
const SPECIALS: [&str; 5] = ["MASK", "BOS", "EOS", "UNK", "PAD"];

/// Inserts one more backslash after the opening bracket of every literal special: `<MASK>` becomes
/// `<\MASK>`, `<\MASK>` becomes `<\\MASK>`. Removing one backslash undoes this, so no two texts
/// become equal. Spans are moved accordingly.
fn escape(unit: &mut UnitText<'_>) {
    let places = escapes(&unit.text);
    if places.is_empty() {
        return;
    }
    let text = escaped_at(&unit.text, &places);
    // A span that begins right after the bracket includes the backslash; one that ends there
    // excludes it.
    let moved = |at: usize| at + places.partition_point(|&p| p < at);
    for secret in &mut unit.secrets {
        secret.range = moved(secret.range.start)..moved(secret.range.end);
    }
    for range in unit
        .masked
        .iter_mut()
        .chain(unit.answers.iter_mut().flatten())
    {
        *range = moved(range.start)..moved(range.end);
    }
    unit.text = Cow::Owned(text);
}

/// Escapes a text without spans; returns `None` if nothing changes.
pub(crate) fn escaped(text: &str) -> Option<String> {
    let places = escapes(text);
    (!places.is_empty()).then(|| escaped_at(text, &places))
}

/// Undoes the escapes of a text; returns `None` if there are none.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut places = escapes(text);
    places.retain(|at| text[*at..].starts_with('\\'));
    let mut from = 0;
    (!places.is_empty()).then(|| {
        let mut out = String::with_capacity(text.len());
        for at in places {
            out.push_str(&text[from..at]);
            from = at + 1;
        }
        out + &text[from..]
    })
}

/// Turns the text of a prepared record back into one to prepare: each `<MASK>` becomes a span masked beforehand, and each
/// escaped special loses a backslash. Splitting the document again undoes this.
pub(crate) fn restore(document: &mut Document) {
    let text = std::mem::take(&mut document.text);
    let mut out = String::with_capacity(text.len());
    let (mut from, mut characters) = (0, 0);
    for at in escapes(&text) {
        let is_mask = text[at..].starts_with(&MASK_TEXT[1..]);
        let end = if is_mask { at - 1 } else { at };
        out.push_str(&text[from..end]);
        characters += text[from..end].chars().count();
        from = end;
        if is_mask {
            document.masked.push(Masked {
                start: characters,
                end: characters + MASK_TEXT.len(),
            });
        } else if text[at..].starts_with('\\') {
            from += 1;
        }
    }
    out.push_str(&text[from..]);
    document.text = out;
}

fn escaped_at(text: &str, places: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + places.len());
    let mut from = 0;
    for &at in places {
        out.push_str(&text[from..at]);
        out.push('\\');
        from = at;
    }
    out.push_str(&text[from..]);
    out
}

/// Returns where backslashes are inserted: right after the `<` of each literal special.
pub(crate) fn escapes(text: &str) -> Vec<usize> {
    text.match_indices('<')
        .filter(|&(at, _)| {
            let rest = text[at + 1..].trim_start_matches('\\');
            SPECIALS.iter().any(|name| {
                rest.strip_prefix(name)
                    .is_some_and(|tail| tail.starts_with('>'))
            })
        })
        .map(|(at, _)| at + 1)
        .collect()
}

#[cfg(test)]
mod tests;
