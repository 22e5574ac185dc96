//! Text folded for comparison with a dictionary: composed, with look-alikes, white space and escapes unified, and in
//! one case if case does not matter.

use super::detect::plain::{Plain, first_of};
use reticent_disk::{cluster, fold};
use std::ops::Range;
use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::is_combining_mark;

/// The forms of a text in which words are searched for: the text as it is and, if it contains escapes of JSON,
/// addresses or HTML, or controls, each reading with these replaced.
pub(super) struct Forms<'a> {
    as_written: Folded,
    unescaped: Vec<(Plain<'a>, Folded)>,
    text: &'a str,
}

impl<'a> Forms<'a> {
    pub(super) fn of(text: &'a str, any_case: bool) -> Self {
        let plain = Plain::of(text);
        let apart = plain.apart(text);
        let readings = std::iter::once(plain)
            .chain(apart)
            .filter(Plain::is_changed);
        let unescaped = readings.map(|plain| {
            let folded = Folded::of(&plain.text, any_case);
            (plain, folded)
        });
        Self {
            as_written: Folded::of(text, any_case),
            unescaped: unescaped.collect(),
            text,
        }
    }

    /// Calls `find` on each form and maps the starts and ends that it returns to the text. Also returns whether the
    /// match is continued by a letter or digit.
    pub(super) fn places<T>(
        &self,
        mut find: impl FnMut(&str) -> Vec<(T, usize, usize)>,
    ) -> Vec<(T, usize, usize, bool)> {
        let mut out = Vec::new();
        for (what, start, end) in find(&self.as_written.text) {
            let (start, end) = self.as_written.place(start, end);
            out.push((what, start, end, continued(self.text, start, end)));
        }
        for (plain, folded) in &self.unescaped {
            for (what, start, end) in find(&folded.text) {
                let (start, end) = folded.place(start, end);
                let continued = continued(&plain.text, start, end);
                out.push((what, plain.place(start), plain.place(end), continued));
            }
        }
        out
    }
}

/// A folded text, with a mapping to the original.
struct Folded {
    text: String,
    /// The parts whose bytes changed, except one byte replaced by one byte: start and end in the folded text and in the
    /// original.
    changed: Vec<[(usize, usize); 2]>,
}

/// A text as taggers expect it, with a mapping to the original: in plain characters, with escapes of JSON and HTML
/// replaced, and accents composed with their letters.
pub(super) struct Composed<'a> {
    plain: Plain<'a>,
    /// `None` if there is no separate accent.
    folded: Option<Folded>,
}

impl<'a> Composed<'a> {
    /// Returns each reading of the text: one, or two if it contains controls.
    pub(super) fn readings(text: &'a str) -> impl Iterator<Item = Self> {
        let plain = Plain::of(text);
        let apart = plain.apart(text);
        std::iter::once(plain).chain(apart).map(Self::of)
    }

    fn of(plain: Plain<'a>) -> Self {
        // The first bytes of U+0300 to U+036F.
        let apart = plain.text.bytes().any(|byte| matches!(byte, 0xcc | 0xcd));
        let composed = |cluster: &str, out: &mut String| out.extend(cluster.nfc().map(|(c, _)| c));
        Self {
            folded: apart.then(|| Folded::by(&plain.text, false, composed)),
            plain,
        }
    }

    pub(super) fn text(&self) -> &str {
        let plain = &*self.plain.text;
        self.folded.as_ref().map_or(plain, |folded| &folded.text)
    }

    /// Returns the range in the original, including all accents of the last character.
    pub(super) fn place(&self, range: Range<usize>) -> Range<usize> {
        let (start, end) = match &self.folded {
            Some(folded) => folded.place(range.start, range.end),
            None => (range.start, range.end),
        };
        let accents = self.plain.text[end..]
            .chars()
            .take_while(|c| is_combining_mark(*c));
        let end = end + accents.map(char::len_utf8).sum::<usize>();
        self.plain.place(start)..self.plain.place(end)
    }
}

impl Folded {
    fn of(text: &str, any_case: bool) -> Self {
        Self::by(text, any_case, |cluster, folded| {
            fold(cluster, any_case, folded);
        })
    }

    /// Folds with `fold` all but the ASCII characters that are clusters of their own, which most texts consist of.
    fn by(text: &str, any_case: bool, fold: impl Fn(&str, &mut String)) -> Self {
        // A line break becomes a space; the others stay one byte each.
        let spacing = |byte: u8| (byte == b' ') | (byte.wrapping_sub(b'\t') < 5);
        let others = |byte: u8, next: u8| {
            (byte >= 0x80) | (next >= 0x80) | (spacing(byte) & ((byte != b' ') | spacing(next)))
        };
        let mut folded = String::with_capacity(text.len());
        let mut changed = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let alone = first_of(text.as_bytes(), at, others, others).unwrap_or(text.len());
            folded.push_str(&text[at..alone]);
            if any_case {
                let begin = folded.len() - (alone - at);
                folded[begin..].make_ascii_lowercase();
            }
            at = alone;
            if at == text.len() {
                break;
            }
            let from = (folded.len(), at);
            at += cluster(&text[at..]);
            fold(&text[from.1..at], &mut folded);
            // The same number of bytes may be different characters with other boundaries.
            let one = folded.len() - from.0 == 1 && at - from.1 == 1;
            if !one && folded[from.0..] != text[from.1..at] {
                changed.push([from, (folded.len(), at)]);
            }
        }
        Self {
            text: folded,
            changed,
        }
    }

    /// Maps a start and an end to the original: extends them over characters that they lie within, but not over
    /// invisible characters around them.
    fn place(&self, start: usize, end: usize) -> (usize, usize) {
        let first = self.changed.partition_point(|[_, to]| to.0 <= start);
        let last = (self.changed).partition_point(|[from, to]| to.0 <= end && from.0 < end);
        let behind = |changes: usize, at: usize| match changes.checked_sub(1) {
            Some(before) => self.changed[before][1].1 + at - self.changed[before][1].0,
            None => at,
        };
        let start = match self.changed.get(first) {
            Some([from, _]) if from.0 < start => from.1,
            _ => behind(first, start),
        };
        let end = match self.changed.get(last) {
            Some([from, to]) if from.0 < end => to.1,
            _ => behind(last, end),
        };
        (start, end)
    }
}

/// Returns whether a character is a letter, a digit, or an accent on the previous character.
pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() && is_combining_mark(c)
}

/// Returns whether a letter, digit or mark continues the match on either side. A side that does not end in a letter or
/// digit needs no boundary, and neither does one where either character is of a script without spaces.
fn continued(text: &str, start: usize, end: usize) -> bool {
    let (word, before, after) = (&text[start..end], &text[..start], &text[end..]);
    goes_on(before, word) || goes_on(word, after)
}

/// Returns whether a text goes on in what follows it within a word or a number. Scripts without spaces have no such end.
///
/// ```
/// use reticent_corpus::policy::goes_on;
/// assert!(goes_on("José", "phine") && goes_on("12", "3"));
/// assert!(!goes_on("José", " and") && !goes_on("王", "小明"));
/// ```
#[must_use]
pub fn goes_on(text: &str, following: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| in_word(c) && !is_unspaced(c));
    inside(text.chars().next_back()) && inside(following.chars().next())
}

/// Returns whether a character is of a script that writes words, or (Korean) particles, without spaces between them.
const fn is_unspaced(c: char) -> bool {
    matches!(c,
        // Thai, Lao, Myanmar, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{19e0}'..='\u{19ff}'
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        // Hangul.
        | '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        // Radicals, Han, kana, bopomofo and Hangul for compatibility.
        | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}'
        | '\u{1aff0}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}')
}

/// A text as dictionaries compare it in any case, without what stands between digits and is no letter, with a mapping to the
/// original.
pub(crate) struct JoinedNumbers<'a> {
    pub(crate) text: String,
    /// Where something is left out, and the number of bytes that are left out up to there.
    left_out: Vec<(usize, usize)>,
    folded: Folded,
    plain: Plain<'a>,
}

impl<'a> JoinedNumbers<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let plain = Plain::of(text);
        let folded = Folded::of(&plain.text, true);
        let mut joined = String::with_capacity(folded.text.len());
        let mut left_out = Vec::new();
        let mut rest = folded.text.as_str();
        while let Some(c) = rest.chars().next() {
            joined.push(c);
            rest = &rest[c.len_utf8()..];
            if c.is_numeric() {
                let behind = rest.trim_start_matches(|c| !in_word(c));
                if behind.len() < rest.len() && behind.starts_with(char::is_numeric) {
                    rest = behind;
                    let read = folded.text.len() - rest.len();
                    left_out.push((joined.len(), read - joined.len()));
                }
            }
        }
        Self {
            text: joined,
            left_out,
            folded,
            plain,
        }
    }

    /// Maps a range to the original.
    pub(crate) fn place(&self, range: Range<usize>) -> Range<usize> {
        let with_left_out = |at: usize, parts: usize| {
            let before = parts.checked_sub(1);
            at + before.map_or(0, |last| self.left_out[last].1)
        };
        // What is left out at an end of the range is no part of it.
        let first = self.left_out.partition_point(|(at, _)| *at <= range.start);
        let last = self.left_out.partition_point(|(at, _)| *at < range.end);
        let (start, end) = self.folded.place(
            with_left_out(range.start, first),
            with_left_out(range.end, last),
        );
        self.plain.place(start)..self.plain.place(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reticent_disk::folded_word;

    fn folded(text: &str) -> String {
        Folded::of(text, true).text
    }

    /// As many bytes as before, and other characters: an accent that is composed stands before one that isn't.
    #[test]
    fn composed_accents_change_places() {
        let composed = Composed::of(Plain::of("a\u{20d0}\u{323}b"));
        assert_eq!(composed.text(), "\u{1ea1}\u{20d0}b");
        assert_eq!(composed.place(0..3), 0..6);
        assert_eq!(composed.place(6..7), 6..7);
    }

    #[test]
    fn what_reads_alike_is_alike() {
        for (text, same) in [
            ("Zoe\u{308} MÜLLER", "zo\u{eb} müller"),
            ("Ada\u{a0}\r\n  King", "ada king"),
            ("O\u{2019}Neil \u{201c}x\u{201d}", "o'neil \"x\""),
            ("219\u{2011}09 \u{ff21}da\u{ad}ma", "219-09 adama"),
            ("Ada \u{200b} \u{200b}\u{200c} King", "ada king"),
            ("Ada\u{200b} \u{200b}King", "ada king"),
            // The capital letter has no composed form, and full-width letters have none.
            ("J\u{30c} \u{ff25}\u{301}", "\u{1f0} \u{e9}"),
            ("e\u{200b}\u{301}", "\u{e9}"),
            ("\u{1100}\u{1161}\u{11a8} \u{212b}", "\u{ac01} \u{e5}"),
            (
                "a\u{323}\u{307} a\u{307}\u{323}",
                "\u{1ea1}\u{307} \u{1ea1}\u{307}",
            ),
        ] {
            assert_eq!(folded(text), same);
            assert_eq!(folded_word(text, true), same);
        }
        for (text, joined) in [
            ("A 4111-1111 1111.1 b. 1 - 2 x", "a 4111111111111 b. 12 x"),
            ("\u{ff11}\u{a0}\u{661} v. 2-a", "11 v. 2-a"),
            (r"4111\n1111", "41111111"),
            (
                "(415) 555/01,2_3 +1(4) 1a2 1\u{301} 2",
                "(4155550123141a21\u{301} 2",
            ),
        ] {
            let found = JoinedNumbers::of(text);
            assert_eq!(found.text, joined, "{text}");
            assert_eq!(found.place(0..joined.len()), 0..text.len(), "{text}");
        }
        assert_eq!(Folded::of("Ada", false).text, "Ada");
        assert_eq!(folded_word(" Ada\t", true), "ada");
        assert_eq!(folded_word("\u{200b}", true), "");
    }

    #[test]
    fn joined_numbers_have_their_places() {
        let text = "\u{e9} (415)\u{a0}555-01 23, \u{ff11}\u{200b}/2";
        let joined = JoinedNumbers::of(text);
        assert_eq!(joined.text, "\u{e9} (415555012312");
        for (part, place) in [
            ("415", "415"),
            ("4155", "415)\u{a0}5"),
            ("5501", "55-01"),
            ("0123", "01 23"),
            ("(415555", "(415)\u{a0}555"),
            ("23", "23"),
            ("312", "3, \u{ff11}\u{200b}/2"),
        ] {
            let at = joined.text.find(part).unwrap();
            assert_eq!(&text[joined.place(at..at + part.len())], place, "{part}");
        }
    }

    /// All texts of up to four of these pieces, long and short: a run of ASCII characters folds as each of them does.
    #[test]
    fn runs_of_ascii_fold_as_their_characters_do() {
        let pieces = [
            "a", "B", "'", " ", "\t", "\n", "\u{b}", "\0", "\u{301}", "\u{200b}", "\u{a0}",
            "\u{c9}",
        ];
        let mut texts = vec![String::new()];
        for _ in 0..4 {
            let longer = texts
                .iter()
                .flat_map(|text| pieces.map(|piece| format!("{text}{piece}")));
            texts = longer.chain([String::new()]).collect();
        }
        texts.push("Long Text  of ASCII, and\nmore\u{301} ".repeat(9));
        for (text, any_case) in texts.iter().flat_map(|text| [(text, true), (text, false)]) {
            let (mut one_by_one, mut at) = (String::new(), 0);
            while at < text.len() {
                let end = at + cluster(&text[at..]);
                fold(&text[at..end], any_case, &mut one_by_one);
                at = end;
            }
            assert_eq!(Folded::of(text, any_case).text, one_by_one, "{text:?}");
            assert_eq!(folded_word(text, any_case), one_by_one.trim(), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Places are of whole characters, in order, and what lies between them folds to what was found there.
        /// Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.
        #[test]
        fn places_hold_what_was_found(
            text in "[ aA\u{e9}e\u{301}\u{a0}\n\u{200b}\u{1100}\u{1161}\u{ac00}\u{130}\u{2011}\u{ff11}\u{323}\u{20d0}]{0,24}",
        ) {
            let whole = Folded::of(&text, true);
            let ends: Vec<usize> = (0..=whole.text.len())
                .filter(|at| whole.text.is_char_boundary(*at))
                .collect();
            for (i, start) in ends.iter().enumerate() {
                for end in &ends[i + 1..] {
                    let (from, to) = whole.place(*start, *end);
                    prop_assert!(from < to && to <= text.len());
                    let part = folded(&text[from..to]);
                    prop_assert!(part.contains(&whole.text[*start..*end]), "{part:?}");
                }
            }
        }

        /// The same of accents on letters, with what is not seen and a dash between; spaces and marks around letters are composed
        /// otherwise in parts.
        #[test]
        fn composed_places_hold_what_was_found(
            text in "[aAe\u{301}\u{e9}\u{2011}\u{200b}\u{323}\u{200e}]{0,24}",
        ) {
            let composed = Composed::of(Plain::of(&text));
            let ends: Vec<usize> = (0..=composed.text().len())
                .filter(|at| composed.text().is_char_boundary(*at))
                .collect();
            for (i, start) in ends.iter().enumerate() {
                for end in &ends[i + 1..] {
                    let place = composed.place(*start..*end);
                    let part = &text[place.clone()];
                    let apart = |text: &str| -> String { text.nfd().map(|(c, _)| c).collect() };
                    let found = apart(&composed.text()[*start..*end]);
                    let again = apart(Composed::of(Plain::of(part)).text());
                    prop_assert!(again.contains(&found), "{part:?}");
                    prop_assert!(!text[place.end..].starts_with(is_combining_mark));
                }
            }
        }
    }
}
