//! Finds names that a sentence introduces as names, since a tagger knows only common names.

use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// Matches "My name is" and up to four words that begin with a capital or a letter without case, with the particles
/// that precede such words in names; or the lower-case words that follow.
static INTRODUCED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"(?:(?:al|el|d)['’-])?(?:\p{Lu}\.|[\p{Lu}\p{Lo}][\p{L}\p{M}'’-]*)";
    let particles = r"(?:(?:van|von|der|den|de|da|dos|del|di|la|le|bin|bint|ibn)[ \x{a0}]+)*";
    let whose = "(?:my|his|her|their|full|first|last|middle|maiden)";
    let space = r"[ \x{a0}]+";
    let lower = r"\p{Ll}[\p{L}\p{M}'’-]*";
    Regex::new(&format!(
        r"\b(?i:{whose}{space}name(?:{space}is|['’]s)){space}(?:({particles}{word}(?:{space}{particles}{word}){{0,3}})|({lower})(?:{space}({lower}))?)"
    ))
    .ok()
});

/// Lower-case words that may follow "my name is" and are not names.
const NO_NAMES: &str = " a about above added all already also always an and another any as asked at available back because been being blank both but by called case changed common complete completely confidential correct correctly currently different difficult easy entered exactly false for fine first found from given going gone good hard hidden hyphenated i if in incomplete incorrect incorrectly invalid is it its known last like linked listed long messed missing misspelled my never no not now of ok okay on one only or our private probably pronounced quite rather really recorded registered required right saved secret shared short shown similar so sometimes spelled spelt still stored such that the their there these this to too true under unique unknown unusual used usually valid very visible was what which whose with without written wrong wrongly your ";

/// Returns the places of introduced names.
pub(super) fn names(text: &str) -> Vec<Range<usize>> {
    // Most texts contain no such sentence.
    let some = ["name", "Name", "NAME"];
    let some = some.iter().any(|part| text.contains(part));
    let Some(regex) = some.then_some(&*INTRODUCED).and_then(Option::as_ref) else {
        return Vec::new();
    };
    let places = regex.captures_iter(text).filter_map(|captures| {
        if let Some(name) = captures.get(1) {
            return Some(before_the_next(text, name.range()));
        }
        let first = captures.get(2).filter(|word| is_a_name(word.as_str()))?;
        // A second word counts if the sentence ends after it.
        let second = captures.get(3).filter(|word| {
            let behind = text[word.end()..].trim_start_matches(' ').chars().next();
            is_a_name(word.as_str()) && behind.is_none_or(|c| !c.is_alphanumeric())
        });
        Some(first.start()..second.map_or(first.end(), |word| word.end()))
    });
    places.collect()
}

fn is_a_name(word: &str) -> bool {
    !NO_NAMES.contains(&format!(" {word} "))
}

/// Removes the beginning of the next sentence: "Ada I would".
fn before_the_next(text: &str, place: Range<usize>) -> Range<usize> {
    let name = &text[place.clone()];
    let next = name.match_indices(" I").find(|(at, _)| {
        let behind = name[at + 2..].chars().next();
        behind.is_none_or(|c| matches!(c, ' ' | '\'' | '’'))
    });
    place.start..place.start + next.map_or(name.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_said_to_be() {
        for (text, expected) in [
            ("Hi, my name is Wei-Ling. Can you help?", &["Wei-Ling"][..]),
            ("My last name's O’Neil", &["O’Neil"]),
            ("my name is Ada I would like", &["Ada"]),
            (
                "His full name is J. K. van der Berg\nUSR: ok",
                &["J. K. van der Berg"],
            ),
            (
                "My name is al-Rashid, her name is Zoe\u{301}",
                &["al-Rashid", "Zoe\u{301}"],
            ),
            ("(my name is priya patel)", &["priya patel"]),
            ("MY NAME IS O'BRIEN", &["O'BRIEN"]),
            ("my name is zoë and i need help", &["zoë"]),
            ("my name is 王小明。", &["王小明"]),
            ("My name is not on the list", &[]),
            ("her last name is spelled with a k", &[]),
            ("The file's name is Report", &[]),
        ] {
            let found: Vec<&str> = names(text).into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
