//! What is wrong with a JSON text, without any of the text: it may be private.

/// The parser's message without values and keys of the text: the place, and what was expected.
#[must_use]
pub fn json_problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    if !error.is_data() {
        return said; // about syntax alone
    }
    let ours = ["missing field", "duplicate field"];
    if ours.iter().any(|start| said.starts_with(start)) {
        return said;
    }
    expected(&said).unwrap_or_else(|| {
        let (line, column) = (error.line(), error.column());
        format!("not what belongs there at line {line} column {column}")
    })
}

/// What a parser expected, which is ours, without what it found.
fn expected(said: &str) -> Option<String> {
    let (_, expected) = said.rsplit_once(", expected ")?;
    Some(format!("expected {expected}"))
}

/// The same of another parser's message: what its file holds is left out, what was expected stays.
#[cfg(feature = "findings")]
pub(crate) fn without_content(said: &str) -> String {
    let quoting = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "unknown field",
    ];
    if !quoting.iter().any(|start| said.starts_with(start)) {
        return said.to_owned(); // about syntax, or a field of ours
    }
    expected(said).unwrap_or_else(|| "not what belongs there".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        #[serde(rename = "missed")]
        _missed: bool,
    }

    #[test]
    fn nothing_of_the_text_is_repeated() {
        let secret = "123-45-6789";
        for (text, said) in [
            ("{\"missed\": \"123-45-6789\"}", "expected a boolean"),
            (
                "{\"missed\": \"a, expected 123-45-6789\"}",
                "expected a boolean",
            ),
            ("{\"123-45-6789\": true}", "expected `missed`"),
            ("{}", "missing field `missed`"),
            (
                "{\"missed\": true, \"missed\": true}",
                "duplicate field `missed`",
            ),
            ("{\"missed\": 123-45-6789}", "expected a boolean"),
            ("{\"missed\" 123-45-6789}", "line 1 column 11"),
        ] {
            let error = serde_json::from_str::<Line>(text).unwrap_err();
            let found = json_problem(&error);
            assert!(found.contains(said) && !found.contains(secret), "{found}");
        }
    }
}
