//! Text as its writer could have typed it: dashes, spaces and digits that look alike as one of them.

use std::borrow::Cow;

/// A text in plain characters, and where they were.
pub(super) struct Plain<'a> {
    pub(super) text: Cow<'a, str>,
    /// End of a character that was replaced, and the bytes that the replacements saved up to there.
    saved: Vec<(usize, usize)>,
}

impl<'a> Plain<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut saved = Vec::new();
        if text.is_ascii() || !text.chars().any(|c| typed(c).is_some()) {
            let text = Cow::Borrowed(text);
            return Self { text, saved };
        }
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            plain.push(typed(c).unwrap_or(c));
            if typed(c).is_some() {
                let before = saved.last().map_or(0, |(_, saved)| *saved);
                saved.push((plain.len(), before + c.len_utf8() - 1));
            }
        }
        let text = Cow::Owned(plain);
        Self { text, saved }
    }

    /// The place in the text as it was.
    pub(super) fn place(&self, at: usize) -> usize {
        let replaced = self.saved.partition_point(|(end, _)| *end <= at);
        let saved = replaced.checked_sub(1).map_or(0, |last| self.saved[last].1);
        at + saved
    }
}

/// The ASCII character that stands for one that looks like it.
fn typed(c: char) -> Option<char> {
    match c {
        // Hyphens, the figure dash, the en dash, minus signs.
        '\u{2010}'..='\u{2013}' | '\u{2212}' | '\u{fe63}' => Some('-'),
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' | '\u{3000}' => Some(' '),
        // Full-width forms lie in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text() {
        let text = "é 219\u{2011}09\u{2011}9999 \u{ff14}\u{ff12}x";
        let plain = Plain::of(text);
        assert_eq!(plain.text, "é 219-09-9999 42x");
        for part in ["219-09-9999", "42", "x", "é", "-09-"] {
            let at = plain.text.find(part).unwrap();
            let (start, end) = (plain.place(at), plain.place(at + part.len()));
            assert_eq!(Plain::of(&text[start..end]).text, part);
        }
        assert_eq!(plain.place(plain.text.len()), text.len());
        assert!(matches!(Plain::of("naïve 1—2").text, Cow::Borrowed(_)));
    }
}
