//! Compares how two `tokenizer.json` files split ordinary text.

use super::MASK_TEXT;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Keys that do not affect how text is split: what is put around tokens or truncated after them.
const AROUND: [&str; 3] = ["padding", "post_processor", "truncation"];

/// Returns whether everything that splits text is the same, and the added tokens that both have are
/// the same.
pub(super) fn alike(one: &str, two: &str) -> bool {
    match (parts(one), parts(two)) {
        (Some((one, added)), Some((two, more))) => {
            let shared = |(name, token): (&String, &Value)| {
                more.get(name).is_none_or(|other| other == token)
            };
            one == two && added.iter().all(shared)
        }
        _ => false,
    }
}

/// Returns everything that splits text except added tokens, and the added tokens by name, without
/// our mask.
fn parts(json: &str) -> Option<(Map<String, Value>, BTreeMap<String, Value>)> {
    let Ok(Value::Object(mut whole)) = serde_json::from_str(json) else {
        return None;
    };
    for key in AROUND {
        whole.remove(key);
    }
    let added = whole.remove("added_tokens")?;
    let named = |token: &Value| {
        let name = token.get("content")?.as_str()?;
        Some((name.to_owned(), token.clone()))
    };
    let mut added: BTreeMap<_, _> = added.as_array()?.iter().filter_map(named).collect();
    added.remove(MASK_TEXT);
    Some((whole, added))
}
