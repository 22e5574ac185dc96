//! Limits what the rules of a `tokenizer.json` make of a text, before anything is built from them.

use serde_json::Value;

/// The most bytes that rules may make of one byte of text, counted as if every rule applied to what the rules before it made.
/// The rules of SentencePiece make up to 33 of one character, and `▁` of a space.
const MOST: f64 = 256.0;

/// Checks rules, which may be sequences of rules.
///
/// # Errors
/// What is wrong: a text that could grow by a factor above [`MOST`], or a table that is said to be longer than it is, for which
/// the library reserves memory.
pub(super) fn check(rules: &Value) -> Result<(), String> {
    let growth = growth(rules)?;
    if growth > MOST {
        return Err(format!(
            "its rules could make {growth:.0} bytes of one byte of text; at most {MOST} are allowed"
        ));
    }
    Ok(())
}

fn growth(rules: &Value) -> Result<f64, String> {
    let length = |text: &Value| text.as_str().map_or(0, str::len) as f64;
    let mut product = 1.0;
    for list in ["normalizers", "pretokenizers", "decoders"] {
        for rule in rules[list].as_array().into_iter().flatten() {
            product *= growth(rule)?;
        }
    }
    Ok(match rules["type"].as_str() {
        Some("Replace") => match &rules["pattern"]["String"] {
            Value::String(found) if !found.is_empty() => {
                (length(&rules["content"]) / found.len() as f64).max(1.0)
            }
            // It may match nothing, and the text stays.
            _ => 1.0 + length(&rules["content"]),
        },
        // Once for each stretch of text between added tokens.
        Some("Prepend") => 1.0 + length(&rules["prepend"]),
        Some("Precompiled") => longest(rules["precompiled_charsmap"].as_str())?.max(1) as f64,
        _ => product,
    })
}

/// Returns the length of the longest replacement in a table of SentencePiece: the length of its index in bytes, its index,
/// and the replacements, each with a zero behind it.
fn longest(table: Option<&str>) -> Result<usize, String> {
    let bytes = base64::decode(table.unwrap_or_default())
        .map_err(|_| "normalizer.precompiled_charsmap is not Base64".to_owned())?;
    let (length, rest) = bytes.split_at_checked(4).unwrap_or_default();
    let length = length.try_into().map_or(0, u32::from_le_bytes);
    let texts = usize::try_from(length).ok();
    let texts = texts.and_then(|length| rest.get(length..)).ok_or_else(|| {
        format!(
            "normalizer.precompiled_charsmap has {} bytes, and says that its index has {length}",
            bytes.len()
        )
    })?;
    let each = texts.split(|byte| *byte == 0).map(<[u8]>::len);
    Ok(each.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn growth_multiplies_along_a_sequence() {
        let replace = |content: &str| json!({"type": "Replace", "pattern": {"String": "a"}, "content": content});
        let list = |rules: &[Value]| json!({"type": "Sequence", "normalizers": rules});
        assert!(check(&Value::Null).is_ok());
        assert!(check(&list(&[replace(&"a".repeat(16)), replace(&"a".repeat(16))])).is_ok());
        let said = check(&list(&[
            replace(&"a".repeat(40)),
            list(&[replace(&"a".repeat(40))]),
        ]));
        assert!(said.unwrap_err().contains("1600 bytes of one byte"));
        let regex =
            json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "a".repeat(256)});
        assert!(check(&json!({"type": "Sequence", "decoders": [regex]})).is_err());
        let prepend = json!({"type": "Prepend", "prepend": "a".repeat(256)});
        assert!(check(&prepend).is_err());
    }

    #[test]
    fn tables_have_the_length_that_they_say() {
        let table = |text: &str| json!({"type": "Precompiled", "precompiled_charsmap": text});
        // An index of four bytes, then "ab" and "abc".
        assert_eq!(longest(Some("BAAAAAAAAABhYgBhYmMA")), Ok(3));
        assert!(check(&table("BAAAAAAAAABhYgBhYmMA")).is_ok());
        let said = check(&table("/////wAAAAA=")).unwrap_err();
        assert!(said.contains("its index"), "{said}");
        for bad in ["BAAA\u{e4}AAA", "BAAAAAAAAABhYgBhYmMA=", "BAAA AAAA"] {
            let said = check(&table(bad)).unwrap_err();
            assert!(said.ends_with("is not Base64"), "{said}");
        }
        // The library refuses one without a length itself.
        assert!(check(&table("AA")).is_ok());
        let long = format!("AAAAAGFh{}", "YWFh".repeat(100));
        assert!(check(&table(&long)).is_err());
    }
}
