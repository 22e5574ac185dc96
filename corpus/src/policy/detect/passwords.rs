//! Passwords that are said to be one, to their last character.

use super::engine::{Candidate, Rule};

/// What stands before the value: the word, and a colon, an equals sign, an arrow or `is`.
const SAID: &str = concat!(
    r#"\b(?:password|passwd|pwd|passcode|passphrase|passwort|kennwort)["'`]?"#,
    r"(?:(?: is)?[ \t]{0,4}(?:[:=]>?|:=|==)[ \t]{0,4}| is )",
);

/// No password is longer, in bytes.
const LONGEST: usize = 256;

pub(super) fn rule() -> Rule {
    Rule::new("api-key", 0.9, SAID).any_case().checked(password)
}

/// The value without the words before it. In quotation marks all between them; else up to white space, with a digit or a mark
/// in it, as `please` may follow too.
fn password(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let behind = &c.text[c.end..];
    let behind = &behind[..behind.floor_char_boundary(LONGEST)];
    let line = behind.split(['\n', '\r']).next()?;
    let (start, value) = match quoted(line) {
        Some(value) => (c.end + 1, value),
        None => (
            c.end,
            unquoted(line, c.found().trim_end().ends_with(char::is_alphabetic))?,
        ),
    };
    (value.len() >= 4).then_some(Candidate {
        start,
        end: start + value.len(),
        ..c
    })
}

fn quoted(line: &str) -> Option<&str> {
    let mark = line
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let value = &line[1..];
    value.find(mark).map(|end| &value[..end])
}

fn unquoted(line: &str, behind_is: bool) -> Option<&str> {
    let value = line.split(char::is_whitespace).next()?;
    // The end of an element of HTML or of a value of JSON.
    let ends = ["</", ",'", "\""];
    let end = ends.iter().filter_map(|end| value.find(end)).min();
    let value = value[..end.unwrap_or(value.len())]
        .trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '\'', '`']);
    let odd = |c: char| match behind_is {
        // `is case-sensitive`, `is user's`.
        true => c.is_ascii_digit() || "!@#$%^&*_+=~?|".contains(c),
        false => !c.is_alphabetic(),
    };
    value.contains(odd).then_some(value)
}
