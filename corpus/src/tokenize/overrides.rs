//! Settings of `tokenizer_config.json` by which classes of transformers split a text in another way than the
//! `tokenizer.json` beside it says.

use super::ends::{Object, SETTINGS, object};
use super::two_files::refused;
use crate::error::Result;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;

/// The class that takes everything from `tokenizer.json`.
const FAITHFUL: &str = "TokenizersBackend";
/// The classes that take the normaliser from there.
const KEEPS_NORMALIZER: [&str; 2] = [FAITHFUL, "PreTrainedTokenizerFast"];

/// The parts of a `tokenizer.json` that settings may contradict.
#[derive(Deserialize)]
struct Splitting {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Added {
    content: String,
}

/// Compares the settings of a folder with the text of its `tokenizer.json`, here a file of this name.
///
/// # Errors
/// Returns an error, with the command that writes the file again, for a setting that is present and says otherwise, unless
/// the named class of tokenizers ignores it; and if the settings are no JSON object.
pub(crate) fn check_settings(folder: &Path, name: &str, json: &str) -> Result<()> {
    let settings = object(&folder.join(SETTINGS))?;
    if settings.is_empty() {
        return Ok(());
    }
    // What has other parts is refused where it is loaded.
    let Ok(file) = serde_json::from_str::<Splitting>(json) else {
        return Ok(());
    };
    match disagreement(&settings, &file) {
        Some((what, said, own)) => Err(refused(
            folder,
            &format!(
                "has {what} {said} in {SETTINGS} and {own} in {name}, and which the model was trained with can't be \
                 known"
            ),
        )),
        None => Ok(()),
    }
}

/// Returns the first setting that the file contradicts, with the values of both.
fn disagreement(settings: &Object, file: &Splitting) -> Option<(String, String, String)> {
    let class = settings.get("tokenizer_class").and_then(Value::as_str);
    if class == Some(FAITHFUL) {
        return None;
    }
    let flag = |key: &str| settings.get(key).and_then(Value::as_bool);
    let other = |key: &str, said: Option<bool>, own: Option<bool>| {
        let (said, own) = (said?, own?);
        (said != own).then(|| (key.to_owned(), said.to_string(), own.to_string()))
    };
    // Transformers rewrites these parts only where they stand by themselves, not within a sequence.
    let of = |part: &Value, kind: &str, key: &str| {
        let is = part.get("type").and_then(Value::as_str) == Some(kind);
        part.get(key).filter(|_| is).and_then(Value::as_bool)
    };
    let key = "add_prefix_space";
    let spaced = of(&file.pre_tokenizer, "ByteLevel", key);
    if let found @ Some(_) = other(key, flag(key), spaced) {
        return found;
    }
    if class.is_none_or(|class| !KEEPS_NORMALIZER.contains(&class)) {
        let own = |key: &str| of(&file.normalizer, "BertNormalizer", key);
        let lower = own("lowercase");
        // Accents that are not mentioned go with capitals.
        let (strips, stripped) = (flag("strip_accents"), own("strip_accents").or(lower));
        for (key, said, own) in [
            ("do_lower_case", flag("do_lower_case"), lower),
            ("strip_accents", strips, stripped),
            (
                "tokenize_chinese_chars",
                flag("tokenize_chinese_chars"),
                own("handle_chinese_chars"),
            ),
        ] {
            if let found @ Some(_) = other(key, said, own) {
                return found;
            }
        }
    }
    let listed = settings.get("added_tokens_decoder")?.as_object()?;
    let known: HashSet<&str> = file
        .added_tokens
        .iter()
        .map(|token| token.content.as_str())
        .collect();
    let content = |token: &Value| token.get("content")?.as_str().map(str::to_owned);
    let lacking = listed
        .values()
        .filter_map(content)
        .find(|text| !known.contains(text.as_str()))?;
    let shown: String = lacking.chars().take(60).collect();
    Some((
        format!("the added token {shown:?}"),
        "listed".into(),
        "not".into(),
    ))
}
