//! Beginning and end of text as the files beside a `tokenizer.json` name them.

use super::read_text;
use crate::error::{Error, Result, json_problem};
use crate::record::TokenId;
use serde_json::Value;
use std::path::Path;
use tokenizers::Tokenizer as Engine;

/// Where a token was named.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Text(String),
    Id(u64),
}

/// What the files name, best first: the tokenizer's own names, then the ids of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends {
    bos: Vec<Named>,
    eos: Vec<Named>,
    /// Whether transformers puts them around a text, where that is said otherwise than by the tokenizer's own rules.
    pub(super) around: Option<[bool; 2]>,
}

impl Ends {
    /// Two tokens by their ids, such as a `config.json` of ours has.
    pub(super) fn of([bos, eos]: [TokenId; 2]) -> Self {
        let id = |id: TokenId| vec![Named::Id(id.into())];
        Self {
            bos: id(bos),
            eos: id(eos),
            around: None,
        }
    }

    /// What the files of a folder say, in transformers' order: `tokenizer_config.json`, before which
    /// `special_tokens_map.json` goes where the first lists no added tokens (files of the older
    /// layout); then what generation would take, `generation_config.json` before `config.json`.
    ///
    /// # Errors
    /// A file that is there and is no JSON object.
    pub(super) fn beside(folder: &Path) -> Result<Self> {
        let settings = object(&folder.join("tokenizer_config.json"))?;
        let older = !settings.contains_key("added_tokens_decoder");
        let map = match older {
            true => object(&folder.join("special_tokens_map.json"))?,
            false => serde_json::Map::new(),
        };
        let generation = object(&folder.join("generation_config.json"))?;
        let model = object(&folder.join("config.json"))?;
        let named = |key: &str| {
            let names = [&map, &settings].map(|file| file.get(key).and_then(text));
            let id = format!("{key}_id");
            let ids = [&generation, &model].map(|file| file.get(&id).and_then(first_id));
            let names = names.into_iter().flatten().map(Named::Text);
            names
                .chain(ids.into_iter().flatten().map(Named::Id))
                .collect()
        };
        let around = ["add_bos_token", "add_eos_token"].map(|key| settings.get(key));
        let said = around.iter().any(Option::is_some);
        let around = around.map(|flag| flag.and_then(Value::as_bool).unwrap_or(false));
        Ok(Self {
            bos: named("bos_token"),
            eos: named("eos_token"),
            around: said.then_some(around),
        })
    }

    pub(super) fn bos(&self, engine: &Engine) -> Option<String> {
        known(&self.bos, engine)
    }

    pub(super) fn eos(&self, engine: &Engine) -> Option<String> {
        known(&self.eos, engine)
    }
}

/// The first that the vocabulary has.
fn known(named: &[Named], engine: &Engine) -> Option<String> {
    named.iter().find_map(|named| match named {
        Named::Text(text) => engine.token_to_id(text).map(|_| text.clone()),
        Named::Id(id) => engine.id_to_token(u32::try_from(*id).ok()?),
    })
}

/// A token as text, or as the object of an added token.
fn text(value: &Value) -> Option<String> {
    let content = value.get("content").unwrap_or(value);
    content.as_str().map(str::to_owned)
}

/// An id, or the first of several.
fn first_id(value: &Value) -> Option<u64> {
    let first = value.as_array().map_or(Some(value), |ids| ids.first());
    first.and_then(Value::as_u64)
}

/// An object from a file; empty where there is none.
fn object(path: &Path) -> Result<serde_json::Map<String, Value>> {
    if !path.exists() {
        return Ok(serde_json::Map::new());
    }
    let json = read_text(path).map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let wrong = |problem: String| Error::Tokenizer(format!("{}: {problem}", path.display()));
    match serde_json::from_str(&json) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(wrong("no JSON object".into())),
        Err(error) => Err(wrong(json_problem(&error))),
    }
}
