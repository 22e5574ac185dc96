//! Text in which a number goes on behind a line break, as in lines that are wrapped at a width.

use super::plain::first_of;

/// A text with a space in place of each single line break between two digits or capital letters.
pub(super) struct Wrapped {
    pub(super) text: String,
    /// The places of the spaces, and the number of bytes that they save up to there.
    breaks: Vec<(usize, usize)>,
}

impl Wrapped {
    /// Returns `None` if there is no such line break.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let inside = |at: Option<usize>| {
            let byte = at.and_then(|at| bytes.get(at));
            byte.is_some_and(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        };
        let (mut wrapped, mut breaks) = (String::new(), Vec::new());
        let (mut copied, mut saved) = (0, 0);
        // A carriage return before a line feed belongs to its break. Vertical tabs and form feeds end lines too.
        let is = |byte: u8, next: u8| {
            matches!(byte, b'\n' | b'\x0b' | b'\x0c') | ((byte == b'\r') & (next != b'\n'))
        };
        let mut from = 0;
        while let Some(at) = first_of(bytes, from, is, is) {
            from = at + 1;
            let begin = at - usize::from(bytes[at] == b'\n' && text[..at].ends_with('\r'));
            if inside(begin.checked_sub(1)) && inside(Some(at + 1)) {
                wrapped.push_str(&text[copied..begin]);
                saved += at - begin;
                breaks.push((wrapped.len(), saved));
                wrapped.push(' ');
                copied = at + 1;
            }
        }
        (!breaks.is_empty()).then(|| {
            wrapped.push_str(&text[copied..]);
            Self {
                text: wrapped,
                breaks,
            }
        })
    }

    /// Returns whether exactly one of the line breaks is within these bytes: more of them are a column of numbers.
    pub(super) fn breaks_once(&self, start: usize, end: usize) -> bool {
        let before = |at: usize| self.breaks.partition_point(|(space, _)| *space < at);
        before(end) - before(start) == 1
    }

    /// Maps a place to the original text.
    pub(super) fn place(&self, at: usize) -> usize {
        let before = self.breaks.partition_point(|(space, _)| *space < at);
        at + before.checked_sub(1).map_or(0, |last| self.breaks[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text() {
        let text = "é 12\r\n34 a\n5\n\nX\nY 6\nb";
        let found = Wrapped::of(text).unwrap();
        assert_eq!(found.text, "é 12 34 a\n5\n\nX Y 6\nb");
        for part in ["é 12", "34", "5", "X", "Y 6\nb"] {
            let at = found.text.find(part).unwrap();
            let (start, end) = (found.place(at), found.place(at + part.len()));
            assert_eq!(&text[start..end], part);
        }
        assert!(found.breaks_once(3, 8) && !found.breaks_once(0, 5));
        assert!(!found.breaks_once(0, found.text.len()));
        assert!(Wrapped::of("a\n1\nb 2\n\n3 4\r\r5").is_none());
        for line_break in ["\r", "\n", "\r\n", "\x0b", "\x0c"] {
            let text = format!("12{line_break}34");
            let found = Wrapped::of(&text).unwrap();
            assert_eq!((&*found.text, found.place(3)), ("12 34", text.len() - 2));
        }
    }
}
