//! Text as it could have been typed: look-alike dashes, spaces and digits become the same ASCII character, and escapes
//! of JSON, URLs and HTML become the characters that they stand for. What a terminal does not show is left out.

use reticent_disk::{Typed, typed};
use std::borrow::Cow;

/// A text in plain characters, with a mapping to the original.
pub(in crate::policy) struct Plain<'a> {
    pub(in crate::policy) text: Cow<'a, str>,
    /// The end of each replacement, and the number of bytes that the replacements so far have saved.
    saved: Vec<(usize, usize)>,
    /// Whether the text has controls of a terminal or null characters.
    has_controls: bool,
}

impl<'a> Plain<'a> {
    /// Reads controls as they are shown, so that they hide nothing.
    pub(in crate::policy) fn of(text: &'a str) -> Self {
        Self::read(text, None)
    }

    /// Returns the other reading, in which controls separate what stands around them; `None` if there are none.
    pub(in crate::policy) fn apart(&self, text: &'a str) -> Option<Self> {
        let separated = || Self::read(text, Some(Typed::As('\0')));
        self.has_controls.then(separated)
    }

    fn read(text: &'a str, control: Option<Typed>) -> Self {
        let mut saved = Vec::new();
        let mut plain = String::new();
        let mut copied = 0;
        let mut has_controls = false;
        for (at, length, as_typed, is_control) in replaced(text) {
            has_controls |= is_control;
            let as_typed = control.filter(|_| is_control).unwrap_or(as_typed);
            if saved.is_empty() {
                plain.reserve(text.len());
            }
            plain.push_str(&text[copied..at]);
            plain.extend(as_typed.shown());
            copied = at + length;
            saved.push((plain.len(), copied - plain.len()));
        }
        let text = if saved.is_empty() {
            Cow::Borrowed(text)
        } else {
            plain.push_str(&text[copied..]);
            Cow::Owned(plain)
        };
        Self {
            text,
            saved,
            has_controls,
        }
    }

    /// Returns whether anything was replaced.
    pub(in crate::policy) fn is_changed(&self) -> bool {
        !self.saved.is_empty()
    }

    /// Maps a place to the original text.
    pub(in crate::policy) fn place(&self, at: usize) -> usize {
        let replaced = self.saved.partition_point(|(end, _)| *end <= at);
        let saved = replaced.checked_sub(1).map_or(0, |last| self.saved[last].1);
        at + saved
    }
}

/// Returns the replacements: the place, the number of bytes, what was typed for them, and whether they are controls.
fn replaced(text: &str) -> impl Iterator<Item = (usize, usize, Typed, bool)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        // Nothing else begins a replacement; spaces are everywhere, and two of them seldom.
        let begins = |byte: u8, next: u8| {
            (byte == b' ' && next == b' ')
                || matches!(
                    byte,
                    0 | ESCAPE | 0xc2 | 0xcd | 0xd8 | 0xd9 | 0xdb | 0xe1
                        ..=0xe3 | 0xef | 0xf0 | 0xf3 | b'\\' | b'%' | b'&' | b'+'
                )
        };
        let may_begin = |byte: u8, next: u8| {
            (byte >= 0xc2)
                | (byte.wrapping_sub(b'%') < 2)
                | (byte == b'\\')
                | (byte == b'+')
                | (byte == 0)
                | (byte == ESCAPE)
                | ((byte == b' ') & (next == b' '))
        };
        while let Some(here) = first_of(bytes, at, may_begin, begins) {
            if let Some((length, shown)) = controls(bytes, here) {
                at = here + length;
                return Some((here, length, shown, true));
            }
            if let Some((length, c)) = escaped(bytes, here) {
                at = here + length;
                let shown = match c {
                    '\0' => Typed::Nothing,
                    c => typed(c).unwrap_or(Typed::As(c)),
                };
                return Some((here, length, shown, c == '\0'));
            }
            let c = text[here..].chars().next()?;
            at = here + c.len_utf8();
            if let Some(as_typed) = typed(c) {
                return Some((here, c.len_utf8(), as_typed, false));
            }
        }
        None
    })
}

const ESCAPE: u8 = 0x1b;

/// Returns the number of bytes of the control sequences of a terminal (ECMA-48) that begin here, and what is shown for them:
/// nothing for colours; a space for moves of the cursor, and between a letter and a digit, which are parts of one word only
/// where nothing stands between them. Null characters are not shown either, as in UTF-16 that was read as bytes. Other control
/// characters separate fields.
fn controls(bytes: &[u8], at: usize) -> Option<(usize, Typed)> {
    let (mut end, mut moves) = (at, false);
    while let Some((length, last)) = control(&bytes[end..]) {
        end += length;
        moves |= matches!(last, b'A'..=b'H' | b'f');
    }
    if end == at {
        return None;
    }
    let beside = at.checked_sub(1).map(|at| bytes[at]).zip(bytes.get(end));
    let apart = beside.is_some_and(|(one, other)| {
        let mixed = |one: u8, other: u8| one.is_ascii_alphabetic() && other.is_ascii_digit();
        bytes[at] != 0 && (mixed(one, *other) || mixed(*other, one))
    });
    let shown = match moves || apart {
        true => Typed::As(' '),
        false => Typed::Nothing,
    };
    Some((end - at, shown))
}

/// Returns the number of bytes of one control at the beginning, and its last byte.
fn control(bytes: &[u8]) -> Option<(usize, u8)> {
    if bytes.first() == Some(&0) {
        return Some((1, 0));
    }
    // In JSON it is written as an escape.
    let begins: [&[u8]; 3] = [&[ESCAPE], b"\\u001b", b"\\u001B"];
    let begin = begins.iter().find(|begin| bytes.starts_with(begin))?.len();
    let mut at = begin + 1;
    match bytes.get(begin)? {
        // A set of characters.
        b'(' | b')' => {}
        b'[' => {
            // Numbers of more digits are no parameters, and stay.
            const MOST_DIGITS: usize = 3;
            let mut digits = 0;
            while let Some(byte) = bytes.get(at).filter(|byte| matches!(byte, b'0'..=b'?')) {
                digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
                if digits > MOST_DIGITS {
                    return None;
                }
                at += 1;
            }
        }
        _ => return None,
    }
    let last = bytes.get(at).filter(|byte| byte.is_ascii_alphabetic())?;
    Some((at + 1, *last))
}

/// Returns the first byte from `from` that, with the next one (zero behind the last), satisfies `is`, searching only runs
/// with a byte that satisfies `may_be`. `may_be` is evaluated without branches, so that it is vectorised.
pub(in crate::policy) fn first_of(
    bytes: &[u8],
    from: usize,
    may_be: impl Fn(u8, u8) -> bool,
    is: impl Fn(u8, u8) -> bool,
) -> Option<usize> {
    const RUN: usize = 32;
    let next = |at: usize| bytes.get(at + 1).copied().unwrap_or(0);
    (from..bytes.len()).step_by(RUN).find_map(|at| {
        let run = bytes.get(at..at + RUN).zip(bytes.get(at + 1..at + 1 + RUN));
        let any = run.is_none_or(|(run, nexts)| {
            let pairs = run.iter().zip(nexts);
            pairs.fold(false, |any, (byte, next)| any | may_be(*byte, *next))
        });
        let mut run = at..bytes.len().min(at + RUN);
        any.then(|| run.find(|at| is(bytes[*at], next(*at))))
            .flatten()
    })
}

/// Returns a character that is written as several ASCII characters, or as a double space, with the number of bytes. In
/// JSON, URLs or HTML, the letter of `\n` before a number, or `%20` between parts of a number, belongs to neither.
fn escaped(bytes: &[u8], at: usize) -> Option<(usize, char)> {
    let hex = |from: usize, count: usize| {
        let digits = bytes.get(from..from + count)?;
        let digits = std::str::from_utf8(digits).ok()?;
        let all = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| all)?;
        char::from_u32(code)
    };
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    match (bytes[at], bytes.get(at + 1)?) {
        // A double space; more spaces align something.
        (b' ', b' ') => {
            let more = [at.checked_sub(1), Some(at + 2)].map(|at| at.and_then(|at| bytes.get(at)));
            (!more.contains(&Some(&b' '))).then_some((2, ' '))
        }
        (b'\\', b'n' | b'r' | b't') => Some((2, ' ')),
        (b'\\', b'"') => Some((2, '"')),
        (b'\\', b'/') => Some((2, '/')),
        (b'\\', b'u') => Some((6, hex(at + 2, 4)?)),
        (b'%', _) => Some((3, hex(at + 1, 2).filter(|c| (' '..='~').contains(c))?)),
        (b'&', _) => {
            let known = [
                ("&nbsp;", ' '),
                ("&amp;", '&'),
                ("&commat;", '@'),
                ("&hyphen;", '-'),
                ("&dash;", '-'),
                ("&period;", '.'),
            ];
            let mut known = known.into_iter();
            let found = known.find(|(name, _)| bytes[at..].starts_with(name.as_bytes()));
            let found = found.map(|(name, c)| (name.len(), c));
            found.or_else(|| numbered(&bytes[at..]))
        }
        // Forms encode a space as `+`.
        (b'+', _) if is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) => Some((1, ' ')),
        _ => None,
    }
}

/// Returns the character that HTML writes as its number, `&#45;` or `&#x2d;`, with the number of bytes.
fn numbered(bytes: &[u8]) -> Option<(usize, char)> {
    const MOST_DIGITS: usize = 7;
    let (begin, base) = match bytes {
        [b'&', b'#', b'x' | b'X', ..] => (3, 16),
        [b'&', b'#', ..] => (2, 10),
        _ => return None,
    };
    let digits = bytes[begin..].iter().take(MOST_DIGITS + 1);
    let count = digits
        .take_while(|byte| char::from(**byte).is_digit(base))
        .count();
    let number = bytes.get(begin..begin + count)?;
    let code = u32::from_str_radix(std::str::from_utf8(number).ok()?, base).ok()?;
    // Others may continue a word, as `&#178;`, that ends before their number.
    let plain =
        |c: &char| c.is_ascii() || matches!(c, '\u{a0}' | '\u{ad}' | '\u{2010}'..='\u{2015}');
    let c = char::from_u32(code).filter(|c| !c.is_control() && plain(c))?;
    (bytes.get(begin + count) == Some(&b';')).then_some((begin + count + 1, c))
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

    #[test]
    fn what_is_written_for_a_character_is_it() {
        for (text, plain) in [
            (r"card\n4111\t1", "card 4111 1"),
            ("4111  1111 1111   1", "4111 1111 1111   1"),
            ("a\u{200e}\u{fe0f}b\u{61c}\u{e0041}c\u{34f}\u{180e}", "abc"),
            (r"card\\n4111", r"card\ 4111"),
            (r#"\"a\":\/b"#, r#""a":/b"#),
            (r"bob\uff20x \u00a0\u00e9\ud800\u12", r"bob@x  é\ud800\u12"),
            ("bob%40x%20y %zz 50% %0a", "bob@x y %zz 50% %0a"),
            ("4&nbsp;1 a&amp;b &#64; &lt;", "4 1 a&b @ &lt;"),
            ("1&#8209;2&#X2f;&#160;&#173;3", "1-2/ 3"),
            (
                "&#45 &#; &#10; &#xd800; &#000000045; org&#178; &#",
                "&#45 &#; &#10; &#xd800; &#000000045; org&#178; &#",
            ),
            ("41+11 +49 a+1 1+", "41 11 +49 a+1 1+"),
            ("\\", "\\"),
            ("%4", "%4"),
            ("a \u{1b}[1m4111\u{1b}[0m\u{1b}[K-1", "a 4111-1"),
            (r"a \u001b[38;5;208m4111\u001B[0m", "a 4111"),
            ("id\u{1b}[31m\u{1b}[1m7\u{1b}(B\u{1b}[mab", "id 7 ab"),
            ("1\u{1b}[5C2\u{1b}[4111m \u{1b}[", "1 2\u{1b}[4111m \u{1b}["),
            ("a\u{0}1\u{0}2\\u00003 4\u{1}5", "a123 4\u{1}5"),
        ] {
            let found = Plain::of(text);
            assert_eq!(found.text, plain, "{text}");
            assert_eq!(found.place(found.text.len()), text.len(), "{text}");
        }
    }

    /// Where they separate something, they stand in place of one character.
    #[test]
    fn controls_are_read_as_separators_too() {
        for (text, apart) in [
            ("a\0b \\u0000c", "a\0b \0c"),
            ("\u{1b}[1ma\u{1b}[0m\u{1b}[Kb", "\0a\0b"),
        ] {
            let found = Plain::of(text).apart(text).unwrap();
            assert_eq!(found.text, apart);
            let at = apart.find('b').unwrap();
            assert_eq!(found.place(at), text.find('b').unwrap());
        }
        let text = "a\u{200b}b 1\u{2011}2";
        assert!(Plain::of(text).apart(text).is_none());
    }
}
