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
        let mut plain = String::new();
        let mut copied = 0;
        for (at, c, as_typed) in replaced(text) {
            plain.push_str(&text[copied..at]);
            plain.push(as_typed);
            copied = at + c.len_utf8();
            saved.push((plain.len(), copied - plain.len()));
        }
        let text = if saved.is_empty() {
            Cow::Borrowed(text)
        } else {
            plain.push_str(&text[copied..]);
            Cow::Owned(plain)
        };
        Self { text, saved }
    }

    /// The place in the text as it was.
    pub(super) fn place(&self, at: usize) -> usize {
        let replaced = self.saved.partition_point(|(end, _)| *end <= at);
        let saved = replaced.checked_sub(1).map_or(0, |last| self.saved[last].1);
        at + saved
    }
}

/// The characters that are replaced: where each is, it, and what was typed for it.
fn replaced(text: &str) -> impl Iterator<Item = (usize, char, char)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        // Nothing else begins one of them.
        while let Some(ahead) = bytes[at..]
            .iter()
            .position(|byte| matches!(byte, 0xc2 | 0xe2 | 0xe3 | 0xef))
        {
            let here = at + ahead;
            let c = text[here..].chars().next()?;
            at = here + c.len_utf8();
            if let Some(as_typed) = typed(c) {
                return Some((here, c, as_typed));
            }
        }
        None
    })
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

    /// The first bytes that are looked for are those of all characters that are replaced.
    #[test]
    fn every_character_that_is_replaced_is_found() {
        for c in ('\0'..=char::MAX).filter(|c| typed(*c).is_some()) {
            let text = format!("é{c}—{c}");
            assert_eq!(replaced(&text).count(), 2, "{c:?}");
        }
    }

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
