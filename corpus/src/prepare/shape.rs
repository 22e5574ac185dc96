//! Redacting one unit, taking its side, and its record.

use super::context::PreparationContext;
use super::record_work::Work;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::policy::{resolve, resolved};
use crate::record::{Record, Side, TokenId};
use crate::split::UnitText;
use std::ops::Range;
use std::sync::Arc;

/// A unit after redaction.
pub(super) struct Made {
    /// Content tokens, before any cutting to length.
    pub(super) tokens: Vec<TokenId>,
    /// What the policy found in them, where it was not masked.
    pub(super) sensitive: Vec<Range<usize>>,
    /// Which of them are only read, and whether the end of text is.
    ignored: (Vec<Range<usize>>, bool),
    /// What the policy finds before simulated errors, in the unit's text.
    pub(super) found: Vec<(Range<usize>, Arc<str>)>,
    /// Marked secrets that the policy did not find, where it was not masked.
    pub(super) uncaught: u64,
    pub(super) side: Side,
    /// By the conservative policy.
    pub(super) flagged: bool,
}

impl PreparationContext {
    /// Redacts one unit and takes its side. Where nothing is masked, what the policy finds is cut apart from the rest, so
    /// that training on it masked reads the same whatever it is.
    pub(super) fn shape(&self, work: &mut Work<'_>) -> Result<Made> {
        // Before redaction: what π has masked must not hide a record from π_c.
        let flagged = work.view(|view| self.conservative.flags(view));
        let (found, spans) = work.view(|view| {
            let found = resolved(self.base.as_ref(), view);
            let spans = resolve(self.policy.worsened(view, found.clone()));
            (work.placed(found), work.placed(spans))
        });
        let spans: Vec<Range<usize>> = spans.into_iter().map(|(span, _)| span).collect();
        let (sensitive, uncaught) = if self.options.redact {
            work.mask(&spans)?;
            (Vec::new(), 0)
        } else {
            let found = work.cut_apart(&spans)?;
            (work.runs(&found), work.uncaught(&found))
        };
        let side = if flagged || work.any_mask() {
            Side::Private
        } else {
            Side::Public
        };
        Ok(Made {
            tokens: work.tokens(self.tokenizer.mask()),
            sensitive,
            ignored: (work.ignored(), work.ignores_end()),
            found,
            uncaught,
            side,
            flagged,
        })
    }

    /// A unit has a class where classes are declared, and answers where these alone are learned, and nowhere else.
    pub(super) fn fits(&self, unit: &UnitText<'_>) -> Result<()> {
        if self.options.loss_on.is_some() != unit.answers.is_some() {
            return Err(Error::Answers(match unit.answers {
                Some(_) => "a document has answers, and nothing asks for loss on them alone",
                None => "a document is no conversation, so it has no answers to learn",
            }));
        }
        Labels::check(self.options.labels.as_ref(), unit.label).map_err(|problem| {
            Error::Labels(format!("document number {} has {problem}", unit.document))
        })
    }

    /// The record of a unit; none when it is only `<MASK>`.
    pub(super) fn record(&self, made: Made, label: Option<u32>) -> Option<Record> {
        if made.tokens.is_empty() || made.tokens == [self.tokenizer.mask()] {
            return None;
        }
        let content = made.tokens.len();
        let mut tokens = self.tokenizer.frame_tokens(made.tokens);
        if let Some(most) = self.options.max_tokens {
            tokens.truncate(redacted_end(&made.sensitive, most));
        }
        let (mut ignored, end) = made.ignored;
        if end {
            match ignored.last_mut() {
                Some(last) if last.end == content => last.end += 1,
                _ => ignored.push(content..content + 1),
            }
        }
        // behind the beginning of text, and no further than what is left of the record
        let framed = |spans: Vec<Range<usize>>| -> Vec<Range<usize>> {
            let each = spans.into_iter().filter_map(|span| {
                let (start, end) = (span.start + 1, (span.end + 1).min(tokens.len()));
                (start < end).then_some(start..end)
            });
            each.collect()
        };
        Some(Record {
            side: made.side,
            sensitive: framed(made.sensitive),
            ignored: framed(ignored),
            tokens,
            label,
        })
    }
}

/// How many tokens of a framed record are as long as `most` when each run of sensitive content is one mask: where a record
/// ends must not tell how long its secrets are.
fn redacted_end(sensitive: &[Range<usize>], most: usize) -> usize {
    let mut hidden = 0;
    for run in sensitive {
        // Behind the beginning of text, with the runs before this one as one token each.
        if run.start + 1 - hidden >= most {
            break;
        }
        hidden += run.len() - 1;
    }
    most.saturating_add(hidden)
}
