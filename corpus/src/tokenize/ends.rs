//! The beginning and end of text as named by the files beside a `tokenizer.json`.

use super::read_text;
use crate::error::{Error, Result, json_problem};
use crate::record::TokenId;
use serde_json::Value;
use std::path::Path;
use tokenizers::Tokenizer as Engine;

pub(super) type Object = serde_json::Map<String, Value>;

/// The file with the names of the tokenizer's own tokens.
pub(super) const SETTINGS: &str = "tokenizer_config.json";

/// A token, identified by name or by id.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Text(String),
    Id(u64),
}

/// The tokens that the files name, in order of precedence: the tokenizer's own names, then the ids of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends {
    bos: Vec<Named>,
    eos: Vec<Named>,
    /// Whether transformers puts them around a text, if something other than the tokenizer's own rules says so.
    pub(super) around: Option<[bool; 2]>,
}

impl Ends {
    /// Creates the ends from two ids, such as those in our own `config.json`.
    pub(super) fn of([bos, eos]: [TokenId; 2]) -> Self {
        let id = |id: TokenId| vec![Named::Id(id.into())];
        Self {
            bos: id(bos),
            eos: id(eos),
            around: None,
        }
    }

    /// Reads the files of a folder, in transformers' order: `tokenizer_config.json`, preceded by
    /// `special_tokens_map.json` if the former lists no added tokens (files of the older layout); then what generation
    /// would use, `generation_config.json` before `config.json`.
    ///
    /// # Errors
    /// Returns an error if a file exists but is not a JSON object.
    pub(super) fn beside(folder: &Path) -> Result<Self> {
        let settings = object(&folder.join(SETTINGS))?;
        let older = !settings.contains_key("added_tokens_decoder");
        let map = match older {
            true => object(&folder.join("special_tokens_map.json"))?,
            false => Object::new(),
        };
        let generation = object(&folder.join("generation_config.json"))?;
        let model = object(&folder.join("config.json"))?;
        Ok(Self::of_objects(&settings, &map, [&generation, &model]))
    }

    /// Reads the text of a `tokenizer_config.json` alone.
    ///
    /// # Errors
    /// Returns an error if it is not a JSON object.
    pub(super) fn of_settings(json: &str) -> Result<Self> {
        let settings = parsed(Path::new(SETTINGS), json)?;
        let none = Object::new();
        Ok(Self::of_objects(&settings, &none, [&none; 2]))
    }

    fn of_objects(settings: &Object, map: &Object, models: [&Object; 2]) -> Self {
        let named = |key: &str| {
            let names = [map, settings].map(|file| file.get(key).and_then(text));
            let id = format!("{key}_id");
            let ids = models.map(|file| file.get(&id).and_then(first_id));
            let names = names.into_iter().flatten().map(Named::Text);
            names
                .chain(ids.into_iter().flatten().map(Named::Id))
                .collect()
        };
        let around = ["add_bos_token", "add_eos_token"].map(|key| settings.get(key));
        let said = around.iter().any(Option::is_some);
        let around = around.map(|flag| flag.and_then(Value::as_bool).unwrap_or(false));
        Self {
            bos: named("bos_token"),
            eos: named("eos_token"),
            around: said.then_some(around),
        }
    }

    pub(super) fn bos(&self, engine: &Engine) -> Option<String> {
        known(&self.bos, engine)
    }

    pub(super) fn eos(&self, engine: &Engine) -> Option<String> {
        known(&self.eos, engine)
    }
}

/// Returns the first of the tokens that the vocabulary contains.
fn known(named: &[Named], engine: &Engine) -> Option<String> {
    named.iter().find_map(|named| match named {
        Named::Text(text) => engine.token_to_id(text).map(|_| text.clone()),
        Named::Id(id) => engine.id_to_token(u32::try_from(*id).ok()?),
    })
}

/// Returns the text of a token that is given as text or as the object of an added token.
fn text(value: &Value) -> Option<String> {
    let content = value.get("content").unwrap_or(value);
    content.as_str().map(str::to_owned)
}

/// Returns an id, or the first of several.
fn first_id(value: &Value) -> Option<u64> {
    let first = value.as_array().map_or(Some(value), |ids| ids.first());
    first.and_then(Value::as_u64)
}

/// Reads an object from a file; empty if the file does not exist.
pub(super) fn object(path: &Path) -> Result<Object> {
    if !path.exists() {
        return Ok(Object::new());
    }
    parsed(path, &read_text(path)?)
}

fn parsed(path: &Path, json: &str) -> Result<Object> {
    let wrong = |problem: String| Error::Tokenizer(format!("{}: {problem}", path.display()));
    match serde_json::from_str(json) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(wrong("no JSON object".into())),
        Err(error) => Err(wrong(json_problem(&error))),
    }
}
