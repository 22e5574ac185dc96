//! Text as its writer could have typed it: what looks alike is one, so that words of dictionaries and values of tables are
//! compared by one rule.

use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::{canonical_combining_class, compose};

/// A word, or a value of a table, in the form that it has however it is typed: letters composed with their accents, white
/// space of any length as one space with none around, and dashes, quotation marks, digits and full-width forms as ASCII.
/// What is not seen parts neither.
///
/// ```
/// use reticent_disk::folded_word;
/// assert_eq!(folded_word(" Zoe\u{308}\u{a0} O\u{2019}NEIL", true), "zo\u{eb} o'neil");
/// assert_eq!(folded_word("Ada \u{200b} King", false), "Ada King");
/// ```
#[must_use]
pub fn folded_word(word: &str, any_case: bool) -> String {
    let mut folded = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let (first, behind) = rest.split_at(cluster(rest));
        fold(first, any_case, &mut folded);
        rest = behind;
    }
    folded.trim().to_owned()
}

/// What was typed for a character.
#[derive(Debug, Clone, Copy)]
pub enum Typed {
    /// This one.
    As(char),
    /// It is not seen: it would only part what belongs together.
    Nothing,
}

impl Typed {
    /// It, where it is seen.
    #[must_use]
    pub const fn shown(self) -> Option<char> {
        match self {
            Self::As(c) => Some(c),
            Self::Nothing => None,
        }
    }
}

/// The ASCII character that stands for one that looks like it.
#[must_use]
pub fn typed(c: char) -> Option<Typed> {
    let from = |first: char, ascii: u8| {
        char::from_u32(u32::from(c) - u32::from(first) + u32::from(ascii)).map(Typed::As)
    };
    match c {
        // Hyphens, the figure dash, the en dash, minus signs.
        '\u{2010}'..='\u{2013}' | '\u{2212}' | '\u{fe63}' => Some(Typed::As('-')),
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' | '\u{3000}' => Some(Typed::As(' ')),
        // The soft hyphen, spaces and joiners of no width.
        '\u{ad}'
        | '\u{34f}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}' => Some(Typed::Nothing),
        // Marks of direction, of how a character looks, and tags.
        '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0000}'..='\u{e007f}' => Some(Typed::Nothing),
        // Digits of Arabic and Persian.
        '\u{660}'..='\u{669}' => from('\u{660}', b'0'),
        '\u{6f0}'..='\u{6f9}' => from('\u{6f0}', b'0'),
        // Full-width forms lie in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => from('\u{ff01}', b'!'),
        _ => None,
    }
}

/// Whether not seen.
fn is_hidden(c: char) -> bool {
    matches!(typed(c), Some(Typed::Nothing))
}

/// Whether white space, or what is shown as such.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(typed(c), Some(Typed::As(' ')))
}

/// Bytes of what is folded as one: white space, or a character with the marks and letters that it is composed with, and
/// what is not seen between them; or a run of what is not seen.
#[must_use]
pub fn cluster(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return 0;
    }
    // Nothing is composed of ASCII alone.
    if !bytes[0].is_ascii_whitespace() && bytes[..bytes.len().min(2)].is_ascii() {
        return 1;
    }
    let mut chars = text.char_indices();
    let Some((_, mut last)) = chars.next() else {
        return 0;
    };
    let (blank, hidden) = (is_blank(last), is_hidden(last));
    let mut end = last.len_utf8();
    for (at, c) in chars {
        if is_hidden(c) && !hidden {
            // Part of it only where more of it follows.
            continue;
        }
        let joined = if blank {
            is_blank(c)
        } else {
            is_hidden(c) || canonical_combining_class(c) != 0 || compose(last, c).is_some()
        };
        if !joined {
            break;
        }
        end = at + c.len_utf8();
        last = compose(last, c).unwrap_or(c);
    }
    end
}

/// Appends such a cluster in the form that it is compared in.
pub fn fold(cluster: &str, any_case: bool, folded: &mut String) {
    let Some(first) = cluster.chars().next() else {
        return;
    };
    if first.is_ascii() && cluster.len() == 1 && !first.is_ascii_whitespace() {
        folded.push(match any_case {
            true => first.to_ascii_lowercase(),
            false => first,
        });
    } else if is_blank(first) {
        folded.push(' ');
    } else {
        let shown = cluster.chars().filter_map(|c| match typed(c) {
            Some(typed) => typed.shown(),
            None => Some(straight(c)),
        });
        // Composed last: some accents have a letter in one case alone, and what was not seen parts them no more.
        match any_case {
            true => folded.extend(shown.flat_map(char::to_lowercase).nfc().map(|(c, _)| c)),
            false => folded.extend(shown.nfc().map(|(c, _)| c)),
        }
    }
}

/// Quotation marks as they are typed.
const fn straight(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2bc}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        c => c,
    }
}
