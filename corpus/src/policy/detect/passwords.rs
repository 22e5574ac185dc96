//! Finds passwords and keys that the text names as such, up to their last character.

use super::engine::Rule;
use std::ops::Range;

/// Words that name a password, in prose and, also after other words, in configurations.
const PASSWORD: &str = concat!(
    r"(?:password|passwd|pwd|passcode|passphrase|passwort|kennwort|mot de passe",
    r"|contrase(?-i:ñ|n)a|(?-i:пароль|Пароль))",
);
/// Words that name a key, in configurations only.
const KEY: &str = r"(?:[_-](?:secret|token)|api[_-]?key)";
/// What separates the word from the value: a colon, an equals sign or an arrow, the border of a table or of an element,
/// or `is`.
const SAID: &str = concat!(
    r#"["'`]?(?:(?: is)?[ \t]{0,4}(?:[:=]>?|:=|==)[ \t]{0,4}(?:\r?\n[ \t]{0,4})?"#,
    r"|[ \t]{0,4}\|[ \t]{0,4}|>| is )",
);
const ASSIGNED: &str = r#"["'`]?[ \t]{0,4}[:=][ \t]{0,4}"#;

/// The longest value, in bytes.
const LONGEST: usize = 1024;

pub(super) fn rules() -> [Rule; 2] {
    let rule =
        |pattern: String, value| Rule::new("api-key", 0.9, pattern).any_case().written(value);
    [
        rule(format!("{PASSWORD}{SAID}"), password),
        rule(format!("{KEY}{ASSIGNED}"), key),
    ]
}

/// Returns the value that follows. In quotation marks, it is everything between them. Otherwise it ends at white space
/// and, where it could be an ordinary word as in `password: please`, it must contain a digit or a symbol.
fn password(text: &str, said: Range<usize>) -> Option<Range<usize>> {
    let words = text[said.clone()].trim_end();
    let behind_is = words.ends_with(char::is_alphabetic);
    let is_assigned = said.len() == words.len() && words.ends_with(['=', '>']);
    value(text, said.end, |c| match (is_assigned, behind_is) {
        (true, _) => true,
        // `is case-sensitive`, `is user's`.
        (false, true) => c.is_ascii_digit() || "!@#$%^&*_+=~?|".contains(c),
        (false, false) => !c.is_alphabetic(),
    })
}

/// Returns the value of a key, which must have a digit and at least eight characters.
fn key(text: &str, said: Range<usize>) -> Option<Range<usize>> {
    let found = value(text, said.end, |c| c.is_ascii_digit())?;
    let value = &text[found.clone()];
    (value.len() >= 8 && value.contains(|c: char| c.is_ascii_digit())).then_some(found)
}

/// Returns a value of at least four characters: one in quotation marks, or one without in which some character is
/// `odd`.
fn value(text: &str, from: usize, odd: impl Fn(char) -> bool) -> Option<Range<usize>> {
    let behind = &text[from..];
    let behind = &behind[..behind.floor_char_boundary(LONGEST)];
    let line = behind.split(['\n', '\r']).next()?;
    let range = match quoted(line) {
        Some(range) => range,
        None => {
            let value = unquoted(line);
            value.contains(odd).then_some(0..value.len())?
        }
    };
    let count = line[range.clone()].chars().count();
    (count >= 4).then(|| from + range.start..from + range.end)
}

/// Returns the content of quotation marks that are escaped alike. The closing mark is the first one that no letter or
/// digit follows.
fn quoted(line: &str) -> Option<Range<usize>> {
    let escapes = line.len() - line.trim_start_matches('\\').len();
    let mark = line[escapes..].chars().next();
    let mark = mark.filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let begin = escapes + 1;
    let mut ends = line.match_indices(mark).map(|(at, _)| at).skip(1);
    let end = ends.find(|end| {
        let before = &line[begin..*end];
        let escaped_by = before.len() - before.trim_end_matches('\\').len();
        escaped_by == escapes && !line[end + 1..].starts_with(char::is_alphanumeric)
    })?;
    Some(begin..end - escapes)
}

/// Returns what precedes white space, the end of an HTML element or of a JSON string, without the punctuation that ends
/// the sentence.
fn unquoted(line: &str) -> &str {
    let value = line.split(char::is_whitespace).next().unwrap_or_default();
    let element = value.find("</").filter(|at| value[*at..].contains('>'));
    let text = value.match_indices('"').find(|(at, _)| {
        let after = value[at + 1..].chars().next();
        after.is_none_or(|c| ",:;}])".contains(c))
    });
    let member = value.find(",\"");
    let ends = [element, text.map(|(at, _)| at), member];
    let end = ends.into_iter().flatten().min().unwrap_or(value.len());
    value[..end].trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '\'', '`', '\\'])
}
