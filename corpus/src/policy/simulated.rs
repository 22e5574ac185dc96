//! Policies with a simulated, known error rate.

use super::{Policy, Span, View, resolved};
use crate::error::{Error, Result, within};
use crate::random::{digest, lottery};
use regex::Regex;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// A policy that misses a fixed set of strings, and randomly masks other words.
#[derive(Debug, Clone)]
pub struct Simulated {
    base: Arc<dyn Policy>,
    missed: HashSet<String>,
    false_positive_rate: f64,
    seed: u64,
    spare: Option<Spare>,
}

/// Chooses which of these distinct strings a simulated miss rate misses: exactly round(γ·m) of m.
///
/// Each string draws a lot that depends only on the seed and the string, and the strings with the
/// lowest lots are missed. The order of the corpus has no effect, and adding or removing one string
/// changes the outcome of at most one other.
///
/// # Errors
/// Returns an error if the miss rate is outside [0, 1].
pub fn missed_strings<'a>(
    found: impl IntoIterator<Item = &'a str>,
    miss_rate: f64,
    seed: u64,
) -> Result<HashSet<String>> {
    within("the miss rate", miss_rate, 0.0..=1.0)?;
    let distinct: HashSet<&str> = found.into_iter().collect();
    let count = (miss_rate * distinct.len() as f64).round() as usize;
    let mut lots: Vec<(f64, &str)> = distinct
        .into_iter()
        .map(|text| (lottery(seed, "miss", &[text.as_bytes()]), text))
        .collect();
    lots.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    lots.truncate(count);
    Ok(lots.into_iter().map(|(_, text)| text.to_owned()).collect())
}

impl Simulated {
    /// Makes `base` miss every span whose text is in `missed`, and mask each word outside its spans
    /// with probability `false_positive_rate`.
    ///
    /// False alarms depend on the seed and on the record as the base policy redacts it, so that a
    /// secret that is caught does not influence them.
    ///
    /// # Errors
    /// Returns an error if the false-positive rate is outside [0, 1].
    pub fn new(
        base: Arc<dyn Policy>,
        missed: HashSet<String>,
        false_positive_rate: f64,
        seed: u64,
    ) -> Result<Self> {
        within("the false-positive rate", false_positive_rate, 0.0..=1.0)?;
        Ok(Self {
            base,
            missed,
            false_positive_rate,
            seed,
            spare: None,
        })
    }

    /// Makes the policy ignore every line that contains one of these strings.
    ///
    /// # Errors
    /// Returns an error if there are more strings than can be searched for at once.
    pub fn never(mut self, strings: &[String]) -> Result<Self> {
        self.spare = Spare::new(strings)?;
        Ok(self)
    }

    pub(crate) fn sparing(self, spare: Option<Spare>) -> Self {
        Self { spare, ..self }
    }

    /// Adds false alarms among the words outside `spans`.
    fn false_alarms(&self, text: &str, spans: &[Span], out: &mut Vec<Span>) {
        // Every lot depends on the record through one digest of the redacted text.
        let record = digest(blank(text, spans).as_bytes());
        let (kind, source): (Arc<str>, Arc<str>) = ("false-alarm".into(), "simulated".into());
        let mut number = 0u64;
        for (start, word) in words(text) {
            let end = start + word.len();
            if spans.iter().any(|s| s.start < end && start < s.end) || word.contains(super::MASKED)
            {
                continue;
            }
            let parts = [&record[..], &number.to_le_bytes()];
            number += 1;
            if lottery(self.seed, "false-alarm", &parts) < self.false_positive_rate {
                out.push(Span::new(start..end, kind.clone(), source.clone(), 1.0));
            }
        }
    }

    /// Applies the simulated errors to the base policy's spans, which are in order and disjoint.
    pub(crate) fn worsened(&self, view: &View<'_>, mut found: Vec<Span>) -> Vec<Span> {
        let mut alarms = Vec::new();
        if self.false_positive_rate > 0.0 {
            // Before the misses are removed, so that a false alarm cannot undo a miss.
            self.false_alarms(view.text, &found, &mut alarms);
        }
        found.retain(|span| !self.missed.contains(&view.text[span.start..span.end]));
        found.extend(alarms);
        if let Some(spare) = &self.spare {
            let lines = spare.lines(view.text);
            found.retain(|s| !lines.iter().any(|l| s.start < l.end && l.start < s.end));
        }
        found
    }
}

impl Policy for Simulated {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        let found = resolved(self.base.as_ref(), view);
        spans.extend(self.worsened(view, found));
    }
}

/// Replaces each span (and what was masked before) by one mark, and runs of marks by one mark.
pub(crate) fn blank(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        push_unmarked(&mut out, &text[from.min(span.start)..span.start]);
        push_mark(&mut out);
        from = span.end;
    }
    push_unmarked(&mut out, &text[from..]);
    out
}

fn push_unmarked(out: &mut String, text: &str) {
    for c in text.chars() {
        if c == super::MASKED {
            push_mark(out);
        } else {
            out.push(c);
        }
    }
}

fn push_mark(out: &mut String) {
    if !out.ends_with(super::MASKED) {
        out.push(super::MASKED);
    }
}

/// Iterates over words trimmed to letters, digits and marks, with their places.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let base = text.as_ptr() as usize;
    text.split_whitespace().filter_map(move |word| {
        let trimmed = word.trim_matches(|c: char| !c.is_alphanumeric() && c != super::MASKED);
        // The offset of the slice in the text.
        (!trimmed.is_empty()).then(|| (trimmed.as_ptr() as usize - base, trimmed))
    })
}

/// Finds the lines that contain one of a list of strings.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    any: Regex,
}

impl Spare {
    /// Returns `None` for an empty list.
    pub(crate) fn new(strings: &[String]) -> Result<Option<Self>> {
        if strings.is_empty() {
            return Ok(None);
        }
        let escaped: Vec<String> = strings.iter().map(|s| regex::escape(s)).collect();
        // A string that begins another cannot hide it when asking whether any occurs.
        regex::RegexBuilder::new(&escaped.join("|"))
            .size_limit(1 << 28)
            .build()
            .map(|any| Some(Self { any }))
            .map_err(|error| Error::Pattern {
                rule: format!("{} strings never to be found", strings.len()),
                problem: error.to_string(),
            })
    }

    /// Returns the byte ranges of the lines.
    pub(crate) fn lines(&self, text: &str) -> Vec<Range<usize>> {
        self.any
            .find_iter(text)
            .map(|found| {
                let start = text[..found.start()].rfind('\n').map_or(0, |at| at + 1);
                let end = text[found.end()..]
                    .find('\n')
                    .map_or(text.len(), |at| found.end() + at);
                start..end
            })
            .collect()
    }
}
