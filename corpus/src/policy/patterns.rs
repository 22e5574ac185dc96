//! Policies of regular expressions, each with the kind of secret that it finds.

use super::{Policy, Span, View, is_spent};
use crate::error::{Error, Result, pattern_problem, range};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A pattern and the kind of what it finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatternRule {
    /// Kind of the secret.
    pub kind: String,
    /// Regular expression; if it has a group called `secret`, the span is that group.
    pub pattern: String,
}

/// A set of patterns.
#[derive(Debug, Clone)]
pub struct Patterns {
    rules: Vec<Rule>,
    source: Arc<str>,
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) kind: Arc<str>,
    pub(super) regex: Regex,
    pub(super) grouped: bool,
    /// A check that a regular expression cannot express.
    pub(super) check: fn(&str) -> bool,
}

impl Rule {
    pub(super) fn new(kind: &str, pattern: &str) -> Result<Self> {
        let rule = || format!("pattern of the kind {kind:?}");
        let regex = Regex::new(pattern).map_err(|error| Error::Pattern {
            rule: rule(),
            problem: pattern_problem(&error.to_string()),
        })?;
        if regex.is_match("") {
            return Err(Error::Pattern {
                rule: rule(),
                problem: "it matches the empty text".to_owned(),
            });
        }
        Ok(Self {
            kind: kind.into(),
            grouped: regex.capture_names().flatten().any(|name| name == "secret"),
            regex,
            check: |_| true,
        })
    }

    fn find(&self, text: &str, source: &Arc<str>, spans: &mut Vec<Span>) {
        let mut add = |start, end| {
            if (self.check)(&text[start..end]) {
                spans.push(Span::new(
                    start..end,
                    self.kind.clone(),
                    source.clone(),
                    1.0,
                ));
            }
        };
        if self.grouped {
            for found in self.regex.captures_iter(text).take_while(|_| !is_spent()) {
                if let Some(secret) = found.name("secret") {
                    add(secret.start(), secret.end());
                }
            }
        } else {
            for found in self.regex.find_iter(text).take_while(|_| !is_spent()) {
                add(found.start(), found.end());
            }
        }
    }
}

/// Returns a kind that has a name, by which it is counted; another is an error.
pub(super) fn named<'k>(what: &'static str, kind: &'k str) -> Result<&'k str> {
    match kind.trim().is_empty() {
        true => Err(range(what, format!("{kind:?}"), "a name")),
        false => Ok(kind),
    }
}

impl Patterns {
    /// Compiles rules; `source` becomes the source of the spans.
    ///
    /// # Errors
    /// Returns an error if a kind has no name, or a pattern does not compile or matches the empty text.
    pub fn new(source: &str, rules: &[PatternRule]) -> Result<Self> {
        let rules = rules
            .iter()
            .map(|rule| Rule::new(named("the kind of a pattern", &rule.kind)?, &rule.pattern))
            .collect::<Result<_>>()?;
        Ok(Self {
            rules,
            source: source.into(),
        })
    }

    pub(super) fn of(source: &str, rules: Vec<Rule>) -> Self {
        Self {
            rules,
            source: source.into(),
        }
    }
}

impl Policy for Patterns {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        for rule in &self.rules {
            rule.find(view.text, &self.source, spans);
        }
    }
}
