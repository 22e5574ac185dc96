//! Many patterns in one pass.
//!
//! One automaton finds the next place where any pattern begins to match; a second says which
//! patterns match there; each of those is then run from that place alone. No pattern hides
//! another, whatever its check says of the candidate, and nothing but the places is scanned
//! more than once.

use crate::error::{Error, Result};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, PatternSet};

/// A candidate: bytes `start..end` of the text match the pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) score: f32,
}

impl<'a> Candidate<'a> {
    pub(super) fn found(&self) -> &'a str {
        &self.text[self.start..self.end]
    }
    pub(super) fn before(&self) -> Option<char> {
        self.text[..self.start].chars().next_back()
    }
    pub(super) fn after(&self) -> Option<char> {
        self.text[self.end..].chars().next()
    }
}

/// What a regular expression cannot say: none to refuse, else the span and its score.
pub(super) type Check = fn(Candidate<'_>) -> Option<Candidate<'_>>;

/// A pattern with what belongs to it. Patterns know ASCII classes only and are of bounded
/// length, so that a hostile text costs no more than its length; checks widen what they must.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) kind: &'static str,
    pub(super) pattern: String,
    /// Whether capitals matter.
    pub(super) cased: bool,
    /// How sure without any context, from 0 to 1.
    pub(super) score: f32,
    /// Words that make it sure when one stands within [`CONTEXT`] bytes before.
    pub(super) context: &'static [&'static str],
    pub(super) check: Check,
}

/// How far before a candidate its context reaches, in bytes.
const CONTEXT: usize = 48;
/// What a context word raises the score to.
const SURE: f32 = 0.9;

impl Rule {
    pub(super) fn new(kind: &'static str, score: f32, pattern: impl Into<String>) -> Self {
        Self {
            kind,
            pattern: pattern.into(),
            cased: true,
            score,
            context: &[],
            check: |c| Some(c),
        }
    }
    pub(super) fn any_case(mut self) -> Self {
        self.cased = false;
        self
    }
    pub(super) fn checked(mut self, check: Check) -> Self {
        self.check = check;
        self
    }
    pub(super) fn near(mut self, context: &'static [&'static str]) -> Self {
        self.context = context;
        self
    }

    fn flagged(&self) -> String {
        let flags = if self.cased { "" } else { "(?i)" };
        format!("{flags}(?:{})", self.pattern)
    }

    /// Checks a match, with its context.
    fn judge<'a>(&self, text: &'a str, start: usize, end: usize) -> Option<Candidate<'a>> {
        let mut found = (self.check)(Candidate {
            text,
            start,
            end,
            score: self.score,
        })?;
        if found.score < SURE && self.in_context(text, found.start) {
            found.score = SURE;
        }
        Some(found)
    }

    fn in_context(&self, text: &str, start: usize) -> bool {
        if self.context.is_empty() {
            return false;
        }
        let mut from = start.saturating_sub(CONTEXT);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let window = text[from..start].to_ascii_lowercase();
        self.context.iter().any(|word| {
            window.match_indices(word).any(|(at, _)| {
                // A word begins there; it may go on (`order`, `orders`).
                !window[..at].ends_with(|c: char| c.is_ascii_alphabetic())
            })
        })
    }
}

/// Rules, ready to run.
#[derive(Debug, Clone)]
pub(super) struct Scanner {
    rules: Vec<Rule>,
    finder: Regex,
    which: Regex,
    each: Vec<Regex>,
}

impl Scanner {
    pub(super) fn new(rules: Vec<Rule>) -> Result<Self> {
        let patterns: Vec<String> = rules.iter().map(Rule::flagged).collect();
        let compile = |kind: MatchKind, patterns: &[String]| {
            Regex::builder()
                .syntax(syntax::Config::new().unicode(false).utf8(true))
                .configure(
                    Regex::config()
                        .match_kind(kind)
                        .hybrid_cache_capacity(16 << 20)
                        .nfa_size_limit(Some(64 << 20)),
                )
                .build_many(patterns)
                .map_err(|error| Error::Pattern {
                    rule: format!("{} patterns of detectors", patterns.len()),
                    problem: error.to_string(),
                })
        };
        // One by one first: an error then names its pattern.
        let each = patterns
            .iter()
            .map(|p| compile(MatchKind::LeftmostFirst, std::slice::from_ref(p)))
            .collect::<Result<_>>()?;
        Ok(Self {
            each,
            finder: compile(MatchKind::LeftmostFirst, &patterns)?,
            which: compile(MatchKind::All, &patterns)?,
            rules,
        })
    }

    /// Calls `found` with every candidate that passes its check: the rule's kind and the place.
    pub(super) fn scan<'a>(&self, text: &'a str, mut found: impl FnMut(&Rule, Candidate<'a>)) {
        let mut set = PatternSet::new(self.rules.len());
        // Up to where each rule has found something: a match inside its own match is no news.
        let mut done = vec![0usize; self.rules.len()];
        let mut at = 0;
        while at < text.len() && !crate::policy::is_spent() {
            let Some(next) = self.finder.search(&Input::new(text).range(at..)) else {
                break;
            };
            let start = next.start();
            let here = Input::new(text).range(start..).anchored(Anchored::Yes);
            set.clear();
            self.which.which_overlapping_matches(&here, &mut set);
            for pattern in set.iter() {
                let number = pattern.as_usize();
                if start < done[number] {
                    continue;
                }
                let Some(exact) = self.each[number].search_half(&here) else {
                    continue;
                };
                let rule = &self.rules[number];
                if let Some(hit) = rule.judge(text, start, exact.offset()) {
                    done[number] = hit.end;
                    found(rule, hit);
                }
            }
            at = start + 1;
        }
    }
}
