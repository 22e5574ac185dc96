//! Lists of words that are known to be secret, such as names and places.

use super::detect::plain::first_of;
use super::folded::Forms;
use super::patterns::named;
use super::{Policy, Span, View};
use crate::error::{Error, Result, range};
use aho_corasick::{AhoCorasick, MatchKind};
use reticent_disk::folded_word;
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
    /// Whether capitals matter.
    #[serde(default)]
    pub case_sensitive: bool,
    /// Whether a word counts only where no letter or digit touches it; those of scripts without spaces between words (Han,
    /// kana, Hangul, Thai, Lao, Khmer, Burmese) don't count as touching. Default true.
    #[serde(default = "yes")]
    pub whole_words: bool,
}

fn yes() -> bool {
    true
}

/// Finds every occurrence of its words, including overlapping ones: a phrase that begins inside another is found too.
/// White space of any length and kind matches one space. Letters and accents match in every Unicode composition.
/// Dashes, quotation marks and digits that look alike match each other, and escapes (`\n`, `%20`, `&nbsp;`) match the
/// characters that they stand for.
#[derive(Debug, Clone)]
pub struct Dictionary {
    automaton: AhoCorasick,
    case_sensitive: bool,
    whole_words: bool,
    kind: Arc<str>,
    source: Arc<str>,
}

impl Dictionary {
    /// Longer words, in bytes, are no part of an automaton that is built for one text.
    pub(crate) const LONG: usize = 1 << 12;

    /// Builds the automaton.
    ///
    /// # Errors
    /// Returns an error if the kind has no name, there is no word, a word is empty, or there are too many words.
    pub fn new(options: &DictionaryOptions) -> Result<Self> {
        let kind = named("the kind of a dictionary", &options.kind)?;
        if options.words.is_empty() {
            return Err(range(
                "the number of words of a dictionary",
                0,
                "at least 1",
            ));
        }
        let any_case = !options.case_sensitive;
        let words: Vec<String> = (options.words.iter())
            .map(|word| folded_word(word, any_case))
            .collect();
        if let Some(at) = words.iter().position(String::is_empty) {
            return Err(Error::Range {
                name: "a word of a dictionary",
                value: format!("{:?} (number {})", options.words[at], at + 1),
                allowed: "more than white space".to_owned(),
            });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(&words)
            .map_err(|error| Error::Pattern {
                rule: format!("{} words of kind {kind:?}", words.len()),
                problem: error.to_string(),
            })?;
        Ok(Self {
            automaton,
            case_sensitive: options.case_sensitive,
            whole_words: options.whole_words,
            kind: kind.into(),
            source: "dictionary".into(),
        })
    }

    /// Returns every occurrence: the number of the word, its first byte and its end.
    pub(crate) fn occurrences(&self, text: &str) -> Vec<(usize, usize, usize)> {
        self.occurrences_in(&Forms::of(text, !self.case_sensitive))
    }

    /// Does the same for a few folded words of a dictionary that ignores case, in a short text: to build the automaton takes
    /// longer than to look for each word by itself. Of long words, places that overlap are one.
    pub(crate) fn few_occurrences(words: &[&str], text: &str) -> Vec<(usize, usize, usize)> {
        let places = Forms::of(text, true).places(|text| {
            let each = words.iter().enumerate();
            each.flat_map(|(number, word)| {
                each_place(text, word).map(move |at| (number, at, at + word.len()))
            })
            .collect()
        });
        sorted(places.into_iter().filter(|(.., continued)| !continued))
    }

    /// Returns every occurrence, whole or not, possibly twice: the number of the word, its first byte and its end, and whether
    /// a letter or digit continues it there.
    pub(crate) fn anywhere(&self, text: &str) -> Vec<(usize, usize, usize, bool)> {
        self.places_in(&Forms::of(text, !self.case_sensitive))
    }

    fn places_in(&self, forms: &Forms<'_>) -> Vec<(usize, usize, usize, bool)> {
        forms.places(|text| {
            let matches = self.automaton.find_overlapping_iter(text);
            matches
                .map(|m| (m.pattern().as_usize(), m.start(), m.end()))
                .collect()
        })
    }

    /// [`Self::occurrences`], in forms of a text in the case of this dictionary.
    pub(super) fn occurrences_in(&self, forms: &Forms<'_>) -> Vec<(usize, usize, usize)> {
        let places = self.places_in(forms).into_iter();
        sorted(places.filter(|(.., continued)| !(self.whole_words && *continued)))
    }

    pub(super) fn find_in(&self, forms: &Forms<'_>, spans: &mut Vec<Span>) {
        let found = self.occurrences_in(forms).into_iter();
        spans.extend(found.map(|(_, start, end)| {
            Span::new(start..end, self.kind.clone(), self.source.clone(), 1.0)
        }));
    }
}

/// Returns places in order, each of them once: most are found in several forms.
fn sorted(places: impl Iterator<Item = (usize, usize, usize, bool)>) -> Vec<(usize, usize, usize)> {
    let places = places.map(|(word, start, end, _)| (word, start, end));
    let mut out: Vec<(usize, usize, usize)> = places.collect();
    out.sort_unstable_by_key(|&(word, start, end)| (start, end, word));
    out.dedup();
    out
}

/// Returns where a word stands in a text, including places that overlap, if it is not long.
fn each_place(text: &str, word: &str) -> impl Iterator<Item = usize> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = match text.len() > Dictionary::LONG {
            true => from + text.get(from..)?.find(word)?,
            false => next_place(text.as_bytes(), word.as_bytes(), from)?,
        };
        from = match word.len() > Dictionary::LONG {
            true => at + word.len(),
            false => at + text[at..].chars().next()?.len_utf8(),
        };
        Some(at)
    })
}

/// Does the same as [`str::find`] from a place on, sooner in most texts, in a time that may grow with the product of both
/// lengths.
fn next_place(text: &[u8], word: &[u8], mut from: usize) -> Option<usize> {
    let first = *word.first()?;
    let (alone, second) = (word.len() == 1, word.get(1).copied().unwrap_or(0));
    let begins = |byte: u8, next: u8| (byte == first) & (alone | (next == second));
    loop {
        let at = first_of(text, from, begins, begins)?;
        if text[at..].starts_with(word) {
            return Some(at);
        }
        from = at + 1;
    }
}

impl Policy for Dictionary {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        self.find_in(&Forms::of(view.text, !self.case_sensitive), spans);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// Of words that stand in a text and of others, around the ends of the runs of bytes that are searched at once.
        /// Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.
        #[test]
        fn places_are_those_of_a_plain_search(
            before in 0usize..70,
            text in "[ ab\u{0}\u{df}\u{e9}\u{301}\u{130}\u{212a}\u{661}\u{200b}\u{738b}]{0,40}",
            other in "[ ab\u{0}\u{df}\u{e9}\u{301}]{1,3}",
            ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let text = format!("{}{text}", " ".repeat(before));
            let bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let [one, two] = [ends.0, ends.1].map(|end| bounds[end.index(bounds.len())]);
            let inside = &text[one.min(two)..one.max(two)];
            for word in [inside, &*other].into_iter().filter(|word| !word.is_empty()) {
                let search = |from: &usize| text[*from..].find(word).map(|at| from + at);
                for from in &bounds {
                    prop_assert_eq!(next_place(text.as_bytes(), word.as_bytes(), *from), search(from));
                }
            }
        }
    }
}
