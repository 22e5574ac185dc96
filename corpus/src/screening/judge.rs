//! What a policy does to one record whose secrets are known.

use crate::document::{Document, Offsets};
use crate::error::{Error, Result};
use crate::policy::{
    Conservative, ConservativeOptions, MASKED, Policy, PolicyChoice, Span, View, blank, resolved,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// A span that a policy found, in characters of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundSpan {
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
    /// What the policy says it is.
    pub kind: String,
    /// How sure it is.
    pub score: f32,
}

/// What became of one marked secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFate {
    /// What the person who marked it says it is.
    pub kind: String,
    /// The record is redacted alike with the secret and with a mask in its place: whatever
    /// else the policy does to it, no trace is left.
    pub caught: bool,
    /// Spans cover it from end to end.
    pub covered: bool,
}

/// Words between white space, for rates by word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Words {
    /// All of them.
    pub all: u64,
    /// Those that a span of the policy touches.
    pub redacted: u64,
    /// Those that a marked secret touches and no span of the policy.
    pub missed: u64,
}

impl std::ops::AddAssign for Words {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.redacted += other.redacted;
        self.missed += other.missed;
    }
}

/// What a policy does to one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What it finds, and whether each span touches a marked secret.
    pub found: Vec<(FoundSpan, bool)>,
    /// What became of each marked secret, in their order.
    pub fates: Vec<SecretFate>,
    /// Whether the conservative policy flags the record; none without one.
    pub flagged: Option<bool>,
    /// Rates by word.
    pub words: Words,
}

/// A policy to be measured, with the conservative one beside it.
///
/// Caught and missed are meant as [`crate::prepare::neighbour_diff`] means them, on the text of one
/// record: a secret is caught when the redacted record is the same, byte for byte, with a mask
/// in its place (in all places of the record where it stands). A tokenizer whose tokens reach
/// over the ends of a secret can do more harm; `audit prepare` sees that.
#[derive(Debug, Clone)]
pub struct PolicyJudge {
    policy: Arc<dyn Policy>,
    loose: Arc<dyn Policy>,
    conservative: Option<Conservative>,
}

impl PolicyJudge {
    /// Builds the policies.
    ///
    /// # Errors
    /// What [`PolicyChoice::build`] refuses.
    pub fn new(policy: &PolicyChoice, conservative: Option<&ConservativeOptions>) -> Result<Self> {
        let base = policy.build()?;
        Ok(Self {
            loose: policy.loosened().build()?,
            conservative: conservative
                .map(|options| Conservative::new(Some(options), &base))
                .transpose()?,
            policy: base,
        })
    }

    /// What the policy finds in a record.
    ///
    /// # Errors
    /// A record whose spans do not fit, or with spans that were masked beforehand.
    pub fn find(&self, record: &Document) -> Result<Vec<FoundSpan>> {
        let known = Known::of(record)?;
        let offsets = Offsets::new(&record.text);
        let spans = known.with_view(|view| resolved(self.policy.as_ref(), view));
        Ok(spans.iter().map(|span| shown(span, &offsets)).collect())
    }

    /// How sure the policy nearly was of something it left: the highest score below its
    /// thresholds in this record, none if there is none.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn doubt(&self, record: &Document) -> Result<Option<f32>> {
        let known = Known::of(record)?;
        let (taken, all) = known.with_view(|view| {
            let mut all = Vec::new();
            self.loose.find(view, &mut all);
            (resolved(self.policy.as_ref(), view), all)
        });
        let left = all
            .iter()
            .filter(|s| !taken.iter().any(|t| t.start < s.end && s.start < t.end));
        Ok(left.map(|s| s.score).max_by(f32::total_cmp))
    }

    /// What the policies do to a record and its marked secrets.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn judge(&self, record: &Document) -> Result<Judged> {
        let known = Known::of(record)?;
        let offsets = Offsets::new(&record.text);
        let policy = self.policy.as_ref();
        let spans = known.with_view(|view| resolved(policy, view));
        let redacted = blank(known.text, &spans);
        let fates = known
            .secrets
            .iter()
            .map(|(range, kind)| SecretFate {
                kind: (*kind).to_owned(),
                caught: known.neighbour(&known.text[range.clone()], policy) == redacted,
                covered: covered(range, &spans),
            })
            .collect();
        let touches = |span: &Span| {
            known
                .secrets
                .iter()
                .any(|(r, _)| span.start < r.end && r.start < span.end)
        };
        Ok(Judged {
            found: spans
                .iter()
                .map(|s| (shown(s, &offsets), touches(s)))
                .collect(),
            fates,
            flagged: self
                .conservative
                .as_ref()
                .map(|c| known.with_view(|view| c.flags(view))),
            words: known.words(&spans),
        })
    }
}

fn shown(span: &Span, offsets: &Offsets) -> FoundSpan {
    FoundSpan {
        start: offsets.character(span.start),
        end: offsets.character(span.end),
        kind: span.kind.to_string(),
        score: span.score,
    }
}

/// Whether spans, in order and apart, leave no byte of a range.
fn covered(range: &Range<usize>, spans: &[Span]) -> bool {
    let mut from = range.start;
    for span in spans {
        if span.start <= from {
            from = from.max(span.end);
        }
    }
    from >= range.end
}

/// A record with its secrets in bytes.
struct Known<'a> {
    text: &'a str,
    secrets: Vec<(Range<usize>, &'a str)>,
}

impl<'a> Known<'a> {
    fn of(record: &'a Document) -> Result<Self> {
        record.validate()?;
        if !record.masked.is_empty() {
            return Err(Error::Span {
                document: record.id.clone(),
                problem: "spans masked beforehand; measure a policy on text as it came in"
                    .to_owned(),
            });
        }
        let offsets = Offsets::new(&record.text);
        let secrets = record
            .secrets
            .iter()
            .filter_map(|s| Some((offsets.bytes(s.start, s.end)?, s.kind.as_str())))
            .collect();
        Ok(Self {
            text: &record.text,
            secrets,
        })
    }

    fn with_view<T>(&self, read: impl FnOnce(&View<'_>) -> T) -> T {
        read(&View {
            text: self.text,
            secrets: &self.secrets,
        })
    }

    /// The record with a mask wherever one secret stands, redacted.
    fn neighbour(&self, secret: &str, policy: &dyn Policy) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut others = Vec::new();
        let mut from = 0;
        for (range, kind) in &self.secrets {
            text.push_str(&self.text[from..range.start]);
            let start = text.len();
            if &self.text[range.clone()] == secret {
                text.push(MASKED);
            } else {
                text.push_str(&self.text[range.clone()]);
                others.push((start..text.len(), *kind));
            }
            from = range.end;
        }
        text.push_str(&self.text[from..]);
        let view = View {
            text: &text,
            secrets: &others,
        };
        blank(&text, &resolved(policy, &view))
    }

    fn words(&self, spans: &[Span]) -> Words {
        let base = self.text.as_ptr() as usize;
        let mut words = Words::default();
        for word in self.text.split_whitespace() {
            let start = word.as_ptr() as usize - base;
            let end = start + word.len();
            let redacted = spans.iter().any(|s| s.start < end && start < s.end);
            let secret = self
                .secrets
                .iter()
                .any(|(r, _)| r.start < end && start < r.end);
            words.all += 1;
            words.redacted += u64::from(redacted);
            words.missed += u64::from(secret && !redacted);
        }
        words
    }
}
