//! Folding of words for comparison: spellings that look alike are equal. Words of dictionaries and values of tables are
//! compared by this one rule.

use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::{canonical_combining_class, compose};

/// Returns a word, or a value of a table, in its folded form: letters composed with their accents, runs of white space as
/// one space with none around, and dashes, quotation marks, digits and full-width forms as ASCII. Invisible characters
/// are removed.
///
/// ```
/// use reticent_disk::folded_word;
/// assert_eq!(folded_word(" Zoe\u{308}\u{a0} O\u{2019}NEIL", true), "zo\u{eb} o'neil");
/// assert_eq!(folded_word("Ada \u{200b} King", false), "Ada King");
/// ```
#[must_use]
pub fn folded_word(word: &str, any_case: bool) -> String {
    // Each of these characters is folded by itself, and only its case changes.
    let alone = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    if word.as_bytes().iter().all(alone) && !word.as_bytes().windows(2).any(|pair| pair == b"  ") {
        let word = word.trim_matches(' ');
        return match any_case {
            true => word.to_ascii_lowercase(),
            false => word.to_owned(),
        };
    }
    let mut folded = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let (first, behind) = rest.split_at(cluster(rest));
        fold(first, any_case, &mut folded);
        rest = behind;
    }
    folded.trim().to_owned()
}

/// What a character is folded to.
#[derive(Debug, Clone, Copy)]
pub enum Typed {
    /// This character.
    As(char),
    /// An invisible character, which would only separate what belongs together.
    Nothing,
}

impl Typed {
    /// Returns the character, unless it is invisible.
    #[must_use]
    pub const fn shown(self) -> Option<char> {
        match self {
            Self::As(c) => Some(c),
            Self::Nothing => None,
        }
    }
}

/// Returns the ASCII character for a look-alike, or that a character is invisible.
///
/// Control characters and separators of lines stay: a number usually ends where its line or its column does.
#[must_use]
pub fn typed(c: char) -> Option<Typed> {
    let from = |first: char, ascii: u8| {
        char::from_u32(u32::from(c) - u32::from(first) + u32::from(ascii)).map(Typed::As)
    };
    if c.is_ascii() {
        return None;
    }
    match c {
        // Hyphens, the figure dash, the en dash, minus signs.
        '\u{2010}'..='\u{2013}' | '\u{2212}' | '\u{fe63}' => Some(Typed::As('-')),
        // Unicode's general category Zs.
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Some(Typed::As(' '))
        }
        // Unicode's property Default_Ignorable_Code_Point: the soft hyphen, joiners, marks of direction, fillers, variation
        // selectors, tags, and others.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Some(Typed::Nothing),
        // Arabic and Persian digits.
        '\u{660}'..='\u{669}' => from('\u{660}', b'0'),
        '\u{6f0}'..='\u{6f9}' => from('\u{6f0}', b'0'),
        // Full-width forms are in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => from('\u{ff01}', b'!'),
        _ => None,
    }
}

/// Returns whether a character is invisible.
fn is_hidden(c: char) -> bool {
    matches!(typed(c), Some(Typed::Nothing))
}

/// Returns whether a character is white space or is displayed as such.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(typed(c), Some(Typed::As(' ')))
}

/// Returns the number of bytes that are folded together: white space, or a character with the marks and letters that it
/// is composed with, each including invisible characters within; or a run of invisible characters.
#[must_use]
pub fn cluster(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return 0;
    }
    // ASCII characters are not composed with each other.
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
            // It belongs to the cluster only if more of the cluster follows.
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

/// Appends the folded form of a cluster.
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
        // Composed last: some accented letters exist in one case only, and invisible characters no longer separate them.
        match any_case {
            true => folded.extend(shown.flat_map(char::to_lowercase).nfc().map(|(c, _)| c)),
            false => folded.extend(shown.nfc().map(|(c, _)| c)),
        }
    }
}

/// Converts quotation marks to those on a keyboard.
const fn straight(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2bc}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        c => c,
    }
}
