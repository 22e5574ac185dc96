//! A field of metadata: one value or a list of them.

use serde_json::{Map, Value};

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
