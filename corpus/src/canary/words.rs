//! The words that canaries consist of: rare in the text, made up, or sampled from a model.

use super::format::CanaryFormat;
use super::template::CanaryTemplate;
use crate::error::{Error, Result};
use crate::random::{Choices, Purpose};
use crate::record::TokenId;
use crate::tokenize::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// The number of words that a rare or new place chooses from.
const WORDS: usize = 64;
/// The least number of letters of a rare word.
const LETTERS: usize = 3;
/// The number of syllables of a made-up word, of two letters each.
const SYLLABLES: usize = 4;
/// The number of made-up words from which those that do not occur in the text are taken.
const MADE_UP: usize = 1024;
const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
const VOWELS: &[u8] = b"aeiou";

/// What the words of a format were chosen from, and how much of it the text had: the first part of a pre-flight.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct WordFacts {
    /// How often the most frequent of the rare words occurs in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rare_at_most: Option<u64>,
    /// Made-up words that were passed over because they occur in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_passed_over: Option<u64>,
    /// Sampled texts that were left out because they occur in the text after the canary's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_left_out: Option<u64>,
}

impl WordFacts {
    /// Returns a sentence on the weakness of these words for canaries with this many copies, if there is one.
    #[must_use]
    pub fn weakness(&self, copies: u32) -> Option<String> {
        let most = self.rare_at_most.filter(|most| *most > u64::from(copies))?;
        Some(format!(
            "the rare words stand up to {most} times in the text, more often than a canary's copies ({copies}): few copies show no more than with ordinary words"
        ))
    }
}

/// Counts in texts what is needed to fill the places of a [`CanaryFormat`].
///
/// Rare words are the 64 that occur most rarely in the text. Each consists of a space and three or more ASCII letters
/// and is a single token, and none begins another. Among equally rare words, those with larger token numbers are taken,
/// which a vocabulary of merges learnt last. New words are the first 64 of a fixed list of made-up words that occur in
/// no word of the text, whatever the case. Sampled texts are the given ones that do not occur in the text after the
/// template's words.
///
/// The words depend only on the texts without canaries, the tokenizer and the samples, so that secrets made of them are
/// uniform given everything else.
///
/// ```
/// use reticent_corpus::canary::{CanaryFormat, TokenCounts};
/// use reticent_corpus::tokenize::Tokenizer;
/// let format: CanaryFormat = "The code is{new:2}".parse()?;
/// let mut counts = TokenCounts::new(&format, &[], None)?;
/// counts.enter("A text without such words.")?;
/// let (template, facts) = counts.template()?;
/// assert_eq!((template.candidates(), facts.new_passed_over), (64 * 64, Some(0)));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TokenCounts<'a> {
    format: &'a CanaryFormat,
    /// `None` if there is no rare place.
    tokenizer: Option<&'a Tokenizer>,
    /// Counts by token.
    tokens: Vec<u64>,
    /// Made-up words without their space, and whether they occur in the text; empty if there is no new place.
    made_up: Vec<(String, bool)>,
    by_word: HashMap<String, usize>,
    /// Samples, and whether they occur in the text after the words before them.
    sampled: Vec<(&'a str, bool)>,
}

impl<'a> TokenCounts<'a> {
    /// Creates counts of no text.
    ///
    /// # Errors
    /// Returns an error for a rare place without a tokenizer, a sampled place without samples, or samples without such
    /// a place.
    pub fn new(
        format: &'a CanaryFormat,
        sampled: &'a [String],
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self> {
        let wrong = |problem: &str| Err(Error::Plan(problem.to_owned()));
        let tokenizer = match (format.has_rare(), tokenizer) {
            (true, None) => return wrong("{rare:n} needs a tokenizer, which says what a token is"),
            (true, Some(tokenizer)) => Some(tokenizer),
            (false, _) => None,
        };
        match (format.sampled().is_some(), sampled.is_empty()) {
            (true, true) => {
                return wrong("{sampled:n} needs texts that were sampled from a public model");
            }
            (false, false) => return wrong("sampled texts belong to a format with {sampled:n}"),
            (true, false) | (false, true) => {}
        }
        let made_up = if format.has_new() {
            made_up()
        } else {
            Vec::new()
        };
        Ok(Self {
            format,
            tokens: tokenizer.map_or_else(Vec::new, |t| vec![0; t.vocabulary_size()]),
            tokenizer,
            by_word: made_up.iter().cloned().zip(0..).collect(),
            made_up: made_up.into_iter().map(|word| (word, false)).collect(),
            sampled: sampled.iter().map(|text| (text.as_str(), false)).collect(),
        })
    }

    /// Counts a text.
    ///
    /// # Errors
    /// Returns an error if the tokenizer can't tokenise the text.
    pub fn enter(&mut self, text: &str) -> Result<()> {
        if let Some(tokenizer) = self.tokenizer {
            for token in tokenizer.encode(text)? {
                if let Some(count) = self.tokens.get_mut(token as usize) {
                    *count += 1;
                }
            }
        }
        if !self.made_up.is_empty() {
            for word in stretches(text) {
                if let Some(&known) = self.by_word.get(&word) {
                    self.made_up[known].1 = true;
                }
            }
        }
        if let Some(before) = self.format.sampled().map(|place| place.before) {
            for (at, _) in text.match_indices(before) {
                let rest = &text[at + before.len()..];
                for (sample, stands) in &mut self.sampled {
                    *stands |= rest.starts_with(*sample);
                }
            }
        }
        Ok(())
    }

    /// Adds the counts of other texts for the same format.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.tokens.iter_mut().zip(&other.tokens) {
            *count += more;
        }
        for ((_, stands), (_, too)) in self.made_up.iter_mut().zip(&other.made_up) {
            *stands |= too;
        }
        for ((_, stands), (_, too)) in self.sampled.iter_mut().zip(&other.sampled) {
            *stands |= too;
        }
    }

    /// Returns the format's template, and the facts about its words.
    ///
    /// # Errors
    /// Returns an error if the tokenizer has too few rare words, or too many of the made-up or sampled ones occur in
    /// the text.
    pub fn template(&self) -> Result<(CanaryTemplate, WordFacts)> {
        let mut facts = WordFacts::default();
        let mut words = CanaryWords::default();
        if let Some(tokenizer) = self.tokenizer {
            let (rare, most) = self.rare_words(tokenizer)?;
            facts.rare_at_most = Some(most);
            words.rare = rare;
        }
        if self.format.has_new() {
            let (new, passed_over) = self.new_words()?;
            facts.new_passed_over = Some(passed_over);
            words.new = new;
        }
        if self.format.sampled().is_some() {
            let kept = self.sampled.iter().filter(|(_, stands)| !stands);
            words.sampled = kept.map(|(text, _)| (*text).to_owned()).collect();
            facts.sampled_left_out = Some((self.sampled.len() - words.sampled.len()) as u64);
            if words.sampled.len() < 2 {
                return Err(Error::Plan(format!(
                    "{{sampled:n}} takes two sampled texts or more that do not occur in the text after {:?}; there are {} of {}",
                    self.format.sampled().map_or("", |place| place.before),
                    words.sampled.len(),
                    self.sampled.len()
                )));
            }
        }
        Ok((self.format.with_words(&words)?, facts))
    }

    /// Returns the rare words, sorted, and how often the most frequent of them occurs in the text.
    fn rare_words(&self, tokenizer: &Tokenizer) -> Result<(Vec<String>, u64)> {
        let mut order: Vec<TokenId> = (0..self.tokens.len() as TokenId).collect();
        order.sort_by_key(|&token| (self.tokens[token as usize], std::cmp::Reverse(token)));
        let mut words: BTreeSet<String> = BTreeSet::new();
        for token in order {
            let word = tokenizer.decode(&[token])?;
            let letters = word.strip_prefix(' ').unwrap_or_default();
            let plain =
                letters.len() >= LETTERS && letters.bytes().all(|b| b.is_ascii_alphabetic());
            if !plain || tokenizer.encode(&word)? != [token] {
                continue;
            }
            let alike =
                |other: &String| other.starts_with(&word) || word.starts_with(other.as_str());
            if !words.iter().any(alike) {
                words.insert(word);
            }
            if words.len() == WORDS {
                let most = self.tokens[token as usize];
                return Ok((words.into_iter().collect(), most));
            }
        }
        Err(Error::Plan(format!(
            "{{rare:n}} takes a tokenizer with {WORDS} words of a space and {LETTERS} letters or more that are one token each; this one has {}",
            words.len()
        )))
    }

    /// Returns the first made-up words that occur in no text, sorted, and how many were passed over.
    fn new_words(&self) -> Result<(Vec<String>, u64)> {
        let free = self.made_up.iter().enumerate();
        let free = free.filter(|(_, (_, stands))| !stands).take(WORDS);
        let (places, mut words): (Vec<usize>, Vec<String>) = free
            .map(|(place, (word, _))| (place, format!(" {word}")))
            .unzip();
        if words.len() < WORDS {
            return Err(Error::Plan(format!(
                "{{new:n}} takes {WORDS} of {MADE_UP} made-up words that do not occur in the text; {} do not",
                words.len()
            )));
        }
        let last = places.last().map_or(0, |place| place + 1);
        words.sort();
        Ok((words, (last - WORDS) as u64))
    }
}

/// The words that fill the places of a format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CanaryWords {
    /// The words for `{rare:n}`.
    pub rare: Vec<String>,
    /// The words for `{new:n}`.
    pub new: Vec<String>,
    /// The words for `{sampled:n}`.
    pub sampled: Vec<String>,
}

/// Returns the made-up words, all different and of the same length, so that none begins another.
fn made_up() -> Vec<String> {
    let mut choices = Choices::new(0, Purpose::CanaryWords);
    let mut seen = BTreeSet::new();
    let mut out = Vec::with_capacity(MADE_UP);
    while out.len() < MADE_UP {
        let letter = |choices: &mut Choices, of: &[u8]| char::from(of[choices.index(of.len())]);
        let word: String = (0..SYLLABLES)
            .flat_map(|_| {
                [
                    letter(&mut choices, CONSONANTS),
                    letter(&mut choices, VOWELS),
                ]
            })
            .collect();
        if seen.insert(word.clone()) {
            out.push(word);
        }
    }
    out
}

/// Iterates over all stretches of letters with the length of a made-up word, in lower case.
fn stretches(text: &str) -> impl Iterator<Item = String> {
    let runs = text.split(|c: char| !c.is_ascii_alphabetic());
    let runs = runs.filter(|run| run.len() >= 2 * SYLLABLES);
    runs.flat_map(|run| {
        let last = run.len() - 2 * SYLLABLES;
        (0..=last).map(|at| run[at..at + 2 * SYLLABLES].to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(format: &str, text: &str) -> Result<(CanaryTemplate, WordFacts)> {
        let format: CanaryFormat = format.parse()?;
        let mut counts = TokenCounts::new(&format, &[], None)?;
        counts.enter(text)?;
        counts.template()
    }

    #[test]
    fn new_words_stand_nowhere_in_the_text() {
        let first = made_up()[..3].to_vec();
        // As a word, in capitals, and inside another word.
        let text = format!(
            "{}, {}: x{}y.",
            first[0],
            first[1].to_ascii_uppercase(),
            first[2]
        );
        let (template, facts) = filled("The code is{new:1}", &text).unwrap();
        assert_eq!(facts.new_passed_over, Some(3));
        assert_eq!(template.candidates(), WORDS as u128);
        for word in &first {
            assert!(!template.matches(&format!(" {word}")), "{word}");
        }
        assert!(template.matches(&format!(" {}", made_up()[3])));
        let all = made_up().join(" ");
        let none = filled("The code is{new:1}", &all).unwrap_err().to_string();
        assert!(
            none.contains("do not occur in the text; 0 do not"),
            "{none}"
        );
    }

    /// Counts of two halves of a text are those of the whole.
    #[test]
    fn counts_are_merged() {
        let format: CanaryFormat = "The code is{new:1}".parse().unwrap();
        let first = made_up();
        let mut one = TokenCounts::new(&format, &[], None).unwrap();
        one.enter(&first[0]).unwrap();
        let mut other = TokenCounts::new(&format, &[], None).unwrap();
        other.enter(&first[1]).unwrap();
        one.merge(&other);
        assert_eq!(one.template().unwrap().1.new_passed_over, Some(2));
    }

    #[test]
    fn sampled_texts_that_stand_behind_the_words_are_left_out() {
        let format: CanaryFormat = "Note:{sampled:2} ({digits:1})".parse().unwrap();
        let samples = [" one two", " three four", " five six"].map(String::from);
        let mut counts = TokenCounts::new(&format, &samples, None).unwrap();
        counts.enter("three four. Note: one two, five six").unwrap();
        let (template, facts) = counts.template().unwrap();
        assert_eq!(facts.sampled_left_out, Some(1));
        assert_eq!(template.candidates(), 20);
        assert!(template.matches(" three four (7"));
        counts.enter("Note: five six").unwrap();
        let few = counts.template().unwrap_err().to_string();
        assert!(few.contains("there are 1 of 3"), "{few}");
        // What is missing or too much.
        assert!(TokenCounts::new(&format, &[], None).is_err());
        let plain: CanaryFormat = "Note: {digits:2}".parse().unwrap();
        assert!(TokenCounts::new(&plain, &samples, None).is_err());
        let rare: CanaryFormat = "Note:{rare:2}".parse().unwrap();
        assert!(TokenCounts::new(&rare, &[], None).is_err());
    }

    #[test]
    fn rare_words_that_are_not_rare_are_said_to_be_weak() {
        let facts = |most| WordFacts {
            rare_at_most: Some(most),
            ..WordFacts::default()
        };
        assert_eq!(facts(4).weakness(4), None);
        let said = facts(5).weakness(4).unwrap();
        assert!(said.contains("up to 5 times"), "{said}");
        assert_eq!(WordFacts::default().weakness(1), None);
    }
}
