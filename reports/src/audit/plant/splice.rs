//! Changes some values in a line of JSON without changing anything else.

use anyhow::{Result, bail};
use reticent_corpus::read::whole_object;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::ops::Range;

/// Returns the line with the values that differ between `old` and `new` replaced; all other bytes stay.
///
/// # Errors
/// Returns an error if a list or an object differs in more than its values.
pub(super) fn spliced(
    line: &str,
    old: Map<String, Value>,
    new: Map<String, Value>,
) -> Result<String> {
    let start = line.len() - line.trim_start().len();
    let mut edits = Vec::new();
    let whole = start..line.trim_end().len();
    differences(line, whole, &old.into(), &new.into(), &mut edits)?;
    let mut out = String::with_capacity(line.len());
    let mut from = 0;
    for (place, value) in edits {
        out.push_str(&line[from..place.start]);
        out.push_str(&value);
        from = place.end;
    }
    out.push_str(&line[from..]);
    Ok(out)
}

/// Collects the replacements and their ranges, in order.
fn differences(
    json: &str,
    place: Range<usize>,
    old: &Value,
    new: &Value,
    edits: &mut Vec<(Range<usize>, String)>,
) -> Result<()> {
    let pairs: Vec<(&Value, Option<&Value>)> = match (old, new) {
        _ if old == new => return Ok(()),
        (Value::Object(old), Value::Object(new)) if old.len() == new.len() => {
            let pairs = old.iter().map(|(key, value)| (value, new.get(key)));
            pairs.collect()
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new.iter().map(Some)).collect()
        }
        (Value::Object(_) | Value::Array(_), _) => vec![(old, None)],
        _ => {
            edits.push((place, serde_json::to_string(new)?));
            return Ok(());
        }
    };
    if pairs.iter().any(|(_, new)| new.is_none()) {
        bail!(
            "its marks (secrets, masked) have other keys than start, end and kind, which would be lost"
        );
    }
    for (place, (old, new)) in inside(json, place)?.into_iter().zip(pairs) {
        if let Some(new) = new {
            differences(json, place, old, new, edits)?;
        }
    }
    Ok(())
}

/// Returns the ranges of the values of an object or a list.
fn inside(json: &str, whole: Range<usize>) -> Result<Vec<Range<usize>>> {
    let is_object = json[whole.clone()].starts_with('{');
    // Skips what may precede a value.
    let behind = |at: usize| {
        let rest = json[at..whole.end]
            .trim_start_matches(|c: char| c.is_ascii_whitespace() || ",:".contains(c));
        whole.end - rest.len()
    };
    let mut out = Vec::new();
    let mut at = behind(whole.start + 1);
    while at + 1 < whole.end {
        if is_object {
            at = behind(end_of_value(json, at)?);
        }
        let end = end_of_value(json, at)?;
        out.push(at..end);
        at = behind(end);
    }
    Ok(out)
}

/// Returns a line of JSON with `null` for each value of its object that is JSON but that no parser holds, such as a number
/// beyond the largest double or half of a surrogate pair.
///
/// # Errors
/// Returns an error if the line is not JSON.
pub(super) fn held(line: &str) -> Result<String> {
    let start = line.len() - line.trim_start().len();
    let whole = start..line.trim_end().len();
    let mut out = String::with_capacity(line.len());
    let mut from = 0;
    for place in inside(line, whole)? {
        let alone = format!("{{\"value\":{}}}", &line[place.clone()]);
        if whole_object(alone.as_bytes()).is_err_and(|error| error.is_syntax()) {
            out.push_str(&line[from..place.start]);
            out.push_str("null");
            from = place.end;
        }
    }
    out.push_str(&line[from..]);
    Ok(out)
}

fn end_of_value(json: &str, at: usize) -> Result<usize> {
    let mut values = serde_json::Deserializer::from_str(&json[at..]).into_iter::<IgnoredAny>();
    values.next().transpose()?;
    Ok(at + values.byte_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_does_not_differ_stays_byte_for_byte() {
        let line = " { \"a\\/\" : [1.50, 0.1234567890123456789012,1e400, {\"x\":\"\\u00e9\", \"y\" :\"t\"} ],\"s\":[{\"kind\":\"k\",\"end\": 5 ,\"start\":3}] , \"b\":\"}\" }\r\n";
        let plain = line.replace("1e400", "1");
        let mut new = object(&plain);
        new["a/"][3]["y"] = "t\nu".into();
        new["s"] = serde_json::json!([{"start": 3, "end": 77, "kind": "k"}]);
        let made = spliced(line, object(&plain), new).unwrap();
        assert_eq!(
            made,
            line.replace("\"t\"", "\"t\\nu\"").replace("5 ,", "77 ,")
        );
        let mut new = object(&plain);
        new["s"] = serde_json::json!([{"start": 3, "end": 77}]);
        let error = spliced(line, object(&plain), new).unwrap_err();
        assert!(error.to_string().contains("other keys"), "{error}");
    }
}
