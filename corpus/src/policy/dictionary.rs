//! Lists of words: names, places, anything that is known to be secret.

use super::{Policy, Span, View};
use crate::error::{Error, Result, range};
use aho_corasick::{AhoCorasick, MatchKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A dictionary as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DictionaryOptions {
    /// Kind of what it finds.
    pub kind: String,
    /// The words or phrases.
    pub words: Vec<String>,
    /// Whether ASCII capitals matter.
    #[serde(default)]
    pub case_sensitive: bool,
    /// Whether a word counts only where no letter or digit touches it. Default true.
    #[serde(default = "yes")]
    pub whole_words: bool,
}

fn yes() -> bool {
    true
}

/// Finds every occurrence of its words, overlapping ones too: a phrase that begins inside
/// another is not hidden by it.
#[derive(Debug, Clone)]
pub struct Dictionary {
    automaton: AhoCorasick,
    whole_words: bool,
    kind: Arc<str>,
    source: Arc<str>,
}

impl Dictionary {
    /// Builds the automaton.
    ///
    /// # Errors
    /// No word, an empty word, or more than fit.
    pub fn new(options: &DictionaryOptions) -> Result<Self> {
        let kind = &options.kind;
        if options.words.is_empty() {
            return Err(range(
                "the number of words of a dictionary",
                0,
                "at least 1",
            ));
        }
        if let Some(at) = options.words.iter().position(|w| w.trim().is_empty()) {
            return Err(Error::Range {
                name: "a word of a dictionary",
                value: format!("{:?} (number {})", options.words[at], at + 1),
                allowed: "more than white space".to_owned(),
            });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(!options.case_sensitive)
            .build(&options.words)
            .map_err(|error| Error::Pattern {
                rule: format!("{} words of kind {kind:?}", options.words.len()),
                problem: error.to_string(),
            })?;
        Ok(Self {
            automaton,
            whole_words: options.whole_words,
            kind: kind.as_str().into(),
            source: "dictionary".into(),
        })
    }

    /// Every occurrence: the number of the word, first byte and end.
    pub(crate) fn occurrences<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = (usize, usize, usize)> + 'a {
        self.automaton
            .find_overlapping_iter(text)
            .filter(|m| !self.whole_words || whole(text, m.start(), m.end()))
            .map(|m| (m.pattern().as_usize(), m.start(), m.end()))
    }
}

/// Whether no letter or digit continues the word on either side. A side that is no letter or
/// digit itself needs no boundary.
fn whole(text: &str, start: usize, end: usize) -> bool {
    let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (word, before, after) = (&text[start..end], &text[..start], &text[end..]);
    let left = inside(before.chars().next_back()) && inside(word.chars().next());
    let right = inside(word.chars().next_back()) && inside(after.chars().next());
    !left && !right
}

impl Policy for Dictionary {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        spans.extend(self.occurrences(view.text).map(|(_, start, end)| Span {
            start,
            end,
            kind: self.kind.clone(),
            source: self.source.clone(),
            score: 1.0,
        }));
    }
}
