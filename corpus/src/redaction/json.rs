//! Masks in a text that is JSON, such as the arguments of a tool call.

use crate::document::replaced;
use crate::tokenize::MASK_TEXT;
use serde::de::IgnoredAny;
use std::ops::Range;

/// Returns a JSON object or list with masks for ranges of its text, which must be in order and disjoint; `None` for any
/// other text. It stays JSON: a number that is masked becomes a string.
pub(super) fn masked_json(json: &str, ranges: &[Range<usize>]) -> Option<String> {
    let is_one = json.trim_start().starts_with(['{', '[']) && is_json(json);
    is_one.then(|| {
        let mut out = String::with_capacity(json.len());
        let mut from = 0;
        for (value, in_quotes) in values(json) {
            let first = ranges.partition_point(|range| range.end <= value.start);
            let touched = ranges[first..].iter().take_while(|r| r.start < value.end);
            let inside = |range: &Range<usize>| {
                range.start.max(value.start) - value.start..range.end.min(value.end) - value.start
            };
            let inside: Vec<Range<usize>> = touched.map(inside).collect();
            if inside.is_empty() || value.is_empty() {
                continue;
            }
            out.push_str(&json[from..value.start]);
            out.push_str(&match in_quotes {
                true => masked_string(&json[value.clone()], &inside),
                false => format!("\"{MASK_TEXT}\""),
            });
            from = value.end;
        }
        out.push_str(&json[from..]);
        out
    })
}

/// Masks ranges of a string, or all of it where that would cut an escape.
fn masked_string(text: &str, ranges: &[Range<usize>]) -> String {
    let masked = replaced(text, ranges, MASK_TEXT);
    match is_json(&format!("\"{masked}\"")) {
        true => masked,
        false => MASK_TEXT.to_owned(),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns the strings of valid JSON between their quotes, and its numbers and words, in order.
fn values(json: &str) -> Vec<(Range<usize>, bool)> {
    let bytes = json.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begins = at;
        at += 1;
        match byte {
            b'"' => {
                while let Some(&inside) = bytes.get(at).filter(|inside| **inside != b'"') {
                    at += 1 + usize::from(inside == b'\\');
                }
                out.push((begins + 1..at, true));
                at += 1;
            }
            byte if is_between(byte) => {}
            _ => {
                while bytes.get(at).is_some_and(|byte| !is_between(*byte)) {
                    at += 1;
                }
                out.push((begins..at, false));
            }
        }
    }
    out
}

const fn is_between(byte: u8) -> bool {
    matches!(
        byte,
        b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_json_is_json() {
        let masked = |json: &str, words: &[&str]| {
            let place = |word: &&str| json.find(*word).map(|at| at..at + word.len());
            let ranges: Vec<Range<usize>> = words.iter().filter_map(place).collect();
            masked_json(json, &ranges)
        };
        for (json, words, out) in [
            (
                r#"{"a": -12.5e3, "b": [77,true]}"#,
                &["2.5", "77,t"][..],
                r#"{"a": "<MASK>", "b": ["<MASK>","<MASK>"]}"#,
            ),
            (
                r#"{"a": "x \" 12", "b": ""}"#,
                &["12"],
                r#"{"a": "x \" <MASK>", "b": ""}"#,
            ),
            // Over the border of two values, and half an escape.
            (
                r#"["ab", "cd"]"#,
                &[r#"b", "c"#],
                r#"["a<MASK>", "<MASK>d"]"#,
            ),
            (r#"["a\nb", 1]"#, &["nb"], r#"["<MASK>", 1]"#),
            (r#"{"k12": 1}"#, &["12"], r#"{"k<MASK>": 1}"#),
            ("[12 ", &["12"], ""),
            ("12", &["12"], ""),
        ] {
            assert_eq!(masked(json, words).unwrap_or_default(), out, "{json}");
        }
    }
}
