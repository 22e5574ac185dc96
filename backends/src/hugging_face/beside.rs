//! The settings of a model's folder besides its architecture, weights and tokenizer, which training carries along.

use super::adapter::named_base;
use super::fields::read_small;
use crate::checkpoint::Kind;
use crate::error::Result;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::path::Path;

/// Files that are copied unchanged.
const CARRIED: [&str; 4] = [
    GENERATION,
    SETTINGS,
    "special_tokens_map.json",
    "chat_template.jinja",
];
const GENERATION: &str = "generation_config.json";
const SETTINGS: &str = "tokenizer_config.json";
/// Keys of [`SETTINGS`] that frame a text in another way than its `tokenizer.json`.
const FRAMES: [&str; 2] = ["add_bos_token", "add_eos_token"];
/// Ids in `config.json`. An architecture knows only one end of text, and no padding.
const IDS: [&str; 2] = ["eos_token_id", "pad_token_id"];

/// Settings of generation and of the tokenizer, the chat template, and ids of special tokens. No computation and no
/// guarantee depends on them.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    files: Vec<(&'static str, Vec<u8>)>,
    ids: Map<String, Value>,
}

impl Beside {
    /// Reads the settings of a model's folder, or of the base that an adapter's folder names. Missing files are left
    /// out.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or is not a regular file, if an adapter's base does not exist, or for a
    /// folder with both a model and an adapter.
    pub fn of(folder: &Path) -> Result<Self> {
        let folder = match Kind::of(folder)? {
            Kind::Model => Cow::Borrowed(folder),
            Kind::Adapter => Cow::Owned(named_base(folder)?),
        };
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

    /// Returns the files by name. `framed`: the `tokenizer.json` beside them frames a text, and no setting may
    /// contradict it.
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

    /// Adds ids to a `config.json` that says less: several ends of text if the first is the one that it has, and the
    /// padding if it has none. Only ids below `tokens` are added.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(config: &Value, settings: &str) -> Beside {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
        write("config.json", &config.to_string());
        write(SETTINGS, settings);
        write("model.safetensors", "weights are not carried along");
        Beside::of(home.path()).unwrap()
    }

    #[test]
    fn settings_are_carried_as_they_are_but_for_what_frames_a_text() {
        let settings = r#"{ "add_bos_token": false, "pad_token": "<pad>" }"#;
        let beside = of(&json!({}), settings);
        let files = |framed| beside.files(framed).collect::<Vec<_>>();
        assert_eq!(files(false), [(SETTINGS, settings.as_bytes().to_vec())]);
        let framed = br#"{"pad_token":"<pad>"}"#.to_vec();
        assert_eq!(files(true), [(SETTINGS, framed)]);
    }

    #[test]
    fn ids_that_fit_are_put_where_less_is_said() {
        let said = |theirs: Value, ours: Value| {
            let mut config = ours;
            of(&theirs, "{}").enter(&mut config, 10);
            config
        };
        let ours = json!({"eos_token_id": 2, "pad_token_id": null});
        let theirs = json!({"eos_token_id": [2, 5], "pad_token_id": 0});
        assert_eq!(said(theirs.clone(), ours.clone()), theirs);
        // Another end, an id beyond the vocabulary, a padding that is known.
        for other in [
            json!({"eos_token_id": [5, 2]}),
            json!({"eos_token_id": [2, 10], "pad_token_id": 10}),
            json!({"eos_token_id": 5}),
        ] {
            assert_eq!(said(other, ours.clone()), ours);
        }
        let padded = json!({"eos_token_id": 2, "pad_token_id": 7});
        assert_eq!(said(json!({"pad_token_id": 0}), padded.clone()), padded);
        let none = json!({"eos_token_id": 2});
        assert_eq!(said(theirs, none)["eos_token_id"], json!([2, 5]));
    }
}
