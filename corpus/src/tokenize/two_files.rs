//! The tokenizer of a folder without `tokenizer.json`: a byte-level vocabulary in `vocab.json` and `merges.txt`, for text
//! that is split as GPT-2 and RoBERTa split it.

use super::ends::{Object, SETTINGS, object};
use super::read_text;
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The classes of transformers that split text in this way.
const CLASSES: [&str; 4] = [
    "GPT2Tokenizer",
    "GPT2TokenizerFast",
    "RobertaTokenizer",
    "RobertaTokenizerFast",
];
/// Types of models that have one of these classes where none is named.
const TYPES: [&str; 4] = ["gpt2", "gpt_neo", "opt", "roberta"];
/// Tokens that are special wherever they are in the vocabulary.
const SPECIAL: [&str; 6] = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"];
/// The file with added tokens of folders of the older layout.
const ADDED: &str = "added_tokens.json";

/// Returns the text of the `tokenizer.json` that says the same as the files of a folder.
///
/// # Errors
/// Returns an error, with the command that writes the file, for a folder without the two files, of another class of
/// tokenizers, or with added tokens whose ids don't follow those of the vocabulary.
pub(super) fn joined(folder: &Path) -> Result<String> {
    let refused = |why: String| refused(folder, &why);
    let files = ["vocab.json", "merges.txt"].map(|name| folder.join(name));
    if !files.iter().all(|file| file.exists()) {
        let why = "has neither tokenizer.json nor vocab.json with merges.txt";
        return Err(refused(why.to_owned()));
    }
    let settings = object(&folder.join(SETTINGS))?;
    let model = object(&folder.join("config.json"))?;
    if let Some(other) = another(&settings, &model) {
        return Err(refused(format!(
            "has no tokenizer.json, and {other} may split text in another way than GPT-2"
        )));
    }
    let [vocabulary, merges] = files.map(|path| read_text(&path));
    let vocabulary: Object = serde_json::from_str(&vocabulary?)
        .map_err(|error| Error::Tokenizer(format!("vocab.json: {error}")))?;
    let pairs = pairs(&merges?)?;
    let added = added(folder, &settings, &vocabulary)?;
    let added = placed(added, &vocabulary).map_err(refused)?;
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": flag(settings.get("add_prefix_space")),
        "trim_offsets": true, "use_regex": true});
    let whole = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary, "merges": pairs}
    });
    Ok(whole.to_string())
}

/// Returns the error for a folder, with the command that writes its `tokenizer.json`.
pub(super) fn refused(folder: &Path, why: &str) -> Error {
    let here = folder.as_os_str().is_empty();
    let folder = if here { Path::new(".") } else { folder };
    Error::Tokenizer(format!(
        "{} {why}; write tokenizer.json with: python -c \"import transformers as t; \
         t.AutoTokenizer.from_pretrained('{0}').save_pretrained('{0}')\"",
        folder.display()
    ))
}

/// Returns the class of tokenizers that the files name, or the type of model if they name none, unless it is one of
/// those that split text as GPT-2.
fn another(settings: &Object, model: &Object) -> Option<String> {
    let named = |file: &Object| {
        let class = file.get("tokenizer_class");
        class.filter(|class| !class.is_null()).cloned()
    };
    let (key, said, known) = match named(settings).or_else(|| named(model)) {
        Some(class) => ("tokenizer_class", class, CLASSES),
        None => ("model_type", model.get("model_type")?.clone(), TYPES),
    };
    let fits = said.as_str().is_some_and(|said| known.contains(&said));
    let shown: String = said.to_string().chars().take(60).collect();
    (!fits).then(|| format!("{key} {shown}"))
}

/// Reads merges in order of precedence, two symbols per line, after an optional `#version` line.
fn pairs(merges: &str) -> Result<Vec<Value>> {
    let mut pairs = Vec::new();
    for (number, line) in merges.lines().enumerate() {
        if line.is_empty() || (number == 0 && line.starts_with("#version")) {
            continue;
        }
        let pair: Vec<&str> = line.split(' ').collect();
        if pair.len() != 2 {
            let line_number = number + 1;
            return Err(Error::Tokenizer(format!(
                "merges.txt, line {line_number}: two symbols expected"
            )));
        }
        pairs.push(json!(pair));
    }
    Ok(pairs)
}

/// Returns the added tokens with their ids and settings, as transformers reads them: those of `tokenizer_config.json`,
/// or of `added_tokens.json` in the older layout; and the special ones of the vocabulary.
fn added(
    folder: &Path,
    settings: &Object,
    vocabulary: &Object,
) -> Result<BTreeMap<String, (u64, Value)>> {
    let wrong = |file: &str, id: &str| {
        Error::Tokenizer(format!(
            "{file}: an added token needs a text and a whole number as its id, got the id {id}"
        ))
    };
    let of_vocabulary = SPECIAL.iter().filter_map(|name| {
        let id = vocabulary.get(*name)?.as_u64()?;
        Some(((*name).to_owned(), (id, json!({"special": true}))))
    });
    let mut tokens: BTreeMap<String, (u64, Value)> = of_vocabulary.collect();
    if let Some(listed) = settings.get("added_tokens_decoder") {
        for (id, token) in listed.as_object().into_iter().flatten() {
            let text = token.get("content").and_then(Value::as_str);
            let (Some(text), Ok(number)) = (text, id.parse::<u64>()) else {
                return Err(wrong(SETTINGS, id));
            };
            tokens.insert(text.to_owned(), (number, token.clone()));
        }
    } else {
        for (text, id) in object(&folder.join(ADDED))? {
            let number = id.as_u64().ok_or_else(|| wrong(ADDED, &id.to_string()))?;
            let token = tokens.entry(text).or_insert((number, Value::Null));
            token.0 = number;
        }
    }
    Ok(tokens)
}

/// Returns added tokens as a `tokenizer.json` lists them. The `tokenizers` crate gives those that are not in the
/// vocabulary the ids that follow it, in their order, so they must have these.
fn placed(
    tokens: BTreeMap<String, (u64, Value)>,
    vocabulary: &Object,
) -> std::result::Result<Vec<Value>, String> {
    let mut tokens: Vec<_> = tokens.into_iter().collect();
    tokens.sort_by_key(|(_, (id, _))| *id);
    let mut next = vocabulary.len() as u64;
    let mut list = Vec::with_capacity(tokens.len());
    for (text, (id, settings)) in tokens {
        let expected = match vocabulary.get(&text) {
            Some(id) => id.as_u64(),
            None => {
                next += 1;
                Some(next - 1)
            }
        };
        if expected != Some(id) || text.is_empty() {
            let shown: String = text.chars().take(60).collect();
            return Err(format!(
                "has no tokenizer.json, and the added token {shown:?} has the id {id}, which neither is its own in \
                 vocab.json nor follows those before it"
            ));
        }
        let flag = |key: &str| flag(settings.get(key));
        list.push(
            json!({"id": id, "content": text, "single_word": flag("single_word"), "lstrip": flag("lstrip"),
            "rstrip": flag("rstrip"), "normalized": flag("normalized"), "special": flag("special")}),
        );
    }
    Ok(list)
}

/// Returns a switch, which is off where it is absent.
fn flag(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or(false)
}
