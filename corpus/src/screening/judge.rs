//! Measures what a policy does to one record whose secrets are known.

use crate::document::{Document, Offsets};
use crate::error::Result;
use crate::policy::{
    Conservative, ConservativeOptions, MASKED, Policy, PolicyChoice, Span, View, blank, goes_on,
    is_unexamined, resolved,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
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

/// The outcome for one marked secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFate {
    /// The kind according to the person who marked it.
    pub kind: String,
    /// Whether the redacted record is the same with the secret and with a mask in its place, so
    /// that no trace is left whatever else the policy does, and its text stands nowhere else in it, marked or not.
    pub caught: bool,
    /// Whether spans cover it completely.
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
    /// The spans found, and whether each of them touches a marked secret.
    pub found: Vec<(FoundSpan, bool)>,
    /// The outcome for each marked secret, in order.
    pub fates: Vec<SecretFate>,
    /// Whether the conservative policy flags the record; `None` if there is no such policy.
    pub flagged: Option<bool>,
    /// Counts by word.
    pub words: Words,
}

/// Measures a policy, together with a conservative one.
///
/// Caught and missed are defined as in [`crate::prepare::neighbour_diff`], on the text of one
/// record: a secret is caught if the redacted record is the same, byte for byte, with a mask in its
/// place (at all of its marks in the record), and its text is left in no other place. A tokenizer whose tokens extend
/// beyond the ends of a secret can do more harm, which `audit prepare` takes into account.
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
    /// As for [`PolicyChoice::build`].
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

    /// Returns what the policy finds in a record.
    ///
    /// # Errors
    /// Returns an error if the record's spans do not fit, or some were masked beforehand.
    pub fn find(&self, record: &Document) -> Result<Vec<FoundSpan>> {
        let known = Known::of(record)?;
        let offsets = Offsets::new(&record.text);
        let spans = known.with_view(|view| resolved(self.policy.as_ref(), view));
        Ok(spans.iter().map(|span| shown(span, &offsets)).collect())
    }

    /// Returns the highest score below the policy's thresholds in this record, that is, how close
    /// it came to redacting something else; `None` if there is no such score.
    ///
    /// # Errors
    /// As for [`Self::find`].
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

    /// Returns what the policies do to a record and its marked secrets.
    ///
    /// # Errors
    /// As for [`Self::find`].
    pub fn judge(&self, record: &Document) -> Result<Judged> {
        let known = Known::of(record)?;
        let offsets = Offsets::new(&record.text);
        let policy = self.policy.as_ref();
        let spans = known.with_view(|view| resolved(policy, view));
        let redacted = blank(known.text, &spans);
        // Masked whole, with and without the secret; another run may examine it, and find otherwise.
        let unexamined = spans.iter().any(|span| is_unexamined(span, known.text));
        // One answer for all marks of a text.
        let mut caught: HashMap<&str, bool> = HashMap::new();
        let fate = |(range, kind): &(Range<usize>, &str)| {
            let secret = &known.text[range.clone()];
            let caught = caught.entry(secret).or_insert_with(|| {
                !unexamined
                    && !stands(known.text, secret, &spans)
                    && known.neighbour(secret, policy) == redacted
            });
            SecretFate {
                kind: (*kind).to_owned(),
                caught: *caught,
                covered: covered(range, &spans),
            }
        };
        let fates = known.secrets.iter().map(fate).collect();
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

/// Returns whether spans, in order and disjoint, cover every byte of a range.
fn covered(range: &Range<usize>, spans: &[Span]) -> bool {
    let first = spans.partition_point(|span| span.end <= range.start);
    let mut from = range.start;
    for span in &spans[first..] {
        if span.start > from || from >= range.end {
            break;
        }
        from = span.end;
    }
    from >= range.end
}

/// Returns whether a secret's text stands as words in a place, marked or not, that spans do not cover. Nobody has to mark each
/// place: in `audit screen`, Enter accepts what the policy found as all there is.
fn stands(text: &str, secret: &str, spans: &[Span]) -> bool {
    text.match_indices(secret).any(|(at, _)| {
        let place = at..at + secret.len();
        let part = goes_on(&text[..at], secret) || goes_on(secret, &text[place.end..]);
        !part && !covered(&place, spans)
    })
}

/// A record with the byte ranges of its secrets.
struct Known<'a> {
    text: &'a str,
    secrets: Vec<(Range<usize>, &'a str)>,
}

impl<'a> Known<'a> {
    fn of(record: &'a Document) -> Result<Self> {
        record.validate()?;
        record.unmasked()?;
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

    /// Redacts the record with a mask at every occurrence of one secret.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Finds a name, and counts the records that it sees.
    #[derive(Debug, Default)]
    struct Counts(AtomicUsize);

    impl Policy for Counts {
        fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            let places = view.text.match_indices("Ada");
            spans.extend(places.map(|(at, _)| Span::new(at..at + 3, "name", "test", 1.0)));
        }
    }

    /// Not once for each mark, which took the cube of their number.
    #[test]
    fn marks_of_one_text_are_judged_once() {
        let counts = Arc::new(Counts::default());
        let judge = PolicyJudge {
            policy: counts.clone(),
            loose: counts.clone(),
            conservative: None,
        };
        let mut record = Document::new("r", "Ada, ".repeat(200));
        for at in 0..200 {
            record = record.with_secret(5 * at, 5 * at + 3, "name");
        }
        let fates = judge.judge(&record).unwrap().fates;
        assert!(fates.len() == 200 && fates.iter().all(|fate| fate.caught && fate.covered));
        assert_eq!(counts.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn spans_that_touch_cover_what_lies_in_both() {
        let spans = [1..3, 3..5, 6..8].map(|range| Span::new(range, "k", "test", 1.0));
        for (range, whole) in [
            (1..5, true),
            (2..4, true),
            (6..7, true),
            (0..2, false),
            (4..7, false),
            (7..9, false),
        ] {
            assert_eq!(covered(&range, &spans), whole, "{range:?}");
        }
    }
}
