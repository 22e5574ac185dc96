//! Text in which numbers are separated from adjacent text. Patterns begin and end at word boundaries, and `card_4111…`
//! and `ssn219-…` have none there.

use super::plain::first_of;
use std::ops::Range;

/// This many letters next to a digit are a word, not part of an identifier.
const WORD: usize = 3;

/// A text with spaces in place of underscores beside numbers, and between a number and an adjacent word.
pub(super) struct Parted {
    pub(super) text: String,
    /// The places of the spaces, and how many of the spaces so far were inserted.
    spaces: Vec<(usize, usize)>,
}

impl Parted {
    /// Returns `None` if nothing touches a number.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (mut parted, mut spaces) = (String::new(), Vec::new());
        let (mut copied, mut added) = (0, 0);
        let mut part = |at: usize, instead_of: usize| {
            parted.push_str(&text[copied..at]);
            copied = at + instead_of;
            added += 1 - instead_of;
            spaces.push((parted.len(), added));
            parted.push(' ');
        };
        let is_word = |range: Range<usize>| {
            let word = bytes.get(range);
            word.is_some_and(|word| word.iter().all(u8::is_ascii_alphabetic))
        };
        let is = |byte: u8, _| byte.is_ascii_digit() | (byte == b'_');
        let mut from = 0;
        while let Some(at) = first_of(bytes, from, is, is) {
            from = at + 1;
            if bytes[at] == b'_' {
                if beside_a_number(bytes, at) {
                    part(at, 1);
                }
                continue;
            }
            if at >= WORD && is_word(at - WORD..at) {
                part(at, 0);
            }
            if is_word(from..from + WORD) {
                part(from, 0);
            }
        }
        (!spaces.is_empty()).then(|| {
            parted.push_str(&text[copied..]);
            Self {
                text: parted,
                spaces,
            }
        })
    }

    /// Returns whether one of the spaces is within or next to these bytes; otherwise the text there is unchanged.
    pub(super) fn touches(&self, start: usize, end: usize) -> bool {
        let first = self.spaces.partition_point(|(at, _)| at + 1 < start);
        self.spaces.get(first).is_some_and(|(at, _)| *at <= end)
    }

    /// Maps a place to the original text.
    pub(super) fn place(&self, at: usize) -> usize {
        let before = self.spaces.partition_point(|(space, _)| *space < at);
        at - before.checked_sub(1).map_or(0, |last| self.spaces[last].1)
    }
}

/// Returns whether the underscore at `at` is next to a digit, or before two letters and two digits, as in account
/// numbers.
fn beside_a_number(bytes: &[u8], at: usize) -> bool {
    let is = |at: Option<usize>, class: fn(&u8) -> bool| {
        at.and_then(|at| bytes.get(at)).is_some_and(class)
    };
    let letter = u8::is_ascii_alphabetic;
    let digit = u8::is_ascii_digit;
    is(at.checked_sub(1), digit)
        || is(Some(at + 1), digit)
        || is(Some(at + 1), letter)
            && is(Some(at + 2), letter)
            && is(Some(at + 3), digit)
            && is(Some(at + 4), digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text() {
        for (text, parted) in [
            (
                "card_4111 ssn219-09 é555call",
                "card 4111 ssn 219-09 é555 call",
            ),
            ("_1_2_", " 1 2 "),
            ("key_DE89 abc_de", "key DE89 abc_de"),
            ("12abc34def5", "12 abc 34 def 5"),
        ] {
            let found = Parted::of(text).unwrap();
            assert_eq!(found.text, parted);
            for part in parted.split(' ').filter(|part| !part.is_empty()) {
                let at = found.text.find(part).unwrap();
                let (start, end) = (found.place(at), found.place(at + part.len()));
                assert_eq!(&text[start..end], part, "{text}");
            }
        }
        assert!(Parted::of("a1 10am 5th x_y ab12").is_none());
        let found = Parted::of("abc ssn219-09-9999 def").unwrap();
        assert!(found.touches(8, 19) && !found.touches(0, 3) && !found.touches(19, 22));
    }
}
