//! Where a TOML text is wrong, without any of its values.

/// The line of an error, and the key on it: `line 2, recipe`.
#[must_use]
pub fn toml_place(text: &str, error: &toml::de::Error) -> String {
    let line = toml_line(text, error);
    let key = text
        .lines()
        .nth(line - 1)
        .and_then(|line| line.split_once('='));
    let key = key.map(|(key, _)| key.trim()).filter(|key| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !key.is_empty() && key.chars().all(plain)
    });
    match key {
        Some(key) => format!("line {line}, {key}"),
        None => format!("line {line}"),
    }
}

/// The line of an error, counted from 1.
#[must_use]
pub fn toml_line(text: &str, error: &toml::de::Error) -> usize {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    before.matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_and_its_key_are_named() {
        let place = |text: &str| {
            let error = toml::from_str::<std::collections::BTreeMap<String, u8>>(text).unwrap_err();
            toml_place(text, &error)
        };
        assert_eq!(place("a = 1\nb = \"secret = 3\"\n"), "line 2, b");
        assert_eq!(place("a = 1\n\n\"a secret\" = \"b\"\n"), "line 3");
        assert_eq!(place("a secret"), "line 1");
    }
}
