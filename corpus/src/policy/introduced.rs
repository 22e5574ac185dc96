//! Names that a sentence says are names: a tagger knows the common ones only.

use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// "My name is", and up to four words with a capital, with what stands before such words in names.
static INTRODUCED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"(?:(?:al|el|d)['’-])?(?:\p{Lu}\.|\p{Lu}[\p{L}\p{M}'’-]*)";
    let particles = r"(?:(?:van|von|der|den|de|da|dos|del|di|la|le|bin|bint|ibn)[ \x{a0}]+)*";
    let whose = "(?:my|his|her|their|full|first|last|middle|maiden)";
    Regex::new(&format!(
        r"\b(?i:{whose} name(?: is|['’]s))[ \x{{a0}}]+({particles}{word}(?:[ \x{{a0}}]+{particles}{word}){{0,3}})"
    ))
    .ok()
});

/// Their places.
pub(super) fn names(text: &str) -> Vec<Range<usize>> {
    // Most text has no such sentence.
    let some = ["name is", "name's", "name’s"];
    let Some(regex) = some
        .iter()
        .any(|part| text.contains(part))
        .then_some(&*INTRODUCED)
    else {
        return Vec::new();
    };
    let captures = regex.iter().flat_map(|regex| regex.captures_iter(text));
    let places = captures.filter_map(|captures| Some(captures.get(1)?.range()));
    places.map(|place| before_the_next(text, place)).collect()
}

/// Without the sentence that follows: "Ada I would".
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
            ("My name is not on the list", &[]),
            ("The file's name is Report", &[]),
        ] {
            let found: Vec<&str> = names(text).into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
