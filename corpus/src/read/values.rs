//! A field of metadata: one value or a list of them.

use serde_json::{Map, Value};

/// Whether a text of JSON has a whole number that would be written as one with a point: one that no 64 bits hold, or -0.
/// A number with a point is a double to whoever reads it, and stays that.
///
/// ```
/// use reticent_corpus::read::has_number_beyond_64_bits;
/// assert!(has_number_beyond_64_bits(b"[18446744073709551616, 1]"));
/// assert!(!has_number_beyond_64_bits(b"[0.1, 1e30]"));
/// ```
#[must_use]
pub fn has_number_beyond_64_bits(json: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    let outside = |byte: &u8| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
        quoted || !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
    };
    json.split(outside).any(|word| {
        let number = word.strip_prefix(b"-").unwrap_or(word);
        let whole = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(word).unwrap_or_default();
        let held = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        whole && (!held || word == b"-0")
    })
}

/// The values of a field of an object: text, numbers, or a list of them. Nothing, `null` and
/// empty text are none.
pub(super) fn of_object(object: &Map<String, Value>, field: &str) -> Result<Vec<String>, String> {
    match object.get(field) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list
            .iter()
            .map(|value| single(value, field))
            .filter_map(Result::transpose)
            .collect(),
        Some(value) => Ok(single(value, field)?.into_iter().collect()),
    }
}

fn single(value: &Value, field: &str) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok((!text.is_empty()).then(|| text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(format!(
            "{field} must be text, a number, or a list of them, got {}",
            match value {
                Value::Object(_) => "an object",
                Value::Array(_) => "a list in a list",
                _ => "a truth value",
            }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_are_seen_outside_texts() {
        for (json, beyond) in [
            (
                "{\"a\":18446744073709551615,\"b\":-9223372036854775808}",
                false,
            ),
            ("{\"a\": 18446744073709551616}", true),
            ("[-9223372036854775809]", true),
            ("[1e30, 18446744073709551616.0, 1E+30]", false),
            ("[0, -0.0, 1.50, 1e-400, 0.30000000000000004441]", false),
            ("[-0]", true),
            (
                "{\"99999999999999999999\":\"\\\"99999999999999999999\"}",
                false,
            ),
            ("99999999999999999999", true),
        ] {
            assert_eq!(has_number_beyond_64_bits(json.as_bytes()), beyond, "{json}");
        }
    }
}
