//! Policies: which spans of a record are secret. Every policy is record-local: its result for a record depends on that
//! record and on nothing else in the corpus.

mod addresses;
pub(crate) mod budget;
mod choice;
mod compose;
mod conservative;
mod customers;
mod detect;
mod dictionary;
mod folded;
mod general;
mod introduced;
mod levels;
mod names;
mod patterns;
mod simulated;
mod speakers;

pub use choice::{OnnxOptions, PolicyChoice, PolicyOptions};
pub use compose::{AtLeast, Threshold};
pub use conservative::{Conservative, ConservativeOptions};
pub use detect::{Country, DetectorOptions, Detectors, IDENTIFYING, NUMERIC};
pub use dictionary::{Dictionary, DictionaryOptions};
pub use folded::goes_on;
pub use levels::{Cover, EntityKind, Level, Levels, Role, RoleTag, Tagger};
pub use names::Names;
pub use patterns::{PatternRule, Patterns};
pub use simulated::{Simulated, missed_strings};

#[cfg(feature = "onnx")]
pub(crate) use budget::{LONGEST, NOT_CLASSIFIED, unbudgeted};
pub(crate) use budget::{is_spent, is_unexamined};
pub(crate) use folded::JoinedNumbers;
pub(crate) use levels::listed;
pub(crate) use simulated::{Spare, blank};

use crate::document::whole;
use crate::error::{Result, range};
use std::ops::Range;
use std::sync::Arc;

/// Replaces a span in a [`View`] that is already masked (U+FFFC, object replacement).
pub const MASKED: char = '\u{fffc}';

/// The least score of a word that the tagger and token classifiers report.
pub const LEAST_SCORE: f32 = 0.02;

/// Checks the least score with which a word counts, a probability, and returns it. Scores below [`LEAST_SCORE`] are not
/// reported, so 0 stands for it, and a threshold between the two would say more than it does.
///
/// # Errors
/// Returns an error if the threshold is neither 0 nor in [0.02, 1].
pub fn threshold(least: f32) -> Result<f32> {
    if least == 0.0 || (LEAST_SCORE..=1.0).contains(&least) {
        return Ok(least);
    }
    Err(range(
        "the threshold",
        least,
        format!("0 or from {LEAST_SCORE} to 1"),
    ))
}

/// A span that a policy finds secret, in bytes of the view's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// The kind of secret.
    pub kind: Arc<str>,
    /// What found the span.
    pub source: Arc<str>,
    /// The confidence, from 0 to 1; patterns give 1.
    pub score: f32,
}

impl Span {
    pub(crate) fn new(
        range: Range<usize>,
        kind: impl Into<Arc<str>>,
        source: impl Into<Arc<str>>,
        score: f32,
    ) -> Self {
        Self {
            start: range.start,
            end: range.end,
            kind: kind.into(),
            source: source.into(),
            score,
        }
    }
}

/// What a policy sees of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// The text; spans masked beforehand appear as [`MASKED`], whatever their content.
    pub text: &'a str,
    /// Marked secrets with their kinds, in bytes of `text`.
    pub secrets: &'a [(Range<usize>, &'a str)],
}

/// A redaction policy.
pub trait Policy: Send + Sync + std::fmt::Debug {
    /// Appends the spans that the policy finds, in any order, possibly overlapping.
    ///
    /// [`resolved`] and the policies made of others call it with an empty list. They widen spans to whole characters,
    /// cut them at the end of the text, and ignore empty ones. A span that begins behind its own end or behind the text
    /// doesn't say where the secret is, so the whole record counts as found, with the kind `not-examined`.
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>);
}

/// The policy that finds exactly the marked secrets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gold;

impl Policy for Gold {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        let source: Arc<str> = "gold".into();
        let marked = view.secrets.iter();
        spans.extend(
            marked.map(|(range, kind)| Span::new(range.clone(), *kind, source.clone(), 1.0)),
        );
    }
}

/// Returns the policy's spans in order. Overlapping spans are merged and get the kind of the longest one.
///
/// If a policy takes more than ten seconds of processor time for a record, or returns a span that is no part of it (see
/// [`Policy::find`]), the result is one span of the kind `not-examined` over the whole record.
///
/// ```
/// use reticent_corpus::policy::{Policy, Span, View, resolved};
/// /// Finds the second byte, whatever stands there.
/// #[derive(Debug)]
/// struct Second;
/// impl Policy for Second {
///     fn find(&self, _: &View<'_>, spans: &mut Vec<Span>) {
///         spans.push(Span { start: 1, end: 2, kind: "k".into(), source: "second".into(), score: 1.0 });
///     }
/// }
/// let text = "aé!"; // é has two bytes
/// let found = resolved(&Second, &View { text, secrets: &[] });
/// assert_eq!(&text[found[0].start..found[0].end], "é");
/// ```
#[must_use]
pub fn resolved(policy: &dyn Policy, view: &View<'_>) -> Vec<Span> {
    let (spans, enough) = budget::within(budget::LONGEST, || found(policy, view));
    if enough {
        return resolve(spans);
    }
    vec![budget::unread(view.text)]
}

/// Returns the spans of a policy as whole characters of the text, neither ordered nor merged.
fn found(policy: &dyn Policy, view: &View<'_>) -> Vec<Span> {
    let text = view.text;
    let mut spans = Vec::new();
    policy.find(view, &mut spans);
    if spans
        .iter()
        .any(|s| s.start > s.end || s.start > text.len())
    {
        return vec![budget::unread(text)];
    }
    spans.retain(|span| span.start < span.end);
    for span in &mut spans {
        let range = whole(text, &(span.start..span.end));
        (span.start, span.end) = (range.start, range.end);
    }
    spans
}

/// Sorts spans and merges those that overlap.
pub(crate) fn resolve(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.start < span.end);
    spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
    let length = |span: &Span| span.end - span.start;
    let mut longest = spans.first().map_or(0, length);
    spans.dedup_by(|span, last| {
        if span.start >= last.end {
            longest = length(span);
            return false;
        }
        let (start, end) = (last.start, last.end.max(span.end));
        if length(span) > longest {
            longest = length(span);
            std::mem::swap(span, last);
        }
        (last.start, last.end) = (start, end);
        true
    });
    spans
}
