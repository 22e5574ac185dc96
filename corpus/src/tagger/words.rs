//! Splits text into sentences and words, with their places.

use crate::policy::MASKED;
use std::ops::Range;

/// Longer sentences are cut at the next white space; the tagger learns no longer dependencies.
pub(crate) const LONGEST_SENTENCE: usize = 256;

/// The largest number of words passed at once if there is no white space: the cost of a sentence may be quadratic in
/// its length.
const MOST_AT_ONCE: usize = 2 * LONGEST_SENTENCE;

/// Word endings that are separate words, with either apostrophe.
const CLITICS: [&str; 14] = [
    "n't", "n’t", "'s", "’s", "'re", "’re", "'ve", "’ve", "'ll", "’ll", "'d", "’d", "'m", "’m",
];

/// Abbreviations whose full stop does not end a sentence.
const SHORT_FORMS: &str =
    " mr mrs ms dr prof st jr sr vs etc inc ltd co corp no gen col sgt capt rev hon gov sen rep ";

/// The length of the longest abbreviation, in bytes; longer words are not searched for.
const LONGEST_SHORT_FORM: usize = 8;

/// Passes the words of each sentence to `each`, as byte ranges of the text.
pub(crate) fn sentences(text: &str, mut each: impl FnMut(&[Range<usize>])) {
    let mut sentence: Vec<Range<usize>> = Vec::new();
    let mut give = |sentence: &mut Vec<Range<usize>>| {
        sentence.chunks(MOST_AT_ONCE).for_each(&mut each);
        sentence.clear();
    };
    let mut start = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        let mut at = start;
        for piece in line.split_inclusive(char::is_whitespace) {
            let chunk = piece.trim_end();
            let mut ended = false;
            if !chunk.is_empty() {
                let first = at == start;
                cut(text, at..at + chunk.len(), &mut sentence);
                ended = speaker(chunk, first) || ends(text, &sentence);
            }
            at += piece.len();
            if ended || sentence.len() >= LONGEST_SENTENCE {
                give(&mut sentence);
            }
        }
        start += line.len();
        give(&mut sentence);
    }
}

/// Returns whether a chunk is a speaker mark: `USR:` at the beginning of a line is not part of the sentence.
fn speaker(chunk: &str, first: bool) -> bool {
    let name = chunk.strip_suffix(':');
    first && name.is_some_and(|n| !n.is_empty() && n.chars().all(char::is_uppercase))
}

/// Returns whether the last word ends a sentence.
fn ends(text: &str, sentence: &[Range<usize>]) -> bool {
    let closing = |w: &&Range<usize>| matches!(&text[w.start..w.end], "\"" | "'" | ")" | "”" | "’");
    let last = sentence.iter().rev().find(|w| !closing(w));
    last.is_some_and(|w| {
        text[w.start..w.end].ends_with(['.', '!', '?']) && stop(&text[w.start..w.end])
    })
}

/// Returns whether a word consists only of punctuation, so that a full stop inside a word does not count.
fn stop(word: &str) -> bool {
    word.chars().all(|c| !c.is_alphanumeric())
}

/// Splits the text between two white spaces into words.
fn cut(text: &str, chunk: Range<usize>, words: &mut Vec<Range<usize>>) {
    let piece = &text[chunk.clone()];
    // Most chunks are single words.
    if piece.bytes().all(|b| b.is_ascii_alphanumeric()) || whole(piece) {
        words.push(chunk);
        return;
    }
    let mut start = chunk.start;
    let mut tail = Vec::new();
    let mut end = chunk.end;
    // Punctuation before the word, one token per character.
    for c in piece.chars() {
        if begins_word(c) || start >= end {
            break;
        }
        words.push(start..start + c.len_utf8());
        start += c.len_utf8();
    }
    // Punctuation after the word; runs of one character are one token.
    while start < end {
        let rest = &text[start..end];
        let Some(last) = rest.chars().next_back() else {
            break;
        };
        if last.is_alphanumeric() || (last == '.' && abbreviation(rest)) {
            break;
        }
        let kept = rest.trim_end_matches(last).len();
        tail.push(start + kept..end);
        end = start + kept;
    }
    inside(text, start..end, words);
    words.extend(tail.into_iter().rev());
}

/// Returns whether a chunk stays in one piece: links, addresses and user names. In quotes or brackets, as in HTML and
/// Markdown, other words stand beside them.
fn whole(piece: &str) -> bool {
    let link = piece.contains("://")
        || piece.starts_with("www.")
        || (piece.contains('@') && piece.ends_with(char::is_alphanumeric));
    link && !piece.contains(['"', '<', '>', '[', ']', '|'])
}

fn begins_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '@' | '#' | '$' | '€' | '£')
}

/// Returns whether a word is an abbreviation: `Mr.`, `J.`, `U.S.`
fn abbreviation(word: &str) -> bool {
    let stem = word.trim_end_matches('.');
    if word.len() != stem.len() + 1 {
        return false;
    }
    let mut letters = stem.chars();
    let single = letters.next().is_some_and(char::is_uppercase) && letters.next().is_none();
    let dotted = stem.contains('.') && stem.split('.').all(|part| part.chars().count() == 1);
    let short = || SHORT_FORMS.contains(&format!(" {} ", stem.to_ascii_lowercase()));
    single || dotted || (stem.len() <= LONGEST_SHORT_FORM && short())
}

/// Splits a word without punctuation at its ends at slashes, masks and contractions.
fn inside(text: &str, range: Range<usize>, words: &mut Vec<Range<usize>>) {
    let mut start = range.start;
    let mut chars = text[range.clone()].char_indices().peekable();
    // Depends on the whole word, and is therefore computed once per mark.
    let mut long = ['/', ':', '.'].map(|mark| (mark, None));
    let mut long_sides = |mark: char| {
        long.iter_mut()
            .find(|(of, _)| *of == mark)
            .is_some_and(|(_, known)| {
                *known.get_or_insert_with(|| long_sides(&text[range.clone()], mark))
            })
    };
    while let Some((at, c)) = chars.next() {
        let at = range.start + at;
        let next = chars.peek().map(|(_, c)| *c);
        let letters = text[start..at]
            .chars()
            .next_back()
            .is_some_and(char::is_alphabetic)
            && next.is_some_and(char::is_alphabetic);
        let breaks = c == MASKED
            || matches!(
                c,
                ',' | ';'
                    | '('
                    | ')'
                    | '['
                    | ']'
                    | '{'
                    | '}'
                    | '"'
                    | '“'
                    | '”'
                    | '—'
                    | '…'
                    | '!'
                    | '?'
                    | '='
                    | '<'
                    | '>'
                    | '|'
                    | '*'
            )
            || (matches!(c, '/' | ':' | '.') && letters && long_sides(c));
        if breaks {
            word(text, start..at, words);
            words.push(at..at + c.len_utf8());
            start = at + c.len_utf8();
        }
    }
    word(text, start..range.end, words);
}

/// Returns whether to split at a mark: `either/or` and `end.Begin` are split, `U.S.A`, `e.g` and `3/4` are not.
fn long_sides(word: &str, mark: char) -> bool {
    let least = if mark == '/' { 2 } else { 3 };
    let long = |part: &str| part.chars().filter(|c| c.is_alphabetic()).count() >= least;
    word.split(mark).filter(|part| !part.is_empty()).all(long)
}

/// Appends a word, with its contraction and the punctuation behind it, if any, as separate words.
fn word(text: &str, range: Range<usize>, words: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    let kept = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
    let end = match kept.is_empty() || piece.ends_with('.') && abbreviation(piece) {
        true => range.end,
        false => range.start + kept.len(),
    };
    unmarked(text, range.start..end, words);
    if end < range.end {
        words.push(end..range.end);
    }
}

/// Appends a word, with its contraction, if any, as a separate word.
fn unmarked(text: &str, range: Range<usize>, words: &mut Vec<Range<usize>>) {
    if range.is_empty() {
        return;
    }
    let plain = &text.as_bytes()[range.clone()];
    let contracted = plain.iter().any(|b| matches!(b, b'\'' | 0xe2));
    for form in CLITICS.iter().filter(|_| contracted) {
        let split = plain.len().checked_sub(form.len()).filter(|at| *at > 0);
        if split.is_some_and(|at| plain[at..].eq_ignore_ascii_case(form.as_bytes())) {
            let at = range.end - form.len();
            words.push(range.start..at);
            words.push(at..range.end);
            return;
        }
    }
    words.push(range);
}

#[cfg(test)]
mod tests {
    use super::sentences;

    fn words(text: &str) -> Vec<Vec<&str>> {
        let mut out = Vec::new();
        sentences(text, |s| {
            out.push(s.iter().map(|w| &text[w.clone()]).collect())
        });
        out
    }

    #[test]
    fn sentences_and_words_are_cut_where_a_reader_cuts_them() {
        assert_eq!(
            words("USR: Did you hear Alice isn't here? (Mr. O'Hara said so.)"),
            [
                vec!["USR", ":"],
                vec!["Did", "you", "hear", "Alice", "is", "n't", "here", "?"],
                vec!["(", "Mr.", "O'Hara", "said", "so", ".", ")"],
            ]
        );
        assert_eq!(
            words("It’s $5, @ada: see http://x.org/a.b either/or\u{fffc}!!"),
            [vec![
                "It",
                "’s",
                "$5",
                ",",
                "@ada",
                ":",
                "see",
                "http://x.org/a.b",
                "either",
                "/",
                "or",
                "\u{fffc}",
                "!!"
            ]]
        );
        // Words of HTML and Markdown are those that a reader sees.
        assert_eq!(
            words("Chloe.<br>Bye [Ada](http://x) <a href=\"http://x\">Ada</a> *Ada*|Mr.|x Ada:<"),
            [vec![
                "Chloe", ".", "<", "br", ">", "Bye", "[", "Ada", "]", "(", "http://x", ")", "<",
                "a", "href", "=", "\"", "http://x", "\"", ">", "Ada", "<", "/a", ">", "*", "Ada",
                "*", "|", "Mr.", "|", "x", "Ada", ":", "<"
            ]]
        );
        assert!(words(" \n\t ").is_empty());
    }

    /// Without white space too, sentences end.
    #[test]
    fn no_sentence_is_long() {
        for text in ["=".repeat(3000), "\0_".repeat(1500)] {
            let mut found = words(&text);
            assert!(found.len() > 1 && found.iter().all(|s| !s.is_empty()));
            assert!(found.iter().all(|s| s.len() <= super::MOST_AT_ONCE));
            let rejoined: String = found.drain(..).flatten().collect();
            assert_eq!(rejoined, text);
        }
    }

    /// Whatever the text, words lie in it in order, apart, on boundaries of characters, and
    /// leave out nothing but white space.
    #[test]
    fn words_cover_any_text() {
        let pieces = [
            "a", "'", "’s", "n't", ".", "…", "\u{fffc}", "é", " ", "\n", "/", "Mr.", "😀", "@",
            "1", "\u{301}",
        ];
        let mut draw = crate::draws(7);
        for _ in 0..3000 {
            let text: String = (0..12).map(|_| pieces[draw(pieces.len())]).collect();
            let mut end = 0;
            sentences(&text, |sentence| {
                for word in sentence {
                    assert!(word.start >= end && word.start < word.end, "{text:?}");
                    assert!(text[end..word.start].trim().is_empty(), "{text:?}");
                    end = word.end;
                }
            });
            assert!(text[end..].trim().is_empty(), "{text:?}");
        }
    }
}
