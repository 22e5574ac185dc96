//! Redacts one unit, assigns its side, and creates its record.

use super::context::PreparationContext;
use super::record_work::Work;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::policy::{is_unexamined, resolve, resolved};
use crate::record::{Record, Side, TokenId};
use crate::split::UnitText;
use std::ops::Range;
use std::sync::Arc;

/// A unit after redaction.
pub(super) struct Made {
    /// The content tokens before truncation.
    pub(super) tokens: Vec<TokenId>,
    /// The token ranges that the policy found, if they were not masked.
    pub(super) sensitive: Vec<Range<usize>>,
    /// The token ranges that carry no loss, and whether the end of text carries none.
    ignored: (Vec<Range<usize>>, bool),
    /// The spans that the policy finds before simulated errors, in the unit's text.
    pub(super) found: Vec<(Range<usize>, Arc<str>)>,
    /// The number of marked secrets that the policy did not find, if they were not masked.
    pub(super) uncaught: u64,
    pub(super) side: Side,
    /// Whether the conservative policy flags the unit.
    pub(super) flagged: bool,
    /// Whether the policy could not examine the unit.
    pub(super) not_examined: bool,
}

impl PreparationContext {
    /// Redacts one unit and assigns its side. Without redaction, spans that the policy finds are tokenised apart from the
    /// rest, so that the tokens around them do not depend on their content.
    pub(super) fn shape(&self, work: &mut Work<'_>) -> Result<Made> {
        let (found, spans, flagged, not_examined) = work.view(|view| {
            let found = resolved(self.base.as_ref(), view);
            // Before redaction: what π masks must not hide a record from π_c.
            let flagged = self.conservative.flags_beside(view, Some(&found));
            let not_examined = found.iter().any(|span| is_unexamined(span, view.text));
            let spans = resolve(self.policy.worsened(view, found.clone()));
            (
                work.placed(found),
                work.placed(spans),
                flagged,
                not_examined,
            )
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
            not_examined,
            found,
            uncaught,
            side,
            flagged,
        })
    }

    /// Checks that the unit has a class exactly if classes are declared, and answers exactly if loss is restricted to
    /// answers.
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

    /// Creates the record of a unit; `None` if it is only `<MASK>`.
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
        // Shifts ranges behind the beginning of text, and clips them to the truncated record.
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
