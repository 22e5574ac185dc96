//! Shapes of canaries, some of whose words are chosen when they are planted.

use super::template::CanaryTemplate;
use crate::error::{Error, Result};
use crate::record::TokenId;
use crate::tokenize::Tokenizer;
use std::collections::BTreeSet;

/// Words that a rare place chooses among.
const RARE_WORDS: usize = 64;
/// Letters of such a word, at least.
const LETTERS: usize = 3;
const OPEN: &str = "{rare:";

/// A [`CanaryTemplate`], or one that waits for rare words: `{rare:n}` is n places in a row, each of one of 64 words that
/// are one token each and stand in the text most rarely.
///
/// A model that was trained before has hardly learnt such tokens, so that what it says of them afterwards is what this
/// training did: fewer copies show more (Panda et al. 2025, who take tokens new to the vocabulary).
///
/// ```
/// use reticent_corpus::CanaryFormat;
/// let format: CanaryFormat = "The code is{rare:2}".parse()?;
/// assert!(format.template().is_none());
/// let template = format.with_words(&[" abc".to_owned(), " xyz".to_owned()])?;
/// assert_eq!((template.candidates(), template.prefix()), (4, "The code is"));
/// assert!(template.matches(" xyz abc"));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryFormat {
    source: String,
    template: Option<CanaryTemplate>,
}

impl CanaryFormat {
    /// The template, where it waits for nothing.
    #[must_use]
    pub const fn template(&self) -> Option<&CanaryTemplate> {
        self.template.as_ref()
    }

    /// The template with these words at its rare places.
    ///
    /// # Errors
    /// Words of which one begins another.
    pub fn with_words(&self, words: &[String]) -> Result<CanaryTemplate> {
        filled(&self.source, words)?.parse()
    }
}

impl std::str::FromStr for CanaryFormat {
    type Err = Error;

    fn from_str(source: &str) -> Result<Self> {
        // Any two words tell whether the rest is a template.
        let parsed = filled(source, &[" a".to_owned(), " b".to_owned()])?.parse()?;
        Ok(Self {
            source: source.to_owned(),
            template: (!source.contains(OPEN)).then_some(parsed),
        })
    }
}

impl std::fmt::Display for CanaryFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)
    }
}

/// The source with a list in the place of each rare word.
fn filled(source: &str, words: &[String]) -> Result<String> {
    let list = format!("{{list:{}}}", words.join("|"));
    let problem = |problem: String| Error::Template {
        template: source.to_owned(),
        problem,
    };
    let (mut out, mut rest) = (String::new(), source);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (count, after) = after
            .split_once('}')
            .ok_or_else(|| problem("a { without its }".to_owned()))?;
        let count = match count.parse::<usize>() {
            Ok(n) if (1..=8).contains(&n) => n,
            _ => {
                return Err(problem(format!(
                    "rare takes a number from 1 to 8, got {count:?}"
                )));
            }
        };
        out.push_str(before);
        out.push_str(&list.repeat(count));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The 64 words that stand most rarely in these texts: a space and three ASCII letters or more, one token each, none the
/// beginning of another. Of equally rare ones those with larger numbers, which a vocabulary of merges learnt last.
///
/// They depend on the texts without canaries and the tokenizer alone, so that secrets of them are uniform given
/// everything else.
///
/// # Errors
/// A tokenizer with fewer such words, text that it can't cut.
pub fn rare_words<'t>(
    tokenizer: &Tokenizer,
    texts: impl IntoIterator<Item = &'t str>,
) -> Result<Vec<String>> {
    let mut counts = vec![0_u64; tokenizer.vocabulary_size()];
    for text in texts {
        for token in tokenizer.encode(text)? {
            if let Some(count) = counts.get_mut(token as usize) {
                *count += 1;
            }
        }
    }
    let mut order: Vec<TokenId> = (0..counts.len() as TokenId).collect();
    order.sort_by_key(|&token| (counts[token as usize], std::cmp::Reverse(token)));
    let mut words: BTreeSet<String> = BTreeSet::new();
    for token in order {
        let word = tokenizer.decode(&[token]);
        let letters = word.strip_prefix(' ').unwrap_or_default();
        let plain = letters.len() >= LETTERS && letters.bytes().all(|b| b.is_ascii_alphabetic());
        if !plain || tokenizer.encode(&word)? != [token] {
            continue;
        }
        let alike = |other: &String| other.starts_with(&word) || word.starts_with(other.as_str());
        if !words.iter().any(alike) {
            words.insert(word);
        }
        if words.len() == RARE_WORDS {
            return Ok(words.into_iter().collect());
        }
    }
    Err(Error::Plan(format!(
        "{OPEN}n}} takes a tokenizer with {RARE_WORDS} words of a space and {LETTERS} letters or more that are one token each; this one has {}",
        words.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_wait_are_checked_with_the_rest() {
        let parse = |source: &str| source.parse::<CanaryFormat>();
        let waiting = parse("My code is{rare:3}, {digits:2}").unwrap();
        assert_eq!(waiting.to_string(), "My code is{rare:3}, {digits:2}");
        assert!(waiting.template().is_none());
        let words: Vec<String> = [" abc", " def", " ghi"].map(String::from).to_vec();
        assert_eq!(waiting.with_words(&words).unwrap().candidates(), 2700);
        let plain = parse("My ID is: {digits:6}").unwrap();
        assert_eq!(plain.template(), Some(&CanaryTemplate::default()));
        for bad in [
            "x{rare:0}",
            "x{rare:9}",
            "x{rare:a}",
            "x{rare:2",
            "{rare:2}",
            "x{rare:2}{digits:}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let beginning = [" abc", " abcd"].map(String::from);
        assert!(waiting.with_words(&beginning).is_err());
        let none = rare_words(&Tokenizer::characters(), ["text"]).unwrap_err();
        assert!(none.to_string().contains("this one has 0"), "{none}");
    }
}
