//! Finds the tags of a template as Jinja does.

use regex::Regex;
use std::ops::Range;

/// A tag `{%… word rest …%}` with the white-space control signs at both ends; `{{ … }}` has no
/// word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) place: Range<usize>,
    pub(super) before: &'a str,
    pub(super) word: &'a str,
    pub(super) rest: &'a str,
    pub(super) after: &'a str,
}

/// Returns the tags of a template, except those in comments, strings and raw blocks.
pub(super) fn tags(source: &str) -> Vec<Tag<'_>> {
    let Ok(raw_end) = Regex::new(r"\{%[-+]?\s*endraw\s*[-+]?%\}") else {
        return Vec::new(); // it is a regular expression
    };
    let (mut tags, mut at) = (Vec::new(), 0);
    while let Some(begin) = source[at..].find('{').map(|found| at + found) {
        let rest = &source[begin..];
        at = match rest.as_bytes().get(1) {
            Some(b'#') => begin + rest.find("#}").map_or(rest.len(), |end| end + 2),
            Some(b'{') => {
                let end = begin + expression(rest, "}}");
                tags.push(Tag {
                    place: begin..end,
                    before: "",
                    word: "",
                    rest: &source[begin..end],
                    after: "",
                });
                end
            }
            Some(b'%') => {
                let end = begin + expression(rest, "%}");
                let tag = tag(source, begin..end);
                let raw = tag.word == "raw";
                tags.push(tag);
                let rest = &source[end..];
                match raw {
                    true => end + raw_end.find(rest).map_or(rest.len(), |m| m.end()),
                    false => end,
                }
            }
            _ => begin + 1,
        };
    }
    tags
}

fn tag(source: &str, place: Range<usize>) -> Tag<'_> {
    let whole = &source[place.clone()];
    let inner = whole.strip_prefix("{%").unwrap_or(whole);
    let inner = inner.strip_suffix("%}").unwrap_or(inner);
    let sign = |c: char| c == '-' || c == '+';
    let (before, inner) = inner.split_at(usize::from(inner.starts_with(sign)));
    let (inner, after) = inner.split_at(inner.len() - usize::from(inner.ends_with(sign)));
    let inner = inner.trim();
    let word = inner.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let (word, rest) = inner.split_at(word.unwrap_or(inner.len()));
    Tag {
        place,
        before,
        word,
        rest: rest.trim_start(),
        after,
    }
}

/// Returns the length in bytes of a tag that ends with `close`, outside strings and brackets.
fn expression(text: &str, close: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let end = outside_strings(bytes, 2, |at| {
        if depth == 0 && bytes[at..].starts_with(close.as_bytes()) {
            return true;
        }
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        false
    });
    end.map_or(text.len(), |end| end + close.len())
}

/// Returns the first position from `at`, outside strings, for which `wanted` returns true.
pub(super) fn outside_strings(
    bytes: &[u8],
    mut at: usize,
    mut wanted: impl FnMut(usize) -> bool,
) -> Option<usize> {
    while let Some(byte) = bytes.get(at) {
        if wanted(at) {
            return Some(at);
        }
        if let quote @ (b'\'' | b'"') = byte {
            at += 1;
            while bytes.get(at).is_some_and(|b| b != quote) {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
        }
        at += 1;
    }
    None
}
