//! Policies of regular expressions, each with the kind of secret that it finds.

use super::{MASKED, Policy, Span, View, is_spent};
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
    /// The same pattern for texts in which every character that is not ASCII is a mask.
    beside_masks: Option<Regex>,
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
            beside_masks: None,
            check: |_| true,
        })
    }

    /// Creates a pattern of ours, in which `\\b` stands for itself. A mask is not part of a word, so beside masks alone the
    /// boundaries of ASCII words are those of all words, and automata find them.
    pub(super) fn own(kind: &str, pattern: &str) -> Result<Self> {
        let ascii = Self::new(kind, &pattern.replace(r"\b", r"(?-u:\b)"))?;
        Ok(Self {
            beside_masks: Some(ascii.regex),
            ..Self::new(kind, pattern)?
        })
    }

    /// `masked`: whether every character that is not ASCII is a mask, and there is one.
    fn find(&self, text: &str, masked: bool, source: &Arc<str>, spans: &mut Vec<Span>) {
        let beside_masks = self.beside_masks.as_ref().filter(|_| masked);
        let regex = beside_masks.unwrap_or(&self.regex);
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
            for found in regex.captures_iter(text).take_while(|_| !is_spent()) {
                if let Some(secret) = found.name("secret") {
                    add(secret.start(), secret.end());
                }
            }
        } else {
            for found in regex.find_iter(text).take_while(|_| !is_spent()) {
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
        let text = view.text;
        let masked = !text.is_ascii() && text.chars().all(|c| c.is_ascii() || c == MASKED);
        for rule in &self.rules {
            rule.find(text, masked, &self.source, spans);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside masks, our patterns find the same with boundaries of ASCII words as with those of all words.
    #[test]
    fn what_is_found_beside_masks_is_what_is_found_anywhere() {
        let policy = Patterns::customers().unwrap();
        let pieces = [
            "USR: ",
            "My name is ",
            "Ada Byron",
            "Ada ",
            "Thanks, ",
            "number. ",
            "12 Main St, Lyme CT 06371",
            "415-555-0123",
            "4155550123",
            "123-12345-1234",
            "AB12345678",
            "x",
            "0",
            " ",
            ". ",
            "\n",
        ];
        let mut draw = crate::draws(9);
        let mut all = 0;
        for _ in 0..5000 {
            let text: String = (0..6)
                .map(|_| match draw(3) {
                    0 => MASKED.encode_utf8(&mut [0; 4]).to_owned(),
                    _ => pieces[draw(pieces.len())].to_owned(),
                })
                .collect();
            for rule in &policy.rules {
                let [masked, anywhere] = [true, false].map(|masked| {
                    let mut spans = Vec::new();
                    rule.find(&text, masked, &policy.source, &mut spans);
                    spans
                });
                assert_eq!(masked, anywhere, "{text:?} {}", rule.regex);
                all += anywhere.len();
            }
        }
        assert!(all > 1000, "{all}");
    }
}
