//! Policies: which spans of a record are secret. Every policy is record-local: what it says
//! about a record depends on that record and on nothing else in the corpus.

mod addresses;
mod budget;
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
pub use levels::{Cover, EntityKind, Level, Levels, Role, RoleTag, Tagger};
pub use names::Names;
pub use patterns::{PatternRule, Patterns};
pub use simulated::{Simulated, missed_strings};

pub(crate) use budget::is_spent;
#[cfg(feature = "onnx")]
pub(crate) use budget::{LONGEST, unbudgeted};
pub(crate) use folded::joined_numbers;
pub(crate) use levels::listed;
#[cfg(feature = "onnx")]
pub(crate) use levels::threshold;
pub(crate) use simulated::{Spare, blank};

use std::ops::Range;
use std::sync::Arc;

/// Stands in a [`View`] for a span that is masked already (U+FFFC, object replacement).
pub const MASKED: char = '\u{fffc}';

/// A span a policy calls secret, in bytes of the view's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// What it is.
    pub kind: Arc<str>,
    /// Who says so.
    pub source: Arc<str>,
    /// How sure, from 0 to 1; patterns say 1.
    pub score: f32,
}

/// What a policy sees of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// The text; spans masked beforehand read [`MASKED`], whatever lay under them.
    pub text: &'a str,
    /// Marked secrets with their kinds, in bytes of `text`.
    pub secrets: &'a [(Range<usize>, &'a str)],
}

/// A redaction policy.
pub trait Policy: Send + Sync + std::fmt::Debug {
    /// Appends the spans it finds, in any order, overlapping or not.
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>);
}

/// The policy that knows: it finds the marked secrets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gold;

impl Policy for Gold {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        let source: Arc<str> = "gold".into();
        spans.extend(view.secrets.iter().map(|(range, kind)| Span {
            start: range.start,
            end: range.end,
            kind: (*kind).into(),
            source: source.clone(),
            score: 1.0,
        }));
    }
}

/// The policy's spans in order, overlapping ones made one (of the longest one's kind).
///
/// A record that a policy looks at for more than ten seconds is one span of the kind `not-examined`.
#[must_use]
pub fn resolved(policy: &dyn Policy, view: &View<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    let ((), enough) = budget::within(budget::LONGEST, || policy.find(view, &mut spans));
    if enough {
        return resolve(spans);
    }
    vec![Span {
        start: 0,
        end: view.text.len(),
        kind: budget::UNREAD.into(),
        source: "policy".into(),
        score: 1.0,
    }]
}

/// Spans in order, overlapping ones made one.
pub(crate) fn resolve(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
    let mut out: Vec<(Span, usize)> = Vec::with_capacity(spans.len());
    for span in spans {
        let length = span.end.saturating_sub(span.start);
        match out.last_mut() {
            Some((last, longest)) if span.start < last.end => {
                let end = last.end.max(span.end);
                if length > *longest {
                    let start = last.start;
                    *last = span;
                    last.start = start;
                    *longest = length;
                }
                last.end = end;
            }
            _ if length > 0 => out.push((span, length)),
            _ => {}
        }
    }
    out.into_iter().map(|(span, _)| span).collect()
}
