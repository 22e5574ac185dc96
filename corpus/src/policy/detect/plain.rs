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
            plain.extend(as_typed.shown());
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
fn replaced(text: &str) -> impl Iterator<Item = (usize, char, Typed)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        // Nothing else begins one of them.
        while let Some(ahead) = bytes[at..]
            .iter()
            .position(|byte| matches!(byte, 0xc2 | 0xd9 | 0xdb | 0xe2 | 0xe3 | 0xef))
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

/// What was typed for a character.
#[derive(Debug, Clone, Copy)]
enum Typed {
    As(char),
    /// It is not seen: it would only part what belongs together.
    Nothing,
}

impl Typed {
    const fn shown(self) -> Option<char> {
        match self {
            Self::As(c) => Some(c),
            Self::Nothing => None,
        }
    }
}

/// The ASCII character that stands for one that looks like it.
fn typed(c: char) -> Option<Typed> {
    let from = |first: char, ascii: u8| {
        char::from_u32(u32::from(c) - u32::from(first) + u32::from(ascii)).map(Typed::As)
    };
    match c {
        // Hyphens, the figure dash, the en dash, minus signs.
        '\u{2010}'..='\u{2013}' | '\u{2212}' | '\u{fe63}' => Some(Typed::As('-')),
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' | '\u{3000}' => Some(Typed::As(' ')),
        // The soft hyphen, spaces and joiners of no width.
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => Some(Typed::Nothing),
        // Digits of Arabic and Persian.
        '\u{660}'..='\u{669}' => from('\u{660}', b'0'),
        '\u{6f0}'..='\u{6f9}' => from('\u{6f0}', b'0'),
        // Full-width forms lie in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => from('\u{ff01}', b'!'),
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
        // What is not seen lies within a span, or before or behind it.
        let text = "x a\u{200b}b\u{200d}c\u{ad} \u{661}\u{6f2}";
        let plain = Plain::of(text);
        assert_eq!(plain.text, "x abc 12");
        assert_eq!(
            &text[plain.place(2)..plain.place(5)],
            "a\u{200b}b\u{200d}c\u{ad}"
        );
        assert_eq!(&text[plain.place(3)..plain.place(4)], "b\u{200d}");
        assert_eq!(&text[plain.place(6)..], "\u{661}\u{6f2}");
        assert!(matches!(Plain::of("naïve 1—2").text, Cow::Borrowed(_)));
    }
}
