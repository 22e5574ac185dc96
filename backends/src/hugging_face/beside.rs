//! What a model's folder says beside its shape, its weights and its tokenizer: training carries it along.

use super::fields::read_small;
use crate::error::Result;
use serde_json::{Map, Value};
use std::path::Path;

/// Files that are carried along as they are.
const CARRIED: [&str; 4] = [
    GENERATION,
    SETTINGS,
    "special_tokens_map.json",
    "chat_template.jinja",
];
const GENERATION: &str = "generation_config.json";
const SETTINGS: &str = "tokenizer_config.json";
/// Keys of [`SETTINGS`] that frame a text otherwise than its `tokenizer.json` says.
const FRAMES: [&str; 2] = ["add_bos_token", "add_eos_token"];
/// Ids in `config.json` of which a shape knows one end of text, and no padding.
const IDS: [&str; 2] = ["eos_token_id", "pad_token_id"];

/// Settings of generation and of the tokenizer, the chat template, and ids of special tokens. Nothing is computed or
/// promised from them.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    files: Vec<(&'static str, Vec<u8>)>,
    ids: Map<String, Value>,
}

impl Beside {
    /// Of a folder; what it lacks is left out.
    ///
    /// # Errors
    /// A file that can't be read, or is no regular file.
    pub fn of(folder: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for name in CARRIED {
            let path = folder.join(name);
            if path.exists() {
                files.push((name, read_small(&path)?));
            }
        }
        let config: Value =
            serde_json::from_slice(&read_small(&folder.join("config.json"))?).unwrap_or_default();
        let id = |key: &str| Some((key.to_owned(), config.get(key)?.clone()));
        Ok(Self {
            files,
            ids: IDS.into_iter().filter_map(id).collect(),
        })
    }

    /// The files, by name. `framed`: the `tokenizer.json` beside them frames a text, and no setting may say otherwise.
    pub(crate) fn files(&self, framed: bool) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        self.files.iter().map(move |(name, bytes)| {
            let settings = (framed && *name == SETTINGS)
                .then(|| serde_json::from_slice::<Map<String, Value>>(bytes).ok())
                .flatten();
            let unframed = settings.map(|mut settings| {
                settings.retain(|key, _| !FRAMES.contains(&key.as_str()));
                Value::Object(settings).to_string().into_bytes()
            });
            (*name, unframed.unwrap_or_else(|| bytes.clone()))
        })
    }

    /// Puts the ids into a `config.json` that says less: several ends of text where the first is its own, and the padding
    /// where it has none. `tokens`: ids are below this.
    pub(crate) fn enter(&self, config: &mut Value, tokens: usize) {
        let known = |id: &Value| id.as_u64().is_some_and(|id| id < tokens as u64);
        for (key, said) in &self.ids {
            let fits = match said.as_array() {
                Some(ids) => ids.iter().all(known) && ids.first() == config.get(key.as_str()),
                None => known(said) && config.get(key.as_str()).is_some_and(Value::is_null),
            };
            if fits {
                config[key.as_str()] = said.clone();
            }
        }
    }
}
