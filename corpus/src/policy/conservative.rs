//! The conservative policy, which flags records and prefers to flag too many.

use super::choice::{OnnxOptions, PolicyChoice};
use super::patterns::{PatternRule, Patterns};
use super::{MASKED, Names, Policy, Span, Spare, View, resolved};
use crate::error::Result;
use crate::random::sha256;
use crate::tagger::TaggerModel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// What the conservative policy takes for a possible secret. No conservative policy at all
/// means that every record is private.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConservativeOptions {
    /// Any digit.
    pub digits: bool,
    /// Any capitalised word that does not begin a line or a sentence, and is not `I`.
    pub capitals: bool,
    /// Whatever the redaction policy finds, before simulated misses.
    pub policy: bool,
    /// Words that the tagger takes for parts of names with at least this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<f32>,
    /// What a token classifier of the user's own finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnx: Option<OnnxOptions>,
    /// Further patterns.
    pub patterns: Vec<PatternRule>,
}

impl ConservativeOptions {
    /// SHA-256 of its JSON, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        // Data like these always have a JSON.
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}

impl Default for ConservativeOptions {
    /// Digits, capitals, and what the redaction policy finds.
    fn default() -> Self {
        Self {
            digits: true,
            capitals: true,
            policy: true,
            names: None,
            onnx: None,
            patterns: Vec::new(),
        }
    }
}

/// The conservative policy, ready to run.
#[derive(Debug, Clone)]
pub struct Conservative {
    /// `None` if every record is private.
    rules: Option<Rules>,
    spare: Option<Spare>,
}

#[derive(Debug, Clone)]
struct Rules {
    digits: bool,
    capitals: bool,
    /// The redaction policy, if what it finds counts.
    base: Option<Arc<dyn Policy>>,
    policies: Vec<Arc<dyn Policy>>,
}

impl Conservative {
    /// Builds the policy from these options. Without options, it flags every record.
    ///
    /// # Errors
    /// Returns an error if a pattern does not compile, a threshold is neither 0 nor in [0.02, 1], or a
    /// token classifier does not load.
    pub fn new(options: Option<&ConservativeOptions>, base: &Arc<dyn Policy>) -> Result<Self> {
        let rules = match options {
            None => None,
            Some(options) => {
                let mut policies: Vec<Arc<dyn Policy>> = Vec::new();
                if let Some(least) = options.names {
                    policies.push(Arc::new(Names::new(TaggerModel::shipped()?, least)?));
                }
                if let Some(onnx) = &options.onnx {
                    policies.push(PolicyChoice::Onnx(onnx.clone()).build()?);
                }
                if !options.patterns.is_empty() {
                    policies.push(Arc::new(Patterns::new("conservative", &options.patterns)?));
                }
                Some(Rules {
                    digits: options.digits,
                    capitals: options.capitals,
                    base: options.policy.then(|| base.clone()),
                    policies,
                })
            }
        };
        Ok(Self { rules, spare: None })
    }

    pub(crate) fn sparing(mut self, spare: Option<Spare>) -> Self {
        self.spare = spare;
        self
    }

    /// Makes the policy ignore every line that contains one of these strings. If it would flag
    /// every record, it does not flag records with such a line.
    ///
    /// # Errors
    /// Returns an error if there are more strings than can be searched for at once.
    pub fn never(self, strings: &[String]) -> Result<Self> {
        let spare = Spare::new(strings)?;
        Ok(self.sparing(spare))
    }

    /// Returns whether a record may contain a secret.
    #[must_use]
    pub fn flags(&self, view: &View<'_>) -> bool {
        self.flags_beside(view, None)
    }

    /// Does the same with what the redaction policy finds in the record, if that is known.
    pub(crate) fn flags_beside(&self, view: &View<'_>, found: Option<&[Span]>) -> bool {
        let blind = self
            .spare
            .as_ref()
            .map_or_else(Vec::new, |s| s.lines(view.text));
        let Some(rules) = &self.rules else {
            return blind.is_empty();
        };
        let seen = |r: &Range<usize>| !blind.iter().any(|b| r.start < b.end && b.start < r.end);
        let digit = |(at, c): (usize, char)| c.is_numeric() && seen(&(at..at + c.len_utf8()));
        let any = |spans: &[Span]| spans.iter().any(|span| seen(&(span.start..span.end)));
        let finds = |policy: &Arc<dyn Policy>| any(&resolved(policy.as_ref(), view));
        (rules.digits && view.text.char_indices().any(digit))
            || (rules.capitals && capitals(view.text).iter().any(seen))
            || (rules.base.as_ref()).is_some_and(|base| found.map_or_else(|| finds(base), any))
            || rules.policies.iter().any(finds)
    }
}

/// Returns the capitalised words inside sentences. A speaker mark such as `USR:` does not begin a
/// sentence.
fn capitals(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let mut begins = true;
        let mut at = 0;
        for piece in line.split_inclusive(char::is_whitespace) {
            let start = line_start + at;
            at += piece.len();
            let word = piece.trim_end();
            if word.is_empty() {
                continue;
            }
            let speaker = start == line_start
                && word.len() > 1
                && word.ends_with(':')
                && word[..word.len() - 1].chars().all(char::is_uppercase);
            let bare = word.trim_start_matches(|c: char| !c.is_alphanumeric() && c != MASKED);
            if !begins && bare.starts_with(char::is_uppercase) && !pronoun(bare) {
                out.push(start..start + word.len());
            }
            begins = speaker || word.ends_with(['.', '!', '?']);
        }
        line_start += line.len();
    }
    out
}

fn pronoun(word: &str) -> bool {
    let stem = word.split(|c: char| !c.is_alphanumeric()).next();
    stem == Some("I")
}
