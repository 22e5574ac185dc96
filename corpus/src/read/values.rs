//! A field of metadata: one value or a list of them.

use serde_json::{Map, Number, Value};

/// Whether a text of JSON has a number that would be written as another one: a whole one that no 64 bits hold, or one with
/// more digits, or farther out, than a double has.
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
        let text = std::str::from_utf8(word).unwrap_or_default();
        text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
            && serde_json::from_str(text)
                .is_ok_and(|number: Number| digits(text) != digits(&number.to_string()))
    })
}

/// A number's sign, its digits without zeros around them, and the power of ten of the last; whether it is written as a
/// whole one, where it is zero.
fn digits(number: &str) -> (bool, String, i64, bool) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = whole.trim_start_matches('-').to_owned() + part;
    let kept = all.trim_end_matches('0');
    let digits = kept.trim_start_matches('0').to_owned();
    let zero = digits.is_empty();
    // An exponent beyond 64 bits is no double's.
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    let last = exponent - part.len() as i64 + (all.len() - kept.len()) as i64;
    let is_whole = zero && number == whole;
    (
        number.starts_with('-'),
        digits,
        if zero { 0 } else { last },
        is_whole,
    )
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
            (
                "[0, 0.0, -0.0, 0e5, 1.50, 100, 0.001e3, 2.5e-7, true, null]",
                false,
            ),
            ("[-0]", true),
            ("[1e-400]", true),
            ("[123456789.123456789123456789]", true),
            ("{\"a\": 9007199254740993.0}", true),
            ("[0.1, 9007199254740992.0, 4.9406564584124654e-324]", true),
            ("[0.1, 9007199254740992.0, 5e-324]", false),
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
