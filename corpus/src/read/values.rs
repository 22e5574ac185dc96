//! The values of a metadata field: one value or a list of values.

use serde_json::{Map, Value};

/// Returns whether a JSON text contains an integer that would be written as a floating-point number: one beyond 64
/// bits, or -0.
pub(super) fn has_whole_number_beyond_64_bits(json: &[u8]) -> bool {
    numbers(json).any(is_beyond)
}

/// Returns whether a JSON text contains a number that would change when written: such an integer, or a number with more
/// digits than a double keeps.
pub(super) fn has_number_beyond_64_bits(json: &[u8]) -> bool {
    numbers(json).any(|number| is_beyond(number) || is_rounded(number))
}

/// Returns whether an integer does not fit in 64 bits or is -0.
fn is_beyond(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let held = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    whole && (!held || number == "-0")
}

/// Returns whether a number with a decimal point or an exponent differs from its double as written.
fn is_rounded(number: &str) -> bool {
    let kept = number.parse::<f64>().is_ok_and(|double| {
        let written = format!("{double:e}");
        double.is_finite() && digits(&written) == digits(number)
    });
    !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-')
        && !kept
}

/// Returns the significant digits of a number, without leading and trailing zeros, and the power of ten of the last
/// one; `None` if it is not a number.
fn digits(number: &str) -> Option<(String, i64)> {
    let number = number.strip_prefix('-').unwrap_or(number);
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{part}");
    let significant = all.trim_end_matches('0');
    let behind = all.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let power: i64 = power.parse().ok()?;
    let power = power
        .checked_sub(i64::try_from(part.len()).ok()?)?
        .checked_add(i64::try_from(behind).ok()?)?;
    Some((significant.to_owned(), power))
}

/// Returns the numbers of a JSON text, outside strings.
fn numbers(json: &[u8]) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let outside = move |byte: &u8| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
        quoted || !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
    };
    let words = json.split(outside);
    words
        .filter_map(|word| std::str::from_utf8(word).ok())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

/// Returns the values of an object's field: text, numbers, or a list of them, but no list if `whose` says that the
/// field identifies the user. A missing field, `null` and empty text have no value.
pub(super) fn of_object(
    object: &Map<String, Value>,
    field: &str,
    whose: bool,
) -> Result<Vec<String>, String> {
    match object.get(field) {
        None => Ok(Vec::new()),
        Some(Value::Array(_)) if whose => Err(list_of_users(field)),
        Some(Value::Array(list)) => list
            .iter()
            .map(|value| single(value, field, whose))
            .filter_map(Result::transpose)
            .collect(),
        Some(value) => Ok(single(value, field, whose)?.into_iter().collect()),
    }
}

/// Returns the reason for rejecting a list of users, even of length one.
pub(super) fn list_of_users(field: &str) -> String {
    format!("must have one value under `{field}`, which says whose it is, got a list")
}

/// A whole number that was written with a point, as without: `1.0` is no other value than `1`. None for a fraction, and
/// where doubles skip whole numbers.
pub(super) fn whole_number(number: f64) -> Option<String> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    let whole = number.fract() == 0.0 && number.abs() < LIMIT;
    whole.then(|| (number as i64).to_string())
}

fn single(value: &Value, field: &str, whose: bool) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok((!text.is_empty()).then(|| text.clone())),
        Value::Number(number) if number.is_f64() => match number.as_f64().and_then(whole_number) {
            None if whose => Err(format!(
                "{field} says whose it is and must be a whole number or a text, got a fraction, or a number beyond 2^53"
            )),
            whole => Ok(Some(whole.unwrap_or_else(|| number.to_string()))),
        },
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(format!(
            "{field} must be {}, got {}",
            match whose {
                true => "text or a number",
                false => "text, a number, or a list of them",
            },
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
    fn numbers_that_would_be_others_are_seen_outside_texts() {
        for (json, rounded) in [
            ("[0.12345678901234567890123]", true),
            ("[1e-400, 1]", true),
            ("[0.30000000000000004441]", true),
            ("[18446744073709551616.0]", true),
            ("[1.0000000000000001]", true),
            ("[1e99999999999999999999]", true),
            (
                "[0, -0.0, 0e5, 1.50, 1.5E+3, 0.30000000000000004, 5e-324, 1e30, 100.0]",
                false,
            ),
            ("[\"0.12345678901234567890123\", true, null]", false),
        ] {
            assert_eq!(
                has_number_beyond_64_bits(json.as_bytes()),
                rounded,
                "{json}"
            );
            assert!(!has_whole_number_beyond_64_bits(json.as_bytes()), "{json}");
        }
        for (json, beyond) in [
            (
                "{\"a\":18446744073709551615,\"b\":-9223372036854775808}",
                false,
            ),
            ("{\"a\": 18446744073709551616}", true),
            ("[-9223372036854775809]", true),
            ("[1e30, 1E+30]", false),
            ("[-0]", true),
            (
                "{\"99999999999999999999\":\"\\\"99999999999999999999\"}",
                false,
            ),
            ("99999999999999999999", true),
        ] {
            assert_eq!(has_number_beyond_64_bits(json.as_bytes()), beyond, "{json}");
            let whole = has_whole_number_beyond_64_bits(json.as_bytes());
            assert_eq!(whole, beyond, "{json}");
        }
    }
}
